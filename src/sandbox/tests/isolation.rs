//! What a command cannot touch.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;

use super::super::process::is_root;
use super::*;

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
                "ls /root".into(),
            ] {
                let outcome = bench.run(&bench.sh(&script));
                assert_ne!(outcome.exit, Exit::Code(0), "{bench}: {script}");
            }
            assert_eq!(std::fs::read(&outside).unwrap(), b"mine");
            if bench.namespaces {
                for script in
                    [format!("chmod 777 {path}"), format!("stat {path}"), "touch -c /etc/passwd".into()]
                {
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
fn a_place_in_shared_memory_or_in_tmp_is_a_place_like_any_other() {
    for base in ["/dev/shm", "/tmp"] {
        if !Path::new(base).is_dir() {
            continue;
        }
        for bench in Bench::isolated(Network::Host) {
            let bench = Bench { dir: tempfile::tempdir_in(base).unwrap(), ..bench };
            let (work, beside) = (bench.dir.path().join("work"), bench.dir.path().join("beside"));
            std::fs::create_dir(&work).unwrap();
            std::fs::write(&beside, "mine").unwrap();
            let bench =
                Bench { policy: Policy { writable: vec![work.clone()], ..bench.policy.clone() }, ..bench };
            assert_eq!(bench.out("echo x > a && cat a"), "x\n", "{bench} in {base}");
            assert_eq!(std::fs::read(work.join("a")).unwrap(), b"x\n");
            let outcome = bench.run(&bench.sh(&format!("cat {}", beside.display())));
            assert_ne!(outcome.exit, Exit::Code(0), "{bench} in {base}");
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
            format!("ls -L /proc/{runner}/root"),
            format!("kill -0 {runner}"),
            "cat /proc/$PPID/environ | grep -q PATH".into(),
        ] {
            let outcome = bench.run(&bench.sh(&script));
            assert_ne!(outcome.exit, Exit::Code(0), "{bench}: {script}");
        }
        if is_root() && Path::new("/etc/shadow").exists() {
            let read = bench.out(
                "cat /etc/shadow >/dev/null 2>&1 && echo read; cat /etc/passwd >/dev/null && echo passwd",
            );
            assert_eq!(read, "passwd\n", "{bench}");
        }
        // To the first process of a PID namespace this is no error, it is ignored.
        assert_eq!(bench.out("kill -9 $PPID 2>/dev/null; sleep 0.05; echo alive"), "alive\n", "{bench}");
        assert_eq!(
            bench.out("trap 'echo spared' EXIT; kill -15 -1 2>/dev/null; exit 0").lines().last(),
            Some("spared")
        );
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
        let script =
            format!("'{0}/ünï/run' && ! touch '{0}/ünï/x' 2>/dev/null && ls '{0}/ünï'", alias.display());
        assert_ne!(bench.run(&bench.sh(&script)).exit, Exit::Code(0));
        bench.policy.readable = vec![alias, bench.dir.path().join("missing")];
        assert_eq!(bench.out(&script), "ran\nrun\n", "{bench}");
        bench.policy.readable = readable_arguments(&["x".into(), tool.join("run").into(), "/".into()]);
        assert_eq!(bench.policy.readable, [tool.join("run")]);
        assert_eq!(
            bench.out(&format!("'{0}/run'; ls '{0}' 2>/dev/null | wc -l", tool.display())).lines().next(),
            Some("ran")
        );
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
            "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('8.8.8.8', 53))"
                .into(),
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
        let pair =
            python(&bench, "import socket; a, b = socket.socketpair(); a.send(b'x'); print(b.recv(1))");
        assert_eq!(pair.exit, Exit::Code(0), "{bench}");
        let looped = python(&bench, CONNECT);
        match looped.enforced.network {
            NetworkEnforced::NoneNamespace => assert_eq!(looped.stdout.whole.unwrap(), b"loop\n"),
            NetworkEnforced::NoneSeccomp => assert_eq!(looped.exit, Exit::Code(1)),
            other => panic!("{bench}: {other:?}"),
        }
    }
    for bench in Bench::all(Network::Host) {
        let outcome = python(&bench, &connect);
        assert_eq!(
            (outcome.exit, outcome.enforced.network),
            (Exit::Code(0), NetworkEnforced::Host),
            "{bench}"
        );
    }
}

#[test]
fn field_report_1_70_sockets_of_the_host_are_out_of_reach() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("agent");
    let _agent = std::os::unix::net::UnixListener::bind(&file).unwrap();
    let name = format!("git-loop-test-{}", std::process::id());
    let address =
        <std::os::unix::net::SocketAddr as std::os::linux::net::SocketAddrExt>::from_abstract_name(&name);
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
                "CapBnd" if !is_root() && !bench.namespaces => {}
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
fn a_number_of_processors_is_what_a_command_sees() {
    for mut bench in Bench::all(Network::None) {
        let before = bench.run(&bench.command(["true"])).enforced;
        assert_eq!(before.cpus, None);
        bench.policy.cpus = Some(1);
        let outcome = bench.run(&bench.command(["nproc"]));
        assert_eq!(outcome.stdout.whole.unwrap(), b"1\n", "{}", bench.policy.adapter);
        assert_eq!(outcome.enforced.cpus, Some(1));
        bench.policy.cpus = Some(1 << 20);
        assert!(matches!(
            bench.try_run(&bench.command(["nproc"])),
            Err(SandboxError::AdapterUnavailable { why, .. }) if why.contains("check.cpus = 1048576")
        ));
    }
}

#[test]
fn what_was_enforced_is_a_receipt() {
    for bench in Bench::all(Network::None) {
        let enforced = bench.run(&bench.command(["true"])).enforced;
        let json = serde_json::to_string(&enforced).unwrap();
        assert_eq!(serde_json::from_str::<Enforcement>(&json).unwrap(), enforced);
        let keys: BTreeSet<String> = serde_json::from_str::<serde_json::Map<_, _>>(&json)
            .unwrap()
            .into_iter()
            .map(|(key, _)| key)
            .collect();
        assert_eq!(keys.len(), 8);
        if bench.namespaces {
            assert!(json.contains(r#""network":"none-namespace""#), "{json}");
            assert!(json.contains(r#""process_tree":"pid-namespace""#), "{json}");
        }
    }
}

#[test]
fn what_this_machine_gives_is_used_and_said() {
    if available(Adapter::Landlock).is_err() {
        return;
    }
    let bench = Bench::new(Adapter::Landlock, Network::None, false);
    let outcome = run(&bench.sh("echo ran"), &bench.policy, &NEVER).unwrap();
    assert_eq!(outcome.stdout.whole.unwrap(), b"ran\n");
    assert!(outcome.enforced.filesystem && outcome.enforced.capabilities_dropped);
    assert_ne!(outcome.enforced.network, NetworkEnforced::Host);
    println!("{}", serde_json::to_string(&outcome.enforced).unwrap());
}

#[test]
fn inside_of_a_sandbox_there_are_no_namespaces_and_the_rest_still_holds() {
    for mut bench in Bench::isolated(Network::None) {
        let tests = std::env::current_exe().unwrap();
        bench.policy.readable.push(tests.clone());
        // The tests make their folders here.
        bench.policy.writable.push("/var/tmp".into());
        let name = "sandbox::tests::isolation::what_this_machine_gives_is_used_and_said";
        let outcome = bench.run(&bench.command([tests.to_str().unwrap(), "--exact", "--nocapture", name]));
        let text = String::from_utf8(outcome.stdout.evidence()).unwrap();
        assert_eq!(outcome.exit, Exit::Code(0), "{bench}: {text}");
        assert!(text.contains(r#""private_root":false,"network":"none-seccomp""#), "{bench}: {text}");
    }
}

#[test]
fn limits_and_priorities_of_the_runner_cannot_be_set() {
    for bench in Bench::isolated(Network::None) {
        // Setting what is there already, so that a failure of this test does no harm. The parent is the supervisor.
        let script = format!(
            "for pid in $PPID {runner}; do [ -e /proc/$pid ] || continue\n\
             prlimit --pid $pid --core=0:0 2>/dev/null && echo limit $pid\n\
             renice -n 0 -p $pid >/dev/null 2>&1 && echo nice $pid\n\
             taskset -p -c 0-1023 $pid >/dev/null 2>&1 && echo cpus $pid; done\n\
             ulimit -S -n 64 && prlimit --nofile=32 sh -c 'ulimit -n' && nice -n 1 true && taskset -c 0-1023 true && echo own",
            runner = if bench.namespaces { 1 } else { std::process::id() }
        );
        assert_eq!(bench.out(&script), "32\nown\n", "{bench}");
    }
}

#[test]
fn what_outlives_a_command_is_not_waited_for_once_told_to_stop() {
    for bench in Bench::all(Network::Host) {
        // What settles would have its time; whoever was told to stop gives it none.
        let interrupt = AtomicBool::new(false);
        let command = bench.sh(
            "setsid sh -c 'trap \"\" TERM; echo there; exec sleep 1235' & read -r line < /dev/null; exit 0",
        );
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(30));
                interrupt.store(true, std::sync::atomic::Ordering::SeqCst);
            });
            bench.run_until(&command, &interrupt).unwrap();
        });
        assert!(!sleeps("1235"), "{bench}");
    }
}
