//! The receipt: the JSON that pins everything about one iteration.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::lasting::LastingReceipt;
use crate::contract::Contract;
use crate::decide::{Decision, HoldoutVerdict};
use crate::ledger::holdout::NO_PROGRAM;
use crate::money::MicroUsd;
use crate::oid::Oid;
use crate::sandbox::{Egress, Enforcement};

/// The schema id of a receipt.
pub const RECEIPT_SCHEMA: &str = "git-loop/receipt/v1";

/// Everything about one iteration. What could not be pinned is null and has its reason in `unpinned`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Receipt {
    /// Always [`RECEIPT_SCHEMA`].
    pub schema: String,
    /// The id of the loop.
    #[serde(rename = "loop")]
    pub loop_id: String,
    /// The contract record.
    pub contract: Oid,
    /// The checkpoint record that announced the iteration.
    pub checkpoint: Oid,
    /// The number of the iteration, from 1.
    pub iteration: u32,
    /// The environment that was used, and never again.
    pub environment_id: String,
    /// The commit the worker started from.
    pub base: Oid,
    /// The commit made from what the worker left; null if an interruption left none.
    pub candidate: Option<Oid>,
    /// Its tree.
    pub candidate_tree: Option<Oid>,
    /// Why the iteration ended before its time; null in the ordinary case.
    pub abandoned: Option<String>,
    /// How the worker's run went; null if it is not known.
    pub worker: Option<WorkerReceipt>,
    /// What an orchestrator brought, where no worker was run here; else null.
    pub outside: Option<OutsideReceipt>,
    /// The model that was asked for.
    pub model: Option<ModelIdentity>,
    /// How it was asked to sample.
    pub sampling: Option<SamplingParameters>,
    /// What the worker was given to read.
    pub context: Vec<ContextEntry>,
    /// What it cost.
    pub cost: CostReceipt,
    /// What the candidate changed.
    pub changes: ChangesReceipt,
    /// What the guards found.
    pub guards: GuardsReceipt,
    /// The one capture of the check; null if an earlier row decided.
    pub check: Option<CheckReceipt>,
    /// What lasting code has to show besides; absent where the rows for it are not asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lasting: Option<LastingReceipt>,
    /// What the holdout said; absent where it was not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holdout: Option<HoldoutReceipt>,
    /// What isolation the worker and the check had.
    pub sandbox: SandboxReceipt,
    /// What the worktrees got besides their trees; absent where the contract names nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layers: Option<LayersReceipt>,
    /// Seconds since the first checkpoint, without the time between a halt and its resumption.
    pub elapsed_seconds: u64,
    /// What was decided.
    pub decision: Decision,
    /// How sure one can be that the check is deterministic; null until it was probed.
    pub determinism_confidence: Option<f64>,
    /// Why each null above is null, by field.
    pub unpinned: BTreeMap<String, String>,
}

/// What every fresh worktree got besides its tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LayersReceipt {
    /// The run of `worktree.setup`; absent where it was not run for this record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setup: Option<RunReceipt>,
    /// The warm folders.
    pub warm: Vec<WarmReceipt>,
    /// The files of `worktree.include`.
    pub included: Vec<IncludedReceipt>,
}

/// One warm folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WarmReceipt {
    /// Where it is in a worktree.
    pub folder: String,
    /// How many files and links it holds.
    pub files: u64,
    /// SHA-256 over the paths, modes and contents of all of them.
    pub sha256: String,
}

/// One included file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct IncludedReceipt {
    /// Where it is in a worktree, escaped.
    pub path: String,
    /// SHA-256 of its content.
    pub sha256: String,
}

/// The identity of a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ModelIdentity {
    /// Who serves it.
    pub provider: Option<String>,
    /// Its name there.
    pub model_id: Option<String>,
    /// Its version.
    pub version: Option<String>,
    /// How it was quantized.
    pub quantization: Option<String>,
    /// What runs it.
    pub runtime: Option<String>,
    /// Where it is reached.
    pub endpoint: Option<String>,
}

/// How a model samples.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SamplingParameters {
    /// Temperature.
    pub temperature: Option<f64>,
    /// Nucleus.
    pub top_p: Option<f64>,
    /// Seed.
    pub seed: Option<u64>,
    /// The most tokens of one answer.
    pub max_tokens: Option<u64>,
}

/// One piece of the context slice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ContextEntry {
    /// What it is called.
    pub path: String,
    /// SHA-256 of its content, in hex.
    pub content_sha256: String,
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunReceipt {
    /// The command as it was run.
    pub command: Vec<String>,
    /// Its exit code; null if a signal ended it.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Why it was ended: `itself`, `timed_out`, `deadline`, `idle_timeout`,
    /// `output_limit`, `disk_limit`, `interrupted`.
    pub ended: String,
    /// How long it ran by the runner's own monotonic clock.
    pub duration_ms: u64,
    /// How many processes it left behind that had to be ended.
    pub survivors: u32,
}

/// How the worker's run went.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorkerReceipt {
    /// What it is called.
    pub agent: Option<String>,
    /// The run.
    pub run: RunReceipt,
    /// Why it counts as failed; null if it does not.
    pub failure: Option<String>,
    /// What it says about its change; never evidence of anything.
    pub summary: Option<String>,
}

/// What an orchestrator brought in the place of a worker's run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OutsideReceipt {
    /// The commit whose tree the candidate has.
    pub rev: Oid,
    /// The sandbox adapter that the worker is said to have run in.
    pub adapter: Option<String>,
    /// What the worker says about its change; never evidence of anything.
    pub summary: Option<String>,
}

/// Where a cost figure comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CostBasis {
    /// The contract declares a worker that costs nothing.
    None,
    /// The worker's report.
    Reported,
    /// Nothing could be read; this is not 0.
    Unknown,
    /// The iteration was interrupted; the reservation is charged.
    Reserved,
}

/// What one iteration cost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CostReceipt {
    /// Tokens read by the model.
    pub prompt_tokens: Option<u64>,
    /// Tokens written by it.
    pub completion_tokens: Option<u64>,
    /// Money; null if unknown.
    pub usd: Option<MicroUsd>,
    /// Where the figures come from.
    pub basis: CostBasis,
    /// What the worker's report was lacking.
    pub problem: Option<String>,
}

/// What a candidate changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ChangesReceipt {
    /// How many paths.
    pub count: u64,
    /// The first 200 of them, in path order, escaped for display.
    pub paths: Vec<String>,
}

/// One thing a guard found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GuardViolation {
    /// Where, escaped for display; or the name of what was tampered with.
    pub path: String,
    /// What is wrong with it.
    pub what: String,
}

/// How many entries each list of [`GuardsReceipt`] has in a receipt: as many paths as a worker likes may drift, and the record
/// that says so must still fit.
pub const LISTED_GUARDS: usize = 200;

/// How many more of each kind there were than [`GuardsReceipt`] lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Unlisted {
    /// Of `drift`.
    pub drift: u64,
    /// Of `blocked`.
    pub blocked: u64,
    /// Of `tampered`.
    pub tampered: u64,
    /// Of `left_out`.
    pub left_out: u64,
    /// Of `outside`.
    pub outside: u64,
}

/// What the guards found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GuardsReceipt {
    /// Whether the next four lists are empty.
    pub guards_intact: bool,
    /// Check paths that are not what was frozen.
    pub drift: Vec<GuardViolation>,
    /// Blocked paths that changed.
    pub blocked: Vec<GuardViolation>,
    /// Refs, config or hooks that changed while the worker ran; seen by the runner only.
    pub tampered: Vec<GuardViolation>,
    /// What could not enter the candidate (special files, nested repositories); seen by the runner only.
    pub left_out: Vec<GuardViolation>,
    /// Changed paths outside `paths.mutable`.
    pub outside: Vec<String>,
    /// How many more there were of each; absent where everything is listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub more: Option<Unlisted>,
}

impl GuardsReceipt {
    /// The same with the first [`LISTED_GUARDS`] entries of each list, and how many more there were.
    #[must_use]
    pub fn bounded(mut self) -> Self {
        fn cut<T>(list: &mut Vec<T>, more: &mut u64) {
            *more += list.len().saturating_sub(LISTED_GUARDS) as u64;
            list.truncate(LISTED_GUARDS);
        }
        let mut more = self.more.unwrap_or_default();
        cut(&mut self.drift, &mut more.drift);
        cut(&mut self.blocked, &mut more.blocked);
        cut(&mut self.tampered, &mut more.tampered);
        cut(&mut self.left_out, &mut more.left_out);
        cut(&mut self.outside, &mut more.outside);
        self.more = (more != Unlisted::default()).then_some(more);
        self
    }

    /// How many refs, config keys or hooks were tampered with.
    pub fn tampered_count(&self) -> usize {
        self.tampered.len() + self.more.map_or(0, |more| count(more.tampered))
    }

    /// How much could not enter the candidate.
    pub fn left_out_count(&self) -> usize {
        self.left_out.len() + self.more.map_or(0, |more| count(more.left_out))
    }
}

/// A number from a file as one that is compared with 0.
fn count(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX / 2).min(usize::MAX / 2)
}

/// The one capture of a check, and what was read from it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CheckReceipt {
    /// The tree the check ran on: the candidate's with every check path replaced by its frozen object.
    pub tree: Oid,
    /// The run.
    pub run: RunReceipt,
    /// The blob of the report; null if there was none.
    pub report: Option<Oid>,
    /// Why there is no report; null if there is one.
    pub no_report: Option<NoReport>,
    /// Why there is no verdict; null if there is one.
    pub problem: Option<String>,
    /// The metric, of several runs the median; null if there is none.
    pub metric: Option<f64>,
    /// The median absolute deviation of several runs; null of one, or without a metric.
    pub noise: Option<f64>,
    /// Whether the check is passing.
    pub passing: bool,
    /// Whether several runs gave another verdict or other tests.
    pub flaky: bool,
    /// Whether the runner stopped early, so that the report is not about every test.
    pub partial: bool,
    /// How many tests passed, failed and were skipped; null where the format has no tests.
    pub counts: Option<TestCounts>,
    /// The failing tests.
    pub failures: Option<Vec<String>>,
    /// SHA-256 over the sorted ids of all tests.
    pub collected: Option<String>,
    /// The blob that lists all tests by outcome.
    pub tests: Option<Oid>,
    /// Tests of the baseline that were not run.
    pub lost: Vec<String>,
    /// Tests that ran at the baseline and are skipped now.
    pub newly_skipped: Vec<String>,
    /// Tests that passed at green and do not pass now.
    pub regressed: Vec<String>,
    /// Where the contract asks for several runs: each of them, this capture's the first; else empty.
    pub runs: Vec<SampleReceipt>,
}

impl RunReceipt {
    /// Whether this run of the contract's check ended by itself and called its tree red: with another exit code than that of success,
    /// which is not that of a program that was not found, or by a signal that is not the kernel's own (out of memory), which would say
    /// nothing of the code.
    pub fn ended_red(&self, contract: &Contract) -> bool {
        const SIGKILL: i32 = 9;
        self.ended == "itself"
            && match (self.exit_code, self.signal) {
                (Some(code), _) => {
                    code != i32::from(contract.check.success_exit_code) && !NO_PROGRAM.contains(&code)
                }
                // Whoever fixes a crash begins with one.
                (None, signal) => signal != Some(SIGKILL),
            }
    }
}

impl CheckReceipt {
    /// The failing set that the decision compares with others; `None` without a verdict or a complete report.
    pub fn failing_set(&self) -> Option<&[String]> {
        if self.problem.is_some() || self.partial { None } else { self.failures.as_deref() }
    }
}

/// The run of a holdout. Nothing that it printed or wrote is kept anywhere.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HoldoutReceipt {
    /// The git tree id of the folder, as it was copied for this run.
    pub folder: Oid,
    /// The run.
    pub run: RunReceipt,
    /// What it comes to.
    pub verdict: HoldoutVerdict,
    /// How many of its tests failed; null where its format has no tests, or without a complete report.
    pub failing: Option<u64>,
    /// Why there is no verdict; null if there is one.
    pub problem: Option<String>,
    /// What isolation it had.
    pub sandbox: Enforcement,
}

/// One of several runs of a check on one tree.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SampleReceipt {
    /// The run.
    pub run: RunReceipt,
    /// The blob of the report; null if there was none.
    pub report: Option<Oid>,
    /// Why there is no report; null if there is one.
    pub no_report: Option<NoReport>,
    /// Why there is no verdict; null if there is one.
    pub problem: Option<String>,
    /// The metric; null if there is none.
    pub metric: Option<f64>,
    /// Whether the check is passing.
    pub passing: bool,
    /// SHA-256 over the canonical JSON of the tests by outcome; null where the format has no tests.
    pub tests_sha256: Option<String>,
}

/// Why a check has no report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NoReport {
    /// The file was not written, or is no regular file.
    NotWritten,
    /// It is larger than what is kept.
    TooLarge,
    /// The file was there before the check ran.
    Planted,
    /// A frozen file was changed while the check ran, so what it said counts for nothing.
    FrozenChanged,
}

/// How many tests had which outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TestCounts {
    /// Passed.
    pub passed: u64,
    /// Failed.
    pub failed: u64,
    /// Skipped or ignored.
    pub skipped: u64,
}

/// What was enforced, as the runner reports it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SandboxReceipt {
    /// Around the worker; null if it did not run.
    pub worker: Option<Enforcement>,
    /// Around the check; null if it did not run.
    pub check: Option<Enforcement>,
    /// Whom the worker asked for; null where its network is not a list of hosts.
    pub worker_requests: Option<Egress>,
    /// Whom the check asked for, in all of its runs; null where its network is not a list of hosts.
    pub check_requests: Option<Egress>,
}
