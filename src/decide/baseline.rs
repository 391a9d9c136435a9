//! What the check on the base means for the loop, before any worker is started.

use super::facts::{Consideration, Facts};
use super::{HoldoutVerdict, Limit, Row};
use crate::contract::Contract;
use crate::exit::HaltReason;

/// The reason of the halt of a loop whose base meets the target.
pub const TARGET_ALREADY_MET: &str = "target_already_met";

/// What the check on the base showed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BaselineEvidence {
    /// Whether several runs gave another verdict or other tests.
    pub flaky: bool,
    /// The metric.
    pub metric: Option<f64>,
    /// Whether the check is passing.
    pub passing: bool,
    /// Whether the base meets the target.
    pub target_met: bool,
    /// What the holdout said of it, if it was run.
    pub holdout: Option<HoldoutVerdict>,
}

/// The halt that a baseline calls for, with its reason, and what was asked.
///
/// A base that meets the target leaves nothing to do, unless it is the green of a loop that is renewed: then it was checked
/// once more, and is to be reviewed; if the terms have a holdout, only if that passes too. Lasting code goes on for its packet.
pub fn after_baseline(
    contract: &Contract,
    shown: BaselineEvidence,
) -> (Option<(HaltReason, &'static str)>, Vec<Consideration>) {
    let mut asked = Vec::new();
    let mut facts = Facts::default();
    let flaky = facts.is("runs of the check that disagree", shown.flaky, true);
    asked.push(facts.into_consideration(None, Row::CheckFlaky.as_str(), flaky));
    if flaky {
        return (Some((HaltReason::CheckFlaky, Row::CheckFlaky.as_str())), asked);
    }
    let (halt_reason, reason) = match contract.parent {
        None => (HaltReason::NoActionableTasks, TARGET_ALREADY_MET),
        Some(_) => (HaltReason::SuccessConditionMet, Limit::TargetMet.as_str()),
    };
    let mut facts = Facts::default();
    facts.given("metric", shown.metric);
    facts.given("target", contract.metric.target);
    facts.given("direction", contract.metric.direction.as_str());
    facts.given("the check is passing", shown.passing);
    let mut met = facts.is("the base meets the target", shown.target_met, true);
    if contract.judged_as_lasting().is_some() && contract.parent.is_some() {
        // The packet was for another contract.
        met &= facts.is("there is a promotion packet", false, true);
    }
    if wants_holdout_of_base(contract, shown.target_met) {
        let passed = shown.holdout == Some(HoldoutVerdict::Passed);
        met &= facts.is("the holdout passed", passed, true);
    }
    asked.push(facts.into_consideration(None, reason, met));
    (met.then_some((halt_reason, reason)), asked)
}

/// Whether the holdout is asked about the base as well: it is the green of a loop that is renewed, and would be reviewed
/// as it is. Lasting code would not: it has to bring its packet first.
pub fn wants_holdout_of_base(contract: &Contract, target_met: bool) -> bool {
    target_met
        && contract.parent.is_some()
        && contract.holdout.is_some()
        && contract.judged_as_lasting().is_none()
}
