//! The demo is a test as well.

use crate::support::TestEnv;

#[test]
fn the_demo_plays_its_story_and_leaves_nothing_behind() {
    let env = TestEnv::new();
    let before = std::fs::read_dir(env.home().join("tmp")).unwrap().count();
    let output = env.git_loop_in(&env.root(), &["demo"]).expect_code(0);
    for needle in [
        "iteration 2: rejected (tests_regressed)",
        "blocked (verifier_drift)",
        "promoted fix",
        "the push is refused",
        "ok fix: 13 records and 4 decisions hold",
    ] {
        assert!(output.stdout.contains(needle), "{needle:?} not in {}", output.stdout);
    }
    assert_eq!(std::fs::read_dir(env.home().join("tmp")).unwrap().count(), before);
}

#[test]
fn a_kept_demo_can_be_looked_at() {
    let env = TestEnv::new();
    let kept = env.root().join("kept");
    let json = env
        .git_loop_in(&env.root(), &["demo", "--keep", kept.to_str().unwrap(), "--json"])
        .expect_code(0)
        .json();
    assert_eq!(json["status"], "ok");
    assert_eq!(json["steps"].as_array().unwrap().len(), 7);
    assert!(kept.join("repo/.git").is_dir());
    env.git_loop_in(&env.root(), &["demo", "--keep", kept.to_str().unwrap()]).expect_code(129);
}
