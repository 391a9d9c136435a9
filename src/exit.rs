//! The one table of halt reasons and exit codes. Other programs may rely on every string and number here.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The exit code of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExitCode(u8);

impl ExitCode {
    /// The command did what it was asked.
    pub const OK: Self = Self(0);
    /// A gate, a review or a promotion said no.
    pub const REFUSED: Self = Self(1);
    /// A ledger does not verify.
    pub const INVARIANT: Self = Self(20);
    /// The repository, a key, a program or the machine is not fit.
    pub const WORKSPACE: Self = Self(30);
    /// A fault of ours.
    pub const INTERNAL: Self = Self(50);
    /// Bad arguments or a bad `loop.toml`.
    pub const USAGE: Self = Self(129);

    /// 128 + the number of the signal that ended the command.
    pub fn from_signal(signal: i32) -> Self {
        Self(128_u8.saturating_add(u8::try_from(signal).unwrap_or(2)))
    }

    /// The number the shell sees.
    pub fn get(self) -> u8 {
        self.0
    }
}

impl From<ExitCode> for std::process::ExitCode {
    fn from(code: ExitCode) -> Self {
        Self::from(code.0)
    }
}

impl fmt::Display for ExitCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Declares [`HaltReason`], its stable strings, its exit codes and how one leaves it, so that they cannot drift apart.
macro_rules! halt_reasons {
    ($($(#[$doc:meta])* $variant:ident = $text:literal, $code:literal, $left_by:literal;)*) => {
        /// Why a loop halted: the stable string for other programs. Computed, never written by a worker.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
        pub enum HaltReason {
            $($(#[$doc])* #[serde(rename = $text)] $variant,)*
        }

        impl HaltReason {
            /// Every reason, in the order of the table.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The stable string.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }

            /// The exit code of its class.
            pub fn exit_code(self) -> ExitCode {
                match self { $(Self::$variant => ExitCode($code),)* }
            }

            /// How a loop leaves this halt. "A new loop" is `git loop start` from green.
            pub fn left_by(self) -> &'static str {
                match self { $(Self::$variant => $left_by,)* }
            }
        }
    };
}

halt_reasons! {
    /// The target is met and the check passes.
    SuccessConditionMet = "success_condition_met", 10, "review and promotion, or a renewal";
    /// A person has to look at a finding.
    HumanRequired = "human_required", 11, "resolving the finding, then git loop run";
    /// The baseline already meets the target.
    NoActionableTasks = "no_actionable_tasks", 11, "a renewal with another target";
    /// An operator stopped it.
    OperatorStopped = "operator_stopped", 11, "git loop run --resume, or a renewal";
    /// The iterations are used up.
    MaxIterationsReached = "max_iterations_reached", 12, "a renewal with a higher limit";
    /// The worker changed what no loop may change.
    BlockedPathModified = "blocked_path_modified", 13, "a renewal, signed by an approver";
    /// The check or what it collects was tampered with.
    MetricIntegrityViolation = "metric_integrity_violation", 13, "a renewal, signed by an approver";
    /// The holdout check stayed red while the visible one was green.
    RewardHackingDetected = "reward_hacking_detected", 13, "a renewal, signed by an approver";
    /// A credential reaches further than it may.
    CredentialScopeInvalid = "credential_scope_invalid", 13, "a renewal, signed by an approver";
    /// A replay gave another verdict.
    ObjectiveUnverified = "objective_unverified", 13, "a renewal, signed by an approver";
    /// The check disagrees with itself.
    CheckFlaky = "check_flaky", 14, "mending the check, then a new loop on it";
    /// The check leaves traces that change its next run.
    CheckHasSideEffects = "check_has_side_effects", 14, "mending the check, then a new loop on it";
    /// The check depends on something outside its tree.
    CheckNotHermetic = "check_not_hermetic", 14, "mending the check, then a new loop on it";
    /// Something crossed the isolation of the check.
    HermeticityViolation = "hermeticity_violation", 14, "mending the check, then a new loop on it";
    /// The check does not notice planted faults.
    CheckInadequate = "check_inadequate", 15, "strengthening the check, then a new loop on it";
    /// An escalation waits for an answer.
    EscalationPending = "escalation_pending", 16, "a signed ack (not built yet), or a renewal";
    /// A reviewer said no.
    ReviewerRejected = "reviewer_rejected", 16, "a renewal with what the reviewer misses";
    /// Too many iterations in a row were not accepted.
    NoProgressDetected = "no_progress_detected", 17, "a renewal with another approach";
    /// The same tests failed each time.
    SameFailureRepeated = "same_failure_repeated", 17, "a renewal with another approach";
    /// The failing sets go round in circles.
    OscillationDetected = "oscillation_detected", 17, "a renewal with another approach";
    /// One test was broken again and again.
    SameTestRegressed = "same_test_regressed", 17, "a renewal with another approach";
    /// Two tests exclude each other.
    UnsatisfiableConstraints = "unsatisfiable_constraints", 17, "a renewal with another objective";
    /// Nothing was ever accepted.
    InfeasibleSuspected = "infeasible_suspected", 17, "a renewal with another objective";
    /// Too many local defenses were tried.
    LocalDefenseLimit = "local_defense_limit", 17, "a renewal with another approach";
    /// Money or tokens are spent.
    BudgetExceeded = "budget_exceeded", 18, "a renewal with a higher limit";
    /// One iteration cost far more than those before it.
    CostAnomaly = "cost_anomaly", 18, "finding its cause, then a renewal";
    /// The time is up.
    DeadlineExceeded = "deadline_exceeded", 18, "a renewal with a longer duration";
    /// Nobody heard from the runner.
    HeartbeatStale = "heartbeat_stale", 19, "a signed ack (not built yet), or a renewal";
    /// The model is not the one that was pinned.
    ModelDriftDetected = "model_drift_detected", 19, "a signed ack (not built yet), or a renewal";
    /// Too many diffs were accepted unread.
    ComprehensionDebtExceeded = "comprehension_debt_exceeded", 19, "reading what was accepted, then a renewal";
    /// The context does not fit.
    ContextBudgetUnsatisfiable = "context_budget_unsatisfiable", 19, "a signed ack (not built yet), or a renewal";
    /// A ledger does not verify or a rollback failed.
    InvariantFailed = "invariant_failed", 20, "rollback (not built yet); see what an intact clone has";
    /// The repository or the machine is not fit.
    WorkspaceInvalid = "workspace_invalid", 30, "mending it, then git loop run";
    /// The contract asks for isolation that this machine cannot enforce.
    IsolationUnsatisfiable = "isolation_unsatisfiable", 30, "mending it, then git loop run";
    /// The worker failed.
    ExecutionFailure = "execution_failure", 40, "mending the worker, then a renewal";
    /// A fault of git-loop; never written into a ledger.
    InternalError = "internal_error", 50, "git loop run";
}

impl fmt::Display for HaltReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
