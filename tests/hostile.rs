//! What somebody else may have put under refs/loops/: giants, trees that git would not write, refs that are none.

use std::fmt::Write as _;
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
        let _ = writeln!(list, "{head} {id}\t{path}");
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

/// One bad ref is one bad entry: the loops beside it are listed and verified.
#[test]
fn a_bad_ref_hides_no_other_loop() {
    let env = TestEnv::new();
    let records = converged(&env);
    let good = |name: &str| env.git(&["update-ref", name, &records[8]]);
    let loops = env.repo().join(".git/refs/loops");
    let put = |name: &str, content: &str| {
        let path = loops.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    };
    env.git(&["tag", "-a", "-m", "t", "v1"]);
    let tag = env.git(&["rev-parse", "v1"]);
    let blob = env.git(&["rev-parse", "HEAD:README"]);
    let cases = [
        ("dangling/ledger", "ref: refs/heads/nowhere\n".to_owned(), "symbolic ref"),
        ("circular/ledger", "ref: refs/loops/circular/ledger\n".to_owned(), "symbolic ref"),
        ("branch/ledger", "ref: refs/heads/main\n".to_owned(), "symbolic ref"),
        ("empty/ledger", String::new(), "damaged"),
        ("tagged/ledger", format!("{tag}\n"), "names a tag"),
        ("blob/ledger", format!("{blob}\n"), "names a blob"),
        ("lost/ledger", format!("{}\n", "1".repeat(40)), "is missing"),
        ("Shout/ledger", format!("{}\n", records[8]), "small letter"),
        ("fix/other", format!("{}\n", records[8]), "not the ref of a loop"),
        ("fix/head", "ref: refs/heads/main\n".to_owned(), "symbolic ref"),
    ];
    good("refs/loops/fix/ledger");
    for (name, content, needle) in cases {
        let before = fs::read(loops.join(name)).ok();
        put(name, &content);
        for command in [&["list"][..], &["list", "--verify"], &["verify", "--all"]] {
            let output = env.git_loop(command).expect_code(20);
            let lines: Vec<&str> = output.stdout.lines().collect();
            assert_eq!(lines.len(), 2, "{name} {command:?}: {output:?}");
            assert!(lines.iter().any(|line| line.contains("fix") && !line.contains("refs/")), "{output:?}");
            let bad = lines.iter().find(|line| line.contains(&format!("refs/loops/{name}"))).expect(name);
            assert!(bad.contains(needle), "{name} {command:?}: {output:?}");
            let json = env.git_loop(&[command, &["--json"]].concat()).expect_code(20).json();
            assert_eq!(json["status"], "error");
            assert_eq!(json["errors"].as_array().unwrap().len(), 1, "{json}");
            assert_eq!(json["errors"][0]["exit_code"], 20, "{json}");
        }
        // Named beside a good one, too.
        let id = name.split('/').next().unwrap();
        if id != "Shout" && name != "fix/other" {
            let output = env.git_loop(&["verify", id, "fix"]).expect_code(20);
            assert!(output.stdout.contains("ok fix"), "{name}: {output:?}");
            assert!(output.stdout.contains(&format!("FAILED refs/loops/{name}")), "{name}: {output:?}");
        }
        // The one that is whole is still the only loop.
        env.git_loop(&["status"]).expect_code(0);
        match before {
            Some(content) => fs::write(loops.join(name), content).unwrap(),
            None => fs::remove_file(loops.join(name)).unwrap(),
        }
        env.git_loop(&["verify", "--all"]).expect_code(0);
    }
    // Without any loop that is whole, that there are bad ones is said.
    fs::remove_dir_all(&loops).unwrap();
    put("branch/ledger", "ref: refs/heads/main\n");
    env.git_loop(&["status"]).expect_code(129).expect_stderr("git loop list");
    // And the way out that is named is one.
    let output = env.git_loop(&["list"]).expect_code(20).expect_stderr("git symbolic-ref --delete");
    let hint =
        output.stderr.lines().find_map(|line| line.split_once("git symbolic-ref --delete ")).unwrap().1;
    env.git(&["symbolic-ref", "--delete", hint]);
    env.git_loop(&["list"]).expect_code(0);
}

/// The list says what it looked at: the two ends. A ledger that is broken in between is found by the full verification.
#[test]
fn the_list_claims_no_more_than_it_checked() {
    if !tool("ssh-keygen") {
        return;
    }
    let env = TestEnv::new();
    let records = converged(&env);
    let list = env.git_loop(&["list"]).expect_code(0).expect_stderr("git loop verify --all");
    assert!(list.stdout.starts_with("fix  awaiting review"), "{list:?}");
    assert_eq!(env.git_loop(&["list", "--json"]).json()["loops"][0]["checked"], "ends");
    let full = env.git_loop(&["list", "--verify", "--json"]).expect_code(0).json();
    assert_eq!(full["loops"][0]["checked"], "all");
    let ends = env.git_loop(&["list", "--json"]).json();
    for field in
        ["loop", "status", "iteration", "halt_reason", "contract_id", "run_id", "objective", "ledger_tip"]
    {
        assert_eq!(ends["loops"][0][field], full["loops"][0][field], "{field}");
    }

    // A record in the middle is gone: only the full verification can know.
    let object = env.repo().join(".git/objects").join(&records[4][..2]).join(&records[4][2..]);
    let kept = fs::read(&object).unwrap();
    fs::remove_file(&object).unwrap();
    env.git_loop(&["list"]).expect_code(0);
    let output = env.git_loop(&["list", "--verify"]).expect_code(20);
    assert!(output.stdout.contains(&records[4]), "{output:?}");
    env.git_loop(&["verify", "--all"]).expect_code(20);
    fs::write(&object, kept).unwrap();

    // What is wrong with an end is seen: the signer, the signature, the name, the contract.
    env.git(&["update-ref", "refs/loops/other/ledger", &records[8]]);
    let output = env.git_loop(&["list"]).expect_code(20);
    assert!(output.stdout.contains("other  does not verify"), "{output:?}");
    env.git(&["update-ref", "-d", "refs/loops/other/ledger"]);
    let unsigned =
        env.git(&["commit-tree", "-m", "x", "-p", &records[7], &format!("{}^{{tree}}", records[8])]);
    env.git(&["update-ref", "refs/loops/fix/ledger", &unsigned]);
    env.git_loop(&["list"]).expect_code(20);
    env.git(&["update-ref", "refs/loops/fix/ledger", &records[8]]);
    env.write_trust(&[("ann", "ann@example.org")]);
    let output = env.git_loop(&["list"]).expect_code(20);
    assert!(output.stdout.contains("signer runner@example.org"), "{output:?}");
}

/// Recorded once, and never verified again: the tree has a mode that git does not write.
#[test]
fn a_brought_tree_that_no_ledger_may_hold_is_refused_before_anything_is_recorded() {
    let env = TestEnv::new();
    crate::support::scenario::numbers(&env, "exit 1\n", "");
    env.git_loop(&["start", "fix"]).expect_code(0);
    env.write("src/a", "1\n");
    env.git(&["add", "src/a"]);
    let src = tree_bytes(&env, &env.git(&["write-tree", "--prefix=src/"]));
    let at = src.windows(6).position(|window| window == b"100644").unwrap();
    let odd = raw_tree(&env, &[&src[..at], b"100664", &src[at + 6..]].concat());
    let raw = |hex: &str| -> Vec<u8> {
        (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
    };
    let old = raw(&env.git(&["write-tree", "--prefix=src/"]));
    let mut top = tree_bytes(&env, &env.git(&["write-tree"]));
    let at = top.windows(old.len()).position(|window| window == old).unwrap();
    top.splice(at..at + old.len(), raw(&odd));
    let tree = raw_tree(&env, &top);
    let rev = env.git(&["commit-tree", "-p", "main", "-m", "odd", &tree]);
    let tip = env.git(&["rev-parse", "refs/loops/fix/ledger"]);
    env.git_loop(&["record", "fix", "--candidate", &rev]).expect_code(1).expect_stderr("100664");
    assert_eq!(env.git(&["rev-parse", "refs/loops/fix/ledger"]), tip);
    env.git_loop(&["verify", "fix"]).expect_code(0);
}
