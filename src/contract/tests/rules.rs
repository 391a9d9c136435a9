//! Faults that a schema cannot see.

use insta::assert_snapshot;

use super::{bad, bad_lasting};

#[test]
fn patterns() {
    assert_snapshot!(bad("[\"src/**\"]", "[\"../up\", \"./src\", \"src\\\\auth\", \"#x\", \"a[\", \"\", \"!a\", \"src \", \".git/config\"]"), @r##"
    loop.toml:5:12: `paths.mutable[0] = "../up"` leaves the repository
      |
    5 | mutable = ["../up", "./src", "src\\auth", "#x", "a[", "", "!a", "src ", ".git/config"]
      |            ^^^^^^^
      = write the path from the root of the repository

    loop.toml:5:21: `paths.mutable[1] = "./src"` has a folder `.`
      |
    5 | mutable = ["../up", "./src", "src\\auth", "#x", "a[", "", "!a", "src ", ".git/config"]
      |                     ^^^^^^^
      = write the path from the root of the repository

    loop.toml:5:30: `paths.mutable[2] = "src\\auth"` has a backslash before an ordinary character
      |
    5 | mutable = ["../up", "./src", "src\\auth", "#x", "a[", "", "!a", "src ", ".git/config"]
      |                              ^^^^^^^^^^^
      = separate folders with /; a backslash escapes the next character

    loop.toml:5:43: `paths.mutable[3] = "#x"` is a comment in gitignore syntax
      |
    5 | mutable = ["../up", "./src", "src\\auth", "#x", "a[", "", "!a", "src ", ".git/config"]
      |                                           ^^^^
      = write \#x for a name with a #

    loop.toml:5:49: `paths.mutable[4] = "a["` has a [ without its ]
      |
    5 | mutable = ["../up", "./src", "src\\auth", "#x", "a[", "", "!a", "src ", ".git/config"]
      |                                                 ^^^^
      = write \[ for a name with a bracket

    loop.toml:5:55: `paths.mutable[5] = ""` is empty
      |
    5 | mutable = ["../up", "./src", "src\\auth", "#x", "a[", "", "!a", "src ", ".git/config"]
      |                                                       ^^

    loop.toml:5:65: `paths.mutable[7] = "src "` begins or ends with a space
      |
    5 | mutable = ["../up", "./src", "src\\auth", "#x", "a[", "", "!a", "src ", ".git/config"]
      |                                                                 ^^^^^^
      = take the space out

    loop.toml:5:73: `paths.mutable[8]` names git's own folder, which no loop may change
      |
    5 | mutable = ["../up", "./src", "src\\auth", "#x", "a[", "", "!a", "src ", ".git/config"]
      |                                                                         ^^^^^^^^^^^^^
    "##);
}

#[test]
fn a_list_that_begins_with_an_exception() {
    assert_snapshot!(bad("[\"tests/**\"]", "[\"!tests/ok.rs\", \"tests/**\"]"), @r#"
    loop.toml:6:10: `paths.check` begins with an exception
      |
    6 | check = ["!tests/ok.rs", "tests/**"]
      |          ^^^^^^^^^^^^^^
      = a pattern with ! takes back a part of those before it
    "#);
}

#[test]
fn a_pattern_that_is_mutable_and_checked() {
    assert_snapshot!(bad("[\"src/**\"]", "[\"src/**\", \"tests/**\"]"), @r#"
    loop.toml:5:22: "tests/**" is in `paths.mutable` and in `paths.check`
      |
    5 | mutable = ["src/**", "tests/**"]
      |                      ^^^^^^^^^^
      = what judges the worker cannot be the worker's: keep it in one of the two
    "#);
}

#[test]
fn a_pattern_twice() {
    assert_snapshot!(bad("[\"src/**\"]", "[\"src/**\", \"src/**\"]"), @r#"
    loop.toml:5:22: `paths.mutable` has "src/**" twice
      |
    5 | mutable = ["src/**", "src/**"]
      |                      ^^^^^^^^
      = take one of them out
    "#);
}

#[test]
fn failures_without_a_report() {
    assert_snapshot!(bad("format = \"libtest\"", "format = \"none\""), @r#"
    loop.toml:19:8: `metric.from = "failures"` needs a test report, but there is none
       |
    19 | from = "failures"
       |        ^^^^^^^^^^
       = set check.format to the format of the test report, such as junit, libtest or lines
    "#);
}

#[test]
fn more_failures_are_better() {
    assert_snapshot!(bad("\"minimize\"\ntarget = 0", "\"maximize\"\ntarget = -1.5"), @r#"
    loop.toml:17:13: more failing tests are never better
       |
    17 | direction = "maximize"
       |             ^^^^^^^^^^
       = set direction = "minimize"

    loop.toml:18:10: `metric.target = -1.5`: failing tests are counted in whole numbers
       |
    18 | target = -1.5
       |          ^^^^
       = use 0
    "#);
}

#[test]
fn an_exit_code_out_of_reach() {
    assert_snapshot!(bad("target = 0\nfrom = \"failures\"", "target = -1\nfrom = \"exit\""), @r"
    loop.toml:18:10: `metric.target = -1` cannot be reached: a check that passes exits with 0
       |
    18 | target = -1
       |          ^^
       = set target = 0
    ");
}

#[test]
fn a_regex_without_its_pattern() {
    assert_snapshot!(bad("\"failures\"", "\"regex\""), @r#"
    loop.toml:19:8: `metric.from = "regex"` needs `metric.pattern`
       |
    19 | from = "regex"
       |        ^^^^^^^
       = add pattern = …
    "#);
}

#[test]
fn a_pattern_without_a_regex() {
    assert_snapshot!(bad("target = 0", "target = 0\npattern = \"x (.*)\""), @r#"
    loop.toml:19:11: `metric.pattern` is only read with `metric.from = "regex"`
       |
    19 | pattern = "x (.*)"
       |           ^^^^^^^^
       = take it out, or set from = "regex"
    "#);
}

#[test]
fn a_regex_that_does_not_compile() {
    assert_snapshot!(bad("\"failures\"", "\"regex\"\npattern = '(\\d+'"), @r"
    loop.toml:20:11: `metric.pattern` is not a regular expression: unclosed group
       |
    20 | pattern = '(\d+'
       |           ^^^^^^
    ");
}

#[test]
fn a_regex_without_a_group() {
    assert_snapshot!(bad("\"failures\"", "\"regex\"\npattern = '\\d+'"), @r"
    loop.toml:20:11: `metric.pattern` has 0 capture groups; which one is the number?
       |
    20 | pattern = '\d+'
       |           ^^^^^
       = put the number in one group, or call its group (?<metric>…); (?:…) groups without capturing
    ");
}

#[test]
fn a_regex_with_two_groups() {
    assert_snapshot!(bad("\"failures\"", "\"regex\"\npattern = '(\\d+) of (\\d+)'"), @r"
    loop.toml:20:11: `metric.pattern` has 2 capture groups; which one is the number?
       |
    20 | pattern = '(\d+) of (\d+)'
       |           ^^^^^^^^^^^^^^^^
       = put the number in one group, or call its group (?<metric>…); (?:…) groups without capturing
    ");
}

#[test]
fn a_pointer_with_dots() {
    assert_snapshot!(bad("\"failures\"", "\"json\"\npointer = \"summary.score\""), @r#"
    loop.toml:20:11: `metric.pointer` must begin with /
       |
    20 | pointer = "summary.score"
       |           ^^^^^^^^^^^^^^^
       = write "/summary/score"
    "#);
}

#[test]
fn a_pointer_with_a_bad_escape() {
    assert_snapshot!(bad("\"failures\"", "\"json\"\npointer = \"/a~2\""), @r#"
    loop.toml:20:11: `metric.pointer` has a ~ that stands for nothing
       |
    20 | pointer = "/a~2"
       |           ^^^^^^
       = write ~0 for ~ and ~1 for /
    "#);
}

#[test]
fn a_junit_check_without_a_report() {
    assert_snapshot!(bad("\"libtest\"", "\"junit\""), @r#"
    loop.toml:13:10: `check.format = "junit"` needs `check.report`
       |
    13 | format = "junit"
       |          ^^^^^^^
       = name the file that the check writes, such as report = "target/junit.xml"
    "#);
}

#[test]
fn a_report_outside_the_tree() {
    assert_snapshot!(bad("\"libtest\"", "\"junit\"\nreport = \"/tmp/junit.xml\""), @r#"
    loop.toml:14:10: `check.report` is not relative to the repository
       |
    14 | report = "/tmp/junit.xml"
       |          ^^^^^^^^^^^^^^^^
       = write it from the root of the repository, with /
    "#);
}

#[test]
fn a_report_that_nothing_reads() {
    assert_snapshot!(bad("\"libtest\"", "\"libtest\"\nreport = \"junit.xml\""), @r#"
    loop.toml:14:10: `check.report` is not read with `check.format = "libtest"`
       |
    14 | report = "junit.xml"
       |          ^^^^^^^^^^^
       = take it out, or set check.format to a format that is a file, such as "junit"
    "#);
}

#[test]
fn variables_that_steer_the_runner() {
    assert_snapshot!(bad("[check]", "env = [\"GIT_DIR\", \"LD_PRELOAD\", \"SSH_AUTH_SOCK\", \"HOME\", \"2X\", \"A=b\", \"KEY\", \"KEY\"]\n[check]"), @r#"
    loop.toml:11:8: `GIT_DIR` cannot be given to a worker or a check
       |
    11 | env = ["GIT_DIR", "LD_PRELOAD", "SSH_AUTH_SOCK", "HOME", "2X", "A=b", "KEY", "KEY"]
       |        ^^^^^^^^^
       = variables that steer git, the loader, the shell or an agent, and HOME, are the runner's

    loop.toml:11:19: `LD_PRELOAD` cannot be given to a worker or a check
       |
    11 | env = ["GIT_DIR", "LD_PRELOAD", "SSH_AUTH_SOCK", "HOME", "2X", "A=b", "KEY", "KEY"]
       |                   ^^^^^^^^^^^^
       = variables that steer git, the loader, the shell or an agent, and HOME, are the runner's

    loop.toml:11:33: `SSH_AUTH_SOCK` cannot be given to a worker or a check
       |
    11 | env = ["GIT_DIR", "LD_PRELOAD", "SSH_AUTH_SOCK", "HOME", "2X", "A=b", "KEY", "KEY"]
       |                                 ^^^^^^^^^^^^^^^
       = variables that steer git, the loader, the shell or an agent, and HOME, are the runner's

    loop.toml:11:50: `HOME` cannot be given to a worker or a check
       |
    11 | env = ["GIT_DIR", "LD_PRELOAD", "SSH_AUTH_SOCK", "HOME", "2X", "A=b", "KEY", "KEY"]
       |                                                  ^^^^^^
       = variables that steer git, the loader, the shell or an agent, and HOME, are the runner's

    loop.toml:11:58: "2X" is not the name of an environment variable
       |
    11 | env = ["GIT_DIR", "LD_PRELOAD", "SSH_AUTH_SOCK", "HOME", "2X", "A=b", "KEY", "KEY"]
       |                                                          ^^^^
       = use letters, digits and _, not beginning with a digit

    loop.toml:11:64: "A=b" is not the name of an environment variable
       |
    11 | env = ["GIT_DIR", "LD_PRELOAD", "SSH_AUTH_SOCK", "HOME", "2X", "A=b", "KEY", "KEY"]
       |                                                                ^^^^^
       = give the name alone: the value comes from the runner's environment

    loop.toml:11:78: `worker.env` has "KEY" twice
       |
    11 | ME", "2X", "A=b", "KEY", "KEY"]
       |                          ^^^^^
       = take one of them out
    "#);
}

#[test]
fn variables_of_the_check() {
    assert_snapshot!(bad("format = ", "env = { RUST_LOG = \"x\", GIT_DIR = \".\", \"A-B\" = \"y\" }\nformat = "), @r#"
    loop.toml:13:35: `GIT_DIR` cannot be given to a worker or a check
       |
    13 | env = { RUST_LOG = "x", GIT_DIR = ".", "A-B" = "y" }
       |                                   ^^^
       = variables that steer git, the loader, the shell or an agent, and HOME, are the runner's

    loop.toml:13:48: "A-B" is not the name of an environment variable
       |
    13 | env = { RUST_LOG = "x", GIT_DIR = ".", "A-B" = "y" }
       |                                                ^^^
       = use letters, digits and _, not beginning with a digit
    "#);
}

#[test]
fn an_empty_command() {
    assert_snapshot!(bad("[\"./worker.sh\"]", "[]"), @r"
    loop.toml:9:11: `worker.command` is empty
      |
    9 | command = []
      |           ^^
      = write at least one entry
    ");
}

#[test]
fn a_command_without_a_program() {
    assert_snapshot!(bad("[\"./worker.sh\"]", "[\"\", \"x\"]"), @r#"
    loop.toml:9:11: `worker.command` names no program
      |
    9 | command = ["", "x"]
      |           ^^^^^^^^^
      = the first entry is the program
    "#);
}

#[test]
fn an_empty_shell_line() {
    assert_snapshot!(bad("[\"./worker.sh\"]", "\"  \""), @r#"
    loop.toml:9:11: `worker.command` is empty
      |
    9 | command = "  "
      |           ^^^^
    "#);
}

#[test]
fn an_endpoint_with_a_password() {
    assert_snapshot!(bad("[check]", "model = { endpoint = \"https://me:secret@host/v1\" }\n[check]"), @r#"
    loop.toml:11:22: `worker.model.endpoint` holds credentials
       |
    11 | model = { endpoint = "https://me:secret@host/v1" }
       |                      ^^^^^^^^^^^^^^^^^^^^^^^^^^^
       = leave out user and password: the contract is signed and shared
    "#);
}

#[test]
fn a_reservation_above_the_limit() {
    assert_snapshot!(bad("[check]", "reserve_usd = 2.50\n[check]"), @r"
    loop.toml:11:15: `worker.reserve_usd = 2.50` is more than `limits.cost_usd = 1.00`
       |
    11 | reserve_usd = 2.50
       |               ^^^^
       = the worker could never start: lower it or raise limits.cost_usd
    ");
}

#[test]
fn a_reservation_of_nothing() {
    assert_snapshot!(bad("[check]", "usage = \"json\"\nreserve_usd = 0\n[check]"), @r#"
    loop.toml:12:15: `worker.reserve_usd = 0.00`: a worker that costs something needs a reservation
       |
    12 | reserve_usd = 0
       |               ^
       = leave it out for a computed reservation, or set usage = "none"
    "#);
}

#[test]
fn warm_folders_outside() {
    assert_snapshot!(bad("[limits]", "[worktree]\nwarm = [\"/var/cache\", \"../target\", \".git\", \"target\"]\n[limits]"), @r#"
    loop.toml:22:9: `worktree.warm[0] = "/var/cache"` is not relative to the repository
       |
    22 | warm = ["/var/cache", "../target", ".git", "target"]
       |         ^^^^^^^^^^^^
       = write it from the root of the repository, with /

    loop.toml:22:23: `worktree.warm[1] = "../target"` leaves the repository
       |
    22 | warm = ["/var/cache", "../target", ".git", "target"]
       |                       ^^^^^^^^^^^
       = write it from the root of the repository, with /

    loop.toml:22:36: `worktree.warm[2] = ".git"` is a part of git's own folder
       |
    22 | warm = ["/var/cache", "../target", ".git", "target"]
       |                                    ^^^^^^
    "#);
}

#[test]
fn read_only_folders() {
    assert_snapshot!(bad("[limits]", "[sandbox]\nread_only = [\"/\", \"~/.ssh\", \"cache\", \"/opt/../etc\", \"/opt/sdk\"]\n[limits]"), @r#"
    loop.toml:22:14: `sandbox.read_only[0] = "/"` is everything, keys included
       |
    22 | read_only = ["/", "~/.ssh", "cache", "/opt/../etc", "/opt/sdk"]
       |              ^^^
       = name the folders of the toolchain

    loop.toml:22:19: `sandbox.read_only[1] = "~/.ssh"` is a folder of credentials
       |
    22 | read_only = ["/", "~/.ssh", "cache", "/opt/../etc", "/opt/sdk"]
       |                   ^^^^^^^^
       = a worker and a check never get any

    loop.toml:22:29: `sandbox.read_only[2] = "cache"` is not an absolute path
       |
    22 | read_only = ["/", "~/.ssh", "cache", "/opt/../etc", "/opt/sdk"]
       |                             ^^^^^^^
       = begin with / or ~/; what is in the repository needs no entry

    loop.toml:22:38: `sandbox.read_only[3] = "/opt/../etc"` has a folder `.` or `..`
       |
    22 | read_only = ["/", "~/.ssh", "cache", "/opt/../etc", "/opt/sdk"]
       |                                      ^^^^^^^^^^^^^
       = write the path out
    "#);
}

#[test]
fn principals() {
    assert_snapshot!(bad("[limits]", "[roles]\nrunner = [\"*@example.org\", \"a b\"]\npeople = []\n[limits]"), @r#"
    loop.toml:22:11: `roles.runner[0] = "*@example.org"` is not a principal
       |
    22 | runner = ["*@example.org", "a b"]
       |           ^^^^^^^^^^^^^^^
       = name it as the trust file does, without spaces, commas, quotes or wildcards

    loop.toml:22:28: `roles.runner[1] = "a b"` is not a principal
       |
    22 | runner = ["*@example.org", "a b"]
       |                            ^^^^^
       = name it as the trust file does, without spaces, commas, quotes or wildcards

    loop.toml:23:10: `roles.people` is empty
       |
    23 | people = []
       |          ^^
       = write at least one entry
    "#);
}

#[test]
fn the_same_adapter_twice() {
    assert_snapshot!(bad("[limits]", "[sandbox]\nallowed = [\"none\", \"none\"]\n[limits]"), @r#"
    loop.toml:22:20: `sandbox.allowed` has "none" twice
       |
    22 | allowed = ["none", "none"]
       |                    ^^^^^^
       = take one of them out
    "#);
}

#[test]
fn lasting_keys_in_another_class() {
    assert_snapshot!(bad_lasting("\"lasting_code\"", "\"research\""), @r#"
    loop.toml:3:1: `invariant_boundaries` belongs to `class = "lasting_code"` only
      |
    3 | invariant_boundaries = [{ name = "tokens expire", command = ["cargo", "test", "expiry"] }]
      | ^^^^^^^^^^^^^^^^^^^^
      = take it out, or set class = "lasting_code"

    loop.toml:4:1: `allowed_semantic_changes` belongs to `class = "lasting_code"` only
      |
    4 | allowed_semantic_changes = ["expired tokens are refused"]
      | ^^^^^^^^^^^^^^^^^^^^^^^^
      = take it out, or set class = "lasting_code"

    loop.toml:5:1: `forbidden_semantic_changes` belongs to `class = "lasting_code"` only
      |
    5 | forbidden_semantic_changes = ["a valid token is refused"]
      | ^^^^^^^^^^^^^^^^^^^^^^^^^^
      = take it out, or set class = "lasting_code"

    loop.toml:6:1: `machine_independence_requirements` belongs to `class = "lasting_code"` only
      |
    6 | machine_independence_requirements = [{ name = "builds offline", command = "cargo build --offline" }]
      | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
      = take it out, or set class = "lasting_code"

    loop.toml:7:1: `review_risk` belongs to `class = "lasting_code"` only
      |
    7 | review_risk = "high"
      | ^^^^^^^^^^^
      = take it out, or set class = "lasting_code"

    loop.toml:8:1: `required_review_personas` belongs to `class = "lasting_code"` only
      |
    8 | required_review_personas = ["security"]
      | ^^^^^^^^^^^^^^^^^^^^^^^^
      = take it out, or set class = "lasting_code"

    loop.toml:9:1: `complexity_budget` belongs to `class = "lasting_code"` only
      |
    9 | complexity_budget = { fallback_branches = 0, dependencies = 0, public_interfaces = 1, cyclomatic_com
      | ^^^^^^^^^^^^^^^^^
      = take it out, or set class = "lasting_code"

    loop.toml:10:1: `local_defense_limit` belongs to `class = "lasting_code"` only
       |
    10 | local_defense_limit = 3
       | ^^^^^^^^^^^^^^^^^^^
       = take it out, or set class = "lasting_code"

    loop.toml:11:1: `human_promotion_required` belongs to `class = "lasting_code"` only
       |
    11 | human_promotion_required = true
       | ^^^^^^^^^^^^^^^^^^^^^^^^
       = take it out, or set class = "lasting_code"
    "#);
}

#[test]
fn lasting_code_without_its_keys() {
    assert_snapshot!(bad("\"research\"", "\"lasting_code\""), @r#"
    loop.toml:2:9: `class = "lasting_code"` needs `invariant_boundaries`
      |
    2 | class = "lasting_code"
      |         ^^^^^^^^^^^^^^
      = add it at the top level, above the first [table]

    loop.toml:2:9: `class = "lasting_code"` needs `allowed_semantic_changes`
      |
    2 | class = "lasting_code"
      |         ^^^^^^^^^^^^^^
      = add it at the top level, above the first [table]

    loop.toml:2:9: `class = "lasting_code"` needs `forbidden_semantic_changes`
      |
    2 | class = "lasting_code"
      |         ^^^^^^^^^^^^^^
      = add it at the top level, above the first [table]

    loop.toml:2:9: `class = "lasting_code"` needs `machine_independence_requirements`
      |
    2 | class = "lasting_code"
      |         ^^^^^^^^^^^^^^
      = add it at the top level, above the first [table]

    loop.toml:2:9: `class = "lasting_code"` needs `review_risk`
      |
    2 | class = "lasting_code"
      |         ^^^^^^^^^^^^^^
      = add it at the top level, above the first [table]

    loop.toml:2:9: `class = "lasting_code"` needs `required_review_personas`
      |
    2 | class = "lasting_code"
      |         ^^^^^^^^^^^^^^
      = add it at the top level, above the first [table]

    loop.toml:2:9: `class = "lasting_code"` needs `complexity_budget`
      |
    2 | class = "lasting_code"
      |         ^^^^^^^^^^^^^^
      = add it at the top level, above the first [table]

    loop.toml:2:9: `class = "lasting_code"` needs `local_defense_limit`
      |
    2 | class = "lasting_code"
      |         ^^^^^^^^^^^^^^
      = add it at the top level, above the first [table]

    loop.toml:2:9: `class = "lasting_code"` needs `human_promotion_required`
      |
    2 | class = "lasting_code"
      |         ^^^^^^^^^^^^^^
      = add it at the top level, above the first [table]
    "#);
}

#[test]
fn lasting_code_that_a_machine_promotes() {
    assert_snapshot!(bad_lasting("human_promotion_required = true", "human_promotion_required = false"), @r"
    loop.toml:11:28: `human_promotion_required` must be true: a person promotes lasting code
       |
    11 | human_promotion_required = false
       |                            ^^^^^
    ");
}

#[test]
fn a_budget_with_other_keys() {
    assert_snapshot!(bad_lasting("dependencies = 0,", "dependency = 0,"), @r"
    loop.toml:9:1: missing key `complexity_budget.dependencies`
      |
    9 | complexity_budget = { fallback_branches = 0, dependency = 0, public_interfaces = 1, cyclomatic_compl
      | ^^^^^^^^^^^^^^^^^
      = add it; its value is a whole number

    loop.toml:9:46: unknown key `complexity_budget.dependency`
      |
    9 | complexity_budget = { fallback_branches = 0, dependency = 0, public_interfaces = 1, cyclomatic_compl
      |                                              ^^^^^^^^^^
      = did you mean `dependencies`?
    ");
}

#[test]
fn lasting_code_judged_by_its_runner() {
    assert_snapshot!(bad_lasting("[paths]", "[roles]\nrunner = [\"ci@example.org\"]\nreviewer = [\"ci@example.org\"]\n[paths]"), @r#"
    loop.toml:15:12: `lasting_code` needs a reviewer other than the runner
       |
    15 | reviewer = ["ci@example.org"]
       |            ^^^^^^^^^^^^^^^^^^
       = name a principal that is not in roles.runner
    "#);
}

#[test]
fn two_invariants_of_one_name() {
    assert_snapshot!(bad_lasting("[{ name = \"tokens expire\"", "[{ name = \"tokens expire\", command = \"\" }, { name = \"tokens expire\""), @r#"
    loop.toml:3:61: `invariant_boundaries[0].command` is empty
      |
    3 | invariant_boundaries = [{ name = "tokens expire", command = "" }, { name = "tokens expire", command
      |                                                             ^^

    loop.toml:3:67: `invariant_boundaries` has "tokens expire" twice
      |
    3 | invariant_boundaries = [{ name = "tokens expire", command = "" }, { name = "tokens expire", command
      |                                                                   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
      = take one of them out
    "#);
}

#[test]
fn a_change_that_is_allowed_and_forbidden() {
    assert_snapshot!(bad_lasting("[\"a valid token is refused\"]", "[\"expired tokens are refused\"]"), @r#"
    loop.toml:4:29: "expired tokens are refused" is both allowed and forbidden
      |
    4 | allowed_semantic_changes = ["expired tokens are refused"]
      |                             ^^^^^^^^^^^^^^^^^^^^^^^^^^^^
    "#);
}

#[test]
fn a_holdout_is_a_folder_of_its_own_with_a_report_that_fits() {
    let run = "command = [\"./run.sh\"]\n";
    for (lines, fault) in [
        (format!("{run}folder = \"../holdout\""), "`holdout.folder` is not an absolute path"),
        (format!("{run}folder = \"/srv/../repo\""), "`holdout.folder` is no folder of its own"),
        (format!("{run}folder = \"/\""), "`holdout.folder` is no folder of its own"),
        (
            format!("{run}folder = \"~/h\"\nformat = \"junit\""),
            "`holdout.format = \"junit\"` needs `holdout.report`",
        ),
        (
            format!("{run}folder = \"~/h\"\nreport = \"r.xml\""),
            "`holdout.report` is not read with `holdout.format = \"none\"`",
        ),
        (
            format!("{run}folder = \"~/h\"\nformat = \"junit\"\nreport = \"../r.xml\""),
            "`holdout.report` leaves the repository",
        ),
        (format!("{run}folder = \"~/h\"\ntimeout = \"0s\""), "holdout.timeout"),
        (run.to_owned(), "holdout.folder"),
    ] {
        let told = bad("[limits]", &format!("[holdout]\n{lines}\n[limits]"));
        assert!(told.contains(fault), "{lines}: {told}");
    }
}

#[test]
fn a_list_of_hosts_that_would_not_mean_what_it_says() {
    let list = "[sandbox]\nworker = { network = { allow = [\"https://api.example.com\", \"localhost:80\", \"a:1\", \"a:1\"] } }\n[limits]";
    assert_snapshot!(bad("[limits]", list), @r#"
    loop.toml:22:33: `sandbox.worker.network.allow[0] = "https://api.example.com"` is an address of the web, not a host and a port
       |
    22 | worker = { network = { allow = ["https://api.example.com", "localhost:80", "a:1", "a:1"] } }
       |                                 ^^^^^^^^^^^^^^^^^^^^^^^^^
       = write host:port, such as "api.example.com:443", "*.example.com:443" or "127.0.0.1:8080"

    loop.toml:22:60: `sandbox.worker.network.allow[1] = "localhost:80"` names this machine: write its address, such as 127.0.0.1
       |
    22 | worker = { network = { allow = ["https://api.example.com", "localhost:80", "a:1", "a:1"] } }
       |                                                            ^^^^^^^^^^^^^^
       = write host:port, such as "api.example.com:443", "*.example.com:443" or "127.0.0.1:8080"

    loop.toml:22:83: `sandbox.worker.network.allow` has "a:1" twice
       |
    22 | , "localhost:80", "a:1", "a:1"] } }
       |                          ^^^^^
       = take one of them out
    "#);
}

#[test]
fn an_image_that_is_not_pinned() {
    assert_snapshot!(bad("[limits]", "[sandbox]\nallowed = [\"docker\"]\n[limits]"), @r#"
    loop.toml:22:11: `docker` needs `sandbox.image`
       |
    22 | allowed = ["docker"]
       |           ^^^^^^^^^^
       = write name@sha256:digest; docker image inspect --format '{{.RepoDigests}}' NAME tells it
    "#);
    assert_snapshot!(bad("[limits]", "[sandbox]\nallowed = [\"podman\"]\nimage = \"debian:12\"\n[limits]"), @r#"
    loop.toml:23:9: `sandbox.image = "debian:12"` is not pinned by its digest
       |
    23 | image = "debian:12"
       |         ^^^^^^^^^^^
       = write name@sha256:digest; docker image inspect --format '{{.RepoDigests}}' NAME tells it
    "#);
    assert_snapshot!(bad("[limits]", "[sandbox]\nimage = \"debian:12\"\n[limits]"), @r#"
    loop.toml:22:9: `sandbox.image` is for `docker` and `podman`
       |
    22 | image = "debian:12"
       |         ^^^^^^^^^^^
       = take it out, or allow "docker" or "podman"
    "#);
}

#[test]
fn a_limit_on_silence_and_a_size() {
    assert_snapshot!(bad("[check]", "timeout = \"1m\"\nidle_timeout = \"2m\"\n[check]"), @r#"
    loop.toml:12:16: `worker.idle_timeout = "2m"` is longer than `worker.timeout = "1m"`
       |
    12 | idle_timeout = "2m"
       |                ^^^^
       = make it shorter, or take it out
    "#);
    assert_snapshot!(bad("[limits]", "[sandbox]\ndisk = 2\n[limits]"), @r#"
    loop.toml:22:8: `sandbox.disk` must be a size such as "500MiB" or "2GiB", found the number 2
       |
    22 | disk = 2
       |        ^
    "#);
    assert_snapshot!(bad("[limits]", "[sandbox]\ndisk = \"1KiB\"\n[limits]"), @r#"
    loop.toml:22:8: `sandbox.disk = "1KiB"` is out of range
       |
    22 | disk = "1KiB"
       |        ^^^^^^
       = use 1MiB to 16TiB
    "#);
}

#[test]
fn a_credential_of_the_repository_or_one_that_is_passed_through() {
    let credential = "env = [\"TOKEN\"]\ncredential = { env = \"TOKEN\", mint = [\"./mint\"], revoke = \"revoke\" }\n[check]";
    assert_snapshot!(bad("[check]", credential), @r#"
    loop.toml:12:22: `TOKEN` is passed through and made for each run
       |
    12 | credential = { env = "TOKEN", mint = ["./mint"], revoke = "revoke" }
       |                      ^^^^^^^
       = take it out of worker.env: the worker gets the one that was made for it

    loop.toml:12:38: `worker.credential.mint` names a file of the repository
       |
    12 | credential = { env = "TOKEN", mint = ["./mint"], revoke = "revoke" }
       |                                      ^^^^^^^^^^
       = name it by its absolute path, or by a name that is in your PATH
    "#);
}
