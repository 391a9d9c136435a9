//! From a validated `loop.toml` to a frozen contract: the base commit is looked up, the check paths are frozen, toolchain
//! presets are detected and roles become explicit lists.

use std::ffi::OsString;

use gix::ObjectId;
use gix::bstr::{BString, ByteSlice};

use super::duration::Seconds;
use super::file::{Adapter, Class, Command, LoopFile, Model, Network, NetworkMode, Preset, Roles, Sampling};
use super::frozen::{
    Base, CONTRACT_SCHEMA, CheckTerms, CommandLine, Contract, CredentialTerms, FrozenTerms, GuardTerms,
    LimitTerms, MetricTerms, NetworkTerms, PathSets, PathTerms, RoleTerms, SandboxTerms, SetupTerms,
    TrustTerms, WorkerTerms, WorktreeTerms, rules_of,
};
use crate::check::SameIds;
use crate::error::{Error, Result, ResultExt};
use crate::escape::escape_path;
use crate::git::LoopId;
use crate::git::Repo;
use crate::guard::{self, PathSet};
use crate::ledger::receipt::{ModelIdentity, SamplingParameters};
use crate::ledger::trust::TrustRoot;
use crate::money::MicroUsd;
use crate::oid::Oid;
use crate::sandbox::toolchain;

/// The most paths that one message lists.
const LISTED: usize = 5;

/// A contract and what its author should know.
#[derive(Debug)]
pub struct Resolved {
    /// The terms, ready to be signed.
    pub contract: Contract,
    /// What is allowed but worth a second look.
    pub warnings: Vec<String>,
}

/// Freezes `file` against the commit `base`. `starter` is the principal of the key that will sign the contract.
pub fn resolve(
    repo: &Repo,
    id: &LoopId,
    file: &LoopFile,
    base: ObjectId,
    trust: &TrustRoot,
    starter: &str,
) -> Result<Resolved> {
    let mut warnings = Vec::new();
    let tree = repo.commit_tree(base).or_workspace(|| format!("the base commit {base} cannot be read"))?;
    let sets = PathSets {
        mutable: patterns("paths.mutable", &file.paths.mutable)?,
        check: patterns("paths.check", &file.paths.check)?,
        blocked: patterns("paths.blocked", &file.paths.blocked)?,
    };
    let frozen = guard::freeze(repo.gix(), &tree, &sets.check)?;
    let entries =
        repo.list_tree_recursive(tree).or_workspace(|| format!("the tree of {base} cannot be read"))?;
    let paths: Vec<BString> = entries.into_iter().map(|entry| entry.path).collect();
    let overlap = guard::overlap(&sets.mutable, &sets.check, paths.iter().map(|path| path.as_bstr()));
    if !overlap.is_empty() {
        let shown: Vec<String> =
            overlap.iter().take(LISTED).map(|path| escape_path(path.as_bstr())).collect();
        let more = if overlap.len() > LISTED {
            format!(" and {} more", overlap.len() - LISTED)
        } else {
            String::new()
        };
        return Err(Error::usage(format!(
            "paths.mutable and paths.check overlap at the base commit: {}{more}",
            shown.join(", ")
        ))
        .hint("a worker must not be able to change what judges it; take these paths out of paths.mutable"));
    }
    if !paths.iter().any(|path| sets.mutable.matches(path.as_bstr())) {
        warnings.push(
            "paths.mutable matches no file of the base commit; the worker can only add files".to_owned(),
        );
    }
    let sparse = patterns("worktree.sparse", &file.worktree.sparse)?;
    if !file.worktree.sparse.is_empty() {
        let unseen =
            |path: &&BString| sets.mutable.matches(path.as_bstr()) && !sparse.matches(path.as_bstr());
        if let Some(path) = paths.iter().find(unseen) {
            warnings.push(format!(
                "worktree.sparse leaves out what paths.mutable lets a worker change, such as {}: it will not see it",
                escape_path(path.as_bstr())
            ));
        }
    }
    for folder in &file.worktree.warm {
        let prefix = format!("{folder}/");
        if let Some(path) =
            paths.iter().find(|path| path.starts_with(prefix.as_bytes()) || **path == folder.as_str())
        {
            return Err(Error::usage(format!(
                "worktree.warm folder {folder:?} holds a tracked file: {}",
                escape_path(path.as_bstr())
            ))
            .hint("warm folders are build caches; a candidate cannot change them"));
        }
    }
    if let Some(include) = &file.worktree.include
        && !paths.iter().any(|path| *path == include.as_str())
    {
        return Err(Error::usage(format!(
            "worktree.include names {include:?}, which the base commit does not have"
        ))
        .hint("commit it: what worker and check are given must be known to whoever reviews the loop"));
    }
    let roles = resolve_roles(&file.roles, trust, starter, file.class, &mut warnings)?;
    let presets = match &file.sandbox.presets {
        Some(presets) => presets.clone(),
        None => detect_presets(file, &paths),
    };
    let contract = Contract {
        schema: CONTRACT_SCHEMA.to_owned(),
        rules: rules_of(file.class),
        loop_id: id.to_string(),
        parent: None,
        renewal: None,
        objective: file.objective.clone(),
        class: file.class,
        base: Base { commit: Oid(base), tree: Oid(tree) },
        paths: PathTerms {
            mutable: file.paths.mutable.clone(),
            check: file.paths.check.clone(),
            blocked: file.paths.blocked.clone(),
        },
        frozen: FrozenTerms { tree: Oid(frozen.tree), entries: frozen.entries },
        worker: WorkerTerms {
            command: command(&file.worker.command),
            agent: Some(file.worker.agent.clone().unwrap_or_else(|| program_name(&file.worker.command))),
            model: model(&file.worker.model),
            sampling: sampling(&file.worker.sampling),
            usage: file.worker.usage,
            timeout_seconds: file.worker.timeout.get(),
            idle_timeout_seconds: file.worker.idle_timeout.map(Seconds::get),
            env: file.worker.env.clone(),
            credential: file.worker.credential.as_ref().map(|credential| CredentialTerms {
                env: credential.env.clone(),
                mint: command(&credential.mint),
                revoke: command(&credential.revoke),
            }),
            on_failure: file.worker.on_failure,
            reserve_usd: file.worker.reserve_usd.map(|dollars| MicroUsd::from_micros(dollars.micros())),
        },
        worktree: WorktreeTerms {
            warm: file.worktree.warm.clone(),
            setup: file.worktree.setup.as_ref().map(|setup| SetupTerms {
                command: command(setup),
                network: match file.worktree.setup_network {
                    Some(NetworkMode::None) => NetworkTerms::None,
                    Some(NetworkMode::Host) | None => NetworkTerms::Host,
                },
                timeout_seconds: file.worktree.setup_timeout.map_or(SETUP_SECONDS, Seconds::get),
            }),
            include: file.worktree.include.clone(),
            sparse: file.worktree.sparse.clone(),
        },
        check: CheckTerms {
            command: command(&file.check.command),
            format: file.check.format,
            report: file.check.report.clone(),
            timeout_seconds: file.check.timeout.get(),
            idle_timeout_seconds: file.check.idle_timeout.map(Seconds::get),
            success_exit_code: file.check.success_exit_code,
            env: file.check.env.clone(),
            external: file.check.external,
            cpus: file.check.cpus,
            same_ids: (file.check.format.merges_ids() && file.check.same_ids != Some(SameIds::Merged))
                .then_some(SameIds::Numbered),
        },
        // Its folder is no part of the repository; whoever starts the loop looks at it.
        holdout: None,
        metric: MetricTerms {
            name: file.metric.name.clone(),
            direction: file.metric.direction,
            target: file.metric.target,
            from: file.metric.from,
            pattern: file.metric.pattern.clone(),
            pointer: file.metric.pointer.clone(),
            min_improvement: file.metric.min_improvement,
            repeat: file.metric.repeat,
        },
        limits: LimitTerms {
            iterations: file.limits.iterations,
            cost_usd: MicroUsd::from_micros(file.limits.cost_usd.micros()),
            tokens: file.limits.tokens,
            duration_seconds: file.limits.duration.get(),
            no_progress: file.limits.no_progress,
            regression_limit: file.limits.regression_limit,
            oscillation_limit: file.limits.oscillation_limit,
            cost_sigma: file.limits.cost_sigma,
            unread_diffs: file.limits.unread_diffs,
            unknown_cost: file.limits.unknown_cost,
            evidence_kib: file.limits.evidence_kib,
        },
        guards: GuardTerms { on_violation: file.guards.on_violation },
        sandbox: SandboxTerms {
            allowed: file.sandbox.allowed.clone(),
            image: file.sandbox.image.clone(),
            presets,
            read_only: file.sandbox.read_only.clone(),
            disk_bytes: file.sandbox.disk.get(),
            worker_network: network(&file.sandbox.worker.network),
            worker_history: file.sandbox.worker.history,
            check_network: network(&file.sandbox.check.network),
        },
        roles,
        trust: TrustTerms { allowed_signers: trust.text.clone() },
        lasting: file.lasting_terms(),
    };
    if contract.sandbox.allowed.contains(&Adapter::None) {
        let place = match contract.sandbox.allowed.len() {
            1 => "sandbox.allowed has nothing but \"none\":",
            _ => "sandbox.allowed has \"none\": on a machine where nothing stronger works,",
        };
        warnings.push(format!("{place} worker and check run with your own rights"));
    }
    Ok(Resolved { contract, warnings })
}

fn patterns(key: &str, list: &[String]) -> Result<PathSet> {
    PathSet::parse(list)
        .map_err(|cause| Error::usage(format!("{key} has a pattern that is not valid")).caused_by(cause))
}

fn resolve_roles(
    roles: &Roles,
    trust: &TrustRoot,
    starter: &str,
    class: Class,
    warnings: &mut Vec<String>,
) -> Result<RoleTerms> {
    let me = || vec![starter.to_owned()];
    let runner = roles.runner.clone().unwrap_or_else(me);
    let others: Vec<String> = trust.everyone().into_iter().filter(|one| !runner.contains(one)).collect();
    let resolved = RoleTerms {
        approver: roles.approver.clone().unwrap_or_else(me),
        operator: roles.operator.clone().unwrap_or_else(|| others.clone()),
        reviewer: roles.reviewer.clone().unwrap_or_else(|| others.clone()),
        promoter: roles.promoter.clone().unwrap_or(others),
        verifier: roles.verifier.clone().unwrap_or_default(),
        people: roles.people.clone().unwrap_or_default(),
        runner,
    };
    if class == Class::LastingCode && resolved.reviewer.iter().all(|one| resolved.runner.contains(one)) {
        return Err(Error::refused("a lasting_code contract needs a reviewer other than its runner")
            .hint("name one in roles.reviewer and in the allowed-signers file"));
    }
    if resolved.reviewer.iter().all(|one| resolved.runner.contains(one)) {
        warnings.push("nobody could review this loop: no principal of the allowed-signers file is other than the runner".to_owned());
    } else if resolved.promoter.is_empty() {
        warnings.push("nobody could promote this loop".to_owned());
    } else if class == Class::LastingCode
        && !resolved.promoter.iter().any(|one| resolved.people.contains(one))
    {
        warnings.push(
            "nobody could promote this loop: a person promotes lasting_code, and no promoter is in roles.people"
                .to_owned(),
        );
    }
    let known = trust.everyone();
    let lists = [
        ("approver", &resolved.approver),
        ("runner", &resolved.runner),
        ("operator", &resolved.operator),
        ("reviewer", &resolved.reviewer),
        ("promoter", &resolved.promoter),
        ("verifier", &resolved.verifier),
    ];
    for (role, list) in lists {
        for principal in list {
            if !known.contains(principal) {
                warnings.push(format!(
                    "roles.{role} names {principal}, who is not in the allowed-signers file {}",
                    trust.source
                ));
            }
        }
    }
    Ok(resolved)
}

/// The toolchains that the check seems to need.
fn detect_presets(file: &LoopFile, paths: &[BString]) -> Vec<Preset> {
    let words: Vec<OsString> = match &file.check.command {
        Command::Args(words) => words.iter().map(OsString::from).collect(),
        Command::Shell(line) => line.split_whitespace().map(OsString::from).collect(),
    };
    let top: Vec<String> =
        paths.iter().filter(|path| !path.contains(&b'/')).map(ToString::to_string).collect();
    toolchain::detect(&words, top.iter().map(String::as_str)).into_iter().map(Preset::from).collect()
}

/// What a worker is called that was given no name: its program.
fn program_name(command: &Command) -> String {
    let first = match command {
        Command::Args(words) => words.first().map(String::as_str),
        Command::Shell(line) => line.split_whitespace().next(),
    };
    let name = first.unwrap_or_default().rsplit(['/', '\\']).next().unwrap_or_default();
    if name.is_empty() { "worker".to_owned() } else { name.to_owned() }
}

/// How long `worktree.setup` may take where the file says nothing.
const SETUP_SECONDS: u64 = 30 * 60;

pub(crate) fn command(command: &Command) -> CommandLine {
    match command {
        Command::Args(words) => CommandLine::Exec(words.clone()),
        Command::Shell(line) => CommandLine::Shell(line.clone()),
    }
}

fn network(network: &Network) -> NetworkTerms {
    match network {
        Network::Mode(NetworkMode::None) => NetworkTerms::None,
        Network::Mode(NetworkMode::Host) => NetworkTerms::Host,
        Network::Allow(list) => NetworkTerms::Allow(list.allow.clone()),
    }
}

fn model(model: &Model) -> Option<ModelIdentity> {
    (*model != Model::default()).then(|| ModelIdentity {
        provider: model.provider.clone(),
        model_id: model.model_id.clone(),
        version: model.version.clone(),
        quantization: model.quantization.clone(),
        runtime: model.runtime.clone(),
        endpoint: model.endpoint.clone(),
    })
}

fn sampling(sampling: &Sampling) -> Option<SamplingParameters> {
    (*sampling != Sampling::default()).then_some(SamplingParameters {
        temperature: sampling.temperature,
        top_p: sampling.top_p,
        seed: sampling.seed,
        max_tokens: sampling.max_tokens,
    })
}
