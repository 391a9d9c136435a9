//! The check on the base, before any worker ran.

use super::commands::BASELINE;
use super::session::{Session, halt_body};
use crate::decide::target_met;
use crate::error::Result;
use crate::exit::HaltReason;
use crate::ledger::append::{EvidenceFile, draft};
use crate::ledger::observe::{Compared, Observed, observe};
use crate::ledger::receipt::SandboxReceipt;
use crate::ledger::record::{BaselineBody, Body, Role};

/// What the check says of the base.
pub(super) struct Measured {
    pub observed: Observed,
    pub sandbox: SandboxReceipt,
    pub evidence: Vec<EvidenceFile>,
    pub target_met: bool,
}

impl Session<'_> {
    /// Runs the check on the base once.
    pub(super) fn measure_base(&self) -> Result<Option<Measured>> {
        let contract = &self.tip.contract;
        let base = contract.base;
        let run = self.run_check(BASELINE, base.tree, base.commit, self.repo.gix())?;
        // Its worktree has no name of its own.
        self.cleaner.wait()?;
        if run.interrupted {
            return Ok(None);
        }
        let observed = observe(contract, self.repo.hash_kind(), base.tree, &run.samples, Compared::default());
        let sandbox = SandboxReceipt { worker: None, check: run.enforced };
        let evidence = run.into_evidence(observed.tests_json.clone());
        let target_met = observed
            .evidence
            .metric
            .is_some_and(|metric| target_met(contract, metric, observed.evidence.passing));
        Ok(Some(Measured { observed, sandbox, evidence, target_met }))
    }

    /// Measures the base and records it. A base that meets the target already halts the loop. False if it was
    /// interrupted; nothing is recorded then.
    pub(super) fn baseline(&mut self) -> Result<bool> {
        (self.say)(&format!("{}: baseline: check", self.id));
        let Some(Measured { observed, sandbox, evidence, target_met }) = self.measure_base()? else {
            return Ok(false);
        };
        let metric = observed.receipt.metric;
        let problem = observed.receipt.problem.clone();
        let base = self.tip.contract.base.commit;
        let body = |evidence| {
            Body::Baseline(Box::new(BaselineBody {
                base,
                check: observed.receipt,
                sandbox,
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
            (Some(metric), _) if target_met => {
                let already = if self.tip.contract.parent.is_some() { "" } else { " already" };
                (self.say)(&format!("{}: baseline: {name} {metric}: the target is met{already}", self.id));
            }
            (Some(metric), _) => (self.say)(&format!("{}: baseline: {name} {metric}", self.id)),
            (None, problem) => {
                let why = problem.as_deref().unwrap_or("the check gave none");
                (self.say)(&format!("{}: baseline: no metric: {why}", self.id));
                (self.say)(&format!(
                    "hint: if that is not what is to be mended: git loop show {} 0",
                    self.id
                ));
            }
        }
        Ok(true)
    }
}
