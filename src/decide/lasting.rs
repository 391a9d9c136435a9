//! What code that is meant to stay has to show besides: rows 11 to 16 and 18, and when its commands are run.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::facts::Facts;
use super::rows::Case;
use super::{Evidence, Row, first_row};
use crate::contract::lasting::ComplexityBudget;
use crate::contract::{Contract, LastingTerms};
use crate::ledger::state::State;

/// By how much a change makes a project larger, in five numbers. What a change removes counts against what it adds, but for
/// `changed_lines`, which counts both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct ComplexityDelta {
    /// Branches that catch what should not happen.
    pub fallback_branches: i64,
    /// Dependencies on other packages.
    pub dependencies: i64,
    /// Interfaces that others can see.
    pub public_interfaces: i64,
    /// Independent paths through the code.
    pub cyclomatic_complexity: i64,
    /// Lines added and removed.
    pub changed_lines: i64,
}

impl ComplexityDelta {
    /// The names of the five, in their order.
    pub const NAMES: [&str; 5] =
        ["fallback_branches", "dependencies", "public_interfaces", "cyclomatic_complexity", "changed_lines"];

    /// The five numbers in the order of [`Self::NAMES`].
    pub fn parts(self) -> [i64; 5] {
        [
            self.fallback_branches,
            self.dependencies,
            self.public_interfaces,
            self.cyclomatic_complexity,
            self.changed_lines,
        ]
    }

    /// The delta of these five numbers.
    pub fn from_parts(parts: [i64; 5]) -> Self {
        let [fallback_branches, dependencies, public_interfaces, cyclomatic_complexity, changed_lines] =
            parts;
        Self { fallback_branches, dependencies, public_interfaces, cyclomatic_complexity, changed_lines }
    }

    /// The larger of the two, number by number.
    #[must_use]
    pub fn larger(self, other: Self) -> Self {
        let (a, b) = (self.parts(), other.parts());
        Self::from_parts(std::array::from_fn(|at| a[at].max(b[at])))
    }

    /// Both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let (a, b) = (self.parts(), other.parts());
        Self::from_parts(std::array::from_fn(|at| a[at].saturating_add(b[at])))
    }
}

/// What became of an invariant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum InvariantEffect {
    /// Its command passes, and failed at the baseline.
    Strengthened,
    /// Its command passes, as it did at the baseline.
    Preserved,
    /// It is kept by a branch that catches what should not happen.
    LocalDefenseAdded,
    /// Nothing shows what became of it.
    Unknown,
    /// Its command fails.
    Broken,
}

impl InvariantEffect {
    /// What a check may say of it.
    pub const DECLARED: [Self; 4] =
        [Self::Strengthened, Self::Preserved, Self::LocalDefenseAdded, Self::Unknown];

    /// The stable word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Strengthened => "strengthened",
            Self::Preserved => "preserved",
            Self::LocalDefenseAdded => "local_defense_added",
            Self::Unknown => "unknown",
            Self::Broken => "broken",
        }
    }
}

/// What the worker brought for row 18.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PacketStanding {
    /// No promotion packet.
    #[default]
    Absent,
    /// One that does not fit the contract or the candidate.
    Invalid,
    /// One that does.
    Valid,
}

/// What is known of a candidate of lasting code once the check has run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LastingEvidence {
    /// Row 11: whether evidence that the contract requires is missing.
    pub incomplete: bool,
    /// Row 12: how many declared changes of meaning are forbidden, or not allowed.
    pub not_allowed: usize,
    /// Row 13: how many invariants are broken, or of unknown effect.
    pub unknown: usize,
    /// Row 14: how many local defenses were measured or declared.
    pub defenses: usize,
    /// Row 15: how many machine-independence commands fail.
    pub dependent: usize,
    /// Row 16: how many paths should be measured and cannot be.
    pub unmeasurable: usize,
    /// Row 16: by how much the change makes the project larger.
    pub delta: ComplexityDelta,
}

/// The terms by which rows 11 to 16 and 18 are asked, and the evidence for them.
fn asked(case: Case<'_>) -> Option<(&LastingTerms, Option<LastingEvidence>)> {
    Some((case.contract.judged_as_lasting()?, case.evidence.lasting))
}

/// Whether the loop waits for the promotion packet: green meets the target and has none.
pub fn awaits_packet(state: &State) -> bool {
    state.counters.lasting.as_ref().is_some_and(|counters| counters.awaiting_packet)
}

/// Row 5: whether a candidate that changes nothing brings what row 18 waits for.
pub(super) fn brings_packet(case: Case<'_>, facts: &mut Facts) -> bool {
    case.contract.judged_as_lasting().is_some()
        && awaits_packet(case.state)
        && facts.is(
            "it brings the promotion packet that is waited for",
            case.evidence.packet != PacketStanding::Absent,
            true,
        )
}

/// Whether one of rows 11 to 16 applies.
pub(super) fn rejects(row: Row, case: Case<'_>, facts: &mut Facts) -> bool {
    let Some((terms, evidence)) = asked(case) else { return false };
    // Evidence that nobody collected is missing.
    let evidence = evidence.unwrap_or(LastingEvidence { incomplete: true, ..LastingEvidence::default() });
    match row {
        Row::EvidenceIncomplete => {
            facts.is("the evidence that lasting code requires is there", !evidence.incomplete, false)
        }
        Row::SemanticChangeNotAllowed => {
            facts.more("declared changes of meaning that are not allowed", evidence.not_allowed, 0)
        }
        Row::InvariantEffectUnknown => {
            facts.more("invariants that are broken or of unknown effect", evidence.unknown, 0)
        }
        Row::LocalDefenseAdded => facts.more("local defenses, measured or declared", evidence.defenses, 0),
        Row::MachineIndependenceFailed => {
            facts.more("machine-independence commands that fail", evidence.dependent, 0)
        }
        _ => over_budget(&terms.complexity_budget, case.state, &evidence, facts),
    }
}

fn over_budget(
    budget: &ComplexityBudget,
    state: &State,
    evidence: &LastingEvidence,
    facts: &mut Facts,
) -> bool {
    const WHAT: [&str; 5] = [
        "fallback branches, accepted ones and this candidate's",
        "dependencies, accepted ones and this candidate's",
        "public interfaces, accepted ones and this candidate's",
        "cyclomatic complexity, accepted and this candidate's",
        "changed lines, accepted ones and this candidate's",
    ];
    let used =
        state.counters.lasting.as_ref().map_or_else(ComplexityDelta::default, |lasting| lasting.complexity);
    let together = used.plus(evidence.delta).parts();
    // What cannot be measured may be more than any budget.
    let mut over =
        facts.more("changed files that should be measured and cannot be", evidence.unmeasurable, 0);
    for ((what, sum), bound) in WHAT.into_iter().zip(together).zip(budget.parts()) {
        over |= facts.more(what, sum, bound);
    }
    over
}

/// Row 18, where the target is met: whether the promotion packet is missing or invalid.
pub(super) fn lacks_packet(case: Case<'_>, facts: &mut Facts) -> bool {
    facts.is("the promotion packet is valid", case.evidence.packet == PacketStanding::Valid, false)
}

/// The first row that would apply if `fine` were the evidence for rows 13 to 15.
fn row_if(
    contract: &Contract,
    state: &State,
    evidence: &Evidence,
    fine: impl Fn(LastingEvidence) -> LastingEvidence,
) -> Row {
    let evidence = Evidence { lasting: evidence.lasting.map(fine), ..evidence.clone() };
    first_row(Case { contract, state, evidence: &evidence }, &mut Vec::new()).0
}

/// Whether the commands of the invariants have to be run: none of rows 1 to 12 applies. What `evidence` says of the commands is not
/// looked at.
pub fn wants_invariants(contract: &Contract, state: &State, evidence: &Evidence) -> bool {
    let fine = |lasting| LastingEvidence { unknown: 0, dependent: 0, ..lasting };
    contract.judged_as_lasting().is_some()
        && row_if(contract, state, evidence, fine).number().is_some_and(|number| number > 12)
}

/// Whether the machine-independence commands have to be run: none of rows 1 to 14 applies. What `evidence` says of them is not looked
/// at.
pub fn wants_independence(contract: &Contract, state: &State, evidence: &Evidence) -> bool {
    let fine = |lasting| LastingEvidence { dependent: 0, ..lasting };
    contract.judged_as_lasting().is_some()
        && row_if(contract, state, evidence, fine).number().is_some_and(|number| number > 14)
}
