//! Review and promotion of loops whose class is not `lasting_code`.

use crate::support::TestEnv;
use crate::support::scenario::{HONEST, numbers};

fn converged() -> TestEnv {
    let env = TestEnv::new();
    numbers(&env, HONEST, "");
    env.git_loop(&["run", "fix"]).expect_code(10);
    env
}

fn key(env: &TestEnv, name: &str) -> String {
    env.key(name).to_str().unwrap().to_owned()
}

#[test]
fn an_independent_review_and_a_promotion_make_it_succeed() {
    let env = converged();
    let ann = key(&env, "ann");
    env.git_loop(&["promote", "fix", "--key", &ann]).expect_code(1).expect_stderr("no approving review");
    let review = env.git_loop(&["review", "fix", "--approve", "--comment", "fine", "--key", &ann, "--json"]);
    let review = review.expect_code(0).json();
    assert_eq!(review["status"], "awaiting_review");
    let promoted = env.git_loop(&["promote", "fix", "--key", &ann, "--json"]).expect_code(0).json();
    assert_eq!(promoted["status"], "succeeded");
    assert_eq!(promoted["iteration_count"], 3);
    assert_eq!(
        promoted["proof"].as_array().unwrap().len(),
        3 + 3 + 1,
        "check outputs, accepted records, the review"
    );
    env.git_loop(&["verify", "fix"]).expect_code(0);
    let status = env.git_loop(&["status", "fix", "--json"]).expect_code(0).json();
    assert_eq!(status["status"], "succeeded");
    assert_eq!(status["halt_reason"], "success_condition_met");
    // After a promotion nothing more is taken.
    env.git_loop(&["review", "fix", "--reject", "--key", &ann]).expect_code(1);
    env.git_loop(&["promote", "fix", "--key", &ann]).expect_code(1);
    env.git_loop(&["run", "fix"]).expect_code(10);
}

#[test]
fn who_ran_it_cannot_review_it() {
    let env = converged();
    env.git_loop(&["review", "fix", "--approve"]).expect_code(1).expect_stderr("not a reviewer");
    // Not even if the trust file gives the runner's key a reviewer's name as well.
    env.write_trust(&[("runner", "runner@example.org"), ("runner", "ann@example.org")]);
    env.git_loop(&["review", "fix", "--approve"]).expect_code(1).expect_stderr("cannot review");
}

#[test]
fn one_rejection_ends_it() {
    let env = converged();
    let ann = key(&env, "ann");
    let lead = key(&env, "lead");
    env.git_loop(&["review", "fix", "--approve", "--key", &lead]).expect_code(0);
    env.git_loop(&["review", "fix", "--reject", "--comment", "no", "--key", &ann]).expect_code(16);
    let status = env.git_loop(&["status", "fix", "--json"]).expect_code(0).json();
    assert_eq!(status["halt_reason"], "reviewer_rejected");
    env.git_loop(&["promote", "fix", "--key", &lead]).expect_code(1).expect_stderr("reviewer_rejected");
    env.git_loop(&["run", "fix"]).expect_code(16);
    env.git_loop(&["verify", "fix"]).expect_code(0);
}

#[test]
fn a_loop_that_has_not_converged_cannot_be_reviewed() {
    let env = TestEnv::new();
    numbers(&env, HONEST, "");
    let ann = key(&env, "ann");
    env.git_loop(&["start", "fix"]).expect_code(0);
    env.git_loop(&["review", "fix", "--approve", "--key", &ann])
        .expect_code(1)
        .expect_stderr("not reached its target");
    env.git_loop(&["run", "fix", "--once"]).expect_code(0);
    env.git_loop(&["stop", "fix", "--key", &ann]).expect_code(0);
    env.git_loop(&["review", "fix", "--approve", "--key", &ann])
        .expect_code(1)
        .expect_stderr("operator_stopped");
}
