//! What the design names and this version does not have: refused, never ignored.

use insta::assert_snapshot;

use super::bad;

#[test]
fn adapters() {
    assert_snapshot!(bad("[limits]", "[sandbox]\nallowed = [\"landlock\", \"e2b\", \"nono\"]\n[limits]"), @r#"
    loop.toml:22:24: `"e2b"` is not built yet
       |
    22 | allowed = ["landlock", "e2b", "nono"]
       |                        ^^^^^
       = built so far: "landlock", "bwrap", "docker", "podman", "sandbox-exec" or "none"

    loop.toml:22:31: `"nono"` is not built yet
       |
    22 | allowed = ["landlock", "e2b", "nono"]
       |                               ^^^^^^
       = built so far: "landlock", "bwrap", "docker", "podman", "sandbox-exec" or "none"
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
fn refusals() {
    assert_snapshot!(bad("[check]", "max_refusals = 5\n[check]"), @r"
    loop.toml:11:1: `worker.max_refusals` is not built yet
       |
    11 | max_refusals = 5
       | ^^^^^^^^^^^^
       = take it out; this version refuses it rather than ignore it
    ");
}
