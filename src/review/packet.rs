//! The promotion packet: what a worker says of lasting code that meets the target, for whoever will keep it up. It is validated against
//! the contract and the candidate's tree, and frozen in the halt record with the blobs that it cites.

use std::collections::BTreeMap;

use gix::ObjectId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::citation::{self, CitationError};
use crate::check::excerpt;
use crate::check::json::Json;
use crate::contract::LastingTerms;
use crate::escape::escape_path;
use crate::git::Repo;
use crate::oid::Oid;
use crate::worker::evidence::{string, strings};

/// Who made the candidate, as it says itself. Which model it was is said by an invocation record, never by this.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorkerIdentity {
    /// The agent.
    pub agent_id: String,
    /// Who serves its model; null if it is not said.
    pub provider: Option<String>,
    /// Its model; null if it is not said.
    pub model: Option<String>,
}

/// What a promotion packet says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Packet {
    /// Who made the candidate.
    pub worker_identity: WorkerIdentity,
    /// What behaves otherwise than before.
    pub changed_behavior: String,
    /// The invariant that the change belongs to: the name of a declared one.
    pub owning_invariant: String,
    /// What can no longer happen.
    pub bad_state_made_impossible: String,
    /// The fallback branches that are no longer needed.
    pub fallbacks_removed: Vec<String>,
    /// The interfaces that others will notice.
    pub affected_interfaces: Vec<String>,
    /// Where the code is.
    pub code_citations: Vec<String>,
    /// Where its tests are.
    pub test_citations: Vec<String>,
    /// How it is tested.
    pub test_commands: Vec<String>,
    /// How it is built.
    pub build_commands: Vec<String>,
    /// How a fault of it is found.
    pub diagnosis_commands: Vec<String>,
    /// How it is taken back.
    pub rollback_commands: Vec<String>,
    /// Where it is documented.
    pub documentation_paths: Vec<String>,
}

/// A file that a packet cites or names as documentation, as it was in the candidate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Cited {
    /// Its path, escaped.
    pub path: String,
    /// Its blob.
    pub id: Oid,
}

/// A valid packet with the blobs of everything that it cites, in the order of the paths' bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FrozenPacket {
    /// What it says.
    pub packet: Packet,
    /// What it rests on.
    pub cited: Vec<Cited>,
}

/// The fields of a packet, in their order.
const FIELDS: [&str; 13] = [
    "worker_identity",
    "changed_behavior",
    "owning_invariant",
    "bad_state_made_impossible",
    "fallbacks_removed",
    "affected_interfaces",
    "code_citations",
    "test_citations",
    "test_commands",
    "build_commands",
    "diagnosis_commands",
    "rollback_commands",
    "documentation_paths",
];

impl Packet {
    /// Reads a packet: exactly its fields, each of its form. An error says what is wrong.
    pub(crate) fn read(json: &Json) -> Result<Self, String> {
        if !matches!(json, Json::Map(_)) {
            return Err("it is no object".to_owned());
        }
        if let Some(key) = json.keys().into_iter().find(|key| !FIELDS.contains(key)) {
            return Err(format!("`{}` is none of a packet", excerpt(key)));
        }
        let field = |key: &str| json.get(key).ok_or_else(|| format!("`{key}` is missing"));
        let text = |key: &str| {
            let value = field(key)?;
            string(value, key)?;
            Ok::<_, String>(text_of(value))
        };
        let list = |key: &str, least| strings(field(key)?, key, least);
        Ok(Self {
            worker_identity: identity(field("worker_identity")?)?,
            changed_behavior: text("changed_behavior")?,
            owning_invariant: text("owning_invariant")?,
            bad_state_made_impossible: text("bad_state_made_impossible")?,
            fallbacks_removed: list("fallbacks_removed", 0)?,
            affected_interfaces: list("affected_interfaces", 0)?,
            code_citations: list("code_citations", 1)?,
            test_citations: list("test_citations", 1)?,
            test_commands: list("test_commands", 1)?,
            build_commands: list("build_commands", 1)?,
            diagnosis_commands: list("diagnosis_commands", 1)?,
            rollback_commands: list("rollback_commands", 1)?,
            documentation_paths: list("documentation_paths", 1)?,
        })
    }
}

fn text_of(value: &Json) -> String {
    match value {
        Json::Text(text) => text.clone(),
        _ => String::new(),
    }
}

fn identity(json: &Json) -> Result<WorkerIdentity, String> {
    const KEYS: [&str; 3] = ["agent_id", "provider", "model"];
    if !matches!(json, Json::Map(_)) {
        return Err("`worker_identity` is no object".to_owned());
    }
    if let Some(key) = json.keys().into_iter().find(|key| !KEYS.contains(key)) {
        return Err(format!("`worker_identity` has `{}`", excerpt(key)));
    }
    let optional = |key: &str| match json.get(key) {
        None | Some(Json::Null) => Ok(None),
        Some(value) => string(value, key).map(|()| Some(text_of(value))),
    };
    Ok(WorkerIdentity {
        agent_id: optional("agent_id")?.ok_or("`worker_identity.agent_id` is missing")?,
        provider: optional("provider")?,
        model: optional("model")?,
    })
}

/// The packet with what it cites in the tree `tree`, if it fits that and the terms. What is wrong with it is the inner error; the outer
/// one is a fault of the repository.
pub(crate) fn freeze(
    repo: &Repo,
    tree: ObjectId,
    terms: &LastingTerms,
    json: &Json,
) -> Result<Result<FrozenPacket, String>, CitationError> {
    match validated(repo, tree, terms, json) {
        Ok(frozen) => Ok(Ok(frozen)),
        Err(CitationError::Bad(why)) => Ok(Err(why)),
        Err(error) => Err(error),
    }
}

fn validated(
    repo: &Repo,
    tree: ObjectId,
    terms: &LastingTerms,
    json: &Json,
) -> Result<FrozenPacket, CitationError> {
    let packet = Packet::read(json).map_err(CitationError::Bad)?;
    if !terms.invariant_boundaries.iter().any(|one| one.name == packet.owning_invariant) {
        return Err(CitationError::Bad(format!(
            "`owning_invariant` is `{}`, which the contract does not declare",
            excerpt(&packet.owning_invariant)
        )));
    }
    let cited = cited_by(repo, tree, &packet)?;
    Ok(FrozenPacket { packet, cited })
}

/// The blobs of everything that a packet cites in the tree `tree`.
fn cited_by(repo: &Repo, tree: ObjectId, packet: &Packet) -> Result<Vec<Cited>, CitationError> {
    let mut cited = BTreeMap::new();
    for (key, list) in
        [("code_citations", &packet.code_citations), ("test_citations", &packet.test_citations)]
    {
        for text in list {
            let (path, id) = citation::cited(repo, tree, text).map_err(|error| within(key, error))?;
            cited.insert(path, id);
        }
    }
    for path in &packet.documentation_paths {
        let id = citation::file(repo, tree, path).map_err(|error| within("documentation_paths", error))?;
        cited.insert(path, id);
    }
    Ok(cited.into_iter().map(|(path, id)| Cited { path: escape_path(path.into()), id: Oid(id) }).collect())
}

/// What of a frozen packet's evidence is not in the tree `tree` as it was; none if all of it is.
pub fn changed(repo: &Repo, tree: ObjectId, frozen: &FrozenPacket) -> Option<String> {
    let found = match cited_by(repo, tree, &frozen.packet) {
        Ok(found) => found,
        Err(error) => return Some(format!("evidence of the packet is not there any more: {error}")),
    };
    // That a tree names a file does not say that the file is there.
    if let Some((one, error)) = found.iter().find_map(|one| Some((one, repo.read_blob(one.id.0).err()?))) {
        return Some(format!("evidence of the packet is not there any more: {}: {error}", one.path));
    }
    let other = frozen.cited.iter().find(|one| !found.contains(one))?;
    Some(format!("evidence of the packet is another than at the halt: {}", other.path))
}

fn within(key: &str, error: CitationError) -> CitationError {
    match error {
        CitationError::Bad(why) => CitationError::Bad(format!("`{key}`: {why}")),
        other => other,
    }
}
