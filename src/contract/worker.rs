//! `[worker]`: the command that proposes changes, and the model behind it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::duration::Seconds;
use super::file::Command;
use super::money::Dollars;

/// `[worker]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Worker {
    /// What to run. An array is executed as it is; a string goes through `sh`, with `pipefail` where that shell has it.
    pub command: Command,
    /// The name of the agent; it becomes the author of the candidates. Default: the file name of the program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 100), extend("x-default" = "the program's name"))]
    pub agent: Option<String>,
    /// Which model the worker uses. What is not given here stays null in the receipt, with a reason.
    #[serde(default)]
    pub model: Model,
    /// How the model samples. It is recorded in the receipt; the command must set it up itself.
    #[serde(default)]
    pub sampling: Sampling,
    /// How the worker says what it used. `none` declares a worker that costs nothing.
    #[serde(default)]
    pub usage: Usage,
    /// How long one run of the worker may take.
    #[serde(default = "Worker::default_timeout")]
    #[schemars(extend("x-min" = "1s", "x-max" = "24h"))]
    pub timeout: Seconds,
    /// How long the worker may print nothing before it is ended as at its time-out. Not limited where the key is absent; many
    /// agents print only at their end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-min" = "1s", "x-max" = "24h"))]
    pub idle_timeout: Option<Seconds>,
    /// The names of the environment variables that are passed through; everything else is scrubbed. Their values are
    /// redacted in all evidence.
    #[serde(default)]
    pub env: Vec<String>,
    /// A credential that is made for each run of the worker and revoked after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credential: Option<Credential>,
    /// What a worker that fails or runs out of time means.
    #[serde(default)]
    pub on_failure: OnFailure,
    /// Dollars set aside before each run of the worker. Default: the largest cost of a run so far; before the first,
    /// `limits.cost_usd` divided by `limits.iterations`; 0 for `usage = "none"`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-min" = "0", "x-max" = "10000", "x-default" = "computed"))]
    pub reserve_usd: Option<Dollars>,
    /// How many runs the provider may refuse (rate limit, overload, login) before the loop halts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100), extend("x-built" = [], "x-default" = 10))]
    pub max_refusals: Option<u32>,
}

impl Worker {
    fn default_timeout() -> Seconds {
        Seconds::new(20 * 60)
    }
}

/// `worker.credential`: made for one run, and revoked whatever becomes of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Credential {
    /// The name of the variable in which the worker gets it.
    #[schemars(length(min = 1, max = 100))]
    pub env: String,
    /// Prints the credential, one line. It runs as you, outside of every sandbox, before each run of the worker.
    pub mint: Command,
    /// Gets the credential on standard input and makes it worthless. It runs after the worker has ended, and again until it
    /// succeeds.
    pub revoke: Command,
}

/// `worker.model`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Model {
    /// Who serves the model, such as `anthropic`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 200))]
    pub provider: Option<String>,
    /// The provider's name of the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 200))]
    pub model_id: Option<String>,
    /// The version, snapshot or digest of the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 200))]
    pub version: Option<String>,
    /// The quantization of the weights, such as `q4_k_m`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 200))]
    pub quantization: Option<String>,
    /// What runs the model, with its version.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 200))]
    pub runtime: Option<String>,
    /// The address the model is reached at. No credentials: the contract is public.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1000))]
    pub endpoint: Option<String>,
}

/// `worker.sampling`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Sampling {
    /// The temperature.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub temperature: Option<f64>,
    /// The probability mass that is sampled from.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1))]
    pub top_p: Option<f64>,
    /// The seed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 9_007_199_254_740_991_u64))]
    pub seed: Option<u64>,
    /// The most tokens of one answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000_000))]
    pub max_tokens: Option<u64>,
}

/// How a worker says what it used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Usage {
    /// The output of `claude -p --output-format json` (or `stream-json`).
    Claude,
    /// The output of `codex exec --json`. It names no cost.
    Codex,
    /// The output of `gemini --output-format json` (or `stream-json`). It names no cost.
    Gemini,
    /// The output of `opencode run --format json`.
    Opencode,
    /// The output of aider, or its analytics log, printed.
    Aider,
    /// `cost` in the evidence file: `{ prompt_tokens, completion_tokens, usd }`.
    Json,
    /// The worker costs nothing.
    #[default]
    None,
}

/// What a failed worker means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnFailure {
    /// The loop stops with `execution_failure`.
    #[default]
    Halt,
    /// The candidate is rejected and the loop goes on.
    Reject,
    /// The check decides, whatever the worker's exit code.
    Check,
}
