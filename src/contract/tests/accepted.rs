//! What is accepted, with which values and which warnings; round trips; no panic on any text.

use proptest::collection::vec;
use proptest::prelude::*;

use super::super::file::{
    Adapter, AllowList, Check, CheckSandbox, Class, Command, Credential, Direction, Guards, History, Limits,
    LoopFile, Metric, MetricSource, Model, Network, NetworkMode, OnFailure, OnViolation, Paths, Preset,
    ReceiptTerms, ReportFormat, Roles, Sampling, Sandbox, UnknownCost, Usage, Worker, WorkerSandbox,
    Worktree,
};
use super::super::judge::Holdout;
use super::super::lasting::{ComplexityBudget, NamedCommand, ReviewRisk};
use super::super::{Dollars, Seconds, parse, parse_bytes};
use super::{LASTING, VALID, changed, told, warned};
use crate::check::SameIds;
use crate::error::{Error, Kind};

#[test]
fn a_small_file_gets_every_default() {
    let parsed = parse("loop.toml", VALID).unwrap();
    assert_eq!(parsed.warnings, []);
    let file = parsed.file;
    assert_eq!(file.class, Class::Research);
    assert_eq!(file.limits, Limits::default());
    assert_eq!(file.limits.cost_usd.micros(), 1_000_000);
    assert_eq!(file.limits.duration.get(), 3600);
    assert_eq!(file.worker.timeout.get(), 1200);
    assert_eq!(file.worker.usage, Usage::None);
    assert_eq!(file.worker.on_failure, OnFailure::Halt);
    assert_eq!(file.check.timeout.get(), 600);
    assert_eq!(file.check.success_exit_code, 0);
    assert_eq!(file.sandbox.allowed, [Adapter::Landlock]);
    assert_eq!(file.sandbox.disk.get(), 32 << 30);
    assert_eq!((file.worker.idle_timeout, file.check.idle_timeout), (None, None));
    assert_eq!(file.sandbox.worker.network, Network::Mode(NetworkMode::Host));
    assert_eq!(file.sandbox.worker.history, History::Sealed);
    assert_eq!(file.sandbox.check.network, Network::Mode(NetworkMode::None));
    assert_eq!(file.guards.on_violation, OnViolation::Halt);
    assert_eq!(file.lasting_terms(), None);
}

#[test]
fn lasting_code_has_its_terms() {
    let terms = parse("loop.toml", LASTING).unwrap().file.lasting_terms().unwrap();
    assert_eq!(terms.review_risk, ReviewRisk::High);
    assert_eq!(terms.complexity_budget.changed_lines, 200);
    assert_eq!(
        terms.machine_independence_requirements[0].command,
        Command::Shell("cargo build --offline".into())
    );
}

#[test]
fn money_is_read_exactly_in_every_form() {
    for (text, micros) in [
        ("1", 1_000_000),
        ("1.00", 1_000_000),
        ("0.29", 290_000),
        ("\"0.29\"", 290_000),
        ("0.000001", 1),
        ("1e3", 1_000_000_000),
        ("9_999.999999", 9_999_999_999),
        ("+2.5", 2_500_000),
        ("0x10", 16_000_000),
    ] {
        let file = parse("loop.toml", &changed(VALID, "iterations = 10", &format!("cost_usd = {text}")))
            .unwrap()
            .file;
        assert_eq!(file.limits.cost_usd.micros(), micros, "{text}");
    }
}

#[test]
fn a_file_may_use_any_syntax_of_toml() {
    let file = parse(
        "loop.toml",
        "\u{feff}objective = '''\r\nTwo\r\nlines'''\r\nclass = 'research'\r\npaths.mutable = ['a']\r\npaths.check = ['b']\r\n\
         worker.command = 'true'\r\ncheck = { command = 'true' }\r\nlimits = { iterations = 0b11 }\r\n[metric]\r\nname = 'm'\r\n\
         direction = 'maximize'\r\ntarget = 1.5\r\nfrom = 'json'\r\npointer = ''\r\n",
    )
    .unwrap()
    .file;
    assert_eq!(file.limits.iterations, 3);
    assert_eq!(file.metric.pointer.as_deref(), Some(""));
}

#[test]
fn the_error_of_a_command_is_one_of_usage_with_a_next_step() {
    let error = Error::from(parse("loop.toml", "").unwrap_err());
    assert_eq!(error.kind(), Kind::Usage);
    assert_eq!(error.exit_code().get(), 129);
    assert!(!error.hints().is_empty());
}

#[test]
fn a_file_that_is_too_large_is_not_read() {
    assert!(told(&"#".repeat(parse::MAX_BYTES + 1)).contains("larger than 1024 KiB"));
}

#[test]
fn a_file_with_very_many_faults_is_refused_in_good_time() {
    let numbers = "1,".repeat(200_000);
    let error = parse("loop.toml", &changed(VALID, "[\"src/**\"]", &format!("[{numbers}]"))).unwrap_err();
    assert_eq!((error.errors.len(), error.omitted), (100, 199_900));
    assert!(error.to_string().ends_with("loop.toml: and 199900 more"));
}

#[test]
fn report_1_11_an_exit_code_is_the_only_judge() {
    let text = changed(VALID, "format = \"libtest\"", "");
    assert_eq!(warned(&changed(&text, "\"failures\"", "\"exit\"")), ["exit_code_only_verifier"]);
    assert_eq!(warned(&changed(VALID, "\"failures\"", "\"exit\"")), [""; 0]);
}

#[test]
fn report_1_21_the_entry_of_the_check_is_not_frozen() {
    let text = changed(VALID, "[\"cargo\", \"test\", \"--no-fail-fast\"]", "[\"npm\", \"test\"]");
    assert_eq!(warned(&text), ["verifier_entry_not_frozen"]);
    assert_eq!(warned(&changed(&text, "[\"tests/**\"]", "[\"tests/**\", \"package.json\"]")), [""; 0]);
}

#[test]
fn report_1_24_a_pipe_masks_the_exit_code() {
    let text = changed(VALID, "[\"cargo\", \"test\", \"--no-fail-fast\"]", "\"npx jest | tail -20\"");
    assert_eq!(warned(&text), ["shell_pipeline"]);
}

#[test]
fn other_warnings() {
    assert_eq!(warned(&changed(VALID, "./worker.sh", "claude")), ["usage_not_parsed"]);
    let agent = |command: &str, usage: &str| {
        let text = changed(VALID, "[\"./worker.sh\"]", command);
        warned(&changed(&text, "[check]", &format!("usage = \"{usage}\"\n[check]")))
    };
    assert_eq!(agent("[\"claude\", \"-p\", \"--output-format\", \"json\"]", "claude"), [""; 0]);
    assert_eq!(agent("[\"claude\", \"-p\", \"--output-format=stream-json\"]", "claude"), [""; 0]);
    assert_eq!(agent("[\"claude\", \"-p\"]", "claude"), ["usage_not_printed"]);
    assert_eq!(agent("[\"./worker.sh\"]", "claude"), [""; 0], "a script may do it");
    assert_eq!(agent("[\"codex\", \"exec\", \"--json\"]", "codex"), ["cost_not_reported"]);
    assert_eq!(agent("\"aider --message x\"", "aider"), [""; 0]);
    assert_eq!(warned(&changed(VALID, ", \"--no-fail-fast\"", "")), ["fail_fast"]);
    assert_eq!(warned(&changed(VALID, "target = 0", "target = 2")), ["target_never_met"]);
    let parsed = parse("loop.toml", &changed(VALID, "./worker.sh", "claude")).unwrap();
    assert_eq!((parsed.warnings[0].line, parsed.warnings[0].key.as_str()), (8, "worker"));
}

prop_compose! {
    fn command()(words in vec("[a-z./][a-z0-9 ./'\"=-]{0,12}", 1..4), line in "[a-z]{1,8} [a-z'\"|]{0,8}", shell: bool)
        -> Command {
        if shell { Command::Shell(line) } else { Command::Args(words) }
    }
}

prop_compose! {
    fn paths()(mutable in vec("src/[a-z]{1,8}(/\\*\\*)?", 1..2), check in vec("tests/[a-z]{1,8}", 1..2), blocked: bool)
        -> Paths {
        Paths { mutable, check, blocked: if blocked { vec![".github/**".into()] } else { Vec::new() } }
    }
}

prop_compose! {
    fn worker()(
        command in command(),
        agent in proptest::option::of("[A-Za-z][a-z ]{0,8}[a-z]"),
        provider in proptest::option::of("[a-z]{1,8}"),
        temperature in proptest::option::of(0.0..2.0_f64),
        seed in proptest::option::of(0..9_007_199_254_740_991_u64),
        json: bool,
        timeout in 1..=86_400_u64,
        env: bool,
        reserve in proptest::option::of(1..1_000_000_u64),
    ) -> Worker {
        Worker {
            command,
            agent,
            model: Model { provider, ..Model::default() },
            sampling: Sampling { temperature, seed, ..Sampling::default() },
            usage: if json { Usage::Json } else { Usage::None },
            timeout: Seconds::new(timeout),
            idle_timeout: env.then(|| Seconds::new(timeout)),
            credential: json.then(|| Credential {
                env: "MINTED".into(),
                mint: Command::Args(vec!["mint".into()]),
                revoke: Command::Shell("revoke".into()),
            }),
            env: if env { vec!["API_KEY".into()] } else { Vec::new() },
            on_failure: OnFailure::Check,
            reserve_usd: reserve.map(Dollars::from_micros),
            max_refusals: None,
        }
    }
}

prop_compose! {
    fn check()(command in command(), junit: bool, timeout in 1..=86_400_u64, code: u8, value in "\\PC{0,12}") -> Check {
        Check {
            command,
            format: if junit { ReportFormat::Junit } else { ReportFormat::Lines },
            report: junit.then(|| "target/junit.xml".to_owned()),
            same_ids: junit.then_some(SameIds::Merged),
            timeout: Seconds::new(timeout),
            idle_timeout: None,
            success_exit_code: code,
            external: false,
            env: [("RUST_LOG".to_owned(), value)].into(),
            cpus: junit.then_some(u32::from(code) + 1),
        }
    }
}

prop_compose! {
    fn limits()(
        iterations in 1..=100_u32,
        cost in 1_000_000..=10_000_000_000_u64,
        tokens in proptest::option::of(1..=1_000_000_000_000_u64),
        duration in 1..=86_400_u64,
        small in 1..=20_u32,
    ) -> Limits {
        Limits {
            iterations,
            cost_usd: Dollars::from_micros(cost),
            tokens,
            duration: Seconds::new(duration),
            no_progress: small,
            regression_limit: 2,
            oscillation_limit: 2,
            cost_sigma: 3.0,
            unread_diffs: None,
            unknown_cost: UnknownCost::Allow,
            evidence_kib: small,
        }
    }
}

prop_compose! {
    fn metric()(target: i32, direction: bool, least in 0.0..10.0_f64, regex: bool) -> Metric {
        Metric {
            name: "score".into(),
            direction: if direction { Direction::Maximize } else { Direction::Minimize },
            target: f64::from(target) / 8.0,
            from: if regex { MetricSource::Regex } else { MetricSource::Json },
            pattern: regex.then(|| r"score=(?<metric>\d+(\.\d+)?)".to_owned()),
            pointer: (!regex).then(|| "/a~1b/0".to_owned()),
            min_improvement: least,
            repeat: 1,
        }
    }
}

fn named(name: &str) -> impl Strategy<Value = Vec<NamedCommand>> + use<> {
    let name = name.to_owned();
    command().prop_map(move |command| vec![NamedCommand { name: name.clone(), command }])
}

prop_compose! {
    fn loop_file()(
        objective in "[A-Za-z]\\PC{0,40}",
        lasting: bool,
        invariants in named("a"),
        independence in named("b"),
        paths in paths(),
        worker in worker(),
        check in check(),
        metric in metric(),
        limits in limits(),
        presets in proptest::option::of(Just(vec![Preset::Cargo, Preset::Node])),
        reviewer in proptest::option::of(Just(vec!["rev@example.org".to_owned()])),
    ) -> LoopFile {
        LoopFile {
            objective,
            class: if lasting { Class::LastingCode } else { Class::MechanicalTransformation },
            invariant_boundaries: lasting.then_some(invariants),
            allowed_semantic_changes: lasting.then(Vec::new),
            forbidden_semantic_changes: lasting.then(|| vec!["x".into()]),
            machine_independence_requirements: lasting.then_some(independence),
            review_risk: lasting.then_some(ReviewRisk::Critical),
            required_review_personas: lasting.then(|| vec!["security".into()]),
            complexity_budget: lasting.then_some(ComplexityBudget {
                fallback_branches: 0,
                dependencies: 1,
                public_interfaces: 2,
                cyclomatic_complexity: 3,
                changed_lines: 4,
            }),
            local_defense_limit: lasting.then_some(20),
            human_promotion_required: lasting.then_some(true),
            paths,
            worker,
            worktree: Worktree {
                setup: Some(Command::Shell("npm ci".into())),
                setup_network: Some(NetworkMode::None),
                setup_timeout: Some(Seconds::new(60)),
                warm: vec!["target".into()],
                include: Some(".worktreeinclude".into()),
                sparse: vec!["src/**".into(), "!src/vendored/**".into()],
            },
            check,
            holdout: lasting.then(|| Holdout {
                command: Command::Args(vec!["./run.sh".into()]),
                folder: "~/holdout".into(),
                format: ReportFormat::Junit,
                report: Some("r.xml".into()),
                timeout: Seconds::new(5),
                success_exit_code: 3,
            }),
            metric,
            limits,
            guards: Guards { on_violation: OnViolation::Reject },
            sandbox: Sandbox {
                allowed: vec![Adapter::None, Adapter::Landlock, Adapter::Bwrap],
                image: None,
                disk: "3GiB".parse().unwrap(),
                presets,
                read_only: vec!["~/sdk".into()],
                worker: WorkerSandbox { network: Network::Mode(NetworkMode::None), history: History::Open },
                check: CheckSandbox {
                    network: Network::Allow(AllowList { allow: vec!["*.example.com:443".into()] }),
                },
            },
            roles: Roles { reviewer, ..Roles::default() },
            receipt: ReceiptTerms::default(),
        }
    }
}

proptest! {
    #[test]
    fn a_valid_file_written_and_read_is_the_same(file in loop_file()) {
        let text = toml::to_string(&file).unwrap();
        let parsed = parse("loop.toml", &text).map_err(|error| TestCaseError::fail(format!("{error}\n{text}")))?;
        prop_assert_eq!(&parsed.file, &file);
        let json = serde_json::to_string(&file).unwrap();
        prop_assert_eq!(serde_json::from_str::<LoopFile>(&json).unwrap(), file);
    }

    #[test]
    fn any_text_is_parsed_or_refused(text in "(\\PC|\n){0,200}") {
        let _ = parse("loop.toml", &text).map_err(|error| error.to_string());
    }

    #[test]
    fn any_bytes_are_parsed_or_refused(bytes in vec(any::<u8>(), 0..200)) {
        let _ = parse_bytes("loop.toml", &bytes).map_err(|error| error.to_string());
    }

    #[test]
    fn a_valid_file_damaged_anywhere_is_parsed_or_refused(
        lasting: bool,
        at in 0..2000_usize,
        length in 0..20_usize,
        put in "[\\[\\]{}\"'=.,#\n a-z0-9\\\\-]{0,6}",
    ) {
        let valid = if lasting { LASTING } else { VALID };
        let (start, end) = (at.min(valid.len()), (at + length).min(valid.len()));
        let damaged = format!("{}{put}{}", &valid[..start], &valid[end..]);
        let _ = parse("loop.toml", &damaged).map_err(|error| error.to_string());
    }
}
