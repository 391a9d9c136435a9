//! Manifests and lock files: the packages that one file names, by its bytes alone.
//!
//! | module | what it reads |
//! | --- | --- |
//! | `cargo` | `Cargo.toml`, `Cargo.lock` |
//! | `npm` | `package.json`, `package-lock.json`, `npm-shrinkwrap.json` |
//! | `npm_locks` | `yarn.lock`, `pnpm-lock.yaml` |
//! | `pypi` | `pyproject.toml`, `Pipfile`, `Pipfile.lock`, `uv.lock`, `poetry.lock`, `pdm.lock`, `pylock.toml` |
//! | `requirements` | `requirements*.txt`, and requirements in the notation of PEP 508 |
//! | `golang` | `go.mod`, `go.sum` |
//! | `maven` | `pom.xml` |
//! | `sums` | what the files of two trees come to |

mod cargo;
mod golang;
mod maven;
mod npm;
mod npm_locks;
mod pypi;
mod requirements;
mod sums;
#[cfg(test)]
mod tests;

pub use sums::{All, ChangedPackage, Package, PackageChanges, compare};

use std::collections::BTreeSet;

use serde::Serialize;

/// The most bytes of a manifest or a lock file that are read.
pub const MAX_BYTES: usize = 16 << 20;

/// Where a package comes from; names of two ecosystems are never one package.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Ecosystem {
    /// crates.io and git, by Cargo.
    Cargo,
    /// Go modules.
    Go,
    /// Maven repositories.
    Maven,
    /// The npm registry, whatever program fetches from it.
    Npm,
    /// The Python package index.
    PyPi,
}

impl Ecosystem {
    /// The stable name, as in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cargo => "cargo",
            Self::Go => "go",
            Self::Maven => "maven",
            Self::Npm => "npm",
            Self::PyPi => "pypi",
        }
    }
}

/// A file that names packages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manifest {
    /// `Cargo.toml`
    CargoToml,
    /// `Cargo.lock`
    CargoLock,
    /// `package.json`
    PackageJson,
    /// `package-lock.json`, `npm-shrinkwrap.json`
    PackageLock,
    /// `yarn.lock`
    YarnLock,
    /// `pnpm-lock.yaml`
    PnpmLock,
    /// `requirements.txt` and the like
    Requirements,
    /// `pyproject.toml`
    PyProject,
    /// `Pipfile`
    Pipfile,
    /// `Pipfile.lock`
    PipfileLock,
    /// `uv.lock`, `poetry.lock`, `pdm.lock`, `pylock.toml`
    PythonLock,
    /// `go.mod`
    GoMod,
    /// `go.sum`
    GoSum,
    /// `pom.xml`
    Pom,
}

/// Files that name packages and are not read.
const UNREAD: &[&str] = &[
    "setup.py",
    "setup.cfg",
    "environment.yml",
    "environment.yaml",
    "conda-lock.yml",
    "bun.lock",
    "bun.lockb",
    "deno.json",
    "deno.lock",
    "build.gradle",
    "build.gradle.kts",
    "gradle.lockfile",
    "libs.versions.toml",
    "build.sbt",
    "Gemfile",
    "Gemfile.lock",
    "composer.json",
    "composer.lock",
    "Package.swift",
    "Package.resolved",
    "Podfile",
    "Podfile.lock",
    "mix.exs",
    "mix.lock",
    "pubspec.yaml",
    "pubspec.lock",
    "packages.config",
    "packages.lock.json",
    "Directory.Packages.props",
    "go.work",
    "vcpkg.json",
    "conanfile.txt",
    "conanfile.py",
    "cabal.project",
    "stack.yaml",
    "flake.nix",
    "flake.lock",
];

/// What a path is to the packages of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// A file that is read.
    Read(Manifest),
    /// A file that names packages in a way that is not read.
    Unread,
    /// Nothing.
    None,
}

impl Role {
    /// What the file of this path is. Manifests of packages that are themselves in the tree as copies (`node_modules`, `vendor`)
    /// are nothing: whoever uses those names them.
    pub fn of(path: &[u8]) -> Self {
        let Ok(path) = std::str::from_utf8(path) else { return Self::None };
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        if folder.split('/').any(|part| part == "node_modules" || part == "vendor") {
            return Self::None;
        }
        let in_requirements = folder.rsplit('/').next() == Some("requirements");
        Self::Read(match name {
            "Cargo.toml" => Manifest::CargoToml,
            "Cargo.lock" => Manifest::CargoLock,
            "package.json" => Manifest::PackageJson,
            "package-lock.json" | "npm-shrinkwrap.json" => Manifest::PackageLock,
            "yarn.lock" => Manifest::YarnLock,
            "pnpm-lock.yaml" => Manifest::PnpmLock,
            "pyproject.toml" => Manifest::PyProject,
            "Pipfile" => Manifest::Pipfile,
            "Pipfile.lock" => Manifest::PipfileLock,
            "uv.lock" | "poetry.lock" | "pdm.lock" | "pylock.toml" => Manifest::PythonLock,
            "go.mod" => Manifest::GoMod,
            "go.sum" => Manifest::GoSum,
            "pom.xml" => Manifest::Pom,
            _ if name.strip_suffix(".txt").is_some_and(|stem| {
                in_requirements || stem.starts_with("requirements") || stem.ends_with("requirements")
            }) =>
            {
                Manifest::Requirements
            }
            _ if UNREAD.contains(&name) || name.ends_with(".csproj") || name.ends_with(".gemspec") => {
                return Self::Unread;
            }
            _ => return Self::None,
        })
    }
}

/// One package that a file names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Named {
    /// Its name, in the form in which its ecosystem compares names.
    pub name: String,
    /// The version that is locked, or the requirement.
    pub version: String,
    /// Whether a manifest names it; else a lock file does.
    pub direct: bool,
}

/// What one file says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listed {
    /// The packages that are depended on.
    pub packages: Vec<Named>,
    /// The names of the packages that are made here: a dependency on one of them is none on others.
    pub own: BTreeSet<String>,
}

impl Listed {
    fn direct(&mut self, name: impl Into<String>, version: impl Into<String>) {
        self.packages.push(Named { name: name.into(), version: version.into(), direct: true });
    }

    fn locked(&mut self, name: impl Into<String>, version: impl Into<String>) {
        self.packages.push(Named { name: name.into(), version: version.into(), direct: false });
    }
}

/// Why a file could not be read: one line.
pub type Unreadable = String;

impl Manifest {
    /// Whose packages it names.
    pub fn ecosystem(self) -> Ecosystem {
        match self {
            Self::CargoToml | Self::CargoLock => Ecosystem::Cargo,
            Self::PackageJson | Self::PackageLock | Self::YarnLock | Self::PnpmLock => Ecosystem::Npm,
            Self::GoMod | Self::GoSum => Ecosystem::Go,
            Self::Pom => Ecosystem::Maven,
            Self::Requirements | Self::PyProject | Self::Pipfile | Self::PipfileLock | Self::PythonLock => {
                Ecosystem::PyPi
            }
        }
    }

    /// The packages that the file names.
    pub fn read(self, bytes: &[u8]) -> Result<Listed, Unreadable> {
        if bytes.len() > MAX_BYTES {
            return Err(format!("it has more than {} MiB", MAX_BYTES >> 20));
        }
        let text = std::str::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned())?;
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        match self {
            Self::CargoToml => cargo::manifest(&toml(text)?),
            Self::CargoLock => cargo::lock(&toml(text)?),
            Self::PackageJson => npm::manifest(&json(text)?),
            Self::PackageLock => npm::lock(&json(text)?),
            Self::YarnLock => npm_locks::yarn(text),
            Self::PnpmLock => npm_locks::pnpm(text),
            Self::Requirements => Ok(requirements::file(text)),
            Self::PyProject => Ok(pypi::project(&toml(text)?)),
            Self::Pipfile => Ok(pypi::pipfile(&toml(text)?)),
            Self::PipfileLock => pypi::pipfile_lock(&json(text)?),
            Self::PythonLock => pypi::lock(&toml(text)?),
            Self::GoMod => golang::module(text),
            Self::GoSum => golang::sums(text),
            Self::Pom => maven::project(text),
        }
    }
}

fn toml(text: &str) -> Result<toml::Table, Unreadable> {
    text.parse().map_err(|error: toml::de::Error| format!("it is no TOML: {}", error.message()))
}

fn json(text: &str) -> Result<serde_json::Value, Unreadable> {
    serde_json::from_str(text).map_err(|error| format!("it is no JSON: {error}"))
}
