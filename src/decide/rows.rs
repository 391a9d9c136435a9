//! The rows: the first that applies gives the outcome.

use super::facts::{Consideration, Facts};
use super::lasting;
use super::{CheckEvidence, Evidence, HoldoutVerdict, Outcome};
use crate::contract::{Contract, OnFailure, OnViolation};
use crate::exit::HaltReason;
use crate::ledger::state::State;

/// The rows of the decision, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Row {
    /// An interrupted iteration; it was never judged.
    Abandoned,
    /// Row 1.
    VerifierDrift,
    /// Row 2.
    BlockedPathModified,
    /// Row 3.
    BlockedFinding,
    /// Row 4.
    WorkerFailed,
    /// Row 5.
    NoChange,
    /// Row 6.
    OutsideMutablePaths,
    /// Row 7.
    VerifierFailed,
    /// Row 8.
    MetricIntegrityViolation,
    /// Row 9.
    CheckFlaky,
    /// Row 10.
    TestsRegressed,
    /// Row 11.
    EvidenceIncomplete,
    /// Row 12.
    SemanticChangeNotAllowed,
    /// Row 13.
    InvariantEffectUnknown,
    /// Row 14.
    LocalDefenseAdded,
    /// Row 15.
    MachineIndependenceFailed,
    /// Row 16.
    ComplexityBudgetExceeded,
    /// Row 17.
    HoldoutFailed,
    /// Row 18, where a packet was waited for.
    PromotionPacketInvalid,
    /// Row 18.
    PacketMissing,
    /// Row 19.
    TargetMet,
    /// Row 20.
    MetricImproved,
    /// Row 21.
    MetricNotImproved,
}

/// What the rows look at.
#[derive(Clone, Copy)]
pub(super) struct Case<'a> {
    pub contract: &'a Contract,
    /// The state after the checkpoint.
    pub state: &'a State,
    pub evidence: &'a Evidence,
}

impl Row {
    /// Every row, in order.
    pub const ALL: [Self; 23] = [
        Self::Abandoned,
        Self::VerifierDrift,
        Self::BlockedPathModified,
        Self::BlockedFinding,
        Self::WorkerFailed,
        Self::NoChange,
        Self::OutsideMutablePaths,
        Self::VerifierFailed,
        Self::MetricIntegrityViolation,
        Self::CheckFlaky,
        Self::TestsRegressed,
        Self::EvidenceIncomplete,
        Self::SemanticChangeNotAllowed,
        Self::InvariantEffectUnknown,
        Self::LocalDefenseAdded,
        Self::MachineIndependenceFailed,
        Self::ComplexityBudgetExceeded,
        Self::HoldoutFailed,
        Self::PromotionPacketInvalid,
        Self::PacketMissing,
        Self::TargetMet,
        Self::MetricImproved,
        Self::MetricNotImproved,
    ];

    /// The stable name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Abandoned => "abandoned",
            Self::VerifierDrift => "verifier_drift",
            Self::BlockedPathModified => "blocked_path_modified",
            Self::BlockedFinding => "blocked_finding",
            Self::WorkerFailed => "worker_failed",
            Self::NoChange => "no_change",
            Self::OutsideMutablePaths => "outside_mutable_paths",
            Self::VerifierFailed => "verifier_failed",
            Self::MetricIntegrityViolation => "metric_integrity_violation",
            Self::CheckFlaky => "check_flaky",
            Self::TestsRegressed => "tests_regressed",
            Self::EvidenceIncomplete => "evidence_incomplete",
            Self::SemanticChangeNotAllowed => "semantic_change_not_allowed",
            Self::InvariantEffectUnknown => "invariant_effect_unknown",
            Self::LocalDefenseAdded => "local_defense_added",
            Self::MachineIndependenceFailed => "machine_independence_failed",
            Self::ComplexityBudgetExceeded => "complexity_budget_exceeded",
            Self::HoldoutFailed => "holdout_failed",
            Self::PromotionPacketInvalid => "promotion_packet_invalid",
            Self::PacketMissing => "packet_missing",
            Self::TargetMet => "target_met",
            Self::MetricImproved => "metric_improved",
            Self::MetricNotImproved => "metric_not_improved",
        }
    }

    /// Its number in the table of the design; an interruption has none.
    pub fn number(self) -> Option<u8> {
        Some(match self {
            Self::Abandoned => return None,
            Self::VerifierDrift => 1,
            Self::BlockedPathModified => 2,
            Self::BlockedFinding => 3,
            Self::WorkerFailed => 4,
            Self::NoChange => 5,
            Self::OutsideMutablePaths => 6,
            Self::VerifierFailed => 7,
            Self::MetricIntegrityViolation => 8,
            Self::CheckFlaky => 9,
            Self::TestsRegressed => 10,
            Self::EvidenceIncomplete => 11,
            Self::SemanticChangeNotAllowed => 12,
            Self::InvariantEffectUnknown => 13,
            Self::LocalDefenseAdded => 14,
            Self::MachineIndependenceFailed => 15,
            Self::ComplexityBudgetExceeded => 16,
            Self::HoldoutFailed => 17,
            Self::PromotionPacketInvalid | Self::PacketMissing => 18,
            Self::TargetMet => 19,
            Self::MetricImproved => 20,
            Self::MetricNotImproved => 21,
        })
    }

    /// Whether it is asked under this contract.
    pub(super) fn is_asked(self, contract: &Contract) -> bool {
        match self {
            Self::HoldoutFailed => contract.holdout.is_some(),
            Self::EvidenceIncomplete
            | Self::SemanticChangeNotAllowed
            | Self::InvariantEffectUnknown
            | Self::LocalDefenseAdded
            | Self::MachineIndependenceFailed
            | Self::ComplexityBudgetExceeded
            | Self::PromotionPacketInvalid
            | Self::PacketMissing => contract.judged_as_lasting().is_some(),
            _ => true,
        }
    }

    /// Whether it decides without the check.
    pub(super) fn needs_no_check(self) -> bool {
        self.number().is_none_or(|number| number <= 6)
    }

    /// What a blocked outcome of this row halts with.
    pub(super) fn halt_reason(self) -> HaltReason {
        match self {
            Self::BlockedPathModified => HaltReason::BlockedPathModified,
            Self::BlockedFinding => HaltReason::HumanRequired,
            Self::CheckFlaky => HaltReason::CheckFlaky,
            _ => HaltReason::MetricIntegrityViolation,
        }
    }

    /// Whether this row applies, and with which outcome; none of those before it does.
    pub(super) fn consider(self, case: Case<'_>) -> (Option<Outcome>, Consideration) {
        let mut facts = Facts::default();
        let outcome = match self {
            Self::Abandoned
            | Self::VerifierDrift
            | Self::BlockedPathModified
            | Self::BlockedFinding
            | Self::WorkerFailed
            | Self::NoChange
            | Self::OutsideMutablePaths => self.without_check(case, &mut facts),
            Self::VerifierFailed => no_verdict(case.evidence, &mut facts).then_some(Outcome::Reject),
            _ => match &case.evidence.check {
                Some(check) => self.with_check(case, check, &mut facts),
                None => None,
            },
        };
        (outcome, facts.into_consideration(self.number(), self.as_str(), outcome.is_some()))
    }

    fn without_check(self, case: Case<'_>, facts: &mut Facts) -> Option<Outcome> {
        let Case { contract, state, evidence } = case;
        // Tampering always blocks, also in an iteration that was interrupted; what a contract may soften are paths.
        let tampered = "refs, config or hooks that were tampered with";
        let softened = || if evidence.tampered > 0 { Outcome::Blocked } else { violation(contract) };
        match self {
            Self::Abandoned => {
                let interrupted = facts.is("the iteration was interrupted", evidence.abandoned, true);
                (interrupted && facts.is(tampered, evidence.tampered, 0)).then_some(Outcome::Reject)
            }
            Self::VerifierDrift => {
                let drifted = facts.more("check paths that are not as frozen", evidence.drifted, 0);
                // That an iteration was not interrupted was said before.
                let judged = !evidence.abandoned || facts.is("the iteration was interrupted", true, false);
                (drifted && judged).then(softened)
            }
            Self::BlockedPathModified => {
                let paths = facts.more("blocked paths that changed", evidence.blocked_paths, 0);
                let tampered = facts.more(tampered, evidence.tampered, 0);
                (paths || tampered).then(softened)
            }
            Self::BlockedFinding => {
                let open = state.blocking_findings();
                facts.more("open findings that block", open, 0).then_some(Outcome::Blocked)
            }
            Self::WorkerFailed => {
                let failed = facts.is("the worker failed", evidence.worker_failed, true);
                let matters = contract.worker.on_failure != OnFailure::Check;
                (failed && facts.is("worker.on_failure is not `check`", matters, true))
                    .then_some(Outcome::Reject)
            }
            Self::NoChange => {
                let unchanged = facts.is("the candidate's tree is green's", evidence.unchanged, true);
                (unchanged && !lasting::brings_packet(case, facts)).then_some(Outcome::Reject)
            }
            _ => facts
                .more("changed paths outside paths.mutable", evidence.outside, 0)
                .then_some(Outcome::Reject),
        }
    }

    fn with_check(self, case: Case<'_>, check: &CheckEvidence, facts: &mut Facts) -> Option<Outcome> {
        let contract = case.contract;
        match self {
            Self::MetricIntegrityViolation => facts
                .more("tests of the baseline that are lost, or failed there and are skipped", check.lost, 0)
                .then(|| violation(contract)),
            Self::CheckFlaky => {
                facts.is("runs of the check that disagree", check.flaky, true).then_some(Outcome::Blocked)
            }
            Self::TestsRegressed => facts
                .more("tests that passed at green and do not now", check.regressed.len(), 0)
                .then_some(Outcome::Reject),
            Self::EvidenceIncomplete
            | Self::SemanticChangeNotAllowed
            | Self::InvariantEffectUnknown
            | Self::LocalDefenseAdded
            | Self::MachineIndependenceFailed
            | Self::ComplexityBudgetExceeded => {
                lasting::rejects(self, case, facts).then_some(Outcome::Reject)
            }
            Self::PromotionPacketInvalid => {
                let met = met(contract, check, facts);
                let lacks = lasting::lacks_packet(case, facts);
                let again =
                    facts.is("a packet was waited for already", lasting::awaits_packet(case.state), true);
                (met && lacks && again).then_some(Outcome::Reject)
            }
            Self::PacketMissing => {
                let met = met(contract, check, facts);
                (lasting::lacks_packet(case, facts) && met).then_some(Outcome::Accept)
            }
            Self::HoldoutFailed => {
                let met = met(contract, check, facts);
                let passed = case.evidence.holdout == Some(HoldoutVerdict::Passed);
                // A holdout that was not run has not passed either.
                (facts.is("the holdout passed", passed, false) && met).then_some(Outcome::Reject)
            }
            Self::TargetMet => met(contract, check, facts).then_some(Outcome::Accept),
            Self::MetricImproved => improves(case, check, facts).then_some(Outcome::Accept),
            _ => Some(Outcome::Reject),
        }
    }
}

fn violation(contract: &Contract) -> Outcome {
    match contract.guards.on_violation {
        OnViolation::Halt => Outcome::Blocked,
        OnViolation::Reject => Outcome::Reject,
    }
}

fn no_verdict(evidence: &Evidence, facts: &mut Facts) -> bool {
    let Some(check) = &evidence.check else {
        return facts.is("the check ran", false, false);
    };
    let failed = facts.is("the check gave a verdict", !check.failed, false);
    let none = facts.is("there is a metric", check.metric.is_some_and(f64::is_finite), false);
    let unsaid = evidence.holdout.is_some_and(|holdout| {
        facts.is("the holdout gave a verdict", holdout != HoldoutVerdict::NoVerdict, false)
    });
    failed || none || unsaid
}

fn met(contract: &Contract, check: &CheckEvidence, facts: &mut Facts) -> bool {
    let Some(metric) = check.metric else { return false };
    facts.given("metric", metric);
    facts.given("target", contract.metric.target);
    facts.given("direction", contract.metric.direction.as_str());
    let reached = contract.metric.direction.reached(metric, contract.metric.target);
    let reached = facts.is("the metric reached the target", reached, true);
    let passing = facts.is("the check is passing", check.passing, true);
    reached && passing
}

/// Whether the metric is better than the best so far: by more than 0, at least by `min_improvement`, and by more than the
/// noise of either. Anything is better than none.
fn improves(case: Case<'_>, check: &CheckEvidence, facts: &mut Facts) -> bool {
    let Some(metric) = check.metric else { return false };
    let state = case.state;
    facts.given("metric", metric);
    facts.given("best so far", state.best_metric);
    let Some(best) = state.best_metric else {
        return facts.is("there is a metric to beat", false, false);
    };
    let terms = &case.contract.metric;
    let gain = terms.direction.gain(best, metric);
    let noise = check.noise.unwrap_or(0.0).max(state.counters.best_noise.unwrap_or(0.0));
    let better = facts.more("better than the best by", gain, 0.0);
    let enough =
        facts.at_least("better than the best by, against min_improvement", gain, terms.min_improvement);
    // One run has no noise, and then there is nothing to beat.
    let clear = noise <= 0.0 || facts.more("better than the best by, against the noise", gain, noise);
    better && enough && clear
}
