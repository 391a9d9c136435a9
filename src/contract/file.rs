//! The types of `loop.toml`. Their doc comments are the documentation of the keys: [`super::table`] prints them, and
//! [`super::parse()`] checks a document against the schema that they give.
//!
//! Three extra schema keywords say what JSON Schema cannot: `x-min` and `x-max` bound durations and money, and `x-built`
//! (`x-built-items` for the members of a list) lists the only values of a key that this version implements; any other is
//! refused, never ignored.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::duration::Seconds;
use super::lasting::{ComplexityBudget, NamedCommand, ReviewRisk};
use super::money::Dollars;

pub use super::judge::{Check, Direction, Holdout, Metric, MetricSource, ReportFormat};
pub use super::sandbox::{
    Adapter, AllowList, CheckSandbox, History, Network, NetworkMode, Preset, Sandbox, WorkerSandbox,
};
pub use super::worker::{Credential, Model, OnFailure, Sampling, Usage, Worker};

/// A whole `loop.toml`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LoopFile {
    /// What the loop is for, in a sentence or a few. The worker is told it.
    #[schemars(length(min = 1, max = 10_000))]
    pub objective: String,
    /// What kind of change this is. A bug fix today: `mechanical_transformation`. `lasting_code` has to show more, is gated
    /// and is promoted by a person; every other class is reviewed and promoted, and not gated.
    pub class: Class,
    /// `lasting_code` only: what must stay true of the code, each with the command that shows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub invariant_boundaries: Option<Vec<NamedCommand>>,
    /// `lasting_code` only: the changes of meaning that a candidate may declare. May be empty: none is allowed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_semantic_changes: Option<Vec<String>>,
    /// `lasting_code` only: the changes of meaning that reject a candidate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forbidden_semantic_changes: Option<Vec<String>>,
    /// `lasting_code` only: commands that must pass without a model, a credential or a network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub machine_independence_requirements: Option<Vec<NamedCommand>>,
    /// `lasting_code` only: how far from the worker the reviewers must stand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub review_risk: Option<ReviewRisk>,
    /// `lasting_code` only: the points of view that the reviews must cover, such as `security`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub required_review_personas: Option<Vec<String>>,
    /// `lasting_code` only: how much complexity the accepted candidates may add together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub complexity_budget: Option<ComplexityBudget>,
    /// `lasting_code` only: after how many candidates that add a local defense the loop stops.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 20))]
    pub local_defense_limit: Option<u32>,
    /// `lasting_code` only: must be `true`; a person signs the promotion.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub human_promotion_required: Option<bool>,
    /// What the worker may change, and what nobody may.
    pub paths: Paths,
    /// The command that proposes changes.
    pub worker: Worker,
    /// What the fresh worktrees get that git does not track.
    #[serde(default)]
    pub worktree: Worktree,
    /// The command that judges candidates.
    pub check: Check,
    /// A second check that no worker can see; it runs only when the target is met.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holdout: Option<Holdout>,
    /// The number that the check gives and what it should become.
    pub metric: Metric,
    /// What the loop may spend. Every limit is hard.
    #[serde(default)]
    pub limits: Limits,
    /// What happens when a guard finds tampering.
    #[serde(default)]
    pub guards: Guards,
    /// How the worker and the check are isolated.
    #[serde(default)]
    pub sandbox: Sandbox,
    /// Who may sign what: principals of the trust file.
    #[serde(default)]
    pub roles: Roles,
    /// What the receipts must be able to pin.
    #[serde(default)]
    pub receipt: ReceiptTerms,
}

/// What kind of change a loop makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// An experiment whose content will not last.
    EphemeralExperiment,
    /// A change that follows a rule: a rename, an upgrade, a format.
    MechanicalTransformation,
    /// A question; the answer matters, the code does not.
    Research,
    /// A look at reports of weaknesses.
    SecurityTriage,
    /// Code that is meant to stay. Its content is not let out before it is promoted.
    LastingCode,
}

/// `[paths]`: gitignore-style patterns, matched on repository paths.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Paths {
    /// What the worker may change. A path outside rejects the candidate.
    /// A `**` stands for itself between slashes (`src/**`, `**/x`), never beside other characters.
    #[schemars(length(min = 1))]
    pub mutable: Vec<String>,
    /// What judges the candidates, frozen at the base commit. A file that a worker adds under these patterns is drift.
    /// Where a wildcard meets `mutable`, these win.
    #[schemars(length(min = 1))]
    pub check: Vec<String>,
    /// What no candidate may change, besides the built-in paths (`.loops/**`, `.gitattributes`, `.env*`, …).
    #[serde(default)]
    pub blocked: Vec<String>,
}

/// A command: an array of strings that is executed as it is, or one string for a shell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Command {
    /// Program and arguments; no shell is involved.
    Args(#[schemars(length(min = 1))] Vec<String>),
    /// A line for `sh -c`, under `pipefail` where that shell has it.
    Shell(String),
}

/// `[worktree]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Worktree {
    /// A command such as `npm ci` that fills the `warm` folders. It runs once, in a sandboxed worktree of the base commit; nothing of
    /// a candidate ever runs there. Without it they are what the baseline's check leaves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub setup: Option<Command>,
    /// What `setup` may reach. An installation needs the network; it runs the base commit's code only.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "host"))]
    pub setup_network: Option<NetworkMode>,
    /// How long `setup` may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "30m", "x-min" = "1s", "x-max" = "24h"))]
    pub setup_timeout: Option<Seconds>,
    /// Ignored folders, built from the base commit once and copied into every worktree.
    pub warm: Vec<String>,
    /// A file of the base commit, in gitignore syntax, that names ignored files of your own work tree to copy into every
    /// worktree, of the worker and of the check. Whatever it names they can read: keep secrets out of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub include: Option<String>,
    /// For large repositories: worktrees hold only the files that these patterns match, in the notation of `paths`, besides what the check needs
    /// (`paths.check`, files that a command names) and what was changed since the base. All others stay in every candidate as they are at green.
    /// Where there are no patterns worktrees hold everything.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sparse: Vec<String>,
}

/// `[limits]`: hard, each with a default and a maximum. A limit of 0 is an error, never "no limit".
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// How many iterations the loop may run.
    #[schemars(range(min = 1, max = 100))]
    pub iterations: u32,
    /// Dollars that all runs of the worker may cost together; counted in millionths.
    #[schemars(extend("x-min" = "0.000001", "x-max" = "10000"))]
    pub cost_usd: Dollars,
    /// Tokens that all runs of the worker may use together, in and out. Not limited where the key is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000_000_000_u64))]
    pub tokens: Option<u64>,
    /// Wall time from the first checkpoint, pauses included; the time between a halt and its resumption does not count.
    #[schemars(extend("x-min" = "1s", "x-max" = "24h"))]
    pub duration: Seconds,
    /// How many iterations in a row may fail to be accepted.
    #[schemars(range(min = 1, max = 20))]
    pub no_progress: u32,
    /// In how many iterations one and the same test may regress.
    #[schemars(range(min = 1, max = 20))]
    pub regression_limit: u32,
    /// How often the set of failing tests may come back to an earlier one, with another one in between.
    #[schemars(range(min = 1, max = 20))]
    pub oscillation_limit: u32,
    /// How many standard deviations above the mean of the known costs before it make a cost an anomaly, from the fourth known
    /// cost on.
    #[schemars(range(min = 0.1, max = 100))]
    pub cost_sigma: f64,
    /// How many accepted changes nobody has read yet may pile up. Not limited where the key is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100))]
    pub unread_diffs: Option<u32>,
    /// What a run means whose cost is not known. Not known is not 0.
    pub unknown_cost: UnknownCost,
    /// KiB kept of the head, and as many of the tail, of each captured output (`worker.log`, `check.stdout`,
    /// `check.stderr`); the cut is stated. The report is kept whole, up to 16 MiB.
    #[schemars(range(min = 1, max = 4096))]
    pub evidence_kib: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            iterations: 10,
            cost_usd: Dollars::from_micros(1_000_000),
            tokens: None,
            duration: Seconds::new(3600),
            no_progress: 3,
            regression_limit: 2,
            oscillation_limit: 2,
            cost_sigma: 3.0,
            unread_diffs: None,
            unknown_cost: UnknownCost::Stop,
            evidence_kib: 64,
        }
    }
}

/// What an unknown cost means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum UnknownCost {
    /// The loop stops before the next run of the worker, with `budget_exceeded`.
    #[default]
    Stop,
    /// The loop goes on.
    Allow,
}

/// `[guards]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Guards {
    /// What a changed check path, a changed blocked path or a shrunken test set means. Tampering with refs, config or
    /// hooks always halts.
    pub on_violation: OnViolation,
}

/// What a violated guard means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnViolation {
    /// The loop is blocked.
    #[default]
    Halt,
    /// The candidate is rejected and the loop goes on.
    Reject,
}

/// `[roles]`: explicit lists of principals; an absent role gets the default that is resolved when the loop starts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Roles {
    /// Who may sign the contract and change the signer list. Default: the key that starts the loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1), extend("x-default" = "the starting key"))]
    pub approver: Option<Vec<String>>,
    /// Who may run iterations. Default: the key that starts the loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1), extend("x-default" = "the starting key"))]
    pub runner: Option<Vec<String>>,
    /// Who may stop the loop. Default: every other principal of the trust file.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1), extend("x-default" = "everyone else"))]
    pub operator: Option<Vec<String>>,
    /// Who may review. Default: every other principal of the trust file.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1), extend("x-default" = "everyone else"))]
    pub reviewer: Option<Vec<String>>,
    /// Who may promote. Default: every other principal of the trust file.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1), extend("x-default" = "everyone else"))]
    pub promoter: Option<Vec<String>>,
    /// Who may sign outside verdicts. Default: nobody.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1), extend("x-default" = "nobody"))]
    pub verifier: Option<Vec<String>>,
    /// Which principals are people.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub people: Option<Vec<String>>,
}

/// `[receipt]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ReceiptTerms {
    /// The pins without which an iteration is not started (`workspace_invalid`).
    #[schemars(extend("x-built" = [[]]))]
    pub require: Vec<String>,
}
