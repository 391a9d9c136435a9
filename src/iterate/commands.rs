//! The worker and the check as processes, and what they left: captures, reports, costs, with secrets taken out.

use std::cell::OnceCell;
use std::ffi::OsString;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Duration;

use gix::bstr::BString;

use super::credential::Minted;
use super::fresh::{Filled, For};
use super::iteration::Draft;
use super::places::Scratch;
use super::session::Session;
use crate::check::{Format, MAX_REPORT};
use crate::contract::{CommandLine, Contract, NetworkTerms, Preset};
use crate::error::{Error, Result, ResultExt};
use crate::host::HostEnv;
use crate::ledger::append::EvidenceFile;
use crate::ledger::observe::{Capture, Sample, blob_id, evidence_name, has_metric_source, has_verdict};
use crate::ledger::receipt::{CostBasis, CostReceipt, NoReport, RunReceipt, WorkerReceipt};
use crate::ledger::rederive::NOT_STARTED;
use crate::oid::Oid;
use crate::sandbox::environment::{self, Home, Request};
use crate::sandbox::toolchain::{self, Toolchain};
use crate::sandbox::{
    self, Captured, Command, Egress, Ended, Enforcement, Exit, Network, Outcome, Policy, SandboxError, shell,
};
use crate::worker::usage::{self, Basis, UsageKind};
use crate::worktree::{self, Holds, Lies};
use zeroize::Zeroizing;

/// The most bytes of the worker's evidence file that are read.
const MAX_EVIDENCE: u64 = 1024 * 1024;

/// The fixed moment that tools which embed a date are told, for checks that are the same every day.
pub(super) const SOURCE_DATE_EPOCH: i64 = 946_684_800;

/// The name of the check's run on the base, where those of iterations have their environment's id.
pub(super) const BASELINE: &str = "baseline";
/// What worker and check are given of the host.
pub(super) struct Tools {
    pub(super) host: environment::HostEnv,
    toolchain: OnceCell<Toolchain>,
}

impl Tools {
    /// The environment of this process.
    pub fn host(&self) -> &environment::HostEnv {
        &self.host
    }

    pub fn new(host: &HostEnv) -> Self {
        let host = host.vars().iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        Self { host, toolchain: OnceCell::new() }
    }

    /// The tools of a contract's presets, as they were found when they were first wanted: all iterations of a session
    /// have the same.
    pub fn toolchain(&self, contract: &Contract) -> Result<&Toolchain> {
        if let Some(found) = self.toolchain.get() {
            return Ok(found);
        }
        let presets: Vec<toolchain::Preset> =
            contract.sandbox.presets.iter().copied().map(Into::into).collect();
        let found = toolchain::resolve(&presets, &self.host, None)?;
        Ok(self.toolchain.get_or_init(|| found))
    }
}

/// What a worker's run left.
pub(super) struct WorkerRun {
    pub receipt: WorkerReceipt,
    pub usage: CostReceipt,
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
        let mut toolchain = self.toolchain()?.clone();
        // A worker is the user's own tool: it is found where the user would find it.
        toolchain.path_dirs.extend(user_path(self.host));
        let home = make_home(&scratch.path().join("home"), &toolchain)?;
        let host = &self.tools.host;
        let system_dirs = shell::trusted_dirs();
        let request = Request {
            home: &home,
            toolchain: &toolchain,
            worktree: place,
            system_dirs: &system_dirs,
            pass: &worker.env,
            host,
        };
        let mut env = environment::worker_env(&request)?.vars;
        self.keep_caches_out(&mut env, scratch, &home)?;
        for (name, value) in [
            ("GIT_LOOP_ID", OsString::from(self.id.as_str())),
            ("GIT_LOOP_ITERATION", draft.iteration.to_string().into()),
            ("GIT_LOOP_CONTEXT", context_file.clone().into()),
            ("GIT_LOOP_EVIDENCE", evidence_file.clone().into()),
        ] {
            env.push((name.into(), value));
        }
        if let Some(credential) = credential {
            env.retain(|(name, _)| name != credential.name.as_str());
            let value = gix::path::from_byte_slice(&credential.value);
            let value = value.or_workspace(|| "the credential is no text".to_owned())?;
            env.push((credential.name.clone().into(), value.as_os_str().to_owned()));
        }
        let (timeout, is_deadline) = self.time_for(worker.timeout_seconds);
        let argv = self.argv_of(&worker.command, &search_dirs(&toolchain), place, "worker")?;
        let mut readable = toolchain.readable.clone();
        readable.extend(self.read_only());
        if self.adapter.has_image() {
            env.retain(|(name, _)| name != "PATH");
        } else {
            readable.extend(sandbox::readable_arguments(&argv));
        }
        let command = Command {
            env,
            overlay: filled.overlay(),
            stdin: context.as_bytes().to_vec(),
            timeout,
            idle: worker.idle_timeout_seconds.map(Duration::from_secs),
            keep_whole: self.head_tail() * 2,
            head_tail: self.head_tail(),
            ..Command::new(argv.clone(), place)
        };
        let writable = vec![place.to_path_buf(), scratch.path().to_path_buf()];
        let policy = self.policy(&self.tip.contract.sandbox.worker_network, writable, readable);
        let outcome = match sandbox::run(&command, &policy, self.interrupt.flag()) {
            Ok(outcome) => outcome,
            Err(error @ (SandboxError::ProgramNotFound { .. } | SandboxError::Exec { .. })) => {
                let receipt = not_started(&argv);
                return Ok(WorkerRun {
                    receipt: WorkerReceipt {
                        agent: worker.agent.clone(),
                        run: receipt,
                        failure: Some(error.to_string()),
                        summary: None,
                    },
                    usage: cost_receipt(usage::parse(UsageKind::None, b"", None)),
                    enforced: None,
                    requests: None,
                    evidence: Vec::new(),
                    interrupted: false,
                });
            }
            Err(error) => return Err(error.into()),
        };
        let receipt = run_receipt(&argv, &outcome, is_deadline);
        let report = self.redact(
            read_capped(&evidence_file, MAX_EVIDENCE)
                .filter(|_| is_plain(scratch.path(), "io/evidence.json"))
                .unwrap_or_default(),
        );
        let kind = UsageKind::parse_name(usage_name(worker.usage))?;
        let stdout = outcome.stdout.whole.as_deref().unwrap_or_default();
        let usage =
            cost_receipt(usage::parse(kind, stdout, (!report.is_empty()).then_some(report.as_slice())));
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
            enforced: Some(outcome.enforced),
            requests: outcome.egress,
            evidence,
            interrupted: outcome.ended == Ended::Interrupted,
        })
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

        let toolchain = self.toolchain()?;
        let home = make_home(&scratch.path().join("home"), toolchain)?;
        let host = &self.tools.host;
        let system_dirs = shell::trusted_dirs();
        let request = Request {
            home: &home,
            toolchain,
            worktree: linked.path(),
            system_dirs: &system_dirs,
            pass: &[],
            host,
        };
        let mut env = environment::check_env(&request, SOURCE_DATE_EPOCH)?.vars;
        env.extend(self.cargo_target(&scratch)?);
        let verdict_file = scratch.folder("io")?.join("verdict.json");
        env.push(("GIT_LOOP_VERDICT".into(), verdict_file.clone().into()));
        env.extend(check.env.iter().map(|(name, value)| (name.into(), value.into())));
        let (timeout, is_deadline) = self.time_for(check.timeout_seconds);
        let argv = self.argv_of(&check.command, &search_dirs(toolchain), linked.path(), "check")?;
        if self.adapter.has_image() {
            env.retain(|(name, _)| name != "PATH");
        }
        let mut readable = toolchain.readable.clone();
        readable.extend(self.read_only());
        let command = Command {
            env,
            overlay: filled.overlay(),
            timeout,
            idle: check.idle_timeout_seconds.map(Duration::from_secs),
            merge_streams: contract.report_format() == Format::Libtest,
            keep_whole: MAX_REPORT,
            head_tail: self.head_tail(),
            ..Command::new(argv.clone(), linked.path())
        };
        let writable = vec![linked.path().to_path_buf(), scratch.path().to_path_buf()];
        let policy = self.policy(&contract.sandbox.check_network, writable, readable);
        let outcome = match sandbox::run(&command, &policy, self.interrupt.flag()) {
            Ok(outcome) => outcome,
            // Before the first worker it is the machine or the contract that is at fault, and nobody should pay for it.
            Err(error @ (SandboxError::ProgramNotFound { .. } | SandboxError::Exec { .. }))
                if environment != BASELINE =>
            {
                linked.remove()?;
                let no_report = Some(NoReport::NotWritten);
                return Ok(CheckRun {
                    receipt: not_started(&argv),
                    capture: Capture { no_report, ..Capture::default() },
                    enforced: None,
                    requests: None,
                    evidence: vec![EvidenceFile::whole("check.stderr", format!("{error}\n").into_bytes())],
                    interrupted: false,
                });
            }
            Err(error) => return Err(error.into()),
        };
        let receipt = run_receipt(&argv, &outcome, is_deadline);
        let mut capture = self.capture(&outcome, linked.path(), report_path.as_deref(), planted);
        if has_verdict(contract) {
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
    fn changed_frozen(&self, place: &Path, filled: &Filled) -> Result<Option<BString>> {
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

    /// Program and arguments: as they are where an image has the program, else with the program that is found here.
    pub(super) fn argv_of(
        &self,
        command: &CommandLine,
        dirs: &[PathBuf],
        place: &Path,
        what: &str,
    ) -> Result<Vec<OsString>> {
        match command {
            _ if !self.adapter.has_image() => argv(command, dirs, place, what),
            CommandLine::Exec(words) => Ok(words.iter().map(OsString::from).collect()),
            // Which shell the image has, and what it knows, is not known here.
            CommandLine::Shell(line) if line.contains('|') => {
                Err(shell::ShellError::NoPipefail { command: line.clone() }.into())
            }
            CommandLine::Shell(line) => Ok(vec!["sh".into(), "-c".into(), line.into()]),
        }
    }

    /// What a step may touch.
    pub(super) fn policy(
        &self,
        terms: &NetworkTerms,
        writable: Vec<PathBuf>,
        readable: Vec<PathBuf>,
    ) -> Policy {
        Policy {
            allow: terms.rules(),
            disk: Some(self.tip.contract.sandbox.disk_bytes),
            writable,
            readable,
            image: self.tip.contract.sandbox.image.clone(),
            ..Policy::new(self.adapter, network(terms))
        }
    }

    /// The time-out of a step, and whether it is the end of the loop's time.
    pub(super) fn time_for(&self, seconds: u64) -> (Duration, bool) {
        let left = self.seconds_left().max(1);
        (Duration::from_secs(seconds.min(left)), left <= seconds)
    }

    /// Where cargo builds: outside of the tree, so that nothing of it is judged or becomes part of a candidate. Nothing where
    /// the folder in the tree is a warm one, or cargo is not used.
    pub(super) fn cargo_target(&self, scratch: &Scratch) -> Result<Option<(OsString, OsString)>> {
        let contract = &self.tip.contract;
        let warm = contract.worktree.warm.iter().any(|folder| folder == "target");
        if warm || !contract.sandbox.presets.contains(&Preset::Cargo) {
            return Ok(None);
        }
        Ok(Some(("CARGO_TARGET_DIR".into(), scratch.folder("target")?.into())))
    }

    /// Sends what a worker's tools leave behind out of its worktree, where the contract does not say otherwise. A check's tree
    /// is thrown away, and its options are not touched.
    fn keep_caches_out(
        &self,
        env: &mut Vec<(OsString, OsString)>,
        scratch: &Scratch,
        home: &Home,
    ) -> Result<()> {
        let mut wanted = Vec::new();
        wanted.extend(self.cargo_target(scratch)?);
        if self.tip.contract.sandbox.presets.contains(&Preset::Python) {
            // pytest expands the variable itself; a path with a space would have to be quoted here.
            wanted.push(("PYTEST_ADDOPTS".into(), "-o cache_dir=$XDG_CACHE_HOME/pytest".into()));
            for (name, folder) in [("MYPY_CACHE_DIR", "mypy"), ("RUFF_CACHE_DIR", "ruff")] {
                wanted.push((name.into(), home.home.join(".cache").join(folder).into()));
            }
        }
        wanted.retain(|(name, _)| env.iter().all(|(there, _)| there != name));
        env.extend(wanted);
        Ok(())
    }

    /// The tools of the contract's presets. An image has its own.
    pub(super) fn toolchain(&self) -> Result<&Toolchain> {
        static NONE: LazyLock<Toolchain> = LazyLock::new(Toolchain::default);
        if self.adapter.has_image() {
            return Ok(&NONE);
        }
        self.tools.toolchain(&self.tip.contract)
    }

    pub(super) fn read_only(&self) -> Vec<PathBuf> {
        read_only(self.host, &self.tip.contract)
    }

    pub(super) fn head_tail(&self) -> usize {
        self.tip.contract.limits.evidence_kib as usize * 1024
    }

    /// A captured stream as evidence, cut in the middle if it is long, without secrets.
    fn kept(&self, name: &'static str, captured: &Captured) -> EvidenceFile {
        let truncated = captured.total > (self.head_tail() * 2) as u64;
        let content = match &captured.whole {
            Some(whole) if !truncated => whole.clone(),
            _ => {
                // A secret that the cut goes through would be left in part on both of its sides.
                let mut cut = captured.clone();
                for (_, secret) in self.secrets() {
                    trim_secret_at_end(&mut cut.head, &secret);
                    trim_secret_at_start(&mut cut.tail, &secret);
                }
                cut.evidence()
            }
        };
        EvidenceFile {
            name: name.to_owned(),
            content: self.redact(content),
            bytes: captured.total,
            truncated,
        }
    }

    /// `bytes` without the values of the variables that the contract passes through, and without credentials that were made.
    pub(super) fn redact(&self, bytes: Vec<u8>) -> Vec<u8> {
        let mut bytes = bytes;
        for (name, value) in self.secrets() {
            bytes = replace(&bytes, &value, format!("[redacted {name}]").as_bytes());
        }
        bytes
    }

    /// The variables that a worker gets secrets in, with their values.
    fn secrets(&self) -> Vec<(String, Zeroizing<Vec<u8>>)> {
        let value = |name: &String| self.host.var(name).map(|value| value.as_encoded_bytes().to_vec());
        let names = self.tip.contract.worker.env.iter();
        let passed = names.filter_map(|name| Some((name.clone(), Zeroizing::new(value(name)?))));
        // Shorter values are words that would be found everywhere.
        let mut secrets: Vec<_> = passed.filter(|(_, value)| value.len() >= SHORTEST_SECRET).collect();
        secrets.extend(self.minted.borrow().iter().cloned());
        secrets
    }
}

/// Program and arguments; the program by its absolute path, unless it lies in the worktree itself.
pub(super) fn argv(
    command: &CommandLine,
    dirs: &[PathBuf],
    place: &Path,
    what: &str,
) -> Result<Vec<OsString>> {
    let words = match command {
        CommandLine::Shell(line) => return Ok(shell::shell_argv(line)?),
        CommandLine::Exec(words) => words,
    };
    let mut argv: Vec<OsString> = words.iter().map(OsString::from).collect();
    let program = argv.first().cloned().unwrap_or_default();
    if words.first().is_some_and(|word| is_relative(word)) {
        // A script of the repository: there in the base when the session was opened.
        return Ok(argv);
    }
    let Some(path) = shell::resolve_program(&program, dirs, place) else {
        if Path::new(&program).is_file() {
            return Err(Error::workspace(format!(
                "the {what}'s program {} is not executable",
                program.display()
            ))
            .hint(format!("chmod +x {}, or run it with its interpreter", program.display())));
        }
        // A folder may be on PATH and one of a toolchain; it is looked in once.
        let mut shown: Vec<String> = Vec::new();
        for dir in dirs.iter().map(|dir| dir.display().to_string()) {
            if !shown.contains(&dir) {
                shown.push(dir);
            }
        }
        return Err(Error::workspace(format!("the {what}'s program {} is not found", program.display()))
            .hint(format!("looked in {}", shown.join(", ")))
            .hint("install it, or start a loop with its absolute path, its toolchain in sandbox.presets or its folder in sandbox.read_only"));
    };
    argv[0] = path.into();
    Ok(argv)
}

/// What the contract lets worker and check read besides, on this machine.
pub(super) fn read_only(host: &HostEnv, contract: &Contract) -> Vec<PathBuf> {
    let expand = |path: &String| match (path.strip_prefix("~/"), host.home_dir()) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => host.absolute(path),
    };
    contract.sandbox.read_only.iter().map(expand).collect()
}

/// The absolute folders of the user's own `PATH`.
pub(super) fn user_path(host: &HostEnv) -> Vec<PathBuf> {
    let path = host.var("PATH").unwrap_or_default();
    std::env::split_paths(path).filter(|folder| folder.is_absolute()).collect()
}

/// The folders in which a program is looked for: the toolchain's, then the system's.
pub(super) fn search_dirs(toolchain: &Toolchain) -> Vec<PathBuf> {
    toolchain.path_dirs.iter().cloned().chain(shell::trusted_dirs()).collect()
}

/// A fresh `HOME` with what the toolchain wants in it.
pub(super) fn make_home(place: &Path, toolchain: &Toolchain) -> Result<Home> {
    let home =
        environment::fresh_home(place).or_workspace(|| format!("{} cannot be made", place.display()))?;
    environment::link_home(&home, toolchain).or_workspace(|| "the toolchain cannot be linked".to_owned())?;
    Ok(home)
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

/// The length from which a value is taken for a secret.
pub(super) const SHORTEST_SECRET: usize = 6;

/// Takes away what the start of `secret` may be at the end of `bytes`.
fn trim_secret_at_end(bytes: &mut Vec<u8>, secret: &[u8]) {
    if let Some(length) = (1..secret.len()).rev().find(|length| bytes.ends_with(&secret[..*length])) {
        bytes.truncate(bytes.len() - length);
    }
}

/// Takes away what the end of `secret` may be at the start of `bytes`.
fn trim_secret_at_start(bytes: &mut Vec<u8>, secret: &[u8]) {
    if let Some(length) =
        (1..secret.len()).rev().find(|length| bytes.starts_with(&secret[secret.len() - length..]))
    {
        bytes.drain(..length);
    }
}

fn replace(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    use gix::bstr::ByteSlice;
    bytes.replace(from, to)
}

fn network(terms: &NetworkTerms) -> Network {
    match terms {
        NetworkTerms::Allow(_) => Network::Allow,
        NetworkTerms::None => Network::None,
        NetworkTerms::Host => Network::Host,
    }
}

pub(super) fn usage_name(usage: crate::contract::Usage) -> &'static str {
    match usage {
        crate::contract::Usage::Json => "json",
        _ => "none",
    }
}

pub(super) fn cost_receipt(usage: usage::Usage) -> CostReceipt {
    CostReceipt {
        prompt_tokens: usage.prompt_tokens,
        completion_tokens: usage.completion_tokens,
        usd: usage.usd,
        basis: match usage.basis {
            Basis::None => CostBasis::None,
            Basis::Reported => CostBasis::Reported,
            Basis::Unknown => CostBasis::Unknown,
        },
        problem: usage.problem,
    }
}

pub(super) fn run_receipt(argv: &[OsString], outcome: &Outcome, is_deadline: bool) -> RunReceipt {
    let (exit_code, signal) = match outcome.exit {
        Exit::Code(code) => (Some(code), None),
        Exit::Signal(signal) => (None, Some(signal)),
    };
    let ended = match outcome.ended {
        Ended::Itself => "itself",
        Ended::TimedOut if is_deadline => "deadline",
        Ended::TimedOut => "timed_out",
        Ended::Idle => "idle_timeout",
        Ended::OutputLimit => "output_limit",
        Ended::DiskLimit => "disk_limit",
        Ended::Interrupted => "interrupted",
    };
    RunReceipt {
        command: argv.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        exit_code,
        signal,
        ended: ended.to_owned(),
        duration_ms: u64::try_from(outcome.duration.as_millis()).unwrap_or(u64::MAX),
        survivors: outcome.survivors,
    }
}

/// The receipt of a command that could not be started: what a shell says of it.
fn not_started(argv: &[OsString]) -> RunReceipt {
    RunReceipt {
        command: argv.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        exit_code: Some(NOT_STARTED),
        signal: None,
        ended: "itself".to_owned(),
        duration_ms: 0,
        survivors: 0,
    }
}

/// Whether nothing on the way from `place` to `path`, `path` itself included, is a symbolic link. Whoever could put one
/// there has ended.
pub(super) fn is_plain(place: &Path, path: &str) -> bool {
    let mut current = place.to_path_buf();
    path.split('/').filter(|part| !part.is_empty()).all(|part| {
        current.push(part);
        fs::symlink_metadata(&current).map_or(true, |meta| !meta.is_symlink())
    })
}

/// Whether a program is named by a path in the worktree.
pub(super) fn is_relative(word: &str) -> bool {
    word.contains('/') && !Path::new(word).is_absolute()
}

/// Why a worker's run counts as failed.
pub(super) fn failure(run: &RunReceipt) -> Option<String> {
    match (run.ended.as_str(), run.exit_code, run.signal) {
        ("itself", Some(0), _) => None,
        ("itself", Some(code), _) => Some(format!("it exited with {code}")),
        ("itself", None, Some(signal)) => Some(format!("signal {signal} ended it")),
        ("timed_out", ..) => Some("it timed out".to_owned()),
        ("deadline", ..) => Some("it ran into the end of the loop's time".to_owned()),
        ("idle_timeout", ..) => Some("it printed nothing for too long".to_owned()),
        ("output_limit", ..) => Some("it printed too much".to_owned()),
        ("disk_limit", ..) => Some("its folders held more than sandbox.disk".to_owned()),
        _ => Some("it was interrupted".to_owned()),
    }
}

/// Whether the folder of `path` is in `place`, whatever links a command has made on the way.
pub(super) fn is_inside(place: &Path, path: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().ok();
    match (real(place), path.parent().and_then(real)) {
        (Some(place), Some(folder)) => folder.starts_with(place),
        _ => false,
    }
}

/// The first `limit` bytes of a regular file; no link is followed.
pub(super) fn read_capped(path: &Path, limit: u64) -> Option<Vec<u8>> {
    let meta = fs::symlink_metadata(path).ok()?;
    if !meta.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    fs::File::open(path).ok()?.take(limit).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}
