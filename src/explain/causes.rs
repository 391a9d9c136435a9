//! What attempts that were never measured have in common.

use std::collections::BTreeSet;

use crate::contract::Contract;
use crate::decide::Outcome;
use crate::ledger::message::one_line;
use crate::ledger::receipt::{CheckReceipt, GuardViolation, Receipt};

/// The most paths or problems that are named.
const NAMED: usize = 3;

/// Why one attempt was not measured.
#[derive(Debug, Clone, PartialEq)]
pub enum Cause {
    /// The worker failed, in these words.
    WorkerFailed(String),
    /// It changed these paths of the check, and the contract only rejects that.
    Drift(Vec<String>),
    /// It changed these blocked paths, and the contract only rejects that.
    Blocked(Vec<String>),
    /// It changed these paths, which are not mutable.
    Outside(Vec<String>),
    /// The check gave no metric, neither of the base.
    NoMetric(Box<CheckReceipt>),
}

impl Cause {
    /// Why the attempt of `receipt` was not measured; `None` if it was, or where that says something about the candidate.
    /// `base_measured`: whether the base has a metric.
    pub fn of(receipt: &Receipt, base_measured: bool) -> Option<Self> {
        let guards = &receipt.guards;
        let paths = |list: &[GuardViolation]| list.iter().map(|one| one.path.clone()).collect();
        let rejected = receipt.decision.outcome == Outcome::Reject;
        match receipt.decision.outcome_reason.as_str() {
            "worker_failed" => {
                let failure = receipt.worker.as_ref().and_then(|worker| worker.failure.clone());
                Some(Self::WorkerFailed(failure.unwrap_or_default()))
            }
            "verifier_drift" if rejected => Some(Self::Drift(paths(&guards.drift))),
            "blocked_path_modified" if rejected => Some(Self::Blocked(paths(&guards.blocked))),
            "outside_mutable_paths" => Some(Self::Outside(guards.outside.clone())),
            "verifier_failed" if !base_measured => {
                receipt.check.clone().map(|check| Self::NoMetric(Box::new(check)))
            }
            _ => None,
        }
    }

    /// Whether the check ran to its end and called the candidate red, as it does the base: that is a measurement.
    pub fn is_red(&self, contract: &Contract) -> bool {
        matches!(self, Self::NoMetric(check) if check.no_report.is_none() && check.run.ended_red(contract))
    }

    fn kind(&self) -> std::mem::Discriminant<Self> {
        std::mem::discriminant(self)
    }

    /// The names or words that go with it.
    fn named(&self) -> Vec<String> {
        match self {
            Self::WorkerFailed(failure) => vec![failure.clone()],
            Self::Drift(paths) | Self::Blocked(paths) | Self::Outside(paths) => paths.clone(),
            Self::NoMetric(check) => check.problem.clone().into_iter().collect(),
        }
    }

    fn told(&self) -> &'static str {
        match self {
            Self::WorkerFailed(_) => "the worker failed each time",
            Self::Drift(_) => "each attempt changed the check",
            Self::Blocked(_) => "each attempt changed a blocked path",
            Self::Outside(_) => "each attempt changed what is not mutable",
            Self::NoMetric(_) => "the check gave no verdict each time",
        }
    }
}

/// What they have in common, in words; `None` if they are of several kinds.
pub fn common(causes: &[Cause]) -> Option<String> {
    let first = causes.first()?;
    if causes.iter().any(|cause| cause.kind() != first.kind()) {
        return None;
    }
    let named: BTreeSet<String> =
        causes.iter().flat_map(Cause::named).filter(|one| !one.is_empty()).collect();
    let mut shown: Vec<String> = named.iter().take(NAMED).map(|one| one_line(one, 160)).collect();
    if named.len() > NAMED {
        shown.push(format!("and {} more", named.len() - NAMED));
    }
    let list = if shown.is_empty() { String::new() } else { format!(": {}", shown.join(", ")) };
    Some(format!("{}{list}", first.told()))
}
