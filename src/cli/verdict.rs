use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::json;

use super::Context;
use super::record::read;
use super::ui::Reply;
use crate::error::{Error, Result, ResultExt};
use crate::ledger::outside::{OutsideVerdict, VERDICT_NAMESPACE};

/// Sign the verdict of a check that ran outside of git-loop.
#[derive(Debug, Args)]
pub struct VerdictArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Sign a verdict: its signature is written to FILE.sig.
    ///
    /// FILE is a JSON object with `loop`, `checkpoint`, `candidate_tree`, `check_tree`, `frozen`, `exit_code`, `metric_value`, `failures` and
    /// `collected`. It is written anew in canonical form if it is not in that form. The key is that of one of the contract's verifiers, and
    /// not the one that runs the loop; `ssh-keygen -Y sign -n git-loop-verdict` signs a canonical file as well.
    Sign {
        /// The verdict.
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
}

pub fn run(context: &Context, args: &VerdictArgs) -> Result<Reply> {
    let Action::Sign { file } = &args.action;
    let shown = file.display();
    let bytes = read(context, "verdict", file)?;
    let verdict: OutsideVerdict = serde_json::from_slice(&bytes).map_err(|error| {
        Error::usage(format!("{shown} is no verdict: {error}"))
            .hint("its fields: loop, checkpoint, candidate_tree, check_tree, frozen, exit_code, metric_value, failures, collected")
    })?;
    let canonical = verdict.to_bytes();
    OutsideVerdict::from_bytes(&canonical)
        .map_err(|error| Error::usage(format!("{shown} is no verdict: {error}")))?;
    let repo = context.repo_to_look_at()?;
    let signer = context.signer(&repo)?;
    if context.key.is_none() {
        context.ui.warn(&format!(
            "it is signed with the configured key {}; a verdict that is signed with the key that runs the loop is refused: name a verifier's with --key KEY",
            signer.fingerprint()
        ));
    }
    let signature = signer.sign(VERDICT_NAMESPACE, &canonical)?;
    let path = context.directory.join(file);
    if canonical != bytes {
        std::fs::write(&path, &canonical).or_workspace(|| format!("{shown} cannot be written"))?;
    }
    let mut beside = path.into_os_string();
    beside.push(".sig");
    std::fs::write(&beside, &signature).or_workspace(|| format!("{shown}.sig cannot be written"))?;
    Ok(Reply::text(format!(
        "signed {shown} with {}; the signature is in {shown}.sig\n",
        signer.fingerprint()
    ))
    .hint(format!("git loop record {} --candidate REV --verdict {shown}", verdict.loop_id))
    .field("key", json!(signer.fingerprint())))
}
