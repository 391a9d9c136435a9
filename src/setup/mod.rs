//! What `git loop init` looks at and writes: the project in a commit, the file that says who is trusted, the keys.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`litter`] | what tools leave in a worktree |
//! | [`people`] | who signs: the person's key, a runner's own key, their principals |
//! | [`trust`] | the file that says who is trusted, and when it counts |

pub mod litter;
pub mod people;
pub mod trust;

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use gix::ObjectId;
use gix::bstr::ByteSlice;
use gix::objs::tree::EntryKind;

use crate::contract::scaffold::{Agent, Pattern, ProjectKind, Proposal, Survey, agents};
use crate::error::{Error, Result, ResultExt};
use crate::escape::escape_path;
use crate::git::Repo;
use crate::host::HostEnv;
use crate::worktree::BaseIgnores;

/// The most bytes of a file that detection reads.
const LARGEST_TEXT: u64 = 1024 * 1024;

/// The files by which projects are recognised.
const MARKS: [&str; 7] =
    ["Cargo.toml", "pyproject.toml", "setup.py", "package.json", "go.mod", "CMakeLists.txt", "Makefile"];

/// The commit as detection sees it.
pub fn survey(repo: &Repo, tree: ObjectId) -> Result<Survey> {
    let unreadable = || "the files of HEAD cannot be read".to_owned();
    let entries = repo.list_tree_recursive(tree).or_workspace(unreadable)?;
    let is_file = |mode: EntryKind| matches!(mode, EntryKind::Blob | EntryKind::BlobExecutable);
    let mut survey = Survey::new(entries.iter().map(|entry| (entry.path.clone(), is_file(entry.mode))));
    for path in survey.wanted() {
        let Some(entry) = entries.iter().find(|entry| entry.path == path.as_str()) else { continue };
        let (_, size) = repo.object_header(entry.id).or_workspace(unreadable)?;
        if size <= LARGEST_TEXT {
            let bytes = repo.read_blob(entry.id).or_workspace(unreadable)?;
            survey.add_text(path, bytes.to_str_lossy());
        }
    }
    Ok(survey)
}

/// What a person should know of this repository before a loop runs in it, besides what the proposal says itself.
pub fn notes(repo: &Repo, tree: ObjectId, proposal: &Proposal) -> Result<Vec<String>> {
    let unreadable = || "the files of HEAD cannot be read".to_owned();
    let mut notes = Vec::new();
    let patterns = |list: &[Pattern]| list.iter().map(|one| one.text.clone()).collect::<Vec<_>>();
    let warm: Vec<String> = proposal.warm.iter().map(|(folder, _)| (*folder).to_owned()).collect();
    let ignores = BaseIgnores::read(repo.gix(), tree).or_workspace(unreadable)?;
    let mut left: Vec<String> =
        litter::of_tree(repo, tree, &patterns(&proposal.mutable), &patterns(&proposal.check), &warm)?
            .iter()
            .map(|path| escape_path(path.as_ref()))
            .collect();
    for one in &proposal.litter {
        if !ignores.excludes(one.path.into(), one.is_dir) && !left.iter().any(|path| path == one.path) {
            left.push(one.path.to_owned());
        }
    }
    if !left.is_empty() {
        notes.push(format!("{}: {}", left.join(", "), litter::ADVICE));
    }
    if let Some(top) = repo.worktree_root() {
        for mark in MARKS {
            let committed = repo.entry_at(tree, mark.into()).or_workspace(unreadable)?.is_some();
            if !committed && top.join(mark).is_file() {
                notes.push(format!(
                    "{mark} is not committed: a loop sees what is in the commit, and so did this command"
                ));
            }
        }
    }
    Ok(notes)
}

/// What to know where `pytest` is installed for another Python than the one that the proposed check would run. Nothing is run to find out:
/// its program says by its first line whose it is.
pub fn pytest_is_elsewhere(host: &HostEnv, proposal: &Proposal) -> Option<String> {
    if proposal.kind != ProjectKind::Pytest {
        return None;
    }
    let (python, pytest) = (host.find_program("python3")?, host.find_program("pytest")?);
    let owner = interpreter(&pytest)?;
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    let has_its_own = python.with_file_name("pytest").is_file() && !pytest.starts_with(python.parent()?);
    (real(&owner) != real(&python) && !has_its_own).then(|| {
        format!(
            "pytest is installed for {owner}, and the check runs python3, which is {python} here: if that has no pytest, write {owner} in \
             check.command",
            owner = owner.display(),
            python = python.display()
        )
    })
}

/// The Python that a script names in its first line.
fn interpreter(script: &Path) -> Option<PathBuf> {
    const LONGEST_LINE: u64 = 256;
    let mut line = Vec::new();
    File::open(script).ok()?.take(LONGEST_LINE).read_to_end(&mut line).ok()?;
    let line = line.strip_prefix(b"#!")?.lines().next()?;
    let path = PathBuf::from(line.to_str().ok()?.split_whitespace().next()?);
    let is_python = path.file_name()?.to_str()?.starts_with("python");
    (is_python && path.is_absolute()).then_some(path)
}

/// The first agent on the host's `PATH`.
pub fn find_agent(host: &HostEnv) -> Option<Agent> {
    agents::NAMES.into_iter().find_map(|name| {
        let program = host.find_program(name)?;
        let real = program.canonicalize().unwrap_or(program);
        Some(Agent { name, folder: installed_in(&real, host.home_dir()) })
    })
}

/// The folder that a program needs to read, where the sandbox does not grant it anyway.
fn installed_in(program: &Path, home: Option<&Path>) -> Option<String> {
    const GRANTED: [&str; 5] = ["/usr", "/bin", "/opt", "/nix", "/gnu"];
    if GRANTED.iter().any(|folder| program.starts_with(folder)) {
        return None;
    }
    // A package of node is more than the folder of its program.
    let package = program.ancestors().find(|folder| {
        let above = |n: usize| folder.ancestors().nth(n).and_then(Path::file_name);
        let scoped = above(1).is_some_and(|name| name.as_encoded_bytes().starts_with(b"@"));
        above(if scoped { 2 } else { 1 }).is_some_and(|name| name == "node_modules")
    });
    let folder = package.or(program.parent())?;
    match home.and_then(|home| folder.strip_prefix(home).ok()) {
        Some(below) if below.as_os_str().is_empty() => None,
        Some(below) => Some(format!("~/{}", below.to_str()?)),
        None => folder.to_str().map(ToOwned::to_owned),
    }
}

/// Writes a file that must not exist.
pub fn write_new(path: &Path, text: &str) -> Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).open(path).map_err(|cause| {
        Error::workspace(format!("{} cannot be written", path.display()))
            .caused_by(cause)
            .hint("check who may write there")
    })?;
    file.write_all(text.as_bytes()).or_workspace(|| format!("{} cannot be written", path.display()))
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn the_folder_of_an_agent_is_what_has_to_be_granted() {
        let home = Some(Path::new("/home/ann"));
        for (program, folder) in [
            ("/usr/local/bin/claude", None),
            ("/home/ann/claude", None),
            ("/home/ann/.local/share/claude/versions/2.1.0", Some("~/.local/share/claude/versions")),
            (
                "/home/ann/.nvm/v20/lib/node_modules/@anthropic-ai/claude-code/cli.js",
                Some("~/.nvm/v20/lib/node_modules/@anthropic-ai/claude-code"),
            ),
            ("/srv/node_modules/opencode-ai/bin/opencode", Some("/srv/node_modules/opencode-ai")),
        ] {
            assert_eq!(installed_in(Path::new(program), home).as_deref(), folder, "{program}");
        }
    }
}
