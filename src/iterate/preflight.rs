//! What must hold before a worker is paid: its program and the check's can be started, and what will be recorded can be
//! written. Everything here is looked at, and nothing is changed.

use std::fs;
use std::path::{Path, PathBuf};

use gix::objs::tree::EntryKind;

use super::commands::{Tools, argv, is_relative};
use super::session::Session;
use crate::contract::{CommandLine, Contract};
use crate::error::{Error, Result, ResultExt};
use crate::git::Repo;
use crate::host::HostEnv;
use crate::oid::Oid;
use crate::sandbox::toolchain::{self, Toolchain};

/// Programs that run the file that their first argument names.
const INTERPRETERS: [&str; 8] = ["sh", "bash", "dash", "zsh", "ksh", "ash", "python", "python3"];

impl Session<'_> {
    /// What must hold before any worker money is spent, besides the test signature that was made already.
    pub(super) fn preflight(&self) -> Result<()> {
        let contract = &self.tip.contract;
        let green = self.tip.state.last_green_commit;
        let toolchain = self.toolchain()?;
        for role in [Role::Worker, Role::Check] {
            let dirs = dirs(toolchain, self.host, role);
            find_program(self.repo, contract, role, green, &dirs, &self.places.worktrees)?;
        }
        for name in &contract.worker.env {
            if self.host.var(name).is_none() {
                (self.say)(&format!("note: {name} is not set; the contract passes it to the worker"));
            }
        }
        if self.tip.id.0.is_null() {
            return Ok(()); // A rehearsal pays for nothing and records nothing.
        }
        // What a worker has cost is noted here as soon as it has ended.
        let probe = self.places.private.join("probe");
        fs::write(&probe, b"")
            .and_then(|()| fs::remove_file(&probe))
            .or_workspace(|| format!("{} cannot be written to", self.places.private.display()))
            .map_err(|error| error.hint("check the free space and who may write there"))?;
        self.can_record()
    }

    /// Fails if the transaction that ends an iteration could not be made: it comes after the worker was paid. Asked
    /// before each of them, as somebody may have moved or locked a ref meanwhile.
    pub(super) fn can_record(&self) -> Result<()> {
        let refs = self.id.refs();
        let (ledger, head, notes) = (refs.ledger(), refs.head(), refs.notes());
        // A receipt goes into the notes; better to say now that they are in the middle of a merge.
        self.repo.check_no_notes_merge(notes.as_ref())?;
        self.repo.check_refs_can_change(&[ledger, head, notes.clone()])?;
        if let Some(tip) = self.repo.read_ref(notes.as_ref())? {
            self.repo.read_note_lines(Some(tip), self.tip.state.last_green_commit.0).map_err(|cause| {
                Error::workspace(format!("{notes} is no ref of notes, and every iteration adds one"))
                    .caused_by(cause)
                    .hint(format!(
                        "delete it, the ledger has the receipts as well: git update-ref -d {notes}"
                    ))
            })?;
        }
        Ok(())
    }
}

/// Whose command it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Worker,
    Check,
}

/// What `run` would refuse for want of a program: one error for each of the two commands. A toolchain that cannot be
/// looked at is one as well.
pub(super) fn missing_programs(repo: &Repo, host: &HostEnv, contract: &Contract) -> Vec<Error> {
    let tools = Tools::new(host);
    let toolchain = match tools.toolchain(contract) {
        Ok(toolchain) => toolchain,
        Err(error) => return vec![error],
    };
    [Role::Worker, Role::Check]
        .into_iter()
        .filter_map(|role| {
            let dirs = dirs(toolchain, host, role);
            let base = contract.base.commit;
            find_program(repo, contract, role, base, &dirs, repo.common_dir()).err()
        })
        .collect()
}

/// The presets whose tools are not on this machine.
pub(super) fn missing_presets(host: &HostEnv, contract: &Contract) -> Vec<toolchain::Preset> {
    Tools::new(host).toolchain(contract).map(|found| found.missing.clone()).unwrap_or_default()
}

/// The folders in which a program is looked for.
fn dirs(toolchain: &Toolchain, host: &HostEnv, role: Role) -> Vec<PathBuf> {
    let mut toolchain = toolchain.clone();
    if role == Role::Worker {
        toolchain.path_dirs.extend(super::commands::user_path(host));
    }
    super::commands::search_dirs(&toolchain)
}

/// Fails if the program of a command cannot be found, or the script that it is to run.
fn find_program(
    repo: &Repo,
    contract: &Contract,
    role: Role,
    green: Oid,
    dirs: &[PathBuf],
    place: &Path,
) -> Result<()> {
    let (what, command) = match role {
        Role::Worker => ("worker", &contract.worker.command),
        Role::Check => ("check", &contract.check.command),
    };
    let CommandLine::Exec(words) = command else {
        return argv(command, dirs, place, what).map(drop);
    };
    let entry = |path: &str| {
        let unreadable = || format!("green {green} cannot be read");
        let tree = repo.commit_tree(green.0).or_workspace(unreadable)?;
        let entry = repo.entry_at(tree, path.into()).or_workspace(unreadable)?;
        Ok::<_, Error>(entry.map(|entry| entry.mode))
    };
    if let Some(program) = words.first().filter(|word| is_relative(word)) {
        let path = program.trim_start_matches("./");
        return match entry(path)? {
            Some(EntryKind::BlobExecutable | EntryKind::Link) => Ok(()),
            Some(_) => {
                Err(Error::workspace(format!("the {what}'s program {program} is not executable in {green}"))
                    .hint(format!(
                        "git update-index --chmod=+x {path}, commit it, or run it with its interpreter"
                    )))
            }
            None => {
                Err(Error::workspace(format!("the {what}'s program {program} is not in the tree of {green}"))
                    .hint("commit it, or name a program outside the repository by its absolute path"))
            }
        };
    }
    argv(command, dirs, place, what)?;
    let Some(script) = script(words) else { return Ok(()) };
    let warm = &contract.worktree.warm;
    if warm.iter().any(|folder| Path::new(script).starts_with(folder)) || entry(script)?.is_some() {
        return Ok(());
    }
    Err(Error::workspace(format!("the {what}'s script {script} is not in the tree of {green}"))
        .hint("commit it, or name a file outside the repository by its absolute path"))
}

/// The file of the worktree that an interpreter is to run. Only where that is certain: directly after its name.
fn script(words: &[String]) -> Option<&str> {
    let program = words.first()?.rsplit('/').next()?;
    let script = words.get(1)?;
    let path = script.trim_start_matches("./");
    let is_path =
        !script.starts_with(['-', '/']) && !path.is_empty() && path.split('/').all(|part| part != "..");
    (INTERPRETERS.contains(&program) && is_path).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::script;

    fn found(words: &[&str]) -> Option<String> {
        let words: Vec<String> = words.iter().map(ToString::to_string).collect();
        script(&words).map(str::to_owned)
    }

    #[test]
    fn a_script_is_named_only_where_that_is_certain() {
        assert_eq!(found(&["sh", "./ci/check.sh"]).as_deref(), Some("ci/check.sh"));
        assert_eq!(found(&["/usr/bin/python3", "run.py", "-v"]).as_deref(), Some("run.py"));
        for words in [
            &["sh", "-c", "make"][..],
            &["python3", "-m", "pytest"],
            &["sh", "/srv/check.sh"],
            &["sh", "../check.sh"],
            &["node", "test"],
            &["cargo", "test"],
            &["sh"],
            &[],
        ] {
            assert_eq!(found(words), None, "{words:?}");
        }
    }
}
