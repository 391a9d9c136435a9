//! The next command to type.

use std::iter;

use super::{Trend, Verdict};
use crate::contract::{Contract, Seconds};
use crate::decide::{awaits_packet, reservation};
use crate::exit::HaltReason;
use crate::git::LoopId;
use crate::ledger::record::{Severity, Status};
use crate::ledger::state::State;
use crate::money::MicroUsd;
use crate::render::commands;
use crate::render::status::{dollars, stops_for_unknown_cost};

/// What the next command depends on.
#[derive(Debug, Clone, Copy)]
pub struct Situated<'a> {
    /// The terms.
    pub contract: &'a Contract,
    /// Where the loop stands.
    pub state: &'a State,
    /// Where it was going.
    pub trend: Trend,
    /// What to do; `None` while it has not halted.
    pub verdict: Option<Verdict>,
    /// An id that a renewal could have.
    pub new_id: &'a str,
}

/// The largest limits that a contract may have.
const MOST_ITERATIONS: u32 = 100;
const MOST_USD: MicroUsd = MicroUsd::from_micros(10_000_000_000);
const MOST_SECONDS: u64 = 24 * 3600;

/// What to type, the next command first. Each is a whole command line; words in capitals stand for what only a person knows,
/// `NEW.toml` for a file with other terms.
pub fn next_commands(situated: &Situated<'_>) -> Vec<String> {
    let Situated { contract, state, verdict, new_id, .. } = *situated;
    let id = &state.loop_id;
    let last = state.iteration;
    let renew = format!("git loop renew {id} {new_id}");
    let other_terms = format!("{renew} -f NEW.toml");
    let why = format!("git loop show {id} {last} --why");
    let settle = || {
        let open = state.findings.iter().rev().find(|finding| finding.severity == Severity::Block)?;
        let record = open.record?;
        Some(format!("git loop finding {id} resolve {} --message TEXT", record.short()))
    };
    let blocked = || iter::once(format!("git loop finding {id} list")).chain(settle()).collect();
    let Some(verdict) = verdict else {
        return match &state.checkpoint {
            _ if state.blocking_findings() > 0 => blocked(),
            Some(open) if contract.check.external => vec![commands::bring(contract, open)],
            // The runner takes an open iteration for one of a runner that has died, and gives it up: it comes last.
            Some(open) => vec![commands::bring(contract, open), commands::run(id)],
            None => vec![commands::begin(contract)],
        };
    };
    match verdict {
        Verdict::Done if state.status == Status::Succeeded => {
            vec![format!("git loop land {}", state.loop_id)]
        }
        Verdict::Done => vec![other_terms],
        Verdict::RaiseTheLimit => vec![format!("{renew}{}", raised(situated)), why],
        Verdict::Review if state.blocking_findings() > 0 => blocked(),
        Verdict::Review => match state.halt_reason {
            Some(HaltReason::HumanRequired) => vec![format!("git loop run {id}")],
            Some(HaltReason::SuccessConditionMet) if state.approvals.is_empty() => {
                vec![format!("git loop diff {id}"), format!("git loop review {id} --approve --key KEY")]
            }
            Some(HaltReason::SuccessConditionMet) => vec![format!("git loop promote {id} --key KEY")],
            Some(HaltReason::ComprehensionDebtExceeded) => vec![format!("git loop diff {id}"), renew],
            _ => vec![format!("git loop log {id}")],
        },
        Verdict::Investigate => match state.halt_reason {
            Some(HaltReason::OperatorStopped) => {
                vec![format!("git loop log {id}"), format!("git loop run {id} --resume"), renew]
            }
            Some(HaltReason::ReviewerRejected) => vec![format!("git loop log {id}"), other_terms],
            _ => vec![why, other_terms],
        },
        Verdict::DoNotRetry => vec![why],
        // The check is frozen with the base, so a mended one is a commit on top of green, and no renewal starts there.
        Verdict::FixSubstrate => {
            vec![format!("git loop show {id} {last}"), format!("git loop start {new_id} -f NEW.toml")]
        }
        Verdict::FixConfig if stops_for_unknown_cost(contract, state) => {
            vec![format!("git loop show {id} {last}"), commands::renew_at_any_cost(id, new_id)]
        }
        Verdict::FixConfig => vec![format!("git loop show {id} {last}"), other_terms],
    }
}

/// The options of a renewal that raise the limit that was reached: twice as much, within what a contract may have.
fn raised(situated: &Situated<'_>) -> String {
    let Situated { contract, state, trend, .. } = *situated;
    let limits = &contract.limits;
    // Green is only checked once more; that needs no more than there was.
    if trend == Trend::Met && !awaits_packet(state) {
        return String::new();
    }
    let option = |key: &str, value: String| format!(" --limit {key}={value}");
    match state.halt_reason {
        Some(HaltReason::MaxIterationsReached) if limits.iterations < MOST_ITERATIONS => {
            option("iterations", limits.iterations.saturating_mul(2).min(MOST_ITERATIONS).to_string())
        }
        Some(HaltReason::DeadlineExceeded) if limits.duration_seconds < MOST_SECONDS => {
            let seconds = limits.duration_seconds.saturating_mul(2).min(MOST_SECONDS);
            option("duration", Seconds::new(seconds).to_string())
        }
        Some(HaltReason::BudgetExceeded) => match limits.tokens {
            Some(tokens) if state.counters.tokens > tokens => {
                option("tokens", tokens.saturating_mul(2).to_string())
            }
            _ if limits.cost_usd < MOST_USD => {
                let twice = limits.cost_usd.saturating_add(limits.cost_usd);
                option("cost_usd", dollars(twice.max(reservation(contract, state)).min(MOST_USD)))
            }
            _ => String::new(),
        },
        // There is no more; a renewal has as much again.
        _ => String::new(),
    }
}

/// An id for a renewal of `id` that is not taken: with its number at the end, one higher.
pub fn suggest_id(id: &str, taken: impl Fn(&LoopId) -> bool) -> String {
    let (stem, first) = match id.rsplit_once('-') {
        Some((stem, number)) if !stem.is_empty() => match number.parse::<u32>() {
            Ok(number) if number.to_string() == *id[stem.len() + 1..].trim_start() => {
                (stem, number.saturating_add(1))
            }
            _ => (id, 2),
        },
        _ => (id, 2),
    };
    let candidates = (first..=u32::MAX).map(|number| {
        let end = format!("-{number}");
        let room = 64_usize.saturating_sub(end.len());
        // Ids are ASCII, so every position is one between characters.
        format!("{}{end}", stem[..stem.len().min(room)].trim_end_matches('.'))
    });
    let free = |name: &String| name.parse::<LoopId>().is_ok_and(|id| !taken(&id));
    candidates.take(10_000).find(free).unwrap_or_else(|| "NEW-ID".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::testing::{contract, state};
    use HaltReason as H;

    #[test]
    fn an_id_counts_on() {
        let suggest =
            |id: &str, taken: &[&str]| suggest_id(id, |candidate| taken.contains(&candidate.as_str()));
        assert_eq!(suggest("fix", &[]), "fix-2");
        assert_eq!(suggest("fix", &["fix-2", "fix-3"]), "fix-4");
        assert_eq!(suggest("fix-2", &[]), "fix-3");
        assert_eq!(suggest("fix-02", &[]), "fix-02-2");
        assert_eq!(suggest("9", &[]), "9-2");
        assert_eq!(suggest("a-b", &[]), "a-b-2");
        let long = "x".repeat(64);
        let next = suggest(&long, &[]);
        assert_eq!((next.len(), next.ends_with("x-2")), (64, true));
    }

    #[test]
    fn what_was_reached_is_doubled_within_what_there_is() {
        let raise = |halt_reason, change: &dyn Fn(&mut Contract, &mut State)| {
            let mut contract = contract();
            let mut state = state(&contract);
            state.halt_reason = Some(halt_reason);
            change(&mut contract, &mut state);
            let situated = Situated {
                contract: &contract,
                state: &state,
                trend: Trend::Improving,
                verdict: Some(Verdict::RaiseTheLimit),
                new_id: "fix-2",
            };
            next_commands(&situated).swap_remove(0)
        };
        let nothing = |_: &mut Contract, _: &mut State| ();
        for (halt_reason, change, expected) in [
            (
                H::MaxIterationsReached,
                &nothing as &dyn Fn(&mut Contract, &mut State),
                " --limit iterations=20",
            ),
            (
                H::MaxIterationsReached,
                &|contract, _| contract.limits.iterations = 60,
                " --limit iterations=100",
            ),
            (H::MaxIterationsReached, &|contract, _| contract.limits.iterations = 100, ""),
            (H::DeadlineExceeded, &nothing, " --limit duration=20m"),
            (H::DeadlineExceeded, &|contract, _| contract.limits.duration_seconds = 86_400, ""),
            (H::BudgetExceeded, &nothing, " --limit cost_usd=2.00"),
            (H::BudgetExceeded, &|_, state| state.counters.tokens = 1001, " --limit tokens=2000"),
            (
                H::BudgetExceeded,
                &|contract, _| contract.worker.reserve_usd = Some(MicroUsd::from_micros(3_500_000)),
                " --limit cost_usd=3.50",
            ),
        ] {
            assert_eq!(raise(halt_reason, change), format!("git loop renew fix fix-2{expected}"));
        }
    }
}
