//! How commands start, run and end.

use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use super::*;

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
        // Bubblewrap gives what is no program to a shell.
        let garbage = if bench.policy.adapter == Adapter::Bwrap { "./gone" } else { "./garbage" };
        std::fs::write(bench.work().join("gone"), "#!/no/such/interpreter\n").unwrap();
        std::fs::set_permissions(bench.work().join("gone"), std::fs::Permissions::from_mode(0o755)).unwrap();
        let error = bench.try_run(&bench.command([garbage])).unwrap_err();
        let number = if garbage == "./gone" { libc::ENOENT } else { libc::ENOEXEC };
        assert!(
            matches!(&error, SandboxError::Exec { source, .. } if source.raw_os_error() == Some(number)),
            "{error:?}"
        );
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
        let got = String::from_utf8(bench.run(&command).stdout.whole.unwrap()).unwrap();
        // Bubblewrap sets one more.
        let got = got.replace(&format!("PWD={}\n", bench.work().display()), "");
        assert_eq!(got, "A=1\nB=two words\nand a line\n", "{bench}");
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

/// What a script comes to that says "ready" in a file and then runs into its time-out. On a loaded machine a shell may take long to get there.
fn timed_out(bench: &Bench, before: &str, after: &str) -> Outcome {
    let ready = bench.work().join("ready");
    let mut command = bench.sh(&format!("{before} : > ready; {after}"));
    for timeout in [Duration::from_millis(200), Duration::from_secs(5), Duration::from_secs(60)] {
        command.timeout = timeout;
        let began = Instant::now();
        let outcome = bench.run(&command);
        assert!(began.elapsed() >= timeout, "{bench}: {after}");
        assert_eq!(outcome.ended, Ended::TimedOut, "{bench}: {after}");
        if std::fs::remove_file(&ready).is_ok() {
            return outcome;
        }
    }
    panic!("{bench}: not ready within a minute: {before}");
}

#[test]
fn field_report_1_20_a_hang_ends_at_its_time_out() {
    for bench in Bench::all(Network::Host) {
        for (before, after, signal) in [
            ("", "sleep 1201", libc::SIGTERM),
            // Neither a deaf process nor a stopped one is waited for.
            ("trap '' TERM;", "while :; do sleep 1202; done", libc::SIGKILL),
            ("", "kill -STOP $$", libc::SIGTERM),
        ] {
            let outcome = timed_out(&bench, before, after);
            assert_eq!(outcome.exit, Exit::Signal(signal), "{bench}: {after}");
            assert!(!sleeps("1201") && !sleeps("1202"));
        }
    }
}

#[test]
fn a_polite_command_may_clear_up_at_its_time_out() {
    for bench in Bench::all(Network::Host) {
        let outcome = timed_out(&bench, "trap 'echo bye; exit 9' TERM;", "sleep 1203 & wait");
        assert_eq!(outcome.exit, Exit::Code(9), "{bench}");
        assert_eq!(outcome.stdout.whole.unwrap(), b"bye\n");
        assert!(!sleeps("1203"));
    }
}

#[test]
fn field_report_2_93_children_that_hold_the_pipes_do_not_hold_us() {
    for bench in Bench::all(Network::Host) {
        let outcome = bench.run(&bench.sh("sleep 1204 & echo hi"));
        assert_eq!(outcome.stdout.whole.unwrap(), b"hi\n");
        assert_eq!(
            (outcome.exit, outcome.ended, outcome.survivors),
            (Exit::Code(0), Ended::Itself, 1),
            "{bench}"
        );
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
            assert!(!sleeps("1205"), "{bench}: {script}");
        }
        assert!(!late.exists());
        // The same when it does not end by itself.
        timed_out(&bench, "setsid sh -c 'trap \"\" TERM; sleep 1206' &", "sleep 1206");
        assert!(!sleeps("1206"));
    }
}

#[test]
fn what_finishes_by_itself_may() {
    for bench in Bench::all(Network::Host) {
        // Not in time on a loaded machine, now and then.
        let seen = (0..50).any(|_| {
            let outcome = bench.run(&bench.sh("(sleep 0.05; echo late) & echo early"));
            outcome.stdout.whole.unwrap() == b"early\nlate\n" && outcome.survivors == 0
        });
        assert!(seen, "{bench}");
    }
}

#[test]
fn a_modest_fork_bomb_is_cleared_up() {
    for bench in Bench::all(Network::Host) {
        // 3^5 processes, each in a session of its own, most orphaned.
        let script = "mkdir -p leaf; f() { [ $1 -le 0 ] && { : > leaf/$$; exec sleep 1207; }; for i in 1 2 3; do ( setsid bash -c \"$(declare -f f); f $(($1 - 1))\" & ) ; done; }; f 5; until [ $(ls leaf | wc -l) -gt 50 ]; do sleep 0.05; done";
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
fn an_interruption_ends_the_deaf() {
    for bench in Bench::all(Network::Host) {
        let stop = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&stop);
        let ready = bench.work().join("ready");
        let trigger = std::thread::spawn(move || {
            while !ready.exists() {
                std::thread::sleep(Duration::from_millis(10));
            }
            flag.store(true, Ordering::SeqCst);
        });
        let script = "trap '' TERM INT; setsid sleep 1208 & : > ready; sleep 1208";
        let outcome = bench.run_until(&bench.sh(script), &stop).unwrap();
        assert_eq!(outcome.ended, Ended::Interrupted);
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
        let mut command = bench.sh("head -c 600000000 /dev/zero; echo end");
        command.keep_whole = 1 << 20;
        let before = peak();
        let outcome = bench.run(&command);
        assert_eq!(outcome.stdout.total, 600_000_004);
        assert_eq!(outcome.stdout.whole, None);
        assert!(outcome.stdout.tail.ends_with(b"\0end\n"));
        assert_eq!((outcome.stdout.head.len(), outcome.stdout.tail.len()), (65_536, 65_536));
        // Other tests run in this process at the same time.
        assert!(peak() - before < 300_000, "{} KiB more", peak() - before);
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
    let error =
        bench.try_run(&bench.sh("setsid sleep 1210 & sleep 0.1; kill -9 $PPID; sleep 1210")).unwrap_err();
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
    let wait_for = |there: bool| {
        (0..500).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            sleeps("1211") == there
        })
    };
    for (number, bench) in Bench::all(Network::None).iter().enumerate() {
        let mut runner = std::process::Command::new(std::env::current_exe().unwrap());
        runner.args(["--exact", "--ignored", "sandbox::tests::process::a_runner_to_be_killed"]);
        let quiet = runner
            .env("GIT_LOOP_TEST_BENCH", number.to_string())
            .env("GIT_LOOP_TEST_TAG", tag())
            .stdout(std::process::Stdio::null());
        let mut runner = quiet.spawn().unwrap();
        assert!(wait_for(true), "{bench}");
        runner.kill().unwrap();
        runner.wait().unwrap();
        assert!(wait_for(false), "{bench}");
    }
}
