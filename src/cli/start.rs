use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;

use super::Context;
use super::common::{author, principals, result_fields};
use super::ui::Reply;
use crate::at::At;
use crate::contract::{self, Contract, LoopFile};
use crate::error::{Error, Kind, Result, ResultExt};
use crate::escape::escape_terminal;
use crate::exit::HaltReason;
use crate::git::LoopId;
use crate::git::{Repo, resolve_revision};
use crate::iterate::advice::{advice, obstacles, obstacles_in_sight};
use crate::iterate::interrupt::Interrupt;
use crate::iterate::preflight::before_signing;
use crate::iterate::session::{self, Opening, Rehearsal};
use crate::iterate::start::{Purpose, create, freeze, must_be_new};
use crate::ledger::append::{Author, Tip};
use crate::ledger::message::one_line;
use crate::ledger::record::Role;
use crate::ledger::trust::TrustRoot;
use crate::render::commands;
use crate::render::line::{plural, span};
use crate::render::status::dollars;

/// The file that is read if none is named.
const DEFAULT_FILE: &str = "loop.toml";

/// Validate loop.toml, freeze it against a base commit and sign the contract.
///
/// Nothing is run and no money is spent; `git loop run <id>` does that.
#[derive(Debug, Args)]
pub struct StartArgs {
    /// The id of the new loop: lower-case letters, digits, dots, dashes and underscores.
    #[arg(value_name = "ID")]
    id: String,
    /// The terms; loop.toml at the top of the work tree if left out.
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    file: Option<PathBuf>,
    /// The commit to start from; HEAD if left out.
    #[arg(long, value_name = "REV")]
    base: Option<String>,
    /// Run the check on the base and say what it shows; sign and record nothing.
    #[arg(long)]
    dry_run: bool,
}

pub fn run(context: &Context, args: &StartArgs) -> Result<Reply> {
    if args.dry_run {
        return rehearse(context, args);
    }
    let repo = context.repo()?;
    let (tip, principals) =
        start(context, &repo, &args.id, args.file.as_deref(), args.base.as_deref(), Then::Nothing)?;
    let mut reply = Reply::text(format!("started {}: contract {}\n", args.id, tip.id));
    for hint in begin_hints(context, &repo, &tip.contract, &principals)? {
        reply = reply.hint(hint);
    }
    Ok(reply.status(tip.state.status.as_str()).fields(result_fields(&tip, &[])))
}

/// How a loop begins that was just signed by `principals`.
pub(super) fn begin_hints(
    context: &Context,
    repo: &Repo,
    contract: &Contract,
    principals: &[String],
) -> Result<Vec<String>> {
    let runners = &contract.roles.runner;
    let runs = |principals: &[String]| principals.iter().any(|principal| runners.contains(principal));
    let begin = commands::begin(contract);
    // Whoever signed with --key may run it with the key that is configured.
    let runs_it = if context.key.is_none() {
        runs(principals)
    } else {
        runs(&context.configured_principals(repo, &TrustRoot::open(repo)?))
    };
    let key = if runs_it { "" } else { " --key FILE" };
    let mut hints = vec![if runs_it || runs(principals) {
        format!("{begin}{key}")
    } else {
        format!("{} may not run it; {} may: {begin}{key}", principals.join(", "), runners.join(" or "))
    }];
    if !contract.check.external && !obstacles_in_sight(repo, &context.host, contract).is_empty() {
        let announce = commands::announce(&contract.loop_id);
        hints.push(format!("if its worker runs elsewhere: {announce}{key}"));
    }
    Ok(hints)
}

/// What comes after the start of a loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    /// Nothing, at least not here and now.
    Nothing,
    /// It is run at once: whatever would refuse that refuses the start, as signed terms cannot be mended.
    Run,
}

/// Starts the loop `id`; also what `git loop run` does for an id that is new. With the principals of the signing key.
pub(super) fn start(
    context: &Context,
    repo: &Repo,
    id: &str,
    file: Option<&Path>,
    base: Option<&str>,
    then: Then,
) -> Result<(Tip, Vec<String>)> {
    let id: LoopId = id.parse()?;
    let refs = id.refs();
    must_be_new(repo, refs, &id)?;
    let path = terms_path(context, repo, file);
    let file = read_file(context, &path, file)?;
    let base = base_commit(repo, base)?;
    let trust = TrustRoot::open(repo)?;
    let signer = context.signer(repo)?;
    let principals = principals(&signer, &trust)?;
    let (contract, principal, warnings) =
        freeze(repo, &id, &file, base, &trust, &principals, Purpose::ToSign)?;
    warn(context, repo, &contract, &path, &warnings);
    match then {
        Then::Run => {
            author(&signer, &trust, &contract, Role::Runner)?;
            before_signing(repo, &context.host, &id, &contract)?;
        }
        Then::Nothing => {
            for obstacle in obstacles(repo, &context.host, &contract) {
                context.ui.warn(&obstacle);
            }
        }
    }
    let tip = create(repo, refs, contract, &signer, principal, At::now())?;
    Ok((tip, principals))
}

fn rehearse(context: &Context, args: &StartArgs) -> Result<Reply> {
    let repo = context.repo()?;
    let id: LoopId = args.id.parse()?;
    must_be_new(&repo, id.refs(), &id)?;
    let path = terms_path(context, &repo, args.file.as_deref());
    let file = read_file(context, &path, args.file.as_deref())?;
    let base = base_commit(&repo, args.base.as_deref())?;
    let trust = TrustRoot::open(&repo)?;
    let signer = context.signer(&repo)?;
    let principals = principals(&signer, &trust)?;
    let (contract, principal, warnings) =
        freeze(&repo, &id, &file, base, &trust, &principals, Purpose::ToRehearse)?;
    warn(context, &repo, &contract, &path, &warnings);
    let author = |_: &Contract| Ok(Author { signer: &signer, principal: principal.clone() });
    let limits = contract.limits;
    let costs_nothing = contract.worker.costs_nothing();
    let say = |line: &str| context.ui.say(line);
    let opening = Opening {
        repo: &repo,
        host: &context.host,
        trust: &trust,
        author: &author,
        id: id.clone(),
        interrupt: Interrupt::on_signals()?,
        say: &say,
        warn: &say,
        keep_open: false,
    };
    let measured = session::rehearse(opening, contract)?;
    let mut text = String::new();
    match (&measured.metric, &measured.problem) {
        (Some(metric), _) => {
            let _ =
                writeln!(text, "{} at the base: {metric} (target {})", measured.metric_name, measured.target);
        }
        (None, problem) => {
            let what = if measured.no_verdict {
                "no verdict at the base"
            } else {
                "red at the base, without a metric"
            };
            let problem = problem.as_deref().unwrap_or("the check gave none");
            let _ = writeln!(text, "{what}: {problem}");
            for (name, printed) in &measured.printed {
                let _ = writeln!(text, "the end of {name}:\n{}", indent(&escape_terminal(printed)));
            }
        }
    }
    for failure in measured.failures.iter().take(20) {
        let _ = writeln!(text, "  failing: {}", one_line(failure, 200));
    }
    if measured.failures.len() > 20 {
        let _ = writeln!(text, "  and {}", plural(measured.failures.len() as u64 - 20, "more", "more"));
    }
    let runs = match measured.runs {
        1 => String::new(),
        more => format!(" ({more} runs)"),
    };
    let mut most = vec![plural(u64::from(limits.iterations), "iteration", "iterations")];
    most.extend((!costs_nothing).then(|| format!("${}", dollars(limits.cost_usd))));
    most.extend(limits.tokens.map(|tokens| format!("{tokens} tokens")));
    let uncounted =
        if costs_nothing { "; what the worker costs is not counted (usage = \"none\")" } else { "" };
    let _ = writeln!(
        text,
        "the check takes {:.1} s{runs}; at most {} in {}{uncounted}",
        measured.seconds,
        most.join(", "),
        span(limits.duration_seconds),
    );
    if let Some(holdout) = &measured.holdout {
        let _ = writeln!(
            text,
            "holdout: {} (tree {}); it runs when the target is met, and was not run now",
            escape_terminal(&holdout.folder),
            holdout.tree.short()
        );
    }
    let mut reply = Reply::text(text);
    if let Some(error) = would_end(&measured) {
        context.ui.warn(&error.to_string());
        let status = if measured.no_verdict { "error" } else { "refused" };
        reply = reply.exit(error.exit_code()).status(status).errors([&error]);
    }
    Ok(reply
        .field("halt_reason", json!(measured.halt_reason))
        .field("check_runs", measured.runs)
        .field("loop", id.as_str())
        .field("metric", json!(measured.metric))
        .field("problem", json!(measured.problem))
        .field("failures", json!(measured.failures))
        .field("target_met", measured.target_met)
        .field("check_seconds", measured.seconds)
        .field("holdout", json!(measured.holdout))
        .field("limits", json!(limits)))
}

/// How a run would end before its first worker, if it would.
fn would_end(measured: &Rehearsal) -> Option<Error> {
    if measured.no_verdict {
        let problem = measured.problem.as_deref().unwrap_or("the check gave none");
        return Some(Error::workspace(format!(
            "the check gives no verdict, neither green nor red; a run would stop before its first worker: {problem}"
        )));
    }
    let reason = measured.halt_reason?;
    let what = match reason {
        HaltReason::CheckFlaky => "the runs of the check do not agree with each other",
        _ => "the base meets the target already",
    };
    let code = reason.exit_code();
    let told = format!("{what}; a run would halt with {reason} ({code}) before its first worker");
    Some(Error::new(Kind::Halt(reason), told))
}

/// Two spaces before each line.
fn indent(text: &str) -> String {
    text.lines().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}

/// Says what the terms themselves and a look around are a reason to warn of.
fn warn(context: &Context, repo: &Repo, contract: &Contract, terms: &Path, warnings: &[String]) {
    // Only advice: what cannot be looked at here is found out when it is needed, and said then.
    let around = advice(repo, &context.host, contract, terms).unwrap_or_default();
    for warning in warnings.iter().chain(&around) {
        context.ui.warn(warning);
    }
}

/// Where the terms are: `file`, or `loop.toml` at the top of the work tree.
pub(super) fn terms_path(context: &Context, repo: &Repo, file: Option<&Path>) -> PathBuf {
    match file {
        Some(file) => context.directory.join(file),
        None => repo.worktree_root().unwrap_or(&context.directory).join(DEFAULT_FILE),
    }
}

/// The terms that `path` holds; `file` is what was asked for.
pub(super) fn read_file(context: &Context, path: &Path, file: Option<&Path>) -> Result<LoopFile> {
    let shown = file.unwrap_or(Path::new(DEFAULT_FILE)).display().to_string();
    let bytes = std::fs::read(path).map_err(|cause| {
        Error::usage(format!("{shown} cannot be read"))
            .caused_by(cause)
            .hint("write one with `git loop init`, or name another: -f FILE")
    })?;
    let parsed = contract::parse_bytes(&shown, &bytes)?;
    for warning in &parsed.warnings {
        context.ui.warn(&format!("{shown}:{}:{}: {}", warning.line, warning.column, warning.message));
    }
    Ok(parsed.file)
}

fn base_commit(repo: &Repo, base: Option<&str>) -> Result<gix::ObjectId> {
    match base {
        None => Ok(repo.require_commit()?),
        Some(spec) => named_commit(repo, "--base", spec),
    }
}

/// The commit that the value of an option names.
pub fn named_commit(repo: &Repo, option: &str, spec: &str) -> Result<gix::ObjectId> {
    // What the library says of a revision is about its parser; it names no next step.
    let wrong = |what: &str| {
        Error::usage(format!("{option} {spec:?} {what}"))
            .hint("name a commit, a branch or a tag; which there are: git log --oneline --all")
    };
    let id = resolve_revision(repo.gix(), spec.into()).map_err(|why| wrong(&why.to_string()))?;
    let object = repo.gix().find_object(id).or_workspace(|| format!("{option} {spec:?} cannot be read"))?;
    let kind = object.kind;
    object
        .peel_to_commit()
        .map(|commit| commit.id)
        .map_err(|_| wrong(&format!("names a {kind} that is no commit")))
}
