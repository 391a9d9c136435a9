//! Starting a loop: validate, freeze, sign. Nothing is run and no money is spent.

use gix::ObjectId;

use super::holdout;
use crate::at::At;
use crate::contract::file::History;
use crate::contract::frozen::RoleTerms;
use crate::contract::resolve::resolve;
use crate::contract::{Adapter, Class, Contract, LoopFile};
use crate::error::{Error, Kind, Result, ResultExt};
use crate::exit::HaltReason;
use crate::gate::POLICY_FILE;
use crate::git::Expect;
use crate::git::Repo;
use crate::git::{LoopId, LoopRefs};
use crate::ledger::append::{Author, Move, Tip, draft_contract, publish};
use crate::ledger::record::{Body, ContractBody};
use crate::ledger::trust::{TrustRoot, protected_branch};
use crate::sign::Signer;

/// The name and version that contracts are frozen by.
pub const TOOL: &str = concat!("git-loop ", env!("CARGO_PKG_VERSION"));

/// Refuses an id that is taken here.
pub fn must_be_new(repo: &Repo, refs: LoopRefs<'_>, id: &LoopId) -> Result<()> {
    for name in [refs.ledger(), refs.head()] {
        if repo.read_ref(name.as_ref()).or_workspace(|| format!("{name} cannot be read"))?.is_some() {
            return Err(Error::usage(format!("loop `{id}` exists already ({name})"))
                .hint(format!("an id is used once; choose another, or look at it: git loop status {id}")));
        }
    }
    Ok(())
}

/// Refuses a repository with a policy: it may demand a class for a path, and that is not built yet.
pub(super) fn no_policy(repo: &Repo) -> Result<()> {
    let Some((name, commit)) = protected_branch(repo)? else { return Ok(()) };
    let policy = repo
        .read_path_at(commit, POLICY_FILE)
        .or_workspace(|| format!("{name}:{POLICY_FILE} cannot be read"))?;
    match policy {
        None => Ok(()),
        Some(_) => Err(Error::refused(format!("{name} has a {POLICY_FILE}, and policies are not built yet"))
            .hint("a loop that ignored it would promise less than it; use a version that builds policies")),
    }
}

/// What terms are frozen for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// To be signed: the signing key must be an approver's.
    ToSign,
    /// To be looked at and thrown away: what stands in the way of signing is only told.
    ToRehearse,
}

/// A frozen contract and what its author should know; nothing is written but the tree of the frozen paths.
pub fn freeze(
    repo: &Repo,
    id: &LoopId,
    file: &LoopFile,
    base: ObjectId,
    trust: &TrustRoot,
    principals: &[String],
    purpose: Purpose,
) -> Result<(Contract, String, Vec<String>)> {
    no_policy(repo)?;
    // A key may stand for several principals; the contract says which of them approves.
    let starter = match &file.roles.approver {
        Some(approvers) => principals.iter().find(|one| approvers.contains(one)).or(principals.first()),
        None => principals.first(),
    };
    let starter = starter.cloned().ok_or_else(|| Error::workspace("the signing key has no principal"))?;
    let resolved = resolve(repo, id, file, base, trust, &starter)?;
    let (mut contract, mut warnings) = (resolved.contract, resolved.warnings);
    match (may_sign(&contract, &starter), purpose) {
        (Err(error), Purpose::ToSign) => return Err(error),
        (Err(error), Purpose::ToRehearse) => {
            let hints: Vec<&str> = error.hints().iter().map(|hint| &**hint).collect();
            warnings.push(format!("{error}: {}", hints.join("; ")));
        }
        (Ok(()), _) => {}
    }
    if let Some(terms) = &file.holdout {
        let (terms, told) = holdout::freeze(repo, &contract, terms)?;
        contract.holdout = Some(terms);
        warnings.extend(told);
    }
    repo.hold_tree(contract.frozen.tree.0)
        .or_workspace(|| "the frozen paths cannot be read back".to_owned())?;
    if contract.sandbox.worker_history == History::Open && !contract.sandbox.allowed.contains(&Adapter::None)
    {
        let adapters = contract.sandbox.allowed.iter().map(|adapter| adapter.as_str()).collect::<Vec<_>>();
        return Err(open_history_is_closed(id.as_str(), &adapters.join(", ")));
    }
    Ok((contract, starter, warnings))
}

/// Fails if `starter` may not sign these terms.
fn may_sign(contract: &Contract, starter: &str) -> Result<()> {
    let RoleTerms { approver, runner, .. } = &contract.roles;
    if !approver.iter().any(|one| one == starter) {
        return Err(Error::refused(format!("{starter} may not approve this contract")).hint(format!(
            "roles.approver names {}; start it with one of their keys: git loop start {} --key FILE",
            approver.join(", "),
            contract.loop_id
        )));
    }
    if contract.class == Class::LastingCode && runner.iter().any(|one| one == starter) {
        return Err(Error::refused("a lasting_code contract needs an approver other than its runner").hint(
            "set roles.runner to the principal that will run it, and start it with another key: --key FILE",
        ));
    }
    Ok(())
}

/// The refusal of `history = "open"` under an adapter that closes the repository. Only its objects could be opened to a
/// worker, and its configuration may hold passwords, its folder `loops` a key.
pub(super) fn open_history_is_closed(id: &str, adapter: &str) -> Error {
    Error::new(
        Kind::Halt(HaltReason::IsolationUnsatisfiable),
        format!(
            "loop `{id}` asks for sandbox.worker.history = \"open\", and the sandbox {adapter} closes the repository to the \
             worker"
        ),
    )
    .hint("leave it out: with \"sealed\", the default, git works in the worktree on a copy of the base commit")
    .hint("or allow no sandbox at all: sandbox.allowed = [\"none\"]")
}

/// What to know of a contract that some machines would refuse for its history.
pub(super) fn history_needs(contract: &Contract) -> Option<String> {
    let asks = contract.sandbox.worker_history == History::Open;
    (asks && contract.sandbox.allowed.iter().any(|adapter| *adapter != Adapter::None)).then(|| {
        "sandbox.worker.history = \"open\" is refused (30) wherever a sandbox works: it closes the repository".to_owned()
    })
}

/// Signs `contract` at `at` and creates the refs of the loop.
pub fn create(
    repo: &Repo,
    refs: LoopRefs<'_>,
    contract: Contract,
    signer: &Signer,
    principal: String,
    at: At,
) -> Result<Tip> {
    let base = contract.base.commit;
    let body = Body::Contract(ContractBody { tool: TOOL.to_owned(), objective: contract.objective.clone() });
    let author = Author { signer, principal };
    let tip = draft_contract(repo, &author, contract, body, at)?;
    let head = Move { name: refs.head(), expect: Expect::Absent, to: base };
    publish(repo, refs, None, &tip, vec![head], "loop: start")?;
    repo.settle()?;
    Ok(tip)
}
