//! One run of a holdout: its own copy, the candidate beside it, and a verdict.

use std::fs;
use std::path::Path;

use super::folder::{self, Leaf};
use super::{find, is_frozen, unfit};
use crate::check::{Format, MAX_REPORT};
use crate::contract::frozen::HoldoutTerms;
use crate::decide::{self, HoldoutVerdict};
use crate::error::{Error, Result, ResultExt};
use crate::iterate::iteration::Draft;
use crate::iterate::left::{is_inside, read_capped};
use crate::iterate::outcome::run_receipt;
use crate::iterate::places::Scratch;
use crate::iterate::session::Session;
use crate::iterate::step::{Role, Step, Wanted};
use crate::ledger::holdout::{NO_PROGRAM, verdict_of};
use crate::ledger::receipt::{HoldoutReceipt, RunReceipt};
use crate::oid::Oid;
use crate::sandbox::{Ended, Outcome};
use crate::worktree::{self, CheckoutOptions, worktree_name};

/// Whether an iteration goes on after its holdout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::iterate) enum Held {
    /// It was not needed, or it gave what it gave.
    Done,
    /// Somebody ended it.
    Interrupted,
}

impl Session<'_> {
    /// Asks the holdout about the candidate, if the contract has one and the target is met. An error says that it could not be
    /// asked, and is no fault of the candidate.
    pub(in crate::iterate) fn hold_out(
        &self,
        draft: &mut Draft,
        tree: Oid,
        trees: &gix::Repository,
    ) -> Result<Held> {
        if !decide::wants_holdout(&self.tip.contract, &self.tip.state, &draft.facts) {
            return Ok(Held::Done);
        }
        (self.say)(&format!("{}: iteration {}: holdout", self.id, draft.iteration));
        // What it prints itself is kept nowhere, not even while it runs.
        self.write_held();
        let Some(receipt) = self.run_holdout(&draft.environment_id, tree, trees)? else {
            return Ok(Held::Interrupted);
        };
        draft.facts.holdout = Some(receipt.verdict);
        draft.holdout = Some(receipt);
        Ok(Held::Done)
    }

    /// Runs the holdout on `tree`; `None` if somebody ended it. `environment` names it.
    pub(in crate::iterate) fn run_holdout(
        &self,
        environment: &str,
        tree: Oid,
        trees: &gix::Repository,
    ) -> Result<Option<HoldoutReceipt>> {
        let contract = &self.tip.contract;
        let Some(terms) = &contract.holdout else {
            return Err(Error::internal("a holdout was asked for that the contract does not have"));
        };
        let real = find(self.repo, self.host, &self.tools, contract, self.adapter, terms)?;
        // Private, gone at the end, and of no other step: no worker or check runs while it is there.
        let scratch =
            self.places.scratch(&worktree_name(self.id.as_str(), &format!("{environment}-holdout")))?;
        let place = scratch.folder("holdout")?;
        let hash = self.repo.hash_kind();
        let copied =
            folder::read(&real, Some(&place), hash).map_err(|error| unfit(&error, super::INVALID))?;
        is_frozen(terms, &real, &copied)?;
        let candidate = scratch.folder("candidate")?;
        worktree::checkout(
            trees,
            tree.0,
            &candidate,
            CheckoutOptions { verify: true, ..CheckoutOptions::default() },
        )?;
        let report_path = terms.report.as_ref().map(|report| place.join(report));
        if report_path.as_ref().is_some_and(|path| fs::symlink_metadata(path).is_ok()) {
            return Err(Error::new(
                super::INVALID,
                format!("the holdout folder {} holds its report already", real.display()),
            )
            .hint("a report that is there before the run says nothing about it: renew the loop without it"));
        }
        let (step, outcome) = self.start_holdout(terms, &scratch, &place, &candidate)?;
        if outcome.ended == Ended::Interrupted {
            return Ok(None);
        }
        let run = run_receipt(step.argv(), &outcome, step.is_deadline);
        Ok(Some(judge(
            terms,
            run,
            &outcome,
            Left { place: &place, files: &copied.files, hash, report: report_path.as_deref() },
            copied.tree,
        )))
    }

    /// Starts the command and waits for its end.
    fn start_holdout(
        &self,
        terms: &HoldoutTerms,
        scratch: &Scratch,
        place: &Path,
        candidate: &Path,
    ) -> Result<(Step, Outcome)> {
        let mut step = self.step(&Wanted {
            role: Role::Holdout,
            command: &terms.command,
            place,
            scratch,
            network: &self.tip.contract.sandbox.check_network,
            seconds: terms.timeout_seconds,
        })?;
        step.set("GIT_LOOP_CANDIDATE", candidate);
        step.policy.readable.push(candidate.to_path_buf());
        step.command.merge_streams = terms.format == crate::contract::ReportFormat::Libtest;
        // What is not needed for the verdict is not even kept in memory.
        step.command.keep_whole = if reads_stdout(terms) { MAX_REPORT } else { 0 };
        step.command.head_tail = 0;
        let outcome = self
            .run_step(&step)
            .map_err(Error::from)
            .or_workspace(|| format!("the holdout in {} could not be started", terms.folder))?;
        Ok((step, outcome))
    }
}

/// Whether the verdict rests on what it prints.
fn reads_stdout(terms: &HoldoutTerms) -> bool {
    format(terms) != Format::None && !terms.format.is_file()
}

fn format(terms: &HoldoutTerms) -> Format {
    Format::parse_name(terms.format.as_str()).expect("a contract's format was checked when it was read")
}

/// What a run left on disk.
#[derive(Clone, Copy)]
struct Left<'a> {
    place: &'a Path,
    files: &'a [Leaf],
    hash: gix::hash::Kind,
    report: Option<&'a Path>,
}

/// What a run comes to. Every word of it is ours: what a holdout says could tell what it asks.
fn judge(
    terms: &HoldoutTerms,
    run: RunReceipt,
    outcome: &Outcome,
    left: Left<'_>,
    tree: Oid,
) -> HoldoutReceipt {
    let receipt = |run, verdict, failing, problem: Option<&str>| HoldoutReceipt {
        folder: tree,
        run,
        verdict,
        failing,
        problem: problem.map(ToOwned::to_owned),
        sandbox: outcome.enforced,
    };
    if folder::changed(left.files, left.place, left.hash).is_some() {
        // What it started runs with its rights, and may have rewritten what judges.
        return receipt(run, HoldoutVerdict::NoVerdict, None, Some("a file of it was changed while it ran"));
    }
    let report = match left.report {
        Some(path) => read_capped(path, MAX_REPORT as u64 + 1).filter(|_| is_inside(left.place, path)),
        None if reads_stdout(terms) => outcome.stdout.whole.clone(),
        None => None,
    };
    let sets = report.and_then(|bytes| crate::check::parse(format(terms), &bytes).ok().flatten());
    let failing = sets
        .filter(|sets| !sets.passed.is_empty() || !sets.failed.is_empty())
        .map(|sets| sets.failed.len() as u64)
        .filter(|_| run.ended == "itself");
    let verdict = verdict_of(terms, &run, failing);
    let problem = (verdict == HoldoutVerdict::NoVerdict).then(|| match (run.ended.as_str(), run.exit_code) {
        ("timed_out", _) => "it timed out",
        ("deadline", _) => "it ran into the end of the loop's time",
        ("disk_limit", _) => "its folders held more than sandbox.disk",
        ("output_limit", _) => "it printed more than may be captured",
        (_, None) => "a signal ended it",
        (_, Some(code)) if NO_PROGRAM.contains(&code) => {
            "a program that it starts is not there, or not executable"
        }
        _ if failing.is_none() => "it gave no complete report",
        _ => "its exit code and its report contradict each other",
    });
    receipt(run, verdict, failing, problem)
}
