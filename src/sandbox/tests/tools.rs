//! Real tools, as a check runs them.

use super::*;

/// Runs a command as a check would be run, with presets and a fresh home.
fn check(bench: &mut Bench, argv: &[&str], more: &[(&str, &Path)]) -> Outcome {
    let host = environment::HostEnv::current();
    let argv: Vec<OsString> = argv.iter().map(OsString::from).collect();
    let entries = bench.work().read_dir().unwrap().flatten();
    let names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    let presets = toolchain::detect(&argv, names.iter().map(String::as_str));
    let tools = toolchain::resolve(&presets, &host, Some(&bench.work())).unwrap();
    assert_eq!(tools.missing, []);
    let scratch = tempfile::tempdir_in(bench.dir.path()).unwrap();
    let home = environment::fresh_home(&scratch.path().join("s")).unwrap();
    environment::link_home(&home, &tools).unwrap();
    let request = environment::Request {
        home: &home,
        toolchain: &tools,
        worktree: &bench.work(),
        system_dirs: &shell::trusted_dirs(),
        pass: &[],
        host: &host,
    };
    let mut command = Command::new(argv, bench.work());
    command.env = environment::check_env(&request, 0).unwrap().vars;
    command.env.extend(more.iter().map(|(name, value)| (OsString::from(name), value.as_os_str().to_owned())));
    bench.policy.readable = tools.readable;
    bench.policy.writable = vec![bench.work(), scratch.path().to_path_buf()];
    bench.policy.writable.extend(more.iter().map(|(_, value)| value.to_path_buf()));
    bench.run(&command)
}

fn text(outcome: &Outcome) -> String {
    let streams =
        [&outcome.stdout, &outcome.stderr].map(|stream| String::from_utf8(stream.evidence()).unwrap());
    format!("{}\n{}", streams[0], streams[1])
}

#[test]
fn a_real_cargo_test_runs_offline_and_keeps_a_warm_target() {
    let cached = std::env::var_os("HOME").map(|home| Path::new(&home).join(".cargo/registry/src"));
    if !cached.is_some_and(|dir| dir.is_dir()) {
        return;
    }
    for mut bench in Bench::isolated(Network::None) {
        let work = bench.work();
        std::fs::create_dir(work.join("src")).unwrap();
        let manifest = "[package]\nname = \"small\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[dependencies]\nitoa = \"1\"\n";
        std::fs::write(work.join("Cargo.toml"), manifest).unwrap();
        let code = "#[test]\nfn three() { assert_eq!(itoa::Buffer::new().format(3), \"3\"); }\n\
                    #[test]\nfn home() { assert!(std::fs::read_dir(env!(\"CARGO_HOME\")).map_or(true, |d| d.flatten().all(|e| e.file_name() != \"credentials.toml\"))); }\n";
        std::fs::write(work.join("src/lib.rs"), code).unwrap();
        let target = tempfile::tempdir_in(bench.dir.path()).unwrap();
        let argv = ["cargo", "test", "--offline"];
        let first = check(&mut bench, &argv, &[("CARGO_TARGET_DIR", target.path())]);
        assert_eq!(first.exit, Exit::Code(0), "{bench}: {}", text(&first));
        assert!(text(&first).contains("test three ... ok"));
        assert!(text(&first).contains("Compiling itoa"));
        let second = check(&mut bench, &argv, &[("CARGO_TARGET_DIR", target.path())]);
        assert_eq!(second.exit, Exit::Code(0), "{bench}: {}", text(&second));
        assert!(!text(&second).contains("Compiling"), "{}", text(&second));
    }
}

#[test]
fn a_real_python_unittest_runs_and_leaves_no_bytecode() {
    for mut bench in Bench::isolated(Network::None) {
        let code = "
import sys, unittest, unittest.mock, site
class T(unittest.TestCase):
    def test_home(self):
        self.assertFalse(site.ENABLE_USER_SITE)
        import helper; self.assertEqual(helper.x, 1)
";
        std::fs::write(bench.work().join("test_it.py"), code).unwrap();
        std::fs::write(bench.work().join("helper.py"), "x = 1\n").unwrap();
        let outcome = check(&mut bench, &["python3", "-m", "unittest", "-v"], &[]);
        assert_eq!(outcome.exit, Exit::Code(0), "{bench}: {}", text(&outcome));
        assert!(text(&outcome).contains("test_home"));
        assert!(!bench.work().join("__pycache__").exists());
    }
}

#[test]
fn a_real_node_runs_if_there_is_one() {
    for mut bench in Bench::isolated(Network::None) {
        std::fs::write(bench.work().join("package.json"), "{}").unwrap();
        let tools =
            toolchain::resolve(&[toolchain::Preset::Node], &environment::HostEnv::current(), None).unwrap();
        if tools.missing.is_empty() {
            let code = "const {execFileSync} = require('child_process'); console.log(execFileSync('npm', ['config', 'get', 'offline']).toString().trim())";
            let outcome = check(&mut bench, &["node", "-e", code], &[]);
            assert_eq!(outcome.stdout.whole.as_deref(), Some(&b"true\n"[..]), "{bench}: {}", text(&outcome));
        }
    }
}

#[test]
fn git_finds_no_repository_around_a_check() {
    for mut bench in Bench::isolated(Network::None) {
        let init = std::process::Command::new("git").args(["init", "-q"]).arg(bench.dir.path()).status();
        assert!(init.unwrap().success());
        let outcome = check(&mut bench, &["git", "rev-parse", "--show-toplevel"], &[]);
        assert_eq!(outcome.exit, Exit::Code(128), "{bench}: {}", text(&outcome));
        assert!(text(&outcome).contains("not a git repository"), "{}", text(&outcome));
    }
}
