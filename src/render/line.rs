//! One line for one thing that happened.

use std::fmt::Write as _;

use crate::contract::Contract;
use crate::decide::Outcome;
use crate::ledger::lasting::LastingReceipt;
use crate::ledger::message::{one_line, verb};
use crate::ledger::receipt::{CostBasis, HoldoutReceipt, Receipt};
use crate::render::status::dollars;
use crate::setup::litter::is_litter;

/// What one iteration came to: `iteration 2: rejected (tests_regressed), failing_tests 3; broke a::b`.
pub fn iteration_line(contract: &Contract, receipt: &Receipt) -> String {
    let mut text = format!("iteration {}: {}", receipt.iteration, verb(&receipt.decision));
    if let Some(why) = &receipt.abandoned {
        let _ = write!(text, ": {}", one_line(why, 120));
    }
    if let Some(check) = &receipt.check {
        match (&check.problem, check.metric) {
            (Some(problem), _) => {
                let _ = write!(text, ": {}", one_line(problem, 160));
            }
            (None, Some(metric)) => {
                let _ = write!(text, ", {} {metric}", one_line(&contract.metric.name, 40));
            }
            (None, None) => {}
        }
        if let Some((first, rest)) = check.regressed.split_first() {
            let _ = write!(text, "; broke {}", one_line(first, 100));
            if !rest.is_empty() {
                let _ = write!(text, " and {}", plural(rest.len() as u64, "other test", "other tests"));
            }
        }
    }
    if let Some(told) = &receipt.lasting {
        text.push_str(&lasting_told(told));
    }
    if let Some(holdout) = &receipt.holdout {
        let _ = write!(text, "; holdout: {}", holdout_told(holdout));
    }
    if receipt.decision.outcome != Outcome::Accept {
        let guards = &receipt.guards;
        let mut found =
            guards.drift.iter().chain(&guards.blocked).chain(&guards.tampered).chain(&guards.left_out);
        if let Some(violation) = found.next() {
            let _ = write!(text, ": {} ({})", one_line(&violation.path, 100), one_line(&violation.what, 100));
        } else if let Some(first) = guards.outside.first() {
            // What nobody meant to change comes first: it is what can be helped.
            let litter = guards.outside.iter().find(|path| is_litter(path));
            let _ = write!(text, ": {}", one_line(litter.unwrap_or(first), 100));
            let count = guards.outside.len() as u64 + guards.more.map_or(0, |more| more.outside);
            if count > 1 {
                let others = plural(count - 1, "other path", "other paths");
                let _ = write!(text, " and {others}");
            }
            if litter.is_some() {
                text.push_str(
                    " (a tool left it; commit it or add it to .gitignore, then start another loop)",
                );
            }
        }
        // That an interrupted worker was interrupted was said.
        if receipt.abandoned.is_none()
            && let Some(failure) = receipt.worker.as_ref().and_then(|worker| worker.failure.as_ref())
        {
            let _ = write!(text, ": {}", one_line(failure, 160));
        }
    }
    match (receipt.cost.basis, receipt.cost.usd) {
        (CostBasis::Reported, Some(usd)) => {
            let _ = write!(text, "; it cost ${}", dollars(usd));
        }
        (CostBasis::Unknown, _) => text.push_str("; what it cost is not known"),
        _ => {}
    }
    text
}

/// What is wrong with a candidate of lasting code, as the end of its line; nothing where nothing is.
pub fn lasting_told(told: &LastingReceipt) -> String {
    let mut text = String::new();
    if let Some(why) = &told.incomplete {
        let _ = write!(text, "; evidence: {}", one_line(why, 160));
    }
    let invariants = told.invariants.iter().flatten().map(|one| (&one.command, one.effect.as_str()));
    let independence = told.independence.iter().flatten().map(|one| (one, "machine dependence"));
    for (command, what) in invariants.chain(independence).filter(|(command, _)| !command.passed).take(3) {
        let _ = write!(text, "; {}: {what}", one_line(&command.name, 60));
    }
    if told.measured.fallbacks_added > 0 {
        let _ = write!(
            text,
            "; {}",
            plural(told.measured.fallbacks_added, "new fallback branch", "new fallback branches")
        );
    }
    if let Some(why) = &told.packet_problem {
        let _ = write!(text, "; promotion packet: {}", one_line(why, 160));
    }
    text
}

/// What a holdout came to: `green`, `red, 2 tests failed`, `no verdict, it timed out`.
pub fn holdout_told(holdout: &HoldoutReceipt) -> String {
    let mut text = holdout.verdict.told().to_owned();
    if let Some(problem) = &holdout.problem {
        let _ = write!(text, ", {}", one_line(problem, 100));
    } else if let Some(failing) = holdout.failing.filter(|failing| *failing > 0) {
        let _ = write!(text, ", {} failed", plural(failing, "test", "tests"));
    }
    text
}

/// Seconds as people say them.
pub fn span(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h{:02}m", seconds / 3600, seconds / 60 % 60),
    }
}

/// A number of bytes as people say it.
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if count < 1024 {
        return plural(count, "byte", "bytes");
    }
    let mut value = count as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// `1 test`, `2 tests`.
pub fn plural(count: u64, one: &str, many: &str) -> String {
    if count == 1 { format!("1 {one}") } else { format!("{count} {many}") }
}

/// The last `count` lines of a program's output that say anything, each cut and without what a terminal would act on.
pub fn tail(bytes: &[u8], count: usize) -> Vec<String> {
    let text = String::from_utf8_lossy(bytes);
    let mut lines: Vec<String> = text
        .lines()
        .rev()
        .filter(|line| !line.trim().is_empty())
        .take(count)
        .map(|line| one_line(line, 200))
        .collect();
    lines.reverse();
    lines
}
