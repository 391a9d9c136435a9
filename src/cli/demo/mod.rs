//! `git loop demo`: the whole story on a small real repository, played with the real executable.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use super::Context;
use super::ui::{Reply, Tone};
use crate::error::{Error, Result};
use crate::ledger::lasting::can_measure;

mod files;
mod stage;

use stage::Stage;

/// Play the whole story on a small repository: a loop that converges, a cheat that is blocked, a review, a push.
///
/// Needs git and a POSIX shell. Uses keys and a home of its own, no network, and leaves nothing behind unless --keep
/// names a folder.
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// Keep everything in DIR, which must not exist, to look around afterwards.
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
}

pub fn run(context: &Context, args: &DemoArgs) -> Result<Reply> {
    let stage = Stage::open(context, args.keep.as_deref())?;
    let told = play(&stage);
    if let Err(error) = told {
        // What failed is worth a look only where it is kept.
        return Err(if args.keep.is_some() {
            error
        } else {
            error.hint("git loop demo --keep DIR leaves everything to look at")
        });
    }
    let mut reply = Reply::text("");
    if let Some(folder) = &args.keep {
        stage.tell("Look around:");
        for line in stage.look_around() {
            stage.tell(&format!("  {line}"));
        }
        reply = reply.field("kept", folder.display().to_string());
    } else {
        stage.tell("Everything was removed again. To look around: git loop demo --keep DIR");
    }
    Ok(reply.field("steps", json!(stage.steps())))
}

fn play(stage: &Stage<'_>) -> Result<()> {
    stage.step("A repository with three broken functions, and tests that say so");
    stage.set_up()?;
    stage.sandbox_note();

    stage.step("A bounded loop: a worker proposes, a check that it cannot touch decides");
    stage.tell("The scripted worker mends add, then breaks it again while mending max, then does better.");
    stage.git_loop("runner", &["start", "fix"], 0)?;
    let run = stage.git_loop("runner", &["run", "fix"], 10)?;
    expect(&run, "rejected (tests_regressed)", "the regression is rolled back")?;
    stage.tell("Every step is a signed commit; git itself reads the story:");
    stage.git(&["log", "--first-parent", "--reverse", "--format=%h %s", "refs/loops/fix/ledger"], 0)?;

    stage.step("A cheat, first without a gate: it edits the tests, and they pass");
    stage.cheat_without_a_gate()?;

    stage.step("The same cheat in a loop");
    stage.write_terms("cheat")?;
    let run = stage.git_loop("runner", &["run", "cheat", "-f", "cheat.toml"], 13)?;
    expect(&run, "verifier_drift", "the edit of the tests is seen")?;
    stage.tell("Blocked before the check ran; the attempt is kept on the record: git loop diff cheat 1");

    stage.step("A review and a promotion, with another key");
    stage.git_loop("reviewer", &["review", "fix", "--approve", "--comment", "read it, tried it"], 0)?;
    stage.git_loop("reviewer", &["promote", "fix"], 0)?;

    stage.step("A remote, and code that is meant to last");
    stage.make_remote()?;
    stage.git_loop_lines("runner", &["hooks", "install"], 0, &["pre-push installed"])?;
    stage.tell("What is promoted may leave:");
    stage.git(&["push", "--quiet", "origin", "refs/loops/fix/head:refs/heads/mended"], 0)?;
    stage.tell("Another repair, as lasting_code: another person approves its terms, and it leaves only once promoted.");
    stage.write_terms("keep")?;
    stage.git_loop_lines("reviewer", &["start", "keep", "-f", "keep.toml"], 0, &["started"])?;
    if can_measure() {
        stage.tell("What it adds is measured, its invariant is run on the base and on the candidate, and its promotion packet has to fit:");
        stage.git_loop_lines("runner", &["run", "keep"], 10, &["accepted"])?;
        let push = stage.git_lines(
            &["push", "origin", "refs/loops/keep/head:refs/heads/lasting"],
            1,
            &["the push is refused"],
        )?;
        expect(&push, "keep", "the refusal names the loop")?;
        stage.tell("Not promoted, so it stays: that takes a review with every attestation, and a person.");
    } else {
        stage.tell("Lasting code is measured, and this git-loop was built without its feature `measure`: it is not run here.");
    }
    stage.make_unrelated_branch()?;
    stage.tell("Another branch passes, and so do the ledgers themselves:");
    stage.git(&["push", "--quiet", "origin", "notes", "refs/loops/*:refs/loops/*"], 0)?;

    stage.step("Anyone can check the claim, offline, from a fresh clone");
    stage.clone_and_fetch()?;
    let verify = stage.git_loop_in_clone(&["verify", "--all"], 0)?;
    expect(&verify, "records and", "every ledger verifies")?;
    Ok(())
}

/// The demo is a test as well: what it shows must be so.
fn expect(output: &str, needle: &str, what: &str) -> Result<()> {
    if output.contains(needle) {
        return Ok(());
    }
    Err(Error::internal(format!("the demo expected that {what}, but {needle:?} is not in what was printed")))
}

/// How headings look.
const HEADING: Tone = Tone::Bold;
