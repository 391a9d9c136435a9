//! The page that a reviewer reads first: what there is to be attested.

use std::fmt::Write as _;

use crate::ledger::append::Tip;
use crate::ledger::message::one_line;
use crate::review::packet::{FrozenPacket, Packet};
use crate::review::policy::{ATTESTATIONS, conditions};

/// The longest text of a packet on the page, in characters.
const LONGEST: usize = 400;

/// The page of a loop that waits for its review.
pub fn page(tip: &Tip, packet: Option<&FrozenPacket>) -> String {
    let (contract, state) = (&tip.contract, &tip.state);
    let id = &contract.loop_id;
    let mut text = String::new();
    let mut line = |name: &str, value: &str| {
        let _ = writeln!(text, "{name:<12}{value}");
    };
    line("loop", id.as_str());
    line("objective", &one_line(&contract.objective, LONGEST));
    line("candidate", &state.last_green_commit.to_string());
    line("halt", &state.halt.unwrap_or(tip.id).to_string());
    line("iterations", &format!("{}, {} accepted", state.iteration, state.counters.accepted));
    line("cost", &format!("${}", state.cumulative_usd));
    for worker in state.agents.iter().flat_map(|agents| &agents.workers) {
        let model = worker.model.as_deref().unwrap_or("model not known");
        let assumed = if worker.assumed { ", assumed" } else { "" };
        line("worker", &format!("{} ({}{assumed})", one_line(&worker.agent_id, 80), one_line(model, 120)));
    }
    line("findings", &format!("{} open, {} of them block", state.findings.len(), state.blocking_findings()));
    if let (Some(lasting), Some(terms)) = (&state.counters.lasting, contract.judged_as_lasting()) {
        let names = crate::decide::ComplexityDelta::NAMES;
        for (name, (part, bound)) in
            names.iter().zip(lasting.complexity.parts().into_iter().zip(terms.complexity_budget.parts()))
        {
            line("added", &format!("{name} {part} of {bound}"));
        }
    }
    line("diff", &format!("git loop diff {id}"));
    if let Some(frozen) = packet {
        text.push('\n');
        packet_lines(&mut text, &frozen.packet);
    }
    if contract.judged_as_lasting().is_some() {
        text.push_str("\nto attest, each by name:\n");
        for name in ATTESTATIONS {
            let _ = writeln!(text, "  --attest {name}");
        }
        let missing: Vec<String> =
            conditions(contract, state, None).into_iter().filter_map(|one| one.missing).collect();
        if !missing.is_empty() {
            text.push_str("\nstill missing for a promotion:\n");
        }
        for missing in missing {
            let _ = writeln!(text, "  {missing}");
        }
    }
    text
}

fn packet_lines(text: &mut String, packet: &Packet) {
    let mut line = |name: &str, value: &str| {
        let _ = writeln!(text, "{name}: {}", one_line(value, LONGEST));
    };
    line("changed behavior", &packet.changed_behavior);
    line("owning invariant", &packet.owning_invariant);
    line("bad state made impossible", &packet.bad_state_made_impossible);
    for (name, list) in [
        ("fallback removed", &packet.fallbacks_removed),
        ("affected interface", &packet.affected_interfaces),
        ("code", &packet.code_citations),
        ("test", &packet.test_citations),
        ("to test", &packet.test_commands),
        ("to build", &packet.build_commands),
        ("to diagnose", &packet.diagnosis_commands),
        ("to roll back", &packet.rollback_commands),
        ("documented in", &packet.documentation_paths),
    ] {
        for value in list {
            line(name, value);
        }
    }
}
