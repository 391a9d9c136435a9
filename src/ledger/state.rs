//! `.loop_state.json`: the fold of a ledger's records and nothing else.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::agents::Agents;
use super::receipt::{ContextEntry, ModelIdentity};
use super::record::{HaltedBy, LEASE_GRACE_SECONDS, Severity, Status};
use crate::at::At;
use crate::canonical;
use crate::decide::{ComplexityDelta, Costs, FailingSets};
use crate::exit::HaltReason;
use crate::money::MicroUsd;
use crate::oid::Oid;
use crate::review::FrozenPacket;

/// The schema id of `.loop_state.json`.
pub const STATE_SCHEMA: &str = "git-loop/state/v1";

/// The only mode there is: iterate until the check says that the target is met.
pub const MODE: &str = "check_fixpoint";

/// Where a loop is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// Frozen and signed; no checkpoint yet.
    Created,
    /// Between the first checkpoint and the halt.
    Iterating,
    /// Ended.
    Halted,
}

/// The state of a loop after one record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct State {
    /// Always [`STATE_SCHEMA`].
    pub schema_version: String,
    /// The id of the loop.
    #[serde(rename = "loop")]
    pub loop_id: String,
    /// Always [`MODE`].
    pub mode: String,
    /// Where the loop is in its life.
    pub phase: Phase,
    /// Whether and how it goes on.
    pub status: Status,
    /// How many iterations are recorded.
    pub iteration: u32,
    /// The last accepted candidate, else the base.
    pub last_green_commit: Oid,
    /// The metric to beat: of the last accepted candidate, else of the baseline; null if neither has one.
    pub best_metric: Option<f64>,
    /// The tests that fail at green; null where the check's format has no tests.
    pub open_failures: Option<Vec<String>>,
    /// All money spent.
    pub cumulative_usd: MicroUsd,
    /// What was measured before any worker ran; null until then.
    pub baseline: Option<BaselineState>,
    /// How sure one can be that the check is deterministic; null until it was probed.
    pub determinism_probe: Option<DeterminismProbe>,
    /// What must not move under the metric.
    pub metric_integrity: MetricIntegrity,
    /// The model that the contract pins.
    pub model_pin: Option<ModelIdentity>,
    /// A question to a person; null if there is none.
    pub escalation: Option<Escalation>,
    /// How much of what was accepted nobody has read.
    pub comprehension: Comprehension,
    /// Why it halted; null while it has not.
    pub halt_reason: Option<HaltReason>,
    /// What the decision counts.
    pub counters: Counters,
    /// The iteration that is under way; null between iterations.
    pub checkpoint: Option<OpenCheckpoint>,
    /// The halt that the last record calls for and that is not recorded yet.
    pub due_halt: Option<DueHalt>,
    /// The halt record; null while there is none, and in the halt record itself, which cannot name itself.
    pub halt: Option<Oid>,
    /// Who ran the loop: every signer of an iteration, and of a halt that was no operator's.
    pub submitters: Vec<Signer>,
    /// The approving reviews of the halt.
    pub approvals: Vec<Approval>,
    /// The findings that are not resolved.
    pub findings: Vec<OpenFinding>,
    /// Whether a promoter released the content; absent while nobody did.
    #[serde(default, skip_serializing_if = "is_false")]
    pub released: bool,
    /// Who alone runs the loop; absent if nobody said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<Lease>,
    /// The agents of lasting code; absent while none is recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agents: Option<Agents>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

/// The right of one clone to run a loop.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Lease {
    /// The clone.
    pub holder: String,
    /// What its machine calls itself.
    pub host: String,
    /// The principal that took it.
    pub principal: String,
    /// The key that took it.
    pub key: String,
    /// The end.
    pub until: At,
}

impl Lease {
    /// Whether it is still in the way of others at `at`.
    pub fn holds_at(&self, at: At) -> bool {
        at.seconds() < self.until.seconds().saturating_add(LEASE_GRACE_SECONDS.cast_signed())
    }
}

/// What was measured before any worker ran.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BaselineState {
    /// Model calls so far; always 0 here, kept for the reports that compare with it.
    pub model_calls: u64,
    /// Tokens so far; always 0 here.
    pub tokens: u64,
    /// The most frequent kind of failure; null until reports are classified.
    pub top_error_type: Option<String>,
    /// The metric; null if the check gave none.
    pub metric: Option<f64>,
    /// How many tests failed; null where the format has no tests.
    pub failures: Option<u64>,
    /// The blob that lists the baseline's tests by outcome.
    pub tests: Option<Oid>,
}

/// The last determinism probe.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DeterminismProbe {
    /// How many runs.
    pub runs: u32,
    /// Whether all agreed.
    pub stable: bool,
    /// The confidence that the flake rate is below what the contract allows.
    pub confidence: f64,
    /// When.
    pub checked_at: At,
}

/// What must not move under the metric.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MetricIntegrity {
    /// SHA-256 over the canonical JSON of the contract's `check`.
    pub check_cmd_sha: String,
    /// The git tree of the check paths at green.
    pub test_tree_sha_at_last_green: Oid,
    /// The git tree of the check paths as frozen.
    pub frozen: Oid,
    /// SHA-256 over the ids of the tests that the baseline ran; null where the format has none.
    pub collected: Option<String>,
}

/// A question to a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Escalation {
    /// `pending` or `acked`.
    pub state: String,
    /// Where it was asked.
    pub channel: Option<String>,
    /// What it refers to.
    #[serde(rename = "ref")]
    pub reference: Option<String>,
    /// Who answered.
    pub acked_by: Option<String>,
}

/// How much of what was accepted nobody has read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Comprehension {
    /// Accepted changes that nobody has read.
    pub diffs_unread: u32,
}

/// What the decision counts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Counters {
    /// Accepted iterations.
    pub accepted: u32,
    /// Consecutive iterations that were not accepted; interrupted ones do not count.
    pub no_progress: u32,
    /// All tokens, where they were reported.
    pub tokens: u64,
    /// Worker runs whose cost is not known, or whose tokens are not, where the contract limits them.
    pub unknown_costs: u32,
    /// The largest known cost of one iteration.
    pub largest_usd: MicroUsd,
    /// When the first checkpoint was signed.
    pub started_at: Option<At>,
    /// When the last halt was signed.
    pub halted_at: Option<At>,
    /// Seconds between halts and resumptions.
    pub paused_seconds: u64,
    /// The failing set of the last iteration and how many iterations in a row had the very same.
    pub same_failures: Option<SameFailures>,
    /// In which failing sets each test has been, the baseline's among them.
    pub failing_sets: FailingSets,
    /// How often a failing set came back, with another one in between.
    pub oscillations: u32,
    /// In how many iterations each test regressed, in byte order of the tests.
    pub regressions: Vec<Regressions>,
    /// The known costs.
    pub costs: Costs,
    /// The noise of the metric to beat; null where the check runs once.
    pub best_noise: Option<f64>,
    /// The blob that lists the tests at green by outcome.
    pub green_tests: Option<Oid>,
    /// Times that the holdout was red; null where the contract has none.
    pub holdout_red: Option<u32>,
    /// Local defenses that were tried; null where none is counted.
    pub local_defenses: Option<u32>,
    /// What rows 11 to 18 count; absent where they are not asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lasting: Option<LastingCounters>,
}

/// What the decision on lasting code counts.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct LastingCounters {
    /// What the accepted candidates have added together.
    pub complexity: ComplexityDelta,
    /// Whether green meets the target and has no valid promotion packet.
    pub awaiting_packet: bool,
    /// The invariants whose command did not pass at the baseline, in the order of the contract.
    pub failed_at_baseline: Vec<String>,
}

/// In how many iterations one test regressed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Regressions {
    /// The test.
    pub test: String,
    /// In how many iterations.
    pub iterations: u32,
}

/// A run of iterations with one and the same failing set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SameFailures {
    /// SHA-256 over the failing tests.
    pub set: String,
    /// How many iterations in a row.
    pub iterations: u32,
}

/// An iteration that is under way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OpenCheckpoint {
    /// The checkpoint record; null in that record itself, which cannot name itself.
    pub record: Option<Oid>,
    /// Its number.
    pub iteration: u32,
    /// The commit the worker starts from.
    pub base: Oid,
    /// The environment.
    pub environment_id: String,
    /// What the worker is given to read.
    pub context: Vec<ContextEntry>,
    /// What is charged if it is never heard of again.
    pub reservation_usd: MicroUsd,
}

/// A halt that must come next.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DueHalt {
    /// What calls for it.
    pub by: HaltedBy,
    /// The stable string.
    pub halt_reason: HaltReason,
    /// The name of the limit or of the row.
    pub reason: String,
    /// The promotion packet that the halt freezes; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packet: Option<Box<FrozenPacket>>,
}

/// A principal with the key that was used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Signer {
    /// The principal.
    pub principal: String,
    /// The fingerprint.
    pub key: String,
}

/// One approving review.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Approval {
    /// The position of the review record.
    pub seq: u64,
    /// The reviewer.
    pub principal: String,
    /// The reviewer's key.
    pub key: String,
}

/// A finding that is not resolved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OpenFinding {
    /// The finding's record; null in that record itself, which cannot name itself.
    pub record: Option<Oid>,
    /// How much it weighs.
    pub severity: Severity,
    /// The reviewer.
    pub principal: String,
}

impl State {
    /// The positions of the approving reviews that a promotion rests on: of lasting code the last of each reviewer.
    pub fn counted_approvals(&self) -> Vec<u64> {
        match &self.agents {
            Some(agents) => agents.reviews.iter().map(|one| one.seq).collect(),
            None => self.approvals.iter().map(|one| one.seq).collect(),
        }
    }

    /// How many open findings block.
    pub fn blocking_findings(&self) -> usize {
        self.findings.iter().filter(|finding| finding.severity == Severity::Block).count()
    }

    /// The canonical bytes of `.loop_state.json`.
    pub fn to_bytes(&self) -> Vec<u8> {
        canonical::canonical_json(self).into_bytes()
    }

    /// Reads the bytes of a `.loop_state.json`.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, canonical::CanonicalError> {
        canonical::read_canonical(bytes)
    }

    /// Seconds of the loop's time that have passed at `now`: from the first checkpoint, without the time between a
    /// halt and its resumption.
    pub fn elapsed_seconds(&self, now: At) -> u64 {
        let Some(started) = self.counters.started_at else { return 0 };
        let until = match self.phase {
            Phase::Halted => self.counters.halted_at.unwrap_or(now),
            Phase::Created | Phase::Iterating => now,
        };
        until.seconds_since(started).saturating_sub(self.counters.paused_seconds)
    }
}
