//! What the design names and this version does not have: refused, never ignored.

use insta::assert_snapshot;

use super::bad;

#[test]
fn a_metric_from_the_verdict() {
    assert_snapshot!(bad("\"failures\"", "\"verdict\""), @r#"
    loop.toml:19:8: `metric.from = "verdict"` is not built yet
       |
    19 | from = "verdict"
       |        ^^^^^^^^^
       = built so far: "failures", "exit", "regex" or "json"
    "#);
}

#[test]
fn an_external_check() {
    assert_snapshot!(bad("format = ", "external = true\nformat = "), @r"
    loop.toml:13:12: `check.external = true` is not built yet
       |
    13 | external = true
       |            ^^^^
       = built so far: false
    ");
}

#[test]
fn a_holdout() {
    assert_snapshot!(bad("[limits]", "[holdout]\ncommand = [\"./run.sh\"]\n[limits]"), @r"
    loop.toml:21:2: `[holdout]` is not built yet
       |
    21 | [holdout]
       |  ^^^^^^^
       = take it out; this version refuses it rather than ignore it
    ");
}

#[test]
fn repeated_checks() {
    assert_snapshot!(bad("target = 0", "target = 0\nrepeat = 3"), @r"
    loop.toml:19:10: `metric.repeat = 3` is not built yet
       |
    19 | repeat = 3
       |          ^
       = built so far: 1
    ");
}

#[test]
fn usage_parsers() {
    assert_snapshot!(bad("[check]", "usage = \"claude\"\n[check]"), @r#"
    loop.toml:11:9: `worker.usage = "claude"` is not built yet
       |
    11 | usage = "claude"
       |         ^^^^^^^^
       = built so far: "json" or "none"
    "#);
}

#[test]
fn adapters() {
    assert_snapshot!(bad("[limits]", "[sandbox]\nallowed = [\"landlock\", \"bwrap\"]\n[limits]"), @r#"
    loop.toml:22:24: `"bwrap"` is not built yet
       |
    22 | allowed = ["landlock", "bwrap"]
       |                        ^^^^^^^
       = built so far: "landlock" or "none"
    "#);
}

#[test]
fn network_allow_lists() {
    assert_snapshot!(bad("[limits]", "[sandbox]\nworker = { network = { allow = [\"api.anthropic.com:443\"] } }\n[limits]"), @r#"
    loop.toml:22:22: `sandbox.worker.network = { … }` is not built yet
       |
    22 | worker = { network = { allow = ["api.anthropic.com:443"] } }
       |                      ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
       = built so far: "none" or "host"
    "#);
}

#[test]
fn cost_anomalies() {
    assert_snapshot!(bad("iterations = 10", "cost_sigma = 3.0"), @r"
    loop.toml:22:1: `limits.cost_sigma` is not built yet
       |
    22 | cost_sigma = 3.0
       | ^^^^^^^^^^
       = take it out; this version refuses it rather than ignore it
    ");
}

#[test]
fn required_pins() {
    assert_snapshot!(bad("[limits]", "[receipt]\nrequire = [\"model.version\"]\n[limits]"), @r#"
    loop.toml:22:11: `receipt.require = […]` is not built yet
       |
    22 | require = ["model.version"]
       |           ^^^^^^^^^^^^^^^^^
       = built so far: []
    "#);
}

#[test]
fn worktree_layers() {
    assert_snapshot!(bad("[limits]", "[worktree]\nsetup = \"npm ci\"\ninclude = \".worktreeinclude\"\n[limits]"), @r#"
    loop.toml:22:1: `worktree.setup` is not built yet
       |
    22 | setup = "npm ci"
       | ^^^^^
       = take it out; this version refuses it rather than ignore it

    loop.toml:23:1: `worktree.include` is not built yet
       |
    23 | include = ".worktreeinclude"
       | ^^^^^^^
       = take it out; this version refuses it rather than ignore it
    "#);
}

#[test]
fn refusals() {
    assert_snapshot!(bad("[check]", "max_refusals = 5\n[check]"), @r"
    loop.toml:11:1: `worker.max_refusals` is not built yet
       |
    11 | max_refusals = 5
       | ^^^^^^^^^^^^
       = take it out; this version refuses it rather than ignore it
    ");
}
