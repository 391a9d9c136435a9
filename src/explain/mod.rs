//! Why a loop halted, or where it stands: the verdict, and the trajectory that it is based on. Everything is read off the
//! verified ledger; nothing is measured, run or guessed.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`causes`] | what attempts that were never measured have in common |
//! | [`mod@verdict`] | the table from halt reason and trajectory to a verdict |
//! | [`reasons`] | what the decision on one iteration compared |
//! | [`next`] | the next command to type |

use serde::Serialize;

use crate::contract::{Contract, UnknownCost};
use crate::decide::{Consideration, FailingSets, Outcome, awaits_packet};
use crate::exit::HaltReason;
use crate::ledger::receipt::{CheckReceipt, CostBasis, Receipt};
use crate::ledger::record::{BaselineBody, Body, HaltedBy, Status, Verdict as ReviewVerdict};
use crate::ledger::rederive::hit_deadline;
use crate::ledger::state::{Regressions, State};
use crate::ledger::verify::{Chain, Step};
use crate::money::MicroUsd;

pub mod causes;
pub mod next;
pub mod reasons;
pub mod verdict;

use causes::Cause;
pub use next::{Situated, next_commands, suggest_id};
pub use reasons::{Reasons, Watch, named};
pub use verdict::{Situation, Trend, Verdict, When, verdict};

/// One iteration, or the baseline.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Point {
    /// Its number; 0 is the baseline.
    pub iteration: u32,
    /// `baseline`, `accept`, `reject` or `blocked`.
    pub outcome: &'static str,
    /// The row that gave the outcome; null of the baseline.
    pub row: Option<String>,
    /// The metric; null if there was none.
    pub metric: Option<f64>,
    /// The best metric after it.
    pub best: Option<f64>,
    /// How many tests failed; null without a complete report.
    pub failing: Option<u64>,
    /// The tests that passed at green and did not pass here.
    pub regressed: Vec<String>,
    /// What it cost; null if that is not known.
    pub usd: Option<MicroUsd>,
    /// Where that figure comes from; null of the baseline.
    pub cost_basis: Option<CostBasis>,
    /// The loop's time at its end, in seconds.
    pub elapsed_seconds: u64,
}

/// A test that regressed, and where.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Regressed {
    /// The test.
    pub test: String,
    /// In which iterations.
    pub iterations: Vec<u32>,
}

/// A failing set that came back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Returned {
    /// In which iteration.
    pub iteration: u32,
    /// In which it was first; 0 is the baseline.
    pub first: u32,
    /// The set.
    pub failing: Vec<String>,
}

/// Two tests that exclude each other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Contradiction {
    /// The two tests.
    pub tests: [String; 2],
    /// The iterations that show it: in each exactly one of them failed, by turns. 0 is the baseline.
    pub shown_by: Vec<Turn>,
}

/// One turn of two tests that exclude each other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Turn {
    /// The iteration.
    pub iteration: u32,
    /// Which of the two failed.
    pub fails: String,
}

/// What the known costs say: of a loop that halted for a cost those before it, else all.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct CostStatistics {
    /// How many costs are known.
    pub known: u32,
    /// Their mean, in dollars.
    pub mean_usd: f64,
    /// Their population standard deviation, in dollars.
    pub deviation_usd: f64,
    /// `limits.cost_sigma`.
    pub sigma: f64,
    /// What the next cost must be more than to be an anomaly, in dollars; null while there are too few, or if they do not vary.
    pub bound_usd: Option<f64>,
    /// The last known cost.
    pub last_usd: MicroUsd,
}

/// The row or the limit that ended a run, with what it compared.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DecidedBy {
    /// At or after which iteration that was; 0 is the baseline.
    pub iteration: u32,
    /// Whether it was asked before the next start, and not at the end of the iteration.
    pub before_next_start: bool,
    /// The row or the limit.
    #[serde(flatten)]
    pub asked: Consideration,
    /// The paths, the tests or the problem that it is about; empty of a limit.
    pub named: Vec<String>,
}

/// What a person said when they ended it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Said {
    /// Who.
    pub by: String,
    /// In which words.
    pub text: Option<String>,
}

/// Why a loop halted, or where it stands.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Explanation {
    /// What to do; null while it has not halted.
    pub verdict: Option<Verdict>,
    /// Why, in a sentence.
    pub because: String,
    /// Where it was going.
    pub trend: Trend,
    /// What ended it; null if a person did, or nothing has.
    pub decided_by: Option<DecidedBy>,
    /// What a person said who ended it.
    pub said: Option<Said>,
    /// The baseline and every iteration.
    pub trajectory: Vec<Point>,
    /// The tests that regressed.
    pub regressions: Vec<Regressed>,
    /// The failing sets that came back.
    pub returned: Vec<Returned>,
    /// Two tests that exclude each other.
    pub contradiction: Option<Contradiction>,
    /// What the known costs say; null if none is known.
    pub costs: Option<CostStatistics>,
    /// What to type, the next command first.
    pub next: Vec<String>,
}

/// Reads a ledger record by record, and explains it at the end.
#[derive(Debug, Default)]
pub struct Reader {
    watch: Watch,
    trajectory: Vec<Point>,
    /// The failing sets, with the iteration that each is of.
    sets: Vec<(u32, Vec<String>)>,
    regressions: Vec<Regressed>,
    said: Option<Said>,
    met: bool,
    tried: u32,
    /// Why those of the tried were not measured where that is no candidate's fault, or the check only called them red.
    causes: Vec<Cause>,
    /// The last iteration.
    last: Option<Receipt>,
    last_usd: Option<MicroUsd>,
}

impl Reader {
    /// A reader of a whole ledger.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads the next record.
    pub fn see(&mut self, step: &Step) {
        self.watch.see(step);
        match &step.record.body {
            Body::Baseline(body) => self.baseline(body, &step.state),
            Body::Iteration(body) => self.iteration(&body.receipt, &step.state),
            Body::Halt(body) if body.by == HaltedBy::Operator => {
                self.said =
                    Some(Said { by: step.record.actor.principal.clone(), text: body.message.clone() });
            }
            Body::Review(body) if body.verdict == ReviewVerdict::Reject => {
                self.said =
                    Some(Said { by: step.record.actor.principal.clone(), text: body.comment.clone() });
            }
            Body::Halt(_) | Body::Resume(_) => self.said = None,
            _ => {}
        }
    }

    fn baseline(&mut self, body: &BaselineBody, state: &State) {
        self.met = body.target_met;
        self.count_sets(0, &body.check);
        self.trajectory.push(Point {
            iteration: 0,
            outcome: "baseline",
            row: None,
            metric: body.check.metric,
            best: state.best_metric,
            failing: body.check.failing_set().map(|set| set.len() as u64),
            regressed: Vec::new(),
            usd: Some(MicroUsd::ZERO),
            cost_basis: None,
            elapsed_seconds: 0,
        });
    }

    fn iteration(&mut self, receipt: &Receipt, state: &State) {
        let decision = &receipt.decision;
        let check = receipt.check.as_ref();
        if decision.outcome == Outcome::Accept {
            self.met = matches!(decision.outcome_reason.as_str(), "target_met" | "packet_missing");
        }
        if receipt.abandoned.is_none() && !hit_deadline(receipt) {
            self.tried += 1;
            let base = self.trajectory.first().filter(|point| point.iteration == 0);
            let base_measured = base.is_some_and(|base| base.metric.is_some());
            self.causes.extend(Cause::of(receipt, base_measured));
        }
        self.last = Some(receipt.clone());
        if let Some(check) = check.filter(|_| receipt.abandoned.is_none()) {
            self.count_sets(receipt.iteration, check);
        }
        if receipt.cost.basis == CostBasis::Reported {
            self.last_usd = receipt.cost.usd.or(self.last_usd);
        }
        self.trajectory.push(Point {
            iteration: receipt.iteration,
            outcome: match decision.outcome {
                Outcome::Accept => "accept",
                Outcome::Reject => "reject",
                Outcome::Blocked => "blocked",
            },
            row: Some(decision.outcome_reason.clone()),
            metric: check.and_then(|check| check.metric),
            best: state.best_metric,
            failing: check.and_then(|check| check.failing_set()).map(|set| set.len() as u64),
            regressed: check.map_or_else(Vec::new, |check| check.regressed.clone()),
            usd: receipt.cost.usd,
            cost_basis: Some(receipt.cost.basis),
            elapsed_seconds: receipt.elapsed_seconds,
        });
    }

    /// Counts as the fold does.
    fn count_sets(&mut self, iteration: u32, check: &CheckReceipt) {
        let Some(set) = check.failing_set() else { return };
        self.sets.push((iteration, set.to_vec()));
        for test in &check.regressed {
            match self.regressions.iter_mut().find(|known| known.test == *test) {
                Some(known) => known.iterations.push(iteration),
                None => self.regressions.push(Regressed { test: test.clone(), iterations: vec![iteration] }),
            }
        }
    }

    /// What the ledger `chain`, which was read to its end, comes to. `new_id` is an id that a renewal could have.
    pub fn explain(self, chain: &Chain, new_id: &str) -> Explanation {
        let Self { watch, trajectory, sets, mut regressions, said, met, tried, causes, last, last_usd } =
            self;
        let (contract, state) = (&chain.contract, &chain.tip.state);
        regressions.sort_by(|a, b| a.test.cmp(&b.test));
        debug_assert!(counted_alike(&regressions, &state.counters.regressions));
        let (returned, contradiction) = circles(&sets);
        let counters = &state.counters;
        let trend =
            Trend::of(met, counters.accepted, tried, counters.no_progress, contract.limits.no_progress);
        let cost_unknown = counters.unknown_costs > 0 && contract.limits.unknown_cost == UnknownCost::Stop;
        let (red, causes): (Vec<Cause>, Vec<Cause>) =
            causes.into_iter().partition(|cause| cause.is_red(contract));
        let unmeasured = tried > 0 && causes.len() == tried as usize;
        let rule = state.halt_reason.map(|halt_reason| {
            verdict(Situation {
                halt_reason,
                promoted: state.status == Status::Succeeded,
                trend,
                cost_unknown,
                unmeasured,
                only_red: !red.is_empty() && state.best_metric.is_none(),
                awaits_packet: awaits_packet(state),
            })
        });
        let reasons = watch.reasons(contract);
        let by_a_person = matches!(
            state.halt_reason,
            None | Some(HaltReason::OperatorStopped | HaltReason::ReviewerRejected)
        );
        let decided_by = reasons.filter(|_| !by_a_person).and_then(|reasons| {
            Some(DecidedBy {
                iteration: reasons.iteration,
                before_next_start: !reasons.before_start.is_empty(),
                asked: reasons.last_word()?.clone(),
                named: last
                    .as_ref()
                    .filter(|last| last.iteration == reasons.iteration)
                    .map_or_else(Vec::new, |last| {
                        named(reasons.last_word().map_or("", |word| word.name), last)
                    }),
            })
        });
        let costs = costs(contract, state, watch.before_last(), last_usd);
        let situated = Situated { contract, state, trend, verdict: rule.map(|rule| rule.verdict), new_id };
        Explanation {
            verdict: rule.map(|rule| rule.verdict),
            because: rule.map_or_else(
                || stands(state),
                |rule| match causes::common(&causes).filter(|_| rule.when == When::Unmeasured) {
                    Some(cause) => format!("{}: {cause}", rule.why),
                    None => rule.why.to_owned(),
                },
            ),
            trend,
            decided_by,
            said,
            trajectory,
            regressions,
            returned,
            contradiction,
            costs,
            next: next_commands(&situated),
        }
    }
}

/// Where a loop stands that has not halted.
fn stands(state: &State) -> String {
    match (&state.checkpoint, &state.baseline) {
        (Some(open), _) => format!("it has not halted; iteration {} is under way", open.iteration),
        // Where the check runs elsewhere there is no baseline.
        (None, None) if state.iteration == 0 => {
            "it was started, and no run has recorded anything yet".to_owned()
        }
        (None, _) => "it has not halted, and can go on".to_owned(),
    }
}

fn counted_alike(told: &[Regressed], counted: &[Regressions]) -> bool {
    told.len() == counted.len()
        && told.iter().zip(counted).all(|(told, counted)| {
            told.test == counted.test && told.iterations.len() == counted.iterations as usize
        })
}

/// What the failing sets say together.
fn circles(sets: &[(u32, Vec<String>)]) -> (Vec<Returned>, Option<Contradiction>) {
    let iteration = |at: usize| sets.get(at).map_or(0, |(iteration, _)| *iteration);
    let mut all = FailingSets::default();
    let mut returned = Vec::new();
    for (number, failing) in sets {
        all = all.with(failing);
        if let Some(first) = all.returned_from() {
            returned.push(Returned { iteration: *number, first: iteration(first), failing: failing.clone() });
        }
    }
    let contradiction = all.contradiction().map(|(a, b)| Contradiction {
        tests: [a.to_owned(), b.to_owned()],
        shown_by: all
            .alternation(a, b)
            .into_iter()
            .map(|(at, first)| Turn { iteration: iteration(at), fails: if first { a } else { b }.to_owned() })
            .collect(),
    });
    (returned, contradiction)
}

fn costs(
    contract: &Contract,
    state: &State,
    before_last: Option<&State>,
    last_usd: Option<MicroUsd>,
) -> Option<CostStatistics> {
    let halted_for_it = state.halt_reason == Some(HaltReason::CostAnomaly);
    let before = before_last.filter(|_| halted_for_it).unwrap_or(state);
    let costs = before.counters.costs;
    let sigma = contract.limits.cost_sigma;
    Some(CostStatistics {
        known: costs.known,
        mean_usd: costs.mean_usd()?,
        deviation_usd: costs.deviation_usd()?,
        sigma,
        bound_usd: costs.bound_usd(sigma),
        last_usd: last_usd?,
    })
}
