//! What must hold before a worker is paid: its program and the check's can be started, and what will be recorded can be
//! written. Everything here is looked at, and nothing is changed.

use std::fs;
use std::path::{Path, PathBuf};

use gix::objs::tree::EntryKind;

use super::credential::no_credentials_granted;
use super::grants;
use super::holdout;
use super::lasting::can_judge;
use super::left::is_relative;
use super::session::{Session, check_is_elsewhere, choose_adapter};
use super::step::{Role, Tools, argv, dirs_of};
use crate::contract::resolve::command;
use crate::contract::{CommandLine, Contract};
use crate::error::{Error, Result, ResultExt};
use crate::git::{LoopId, Repo};
use crate::host::HostEnv;
use crate::oid::Oid;
use crate::render::line::bytes;
use crate::sandbox::toolchain;
use crate::worktree;

/// Programs that run the file that their first argument names.
const INTERPRETERS: [&str; 8] = ["sh", "bash", "dash", "zsh", "ksh", "ash", "python", "python3"];

impl Session<'_> {
    /// What must hold before any worker money is spent, besides the test signature that was made already.
    pub(super) fn preflight(&self) -> Result<()> {
        let contract = &self.tip.contract;
        can_judge(contract)?;
        self.has_what_it_runs()?;
        holdout::is_fit(self.repo, self.host, &self.tools, contract, self.adapter)?;
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

    /// Fails if a program or script of worker or check is missing, or if a sandbox would open a credential of the user's to them.
    pub(super) fn has_what_it_runs(&self) -> Result<()> {
        let contract = &self.tip.contract;
        let green = self.tip.state.last_green_commit;
        no_credentials_granted(self.host, contract)?;
        let toolchain = self.toolchain()?;
        self.hidden()?;
        // In an image nothing can be looked for from outside.
        let roles = if self.adapter.has_image() { &[][..] } else { &[Role::Worker, Role::Check] };
        for &role in roles {
            let dirs = dirs_of(toolchain, self.host, role);
            find_program(self.repo, contract, role, green, &dirs, &self.places.worktrees)
                .map_err(|missing| self.for_frozen(missing))?;
        }
        if !self.adapter.has_image() {
            let dirs = dirs_of(toolchain, self.host, Role::Check);
            if let Some(error) = missing_named(contract, &dirs, &self.places.worktrees).into_iter().next() {
                return Err(error);
            }
        }
        Ok(())
    }

    /// What is told of a program that is missing, for a loop that has started: what can be put right from now on does
    /// not change its base nor its terms.
    fn for_frozen(&self, missing: Missing) -> Error {
        match missing {
            Missing::InTerms(error) if !self.tip.id.0.is_null() => error.hint(format!(
                "that is for a new loop, under another id: the base and the terms of `{}` are frozen",
                self.id
            )),
            Missing::InTerms(error) | Missing::Here(error) => error,
        }
    }

    /// Fails if the transaction that ends an iteration could not be made: it comes after the worker was paid. Asked
    /// before each of them, as somebody may have moved or locked a ref meanwhile.
    pub(super) fn can_record(&self) -> Result<()> {
        let least = self.repo.config().loop_min_free_space()?;
        for place in [self.repo.common_dir(), &self.places.worktrees] {
            has_space(place, least)?;
        }
        can_record(self.repo, &self.id, self.tip.state.last_green_commit)
    }
}

/// Fails if less than `least` bytes are free at `place`: a worker is paid for nothing if what it made cannot be kept.
fn has_space(place: &Path, least: u64) -> Result<()> {
    match worktree::free_bytes(place) {
        Some(free) if free < least => Err(Error::workspace(format!(
            "disk_low: {} are free in {}, less than {}",
            bytes(free),
            place.display(),
            bytes(least)
        ))
        .hint("make room; what runners that have ended left: git loop prune --dry-run")
        .hint("or ask for less: git config loop.minFreeSpace 10m")),
        _ => Ok(()),
    }
}

/// Fails if the refs of the loop `id` cannot be moved or its notes not be added to; `green` is a commit to ask for.
fn can_record(repo: &Repo, id: &LoopId, green: Oid) -> Result<()> {
    let refs = id.refs();
    let (ledger, head, notes) = (refs.ledger(), refs.head(), refs.notes());
    // A receipt goes into the notes; better to say now that they are in the middle of a merge.
    repo.check_no_notes_merge(notes.as_ref())?;
    repo.check_refs_can_change(&[ledger, head, notes.clone()])?;
    if let Some(tip) = repo.read_ref(notes.as_ref())? {
        repo.read_note_lines(Some(tip), green.0).map_err(|cause| {
            Error::workspace(format!("{notes} is no ref of notes, and every iteration adds one"))
                .caused_by(cause)
                .hint(format!("delete it, the ledger has the receipts as well: git update-ref -d {notes}"))
        })?;
    }
    Ok(())
}

/// What must hold before a contract is signed that is to be run here at once: signed terms cannot be mended, and their
/// id is used up.
pub fn before_signing(repo: &Repo, host: &HostEnv, id: &LoopId, contract: &Contract) -> Result<()> {
    if contract.check.external {
        return Err(check_is_elsewhere(id).hint(format!("it is started with: git loop start {id}")));
    }
    can_judge(contract)?;
    let adapter = choose_adapter(repo, contract)?;
    no_credentials_granted(host, contract)?;
    can_record(repo, id, contract.base.commit)?;
    let tools = Tools::new(host);
    let none = toolchain::Toolchain::default();
    let found = if adapter.has_image() { &none } else { tools.toolchain(contract)? };
    grants::hidden(repo, host, found, contract, adapter, &[])?;
    match missing_programs(repo, host, contract).into_iter().next() {
        Some(error) if !adapter.has_image() => Err(error),
        _ => Ok(()),
    }
}

/// A program or script that is missing.
enum Missing {
    /// Nothing that is installed here helps.
    InTerms(Error),
    /// On this machine.
    Here(Error),
}

impl Missing {
    fn into_error(self) -> Error {
        match self {
            Self::InTerms(error) | Self::Here(error) => error,
        }
    }
}

impl From<Error> for Missing {
    fn from(error: Error) -> Self {
        Self::Here(error)
    }
}

/// What `run` would refuse for want of a program: one error for each of the commands. A toolchain that cannot be
/// looked at is one as well.
pub(super) fn missing_programs(repo: &Repo, host: &HostEnv, contract: &Contract) -> Vec<Error> {
    let tools = Tools::new(host);
    let toolchain = match tools.toolchain(contract) {
        Ok(toolchain) => toolchain,
        Err(error) => return vec![error],
    };
    let mut missing: Vec<Error> = [Role::Worker, Role::Check]
        .into_iter()
        .filter_map(|role| {
            let dirs = dirs_of(toolchain, host, role);
            let base = contract.base.commit;
            find_program(repo, contract, role, base, &dirs, repo.common_dir()).err().map(Missing::into_error)
        })
        .collect();
    missing.extend(missing_named(contract, &dirs_of(toolchain, host, Role::Check), repo.common_dir()));
    missing
}

/// The same of the commands of lasting code, of which only the programs are looked for: a script may be what the worker is to write.
fn missing_named(contract: &Contract, dirs: &[PathBuf], place: &Path) -> Vec<Error> {
    let Some(terms) = contract.judged_as_lasting() else { return Vec::new() };
    let lists = [
        ("invariant", &terms.invariant_boundaries),
        ("machine-independence requirement", &terms.machine_independence_requirements),
    ];
    let commands = lists.into_iter().flat_map(|(what, list)| list.iter().map(move |named| (what, named)));
    commands
        .filter_map(|(what, named)| {
            argv(&command(&named.command), dirs, place, &format!("{what} {:?}", named.name)).err()
        })
        .collect()
}

/// The presets whose tools are not on this machine.
pub(super) fn missing_presets(host: &HostEnv, contract: &Contract) -> Vec<toolchain::Preset> {
    Tools::new(host).toolchain(contract).map(|found| found.missing.clone()).unwrap_or_default()
}

/// Fails if the program of a command cannot be found, or the script that it is to run.
fn find_program(
    repo: &Repo,
    contract: &Contract,
    role: Role,
    green: Oid,
    dirs: &[PathBuf],
    place: &Path,
) -> std::result::Result<(), Missing> {
    let command = if role == Role::Worker { &contract.worker.command } else { &contract.check.command };
    let what = &role.to_string();
    let CommandLine::Exec(words) = command else {
        return Ok(argv(command, dirs, place, what).map(drop)?);
    };
    let entry = |path: &str| {
        let unreadable = || format!("green {green} cannot be read");
        let tree = repo.commit_tree(green.0).or_workspace(unreadable)?;
        let entry = repo.entry_at(tree, path.into()).or_workspace(unreadable)?;
        Ok::<_, Error>(entry.map(|entry| entry.mode))
    };
    let in_terms = |message: String, hint: &str| Err(Missing::InTerms(Error::workspace(message).hint(hint)));
    if let Some(program) = words.first().filter(|word| is_relative(word)) {
        let path = program.trim_start_matches("./");
        return match entry(path)? {
            Some(EntryKind::BlobExecutable | EntryKind::Link) => Ok(()),
            Some(_) => in_terms(
                format!("the {what}'s program {program} is not executable in {green}"),
                &format!("git update-index --chmod=+x {path}, commit it, or run it with its interpreter"),
            ),
            None => in_terms(
                format!("the {what}'s program {program} is not in the tree of {green}"),
                "commit it, or name a program outside the repository by its absolute path",
            ),
        };
    }
    argv(command, dirs, place, what)?;
    match script(words) {
        Script::Unknown => Ok(()),
        Script::Here(path) if path.exists() => Ok(()),
        Script::Here(path) => Err(Missing::Here(
            Error::workspace(format!("the {what}'s script {} is not there", path.display()))
                .hint("put it there, or name another one"),
        )),
        Script::Outside(path) => in_terms(
            format!("the {what}'s script {path} leads out of the worktree, to nowhere"),
            "name a file outside the repository by its absolute path",
        ),
        Script::InTree(path) => {
            let warm = &contract.worktree.warm;
            if warm.iter().any(|folder| Path::new(path).starts_with(folder)) || entry(path)?.is_some() {
                return Ok(());
            }
            in_terms(
                format!("the {what}'s script {path} is not in the tree of {green}"),
                "commit it, or name a file outside the repository by its absolute path",
            )
        }
    }
}

/// The file that an interpreter is to run.
#[derive(Debug, PartialEq, Eq)]
enum Script<'a> {
    /// None that is certain.
    Unknown,
    /// At an absolute path.
    Here(&'a Path),
    /// A path from the root of the worktree.
    InTree(&'a str),
    /// A relative path that leaves the worktree, which is made for one run and lies beside nothing.
    Outside(&'a str),
}

/// The file that an interpreter is to run. Only where that is certain: directly after its name.
fn script(words: &[String]) -> Script<'_> {
    let (Some(program), Some(script)) = (words.first(), words.get(1)) else { return Script::Unknown };
    if !INTERPRETERS.iter().any(|known| program.rsplit('/').next() == Some(known)) || script.starts_with('-')
    {
        return Script::Unknown;
    }
    if Path::new(script).is_absolute() {
        return Script::Here(Path::new(script));
    }
    let path = script.trim_start_matches("./");
    let mut depth = 0i32;
    for part in path.split('/') {
        depth += match part {
            ".." => -1,
            "" | "." => 0,
            _ => 1,
        };
        if depth < 0 {
            return Script::Outside(script);
        }
    }
    // What links on the way make of `..` the tree alone does not say.
    if path.is_empty() || path.split('/').any(|part| part == "..") {
        return Script::Unknown;
    }
    Script::InTree(path)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{Script, script};

    #[test]
    fn a_script_is_named_only_where_that_is_certain() {
        let cases: [(&[&str], Script<'_>); 11] = [
            (&["sh", "./ci/check.sh"], Script::InTree("ci/check.sh")),
            (&["/usr/bin/python3", "run.py", "-v"], Script::InTree("run.py")),
            (&["sh", "/srv/check.sh"], Script::Here(Path::new("/srv/check.sh"))),
            (&["sh", "../check.sh"], Script::Outside("../check.sh")),
            (&["sh", "ci/../../check.sh"], Script::Outside("ci/../../check.sh")),
            (&["sh", "ci/../check.sh"], Script::Unknown),
            (&["sh", "-c", "make"], Script::Unknown),
            (&["python3", "-m", "pytest"], Script::Unknown),
            (&["node", "test"], Script::Unknown),
            (&["sh"], Script::Unknown),
            (&[], Script::Unknown),
        ];
        for (words, expected) in cases {
            let owned: Vec<String> = words.iter().map(ToString::to_string).collect();
            assert_eq!(script(&owned), expected, "{words:?}");
        }
    }
}
