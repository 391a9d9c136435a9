//! Streams, colour and the pager. Data goes to stdout; status, hints and errors go to stderr.

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use serde_json::{Map, Value, json};

use crate::error::{Error, Kind};
use crate::escape::escape_terminal;
use crate::exit::ExitCode;
use crate::host::HostEnv;

/// When to colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum ColorChoice {
    /// On a terminal that can.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// What colour says about a piece of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// Accepted, passing, verified.
    Good,
    /// Blocked, failing, refused.
    Bad,
    /// Rejected, waiting, to be looked at.
    Warn,
    /// Less important.
    Dim,
    /// A heading.
    Bold,
}

impl Tone {
    fn code(self) -> &'static str {
        match self {
            Self::Good => "32",
            Self::Bad => "31",
            Self::Warn => "33",
            Self::Dim => "2",
            Self::Bold => "1",
        }
    }
}

/// Paints text or leaves it alone.
#[derive(Debug, Clone, Copy)]
pub struct Paint(bool);

impl Paint {
    /// Leaves text alone.
    pub const PLAIN: Self = Self(false);

    /// `text` in the colour of `tone`.
    pub fn tone(self, tone: Tone, text: &str) -> String {
        if self.0 { format!("\x1b[{}m{text}\x1b[0m", tone.code()) } else { text.to_owned() }
    }
}

/// What a command answers with.
#[derive(Debug)]
pub struct Reply {
    /// `ok`, or the status of the loop it is about.
    pub status: String,
    /// What is wrong although there is an answer.
    pub errors: Vec<Value>,
    /// What the JSON object says besides tool, version, status and errors.
    pub fields: Map<String, Value>,
    /// What people read on stdout.
    pub text: String,
    /// What to do next, said after the text.
    pub hints: Vec<String>,
    /// Whether the text may be long enough for a pager.
    pub paged: bool,
    /// The exit code.
    pub exit: ExitCode,
}

impl Reply {
    /// A reply of status `ok` with this text.
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            status: "ok".to_owned(),
            errors: Vec::new(),
            fields: Map::new(),
            text: text.into(),
            hints: Vec::new(),
            paged: false,
            exit: ExitCode::OK,
        }
    }

    /// Sets the status.
    #[must_use]
    pub fn status(mut self, status: impl Into<String>) -> Self {
        self.status = status.into();
        self
    }

    /// Adds what is wrong to the JSON object.
    #[must_use]
    pub fn errors<'e>(mut self, errors: impl IntoIterator<Item = &'e Error>) -> Self {
        self.errors.extend(errors.into_iter().map(error_object));
        self
    }

    /// Adds a field to the JSON object.
    #[must_use]
    pub fn field(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.fields.insert(name.to_owned(), value.into());
        self
    }

    /// Adds all fields of a JSON object.
    #[must_use]
    pub fn fields(mut self, fields: Map<String, Value>) -> Self {
        self.fields.extend(fields);
        self
    }

    /// Names a next step, which is said after the text.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// Shows the text in a pager if it is long.
    #[must_use]
    pub fn paged(mut self) -> Self {
        self.paged = true;
        self
    }

    /// Sets the exit code.
    #[must_use]
    pub fn exit(mut self, code: ExitCode) -> Self {
        self.exit = code;
        self
    }
}

/// The two streams and how to write on them.
#[derive(Debug)]
pub struct Ui {
    json: bool,
    quiet: bool,
    pager: Option<String>,
    out: Paint,
    err: Paint,
    /// Why something that was told could not be written.
    unwritten: OnceLock<io::Error>,
}

impl Ui {
    /// A user interface for these global options.
    pub fn new(json: bool, quiet: bool, color: ColorChoice, no_pager: bool, host: &HostEnv) -> Self {
        let dumb = host.var("TERM").is_none_or(|term| term == "dumb");
        let paint = |terminal: bool| match color {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => {
                terminal && !dumb && host.var("NO_COLOR").is_none_or(std::ffi::OsStr::is_empty)
            }
        };
        let stdout = io::stdout().is_terminal();
        // Only the user's environment names a pager; a repository's config must not name a program that we run.
        let pager = (stdout && !json && !no_pager && !dumb)
            .then(|| host.str_var("GIT_PAGER").or_else(|| host.str_var("PAGER")).unwrap_or("less").to_owned())
            .filter(|pager| !pager.is_empty() && pager != "cat");
        Self {
            json,
            quiet,
            pager,
            out: Paint(paint(stdout) && !json),
            err: Paint(paint(io::stderr().is_terminal())),
            unwritten: OnceLock::new(),
        }
    }

    /// Whether the caller wants JSON.
    pub fn json(&self) -> bool {
        self.json
    }

    /// Paint for stdout.
    pub fn out(&self) -> Paint {
        self.out
    }

    /// Paint for stderr.
    pub fn err(&self) -> Paint {
        self.err
    }

    /// Says what is going on, on stderr, unless quiet.
    pub fn say(&self, line: &str) {
        if !self.quiet {
            let _ = writeln!(io::stderr().lock(), "{}", shown(line));
        }
    }

    /// Says what to look out for, on stderr, unless quiet.
    pub fn warn(&self, line: &str) {
        if self.quiet {
            return;
        }
        let _ = writeln!(io::stderr().lock(), "{} {}", self.err.tone(Tone::Warn, "warning:"), shown(line));
    }

    /// Tells a story: on stdout, or on stderr where stdout is for JSON.
    pub fn tell(&self, line: &str) {
        if self.json {
            self.say(line);
        } else {
            self.write(&format!("{}\n", shown(line)));
        }
    }

    /// Names the next step, on stderr, unless quiet.
    fn hint(&self, line: &str) {
        self.say(&format!("{} {line}", self.err.tone(Tone::Dim, "hint:")));
    }

    /// Writes the answer of a command and gives its exit code. An answer that cannot be written is an error, whatever the answer:
    /// a program that reads it would take the half of it, or nothing, for the whole.
    pub fn finish(&self, result: Result<Reply, Error>) -> ExitCode {
        let code = match result {
            Ok(reply) => {
                if self.json {
                    let mut fields = reply.fields;
                    if !reply.hints.is_empty() {
                        fields.insert("next".to_owned(), reply.hints.clone().into());
                    }
                    self.print(&format!("{}\n", object(&reply.status, &reply.errors, fields)), false);
                } else {
                    self.print(&shown(&reply.text), reply.paged);
                }
                for hint in &reply.hints {
                    self.hint(hint);
                }
                reply.exit
            }
            Err(error) => {
                self.error(&error);
                error.exit_code()
            }
        };
        match self.unwritten.get() {
            None => code,
            Some(cause) => unwritten(self.err, cause, code),
        }
    }

    fn error(&self, error: &Error) {
        tell_error(self.err, error);
        if self.json {
            let status = match error.kind() {
                Kind::Refused | Kind::Halt(_) => "refused",
                _ => "error",
            };
            self.print(&format!("{}\n", object(status, &[error_object(error)], Map::new())), false);
        }
    }

    /// Writes data.
    fn print(&self, text: &str, paged: bool) {
        if paged
            && let Some(pager) = &self.pager
            && page(pager, text).is_ok()
        {
            return;
        }
        self.write(text);
    }

    /// Writes on stdout and remembers if that did not work. A reader that has gone away has read what it wanted.
    fn write(&self, text: &str) {
        let mut out = io::stdout().lock();
        if let Err(error) = out.write_all(text.as_bytes()).and_then(|()| out.flush())
            && error.kind() != io::ErrorKind::BrokenPipe
        {
            let _ = self.unwritten.set(error);
        }
    }
}

/// Says that the answer could not be written. `code` is what the command came to.
fn unwritten(paint: Paint, cause: &io::Error, code: ExitCode) -> ExitCode {
    let error = Error::workspace(format!("the answer cannot be written to standard output: {cause}"));
    let error = match code {
        ExitCode::OK => error.hint("the command itself was done"),
        code => error.hint(format!("the command itself came to exit code {code}")),
    };
    tell_error(paint, &error);
    error.exit_code()
}

fn tell_error(paint: Paint, error: &Error) {
    let mut err = io::stderr().lock();
    let _ = writeln!(err, "{} {}", paint.tone(Tone::Bad, "error:"), shown(&error.chain()));
    for hint in error.hints() {
        let _ = writeln!(err, "{} {}", paint.tone(Tone::Dim, "hint:"), shown(hint));
    }
}

/// Writes what clap has to say: help and versions on stdout, which is what was asked for, and faults of usage on stderr.
/// Where it sends people to `--help`, which git takes for itself, they are sent to `help`.
/// `usage` stands in for the usage that clap writes.
pub fn clap_message(message: &clap::Error, help: &str, usage: Option<&str>, code: ExitCode) -> ExitCode {
    let terminal = if message.use_stderr() { io::stderr().is_terminal() } else { io::stdout().is_terminal() };
    let unset = |name| std::env::var_os(name).is_none_or(|value| value.is_empty());
    let plain = !terminal || !unset("NO_COLOR") || std::env::var_os("TERM").is_none_or(|term| term == "dumb");
    let rendered = message.render();
    let text = if plain { rendered.to_string() } else { rendered.ansi().to_string() };
    let text = text.replace("see more with '--help'", &format!("see more with '{help}'"));
    let text = match text.split_once("For more information, try") {
        Some((before, _)) => format!("{before}For more information: {help}\n"),
        None => text,
    };
    let text = match usage.filter(|_| plain) {
        Some(usage) => {
            let ours =
                |line: &str| if line.starts_with("Usage: ") { usage.to_owned() } else { line.to_owned() };
            text.lines().map(ours).map(|line| line + "\n").collect()
        }
        None => text,
    };
    let written = if message.use_stderr() {
        io::stderr().write_all(text.as_bytes())
    } else {
        io::stdout().write_all(text.as_bytes()).and_then(|()| io::stdout().flush())
    };
    match written {
        Err(cause) if cause.kind() != io::ErrorKind::BrokenPipe && !message.use_stderr() => {
            unwritten(Paint::PLAIN, &cause, code)
        }
        _ => code,
    }
}

/// An error in the list of the JSON object.
fn error_object(error: &Error) -> Value {
    json!({ "message": error.chain(), "hints": error.hints(), "exit_code": error.exit_code().get() })
}

/// The one JSON object of a command.
fn object(status: &str, errors: &[Value], fields: Map<String, Value>) -> String {
    let mut all = Map::new();
    all.insert("tool".to_owned(), "git-loop".into());
    all.insert("version".to_owned(), env!("CARGO_PKG_VERSION").into());
    all.insert("status".to_owned(), status.into());
    all.insert("errors".to_owned(), errors.to_vec().into());
    all.extend(fields);
    let text = serde_json::to_string_pretty(&Value::Object(all)).expect("JSON values serialize");
    // Outside of strings JSON is plain; inside of them what a terminal would act on is escaped, and means the same.
    text.chars().fold(String::with_capacity(text.len()), |mut safe, c| {
        let acts = ('\u{7f}'..='\u{9f}').contains(&c)
            || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        if acts {
            let _ = write!(safe, "\\u{:04x}", u32::from(c));
        } else {
            safe.push(c);
        }
        safe
    })
}

/// Text as it may be written on a terminal: everything that a terminal would act on is escaped, but the few colours
/// that [`Paint`] uses. The last line of defence; whoever shows foreign text on one line escapes it before.
fn shown(text: &str) -> String {
    const OURS: [&str; 6] = ["\x1b[32m", "\x1b[31m", "\x1b[33m", "\x1b[2m", "\x1b[1m", "\x1b[0m"];
    let mut safe = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\x1b') {
        safe.push_str(&escape_terminal(&rest[..at]));
        let code = OURS.iter().find(|code| rest[at..].starts_with(**code));
        let taken = code.map_or("\x1b", |code| code);
        match code {
            Some(code) => safe.push_str(code),
            None => safe.push_str(&escape_terminal(taken)),
        }
        rest = &rest[at + taken.len()..];
    }
    safe.push_str(&escape_terminal(rest));
    safe
}

fn page(pager: &str, text: &str) -> io::Result<()> {
    let mut words = pager.split_whitespace();
    let program = words.next().ok_or(io::ErrorKind::NotFound)?;
    let mut command = Command::new(program);
    command.args(words).stdin(Stdio::piped());
    // The defaults git gives less: quit if it fits, keep colours, leave the screen alone.
    if std::env::var_os("LESS").is_none() {
        command.env("LESS", "FRX");
    }
    let mut child = command.spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        let _ = stdin.write_all(text.as_bytes());
    }
    child.wait().map(|_| ())
}
