//! The terms by which a contract renews another one: what it goes on from, and what changed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::frozen::Contract;
use crate::decide::ComplexityDelta;
use crate::ledger::state::{OpenFinding, Signer};
use crate::oid::Oid;
use crate::review::identity::Identity;

/// What a renewed contract says of its parent, besides the parent's contract record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RenewalTerms {
    /// The id of the parent's loop.
    #[serde(rename = "loop")]
    pub loop_id: String,
    /// The record of the parent's ledger after which it is renewed: the last one that the approver saw. The loop has
    /// halted there, and its green there is the base here.
    pub tip: Oid,
    /// The base of the first loop of the line: what all of them changed together is what is reviewed.
    pub origin: Oid,
    /// Who ran the parent, or one before it. They cannot review this loop either.
    pub submitters: Vec<Signer>,
    /// The findings that are open on the parent's ledger. They are open here too, until a reviewer resolves them here.
    pub findings: Vec<OpenFinding>,
    /// Of lasting code: by how much all accepted candidates of them made the code larger. It counts against the budget here, too;
    /// absent if it is nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub complexity: Option<ComplexityDelta>,
    /// The agents that are known to have worked on the parent, or on one before it; absent if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workers: Vec<Identity>,
    /// Of lasting code: of how many accepted candidates of them no invocation says whose they are; absent in contracts of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unidentified: Option<u32>,
    /// The terms that are not the parent's, in the order of this file.
    pub changed: Vec<ChangedTerm>,
}

/// One term that a renewal changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChangedTerm {
    /// Its place in `contract.json`, such as `limits.iterations`.
    pub term: String,
    /// What it was.
    pub from: Value,
    /// What it is.
    pub to: Value,
}

/// What is no term: it says which contract this is and where it starts, or was looked up when it was frozen.
const NO_TERMS: [&str; 7] = ["schema", "loop", "parent", "renewal", "base", "frozen", "trust"];

/// The terms in which `new` differs from `old`: the members of the tables of `contract.json`, and what stands beside them.
pub fn changed_terms(old: &Contract, new: &Contract) -> Vec<ChangedTerm> {
    let (old, new) = (members(old), members(new));
    let mut changed = Vec::new();
    for name in names(&old, &new) {
        let from = old.get(name).unwrap_or(&Value::Null);
        let to = new.get(name).unwrap_or(&Value::Null);
        if NO_TERMS.contains(&name) || from == to {
            continue;
        }
        match (from, to) {
            (Value::Object(from), Value::Object(to)) => {
                for (member, to) in to {
                    let from = from.get(member).unwrap_or(&Value::Null);
                    if from != to {
                        changed.push(ChangedTerm {
                            term: format!("{name}.{member}"),
                            from: from.clone(),
                            to: to.clone(),
                        });
                    }
                }
                for (member, from) in from.iter().filter(|(member, _)| !to.contains_key(*member)) {
                    changed.push(ChangedTerm {
                        term: format!("{name}.{member}"),
                        from: from.clone(),
                        to: Value::Null,
                    });
                }
            }
            _ => changed.push(ChangedTerm { term: name.to_owned(), from: from.clone(), to: to.clone() }),
        }
    }
    changed
}

/// The members of either, in the order of `contract.json`: `holdout` is not always there.
fn names<'a>(old: &'a Map<String, Value>, new: &'a Map<String, Value>) -> Vec<&'a str> {
    let fuller = if old.contains_key("holdout") { old } else { new };
    fuller.keys().map(String::as_str).collect()
}

fn members(contract: &Contract) -> Map<String, Value> {
    match serde_json::to_value(contract) {
        Ok(Value::Object(members)) => members,
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::Direction;
    use crate::decide::testing::contract;

    #[test]
    fn a_change_is_named_by_its_place() {
        let old = contract();
        let mut new = old.clone();
        assert_eq!(changed_terms(&old, &new), []);
        // Which loop it is, and where it starts, are no terms.
        new.loop_id = "fix-2".to_owned();
        new.trust.allowed_signers = "other".to_owned();
        assert_eq!(changed_terms(&old, &new), []);
        new.limits.iterations = 20;
        new.objective = "another".to_owned();
        new.metric.direction = Direction::Maximize;
        new.worker.reserve_usd = Some(crate::money::MicroUsd::from_micros(5));
        let changed = changed_terms(&old, &new);
        let told: Vec<String> =
            changed.iter().map(|one| format!("{} {} {}", one.term, one.from, one.to)).collect();
        assert_eq!(
            told,
            [
                "objective \"o\" \"another\"",
                "worker.reserve_usd null \"0.000005\"",
                "metric.direction \"minimize\" \"maximize\"",
                "limits.iterations 10 20",
            ]
        );
    }
}
