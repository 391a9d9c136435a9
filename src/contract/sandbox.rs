//! `[sandbox]`: how the worker and the check are isolated.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `[sandbox]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Sandbox {
    /// The adapters that a runner may use. The receipt says which one was used and what it enforced.
    #[schemars(length(min = 1), extend("x-built-items" = ["landlock", "none"]))]
    pub allowed: Vec<Adapter>,
    /// The toolchains whose programs and caches are given read-only. Default: those of the projects found in the base
    /// commit. An empty list: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "detected"))]
    pub presets: Option<Vec<Preset>>,
    /// Further folders given read-only: absolute, or below `~/`.
    pub read_only: Vec<String>,
    /// The worker's sandbox.
    pub worker: WorkerSandbox,
    /// The check's sandbox.
    pub check: CheckSandbox,
}

impl Default for Sandbox {
    fn default() -> Self {
        Self {
            allowed: vec![Adapter::Landlock],
            presets: None,
            read_only: Vec::new(),
            worker: WorkerSandbox::default(),
            check: CheckSandbox::default(),
        }
    }
}

/// What isolates a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Adapter {
    /// Landlock and seccomp, in the Linux kernel.
    Landlock,
    /// bubblewrap.
    Bwrap,
    /// Docker.
    Docker,
    /// Podman.
    Podman,
    /// E2B.
    E2b,
    /// nono.
    Nono,
    /// No isolation.
    None,
}

impl Adapter {
    /// Those that this version has; `x-built-items` of the key says the same.
    pub const BUILT: &[Self] = &[Self::Landlock, Self::None];

    /// The word in `loop.toml`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Landlock => "landlock",
            Self::Bwrap => "bwrap",
            Self::Docker => "docker",
            Self::Podman => "podman",
            Self::E2b => "e2b",
            Self::Nono => "nono",
            Self::None => "none",
        }
    }
}

/// A toolchain that the sandbox knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Preset {
    /// cargo and rustup.
    Cargo,
    /// Python, with pyenv.
    Python,
    /// node, with npm.
    Node,
}

/// `[sandbox.worker]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct WorkerSandbox {
    /// What the worker may reach.
    #[schemars(extend("x-built" = ["none", "host"]))]
    pub network: Network,
    /// What the worker sees of the repository's history.
    pub history: History,
}

impl Default for WorkerSandbox {
    fn default() -> Self {
        Self { network: Network::Mode(NetworkMode::Host), history: History::Sealed }
    }
}

/// `[sandbox.check]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CheckSandbox {
    /// What the check may reach.
    #[schemars(extend("x-built" = ["none", "host"]))]
    pub network: Network,
}

impl Default for CheckSandbox {
    fn default() -> Self {
        Self { network: Network::Mode(NetworkMode::None) }
    }
}

/// What a process may reach.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Network {
    /// All or nothing.
    Mode(NetworkMode),
    /// Only some hosts.
    Allow(AllowList),
}

/// All of the network or none of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NetworkMode {
    /// No network.
    None,
    /// The network of this machine.
    Host,
}

/// The hosts that a process may reach.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AllowList {
    /// `host:port`, one for each host that may be reached.
    #[schemars(length(min = 1))]
    pub allow: Vec<String>,
}

/// What a worker sees of the history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum History {
    /// A throw-away repository that holds the base commit and nothing else.
    Sealed,
    /// The repository itself, with its whole history. Only where the worker runs without a sandbox (`none`): every other
    /// adapter closes the repository, and the run is refused (30).
    Open,
}
