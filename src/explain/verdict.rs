//! From the halt reason and the trajectory to one of seven verdicts: pure, and one table.

use std::fmt::{self, Write as _};

use serde::Serialize;

use crate::exit::HaltReason;

/// What to do about a loop that has halted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Nothing: it is what it was meant to be.
    Done,
    /// Go on with more of what ran out.
    RaiseTheLimit,
    /// Find out why before anything is paid for again.
    Investigate,
    /// The objective as it stands cannot be reached.
    DoNotRetry,
    /// The check, or the machine under it, cannot be relied on.
    FixSubstrate,
    /// The terms or the set-up are at fault.
    FixConfig,
    /// Somebody has to look and answer.
    Review,
}

impl Verdict {
    /// Every verdict.
    pub const ALL: [Self; 7] = [
        Self::Done,
        Self::RaiseTheLimit,
        Self::Investigate,
        Self::DoNotRetry,
        Self::FixSubstrate,
        Self::FixConfig,
        Self::Review,
    ];

    /// The stable name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::RaiseTheLimit => "raise-the-limit",
            Self::Investigate => "investigate",
            Self::DoNotRetry => "do-not-retry",
            Self::FixSubstrate => "fix-substrate",
            Self::FixConfig => "fix-config",
            Self::Review => "review",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Where the trajectory was going when it ended. An iteration was *tried* unless it was interrupted or ran into the end of the
/// loop's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Trend {
    /// Green meets the target.
    Met,
    /// Some iteration was accepted, and those after it that were not are fewer than half of `limits.no_progress`.
    Improving,
    /// Some iteration was accepted, and as many after it were not.
    Stalled,
    /// Iterations were tried, and none was accepted.
    NeverImproved,
    /// No iteration was tried.
    Untried,
}

impl Trend {
    /// The trend from what is counted.
    ///
    /// `met`: an accepted iteration met the target. `accepted` and `tried`: how many iterations were. `since`: how many in a row
    /// were not accepted at the end. `no_progress`: the limit of that.
    pub fn of(met: bool, accepted: u32, tried: u32, since: u32, no_progress: u32) -> Self {
        match (met, accepted, tried) {
            (true, ..) => Self::Met,
            (false, 0, 0) => Self::Untried,
            (false, 0, _) => Self::NeverImproved,
            (false, ..) if u64::from(since) * 2 < u64::from(no_progress) => Self::Improving,
            (false, ..) => Self::Stalled,
        }
    }

    /// The trend in words.
    pub fn told(self) -> &'static str {
        match self {
            Self::Met => "green meets the target",
            Self::Improving => "still improving",
            Self::Stalled => "stalled",
            Self::NeverImproved => "never improved",
            Self::Untried => "nothing was tried",
        }
    }
}

/// What the verdict is found by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Situation {
    /// Why the loop halted.
    pub halt_reason: HaltReason,
    /// Whether it was promoted.
    pub promoted: bool,
    /// Where it was going.
    pub trend: Trend,
    /// Whether it stopped because the cost of a run is not known.
    pub cost_unknown: bool,
    /// Whether no candidate was measured, for a reason that is no candidate's: the worker failed, no change was where one is
    /// allowed, each changed what it may not, or the check gives no metric of the base either and did not call the candidate red.
    pub unmeasured: bool,
    /// Whether the check called a candidate red, and there is no metric that could be better: neither of the base.
    pub only_red: bool,
    /// Whether green meets the target and only the promotion packet of lasting code is missing.
    pub awaits_packet: bool,
}

/// When a rule applies, besides its halt reasons.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// [`Situation::promoted`].
    Promoted,
    /// [`Situation::cost_unknown`].
    CostUnknown,
    /// [`Situation::unmeasured`].
    Unmeasured,
    /// [`Situation::only_red`].
    OnlyRed,
    /// [`Situation::awaits_packet`].
    AwaitsPacket,
    /// The trend is this one.
    Trend(Trend),
    /// In any case.
    Always,
}

impl When {
    fn holds(self, situation: Situation) -> bool {
        match self {
            Self::Promoted => situation.promoted,
            Self::CostUnknown => situation.cost_unknown,
            Self::Unmeasured => situation.unmeasured,
            Self::OnlyRed => situation.only_red,
            Self::AwaitsPacket => situation.awaits_packet,
            Self::Trend(trend) => situation.trend == trend,
            Self::Always => true,
        }
    }

    fn told(self) -> &'static str {
        match self {
            Self::Promoted => "it was promoted",
            Self::CostUnknown => "the cost of a run is not known, and `limits.unknown_cost` is `stop`",
            Self::Unmeasured => "no candidate was ever measured",
            Self::OnlyRed => "red by the exit code each time, as the base is, and no metric",
            Self::AwaitsPacket => "only the promotion packet is missing",
            Self::Trend(trend) => trend.told(),
            Self::Always => "",
        }
    }
}

/// One line of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// The halt reasons that it is about.
    pub of: &'static [HaltReason],
    /// What else must hold.
    pub when: When,
    /// The verdict.
    pub verdict: Verdict,
    /// Why, in a sentence.
    pub why: &'static str,
}

const fn rule(of: &'static [HaltReason], when: When, verdict: Verdict, why: &'static str) -> Rule {
    Rule { of, when, verdict, why }
}

/// The limits on what may be used up.
const CUT_OFF: &[HaltReason] =
    &[HaltReason::MaxIterationsReached, HaltReason::BudgetExceeded, HaltReason::DeadlineExceeded];

const UNMEASURED: &str = "no candidate was ever measured, so the set-up is at fault, not the objective";
const ONLY_RED: &str =
    "the check ran and was red each time, and an exit code does not say how near that was; see what it said";

/// The table: the first line that applies gives the verdict.
pub const RULES: &[Rule] = {
    use HaltReason as H;
    use Verdict as V;
    use When::{Always, AwaitsPacket, CostUnknown, OnlyRed, Promoted, Unmeasured};
    &[
        rule(
            &[H::SuccessConditionMet],
            Promoted,
            V::Done,
            "the target is met, and it was reviewed and promoted",
        ),
        rule(
            &[H::SuccessConditionMet],
            Always,
            V::Review,
            "the target is met; somebody other than who ran it has to review it",
        ),
        rule(
            &[H::NoActionableTasks],
            Always,
            V::Done,
            "the base meets the target already, so there was nothing to do",
        ),
        rule(&[H::HumanRequired], Always, V::Review, "a finding waits for a person"),
        rule(&[H::EscalationPending], Always, V::Review, "a question waits for an answer"),
        rule(
            &[H::ComprehensionDebtExceeded],
            Always,
            V::Review,
            "nobody has read what was accepted; read it before there is more",
        ),
        rule(
            &[H::BudgetExceeded],
            CostUnknown,
            V::FixConfig,
            "nobody knows what a run cost; mend how the cost is read, or allow that it is unknown",
        ),
        rule(
            CUT_OFF,
            AwaitsPacket,
            V::RaiseTheLimit,
            "the target is met, and only the promotion packet is missing; a renewal goes on for it",
        ),
        rule(
            CUT_OFF,
            When::Trend(Trend::Met),
            V::RaiseTheLimit,
            "the target was met, and a hard limit was broken with it; a renewal checks green once more, for a review",
        ),
        rule(
            CUT_OFF,
            When::Trend(Trend::Improving),
            V::RaiseTheLimit,
            "it was still getting better when the limit cut it off",
        ),
        rule(
            CUT_OFF,
            When::Trend(Trend::Untried),
            V::RaiseTheLimit,
            "the limit ended it before anything was tried",
        ),
        rule(CUT_OFF, Unmeasured, V::FixConfig, UNMEASURED),
        rule(CUT_OFF, OnlyRed, V::Investigate, ONLY_RED),
        rule(
            CUT_OFF,
            Always,
            V::Investigate,
            "it was not getting better any more when the limit ended it; more of the same will not help",
        ),
        rule(
            &[H::OperatorStopped],
            Always,
            V::Investigate,
            "a person stopped it; what they said tells whether to go on",
        ),
        rule(
            &[H::CostAnomaly],
            Always,
            V::Investigate,
            "one iteration cost far more than those before it; find out why before another is paid for",
        ),
        rule(
            &[H::NoProgressDetected],
            AwaitsPacket,
            V::Investigate,
            "the target is met, and no valid promotion packet was brought; see what is wrong with those that were",
        ),
        rule(
            &[H::NoProgressDetected],
            Always,
            V::Investigate,
            "it got better and then no more; change the approach",
        ),
        rule(
            &[H::SameFailureRepeated],
            Always,
            V::Investigate,
            "the very same tests failed each time; change the approach",
        ),
        rule(
            &[H::OscillationDetected],
            Always,
            V::Investigate,
            "what one iteration mends, another breaks; change the approach",
        ),
        rule(
            &[H::SameTestRegressed],
            Always,
            V::Investigate,
            "one test was broken again and again; change the approach",
        ),
        rule(
            &[H::LocalDefenseLimit],
            Always,
            V::Investigate,
            "it defends locally instead of mending the cause; change the approach",
        ),
        rule(
            &[H::UnsatisfiableConstraints],
            Always,
            V::DoNotRetry,
            "two tests fail by turns: what one of them wants, the other forbids",
        ),
        rule(&[H::InfeasibleSuspected], Unmeasured, V::FixConfig, UNMEASURED),
        rule(&[H::InfeasibleSuspected], OnlyRed, V::Investigate, ONLY_RED),
        rule(
            &[H::InfeasibleSuspected],
            Always,
            V::DoNotRetry,
            "nothing that was tried was ever better than the base",
        ),
        rule(&[H::CheckFlaky], Always, V::FixSubstrate, "the check does not agree with itself"),
        rule(
            &[H::CheckHasSideEffects],
            Always,
            V::FixSubstrate,
            "the check leaves traces that change its next run",
        ),
        rule(
            &[H::CheckNotHermetic, H::HermeticityViolation],
            Always,
            V::FixSubstrate,
            "the check depends on something outside its tree",
        ),
        rule(
            &[H::CheckInadequate],
            Always,
            V::FixSubstrate,
            "the check does not notice what it is there for",
        ),
        rule(&[H::HeartbeatStale], Always, V::FixSubstrate, "nobody heard from the runner"),
        rule(&[H::ExecutionFailure], Always, V::FixConfig, "the worker failed"),
        rule(&[H::WorkspaceInvalid], Always, V::FixConfig, "the repository or the machine is not fit"),
        rule(
            &[H::IsolationUnsatisfiable],
            Always,
            V::FixConfig,
            "this machine cannot isolate as the contract asks",
        ),
        rule(&[H::CredentialScopeInvalid], Always, V::FixConfig, "a credential reaches further than it may"),
        rule(&[H::ModelDriftDetected], Always, V::FixConfig, "the model is not the one that was pinned"),
        rule(&[H::ContextBudgetUnsatisfiable], Always, V::FixConfig, "the context does not fit"),
        rule(
            &[H::BlockedPathModified],
            Always,
            V::Investigate,
            "the worker changed what no loop may change; see whether it had to, before an approver renews",
        ),
        rule(
            &[H::MetricIntegrityViolation],
            Always,
            V::Investigate,
            "the check, or what it collects, was changed; see by whom and why, before an approver renews",
        ),
        rule(
            &[H::RewardHackingDetected],
            Always,
            V::Investigate,
            "the metric was met and the objective was not",
        ),
        rule(&[H::ObjectiveUnverified], Always, V::Investigate, "a replay gave another verdict"),
        rule(
            &[H::ReviewerRejected],
            Always,
            V::Investigate,
            "a reviewer said no; what they said tells what is missing",
        ),
        rule(&[H::InvariantFailed], Always, V::Investigate, "a ledger does not verify, or a rollback failed"),
        rule(&[H::InternalError], Always, V::Investigate, "a fault of git-loop"),
    ]
};

/// The line of the table that applies.
pub fn verdict(situation: Situation) -> Rule {
    let applies = |rule: &&Rule| rule.of.contains(&situation.halt_reason) && rule.when.holds(situation);
    *RULES
        .iter()
        .find(applies)
        .expect("a test sees to it that every halt reason has a line without a condition")
}

/// The table as it stands in the docs.
pub fn markdown() -> String {
    let mut text = "| `halt_reason` | and | verdict | because |\n| --- | --- | --- | --- |\n".to_owned();
    for Rule { of, when, verdict, why } in RULES {
        let of: Vec<String> = of.iter().map(|reason| format!("`{reason}`")).collect();
        let _ = writeln!(text, "| {} | {} | `{verdict}` | {why} |", of.join(", "), when.told());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(halt_reason: HaltReason, trend: Trend) -> &'static str {
        let situation = Situation {
            halt_reason,
            promoted: false,
            trend,
            cost_unknown: false,
            unmeasured: false,
            only_red: false,
            awaits_packet: false,
        };
        verdict(situation).verdict.as_str()
    }

    #[test]
    fn every_halt_reason_has_a_verdict_and_every_verdict_a_reason() {
        for reason in HaltReason::ALL {
            let last = RULES.iter().rfind(|rule| rule.of.contains(reason)).unwrap();
            assert_eq!(last.when, When::Always, "{reason}");
            // Nothing stands after the line that always applies.
            let lines = RULES.iter().filter(|rule| rule.of.contains(reason));
            assert_eq!(lines.filter(|rule| rule.when == When::Always).count(), 1, "{reason}");
        }
        for verdict in Verdict::ALL {
            assert!(RULES.iter().any(|rule| rule.verdict == verdict), "{verdict}");
            assert_eq!(serde_json::to_value(verdict).unwrap(), verdict.as_str());
        }
    }

    #[test]
    fn a_limit_is_raised_while_it_helps() {
        use Trend as T;
        for reason in CUT_OFF {
            for (trend, expected) in [
                (T::Met, "raise-the-limit"),
                (T::Improving, "raise-the-limit"),
                (T::Untried, "raise-the-limit"),
                (T::Stalled, "investigate"),
                (T::NeverImproved, "investigate"),
            ] {
                assert_eq!(told(*reason, trend), expected, "{reason} {trend:?}");
            }
        }
        // What is not known is mended, however well it went.
        let unknown = Situation {
            halt_reason: HaltReason::BudgetExceeded,
            promoted: false,
            trend: T::Improving,
            cost_unknown: true,
            unmeasured: false,
            only_red: false,
            awaits_packet: false,
        };
        assert_eq!(verdict(unknown).verdict, Verdict::FixConfig);
        assert_eq!(
            verdict(Situation { halt_reason: HaltReason::DeadlineExceeded, ..unknown }).verdict,
            Verdict::RaiseTheLimit
        );
    }

    #[test]
    fn the_other_reasons_speak_for_themselves() {
        use HaltReason as H;
        for (reason, expected) in [
            (H::SuccessConditionMet, "review"),
            (H::HumanRequired, "review"),
            (H::EscalationPending, "review"),
            (H::ComprehensionDebtExceeded, "review"),
            (H::NoActionableTasks, "done"),
            (H::OperatorStopped, "investigate"),
            (H::NoProgressDetected, "investigate"),
            (H::SameFailureRepeated, "investigate"),
            (H::OscillationDetected, "investigate"),
            (H::SameTestRegressed, "investigate"),
            (H::CostAnomaly, "investigate"),
            (H::UnsatisfiableConstraints, "do-not-retry"),
            (H::InfeasibleSuspected, "do-not-retry"),
            (H::CheckFlaky, "fix-substrate"),
            (H::CheckInadequate, "fix-substrate"),
            (H::ExecutionFailure, "fix-config"),
            (H::WorkspaceInvalid, "fix-config"),
            (H::IsolationUnsatisfiable, "fix-config"),
            (H::MetricIntegrityViolation, "investigate"),
            (H::ReviewerRejected, "investigate"),
        ] {
            for trend in [Trend::Met, Trend::Improving, Trend::Stalled, Trend::NeverImproved, Trend::Untried]
            {
                assert_eq!(told(reason, trend), expected, "{reason} {trend:?}");
            }
        }
        let met = Situation {
            halt_reason: H::SuccessConditionMet,
            promoted: true,
            trend: Trend::Met,
            cost_unknown: false,
            unmeasured: false,
            only_red: false,
            awaits_packet: false,
        };
        assert_eq!(verdict(met).verdict, Verdict::Done);
        let unmeasured =
            Situation { halt_reason: H::InfeasibleSuspected, promoted: false, unmeasured: true, ..met };
        assert_eq!(verdict(unmeasured).verdict, Verdict::FixConfig);
        let only_red = Situation { only_red: true, unmeasured: false, ..unmeasured };
        assert_eq!(verdict(only_red).verdict, Verdict::Investigate);
        for halt_reason in CUT_OFF {
            for (situation, expected) in [(unmeasured, Verdict::FixConfig), (only_red, Verdict::Investigate)]
            {
                let cut = Situation { halt_reason: *halt_reason, trend: Trend::NeverImproved, ..situation };
                assert_eq!(verdict(cut).verdict, expected, "{halt_reason}");
            }
        }
        let waiting =
            Situation { halt_reason: H::NoProgressDetected, promoted: false, awaits_packet: true, ..met };
        assert!(verdict(waiting).why.contains("promotion packet"));
        let cut_off = Situation { halt_reason: H::MaxIterationsReached, ..waiting };
        assert_eq!(verdict(cut_off).verdict, Verdict::RaiseTheLimit);
        assert!(verdict(cut_off).why.contains("goes on for it"));
    }

    #[test]
    fn the_trend_at_its_boundaries() {
        use Trend as T;
        for ((met, accepted, tried, since, limit), expected) in [
            ((true, 1, 1, 0, 3), T::Met),
            ((false, 0, 0, 0, 3), T::Untried),
            ((false, 0, 1, 1, 3), T::NeverImproved),
            ((false, 1, 1, 0, 1), T::Improving),
            ((false, 1, 2, 1, 3), T::Improving),
            ((false, 1, 2, 1, 2), T::Stalled),
            ((false, 1, 3, 2, 3), T::Stalled),
            ((false, 1, 10, 9, 20), T::Improving),
            ((false, 1, 11, 10, 20), T::Stalled),
            ((false, u32::MAX, u32::MAX, u32::MAX, u32::MAX), T::Stalled),
        ] {
            assert_eq!(T::of(met, accepted, tried, since, limit), expected, "{accepted} {since} {limit}");
        }
    }

    #[test]
    fn the_docs_have_the_table() {
        const BEGIN: &str = "<!-- generated: verdicts -->\n";
        const END: &str = "<!-- end generated: verdicts -->";
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/src/design/decision.md");
        let page = std::fs::read_to_string(path).unwrap();
        let (before, rest) = page.split_once(BEGIN).expect("the page has the table's first marker");
        let (table, after) = rest.split_once(END).expect("the page has the table's last marker");
        if std::env::var_os("GIT_LOOP_BLESS").is_some() {
            std::fs::write(path, format!("{before}{BEGIN}{}{END}{after}", markdown())).unwrap();
            return;
        }
        assert!(table == markdown(), "{path} is stale: run the test again with GIT_LOOP_BLESS=1");
    }
}
