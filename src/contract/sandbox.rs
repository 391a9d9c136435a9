//! `[sandbox]`: how the worker and the check are isolated.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::bytes::Bytes;
use crate::sandbox;

/// `[sandbox]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Sandbox {
    /// The adapters that a runner may use. The receipt says which one was used and what it enforced.
    #[schemars(length(min = 1), extend("x-built-items" = ["landlock", "bwrap", "docker", "podman", "sandbox-exec", "none"]))]
    pub allowed: Vec<Adapter>,
    /// The image of `docker` and `podman`, pinned by its digest: `name@sha256:…`. It has all programs that worker and check
    /// need; presets are not for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 500))]
    pub image: Option<String>,
    /// The toolchains whose programs and caches are given read-only. Default: those of the projects found in the base
    /// commit. An empty list: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "detected"))]
    pub presets: Option<Vec<Preset>>,
    /// Further folders given read-only: absolute, or below `~/`.
    pub read_only: Vec<String>,
    /// How much the folders of one run of the worker or of the check may hold: its worktree, its `HOME` and its temporary
    /// folders together. A run that goes past it is ended.
    #[schemars(extend("x-min" = "1MiB", "x-max" = "16TiB"))]
    pub disk: Bytes,
    /// The worker's sandbox.
    pub worker: WorkerSandbox,
    /// The check's sandbox.
    pub check: CheckSandbox,
}

impl Default for Sandbox {
    fn default() -> Self {
        Self {
            allowed: vec![Adapter::Landlock],
            image: None,
            presets: None,
            read_only: Vec::new(),
            disk: Bytes::gib(32),
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
    /// The sandbox of macOS.
    #[serde(rename = "sandbox-exec")]
    SandboxExec,
    /// E2B.
    E2b,
    /// nono.
    Nono,
    /// No isolation.
    None,
}

impl Adapter {
    /// The adapter that this word means; none for those that are not built.
    pub fn built(self) -> Option<sandbox::Adapter> {
        Some(match self {
            Self::Landlock => sandbox::Adapter::Landlock,
            Self::Bwrap => sandbox::Adapter::Bwrap,
            Self::Docker => sandbox::Adapter::Docker,
            Self::Podman => sandbox::Adapter::Podman,
            Self::SandboxExec => sandbox::Adapter::SandboxExec,
            Self::None => sandbox::Adapter::None,
            Self::E2b | Self::Nono => return None,
        })
    }

    /// Those that this version has; `x-built-items` of the key says the same.
    pub const BUILT: &[Self] =
        &[Self::Landlock, Self::Bwrap, Self::Docker, Self::Podman, Self::SandboxExec, Self::None];

    /// The word in `loop.toml`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Landlock => "landlock",
            Self::Bwrap => "bwrap",
            Self::Docker => "docker",
            Self::Podman => "podman",
            Self::SandboxExec => "sandbox-exec",
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
    /// What the worker may reach. With `allow`, whole `host:port`, also `*.domain:port`, through a proxy and nothing else.
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
    /// What the check may reach. `allow` as for the worker.
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
