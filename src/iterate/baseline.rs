//! The check on the base, before any worker ran.

use super::commands::BASELINE;
use super::lasting::Shown;
use super::session::{Session, halt_body};
use crate::check::Format;
use crate::contract::Contract;
use crate::contract::file::MetricSource as MetricFrom;
use crate::decide::{HoldoutVerdict, target_met, wants_holdout_of_base};
use crate::error::{Error, Result};
use crate::exit::HaltReason;
use crate::ledger::append::{EvidenceFile, draft};
use crate::ledger::holdout::NO_PROGRAM;
use crate::ledger::message::one_line;
use crate::ledger::observe::{Compared, Observed, observe};
use crate::ledger::receipt::{CheckReceipt, HoldoutReceipt, SandboxReceipt};
use crate::ledger::record::{BaselineBody, Body, Role};

/// What the check says of the base.
pub(super) struct Measured {
    pub observed: Observed,
    pub sandbox: SandboxReceipt,
    pub evidence: Vec<EvidenceFile>,
    pub target_met: bool,
}

impl Measured {
    /// Why no candidate could be measured against this base, or most likely at all: its check shows nothing, neither
    /// green nor red.
    pub fn no_verdict(&self, contract: &Contract) -> Option<&str> {
        let problem = self.observed.receipt.problem.as_deref()?;
        (!self.is_red(contract)).then_some(problem)
    }

    /// Whether a check without a metric is a red one: it ended by itself, with another code than that of success, and
    /// its report says that the code does not even build; or the exit code is the metric, as then any code but that of
    /// success has none.
    fn is_red(&self, contract: &Contract) -> bool {
        let CheckReceipt { run, no_report, counts, .. } = &self.observed.receipt;
        let by_exit = contract.metric.from == MetricFrom::Exit;
        let shown = match contract.report_format() {
            Format::None => by_exit,
            format => {
                let failed = counts.as_ref().is_some_and(|counts| counts.failed > 0);
                let report = self.evidence.iter().find(|file| file.name == "report");
                let unbuilt = report
                    .and_then(|report| crate::check::parse(format, &report.content).err())
                    .is_some_and(|problem| problem.is_of_the_code());
                (unbuilt && run.signal.is_none()) || (by_exit && (failed || run.signal.is_some()))
            }
        };
        run.ended_red(contract) && no_report.is_none() && shown
    }

    /// The end of what the check printed: name of the evidence and text.
    pub fn printed(&self, contract: &Contract, lines: usize) -> Vec<(String, String)> {
        let report_is_file = contract.check.report.is_some();
        self.evidence
            .iter()
            .filter(|file| file.name.starts_with("check.") || (file.name == "report" && !report_is_file))
            .map(|file| (file.name.clone(), last_lines(&file.content, lines)))
            .filter(|(_, text)| !text.is_empty())
            .collect()
    }
}

/// What came of asking the holdout about the base.
enum Asked {
    /// It was not needed.
    Not,
    /// Somebody ended it.
    Interrupted,
    /// This.
    Said(Box<HoldoutReceipt>),
}

/// The last lines of an output.
fn last_lines(output: &[u8], count: usize) -> String {
    let text = String::from_utf8_lossy(output);
    let lines: Vec<&str> = text.trim_end().lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

impl Session<'_> {
    /// Runs the check on the base once.
    pub(super) fn measure_base(&self) -> Result<Option<Measured>> {
        let contract = &self.tip.contract;
        let base = contract.base;
        if !self.build_layers()? {
            return Ok(None);
        }
        let run = match self.run_check(BASELINE, base.tree, base.commit, self.repo.gix()) {
            Err(_) if self.interrupt.is_set() => return Ok(None),
            run => run?,
        };
        // Its worktree has no name of its own.
        self.cleaner.wait()?;
        if run.interrupted {
            return Ok(None);
        }
        self.note_layers()?;
        let observed = observe(contract, self.repo.hash_kind(), base.tree, &run.samples, Compared::default());
        let sandbox = SandboxReceipt {
            check: run.enforced,
            check_requests: run.requests.clone(),
            ..SandboxReceipt::default()
        };
        let evidence = run.into_evidence(observed.tests_json.clone());
        let target_met = observed
            .evidence
            .metric
            .is_some_and(|metric| target_met(contract, metric, observed.evidence.passing));
        Ok(Some(Measured { observed, sandbox, evidence, target_met }))
    }

    /// Asks the holdout about the green that a renewal goes on from, if that would be reviewed as it is.
    fn holdout_of_base(&self, target_met: bool) -> Result<Asked> {
        let contract = &self.tip.contract;
        if !wants_holdout_of_base(contract, target_met) {
            return Ok(Asked::Not);
        }
        (self.say)(&format!("{}: baseline: holdout", self.id));
        let Some(receipt) = self.run_holdout(BASELINE, contract.base.tree, self.repo.gix())? else {
            return Ok(Asked::Interrupted);
        };
        match &receipt.problem {
            None => Ok(Asked::Said(Box::new(receipt))),
            Some(problem) => Err(Error::workspace(format!(
                "the holdout gives no verdict on the base {}: {problem}",
                contract.base.commit.short()
            ))
            .hint(format!("mend what is missing on this machine, then go on: git loop run {}", self.id))),
        }
    }

    /// Nobody shall pay for attempts that cannot be judged. Nothing is recorded, so that the next run measures anew: what
    /// is at fault may be this machine.
    fn without_verdict(&self, measured: &Measured, problem: &str) -> Error {
        const LINES: usize = 10;
        let contract = &self.tip.contract;
        for (name, text) in measured.printed(contract, LINES) {
            (self.say)(&format!("{}: the end of {name}:", self.id));
            for line in text.lines() {
                (self.say)(&format!("{}:   {}", self.id, one_line(line, 200)));
            }
        }
        let mut error = Error::workspace(format!(
            "the check gives no verdict on the base {}, neither green nor red: {problem}",
            contract.base.commit.short()
        ));
        if measured.observed.receipt.run.exit_code.is_some_and(|code| NO_PROGRAM.contains(&code)) {
            error = error.hint("a program that it starts is not found or not executable in the sandbox");
        }
        if matches!(contract.metric.from, MetricFrom::Regex | MetricFrom::Json)
            && measured.observed.receipt.run.exit_code != Some(i32::from(contract.check.success_exit_code))
        {
            error = error.hint("a check that only prints a number must exit with check.success_exit_code");
        }
        error
            .hint(format!("mend what is missing on this machine, then go on: git loop run {}", self.id))
            .hint("or mend the check and start another loop; try it first: git loop start ID --dry-run")
            .hint("a base that does not build is red with format = \"libtest\", or where the exit code alone judges: metric.from = \"exit\", format = \"none\"")
    }

    /// Measures the base and records it. A base that meets the target already halts the loop. False if it was
    /// interrupted; nothing is recorded then.
    pub(super) fn baseline(&mut self) -> Result<bool> {
        let done = self.record_base();
        // It is recorded, or told.
        self.output.forget();
        done
    }

    fn record_base(&mut self) -> Result<bool> {
        (self.say)(&format!("{}: baseline: check", self.id));
        let Some(measured) = self.measure_base()? else {
            return Ok(false);
        };
        if let Some(problem) = measured.no_verdict(&self.tip.contract) {
            return Err(self.without_verdict(&measured, problem));
        }
        let Measured { observed, mut sandbox, mut evidence, target_met } = measured;
        let invariants = match self.invariants_of_base()? {
            None => None,
            Some(shown) if shown.interrupted => return Ok(false),
            Some(Shown { commands, requests, evidence: printed, .. }) => {
                self.cleaner.wait()?;
                evidence.extend(printed);
                if let Some(requests) = requests {
                    sandbox.check_requests.get_or_insert_default().append(requests);
                }
                Some(commands)
            }
        };
        let holdout = match self.holdout_of_base(target_met)? {
            Asked::Not => None,
            Asked::Interrupted => return Ok(false),
            Asked::Said(receipt) => Some(*receipt),
        };
        let red = holdout.as_ref().is_some_and(|holdout| holdout.verdict == HoldoutVerdict::Failed);
        let metric = observed.receipt.metric;
        let problem = observed.receipt.problem.clone();
        let base = self.tip.contract.base.commit;
        let layers = self.layers();
        let body = |evidence| {
            Body::Baseline(Box::new(BaselineBody {
                base,
                check: observed.receipt,
                holdout,
                invariants,
                sandbox,
                layers,
                target_met,
                evidence,
            }))
        };
        let now = self.now();
        let mut tip = draft(self.repo, &self.author, &self.tip, Role::Runner, body, evidence, now)?;
        let flaky = tip.state.due_halt.as_ref().is_some_and(|due| due.halt_reason == HaltReason::CheckFlaky);
        if let Some(due) = tip.state.due_halt.clone() {
            let halt = halt_body(&tip, due.by, due.halt_reason, &due.reason);
            tip = draft(self.repo, &self.author, &tip, Role::Runner, |_| Body::Halt(halt), Vec::new(), now)?;
        }
        self.publish(&tip, Vec::new(), "loop: baseline")?;
        self.tip = tip;
        let name = &self.tip.contract.metric.name;
        match (metric, problem) {
            _ if flaky => {
                (self.say)(&format!(
                    "{}: baseline: the runs of the check do not agree with each other",
                    self.id
                ));
            }
            (Some(metric), _) if red => {
                (self.say)(&format!(
                    "{}: baseline: {name} {metric}: the target is met, and the holdout is red",
                    self.id
                ));
            }
            (Some(metric), _) if target_met => {
                let already = if self.tip.contract.parent.is_some() { "" } else { " already" };
                (self.say)(&format!("{}: baseline: {name} {metric}: the target is met{already}", self.id));
            }
            (Some(metric), _) => (self.say)(&format!("{}: baseline: {name} {metric}", self.id)),
            (None, problem) => {
                let why = problem.as_deref().unwrap_or("the check gave none");
                (self.say)(&format!("{}: baseline: red, without a metric: {why}", self.id));
            }
        }
        Ok(true)
    }
}
