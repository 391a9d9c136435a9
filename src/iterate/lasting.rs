//! What lasting code has to show besides its check: the invariants and the machine-independence requirements, each command on the
//! check's tree in a fresh worktree of its own; and by how much the change makes the project larger.

use std::time::Duration;

use super::commands::BASELINE;
use super::fresh::For;
use super::holdout::Held;
use super::iteration::Draft;
use super::outcome::{not_started, run_receipt};
use super::session::Session;
use super::step::{Role, Wanted};
use crate::contract::lasting::NamedCommand;
use crate::contract::resolve::command;
use crate::contract::{Contract, NetworkTerms};
use crate::decide::{wants_independence, wants_invariants};
use crate::error::{Error, Result, ResultExt};
use crate::ledger::append::EvidenceFile;
use crate::ledger::lasting::{
    Brought, CANNOT_MEASURE, CommandReceipt, InvariantReceipt, LastingReceipt, MeasuredReceipt, can_measure,
    measured,
};
use crate::ledger::observe::Sample;
use crate::oid::Oid;
use crate::sandbox::{Egress, Ended, SandboxError};
use crate::worktree;

/// Beginnings of the names of variables by which programs find a model.
const PROVIDERS: [&str; 16] = [
    "ANTHROPIC_",
    "AZURE_OPENAI_",
    "BEDROCK_",
    "CLAUDE_",
    "COHERE_",
    "DEEPSEEK_",
    "GEMINI_",
    "GROQ_",
    "HF_",
    "HUGGINGFACE_",
    "LLM_",
    "MISTRAL_",
    "OLLAMA_",
    "OPENAI_",
    "OPENROUTER_",
    "XAI_",
];
/// Ends of the names of variables that hold a credential.
const CREDENTIALS: [&str; 5] = ["_API_KEY", "_TOKEN", "_SECRET", "_PASSWORD", "_CREDENTIALS"];

/// Which commands are run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// What the check sees is what they see.
    Invariant,
    /// Without a network, a credential or a provider.
    Independence,
}

impl Kind {
    fn label(self, number: usize) -> String {
        match self {
            Self::Invariant => format!("invariant-{number}"),
            Self::Independence => format!("independence-{number}"),
        }
    }
}

/// What came of all commands of a list.
#[derive(Default)]
pub(super) struct Shown {
    pub commands: Vec<CommandReceipt>,
    /// Whom they asked for.
    pub requests: Option<Egress>,
    /// What those printed that did not pass.
    pub evidence: Vec<EvidenceFile>,
    pub interrupted: bool,
}

/// Refuses what this build cannot decide on.
pub(super) fn can_judge(contract: &Contract) -> Result<()> {
    if contract.judged_as_lasting().is_none() || can_measure() {
        return Ok(());
    }
    Err(Error::workspace(CANNOT_MEASURE)
        .hint("run the loop with a build that has it, as it is by default: cargo install git-loop"))
}

/// Whether a command that must do without a machine gets a variable of `check.env`.
fn is_neutral(contract: &Contract, name: &str) -> bool {
    let worker = &contract.worker;
    let minted = worker.credential.as_ref().is_some_and(|credential| credential.env == name);
    let upper = name.to_ascii_uppercase();
    !minted
        && !worker.env.iter().any(|passed| passed == name)
        && !PROVIDERS.iter().any(|start| upper.starts_with(start))
        && !CREDENTIALS.iter().any(|end| upper.ends_with(end))
}

impl Session<'_> {
    /// Reads what the worker brought for its candidate, where the rows for lasting code are asked.
    pub(super) fn take_evidence(&self, draft: &mut Draft, tree: Oid) -> Result<()> {
        let Some(terms) = self.tip.contract.judged_as_lasting() else { return Ok(()) };
        let bytes = draft.evidence.iter().find(|file| file.name == "worker.json");
        let brought = Brought::read(self.repo, terms, tree, bytes.map(|file| file.content.as_slice()))
            .or_workspace(|| "what the promotion packet cites cannot be looked up".to_owned())?;
        draft.facts.packet = brought.standing();
        draft.brought = Some(brought);
        Ok(())
    }

    /// Measures the change from green to `tree`; `None` where it is not asked.
    pub(super) fn measure_change(&self, draft: &Draft, tree: Oid) -> Result<Option<MeasuredReceipt>> {
        if self.tip.contract.judged_as_lasting().is_none() {
            return Ok(None);
        }
        let green = self
            .repo
            .commit_tree(draft.base.0)
            .or_workspace(|| format!("green {} cannot be read", draft.base))?;
        measured(self.repo, Oid(green), tree)
            .map(Some)
            .map_err(|error| error.while_doing("the candidate cannot be measured"))
    }

    /// Puts down what was brought, declared and measured.
    pub(super) fn note_lasting(
        &self,
        draft: &mut Draft,
        samples: &[Sample],
        measured: Option<MeasuredReceipt>,
    ) {
        if let (Some(terms), Some(measured), Some(brought)) =
            (self.tip.contract.judged_as_lasting(), measured, draft.brought.take())
        {
            let told = LastingReceipt::new(brought, samples, measured);
            draft.facts.lasting = Some(told.evidence(terms));
            draft.lasting = Some(told);
        }
    }

    /// Runs the commands that the decision still needs on the check's tree.
    pub(super) fn show_lasting(
        &self,
        draft: &mut Draft,
        check_tree: Oid,
        trees: &gix::Repository,
    ) -> Result<Held> {
        let (contract, state) = (&self.tip.contract, &self.tip.state);
        let (Some(terms), Some(mut told)) = (contract.judged_as_lasting(), draft.lasting.take()) else {
            return Ok(Held::Done);
        };
        let mut interrupted = false;
        if wants_invariants(contract, state, &draft.facts) {
            (self.say)(&format!("{}: iteration {}: invariants", self.id, draft.iteration));
            let environment = draft.environment_id.clone();
            let list = &terms.invariant_boundaries;
            let shown = self.run_named(&environment, Kind::Invariant, list, check_tree, draft.base, trees)?;
            interrupted |= shown.interrupted;
            let commands = take_shown(draft, shown);
            let said = told.said();
            let receipts = commands.into_iter().map(|one| InvariantReceipt::new(one, state, said));
            told.invariants = Some(receipts.collect());
            draft.facts.lasting = Some(told.evidence(terms));
        }
        if !interrupted && wants_independence(contract, state, &draft.facts) {
            (self.say)(&format!("{}: iteration {}: machine independence", self.id, draft.iteration));
            let environment = draft.environment_id.clone();
            let list = &terms.machine_independence_requirements;
            let shown =
                self.run_named(&environment, Kind::Independence, list, check_tree, draft.base, trees)?;
            interrupted |= shown.interrupted;
            told.independence = Some(take_shown(draft, shown));
            draft.facts.lasting = Some(told.evidence(terms));
        }
        draft.lasting = Some(told);
        Ok(if interrupted { Held::Interrupted } else { Held::Done })
    }

    /// Runs the invariants' commands on the base; `None` where they are not asked.
    pub(super) fn invariants_of_base(&self) -> Result<Option<Shown>> {
        let contract = &self.tip.contract;
        let Some(terms) = contract.judged_as_lasting() else { return Ok(None) };
        (self.say)(&format!("{}: baseline: invariants", self.id));
        let (list, base) = (&terms.invariant_boundaries, contract.base);
        self.run_named(BASELINE, Kind::Invariant, list, base.tree, base.commit, self.repo.gix()).map(Some)
    }

    /// Runs each command of a list, up to one that somebody interrupts.
    fn run_named(
        &self,
        environment: &str,
        kind: Kind,
        list: &[NamedCommand],
        tree: Oid,
        head: Oid,
        trees: &gix::Repository,
    ) -> Result<Shown> {
        let mut shown = Shown::default();
        for (number, named) in (1..).zip(list) {
            self.run_one(&mut shown, environment, kind, number, named, (tree, head), trees)?;
            if shown.interrupted {
                break;
            }
        }
        Ok(shown)
    }

    #[allow(clippy::too_many_arguments, reason = "a run is named by all of them, and nobody else makes one")]
    fn run_one(
        &self,
        shown: &mut Shown,
        environment: &str,
        kind: Kind,
        number: usize,
        named: &NamedCommand,
        (tree, head): (Oid, Oid),
        trees: &gix::Repository,
    ) -> Result<()> {
        let contract = &self.tip.contract;
        let label = kind.label(number);
        let name = worktree::worktree_name(self.id.as_str(), &format!("{environment}-{label}"));
        let scratch = self.places.scratch(&name)?;
        let remark = format!("git-loop {} {label}", self.id);
        let (repo, folder) = (self.repo.gix(), &self.places.worktrees);
        let linked = self.supplies()?.register(repo, folder, &name, head, &remark)?;
        let filled = self.fill(trees, &linked, tree, For::Check)?;
        self.give_layers(linked.path(), &filled)?;
        let command = command(&named.command);
        let mut step = self.step(&Wanted {
            role: Role::Check,
            command: &command,
            place: linked.path(),
            scratch: &scratch,
            network: match kind {
                Kind::Invariant => &contract.sandbox.check_network,
                Kind::Independence => &NetworkTerms::None,
            },
            seconds: contract.check.timeout_seconds,
        })?;
        for (name, value) in &contract.check.env {
            if kind == Kind::Invariant || is_neutral(contract, name) {
                step.set(name, value);
            }
        }
        step.command.overlay = filled.overlay();
        step.command.idle = contract.check.idle_timeout_seconds.map(Duration::from_secs);
        step.command.merge_streams = true;
        let outcome = match self.run_step(&step) {
            Ok(outcome) => outcome,
            // Before the first worker it is the machine or the contract that is at fault, and nobody should pay for it.
            Err(error @ (SandboxError::ProgramNotFound { .. } | SandboxError::Exec { .. }))
                if environment != BASELINE =>
            {
                linked.remove()?;
                shown.commands.push(CommandReceipt::new(&named.name, not_started(step.argv()), None, false));
                let text = format!("{error}\n").into_bytes();
                shown.evidence.push(EvidenceFile::whole(format!("{label}.log"), text));
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        };
        let run = run_receipt(step.argv(), &outcome, step.is_deadline);
        let frozen_changed = self.changed_frozen(linked.path(), &filled)?.is_some();
        let receipt = CommandReceipt::new(&named.name, run, Some(outcome.enforced), frozen_changed);
        if !receipt.passed {
            shown.evidence.push(self.kept(&format!("{label}.log"), &outcome.stdout));
        }
        if let Some(requests) = outcome.egress {
            shown.requests.get_or_insert_default().append(requests);
        }
        shown.interrupted = outcome.ended == Ended::Interrupted;
        shown.commands.push(receipt);
        self.cleaner.remove(linked, Some(scratch));
        Ok(())
    }
}

/// Takes what the commands left into the draft; gives their receipts.
fn take_shown(draft: &mut Draft, shown: Shown) -> Vec<CommandReceipt> {
    draft.evidence.extend(shown.evidence);
    if let Some(requests) = shown.requests {
        draft.sandbox.check_requests.get_or_insert_default().append(requests);
    }
    shown.commands
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::testing::contract;

    #[test]
    fn a_build_without_parsers_refuses_what_it_cannot_measure() {
        let lasting = crate::decide::testing::contract_of_lasting();
        assert_eq!(can_judge(&lasting).is_ok(), cfg!(feature = "measure"));
        if let Err(error) = can_judge(&lasting) {
            assert!(error.message().contains("measure"), "{error:?}");
        }
        // Of any other contract, and under rules 1, nothing is measured.
        assert!(can_judge(&contract()).is_ok());
        let old = Contract { rules: crate::contract::frozen::RULES, ..lasting };
        assert!(can_judge(&old).is_ok());
    }

    #[test]
    fn what_leads_to_a_model_or_a_credential_is_kept_back() {
        let mut contract = contract();
        contract.worker.env = vec!["MY_KEY".to_owned()];
        for kept in
            ["OPENAI_BASE_URL", "anthropic_model", "MY_KEY", "DEPLOY_TOKEN", "DB_PASSWORD", "OLLAMA_HOST"]
        {
            assert!(!is_neutral(&contract, kept), "{kept}");
        }
        for given in ["RUST_BACKTRACE", "PYTHONPATH", "TOKENIZERS_PARALLELISM", "MY_KEYS"] {
            assert!(is_neutral(&contract, given), "{given}");
        }
    }
}
