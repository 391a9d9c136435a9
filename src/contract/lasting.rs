//! What `class = "lasting_code"` asks of a contract besides the rest.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::file::{Class, Command, LoopFile};

/// The keys at the top level that `lasting_code` requires and every other class refuses.
pub const LASTING_KEYS: [&str; 9] = [
    "invariant_boundaries",
    "allowed_semantic_changes",
    "forbidden_semantic_changes",
    "machine_independence_requirements",
    "review_risk",
    "required_review_personas",
    "complexity_budget",
    "local_defense_limit",
    "human_promotion_required",
];

/// A command with the name of what it shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NamedCommand {
    /// The name; unique in its list. A promotion packet names it letter for letter.
    #[schemars(length(min = 1, max = 200))]
    pub name: String,
    /// What to run; it shows the point by succeeding.
    pub command: Command,
}

/// How far from the worker the reviewers of lasting code must stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReviewRisk {
    /// Every reviewer is another agent than the worker.
    Standard,
    /// Also: at least one reviewer has another model.
    High,
    /// Also: no reviewer has the worker's model.
    Critical,
}

/// How much the accepted candidates of a loop may add together. 0 allows none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ComplexityBudget {
    /// Branches that catch what should not happen.
    #[schemars(range(min = 0, max = 1_000_000))]
    pub fallback_branches: u32,
    /// Dependencies on other packages.
    #[schemars(range(min = 0, max = 1_000_000))]
    pub dependencies: u32,
    /// Interfaces that others can see.
    #[schemars(range(min = 0, max = 1_000_000))]
    pub public_interfaces: u32,
    /// Independent paths through the code.
    #[schemars(range(min = 0, max = 1_000_000))]
    pub cyclomatic_complexity: u32,
    /// Lines added or removed.
    #[schemars(range(min = 0, max = 1_000_000))]
    pub changed_lines: u32,
}

impl ComplexityBudget {
    /// The five bounds, in the order of [`crate::decide::ComplexityDelta::NAMES`].
    pub fn parts(&self) -> [i64; 5] {
        [
            self.fallback_branches,
            self.dependencies,
            self.public_interfaces,
            self.cyclomatic_complexity,
            self.changed_lines,
        ]
        .map(i64::from)
    }
}

/// The terms of lasting code, complete: what a validated [`LoopFile`] of that class holds at its top level.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LastingTerms {
    /// What must stay true of the code, each with the command that shows it.
    pub invariant_boundaries: Vec<NamedCommand>,
    /// The changes of meaning that a candidate may declare.
    pub allowed_semantic_changes: Vec<String>,
    /// The changes of meaning that reject a candidate.
    pub forbidden_semantic_changes: Vec<String>,
    /// Commands that must pass without a model, a credential or a network.
    pub machine_independence_requirements: Vec<NamedCommand>,
    /// How far from the worker the reviewers must stand.
    pub review_risk: ReviewRisk,
    /// The points of view that the reviews must cover.
    pub required_review_personas: Vec<String>,
    /// How much complexity may be added.
    pub complexity_budget: ComplexityBudget,
    /// After how many local defenses the loop stops.
    pub local_defense_limit: u32,
    /// Always true.
    pub human_promotion_required: bool,
}

impl LoopFile {
    /// The terms of lasting code; `None` for any other class. A file that [`super::parse()`] accepted has them all.
    pub fn lasting_terms(&self) -> Option<LastingTerms> {
        if self.class != Class::LastingCode {
            return None;
        }
        Some(LastingTerms {
            invariant_boundaries: self.invariant_boundaries.clone()?,
            allowed_semantic_changes: self.allowed_semantic_changes.clone()?,
            forbidden_semantic_changes: self.forbidden_semantic_changes.clone()?,
            machine_independence_requirements: self.machine_independence_requirements.clone()?,
            review_risk: self.review_risk?,
            required_review_personas: self.required_review_personas.clone()?,
            complexity_budget: self.complexity_budget.clone()?,
            local_defense_limit: self.local_defense_limit?,
            human_promotion_required: self.human_promotion_required?,
        })
    }
}
