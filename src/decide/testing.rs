//! Contracts and states for the tests of the decision and of the fold.

use crate::canonical::read_canonical;
use crate::contract::file::Command;
use crate::contract::frozen::{HoldoutTerms, LASTING_RULES};
use crate::contract::lasting::{ComplexityBudget, NamedCommand, ReviewRisk};
use crate::contract::{Class, CommandLine, Contract, LastingTerms, ReportFormat};
use crate::ledger::fold::begin;
use crate::ledger::state::{BaselineState, State};

/// A contract: minimize failures to 0, 10 iterations, $1, 10 minutes, 3 without progress.
pub fn contract() -> Contract {
    let id = "1111111111111111111111111111111111111111";
    let json = serde_json::json!({
        "schema": "git-loop/contract/v1", "rules": 1, "loop": "fix", "parent": null, "renewal": null, "objective": "o",
        "class": "research", "base": { "commit": id, "tree": id },
        "paths": { "mutable": ["src/**"], "check": ["tests/**"], "blocked": [] },
        "frozen": { "tree": id, "entries": [] },
        "worker": {
            "command": { "exec": ["w"] }, "agent": "w", "model": null, "sampling": null, "usage": "json",
            "timeout_seconds": 60, "idle_timeout_seconds": null, "env": [], "credential": null, "on_failure": "halt", "reserve_usd": null,
        },
        "worktree": { "warm": [] },
        "check": {
            "command": { "exec": ["c"] }, "format": "lines", "report": null, "timeout_seconds": 60,
            "idle_timeout_seconds": null, "success_exit_code": 0, "env": {}, "external": false,
        },
        "metric": {
            "name": "failing", "direction": "minimize", "target": 0.0, "from": "failures", "pattern": null,
            "pointer": null, "min_improvement": 0.0, "repeat": 1,
        },
        "limits": {
            "iterations": 10, "cost_usd": "1.000000", "tokens": 1000, "duration_seconds": 600, "no_progress": 3,
            "regression_limit": 2, "oscillation_limit": 2, "cost_sigma": 3.0, "unread_diffs": null, "unknown_cost": "stop", "evidence_kib": 64,
        },
        "guards": { "on_violation": "halt" },
        "sandbox": {
            "allowed": ["landlock"], "image": null, "presets": [], "read_only": [], "disk_bytes": 1_073_741_824, "worker_network": "host",
            "worker_history": "sealed", "check_network": "none",
        },
        "roles": {
            "approver": ["r"], "runner": ["r"], "operator": ["a"], "reviewer": ["a"], "promoter": ["a"], "verifier": [], "people": [],
        },
        "trust": { "allowed_signers": "" },
        "lasting": null,
    });
    let text = serde_json::to_string_pretty(&json).expect("it is JSON") + "\n";
    read_canonical(text.as_bytes()).expect("it is a contract")
}

/// The same with a holdout.
pub fn contract_with_holdout() -> Contract {
    let mut contract = contract();
    contract.holdout = Some(HoldoutTerms {
        command: CommandLine::Exec(vec!["./run.sh".to_owned()]),
        folder: "/srv/holdout".to_owned(),
        tree: contract.base.tree,
        format: ReportFormat::None,
        report: None,
        timeout_seconds: 60,
        success_exit_code: 0,
    });
    contract
}

/// The same of class `lasting_code`, with a holdout too: two invariants, one requirement, a budget of 1 of each and 10 lines, and a
/// limit of two local defenses.
pub fn contract_of_lasting() -> Contract {
    let mut contract = contract_with_holdout();
    contract.rules = LASTING_RULES;
    contract.class = Class::LastingCode;
    contract.roles.approver = vec!["a".to_owned()];
    let named =
        |name: &str| NamedCommand { name: name.to_owned(), command: Command::Shell("true".to_owned()) };
    contract.lasting = Some(LastingTerms {
        invariant_boundaries: vec![named("one"), named("two")],
        allowed_semantic_changes: vec!["allowed".to_owned()],
        forbidden_semantic_changes: vec!["forbidden".to_owned()],
        machine_independence_requirements: vec![named("alone")],
        review_risk: ReviewRisk::Standard,
        required_review_personas: vec!["maintainer".to_owned()],
        complexity_budget: ComplexityBudget {
            fallback_branches: 1,
            dependencies: 1,
            public_interfaces: 1,
            cyclomatic_complexity: 1,
            changed_lines: 10,
        },
        local_defense_limit: 2,
        human_promotion_required: true,
    });
    contract
}

/// The state of that loop after a baseline of 3.
pub fn state(contract: &Contract) -> State {
    let mut state = begin(contract);
    state.baseline = Some(BaselineState {
        model_calls: 0,
        tokens: 0,
        top_error_type: None,
        metric: Some(3.0),
        failures: Some(3),
        tests: None,
    });
    state.best_metric = Some(3.0);
    state
}
