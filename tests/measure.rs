//! `git loop measure`: numbers of two trees, held to those of stock git where it has them.

use serde_json::{Value, json};

use crate::support::TestEnv;

/// The five deltas.
fn deltas(json: &Value) -> [i64; 5] {
    ["fallback_branches", "dependencies", "public_interfaces", "cyclomatic_complexity", "changed_lines"]
        .map(|name| json[name].as_i64().unwrap_or_else(|| panic!("{name}: {json}")))
}

fn measure(env: &TestEnv, old: &str, new: &str) -> Value {
    env.git_loop(&["measure", old, new, "--json"]).expect_code(0).json()
}

/// A repository with two commits; the first is tagged `old`.
fn project() -> TestEnv {
    let env = TestEnv::new();
    env.write("src/lib.rs", "pub fn a(x: u8) -> u8 {\n    x\n}\n");
    env.write("app.py", "def f(d):\n    return d['a']\n");
    env.write("web/a.ts", "export const a = 1;\n");
    env.write("main.go", "package main\n\nfunc F() {\n}\n");
    env.write(
        "Cargo.toml",
        "[package]\nname = \"own\"\nversion = \"1.0.0\"\n\n[dependencies]\nserde = \"1\"\n",
    );
    env.write("sub/package.json", "{ \"name\": \"own\", \"dependencies\": { \"left-pad\": \"1\" } }\n");
    env.write("notes.md", "one\n");
    env.write("image.bin", b"a\0b");
    env.commit("Old");
    env.git(&["tag", "old"]);
    env.write("src/lib.rs", "pub fn a(x: Option<u8>) -> u8 {\n    if x.is_none() { return 2 }\n    x.unwrap_or(3)\n}\npub fn b() {}\n");
    env.write(
        "app.py",
        "def f(d):\n    try:\n        return d['a']\n    except Exception:\n        return None\n",
    );
    env.write("web/a.ts", "export const a = 1;\nexport const b = a ?? 2;\n");
    env.write("main.go", "package main\n\nfunc F() {\n\tswitch x {\n\tcase 1:\n\tdefault:\n\t}\n}\n");
    env.write(
        "Cargo.toml",
        "[package]\nname = \"own\"\nversion = \"1.0.0\"\n\n[dependencies]\nserde = \"2\"\nregex = \"1\"\n",
    );
    env.write("notes.md", "one\ntwo\n");
    env.write("image.bin", b"a\0c");
    env.write("setup.py", "setup()\n");
    env.commit("New");
    env
}

#[test]
fn five_deltas_of_four_languages() {
    let env = project();
    let before = env.users_things();
    let json = measure(&env, "old", "HEAD");
    // Fallbacks: unwrap_or, except Exception, ??, default. Complexity: if; except; ?? at the top of its file; case.
    // Interfaces: lib.b and a.ts's b. Lines: 4 + 2 of lib.rs, 4 + 1 of app.py (one is indented), 1 of a.ts, 4 of main.go, 2 + 1 of
    // Cargo.toml, 1 of notes.md, 1 of setup.py.
    assert_eq!(deltas(&json), [4, 1, 2, 5, 21], "{json}");
    let added: Vec<String> = json["fallbacks"]["added"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| {
            format!("{}:{} {}", one["path"].as_str().unwrap(), one["line"], one["kind"].as_str().unwrap())
        })
        .collect();
    let expected = [
        "app.py:4 broad_handler",
        "main.go:6 catch_all",
        "src/lib.rs:3 default_value",
        "web/a.ts:2 default_value",
    ];
    assert_eq!(added, expected);
    assert_eq!(json["packages"]["added"][0]["name"], "regex");
    assert_eq!(json["packages"]["changed"][0]["name"], "serde");
    assert_eq!(json["interfaces"]["changed"][0]["name"], "a");
    assert_eq!(json["lines"]["binary"], json!(["image.bin"]));
    let why = |at: usize| (&json["not_measured"][at]["path"], &json["not_measured"][at]["why"]);
    assert_eq!(why(0), (&json!("image.bin"), &json!("binary")));
    assert_eq!(why(1).0, "notes.md");
    assert_eq!(why(2).1, "unread_format");
    // The other way round every delta has the other sign; a tree and itself differ by nothing.
    let back = measure(&env, "HEAD", "old");
    let [fallbacks, packages, interfaces, complexity, lines] = deltas(&json);
    assert_eq!(deltas(&back), [-fallbacks, -packages, -interfaces, -complexity, lines]);
    assert_eq!(deltas(&measure(&env, "old", "old^{tree}")), [0; 5]);
    assert_eq!(measure(&env, "old^{tree}", "HEAD:"), json, "trees are as good as commits");
    assert_eq!(env.users_things(), before);
}

#[test]
fn people_read_a_table_and_what_made_it() {
    let env = project();
    let output = env.git_loop(&["measure", "old", "HEAD"]).expect_code(0);
    insta::assert_snapshot!(output.stdout, @r"
    fallback branches          +4  4 added
    dependencies               +1  1 added, 1 changed
    public interfaces          +2  2 added, 1 changed
    cyclomatic complexity      +5  in 5 functions
    changed lines              21  17 added, 4 removed in 8 files

    fallback branches added
      app.py:4  broad_handler: except Exception:…
      main.go:6  catch_all: default:
      src/lib.rs:3  default_value: x.unwrap_or(3)
      web/a.ts:2  default_value: a ?? 2

    functions that rose
      app.py:1  f: 1 -> 2
      main.go:3  F: 1 -> 2
      src/lib.rs:1  a: 1 -> 2
      src/lib.rs:5  b: new -> 1
      web/a.ts:1  (file): new -> 1

    packages added
      cargo regex 1 (asked for)

    packages with other versions
      cargo serde 1 -> 2

    public interfaces added
      src/lib.rs:5  fn b
      web/a.ts:2  variable b

    public interfaces changed
      src/lib.rs:1  fn a

    binary, so without lines
      image.bin

    not measured
      setup.py  dependencies: names packages in a way that is not read

    lines only
      1 file of a language that is not parsed, or no code: .md (1)
    ");
    let output = env.git_loop(&["measure", "old", "old"]).expect_code(0);
    insta::assert_snapshot!(output.stdout, @r"
    fallback branches           0
    dependencies                0
    public interfaces           0
    cyclomatic complexity       0
    changed lines               0  the trees are the same
    ");
}

#[test]
fn what_names_no_tree_is_refused() {
    let env = project();
    env.git_loop(&["measure", "old", "nothing"])
        .expect_code(129)
        .expect_stderr("NEW \"nothing\" names nothing");
    env.git_loop(&["measure", "old:app.py", "HEAD"])
        .expect_code(129)
        .expect_stderr("names a blob that is no tree");
    env.git_loop(&["measure", "old"]).expect_code(129);
}

#[test]
fn a_bare_repository_and_a_dirty_work_tree_give_the_same() {
    let env = project();
    let json = measure(&env, "old", "HEAD");
    env.write("src/lib.rs", "not code at all {{{");
    env.git(&["add", "-A"]);
    assert_eq!(measure(&env, "old", "HEAD"), json);
    let bare = env.root().join("bare.git");
    env.git(&["clone", "--quiet", "--bare", ".", bare.to_str().unwrap()]);
    assert_eq!(env.git_loop_in(&bare, &["measure", "old", "HEAD", "--json"]).expect_code(0).json(), json);
}

/// The sums of `git diff --numstat --no-renames`, and how many files are binary.
fn numstat(env: &TestEnv, options: &[&str]) -> (u64, u64, u64) {
    let mut args = vec!["diff", "--numstat", "--no-renames"];
    args.extend(options);
    args.extend(["old", "HEAD"]);
    let (mut added, mut removed, mut binary) = (0, 0, 0);
    for line in env.git(&args).lines() {
        let words: Vec<&str> = line.split('\t').collect();
        match words[0] {
            "-" => binary += 1,
            count => {
                added += count.parse::<u64>().unwrap();
                removed += words[1].parse::<u64>().unwrap();
            }
        }
    }
    (added, removed, binary)
}

#[test]
fn lines_are_those_of_git() {
    let env = TestEnv::new();
    // Text in which a shortest script is not what every algorithm finds.
    let text = |seed: u32, lines: u32| -> String {
        let mut state = seed;
        let mut next = move || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state >> 24
        };
        let lines: Vec<String> = (0..lines).map(|_| format!("line {}\n", next() % 12)).collect();
        lines.concat()
    };
    let write = |name: &str, content: &[u8]| env.write(name, content);
    for number in 0..12 {
        write(&format!("text/{number}"), text(number, 40 + 20 * number).as_bytes());
    }
    write("gone", b"a\nb\n");
    write("no-end", b"a\nb");
    write("crlf", b"a\r\nb\r\n");
    write("mode", b"a\n");
    write("binary", b"a\0");
    write("to-binary", b"a\n");
    write("late-nul", &[vec![b'x'; 9000], b"\0\n".to_vec()].concat());
    std::os::unix::fs::symlink("target", env.repo().join("link")).unwrap();
    std::os::unix::fs::symlink("target", env.repo().join("link-to-file")).unwrap();
    env.commit("Old");
    env.git(&["tag", "old"]);
    for number in 0..12 {
        // Pieces of the old text between others.
        let old = text(number, 40 + 20 * number);
        let old: Vec<&str> = old.split_inclusive('\n').collect();
        let new = [&old[10..20], &old[..15], &old[30..]].concat().concat() + &text(number + 100, 15);
        write(&format!("text/{number}"), new.as_bytes());
    }
    std::fs::remove_file(env.repo().join("gone")).unwrap();
    write("come/here", b"c\nd\ne");
    write("empty", b"");
    write("no-end", b"a\nb\n");
    write("crlf", b"a\nb\r\n");
    write("binary", b"b\0");
    write("to-binary", b"a\0\n");
    write("late-nul", &[vec![b'x'; 9000], b"\0\nmore\n".to_vec()].concat());
    std::fs::remove_file(env.repo().join("link")).unwrap();
    std::os::unix::fs::symlink("elsewhere", env.repo().join("link")).unwrap();
    std::fs::remove_file(env.repo().join("link-to-file")).unwrap();
    write("link-to-file", b"a\nb\n");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(env.repo().join("mode"), mode).unwrap();
    env.commit("New");
    let lines = &measure(&env, "old", "HEAD")["lines"];
    let (added, mut removed, binary) = numstat(&env, &["--minimal"]);
    // Where one side alone is binary git counts no line, and we those of the other.
    removed += 1;
    assert_eq!((&lines["added"], &lines["removed"]), (&added.into(), &removed.into()), "{lines}");
    assert_eq!(lines["binary"].as_array().unwrap().len() as u64, binary);
    // What git does by default is often no shorter and never is.
    let (more_added, more_removed, _) = numstat(&env, &[]);
    assert!(more_added >= added && more_removed + 1 >= removed);
}

#[test]
fn a_side_that_is_not_parsed_or_read_takes_nothing_away() {
    let env = TestEnv::new();
    env.write("a.py", "def f(x):\n    return 1 if x else 2\n");
    env.write("b.rs", "pub fn b() {}\n");
    env.write("requirements.txt", "left\n");
    env.write(
        "Cargo.lock",
        "version = 4\n[[package]]\nname = \"a\"\nversion = \"1.0.0\"\nsource = \"registry+x\"\n",
    );
    env.commit("Old");
    env.git(&["tag", "old"]);
    env.write("a.py", "# a comment of some length, over and over\n".repeat(30_000));
    env.write("b.rs", "pub fn b( {}\n");
    env.write("Cargo.lock", "<<<<<<< a conflict\n");
    env.commit("New");
    let json = measure(&env, "old", "HEAD");
    let [fallbacks, packages, _, complexity, lines] = deltas(&json);
    assert_eq!((fallbacks, packages, lines), (0, 0, 30_002 + 2 + 5 + 1), "{json}");
    // Only b.rs, which has lost what no longer parses, can have changed it.
    assert!((-1..=0).contains(&complexity), "{json}");
    let why = |path: &str| {
        let entries = json["not_measured"].as_array().unwrap();
        entries.iter().find(|one| one["path"] == path).map(|one| one["why"].as_str().unwrap())
    };
    assert_eq!(why("a.py"), Some("too_large"));
    assert_eq!(why("b.rs"), Some("parse_errors"));
    assert_eq!(why("Cargo.lock"), Some("unreadable"));
    assert_eq!(why("requirements.txt"), None);
}

/// A function with two decisions and a fallback branch.
const BRANCHY: &str = "def f(x):\n    if x and x.a:\n        return x.get('k', 1)\n    return 2\n";

#[test]
fn growth_cannot_be_hidden_from_the_measure() {
    let env = TestEnv::new();
    let padding = "# a comment of some length, over and over\n".repeat(30_000);
    let link = |name: &str, target: &str| {
        let _ = std::fs::remove_file(env.repo().join(name));
        std::os::unix::fs::symlink(target, env.repo().join(name)).unwrap();
    };
    env.write("nul.py", "x = 1\n");
    env.write("was_nul.py", "x = 1  # \0\n");
    env.write("was_large.py", &padding);
    env.write("was_broken/Cargo.lock", "<<<<<<< a conflict\n");
    env.write("was_data.bin", "\0\n");
    link("was_link.py", "nul.py");
    link("was_same.py", BRANCHY.trim_end());
    env.commit("Old");
    env.git(&["tag", "old"]);
    // Field: a NUL in a comment, which Python reads over in some versions and others refuse.
    env.write("nul.py", format!("# \0\n{BRANCHY}"));
    for name in ["was_nul.py", "was_large.py", "capital.PY", "script"] {
        let first = if name == "script" { "#!/usr/bin/env -S python3.11 -u\n" } else { "" };
        env.write(name, format!("{first}{BRANCHY}"));
    }
    env.write("old.es6", "export function f(x) { return x ? 1 : 2 }\n");
    env.write("was_data.bin", "one\ntwo\n");
    for name in ["was_link.py", "was_same.py"] {
        std::fs::remove_file(env.repo().join(name)).unwrap();
    }
    env.write("was_link.py", BRANCHY);
    env.write("was_same.py", BRANCHY.trim_end());
    env.write(
        "was_broken/Cargo.lock",
        "version = 4\n[[package]]\nname = \"a\"\nversion = \"1.0.0\"\nsource = \"registry+x\"\n",
    );
    env.commit("New");
    let json = measure(&env, "old", "HEAD");
    let [fallbacks, packages, interfaces, complexity, lines] = deltas(&json);
    let python = 7;
    assert_eq!((fallbacks, packages, complexity), (python, 1, python * 3 + 2), "{json}");
    // `x` of two files went; `script` is a module like any other.
    assert_eq!(interfaces, python + 1 - 2, "{json}");
    // nul: 5 + 1; was_nul: 4 + 1; was_large: 4 + 30,000; capital: 4; script: 5; old: 1; data: 2; link: 4 + 1; same: none; lock: 5 + 1
    assert_eq!(lines, 6 + 5 + 30_004 + 4 + 5 + 1 + 2 + 5 + 6, "{json}");
    assert_eq!(json["unmeasurable"], json!([]));
    let why = |path: &str| {
        let entries = json["not_measured"].as_array().unwrap();
        let found: Vec<_> = entries.iter().filter(|one| one["path"] == path).collect();
        found.iter().map(|one| one["why"].as_str().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(why("was_large.py"), ["too_large"]);
    assert_eq!(why("was_broken/Cargo.lock"), ["unreadable"]);
    assert_eq!(why("was_data.bin"), ["unknown_language", "binary"]);
    assert_eq!(why("was_link.py"), [""; 0]);
}

#[test]
fn what_should_be_measured_and_cannot_be_is_named() {
    let env = TestEnv::new();
    env.write("large.py", BRANCHY);
    env.write("wide.js", "f()\n");
    env.write("package-lock.json", "{\"lockfileVersion\": 3, \"packages\": {}}\n");
    env.write("still/package.json", "not JSON\n");
    env.write("image.bin", "\0");
    env.write("notes.txt", "a\n");
    env.commit("Old");
    env.git(&["tag", "old"]);
    env.write(
        "large.py",
        format!("{BRANCHY}{}", "# a comment of some length, over and over\n".repeat(30_000)),
    );
    env.write("wide.js", [b"\xff\xfe".as_slice(), b"f\0(\0)\0\n\0"].concat());
    env.write("package-lock.json", "<<<<<<< a conflict\n");
    env.write("image.bin", "\0\0");
    env.write("notes.txt", "b\n");
    env.commit("New");
    let json = measure(&env, "old", "HEAD");
    assert_eq!(json["unmeasurable"], json!(["large.py", "package-lock.json", "wide.js"]), "{json}");
    let [fallbacks, packages, interfaces, complexity, _] = deltas(&json);
    assert_eq!((fallbacks, packages, interfaces, complexity), (0, 0, 0, 0), "{json}");
}
