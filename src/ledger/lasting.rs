//! What is told of a candidate of lasting code, and what that comes to: the same for the runner that saw it and for whoever verifies.

use gix::bstr::{BString, ByteSlice};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::load::read as read_bounded;
use super::observe::Sample;
use super::receipt::{Receipt, RunReceipt};
use super::rederive::{Context, RederiveError, cpus_fit, ended_once, enforced_fits, fits, is_allowed, same};
use super::state::State;
use crate::check::lasting_verdict::{self, Declared};
use crate::contract::lasting::NamedCommand;
use crate::contract::resolve::command;
use crate::contract::{Contract, LastingTerms, NetworkTerms};
use crate::decide::{
    ComplexityDelta, Evidence, InvariantEffect, LastingEvidence, PacketStanding, wants_independence,
    wants_invariants,
};
use crate::git::{Bound, Repo};
use crate::oid::Oid;
use crate::review::citation::CitationError;
use crate::review::packet::{self, FrozenPacket};
use crate::sandbox::Enforcement;
use crate::worker::evidence::{self, WorkerEvidence};

/// The version of the definitions of what is measured; a build that cannot measure knows it, too.
const MEASURE: u32 = 1;
#[cfg(feature = "measure")]
const _: () = assert!(MEASURE == crate::measure::VERSION, "each version of the definitions has its rules");

/// How many paths that were not measured are listed.
pub const LISTED_UNMEASURED: usize = 100;

/// What is told of a candidate of lasting code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LastingReceipt {
    /// Why the worker's evidence is not what the contract requires; null if it is.
    pub incomplete: Option<String>,
    /// The changes of meaning that the worker declared.
    pub semantic_changes: Vec<String>,
    /// What the check said of the invariants, in all of its runs: each word once.
    pub declared_effects: Vec<InvariantEffect>,
    /// What the check said of the complexity, of several runs the larger of each number; null if it said nothing.
    pub declared_delta: Option<ComplexityDelta>,
    /// What was measured.
    pub measured: MeasuredReceipt,
    /// What counts: of measured and declared the larger of each number.
    pub delta: ComplexityDelta,
    /// The invariants; null where an earlier row decided.
    pub invariants: Option<Vec<InvariantReceipt>>,
    /// The machine-independence commands; null where an earlier row decided.
    pub independence: Option<Vec<CommandReceipt>>,
    /// The promotion packet with what it cites; null without a valid one.
    pub packet: Option<FrozenPacket>,
    /// Why the packet that was brought is not valid; null if it is, and without one.
    pub packet_problem: Option<String>,
}

/// What was measured of a candidate, from green's tree to its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MeasuredReceipt {
    /// The version of the definitions.
    pub measure: u32,
    /// The five numbers.
    pub delta: ComplexityDelta,
    /// How many fallback branches are new, whatever else went.
    pub fallbacks_added: u64,
    /// How many paths of the candidate are of a kind that is measured and could not be, so that the numbers may be too small.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unmeasurable: u64,
    /// How many paths are not measured in full.
    pub unmeasured: u64,
    /// The first 100 of them, in the order in which they were met.
    pub not_measured: Vec<UnmeasuredReceipt>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// A path that some of the numbers leave out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UnmeasuredReceipt {
    /// The path, escaped.
    pub path: String,
    /// The numbers.
    pub of: Vec<String>,
    /// Why, as `git loop measure` says it.
    pub why: String,
}

/// One run of a command that shows something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CommandReceipt {
    /// The name of what it shows.
    pub name: String,
    /// The run.
    pub run: RunReceipt,
    /// What isolation it had; null if it could not be started.
    pub sandbox: Option<Enforcement>,
    /// Whether a frozen file was changed while it ran, so that what it shows counts for nothing.
    pub frozen_changed: bool,
    /// Whether it passes: it ended by itself with exit code 0, and no frozen file was changed.
    pub passed: bool,
}

/// One invariant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InvariantReceipt {
    /// What became of it.
    pub effect: InvariantEffect,
    /// Its command.
    pub command: CommandReceipt,
}

impl CommandReceipt {
    /// The receipt of a run.
    pub fn new(name: &str, run: RunReceipt, sandbox: Option<Enforcement>, frozen_changed: bool) -> Self {
        let passed = run.ended == "itself" && run.exit_code == Some(0) && !frozen_changed;
        Self { name: name.to_owned(), run, sandbox, frozen_changed, passed }
    }

    /// Whether it showed anything, either way: it ended by itself with an exit code.
    fn says(&self) -> bool {
        self.run.ended == "itself" && self.run.exit_code.is_some() && !self.frozen_changed
    }
}

impl InvariantReceipt {
    /// What became of an invariant whose command did that. `said` is what is said of all of them together.
    pub fn new(command: CommandReceipt, state: &State, said: Option<InvariantEffect>) -> Self {
        let failed_before = state
            .counters
            .lasting
            .as_ref()
            .is_some_and(|counters| counters.failed_at_baseline.contains(&command.name));
        let effect = match (command.passed, command.says()) {
            (false, true) => InvariantEffect::Broken,
            (false, false) => InvariantEffect::Unknown,
            (true, _) => said.unwrap_or(if failed_before {
                InvariantEffect::Strengthened
            } else {
                InvariantEffect::Preserved
            }),
        };
        Self { effect, command }
    }
}

/// What the worker brought, read.
#[derive(Debug)]
pub struct Brought {
    /// What it says, or why that is not what the contract requires.
    pub evidence: Result<WorkerEvidence, String>,
    /// The packet, if it brought one: with what it cites, or what is wrong with it.
    pub packet: Option<Result<FrozenPacket, String>>,
}

impl Brought {
    /// Reads the worker's evidence of a candidate with the tree `tree`.
    pub fn read(
        repo: &Repo,
        terms: &LastingTerms,
        tree: Oid,
        bytes: Option<&[u8]>,
    ) -> Result<Self, CitationError> {
        let evidence = evidence::parse(bytes);
        let packet = match evidence.as_ref().ok().and_then(|evidence| evidence.packet.as_ref()) {
            Some(json) => Some(packet::freeze(repo, tree.0, terms, json)?),
            None => None,
        };
        Ok(Self { evidence, packet })
    }

    /// What rows 5 and 18 ask.
    pub fn standing(&self) -> PacketStanding {
        match &self.packet {
            None => PacketStanding::Absent,
            Some(Err(_)) => PacketStanding::Invalid,
            Some(Ok(_)) => PacketStanding::Valid,
        }
    }
}

impl LastingReceipt {
    /// What is known once the check has run and before any other command has: what was brought, declared and measured.
    pub fn new(brought: Brought, samples: &[Sample], measured: MeasuredReceipt) -> Self {
        let declared: Vec<Declared> = samples
            .iter()
            .filter_map(|sample| lasting_verdict::parse(sample.capture.verdict.as_deref()?).ok())
            .map(|(_, declared)| declared)
            .collect();
        let mut declared_effects: Vec<_> = declared.iter().filter_map(|one| one.effect).collect();
        declared_effects.sort_unstable();
        declared_effects.dedup();
        let declared_delta = declared.iter().filter_map(|one| one.delta).reduce(ComplexityDelta::larger);
        let (semantic_changes, incomplete) = match brought.evidence {
            Ok(evidence) => (evidence.semantic_changes, None),
            Err(why) => (Vec::new(), Some(why)),
        };
        let (packet, packet_problem) = match brought.packet {
            None => (None, None),
            Some(Ok(packet)) => (Some(packet), None),
            Some(Err(why)) => (None, Some(why)),
        };
        Self {
            incomplete,
            semantic_changes,
            declared_effects,
            declared_delta,
            delta: declared_delta.map_or(measured.delta, |declared| declared.larger(measured.delta)),
            measured,
            invariants: None,
            independence: None,
            packet,
            packet_problem,
        }
    }

    /// What is said of an invariant whose command passes, besides what the command shows: a measured fallback branch is a local defense
    /// whatever was declared; else the worst word of the check counts, if it is a bad one.
    pub fn said(&self) -> Option<InvariantEffect> {
        let declared = |effect| self.declared_effects.contains(&effect).then_some(effect);
        if self.measured.fallbacks_added > 0 {
            return Some(InvariantEffect::LocalDefenseAdded);
        }
        declared(InvariantEffect::Unknown).or_else(|| declared(InvariantEffect::LocalDefenseAdded))
    }

    /// What the decision looks at.
    pub fn evidence(&self, terms: &LastingTerms) -> LastingEvidence {
        let not_allowed = |change: &&String| {
            terms.forbidden_semantic_changes.contains(change)
                || !terms.allowed_semantic_changes.contains(change)
        };
        let failing = |list: &Option<Vec<CommandReceipt>>| {
            // What was not run shows nothing.
            list.as_ref().map_or(1, |list| list.iter().filter(|one| !one.passed).count())
        };
        let unsure = |one: &&InvariantReceipt| {
            matches!(one.effect, InvariantEffect::Unknown | InvariantEffect::Broken)
        };
        let unknown = self.invariants.as_ref().map_or(1, |list| list.iter().filter(unsure).count());
        LastingEvidence {
            incomplete: self.incomplete.is_some(),
            not_allowed: self.semantic_changes.iter().filter(not_allowed).count(),
            unknown,
            defenses: usize::try_from(self.measured.fallbacks_added)
                .unwrap_or(usize::MAX)
                .max(usize::from(self.declared_effects.contains(&InvariantEffect::LocalDefenseAdded))),
            dependent: failing(&self.independence),
            unmeasurable: usize::try_from(self.measured.unmeasurable).unwrap_or(usize::MAX),
            delta: self.delta,
        }
    }

    /// The runs of its commands.
    pub fn runs(&self) -> impl Iterator<Item = &RunReceipt> {
        let invariants = self.invariants.iter().flatten().map(|one| &one.command.run);
        invariants.chain(self.independence.iter().flatten().map(|one| &one.run))
    }
}

/// The change from green's tree to the candidate's, measured. A fault is one of the repository or of the machine.
#[cfg(feature = "measure")]
pub fn measured(repo: &Repo, old: Oid, new: Oid) -> crate::error::Result<MeasuredReceipt> {
    use crate::measure::report::{Delta, NotMeasured};
    let measured = crate::measure::measure(repo, old.0, new.0)?;
    let name = |delta: &Delta| {
        serde_json::to_value(delta).ok().and_then(|name| name.as_str().map(str::to_owned)).unwrap_or_default()
    };
    let told = |one: &NotMeasured| UnmeasuredReceipt {
        path: one.path.clone(),
        of: one.of.iter().map(name).collect(),
        why: one.why.told().to_owned(),
    };
    Ok(MeasuredReceipt {
        measure: measured.measure,
        delta: ComplexityDelta {
            fallback_branches: measured.fallback_branches,
            dependencies: measured.dependencies,
            public_interfaces: measured.public_interfaces,
            cyclomatic_complexity: measured.cyclomatic_complexity,
            changed_lines: measured.changed_lines,
        },
        fallbacks_added: measured.fallbacks.added.len() as u64,
        unmeasurable: measured.unmeasurable.len() as u64,
        unmeasured: measured.not_measured.len() as u64,
        not_measured: measured.not_measured.iter().take(LISTED_UNMEASURED).map(told).collect(),
    })
}

/// The error of a build without `measure`, which cannot decide on lasting code.
#[cfg(not(feature = "measure"))]
pub fn measured(_: &Repo, _: Oid, _: Oid) -> crate::error::Result<MeasuredReceipt> {
    Err(crate::error::Error::workspace(CANNOT_MEASURE))
}

/// What a build without `measure` says of a loop of lasting code.
pub const CANNOT_MEASURE: &str =
    "lasting code is measured, and this git-loop was built without its feature `measure`";

/// Whether this build can measure.
pub fn can_measure() -> bool {
    cfg!(feature = "measure")
}

/// What was brought with an iteration, read again from its evidence; `None` where the rows for lasting code are not asked, or there is no
/// candidate.
pub(super) fn brought_again(
    context: &Context<'_>,
    receipt: &Receipt,
    files: &[(BString, Oid)],
) -> Result<Option<Brought>, RederiveError> {
    let (Some(terms), Some(tree)) = (context.contract.judged_as_lasting(), receipt.candidate_tree) else {
        return Ok(None);
    };
    if receipt.abandoned.is_some() {
        return Ok(None);
    }
    let bytes = match files.iter().find(|(name, _)| name.as_bstr() == "worker.json") {
        Some((_, id)) => Some(read_bounded(context.repo, *id, Bound::WORKER_EVIDENCE)?),
        None => None,
    };
    Brought::read(context.repo, terms, tree, bytes.as_deref()).map(Some).map_err(|error| match error {
        CitationError::Object(error) => RederiveError::Object(error),
        other => RederiveError::Cited(other.to_string()),
    })
}

/// Whether what is told of lasting code follows from the evidence, fits the contract, and is there exactly where it must be. Puts what
/// it comes to into `derived`.
pub(super) fn lasting_again(
    context: &Context<'_>,
    receipt: &Receipt,
    brought: Option<Brought>,
    samples: &[Sample],
    derived: &mut Evidence,
) -> Result<(), RederiveError> {
    let contract = context.contract;
    let wanted = contract.judged_as_lasting().filter(|_| receipt.check.is_some());
    same("lasting", &receipt.lasting.is_some(), &wanted.is_some())?;
    let (Some(terms), Some(told), Some(brought), Some(tree)) =
        (wanted, &receipt.lasting, brought, receipt.candidate_tree)
    else {
        return Ok(());
    };
    measured_again(context, receipt, tree, &told.measured)?;
    let mut expected = LastingReceipt::new(brought, samples, told.measured.clone());
    // That there is a problem is derived; in which words it is told may change.
    for (expected, told) in
        [(&mut expected.incomplete, &told.incomplete), (&mut expected.packet_problem, &told.packet_problem)]
    {
        if let (Some(expected), Some(told)) = (expected, told) {
            expected.clone_from(told);
        }
    }
    derived.lasting = Some(expected.evidence(terms));
    let invariants = wants_invariants(contract, context.before, derived);
    same("lasting.invariants", &told.invariants.is_some(), &invariants)?;
    if let Some(list) = &told.invariants {
        let commands: Vec<&CommandReceipt> = list.iter().map(|one| &one.command).collect();
        let network = &contract.sandbox.check_network;
        commands_fit(contract, "lasting.invariants", &terms.invariant_boundaries, &commands, network)?;
        let said = expected.said();
        let again = list.iter().map(|one| InvariantReceipt::new(one.command.clone(), context.before, said));
        expected.invariants = Some(again.collect());
    }
    derived.lasting = Some(expected.evidence(terms));
    let independence = wants_independence(contract, context.before, derived);
    same("lasting.independence", &told.independence.is_some(), &independence)?;
    if let Some(list) = &told.independence {
        let commands: Vec<&CommandReceipt> = list.iter().collect();
        let requirements = &terms.machine_independence_requirements;
        commands_fit(contract, "lasting.independence", requirements, &commands, &NetworkTerms::None)?;
        expected.independence = Some(list.clone());
    }
    derived.lasting = Some(expected.evidence(terms));
    same("lasting", told, &expected)
}

/// Measures again where that is asked and this build knows the definitions; else what was measured is the runner's word.
fn measured_again(
    context: &Context<'_>,
    receipt: &Receipt,
    tree: Oid,
    told: &MeasuredReceipt,
) -> Result<(), RederiveError> {
    let listed = usize::try_from(told.unmeasured).unwrap_or(usize::MAX).min(LISTED_UNMEASURED);
    same("lasting.measured.measure", &told.measure, &MEASURE)?;
    same("lasting.measured.not_measured", &told.not_measured.len(), &listed)?;
    same("lasting.measured.unmeasurable", &told.unmeasurable.min(told.unmeasured), &told.unmeasurable)?;
    #[cfg(feature = "measure")]
    if context.measures {
        let base = Oid(context.repo.commit_tree(receipt.base.0)?);
        let again = measured(context.repo, base, tree)
            .map_err(|error| RederiveError::Measured(error.message().to_owned()))?;
        same("lasting.measured", told, &again)?;
    }
    #[cfg(not(feature = "measure"))]
    let _ = (context, receipt, tree);
    Ok(())
}

/// Whether the runs of the invariants' commands on the base fit the contract.
pub(super) fn baseline_fits(
    contract: &Contract,
    told: Option<&Vec<CommandReceipt>>,
) -> Result<(), RederiveError> {
    let terms = contract.judged_as_lasting();
    same("invariants", &told.is_some(), &terms.is_some())?;
    if let (Some(terms), Some(told)) = (terms, told) {
        let commands: Vec<&CommandReceipt> = told.iter().collect();
        let network = &contract.sandbox.check_network;
        commands_fit(contract, "invariants", &terms.invariant_boundaries, &commands, network)?;
    }
    Ok(())
}

/// Whether what is told of commands is one run of each that the contract names, in their order.
fn commands_fit(
    contract: &Contract,
    field: &'static str,
    named: &[NamedCommand],
    told: &[&CommandReceipt],
    network: &NetworkTerms,
) -> Result<(), RederiveError> {
    let found: Vec<&str> = told.iter().map(|one| one.name.as_str()).collect();
    let expected: Vec<&str> = named.iter().map(|one| one.name.as_str()).collect();
    same(field, &found, &expected)?;
    for (named, told) in named.iter().zip(told) {
        same(field, &fits(&command(&named.command), &told.run.command), &true)?;
        ended_once(field, &told.run)?;
        let sandbox = told.sandbox.as_ref();
        same(field, &sandbox.is_none_or(|one| is_allowed(contract, one)), &true)?;
        cpus_fit(field, sandbox, contract.check.cpus)?;
        enforced_fits(field, sandbox, &told.run, network)?;
        let again = CommandReceipt::new(&told.name, told.run.clone(), told.sandbox, told.frozen_changed);
        same(field, *told, &again)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::decide::testing::{contract_of_lasting, state};
    use crate::ledger::observe::Capture;

    fn run(ended: &str, exit_code: Option<i32>) -> RunReceipt {
        RunReceipt {
            command: vec!["sh".to_owned()],
            exit_code,
            signal: None,
            ended: ended.to_owned(),
            duration_ms: 1,
            survivors: 0,
        }
    }

    fn measured(fallbacks_added: u64) -> MeasuredReceipt {
        MeasuredReceipt {
            measure: 1,
            delta: ComplexityDelta::from_parts([0, 2, 0, -3, 4]),
            fallbacks_added,
            unmeasurable: 0,
            unmeasured: 0,
            not_measured: Vec::new(),
        }
    }

    fn said(verdicts: &[&str], fallbacks_added: u64) -> LastingReceipt {
        let sample = |text: &&str| Sample {
            run: run("itself", Some(0)),
            capture: Capture { verdict: Some(text.as_bytes().to_vec()), ..Capture::default() },
        };
        let samples: Vec<Sample> = verdicts.iter().map(sample).collect();
        let brought = Brought { evidence: Ok(WorkerEvidence::default()), packet: None };
        LastingReceipt::new(brought, &samples, measured(fallbacks_added))
    }

    #[test]
    fn a_command_passes_only_by_ending_well_beside_frozen_files() {
        let passed = |ended, code, changed| CommandReceipt::new("x", run(ended, code), None, changed).passed;
        assert!(passed("itself", Some(0), false));
        for (ended, code, changed) in [
            ("itself", Some(1), false),
            ("itself", None, false),
            ("itself", Some(0), true),
            ("timed_out", Some(0), false),
            ("deadline", Some(0), false),
            ("output_limit", Some(0), false),
        ] {
            assert!(!passed(ended, code, changed), "{ended} {code:?} {changed}");
        }
    }

    #[test]
    fn an_effect_is_what_the_command_shows_and_never_better_than_what_is_said() {
        use InvariantEffect::{Broken, LocalDefenseAdded, Preserved, Strengthened, Unknown};
        let contract = contract_of_lasting();
        let mut state = state(&contract);
        state.counters.lasting.as_mut().unwrap().failed_at_baseline = vec!["two".to_owned()];
        let effect = |name: &str, ended: &str, code: Option<i32>, said: Option<InvariantEffect>| {
            InvariantReceipt::new(CommandReceipt::new(name, run(ended, code), None, false), &state, said)
                .effect
        };
        assert_eq!(effect("one", "itself", Some(0), None), Preserved);
        assert_eq!(effect("two", "itself", Some(0), None), Strengthened);
        for name in ["one", "two"] {
            for said in [None, Some(Unknown), Some(LocalDefenseAdded)] {
                assert_eq!(effect(name, "itself", Some(1), said), Broken);
                assert_eq!(effect(name, "itself", None, said), Unknown);
                assert_eq!(effect(name, "timed_out", Some(0), said), Unknown);
            }
            assert_eq!(effect(name, "itself", Some(0), Some(Unknown)), Unknown);
            assert_eq!(effect(name, "itself", Some(0), Some(LocalDefenseAdded)), LocalDefenseAdded);
        }
        // A check that praises itself is not heard; a measured branch counts whatever it says.
        assert_eq!(said(&[r#"{"invariant_effect": "strengthened"}"#], 0).said(), None);
        assert_eq!(said(&[r#"{"invariant_effect": "unknown"}"#], 0).said(), Some(Unknown));
        assert_eq!(said(&[r#"{"invariant_effect": "unknown"}"#], 1).said(), Some(LocalDefenseAdded));
        assert_eq!(said(&[], 2).said(), Some(LocalDefenseAdded));
        let both = [r#"{"invariant_effect": "local_defense_added"}"#, r#"{"invariant_effect": "unknown"}"#];
        assert_eq!(said(&both, 0).said(), Some(Unknown));
        assert_eq!(said(&both, 0).declared_effects, [LocalDefenseAdded, Unknown]);
    }

    #[test]
    fn the_larger_of_measured_and_declared_counts() {
        let one = r#"{"complexity_delta": {"fallback_branches": 1, "dependencies": 1, "public_interfaces": -5, "cyclomatic_complexity": 0, "changed_lines": 9}}"#;
        let two = one.replace('9', "2").replace("-5", "3");
        assert_eq!(said(&[], 0).delta.parts(), [0, 2, 0, -3, 4]);
        assert_eq!(said(&[one], 0).delta.parts(), [1, 2, 0, 0, 9]);
        let both = said(&[one, &two], 0);
        assert_eq!(both.declared_delta.unwrap().parts(), [1, 1, 3, 0, 9]);
        assert_eq!(both.delta.parts(), [1, 2, 3, 0, 9]);
        // What is malformed says nothing here; that it is no verdict is row 7.
        assert_eq!(said(&["{", r#"{"complexity_delta": {}}"#], 0).declared_delta, None);
    }

    #[test]
    fn what_was_not_run_is_not_good_enough() {
        let contract = contract_of_lasting();
        let terms = contract.lasting.as_ref().unwrap();
        let mut told = said(&[], 0);
        let evidence = told.evidence(terms);
        assert_eq!((evidence.unknown, evidence.dependent, evidence.defenses), (1, 1, 0));
        told.invariants = Some(Vec::new());
        told.independence = Some(vec![CommandReceipt::new("alone", run("itself", Some(0)), None, false)]);
        assert_eq!(told.evidence(terms), LastingEvidence { delta: told.delta, ..LastingEvidence::default() });
        told.semantic_changes = ["allowed", "forbidden", "neither"].map(str::to_owned).to_vec();
        assert_eq!(told.evidence(terms).not_allowed, 2);
    }

    proptest! {
        #[test]
        fn no_word_of_the_check_makes_anything_better(
            words in proptest::collection::vec("(strengthened|preserved|unknown|local_defense_added)", 0..3),
            numbers in proptest::array::uniform5(-20_i64..20), fallbacks in 0_u64..3,
        ) {
            let terms = contract_of_lasting();
            let terms = terms.lasting.as_ref().unwrap();
            let verdicts: Vec<String> = words
                .iter()
                .map(|word| {
                    let members: Vec<String> = ComplexityDelta::NAMES.iter().zip(numbers).map(|(name, number)| format!("\"{name}\": {number}")).collect();
                    format!("{{\"invariant_effect\": \"{word}\", \"complexity_delta\": {{{}}}}}", members.join(", "))
                })
                .collect();
            let texts: Vec<&str> = verdicts.iter().map(String::as_str).collect();
            let (with, without) = (said(&texts, fallbacks).evidence(terms), said(&[], fallbacks).evidence(terms));
            prop_assert!(with.defenses >= without.defenses);
            prop_assert!(with.delta.parts().iter().zip(without.delta.parts()).all(|(with, without)| *with >= without));
        }
    }
}
