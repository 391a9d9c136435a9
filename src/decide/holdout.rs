//! The second check that no worker can see: when it is run, and what it may say.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::rows::Case;
use super::{Evidence, Row, first_row};
use crate::contract::Contract;
use crate::ledger::state::State;

/// What a holdout said. Nothing else of it is kept but how many of its tests failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HoldoutVerdict {
    /// Green.
    Passed,
    /// Red.
    Failed,
    /// Neither: it timed out, was killed, did not find what it runs, or contradicts itself.
    NoVerdict,
}

impl HoldoutVerdict {
    /// The word in the receipt.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::NoVerdict => "no_verdict",
        }
    }

    /// The verdict in a word or two, for people.
    pub fn told(self) -> &'static str {
        match self {
            Self::Passed => "green",
            Self::Failed => "red",
            Self::NoVerdict => "no verdict",
        }
    }
}

/// How often a holdout may be red: at this time the run ends.
pub const RED_LIMIT: u32 = 2;

/// Whether the holdout has to be asked: the contract has one, and without it row 18 or 19 would apply. What `evidence` says of the holdout is not looked at.
pub fn wants_holdout(contract: &Contract, state: &State, evidence: &Evidence) -> bool {
    if contract.holdout.is_none() {
        return false;
    }
    let evidence = Evidence { holdout: Some(HoldoutVerdict::Passed), ..evidence.clone() };
    let case = Case { contract, state, evidence: &evidence };
    // Where lasting code lacks its packet it would be kept all the same.
    let row = first_row(case, &mut Vec::new()).0;
    matches!(row, Row::TargetMet | Row::PacketMissing | Row::PromotionPacketInvalid)
}
