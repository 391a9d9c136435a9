use clap::Args;
use serde_json::json;

use super::Context;
use super::common::{find_or_only, result_fields, verified_with};
use super::ui::Reply;
use crate::error::Result;
use crate::explain::{Reader, suggest_id};
use crate::ledger::append::Tip;
use crate::ledger::trust::TrustRoot;
use crate::render;

/// Say why a loop halted, or where it stands, and what to type next.
///
/// The verdict is one of done, raise-the-limit, investigate, do-not-retry, fix-substrate, fix-config and review. It follows from
/// the halt reason and the trajectory by one table.
#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// The loop; may be left out if there is only one.
    #[arg(value_name = "ID")]
    id: Option<String>,
}

pub fn run(context: &Context, args: &ExplainArgs) -> Result<Reply> {
    let repo = context.repo_to_look_at()?;
    let trust = TrustRoot::open(&repo)?;
    let found = find_or_only(&repo, args.id.as_deref())?;
    let mut reader = Reader::new();
    let chain = verified_with(&repo, &found, &trust, |step| reader.see(step))?;
    for warning in &chain.warnings {
        context.ui.warn(warning);
    }
    let new_id = suggest_id(found.id.as_str(), |id| {
        // An id whose refs cannot be read is none to propose.
        !matches!(repo.read_ref(id.refs().ledger().as_ref()), Ok(None))
    });
    let explained = reader.explain(&chain, &new_id);
    let text = render::explain::explanation(&chain.contract, &chain.tip.state, &explained, context.ui.out());
    let tip = Tip::from(chain.into_inner());
    let mut reply = Reply::text(text)
        .paged()
        .status(tip.state.status.as_str())
        .fields(result_fields(&tip, &[]))
        .field("exit_code", json!(tip.state.halt_reason.map_or(0, |reason| reason.exit_code().get())))
        .field("verdict", json!(explained.verdict))
        .field("because", json!(explained.because))
        .field("trend", json!(explained.trend))
        .field("decided_by", json!(explained.decided_by))
        .field("said", json!(explained.said))
        .field("trajectory", json!(explained.trajectory))
        .field("regressions", json!(explained.regressions))
        .field("returned", json!(explained.returned))
        .field("contradiction", json!(explained.contradiction))
        .field("costs", json!(explained.costs));
    reply.fields.remove("proof");
    reply.hints = explained.next;
    Ok(reply)
}
