//! What the fold keeps of lasting code's agents: who worked on it, who reviewed it, and as what.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::fold::{
    FoldError, expect, expect_awaiting_review, expect_no_submitter, expect_running, out_of_place,
};
use super::record::{Kind, Record, ReviewBody, Role};
use super::state::State;
use crate::contract::Contract;
use crate::oid::Oid;
use crate::review::identity::{AgentRole, Identity, Source, canonical_model, is_name};

/// The body of an `invocation` record: one agent with one model that took part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InvocationBody {
    /// What the agent did.
    pub role: AgentRole,
    /// The agent.
    pub agent_id: String,
    /// Who serves its model; null if that is not known.
    pub provider: Option<String>,
    /// Its model; null if that is not known.
    pub model: Option<String>,
    /// The tool with its version; null if that is not known.
    pub tool: Option<String>,
    /// How the model is known.
    pub source: Source,
    /// The checkpoint of the iteration that a worker took part in; null of a reviewer.
    pub checkpoint: Option<Oid>,
    /// The halt record that a reviewer looked at; null of a worker.
    pub halt: Option<Oid>,
}

impl InvocationBody {
    /// Who it was, by the rule that alone counts.
    pub fn identity(&self) -> Identity {
        Identity {
            agent_id: self.agent_id.clone(),
            model: canonical_model(self.provider.as_deref(), self.model.as_deref()),
            assumed: self.source != Source::Provider,
        }
    }
}

/// The agents of a loop of lasting code.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Agents {
    /// Who worked on it or on what it renews, each once, in the order of the first invocation.
    pub workers: Vec<Identity>,
    /// How many accepted candidates have an invocation.
    pub identified: u32,
    /// Whether the iteration that is under way has one.
    pub open: bool,
    /// The runs of reviewing agents.
    pub reviewers: Vec<ReviewingAgent>,
    /// The last approving review of each principal and key.
    pub reviews: Vec<Reviewed>,
}

/// A run of a reviewing agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReviewingAgent {
    /// The invocation record; null in that record itself, which cannot name itself.
    pub record: Option<Oid>,
    /// The key that recorded it, which signs the review too.
    pub key: String,
    /// Who it was.
    pub identity: Identity,
}

/// What an approving review says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Reviewed {
    /// The position of the review record.
    pub seq: u64,
    /// The reviewer.
    pub principal: String,
    /// The reviewer's key.
    pub key: String,
    /// The halt record that it is bound to.
    pub halt: Oid,
    /// As what it was reviewed.
    pub personas: Vec<String>,
    /// What is attested to be true.
    pub attested: Vec<String>,
    /// What is attested to be false.
    pub denied: Vec<String>,
    /// The agent that reviewed; null if a person did.
    pub agent: Option<Identity>,
}

/// The agents before the first record after the contract: those that the renewed loop had.
pub fn begin(contract: &Contract) -> Option<Agents> {
    let workers = contract.renewal.as_ref().map_or(&[][..], |renewal| &renewal.workers);
    let known = contract.judged_as_lasting().is_some() && !workers.is_empty();
    known.then(|| Agents { workers: workers.to_vec(), ..Agents::default() })
}

/// An invocation that could not name itself can be named by the record after it.
pub(super) fn fill(state: &mut State, prev: Option<Oid>) {
    if let Some(last) = state.agents.as_mut().and_then(|agents| agents.reviewers.last_mut())
        && last.record.is_none()
    {
        last.record = prev;
    }
}

/// What an invocation adds.
pub(super) fn invoked(
    contract: &Contract,
    state: &mut State,
    record: &Record,
    body: &InvocationBody,
) -> Result<(), FoldError> {
    let kind = Kind::Invocation;
    if contract.judged_as_lasting().is_none() {
        return Err(out_of_place(kind, "only the agents of lasting_code are recorded".to_owned()));
    }
    let texts = [Some(&body.agent_id), body.provider.as_ref(), body.model.as_ref(), body.tool.as_ref()];
    if !texts.into_iter().flatten().all(|text| is_name(text)) {
        return Err(out_of_place(kind, "a name in it is empty, too long or on several lines".to_owned()));
    }
    let role = if body.role == AgentRole::Worker { Role::Runner } else { Role::Reviewer };
    expect(kind, "role", &record.actor.role, &role)?;
    let identity = body.identity();
    match body.role {
        AgentRole::Worker => {
            expect_running(state, kind)?;
            let Some(open) = &state.checkpoint else {
                return Err(out_of_place(kind, "no checkpoint is open".to_owned()));
            };
            expect(kind, "checkpoint", &body.checkpoint, &open.record)?;
            expect(kind, "halt", &body.halt, &None)?;
            let agents = state.agents.get_or_insert_default();
            agents.open = true;
            if !agents.workers.contains(&identity) {
                agents.workers.push(identity);
            }
        }
        AgentRole::Reviewer => {
            expect_awaiting_review(state, kind)?;
            expect(kind, "halt", &body.halt, &state.halt)?;
            expect(kind, "checkpoint", &body.checkpoint, &None)?;
            expect_no_submitter(state, record, "record a reviewer of it")?;
            let key = record.actor.key.clone();
            let agents = state.agents.get_or_insert_default();
            agents.reviewers.push(ReviewingAgent { record: None, key, identity });
        }
    }
    Ok(())
}

/// Closes the iteration that is under way.
pub(super) fn recorded(state: &mut State, accepted: bool) {
    if let Some(agents) = &mut state.agents {
        agents.identified += u32::from(accepted && agents.open);
        agents.open = false;
    }
}

/// What an approving review of lasting code adds: the last word of each reviewer counts.
pub(super) fn reviewed(state: &mut State, record: &Record, body: &ReviewBody) -> Result<(), FoldError> {
    let actor = &record.actor;
    let Some(agents) = &mut state.agents else { return Ok(()) };
    let agent = match body.invocation {
        None => None,
        Some(id) => {
            let run = agents.reviewers.iter().find(|run| run.record == Some(id) && run.key == actor.key);
            let Some(run) = run else {
                let why = "its invocation is none of a reviewing agent that this key recorded".to_owned();
                return Err(out_of_place(record.kind, why));
            };
            Some(run.identity.clone())
        }
    };
    let named = |value: bool| {
        let of = |(name, found): (&String, &serde_json::Value)| {
            (found.as_bool() == Some(value)).then(|| name.clone())
        };
        let mut names: Vec<String> = body.attestations.iter().filter_map(of).collect();
        names.sort_unstable();
        names
    };
    agents.reviews.retain(|one| one.principal != actor.principal || one.key != actor.key);
    agents.reviews.push(Reviewed {
        seq: record.seq,
        principal: actor.principal.clone(),
        key: actor.key.clone(),
        halt: body.halt,
        personas: body.personas.clone(),
        attested: named(true),
        denied: named(false),
        agent,
    });
    Ok(())
}
