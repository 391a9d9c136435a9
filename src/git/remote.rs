//! Talking to a remote, by the git program: gix cannot push.
//!
//! A push is a compare-and-swap: `--atomic` and a lease for each ref. Nothing is ever forced past a lease.

use gix::ObjectId;
use gix::bstr::{BString, ByteSlice};
use gix::refs::FullName;

use super::Repo;
use super::command::{CommandError, GitCommand};
use super::config::Scope;

/// What went wrong with a remote.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// git failed.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// A name that git would take for an option.
    #[error("{0:?} is not the name or address of a remote")]
    Name(String),
    /// The repository's own configuration names a program that talking to a remote would run.
    #[error("{key} in the repository's configuration names a program to run")]
    Program {
        /// The key.
        key: String,
        /// Its value.
        value: String,
    },
    /// git printed something else than it promises.
    #[error("git printed {0:?}, which is not understood")]
    Output(String),
}

impl From<RemoteError> for crate::error::Error {
    fn from(error: RemoteError) -> Self {
        let message = error.to_string();
        match error {
            RemoteError::Command(error) => error.into(),
            RemoteError::Name(_) => Self::usage(message).hint("see the remotes: git remote -v"),
            RemoteError::Program { key, value } => Self::workspace(message)
                .hint(format!(
                    "if it is yours, say so for all repositories: git config --global {key} '{value}'"
                ))
                .hint(format!("then remove it here: git config --unset-all {key}")),
            RemoteError::Output(_) => Self::internal(message),
        }
    }
}

/// One ref to be pushed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PushRef {
    /// Its name, here and there.
    pub name: FullName,
    /// What it shall be; `None` deletes it.
    pub to: Option<ObjectId>,
    /// What it must be on the remote now; `None`: it must not exist.
    pub expect: Option<ObjectId>,
}

/// What became of one ref.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pushed {
    /// It is what it should be now.
    Done,
    /// It was that already.
    UpToDate,
    /// It is as it was, for this reason. With an atomic push one is enough for all to be.
    Refused(String),
}

/// What came of a push.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PushEnd {
    /// What became of each ref, in the order in which they were named.
    pub refs: Vec<Pushed>,
    /// What the programs of the remote said, hooks usually, line by line.
    pub said: Vec<String>,
}

impl Repo {
    /// The refs of a remote that match one of `patterns` (`refs/loops/*`), by name.
    pub fn list_remote_refs(
        &self,
        remote: &str,
        patterns: &[&str],
    ) -> Result<Vec<(BString, ObjectId)>, RemoteError> {
        let git = self.remote_command(remote)?.args(["ls-remote", "--refs", "--", remote]).args(patterns);
        let output = git.run()?.stdout;
        output
            .lines()
            .map(|line| {
                let parsed = line
                    .split_once_str("\t")
                    .and_then(|(id, name)| Some((name.into(), ObjectId::from_hex(id).ok()?)));
                parsed.ok_or_else(|| RemoteError::Output(line.to_str_lossy().into_owned()))
            })
            .collect()
    }

    /// Fetches what the refs of these names on the remote reach, and makes no ref of it: not `FETCH_HEAD` either, nor tags, nor
    /// the remote's `HEAD`, whatever the configuration says of the remote.
    pub fn fetch_objects(&self, remote: &str, names: &[FullName]) -> Result<(), RemoteError> {
        if names.is_empty() {
            return Ok(());
        }
        let list: Vec<String> = names.iter().map(ToString::to_string).collect();
        let git = self.remote_command(remote)?.lazy_fetch();
        let git = git.arg("-c").arg(format!("remote.{remote}.followRemoteHEAD=never")).args([
            // A pack is on the disk, whole, or not there; loose objects come one by one, and git does not wait for them.
            "-c",
            "fetch.unpackLimit=1",
            "fetch",
            "--no-tags",
            "--no-write-fetch-head",
            "--no-prune",
            "--refmap=",
            "--quiet",
            "--stdin",
            "--",
            remote,
        ]);
        git.stdin(list.join("\n")).run()?;
        Ok(())
    }

    /// Pushes all of `refs` or none, each only if it is on the remote what is expected, and says of each what became
    /// of it. An error is what kept the remote from answering at all.
    pub fn push_refs(&self, remote: &str, refs: &[PushRef]) -> Result<PushEnd, RemoteError> {
        if refs.is_empty() {
            return Ok(PushEnd::default());
        }
        let mut git = self.remote_command(remote)?.lazy_fetch();
        // Our own hook judges what people push; this is the code that it would call.
        git = git.arg("-c").arg(format!("remote.{remote}.mirror=false"));
        git = git.args(["push", "--porcelain", "--atomic", "--no-verify", "--quiet"]);
        for push in refs {
            let expect = push.expect.map_or_else(String::new, |id| id.to_string());
            git = git.arg(format!("--force-with-lease={}:{expect}", push.name));
        }
        git = git.args(["--", remote]);
        for push in refs {
            let to = push.to.map_or_else(String::new, |id| id.to_string());
            git = git.arg(format!("{to}:{}", push.name));
        }
        match git.run() {
            // With `--quiet` only what was refused is reported.
            Ok(output) => Ok(PushEnd {
                refs: match_results(refs, &parse_porcelain(&output.stdout), &Pushed::Done),
                said: said_there(&output.stderr),
            }),
            Err(CommandError::Failed { command, code, stderr, stdout }) => {
                let results = parse_porcelain(&stdout);
                if results.is_empty() {
                    return Err(CommandError::Failed { command, code, stderr, stdout }.into());
                }
                let others = Pushed::Refused("another ref of the same push was refused".into());
                Ok(PushEnd { refs: match_results(refs, &results, &others), said: said_there(&stderr) })
            }
            Err(error) => Err(error.into()),
        }
    }

    fn remote_command(&self, remote: &str) -> Result<GitCommand, RemoteError> {
        if remote.is_empty() || remote.starts_with('-') {
            return Err(RemoteError::Name(remote.to_owned()));
        }
        self.check_no_remote_program()?;
        Ok(GitCommand::in_repo(self)?.command_config(self.config()))
    }

    /// No program that the repository names is run. Those that the user names for all repositories are.
    fn check_no_remote_program(&self) -> Result<(), RemoteError> {
        for entry in self.config().entries() {
            let (Scope::Local | Scope::Worktree) = entry.scope else { continue };
            let key = entry.key.to_str_lossy();
            let (section, name) = key.rsplit_once('.').unwrap_or(("", &key));
            let is_program = match section.split('.').next() {
                Some("core") => {
                    matches!(name, "sshcommand" | "gitproxy" | "askpass" | "alternaterefscommand")
                }
                Some("credential") => name == "helper",
                Some("remote") => matches!(name, "uploadpack" | "receivepack" | "vcs"),
                _ => false,
            };
            let value =
                entry.value.as_ref().map_or_else(String::new, |value| value.to_str_lossy().into_owned());
            if is_program && !value.is_empty() {
                return Err(RemoteError::Program { key: key.into_owned(), value });
            }
        }
        Ok(())
    }
}

/// The lines that git passes on from the other side.
fn said_there(stderr: &str) -> Vec<String> {
    let lines = stderr.lines().filter_map(|line| line.strip_prefix("remote:"));
    lines.map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()).collect()
}

/// Reads the lines of `git push --porcelain`: flag, tab, `from:to`, tab, summary with the reason in parentheses.
fn parse_porcelain(output: &[u8]) -> Vec<(BString, Pushed)> {
    let mut results = Vec::new();
    for line in output.lines() {
        let mut fields = line.split_str("\t");
        let (Some(flag), Some(refs), Some(summary)) = (fields.next(), fields.next(), fields.next()) else {
            continue; // `To …` and `Done`.
        };
        // The local side may be any expression, the remote side has no colon.
        let Some((_, name)) = refs.rsplit_once_str(":") else { continue };
        let pushed = match flag {
            b" " | b"+" | b"-" | b"*" => Pushed::Done,
            b"=" => Pushed::UpToDate,
            b"!" => Pushed::Refused(summary.to_str_lossy().into_owned()),
            _ => continue,
        };
        results.push((name.into(), pushed));
    }
    results
}

fn match_results(refs: &[PushRef], results: &[(BString, Pushed)], default: &Pushed) -> Vec<Pushed> {
    refs.iter()
        .map(|push| {
            let result = results.iter().find(|(name, _)| name == push.name.as_bstr());
            result.map_or_else(|| default.clone(), |(_, pushed)| pushed.clone())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::git::LoopId;
    use crate::git::testing::TestRepo;
    use proptest::prelude::*;

    /// A repository with a bare remote `origin`.
    fn with_remote() -> TestRepo {
        let repo = TestRepo::new();
        let bare = repo.outside().join("origin.git");
        repo.git(["init", "-q", "--bare", bare.to_str().unwrap()]);
        repo.git(["remote", "add", "origin", bare.to_str().unwrap()]);
        repo
    }

    fn push(id: &str, to: Option<ObjectId>, expect: Option<ObjectId>) -> PushRef {
        PushRef { name: LoopId::new(id).unwrap().refs().ledger(), to, expect }
    }

    #[test]
    fn a_push_is_a_compare_and_swap_over_all_refs() {
        let repo = with_remote();
        let (first, second) = (repo.id("HEAD"), repo.commit("second"));
        let open = repo.open();
        assert_eq!(open.list_remote_refs("origin", &["refs/loops/*"]).unwrap(), []);
        let both = [push("a", Some(first), None), push("b", Some(first), None)];
        assert_eq!(open.push_refs("origin", &both).unwrap().refs, [Pushed::Done, Pushed::Done]);
        let listed = open.list_remote_refs("origin", &["refs/loops/*"]).unwrap();
        assert_eq!(listed, [("refs/loops/a/ledger".into(), first), ("refs/loops/b/ledger".into(), first)]);

        // One wrong lease, and neither moves.
        let changes = [push("a", Some(second), Some(first)), push("b", Some(second), Some(second))];
        let results = open.push_refs("origin", &changes).unwrap().refs;
        assert!(results.iter().all(|result| matches!(result, Pushed::Refused(_))), "{results:?}");
        assert!(matches!(&results[1], Pushed::Refused(why) if why.contains("stale info")), "{results:?}");
        assert_eq!(open.list_remote_refs("origin", &["refs/loops/*"]).unwrap(), listed);
        // One that must not exist but does.
        let results = open.push_refs("origin", &[push("a", Some(second), None)]).unwrap().refs;
        assert!(matches!(&results[..], [Pushed::Refused(_)]), "{results:?}");

        let changes = [push("a", Some(second), Some(first)), push("b", None, Some(first))];
        assert_eq!(open.push_refs("origin", &changes).unwrap().refs, [Pushed::Done, Pushed::Done]);
        let listed = open.list_remote_refs("origin", &["refs/loops/*"]).unwrap();
        assert_eq!(listed, [("refs/loops/a/ledger".into(), second)]);
    }

    #[test]
    fn a_fetch_brings_objects_and_makes_no_ref() {
        let repo = with_remote();
        let other = TestRepo::new();
        let bare = repo.outside().join("origin.git");
        let theirs = other.commit("theirs");
        other.git([
            "push",
            "-q",
            bare.to_str().unwrap(),
            "HEAD:refs/heads/main",
            "HEAD:refs/loops/a/ledger",
            "HEAD:refs/tags/t",
        ]);
        repo.git(["config", "remote.origin.tagOpt", "--tags"]);
        repo.git(["config", "remote.origin.prune", "true"]);
        repo.git(["update-ref", "refs/remotes/origin/gone", "HEAD"]);
        let before = repo.git(["for-each-ref"]);
        let open = repo.open();
        assert!(!open.has_object(theirs));
        open.fetch_objects("origin", &[]).unwrap();
        open.fetch_objects("origin", &[LoopId::new("a").unwrap().refs().ledger()]).unwrap();
        assert!(repo.open().has_object(theirs));
        assert_eq!(repo.git(["for-each-ref"]), before);
        assert!(!repo.path().join(".git/FETCH_HEAD").exists());
        let error = open.fetch_objects("origin", &[LoopId::new("b").unwrap().refs().ledger()]).unwrap_err();
        assert!(error.to_string().contains("refs/loops/b/ledger"), "{error}");
    }

    #[cfg(unix)]
    #[test]
    fn the_hooks_of_the_server_run_and_their_refusal_is_told() {
        use std::os::unix::fs::PermissionsExt;
        let repo = with_remote();
        let hook = repo.outside().join("origin.git/hooks/update");
        std::fs::create_dir_all(hook.parent().unwrap()).unwrap();
        std::fs::write(&hook, "#!/bin/sh\necho not here >&2\nexit 1\n").unwrap();
        std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o755)).unwrap();
        let end = repo.open().push_refs("origin", &[push("a", Some(repo.id("HEAD")), None)]).unwrap();
        let results = end.refs;
        assert_eq!(end.said[0], "not here");
        assert!(
            matches!(&results[..], [Pushed::Refused(why)] if why.contains("hook declined")),
            "{results:?}"
        );
    }

    #[test]
    fn a_remote_that_is_not_there_is_an_error() {
        let repo = TestRepo::new();
        let open = repo.open();
        for remote in ["", "--upload-pack=touch x"] {
            assert!(matches!(open.list_remote_refs(remote, &[]), Err(RemoteError::Name(_))), "{remote}");
        }
        let error = open.push_refs("nowhere", &[push("a", Some(repo.id("HEAD")), None)]).unwrap_err();
        assert!(error.to_string().contains("nowhere"), "{error}");
        let error = open.list_remote_refs("ext::sh -c true", &[]).unwrap_err();
        assert!(error.to_string().contains("not allowed"), "{error}");
    }

    #[test]
    fn programs_of_the_repository_are_refused_and_those_of_the_user_are_not() {
        let repo = with_remote();
        repo.git(["config", "--global", "core.sshCommand", "ssh -v"]);
        repo.open().list_remote_refs("origin", &[]).unwrap();
        repo.git(["config", "remote.origin.uploadpack", "./evil"]);
        let error = repo.open().list_remote_refs("origin", &[]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "remote.origin.uploadpack in the repository's configuration names a program to run"
        );
    }

    proptest! {
        #[test]
        fn reading_results_is_total(output in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse_porcelain(&output);
        }
    }
}
