//! Which project it is.

use super::survey::Survey;
use super::{ProjectKind, Proposal, cargo, fit, node, other, python};

/// The terms that fit what `survey` found. Where several projects share a repository, the first of cargo, Python, node,
/// Go, CMake and make wins, and a note names the others.
pub fn detect(survey: &Survey) -> Proposal {
    let finders: [fn(&Survey) -> Option<Proposal>; 6] =
        [cargo::detect, python::detect, node::detect, other::go, other::cmake, other::make];
    let mut found = finders.iter().filter_map(|find| find(survey));
    let mut proposal = match found.next() {
        Some(proposal) => {
            // A makefile beside another project is the rule, not a second project.
            let others: Vec<&str> = found
                .filter(|other| other.kind != ProjectKind::Make)
                .map(|other| other.kind.noun())
                .collect();
            let mut proposal = proposal;
            if !others.is_empty() {
                proposal.notes.push(format!(
                    "there is also {}; the check runs the tests of {} only",
                    others.join(" and "),
                    proposal.kind.noun()
                ));
            }
            proposal
        }
        None => other::unknown(survey),
    };
    fit::fit(&mut proposal, survey);
    proposal
}
