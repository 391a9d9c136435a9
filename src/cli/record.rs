use std::fmt::Write as _;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;

use super::Context;
use super::checkpoint::{halted, with_session};
use super::common::result_fields;
use super::start::named_commit;
use super::ui::Reply;
use crate::error::{Error, Result};
use crate::exit::{ExitCode, HaltReason};
use crate::iterate::outside::Brought;
use crate::ledger::record::Body;
use crate::ledger::trust::TrustRoot;
use crate::oid::Oid;
use crate::render::line::iteration_line;
use crate::render::status::next_step;

/// The largest file that is taken in, in bytes.
const MAX_FILE: u64 = 16 * 1024 * 1024;

/// Bring the candidate of an iteration whose worker ran elsewhere, and have it judged.
///
/// The candidate is a signed commit of its own, with the tree of REV, which must be on top of green. The same guards, check and decision
/// as in `git loop run`; the exit code is that of the halt, or 0 if the loop goes on. Without an open checkpoint one is made.
#[derive(Debug, Args)]
pub struct RecordArgs {
    /// The loop.
    #[arg(value_name = "ID")]
    id: String,
    /// The commit whose tree is the candidate.
    #[arg(long, value_name = "REV")]
    candidate: String,
    /// The environment of the checkpoint that it was made for.
    #[arg(long, value_name = "ID")]
    environment: Option<String>,
    /// The number of the iteration that it was made for.
    #[arg(long, value_name = "N")]
    iteration: Option<u32>,
    /// The sandbox adapter that the worker ran in.
    #[arg(long, value_name = "NAME")]
    adapter: Option<String>,
    /// What the worker wrote into its evidence file: cost, summary.
    #[arg(long, value_name = "FILE")]
    evidence: Option<PathBuf>,
    /// The verdict of a check that ran elsewhere; its signature is in FILE.sig.
    #[arg(long, value_name = "FILE")]
    verdict: Option<PathBuf>,
}

pub fn run(context: &Context, args: &RecordArgs) -> Result<Reply> {
    let repo = context.repo()?;
    let trust = TrustRoot::open(&repo)?;
    let rev = Oid(named_commit(&repo, "--candidate", &args.candidate)?);
    let verdict = match &args.verdict {
        None => None,
        Some(file) => {
            let mut signature = file.clone().into_os_string();
            signature.push(".sig");
            Some((read(context, "--verdict", file)?, read(context, "--verdict", Path::new(&signature))?))
        }
    };
    let brought = Brought {
        iteration: args.iteration,
        environment_id: args.environment.clone(),
        adapter: args.adapter.clone(),
        evidence: args.evidence.as_ref().map(|file| read(context, "--evidence", file)).transpose()?,
        verdict,
    };
    with_session(context, &repo, &trust, &args.id, |session| {
        let record = session.record_brought(rev, &brought)?;
        let tip = session.tip();
        let mut text = String::new();
        let mut decision = serde_json::Value::Null;
        let mut proof = Vec::new();
        if let Some(Body::Iteration(body)) = record.as_ref().map(|record| &record.body) {
            text = format!("{}: {}\n", args.id, iteration_line(&tip.contract, &body.receipt));
            decision = json!(body.receipt.decision);
            proof.extend(body.receipt.check.as_ref().and_then(|check| check.report));
        }
        if tip.state.halt_reason.is_some() {
            text.push_str(&halted(&args.id, tip));
        }
        if record.is_none() {
            let _ = writeln!(
                text,
                "{}: candidate {} was not taken, and nothing is recorded of it",
                args.id,
                rev.short()
            );
        }
        Ok(Reply::text(text)
            .hint(next_step(&tip.contract, &tip.record, &tip.state))
            .status(tip.state.status.as_str())
            .fields(result_fields(tip, &proof))
            .field("decision", decision)
            .exit(tip.state.halt_reason.map_or(ExitCode::OK, HaltReason::exit_code)))
    })
}

/// The content of a file that an option names: a regular file, or a link to one. Anything else may never end, or never begin.
pub fn read(context: &Context, option: &str, file: &Path) -> Result<Vec<u8>> {
    read_at(&context.directory.join(file), option, file)
}

fn read_at(path: &Path, option: &str, file: &Path) -> Result<Vec<u8>> {
    let shown = file.display();
    let unreadable =
        |cause: std::io::Error| Error::usage(format!("{option} {shown} cannot be read")).caused_by(cause);
    let regular = |metadata: std::fs::Metadata| {
        if metadata.is_file() {
            Ok(())
        } else {
            Err(Error::usage(format!("{option} {shown} is not a regular file")))
        }
    };
    // Before it is opened, since opening a device may do something; and of what was opened, since the name may have changed hands.
    regular(std::fs::metadata(path).map_err(unreadable)?)?;
    let opened = open(path).map_err(unreadable)?;
    regular(opened.metadata().map_err(unreadable)?)?;
    let mut bytes = Vec::new();
    opened.take(MAX_FILE + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > MAX_FILE {
        return Err(Error::usage(format!("{option} {shown} has more than 16 MiB")));
    }
    Ok(bytes)
}

/// Opens a file for reading; a FIFO does not block.
fn open(path: &Path) -> std::io::Result<File> {
    let mut options = File::options();
    options.read(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY);
    }
    options.open(path)
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn only_regular_files_of_some_size_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let read = |name: &str| read_at(&at(name), "--verdict", Path::new(name));
        std::fs::write(at("file"), "{}").unwrap();
        symlink("file", at("link")).unwrap();
        assert_eq!(read("file").unwrap(), b"{}");
        assert_eq!(read("link").unwrap(), b"{}");
        let length = |length: u64| File::create(at("long")).unwrap().set_len(length).unwrap();
        length(MAX_FILE);
        assert_eq!(read("long").unwrap().len() as u64, MAX_FILE);
        length(MAX_FILE + 1);
        assert!(read("long").unwrap_err().to_string().contains("more than 16 MiB"));
        // A FIFO waits for a writer, a device has no end.
        let fifo = std::ffi::CString::new(at("fifo").into_os_string().into_encoded_bytes()).unwrap();
        // SAFETY: the path is NUL-terminated.
        assert_eq!(unsafe { libc::mkfifo(fifo.as_ptr(), 0o600) }, 0);
        symlink("fifo", at("to-fifo")).unwrap();
        symlink("/dev/zero", at("zero")).unwrap();
        for name in ["fifo", "to-fifo", "zero", "."] {
            let error = read(name).unwrap_err().to_string();
            assert!(error.contains(&format!("--verdict {name} is not a regular file")), "{error}");
        }
        assert!(read("none").unwrap_err().to_string().contains("cannot be read"));
        // The same where a name changes hands between the look and the opening.
        assert!(!open(&at("fifo")).unwrap().metadata().unwrap().is_file());
    }
}
