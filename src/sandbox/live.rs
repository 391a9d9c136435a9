//! What a command prints, in files while it runs: to be watched, and to be found should the runner be killed.
//!
//! Nothing depends on these files, and nothing waits for them to be on the disk. They are written from what is held of the output anyway
//! ([`super::capture`]), now and then and not for every line: a command that is over before the first time has no file, and one that
//! prints without end costs no more than the size of its files each time. Where a file would become larger than what is kept of the start
//! and twice that of the end, it is replaced by one with start, cut and end, as evidence has them.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::capture::Capture;
use super::redact::Secrets;

/// The least time between the start of a command and the first writing, and between two of them.
pub const PERIOD: Duration = Duration::from_millis(100);

/// Where what a command prints is written while it runs.
#[derive(Debug, Clone)]
pub struct Live {
    /// The file for its standard output, or for both streams where they are one. Its folder is made if need be, for this user alone.
    pub stdout: PathBuf,
    /// The file for its standard error.
    pub stderr: PathBuf,
    /// What is not in them.
    pub secrets: Secrets,
    /// Other files that are written before the first of these: what commands printed that were over too soon to have files.
    pub earlier: Vec<(PathBuf, Vec<u8>)>,
}

/// What became of a [`Live`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Written {
    /// Whether there is a file of the standard output.
    pub stdout: bool,
    /// Whether there is a file of the standard error.
    pub stderr: bool,
    /// Whether the earlier ones are written.
    pub earlier: bool,
    /// Why nothing more was written: the file, and what the system said.
    pub problem: Option<String>,
}

/// Writes a new file for this user alone, in the place of one that is there.
pub fn write_private(path: &Path, bytes: &[u8]) -> io::Result<File> {
    let mut options = fs::OpenOptions::new();
    // A new one in any case: what lies there may be somebody's link, or readable for others.
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let opened = match options.open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let mut folder = fs::DirBuilder::new();
            folder.recursive(true);
            #[cfg(unix)]
            std::os::unix::fs::DirBuilderExt::mode(&mut folder, 0o700);
            path.parent().map_or(Ok(()), |parent| folder.create(parent))?;
            options.open(path)
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            fs::remove_file(path)?;
            options.open(path)
        }
        other => other,
    };
    let mut file = opened?;
    file.write_all(bytes)?;
    Ok(file)
}

/// The file of one stream.
#[cfg_attr(not(unix), allow(dead_code))]
#[derive(Default)]
struct Stream {
    file: Option<File>,
    /// How many bytes of the stream are written or were cut.
    taken: u64,
    /// How many of them are in the file, before values were replaced.
    span: u64,
}

#[cfg_attr(not(unix), allow(dead_code))]
impl Stream {
    /// Writes what came since the last time; with `is_end` also what may be the start of a secret.
    fn write(&mut self, path: &Path, capture: &Capture, secrets: &Secrets, is_end: bool) -> io::Result<()> {
        let new = capture.total() - self.taken;
        if new == 0 {
            return Ok(());
        }
        let most = capture.head_tail().saturating_mul(3);
        let mut text = Vec::new();
        let left = match capture.since(self.taken).filter(|_| self.span.saturating_add(new) <= most) {
            Some(pieces) => {
                let left = secrets.scrub(&pieces.concat(), is_end, &mut text);
                match &mut self.file {
                    Some(file) if !text.is_empty() => file.write_all(&text)?,
                    None if !text.is_empty() => self.file = Some(write_private(path, &text)?),
                    _ => {}
                }
                self.span += new - left as u64;
                left
            }
            None => {
                let mut cut = capture.so_far();
                secrets.trim_at_cut(&mut cut.head, &mut cut.tail);
                let left = secrets.scrub(&cut.evidence(), is_end, &mut text);
                self.replace(path, &text)?;
                self.span = ((cut.head.len() + cut.tail.len()) as u64).saturating_sub(left as u64);
                left
            }
        };
        self.taken = capture.total() - left as u64;
        Ok(())
    }

    /// Puts a whole new file in the place of the old one: there is no moment at which a reader would find half of it.
    fn replace(&mut self, path: &Path, text: &[u8]) -> io::Result<()> {
        let mut beside = path.as_os_str().to_owned();
        beside.push(NEW);
        let beside = PathBuf::from(beside);
        let replaced = write_private(&beside, text).and_then(|file| {
            fs::rename(&beside, path)?;
            Ok(file)
        });
        if replaced.is_err() {
            let _ = fs::remove_file(&beside);
        }
        self.file = Some(replaced?);
        Ok(())
    }
}

/// How the name of a file ends that is about to take the place of another.
pub const NEW: &str = ".next";

/// Writes the streams of one command.
#[cfg_attr(not(unix), allow(dead_code))]
pub(super) struct Writer<'a> {
    plan: &'a Live,
    due: Instant,
    streams: [Stream; 2],
    written: Written,
}

#[cfg_attr(not(unix), allow(dead_code))]
impl<'a> Writer<'a> {
    pub(super) fn new(plan: &'a Live, started: Instant) -> Self {
        let streams = [Stream::default(), Stream::default()];
        Self { plan, due: started + PERIOD, streams, written: Written::default() }
    }

    /// Writes what both streams carried so far, if it is time to.
    pub(super) fn look(&mut self, now: Instant, captures: &[Capture; 2]) {
        if now >= self.due {
            self.due = now + PERIOD;
            self.write(captures, false);
        }
    }

    /// Writes the rest, unless the command was over too soon to have files.
    pub(super) fn finish(mut self, now: Instant, captures: &[Capture; 2]) -> Written {
        let begun = self.written.earlier || self.streams.iter().any(|stream| stream.file.is_some());
        if begun || now >= self.due {
            self.write(captures, true);
        }
        let [stdout, stderr] = self.streams.map(|stream| stream.file.is_some());
        Written { stdout, stderr, ..self.written }
    }

    fn write(&mut self, captures: &[Capture; 2], is_end: bool) {
        if self.written.problem.is_some() {
            return;
        }
        let told = |path: &Path, error: &io::Error| Some(format!("{}: {error}", path.display()));
        if !self.written.earlier {
            for (path, bytes) in &self.plan.earlier {
                if let Err(error) = write_private(path, bytes) {
                    self.written.problem = told(path, &error);
                    return;
                }
            }
            self.written.earlier = true;
        }
        let paths = [&self.plan.stdout, &self.plan.stderr];
        for ((stream, path), capture) in self.streams.iter_mut().zip(paths).zip(captures) {
            if let Err(error) = stream.write(path, capture, &self.plan.secrets, is_end) {
                self.written.problem = told(path, &error);
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zeroize::Zeroizing;

    /// A writer of one stream that is looked at when the test says.
    struct Bench {
        dir: tempfile::TempDir,
        stream: Stream,
        capture: Capture,
        secrets: Secrets,
    }

    impl Bench {
        fn new(cap: usize, secret: &str) -> Self {
            let secrets = [("KEY".to_owned(), Zeroizing::new(secret.as_bytes().to_vec()))];
            Self {
                dir: tempfile::tempdir().unwrap(),
                stream: Stream::default(),
                capture: Capture::new(0, cap),
                secrets: secrets.into_iter().collect(),
            }
        }

        fn path(&self) -> PathBuf {
            self.dir.path().join("output/worker.log")
        }

        /// Prints, and gives what is in the file then.
        fn prints(&mut self, text: &str) -> String {
            self.capture.push(text.as_bytes());
            self.writes(false)
        }

        fn writes(&mut self, is_end: bool) -> String {
            let path = self.path();
            self.stream.write(&path, &self.capture, &self.secrets, is_end).unwrap();
            fs::read_to_string(path).unwrap_or_default()
        }
    }

    #[test]
    fn a_file_grows_with_what_is_printed() {
        let mut bench = Bench::new(100, "");
        assert_eq!(bench.writes(false), "");
        assert!(!bench.path().exists(), "nothing was printed");
        assert_eq!(bench.prints("one\n"), "one\n");
        let first = File::open(bench.path()).unwrap();
        assert_eq!(bench.prints("two\n"), "one\ntwo\n");
        // Whoever reads on in it sees more: it is the same file.
        assert_eq!(io::read_to_string(first).unwrap(), "one\ntwo\n");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
            assert_eq!(mode(&bench.path()), 0o600);
            assert_eq!(mode(bench.path().parent().unwrap()), 0o700);
        }
    }

    #[test]
    fn a_long_stream_has_its_start_its_cut_and_its_end() {
        let mut bench = Bench::new(4, "");
        assert_eq!(bench.prints("abcdefgh"), "abcdefgh");
        assert_eq!(bench.prints("ijkl"), "abcdefghijkl", "up to three times the cap");
        assert_eq!(bench.prints("m"), "abcd\n[… 5 bytes cut …]\njklm");
        assert_eq!(bench.prints("no"), "abcd\n[… 5 bytes cut …]\njklmno");
        // More than is held has come since the last time.
        assert_eq!(bench.prints(&"x".repeat(1000)), format!("abcd\n[… {} bytes cut …]\nxxxx", 1015 - 8));
        assert_eq!(bench.prints("end"), format!("abcd\n[… {} bytes cut …]\nxxxxend", 1015 - 8));
        assert_eq!(
            fs::read_dir(bench.path().parent().unwrap()).unwrap().count(),
            1,
            "nothing is left beside"
        );
    }

    #[test]
    fn the_first_writing_of_a_loud_command_is_cut_too() {
        let mut bench = Bench::new(4, "");
        assert_eq!(bench.prints(&"abcdefghij".repeat(10)), "abcd\n[… 92 bytes cut …]\nghij");
    }

    #[test]
    fn a_secret_that_comes_in_two_pieces_is_in_no_file() {
        let mut bench = Bench::new(100, "open-sesame");
        assert_eq!(bench.prints("say open-"), "say ");
        assert_eq!(bench.prints("ses"), "say ");
        assert_eq!(bench.prints("ame!\nopen"), "say [redacted KEY]!\n");
        assert_eq!(bench.prints("-sesam, close"), "say [redacted KEY]!\nopen-sesam, close");
        assert_eq!(bench.prints(" o"), "say [redacted KEY]!\nopen-sesam, close ");
        assert_eq!(bench.writes(true), "say [redacted KEY]!\nopen-sesam, close o");
    }

    #[test]
    fn a_secret_that_the_cut_goes_through_is_left_out_on_both_sides() {
        let mut bench = Bench::new(10, "open-sesame");
        // The head ends in the secret's first five bytes, the tail begins with its last four; and it is at the very end, in part.
        let text = format!("12345open-sesame{}open-sesame 12open", "x".repeat(50));
        let kept = bench.prints(&text);
        assert_eq!(kept, "12345\n[… 72 bytes cut …]\n 12");
        assert_eq!(bench.prints("-sesame"), "12345\n[… 72 bytes cut …]\n 12[redacted KEY]");
    }

    #[test]
    fn a_command_that_is_over_at_once_has_no_file_and_the_next_one_writes_for_it() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join("output").join(name);
        let plan = Live {
            stdout: at("check.stdout"),
            stderr: at("check.stderr"),
            secrets: Secrets::default(),
            earlier: vec![(at("worker.log"), b"done\n".to_vec())],
        };
        let mut captures = [Capture::new(0, 10), Capture::new(0, 10)];
        captures[1].push(b"oh\n");
        let started = Instant::now();
        let mut writer = Writer::new(&plan, started);
        writer.look(started + PERIOD / 2, &captures);
        assert_eq!(writer.finish(started + PERIOD / 2, &captures), Written::default());
        assert!(!dir.path().join("output").exists());

        let mut writer = Writer::new(&plan, started);
        writer.look(started + PERIOD, &captures);
        assert_eq!(fs::read(at("worker.log")).unwrap(), b"done\n");
        assert_eq!(fs::read(at("check.stderr")).unwrap(), b"oh\n");
        captures[0].push(b"late\n");
        writer.look(started + PERIOD, &captures);
        assert!(!at("check.stdout").exists(), "not before it is time again");
        let written = writer.finish(started + PERIOD, &captures);
        assert_eq!(written, Written { stdout: true, stderr: true, earlier: true, problem: None });
        assert_eq!(fs::read(at("check.stdout")).unwrap(), b"late\n");
    }

    #[test]
    fn a_place_that_cannot_be_written_is_told_once_and_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("output");
        fs::write(&place, "a file").unwrap();
        let plan = Live {
            stdout: place.join("worker.log"),
            stderr: place.join("worker.stderr"),
            secrets: Secrets::default(),
            earlier: Vec::new(),
        };
        let mut captures = [Capture::new(0, 10), Capture::new(0, 10)];
        captures[0].push(b"text");
        let started = Instant::now();
        let mut writer = Writer::new(&plan, started);
        writer.look(started + PERIOD, &captures);
        fs::remove_file(&place).unwrap();
        let written = writer.finish(started + PERIOD * 2, &captures);
        assert!(written.problem.unwrap().starts_with(&format!("{}: ", plan.stdout.display())));
        assert!(!written.stdout && !place.exists());
    }
}
