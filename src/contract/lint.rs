//! What is allowed in a contract and probably not meant: each warning closes a way in which a green check says little.

use super::file::{Command, UnknownCost};
use super::judge::{MetricSource, ReportFormat};
use super::parse::Draft;
use super::pattern::covers;
use super::problem::Warning;
use super::walk::Walk;
use super::worker::Usage;

/// Programs that bill for what they do.
const AGENTS: [&str; 12] = [
    "claude",
    "codex",
    "gemini",
    "opencode",
    "aider",
    "copilot",
    "goose",
    "openhands",
    "cursor-agent",
    "amp",
    "qwen",
    "crush",
];

const SHELLS: [&str; 6] = ["sh", "bash", "dash", "zsh", "ksh", "ash"];

/// The warnings of a draft, in the order of the file.
pub(super) fn lint(draft: &Draft, walk: &Walk<'_>) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let mut warn = |code: &'static str, path: &str, message: String| {
        let (line, column) = walk.source.place(walk.value_span(path).start);
        warnings.push(Warning { code, line, column, key: path.to_owned(), message });
    };
    if let Some(worker) = &draft.worker {
        if has_pipeline(&worker.command) {
            warn("shell_pipeline", "worker.command", pipeline_message("worker.command"));
        }
        let agent = agent(worker.agent.as_deref(), &worker.command);
        if let (Usage::None, Some(agent)) = (worker.usage, agent) {
            let instead = match read_from(agent) {
                Some((_, "")) => format!("Set usage = \"{agent}\""),
                Some((_, flags)) => format!("Set usage = \"{agent}\" and run it with {flags}"),
                None => {
                    "Set usage = \"json\" and let the worker write `cost` into the evidence file".to_owned()
                }
            };
            let message = format!(
                "`{agent}` usually costs money, but `worker.usage` is \"none\": its cost counts as 0. {instead}"
            );
            warn("usage_not_parsed", "worker", message);
        }
        if let Some(agent) = agent
            && let Some((usage, flags)) = read_from(agent)
            && usage == worker.usage
            && !flags.is_empty()
            && !says(&worker.command, flags)
        {
            let message = format!(
                "what `{agent}` used is read from what it prints when it is run with {flags}, which the command does not \
                 have: its cost will be unknown"
            );
            warn("usage_not_printed", "worker.command", message);
        }
        let stops = draft.limits.as_ref().is_none_or(|limits| limits.unknown_cost == UnknownCost::Stop);
        if matches!(worker.usage, Usage::Codex | Usage::Gemini) && stops {
            let message = "its output names tokens and no cost, which is unknown then: the loop stops after the first \
                           attempt. Set limits.unknown_cost = \"allow\", and limits.tokens for a limit that counts"
                .to_owned();
            warn("cost_not_reported", "worker.usage", message);
        }
        if worker.usage == Usage::None && draft.limits.as_ref().is_some_and(|limits| limits.tokens.is_some())
        {
            let message =
                "`worker.usage` is \"none\": no tokens are counted, and this limit never stops anything"
                    .to_owned();
            warn("tokens_not_counted", "limits.tokens", message);
        }
    }
    if let Some(check) = &draft.check {
        if has_pipeline(&check.command) {
            warn("shell_pipeline", "check.command", pipeline_message("check.command"));
        }
        let words = words(&check.command);
        if let Some(paths) = &draft.paths
            && let Some(entry) = entry_file(&words).filter(|entry| !covers(&paths.check, entry))
        {
            let message = format!(
                "the check reads `{entry}`, which `paths.check` does not freeze: a worker that may change it can \
                 change what the check does"
            );
            warn("verifier_entry_not_frozen", "check.command", message);
        }
        if check.format == ReportFormat::Libtest && stops_at_first_failure(&words) {
            let message =
                "`cargo test` stops at the first test binary that fails, so that the failing tests of the \
                           others are not seen: add --no-fail-fast"
                    .to_owned();
            warn("fail_fast", "check.command", message);
        }
        if check.format == ReportFormat::Pytest && names_no_passed_test(&words) {
            let message = "format = \"pytest\" reads the names of all tests from the summary, and pytest names those that pass \
                           only with -rA: add it, unless the project's `addopts` has it"
                .to_owned();
            warn("passed_tests_not_named", "check.command", message);
        }
        if let Some(metric) = &draft.metric {
            if metric.from == MetricSource::Exit && check.format == ReportFormat::None {
                let message =
                    "only the exit code judges the candidates: code under test that exits early with the \
                               success code passes. Give the check a report format where you can"
                        .to_owned();
                warn("exit_code_only_verifier", "metric.from", message);
            }
            if metric.from == MetricSource::Failures && metric.target > 0.0 {
                let message = format!(
                    "a target of {} failing tests is met only at 0: a check with a failure in it does not pass",
                    metric.target
                );
                warn("target_never_met", "metric.target", message);
            }
        }
    }
    warnings.sort_by_key(|warning| (warning.line, warning.column));
    warnings
}

fn pipeline_message(key: &str) -> String {
    format!(
        "`{key}` has a pipe: without pipefail its exit code is that of the last program only. Write an array, or put \
         the pipe into a script that says what it returns"
    )
}

/// Whether a shell runs a line with a pipe in it.
fn has_pipeline(command: &Command) -> bool {
    match command {
        Command::Shell(line) => line_has_pipe(line),
        Command::Args(words) => {
            let shell = words.first().is_some_and(|program| SHELLS.contains(&basename(program)));
            let script = words.iter().skip(1).skip_while(|word| !is_script_flag(word)).nth(1);
            shell && script.is_some_and(|script| line_has_pipe(script))
        }
    }
}

/// `-c`, also among others as in `-ec`.
fn is_script_flag(word: &str) -> bool {
    word.starts_with('-') && !word.starts_with("--") && word.ends_with('c')
}

/// A `|` that is neither quoted nor escaped nor a part of `||`.
fn line_has_pipe(line: &str) -> bool {
    let mut quote = None;
    let mut characters = line.chars().peekable();
    while let Some(character) = characters.next() {
        match (quote, character) {
            (Some(open), _) if character == open => quote = None,
            (None, '\'' | '"') => quote = Some(character),
            (None, '|') if characters.peek() != Some(&'|') => return true,
            // Escaped, or the second half of `||`.
            (None | Some('"'), '\\') | (None, '|') => drop(characters.next()),
            // `>|` writes to a file.
            (None, '>') => drop(characters.next_if_eq(&'|')),
            _ => {}
        }
    }
    false
}

/// The words of a command, those of a shell line cut at white space.
fn words(command: &Command) -> Vec<&str> {
    match command {
        Command::Shell(line) => line.split_whitespace().collect(),
        Command::Args(words) => words.iter().map(String::as_str).collect(),
    }
}

/// The last part of a path, without the ending that Windows gives to programs.
fn basename(program: &str) -> &str {
    let name = program.rsplit(['/', '\\']).next().unwrap_or(program);
    name.strip_suffix(".exe").or_else(|| name.strip_suffix(".cmd")).unwrap_or(name)
}

/// The agent that a worker is known to be.
fn agent(declared: Option<&str>, command: &Command) -> Option<&'static str> {
    // `npx -y @anthropic-ai/claude-code` and `env X=1 claude` name the agent in a later word.
    let named = words(command).into_iter().take(4).map(basename).chain(declared);
    named.into_iter().find_map(|word| {
        let word = word.to_lowercase();
        let word = word.strip_suffix("-code").or_else(|| word.strip_suffix("-cli")).unwrap_or(&word);
        AGENTS.into_iter().find(|agent| *agent == word)
    })
}

/// The parser of an agent's output, and the flags that make the agent print what it reads.
fn read_from(agent: &str) -> Option<(Usage, &'static str)> {
    match agent {
        "claude" => Some((Usage::Claude, "--output-format json")),
        "codex" => Some((Usage::Codex, "--json")),
        "gemini" => Some((Usage::Gemini, "--output-format json")),
        "opencode" => Some((Usage::Opencode, "--format json")),
        "aider" => Some((Usage::Aider, "")),
        _ => None,
    }
}

/// Whether a command that runs an agent itself has a flag like the first word of `flags`. What a script does is not seen.
fn says(command: &Command, flags: &str) -> bool {
    let flag = flags.split(' ').next().unwrap_or(flags);
    let words = words(command);
    let is_direct = agent(None, command).is_some();
    // Gemini and Claude Code know the same flag by a letter, too.
    !is_direct || words.iter().any(|word| word.starts_with(flag) || *word == "-o")
}

/// The file of the repository that says what a check's command does.
fn entry_file(words: &[&str]) -> Option<String> {
    let program = *words.first()?;
    let entry = match basename(program) {
        "npm" | "yarn" | "pnpm" | "bun" => "package.json",
        "make" | "gmake" => "Makefile",
        "just" => "justfile",
        "tox" => "tox.ini",
        "pytest" | "py.test" => "conftest.py",
        "python" | "python3" if words.windows(2).any(|pair| pair == ["-m", "pytest"]) => "conftest.py",
        name if SHELLS.contains(&name) || matches!(name, "python" | "python3" | "node" | "ruby" | "perl") => {
            let script = words.iter().skip(1).find(|word| !word.starts_with('-'))?;
            // `-c`, `-e` and `-m` bring no file of the repository.
            let inline = words.get(1).is_some_and(|word| matches!(*word, "-c" | "-e" | "-m"));
            return if inline { None } else { tree_path(script) };
        }
        _ if program.contains('/') => return tree_path(program),
        _ => return None,
    };
    Some(entry.to_owned())
}

/// A path of a command as one from the root of the repository, if it lies there.
fn tree_path(word: &str) -> Option<String> {
    let path = word.strip_prefix("./").unwrap_or(word);
    (!path.starts_with(['/', '~', '$']) && !path.split('/').any(|name| name == "..") && !path.is_empty())
        .then(|| path.to_owned())
}

/// Whether pytest itself is run, and not told to name the tests that pass.
fn names_no_passed_test(words: &[&str]) -> bool {
    let runs_pytest = match words {
        [program, ..] if matches!(basename(program), "pytest" | "py.test") => true,
        [_, rest @ ..] => rest.windows(2).any(|pair| pair == ["-m", "pytest"]),
        [] => false,
    };
    let reported = words.windows(2).filter(|pair| pair[0] == "-r").map(|pair| pair[1]);
    let joined = words.iter().filter_map(|word| {
        // Other short options may come first, as in -qrA.
        let letters = word.strip_prefix('-').filter(|letters| !letters.starts_with('-'))?;
        letters.split_once('r').map(|(_, reported)| reported)
    });
    runs_pytest && !reported.chain(joined).any(|letters| letters.contains(['A', 'P', 'p']))
}

fn stops_at_first_failure(words: &[&str]) -> bool {
    let own = words.split(|word| *word == "--").next().unwrap_or_default();
    own.first().is_some_and(|program| basename(program) == "cargo")
        && own.iter().any(|word| matches!(*word, "test" | "t"))
        && !own.contains(&"--no-fail-fast")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(words: &[&str]) -> Command {
        Command::Args(words.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn report_1_24_a_pipe_masks_the_exit_code() {
        assert!(has_pipeline(&Command::Shell("npm test | tail -20".into())));
        assert!(has_pipeline(&args(&["sh", "-c", "false | tail -1"])));
        assert!(has_pipeline(&args(&["/bin/bash", "-e", "-c", "false|cat"])));
        assert!(!has_pipeline(&Command::Shell("make test || exit 1".into())));
        assert!(!has_pipeline(&Command::Shell("grep -c 'a|b' \"x|y\" a\\|b >| out".into())));
        assert!(!has_pipeline(&args(&["grep", "-c", "a|b"])));
    }

    #[test]
    fn report_1_21_the_file_that_says_what_the_check_does() {
        let entry = |words: &[&str]| entry_file(words);
        assert_eq!(entry(&["npm", "test"]).as_deref(), Some("package.json"));
        assert_eq!(entry(&["make", "test"]).as_deref(), Some("Makefile"));
        assert_eq!(entry(&["./check.sh"]).as_deref(), Some("check.sh"));
        assert_eq!(entry(&["sh", "ci/check.sh"]).as_deref(), Some("ci/check.sh"));
        assert_eq!(entry(&["python3", "run_tests.py"]).as_deref(), Some("run_tests.py"));
        assert_eq!(entry(&["python3", "-m", "pytest"]).as_deref(), Some("conftest.py"));
        assert_eq!(entry(&["sh", "-c", "make"]), None);
        assert_eq!(entry(&["/usr/bin/verify"]), None);
        assert_eq!(entry(&["cargo", "test"]), None);
    }

    #[test]
    fn pytest_names_passed_tests_only_when_told() {
        for words in [&["pytest"][..], &["python3", "-m", "pytest", "-q"], &["pytest", "-rf", "tests"]] {
            assert!(names_no_passed_test(words), "{words:?}");
        }
        for words in [
            &["pytest", "-rA"][..],
            &["python3", "-m", "pytest", "-qrA"],
            &["pytest", "-r", "fEp"],
            &["sh", "check.sh"],
            &["tox"],
            &[],
        ] {
            assert!(!names_no_passed_test(words), "{words:?}");
        }
    }

    #[test]
    fn known_agents() {
        assert_eq!(agent(None, &args(&["claude", "-p"])), Some("claude"));
        assert_eq!(agent(None, &args(&["npx", "-y", "@anthropic-ai/claude-code"])), Some("claude"));
        assert_eq!(agent(Some("Gemini-CLI"), &args(&["./worker.sh"])), Some("gemini"));
        assert_eq!(agent(None, &args(&["./worker.sh"])), None);
    }

    #[test]
    fn cargo_test_stops_at_the_first_failing_binary() {
        assert!(stops_at_first_failure(&["cargo", "test", "--", "--no-fail-fast"]));
        assert!(!stops_at_first_failure(&["cargo", "test", "--no-fail-fast"]));
        assert!(!stops_at_first_failure(&["cargo", "build"]));
    }
}
