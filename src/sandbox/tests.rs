//! Real processes under every combination of layers that this machine has.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use super::process::{Layers, run_layers};
use super::*;

const NEVER: AtomicBool = AtomicBool::new(false);

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
        let policy =
            Policy { adapter, network, writable: vec![dir.path().join("work")], readable: Vec::new() };
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
                    if abi <= landlock::abi() && (!namespaces || bench.try_run(&bench.command(["true"])).is_ok()) {
                        all.push(bench);
                    }
                }
            }
        }
        all
    }

    fn isolated(network: Network) -> Vec<Self> {
        Self::all(network).into_iter().filter(|bench| bench.policy.adapter == Adapter::Landlock).collect()
    }

    fn work(&self) -> PathBuf {
        self.dir.path().join("work")
    }

    fn command<const N: usize>(&self, argv: [&str; N]) -> Command {
        let mut command = Command::new(argv, self.work());
        command.env = vec![("PATH".into(), "/usr/bin:/bin:/usr/sbin:/sbin".into())];
        command.timeout = Duration::from_secs(20);
        command
    }

    fn sh(&self, script: &str) -> Command {
        self.command(["bash", "-c", script])
    }

    fn try_run(&self, command: &Command) -> Result<Outcome, SandboxError> {
        self.run_until(command, &NEVER)
    }

    fn run_until(&self, command: &Command, interrupt: &AtomicBool) -> Result<Outcome, SandboxError> {
        let (adapter, network) = (self.policy.adapter, self.policy.network);
        let layers = Layers { adapter, namespaces: self.namespaces, network, abi: self.abi };
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

/// Whether a process with this argument lives; the argument is a number of seconds that nobody else sleeps.
fn sleeps(seconds: &str) -> bool {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let mut lines = entries.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines.any(|line| line.starts_with(b"sleep\0") && line.ends_with(format!("\0{seconds}\0").as_bytes()))
}

#[test]
fn exit_codes_and_signals() {
    for bench in Bench::all(Network::Host) {
        let exit = |script: &str| bench.run(&bench.sh(script)).exit;
        assert_eq!(exit("exit 0"), Exit::Code(0), "{bench}");
        assert_eq!(exit("exit 7"), Exit::Code(7));
        assert_eq!(exit("exit 127"), Exit::Code(127));
        assert_eq!(exit("kill -SEGV $$"), Exit::Signal(libc::SIGSEGV));
        assert_eq!(exit("kill -TERM $$").shell_code(), 143);
        let outcome = bench.run(&bench.sh("echo out; echo err >&2"));
        assert_eq!(outcome.stdout.whole.unwrap(), b"out\n");
        assert_eq!(outcome.stderr.whole.unwrap(), b"err\n");
        assert_eq!((outcome.ended, outcome.survivors), (Ended::Itself, 0));
    }
}

#[test]
fn merged_streams_keep_their_order() {
    for bench in Bench::all(Network::Host) {
        let mut command = bench.sh("for i in 1 2 3; do echo out$i; echo err$i >&2; done");
        command.merge_streams = true;
        let outcome = bench.run(&command);
        assert_eq!(outcome.stdout.whole.unwrap(), b"out1\nerr1\nout2\nerr2\nout3\nerr3\n");
        assert_eq!(outcome.stderr, Captured::empty());
    }
}

#[test]
fn a_missing_program_is_not_exit_code_127() {
    for bench in Bench::all(Network::Host) {
        let error = bench.try_run(&bench.command(["no-such-program-here"])).unwrap_err();
        assert!(matches!(&error, SandboxError::ProgramNotFound { program, path }
            if program == "no-such-program-here" && path == "/usr/bin:/bin:/usr/sbin:/sbin"));
        let error = bench.try_run(&bench.command(["./none"])).unwrap_err();
        assert!(matches!(error, SandboxError::ProgramNotFound { path, .. }
            if Path::new(&path) == bench.work().join("./none")));
        std::fs::write(bench.work().join("garbage"), [0, 1, 2]).unwrap();
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(bench.work().join("garbage"), mode).unwrap();
        let error = bench.try_run(&bench.command(["./garbage"])).unwrap_err();
        assert!(matches!(&error, SandboxError::Exec { source, .. } if source.raw_os_error() == Some(libc::ENOEXEC)));
        let told = crate::error::Error::from(error);
        assert_eq!(told.kind(), crate::error::Kind::Workspace);
        let mut command = bench.command(["true"]);
        command.cwd = bench.dir.path().join("nowhere");
        assert!(matches!(bench.try_run(&command), Err(SandboxError::Cwd { .. })));
        let error = bench.try_run(&bench.command(["echo", "a\0b"])).unwrap_err();
        assert_eq!(error.to_string(), "argument 1 of the command contains a NUL byte");
        assert!(matches!(bench.try_run(&bench.command([])), Err(SandboxError::EmptyCommand)));
    }
}

#[test]
fn the_environment_is_exactly_what_was_given() {
    for bench in Bench::all(Network::Host) {
        let mut command = bench.command(["/usr/bin/env"]);
        command.env = vec![("A".into(), "1".into()), ("B".into(), "two words\nand a line".into())];
        assert_eq!(bench.run(&command).stdout.whole.unwrap(), b"A=1\nB=two words\nand a line\n");
        let argument = r#""; touch x #$(id) `id` 'quoted'"#;
        let outcome = bench.run(&bench.command(["printf", "%s", argument]));
        assert_eq!(outcome.stdout.whole.unwrap(), argument.as_bytes());
    }
}

#[test]
fn no_descriptor_no_terminal_no_signal_setting_leaks() {
    // Without close-on-exec on purpose.
    // SAFETY: duplicates an open descriptor; the copy is closed below.
    let leak = unsafe { libc::dup(2) };
    for bench in Bench::all(Network::Host) {
        assert_eq!(bench.out("ls -1 /proc/$$/fd; :").lines().collect::<Vec<_>>(), ["0", "1", "2"], "{bench}");
        let status = bench.out("grep -E '^Sig(Blk|Ign)' /proc/self/status");
        assert_eq!(status, "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n");
        assert_eq!(bench.out("umask"), "0022\n");
        assert_eq!(bench.out("( : < /dev/tty ) 2>/dev/null || echo no terminal"), "no terminal\n");
        // bash is the leader of a session of its own.
        let session = bench.out("cut -d' ' -f6 /proc/self/stat; echo $$");
        assert_eq!(session.lines().next(), session.lines().last());
    }
    // SAFETY: opened above.
    unsafe { libc::close(leak) };
}

#[test]
fn input_of_any_size_read_or_not() {
    for bench in Bench::all(Network::Host) {
        let big = vec![b'x'; 3 << 20];
        let feed = |script: &str, stdin: &[u8]| {
            let mut command = bench.sh(script);
            command.stdin = stdin.to_vec();
            bench.run(&command)
        };
        assert_eq!(feed("wc -c", &big).stdout.whole.unwrap(), b"3145728\n");
        assert_eq!(feed("cat", &big).stdout.whole.unwrap(), big);
        assert_eq!(feed("exit 3", &big).exit, Exit::Code(3));
        assert_eq!(feed("exec <&-; sleep 0.1; exit 4", &big).exit, Exit::Code(4));
        assert_eq!(feed("head -c1 >/dev/null; exit 5", &big).exit, Exit::Code(5));
        assert_eq!(feed("wc -c", b"").stdout.whole.unwrap(), b"0\n");
    }
}

#[test]
fn field_report_1_20_a_hang_ends_at_its_time_out() {
    for bench in Bench::all(Network::Host) {
        for (script, hard) in [
            ("sleep 1201", false),
            // Neither a deaf process nor a stopped one is waited for.
            ("trap '' TERM; while :; do sleep 1202; done", true),
            ("kill -STOP $$", false),
        ] {
            let mut command = bench.sh(script);
            command.timeout = Duration::from_millis(200);
            let began = Instant::now();
            let outcome = bench.run(&command);
            let took = began.elapsed();
            assert_eq!(outcome.ended, Ended::TimedOut, "{bench}: {script}");
            assert!(matches!(outcome.exit, Exit::Signal(_)), "{:?}", outcome.exit);
            assert!(took >= Duration::from_millis(200) && took < Duration::from_secs(4), "{took:?}");
            assert_eq!(took > TERM_GRACE, hard, "{bench}: {script}: {took:?}");
            assert!(!sleeps("1201") && !sleeps("1202"));
        }
    }
}

#[test]
fn a_polite_command_may_clear_up_at_its_time_out() {
    for bench in Bench::all(Network::Host) {
        let mut command = bench.sh("trap 'echo bye; exit 9' TERM; sleep 1203 & wait");
        command.timeout = Duration::from_millis(200);
        let outcome = bench.run(&command);
        assert_eq!((outcome.exit, outcome.ended), (Exit::Code(9), Ended::TimedOut));
        assert_eq!(outcome.stdout.whole.unwrap(), b"bye\n");
        assert!(!sleeps("1203"));
    }
}

#[test]
fn field_report_2_93_children_that_hold_the_pipes_do_not_hold_us() {
    for bench in Bench::all(Network::Host) {
        let began = Instant::now();
        let outcome = bench.run(&bench.sh("sleep 1204 & echo hi"));
        assert_eq!(outcome.stdout.whole.unwrap(), b"hi\n");
        assert_eq!((outcome.exit, outcome.ended, outcome.survivors), (Exit::Code(0), Ended::Itself, 1), "{bench}");
        assert!(began.elapsed() < Duration::from_secs(2));
        assert!(!sleeps("1204"));
    }
}

#[test]
fn field_reports_1_62_and_2_94_nothing_stays_whatever_it_left() {
    for bench in Bench::all(Network::Host) {
        let late = bench.work().join("late");
        for script in [
            "setsid sh -c 'sleep 1205; touch late' & exit 0",
            "(setsid sh -c '(trap \"\" TERM HUP; sleep 1205; touch late) &' &) ; exit 0",
            "(while :; do :; done) & exit 0",
            "setsid sh -c 'kill -STOP $$; touch late' & sleep 0.1",
            "nohup setsid sh -c 'exec >/dev/null 2>&1 </dev/null; sleep 1205' & exit 0",
        ] {
            let outcome = bench.run(&bench.sh(script));
            assert_eq!(outcome.exit, Exit::Code(0), "{bench}: {script}");
            assert!(outcome.survivors >= 1, "{bench}: {script}");
            assert!(outcome.duration < Duration::from_secs(2));
            assert!(!sleeps("1205"), "{bench}: {script}");
        }
        assert!(!late.exists());
        // The same when it does not end by itself.
        let mut command = bench.sh("setsid sh -c 'trap \"\" TERM; sleep 1206' & sleep 1206");
        command.timeout = Duration::from_millis(100);
        assert_eq!(bench.run(&command).ended, Ended::TimedOut);
        assert!(!sleeps("1206"));
    }
}

#[test]
fn what_finishes_by_itself_may() {
    for bench in Bench::all(Network::Host) {
        let outcome = bench.run(&bench.sh("(sleep 0.05; echo late) & echo early"));
        assert_eq!(outcome.stdout.whole.unwrap(), b"early\nlate\n");
        assert_eq!(outcome.survivors, 0);
    }
}

#[test]
fn a_modest_fork_bomb_is_cleared_up() {
    for bench in Bench::all(Network::Host) {
        // 3^5 processes, each in a session of its own, most orphaned.
        let script = "f() { [ $1 -le 0 ] && exec sleep 1207; for i in 1 2 3; do ( setsid bash -c \"$(declare -f f); f $(($1 - 1))\" & ) ; done; }; f 5; sleep 0.5";
        let outcome = bench.run(&bench.sh(script));
        assert_eq!(outcome.exit, Exit::Code(0));
        assert!(outcome.survivors > 50, "{bench}: {}", outcome.survivors);
        assert!(!sleeps("1207"));
        // A chain: each link starts the next and goes.
        let script = "f() { ( f & ) ; }; f; exit 0";
        let outcome = bench.run(&bench.sh(script));
        assert_eq!(outcome.exit, Exit::Code(0), "{bench}");
    }
}

#[test]
fn an_interruption_is_quick() {
    for bench in Bench::all(Network::Host) {
        let stop = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&stop);
        let trigger = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(150));
            flag.store(true, Ordering::SeqCst);
        });
        let began = Instant::now();
        let outcome = bench.run_until(&bench.sh("trap '' TERM INT; setsid sleep 1208 & sleep 1208"), &stop).unwrap();
        assert_eq!(outcome.ended, Ended::Interrupted);
        assert!(began.elapsed() < Duration::from_secs(2));
        trigger.join().unwrap();
        assert!(!sleeps("1208"));
    }
}

/// Peak resident memory of this process in KiB.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    line.split_ascii_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn gigabytes_of_output_do_not_fill_memory() {
    for bench in Bench::all(Network::Host) {
        let mut command = bench.sh("head -c 300000000 /dev/zero; echo end");
        command.keep_whole = 1 << 20;
        let before = peak();
        let outcome = bench.run(&command);
        assert_eq!(outcome.stdout.total, 300_000_004);
        assert_eq!(outcome.stdout.whole, None);
        assert!(outcome.stdout.tail.ends_with(b"\0end\n"));
        assert_eq!((outcome.stdout.head.len(), outcome.stdout.tail.len()), (65_536, 65_536));
        // Other tests run in this process at the same time.
        assert!(peak() - before < 100_000, "{} KiB more", peak() - before);
    }
}

#[test]
fn too_much_output_ends_the_tree() {
    for bench in Bench::all(Network::Host) {
        for script in ["trap '' TERM PIPE; cat /dev/zero", "cat /dev/zero & exit 0", "yes >&2"] {
            let mut command = bench.sh(script);
            command.max_output = 1_000_000;
            command.keep_whole = 1000;
            let outcome = bench.run(&command);
            assert_eq!(outcome.ended, Ended::OutputLimit, "{bench}: {script}");
            assert!(outcome.stdout.total + outcome.stderr.total < 400_000_000);
        }
    }
}

#[test]
fn writes_outside_are_refused() {
    for network in [Network::None, Network::Host] {
        for bench in Bench::isolated(network) {
            let outside = bench.dir.path().join("outside");
            std::fs::write(&outside, "mine").unwrap();
            let path = outside.display();
            for script in [
                format!("echo x > {path}"),
                format!("cat {path}"),
                format!("rm {path}"),
                format!("mv {path} here"),
                format!("ln {path} here"),
                format!("touch {path}.new"),
                "touch /etc/x".into(),
                "touch /usr/x".into(),
                "echo x > /proc/sys/kernel/core_pattern".into(),
                "echo x > /sys/fs/cgroup/cgroup.procs".into(),
                "mkdir /x".into(),
                "mknod here c 1 3".into(),
                "mount -t tmpfs none .".into(),
                "unshare -Ur true".into(),
                "ls /root/".into(),
            ] {
                let outcome = bench.run(&bench.sh(&script));
                assert_ne!(outcome.exit, Exit::Code(0), "{bench}: {script}");
            }
            assert_eq!(std::fs::read(&outside).unwrap(), b"mine");
            if bench.namespaces {
                for script in [format!("chmod 777 {path}"), format!("stat {path}"), "touch -c /etc/passwd".into()] {
                    assert_ne!(bench.run(&bench.sh(&script)).exit, Exit::Code(0), "{bench}: {script}");
                }
                assert_eq!(bench.out("echo x > /tmp/x && cat /tmp/x && ls /tmp"), "x\nx\n");
            }
            assert_eq!(bench.out("echo x > a && mkdir -p d/e && mv a d/e && cat d/e/a"), "x\n", "{bench}");
            assert_eq!(std::fs::read(bench.work().join("d/e/a")).unwrap(), b"x\n");
            std::fs::remove_dir_all(bench.work().join("d")).unwrap();
        }
    }
}

#[test]
fn home_and_the_runner_are_out_of_reach() {
    let home = std::env::var_os("HOME").unwrap();
    for bench in Bench::isolated(Network::Host) {
        let runner = std::process::id();
        for script in [
            format!("ls {}/", home.display()),
            format!("cat /proc/{runner}/environ | grep -q PATH"),
            format!("ls /proc/{runner}/root/"),
            format!("kill -0 {runner}"),
            "cat /proc/$PPID/environ | grep -q PATH".into(),
        ] {
            let outcome = bench.run(&bench.sh(&script));
            assert_ne!(outcome.exit, Exit::Code(0), "{bench}: {script}");
        }
        if process::is_root() && Path::new("/etc/shadow").exists() {
            let read = bench.out("cat /etc/shadow >/dev/null 2>&1 && echo read; cat /etc/passwd >/dev/null && echo passwd");
            assert_eq!(read, "passwd\n", "{bench}");
        }
        // To the first process of a PID namespace this is no error, it is ignored.
        assert_eq!(bench.out("kill -9 $PPID 2>/dev/null; sleep 0.05; echo alive"), "alive\n", "{bench}");
        assert_eq!(bench.out("trap 'echo spared' EXIT; kill -15 -1 2>/dev/null; exit 0").lines().last(), Some("spared"));
    }
}

#[test]
fn readable_paths_are_readable_and_nothing_more() {
    for mut bench in Bench::isolated(Network::None) {
        let tool = bench.dir.path().join("tool dir/ünï");
        std::fs::create_dir_all(&tool).unwrap();
        std::fs::write(tool.join("run"), "#!/bin/sh\necho ran\n").unwrap();
        std::fs::set_permissions(tool.join("run"), std::fs::Permissions::from_mode(0o755)).unwrap();
        let alias = bench.dir.path().join("alias");
        std::os::unix::fs::symlink("tool dir", &alias).unwrap();
        let script = format!("'{0}/ünï/run' && ! touch '{0}/ünï/x' 2>/dev/null && ls '{0}/ünï'", alias.display());
        assert_ne!(bench.run(&bench.sh(&script)).exit, Exit::Code(0));
        bench.policy.readable = vec![alias, bench.dir.path().join("missing")];
        assert_eq!(bench.out(&script), "ran\nrun\n", "{bench}");
        bench.policy.readable = readable_arguments(&["x".into(), tool.join("run").into(), "/".into()]);
        assert_eq!(bench.policy.readable, [tool.join("run")]);
        assert_eq!(bench.out(&format!("'{0}/run'; ls '{0}' 2>/dev/null | wc -l", tool.display())).lines().next(), Some("ran"));
        bench.policy.writable.push(bench.dir.path().join("missing"));
        assert!(matches!(bench.try_run(&bench.command(["true"])), Err(SandboxError::Path { .. })));
    }
}

const CONNECT: &str = "
import socket, sys
server = socket.socket(socket.AF_INET); server.bind(('127.0.0.1', 0)); server.listen()
client = socket.create_connection(server.getsockname()); client.sendall(b'loop')
print(server.accept()[0].recv(4).decode())
";

#[test]
fn field_report_1_37_no_network_means_none() {
    let outside = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = outside.local_addr().unwrap().port();
    let python = |bench: &Bench, code: &str| bench.run(&bench.command(["/usr/bin/python3", "-c", code]));
    let connect = format!("import socket; socket.create_connection(('127.0.0.1', {port}), 2)");
    for bench in Bench::all(Network::None) {
        for code in [
            connect.clone(),
            "import socket; socket.create_connection(('1.1.1.1', 53), 2)".into(),
            "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('8.8.8.8', 53))".into(),
            "import socket; socket.socket(socket.AF_VSOCK)".into(),
            "import socket; socket.socket(socket.AF_PACKET, socket.SOCK_RAW)".into(),
        ] {
            assert_eq!(python(&bench, &code).exit, Exit::Code(1), "{bench}: {code}");
        }
        let dev_tcp = bench.run(&bench.sh(&format!("echo x > /dev/tcp/127.0.0.1/{port}")));
        assert_ne!(dev_tcp.exit, Exit::Code(0));
        // io_uring_setup has this number everywhere.
        let ring = "import ctypes; l = ctypes.CDLL(None, use_errno=True); r = l.syscall(425, 1, 0); print(r, ctypes.get_errno())";
        assert_eq!(python(&bench, ring).stdout.whole.unwrap(), b"-1 38\n");
        let pair = python(&bench, "import socket; a, b = socket.socketpair(); a.send(b'x'); print(b.recv(1))");
        assert_eq!(pair.exit, Exit::Code(0), "{bench}");
        let looped = python(&bench, CONNECT);
        match looped.enforced.network {
            NetworkEnforced::NoneNamespace => assert_eq!(looped.stdout.whole.unwrap(), b"loop\n"),
            NetworkEnforced::NoneSeccomp => assert_eq!(looped.exit, Exit::Code(1)),
            NetworkEnforced::Host => panic!("{bench}"),
        }
    }
    for bench in Bench::all(Network::Host) {
        let outcome = python(&bench, &connect);
        assert_eq!((outcome.exit, outcome.enforced.network), (Exit::Code(0), NetworkEnforced::Host), "{bench}");
    }
}

#[test]
fn field_report_1_70_sockets_of_the_host_are_out_of_reach() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("agent");
    let _agent = std::os::unix::net::UnixListener::bind(&file).unwrap();
    let name = format!("git-loop-test-{}", std::process::id());
    let address = <std::os::unix::net::SocketAddr as std::os::linux::net::SocketAddrExt>::from_abstract_name(&name);
    let address = address.unwrap();
    let _abstract = std::os::unix::net::UnixListener::bind_addr(&address).unwrap();
    for network in [Network::None, Network::Host] {
        for bench in Bench::isolated(network) {
            let connect = |address: &str| {
                let code = format!("import socket; socket.socket(socket.AF_UNIX).connect({address})");
                bench.run(&bench.command(["/usr/bin/python3", "-c", &code]))
            };
            assert_eq!(connect(&format!("'{}'", file.display())).exit, Exit::Code(1), "{bench}");
            assert_eq!(connect(&format!("b'\\0' + b'{name}'")).exit, Exit::Code(1), "{bench}");
            let own = "
import socket
server = socket.socket(socket.AF_UNIX); server.bind('own'); server.listen()
socket.socket(socket.AF_UNIX).connect('own')";
            let outcome = bench.run(&bench.command(["/usr/bin/python3", "-c", own]));
            let works = outcome.enforced.unix_sockets == UnixSockets::Private;
            assert_eq!(outcome.exit == Exit::Code(0), works, "{bench}");
        }
    }
}

#[test]
fn no_capability_is_left_and_none_comes_back() {
    for bench in Bench::isolated(Network::None) {
        let caps = bench.out("grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status");
        for line in caps.lines() {
            let (name, value) = line.split_once(":\t").unwrap();
            match name {
                "NoNewPrivs" => assert_eq!(value, "1"),
                "Seccomp" => assert_eq!(value, "2"),
                "CapBnd" if !process::is_root() && !bench.namespaces => {}
                _ => assert_eq!(value, "0000000000000000", "{bench}: {name}"),
            }
        }
        assert!(caps.lines().count() >= 6);
        let outcome = bench.run(&bench.sh("su -c id nobody || sudo -n id || chroot . true"));
        assert_ne!(outcome.exit, Exit::Code(0));
    }
}

#[test]
fn key_rings_and_shared_memory_are_no_channel() {
    for bench in Bench::isolated(Network::None) {
        let code = "
import ctypes, mmap
lib = ctypes.CDLL(None, use_errno=True)
print(lib.syscall(250, 0, -3, 1), lib.shmget(0x6c6f6f70, 4096, 0o1666) >= 0)";
        let command = bench.command(["/usr/bin/python3", "-c", code]);
        if cfg!(target_arch = "x86_64") {
            let want = if bench.namespaces { "-1 True\n" } else { "-1 False\n" };
            assert_eq!(bench.run(&command).stdout.whole.unwrap(), want.as_bytes(), "{bench}");
        }
    }
    let segments = std::fs::read_to_string("/proc/sysvipc/shm").unwrap_or_default();
    assert!(!segments.contains("1819242352"), "{segments}");
}

#[test]
fn multiprocessing_and_terminals_work_in_a_private_root() {
    for bench in Bench::isolated(Network::None).into_iter().filter(|bench| bench.namespaces) {
        let code = "
import multiprocessing, os, pty
lock = multiprocessing.Lock()
leader, follower = pty.openpty()
os.write(follower, b'tty'); print(os.read(leader, 3).decode(), os.getpid() < 10)
print(open('/proc/%d/comm' % os.getpid()).read().strip()[:6])";
        let outcome = bench.run(&bench.command(["/usr/bin/python3", "-c", code]));
        assert_eq!(String::from_utf8(outcome.stderr.whole.unwrap()).unwrap(), "");
        assert_eq!(outcome.stdout.whole.unwrap(), b"tty True\npython\n");
    }
}

#[test]
fn many_at_once_do_not_disturb_each_other() {
    std::thread::scope(|scope| {
        for thread in 0..4 {
            scope.spawn(move || {
                for bench in Bench::all(Network::None) {
                    for round in 0..5 {
                        let outcome = bench.run(&bench.sh(&format!("cat; sleep 1209 & exit {thread}")));
                        assert_eq!(outcome.exit, Exit::Code(thread), "{bench}: {round}");
                        assert_eq!(outcome.survivors, 1);
                    }
                }
            });
            scope.spawn(|| {
                for _ in 0..20 {
                    let status = std::process::Command::new("sleep").arg("0.02").status().unwrap();
                    assert!(status.success());
                }
            });
        }
    });
    assert!(!sleeps("1209"));
}

#[test]
fn without_namespaces_a_lost_supervisor_leaves_nobody() {
    // Only the adapter `none` lets a command reach it.
    let bench = Bench::new(Adapter::None, Network::Host, false);
    let error = bench.try_run(&bench.sh("setsid sleep 1210 & sleep 0.1; kill -9 $PPID; sleep 1210")).unwrap_err();
    assert!(matches!(error, SandboxError::SupervisorLost), "{error:?}");
    assert!(!sleeps("1210"));
}

/// Not a test: the runner of the next one, in a process of its own.
#[test]
#[ignore = "run by the next test"]
fn a_runner_to_be_killed() {
    if let Some(number) = std::env::var_os("GIT_LOOP_TEST_BENCH") {
        let number: usize = number.to_str().unwrap().parse().unwrap();
        let bench = Bench::all(Network::None).swap_remove(number);
        bench.run(&bench.sh("setsid sleep 1211 & trap '' TERM; sleep 1211"));
    }
}

#[test]
fn a_killed_runner_takes_the_tree_along() {
    let wait_for = |there: bool| (0..500).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        sleeps("1211") == there
    });
    for (number, bench) in Bench::all(Network::None).iter().enumerate() {
        let mut runner = std::process::Command::new(std::env::current_exe().unwrap());
        runner.args(["--exact", "--ignored", "sandbox::tests::a_runner_to_be_killed"]);
        let quiet = runner.env("GIT_LOOP_TEST_BENCH", number.to_string()).stdout(std::process::Stdio::null());
        let mut runner = quiet.spawn().unwrap();
        assert!(wait_for(true), "{bench}");
        runner.kill().unwrap();
        runner.wait().unwrap();
        assert!(wait_for(false), "{bench}");
    }
}

#[test]
fn what_was_enforced_is_a_receipt() {
    for bench in Bench::all(Network::None) {
        let enforced = bench.run(&bench.command(["true"])).enforced;
        let json = serde_json::to_string(&enforced).unwrap();
        assert_eq!(serde_json::from_str::<Enforcement>(&json).unwrap(), enforced);
        let keys: BTreeSet<String> =
            serde_json::from_str::<serde_json::Map<_, _>>(&json).unwrap().into_iter().map(|(key, _)| key).collect();
        assert_eq!(keys.len(), 8);
        if bench.namespaces {
            assert!(json.contains(r#""network":"none-namespace""#), "{json}");
            assert!(json.contains(r#""process_tree":"pid-namespace""#), "{json}");
        }
    }
}

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
    let streams = [&outcome.stdout, &outcome.stderr].map(|stream| String::from_utf8(stream.evidence()).unwrap());
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
        let tools = toolchain::resolve(&[toolchain::Preset::Node], &environment::HostEnv::current(), None).unwrap();
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

/// Numbers for the docs: `cargo test --lib sandbox::tests::overhead -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement"]
fn overhead() {
    // The least of many is what is left when the machine is busy with something else.
    let least = |work: &dyn Fn()| {
        let once = |()| {
            let began = Instant::now();
            work();
            began.elapsed()
        };
        std::iter::repeat_n((), 300).map(once).min().unwrap()
    };
    let spawn = || assert!(std::process::Command::new("/usr/bin/true").status().unwrap().success());
    for _ in 0..3 {
        eprintln!("spawn {:?}", least(&spawn));
        for bench in Bench::all(Network::Host).into_iter().chain(Bench::all(Network::None)) {
            let command = bench.command(["/usr/bin/true"]);
            eprintln!("{bench}: {:?}", least(&|| drop(bench.run(&command))));
        }
    }
}
