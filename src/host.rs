//! What this process was given by its host: environment, current folder, clock.
//!
//! It is read once, at the edge, and passed in, so that nothing deeper depends on process-wide state and every
//! test can say exactly what a command sees.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::{env, io};

use jiff::Timestamp;

/// Where [`HostEnv::now`] takes the time from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// The clock of the machine.
    System,
    /// Always this moment; for tests and replays.
    Fixed(Timestamp),
}

/// An owned snapshot of the environment variables, the current folder and a clock.
#[derive(Debug, Clone)]
pub struct HostEnv {
    vars: BTreeMap<OsString, OsString>,
    current_dir: PathBuf,
    clock: Clock,
}

impl HostEnv {
    /// The snapshot of this process. Call it once, in `main`.
    pub fn from_process() -> io::Result<Self> {
        Ok(Self { vars: env::vars_os().collect(), current_dir: env::current_dir()?, clock: Clock::System })
    }

    /// A made-up host that has `vars` and nothing else. `current_dir` must be absolute.
    pub fn new<K, V>(vars: impl IntoIterator<Item = (K, V)>, current_dir: impl Into<PathBuf>) -> Self
    where
        K: Into<OsString>,
        V: Into<OsString>,
    {
        let vars = vars.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        Self { vars, current_dir: current_dir.into(), clock: Clock::System }
    }

    /// The same host with another clock.
    #[must_use]
    pub fn with_clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// The same host with one variable set.
    #[must_use]
    pub fn with_var(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.vars.insert(name.into(), value.into());
        self
    }

    /// The same host without one variable.
    #[must_use]
    pub fn without_var(mut self, name: impl AsRef<OsStr>) -> Self {
        self.vars.remove(name.as_ref());
        self
    }

    /// The same host in another folder, which must be absolute.
    #[must_use]
    pub fn with_current_dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.current_dir = dir.into();
        self
    }

    /// A variable. Empty is set, as for git.
    pub fn var(&self, name: impl AsRef<OsStr>) -> Option<&OsStr> {
        self.vars.get(name.as_ref()).map(OsString::as_os_str)
    }

    /// A variable that is set and not empty.
    pub fn non_empty_var(&self, name: impl AsRef<OsStr>) -> Option<&OsStr> {
        self.var(name).filter(|value| !value.is_empty())
    }

    /// A variable, if it is UTF-8.
    pub fn str_var(&self, name: impl AsRef<OsStr>) -> Option<&str> {
        self.var(name).and_then(OsStr::to_str)
    }

    /// All variables, by name.
    pub fn vars(&self) -> &BTreeMap<OsString, OsString> {
        &self.vars
    }

    /// The current folder, absolute.
    pub fn current_dir(&self) -> &Path {
        &self.current_dir
    }

    /// `path`, made absolute from the current folder without touching the disk.
    pub fn absolute(&self, path: impl AsRef<Path>) -> PathBuf {
        self.current_dir.join(path)
    }

    /// The home folder: `HOME`, and `USERPROFILE` where Windows has no `HOME`.
    pub fn home_dir(&self) -> Option<&Path> {
        let home = self.non_empty_var("HOME");
        let home = if cfg!(windows) { home.or_else(|| self.non_empty_var("USERPROFILE")) } else { home };
        home.map(Path::new)
    }

    /// The time, cut to whole seconds, which is all that git and the records keep.
    pub fn now(&self) -> Timestamp {
        let now = match self.clock {
            Clock::System => Timestamp::now(),
            Clock::Fixed(at) => at,
        };
        Timestamp::from_second(now.as_second()).unwrap_or(now)
    }

    /// The absolute path of a program on `PATH`.
    ///
    /// Empty and relative entries of `PATH` are skipped: they would let the folder we happen to be in, which may be
    /// a repository of somebody else, choose what we run.
    pub fn find_program(&self, name: &str) -> Option<PathBuf> {
        let path = self.var("PATH")?;
        env::split_paths(path).filter(|dir| dir.is_absolute()).find_map(|dir| {
            let candidate = dir.join(format!("{name}{}", env::consts::EXE_SUFFIX));
            is_executable(&candidate).then_some(candidate)
        })
    }
}

/// The name of this machine, without white space; `localhost` where there is none.
#[cfg(unix)]
pub fn host_name() -> String {
    let mut name = [0_u8; 256];
    // SAFETY: the buffer is ours and its length is given.
    let known = unsafe { libc::gethostname(name.as_mut_ptr().cast(), name.len()) } == 0;
    let end = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
    let name = if known { String::from_utf8_lossy(&name[..end]).into_owned() } else { String::new() };
    if name.is_empty() { "localhost".into() } else { name.replace(char::is_whitespace, "-") }
}

/// The name of this machine: not asked for here.
#[cfg(not(unix))]
pub fn host_name() -> String {
    "localhost".into()
}

#[cfg(unix)]
fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_executable(path: &Path) -> bool {
    path.is_file()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(vars: &[(&str, &str)]) -> HostEnv {
        HostEnv::new(vars.iter().copied(), "/work")
    }

    #[test]
    fn a_fixed_clock_has_whole_seconds() {
        let at = Timestamp::from_millisecond(1_700_000_000_999).unwrap();
        assert_eq!(host(&[]).with_clock(Clock::Fixed(at)).now().as_millisecond(), 1_700_000_000_000);
        assert_eq!(host(&[]).now().subsec_nanosecond(), 0);
    }

    #[test]
    fn empty_variables_are_set_but_not_taken_for_a_home() {
        let host = host(&[("HOME", ""), ("X", "")]);
        assert_eq!(host.var("X"), Some(OsStr::new("")));
        assert_eq!(host.home_dir(), None);
    }

    #[cfg(unix)]
    #[test]
    fn programs_are_never_taken_from_a_relative_path_entry() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("tool");
        std::fs::write(&program, "#!/bin/sh\n").unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        std::fs::write(dir.path().join("data"), "").unwrap();
        let found = |path: &str, name: &str| host(&[("PATH", path)]).find_program(name);
        let absolute = dir.path().to_str().unwrap();
        assert_eq!(found(&format!("::relative:{absolute}"), "tool"), Some(program));
        assert_eq!(found(absolute, "data"), None, "a file without the executable bit is no program");
        assert_eq!(found(".:", "tool"), None);
        assert_eq!(host(&[]).find_program("tool"), None);
    }
}
