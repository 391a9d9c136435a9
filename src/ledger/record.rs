//! `record.json`: what one signed commit of a ledger says.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::agents::InvocationBody;
use super::lasting::CommandReceipt;
use super::receipt::{CheckReceipt, ContextEntry, HoldoutReceipt, LayersReceipt, Receipt, SandboxReceipt};
use crate::at::At;
use crate::canonical::{self, CanonicalError};
use crate::exit::HaltReason;
use crate::money::MicroUsd;
use crate::oid::Oid;
use crate::review::FrozenPacket;

/// The schema id of `record.json`.
pub const RECORD_SCHEMA: &str = "git-loop/record/v1";

/// What a record is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// The frozen terms; a root commit.
    Contract,
    /// The check's verdict on the base.
    Baseline,
    /// The intent to run one iteration.
    Checkpoint,
    /// What one iteration did and how it was decided.
    Iteration,
    /// The end of a run.
    Halt,
    /// An independent judgement of a converged loop.
    Review,
    /// The step that makes a converged loop `succeeded`.
    Promotion,
    /// A change of the signer list.
    Trust,
    /// A rollback that an operator asked for.
    Rollback,
    /// The continuation after a halt.
    Resume,
    /// A determinism probe of the check.
    Probe,
    /// The right of one machine to run the loop.
    Lease,
    /// A question to a person.
    Escalation,
    /// One run of an agent.
    Invocation,
    /// A reviewer's finding.
    Finding,
    /// The release of the content of a dead loop.
    Release,
    /// An answer to an escalation.
    Ack,
    /// A statement that decides nothing.
    Attestation,
}

impl Kind {
    /// The word used in records, trailers and messages.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Contract => "contract",
            Self::Baseline => "baseline",
            Self::Checkpoint => "checkpoint",
            Self::Iteration => "iteration",
            Self::Halt => "halt",
            Self::Review => "review",
            Self::Promotion => "promotion",
            Self::Trust => "trust",
            Self::Rollback => "rollback",
            Self::Resume => "resume",
            Self::Probe => "probe",
            Self::Lease => "lease",
            Self::Escalation => "escalation",
            Self::Invocation => "invocation",
            Self::Finding => "finding",
            Self::Release => "release",
            Self::Ack => "ack",
            Self::Attestation => "attestation",
        }
    }
}

/// What a signer acts as. Which records a role may sign is [`Kind`]'s table in `verify`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Agrees to the terms.
    Approver,
    /// Runs the loop.
    Runner,
    /// May stop it.
    Operator,
    /// Judges the result.
    Reviewer,
    /// Lets it leave.
    Promoter,
}

impl Role {
    /// The word used in contracts and records.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Approver => "approver",
            Self::Runner => "runner",
            Self::Operator => "operator",
            Self::Reviewer => "reviewer",
            Self::Promoter => "promoter",
        }
    }
}

/// Who signed a record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Actor {
    /// The principal in the allowed-signers file.
    pub principal: String,
    /// The fingerprint of the key, `SHA256:…`.
    pub key: String,
    /// The role in which it was signed.
    pub role: Role,
}

/// `record.json`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Record {
    /// Always [`RECORD_SCHEMA`].
    pub schema: String,
    /// What the body is.
    pub kind: Kind,
    /// The id of the loop.
    #[serde(rename = "loop")]
    pub loop_id: String,
    /// The contract record; null in the contract record itself.
    pub contract: Option<Oid>,
    /// The position in the ledger, from 0.
    pub seq: u64,
    /// The record before this one; null in the contract record.
    pub prev: Option<Oid>,
    /// When it was signed; equal to the author and committer date of the commit.
    pub at: At,
    /// Who signed it.
    pub actor: Actor,
    /// What it says; its fields depend on `kind`.
    pub body: Body,
}

/// The part of a record that depends on its kind.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Body {
    /// See [`Kind::Contract`].
    Contract(ContractBody),
    /// See [`Kind::Baseline`].
    Baseline(Box<BaselineBody>),
    /// See [`Kind::Checkpoint`].
    Checkpoint(CheckpointBody),
    /// See [`Kind::Iteration`].
    Iteration(Box<IterationBody>),
    /// See [`Kind::Halt`].
    Halt(HaltBody),
    /// See [`Kind::Resume`].
    Resume(ResumeBody),
    /// See [`Kind::Review`].
    Review(ReviewBody),
    /// See [`Kind::Promotion`].
    Promotion(PromotionBody),
    /// See [`Kind::Finding`].
    Finding(FindingBody),
    /// See [`Kind::Release`].
    Release(ReleaseBody),
    /// See [`Kind::Lease`].
    Lease(LeaseBody),
    /// See [`Kind::Invocation`].
    Invocation(InvocationBody),
}

/// A file that a record keeps under `evidence/`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EvidenceEntry {
    /// The file name under `evidence/`.
    pub name: String,
    /// Its blob.
    pub id: Oid,
    /// How many bytes there were before any cut.
    pub bytes: u64,
    /// Whether the middle was cut out; the blob says where.
    pub truncated: bool,
}

/// The body of a `contract` record; the terms themselves are `contract.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ContractBody {
    /// The program that froze the contract, with its version.
    pub tool: String,
    /// What the loop is for.
    pub objective: String,
}

/// The body of a `baseline` record: the check on the base, before any worker ran.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BaselineBody {
    /// The base commit; the second parent of the record.
    pub base: Oid,
    /// The one capture of the check.
    pub check: CheckReceipt,
    /// What the holdout said of it; absent where it was not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holdout: Option<HoldoutReceipt>,
    /// The invariants' commands on the base; absent where the rows for lasting code are not asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub invariants: Option<Vec<CommandReceipt>>,
    /// What isolation the check had.
    pub sandbox: SandboxReceipt,
    /// What the worktree got besides the base's tree; absent where the contract names nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layers: Option<LayersReceipt>,
    /// Whether the base already meets the target.
    pub target_met: bool,
    /// The files under `evidence/`.
    pub evidence: Vec<EvidenceEntry>,
}

/// What is left of each limit at a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Remaining {
    /// Iterations, this one included.
    pub iterations: u32,
    /// Money.
    pub usd: MicroUsd,
    /// Tokens; null without a limit.
    pub tokens: Option<u64>,
    /// Wall time.
    pub seconds: u64,
}

/// The body of a `checkpoint` record: the write-ahead intent of one iteration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CheckpointBody {
    /// The number of the iteration, from 1.
    pub iteration: u32,
    /// The commit that the worker starts from: green.
    pub base: Oid,
    /// The name of the fresh environment; never used twice.
    pub environment_id: String,
    /// The sandbox adapter.
    pub adapter: String,
    /// What the worker is given to read.
    pub context: Vec<ContextEntry>,
    /// What is left of each limit.
    pub remaining: Remaining,
    /// What is charged if this iteration is never heard of again.
    pub reservation_usd: MicroUsd,
}

/// The body of an `iteration` record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct IterationBody {
    /// Everything about the iteration; the same object is the note on the candidate.
    pub receipt: Receipt,
    /// The files under `evidence/`.
    pub evidence: Vec<EvidenceEntry>,
}

/// What made a loop halt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum HaltedBy {
    /// The baseline already met the target.
    Baseline,
    /// The decision on an iteration.
    Decision,
    /// A limit, before another worker was started.
    Limit,
    /// A person.
    Operator,
}

/// The body of a `halt` record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HaltBody {
    /// What made it halt.
    pub by: HaltedBy,
    /// The stable string for other programs.
    pub halt_reason: HaltReason,
    /// The status of the loop from here.
    pub status: Status,
    /// The name of the limit or of the row that decided; what an operator said is in `message`.
    pub reason: String,
    /// The exit code of the run.
    pub exit_code: u8,
    /// How many iterations were recorded.
    pub iteration: u32,
    /// Where the loop's work stands.
    pub last_green_commit: Oid,
    /// What the operator said.
    pub message: Option<String>,
    /// The promotion packet of lasting code that meets the target; else absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packet: Option<Box<FrozenPacket>>,
}

/// The body of a `resume` record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ResumeBody {
    /// The halt record that is left.
    pub halt: Oid,
    /// Why.
    pub message: Option<String>,
}

/// What a reviewer says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// It may be promoted.
    Approve,
    /// It ends here.
    Reject,
}

/// The body of a `review` record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReviewBody {
    /// Approve or reject.
    pub verdict: Verdict,
    /// The halt record it is bound to.
    pub halt: Oid,
    /// The commit that was reviewed.
    pub candidate: Oid,
    /// In which personas the reviewer looked.
    pub personas: Vec<String>,
    /// What the reviewer attests, by name.
    pub attestations: serde_json::Map<String, Value>,
    /// What the reviewer says.
    pub comment: Option<String>,
    /// The `invocation` record of a reviewing agent; null for a person.
    pub invocation: Option<Oid>,
}

/// What a finding does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FindingAction {
    /// Says what is wrong.
    Add,
    /// Says that it is not wrong any more.
    Resolve,
}

/// How much a finding weighs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Nothing is accepted and nothing is promoted while it is open.
    Block,
    /// It is worth knowing.
    Warn,
}

impl Severity {
    /// The word in records and on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Block => "block",
            Self::Warn => "warn",
        }
    }
}

/// The body of a `finding` record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FindingBody {
    /// Add or resolve.
    pub action: FindingAction,
    /// The record of the finding that is resolved; null for one that is added.
    pub finding: Option<Oid>,
    /// How much it weighs, or weighed.
    pub severity: Severity,
    /// What the reviewer says.
    pub message: String,
}

/// The longest that a lease may last, in seconds.
pub const LONGEST_LEASE_SECONDS: u64 = 86_400;
/// For so many seconds after its end a lease is still in the way of others: what the clocks of two machines may differ by.
pub const LEASE_GRACE_SECONDS: u64 = 300;

/// The body of a `lease` record: until when one clone alone runs a loop that is shared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LeaseBody {
    /// The clone: 16 hex digits from the system's random source.
    pub holder: String,
    /// What its machine calls itself, for people; 1 to 64 of `[A-Za-z0-9._-]`.
    pub host: String,
    /// The end of the lease: not before `at`, and at most a day after it. The same as `at`: it is given up.
    pub until: At,
}

/// The body of a `promotion` record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PromotionBody {
    /// The halt record.
    pub halt: Oid,
    /// The approving reviews.
    pub reviews: Vec<Oid>,
    /// The commit that may leave.
    pub candidate: Oid,
    /// Its tree.
    pub candidate_tree: Oid,
    /// The tip of the ledger that the promoter saw.
    pub tip: Oid,
}

/// The body of a `release` record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReleaseBody {
    /// The halt record of the loop that goes no further.
    pub halt: Oid,
    /// Why its content may leave without a promotion; never empty.
    pub reason: String,
}

/// Whether and how a loop is going on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It may go on.
    Active,
    /// It converged and waits for a review and a promotion.
    AwaitingReview,
    /// It was promoted.
    Succeeded,
    /// A limit or an operator ended it.
    Stopped,
    /// A guard ended it.
    Blocked,
}

impl Status {
    /// The word used in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::AwaitingReview => "awaiting_review",
            Self::Succeeded => "succeeded",
            Self::Stopped => "stopped",
            Self::Blocked => "blocked",
        }
    }
}

/// Why the bytes of a `record.json` are not a record.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// Not canonical, or a field is missing or of another type.
    #[error(transparent)]
    Canonical(#[from] CanonicalError),
    /// Another schema or another major version of it.
    #[error("record.json has schema {found:?}, this version reads {RECORD_SCHEMA:?}")]
    Schema {
        /// What it says it is.
        found: String,
    },
    /// A kind that this version does not know the rules of.
    #[error("a record of kind `{0}` is not known to this version of git-loop")]
    KindNotBuilt(&'static str),
}

/// The same as [`Record`] before the body is known.
#[derive(Serialize, Deserialize)]
struct Envelope {
    schema: String,
    kind: Kind,
    #[serde(rename = "loop")]
    loop_id: String,
    contract: Option<Oid>,
    seq: u64,
    prev: Option<Oid>,
    at: At,
    actor: Actor,
    body: Value,
}

/// The two fields that say how to read the others.
#[derive(Deserialize)]
struct Head {
    schema: String,
    kind: Kind,
}

/// The same as [`Record`] when the body is known.
#[derive(Deserialize)]
struct Known<B> {
    schema: String,
    kind: Kind,
    #[serde(rename = "loop")]
    loop_id: String,
    contract: Option<Oid>,
    seq: u64,
    prev: Option<Oid>,
    at: At,
    actor: Actor,
    body: B,
}

impl<B: for<'de> Deserialize<'de>> Known<B> {
    fn read(bytes: &[u8], body: impl FnOnce(B) -> Body) -> Option<Record> {
        let Self { schema, kind, loop_id, contract, seq, prev, at, actor, body: known } =
            serde_json::from_slice(bytes).ok()?;
        Some(Record { schema, kind, loop_id, contract, seq, prev, at, actor, body: body(known) })
    }
}

impl Record {
    /// Reads the bytes of a `record.json`, which must be canonical.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, RecordError> {
        // Nearly always they are what we would write, to the byte; the long way is for newer versions and for what is wrong.
        match Self::written_by_us(bytes) {
            Some(record) => Ok(record),
            None => Self::from_any_bytes(bytes),
        }
    }

    /// Reads bytes that are known to be a valid record, by their hash.
    pub fn from_known_bytes(bytes: &[u8]) -> Result<Self, RecordError> {
        match Self::typed(bytes) {
            Some(record) => Ok(record),
            None => Self::from_bytes(bytes),
        }
    }

    /// The record whose canonical form is exactly `bytes`.
    fn written_by_us(bytes: &[u8]) -> Option<Self> {
        Self::typed(bytes).filter(|record| record.to_bytes() == bytes)
    }

    fn typed(bytes: &[u8]) -> Option<Self> {
        let head: Head = serde_json::from_slice(bytes).ok()?;
        if head.schema != RECORD_SCHEMA {
            return None;
        }
        match head.kind {
            Kind::Contract => Known::read(bytes, Body::Contract),
            Kind::Baseline => Known::read(bytes, Body::Baseline),
            Kind::Checkpoint => Known::read(bytes, Body::Checkpoint),
            Kind::Iteration => Known::read(bytes, Body::Iteration),
            Kind::Halt => Known::read(bytes, Body::Halt),
            Kind::Resume => Known::read(bytes, Body::Resume),
            Kind::Review => Known::read(bytes, Body::Review),
            Kind::Promotion => Known::read(bytes, Body::Promotion),
            Kind::Finding => Known::read(bytes, Body::Finding),
            Kind::Release => Known::read(bytes, Body::Release),
            Kind::Lease => Known::read(bytes, Body::Lease),
            Kind::Invocation => Known::read(bytes, Body::Invocation),
            _ => None,
        }
    }

    fn from_any_bytes(bytes: &[u8]) -> Result<Self, RecordError> {
        let envelope: Envelope = canonical::read_canonical(bytes)?;
        if envelope.schema != RECORD_SCHEMA {
            return Err(RecordError::Schema { found: envelope.schema });
        }
        let body = Body::read(envelope.kind, &envelope.body)?;
        Ok(Self {
            schema: envelope.schema,
            kind: envelope.kind,
            loop_id: envelope.loop_id,
            contract: envelope.contract,
            seq: envelope.seq,
            prev: envelope.prev,
            at: envelope.at,
            actor: envelope.actor,
            body,
        })
    }

    /// The canonical bytes of this record.
    pub fn to_bytes(&self) -> Vec<u8> {
        canonical::canonical_json(self).into_bytes()
    }
}

impl Body {
    fn read(kind: Kind, value: &Value) -> Result<Self, RecordError> {
        Ok(match kind {
            Kind::Contract => Self::Contract(canonical::from_value(value)?),
            Kind::Baseline => Self::Baseline(canonical::from_value(value)?),
            Kind::Checkpoint => Self::Checkpoint(canonical::from_value(value)?),
            Kind::Iteration => Self::Iteration(canonical::from_value(value)?),
            Kind::Halt => Self::Halt(canonical::from_value(value)?),
            Kind::Resume => Self::Resume(canonical::from_value(value)?),
            Kind::Review => Self::Review(canonical::from_value(value)?),
            Kind::Promotion => Self::Promotion(canonical::from_value(value)?),
            Kind::Finding => Self::Finding(canonical::from_value(value)?),
            Kind::Release => Self::Release(canonical::from_value(value)?),
            Kind::Lease => Self::Lease(canonical::from_value(value)?),
            Kind::Invocation => Self::Invocation(canonical::from_value(value)?),
            other => return Err(RecordError::KindNotBuilt(other.as_str())),
        })
    }

    /// The kind of record this is the body of.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Contract(_) => Kind::Contract,
            Self::Baseline(_) => Kind::Baseline,
            Self::Checkpoint(_) => Kind::Checkpoint,
            Self::Iteration(_) => Kind::Iteration,
            Self::Halt(_) => Kind::Halt,
            Self::Resume(_) => Kind::Resume,
            Self::Review(_) => Kind::Review,
            Self::Promotion(_) => Kind::Promotion,
            Self::Finding(_) => Kind::Finding,
            Self::Release(_) => Kind::Release,
            Self::Lease(_) => Kind::Lease,
            Self::Invocation(_) => Kind::Invocation,
        }
    }

    /// The files under `evidence/` that the record names.
    pub fn evidence(&self) -> &[EvidenceEntry] {
        match self {
            Self::Baseline(body) => &body.evidence,
            Self::Iteration(body) => &body.evidence,
            _ => &[],
        }
    }
}
