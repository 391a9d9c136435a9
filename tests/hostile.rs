//! What somebody else may have put under refs/loops/: giants, trees that git would not write, refs that are none.

use std::fs;

use crate::support::{TestEnv, tool};
use crate::verify::{converged, refused};

/// Puts a loose object in place that says of itself to have two gigabytes. Its content would follow in an honest bomb;
/// here nothing does, for nobody may look.
fn giant(env: &TestEnv, digit: char, kind: &str) -> String {
    let id = digit.to_string().repeat(40);
    let data = format!("{kind} {}\0and so on", 2u64 << 30);
    let folder = env.repo().join(".git/objects").join(&id[..2]);
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join(&id[2..]), stored(data.as_bytes())).unwrap();
    id
}

/// A zlib stream of one stored block.
fn stored(data: &[u8]) -> Vec<u8> {
    let (mut a, mut b) = (1u32, 0u32);
    for byte in data {
        a = (a + u32::from(*byte)) % 65521;
        b = (b + a) % 65521;
    }
    let length = u16::try_from(data.len()).unwrap();
    let mut stream = vec![0x78, 0x01, 1];
    stream.extend(length.to_le_bytes());
    stream.extend((!length).to_le_bytes());
    stream.extend_from_slice(data);
    stream.extend((b << 16 | a).to_be_bytes());
    stream
}

/// Writes a tree from raw bytes, however malformed.
fn raw_tree(env: &TestEnv, bytes: &[u8]) -> String {
    let file = env.root().join("tree");
    fs::write(&file, bytes).unwrap();
    env.git(&["hash-object", "-w", "-t", "tree", "--literally", file.to_str().unwrap()])
}

/// The bytes of a tree object.
fn tree_bytes(env: &TestEnv, tree: &str) -> Vec<u8> {
    env.command("git", env.repo()).args(["cat-file", "tree", tree]).output().unwrap().stdout
}

/// Signs a commit like `like` with another tree, as the runner.
fn with_tree(env: &TestEnv, like: &str, tree: &str) -> String {
    let date = env.git(&["log", "-1", "--format=%at +0000", like]);
    let message = env.root().join("message");
    fs::write(&message, env.git(&["log", "-1", "--format=%B", like]) + "\n").unwrap();
    let mut command = env.command("git", env.repo());
    command.env("GIT_AUTHOR_DATE", &date).env("GIT_COMMITTER_DATE", &date);
    command.args(["-c", "gpg.format=ssh", "commit-tree", "-S", "-F", message.to_str().unwrap()]);
    for parent in env.git(&["log", "-1", "--format=%P", like]).split_whitespace() {
        command.args(["-p", parent]);
    }
    let output = env.run_command(command.arg(tree)).expect_code(0);
    output.stdout.trim().to_owned()
}

/// The tree of `like` with one entry naming another object.
fn with_entry(env: &TestEnv, like: &str, name: &str, id: &str) -> String {
    let mut list = String::new();
    for line in env.git(&["ls-tree", like]).lines() {
        let (meta, path) = line.split_once('\t').unwrap();
        let (head, old) = meta.rsplit_once(' ').unwrap();
        let id = if path == name { id } else { old };
        list.push_str(&format!("{head} {id}\t{path}\n"));
    }
    let file = env.root().join("list");
    fs::write(&file, list).unwrap();
    let mut command = env.command("git", env.repo());
    command.args(["mktree", "--missing"]).stdin(fs::File::open(&file).unwrap());
    env.run_command(&mut command).expect_code(0).stdout.trim().to_owned()
}

#[test]
fn giants_are_refused_by_the_size_in_their_header() {
    if !tool("ssh-keygen") {
        return;
    }
    let env = TestEnv::new();
    let records = converged(&env);
    let (halt, iteration) = (&records[8], &records[7]);
    let size = (2u64 << 30).to_string();
    let blob = giant(&env, '1', "blob");
    for name in ["record.json", ".loop_state.json", "STATUS.md", "contract.json"] {
        let forged = with_tree(&env, halt, &with_entry(&env, halt, name, &blob));
        let expected = match name {
            // It is the same blob in every record, and is read once.
            "contract.json" => format!("contract.json` is {blob}"),
            _ => format!("{name} {blob} has {size} bytes"),
        };
        refused(&env, name, &forged, &expected);
    }
    let contract = with_tree(&env, &records[0], &with_entry(&env, &records[0], "contract.json", &blob));
    refused(&env, "the first contract.json", &contract, &format!("contract.json {blob} has {size} bytes"));

    let evidence = with_entry(&env, &format!("{iteration}:evidence"), "report", &blob);
    let forged = with_tree(&env, iteration, &with_entry(&env, iteration, "evidence", &evidence));
    refused(&env, "a report that is not named", &forged, "evidence");

    let tree = giant(&env, '2', "tree");
    let forged = with_tree(&env, halt, &with_entry(&env, iteration, "evidence", &tree));
    refused(&env, "evidence", &forged, &format!("the tree {tree} has {size} bytes"));
    let file = env.root().join("commit");
    let raw = env.git(&["cat-file", "commit", halt]);
    let root = env.git(&["rev-parse", &format!("{halt}^{{tree}}")]);
    fs::write(&file, raw.replace(&root, &tree) + "\n").unwrap();
    let path = file.to_str().unwrap();
    let forged = env.git(&["hash-object", "-w", "-t", "commit", "--literally", path]);
    refused(&env, "the root tree", &forged, &format!("the tree {tree} has {size} bytes"));

    let commit = giant(&env, '3', "commit");
    fs::write(env.repo().join(".git/refs/loops/fix/ledger"), format!("{commit}\n")).unwrap();
    let output = env.git_loop(&["verify", "fix"]).expect_code(20);
    assert!(output.stdout.contains(&format!("the commit {commit} has {size} bytes")), "{output:?}");
    // Every other command that reads it says so, too, and the gate refuses what it cannot judge.
    for command in ["status", "log", "show"] {
        env.git_loop(&[command, "fix"]).expect_code(20).expect_stderr(&commit);
    }
    let list = env.git_loop(&["list"]).expect_code(20);
    assert!(list.stdout.contains(&commit), "{list:?}");
    env.git_loop(&["gate", "HEAD~0..HEAD"]).expect_code(1).expect_stderr(&commit);
}

#[test]
fn a_report_larger_than_any_check_may_write_is_refused() {
    if !tool("ssh-keygen") {
        return;
    }
    let env = TestEnv::new();
    let records = converged(&env);
    let iteration = &records[7];
    let blob = giant(&env, '1', "blob");
    let old = env.git(&["rev-parse", &format!("{iteration}:evidence/report")]);
    let file = env.root().join("record.json");
    fs::write(
        &file,
        env.git(&["cat-file", "blob", &format!("{iteration}:record.json")]).replace(&old, &blob) + "\n",
    )
    .unwrap();
    let record = env.git(&["hash-object", "-w", file.to_str().unwrap()]);
    let evidence = with_entry(&env, &format!("{iteration}:evidence"), "report", &blob);
    let tree = with_entry(&env, iteration, "evidence", &evidence);
    let tree = with_entry(&env, &tree, "record.json", &record);
    let forged = with_tree(&env, iteration, &tree);
    refused(&env, "a giant report", &forged, &format!("evidence/report {blob} has 2147483648 bytes"));
}

#[test]
fn trees_that_git_would_not_write_are_refused_in_records() {
    if !tool("ssh-keygen") {
        return;
    }
    let env = TestEnv::new();
    let records = converged(&env);
    let iteration = &records[7];
    let root = tree_bytes(&env, &format!("{iteration}^{{tree}}"));
    let evidence = tree_bytes(&env, &format!("{iteration}:evidence"));
    let replaced = |bytes: &[u8], from: &str, to: &str| -> Vec<u8> {
        let at = bytes.windows(from.len()).position(|window| window == from.as_bytes()).expect(from);
        [&bytes[..at], to.as_bytes(), &bytes[at + from.len()..]].concat()
    };
    // The same entries as a signed and accepted record, written in another way.
    let roots = [
        ("100644 record.json", "100664 record.json", "mode \"100664\""),
        ("100644 record.json", "0100644 record.json", "mode \"0100644\""),
        ("100644 record.json", "100600 record.json", "mode \"100600\""),
        ("40000 evidence", "040000 evidence", "mode \"040000\""),
        ("100644 contract.json", "100644 zontract.json", "not in order"),
        ("100644 contract.json", "100644 STATUS.md", "there twice"),
    ];
    for (from, to, needle) in roots {
        let tree = raw_tree(&env, &replaced(&root, from, to));
        refused(&env, to, &with_tree(&env, iteration, &tree), needle);
    }
    let below = raw_tree(&env, &replaced(&evidence, "100644 report", "100664 report"));
    let tree = with_entry(&env, iteration, "evidence", &below);
    refused(&env, "evidence", &with_tree(&env, iteration, &tree), "mode \"100664\"");
    env.git(&["update-ref", "refs/loops/fix/ledger", &records[8]]);
    env.git_loop(&["verify", "fix"]).expect_code(0);
}
