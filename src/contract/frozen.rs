//! `contract.json`: the terms of a loop as they were frozen. Never changes after it is signed.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::file::{
    Adapter, Class, Direction, History, MetricSource, OnFailure, OnViolation, Preset, ReportFormat,
    UnknownCost, Usage,
};
use super::lasting::LastingTerms;
use super::renewal::RenewalTerms;
use crate::canonical::{self, CanonicalError};
use crate::check::{Format, MetricSource as MetricFrom, SameIds};
use crate::escape::escape_path;
use crate::git::ObjectError;
use crate::git::{Repo, TreesInMemory};
use crate::guard::{FreezeError, Frozen, FrozenEntry, PathSet, PatternError};
use crate::ledger::receipt::{ModelIdentity, SamplingParameters};
use crate::ledger::record::Role;
use crate::money::MicroUsd;
use crate::oid::Oid;
use crate::sandbox::egress::Rule;
use crate::sandbox::toolchain;

/// The schema id of `contract.json`.
pub const CONTRACT_SCHEMA: &str = "git-loop/contract/v1";

/// The rules that every class but `lasting_code` is decided and folded by. A change of what is decided gets another number, and these
/// go on to be known.
pub const RULES: u32 = 1;

/// The rules of `lasting_code`: those of [`RULES`] with rows 11 to 16 and 18. Loops of that class that were started under rules 1 go on
/// without these rows.
pub const LASTING_RULES: u32 = 2;

/// The rules that a new contract of this class is frozen under.
pub fn rules_of(class: Class) -> u32 {
    if class == Class::LastingCode { LASTING_RULES } else { RULES }
}

/// The frozen terms of a loop.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Contract {
    /// Always [`CONTRACT_SCHEMA`].
    pub schema: String,
    /// The rules that every record of this loop is written under.
    pub rules: u32,
    /// The id of the loop.
    #[serde(rename = "loop")]
    pub loop_id: String,
    /// The contract that this one renews; null for a new loop.
    pub parent: Option<Oid>,
    /// What else it says of that contract; null exactly if `parent` is.
    pub renewal: Option<RenewalTerms>,
    /// What the loop is for.
    pub objective: String,
    /// What kind of change it makes.
    pub class: Class,
    /// Where it starts.
    pub base: Base,
    /// Which paths are whose.
    pub paths: PathTerms,
    /// The check paths as they are at the base.
    pub frozen: FrozenTerms,
    /// Who proposes.
    pub worker: WorkerTerms,
    /// How worktrees are made.
    pub worktree: WorktreeTerms,
    /// What judges.
    pub check: CheckTerms,
    /// The second check that no worker can see; absent where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holdout: Option<HoldoutTerms>,
    /// What is measured.
    pub metric: MetricTerms,
    /// Where it ends.
    pub limits: LimitTerms,
    /// What a violated guard means.
    pub guards: GuardTerms,
    /// What isolation is asked for.
    pub sandbox: SandboxTerms,
    /// Who may act as what, by principal.
    pub roles: RoleTerms,
    /// Who was known when it was frozen; for the record, whoever verifies judges by their own list.
    pub trust: TrustTerms,
    /// The terms of lasting code; null for any other class.
    pub lasting: Option<LastingTerms>,
}

/// Where a loop starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Base {
    /// The commit.
    pub commit: Oid,
    /// Its tree.
    pub tree: Oid,
}

/// Which paths are whose, as gitignore-style patterns.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PathTerms {
    /// The worker's.
    pub mutable: Vec<String>,
    /// The check's.
    pub check: Vec<String>,
    /// Nobody's, besides the built-in ones.
    pub blocked: Vec<String>,
}

/// The check paths as they are at the base.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FrozenTerms {
    /// The tree that holds them and nothing else; `frozen/` of the contract record.
    pub tree: Oid,
    /// Each of them, in path order.
    pub entries: Vec<FrozenEntry>,
}

/// Who proposes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WorkerTerms {
    /// The command.
    pub command: CommandLine,
    /// What it is called.
    pub agent: Option<String>,
    /// The model that it is asked to use.
    pub model: Option<ModelIdentity>,
    /// How the model is asked to sample.
    pub sampling: Option<SamplingParameters>,
    /// How its cost is read.
    pub usage: Usage,
    /// How long one run may take.
    pub timeout_seconds: u64,
    /// How long it may print nothing; null without a limit.
    pub idle_timeout_seconds: Option<u64>,
    /// The variables that are passed through, by name.
    pub env: Vec<String>,
    /// The credential that is made for each run; null without one.
    pub credential: Option<CredentialTerms>,
    /// What its failure means.
    pub on_failure: OnFailure,
    /// What each start reserves; null: the largest cost so far.
    pub reserve_usd: Option<MicroUsd>,
}

/// A credential that is made for one run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CredentialTerms {
    /// The variable that the worker gets it in.
    pub env: String,
    /// What prints it.
    pub mint: CommandLine,
    /// What makes it worthless.
    pub revoke: CommandLine,
}

/// A command to run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CommandLine {
    /// Program and arguments.
    Exec(Vec<String>),
    /// A line for a shell under `pipefail`.
    Shell(String),
}

/// How worktrees are made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorktreeTerms {
    /// Folders that are copied, on write, into every fresh worktree.
    pub warm: Vec<String>,
    /// What fills them; absent: the check on the base.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setup: Option<SetupTerms>,
    /// The file of the base that names the ignored files which every fresh worktree gets; absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub include: Option<String>,
    /// Patterns of the files that worktrees hold; absent: all of them.
    #[serde(default, deserialize_with = "none_is_empty", skip_serializing_if = "Vec::is_empty")]
    pub sparse: Vec<String>,
}

/// Takes a null in a field that may be absent for one that is, as where the field is an option.
fn none_is_empty<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

/// What fills the warm folders, once, from the base.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SetupTerms {
    /// The command.
    pub command: CommandLine,
    /// What it may reach.
    pub network: NetworkTerms,
    /// How long it may take.
    pub timeout_seconds: u64,
}

/// What judges.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CheckTerms {
    /// The command.
    pub command: CommandLine,
    /// How its report is read.
    pub format: ReportFormat,
    /// Where the report is, if it is a file.
    pub report: Option<String>,
    /// How long one run may take.
    pub timeout_seconds: u64,
    /// How long it may print nothing; null without a limit.
    pub idle_timeout_seconds: Option<u64>,
    /// The exit code that means success.
    pub success_exit_code: u8,
    /// Variables with fixed values.
    pub env: BTreeMap<String, String>,
    /// Whether it runs elsewhere, and signed verdicts are brought.
    pub external: bool,
    /// How many processors it sees; absent without a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<u32>,
    /// What tests of one id are; absent if they are one test.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub same_ids: Option<SameIds>,
}

impl CheckTerms {
    /// What tests of one id are.
    pub fn same_ids(&self) -> SameIds {
        self.same_ids.unwrap_or(SameIds::Merged)
    }
}

/// The second check that no worker can see.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HoldoutTerms {
    /// The command.
    pub command: CommandLine,
    /// Where its folder is, as it was written: absolute, or from `~/`.
    pub folder: String,
    /// The git tree id of what the folder holds.
    pub tree: Oid,
    /// How its report is read.
    pub format: ReportFormat,
    /// Where the report is, if it is a file.
    pub report: Option<String>,
    /// How long one run may take.
    pub timeout_seconds: u64,
    /// The exit code that means success.
    pub success_exit_code: u8,
}

/// What is measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MetricTerms {
    /// What it is called.
    pub name: String,
    /// Which way is better.
    pub direction: Direction,
    /// What is to be reached.
    pub target: f64,
    /// Where it is read from.
    pub from: MetricSource,
    /// For `from = "regex"`.
    pub pattern: Option<String>,
    /// For `from = "json"`.
    pub pointer: Option<String>,
    /// The least improvement that counts.
    pub min_improvement: f64,
    /// How often the check runs on each candidate.
    pub repeat: u32,
}

/// Where a loop ends. All hard.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LimitTerms {
    /// Iterations.
    pub iterations: u32,
    /// Money.
    pub cost_usd: MicroUsd,
    /// Tokens; null without a limit.
    pub tokens: Option<u64>,
    /// Wall time, in seconds.
    pub duration_seconds: u64,
    /// Iterations in a row that were not accepted.
    pub no_progress: u32,
    /// How often one test may regress.
    pub regression_limit: u32,
    /// How often a failing set may come back.
    pub oscillation_limit: u32,
    /// How many standard deviations make a cost an anomaly.
    pub cost_sigma: f64,
    /// How many accepted changes may be unread; null without a limit.
    pub unread_diffs: Option<u32>,
    /// What an unknown cost means.
    pub unknown_cost: UnknownCost,
    /// Head and tail of captured output that is kept, in KiB each.
    pub evidence_kib: u32,
}

/// What a violated guard means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GuardTerms {
    /// Halt or reject.
    pub on_violation: OnViolation,
}

/// What isolation is asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SandboxTerms {
    /// The adapters that a runner may use, the preferred one first.
    pub allowed: Vec<Adapter>,
    /// The image of the adapters that need one, pinned by its digest; null without one.
    pub image: Option<String>,
    /// The toolchains that both commands get.
    pub presets: Vec<Preset>,
    /// Further paths that they may read.
    pub read_only: Vec<String>,
    /// How many bytes the folders of one run may hold.
    pub disk_bytes: u64,
    /// The worker's network: `none`, `host`, or the hosts that may be reached.
    pub worker_network: NetworkTerms,
    /// What the worker sees of the history.
    pub worker_history: History,
    /// The check's network.
    pub check_network: NetworkTerms,
}

/// Whether there is a network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum NetworkTerms {
    /// No way out.
    None,
    /// The machine's.
    Host,
    /// These hosts, as `host:port`.
    Allow(Vec<String>),
}

impl NetworkTerms {
    /// The rules of an allow-list; none for the other two. What is no rule is left out: `check_terms` has refused it.
    pub fn rules(&self) -> Vec<Rule> {
        match self {
            Self::None | Self::Host => Vec::new(),
            Self::Allow(list) => list.iter().filter_map(|text| Rule::parse(text).ok()).collect(),
        }
    }

    pub(super) fn is_valid(&self) -> bool {
        match self {
            Self::None | Self::Host => true,
            Self::Allow(list) => !list.is_empty() && self.rules().len() == list.len(),
        }
    }
}

/// Who may act as what, by principal; resolved to explicit lists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RoleTerms {
    /// Agrees to the terms.
    pub approver: Vec<String>,
    /// Runs the loop.
    pub runner: Vec<String>,
    /// May stop it.
    pub operator: Vec<String>,
    /// Judges the result.
    pub reviewer: Vec<String>,
    /// Lets it leave.
    pub promoter: Vec<String>,
    /// Signs outside verdicts.
    pub verifier: Vec<String>,
    /// Who is a person.
    pub people: Vec<String>,
}

impl RoleTerms {
    /// The principals of a role.
    pub fn of(&self, role: Role) -> &[String] {
        match role {
            Role::Approver => &self.approver,
            Role::Runner => &self.runner,
            Role::Operator => &self.operator,
            Role::Reviewer => &self.reviewer,
            Role::Promoter => &self.promoter,
        }
    }
}

/// Who was known when the contract was frozen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TrustTerms {
    /// The text of the allowed-signers file.
    pub allowed_signers: String,
}

/// Why bytes are not a contract, or a contract contradicts its base.
#[derive(Debug, thiserror::Error)]
pub enum ContractError {
    /// Not canonical, or a field is missing or of another type.
    #[error(transparent)]
    Canonical(#[from] CanonicalError),
    /// Another schema or another major version of it.
    #[error("schema {0:?} is not known to this version, which reads {CONTRACT_SCHEMA:?}")]
    Schema(String),
    /// Rules that this version does not know.
    #[error(
        "rules {0} are not known to this version of git-loop, which knows {RULES}, and {LASTING_RULES} for lasting_code"
    )]
    Rules(u32),
    /// Terms that no loop may be started with.
    #[error("its terms are not valid: {0}")]
    Terms(String),
    /// A mode that this version cannot judge.
    #[error("{0}")]
    NotBuilt(String),
    /// The base cannot be read.
    #[error("base: {0}")]
    Base(#[from] ObjectError),
    /// The base commit has another tree.
    #[error("base commit {commit} has tree {found}, the contract names {named}")]
    BaseTree {
        /// The commit.
        commit: Oid,
        /// Its tree.
        found: Oid,
        /// The tree in the contract.
        named: Oid,
    },
    /// A pattern is malformed.
    #[error(transparent)]
    Pattern(#[from] PatternError),
    /// The check paths cannot be frozen.
    #[error(transparent)]
    Freeze(#[from] FreezeError),
    /// The frozen paths are not those of the base.
    #[error("frozen: {0}")]
    Frozen(String),
}

impl Contract {
    /// Reads the bytes of a `contract.json`, which must be canonical.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ContractError> {
        let contract: Self = canonical::read_canonical(bytes)?;
        if contract.schema != CONTRACT_SCHEMA {
            return Err(ContractError::Schema(contract.schema));
        }
        let known = [RULES, rules_of(contract.class)];
        if !known.contains(&contract.rules) {
            return Err(ContractError::Rules(contract.rules));
        }
        contract.valid_terms()?;
        let metric = &contract.metric;
        MetricFrom::from_parts(metric.from.as_str(), metric.pattern.as_deref(), metric.pointer.as_deref())
            .map_err(|error| ContractError::NotBuilt(error.to_string()))?;
        Format::parse_name(contract.check.format.as_str())
            .map_err(|error| ContractError::NotBuilt(error.to_string()))?;
        Ok(contract)
    }

    /// Whether a loop may be started with these terms.
    pub fn valid_terms(&self) -> Result<(), ContractError> {
        super::terms::fault(self).map_or(Ok(()), |why| Err(ContractError::Terms(why)))
    }

    /// The base of the first loop of a line of renewals; of a loop that renews none its own.
    pub fn origin(&self) -> Oid {
        self.renewal.as_ref().map_or(self.base.commit, |renewal| renewal.origin)
    }

    /// The terms by which rows 11 to 16 and 18 are asked; `None` where they are not: of any other class, and under rules 1.
    pub fn judged_as_lasting(&self) -> Option<&LastingTerms> {
        self.lasting.as_ref().filter(|_| self.rules == LASTING_RULES)
    }

    /// The canonical bytes of `contract.json`.
    pub fn to_bytes(&self) -> Vec<u8> {
        canonical::canonical_json(self).into_bytes()
    }

    /// SHA-256 over the canonical JSON of `check`.
    pub fn check_cmd_sha(&self) -> String {
        canonical::sha256_of(&self.check)
    }

    /// The compiled patterns and the frozen paths, which must be exactly what the patterns select at the base.
    pub fn guards(&self, repo: &Repo) -> Result<Guards, ContractError> {
        let tree = Oid(repo.commit_tree(self.base.commit.0)?);
        if tree != self.base.tree {
            return Err(ContractError::BaseTree {
                commit: self.base.commit,
                found: tree,
                named: self.base.tree,
            });
        }
        let sets = PathSets {
            mutable: PathSet::parse(&self.paths.mutable)?,
            check: PathSet::parse(&self.paths.check)?,
            blocked: PathSet::parse(&self.paths.blocked)?,
        };
        // Trees made on the way are for comparing only; they stay in memory.
        let trees = TreesInMemory::new(repo);
        let frozen = crate::guard::freeze(&trees, &tree.0, &sets.check)?;
        if self.frozen.tree.0 != frozen.tree || self.frozen.entries != frozen.entries {
            return Err(ContractError::Frozen(
                "the entries are not those that the patterns select at the base".to_owned(),
            ));
        }
        if let Some(path) = frozen.paths().find(|path| sets.mutable.matches(path)) {
            return Err(ContractError::Frozen(format!("{} is in paths.mutable as well", escape_path(path))));
        }
        Ok(Guards { sets, frozen })
    }

    /// Where the metric comes from.
    pub fn metric_source(&self) -> MetricFrom {
        let metric = &self.metric;
        MetricFrom::from_parts(metric.from.as_str(), metric.pattern.as_deref(), metric.pointer.as_deref())
            .expect("a contract's metric was checked when it was read")
    }

    /// How the report is read.
    pub fn report_format(&self) -> Format {
        Format::parse_name(self.check.format.as_str())
            .expect("a contract's format was checked when it was read")
    }
}

impl WorkerTerms {
    /// Whether the contract declares that the worker costs nothing.
    pub fn costs_nothing(&self) -> bool {
        self.usage == Usage::None
    }
}

/// What the guards need of a contract, compiled once.
#[derive(Debug, Clone)]
pub struct Guards {
    /// The patterns.
    pub sets: PathSets,
    /// The check paths as frozen.
    pub frozen: Frozen,
}

/// The compiled patterns of a contract.
#[derive(Debug, Clone)]
pub struct PathSets {
    /// The worker's.
    pub mutable: PathSet,
    /// The check's.
    pub check: PathSet,
    /// Nobody's.
    pub blocked: PathSet,
}

impl CommandLine {
    /// As one line, for people.
    pub fn display(&self) -> String {
        match self {
            Self::Exec(words) => words.join(" "),
            Self::Shell(line) => line.clone(),
        }
    }
}

impl From<toolchain::Preset> for Preset {
    fn from(preset: toolchain::Preset) -> Self {
        match preset {
            toolchain::Preset::Cargo => Self::Cargo,
            toolchain::Preset::Python => Self::Python,
            toolchain::Preset::Node => Self::Node,
        }
    }
}

impl From<Preset> for toolchain::Preset {
    fn from(preset: Preset) -> Self {
        match preset {
            Preset::Cargo => Self::Cargo,
            Preset::Python => Self::Python,
            Preset::Node => Self::Node,
        }
    }
}
