//! Faults of form: syntax, unknown keys, wrong types, ranges, missing keys.

use crate::contract::frozen::WorktreeTerms;
use insta::assert_snapshot;

use super::{bad, told};

#[test]
fn an_empty_file() {
    assert_snapshot!(told(""), @r#"
    loop.toml:1:1: missing key `objective`
      = add it; its value is a string

    loop.toml:1:1: missing key `class`
      = add it; its value is "ephemeral_experiment", "mechanical_transformation", "research", "security_triage" or "lasting_code"

    loop.toml:1:1: missing table `[paths]`
      = it needs at least mutable, check

    loop.toml:1:1: missing table `[worker]`
      = it needs at least command

    loop.toml:1:1: missing table `[check]`
      = it needs at least command

    loop.toml:1:1: missing table `[metric]`
      = it needs at least name, direction, target, from
    "#);
}

#[test]
fn not_toml() {
    assert_snapshot!(bad("[paths]", "[paths"), @r"
    loop.toml:4:7: not valid TOML: unclosed table, expected `]`
      |
    4 | [paths
      |       ^
    ");
}

#[test]
fn an_unclosed_string() {
    assert_snapshot!(bad("\"research\"", "\"research"), @r#"
    loop.toml:2:18: not valid TOML: invalid basic string, expected `"`
      |
    2 | class = "research
      |                  ^
    "#);
}

#[test]
fn bytes_that_are_not_utf_8() {
    assert_snapshot!(super::super::parse_bytes("loop.toml", b"objective = \"a\"\nclass = \"\xff\"").unwrap_err().to_string(), @r#"
    loop.toml:2:10: a byte that is not UTF-8
      |
    2 | class = "
      |          ^
      = save the file as UTF-8
    "#);
}

#[test]
fn a_duplicate_key_and_another_fault() {
    assert_snapshot!(bad("iterations = 10", "iterations = 10\niterations = 200\nno_progress = 99"), @r"
    loop.toml:23:1: duplicate key `iterations`
       |
    23 | iterations = 200
       | ^^^^^^^^^^
       = keep one of the two

    loop.toml:24:15: `limits.no_progress = 99` is out of range
       |
    24 | no_progress = 99
       |               ^^
       = use 1..=20
    ");
}

#[test]
fn a_duplicate_table() {
    assert_snapshot!(bad("[limits]", "[limits]\nno_progress = 2\n[limits]"), @r"
    loop.toml:23:2: duplicate key `limits`
       |
    23 | [limits]
       |  ^^^^^^
       = keep one of the two
    ");
}

#[test]
fn a_misspelled_key() {
    assert_snapshot!(bad("mutable =", "mutabel ="), @r#"
    loop.toml:4:2: missing key `paths.mutable`
      |
    4 | [paths]
      |  ^^^^^
      = add it; its value is an array of strings

    loop.toml:5:1: unknown key `paths.mutabel`
      |
    5 | mutabel = ["src/**"]
      | ^^^^^^^
      = did you mean `mutable`?
    "#);
}

#[test]
fn a_misspelled_table() {
    assert_snapshot!(bad("[limits]", "[limit]"), @r"
    loop.toml:21:2: unknown key `limit`
       |
    21 | [limit]
       |  ^^^^^
       = did you mean `limits`?
    ");
}

#[test]
fn a_key_of_another_table() {
    assert_snapshot!(bad("class =", "regression_limit = 2\nclass ="), @r"
    loop.toml:2:1: unknown key `regression_limit`
      |
    2 | regression_limit = 2
      | ^^^^^^^^^^^^^^^^
      = `regression_limit` belongs in [limits]
    ");
}

#[test]
fn a_key_of_two_other_tables() {
    assert_snapshot!(bad("class =", "timeout = \"5m\"\nclass ="), @r#"
    loop.toml:2:1: unknown key `timeout`
      |
    2 | timeout = "5m"
      | ^^^^^^^
      = `timeout` belongs in [worker], [check] or [holdout]
    "#);
}

#[test]
fn a_top_level_key_below_a_table() {
    assert_snapshot!(bad("iterations = 10", "local_defense_limit = 3"), @r"
    loop.toml:22:1: unknown key `limits.local_defense_limit`
       |
    22 | local_defense_limit = 3
       | ^^^^^^^^^^^^^^^^^^^
       = `local_defense_limit` belongs at the top level, above the first [table]
    ");
}

#[test]
fn a_key_that_resembles_none() {
    assert_snapshot!(bad("iterations = 10", "zzz = 1"), @r"
    loop.toml:22:1: unknown key `limits.zzz`
       |
    22 | zzz = 1
       | ^^^
       = known keys here: iterations, cost_usd, tokens, duration, no_progress, regression_limit, oscillation_limit, cost_sigma, unread_diffs, unknown_cost, evidence_kib
    ");
}

#[test]
fn an_unknown_key_that_is_a_terminal_escape() {
    assert_snapshot!(bad("iterations = 10", "\"\\u001b[31m\" = 1"), @r#"
    loop.toml:22:1: unknown key `limits."\u{1b}[31m"`
       |
    22 | "\u001b[31m" = 1
       | ^^^^^^^^^^^^
       = known keys here: iterations, cost_usd, tokens, duration, no_progress, regression_limit, oscillation_limit, cost_sigma, unread_diffs, unknown_cost, evidence_kib
    "#);
}

#[test]
fn a_number_in_place_of_a_string() {
    assert_snapshot!(bad("\"failing_tests\"", "7"), @r"
    loop.toml:16:8: `metric.name` must be a string, found the number 7
       |
    16 | name = 7
       |        ^
       = put it in quotes
    ");
}

#[test]
fn a_string_in_place_of_a_list() {
    assert_snapshot!(bad("[\"src/**\"]", "\"src/**\""), @r#"
    loop.toml:5:11: `paths.mutable` must be an array of strings, found the string "src/**"
      |
    5 | mutable = "src/**"
      |           ^^^^^^^^
      = write ["src/**"]
    "#);
}

#[test]
fn a_string_in_place_of_a_number() {
    assert_snapshot!(bad("iterations = 10", "iterations = \"10\""), @r#"
    loop.toml:22:14: `limits.iterations` must be a whole number, found the string "10"
       |
    22 | iterations = "10"
       |              ^^^^
       = write 10 without quotes
    "#);
}

#[test]
fn a_number_in_a_list_of_strings() {
    assert_snapshot!(bad("[\"src/**\"]", "[\"src/**\", 3]"), @r#"
    loop.toml:5:22: `paths.mutable[1]` must be a string, found the number 3
      |
    5 | mutable = ["src/**", 3]
      |                      ^
      = put it in quotes
    "#);
}

#[test]
fn a_table_in_place_of_a_command() {
    assert_snapshot!(bad("[\"./worker.sh\"]", "{ run = \"x\" }"), @r#"
    loop.toml:9:11: `worker.command` must be an array of strings or a string, found a table
      |
    9 | command = { run = "x" }
      |           ^^^^^^^^^^^^^
    "#);
}

#[test]
fn a_string_in_place_of_a_table() {
    assert_snapshot!(bad("[limits]\niterations = 10", "[limits]\niterations = 10\n[sandbox]\nworker = \"none\""), @r#"
    loop.toml:24:10: `sandbox.worker` must be a table, found the string "none"
       |
    24 | worker = "none"
       |          ^^^^^^
    "#);
}

#[test]
fn a_date_in_place_of_a_number() {
    assert_snapshot!(bad("target = 0", "target = 2024-01-01"), @r"
    loop.toml:18:10: `metric.target` must be a number, found a date
       |
    18 | target = 2024-01-01
       |          ^^^^^^^^^^
    ");
}

#[test]
fn a_duration_without_a_unit() {
    assert_snapshot!(bad("iterations = 10", "duration = 600"), @r#"
    loop.toml:22:12: `limits.duration` must be a duration such as "90s", "20m" or "1h30m", found the number 600
       |
    22 | duration = 600
       |            ^^^
       = write "600s" for seconds
    "#);
}

#[test]
fn a_duration_with_an_unknown_unit() {
    assert_snapshot!(bad("iterations = 10", "duration = \"2d\""), @r#"
    loop.toml:22:12: `limits.duration` must be a duration such as "90s", "20m" or "1h30m", found the string "2d"
       |
    22 | duration = "2d"
       |            ^^^^
    "#);
}

#[test]
fn an_enumeration_misspelled() {
    assert_snapshot!(bad("\"minimize\"", "\"minimise\""), @r#"
    loop.toml:17:13: `metric.direction` cannot be "minimise"
       |
    17 | direction = "minimise"
       |             ^^^^^^^^^^
       = did you mean "minimize"?
    "#);
}

#[test]
fn an_enumeration_unknown() {
    assert_snapshot!(bad("\"research\"", "\"production\""), @r#"
    loop.toml:2:9: `class` cannot be "production"
      |
    2 | class = "production"
      |         ^^^^^^^^^^^^
      = use "ephemeral_experiment", "mechanical_transformation", "research", "security_triage" or "lasting_code"
    "#);
}

#[test]
fn an_adapter_misspelled() {
    assert_snapshot!(bad("[limits]", "[sandbox]\nallowed = [\"landlok\"]\n[limits]"), @r#"
    loop.toml:22:12: `sandbox.allowed[0]` cannot be "landlok"
       |
    22 | allowed = ["landlok"]
       |            ^^^^^^^^^
       = did you mean "landlock"?
    "#);
}

#[test]
fn a_limit_of_zero() {
    assert_snapshot!(bad("iterations = 10", "iterations = 0"), @r#"
    loop.toml:22:14: `limits.iterations = 0`: a limit of 0 is not "no limit"
       |
    22 | iterations = 0
       |              ^
       = use 1..=100
    "#);
}

#[test]
fn a_limit_above_its_maximum() {
    assert_snapshot!(bad("iterations = 10", "iterations = 101"), @r"
    loop.toml:22:14: `limits.iterations = 101` is out of range
       |
    22 | iterations = 101
       |              ^^^
       = use 1..=100
    ");
}

#[test]
fn a_negative_limit() {
    assert_snapshot!(bad("iterations = 10", "tokens = -1"), @r"
    loop.toml:22:10: `limits.tokens = -1` is out of range
       |
    22 | tokens = -1
       |          ^^
       = use 1..=1000000000000
    ");
}

#[test]
fn a_limit_that_no_integer_holds() {
    assert_snapshot!(bad("iterations = 10", "tokens = 99999999999999999999999999999999999999999999"), @r"
    loop.toml:22:10: `limits.tokens = 99999999999999999999999999999999999999999999` is out of range
       |
    22 | tokens = 99999999999999999999999999999999999999999999
       |          ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
       = use 1..=1000000000000
    ");
}

#[test]
fn no_money() {
    assert_snapshot!(bad("iterations = 10", "cost_usd = 0.00"), @r#"
    loop.toml:22:12: `limits.cost_usd = 0.00`: a limit of 0 is not "no limit"
       |
    22 | cost_usd = 0.00
       |            ^^^^
       = use 0.000001 to 10000
    "#);
}

#[test]
fn money_below_zero() {
    assert_snapshot!(bad("iterations = 10", "cost_usd = -1.5"), @r"
    loop.toml:22:12: `limits.cost_usd = -1.5`: an amount cannot be negative
       |
    22 | cost_usd = -1.5
       |            ^^^^
       = use 0.000001 to 10000
    ");
}

#[test]
fn money_too_fine_to_count() {
    assert_snapshot!(bad("iterations = 10", "cost_usd = 0.1000000000000000001"), @r"
    loop.toml:22:12: `limits.cost_usd = 0.1000000000000000001`: an amount has at most six decimal places
       |
    22 | cost_usd = 0.1000000000000000001
       |            ^^^^^^^^^^^^^^^^^^^^^
       = use 0.000001 to 10000
    ");
}

#[test]
fn money_in_words() {
    assert_snapshot!(bad("iterations = 10", "cost_usd = \"$5\""), @r#"
    loop.toml:22:12: `limits.cost_usd` must be an amount in dollars such as 1.50, found the string "$5"
       |
    22 | cost_usd = "$5"
       |            ^^^^
    "#);
}

#[test]
fn too_much_money() {
    assert_snapshot!(bad("iterations = 10", "cost_usd = 10_000.01"), @r"
    loop.toml:22:12: `limits.cost_usd = 10000.01` is out of range
       |
    22 | cost_usd = 10_000.01
       |            ^^^^^^^^^
       = use 0.000001 to 10000
    ");
}

#[test]
fn a_time_out_of_zero() {
    assert_snapshot!(bad("format = ", "timeout = \"0s\"\nformat = "), @r#"
    loop.toml:13:11: `check.timeout = "0s"`: a time-out of 0 is not "no time-out"
       |
    13 | timeout = "0s"
       |           ^^^^
       = use 1s to 24h
    "#);
}

#[test]
fn a_duration_above_a_day() {
    assert_snapshot!(bad("iterations = 10", "duration = \"24h1s\""), @r#"
    loop.toml:22:12: `limits.duration = "24h1s"` is out of range
       |
    22 | duration = "24h1s"
       |            ^^^^^^^
       = use 1s to 24h
    "#);
}

#[test]
fn a_target_that_is_not_finite() {
    assert_snapshot!(bad("target = 0", "target = nan"), @r"
    loop.toml:18:10: `metric.target = nan` is not a finite number
       |
    18 | target = nan
       |          ^^^
    ");
}

#[test]
fn a_negative_improvement() {
    assert_snapshot!(bad("target = 0", "target = 0\nmin_improvement = -0.5"), @r"
    loop.toml:19:19: `metric.min_improvement = -0.5` is out of range
       |
    19 | min_improvement = -0.5
       |                   ^^^^
       = use 0 or more
    ");
}

#[test]
fn missing_tables_and_keys() {
    assert_snapshot!(told("class = \"research\"\n[paths]\nmutable = [\"src/**\"]\n[worker]\nagent = \"x\"\n"), @r"
    loop.toml:1:1: missing key `objective`
      = add it; its value is a string

    loop.toml:1:1: missing table `[check]`
      = it needs at least command

    loop.toml:1:1: missing table `[metric]`
      = it needs at least name, direction, target, from

    loop.toml:2:2: missing key `paths.check`
      |
    2 | [paths]
      |  ^^^^^
      = add it; its value is an array of strings

    loop.toml:4:2: missing key `worker.command`
      |
    4 | [worker]
      |  ^^^^^^
      = add it; its value is an array of strings or a string
    ");
}

#[test]
fn an_empty_list() {
    assert_snapshot!(bad("[\"tests/**\"]", "[]"), @r"
    loop.toml:6:9: `paths.check` is empty
      |
    6 | check = []
      |         ^^
      = write at least one entry
    ");
}

#[test]
fn an_empty_objective() {
    assert_snapshot!(bad("Make the token tests pass", "  "), @r#"
    loop.toml:1:13: `objective` is empty
      |
    1 | objective = "  "
      |             ^^^^
    "#);
}

#[test]
fn faults_in_every_table_at_once() {
    assert_snapshot!(told("objective = 1\nclass = \"reserch\"\nmutable = []\n[paths]\nmutable = [\"../x\"]\ncheck = [\"a\"]\n[worker]\ncommand = []\n[check]\ncommand = \" \"\ncolour = true\n[metric]\nname = \"m\"\ndirection = \"minimize\"\ntarget = 0\nfrom = \"failures\"\n[limits]\niterations = 0\nno_progress = 21\n"), @r#"
    loop.toml:1:13: `objective` must be a string, found the number 1
      |
    1 | objective = 1
      |             ^
      = put it in quotes

    loop.toml:2:9: `class` cannot be "reserch"
      |
    2 | class = "reserch"
      |         ^^^^^^^^^
      = did you mean "research"?

    loop.toml:3:1: unknown key `mutable`
      |
    3 | mutable = []
      | ^^^^^^^
      = `mutable` belongs in [paths]

    loop.toml:5:12: `paths.mutable[0] = "../x"` leaves the repository
      |
    5 | mutable = ["../x"]
      |            ^^^^^^
      = write the path from the root of the repository

    loop.toml:8:11: `worker.command` is empty
      |
    8 | command = []
      |           ^^
      = write at least one entry

    loop.toml:10:11: `check.command` is empty
       |
    10 | command = " "
       |           ^^^

    loop.toml:11:1: unknown key `check.colour`
       |
    11 | colour = true
       | ^^^^^^
       = known keys here: command, format, report, timeout, idle_timeout, success_exit_code, external, env, cpus, same_ids

    loop.toml:16:8: `metric.from = "failures"` needs a test report, but there is none
       |
    16 | from = "failures"
       |        ^^^^^^^^^^
       = set check.format to the format of the test report, such as junit, libtest or lines

    loop.toml:18:14: `limits.iterations = 0`: a limit of 0 is not "no limit"
       |
    18 | iterations = 0
       |              ^
       = use 1..=100

    loop.toml:19:15: `limits.no_progress = 21` is out of range
       |
    19 | no_progress = 21
       |               ^^
       = use 1..=20
    "#);
}

#[test]
fn a_null_is_read_as_absent_where_a_term_may_be() {
    let absent: WorktreeTerms = serde_json::from_str(r#"{"warm": []}"#).unwrap();
    let nulls = r#"{"warm": [], "setup": null, "include": null, "sparse": null}"#;
    assert_eq!(serde_json::from_str::<WorktreeTerms>(nulls).unwrap(), absent);
    assert_eq!(serde_json::to_string(&absent).unwrap(), r#"{"warm":[]}"#);
}
