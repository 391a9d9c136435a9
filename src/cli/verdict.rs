use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::json;

use super::Context;
use super::common::{find_loop, principals, verified};
use super::record::read;
use super::ui::Reply;
use crate::error::{Error, Result, ResultExt};
use crate::git::Repo;
use crate::ledger::outside::{OutsideVerdict, VERDICT_NAMESPACE};
use crate::ledger::trust::TrustRoot;
use crate::sign::Signer;

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
    if runs_the_loop(&repo, &signer, &verdict.loop_id) {
        context.ui.warn(&format!(
            "{} may run the loop; a verdict signed with the key that runs it is refused: sign it with a verifier's, --key KEY",
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

/// Whether the key is one of a runner of the loop, as far as the loop is here.
fn runs_the_loop(repo: &Repo, signer: &Signer, id: &str) -> bool {
    let look = || {
        let trust = TrustRoot::open(repo)?;
        let chain = verified(repo, &find_loop(repo, id)?, &trust)?;
        let runners = &chain.contract.roles.runner;
        Ok::<_, Error>(principals(signer, &trust)?.iter().any(|who| runners.contains(who)))
    };
    look().unwrap_or(false)
}
