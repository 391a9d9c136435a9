//! Why a loop halted, for people.

use std::fmt::Write as _;

use super::line::{plural, span};
use super::status::dollars;
use super::why;
use crate::cli::ui::{Paint, Tone};
use crate::contract::Contract;
use crate::exit::HaltReason;
use crate::explain::{Explanation, Point, Trend, Verdict};
use crate::ledger::message::one_line;
use crate::ledger::receipt::CostBasis;
use crate::ledger::state::State;

/// The most entries of a list that are shown.
const LISTED: usize = 10;

/// The whole text of `git loop explain`.
pub fn explanation(contract: &Contract, state: &State, explained: &Explanation, paint: Paint) -> String {
    let mut text = String::new();
    let status = state.status.as_str().replace('_', " ");
    let halted = state
        .halt_reason
        .map_or_else(String::new, |reason| format!(": {reason} (exit {})", reason.exit_code()));
    let _ = writeln!(text, "{}  {status}{halted}", paint.tone(Tone::Bold, &contract.loop_id));
    if let Some(verdict) = explained.verdict {
        let tone = match verdict {
            Verdict::Done => Tone::Good,
            Verdict::Review | Verdict::RaiseTheLimit => Tone::Warn,
            _ => Tone::Bad,
        };
        line(&mut text, "verdict", &paint.tone(tone, verdict.as_str()));
    }
    line(&mut text, "because", &explained.because);
    if let Some(said) = &explained.said {
        let words = said.text.as_deref().map_or_else(|| "no words".to_owned(), |text| one_line(text, 200));
        line(&mut text, "said", &format!("{}: {words}", one_line(&said.by, 80)));
    }
    line(&mut text, "trend", trend(contract, state, explained.trend).as_str());
    if let Some(decided) = &explained.decided_by {
        let place = match (decided.iteration, decided.before_next_start) {
            (number, true) => format!("before the start after {}", place(number)),
            (number, false) => format!("at {}", place(number)),
        };
        line(&mut text, "decided by", &format!("{} {place}", decided.asked.name));
        for fact in why::full(&decided.asked) {
            line(&mut text, "", &fact);
        }
        for name in why::some_of(&decided.named) {
            line(&mut text, "", &name);
        }
    }
    circles(&mut text, explained);
    if let Some(costs) = &explained.costs {
        let bound = costs
            .bound_usd
            .map_or_else(String::new, |bound| format!("; an anomaly is more than ${bound:.4}"));
        line(
            &mut text,
            "costs",
            &format!(
                "{} known, mean ${:.4}, standard deviation ${:.4}{bound}; the last ${}",
                costs.known,
                costs.mean_usd,
                costs.deviation_usd,
                dollars(costs.last_usd)
            ),
        );
    }
    trajectory(&mut text, contract, explained);
    text
}

fn line(text: &mut String, name: &str, what: &str) {
    let _ = writeln!(text, "  {name:<11} {what}");
}

fn trend(contract: &Contract, state: &State, trend: Trend) -> String {
    let limits = &contract.limits;
    // Where the loop went in circles it is not improving, however long it may go on without getting better.
    let circles = trend == Trend::Improving
        && matches!(
            state.halt_reason,
            Some(
                HaltReason::UnsatisfiableConstraints
                    | HaltReason::OscillationDetected
                    | HaltReason::SameTestRegressed
            )
        );
    let told = if circles { "" } else { trend.told() };
    let told = if told.is_empty() { String::new() } else { format!("{told}: ") };
    match trend {
        Trend::Improving | Trend::Stalled | Trend::NeverImproved => format!(
            "{told}{} accepted, {} of {} in a row not accepted at the end",
            state.counters.accepted, state.counters.no_progress, limits.no_progress
        ),
        Trend::Met | Trend::Untried => trend.told().to_owned(),
    }
}

fn circles(text: &mut String, explained: &Explanation) {
    if let Some(contradiction) = &explained.contradiction {
        let [a, b] = &contradiction.tests;
        line(text, "exclude", &format!("{} and {}", one_line(a, 120), one_line(b, 120)));
        for turn in contradiction.shown_by.iter().take(LISTED) {
            line(text, "", &format!("{} fails: {}", place(turn.iteration), one_line(&turn.fails, 120)));
        }
    }
    for regressed in explained.regressions.iter().take(LISTED) {
        let iterations: Vec<String> = regressed.iterations.iter().map(ToString::to_string).collect();
        line(
            text,
            "regressed",
            &format!(
                "{} in {}: {}",
                one_line(&regressed.test, 120),
                plural(regressed.iterations.len() as u64, "iteration", "iterations"),
                iterations.join(", ")
            ),
        );
    }
    more(text, explained.regressions.len());
    for returned in explained.returned.iter().take(LISTED) {
        let count = plural(returned.failing.len() as u64, "failing test", "failing tests");
        line(
            text,
            "came back",
            &format!("in iteration {} the set of {}, {count}", returned.iteration, place(returned.first)),
        );
    }
    more(text, explained.returned.len());
}

fn more(text: &mut String, count: usize) {
    if count > LISTED {
        line(text, "", &format!("and {} more", count - LISTED));
    }
}

fn place(iteration: u32) -> String {
    if iteration == 0 { "the baseline".to_owned() } else { format!("iteration {iteration}") }
}

/// The columns of the table: words stand to the left, numbers to the right.
const LEFT: [bool; 8] = [false, true, true, false, false, false, false, true];

/// A table with a line for each iteration.
fn trajectory(text: &mut String, contract: &Contract, explained: &Explanation) {
    if explained.trajectory.is_empty() {
        return;
    }
    let number = |metric: Option<f64>| metric.map_or_else(|| "-".to_owned(), |metric| metric.to_string());
    let mut rows =
        vec![["n", "outcome", "row", "metric", "best", "failing", "cost", "time"].map(str::to_owned)];
    for point in &explained.trajectory {
        rows.push([
            point.iteration.to_string(),
            point.outcome.to_owned(),
            point.row.as_deref().map_or_else(|| "-".to_owned(), |row| one_line(row, 40)),
            number(point.metric),
            number(point.best),
            point.failing.map_or_else(|| "-".to_owned(), |count| count.to_string()),
            cost(contract, point),
            span(point.elapsed_seconds),
        ]);
    }
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; 8] = std::array::from_fn(width);
    text.push('\n');
    for row in &rows {
        let cells = row.iter().zip(widths).zip(LEFT).map(|((cell, width), left)| {
            if left { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        });
        let cells: Vec<String> = cells.collect();
        let _ = writeln!(text, "  {}", cells.join("  ").trim_end());
    }
    let metric = &contract.metric;
    let _ = writeln!(
        text,
        "  metric: {}, target {} ({})",
        one_line(&metric.name, 40),
        metric.target,
        metric.direction.as_str()
    );
}

fn cost(contract: &Contract, point: &Point) -> String {
    match (point.cost_basis, point.usd) {
        (None | Some(CostBasis::None), _) => "-".to_owned(),
        _ if contract.worker.costs_nothing() => "-".to_owned(),
        (_, Some(usd)) => format!("${}", dollars(usd)),
        (_, None) => "unknown".to_owned(),
    }
}
