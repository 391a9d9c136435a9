//! Real processes under every combination of layers that this machine has.

mod isolation;
mod process;
mod tools;

use super::process::{Layers, run_layers};
use super::*;

static NEVER: AtomicBool = AtomicBool::new(false);

struct Bench {
    dir: tempfile::TempDir,
    policy: Policy,
    namespaces: bool,
    abi: u32,
}

impl Bench {
    fn new(adapter: Adapter, network: Network, namespaces: bool) -> Self {
        // Not in /tmp, which a private root has of its own.
        let dir = tempfile::tempdir_in("/var/tmp").unwrap();
        std::fs::create_dir_all(dir.path().join("work")).unwrap();
        let policy = Policy { writable: vec![dir.path().join("work")], ..Policy::new(adapter, network) };
        Self { dir, policy, namespaces, abi: landlock::abi() }
    }

    /// One for each way a tree can be held.
    fn all(network: Network) -> Vec<Self> {
        let mut all = vec![Self::new(Adapter::None, network, false)];
        if available(Adapter::Landlock).is_ok() {
            // As this kernel, and as an older one.
            for (namespaces, older) in [(false, landlock::MIN_ABI_ALONE), (true, landlock::MIN_ABI)] {
                for abi in [landlock::abi(), older] {
                    let bench = Self { abi, ..Self::new(Adapter::Landlock, network, namespaces) };
                    if abi <= landlock::abi()
                        && (!namespaces || bench.try_run(&bench.command(["true"])).is_ok())
                    {
                        all.push(bench);
                    }
                }
            }
        }
        if has_bwrap() {
            all.push(Self::new(Adapter::Bwrap, network, true));
        }
        all
    }

    fn isolated(network: Network) -> Vec<Self> {
        Self::all(network).into_iter().filter(|bench| bench.policy.adapter != Adapter::None).collect()
    }

    fn work(&self) -> PathBuf {
        self.dir.path().join("work")
    }

    fn command<const N: usize>(&self, argv: [&str; N]) -> Command {
        let mut command = Command::new(argv, self.work());
        command.env = vec![("PATH".into(), "/usr/bin:/bin:/usr/sbin:/sbin".into())];
        command.timeout = Duration::from_secs(300);
        command
    }

    fn sh(&self, script: &str) -> Command {
        self.command(["bash", "-c", &script.replace("sleep 12", &format!("sleep {}12", tag()))])
    }

    fn try_run(&self, command: &Command) -> Result<Outcome, SandboxError> {
        self.run_until(command, &NEVER)
    }

    fn run_until(&self, command: &Command, interrupt: &AtomicBool) -> Result<Outcome, SandboxError> {
        let (adapter, network) = (self.policy.adapter, self.policy.network);
        let layers =
            Layers { adapter, namespaces: self.namespaces, network, abi: self.abi, cpus: self.policy.cpus };
        run_layers(command, &self.policy, interrupt, layers)
    }

    fn run(&self, command: &Command) -> Outcome {
        let outcome = self.try_run(command).unwrap_or_else(|error| panic!("{self}: {error:?}"));
        assert_eq!(outcome.enforced.private_root, self.namespaces);
        outcome
    }

    fn out(&self, script: &str) -> String {
        let outcome = self.run(&self.sh(script));
        let bytes = [outcome.stdout.whole.unwrap(), outcome.stderr.whole.unwrap()].concat();
        String::from_utf8(bytes).unwrap()
    }
}

impl fmt::Display for Bench {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { policy, namespaces, abi, .. } = self;
        write!(f, "{}, {:?}, namespaces: {namespaces}, ABI {abi}", policy.adapter, policy.network)
    }
}

/// Whether bubblewrap works here. Where everything is to be tested, it must.
fn has_bwrap() -> bool {
    match available(Adapter::Bwrap) {
        Ok(()) => true,
        Err(why) => {
            assert!(std::env::var_os("GIT_LOOP_CI").is_none_or(|value| value != "1"), "bwrap: {why}");
            println!("without bwrap: {why}");
            false
        }
    }
}

/// What the long sleeps of this run of the tests have in front of their seconds, to be told from another run's on the same machine.
fn tag() -> String {
    std::env::var("GIT_LOOP_TEST_TAG").unwrap_or_else(|_| std::process::id().to_string())
}

/// Whether a process lives that a script of these tests started as `sleep` with this number.
fn sleeps(number: &str) -> bool {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let mut lines = entries.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    let wanted = format!("sleep\0{}{number}\0", tag());
    lines.any(|line| line == wanted.as_bytes())
}
