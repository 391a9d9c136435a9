//! What the design names and this version does not have: refused, never ignored.

use insta::assert_snapshot;

use super::bad;

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
