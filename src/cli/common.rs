//! What several commands need: the loop that an argument names, its verified ledger, the signer, the result object.

use std::path::{Path, PathBuf};

use gix::object::Kind as Object;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::Context;
use crate::at::At;
use crate::contract::Contract;
use crate::error::{Error, Result, ResultExt};
use crate::escape::shell_word;
use crate::git::Repo;
use crate::git::{LOOPS_PREFIX, LoopId, LoopRef, LoopRefKind};
use crate::ledger::append::{Author, Tip};
use crate::ledger::load::load;
use crate::ledger::message::one_line;
use crate::ledger::record::{Body, HaltedBy, Record, Role, Verdict as ReviewVerdict};
use crate::ledger::state::{OpenFinding, State};
use crate::ledger::trust::TrustRoot;
use crate::ledger::verify::{self, Chain, Step, Verified};
use crate::oid::Oid;
use crate::sign::{KeyError, KeyOrigin, KeyRequest, KeySpec, Signer, named_public_key};

/// A loop that exists here.
pub struct LoopHere {
    /// Its id.
    pub id: LoopId,
    /// The tip of its ledger.
    pub tip: Oid,
}

/// A ref below `refs/loops/` that no loop can have, or that leads nowhere.
pub struct BadRef {
    /// Its full name.
    pub name: String,
    /// The loop, where the name tells.
    pub id: Option<LoopId>,
    /// What is wrong with it.
    pub error: Error,
}

/// The loops of this repository, by id. Refs that are damaged are left out.
pub fn all_loops(repo: &Repo) -> Result<Vec<LoopHere>> {
    Ok(all_loops_and_bad_refs(repo)?.0)
}

/// The loops of this repository, by id, and the refs among theirs that are damaged, symbolic, foreign, or name something else than
/// a commit. One of those hides no other.
pub fn all_loops_and_bad_refs(repo: &Repo) -> Result<(Vec<LoopHere>, Vec<BadRef>)> {
    let (mut loops, mut bad) = (Vec::new(), Vec::new());
    for (name, target) in repo.list_each_ref(LOOPS_PREFIX)? {
        let parsed = LoopRef::parse(name.as_bstr());
        let id = parsed.as_ref().ok().and_then(Option::as_ref).map(|found| found.id.clone());
        let mut broken = |error: Error| {
            // What is told of a ledger that does not verify is told of one that is none: exit code 20.
            let error = error.hints().iter().fold(Error::invariant(error.chain()), Error::hint);
            bad.push(BadRef { name: name.to_string(), id: id.clone(), error });
        };
        match (parsed, target) {
            (Err(why), _) => broken(
                Error::invariant(why.to_string()).hint(format!("remove it: git update-ref -d '{name}'")),
            ),
            (_, Err(why)) => broken(why.into()),
            (Ok(found), Ok(target)) => match (repo.object_header(target), found) {
                (Ok((Object::Commit, _)), Some(LoopRef { id, kind: LoopRefKind::Ledger })) => {
                    loops.push(LoopHere { id, tip: Oid(target) });
                }
                (Ok((Object::Commit, _)), _) => {}
                (Ok((kind, _)), _) => broken(
                    Error::invariant(format!("{name} names a {kind}, {target}; it must name a commit"))
                        .hint(format!("remove it: git update-ref -d '{name}'")),
                ),
                (Err(why), _) => broken(Error::invariant(format!("{name}: {why}"))),
            },
        }
    }
    Ok((loops, bad))
}

/// The loop that `argument` names: an exact id, else a numeric `contract_id`.
pub fn find_loop(repo: &Repo, argument: &str) -> Result<LoopHere> {
    let exact = argument.parse::<LoopId>();
    if let Ok(id) = &exact {
        let ledger = id.refs().ledger();
        if let Some(tip) = repo.read_ref(ledger.as_ref())? {
            return Ok(LoopHere { id: id.clone(), tip: Oid(tip) });
        }
    }
    if let Ok(number) = argument.parse::<u64>() {
        for found in all_loops(repo)? {
            let ids = verify::record_ids(repo, found.tip.0)
                .or_workspace(|| format!("the ledger of loop `{}` cannot be read", found.id))?;
            if ids.first().is_some_and(|first| Oid(*first).contract_id() == number) {
                return Ok(found);
            }
        }
    }
    exact.map_err(|why| Error::usage(format!("{argument:?} is no loop id: {why}")))?;
    Err(no_such_loop(repo, argument))
}

/// What to do where there is no loop.
pub const NO_LOOPS: &str =
    "start one with `git loop start <id>`; git does not clone loops, fetch those of a remote: git loop sync";

/// The loop here whose id is most like `argument`, if one is alike enough for a slip of the finger.
pub fn near(repo: &Repo, argument: &str) -> Option<String> {
    let known = all_loops(repo).unwrap_or_default();
    let slip = |id: &str| strsim::damerau_levenshtein(id, argument);
    let best = known.into_iter().map(|found| found.id.to_string()).min_by_key(|id| slip(id))?;
    // Of short ids almost every other one is a slip away.
    (slip(&best) <= 2 && slip(&best) * 3 <= argument.len()).then_some(best)
}

/// What to say if `head`, which is derived from the ledger, is somewhere else.
pub fn head_warning(repo: &Repo, id: &LoopId, state: &State) -> Option<String> {
    let name = id.refs().head();
    let found = match repo.read_ref(name.as_ref()) {
        Ok(found) => found.map(Oid),
        Err(error) => return Some(format!("{error}; go by the ledger")),
    };
    let green = state.last_green_commit;
    match found {
        Some(found) if found != green && state.checkpoint.is_none() => Some(format!(
            "{name} is at {}, the ledger says that green is {}; go by the ledger",
            found.short(),
            green.short()
        )),
        _ => None,
    }
}

/// Which loops there are, as far as they fit on a line.
fn loops_here(names: &[&str]) -> String {
    const LISTED: usize = 8;
    let shown = names[..names.len().min(LISTED)].join(", ");
    match names.len().saturating_sub(LISTED) {
        0 => format!("loops here: {shown}"),
        more => format!("loops here: {shown} and {more} more; all of them: git loop list"),
    }
}

fn no_such_loop(repo: &Repo, argument: &str) -> Error {
    let known = all_loops(repo).unwrap_or_default();
    let names: Vec<&str> = known.iter().map(|known| known.id.as_str()).collect();
    let error = Error::usage(format!("there is no loop `{argument}` in this repository"));
    let near = near(repo, argument);
    match (near, names.is_empty()) {
        (Some(name), _) => error.hint(format!("did you mean `{name}`?")),
        (None, false) => error.hint(loops_here(&names)),
        (None, true) => error.hint(format!(
            "start one with `git loop start {argument}`; loops of a remote are not cloned, fetch them: git loop sync"
        )),
    }
}

/// The loop that `argument` names, or the only one there is.
pub fn find_or_only(repo: &Repo, argument: Option<&str>) -> Result<LoopHere> {
    if let Some(argument) = argument {
        return find_loop(repo, argument);
    }
    let (mut all, bad) = all_loops_and_bad_refs(repo)?;
    match all.len() {
        0 if bad.iter().any(|bad| bad.id.is_some()) => {
            Err(Error::usage("there is no loop in this repository, but refs that are damaged")
                .hint("see which: git loop list"))
        }
        0 => {
            Err(Error::usage("there is no loop in this repository")
                .hint("start one with `git loop start <id>`"))
        }
        1 => Ok(all.remove(0)),
        _ => {
            let names: Vec<&str> = all.iter().map(|one| one.id.as_str()).collect();
            Err(Error::usage("which loop?").hint(loops_here(&names)))
        }
    }
}

/// The iteration that an argument of `git loop COMMAND` names.
pub fn iteration_number(command: &str, id: &LoopId, argument: &str) -> Result<u32> {
    let wrong = || Error::usage(format!("{argument:?} is not the number of an iteration"));
    match argument.parse::<u64>() {
        // No loop has as many, and the message about a number that is none of its would not be another one.
        Ok(number) => Ok(u32::try_from(number).unwrap_or(u32::MAX)),
        Err(_) if command == "show" && argument.contains('.') => Err(wrong()
            .hint(format!("to print a file of the evidence: git loop show {id} --evidence {argument}"))),
        Err(_) => Err(wrong()
            .hint(format!("which there are: git loop log {id}; the last one: git loop {command} {id}"))),
    }
}

/// The verified ledger of a loop.
pub fn verified(repo: &Repo, found: &LoopHere, trust: &TrustRoot) -> Result<Verified<Chain>> {
    verified_with(repo, found, trust, |_| {})
}

/// The verified ledger of a loop, with a look at each record.
pub fn verified_with(
    repo: &Repo,
    found: &LoopHere,
    trust: &TrustRoot,
    visit: impl FnMut(&Verified<Step>),
) -> Result<Verified<Chain>> {
    Ok(verify::verify_ledger(repo, &found.id, found.tip.0, trust, At::now(), visit)?)
}

/// The same, and what was measured of lasting code is measured again: for commands whose signature vouches for the loop.
pub fn measured_with(
    repo: &Repo,
    found: &LoopHere,
    trust: &TrustRoot,
    visit: impl FnMut(&Verified<Step>),
) -> Result<Verified<Chain>> {
    Ok(verify::verify_and_measure(repo, &found.id, found.tip.0, trust, At::now(), visit)?)
}

impl Context {
    /// The signing key: `--key`, else `loop.signingKey`, else `user.signingkey`; it has made a test signature.
    pub(super) fn signer(&self, repo: &Repo) -> Result<Signer> {
        let request = self.key_request(repo)?;
        let signer = Signer::open(&request).map_err(|error| with_moved_key(repo, &request, error))?;
        signer.preflight()?;
        Ok(signer)
    }

    /// The principals of the key that is configured, whatever `--key` says; none if there is none, or nobody knows it.
    pub(super) fn configured_principals(&self, repo: &Repo, trust: &TrustRoot) -> Vec<String> {
        let public = self.configured_key(repo).and_then(|request| Ok(named_public_key(&request)?));
        public.map_or_else(|_| Vec::new(), |key| trust.principals(&key, At::now()))
    }

    /// Fails if the signing key is not there: looked at, not opened, and no agent is asked.
    pub(super) fn find_key(&self, repo: &Repo) -> Result<()> {
        let request = self.key_request(repo)?;
        named_public_key(&request).map(drop).map_err(|error| with_moved_key(repo, &request, error))
    }

    fn key_request(&self, repo: &Repo) -> Result<KeyRequest> {
        match &self.key {
            Some(key) => {
                let spec = KeySpec::new(key, KeyOrigin::Flag);
                Ok(KeyRequest::from_environment(spec, self.directory.clone()))
            }
            None => self.configured_key(repo),
        }
    }

    /// `loop.signingKey`, else `user.signingkey`.
    fn configured_key(&self, repo: &Repo) -> Result<KeyRequest> {
        let config = repo.config();
        let origins =
            [("loop.signingKey", KeyOrigin::LoopConfig), ("user.signingkey", KeyOrigin::UserConfig)];
        let Some((key, origin)) =
            origins.into_iter().find_map(|(name, origin)| config.get(name).map(|key| (key, origin)))
        else {
            return Err(Error::workspace("there is no signing key")
                .hint("git config user.signingkey ~/.ssh/id_ed25519.pub, or pass --key FILE")
                .hint("a key of its own for loops: git loop init --runner-key"));
        };
        if origin == KeyOrigin::UserConfig && is_openpgp(&key) {
            return Err(Error::workspace(format!("user.signingkey {key} names an OpenPGP key; loops are signed with SSH keys"))
                .hint("git config loop.signingKey ~/.ssh/id_ed25519, or a key of its own: git loop init --runner-key"));
        }
        let base_dir = repo.worktree_root().unwrap_or(&self.directory).to_path_buf();
        Ok(KeyRequest::from_environment(KeySpec::new(key, origin), base_dir))
    }
}

/// What is told of a key that cannot be had.
fn with_moved_key(repo: &Repo, request: &KeyRequest, error: KeyError) -> Error {
    let error = Error::from(error);
    match moved_key(repo, &request.spec) {
        Some(key) => error.hint(format!(
            "this repository was moved; its key is here now: git config loop.signingKey {}",
            shell_word(&key.display().to_string())
        )),
        None => error,
    }
}

/// The key that `git loop init --runner-key` made in this repository, if the one that is configured is what it was called before
/// the repository was moved.
fn moved_key(repo: &Repo, spec: &KeySpec) -> Option<PathBuf> {
    let configured = Path::new(&spec.value);
    if spec.origin != KeyOrigin::LoopConfig || configured.exists() {
        return None;
    }
    let keys = configured.parent()?;
    let ours = keys.ends_with("loops/keys").then(|| repo.common_dir().join("loops/keys"))?;
    Some(ours.join(configured.file_name()?)).filter(|key| key.is_file())
}

/// Whether this is how an OpenPGP key is named: a key id, a fingerprint or an address.
fn is_openpgp(key: &str) -> bool {
    let id = key.trim_start_matches("0x");
    let hex = id.len() >= 8 && id.len() <= 40 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    hex || (key.contains('@') && !key.contains(['/', '\\']) && !key.contains("ssh-"))
}

/// The principal that `signer` may act as in `role`.
pub fn author<'a>(
    signer: &'a Signer,
    trust: &TrustRoot,
    contract: &Contract,
    role: Role,
) -> Result<Author<'a>> {
    let principals = principals(signer, trust)?;
    let allowed = contract.roles.of(role);
    match principals.iter().find(|principal| allowed.contains(principal)) {
        Some(principal) => Ok(Author { signer, principal: principal.clone() }),
        None => Err(Error::refused(format!(
            "{} is not a {} of loop `{}`",
            principals.join(", "),
            role.as_str(),
            contract.loop_id
        ))
        .hint(format!(
            "its {}s: {}; sign with one of their keys: --key FILE",
            role.as_str(),
            names(allowed)
        ))),
    }
}

/// The principals that the trust root gives the key of `signer`; at least one.
pub fn principals(signer: &Signer, trust: &TrustRoot) -> Result<Vec<String>> {
    let principals = trust.principals(signer.public_key(), At::now());
    if principals.is_empty() {
        return Err(Error::workspace(format!(
            "the signing key {} is not known to the allowed-signers file {}",
            signer.fingerprint(),
            trust.source
        ))
        .hint("add a line `you@example.org namespaces=\"git\" ssh-ed25519 AAAA…` with its public key"));
    }
    Ok(principals)
}

fn names(list: &[String]) -> String {
    if list.is_empty() { "nobody".to_owned() } else { list.join(", ") }
}

/// The fields that `status`, `run`, `stop` and `promote` have in common; they satisfy the seeds' result schema.
pub fn result_fields(tip: &Tip, proof: &[Oid]) -> Map<String, Value> {
    let state = &tip.state;
    let mut fields = Map::new();
    let mut put = |name: &str, value: Value| {
        fields.insert(name.to_owned(), value);
    };
    put("loop", json!(tip.contract.loop_id));
    put("run_id", json!(tip.contract_record));
    put("contract_id", json!(tip.contract_record.contract_id()));
    put("iteration", json!(state.iteration));
    put("iteration_count", json!(state.iteration));
    put("halt_reason", json!(state.halt_reason));
    put("cost_cents", json!(state.cumulative_usd.cents_rounded_up()));
    put("usd", json!(state.cumulative_usd));
    put("objective", json!(tip.contract.objective));
    put("class", json!(tip.contract.class));
    put("metric", metric(&tip.contract, state));
    put("last_green_commit", json!(state.last_green_commit));
    put("ledger_tip", json!(tip.id));
    put("proof", json!(proof));
    fields
}

fn metric(contract: &Contract, state: &State) -> Value {
    json!({
        "name": contract.metric.name,
        "best": state.best_metric,
        "baseline": state.baseline.as_ref().and_then(|baseline| baseline.metric),
        "target": contract.metric.target,
        "direction": contract.metric.direction,
    })
}

/// Collects what a result object calls proof: the ids of the check outputs, the accepted iteration records and the
/// final review.
#[derive(Debug, Default)]
pub struct Proof(Vec<Oid>);

impl Proof {
    /// Looks at one record.
    pub fn see(&mut self, step: &Step) {
        match &step.record.body {
            Body::Iteration(body) if body.receipt.decision.improved => {
                self.0.extend(body.receipt.check.as_ref().and_then(|check| check.report));
                self.0.push(step.id);
            }
            // Of a renewal whose base was checked once more.
            Body::Baseline(body) if body.target_met => self.0.extend(body.check.report),
            Body::Review(_) => self.0.push(step.id),
            _ => {}
        }
    }

    /// The ids, oldest first.
    pub fn ids(&self) -> &[Oid] {
        &self.0
    }
}

/// An open finding, as it is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ToldFinding {
    /// Its record.
    pub record_id: Oid,
    /// `block` or `warn`.
    pub severity: &'static str,
    /// When; empty if its record is not here.
    pub at: String,
    /// Whose; empty if its record is not here.
    pub principal: String,
    /// What is wrong; empty if its record is not here.
    pub message: String,
}

impl ToldFinding {
    /// Who says what, and how much it weighs.
    pub fn line(&self) -> String {
        format!("{} {}: {}", self.severity, one_line(&self.principal, 60), one_line(&self.message, 200))
    }
}

/// The findings that are open in `state`, the state after the record `tip`; `findings` are the records of findings of its ledger.
pub fn told_findings(repo: &Repo, state: &State, tip: Oid, findings: &[(Oid, Record)]) -> Vec<ToldFinding> {
    let told = |open: &OpenFinding| {
        let record_id = open.record.unwrap_or(tip);
        let own = findings.iter().find(|(id, _)| *id == record_id).map(|(_, record)| record.clone());
        // One that came with the loop that this one renews is only for showing: the contract names it by its hash, and whether
        // that ledger holds is another question.
        let record = own.or_else(|| load(repo, record_id.0).ok().map(|loaded| loaded.peek().record.clone()));
        let (at, message) = match record {
            Some(Record { at, body: Body::Finding(body), .. }) => (at.to_string(), body.message),
            _ => (String::new(), String::new()),
        };
        let severity = open.severity.as_str();
        ToldFinding { record_id, severity, at, principal: open.principal.clone(), message }
    };
    state.findings.iter().map(told).collect()
}

/// What a person decided, and in which words.
pub fn said(record: &Record) -> Option<String> {
    let (what, message) = match &record.body {
        Body::Review(body) if body.verdict == ReviewVerdict::Approve => ("approved", body.comment.as_ref()),
        Body::Review(body) => ("rejected", body.comment.as_ref()),
        Body::Halt(body) if body.by == HaltedBy::Operator => ("stopped", body.message.as_ref()),
        Body::Promotion(_) => ("promoted", None),
        Body::Release(body) => ("released", Some(&body.reason)),
        _ => return None,
    };
    let who = one_line(&record.actor.principal, 80);
    let message = message.map_or_else(String::new, |text| format!(": {}", one_line(text, 200)));
    Some(format!("{what:<11} by {who} (record {}){message}", record.seq))
}
