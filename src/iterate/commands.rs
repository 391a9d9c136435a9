//! The worker and the check, and what they left: captures, reports, costs.

use std::borrow::Cow;
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::time::Duration;

use gix::bstr::BString;

use super::credential::Minted;
use super::fresh::{Filled, For};
use super::iteration::Draft;
use super::left::{is_inside, is_plain, read_capped};
use super::outcome::{cost_receipt, failure, not_started, run_receipt, usage_kind};
use super::places::Scratch;
use super::session::Session;
use super::step::{Role, Wanted};
use crate::check::{Format, MAX_REPORT};
use crate::error::{Result, ResultExt};
use crate::ledger::append::EvidenceFile;
use crate::ledger::observe::{Capture, Sample, blob_id, evidence_name, has_metric_source, writes_verdict};
use crate::ledger::receipt::{CostReceipt, NoReport, RunReceipt, WorkerReceipt};
use crate::oid::Oid;
use crate::sandbox::{Egress, Ended, Enforcement, Outcome, SandboxError};
use crate::worker::usage::{self, NamedModel, Printed, UsageKind};
use crate::worktree::{self, Holds, Lies};

/// The most bytes of the worker's evidence file that are read.
const MAX_EVIDENCE: u64 = 1024 * 1024;

/// The most bytes of a worker's output that are held to read what it used.
const MAX_READ: usize = 16 << 20;

/// The name of the check's run on the base, where those of iterations have their environment's id.
pub(super) const BASELINE: &str = "baseline";

/// What a worker's run left.
pub(super) struct WorkerRun {
    pub receipt: WorkerReceipt,
    pub usage: CostReceipt,
    /// The models that the agent's own output names.
    pub models: Vec<NamedModel>,
    pub enforced: Option<Enforcement>,
    pub requests: Option<Egress>,
    pub evidence: Vec<EvidenceFile>,
    pub interrupted: bool,
}

/// What one run of a check left.
struct CheckRun {
    receipt: RunReceipt,
    capture: Capture,
    enforced: Option<Enforcement>,
    requests: Option<Egress>,
    evidence: Vec<EvidenceFile>,
    interrupted: bool,
}

/// What all runs of a check on one tree left.
pub(super) struct CheckRuns {
    pub samples: Vec<Sample>,
    pub enforced: Option<Enforcement>,
    pub requests: Option<Egress>,
    pub evidence: Vec<EvidenceFile>,
    pub interrupted: bool,
}

impl Capture {
    /// The files under `evidence/` that the verdict rests on, of the `number`-th run.
    fn into_evidence(self, number: usize) -> Vec<EvidenceFile> {
        let mut files = Vec::new();
        let mut keep = |name: &str, bytes: Option<Vec<u8>>| {
            files.extend(bytes.map(|bytes| EvidenceFile::whole(evidence_name(name, number), bytes)));
        };
        keep("report", self.report);
        keep("metric-source", self.metric_source);
        keep("verdict", self.verdict);
        files
    }
}

impl CheckRuns {
    /// The files under `evidence/`: what the verdict rests on, then what the check printed.
    pub(super) fn into_evidence(self, tests_json: Option<Vec<u8>>) -> Vec<EvidenceFile> {
        let mut files = Vec::new();
        for (sample, number) in self.samples.into_iter().zip(1..) {
            files.extend(sample.capture.into_evidence(number));
        }
        files.extend(tests_json.map(|bytes| EvidenceFile::whole("tests.json", bytes)));
        files.extend(self.evidence);
        files
    }
}

impl Session<'_> {
    /// Runs the worker once in `place`.
    pub(super) fn run_worker(
        &self,
        draft: &Draft,
        place: &Path,
        filled: &Filled,
        scratch: &Scratch,
        context: &str,
        credential: Option<&Minted>,
    ) -> Result<WorkerRun> {
        let worker = &self.tip.contract.worker;
        let io = scratch.folder("io")?;
        let context_file = io.join("context.md");
        fs::write(&context_file, context)
            .or_workspace(|| format!("{} cannot be written", context_file.display()))?;
        let evidence_file = io.join("evidence.json");
        let mut step = self.step(&Wanted {
            role: Role::Worker,
            command: &worker.command,
            place,
            scratch,
            network: &self.tip.contract.sandbox.worker_network,
            seconds: worker.timeout_seconds,
        })?;
        for (name, value) in [
            ("GIT_LOOP_ID", OsString::from(self.id.as_str())),
            ("GIT_LOOP_ITERATION", draft.iteration.to_string().into()),
            ("GIT_LOOP_CONTEXT", context_file.clone().into()),
            ("GIT_LOOP_EVIDENCE", evidence_file.clone().into()),
        ] {
            step.set(name, value);
        }
        if let Some(credential) = credential {
            let value = gix::path::from_byte_slice(&credential.value);
            let value = value.or_workspace(|| "the credential is no text".to_owned())?;
            step.set(&credential.name, value.as_os_str());
        }
        step.command.overlay = filled.overlay();
        step.command.stdin = context.as_bytes().to_vec();
        step.command.idle = worker.idle_timeout_seconds.map(Duration::from_secs);
        step.command.keep_whole = self.head_tail() * 2;
        if usage_kind(worker.usage).reads_output() {
            step.command.keep_whole = step.command.keep_whole.max(MAX_READ);
        }
        self.stream(&mut step, ["worker.log", "worker.stderr"]);
        let outcome = match self.run_step(&step) {
            Ok(outcome) => outcome,
            Err(error @ (SandboxError::ProgramNotFound { .. } | SandboxError::Exec { .. })) => {
                let receipt = not_started(step.argv());
                return Ok(WorkerRun {
                    receipt: WorkerReceipt {
                        agent: worker.agent.clone(),
                        run: receipt,
                        failure: Some(error.to_string()),
                        summary: None,
                    },
                    usage: cost_receipt(usage::parse(UsageKind::None, Printed::nothing(), None)),
                    models: Vec::new(),
                    enforced: None,
                    requests: None,
                    evidence: Vec::new(),
                    interrupted: false,
                });
            }
            Err(error) => return Err(error.into()),
        };
        let receipt = run_receipt(step.argv(), &outcome, step.is_deadline);
        let report = self.redact(
            read_capped(&evidence_file, MAX_EVIDENCE)
                .filter(|_| is_plain(scratch.path(), "io/evidence.json"))
                .unwrap_or_default(),
        );
        let ends = || [outcome.stdout.head.as_slice(), b"\n", outcome.stdout.tail.as_slice()].concat();
        let text = outcome.stdout.whole.as_ref().map_or_else(|| Cow::Owned(ends()), Cow::from);
        let printed = Printed { text: &text, is_cut: outcome.stdout.whole.is_none() };
        let kind = usage_kind(worker.usage);
        let read = usage::parse(kind, printed, (!report.is_empty()).then_some(report.as_slice()));
        // What the worker writes of itself is no output of its provider.
        let models = if kind.reads_output() { self.redacted(&read.models) } else { Vec::new() };
        let mut usage = cost_receipt(read);
        // It may name what the agent printed.
        usage.problem = usage
            .problem
            .map(|problem| String::from_utf8_lossy(&self.redact(problem.into_bytes())).into_owned());
        let failure = failure(&receipt);
        let summary = serde_json::from_slice::<serde_json::Value>(&report)
            .ok()
            .and_then(|value| value.get("summary")?.as_str().map(|text| text.chars().take(2000).collect()));
        let mut evidence = vec![self.kept("worker.log", &outcome.stdout)];
        if outcome.stderr.total > 0 {
            evidence.push(self.kept("worker.stderr", &outcome.stderr));
        }
        if !report.is_empty() {
            evidence.push(EvidenceFile::whole("worker.json", report));
        }
        Ok(WorkerRun {
            receipt: WorkerReceipt { agent: worker.agent.clone(), run: receipt, failure, summary },
            usage,
            models,
            enforced: Some(outcome.enforced),
            requests: outcome.egress,
            evidence,
            interrupted: outcome.ended == Ended::Interrupted,
        })
    }

    /// Names that an agent printed, which may hold what it was given.
    fn redacted(&self, models: &[NamedModel]) -> Vec<NamedModel> {
        let redact =
            |text: &str| String::from_utf8_lossy(&self.redact(text.as_bytes().to_vec())).into_owned();
        let redacted = |one: &NamedModel| NamedModel {
            provider: one.provider.as_deref().map(redact),
            model: redact(&one.model),
        };
        models.iter().map(redacted).collect()
    }

    /// Runs the check on `tree` as often as the contract asks, up to the first run that gives no verdict.
    pub(super) fn run_check(
        &self,
        environment: &str,
        tree: Oid,
        head: Oid,
        trees: &gix::Repository,
    ) -> Result<CheckRuns> {
        let contract = &self.tip.contract;
        let mut runs = CheckRuns {
            samples: Vec::new(),
            enforced: None,
            requests: None,
            evidence: Vec::new(),
            interrupted: false,
        };
        for number in 1..=contract.metric.repeat as usize {
            let CheckRun { receipt, capture, enforced, requests, evidence, interrupted } =
                self.run_check_once(environment, number, tree, head, trees)?;
            let sample = Sample { run: receipt, capture };
            let last = interrupted || (contract.metric.repeat > 1 && sample.has_problem(contract));
            runs.samples.push(sample);
            runs.interrupted |= interrupted;
            runs.enforced = runs.enforced.or(enforced);
            if let Some(requests) = requests {
                runs.requests.get_or_insert_default().append(requests);
            }
            runs.evidence.extend(
                evidence
                    .into_iter()
                    .map(|file| EvidenceFile { name: evidence_name(&file.name, number), ..file }),
            );
            if last {
                break;
            }
        }
        Ok(runs)
    }

    /// The `number`-th run of the check on `tree`, in a fresh worktree of its own. `environment` names it.
    fn run_check_once(
        &self,
        environment: &str,
        number: usize,
        tree: Oid,
        head: Oid,
        trees: &gix::Repository,
    ) -> Result<CheckRun> {
        let contract = &self.tip.contract;
        let check = &contract.check;
        let name = worktree::worktree_name(
            self.id.as_str(),
            &evidence_name(&format!("{environment}-check"), number),
        );
        let scratch = self.places.scratch(&name)?;
        // Byte for byte the tree and nothing else: there is no `.git`, which would be a way back to the repository.
        let prepared = self.take_checks(&name, tree, trees)?;
        let given = prepared.is_some();
        let (linked, filled) = match prepared {
            Some(prepared) => prepared,
            None => {
                let (repo, folder) = (self.repo.gix(), &self.places.worktrees);
                let remark = format!("git-loop {} check", self.id);
                let linked = self.supplies()?.register(repo, folder, &name, head, &remark)?;
                let filled = self.fill(trees, &linked, tree, For::Check)?;
                (linked, filled)
            }
        };
        let report_path = check.report.as_ref().map(|report| linked.path().join(report));
        // What the contract has copied in is looked at where it comes from.
        let copied = |report: &String| -> Result<bool> { Ok(given && self.is_included(report)?) };
        let planted = match (&check.report, &report_path) {
            (Some(report), Some(path)) => fs::symlink_metadata(path).is_ok() && !copied(report)?,
            _ => false,
        } || check
            .report
            .as_ref()
            .is_some_and(|report| filled.manifest.holds(report.as_str().into()) != Holds::Nothing);
        // A rehearsal keeps nothing: its terms are not those of a loop yet.
        let building_warm = number == 1
            && environment == BASELINE
            && contract.worktree.setup.is_none()
            && !contract.worktree.warm.is_empty()
            && !self.tip.id.0.is_null();
        if !given {
            self.give_layers(linked.path(), &filled)?;
        }

        let mut step = self.step(&Wanted {
            role: Role::Check,
            command: &check.command,
            place: linked.path(),
            scratch: &scratch,
            network: &contract.sandbox.check_network,
            seconds: check.timeout_seconds,
        })?;
        let verdict_file = scratch.folder("io")?.join("verdict.json");
        step.set("GIT_LOOP_VERDICT", &verdict_file);
        for (name, value) in &check.env {
            step.set(name, value);
        }
        step.command.overlay = filled.overlay();
        step.command.idle = check.idle_timeout_seconds.map(Duration::from_secs);
        step.command.merge_streams = contract.report_format() == Format::Libtest;
        step.command.keep_whole = MAX_REPORT;
        let of_what = if environment == BASELINE { BASELINE } else { "check" };
        let names = ["stdout", "stderr"].map(|end| evidence_name(&format!("{of_what}.{end}"), number));
        self.stream(&mut step, names.each_ref().map(String::as_str));
        let outcome = match self.run_step(&step) {
            Ok(outcome) => outcome,
            // Before the first worker it is the machine or the contract that is at fault, and nobody should pay for it.
            Err(error @ (SandboxError::ProgramNotFound { .. } | SandboxError::Exec { .. }))
                if environment != BASELINE =>
            {
                linked.remove()?;
                let no_report = Some(NoReport::NotWritten);
                return Ok(CheckRun {
                    receipt: not_started(step.argv()),
                    capture: Capture { no_report, ..Capture::default() },
                    enforced: None,
                    requests: None,
                    evidence: vec![EvidenceFile::whole("check.stderr", format!("{error}\n").into_bytes())],
                    interrupted: false,
                });
            }
            Err(error) => return Err(error.into()),
        };
        let receipt = run_receipt(step.argv(), &outcome, step.is_deadline);
        let mut capture = self.capture(&outcome, linked.path(), report_path.as_deref(), planted);
        if writes_verdict(contract) {
            let read = read_capped(&verdict_file, MAX_REPORT as u64 + 1);
            let read =
                read.filter(|bytes| bytes.len() <= MAX_REPORT && is_inside(scratch.path(), &verdict_file));
            capture.verdict = read.map(|bytes| self.redact(bytes));
        }
        if building_warm && outcome.ended == Ended::Itself {
            if let Some(report) = &report_path {
                // The report of this run must not lie in the way of the next one's.
                worktree::remove_all(report)?;
            }
            self.keep_warm(linked.path())?;
        }
        let interrupted = outcome.ended == Ended::Interrupted;
        let capture = match self.changed_frozen(linked.path(), &filled)? {
            None => capture,
            // What judges was not what was frozen any more: a program under test had written to it.
            Some(_) => {
                Capture { report: None, verdict: None, no_report: Some(NoReport::FrozenChanged), ..capture }
            }
        };
        let mut evidence = Vec::new();
        // Where the report is the output, it is kept whole already.
        if capture.report.is_none() || report_path.is_some() {
            evidence.push(self.kept("check.stdout", &outcome.stdout));
        }
        if outcome.stderr.total > 0 {
            evidence.push(self.kept("check.stderr", &outcome.stderr));
        }
        self.cleaner.remove(linked, Some(scratch));
        let (enforced, requests) = (Some(outcome.enforced), outcome.egress);
        Ok(CheckRun { receipt, capture, enforced, requests, evidence, interrupted })
    }

    /// A frozen path that is not what was frozen any more, in the worktree of a check that has run.
    pub(super) fn changed_frozen(&self, place: &Path, filled: &Filled) -> Result<Option<BString>> {
        for entry in &self.guards.frozen.entries {
            let hash = self.repo.hash_kind();
            let is_same = |bytes: Vec<u8>| blob_id(hash, &bytes).0 == entry.id;
            // A path that is no UTF-8 is not walked part by part: its content still counts.
            let Ok(path) = gix::path::from_bstring(entry.path.clone()) else { continue };
            let plain = path.to_str().is_none_or(|path| is_plain(place, path));
            // A build tool may write its lock file anew before anything of a candidate runs.
            let lock = path
                .file_name()
                .and_then(|name| name.to_str())
                .is_some_and(|name| LOCK_FILES.contains(&name));
            if let Some(overlaid) = filled.overlaid().filter(|_| !lock) {
                let found = overlaid.find(entry.path.as_ref());
                match found.or_workspace(|| format!("{} cannot be read", place.display()))? {
                    Lies::Untouched(_, id) if *id == entry.id => continue,
                    Lies::Changed(_) => {}
                    Lies::Untouched(..) | Lies::Nowhere => return Ok(Some(entry.path.clone())),
                }
            }
            // Whatever lies there now is neither waited for nor read beyond what was frozen.
            let size = self.repo.gix().find_header(entry.id).map_or(0, |header| header.size());
            let read = || read_capped(&place.join(&path), size.saturating_add(1));
            if !lock && (!plain || !read().is_some_and(is_same)) {
                return Ok(Some(entry.path.clone()));
            }
        }
        Ok(None)
    }

    /// What the verdict is read from.
    fn capture(&self, outcome: &Outcome, place: &Path, report_path: Option<&Path>, planted: bool) -> Capture {
        let whole = outcome.stdout.whole.clone().map(|bytes| self.redact(bytes));
        let Some(path) = report_path else {
            let no_report = whole.is_none().then_some(NoReport::TooLarge);
            return Capture { report: whole, no_report, ..Capture::default() };
        };
        let metric_source = if has_metric_source(&self.tip.contract) { whole } else { None };
        if planted {
            return Capture { metric_source, no_report: Some(NoReport::Planted), ..Capture::default() };
        }
        match read_capped(path, MAX_REPORT as u64 + 1).filter(|_| is_inside(place, path)) {
            Some(bytes) if bytes.len() > MAX_REPORT => {
                Capture { metric_source, no_report: Some(NoReport::TooLarge), ..Capture::default() }
            }
            Some(bytes) => Capture { report: Some(self.redact(bytes)), metric_source, ..Capture::default() },
            None => Capture { metric_source, no_report: Some(NoReport::NotWritten), ..Capture::default() },
        }
    }
}

/// Files that tools rewrite while they resolve dependencies. What a test reads is never among them.
const LOCK_FILES: &[&str] = &[
    "Cargo.lock",
    "Gemfile.lock",
    "Pipfile.lock",
    "composer.lock",
    "go.sum",
    "package-lock.json",
    "pnpm-lock.yaml",
    "poetry.lock",
    "uv.lock",
    "yarn.lock",
];
