//! Command lines that are printed in more than one place: each has one function, so that no two places disagree.

use crate::contract::Contract;
use crate::ledger::state::OpenCheckpoint;

/// How the candidate of an open iteration is brought: `REV` is its commit, `FILE` the signed verdict where the check runs elsewhere.
pub fn bring(contract: &Contract, open: &OpenCheckpoint) -> String {
    bring_for(contract, &open.environment_id)
}

/// The same, for the iteration with this environment.
pub fn bring_for(contract: &Contract, environment_id: &str) -> String {
    let verdict = if contract.check.external { " --verdict FILE" } else { "" };
    format!("git loop record {} --candidate REV --environment {environment_id}{verdict}", contract.loop_id)
}

/// How an iteration is asked for whose worker runs elsewhere.
pub fn announce(id: &str) -> String {
    format!("git loop checkpoint {id} --json")
}

/// What a loop that was just started waits for: the runner, or whoever drives it from outside.
pub fn begin(contract: &Contract) -> String {
    let id = &contract.loop_id;
    if contract.check.external { announce(id) } else { run(id) }
}

/// The runner.
pub fn run(id: &str) -> String {
    format!("git loop run {id}")
}

/// The explanation, with the verdict and what to type.
pub fn explain(id: &str) -> String {
    format!("git loop explain {id}")
}

/// A renewal that does not mind what a run costs.
pub fn renew_at_any_cost(id: &str, new_id: &str) -> String {
    format!("git loop renew {id} {new_id} --limit unknown_cost=allow")
}
