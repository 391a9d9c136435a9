use std::fmt::Write as _;
use std::io::Read;

use clap::Args;
use serde_json::json;

use super::Context;
use super::ui::{Reply, Tone};
use crate::error::{Error, Result, ResultExt};
use crate::gate::known::{ByTrust, Place, known_loops};
use crate::gate::{Gate, Objects, Side, Update, Verdict, commits, input, range_update};
use crate::git::Repo;
use crate::ledger::trust::TrustRoot;
use crate::render::line::plural;

/// Judge what a push or a pull request brings, as the hooks do.
///
/// Refuses content of lasting_code loops that are not promoted. Commits are judged one by one, each against its first
/// parent. The protected side has what OLD reaches and nothing else: not the branches that happen to be here.
#[derive(Debug, Args)]
pub struct GateArgs {
    /// The commits to judge, for example origin/main..HEAD.
    #[arg(value_name = "OLD..NEW", required_unless_present = "stdin")]
    range: Option<String>,
    /// Read `<old> <new> <ref>` lines as a pre-receive hook gets them, for a CI job that runs after a push.
    ///
    /// Only what the old ids reach counts as known; for a ref that is new (an id of zeros) all of its history is judged.
    /// In a server's hook use git-loop hook pre-receive, which also knows the branches of the server.
    #[arg(long, conflicts_with = "range")]
    stdin: bool,
}

pub fn run(context: &Context, args: &GateArgs) -> Result<Reply> {
    let repo = context.repo_to_look_at()?;
    let updates = match &args.range {
        Some(range) => vec![range_update(repo.gix(), range.as_str().into())?],
        None => input::pre_receive(&read_stdin()?).map_err(crate::gate::GateError::from)?,
    };
    let verdict = judge(&repo, &Side::Range, Place::Here, &updates)?;
    let what = args.range.as_deref().unwrap_or("the push");
    let reply = answer(context, &verdict, &explain(what, &verdict))?;
    Ok(if verdict.ledgers == 0 && !updates.is_empty() {
        reply.hint("the gate knows the loops of this repository only; fetch them first: git fetch <remote> 'refs/loops/*:refs/loops/*'")
    } else {
        reply
    })
}

/// What was judged, and why it passes.
fn explain(what: &str, verdict: &Verdict) -> String {
    if verdict.updates == 0 {
        return "nothing to judge: the input names no ref".to_owned();
    }
    let mut text = format!("{what} passes: ");
    match (&verdict.watched[..], verdict.commits, verdict.ledgers) {
        ([], _, 0) => text += "no loop is known in this repository, so there is nothing to hold back",
        ([], _, loops) => {
            let loops = plural(loops as u64, "loop is", "loops are");
            let _ = write!(
                text,
                "{loops} known in this repository, and none is an unpromoted lasting_code loop, so there is nothing to hold back"
            );
        }
        (_, 0, _) => text += "it brings no commit that the protected side does not have",
        (watched, commits, _) => {
            let commits = plural(commits as u64, "commit", "commits");
            let loops = if watched.len() == 1 { "loop" } else { "loops" };
            let watched = watched.join(", ");
            let _ = write!(
                text,
                "{commits} judged, none with anything that is held back for the unpromoted lasting_code {loops} {watched}"
            );
        }
    }
    if verdict.loop_refs > 0 {
        let refs = plural(verdict.loop_refs as u64, "ref of a loop keeps", "refs of loops keep");
        let _ = write!(text, "; {refs} the rules of ledgers");
    }
    text
}

/// Everything that a hook of git hands over on standard input.
pub(super) fn read_stdin() -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    std::io::stdin()
        .lock()
        .read_to_end(&mut bytes)
        .or_workspace(|| "standard input cannot be read".to_owned())?;
    Ok(bytes)
}

/// Judges `updates` for `side`; `place` is where the ledgers of the receiving side are.
pub(super) fn judge(repo: &Repo, side: &Side, place: Place, updates: &[Update]) -> Result<Verdict> {
    let objects = Objects::new(repo.gix(), repo.incoming())
        .map_err(|cause| Error::workspace("the object store cannot be opened").caused_by(cause))?;
    let protected =
        commits::protected_tip(repo.gix(), &objects, side, repo.config().loop_protected_branch().as_deref());
    // Without a trust root no ledger counts as promoted and none may be pushed; code that no loop made still may.
    let trust = TrustRoot::open(repo);
    let known = known_loops(repo, trust.as_ref().ok(), updates)?;
    let ledgers = ByTrust::new(repo, trust.as_ref().map_err(Error::chain), place);
    let gate =
        Gate { repo: repo.gix(), objects: &objects, side, protected, loops: &known.loops, ledgers: &ledgers };
    let verdict = gate.judge(updates)?;
    Ok(Verdict { ledgers: known.ledgers, ..verdict })
}

/// The verdict as an answer: an error with exit code 1 if anything is refused, else `why` it passes.
pub(super) fn answer(context: &Context, verdict: &Verdict, why: &str) -> Result<Reply> {
    for note in &verdict.notes {
        context.ui.warn(note);
    }
    if let Some(error) = verdict.error() {
        if context.ui.json() {
            context.ui.say(&error.chain());
            return Ok(Reply::text("")
                .status("refused")
                .errors([&error])
                .field("verdict", json!(verdict))
                .exit(error.exit_code()));
        }
        return Err(error);
    }
    let text = format!("{} {why}\n", context.ui.out().tone(Tone::Good, "ok"));
    Ok(Reply::text(text).field("verdict", json!(verdict)))
}
