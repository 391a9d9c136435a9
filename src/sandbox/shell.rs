//! Commands written as one string, and which file a program name means.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Where the system keeps its programs, in the order of `PATH`; those that exist, as this process first found them.
pub fn trusted_dirs() -> Vec<PathBuf> {
    static FOUND: OnceLock<Vec<PathBuf>> = OnceLock::new();
    let all = [
        "/usr/local/sbin",
        "/usr/local/bin",
        "/usr/sbin",
        "/usr/bin",
        "/sbin",
        "/bin",
        "/run/current-system/sw/bin",
        "/opt/homebrew/bin",
    ];
    FOUND.get_or_init(|| all.iter().map(PathBuf::from).filter(|dir| dir.is_dir()).collect()).clone()
}

/// Why a string command cannot be run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ShellError {
    /// Neither `bash` nor `sh` is there.
    #[error("no shell was found in the system's folders")]
    NoShell,
    /// The command has a pipe, and no shell here can tell that its first part failed.
    #[error("no shell here knows `pipefail`, so that a failure left of `|` would be hidden in: {command}")]
    NoPipefail {
        /// The command.
        command: String,
    },
}

impl From<ShellError> for crate::error::Error {
    fn from(error: ShellError) -> Self {
        let hint = match error {
            ShellError::NoShell => "install bash, or write the command in loop.toml as an array",
            ShellError::NoPipefail { .. } => "install bash, or write the command without a pipe",
        };
        Self::workspace(error.to_string()).hint(hint)
    }
}

/// The argument list for a string command: `bash -o pipefail -c COMMAND`, else `sh` where it knows pipefail, else plain `sh`
/// for commands that have no pipe. The shell is named by absolute path.
pub fn shell_argv(command: &str) -> Result<Vec<OsString>, ShellError> {
    let dirs = trusted_dirs();
    let find = |name: &str| resolve_program(OsStr::new(name), &dirs, Path::new("/nonexistent"));
    argv_with(command, find("bash"), find("sh"), sh_knows_pipefail)
}

fn argv_with(
    command: &str,
    bash: Option<PathBuf>,
    sh: Option<PathBuf>,
    pipefail: impl FnOnce(&Path) -> bool,
) -> Result<Vec<OsString>, ShellError> {
    let with = |shell: PathBuf, pipefail: bool| {
        let mut argv = vec![shell.into_os_string()];
        if pipefail {
            argv.extend(["-o".into(), "pipefail".into()]);
        }
        argv.extend(["-c".into(), command.into()]);
        argv
    };
    if let Some(bash) = bash {
        return Ok(with(bash, true));
    }
    let Some(sh) = sh else { return Err(ShellError::NoShell) };
    if pipefail(&sh) {
        return Ok(with(sh, true));
    }
    // A `|` inside quotes is refused too: to know better we would have to parse shell.
    if command.replace("||", "").contains('|') {
        return Err(ShellError::NoPipefail { command: command.into() });
    }
    Ok(with(sh, false))
}

fn sh_knows_pipefail(sh: &Path) -> bool {
    let mut probe = std::process::Command::new(sh);
    probe.args(["-o", "pipefail", "-c", "! false | true"]).env_clear();
    probe.stdin(std::process::Stdio::null()).stdout(std::process::Stdio::null());
    probe.stderr(std::process::Stdio::null());
    probe.status().is_ok_and(|status| status.success())
}

/// The file that a program name means. A name with a slash is relative to `cwd`. Any other is looked up in `path_dirs`, and never in a
/// folder inside `cwd` nor as a link into it: a worker could have put it there.
pub fn resolve_program(argv0: &OsStr, path_dirs: &[PathBuf], cwd: &Path) -> Option<PathBuf> {
    if has_slash(argv0) {
        let file = cwd.join(argv0);
        return is_program(&file).then_some(file);
    }
    if argv0.is_empty() {
        return None;
    }
    let tree = cwd.canonicalize().unwrap_or_else(|_| cwd.to_path_buf());
    let inside = |real: &Path, file: &Path| {
        tree.parent().is_some() && (real.starts_with(&tree) || file.starts_with(cwd))
    };
    let absolute = path_dirs.iter().filter(|dir| dir.is_absolute());
    let mut files = absolute.map(|dir| dir.join(argv0)).filter(|file| is_program(file));
    files.find(|file| file.canonicalize().is_ok_and(|real| !inside(&real, file)))
}

/// Whether a program is named by a path.
pub(super) fn has_slash(argv0: &OsStr) -> bool {
    argv0.as_encoded_bytes().contains(&b'/')
}

pub(super) fn is_program(file: &Path) -> bool {
    let Ok(meta) = file.metadata() else { return false };
    #[cfg(unix)]
    let executable = std::os::unix::fs::PermissionsExt::mode(&meta.permissions()) & 0o111 != 0;
    #[cfg(not(unix))]
    let executable = true;
    meta.is_file() && executable
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn program(file: &Path) {
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, "#!/bin/sh\n").unwrap();
        std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    #[test]
    fn field_report_1_31_a_program_is_never_found_inside_the_worktree() {
        let dir = tempfile::tempdir().unwrap();
        let (tree, system) = (dir.path().join("tree"), dir.path().join("system"));
        for file in [tree.join("bin/pytest"), tree.join("bin/cargo"), system.join("cargo")] {
            program(&file);
        }
        std::os::unix::fs::symlink(tree.join("bin"), dir.path().join("alias")).unwrap();
        std::fs::write(system.join("data"), "").unwrap();
        let dirs = [PathBuf::from("bin"), tree.join("bin"), dir.path().join("alias"), system.clone()];
        let find = |name: &str| resolve_program(OsStr::new(name), &dirs, &tree);
        assert_eq!(find("cargo"), Some(system.join("cargo")));
        assert_eq!(find("pytest"), None);
        assert_eq!(find("./bin/pytest"), Some(tree.join("./bin/pytest")));
        assert_eq!(find("data"), None);
        assert_eq!(find(""), None);
        assert_eq!(find("./bin"), None);
    }

    #[test]
    fn field_report_1_24_a_pipe_needs_pipefail() {
        let (bash, sh) = (PathBuf::from("/bin/bash"), PathBuf::from("/bin/sh"));
        let words = |argv: Vec<OsString>| argv.join(OsStr::new(" ")).into_string().unwrap();
        let pipe = "false | tail -1";
        let got = argv_with(pipe, Some(bash), Some(sh.clone()), |_| false).unwrap();
        assert_eq!(words(got), "/bin/bash -o pipefail -c false | tail -1");
        let got = argv_with(pipe, None, Some(sh.clone()), |_| true).unwrap();
        assert_eq!(words(got), "/bin/sh -o pipefail -c false | tail -1");
        let got = argv_with("a || b", None, Some(sh.clone()), |_| false).unwrap();
        assert_eq!(words(got), "/bin/sh -c a || b");
        assert!(matches!(argv_with(pipe, None, Some(sh), |_| false), Err(ShellError::NoPipefail { .. })));
        assert_eq!(argv_with(pipe, None, None, |_| true), Err(ShellError::NoShell));
        let argv = shell_argv(pipe).unwrap();
        let status = std::process::Command::new(&argv[0]).args(&argv[1..]).status().unwrap();
        assert!(!status.success());
    }
}
