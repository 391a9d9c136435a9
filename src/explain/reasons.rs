//! What the decision on one iteration compared: by the same function that decided, from the evidence that verification derived.

use serde::Serialize;

use crate::contract::Contract;
use crate::decide::{
    BaselineEvidence, Consideration, Evidence, Row, after_baseline, trace, trace_before_start,
};
use crate::ledger::receipt::{GuardViolation, Receipt};
use crate::ledger::record::{Body, HaltedBy};
use crate::ledger::state::State;
use crate::ledger::verify::Step;

/// Everything that was asked about one iteration, or about the baseline.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Reasons {
    /// Its number; 0 is the baseline.
    pub iteration: u32,
    /// The rows, up to the one that applies; none of the baseline, which has no outcome.
    pub rows: Vec<Consideration>,
    /// The stops after it, up to the first that applies.
    pub stops: Vec<Consideration>,
    /// The limits that were asked before the next start, if one of them ended the run there.
    pub before_start: Vec<Consideration>,
}

impl Reasons {
    /// The row or the stop that ended the run, if one did; else the row that gave the outcome.
    pub fn last_word(&self) -> Option<&Consideration> {
        let lists = [&self.before_start, &self.stops, &self.rows];
        lists.into_iter().find_map(|list| list.last().filter(|last| last.applies))
    }
}

/// The paths, the tests or the problem that the row `name` is about, as the receipt of its iteration has them.
pub fn named(name: &str, receipt: &Receipt) -> Vec<String> {
    let guards = &receipt.guards;
    let told = |one: &GuardViolation| format!("{}: {}", one.path, one.what);
    let check = receipt.check.as_ref();
    if name == Row::VerifierDrift.as_str() {
        guards.drift.iter().map(told).collect()
    } else if name == Row::BlockedPathModified.as_str() {
        guards.blocked.iter().chain(&guards.tampered).map(told).collect()
    } else if name == Row::OutsideMutablePaths.as_str() {
        guards.outside.clone()
    } else if name == Row::WorkerFailed.as_str() {
        receipt.worker.as_ref().and_then(|worker| worker.failure.clone()).into_iter().collect()
    } else if name == Row::VerifierFailed.as_str() {
        let held_out = receipt.holdout.as_ref().and_then(|holdout| holdout.problem.clone());
        check.and_then(|check| check.problem.clone()).or(held_out).into_iter().collect()
    } else if name == Row::MetricIntegrityViolation.as_str() {
        check.map_or_else(Vec::new, |check| check.lost.iter().chain(&check.newly_skipped).cloned().collect())
    } else if name == Row::TestsRegressed.as_str() {
        check.map_or_else(Vec::new, |check| check.regressed.clone())
    } else {
        Vec::new()
    }
}

/// Watches a ledger record by record for one iteration, the last one if none is named.
#[derive(Debug, Default)]
pub struct Watch {
    wanted: Option<u32>,
    before: Option<State>,
    seen: Option<Seen>,
    /// The state before a halt by a limit, and the loop's time then.
    halted: Option<(State, u64)>,
}

/// What was seen of the wanted iteration.
#[derive(Debug)]
enum Seen {
    Baseline(BaselineEvidence),
    Iteration { number: u32, before: Box<State>, evidence: Box<Evidence> },
}

impl Watch {
    /// Watches for this iteration, or for the last one.
    pub fn new(wanted: Option<u32>) -> Self {
        Self { wanted, ..Self::default() }
    }

    /// Looks at the next record.
    pub fn see(&mut self, step: &Step) {
        match &step.record.body {
            Body::Baseline(body) if self.wanted.is_none_or(|wanted| wanted == 0) => {
                self.seen = Some(Seen::Baseline(BaselineEvidence {
                    flaky: body.check.flaky,
                    metric: body.check.metric,
                    passing: body.check.passing,
                    target_met: body.target_met,
                    holdout: body.holdout.as_ref().map(|holdout| holdout.verdict),
                }));
            }
            Body::Iteration(body) if self.wanted.is_none_or(|wanted| wanted == body.receipt.iteration) => {
                if let (Some(before), Some(evidence)) = (&self.before, &step.decided_by) {
                    self.seen = Some(Seen::Iteration {
                        number: body.receipt.iteration,
                        before: Box::new(before.clone()),
                        evidence: Box::new(evidence.clone()),
                    });
                }
            }
            Body::Halt(body) => {
                self.halted = self
                    .before
                    .clone()
                    .filter(|_| body.by == HaltedBy::Limit)
                    .map(|before| (before.clone(), before.elapsed_seconds(step.record.at)));
            }
            Body::Resume(_) => self.halted = None,
            _ => {}
        }
        self.before = Some(step.state.clone());
    }

    /// The state before the wanted iteration was recorded.
    pub fn before_last(&self) -> Option<&State> {
        match &self.seen {
            Some(Seen::Iteration { before, .. }) => Some(before),
            _ => None,
        }
    }

    /// What was asked about the wanted iteration; `None` if there is none.
    pub fn reasons(&self, contract: &Contract) -> Option<Reasons> {
        let (iteration, rows, stops) = match self.seen.as_ref()? {
            Seen::Baseline(shown) => (0, Vec::new(), after_baseline(contract, *shown).1),
            Seen::Iteration { number, before, evidence } => {
                let trace = trace(contract, before, evidence);
                (*number, trace.rows, trace.stops)
            }
        };
        let halted = self.halted.as_ref().filter(|(before, _)| before.iteration == iteration);
        let before_start = halted
            .map_or_else(Vec::new, |(before, elapsed)| trace_before_start(contract, before, *elapsed).1);
        Some(Reasons { iteration, rows, stops, before_start })
    }
}
