//! Where the demo plays: a private folder with a home, keys, a repository, a remote and a clone.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use ssh_key::{Algorithm, LineEnding, PrivateKey};
use tempfile::TempDir;

use super::files::{CHEAT, FUNCTIONS, README, REWRITE, TESTS, WORKER, terms};
use super::{Context, HEADING, Tone};
use crate::error::{Error, Result, ResultExt};
use crate::git::GitProgram;
use crate::host::HostEnv;
use crate::iterate::interrupt::Interrupt;
use crate::sandbox::{self, Adapter};

/// The people of the demo: the name of the key, the principal.
const PEOPLE: [(&str, &str); 2] = [("runner", "runner@demo.example"), ("reviewer", "ann@demo.example")];

/// A private folder with everything that the demo needs.
pub struct Stage<'a> {
    context: &'a Context,
    root: PathBuf,
    git: GitProgram,
    host: HostEnv,
    steps: RefCell<Vec<String>>,
    interrupt: Interrupt,
    /// Removes the folder at the end, unless it is kept.
    _temporary: Option<TempDir>,
}

impl<'a> Stage<'a> {
    /// Makes the folder: `keep`, which must not exist, or one that is removed at the end.
    pub fn open(context: &'a Context, keep: Option<&Path>) -> Result<Self> {
        let (root, temporary) = match keep {
            Some(folder) => {
                let folder = context.directory.join(folder);
                fs::create_dir(&folder).map_err(|cause| {
                    Error::usage(format!("{} cannot be made", folder.display()))
                        .caused_by(cause)
                        .hint("--keep names a folder that does not exist yet")
                })?;
                (folder, None)
            }
            None => {
                let temporary = tempfile::Builder::new()
                    .prefix("git-loop-demo-")
                    .tempdir()
                    .or_workspace(|| "a temporary folder cannot be made".to_owned())?;
                (temporary.path().to_path_buf(), Some(temporary))
            }
        };
        let root = root.canonicalize().or_workspace(|| format!("{} cannot be found", root.display()))?;
        for folder in ["home", "repo/src", "repo/tests", "workers"] {
            fs::create_dir_all(root.join(folder)).or_workspace(|| format!("{folder} cannot be made"))?;
        }
        let mut host = HostEnv::new(Vec::<(String, String)>::new(), root.join("repo"));
        // Nothing of the user's but where programs are.
        if let Some(path) = context.host.var("PATH") {
            host = host.with_var("PATH", path);
        }
        let home = root.join("home");
        for (name, value) in [
            ("HOME", home.clone()),
            ("XDG_CACHE_HOME", home.join("cache")),
            ("XDG_CONFIG_HOME", home.join("config")),
            ("TMPDIR", home.join("tmp")),
            ("GIT_CONFIG_GLOBAL", home.join("gitconfig")),
        ] {
            host = host.with_var(name, value);
        }
        host = host.with_var("GIT_CONFIG_NOSYSTEM", "1").with_var("TERM", "dumb").with_var("LC_ALL", "C");
        fs::create_dir_all(home.join("tmp")).or_workspace(|| "the home cannot be made".to_owned())?;
        let git = GitProgram::find(&host)?;
        Ok(Self {
            context,
            root,
            git,
            host,
            steps: RefCell::default(),
            interrupt: Interrupt::on_signals()?,
            _temporary: temporary,
        })
    }

    /// Ends the story early if a signal came, so that the folder is removed all the same.
    fn go_on(&self) -> Result<()> {
        if self.interrupt.is_set() { Err(self.interrupt.error("the demo")) } else { Ok(()) }
    }

    /// Begins a step of the story.
    pub fn step(&self, title: &str) {
        self.steps.borrow_mut().push(title.to_owned());
        let number = self.steps.borrow().len();
        self.tell("");
        self.tell(&self.context.ui.out().tone(HEADING, &format!("{number}. {title}")));
    }

    /// What was played.
    pub fn steps(&self) -> Vec<String> {
        self.steps.borrow().clone()
    }

    /// A line of the story.
    pub fn tell(&self, line: &str) {
        self.context.ui.tell(line);
    }

    fn show(&self, command: &str, output: &str) {
        self.show_lines(command, output, &[]);
    }

    /// Shows a command and of its output the lines that contain one of these texts; all, if there is none.
    fn show_lines(&self, command: &str, output: &str, only: &[&str]) {
        self.tell(&self.context.ui.out().tone(Tone::Dim, &format!("   $ {command}")));
        let is_shown = |line: &&str| only.is_empty() || only.iter().any(|text| line.contains(text));
        for line in output.lines().filter(is_shown) {
            self.tell(&format!("     {line}"));
        }
    }

    fn repo(&self) -> PathBuf {
        self.root.join("repo")
    }

    fn write(&self, path: &str, content: &str) -> Result<()> {
        let path = self.root.join(path);
        fs::write(&path, content).or_workspace(|| format!("{} cannot be written", path.display()))
    }

    /// Keys, trust, repository, workers, terms.
    pub fn set_up(&self) -> Result<()> {
        let mut trust = String::new();
        for (name, principal) in PEOPLE {
            let key = PrivateKey::random(&mut ssh_key::rand_core::OsRng, Algorithm::Ed25519)
                .or_internal(|| "a key cannot be made".to_owned())?;
            key.write_openssh_file(&self.root.join("home").join(name), LineEnding::LF)
                .or_workspace(|| "a key cannot be written".to_owned())?;
            let public =
                key.public_key().to_openssh().or_internal(|| "a key cannot be written".to_owned())?;
            let _ = writeln!(trust, "{principal} namespaces=\"git\" {public}");
        }
        self.write("home/allowed_signers", &trust)?;
        self.write(
            "home/gitconfig",
            &format!(
                "[user]\n\tname = Demo\n\temail = demo@demo.example\n[init]\n\tdefaultBranch = main\n[loop]\n\tallowedSigners = {}\n[gpg \"ssh\"]\n\tallowedSignersFile = {0}\n",
                config_value(&self.root.join("home/allowed_signers"))
            ),
        )?;
        self.write("repo/src/functions.sh", FUNCTIONS)?;
        self.write("repo/tests/run.sh", TESTS)?;
        self.write("repo/README.md", README)?;
        self.write("workers/honest.sh", WORKER)?;
        self.write("workers/cheat.sh", CHEAT)?;
        self.write("workers/rewrite.sh", REWRITE)?;
        self.git_quietly(&["init", "--quiet"])?;
        self.git_quietly(&["add", "-A"])?;
        self.git_quietly(&["commit", "--quiet", "-m", "Three functions and their tests"])?;
        // The terms are not part of what is looped on.
        self.write("repo/.git/info/exclude", "*.toml\n")?;
        self.write_terms("fix")?;
        let (output, _) = self.spawn("sh", &["tests/run.sh"], &self.repo())?;
        self.show("sh tests/run.sh", &output);
        Ok(())
    }

    /// Writes `loop.toml`, `cheat.toml` or `keep.toml`.
    pub fn write_terms(&self, name: &str) -> Result<()> {
        let (file, worker, lasting) = match name {
            "cheat" => ("cheat.toml", "cheat.sh", false),
            "keep" => ("keep.toml", "rewrite.sh", true),
            _ => ("loop.toml", "honest.sh", false),
        };
        let worker = self.root.join("workers").join(worker);
        // TOML's escapes for the few characters that a path could bring.
        let worker = worker.display().to_string().replace('\\', "\\\\").replace('"', "\\\"");
        let sandboxed = sandbox::available(Adapter::Landlock).is_ok();
        self.write(&format!("repo/{file}"), &terms(&worker, lasting, sandboxed))
    }

    /// Says what isolation the machine gives.
    pub fn sandbox_note(&self) {
        match sandbox::available(Adapter::Landlock) {
            Ok(()) => self.tell("Worker and check run in a Landlock sandbox."),
            Err(why) => self.tell(&format!("note: no Landlock here ({why}); the demo goes on without a sandbox, a loop of yours would be refused.")),
        }
    }

    /// Runs `git loop` with the key of one of the people; it must exit with `code`.
    pub fn git_loop(&self, who: &str, args: &[&str], code: i32) -> Result<String> {
        self.git_loop_lines(who, args, code, &[])
    }

    /// The same, and shows only the lines of its output that contain one of these texts.
    pub fn git_loop_lines(&self, who: &str, args: &[&str], code: i32, only: &[&str]) -> Result<String> {
        let key = self.root.join("home").join(who);
        let mut all = args.to_vec();
        let key = key.display().to_string();
        all.extend(["--key", &key]);
        let shown = format!("git loop {} --key ../home/{who}", quoted(args));
        self.run_git_loop(&all, &shown, &self.repo(), code, only)
    }

    /// Runs `git loop` in the fresh clone.
    pub fn git_loop_in_clone(&self, args: &[&str], code: i32) -> Result<String> {
        self.run_git_loop(args, &format!("git loop {}", quoted(args)), &self.root.join("clone"), code, &[])
    }

    fn run_git_loop(
        &self,
        args: &[&str],
        shown: &str,
        dir: &Path,
        code: i32,
        only: &[&str],
    ) -> Result<String> {
        let program =
            std::env::current_exe().or_internal(|| "the running program cannot be found".to_owned())?;
        let (output, found) = self.spawn(&program.display().to_string(), args, dir)?;
        self.show_lines(shown, &output, only);
        must_be(shown, found, code)?;
        Ok(output)
    }

    /// Runs git in the repository; it must exit with `code`.
    pub fn git(&self, args: &[&str], code: i32) -> Result<String> {
        self.git_lines(args, code, &[])
    }

    /// The same, and shows only the lines of its output that contain one of these texts.
    pub fn git_lines(&self, args: &[&str], code: i32, only: &[&str]) -> Result<String> {
        let shown = format!("git {}", quoted(args));
        let (output, found) = self.run_git(args, &self.repo())?;
        self.show_lines(&shown, &output, only);
        must_be(&shown, found, code)?;
        Ok(output)
    }

    fn git_quietly(&self, args: &[&str]) -> Result<()> {
        let (_, found) = self.run_git(args, &self.repo())?;
        must_be(&format!("git {}", args.join(" ")), found, 0)
    }

    /// The cheat in a plain copy of the repository: the tests pass.
    pub fn cheat_without_a_gate(&self) -> Result<()> {
        self.git_quietly(&["worktree", "add", "--quiet", "--detach", "../copy", "HEAD"])?;
        let copy = self.root.join("copy");
        let cheat = self.root.join("workers/cheat.sh").display().to_string();
        self.spawn("sh", &[&cheat], &copy)?;
        let (output, code) = self.spawn("sh", &["tests/run.sh"], &copy)?;
        self.show("sh cheat.sh; sh tests/run.sh", &output);
        must_be("the edited tests", code, 0)?;
        self.tell("Nothing was mended, and the tests are green.");
        self.git_quietly(&["worktree", "remove", "--force", "../copy"])
    }

    /// A bare remote that has the base.
    pub fn make_remote(&self) -> Result<()> {
        self.git_quietly(&["init", "--quiet", "--bare", "../remote.git"])?;
        self.git_quietly(&["remote", "add", "origin", "../remote.git"])?;
        self.git_quietly(&["push", "--quiet", "origin", "main"])
    }

    /// A branch that has nothing to do with any loop.
    pub fn make_unrelated_branch(&self) -> Result<()> {
        self.git_quietly(&["switch", "--quiet", "-c", "notes"])?;
        self.write("repo/NOTES", "a note\n")?;
        self.git_quietly(&["add", "NOTES"])?;
        self.git_quietly(&["commit", "--quiet", "-m", "A note"])?;
        Ok(())
    }

    /// A fresh clone of the remote, with the ledgers.
    pub fn clone_and_fetch(&self) -> Result<()> {
        self.git_quietly(&["clone", "--quiet", "../remote.git", "../clone"])?;
        self.tell("git does not clone loops; this fetches them:");
        let fetch = ["fetch", "--quiet", "origin", "refs/loops/*:refs/loops/*"];
        let (output, code) = self.run_git(&fetch, &self.root.join("clone"))?;
        self.show(&format!("git {}", quoted(&fetch)), &output);
        must_be("git fetch", code, 0)?;
        Ok(())
    }

    /// Commands to look around with, once everything is kept.
    pub fn look_around(&self) -> Vec<String> {
        let repo = self.repo().display().to_string();
        let config = format!("export GIT_CONFIG_GLOBAL='{}'", self.root.join("home/gitconfig").display());
        vec![
            format!("cd '{repo}'; {config}"),
            "git loop log fix".to_owned(),
            "git loop show fix 2".to_owned(),
            "git loop diff cheat 1".to_owned(),
            "git loop status keep".to_owned(),
            "git loop review keep --approve --key ../home/reviewer".to_owned(),
            "git log --show-signature --notes=loops/fix refs/loops/fix/ledger".to_owned(),
        ]
    }

    fn run_git(&self, args: &[&str], dir: &Path) -> Result<(String, i32)> {
        self.spawn(&self.git.path().display().to_string(), args, dir)
    }

    /// Runs a program as a person would in a shell with the demo's variables; both streams in one, in their order.
    fn spawn(&self, program: &str, args: &[&str], dir: &Path) -> Result<(String, i32)> {
        self.go_on()?;
        let mut command = Command::new("sh");
        command.args(["-c", "exec \"$0\" \"$@\" 2>&1", program]).args(args);
        command.env_clear().envs(self.host.vars()).current_dir(dir).stdin(Stdio::null());
        let output = command.output().or_workspace(|| format!("{program} cannot be run"))?;
        Ok((String::from_utf8_lossy(&output.stdout).into_owned(), output.status.code().unwrap_or(-1)))
    }
}

fn must_be(what: &str, found: i32, expected: i32) -> Result<()> {
    if found == expected {
        return Ok(());
    }
    Err(Error::internal(format!("the demo expected exit code {expected} of `{what}`, it was {found}")))
}

/// Arguments as one would type them in a shell.
fn quoted(args: &[&str]) -> String {
    let plain = |arg: &str| {
        !arg.is_empty() && arg.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_./:=@%,".contains(&b))
    };
    let quote =
        |arg: &&str| if plain(arg) { (*arg).to_owned() } else { format!("'{}'", arg.replace('\'', "'\\''")) };
    args.iter().map(quote).collect::<Vec<_>>().join(" ")
}

/// A path as a value in a git config file.
fn config_value(path: &Path) -> String {
    format!("\"{}\"", path.display().to_string().replace('\\', "\\\\").replace('"', "\\\""))
}
