//! The file: every line with the reason for it.

use std::fmt::Write as _;

use toml::Value;

use super::{Agent, FILL_IN, Pattern, Principals, Proposal, ProposedCommand, Verdict};

/// Comments stand beside lines up to this width, above longer ones.
const BESIDE: usize = 56;

/// The text of `loop.toml` for `proposal`. `agent` is proposed as worker; `who` fills `[roles]`.
pub fn render(proposal: &Proposal, agent: Option<&Agent>, who: &Principals) -> String {
    let mut text = String::new();
    let found_by = proposal.found_by.as_ref().map_or(String::new(), |file| format!(" ({})", one_line(file)));
    let _ = writeln!(
        text,
        "# The terms of a loop, proposed by `git loop init` for {}{found_by}.",
        proposal.kind.noun()
    );
    let _ = writeln!(
        text,
        "# Lines with {FILL_IN} are for you to write. Everything else is a start: read it, change it."
    );
    text.push_str("# `git loop start ID --dry-run` shows what the check says; `git loop start ID` freezes all this and signs it.\n");
    for block in [
        head(),
        paths(proposal),
        worker(agent),
        worktree(proposal),
        check(proposal),
        metric(&proposal.verdict),
        limits(agent),
        roles(who),
        sandbox(proposal, agent),
    ] {
        block.write(&mut text);
    }
    text
}

/// Lines that belong together, with comments in one column.
#[derive(Default)]
struct Block(Vec<(String, String)>);

impl Block {
    fn table(name: &str, comment: &str) -> Self {
        Self(vec![(format!("[{name}]"), comment.to_owned())])
    }

    fn row(&mut self, line: impl Into<String>, comment: impl Into<String>) {
        self.0.push((line.into(), comment.into()));
    }

    fn key(&mut self, key: &str, value: impl Into<Value>, comment: impl Into<String>) {
        self.row(format!("{key} = {}", value.into()), comment);
    }

    fn command(&mut self, command: &ProposedCommand, comment: impl Into<String>) {
        self.key("command", value(command), comment);
    }

    fn patterns(&mut self, key: &str, patterns: &[Pattern], comment: &str) {
        self.row(format!("{key} = ["), comment);
        for pattern in patterns {
            self.row(format!("  {},", Value::from(pattern.text.clone())), one_line(&pattern.why));
        }
        self.row("]", "");
    }

    fn write(&self, text: &mut String) {
        if self.0.is_empty() {
            return;
        }
        text.push('\n');
        let width = |line: &str| line.chars().count();
        let beside = |(line, comment): &&(String, String)| !comment.is_empty() && width(line) <= BESIDE;
        let column = self.0.iter().filter(beside).map(|(line, _)| width(line)).max().unwrap_or(0);
        for (line, comment) in &self.0 {
            if comment.is_empty() {
                let _ = writeln!(text, "{line}");
            } else if width(line) > BESIDE {
                let indent = &line[..line.len() - line.trim_start().len()];
                let _ = writeln!(text, "{indent}# {comment}\n{line}");
            } else {
                let _ = writeln!(text, "{line}{}  # {comment}", " ".repeat(column - width(line)));
            }
        }
    }
}

fn head() -> Block {
    let mut block = Block::default();
    block.key("objective", "Make the failing tests pass", "what the loop is for; the worker is told it");
    block.key(
        "class",
        "mechanical_transformation",
        "or ephemeral_experiment, research, security_triage; lasting_code needs more keys, and a person who promotes it",
    );
    block
}

fn paths(proposal: &Proposal) -> Block {
    let mut block =
        Block::table("paths", "gitignore-style patterns; the last one that matches a path decides");
    block.patterns(
        "mutable",
        &proposal.mutable,
        "what the worker may change; a change elsewhere rejects its attempt",
    );
    block.patterns(
        "check",
        &proposal.check,
        "what judges: frozen; a change or a new file here halts the loop",
    );
    block
}

fn worker(agent: Option<&Agent>) -> Block {
    let mut block = Block::table("worker", "what proposes changes; it gets the task on standard input");
    match agent {
        Some(agent) => {
            let why =
                format!("{FILL_IN}: proposed because `{}` is on your PATH; try it by hand first", agent.name);
            block.command(&agent.command(), why);
            block.key(
                "env",
                vec![agent.key_variable()],
                "passed on, and redacted in the evidence; it has no login of yours, its HOME is fresh",
            );
        }
        None => block.command(
            &ProposedCommand::args(&["sh", "worker.sh"]),
            format!("{FILL_IN}: a program that changes files and exits with 0"),
        ),
    }
    match agent {
        Some(agent) if agent.reports_cost() => {
            block.key("usage", agent.name, "what it used is read from what it prints");
        }
        Some(agent) => block.key(
            "usage",
            agent.name,
            "its tokens are read from what it prints; it names no cost: limits.cost_usd does not stop it",
        ),
        None => block.key("usage", "none", "it costs nothing"),
    }
    block.row(
        "# usage = \"json\"",
        "instead: it writes {\"cost\": {\"usd\": 0.12, \"prompt_tokens\": 900, \"completion_tokens\": 80}} to $GIT_LOOP_EVIDENCE",
    );
    block.key("timeout", "20m", "for one attempt");
    block.key("on_failure", "reject", "if it fails, the attempt is lost; with \"halt\" the loop ends");
    block
}

fn worktree(proposal: &Proposal) -> Block {
    let Some((_, why)) = proposal.warm.first() else { return Block::default() };
    let mut block = Block::table("worktree", "what fresh worktrees get that git does not track");
    let folders: Vec<&str> = proposal.warm.iter().map(|(folder, _)| *folder).collect();
    block.key("warm", folders, *why);
    block
}

fn check(proposal: &Proposal) -> Block {
    let mut block = Block::table("check", "what judges an attempt, in a folder and a sandbox of its own");
    block.command(&proposal.command, one_line(&proposal.command_why));
    match &proposal.verdict {
        Verdict::Libtest => {
            block.key("format", "libtest", "the text of `cargo test`: which tests ran and failed");
        }
        Verdict::Junit(report) => {
            block.key("format", "junit", "JUnit XML: which tests ran and failed");
            block.key("report", report.clone(), "where; it must not exist before");
        }
        Verdict::Tap => block.key("format", "tap", "the Test Anything Protocol: which tests ran and failed"),
        Verdict::GoJson => {
            block.key("format", "go-json", "the output of `go test -json`: which tests ran and failed");
        }
        Verdict::Jest(report) => {
            block.key("format", "jest", "the JSON of jest or vitest: which tests ran and failed");
            block.key("report", report.clone(), "where; it must not exist before");
        }
        Verdict::Lines => {
            block.key(
                "format",
                "lines",
                "which tests ran and failed; or \"none\", with metric.from = \"exit\"",
            );
        }
        Verdict::Exit => block.key("format", "none", "no report: only the exit code counts"),
    }
    block.key("timeout", "10m", "for one run");
    for (name, value, why) in &proposal.env {
        block.row(format!("env = {{ {name} = {} }}", Value::from(value.clone())), *why);
    }
    commented(&mut block, proposal, "check");
    block
}

fn metric(verdict: &Verdict) -> Block {
    let mut block = Block::table("metric", "the number that says how far it is");
    if *verdict == Verdict::Exit {
        block.key("name", "exit_code", "what people call it");
        block.key("direction", "minimize", "less is better");
        block.key("target", 0, "the exit code that means done");
        block.key("from", "exit", "there is no better and worse, only red and green");
    } else {
        block.key("name", "failing_tests", "what people call it");
        block.key("direction", "minimize", "less is better");
        block.key("target", 0, "done when no test fails");
        block.key("from", "failures", "the number of failing tests in the report");
    }
    block
}

fn limits(agent: Option<&Agent>) -> Block {
    let mut block = Block::table("limits", "all hard");
    block.key("iterations", 10, "attempts, 1 to 100");
    block.key("duration", "1h", "wall time, up to 24h");
    block.row("cost_usd = 1.00", "what all attempts may cost together, as far as the worker says it");
    if agent.is_some_and(|agent| !agent.reports_cost()) {
        block.row("tokens = 2_000_000", "what all attempts may use together");
        block.key("unknown_cost", "allow", "go on although no cost is known");
    }
    block.key("no_progress", 3, "attempts in a row that were not accepted");
    block
}

fn roles(who: &Principals) -> Block {
    let Some(runner) = &who.runner else { return Block::default() };
    let mut block = Block::table("roles", "who may sign what: principals of the trust file");
    block.key("runner", vec![runner.clone()], "iterations; its key is loop.signingKey");
    if let Some(user) = &who.user {
        block.key(
            "approver",
            vec![user.clone()],
            "signs the terms, and those of a renewal: start and renew with --key",
        );
        block.key("reviewer", vec![user.clone()], "reviews, with --key; never the runner");
        block.key("promoter", vec![user.clone()], "the promotion");
        block.key("people", vec![user.clone()], "who is a person");
    } else {
        block.row("# reviewer = [\"you@example.org\"]", format!("{FILL_IN}: somebody else than the runner"));
        block.row("# promoter = [\"you@example.org\"]", "the same, or another");
    }
    block
}

fn sandbox(proposal: &Proposal, agent: Option<&Agent>) -> Block {
    let mut block = Block::default();
    block.row("# [sandbox]", "landlock on Linux; nothing to write as long as it works");
    block.row(
        "# allowed = [\"landlock\", \"none\"]",
        "for macOS and old kernels: worker and check run with your rights there",
    );
    if let Some(folder) = agent.and_then(|agent| agent.folder.as_ref()) {
        let line = format!("# read_only = {}", Value::from(vec![folder.clone()]));
        block.row(line, "if the agent does not start: where it is installed");
    }
    commented(&mut block, proposal, "sandbox");
    block
}

fn commented(block: &mut Block, proposal: &Proposal, table: &str) {
    for (_, line, why) in proposal.commented.iter().filter(|(at, ..)| *at == table) {
        block.row(format!("# {line}"), why.clone());
    }
}

fn value(command: &ProposedCommand) -> Value {
    match command {
        ProposedCommand::Args(words) => words.clone().into(),
        ProposedCommand::Line(line) => line.clone().into(),
    }
}

/// What came from the repository must not end a comment.
fn one_line(text: &str) -> String {
    crate::escape::escape_line(text).into_owned()
}
