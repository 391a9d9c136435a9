use std::io::Read;

use clap::Args;
use serde_json::json;

use super::Context;
use super::ui::{Reply, Tone};
use crate::error::{Error, Result, ResultExt};
use crate::gate::known::{ByTrust, known_loops};
use crate::gate::{Gate, Objects, Side, Update, Verdict, commits, input, range_update};
use crate::git::Repo;
use crate::ledger::trust::TrustRoot;

/// Judge what a push or a pull request brings, as the hooks do.
///
/// Refuses content of lasting_code loops that are not promoted. The range is judged commit by commit, each against its
/// first parent.
#[derive(Debug, Args)]
pub struct GateArgs {
    /// The commits to judge, for example origin/main..HEAD.
    #[arg(value_name = "OLD..NEW", required_unless_present = "stdin")]
    range: Option<String>,
    /// Read `<old> <new> <ref>` lines as a pre-receive hook gets them.
    #[arg(long, conflicts_with = "range")]
    stdin: bool,
}

pub fn run(context: &Context, args: &GateArgs) -> Result<Reply> {
    let repo = context.repo_to_look_at()?;
    let (updates, side) = match &args.range {
        Some(range) => (vec![range_update(repo.gix(), range.as_str().into())?], Side::Range),
        None => (input::pre_receive(&read_stdin()?).map_err(crate::gate::GateError::from)?, Side::Server),
    };
    let verdict = judge(&repo, &side, &updates)?;
    answer(context, &verdict)
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

/// Judges `updates` for `side`.
pub(super) fn judge(repo: &Repo, side: &Side, updates: &[Update]) -> Result<Verdict> {
    let objects = Objects::new(repo.gix(), repo.incoming())
        .map_err(|cause| Error::workspace("the object store cannot be opened").caused_by(cause))?;
    let protected =
        commits::protected_tip(repo.gix(), &objects, side, repo.config().loop_protected_branch().as_deref());
    // Without a trust root no ledger counts as promoted and none may be pushed; code that no loop made still may.
    let trust = TrustRoot::open(repo);
    let loops = known_loops(repo, trust.as_ref().ok())?;
    let ledgers = ByTrust { repo, trust: trust.as_ref().map_err(Error::chain) };
    let gate =
        Gate { repo: repo.gix(), objects: &objects, side, protected, loops: &loops, ledgers: &ledgers };
    Ok(gate.judge(updates)?)
}

/// The verdict as an answer: an error with exit code 1 if anything is refused.
pub(super) fn answer(context: &Context, verdict: &Verdict) -> Result<Reply> {
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
    let text = format!(
        "{} {} judged, nothing is refused\n",
        context.ui.out().tone(Tone::Good, "ok"),
        crate::render::line::plural(verdict.commits as u64, "commit", "commits"),
    );
    Ok(Reply::text(text).field("verdict", json!(verdict)))
}
