//! Tools and caches of the user for a command that has another `HOME`: where they are, which of them it may read, and the
//! variables that make them work read-only and offline.
//!
//! `cargo`: rustup's proxies want to write to `~/.rustup`, so the toolchain's own programs come first in `PATH`. `CARGO_HOME` stays
//! the user's: cargo writes the path of every crate's source into its fingerprints, so that under another one a warm target directory
//! is rebuilt from scratch. Of it only the registry, git checkouts, installed programs and the configuration can be read; the
//! credentials cannot. Cargo notices that it may not write there and goes on without its lock. A crate that was downloaded and
//! never unpacked is missing: `cargo fetch` in the repository mends that.
//!
//! `python`: pyenv's shims are scripts that look for a version in the current folder; the version's own folder replaces them. A virtual
//! environment counts if it lies outside of the worktree (one inside it is not part of a candidate).
//!
//! `node`: npm reads its download cache through a link in the fresh `HOME`.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};

use super::environment::HostEnv;

/// A family of tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Preset {
    /// cargo and rustc.
    Cargo,
    /// Python.
    Python,
    /// node and npm.
    Node,
}

impl fmt::Display for Preset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cargo => "cargo",
            Self::Python => "python",
            Self::Node => "node",
        })
    }
}

/// A link in the fresh `HOME`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HomeLink {
    /// Where, relative to `HOME`.
    pub link: PathBuf,
    /// What it points to.
    pub target: PathBuf,
}

/// What presets come to on this host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Toolchain {
    /// Variables.
    pub env: Vec<(OsString, OsString)>,
    /// Folders for `PATH`, before the system's.
    pub path_dirs: Vec<PathBuf>,
    /// What the command must be able to read.
    pub readable: Vec<PathBuf>,
    /// Links in the fresh `HOME`.
    pub home_links: Vec<HomeLink>,
    /// Presets whose program this host does not have. Whether that matters is for the command to show.
    pub missing: Vec<Preset>,
}

/// Why a toolchain cannot be used. It names a version that is not there: another one would be another verdict.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ToolchainError {
    /// rustup manages cargo and no toolchain is chosen.
    #[error("rustup has no default toolchain (looked in {settings:?})")]
    NoRustToolchain {
        /// The settings file.
        settings: PathBuf,
    },
    /// The toolchain is not installed.
    #[error("rust toolchain {name} is not installed in {dir:?}")]
    RustToolchain {
        /// Its name.
        name: String,
        /// Where toolchains are.
        dir: PathBuf,
    },
    /// The Python version is not installed.
    #[error("python version {name} is not installed in {dir:?}")]
    PythonVersion {
        /// Its name.
        name: String,
        /// Where versions are.
        dir: PathBuf,
    },
}

impl From<ToolchainError> for crate::error::Error {
    fn from(error: ToolchainError) -> Self {
        let hint = match &error {
            ToolchainError::NoRustToolchain { .. } => "run `rustup default stable`".to_owned(),
            ToolchainError::RustToolchain { name, .. } => format!("run `rustup toolchain install {name}`"),
            ToolchainError::PythonVersion { name, .. } => format!("run `pyenv install {name}`"),
        };
        Self::workspace(error.to_string()).hint(hint)
    }
}

/// Which presets a check needs: by its program, and by what lies at the top of the tree (a shell or `make` can run anything).
pub fn detect<'a>(check_argv: &[OsString], tree_paths: impl IntoIterator<Item = &'a str>) -> Vec<Preset> {
    let mut found = BTreeSet::new();
    let program =
        check_argv.first().and_then(|program| Path::new(program).file_name()).and_then(OsStr::to_str);
    match program.unwrap_or_default() {
        "cargo" | "rustc" | "cargo-nextest" | "rustup" => {
            found.insert(Preset::Cargo);
        }
        "pytest" | "py.test" | "tox" | "nox" | "pip" | "pip3" | "uv" | "poetry" | "hatch" | "pypy3" => {
            found.insert(Preset::Python);
        }
        "node" | "npm" | "npx" | "pnpm" | "yarn" | "jest" | "vitest" | "mocha" | "tsx" | "corepack" => {
            found.insert(Preset::Node);
        }
        name => {
            let version = name.strip_prefix("python");
            if version.is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')) {
                found.insert(Preset::Python);
            }
        }
    }
    for path in tree_paths {
        match path {
            "Cargo.toml" => found.insert(Preset::Cargo),
            "pyproject.toml" | "setup.py" | "setup.cfg" | "requirements.txt" => found.insert(Preset::Python),
            "package.json" => found.insert(Preset::Node),
            path => is_script(path) && found.insert(Preset::Python),
        };
    }
    found.into_iter().collect()
}

/// Whether a path is a Python file at the top.
fn is_script(path: &str) -> bool {
    !path.contains('/') && Path::new(path).extension().is_some_and(|extension| extension == "py")
}

/// Finds the tools on this host. `tree` is a folder whose `rust-toolchain.toml` and `.python-version` choose versions; it must hold
/// frozen files, or else a candidate chooses what judges it.
pub fn resolve(presets: &[Preset], host: &HostEnv, tree: Option<&Path>) -> Result<Toolchain, ToolchainError> {
    let mut toolchain = Toolchain::default();
    for &preset in presets {
        let found = match preset {
            Preset::Cargo => cargo(&mut toolchain, host, tree)?,
            Preset::Python => python(&mut toolchain, host, tree)?,
            Preset::Node => node(&mut toolchain, host),
        };
        if !found {
            toolchain.missing.push(preset);
        }
    }
    toolchain.path_dirs.dedup();
    toolchain.readable.sort();
    toolchain.readable.dedup();
    Ok(toolchain)
}

impl Toolchain {
    fn set(&mut self, name: &str, value: impl Into<OsString>) {
        self.env.push((name.into(), value.into()));
    }

    /// Adds the folder of a program, and the tree that it belongs to if that is not the system's.
    fn program(&mut self, file: &Path) {
        let Some(dir) = file.parent() else { return };
        self.path_dirs.push(dir.to_path_buf());
        self.prefix(dir);
        // A link into another tree (a version manager's) needs that one too.
        if let Some(dir) = file.canonicalize().ok().as_deref().and_then(Path::parent) {
            self.prefix(dir);
        }
    }

    /// Grants what a `bin` folder belongs to; any other folder only for itself.
    fn prefix(&mut self, dir: &Path) {
        let system = ["/usr", "/bin", "/sbin", "/opt", "/nix/store", "/gnu/store"];
        if system.iter().any(|base| dir.starts_with(base)) {
            return;
        }
        let above = dir.parent().filter(|above| dir.ends_with("bin") && is_prefix(above));
        self.readable.push(above.unwrap_or(dir).to_path_buf());
    }
}

/// Whether a folder is the root of an installation. `~/bin` is not one: that would grant the whole home folder.
fn is_prefix(dir: &Path) -> bool {
    ["lib", "lib64", "libexec", "include", "pyvenv.cfg"].iter().any(|name| dir.join(name).exists())
        && !dir.join(".ssh").exists()
        && !dir.ends_with(".local")
}

/// The first file of this name in the user's `PATH`, outside of the tree.
fn which(name: &str, host: &HostEnv, tree: Option<&Path>) -> Option<PathBuf> {
    let nowhere = Path::new("/nonexistent");
    super::shell::resolve_program(OsStr::new(name), &host.path_dirs(), tree.unwrap_or(nowhere))
}

fn cargo(toolchain: &mut Toolchain, host: &HostEnv, tree: Option<&Path>) -> Result<bool, ToolchainError> {
    let at_home = |name: &str| host.home().map(|home| home.join(name));
    let cargo_home = host.get("CARGO_HOME").map(PathBuf::from).or_else(|| at_home(".cargo"));
    let found = which("cargo", host, tree);
    // A check started from a desktop or a cron job may lack it in PATH.
    let installed = cargo_home.as_ref().map(|home| home.join("bin/cargo")).filter(|file| file.is_file());
    let Some(file) = found.or(installed) else { return Ok(false) };
    let real = file.canonicalize().unwrap_or_else(|_| file.clone());
    if real.file_stem().is_some_and(|name| name == "rustup") {
        let rustup = host.get("RUSTUP_HOME").map(PathBuf::from).or_else(|| at_home(".rustup"));
        let Some(rustup) = rustup else { return Ok(false) };
        let (name, dir) = rust_toolchain(&rustup, host, tree)?;
        toolchain.path_dirs.push(dir.join("bin"));
        toolchain.readable.extend([dir, rustup.join("settings.toml")]);
        // For a script that calls a proxy by its path.
        toolchain.set("RUSTUP_HOME", rustup);
        toolchain.set("RUSTUP_TOOLCHAIN", name);
    } else {
        toolchain.program(&file);
    }
    if let Some(home) = cargo_home {
        // Subcommands such as cargo-nextest. The proxies in there come after the real programs.
        let bin = home.join("bin");
        if bin.is_dir() {
            toolchain.path_dirs.push(bin.clone());
        }
        toolchain.readable.push(bin);
        for part in ["registry/cache", "registry/index", "registry/src", "git", "config.toml", "config"] {
            toolchain.readable.push(home.join(part));
        }
        toolchain.set("CARGO_HOME", home);
    }
    toolchain.set("CARGO_NET_OFFLINE", "true");
    Ok(true)
}

/// The toolchain that rustup would choose: its name and its folder.
fn rust_toolchain(
    rustup: &Path,
    host: &HostEnv,
    tree: Option<&Path>,
) -> Result<(String, PathBuf), ToolchainError> {
    let settings_file = rustup.join("settings.toml");
    let settings = std::fs::read_to_string(&settings_file).unwrap_or_default();
    let settings: toml::Table = settings.parse().unwrap_or_default();
    let default = settings.get("default_toolchain").and_then(toml::Value::as_str).map(str::to_owned);
    let from_env = host.get("RUSTUP_TOOLCHAIN").and_then(OsStr::to_str).map(str::to_owned);
    let from_tree = tree.and_then(|tree| {
        let read = |name| std::fs::read_to_string(tree.join(name)).ok();
        read("rust-toolchain").or_else(|| read("rust-toolchain.toml")).as_deref().and_then(rust_channel)
    });
    let Some(name) = from_env.or(from_tree).or_else(|| default.clone()) else {
        return Err(ToolchainError::NoRustToolchain { settings: settings_file });
    };
    let toolchains = rustup.join("toolchains");
    // "stable" and "1.95.0" are installed under their name and the host's triple, which the default's name ends with.
    let triple = default.as_deref().and_then(|default| default.split_once('-')).map(|(_, triple)| triple);
    let mut names = vec![name.clone()];
    names.extend(triple.map(|triple| format!("{name}-{triple}")));
    let short: Vec<_> = name.split('.').collect();
    if let ([major, minor], Some(triple)) = (short.as_slice(), triple) {
        // "1.95" may be installed as such or with its patch.
        names.extend((0..10).rev().map(|patch| format!("{major}.{minor}.{patch}-{triple}")));
    }
    let fit =
        |name: &&String| !name.contains('/') && *name != ".." && toolchains.join(name).join("bin").is_dir();
    match names.iter().find(fit) {
        Some(found) => {
            let dir = toolchains.join(found);
            Ok((found.clone(), dir.canonicalize().unwrap_or(dir)))
        }
        None => Err(ToolchainError::RustToolchain { name, dir: toolchains }),
    }
}

/// The channel that a `rust-toolchain` file names, in its old form (one line) or in TOML.
fn rust_channel(text: &str) -> Option<String> {
    if let Ok(table) = text.parse::<toml::Table>() {
        return table.get("toolchain")?.get("channel")?.as_str().map(str::to_owned);
    }
    let line = text.trim();
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    (!line.is_empty() && line.bytes().all(plain)).then(|| line.to_owned())
}

fn python(toolchain: &mut Toolchain, host: &HostEnv, tree: Option<&Path>) -> Result<bool, ToolchainError> {
    let mut found = false;
    let outside = |dir: &Path| tree.is_none_or(|tree| !dir.starts_with(tree));
    let venv = host.get("VIRTUAL_ENV").map(PathBuf::from);
    if let Some(venv) = venv.filter(|venv| venv.join("pyvenv.cfg").is_file() && outside(venv)) {
        found = true;
        toolchain.program(&venv.join("bin/python"));
        toolchain.set("VIRTUAL_ENV", venv);
    }
    let shims = which("python3", host, tree).or_else(|| which("python", host, tree));
    if let Some(file) = shims {
        found = true;
        match pyenv_root(&file, host) {
            Some(root) => {
                for name in pyenv_versions(&root, host, tree) {
                    let dir = pyenv_version(&root.join("versions"), &name)?;
                    toolchain.path_dirs.push(dir.join("bin"));
                    toolchain.readable.push(dir);
                }
            }
            None => toolchain.program(&file),
        }
    }
    toolchain.set("PYTHONDONTWRITEBYTECODE", "1");
    toolchain.set("PYTHONNOUSERSITE", "1");
    Ok(found)
}

/// pyenv's root, if the file is one of its shims.
fn pyenv_root(file: &Path, host: &HostEnv) -> Option<PathBuf> {
    let root =
        host.get("PYENV_ROOT").map(PathBuf::from).or_else(|| host.home().map(|home| home.join(".pyenv")))?;
    // A plugin has shims of its own.
    let shim = file.parent()?.ends_with("shims");
    (shim && (file.starts_with(&root)) && root.join("versions").is_dir()).then_some(root)
}

/// The versions that pyenv would choose, without the system's, which is there anyway.
fn pyenv_versions(root: &Path, host: &HostEnv, tree: Option<&Path>) -> Vec<String> {
    let from_env = host.get("PYENV_VERSION").and_then(OsStr::to_str).map(str::to_owned);
    let read = |file: PathBuf| std::fs::read_to_string(file).ok();
    let text = from_env
        .or_else(|| read(tree?.join(".python-version")))
        .or_else(|| read(root.join("version")))
        .unwrap_or_default();
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
    let names = lines.flat_map(|line| line.split(|c: char| c == ':' || c.is_whitespace()));
    names.filter(|name| !name.is_empty() && *name != "system").map(str::to_owned).collect()
}

/// The folder of a version; `3.12` means the newest 3.12.
fn pyenv_version(versions: &Path, name: &str) -> Result<PathBuf, ToolchainError> {
    let missing = || ToolchainError::PythonVersion { name: name.into(), dir: versions.into() };
    if name.contains('/') || name == ".." {
        return Err(missing());
    }
    let exact = versions.join(name);
    let dir = if exact.join("bin").is_dir() {
        exact
    } else {
        let number = |entry: &str| entry.strip_prefix(name)?.strip_prefix('.')?.parse::<u32>().ok();
        let entries = versions.read_dir().map_err(|_| missing())?.flatten();
        let newest =
            entries.filter_map(|entry| Some((number(entry.file_name().to_str()?)?, entry.path()))).max();
        newest.ok_or_else(missing)?.1
    };
    Ok(dir.canonicalize().unwrap_or(dir))
}

fn node(toolchain: &mut Toolchain, host: &HostEnv) -> bool {
    let Some(file) = which("node", host, None) else { return false };
    toolchain.program(&file);
    for name in ["npm_config_offline", "npm_config_fund", "npm_config_audit", "npm_config_update_notifier"] {
        toolchain.set(name, if name.ends_with("offline") { "true" } else { "false" });
    }
    let cache =
        host.get("npm_config_cache").map(PathBuf::from).or_else(|| host.home().map(|home| home.join(".npm")));
    if let Some(cache) = cache.map(|cache| cache.join("_cacache")) {
        toolchain.readable.push(cache.clone());
        toolchain.home_links.push(HomeLink { link: ".npm/_cacache".into(), target: cache });
    }
    true
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn argv(words: &[&str]) -> Vec<OsString> {
        words.iter().map(OsString::from).collect()
    }

    #[test]
    fn presets_follow_the_program_and_the_tree() {
        let none: [&str; 0] = [];
        assert_eq!(detect(&argv(&["cargo", "test"]), none), [Preset::Cargo]);
        assert_eq!(detect(&argv(&["/usr/bin/python3.11", "-m", "unittest"]), none), [Preset::Python]);
        assert_eq!(detect(&argv(&["pythonic"]), none), []);
        assert_eq!(detect(&argv(&["npx", "jest"]), none), [Preset::Node]);
        let tree = ["Cargo.toml", "src/main.rs", "sub/package.json", "x.py", "sub/y.py"];
        assert_eq!(detect(&argv(&["sh", "-c", "make"]), tree), [Preset::Cargo, Preset::Python]);
        assert_eq!(detect(&[], ["package.json", ".py"]), [Preset::Node]);
    }

    fn program(file: &Path) {
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, "#!/bin/sh\n").unwrap();
        std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn host(pairs: &[(&str, &Path)]) -> HostEnv {
        pairs.iter().map(|(name, value)| (OsString::from(name), value.as_os_str().to_owned())).collect()
    }

    #[test]
    fn rustup_proxies_are_replaced_by_what_they_would_run() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().canonicalize().unwrap();
        let (bin, rustup) = (home.join(".cargo/bin"), home.join(".rustup"));
        program(&bin.join("rustup"));
        symlink("rustup", bin.join("cargo")).unwrap();
        for name in ["stable-x86_64-test", "1.80.1-x86_64-test"] {
            program(&rustup.join("toolchains").join(name).join("bin/cargo"));
        }
        let host = host(&[("HOME", &home), ("PATH", &bin)]);
        let error = resolve(&[Preset::Cargo], &host, None).unwrap_err();
        assert!(matches!(error, ToolchainError::NoRustToolchain { .. }));
        std::fs::write(rustup.join("settings.toml"), "default_toolchain = \"stable-x86_64-test\"\n").unwrap();
        let got = resolve(&[Preset::Cargo], &host, None).unwrap();
        let stable = rustup.join("toolchains/stable-x86_64-test");
        assert_eq!(got.path_dirs, [stable.join("bin"), bin]);
        assert!(got.readable.contains(&stable));
        assert!(got.env.contains(&("CARGO_NET_OFFLINE".into(), "true".into())));
        assert!(!got.readable.iter().any(|path| home.join(".cargo/credentials.toml").starts_with(path)));

        let tree = home.join("tree");
        std::fs::create_dir(&tree).unwrap();
        std::fs::write(tree.join("rust-toolchain.toml"), "[toolchain]\nchannel = \"1.80\"\n").unwrap();
        let got = resolve(&[Preset::Cargo], &host, Some(&tree)).unwrap();
        assert_eq!(got.path_dirs[0], rustup.join("toolchains/1.80.1-x86_64-test/bin"));
        std::fs::write(tree.join("rust-toolchain"), "../../evil\n").unwrap();
        let got = resolve(&[Preset::Cargo], &host, Some(&tree)).unwrap();
        assert_eq!(got.path_dirs[0], stable.join("bin"));
        std::fs::write(tree.join("rust-toolchain"), "nightly-2020-01-01\n").unwrap();
        let error = resolve(&[Preset::Cargo], &host, Some(&tree)).unwrap_err();
        assert!(error.to_string().contains("nightly-2020-01-01 is not installed"), "{error}");
    }

    #[test]
    fn pyenv_shims_are_replaced_by_their_version() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().canonicalize().unwrap();
        let root = home.join(".pyenv");
        for file in ["shims/python3", "versions/3.9.2/bin/python3", "versions/3.9.18/bin/python3"] {
            program(&root.join(file));
        }
        let host = host(&[("HOME", &home), ("PATH", &root.join("shims"))]);
        std::fs::write(root.join("version"), "3.9 # newest\nsystem\n").unwrap();
        let got = resolve(&[Preset::Python], &host, None).unwrap();
        assert_eq!(got.path_dirs, [root.join("versions/3.9.18/bin")]);
        assert_eq!(got.readable, [root.join("versions/3.9.18")]);
        std::fs::write(root.join("version"), "3.9.2:2.7").unwrap();
        let error = resolve(&[Preset::Python], &host, None).unwrap_err();
        assert_eq!(error, ToolchainError::PythonVersion { name: "2.7".into(), dir: root.join("versions") });
    }

    #[test]
    fn field_report_1_30_a_virtual_environment_inside_the_worktree_does_not_count() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().canonicalize().unwrap();
        let tree = home.join("tree");
        for venv in [tree.join(".venv"), home.join("venv")] {
            program(&venv.join("bin/python"));
            std::fs::write(venv.join("pyvenv.cfg"), "").unwrap();
            let host = host(&[("HOME", &home), ("VIRTUAL_ENV", &venv)]);
            let got = resolve(&[Preset::Python], &host, Some(&tree)).unwrap();
            let outside = !venv.starts_with(&tree);
            assert_eq!(got.path_dirs == [venv.join("bin")], outside);
            assert_eq!(got.readable == [venv], outside);
            assert_eq!(got.missing.is_empty(), outside);
        }
    }

    #[test]
    fn a_program_in_the_home_folder_does_not_grant_the_home_folder() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().canonicalize().unwrap();
        program(&home.join("bin/node"));
        std::fs::create_dir_all(home.join("lib")).unwrap();
        std::fs::create_dir_all(home.join(".ssh")).unwrap();
        program(&home.join("node-20/bin/node"));
        std::fs::create_dir_all(home.join("node-20/lib")).unwrap();
        for (bin, granted) in [("bin", "bin"), ("node-20/bin", "node-20")] {
            let host = host(&[("HOME", &home), ("PATH", &home.join(bin))]);
            let got = resolve(&[Preset::Node], &host, None).unwrap();
            assert_eq!(got.readable, [home.join(".npm/_cacache"), home.join(granted)]);
            assert_eq!(got.path_dirs, [home.join(bin)]);
        }
        assert_eq!(resolve(&[Preset::Node], &HostEnv::default(), None).unwrap().missing, [Preset::Node]);
    }

    proptest! {
        #[test]
        fn any_toolchain_file_is_read_without_panic(text in ".{0,200}") {
            if let Some(channel) = rust_channel(&text) {
                prop_assert!(text.contains(&channel) || text.contains('\\'));
            }
        }
    }
}
