//! The holdout: a second check in a folder that no worker and no check can read. It is frozen by its git tree id when the loop starts, run
//! when the target is met, and of all that it prints and writes only its verdict stays.

mod folder;
mod place;
mod run;

use crate::contract::file::Holdout;
use crate::contract::frozen::HoldoutTerms;
use crate::contract::resolve::command;
use crate::contract::{Adapter, Contract};
use crate::error::{Error, Kind, Result};
use crate::exit::HaltReason;
use crate::git::Repo;
use crate::host::HostEnv;
use crate::sandbox;

use super::step::Tools;
use folder::{Folder, FolderError};
use place::Misplaced;
pub(super) use run::Held;

/// The terms of the holdout `file` for `contract`, with the tree id of its folder, and what its writer should know. Nothing is
/// written anywhere.
pub(super) fn freeze(
    repo: &Repo,
    contract: &Contract,
    file: &Holdout,
) -> Result<(HoldoutTerms, Vec<String>)> {
    let host = repo.host();
    let tools = Tools::new(host);
    let adapter = surely_an_image(contract);
    let refuse = |Misplaced { what, hint }| Error::usage(what).hint(hint);
    let found = place::find(repo, host, &tools, contract, adapter, &file.folder)?.map_err(refuse)?;
    let read = folder::read(&found, None, repo.hash_kind()).map_err(|error| unfit(&error, Kind::Usage))?;
    if is_reachable(repo, &read) {
        return Err(Error::usage(format!(
            "holdout_reachable: what is in {} is in the objects of this repository, where a worker may find it",
            found.display()
        ))
        .hint("a holdout that was once committed here is none any more: write another one"));
    }
    let terms = HoldoutTerms {
        command: command(&file.command),
        folder: file.folder.clone(),
        tree: read.tree,
        format: file.format,
        report: file.report.clone(),
        timeout_seconds: file.timeout.get(),
        success_exit_code: file.success_exit_code,
    };
    place::find_program(&tools, host, contract, adapter, &terms.command, &found)?;
    let mut warnings = Vec::new();
    if contract.sandbox.allowed.contains(&Adapter::None) {
        warnings.push(format!(
            "sandbox.allowed has \"none\": where nothing stronger works, the worker can read the holdout in {}",
            found.display()
        ));
    }
    Ok((terms, warnings))
}

/// An adapter that a contract allows, for what is asked before it is known which will be used: one with an image only if there is no
/// other, as then nothing is looked for on this machine.
fn surely_an_image(contract: &Contract) -> sandbox::Adapter {
    let built = || contract.sandbox.allowed.iter().filter_map(|allowed| allowed.built());
    built().find(|adapter| !adapter.has_image()).or_else(|| built().next()).unwrap_or(sandbox::Adapter::None)
}

/// Whether the folder, or every file in it that is not empty, is an object of the repository: then a worker that sees the
/// history can read it.
fn is_reachable(repo: &Repo, read: &Folder) -> bool {
    let mut files = read.files.iter().filter(|leaf| leaf.size > 0).peekable();
    repo.has_object(read.tree.0) || (files.peek().is_some() && files.all(|leaf| repo.has_object(leaf.id)))
}

/// Fails unless the folder of the contract's holdout is where it may be and holds what was frozen.
pub(super) fn is_fit(
    repo: &Repo,
    host: &HostEnv,
    tools: &Tools,
    contract: &Contract,
    adapter: sandbox::Adapter,
) -> Result<()> {
    let Some(terms) = &contract.holdout else { return Ok(()) };
    let found = find(repo, host, tools, contract, adapter, terms)?;
    let read = folder::read(&found, None, repo.hash_kind()).map_err(|error| unfit(&error, INVALID))?;
    is_frozen(terms, &found, &read)?;
    place::find_program(tools, host, contract, adapter, &terms.command, &found)
}

/// The kind of a fault that is this machine's.
const INVALID: Kind = Kind::Halt(HaltReason::WorkspaceInvalid);

fn find(
    repo: &Repo,
    host: &HostEnv,
    tools: &Tools,
    contract: &Contract,
    adapter: sandbox::Adapter,
    terms: &HoldoutTerms,
) -> Result<std::path::PathBuf> {
    let wrong = |Misplaced { what, hint }| Error::new(INVALID, what).hint(hint);
    place::find(repo, host, tools, contract, adapter, &terms.folder)?.map_err(wrong)
}

fn is_frozen(terms: &HoldoutTerms, found: &std::path::Path, read: &Folder) -> Result<()> {
    if read.tree == terms.tree {
        return Ok(());
    }
    Err(Error::new(
        INVALID,
        format!(
            "the holdout folder {} is not what was frozen: its tree is {}, the contract names {}",
            found.display(),
            read.tree,
            terms.tree
        ),
    )
    .hint("put it back as it was; what tools leave in it, such as __pycache__, counts")
    .hint("or renew the loop with the holdout as it is now: git loop renew ID NEW-ID -f NEW.toml"))
}

fn unfit(error: &FolderError, kind: Kind) -> Error {
    Error::new(kind, format!("the holdout folder cannot be used: {error}"))
        .hint("it may hold files, folders, and links that stay in it")
}
