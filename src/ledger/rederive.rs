//! The verdict and the decision of a record, derived again from the objects it names.

use gix::bstr::{BString, ByteSlice};

use super::holdout::holdout_fits;
use super::lasting::{Brought, LastingReceipt, baseline_fits, brought_again, lasting_again};
use super::load::read as read_bounded;
use super::observe::{
    Capture, Compared, Observed, Sample, evidence_name, has_metric_source, observe, writes_verdict,
};
use super::outside::{OutsideError, OutsideVerdict, Subject};
use super::receipt::{
    ChangesReceipt, CheckReceipt, ContextEntry, CostBasis, GuardViolation, GuardsReceipt, LISTED_GUARDS,
    NoReport, RECEIPT_SCHEMA, Receipt, RunReceipt, SandboxReceipt, Unlisted,
};
use super::record::{Body, EvidenceEntry, IterationBody, Record, Role};
use super::state::State;
use super::trust::{NotTrusted, TrustRoot};
use crate::at::At;
use crate::check::TestSets;
use crate::contract::{CommandLine, Contract, Guards, NetworkTerms, PathSets};
use crate::decide::{
    Evidence, decide, decides_without_check, remaining, reservation, target_met, wants_holdout,
    wants_holdout_of_base,
};
use crate::escape::{escape_path, unescape_path};
use crate::git::{Bound, ObjectError, Repo, TreesInMemory};
use crate::guard::tree::Mode;
use crate::guard::{self, DiffError, TreeJudgement};
use crate::money::MicroUsd;
use crate::oid::Oid;
use crate::sandbox::egress::Target;
use crate::sandbox::{Adapter, Enforcement, NetworkEnforced};
use crate::sign::GIT_NAMESPACE;
use crate::sign::sshsig::{self, SignatureError};
use crate::sign::{CommitError, parse_signed};

/// How many changed paths a receipt lists.
pub const LISTED_CHANGES: usize = 200;

/// Why a recorded verdict or decision does not follow from its evidence.
#[derive(Debug, thiserror::Error)]
pub enum RederiveError {
    /// An object is missing or corrupt.
    #[error(transparent)]
    Object(#[from] ObjectError),
    /// Two trees cannot be compared.
    #[error(transparent)]
    Diff(#[from] DiffError),
    /// A tree is malformed.
    #[error(transparent)]
    Tree(#[from] guard::tree::TreeError),
    /// The candidate is not the commit it should be.
    #[error("candidate {candidate}: {why}")]
    Candidate {
        /// The commit.
        candidate: Oid,
        /// What is wrong.
        why: String,
    },
    /// The candidate is malformed.
    #[error("candidate: {0}")]
    CandidateObject(#[from] CommitError),
    /// The candidate's signature is not valid.
    #[error("candidate: signature: {0}")]
    CandidateSignature(#[from] SignatureError),
    /// The signer of the candidate is not trusted.
    #[error("candidate: {0}")]
    CandidateSigner(#[from] NotTrusted),
    /// A field of the receipt is not what its evidence gives.
    #[error("{field}: the record says {found}, the evidence gives {expected}")]
    Differs {
        /// The field.
        field: &'static str,
        /// What the record says.
        found: String,
        /// What the evidence gives.
        expected: String,
    },
    /// Evidence that no verdict of this contract rests on has the name of one that does.
    #[error("evidence/{0} is there, and this contract has no such evidence")]
    Stray(String),
    /// Evidence that the verdict rests on is not there.
    #[error("evidence/{0} is missing, and the verdict rests on it")]
    NoEvidence(&'static str),
    /// The verdict that was brought is not about this, or not by a verifier.
    #[error(transparent)]
    Outside(#[from] OutsideError),
    /// What the promotion packet cites cannot be looked up.
    #[error("what the promotion packet cites cannot be read: {0}")]
    Cited(String),
    /// The change cannot be measured again.
    #[error("the change cannot be measured again: {0}")]
    Measured(String),
    /// The tests of the baseline or of green cannot be read.
    #[error("the list of tests {0} cannot be read: {1}")]
    Tests(Oid, String),
}

/// What the derivation starts from.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// Where the objects are.
    pub repo: &'a Repo,
    /// Who is trusted.
    pub trust: &'a TrustRoot,
    /// The terms.
    pub contract: &'a Contract,
    /// The contract's patterns and frozen paths, compiled.
    pub guards: &'a Guards,
    /// The contract record.
    pub contract_record: Oid,
    /// The state before the record.
    pub before: &'a State,
    /// Whether a change to lasting code is measured again; else what was measured is believed.
    pub measures: bool,
}

/// Derives again what `record` claims. Gives what an iteration was decided by.
pub fn rederive(
    context: &Context<'_>,
    record: &Record,
    evidence: &[(BString, Oid)],
) -> Result<Option<Evidence>, RederiveError> {
    match &record.body {
        Body::Baseline(body) => {
            let contract = context.contract;
            same("sandbox.worker", &body.sandbox.worker, &None)?;
            check_fits(contract, &body.check, body.sandbox.check.as_ref())?;
            let enforced = body.sandbox.check.as_ref();
            same("sandbox.check", &enforced.is_none_or(|one| is_allowed(contract, one)), &true)?;
            requests_fit(contract, &body.sandbox)?;
            same("check.tree", &body.check.tree, &context.contract.base.tree)?;
            let (observed, _) = check_again(context, &body.check, evidence, false)?;
            baseline_fits(contract, body.invariants.as_ref())?;
            let met = observed
                .evidence
                .metric
                .is_some_and(|metric| target_met(context.contract, metric, observed.evidence.passing));
            same("target_met", &body.target_met, &met)?;
            same("holdout", &body.holdout.is_some(), &wants_holdout_of_base(contract, met))?;
            holdout_fits(contract, body.holdout.as_ref())?;
            kept_whole(context, &body.evidence)?;
            Ok(None)
        }
        Body::Iteration(body) => iteration(context, record, body, evidence).map(Some),
        Body::Checkpoint(body) => {
            let elapsed = context.before.elapsed_seconds(record.at);
            same("remaining", &body.remaining, &remaining(context.contract, context.before, elapsed))?;
            same("reservation_usd", &body.reservation_usd, &reservation(context.contract, context.before))?;
            same("context", &body.context.iter().all(is_context), &true)?;
            let allowed = &context.contract.sandbox.allowed;
            same("adapter", &allowed.iter().any(|adapter| adapter.as_str() == body.adapter), &true)?;
            Ok(None)
        }
        Body::Promotion(body) => {
            same("candidate_tree", &body.candidate_tree, &Oid(context.repo.commit_tree(body.candidate.0)?))?;
            Ok(None)
        }
        _ => Ok(None),
    }
}

fn iteration(
    context: &Context<'_>,
    record: &Record,
    body: &IterationBody,
    evidence: &[(BString, Oid)],
) -> Result<Evidence, RederiveError> {
    let receipt = &body.receipt;
    let contract = context.contract;
    same("receipt.schema", &receipt.schema.as_str(), &RECEIPT_SCHEMA)?;
    same("receipt.loop", &receipt.loop_id, &contract.loop_id)?;
    same("receipt.model", &receipt.model, &contract.worker.model)?;
    same("receipt.sampling", &receipt.sampling, &contract.worker.sampling)?;
    same("receipt.cost.basis", &(receipt.cost.basis == CostBasis::None), &contract.worker.costs_nothing())?;
    same("receipt.cost.usd", &(receipt.cost.basis == CostBasis::Unknown), &receipt.cost.usd.is_none())?;
    if contract.worker.costs_nothing() {
        same("receipt.cost.usd", &receipt.cost.usd, &Some(MicroUsd::ZERO))?;
    }
    if receipt.cost.basis == CostBasis::Reserved {
        // Only what was never heard of again is charged a guess, and no less than was announced.
        same("receipt.abandoned", &receipt.abandoned.is_some(), &true)?;
        let reserved = context.before.checkpoint.as_ref().map(|open| open.reservation_usd);
        same("receipt.cost.usd", &receipt.cost.usd.max(reserved), &receipt.cost.usd)?;
    }
    if receipt.abandoned.is_some() && receipt.worker.is_none() && receipt.outside.is_none() {
        // Nobody was there to report anything.
        let basis = receipt.cost.basis;
        let is_a_guess = matches!(basis, CostBasis::Reserved | CostBasis::None);
        same("receipt.cost.basis", &is_a_guess, &true)?;
    }
    consistent(contract, receipt)?;
    holdout_fits(contract, receipt.holdout.as_ref())?;
    requests_fit(contract, &receipt.sandbox)?;
    for enforced in [&receipt.sandbox.worker, &receipt.sandbox.check].into_iter().flatten() {
        same("receipt.sandbox", &is_allowed(contract, enforced), &true)?;
    }
    same("receipt.contract", &receipt.contract, &context.contract_record)?;
    let mut derived = Evidence {
        worker_failed: receipt.worker.as_ref().is_some_and(|worker| worker.failure.is_some()),
        usd: receipt.cost.usd,
        cost_known: receipt.cost.basis == CostBasis::Reported,
        tokens: receipt
            .cost
            .prompt_tokens
            .unwrap_or(0)
            .saturating_add(receipt.cost.completion_tokens.unwrap_or(0)),
        elapsed_seconds: context.before.elapsed_seconds(record.at),
        abandoned: receipt.abandoned.is_some(),
        hit_deadline: hit_deadline(receipt),
        tampered: receipt.guards.tampered_count(),
        holdout: receipt.holdout.as_ref().map(|holdout| holdout.verdict),
        ..Evidence::default()
    };
    same("elapsed_seconds", &receipt.elapsed_seconds, &derived.elapsed_seconds)?;
    same("candidate_tree", &receipt.candidate_tree.is_some(), &receipt.candidate.is_some())?;
    if let (Some(candidate), Some(tree)) = (receipt.candidate, receipt.candidate_tree) {
        check_candidate(context, receipt, candidate, tree)?;
        let judged = judge_tree(context.repo, context.guards, receipt.base, tree)?;
        only_modes_that_git_writes(candidate, &judged)?;
        let guards = guards_receipt(&judged, &receipt.guards.tampered, &receipt.guards.left_out);
        let guards = as_listed(guards, &receipt.guards);
        same("guards", &receipt.guards, &guards)?;
        same("changes", &receipt.changes, &changes_receipt(&judged))?;
        fill(&mut derived, &judged, &guards);
    } else if receipt.abandoned.is_none() {
        return Err(RederiveError::Differs {
            field: "candidate",
            found: "null".to_owned(),
            expected: "a candidate, or a reason in `abandoned`".to_owned(),
        });
    } else {
        let guards = as_listed(without_candidate(&receipt.guards), &receipt.guards);
        same("guards", &receipt.guards, &guards)?;
        same("changes", &receipt.changes, &ChangesReceipt { count: 0, paths: Vec::new() })?;
    }
    let brought = brought_again(context, receipt, evidence)?;
    derived.packet = brought.as_ref().map(Brought::standing).unwrap_or_default();
    let mut samples = Vec::new();
    if let Some(check) = &receipt.check {
        let Some(tree) = receipt.candidate_tree else {
            return Err(RederiveError::Differs {
                field: "check",
                found: "a check".to_owned(),
                expected: "null, as there is no candidate".to_owned(),
            });
        };
        same("check.tree", &check.tree, &check_tree(context.repo, context.guards, tree)?)?;
        if contract.check.external {
            outside_verdict(context, record, receipt, check, evidence)?;
        }
        let (observed, runs) = check_again(context, check, evidence, true)?;
        samples = runs;
        derived.check = Some(observed.evidence);
    } else if !derived.abandoned && !decides_without_check(contract, context.before, &derived) {
        return Err(RederiveError::NoEvidence("report"));
    } else {
        no_strays(contract, evidence, 0)?;
    }
    lasting_again(context, receipt, brought, &samples, &mut derived)?;
    // It is run exactly where the target is met. What somebody appended meanwhile may decide all the same.
    let met = derived
        .check
        .as_ref()
        .is_some_and(|check| check.metric.is_some_and(|metric| target_met(contract, metric, check.passing)));
    let wanted = wants_holdout(contract, context.before, &derived);
    same("holdout", &receipt.holdout.is_some(), &(wanted || (met && receipt.holdout.is_some())))?;
    let decision = decide(contract, context.before, &derived);
    kept_whole(context, &body.evidence)?;
    same("decision", &receipt.decision, &decision)?;
    Ok(derived)
}

/// Whether an entry of a context could be one: a path as paths are written, and a SHA-256.
fn is_context(entry: &ContextEntry) -> bool {
    let sha256 = entry.content_sha256.as_bytes();
    let digits = sha256.iter().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
    sha256.len() == 64 && digits && unescape_path(&entry.path).is_ok_and(|path| !path.is_empty())
}

/// Whether a run ended in one way: by itself with an exit code, or by a signal.
pub(super) fn ended_once(field: &'static str, run: &RunReceipt) -> Result<(), RederiveError> {
    same(field, &(run.exit_code.is_some() && run.signal.is_some()), &false)
}

/// What old repositories have is kept; nothing new is made in another way than git makes it.
pub fn only_modes_that_git_writes(candidate: Oid, judged: &TreeJudgement) -> Result<(), RederiveError> {
    let old = |side: Option<(Mode, _)>| side.is_some_and(|(mode, _)| mode == Mode::GroupFile);
    match judged.changes.iter().find(|change| old(change.new) && !old(change.old)) {
        None => Ok(()),
        Some(change) => Err(RederiveError::Candidate {
            candidate,
            why: format!(
                "{} has the mode 100664, which git does not write",
                escape_path(change.path.as_bstr())
            ),
        }),
    }
}

/// Whether the contract allows the adapter that something ran in.
pub(super) fn is_allowed(contract: &Contract, enforced: &Enforcement) -> bool {
    contract.sandbox.allowed.iter().any(|adapter| adapter.as_str() == enforced.adapter.to_string())
}

/// Whether a file under `evidence/` is of a check: what its verdict rests on, or what it printed.
pub fn is_of_check(name: &str) -> bool {
    let base = base_name(name).0;
    WHOLE.contains(&base) || matches!(base, "check.stdout" | "check.stderr")
}

/// The files that a verdict rests on; they are never cut.
const WHOLE: [&str; 5] = ["report", "report.sig", "metric-source", "verdict", "tests.json"];

/// Whether what is never cut is said not to be, and has the size that is said.
fn kept_whole(context: &Context<'_>, evidence: &[EvidenceEntry]) -> Result<(), RederiveError> {
    // Rows 5, 11, 12 and 18 rest on what the worker wrote.
    let lasting = context.contract.judged_as_lasting().is_some();
    let whole = |entry: &&EvidenceEntry| {
        WHOLE.contains(&base_name(&entry.name).0) || (lasting && entry.name == "worker.json")
    };
    for entry in evidence.iter().filter(whole) {
        same("evidence.truncated", &entry.truncated, &false)?;
        let (_, size) = context.repo.object_header(entry.id.0)?;
        same("evidence.bytes", &entry.bytes, &size)?;
    }
    Ok(())
}

/// The name of a file under `evidence/` without the number of its run, and that number. One that no run has is 0.
fn base_name(name: &str) -> (&str, usize) {
    match name.rsplit_once('-') {
        Some((base, digits)) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            let number = digits.parse().unwrap_or(0);
            (base, if evidence_name(base, number) == name { number } else { 0 })
        }
        _ => (name, 1),
    }
}

/// Refuses files that have the name of what a verdict rests on, and on which none does. `runs` is how often the check ran.
fn no_strays(contract: &Contract, evidence: &[(BString, Oid)], runs: usize) -> Result<(), RederiveError> {
    for (name, _) in evidence {
        let (base, number) = name.to_str().map_or(("", 0), base_name);
        let there = (1..=runs).contains(&number);
        let read = match base {
            "report" => there,
            "metric-source" => there && has_metric_source(contract),
            "verdict" => there && writes_verdict(contract),
            "report.sig" => runs == 1 && number == 1 && contract.check.external,
            "tests.json" => runs > 0 && number == 1,
            _ => continue,
        };
        if !read {
            return Err(RederiveError::Stray(name.to_string()));
        }
    }
    Ok(())
}

/// What the guards say where there is no candidate: only what the runner saw.
fn without_candidate(guards: &GuardsReceipt) -> GuardsReceipt {
    GuardsReceipt {
        guards_intact: guards.tampered.is_empty() && guards.left_out.is_empty(),
        tampered: guards.tampered.clone(),
        left_out: guards.left_out.clone(),
        drift: Vec::new(),
        blocked: Vec::new(),
        outside: Vec::new(),
        more: None,
    }
}

/// What the guards found as `told` may list it: all of it, as it was once written, or the first of each and how many more. What only
/// the runner saw it may have cut as well.
fn as_listed(found: GuardsReceipt, told: &GuardsReceipt) -> GuardsReceipt {
    let Some(said) = told.more else { return found };
    let seen = |list: &[GuardViolation], more: u64| if list.len() == LISTED_GUARDS { more } else { 0 };
    let mut listed = found.bounded();
    let mut more = listed.more.unwrap_or_default();
    more.tampered += seen(&told.tampered, said.tampered);
    more.left_out += seen(&told.left_out, said.left_out);
    listed.more = (more != Unlisted::default()).then_some(more);
    listed
}

/// Whether what a receipt says of its runs fits the contract and itself. That it was so is the runner's word; that it
/// could have been so is not.
fn consistent(contract: &Contract, receipt: &Receipt) -> Result<(), RederiveError> {
    let sandbox = &contract.sandbox;
    if let Some(worker) = &receipt.worker {
        same("worker.agent", &worker.agent, &contract.worker.agent)?;
        ended_once("worker.run.signal", &worker.run)?;
        same("worker.run.command", &fits(&contract.worker.command, &worker.run.command), &true)?;
        let failed = worker.run.ended != "itself" || worker.run.exit_code != Some(0);
        same("worker.failure", &worker.failure.is_some(), &failed)?;
        cpus_fit("sandbox.worker", receipt.sandbox.worker.as_ref(), None)?;
        enforced_fits(
            "sandbox.worker",
            receipt.sandbox.worker.as_ref(),
            &worker.run,
            &sandbox.worker_network,
        )?;
    } else {
        same("sandbox.worker", &receipt.sandbox.worker, &None)?;
        if receipt.abandoned.is_none() && receipt.outside.is_none() {
            return Err(RederiveError::Differs {
                field: "worker",
                found: "null".to_owned(),
                expected: "a run, as the iteration was not abandoned".to_owned(),
            });
        }
    }
    if let Some(outside) = &receipt.outside {
        same("worker", &receipt.worker, &None)?;
        let adapter = outside.adapter.as_ref();
        let allowed = adapter.is_none_or(|name| sandbox.allowed.iter().any(|one| one.as_str() == name));
        same("outside.adapter", &allowed, &true)?;
    }
    if contract.check.external {
        same("sandbox.check", &receipt.sandbox.check, &None)?;
    } else if let Some(check) = &receipt.check {
        check_fits(contract, check, receipt.sandbox.check.as_ref())?;
    } else if receipt.abandoned.is_none() {
        same("sandbox.check", &receipt.sandbox.check, &None)?;
    }
    same("determinism_confidence", &receipt.determinism_confidence, &None)
}

/// Whether what is said of the runs of a check here fits the contract.
fn check_fits(
    contract: &Contract,
    check: &CheckReceipt,
    enforced: Option<&Enforcement>,
) -> Result<(), RederiveError> {
    same("check.run.command", &fits(&contract.check.command, &check.run.command), &true)?;
    ended_once("check.run.signal", &check.run)?;
    for one in &check.runs {
        ended_once("check.runs.run.signal", &one.run)?;
        same("check.runs.run.command", &one.run.command, &check.run.command)?;
    }
    cpus_fit("sandbox.check", enforced, contract.check.cpus)?;
    enforced_fits("sandbox.check", enforced, &check.run, &contract.sandbox.check_network)
}

/// Whether a command was held to as many processors as the contract says.
pub(super) fn cpus_fit(
    field: &'static str,
    enforced: Option<&Enforcement>,
    cpus: Option<u32>,
) -> Result<(), RederiveError> {
    enforced.map_or(Ok(()), |enforced| same(field, &enforced.cpus, &cpus))
}

/// Whether `found` is how `command` is run: the same words, but that the program is named by where it lies.
pub(super) fn fits(command: &CommandLine, found: &[String]) -> bool {
    let base = |word: &str| word.rsplit(['/', '\\']).next().unwrap_or_default().to_owned();
    match command {
        CommandLine::Exec(words) => match (words.split_first(), found.split_first()) {
            (Some((program, rest)), Some((run, words))) => base(program) == base(run) && rest == words,
            _ => false,
        },
        CommandLine::Shell(line) => found.last() == Some(line),
    }
}

/// Whether an adapter's report fits what the contract asks for. A command that could not be started has none.
pub(super) fn enforced_fits(
    field: &'static str,
    enforced: Option<&Enforcement>,
    run: &RunReceipt,
    network: &NetworkTerms,
) -> Result<(), RederiveError> {
    let Some(enforced) = enforced else {
        return same(field, &run.exit_code, &Some(NOT_STARTED));
    };
    // No more than was asked for: a list is more than nothing.
    let network = match network {
        NetworkTerms::Host => true,
        NetworkTerms::Allow(_) => enforced.network != NetworkEnforced::Host,
        NetworkTerms::None => {
            !matches!(enforced.network, NetworkEnforced::Host | NetworkEnforced::AllowNamespace)
        }
    };
    // Landlock has had a number from its first version on.
    let version = enforced.landlock_abi.map_or(enforced.adapter != Adapter::Landlock, |abi| abi > 0);
    let fits = network && version && (enforced.filesystem || enforced.adapter == Adapter::None);
    same(field, &fits, &true)
}

/// Whether what is said of requests fits the lists of hosts of the contract.
fn requests_fit(contract: &Contract, sandbox: &SandboxReceipt) -> Result<(), RederiveError> {
    let terms = &contract.sandbox;
    for (field, ran, requests, network) in [
        ("sandbox.worker_requests", &sandbox.worker, &sandbox.worker_requests, &terms.worker_network),
        ("sandbox.check_requests", &sandbox.check, &sandbox.check_requests, &terms.check_network),
    ] {
        let listed = matches!(network, NetworkTerms::Allow(_));
        same(field, &requests.is_some(), &(listed && ran.is_some()))?;
        let rules = network.rules();
        for request in requests.iter().flat_map(|requests| &requests.requests) {
            let target = Target { host: request.host.clone(), port: request.port };
            same(field, &request.allowed, &request.why.is_none())?;
            same(field, &(!request.allowed || target.allowed_by(&rules)), &true)?;
        }
    }
    Ok(())
}

/// The exit code of a command that could not be started, as a shell gives it.
pub const NOT_STARTED: i32 = 127;

/// Whether the worker, the check, the holdout or a command of lasting code ran into what was left of the loop's time.
pub fn hit_deadline(receipt: &Receipt) -> bool {
    let holdout = receipt.holdout.as_ref().map(|holdout| &holdout.run);
    let lasting = receipt.lasting.iter().flat_map(LastingReceipt::runs);
    let runs =
        receipt.worker.as_ref().map(|worker| &worker.run).into_iter().chain(holdout).chain(lasting).chain(
            receipt
                .check
                .iter()
                .flat_map(|check| std::iter::once(&check.run).chain(check.runs.iter().map(|one| &one.run))),
        );
    runs.into_iter().any(|run| run.ended == "deadline")
}

/// What the guards say about a candidate's tree.
pub fn judge_tree(
    repo: &Repo,
    guards: &Guards,
    base: Oid,
    tree: Oid,
) -> Result<TreeJudgement, RederiveError> {
    let PathSets { mutable, check, blocked } = &guards.sets;
    let green = repo.commit_tree(base.0)?;
    Ok(guard::judge(
        &TreesInMemory::new(repo),
        guard::Paths { mutable, check, blocked },
        &guards.frozen,
        &green,
        &tree.0,
        &[],
    )?)
}

/// The tree that the check runs on: the candidate's with every check path replaced by its frozen object. Its objects
/// stay in memory.
pub fn check_tree(repo: &Repo, guards: &Guards, tree: Oid) -> Result<Oid, RederiveError> {
    Ok(Oid(guard::check_tree(&TreesInMemory::new(repo), &tree.0, &guards.frozen, &guards.sets.check)?))
}

/// The same, with new objects where `trees` puts them.
pub fn check_tree_in(trees: &gix::Repository, guards: &Guards, tree: Oid) -> Result<Oid, RederiveError> {
    Ok(Oid(guard::check_tree(trees, &tree.0, &guards.frozen, &guards.sets.check)?))
}

/// Puts what the guards found into the evidence.
pub fn fill(evidence: &mut Evidence, judged: &TreeJudgement, guards: &GuardsReceipt) {
    evidence.drifted = judged.drift.len();
    evidence.blocked_paths = judged.blocked.len() + guards.left_out_count();
    evidence.outside = judged.outside.len();
    evidence.unchanged = judged.unchanged;
}

/// What the guards found, for the receipt.
pub fn guards_receipt(
    judged: &TreeJudgement,
    tampered: &[GuardViolation],
    left_out: &[GuardViolation],
) -> GuardsReceipt {
    let list = |violations: &[guard::Violation]| -> Vec<GuardViolation> {
        violations
            .iter()
            .map(|violation| GuardViolation {
                path: violation.path.clone(),
                what: match &violation.other {
                    Some(other) => format!("{} ({other})", violation.what),
                    None => violation.what.clone(),
                },
            })
            .collect()
    };
    let (drift, blocked) = (list(&judged.drift), list(&judged.blocked));
    GuardsReceipt {
        guards_intact: drift.is_empty() && blocked.is_empty() && tampered.is_empty() && left_out.is_empty(),
        drift,
        blocked,
        tampered: tampered.to_vec(),
        left_out: left_out.to_vec(),
        more: None,
        outside: judged.outside.iter().map(|path| escape_path(path.as_bstr())).collect(),
    }
}

/// What the candidate changed, for the receipt.
pub fn changes_receipt(judged: &TreeJudgement) -> ChangesReceipt {
    ChangesReceipt {
        count: judged.changes.len() as u64,
        paths: judged
            .changes
            .iter()
            .take(LISTED_CHANGES)
            .map(|change| escape_path(change.path.as_bstr()))
            .collect(),
    }
}

/// Whether the verdict that was brought is about this candidate, and signed by a verifier.
fn outside_verdict(
    context: &Context<'_>,
    record: &Record,
    receipt: &Receipt,
    check: &CheckReceipt,
    evidence: &[(BString, Oid)],
) -> Result<(), RederiveError> {
    let read = |name: &'static str| -> Result<Vec<u8>, RederiveError> {
        let kept = evidence.iter().find(|(entry, _)| entry == name).ok_or(RederiveError::NoEvidence(name))?;
        Ok(read_bounded(context.repo, kept.1, Bound::REPORT)?)
    };
    let (bytes, signature) = (read("report")?, read("report.sig")?);
    let subject = Subject {
        checkpoint: receipt.checkpoint,
        candidate_tree: receipt.candidate_tree.unwrap_or(check.tree),
        check_tree: check.tree,
    };
    let (contract, runner) = (context.contract, record.actor.key.as_str());
    let verdict =
        OutsideVerdict::verified(&bytes, &signature, contract, subject, context.trust, record.at, runner)?;
    same("check.run", &check.run, &outside_run(verdict.exit_code))
}

/// How a check that ran elsewhere is put down.
pub fn outside_run(exit_code: i32) -> RunReceipt {
    RunReceipt {
        command: Vec::new(),
        exit_code: Some(exit_code),
        signal: None,
        ended: "itself".to_owned(),
        duration_ms: 0,
        survivors: 0,
    }
}

fn check_again(
    context: &Context<'_>,
    check: &CheckReceipt,
    evidence: &[(BString, Oid)],
    compare: bool,
) -> Result<(Observed, Vec<Sample>), RederiveError> {
    let find = |name: &str| evidence.iter().find(|(entry, _)| entry == name).map(|(_, id)| *id);
    let sample = |number: usize, run: &RunReceipt, named: Option<Oid>, no_report: Option<NoReport>| {
        let report = match named {
            Some(named) => {
                let kept =
                    find(&evidence_name("report", number)).ok_or(RederiveError::NoEvidence("report"))?;
                same("check.report", &named, &kept)?;
                Some(read_bounded(context.repo, kept, Bound::REPORT)?)
            }
            None => None,
        };
        same("check.no_report", &no_report.is_some(), &report.is_none())?;
        let kept = |name: &str, bound: Bound| match find(&evidence_name(name, number)) {
            Some(id) => read_bounded(context.repo, id, bound).map(Some),
            None => Ok(None),
        };
        let metric_source = kept("metric-source", Bound::METRIC_SOURCE)?;
        let verdict = kept("verdict", Bound::REPORT)?;
        Ok(Sample { run: run.clone(), capture: Capture { report, metric_source, verdict, no_report } })
    };
    let samples: Vec<Sample> = if check.runs.is_empty() {
        vec![sample(1, &check.run, check.report, check.no_report)?]
    } else {
        let numbered = check.runs.iter().zip(1..);
        numbered
            .map(|(one, number)| sample(number, &one.run, one.report, one.no_report))
            .collect::<Result<_, RederiveError>>()?
    };
    no_strays(context.contract, evidence, samples.len())?;
    // A run that gives no verdict is the last; else there are as many as the contract asks for.
    let early = samples.iter().position(|sample| sample.has_problem(context.contract));
    let expected = early.map_or(context.contract.metric.repeat as usize, |at| at + 1);
    same("check.runs", &samples.len(), &expected)?;
    let baseline = tests(context, context.before.baseline.as_ref().and_then(|baseline| baseline.tests))?;
    let green = tests(context, context.before.counters.green_tests)?;
    let compared = if compare {
        Compared { baseline: baseline.as_ref(), green: green.as_ref() }
    } else {
        Compared::default()
    };
    let observed = observe(context.contract, context.repo.hash_kind(), check.tree, &samples, compared);
    same("check.metric", &check.metric, &observed.receipt.metric)?;
    let mut expected = observed.receipt.clone();
    if let (Some(problem), Some(recorded)) = (&mut expected.problem, &check.problem) {
        // That there is a problem is derived; in which words it is told may change with the parsers.
        problem.clone_from(recorded);
    }
    for (expected, recorded) in expected.runs.iter_mut().zip(&check.runs) {
        if let (Some(problem), Some(recorded)) = (&mut expected.problem, &recorded.problem) {
            problem.clone_from(recorded);
        }
    }
    same("check", check, &expected)?;
    same("evidence/tests.json", &find("tests.json"), &observed.receipt.tests)?;
    Ok((observed, samples))
}

/// The lists of tests that `blob` holds.
pub fn tests(context: &Context<'_>, blob: Option<Oid>) -> Result<Option<TestSets>, RederiveError> {
    let Some(id) = blob else { return Ok(None) };
    let bytes = read_bounded(context.repo, id, Bound::TESTS)?;
    crate::canonical::read_canonical(&bytes)
        .map(Some)
        .map_err(|error| RederiveError::Tests(id, error.to_string()))
}

fn check_candidate(
    context: &Context<'_>,
    receipt: &Receipt,
    candidate: Oid,
    tree: Oid,
) -> Result<(), RederiveError> {
    let wrong = |why: String| RederiveError::Candidate { candidate, why };
    let raw = context.repo.read_at_most(candidate.0, gix::object::Kind::Commit, Bound::RECORD_COMMIT)?;
    let signed = parse_signed(&raw, context.repo.hash_kind())?;
    if signed.commit.tree != tree.0 {
        return Err(wrong(format!("its tree is {}, the receipt names {tree}", signed.commit.tree)));
    }
    if signed.commit.parents != [receipt.base.0] {
        return Err(wrong(format!(
            "its parents are {:?}, it must be on top of {}",
            signed.commit.parents, receipt.base
        )));
    }
    if let Some((name, _)) = signed.commit.extra_headers.first() {
        return Err(wrong(format!("it has a header `{name}` that no candidate has")));
    }
    if signed.commit.author.offset != 0 || signed.commit.committer.offset != 0 {
        return Err(wrong("its dates are not in +0000".to_owned()));
    }
    let message = candidate_message(&receipt.loop_id, receipt.iteration, &receipt.environment_id);
    if signed.commit.message != message.as_str() {
        return Err(wrong("its message does not name this loop, iteration and environment".to_owned()));
    }
    let signature = signed.signature.ok_or_else(|| wrong("it is not signed".to_owned()))?;
    let by = sshsig::verify(&signature, GIT_NAMESPACE, &signed.payload)?;
    let at = At::from_seconds(signed.commit.committer.seconds)
        .ok_or_else(|| wrong("it has no proper date".to_owned()))?;
    let mut refused = None;
    for runner in context.contract.roles.of(Role::Runner) {
        match context.trust.check(runner, &by.key, at) {
            Ok(()) => return Ok(()),
            Err(why) => refused = Some(why),
        }
    }
    Err(refused.map_or_else(|| wrong("the contract names no runner".to_owned()), RederiveError::from))
}

/// The message of a candidate.
pub fn candidate_message(loop_id: &str, iteration: u32, environment_id: &str) -> String {
    format!(
        "Candidate of iteration {iteration} of loop {loop_id}\n\nLoop-Id: {loop_id}\nLoop-Iteration: {iteration}\nLoop-Environment: {environment_id}\n"
    )
}

pub(super) fn same<T: PartialEq + std::fmt::Debug>(
    field: &'static str,
    found: &T,
    expected: &T,
) -> Result<(), RederiveError> {
    if found == expected {
        return Ok(());
    }
    let cut = |text: String| {
        if text.len() > 300 { format!("{}…", text.chars().take(300).collect::<String>()) } else { text }
    };
    Err(RederiveError::Differs {
        field,
        found: cut(format!("{found:?}")),
        expected: cut(format!("{expected:?}")),
    })
}
