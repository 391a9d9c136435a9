//! A repository with a remote, made by the real git in a temporary folder, with nothing of the machine's configuration.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use gix::ObjectId;
use gix::bstr::BStr;

use super::{Candidate, Gate, GateError, LoopContent, Objects, Side, Standing, Update, Verdict};

pub struct Lab {
    _dir: tempfile::TempDir,
    root: PathBuf,
    sha256: bool,
}

/// A file that a loop and others change.
pub const FILE: &str =
    "fn one() {\n    1\n}\n\nfn two() {\n    2\n}\n\nfn three() {\n    3\n}\n\nfn four() {\n    4\n}\n";

impl Lab {
    /// `work` with a base commit on `main`, pushed to the bare repository `remote`, which is its `origin`.
    pub fn new() -> Self {
        Self::with(false)
    }

    pub fn with(sha256: bool) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let lab = Self { _dir: dir, root, sha256 };
        let format = if sha256 { "--object-format=sha256" } else { "--object-format=sha1" };
        fs::create_dir(lab.work()).unwrap();
        lab.git(&["init", "-q", "-b", "main", format]);
        lab.git(&["init", "-q", "-b", "main", format, "--bare", lab.remote().to_str().unwrap()]);
        lab.write("src/a.rs", FILE);
        lab.write("src/b.rs", "fn b() {}\n");
        lab.write("docs/note.md", "a note\n");
        lab.commit("base");
        lab.git(&["remote", "add", "origin", lab.remote().to_str().unwrap()]);
        lab.git(&["push", "-q", "origin", "main"]);
        lab
    }

    pub fn work(&self) -> PathBuf {
        self.root.join("wörk tree")
    }

    pub fn remote(&self) -> PathBuf {
        self.root.join("remote.git")
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    pub fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.work().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// Replaces text that must be there.
    pub fn edit(&self, path: &str, from: &str, to: &str) {
        let content = fs::read_to_string(self.work().join(path)).unwrap();
        assert!(content.contains(from), "{path} has no {from:?}");
        self.write(path, content.replacen(from, to, 1));
    }

    pub fn commit(&self, message: &str) -> ObjectId {
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "--allow-empty", "-m", message]);
        self.id("HEAD")
    }

    pub fn id(&self, rev: &str) -> ObjectId {
        self.git(&["rev-parse", "--verify", "-q", rev]).trim().parse().unwrap()
    }

    pub fn git(&self, args: &[&str]) -> String {
        self.git_in(&self.work(), args)
    }

    pub fn git_in(&self, dir: &Path, args: &[&str]) -> String {
        let output = self.try_git(dir, args);
        assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    pub fn try_git(&self, dir: &Path, args: &[&str]) -> Output {
        self.command(dir, args).output().unwrap()
    }

    pub fn git_with_input(&self, args: &[&str], input: &[u8]) -> String {
        let mut command = self.command(&self.work(), args);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(input).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "git {args:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn command(&self, dir: &Path, args: &[&str]) -> Command {
        let mut command = Command::new("git");
        command
            .args(["-c", "user.name=T", "-c", "user.email=t@example.org", "-c", "protocol.file.allow=always"])
            .args(args)
            .env_clear()
            .envs([("PATH", std::env::var("PATH").unwrap()), ("HOME", self.root.display().to_string())])
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .current_dir(dir);
        command
    }

    pub fn open(&self) -> gix::Repository {
        open_at(&self.work())
    }

    pub fn zeros(&self) -> String {
        "0".repeat(if self.sha256 { 64 } else { 40 })
    }

    /// The loop `fix`, of class `lasting_code`: its iterations change `src/a.rs`, add `src/new.rs` (rejected), and change
    /// `src/a.rs` again.
    pub fn a_loop(&self) -> LoopContent {
        let base = self.id("main");
        let mut candidates = Vec::new();
        let mut green = base;
        self.git(&["checkout", "-q", "--detach", "main"]);
        for iteration in 1..=3 {
            match iteration {
                1 => self.edit("src/a.rs", "    2\n", "    two_from_the_loop()\n"),
                2 => self.write("src/new.rs", "fn rejected() {}\n"),
                _ => self.edit("src/a.rs", "    3\n", "    three_from_the_loop()\n"),
            }
            let id = self.commit("candidate");
            candidates.push(Candidate { iteration, parent: green, id });
            if iteration == 2 {
                self.git(&["checkout", "-q", "--detach", &green.to_string()]);
            } else {
                green = id;
            }
        }
        self.git(&["checkout", "-q", "main"]);
        LoopContent { id: "fix".to_owned(), lasting: true, standing: Standing::Open, base, candidates }
    }

    /// A loop with one candidate: what `change` does to the work tree at `main`.
    pub fn loop_of(&self, id: &str, change: impl FnOnce()) -> LoopContent {
        let base = self.id("main");
        self.git(&["checkout", "-q", "--detach", "main"]);
        change();
        let candidate = self.commit("candidate");
        self.git(&["checkout", "-q", "-f", "main"]);
        LoopContent {
            id: id.to_owned(),
            lasting: true,
            standing: Standing::Open,
            base,
            candidates: vec![Candidate { iteration: 1, parent: base, id: candidate }],
        }
    }

    /// What the gate says to `git push origin <specs>`, from the lines that git itself gives a hook.
    pub fn push(&self, loops: &[LoopContent], specs: &[&str]) -> Verdict {
        self.try_push(loops, specs).unwrap()
    }

    pub fn try_push(&self, loops: &[LoopContent], specs: &[&str]) -> Result<Verdict, GateError> {
        let captured = self.hook_input("origin", specs);
        let repo = self.open();
        let side = Side::client(&repo, "origin".into(), self.remote().to_str().unwrap().into());
        judge_by_tripwire(&repo, &side, loops, &super::input::pre_push(&captured)?)
    }

    /// What git writes to a `pre-push` hook. Nothing is pushed.
    pub fn hook_input(&self, remote: &str, specs: &[&str]) -> Vec<u8> {
        let (hooks, captured) = (self.root.join("capture"), self.root.join("captured"));
        fs::create_dir_all(&hooks).unwrap();
        let hook = hooks.join("pre-push");
        fs::write(&hook, format!("#!/bin/sh\ncat >'{}'\nexit 1\n", captured.display())).unwrap();
        #[cfg(unix)]
        fs::set_permissions(&hook, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let _ = fs::remove_file(&captured);
        let path = format!("core.hooksPath={}", hooks.display());
        let args = [&["-c", &path, "push", "-q", remote][..], specs].concat();
        let output = self.try_git(&self.work(), &args);
        fs::read(&captured).unwrap_or_else(|_| panic!("{output:?}"))
    }

    /// What the gate says to a range.
    pub fn range(&self, loops: &[LoopContent], range: &str) -> Verdict {
        let repo = self.open();
        let update = super::range_update(&repo, BStr::new(range)).unwrap();
        judge_by_tripwire(&repo, &Side::Range, loops, &[update]).unwrap()
    }
}

pub fn open_at(dir: &Path) -> gix::Repository {
    gix::open_opts(dir, gix::open::Options::isolated()).unwrap()
}

/// Every ledger verifies, and the remote `origin` can be asked.
struct LabRemote<'a>(&'a gix::Repository);

impl super::LedgerJudge for LabRemote<'_> {
    fn verify(&self, _: &str, _: ObjectId) -> Result<std::rc::Rc<super::LedgerFacts>, String> {
        Ok(std::rc::Rc::default())
    }

    fn received(&self, _: &str) -> Result<Option<ObjectId>, String> {
        Ok(None)
    }

    fn remote_tips(&self) -> Result<Vec<ObjectId>, String> {
        let url = self.0.config_snapshot().string("remote.origin.url").ok_or("there is no remote")?;
        let remote = open_at(Path::new(&url.to_string()));
        let mut tips = Vec::new();
        let platform = remote.references().map_err(|error| error.to_string())?;
        for prefix in ["refs/heads/", "refs/tags/"] {
            let refs = platform.prefixed(prefix).map_err(|error| error.to_string())?;
            tips.extend(refs.filter_map(|found| Some(found.ok()?.try_id()?.detach())));
        }
        Ok(tips)
    }
}

/// The judgement where every ledger verifies.
pub fn judge_by_tripwire(
    repo: &gix::Repository,
    side: &Side,
    loops: &[LoopContent],
    updates: &[Update],
) -> Result<Verdict, GateError> {
    let objects = Objects::new(repo, None).unwrap();
    let protected = super::commits::protected_tip(repo, &objects, side, None);
    let ledgers = LabRemote(repo);
    Gate { repo, objects: &objects, side, protected, loops, ledgers: &ledgers }.judge(updates)
}

/// `loop path code` of each refusal.
pub fn told(verdict: &Verdict) -> Vec<String> {
    let line = |refusal: &super::Refusal| {
        let code = serde_json::to_value(refusal.code).unwrap();
        format!(
            "{} {} {}",
            refusal.loop_id.as_deref().unwrap_or("-"),
            refusal.path.as_deref().unwrap_or("-"),
            code.as_str().unwrap()
        )
    };
    verdict.refusals.iter().map(line).collect()
}
