//! Which agent and which models a worker's run was: an `invocation` record each, before the iteration's own.

use super::iteration::Draft;
use super::session::Session;
use crate::at::At;
use crate::contract::Contract;
use crate::error::Result;
use crate::ledger::agents::InvocationBody;
use crate::ledger::append::{Tip, draft};
use crate::ledger::record::{Body, Role};
use crate::ledger::state::Phase;
use crate::oid::Oid;
use crate::review::identity::{AgentRole, Source, name, named};
use crate::worker::usage::NamedModel;

/// The most models of one run that are recorded.
const MOST: usize = 10;

/// What the worker's agent is called where the contract names none.
const UNNAMED: &str = "worker";

impl Session<'_> {
    /// The tip after the invocations of a worker's run, which nothing refers to yet; the tip itself where none is asked for.
    pub(super) fn with_invocations(&self, of: &Draft, now: At) -> Result<Tip> {
        let mut tip = self.tip.clone();
        let asked = self.tip.contract.judged_as_lasting().is_some() && of.worker.is_some();
        if !asked || tip.state.phase == Phase::Halted {
            return Ok(tip);
        }
        for body in invocations(&self.tip.contract, of.checkpoint, &of.models) {
            tip = draft(
                self.repo,
                &self.author,
                &tip,
                Role::Runner,
                |_| Body::Invocation(body),
                Vec::new(),
                now,
            )?;
        }
        Ok(tip)
    }
}

fn invocations(contract: &Contract, checkpoint: Oid, models: &[NamedModel]) -> Vec<InvocationBody> {
    let worker = &contract.worker;
    let declared = worker.model.as_ref();
    let text = |text: &Option<String>| text.as_deref().and_then(name);
    let one = |provider, model, source| InvocationBody {
        role: AgentRole::Worker,
        agent_id: text(&worker.agent).unwrap_or_else(|| UNNAMED.to_owned()),
        provider,
        model,
        tool: None,
        source,
        checkpoint: Some(checkpoint),
        halt: None,
    };
    let provider = declared.and_then(|model| text(&model.provider));
    let mut list: Vec<InvocationBody> = Vec::new();
    for (by, model) in models.iter().filter_map(named) {
        let next = one(by, Some(model), Source::Provider);
        if !list.contains(&next) && list.len() < MOST {
            list.push(next);
        }
    }
    if list.is_empty() {
        list.push(one(provider, declared.and_then(|model| text(&model.model_id)), Source::Declared));
    }
    list
}
