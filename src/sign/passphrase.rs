//! Getting the passphrase of an encrypted key, once for a run: from an askpass program or from the terminal, never by waiting
//! for something that is not there.

use std::env;
use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use zeroize::Zeroizing;

use super::keygen::{find_program, scrub, wait_until};

/// How long a person may take to answer.
const PATIENCE: Duration = Duration::from_secs(60);
/// OpenSSH takes no longer passphrase either.
const LONGEST: usize = 1024;

/// What `SSH_ASKPASS_REQUIRE` says (ssh(1)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AskpassRequire {
    /// Use the askpass program only without a terminal, and if there is a display.
    #[default]
    Auto,
    /// `never`.
    Never,
    /// `prefer`: rather than the terminal, if there is a display.
    Prefer,
    /// `force`: always, display or not.
    Force,
}

/// The ways to ask for a passphrase that a process has. The default has none.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PassphraseSource {
    /// The askpass program: `SSH_ASKPASS`.
    pub askpass: Option<PathBuf>,
    /// When to use it.
    pub require: AskpassRequire,
    /// Is there a display for it?
    pub display: bool,
    /// May the terminal be asked?
    pub terminal: bool,
}

/// Why there is no passphrase.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NoPassphrase {
    Nobody,
    Askpass { program: PathBuf, reason: String },
    Terminal(String),
}

impl fmt::Display for NoPassphrase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nobody => f.write_str(
                "there is nobody to ask for its passphrase: no terminal and no usable SSH_ASKPASS",
            ),
            Self::Askpass { program, reason } => {
                write!(f, "the askpass program `{}` gave no passphrase: {reason}", program.display())
            }
            Self::Terminal(reason) => write!(f, "the terminal gave no passphrase: {reason}"),
        }
    }
}

impl PassphraseSource {
    /// What this process's environment offers.
    pub fn from_environment() -> Self {
        let set = |name| env::var_os(name).filter(|value| !value.is_empty());
        let require = match env::var("SSH_ASKPASS_REQUIRE").unwrap_or_default().to_ascii_lowercase().as_str()
        {
            "never" => AskpassRequire::Never,
            "prefer" => AskpassRequire::Prefer,
            "force" => AskpassRequire::Force,
            _ => AskpassRequire::Auto,
        };
        let askpass = set("SSH_ASKPASS").map(PathBuf::from).and_then(|program| {
            if program.is_absolute() {
                return Some(program);
            }
            find_program(program.to_str()?, &set("PATH")?)
        });
        Self {
            askpass,
            require,
            display: set("DISPLAY").is_some() || set("WAYLAND_DISPLAY").is_some(),
            terminal: terminal::exists(),
        }
    }

    /// The askpass program, if the rules of ssh(1) choose it over the terminal.
    fn chosen_askpass(&self) -> Option<&Path> {
        let allowed = match self.require {
            AskpassRequire::Never => false,
            AskpassRequire::Force => true,
            AskpassRequire::Prefer => self.display,
            AskpassRequire::Auto => self.display && !self.terminal,
        };
        self.askpass.as_deref().filter(|_| allowed)
    }

    /// How often it makes sense to ask: only a person at a terminal does better the second time.
    pub(super) fn attempts(&self) -> usize {
        if self.chosen_askpass().is_none() && self.terminal { 3 } else { 1 }
    }

    /// Asks once for the passphrase of the key file `path`.
    pub(super) fn ask(&self, path: &Path) -> Result<Zeroizing<String>, NoPassphrase> {
        let prompt = format!("Enter passphrase for {}: ", path.display());
        if let Some(program) = self.chosen_askpass() {
            return askpass(program, &prompt)
                .map_err(|reason| NoPassphrase::Askpass { program: program.to_owned(), reason });
        }
        if self.terminal && self.require != AskpassRequire::Force {
            return terminal::ask(&prompt, PATIENCE).map_err(NoPassphrase::Terminal);
        }
        Err(NoPassphrase::Nobody)
    }

    /// Tells `ssh-keygen` the same rules. Without a terminal on its standard input it only ever uses an askpass program.
    pub(super) fn apply(&self, command: &mut Command) {
        command.env_remove("SSH_ASKPASS").env_remove("SSH_ASKPASS_REQUIRE");
        if let (Some(program), true) = (&self.askpass, self.require != AskpassRequire::Never) {
            command.env("SSH_ASKPASS", program);
            if self.chosen_askpass().is_some() || self.display {
                command.env("SSH_ASKPASS_REQUIRE", "force");
            }
        } else {
            command.env("SSH_ASKPASS_REQUIRE", "never");
        }
    }
}

/// Runs an askpass program, which prints the passphrase as one line.
fn askpass(program: &Path, prompt: &str) -> Result<Zeroizing<String>, String> {
    let mut command = Command::new(program);
    command.arg(prompt).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    scrub(&mut command);
    let mut child = command.spawn().map_err(|error| error.to_string())?;
    let deadline = Instant::now() + PATIENCE;
    let mut stdout = child.stdout.take().ok_or("it has no output")?;
    // In a thread of its own, because something that the program leaves behind may hold the pipe open for ever.
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut line = Zeroizing::new(Vec::with_capacity(LONGEST));
        let mut byte = Zeroizing::new([0_u8]);
        while line.len() < LONGEST {
            match stdout.read(&mut byte[..]) {
                Ok(1) if !matches!(byte[0], b'\n' | b'\r') => line.push(byte[0]),
                _ => break,
            }
        }
        // Nobody listens any more if it took too long.
        let _ = sender.send(line);
    });
    let status = wait_until(&mut child, deadline).map_err(|error| error.to_string())?;
    let status = status.ok_or_else(|| format!("it took longer than {} seconds", PATIENCE.as_secs()))?;
    if !status.success() {
        return Err(format!("it ended with {status}"));
    }
    let line = receiver
        .recv_timeout(deadline.saturating_duration_since(Instant::now()))
        .map_err(|_| "its output did not end".to_owned())?;
    to_text(&line)
}

fn to_text(line: &[u8]) -> Result<Zeroizing<String>, String> {
    match std::str::from_utf8(line) {
        Ok("") => Err("it is empty".to_owned()),
        Ok(text) => Ok(Zeroizing::new(text.to_owned())),
        Err(_) => Err("it is not UTF-8".to_owned()),
    }
}

#[cfg(unix)]
mod terminal {
    //! The controlling terminal, with echo off. Signal keys are off as well, so that an interrupted prompt can put the terminal back.

    use std::fs::{File, OpenOptions};
    use std::io::{self, Read, Write};
    use std::mem::MaybeUninit;
    use std::os::fd::AsRawFd;
    use std::time::{Duration, Instant};

    use zeroize::{Zeroize, Zeroizing};

    use super::{LONGEST, to_text};

    fn open() -> io::Result<File> {
        OpenOptions::new().read(true).write(true).open("/dev/tty")
    }

    /// Is there a terminal, and are we in its foreground? Asking from the background would stop the process.
    pub(super) fn exists() -> bool {
        open().is_ok_and(|tty| {
            // SAFETY: both calls only take numbers; `tty` is open.
            unsafe { libc::tcgetpgrp(tty.as_raw_fd()) == libc::getpgrp() }
        })
    }

    struct Restore<'a> {
        tty: &'a File,
        before: libc::termios,
    }

    impl Drop for Restore<'_> {
        fn drop(&mut self) {
            // SAFETY: `before` was filled by tcgetattr, and `tty` is open as long as we borrow it.
            unsafe { libc::tcsetattr(self.tty.as_raw_fd(), libc::TCSAFLUSH, &raw const self.before) };
        }
    }

    fn silence(tty: &File) -> io::Result<Restore<'_>> {
        let mut before = MaybeUninit::<libc::termios>::uninit();
        // SAFETY: `tty` is open and `before` is large enough.
        if unsafe { libc::tcgetattr(tty.as_raw_fd(), before.as_mut_ptr()) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: tcgetattr succeeded, so it has filled `before`.
        let before = unsafe { before.assume_init() };
        let mut quiet = before;
        quiet.c_lflag &= !(libc::ECHO | libc::ECHONL | libc::ICANON | libc::ISIG);
        // Reads return after 0.1 s without input, so that we can give up.
        quiet.c_cc[libc::VMIN] = 0;
        quiet.c_cc[libc::VTIME] = 1;
        // SAFETY: `quiet` is a whole termios and `tty` is open.
        if unsafe { libc::tcsetattr(tty.as_raw_fd(), libc::TCSAFLUSH, &raw const quiet) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Restore { tty, before })
    }

    pub(super) fn ask(prompt: &str, patience: Duration) -> Result<Zeroizing<String>, String> {
        let text = |error: io::Error| error.to_string();
        let tty = open().map_err(text)?;
        let restore = silence(&tty).map_err(text)?;
        (&tty).write_all(prompt.as_bytes()).map_err(text)?;
        let line = read_line(&tty, Instant::now() + patience);
        drop(restore);
        (&tty).write_all(b"\n").map_err(text)?;
        to_text(&line?)
    }

    fn read_line(mut tty: &File, deadline: Instant) -> Result<Zeroizing<Vec<u8>>, String> {
        const INTERRUPT: u8 = 0x03;
        const END: u8 = 0x04;
        const KILL_LINE: u8 = 0x15;

        let mut line = Zeroizing::new(Vec::with_capacity(LONGEST));
        let mut byte = Zeroizing::new([0_u8]);
        while Instant::now() < deadline {
            if tty.read(&mut byte[..]).map_err(|error| error.to_string())? == 0 {
                continue;
            }
            match byte[0] {
                b'\n' | b'\r' | END => return Ok(line),
                INTERRUPT => return Err("the prompt was interrupted".to_owned()),
                KILL_LINE => line.zeroize(),
                // One character, which may be several bytes of UTF-8.
                0x08 | 0x7f => while line.pop().is_some_and(|byte| byte & 0xc0 == 0x80) {},
                byte if line.len() < LONGEST => line.push(byte),
                _ => return Err("it is too long".to_owned()),
            }
        }
        Err("nobody answered in time".to_owned())
    }
}

#[cfg(not(unix))]
mod terminal {
    //! No prompt of our own here: a key must be in an agent, or have an askpass program.

    use std::time::Duration;

    use zeroize::Zeroizing;

    pub(super) fn exists() -> bool {
        false
    }

    pub(super) fn ask(_prompt: &str, _patience: Duration) -> Result<Zeroizing<String>, String> {
        Err("asking at the terminal is not supported on this system".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rules_of_ssh_choose_between_askpass_and_terminal() {
        use AskpassRequire::{Auto, Force, Never, Prefer};
        for (require, display, terminal, chosen) in [
            (Auto, true, false, true),
            (Auto, false, false, false),
            (Auto, true, true, false),
            (Prefer, true, true, true),
            (Prefer, false, false, false),
            (Force, false, true, true),
            (Never, true, false, false),
        ] {
            let source =
                PassphraseSource { askpass: Some("/bin/askpass".into()), require, display, terminal };
            assert_eq!(source.chosen_askpass().is_some(), chosen, "{source:?}");
        }
        assert_eq!(PassphraseSource::default().ask(Path::new("k")), Err(NoPassphrase::Nobody));
    }

    #[cfg(unix)]
    #[test]
    fn report_2_58_an_askpass_that_fails_is_named() {
        let source = PassphraseSource {
            askpass: Some("/bin/false".into()),
            require: AskpassRequire::Force,
            ..PassphraseSource::default()
        };
        let error = source.ask(Path::new("/keys/k")).unwrap_err();
        assert!(
            error.to_string().starts_with("the askpass program `/bin/false` gave no passphrase"),
            "{error}"
        );
    }
}
