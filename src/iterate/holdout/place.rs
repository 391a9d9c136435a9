//! Where a holdout may lie: nowhere that a worker or a check of the loop can read.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::contract::{CommandLine, Contract};
use crate::error::Result;
use crate::git::Repo;
use crate::host::HostEnv;
use crate::iterate::grants::Folders;
use crate::iterate::left::is_relative;
use crate::iterate::places::Places;
use crate::iterate::step::{Role, Tools, dirs_of, program, read_only};
use crate::sandbox::{self, Adapter};

/// What is wrong with the folder, or with where it is.
#[derive(Debug)]
pub(super) struct Misplaced {
    pub what: String,
    pub hint: &'static str,
}

/// The folder that a contract names, on this machine.
pub(super) fn expand(host: &HostEnv, folder: &str) -> PathBuf {
    match (folder.strip_prefix("~/"), host.home_dir()) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => host.absolute(folder),
    }
}

/// The folder without links, or why it may not be where it is.
pub(super) fn find(
    repo: &Repo,
    host: &HostEnv,
    tools: &Tools,
    contract: &Contract,
    adapter: Adapter,
    folder: &str,
) -> Result<std::result::Result<PathBuf, Misplaced>> {
    let named = expand(host, folder);
    let Some(real) = named.canonicalize().ok().filter(|real| real.is_dir()) else {
        let what = format!("the holdout folder {} is not there", named.display());
        return Ok(Err(Misplaced { what, hint: "put it there, or name another one in holdout.folder" }));
    };
    let inside = |what: &str, place: &Path| Misplaced {
        what: format!("the holdout folder {} and {what} {} are not apart", named.display(), place.display()),
        hint: "keep it where no worker and no check can read it, outside of the repository",
    };
    for place in Folders::of(repo).all() {
        if overlap(&real, &place) {
            return Ok(Err(inside("the repository or a worktree of it,", &place)));
        }
    }
    let worktrees = Places::folder(repo, host)?;
    if overlap(&real, &worktrees) {
        return Ok(Err(inside("the folder of the loops' worktrees,", &worktrees)));
    }
    let granted = read_only(host, contract);
    if let Some(place) = granted.iter().find(|place| overlaps(&real, place)) {
        return Ok(Err(inside("what sandbox.read_only gives to worker and check,", place)));
    }
    let mut system: Vec<PathBuf> = sandbox::always_readable().iter().map(PathBuf::from).collect();
    // Where there is an image nothing of this machine's tools is given to anybody.
    if !adapter.has_image() {
        system.extend(tools.toolchain(contract)?.readable.iter().cloned());
    }
    if let Some(place) = system.into_iter().find(|place| overlaps(&real, place)) {
        return Ok(Err(inside("what every worker and check may read,", &place)));
    }
    if let CommandLine::Exec(words) = &contract.worker.command {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        if let Some(place) = sandbox::readable_arguments(&words).iter().find(|place| overlaps(&real, place)) {
            return Ok(Err(inside("what worker.command names,", place)));
        }
    }
    Ok(Ok(real))
}

/// Whether the program of a holdout is there: in `folder`, or on this machine if it is not an image that has the others.
pub(super) fn find_program(
    tools: &Tools,
    host: &HostEnv,
    contract: &Contract,
    adapter: Adapter,
    command: &CommandLine,
    folder: &Path,
) -> Result<()> {
    let dirs = if adapter.has_image() {
        Vec::new()
    } else {
        dirs_of(tools.toolchain(contract)?, host, Role::Holdout)
    };
    program(adapter, command, &dirs, folder, Role::Holdout)?;
    let CommandLine::Exec(words) = command else { return Ok(()) };
    match words.first().filter(|word| is_relative(word)) {
        Some(program) if !folder.join(program).is_file() => Err(crate::error::Error::workspace(format!(
            "the holdout's program {program} is not in {}",
            folder.display()
        ))
        .hint("a program that is no part of the folder is named by its name alone, or by its absolute path")),
        _ => Ok(()),
    }
}

fn overlaps(real: &Path, place: &Path) -> bool {
    place.canonicalize().is_ok_and(|place| overlap(real, &place))
}

/// Whether one of two folders lies in the other.
fn overlap(one: &Path, other: &Path) -> bool {
    one.starts_with(other) || other.starts_with(one)
}
