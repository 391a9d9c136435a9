//! Whether lasting code may be promoted: every condition, each with what is missing. Pure; the fold asks it, so that a promotion which
//! it refuses never verifies.

use crate::contract::Contract;
use crate::contract::lasting::ReviewRisk;
use crate::escape::escape_line;
use crate::ledger::agents::Reviewed;
use crate::ledger::parent::unidentified;
use crate::ledger::state::State;

/// What every reviewer attests, in byte order.
pub const ATTESTATIONS: [&str; 5] = [
    "architecture_understandable",
    "complexity_proportional",
    "invariants_mechanical",
    "longevity_justified",
    "ownership_accepted",
];

/// One condition of a promotion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// Its stable name.
    pub name: &'static str,
    /// What is missing; none if it holds.
    pub missing: Option<String>,
}

impl Condition {
    /// A condition that holds unless something is missing.
    pub fn new(name: &'static str, missing: Option<String>) -> Self {
        Self { name, missing }
    }
}

/// The conditions of a promotion by `promoter` of a loop that is in `state`, in their order.
pub fn conditions(contract: &Contract, state: &State, promoter: Option<&str>) -> Vec<Condition> {
    let Some(lasting) = contract.judged_as_lasting() else { return Vec::new() };
    let reviews = state.agents.as_ref().map_or(&[][..], |agents| &agents.reviews);
    let people = &contract.roles.people;
    let is_person = |who: &str| people.iter().any(|person| person == who);
    let case = Case { state, reviews, is_person: &is_person };
    let risk = lasting.review_risk;
    vec![
        Condition::new("workers_identified", workers_identified(contract, state)),
        Condition::new("approved", approved(state, reviews)),
        Condition::new("findings_resolved", findings(state)),
        Condition::new("bound_to_halt", case.first(|one| bound(state, one))),
        Condition::new("reviewers_identified", case.first(|one| case.identified(one))),
        Condition::new("other_agent", case.first(|one| case.other_agent(one))),
        Condition::new("other_key", case.other_key()),
        Condition::new("personas", personas(&lasting.required_review_personas, reviews)),
        Condition::new("attestations", case.first(attested)),
        Condition::new("model_diversity", case.diversity(risk)),
        Condition::new("promoter_is_a_person", promoter.and_then(|who| promoter_is_a_person(who, people))),
    ]
}

struct Case<'a> {
    state: &'a State,
    reviews: &'a [Reviewed],
    is_person: &'a dyn Fn(&str) -> bool,
}

fn workers_identified(contract: &Contract, state: &State) -> Option<String> {
    let agents = state.agents.as_ref();
    let count = unidentified(contract, state);
    (count > 0 || agents.is_none_or(|agents| agents.workers.is_empty())).then(|| {
        format!("no invocation says which agent made {count} of the accepted candidates, so that no reviewer is known to be another")
    })
}

fn approved(state: &State, reviews: &[Reviewed]) -> Option<String> {
    (state.approvals.is_empty() || reviews.is_empty()).then(|| "it has no approving review".to_owned())
}

fn findings(state: &State) -> Option<String> {
    (state.blocking_findings() > 0).then(|| "a finding that blocks is open".to_owned())
}

/// A record cannot be named before it is there: whoever names the halt came after it.
fn bound(state: &State, review: &Reviewed) -> Option<String> {
    (Some(review.halt) != state.halt).then(|| {
        format!(
            "{}'s review is bound to the halt record {}, which is not the one that is promoted",
            told(&review.principal),
            review.halt.short()
        )
    })
}

fn attested(review: &Reviewed) -> Option<String> {
    let what = |name: &&str| !review.attested.iter().any(|one| one == *name);
    let missing: Vec<&str> = ATTESTATIONS.iter().filter(|name| what(name)).copied().collect();
    let refused: Vec<&str> = review.denied.iter().map(String::as_str).collect();
    match (missing.is_empty(), refused.is_empty()) {
        (_, false) => {
            Some(format!("{} attests that these are false: {}", told(&review.principal), refused.join(", ")))
        }
        (false, _) => Some(format!("{} does not attest {}", told(&review.principal), missing.join(", "))),
        (true, true) => None,
    }
}

fn personas(required: &[String], reviews: &[Reviewed]) -> Option<String> {
    let covered = |persona: &&String| reviews.iter().any(|review| review.personas.contains(persona));
    let missing: Vec<String> =
        required.iter().filter(|persona| !covered(persona)).map(|persona| told(persona)).collect();
    (!missing.is_empty()).then(|| format!("nobody reviewed it as {}", missing.join(", ")))
}

fn promoter_is_a_person(who: &str, people: &[String]) -> Option<String> {
    (!people.iter().any(|person| person == who)).then(|| {
        format!("{} is not in roles.people of the contract, and a person promotes lasting code", told(who))
    })
}

fn told(text: &str) -> String {
    escape_line(text).into_owned()
}

impl Case<'_> {
    /// What is missing of the first review of which something is.
    fn first(&self, missing: impl Fn(&Reviewed) -> Option<String>) -> Option<String> {
        self.reviews.iter().find_map(missing)
    }

    fn identified(&self, review: &Reviewed) -> Option<String> {
        (review.agent.is_none() && !(self.is_person)(&review.principal)).then(|| {
            format!(
                "{} is not in roles.people of the contract, and the review names no invocation of an agent",
                told(&review.principal)
            )
        })
    }

    fn other_agent(&self, review: &Reviewed) -> Option<String> {
        let agent = review.agent.as_ref()?;
        let workers = self.state.agents.as_ref().map_or(&[][..], |agents| &agents.workers);
        workers
            .iter()
            .any(|worker| worker.agent_id == agent.agent_id)
            .then(|| format!("the agent {} worked on it and reviewed it", told(&agent.agent_id)))
    }

    fn other_key(&self) -> Option<String> {
        let by_worker = self.first(|review| {
            self.state.submitters.iter().any(|who| who.key == review.key).then(|| {
                format!("{}'s review is signed with the key that ran the loop", told(&review.principal))
            })
        });
        by_worker.or_else(|| {
            let twice = |review: &&Reviewed| {
                self.reviews
                    .iter()
                    .any(|other| other.key == review.key && other.principal != review.principal)
            };
            self.reviews
                .iter()
                .find(twice)
                .map(|review| format!("{} and another reviewer have one key", told(&review.principal)))
        })
    }

    /// Whether it is shown that the review is by another model than any that worked on it. A person is.
    fn is_other_model(&self, review: &Reviewed) -> bool {
        let Some(agent) = &review.agent else { return (self.is_person)(&review.principal) };
        let workers = self.state.agents.as_ref().map_or(&[][..], |agents| &agents.workers);
        let shown = |one: &crate::review::identity::Identity| one.model.is_some() && !one.assumed;
        shown(agent) && workers.iter().all(|worker| shown(worker) && worker.model != agent.model)
    }

    fn diversity(&self, risk: ReviewRisk) -> Option<String> {
        if self.reviews.is_empty() {
            return None;
        }
        match risk {
            ReviewRisk::Standard => None,
            ReviewRisk::High => (!self.reviews.iter().any(|one| self.is_other_model(one))).then(|| {
                "at risk high a reviewer has to have another model than the worker, named by the provider's own output".to_owned()
            }),
            ReviewRisk::Critical => self.reviews.iter().find(|one| !self.is_other_model(one)).map(|one| {
                format!(
                    "at risk critical no reviewer may have the worker's model; that {} has another is not shown",
                    told(&one.principal)
                )
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::Contract;
    use crate::ledger::agents::Agents;
    use crate::oid::Oid;
    use crate::review::identity::Identity;

    fn identity(agent: &str, model: Option<&str>, assumed: bool) -> Identity {
        Identity { agent_id: agent.to_owned(), model: model.map(str::to_owned), assumed }
    }

    fn oid(digit: char) -> Oid {
        digit.to_string().repeat(40).parse().unwrap()
    }

    fn review(principal: &str, key: &str, agent: Option<Identity>) -> Reviewed {
        Reviewed {
            seq: 1,
            principal: principal.to_owned(),
            key: key.to_owned(),
            halt: oid('1'),
            personas: vec!["maintainer".to_owned()],
            attested: ATTESTATIONS.iter().map(|name| (*name).to_owned()).collect(),
            denied: Vec::new(),
            agent,
        }
    }

    /// A loop of lasting code that awaits its promotion, with these reviews.
    fn case(risk: ReviewRisk, reviews: Vec<Reviewed>) -> (Contract, State) {
        let mut contract = crate::decide::testing::contract_of_lasting();
        contract.roles.people = vec!["ann".to_owned()];
        let lasting = contract.lasting.as_mut().unwrap();
        lasting.review_risk = risk;
        lasting.required_review_personas = vec!["maintainer".to_owned()];
        let mut state = crate::ledger::fold::begin(&contract);
        state.halt = Some(oid('1'));
        state.submitters =
            vec![crate::ledger::state::Signer { principal: "runner".to_owned(), key: "k0".to_owned() }];
        state.approvals = reviews
            .iter()
            .zip(1..)
            .map(|(review, seq)| crate::ledger::state::Approval {
                seq,
                principal: review.principal.clone(),
                key: review.key.clone(),
            })
            .collect();
        state.agents = Some(Agents {
            workers: vec![identity("worker", Some("p/m"), false)],
            reviews,
            ..Agents::default()
        });
        (contract, state)
    }

    /// The names of the conditions that do not hold.
    fn missing(risk: ReviewRisk, reviews: Vec<Reviewed>) -> Vec<&'static str> {
        let (contract, state) = case(risk, reviews);
        let conditions = conditions(&contract, &state, Some("ann"));
        conditions.into_iter().filter(|one| one.missing.is_some()).map(|one| one.name).collect()
    }

    #[test]
    fn each_condition_is_missed_alone() {
        use ReviewRisk::Standard;
        let person = || review("ann", "k1", None);
        assert_eq!(missing(Standard, vec![person()]), [""; 0]);
        let with = |change: fn(&mut Reviewed)| {
            let mut review = review("ann", "k1", None);
            change(&mut review);
            missing(Standard, vec![review])
        };
        assert_eq!(with(|one| one.halt = oid('2')), ["bound_to_halt"]);
        assert_eq!(with(|one| one.principal = "eve".to_owned()), ["reviewers_identified"]);
        assert_eq!(with(|one| one.agent = Some(identity("worker", Some("q/n"), false))), ["other_agent"]);
        assert_eq!(with(|one| one.key = "k0".to_owned()), ["other_key"]);
        assert_eq!(with(|one| one.personas = vec!["security".to_owned()]), ["personas"]);
        assert_eq!(with(|one| _ = one.attested.pop()), ["attestations"]);
        assert_eq!(with(|one| one.denied = vec!["ownership_accepted".to_owned()]), ["attestations"]);
        assert_eq!(
            missing(Standard, vec![person(), review("bob", "k1", Some(identity("b", None, true)))]),
            ["other_key"]
        );
        assert_eq!(missing(Standard, Vec::new()), ["approved", "personas"]);
        let (contract, state) = case(Standard, vec![person()]);
        let by =
            |who| conditions(&contract, &state, who).into_iter().filter(|one| one.missing.is_some()).count();
        assert_eq!((by(Some("ann")), by(Some("eve")), by(None)), (0, 1, 0));
    }

    #[test]
    fn models_differ_by_risk() {
        use ReviewRisk::{Critical, High, Standard};
        let agent = |key: &str, model: Option<&str>, assumed| {
            review(key, key, Some(identity("critic", model, assumed)))
        };
        let same = || agent("k2", Some("p/m"), false);
        let other = || agent("k3", Some("q/n"), false);
        let assumed = || agent("k4", Some("q/n"), true);
        let unknown = || agent("k5", None, false);
        let person = || review("ann", "k1", None);
        let lacks = vec!["model_diversity"];
        for (risk, reviews, expected) in [
            (Standard, vec![same()], vec![]),
            (High, vec![same()], lacks.clone()),
            (High, vec![assumed(), unknown()], lacks.clone()),
            (High, vec![other()], vec![]),
            (High, vec![same(), person()], vec![]),
            (Critical, vec![other(), same()], lacks.clone()),
            (Critical, vec![person(), same()], lacks.clone()),
            (Critical, vec![person(), assumed()], lacks),
            (Critical, vec![other()], vec![]),
            (Critical, vec![person(), other()], vec![]),
        ] {
            assert_eq!(missing(risk, reviews.clone()), expected, "{risk:?} {reviews:?}");
        }
        // A worker whose model is not known may have any.
        let (contract, mut state) = case(High, vec![other()]);
        state.agents.as_mut().unwrap().workers.push(identity("another", Some("r/o"), true));
        let found = conditions(&contract, &state, None);
        assert!(found.iter().any(|one| one.name == "model_diversity" && one.missing.is_some()));
    }
}
