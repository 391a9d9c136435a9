//! What a frozen contract may say: the ranges that `start` enforces, again, for whoever reads a contract that somebody else signed.
//!
//! These are part of the format (`docs/src/design/format.md`, "Ranges") and never get stricter under one number of rules: a ledger
//! that verifies today verifies for ever. What `start` refuses besides, because its writer cannot have meant it, is in `validate`.

use std::collections::BTreeSet;

use super::file::{Adapter, Class, Command, Direction, MetricSource, ReportFormat};
use super::frozen::{CommandLine, Contract, NetworkTerms};
use super::lasting::{LastingTerms, NamedCommand};
use crate::check::SameIds;
use crate::money::MicroUsd;

/// A whole number of the contract and where it must lie. Money is in micro-dollars; an absent number lies everywhere.
struct Range {
    /// The term, as `contract.json` names it.
    term: &'static str,
    /// The least.
    min: u64,
    /// The most.
    max: u64,
    /// The number.
    of: fn(&Contract) -> Option<u64>,
}

const DAY: u64 = 86_400;
const DOLLARS: u64 = 10_000_000_000;

const RANGES: &[Range] = &[
    Range { term: "worker.timeout_seconds", min: 1, max: DAY, of: |c| Some(c.worker.timeout_seconds) },
    Range {
        term: "worker.reserve_usd",
        min: 0,
        max: DOLLARS,
        of: |c| c.worker.reserve_usd.map(MicroUsd::micros),
    },
    Range {
        term: "worker.sampling.seed",
        min: 0,
        max: 9_007_199_254_740_991,
        of: |c| c.worker.sampling.as_ref()?.seed,
    },
    Range {
        term: "worker.sampling.max_tokens",
        min: 1,
        max: 1_000_000_000,
        of: |c| c.worker.sampling.as_ref()?.max_tokens,
    },
    Range { term: "worker.idle_timeout_seconds", min: 1, max: DAY, of: |c| c.worker.idle_timeout_seconds },
    Range { term: "check.idle_timeout_seconds", min: 1, max: DAY, of: |c| c.check.idle_timeout_seconds },
    Range { term: "check.cpus", min: 1, max: 1024, of: |c| c.check.cpus.map(u64::from) },
    Range {
        term: "holdout.timeout_seconds",
        min: 1,
        max: DAY,
        of: |c| Some(c.holdout.as_ref()?.timeout_seconds),
    },
    Range { term: "sandbox.disk_bytes", min: 1 << 20, max: 16 << 40, of: |c| Some(c.sandbox.disk_bytes) },
    Range {
        term: "worktree.setup.timeout_seconds",
        min: 1,
        max: DAY,
        of: |c| Some(c.worktree.setup.as_ref()?.timeout_seconds),
    },
    Range { term: "check.timeout_seconds", min: 1, max: DAY, of: |c| Some(c.check.timeout_seconds) },
    Range { term: "metric.repeat", min: 1, max: 100, of: |c| Some(c.metric.repeat.into()) },
    Range { term: "limits.iterations", min: 1, max: 100, of: |c| Some(c.limits.iterations.into()) },
    Range { term: "limits.cost_usd", min: 1, max: DOLLARS, of: |c| Some(c.limits.cost_usd.micros()) },
    Range { term: "limits.tokens", min: 1, max: 1_000_000_000_000, of: |c| c.limits.tokens },
    Range { term: "limits.duration_seconds", min: 1, max: DAY, of: |c| Some(c.limits.duration_seconds) },
    Range { term: "limits.no_progress", min: 1, max: 20, of: |c| Some(c.limits.no_progress.into()) },
    Range {
        term: "limits.regression_limit",
        min: 1,
        max: 20,
        of: |c| Some(c.limits.regression_limit.into()),
    },
    Range {
        term: "limits.oscillation_limit",
        min: 1,
        max: 20,
        of: |c| Some(c.limits.oscillation_limit.into()),
    },
    Range { term: "limits.unread_diffs", min: 1, max: 100, of: |c| c.limits.unread_diffs.map(u64::from) },
    Range { term: "limits.evidence_kib", min: 1, max: 4096, of: |c| Some(c.limits.evidence_kib.into()) },
    Range {
        term: "lasting.local_defense_limit",
        min: 1,
        max: 20,
        of: |c| Some(c.lasting.as_ref()?.local_defense_limit.into()),
    },
];

/// Why no loop may be started with these terms; the first fault that is found.
pub(super) fn fault(contract: &Contract) -> Option<String> {
    let out_of_range = RANGES.iter().find_map(|range| {
        let number = (range.of)(contract)?;
        let inside = (range.min..=range.max).contains(&number);
        (!inside).then(|| format!("{} is {number}, not {} to {}", range.term, range.min, range.max))
    });
    out_of_range
        .or_else(|| texts(contract))
        .or_else(|| worker(contract))
        .or_else(|| check_and_metric(contract))
        .or_else(|| holdout(contract))
        .or_else(|| places_and_people(contract))
        .or_else(|| lasting(contract))
}

/// `why`, if it does not hold.
fn unless(holds: bool, why: &str) -> Option<String> {
    (!holds).then(|| why.to_owned())
}

/// The length of a text, in characters.
fn texts(contract: &Contract) -> Option<String> {
    let model = contract.worker.model.as_ref();
    let of_model = |term, text: fn(&crate::ledger::receipt::ModelIdentity) -> &Option<String>, max| {
        (term, model.and_then(|model| text(model).as_deref()), max)
    };
    let metric = &contract.metric;
    let texts = [
        ("objective", Some(contract.objective.as_str()), 10_000),
        ("metric.name", Some(metric.name.as_str()), 64),
        ("metric.pattern", metric.pattern.as_deref(), 1000),
        // The pointer to a whole document is empty.
        ("metric.pointer", metric.pointer.as_deref().filter(|pointer| !pointer.is_empty()), 1000),
        of_model("worker.model.provider", |model| &model.provider, 200),
        of_model("worker.model.model_id", |model| &model.model_id, 200),
        of_model("worker.model.version", |model| &model.version, 200),
        of_model("worker.model.quantization", |model| &model.quantization, 200),
        of_model("worker.model.runtime", |model| &model.runtime, 200),
        of_model("worker.model.endpoint", |model| &model.endpoint, 1000),
    ];
    texts.into_iter().find_map(|(term, text, max)| {
        let length = text?.chars().count();
        (!(1..=max).contains(&length)).then(|| format!("{term} has {length} characters, not 1 to {max}"))
    })
}

fn worker(contract: &Contract) -> Option<String> {
    let worker = &contract.worker;
    let sampling = worker.sampling.as_ref();
    let within = |number: Option<f64>, max: f64| number.is_none_or(|number| (0.0..=max).contains(&number));
    unless(names_a_program(&worker.command), "worker.command names no program")
        .or_else(|| unless(has_no_nul(&worker.command), "worker.command holds a NUL"))
        .or_else(|| {
            let temperature = within(sampling.and_then(|sampling| sampling.temperature), 100.0);
            unless(temperature, "worker.sampling.temperature is not 0 to 100")
        })
        .or_else(|| {
            unless(
                within(sampling.and_then(|sampling| sampling.top_p), 1.0),
                "worker.sampling.top_p is not 0 to 1",
            )
        })
}

fn check_and_metric(contract: &Contract) -> Option<String> {
    let (check, metric) = (&contract.check, &contract.metric);
    let has_tests = check.format != ReportFormat::None || check.external;
    let read = matches!(metric.from, MetricSource::Failures | MetricSource::Exit | MetricSource::Verdict);
    let plain = check.format == ReportFormat::None && check.report.is_none();
    let outside = read && plain && metric.repeat == 1 && !contract.roles.verifier.is_empty();
    unless(names_a_program(&check.command), "check.command names no program")
        .or_else(|| unless(has_no_nul(&check.command), "check.command holds a NUL"))
        .or_else(|| {
            unless(
                check.report.is_some() == check.format.is_file(),
                "check.report does not fit its check.format",
            )
        })
        .or_else(|| {
            let numbered = check.same_ids == Some(SameIds::Numbered) && check.format.merges_ids();
            unless(check.same_ids.is_none() || numbered, "check.same_ids does not fit its check.format")
        })
        .or_else(|| unless(!metric.name.trim().is_empty(), "metric.name is empty"))
        .or_else(|| {
            let pattern = metric.pattern.is_some() == (metric.from == MetricSource::Regex);
            unless(pattern, "metric.pattern is there exactly for metric.from = regex")
        })
        .or_else(|| {
            let pointer = metric.pointer.is_some() == (metric.from == MetricSource::Json);
            unless(pointer, "metric.pointer is there exactly for metric.from = json")
        })
        .or_else(|| {
            unless(metric.pointer.as_deref().is_none_or(is_pointer), "metric.pointer is no JSON pointer")
        })
        .or_else(|| unless(metric.target.is_finite(), "metric.target is not a number"))
        .or_else(|| {
            let finite = metric.min_improvement.is_finite() && metric.min_improvement >= 0.0;
            unless(finite, "metric.min_improvement is negative")
        })
        .or_else(|| {
            let counted = metric.from != MetricSource::Failures
                || (has_tests
                    && metric.direction == Direction::Minimize
                    && metric.target >= 0.0
                    && metric.target.fract() == 0.0);
            unless(counted, "metric.from = failures needs tests, direction = minimize and a whole target")
        })
        .or_else(|| {
            unless(
                !check.external || outside,
                "check.external does not go with its check.format, metric or roles.verifier",
            )
        })
        .or_else(|| {
            let sigma = (0.1..=100.0).contains(&contract.limits.cost_sigma);
            unless(sigma, "limits.cost_sigma is not 0.1 to 100")
        })
}

fn places_and_people(contract: &Contract) -> Option<String> {
    let (paths, allowed, roles) = (&contract.paths, &contract.sandbox.allowed, &contract.roles);
    unless(!paths.mutable.is_empty(), "paths.mutable is empty")
        .or_else(|| unless(!paths.check.is_empty(), "paths.check is empty"))
        .or_else(|| unless(!allowed.is_empty(), "sandbox.allowed is empty"))
        .or_else(|| {
            let built = allowed.iter().all(|adapter| Adapter::BUILT.contains(adapter));
            unless(built, "sandbox.allowed names an adapter that is not built yet")
        })
        .or_else(|| sandbox(contract))
        .or_else(|| setup(contract))
        .or_else(|| unless(!roles.approver.is_empty(), "roles.approver is empty"))
        .or_else(|| unless(!roles.runner.is_empty(), "roles.runner is empty"))
        .or_else(|| {
            let fit = contract.parent.is_some() == contract.renewal.is_some();
            unless(fit, "parent and renewal do not fit each other")
        })
}

fn sandbox(contract: &Contract) -> Option<String> {
    let terms = &contract.sandbox;
    let needs_image = |adapter: &Adapter| adapter.built().is_some_and(crate::sandbox::Adapter::has_image);
    unless(terms.worker_network.is_valid(), "sandbox.worker_network is no list of hosts")
        .or_else(|| unless(terms.check_network.is_valid(), "sandbox.check_network is no list of hosts"))
        .or_else(|| {
            let fits = terms.allowed.iter().any(needs_image) == terms.image.is_some();
            unless(fits, "sandbox.image is there exactly for docker and podman")
        })
        .or_else(|| {
            let pinned = terms.image.as_deref().is_none_or(crate::sandbox::is_pinned);
            unless(pinned, "sandbox.image is not pinned by its digest")
        })
}

fn setup(contract: &Contract) -> Option<String> {
    let setup = contract.worktree.setup.as_ref()?;
    unless(names_a_program(&setup.command), "worktree.setup.command names no program")
        .or_else(|| unless(has_no_nul(&setup.command), "worktree.setup.command holds a NUL"))
        .or_else(|| unless(!contract.worktree.warm.is_empty(), "worktree.setup has no worktree.warm to fill"))
        .or_else(|| {
            let plain = !matches!(setup.network, NetworkTerms::Allow(_));
            unless(plain, "worktree.setup.network is a list of hosts, which no setup has")
        })
}

fn holdout(contract: &Contract) -> Option<String> {
    let holdout = contract.holdout.as_ref()?;
    unless(names_a_program(&holdout.command), "holdout.command names no program")
        .or_else(|| unless(has_no_nul(&holdout.command), "holdout.command holds a NUL"))
        .or_else(|| {
            let fits = holdout.format.is_file() == holdout.report.is_some();
            unless(fits, "holdout.report does not fit its holdout.format")
        })
        .or_else(|| unless(holdout.folder.starts_with(['/', '~']), "holdout.folder is not an absolute path"))
}

fn lasting(contract: &Contract) -> Option<String> {
    let roles = &contract.roles;
    let other = |list: &[String]| list.iter().any(|one| !roles.runner.contains(one));
    let lasting = match (&contract.lasting, contract.class == Class::LastingCode) {
        (None, false) => return None,
        (Some(lasting), true) => lasting,
        _ => return Some("the terms of lasting code do not fit the class".to_owned()),
    };
    // Under rules 1 no command of the contract was run, wherever the check was.
    let elsewhere = contract.judged_as_lasting().is_some() && contract.check.external;
    unless(!elsewhere, "lasting_code has a check.external, which cannot show its invariants")
        .or_else(|| unless(other(&roles.approver), "lasting_code has no approver other than its runner"))
        .or_else(|| unless(other(&roles.reviewer), "lasting_code has no reviewer other than its runner"))
        .or_else(|| {
            let named =
                named(&lasting.invariant_boundaries) && named(&lasting.machine_independence_requirements);
            unless(
                named,
                "lasting: a list of named commands is empty, or a name is, or comes twice, or is too long",
            )
        })
        .or_else(|| {
            unless(!lasting.required_review_personas.is_empty(), "lasting.required_review_personas is empty")
        })
        .or_else(|| unless(within_budget(lasting), "lasting.complexity_budget has a number over 1000000"))
        .or_else(|| unless(lasting.human_promotion_required, "lasting.human_promotion_required is not true"))
}

fn named(list: &[NamedCommand]) -> bool {
    let names: BTreeSet<&str> = list.iter().map(|entry| entry.name.as_str()).collect();
    let well = |entry: &NamedCommand| {
        let command = match &entry.command {
            Command::Args(words) => {
                let nul = words.iter().any(|word| word.contains('\0'));
                words.first().is_some_and(|program| !program.trim().is_empty()) && !nul
            }
            Command::Shell(line) => !line.trim().is_empty() && !line.contains('\0'),
        };
        command && !entry.name.trim().is_empty() && entry.name.chars().count() <= 200
    };
    !list.is_empty() && names.len() == list.len() && list.iter().all(well)
}

fn within_budget(lasting: &LastingTerms) -> bool {
    let budget = &lasting.complexity_budget;
    [
        budget.fallback_branches,
        budget.dependencies,
        budget.public_interfaces,
        budget.cyclomatic_complexity,
        budget.changed_lines,
    ]
    .into_iter()
    .all(|number| number <= 1_000_000)
}

fn names_a_program(command: &CommandLine) -> bool {
    match command {
        CommandLine::Exec(words) => words.first().is_some_and(|program| !program.trim().is_empty()),
        CommandLine::Shell(line) => !line.trim().is_empty(),
    }
}

/// No system runs a word with a NUL in it.
fn has_no_nul(command: &CommandLine) -> bool {
    match command {
        CommandLine::Exec(words) => !words.iter().any(|word| word.contains('\0')),
        CommandLine::Shell(line) => !line.contains('\0'),
    }
}

/// RFC 6901.
fn is_pointer(pointer: &str) -> bool {
    (pointer.is_empty() || pointer.starts_with('/'))
        && pointer.split('~').skip(1).all(|rest| rest.starts_with(['0', '1']))
}

#[cfg(test)]
mod tests {
    use super::super::shape::{self, Kind, Node};
    use super::*;
    use crate::decide::testing::contract;
    use crate::ledger::receipt::SamplingParameters;

    fn node(path: &str) -> &'static Node {
        path.split('.').fold(shape::root(), |node, name| {
            let field = node.fields().iter().find(|field| field.name == name);
            &field.unwrap_or_else(|| panic!("no key {path}")).node
        })
    }

    /// `start` takes nothing that a verifier refuses, and a verifier nothing that `start` refuses.
    #[test]
    fn the_ranges_are_those_of_loop_toml() {
        for range in RANGES {
            let key = range
                .term
                .trim_end_matches("_seconds")
                .trim_end_matches("_bytes")
                .trim_start_matches("lasting.");
            let key = &key.replace("worktree.setup.", "worktree.setup_");
            let found = match &node(key).kind {
                Kind::Integer { min, max } => (min.to_string(), max.to_string()),
                Kind::Duration { min, max } => {
                    let seconds =
                        |text: &str| text.parse::<super::super::Seconds>().unwrap().get().to_string();
                    (seconds(min), seconds(max))
                }
                Kind::Size { min, max } => {
                    let bytes = |text: &str| text.parse::<super::super::Bytes>().unwrap().get().to_string();
                    (bytes(min), bytes(max))
                }
                Kind::Dollars { min, max } => {
                    let micros =
                        |text: &str| text.parse::<super::super::Dollars>().unwrap().micros().to_string();
                    (micros(min), micros(max))
                }
                other => panic!("{key}: {other:?}"),
            };
            assert_eq!(found, (range.min.to_string(), range.max.to_string()), "{key}");
        }
    }

    #[test]
    fn what_is_built_is_what_loop_toml_takes() {
        let words = |node: &Node| -> Vec<String> {
            let built = node.built.as_ref().expect("a list of what is built");
            built.iter().map(|word| word.as_str().unwrap().to_owned()).collect()
        };
        let Kind::List { item, .. } = &node("sandbox.allowed").kind else { panic!("a list") };
        let adapters: Vec<&str> = Adapter::BUILT.iter().map(|adapter| adapter.as_str()).collect();
        assert_eq!(words(item), adapters);
    }

    type Change = Box<dyn Fn(&mut Contract)>;

    #[test]
    fn each_term_at_its_bounds() {
        assert_eq!(fault(&contract()), None);
        let sampling = |temperature: f64, top_p: f64| SamplingParameters {
            temperature: Some(temperature),
            top_p: Some(top_p),
            seed: Some(0),
            max_tokens: Some(1),
        };
        let good: Vec<(&str, Change)> = vec![
            ("evidence_kib 1", Box::new(|c| c.limits.evidence_kib = 1)),
            ("evidence_kib 4096", Box::new(|c| c.limits.evidence_kib = 4096)),
            ("reserve_usd 10000", Box::new(|c| c.worker.reserve_usd = Some(MicroUsd::from_micros(DOLLARS)))),
            ("metric.name 64", Box::new(|c| c.metric.name = "x".repeat(64))),
            ("sampling", Box::new(move |c| c.worker.sampling = Some(sampling(100.0, 1.0)))),
        ];
        for (what, change) in good {
            let mut contract = contract();
            change(&mut contract);
            assert_eq!(fault(&contract), None, "{what}");
        }
        let bad: Vec<(&str, Change)> = vec![
            ("limits.evidence_kib", Box::new(|c| c.limits.evidence_kib = 0)),
            ("limits.evidence_kib", Box::new(|c| c.limits.evidence_kib = 4097)),
            ("limits.tokens", Box::new(|c| c.limits.tokens = Some(0))),
            ("limits.unread_diffs", Box::new(|c| c.limits.unread_diffs = Some(101))),
            ("worker.command", Box::new(|c| c.worker.command = CommandLine::Exec(Vec::new()))),
            ("check.command", Box::new(|c| c.check.command = CommandLine::Shell(" ".to_owned()))),
            ("check.command", Box::new(|c| c.check.command = CommandLine::Shell("a\0".to_owned()))),
            (
                "worker.command",
                Box::new(|c| c.worker.command = CommandLine::Exec(vec!["a".to_owned(), "b\0".to_owned()])),
            ),
            (
                "worker.reserve_usd",
                Box::new(|c| {
                    c.worker.reserve_usd = Some(MicroUsd::from_micros(DOLLARS + 1));
                }),
            ),
            (
                "worker.sampling.temperature",
                Box::new(move |c| {
                    c.worker.sampling = Some(sampling(100.5, 1.0));
                }),
            ),
            ("worker.sampling.top_p", Box::new(move |c| c.worker.sampling = Some(sampling(1.0, 1.5)))),
            ("objective", Box::new(|c| c.objective.clear())),
            ("paths.mutable", Box::new(|c| c.paths.mutable.clear())),
            ("paths.check", Box::new(|c| c.paths.check.clear())),
            ("roles.runner", Box::new(|c| c.roles.runner.clear())),
            ("roles.approver", Box::new(|c| c.roles.approver.clear())),
            ("metric.name", Box::new(|c| c.metric.name = "x".repeat(65))),
            (
                "metric.from",
                Box::new(|c| {
                    c.metric.from = MetricSource::Failures;
                    c.metric.target = -0.5;
                }),
            ),
            ("metric.pattern", Box::new(|c| c.metric.pattern = Some("(x)".to_owned()))),
            (
                "metric.pointer",
                Box::new(|c| {
                    c.metric.from = MetricSource::Json;
                    c.metric.pointer = Some("/a~2".to_owned());
                }),
            ),
            ("check.report", Box::new(|c| c.check.report = Some("x".to_owned()))),
            ("sandbox.allowed", Box::new(|c| c.sandbox.allowed = vec![Adapter::E2b])),
            ("sandbox.allowed", Box::new(|c| c.sandbox.allowed.clear())),
            ("lasting", Box::new(|c| c.class = Class::LastingCode)),
        ];
        for (what, change) in bad {
            let mut contract = contract();
            change(&mut contract);
            let told = fault(&contract).unwrap_or_else(|| panic!("{what} is taken"));
            assert!(told.contains(what), "{what}: {told}");
        }
    }
}
