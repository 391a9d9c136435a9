//! What is told of a holdout, and what its end comes to: the same for the runner that saw it and for whoever verifies. Pure.

use super::receipt::{HoldoutReceipt, RunReceipt};
use super::rederive::{RederiveError, cpus_fit, enforced_fits, fits, is_allowed, same};
use crate::contract::frozen::HoldoutTerms;
use crate::contract::{Contract, ReportFormat};
use crate::decide::HoldoutVerdict;

/// Whether what is told of a holdout fits the contract and itself. What it said is the runner's word.
pub(super) fn holdout_fits(contract: &Contract, told: Option<&HoldoutReceipt>) -> Result<(), RederiveError> {
    let Some(told) = told else { return Ok(()) };
    let Some(terms) = &contract.holdout else {
        return Err(RederiveError::Differs {
            field: "holdout",
            found: told.verdict.as_str().to_owned(),
            expected: "none, as the contract has no holdout".to_owned(),
        });
    };
    same("holdout.folder", &told.folder, &terms.tree)?;
    same("holdout.run.command", &fits(&terms.command, &told.run.command), &true)?;
    same("holdout.sandbox", &is_allowed(contract, &told.sandbox), &true)?;
    let network = &contract.sandbox.check_network;
    cpus_fit("holdout.sandbox", Some(&told.sandbox), contract.check.cpus)?;
    same("holdout.run.signal", &(told.run.exit_code.is_some() && told.run.signal.is_some()), &false)?;
    enforced_fits("holdout.sandbox", Some(&told.sandbox), &told.run, network)?;
    same("holdout.failing", &(told.failing.is_some() && terms.format == ReportFormat::None), &false)?;
    same("holdout.problem", &told.problem.is_some(), &(told.verdict == HoldoutVerdict::NoVerdict))?;
    if told.verdict == HoldoutVerdict::NoVerdict {
        // The runner may have seen more: that a file of it was changed while it ran.
        return Ok(());
    }
    same("holdout.verdict", &told.verdict, &verdict_of(terms, &told.run, told.failing))
}

/// What a holdout's end comes to, with the number of its tests that failed.
pub fn verdict_of(terms: &HoldoutTerms, run: &RunReceipt, failing: Option<u64>) -> HoldoutVerdict {
    let success = match run.exit_code {
        Some(code) if run.ended == "itself" => code == i32::from(terms.success_exit_code),
        _ => return HoldoutVerdict::NoVerdict,
    };
    match (terms.format, success, failing) {
        (ReportFormat::None, true, _) | (_, true, Some(0)) => HoldoutVerdict::Passed,
        // A shell's word for a program that is missing says nothing about the candidate.
        (ReportFormat::None, false, _) if run.exit_code.is_some_and(|code| NO_PROGRAM.contains(&code)) => {
            HoldoutVerdict::NoVerdict
        }
        (ReportFormat::None, false, _) => HoldoutVerdict::Failed,
        (_, false, Some(failing)) if failing > 0 => HoldoutVerdict::Failed,
        // No complete report, or one that the exit code contradicts.
        _ => HoldoutVerdict::NoVerdict,
    }
}

/// Exit codes of a shell that did not start what it was told to.
pub const NO_PROGRAM: [i32; 2] = [126, 127];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::testing::contract_with_holdout;

    #[test]
    fn a_verdict_needs_an_end_of_its_own_and_a_report_that_agrees() {
        use HoldoutVerdict::{Failed, NoVerdict, Passed};
        let mut terms = contract_with_holdout().holdout.unwrap();
        let ended = |ended: &str, exit_code, signal| RunReceipt {
            command: Vec::new(),
            exit_code,
            signal,
            ended: ended.to_owned(),
            duration_ms: 1,
            survivors: 0,
        };
        let with = |code| ended("itself", Some(code), None);
        terms.success_exit_code = 3;
        for (run, verdict) in [
            (with(3), Passed),
            (with(0), Failed),
            (with(1), Failed),
            (with(126), NoVerdict),
            (with(127), NoVerdict),
            (ended("itself", None, Some(9)), NoVerdict),
            (ended("timed_out", Some(3), None), NoVerdict),
            (ended("deadline", Some(3), None), NoVerdict),
            (ended("output_limit", Some(3), None), NoVerdict),
        ] {
            assert_eq!(verdict_of(&terms, &run, None), verdict, "{run:?}");
        }
        terms.format = ReportFormat::Lines;
        for (run, failing, verdict) in [
            (with(3), Some(0), Passed),
            (with(3), Some(1), NoVerdict),
            (with(3), None, NoVerdict),
            (with(0), Some(0), NoVerdict),
            (with(0), Some(2), Failed),
            (with(0), None, NoVerdict),
            (with(127), Some(1), Failed),
            (ended("timed_out", None, Some(15)), Some(1), NoVerdict),
        ] {
            assert_eq!(verdict_of(&terms, &run, failing), verdict, "{run:?} {failing:?}");
        }
    }
}
