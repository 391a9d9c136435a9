//! `[check]`, `[holdout]` and `[metric]`: the command that judges candidates and the number it gives.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::duration::Seconds;
use super::file::Command;
use crate::check::SameIds;

/// `[check]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Check {
    /// What to run. An array is executed as it is; a string goes through `sh`, with `pipefail` where that shell has it.
    pub command: Command,
    /// The format of the test report.
    #[serde(default)]
    pub format: ReportFormat,
    /// Where the check writes its report, relative to the tree, for a format that is a file. It must not exist before
    /// the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<String>,
    /// How long one run of the check may take.
    #[serde(default = "Check::default_timeout")]
    #[schemars(extend("x-min" = "1s", "x-max" = "24h"))]
    pub timeout: Seconds,
    /// How long the check may print nothing before it is ended as at its time-out. Not limited where the key is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-min" = "1s", "x-max" = "24h"))]
    pub idle_timeout: Option<Seconds>,
    /// The exit code of a check that passes.
    #[serde(default)]
    #[schemars(range(min = 0, max = 255))]
    pub success_exit_code: u8,
    /// `true`: the check runs elsewhere, and an orchestrator brings a verdict that one of `roles.verifier` has signed. There is no
    /// baseline then.
    #[serde(default)]
    pub external: bool,
    /// Environment variables of the check, with their values. They are part of the contract, which is public: no secrets.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// How many processors the check, and the holdout, see and are told to use. Without it as many as the runner has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1024))]
    pub cpus: Option<u32>,
    /// What tests of one id are, with `lines`, `libtest` and `junit`. The other formats tell them apart by themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "\"numbered\""))]
    pub same_ids: Option<SameIds>,
}

impl Check {
    fn default_timeout() -> Seconds {
        Seconds::new(10 * 60)
    }
}

/// The format of a test report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ReportFormat {
    /// The text of `cargo test`.
    Libtest,
    /// JUnit XML in the file that `check.report` names.
    Junit,
    /// The text of `pytest -rA` on standard output. JUnit says more.
    Pytest,
    /// The Test Anything Protocol, versions 12 to 14, on standard output.
    Tap,
    /// The output of `go test -json` on standard output.
    GoJson,
    /// The JSON report of jest or vitest in the file that `check.report` names.
    Jest,
    /// `ok ID`, `fail ID` or `skip ID` a line on standard output, and `done N` at the end.
    Lines,
    /// No report: only the exit code and the metric count.
    #[default]
    None,
}

impl ReportFormat {
    /// Whether the report is a file that `check.report` must name, rather than what the check prints.
    pub fn is_file(self) -> bool {
        matches!(self, Self::Junit | Self::Jest)
    }

    /// Whether nothing but their order tells tests of one id apart, so that `check.same_ids` says what they are.
    pub fn merges_ids(self) -> bool {
        matches!(self, Self::Libtest | Self::Junit | Self::Lines)
    }

    /// The word in `loop.toml`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Libtest => "libtest",
            Self::Junit => "junit",
            Self::Pytest => "pytest",
            Self::Tap => "tap",
            Self::GoJson => "go-json",
            Self::Jest => "jest",
            Self::Lines => "lines",
            Self::None => "none",
        }
    }
}

/// `[holdout]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Holdout {
    /// What to run, in a copy of the folder. `GIT_LOOP_CANDIDATE` names the folder with the candidate's files. Only its verdict
    /// leaves the holdout.
    pub command: Command,
    /// A folder outside the repository, absolute or from `~/`, frozen by its git tree id.
    pub folder: String,
    /// The format of its test report. Of the tests only the number of failing ones is kept.
    #[serde(default)]
    pub format: ReportFormat,
    /// Where it writes its report, relative to the folder, for a format that is a file. It must not be there before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<String>,
    /// How long it may take.
    #[serde(default = "Check::default_timeout")]
    #[schemars(extend("x-min" = "1s", "x-max" = "24h"))]
    pub timeout: Seconds,
    /// The exit code with which it passes.
    #[serde(default)]
    #[schemars(range(min = 0, max = 255))]
    pub success_exit_code: u8,
}

/// `[metric]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Metric {
    /// The name of the metric, for people.
    #[schemars(length(min = 1, max = 64))]
    pub name: String,
    /// Whether less or more is better.
    pub direction: Direction,
    /// The value at which the work is done, provided that the check passes.
    pub target: f64,
    /// Where the number comes from.
    pub from: MetricSource,
    /// With `from = "regex"`: a regular expression over the check's standard output, with one capture group or one that
    /// is called `metric`. The last match counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1000))]
    pub pattern: Option<String>,
    /// With `from = "json"`: an RFC 6901 pointer to a number in the JSON that the check prints, such as `/summary/score`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1000))]
    pub pointer: Option<String>,
    /// The least difference that counts as an improvement. An improvement is always more than 0.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub min_improvement: f64,
    /// How often the check runs for each candidate, each time in a fresh worktree. The median counts, and an improvement must be
    /// greater than the noise: the median absolute deviation of the candidate's runs, or of the best one's if that is more.
    /// Runs that disagree in anything but the metric block the loop.
    #[serde(default = "Metric::default_repeat")]
    #[schemars(range(min = 1, max = 100))]
    pub repeat: u32,
}

impl Metric {
    fn default_repeat() -> u32 {
        1
    }
}

/// Which way a metric gets better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// Less is better.
    Minimize,
    /// More is better.
    Maximize,
}

impl Direction {
    /// The word in `loop.toml`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Minimize => "minimize",
            Self::Maximize => "maximize",
        }
    }

    /// How the goal is said: at most, at least.
    pub fn goal_word(self) -> &'static str {
        match self {
            Self::Minimize => "at most",
            Self::Maximize => "at least",
        }
    }

    /// How much better `now` is than `before`; negative if it is worse.
    pub fn gain(self, before: f64, now: f64) -> f64 {
        match self {
            Self::Minimize => before - now,
            Self::Maximize => now - before,
        }
    }

    /// Whether `value` has reached `target`.
    pub fn reached(self, value: f64, target: f64) -> bool {
        match self {
            Self::Minimize => value <= target,
            Self::Maximize => value >= target,
        }
    }
}

/// Where the metric comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MetricSource {
    /// The number of failing tests in the report.
    Failures,
    /// The exit code of the check.
    Exit,
    /// What `metric.pattern` finds on standard output.
    Regex,
    /// What `metric.pointer` finds in the JSON on standard output.
    Json,
    /// `metric_value` of the verdict: of the JSON file that `GIT_LOOP_VERDICT` names to the check, or of an outside verdict.
    Verdict,
}

impl MetricSource {
    /// The word in `loop.toml`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Failures => "failures",
            Self::Exit => "exit",
            Self::Regex => "regex",
            Self::Json => "json",
            Self::Verdict => "verdict",
        }
    }
}
