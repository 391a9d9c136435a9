//! The hook scripts: short POSIX shell that hands everything to the program, and lets nothing pass without it.

use std::path::Path;

use serde::Serialize;

/// A hook that the gate has a script for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum HookName {
    /// A client, before it pushes.
    PrePush,
    /// A server, before any ref moves.
    PreReceive,
    /// A server, once for each ref; for hosts that run no `pre-receive`.
    Update,
}

/// What the second line of every script of ours begins with.
const MARKER: &str = "# git-loop-hook: ";

impl HookName {
    /// Every hook.
    pub const ALL: &[Self] = &[Self::PrePush, Self::PreReceive, Self::Update];

    /// The name that git gives the hook and its file.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::PrePush => "pre-push",
            Self::PreReceive => "pre-receive",
            Self::Update => "update",
        }
    }

    /// The file beside the hook that keeps the one which was there before.
    pub fn chained(self) -> String {
        format!("{}.git-loop-chained", self.as_str())
    }

    fn template(self) -> &'static str {
        match self {
            Self::PrePush => include_str!("../../hooks/pre-push"),
            Self::PreReceive => include_str!("../../hooks/pre-receive"),
            Self::Update => include_str!("../../hooks/update"),
        }
    }

    /// The script. `binary` is the program to use where `git-loop` is not on `PATH`; it must be absolute. `None` if the
    /// path cannot be written into a script (on Windows, where it is not Unicode).
    pub fn script(self, binary: &Path) -> Option<Vec<u8>> {
        let (head, tail) = self.template().split_once("@BINARY@")?;
        let mut script = head.replace("@VERSION@", env!("CARGO_PKG_VERSION")).into_bytes();
        quote(&mut script, &path_bytes(binary)?);
        script.extend_from_slice(tail.as_bytes());
        Some(script)
    }
}

/// Whether a hook file is a script of ours, of any version.
pub fn is_ours(content: &[u8]) -> bool {
    content.split(|byte| *byte == b'\n').nth(1).is_some_and(|line| line.starts_with(MARKER.as_bytes()))
}

/// The program that a script of ours falls back to.
pub(super) fn installed_binary(script: &[u8]) -> Option<Vec<u8>> {
    let start = script.windows(11).position(|window| window == b"\ninstalled=")? + 11;
    let quoted = &script[start..];
    let (mut path, mut at) = (Vec::new(), 0);
    // What `quote` writes: quoted runs, and quotes between them behind a backslash.
    loop {
        match quoted.get(at)? {
            b'\'' => {
                let end = at + 1 + quoted[at + 1..].iter().position(|byte| *byte == b'\'')?;
                path.extend_from_slice(&quoted[at + 1..end]);
                at = end + 1;
            }
            b'\\' => {
                path.push(*quoted.get(at + 1)?);
                at += 2;
            }
            b'\n' => return Some(path),
            _ => return None,
        }
    }
}

fn quote(script: &mut Vec<u8>, text: &[u8]) {
    script.push(b'\'');
    for byte in text {
        match byte {
            b'\'' => script.extend_from_slice(br"'\''"),
            byte => script.push(*byte),
        }
    }
    script.push(b'\'');
}

#[cfg(unix)]
#[allow(clippy::unnecessary_wraps, reason = "the other platforms can fail")]
fn path_bytes(path: &Path) -> Option<Vec<u8>> {
    use std::os::unix::ffi::OsStrExt as _;
    Some(path.as_os_str().as_bytes().to_vec())
}

#[cfg(not(unix))]
fn path_bytes(path: &Path) -> Option<Vec<u8>> {
    // The shell that git for Windows brings takes forward slashes.
    path.to_str().map(|path| path.replace('\\', "/").into_bytes())
}

#[cfg(all(test, unix))]
mod tests {
    use std::ffi::OsStr;
    use std::fs;
    use std::io::Write as _;
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::PathBuf;
    use std::process::{Command, Output, Stdio};

    use super::*;

    fn executable(path: &Path, script: impl AsRef<[u8]>) {
        fs::write(path, script).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    struct Hooks {
        dir: tempfile::TempDir,
        name: HookName,
    }

    impl Hooks {
        /// A hooks folder whose path holds what shells trip over, and a program that records what it gets.
        fn new(name: HookName) -> Self {
            let dir = tempfile::tempdir().unwrap();
            let hooks = Self { dir, name };
            fs::create_dir_all(hooks.path("")).unwrap();
            hooks.program(0);
            executable(&hooks.path(name.as_str()), name.script(&hooks.binary()).unwrap());
            hooks
        }

        fn root(&self) -> PathBuf {
            self.dir.path().canonicalize().unwrap().join("a 'q' $(touch x) \"d\" : *")
        }

        fn path(&self, name: &str) -> PathBuf {
            self.root().join("hooks").join(name)
        }

        fn binary(&self) -> PathBuf {
            self.root().join("the program")
        }

        fn program(&self, code: u8) {
            executable(
                &self.binary(),
                format!(
                    "#!/bin/sh\n{{ echo \"args:$*\"; cat; }} >>\"$(dirname \"$0\")/seen\"\nexit {code}\n"
                ),
            );
        }

        fn seen(&self) -> Vec<u8> {
            fs::read(self.root().join("seen")).unwrap_or_default()
        }

        fn run(&self, shell: &str, args: &[&str], input: &[u8]) -> Output {
            self.run_with(shell, args, input, &[("PATH", OsStr::new("/usr/bin:/bin"))])
        }

        fn run_with(&self, shell: &str, args: &[&str], input: &[u8], vars: &[(&str, &OsStr)]) -> Output {
            let mut child = Command::new(shell)
                .arg(self.path(self.name.as_str()))
                .args(args)
                .env_clear()
                .envs(vars.iter().copied())
                .current_dir(self.dir.path())
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            // A hook may end without reading.
            let _ = child.stdin.take().unwrap().write_all(input);
            child.wait_with_output().unwrap()
        }
    }

    fn shells() -> Vec<&'static str> {
        ["/bin/sh", "/usr/bin/dash", "/bin/bash"]
            .into_iter()
            .filter(|shell| Path::new(shell).exists())
            .collect()
    }

    const INPUT: &[u8] = b"refs/heads/\xff main's %s\\n 1 x 2\nsecond `line` $HOME\n";

    #[test]
    fn the_program_gets_arguments_and_input_as_git_gave_them() {
        for shell in shells() {
            for name in [HookName::PrePush, HookName::PreReceive] {
                for input in [INPUT, b"", b"no line end", b"\n\n"] {
                    let hooks = Hooks::new(name);
                    let output = hooks.run(shell, &["origin", "/a b/*"], input);
                    assert!(output.status.success(), "{shell} {output:?}");
                    let expected =
                        [format!("args:hook {} origin /a b/*\n", name.as_str()).as_bytes(), input].concat();
                    assert_eq!(hooks.seen(), expected, "{shell}");
                }
            }
        }
    }

    /// Field report 2.51: a hook that reads its input leaves none for the next.
    #[test]
    fn a_chained_hook_runs_and_reads_the_same_input() {
        for shell in shells() {
            let hooks = Hooks::new(HookName::PrePush);
            executable(
                &hooks.path("pre-push.git-loop-chained"),
                "#!/bin/sh\ncat >\"$(dirname \"$0\")/chained\"\necho \"$@\"\n",
            );
            let output = hooks.run(shell, &["origin", "url"], INPUT);
            assert!(output.status.success(), "{shell} {output:?}");
            assert_eq!(output.stdout, b"origin url\n");
            assert_eq!(fs::read(hooks.path("chained")).unwrap(), INPUT, "{shell}");
            assert!(hooks.seen().ends_with(INPUT), "{shell}");
        }
    }

    #[test]
    fn the_first_failure_stops_with_its_code() {
        for shell in shells() {
            let hooks = Hooks::new(HookName::PrePush);
            executable(&hooks.path("pre-push.git-loop-chained"), "#!/bin/sh\nexit 7\n");
            assert_eq!(hooks.run(shell, &["o", "u"], INPUT).status.code(), Some(7));
            assert_eq!(hooks.seen(), b"", "the gate is not asked any more");

            executable(&hooks.path("pre-push.git-loop-chained"), "#!/bin/sh\nexit 0\n");
            hooks.program(1);
            // Neither hook needs to read a long input.
            let long = b"x".repeat(1 << 20);
            assert_eq!(hooks.run(shell, &["o", "u"], &long).status.code(), Some(1));
            // git runs no hook that is not executable, so the chain does not either.
            fs::set_permissions(hooks.path("pre-push.git-loop-chained"), fs::Permissions::from_mode(0o644))
                .unwrap();
            hooks.program(0);
            assert!(hooks.run(shell, &["o", "u"], INPUT).status.success());
        }
    }

    #[test]
    fn without_the_program_nothing_passes() {
        for shell in shells() {
            for name in HookName::ALL {
                let hooks = Hooks::new(*name);
                fs::remove_file(hooks.binary()).unwrap();
                let output = hooks.run(shell, &["a", "b", "c"], b"");
                assert_eq!(output.status.code(), Some(1), "{shell} {output:?}");
                let message = String::from_utf8(output.stderr).unwrap();
                assert!(message.contains("cannot find the program git-loop, so nothing passes"), "{message}");
                assert!(message.contains(hooks.binary().to_str().unwrap()), "{message}");
                // Not even `cat` can be found.
                let output =
                    hooks.run_with(shell, &["a", "b", "c"], b"", &[("PATH", OsStr::new("/nonexistent"))]);
                assert_ne!(output.status.code(), Some(0), "{shell}");
            }
        }
    }

    #[test]
    fn a_program_on_the_path_wins() {
        for shell in shells() {
            let hooks = Hooks::new(HookName::Update);
            let bin = hooks.dir.path().join("bin");
            fs::create_dir(&bin).unwrap();
            executable(&bin.join("git-loop"), "#!/bin/sh\necho \"here $*\"\nexit 3\n");
            let path = format!("{}:/usr/bin:/bin", bin.display());
            let output =
                hooks.run_with(shell, &["refs/heads/x", "1", "2"], b"", &[("PATH", OsStr::new(&path))]);
            assert_eq!(output.status.code(), Some(3));
            assert_eq!(output.stdout, b"here hook update refs/heads/x 1 2\n");
        }
    }

    #[test]
    fn a_chain_that_leads_back_ends_and_is_still_judged() {
        for shell in shells() {
            for name in HookName::ALL {
                let hooks = Hooks::new(*name);
                let back = format!("#!/bin/sh\nexec \"$(dirname \"$0\")/{}\" \"$@\"\n", name.as_str());
                executable(&hooks.path(&name.chained()), back);
                let output = hooks.run(shell, &["o"], b"");
                assert!(output.status.success(), "{shell} {output:?}");
                let twice = format!("args:hook {0} o\nargs:hook {0} o\n", name.as_str());
                assert_eq!(
                    String::from_utf8(hooks.seen()).unwrap(),
                    twice,
                    "{shell}: inside the chain, and after it"
                );
            }
        }
    }

    #[test]
    fn scripts_are_recognised_and_name_their_program() {
        for name in HookName::ALL {
            for binary in ["/usr/bin/git-loop", "/a 'b'/\\c\nd/''"] {
                let script = name.script(Path::new(binary)).unwrap();
                assert!(is_ours(&script));
                assert_eq!(installed_binary(&script).unwrap(), binary.as_bytes());
            }
            assert!(!is_ours(name.template().replace("git-loop-hook", "other").as_bytes()));
            assert!(name.template().contains(&format!("\nhook={}\n", name.as_str())));
        }
        assert!(!is_ours(b"") && !is_ours(b"#!/bin/sh\ncat git-loop-hook: \n"));
        assert_eq!(installed_binary(b"\ninstalled='x"), None);
    }
}
