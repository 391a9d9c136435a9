//! What a worker that is root inside of its sandbox cannot do, under each adapter that isolates; lists of hosts, caps and time-outs
//! from the contract to the receipt.

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::TcpListener;

use serde_json::{Value, json};

use crate::second::both;
use crate::support::scenario::numbers;
use crate::support::{TestEnv, engine, tool};

/// One iteration under an adapter.
struct Attempt {
    env: TestEnv,
    code: i32,
    receipt: Value,
    /// What the worker printed.
    log: String,
}

/// The table of a contract that asks for an adapter. With an image the worker's script lies in a folder that is granted.
fn terms(env: &mut TestEnv, adapter: &str) -> String {
    let mut terms = format!("\n[sandbox]\nallowed = [\"{adapter}\"]\n");
    if adapter == "podman" {
        let image = engine::podman(env).expect("it was asked for before");
        let scripts = env.root().join("scripts");
        let _ = writeln!(terms, "image = \"{image}\"\nread_only = [\"{}\"]", scripts.display());
    }
    terms
}

/// A repository with a loop whose worker is `worker`; `sandbox` is appended to its `[sandbox]`.
fn prepare(adapter: &str, worker: &str, sandbox: &str) -> TestEnv {
    let mut env = TestEnv::new();
    let terms = terms(&mut env, adapter);
    numbers(&env, worker, &format!("{terms}{sandbox}"));
    env
}

fn run(env: TestEnv) -> Attempt {
    let output = env.git_loop(&["run", "fix", "--once", "--json"]);
    let show = env.git_loop(&["show", "fix", "1", "--json"]).expect_code(0).json();
    let body = &show["record"]["body"];
    let log = body["evidence"].as_array().unwrap().iter().find(|file| file["name"] == "worker.log");
    let log = log.map(|file| env.git(&["cat-file", "blob", file["id"].as_str().unwrap()]));
    env.git_loop(&["verify", "fix"]).expect_code(0);
    let (receipt, log) = (body["receipt"].clone(), log.unwrap_or_default());
    Attempt { env, code: output.code, receipt, log }
}

fn attempt(adapter: &str, worker: &str, sandbox: &str) -> Attempt {
    let attempt = run(prepare(adapter, worker, sandbox));
    assert_eq!(attempt.receipt["sandbox"]["worker"]["adapter"], adapter, "{}", attempt.receipt);
    attempt
}

/// Each of these with each adapter, as a test of its own; the last ones with those only that need no image.
macro_rules! under_each_adapter {
    ($($name:ident,)*; $($elsewhere:ident,)*) => {
        mod landlock {
            $(#[test] fn $name() { super::$name("landlock"); })*
            $(#[test] fn $elsewhere() { super::$elsewhere("landlock"); })*
        }
        mod bwrap {
            $(#[test] fn $name() { if crate::support::tool("bwrap") { super::$name("bwrap"); } })*
            $(#[test] fn $elsewhere() { if crate::support::tool("bwrap") { super::$elsewhere("bwrap"); } })*
        }
        mod podman {
            $(#[test] fn $name() { if super::podman_runs() { super::$name("podman"); } })*
        }
    };
}

under_each_adapter! {
    a_worker_cannot_write_outside_its_worktree,
    a_worker_cannot_read_a_key_in_the_home,
    a_worker_cannot_open_a_socket_without_a_network,
    a_worker_cannot_see_another_ref,
    a_worker_cannot_leave_a_process,
    a_worker_cannot_change_refs_or_config,
    a_worker_cannot_fill_the_disk,
    a_worker_cannot_change_what_the_check_reads,
    capabilities_are_gone_and_the_receipt_says_what_held,
    silence_ends_a_worker_and_a_check,;
    a_worker_cannot_change_a_device_of_the_host,
    a_grant_that_holds_the_repository_opens_neither_its_history_nor_a_key,
    a_socket_in_a_granted_folder_cannot_be_reached,
    a_short_worker_cannot_fill_the_disk,
    a_list_of_hosts_lets_those_through_and_nothing_else,
}

/// Whether there is a podman that runs containers here.
fn podman_runs() -> bool {
    engine::podman(&mut TestEnv::new()).is_some()
}

fn a_worker_cannot_write_outside_its_worktree(adapter: &str) {
    let mut env = TestEnv::new();
    let outside = env.root().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("file"), "mine\n").unwrap();
    let worker = format!(
        "for place in '{0}/file' '{0}/new' '{1}/README' /etc/git-loop-test /usr/git-loop-test /git-loop-test; do\n\
         if (echo x > \"$place\") 2>/dev/null; then echo \"wrote $place\"; fi; done\n\
         chmod 777 '{0}/file' 2>/dev/null && echo chmod; rm -rf '{0}' 2>/dev/null; echo 1 > src/a; echo done\n",
        outside.display(),
        env.repo().display(),
    );
    let terms = terms(&mut env, adapter);
    numbers(&env, &worker, &terms);
    let attempt = run(env);
    assert_eq!(attempt.log, "done", "{adapter}");
    assert_eq!(std::fs::read_to_string(outside.join("file")).unwrap(), "mine\n");
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 1);
    assert_eq!(std::fs::read_to_string(attempt.env.repo().join("README")).unwrap(), "a repository\n");
}

fn a_worker_cannot_read_a_key_in_the_home(adapter: &str) {
    let mut env = TestEnv::new();
    let ssh = env.home().join(".ssh");
    std::fs::create_dir_all(&ssh).unwrap();
    std::fs::write(ssh.join("id_ed25519"), "a private key\n").unwrap();
    let worker = format!(
        "cat '{}/id_ed25519' '{}' 2>/dev/null; ls '{}' 2>/dev/null; ls ~ ; echo 1 > src/a; echo done\n",
        ssh.display(),
        env.key("runner").display(),
        env.home().display(),
    );
    let terms = terms(&mut env, adapter);
    numbers(&env, &worker, &terms);
    let attempt = run(env);
    assert!(attempt.log.ends_with("done"), "{}", attempt.log);
    for secret in ["a private key", "PRIVATE KEY", ".ssh", "id_"] {
        assert!(!attempt.log.contains(secret), "{adapter}: {}", attempt.log);
    }
}

fn a_worker_cannot_open_a_socket_without_a_network(adapter: &str) {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    server.set_nonblocking(true).unwrap();
    let port = server.local_addr().unwrap().port();
    let worker = if adapter == "podman" {
        // The image has busybox alone.
        format!(
            "for to in '127.0.0.1 {port}' '1.1.1.1 443' '10.0.0.1 80'; do nc -w 2 $to < /dev/null && echo open $to; done\n\
             echo 1 > src/a; echo done\n"
        )
    } else {
        format!(
            "python3 - <<'EOF'\nimport socket\nfor host, port in (('127.0.0.1', {port}), ('1.1.1.1', 443), ('10.0.0.1', 80)):\n\
         \x20   try:\n        socket.create_connection((host, port), 2); print('open', host)\n    except OSError: pass\n\
         try:\n    socket.getaddrinfo('example.com', 80); print('resolved')\nexcept OSError: pass\nEOF\necho 1 > src/a; echo done\n"
        )
    };
    let attempt = attempt(adapter, &worker, "worker = { network = \"none\" }\n");
    assert_eq!(attempt.log, "done", "{adapter}");
    assert!(server.accept().is_err(), "nobody came");
    if adapter == "podman" {
        // The same with the network of the host: it is not for want of a program that nobody came.
        server.set_nonblocking(false).unwrap();
        let met = std::thread::spawn(move || server.accept().map(drop).unwrap());
        let worker = format!("nc -w 2 127.0.0.1 {port} < /dev/null; echo 1 > src/a\n");
        let control = self::attempt(adapter, &worker, "worker = { network = \"host\" }\n");
        assert_eq!(control.receipt["worker"]["run"]["ended"], "itself", "somebody hung up");
        met.join().unwrap();
    }
    let network = attempt.receipt["sandbox"]["worker"]["network"].as_str().unwrap();
    assert!(network.starts_with("none-"), "{network}");
}

fn a_worker_cannot_see_another_ref(adapter: &str) {
    let mut env = TestEnv::new();
    let git = env.repo().join(".git");
    let worker = format!(
        "ls '{git}' 2>/dev/null; git -C '{repo}' log --all 2>/dev/null; git for-each-ref; git log --all --format=%s\n\
         git cat-file -t SECRET 2>/dev/null; echo 1 > src/a; git status --short; git diff --stat | tail -1\n\
         git add -A && git commit -q -m 'of the worker' && git log --format=%s | wc -l; git reflog | grep -c secret; echo done\n",
        git = git.display(),
        repo = env.repo().display(),
    );
    let terms = terms(&mut env, adapter);
    numbers(&env, &worker, &terms);
    env.git(&["checkout", "-q", "-b", "secret"]);
    env.write("hidden", "secret plans\n");
    let secret = env.commit("A secret commit");
    env.git(&["checkout", "-q", "main"]);
    env.script("worker.sh", &worker.replace("SECRET", &secret));
    let attempt = run(env);
    assert!(!attempt.log.to_lowercase().contains("secret"), "{adapter}: {}", attempt.log);
    let lines: Vec<&str> = attempt.log.lines().collect();
    assert!(
        lines.contains(&" M src/a") && lines.contains(&"2") && lines.contains(&"done"),
        "{adapter}: {lines:?}"
    );
    assert!(attempt.log.contains("1 file changed"), "{adapter}: {}", attempt.log);
    assert_eq!(attempt.receipt["changes"]["paths"], json!(["src/a"]), "the worker's commit is nothing to us");
}

fn a_worker_cannot_leave_a_process(adapter: &str) {
    let mark = format!("{}{}", std::process::id(), adapter.len());
    let worker = format!(
        "(setsid sh -c 'sleep 7{mark}' &)\n(sh -c 'trap \"\" TERM HUP; sleep 8{mark} & sleep 9{mark}' >/dev/null 2>&1 &)\n\
         echo 1 > src/a; echo done\n"
    );
    let attempt = attempt(adapter, &worker, "");
    assert_eq!(attempt.log, "done");
    // What goes with a container is not counted.
    let least = if adapter == "podman" { 0 } else { 2 };
    assert!(attempt.receipt["worker"]["run"]["survivors"].as_u64().unwrap() >= least, "{}", attempt.receipt);
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        assert!(!line.starts_with(b"sleep") || !String::from_utf8_lossy(&line).contains(&mark), "{adapter}");
    }
}

fn a_worker_cannot_change_refs_or_config(adapter: &str) {
    let mut env = TestEnv::new();
    let worker = format!(
        "cd '{0}' 2>/dev/null && echo there\ngit -C '{0}' update-ref refs/heads/evil HEAD 2>/dev/null && echo ref\n\
         git -C '{0}' config core.pager evil 2>/dev/null && echo config\necho x >> '{0}/.git/config' 2>/dev/null\n\
         mkdir -p '{0}/.git/refs/heads' 2>/dev/null && echo x > '{0}/.git/refs/heads/evil'\n\
         git config --global user.name evil; echo 1 > src/a; echo done\n",
        env.repo().display()
    );
    let terms = terms(&mut env, adapter);
    numbers(&env, &worker, &terms);
    let before = env.users_things();
    let attempt = run(env);
    assert_eq!(attempt.log, "done", "{adapter}");
    assert_eq!(attempt.env.users_things(), before);
    assert_eq!(attempt.receipt["guards"]["tampered"], json!([]));
}

fn a_worker_cannot_fill_the_disk(adapter: &str) {
    // Many files, and it would go on for ever.
    let worker =
        "n=0; while :; do n=$((n + 1)); head -c 1048576 /dev/zero > \"$TMPDIR/$n\" || exit 3; done\n";
    let attempt = attempt(adapter, worker, "disk = \"16MiB\"\n");
    assert_eq!(attempt.code, 40, "{}", attempt.receipt);
    assert_eq!(attempt.receipt["worker"]["run"]["ended"], "disk_limit");
    assert_eq!(attempt.receipt["worker"]["failure"], "its folders held more than sandbox.disk");
    // One file, and what is in memory.
    let worker = "for file in big /tmp/big /dev/shm/big /run/big /var/tmp/big /dev/big; do\n\
                  (head -c 67108864 /dev/zero > $file) 2>/dev/null && echo whole $file\n\
                  [ ! -e $file ] || { stat -c %s $file; rm $file; }; done; echo 1 > src/a\n";
    let attempt = self::attempt(adapter, worker, "disk = \"16MiB\"\n");
    let sizes: Vec<u64> = attempt.log.lines().map(|line| line.parse().unwrap()).collect();
    assert!(sizes.len() >= 3 && sizes.iter().all(|size| *size <= 16 << 20), "{adapter}: {sizes:?}");
}

fn a_short_worker_cannot_fill_the_disk(adapter: &str) {
    // Over before anybody looks, and too deep for any path.
    let fast = "for n in 1 2 3; do fallocate -l 8M \"$TMPDIR/$n\"; done; echo 1 > src/a\n";
    let deep = "n=$(printf '%0200d' 0); cd \"$TMPDIR\"; for i in $(seq 30); do mkdir $n; cd $n; done\n\
                for i in 1 2 3; do fallocate -l 8M $i; done\n";
    for worker in [fast, deep] {
        let attempt = attempt(adapter, worker, "disk = \"16MiB\"\n");
        assert_eq!(attempt.code, 40, "{worker}: {}", attempt.receipt);
        assert_eq!(attempt.receipt["worker"]["run"]["ended"], "disk_limit", "{worker}");
    }
}

fn a_worker_cannot_change_a_device_of_the_host(adapter: &str) {
    // Nothing would change if it could.
    let worker = "chmod $(stat -c %a /dev/full) /dev/full 2>/dev/null && echo mode\n\
                  touch -r /dev/full /dev/full 2>/dev/null && echo time\n\
                  echo x > /dev/null && head -c 3 /dev/zero | wc -c; echo 1 > src/a; echo done\n";
    assert_eq!(attempt(adapter, worker, "").log, "3\ndone", "{adapter}");
}

fn a_grant_that_holds_the_repository_opens_neither_its_history_nor_a_key(adapter: &str) {
    let env = TestEnv::new();
    let (repo, key) = (env.repo().display().to_string(), env.key("runner").display().to_string());
    let worktrees = env.home().join(".cache/git-loop").display().to_string();
    let worker = format!(
        "git -c safe.directory='*' -C '{repo}' log --all 2>/dev/null && echo history\n\
         ls -A '{repo}' 2>/dev/null; cat '{repo}/README' '{key}' 2>/dev/null; ls '{worktrees}'/*/ 2>/dev/null | grep -v \"^$(basename \"$PWD\")\"\n\
         cat '{0}/granted'; git status --short; echo 1 > src/a; echo done\n",
        env.root().display()
    );
    std::fs::write(env.root().join("granted"), "granted\n").unwrap();
    let terms =
        format!("\n[sandbox]\nallowed = [\"{adapter}\"]\nread_only = [\"{}\"]\n", env.root().display());
    numbers(&env, &worker, &terms);
    let attempt = run(env);
    assert_eq!(attempt.log, "granted\ndone", "{adapter}");
    assert_eq!(attempt.receipt["decision"]["outcome"], "accept", "{}", attempt.receipt);
}

fn a_socket_in_a_granted_folder_cannot_be_reached(adapter: &str) {
    if !tool("python3") {
        return;
    }
    let env = TestEnv::new();
    let granted = env.root().join("scripts");
    std::fs::create_dir(&granted).unwrap();
    let socket = granted.join("server.sock");
    let _server = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let worker = format!(
        "python3 - <<'EOS' 2>&1 | tail -1 | sed 's/:.*//'\nimport socket\n\
         s = socket.socket(socket.AF_UNIX); s.connect('{}'); print('connected')\nEOS\necho 1 > src/a\n",
        socket.display()
    );
    let terms = format!("\n[sandbox]\nallowed = [\"{adapter}\"]\nread_only = [\"{}\"]\n", granted.display());
    numbers(&env, &worker, &terms);
    let attempt = run(env);
    assert!(
        ["ConnectionRefusedError", "PermissionError"].contains(&attempt.log.as_str()),
        "{adapter}: {}",
        attempt.log
    );
    assert_eq!(attempt.receipt["sandbox"]["worker"]["unix_sockets"], "private");
}

fn a_worker_cannot_change_what_the_check_reads(adapter: &str) {
    let worker = "echo 'a 0' > tests/expected; printf 'echo \"ok a\"; echo \"done 1\"\\n' > check.sh\n\
                  echo trap > /tmp/trap; echo trap > ~/trap; echo 1 > src/a\n";
    let attempt = attempt(adapter, worker, "");
    assert_eq!(attempt.code, 13);
    assert_eq!(attempt.receipt["decision"]["halt_reason"], "metric_integrity_violation");
    assert!(attempt.receipt["check"].is_null(), "the check was not run");
    // And what it leaves beside the tree is not there for the check.
    let env = prepare(adapter, "echo trap > /tmp/trap; echo trap > ~/trap; echo 1 > src/a\n", "");
    let check = "if [ -e /tmp/trap ] || [ -e ~/trap ] || [ -e .git ]; then echo fail trap; bad=1; else echo ok trap; fi\n\
                 if [ \"$(cat src/a)\" = 1 ]; then echo ok a; else echo fail a; bad=1; fi; echo done 2; exit ${bad:-0}\n";
    env.write("check.sh", check);
    env.commit("A check that looks around");
    let attempt = run(env);
    assert_eq!(attempt.receipt["check"]["counts"]["passed"], 2, "{}", attempt.receipt);
    assert_eq!(attempt.receipt["sandbox"]["check"]["adapter"], adapter);
}

fn capabilities_are_gone_and_the_receipt_says_what_held(adapter: &str) {
    let worker = "grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status; echo 1 > src/a\n";
    let attempt = attempt(adapter, worker, "");
    for line in attempt.log.lines() {
        let (name, value) = line.split_once(":\t").unwrap();
        let wanted = match name {
            "NoNewPrivs" => "1",
            "Seccomp" => "2",
            _ => "0000000000000000",
        };
        assert_eq!(value, wanted, "{adapter}: {name}");
    }
    let said = &attempt.receipt["sandbox"]["worker"];
    assert_eq!(said["capabilities_dropped"], true);
    assert_eq!(said["filesystem"], true);
    assert_eq!(
        attempt.receipt["sandbox"]["check"]["network"].as_str().unwrap().split('-').next(),
        Some("none")
    );
}

/// A server that answers once for each connection.
fn server() -> u16 {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port();
    std::thread::spawn(move || {
        while let Ok((mut client, _)) = server.accept() {
            let mut bytes = [0; 4096];
            let got = client.read(&mut bytes).unwrap_or(0);
            let answer: &[u8] = if bytes[..got].starts_with(b"GET /page") {
                b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello"
            } else {
                b"pong"
            };
            let _ = client.write_all(answer);
        }
    });
    port
}

fn a_list_of_hosts_lets_those_through_and_nothing_else(adapter: &str) {
    if !tool("python3") {
        return;
    }
    let (listed, other) = (server(), server());
    let worker = format!(
        r#"python3 - <<'EOF'
import os, socket, urllib.request
host, port = os.environ["HTTPS_PROXY"].removeprefix("http://").split(":")
def tunnel(to):
    s = socket.create_connection((host, int(port)))
    s.sendall(f"CONNECT {{to}} HTTP/1.1\r\n\r\n".encode())
    return s, s.recv(65536).decode().split(" ")[1]
s, code = tunnel("127.0.0.1:{listed}")
s.sendall(b"ping")
print(code, s.recv(100).decode())
print(tunnel("127.0.0.1:{other}")[1], tunnel("localhost:{listed}")[1])
print(urllib.request.urlopen("http://127.0.0.1:{listed}/page").read().decode())
for to in (("127.0.0.1", {listed}), ("127.0.0.1", {other}), ("1.1.1.1", 443), ("8.8.8.8", 53)):
    try:
        socket.create_connection(to, 2)
        print("went round", to)
    except OSError:
        pass
print(os.environ["NO_PROXY"])
EOF
echo 1 > src/a
"#
    );
    let rules =
        format!("worker = {{ network = {{ allow = [\"127.0.0.1:{listed}\", \"api.example.com:443\"] }} }}\n");
    let attempt = attempt(adapter, &worker, &rules);
    assert_eq!(attempt.log, "200 pong\n403 403\nhello\nlocalhost", "{adapter}");
    let sandbox = &attempt.receipt["sandbox"];
    assert_eq!(sandbox["worker"]["network"], "allow-namespace");
    assert_eq!(sandbox["check_requests"], Value::Null);
    let requests = sandbox["worker_requests"]["requests"].as_array().unwrap();
    let told: Vec<_> = requests.iter().map(|one| (&one["host"], &one["port"], &one["why"])).collect();
    let (ip, name) = (&json!("127.0.0.1"), &json!("localhost"));
    let (none, refused) = (&Value::Null, &json!("not_listed"));
    let (listed, other) = (&json!(listed), &json!(other));
    assert_eq!(told, [(ip, listed, none), (ip, other, refused), (name, listed, refused), (ip, listed, none)]);
    assert_eq!((&requests[0]["sent"], &requests[0]["received"]), (&json!(4), &json!(4)));
    assert_eq!(sandbox["worker_requests"]["more"], 0);
    both(&attempt.env, 0, "a receipt with requests");
}

#[test]
fn a_listed_name_that_leads_to_this_machine_is_refused_and_told() {
    if !tool("unshare") || !tool("mount") || !tool("python3") {
        return;
    }
    let port = server();
    // A name of the internet, for all that the contract says; what it leads to is found out when it is asked for.
    let worker = format!(
        r#"python3 - <<'EOF'
import os, socket
host, port = os.environ["HTTPS_PROXY"].removeprefix("http://").split(":")
for name in ("inside.example.com", "lan.example.com", "127.0.0.1"):
    s = socket.create_connection((host, int(port)))
    s.sendall(f"CONNECT {{name}}:{port} HTTP/1.1\r\n\r\n".encode())
    print(name, s.recv(65536).decode().split(" ")[1])
EOF
echo 1 > src/a
"#
    );
    let rules = ["inside.example.com", "lan.example.com", "127.0.0.1"]
        .map(|name| format!("\"{name}:{port}\""))
        .join(", ");
    let env = prepare("landlock", &worker, &format!("worker = {{ network = {{ allow = [{rules}] }} }}\n"));
    let hosts = env.root().join("hosts");
    std::fs::write(&hosts, "127.0.0.1 localhost inside.example.com\n10.0.0.1 lan.example.com\n").unwrap();
    // SAFETY: takes nothing, cannot fail.
    let flags = if unsafe { libc::geteuid() } == 0 { "-m" } else { "-rm" };
    let mut command = env.command("unshare", env.repo());
    let script = format!(
        "mount --bind '{}' /etc/hosts || exit 77; exec '{}' run fix --once",
        hosts.display(),
        env!("CARGO_BIN_EXE_git-loop")
    );
    let output = env.run_command(command.args([flags, "sh", "-c", &script]));
    if output.code == 77 || output.stderr.contains("unshare failed") {
        assert!(std::env::var_os("GIT_LOOP_CI").is_none(), "mount namespaces are needed in CI: {output:?}");
        eprintln!("skipped: no mount namespace is to be had");
        return;
    }
    assert_eq!(output.code, 0, "{output:?}");
    let show = env.git_loop(&["show", "fix", "1", "--json"]).expect_code(0).json();
    let body = &show["record"]["body"];
    let log = body["evidence"].as_array().unwrap().iter().find(|file| file["name"] == "worker.log").unwrap();
    let log = env.git(&["cat-file", "blob", log["id"].as_str().unwrap()]);
    assert_eq!(log, "inside.example.com 403\nlan.example.com 403\n127.0.0.1 200");
    let requests = body["receipt"]["sandbox"]["worker_requests"]["requests"].as_array().unwrap();
    let told: Vec<_> =
        requests.iter().map(|one| (one["host"].as_str().unwrap(), &one["allowed"], &one["why"])).collect();
    let (no, private) = (&json!(false), &json!("private_address"));
    assert_eq!(
        told,
        [
            ("inside.example.com", no, private),
            ("lan.example.com", no, private),
            ("127.0.0.1", &json!(true), &Value::Null)
        ]
    );
    both(&env, 0, "a receipt with refused names");
}

#[test]
fn a_list_of_hosts_that_nothing_can_enforce_is_refused() {
    let env = prepare("none", "echo 1 > src/a\n", "worker = { network = { allow = [\"127.0.0.1:80\"] } }\n");
    let output = env.git_loop(&["run", "fix", "--json"]).expect_code(30);
    assert!(output.stderr.contains("allow-list"), "{output:?}");
    let ledger = env.try_git(&["rev-parse", "--verify", "-q", "refs/loops/fix/ledger"]);
    assert_ne!(ledger.code, 0, "nothing was signed");
}

#[test]
fn an_entry_of_a_list_that_means_nothing_is_refused() {
    let list = "worker = { network = { allow = [\"localhost:80\", \"x\"] } }\n";
    let env = prepare("landlock", "true\n", list);
    let output = env.git_loop(&["start", "fix"]).expect_code(129);
    assert!(output.stderr.contains("write its address") && output.stderr.contains("host:port"), "{output:?}");
}

fn silence_ends_a_worker_and_a_check(adapter: &str) {
    let env = prepare(adapter, "echo begun; sleep 600\n", "");
    let toml = std::fs::read_to_string(env.repo().join("loop.toml")).unwrap();
    let toml = toml.replacen("timeout = \"60s\"", "timeout = \"60s\"\nidle_timeout = \"2s\"", 1);
    env.write("loop.toml", toml);
    let attempt = run(env);
    assert_eq!(attempt.code, 40);
    assert_eq!(attempt.receipt["worker"]["run"]["ended"], "idle_timeout");
    assert_eq!(attempt.receipt["worker"]["failure"], "it printed nothing for too long");
    assert_eq!(attempt.log, "begun");

    // A check that speaks at the base, and falls silent with the candidate.
    let env = prepare(adapter, "echo 1 > src/a\n", "");
    let toml = std::fs::read_to_string(env.repo().join("loop.toml")).unwrap();
    let at = toml.rfind("timeout = \"60s\"").unwrap();
    env.write("loop.toml", format!("{}idle_timeout = \"5s\"\n{}", &toml[..at], &toml[at..]));
    env.write("check.sh", "[ \"$(cat src/a)\" = 0 ] || sleep 600; echo fail a; echo done 1; exit 1\n");
    env.commit("A check that falls silent");
    let attempt = run(env);
    assert_eq!(attempt.receipt["check"]["run"]["ended"], "idle_timeout");
    assert_eq!(attempt.receipt["decision"]["outcome_reason"], "verifier_failed");
    both(&attempt.env, 0, "a silent check");
}

/// `[worker.credential]` with commands that log what they do beside the repository.
fn with_credential(env: &TestEnv, mint: &str, revoke: &str) {
    let log = env.root().join("credentials");
    std::fs::create_dir(&log).unwrap();
    let mint = env.script("mint.sh", &mint.replace("LOG", &log.display().to_string()));
    let revoke = env.script("revoke.sh", &revoke.replace("LOG", &log.display().to_string()));
    let toml = std::fs::read_to_string(env.repo().join("loop.toml")).unwrap();
    let table = format!(
        "[worker.credential]\nenv = \"WORK_TOKEN\"\nmint = [\"sh\", \"{mint}\"]\nrevoke = [\"sh\", \"{revoke}\"]\n\n[check]"
    );
    env.write("loop.toml", toml.replacen("[check]", &table, 1));
}

const MINT: &str =
    "n=$(ls LOG | grep -c minted); echo \"token-number-$n-of-this-test\" | tee LOG/minted-$n\n";
const REVOKE: &str = "read -r token; echo \"$token\" >> LOG/revoked; echo \"$*\" >> LOG/arguments\n";

fn lines(env: &TestEnv, name: &str) -> Vec<String> {
    let text = std::fs::read_to_string(env.root().join("credentials").join(name)).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// No object of the repository and nothing that was said has the credential.
#[track_caller]
fn is_kept_secret(env: &TestEnv, said: &str) {
    assert!(!said.contains("token-number"), "{said}");
    let all = env.git(&["rev-list", "--objects", "--all"]);
    for object in all.lines().filter_map(|line| line.split_whitespace().next()) {
        let content = env.try_git(&["cat-file", "-p", object]).stdout;
        assert!(!content.contains("token-number"), "{object}: {content}");
    }
    let private = env.repo().join(".git/loops/fix");
    let left = std::fs::read_dir(private).unwrap().flatten().map(|entry| entry.file_name());
    assert!(left.into_iter().all(|name| !name.to_string_lossy().ends_with(".credential")));
}

#[test]
fn a_credential_is_made_for_each_run_and_revoked_after_it() {
    let env = TestEnv::new();
    let worker = "echo \"I have $WORK_TOKEN\"; echo \"$WORK_TOKEN\" >&2\n\
                  case $GIT_LOOP_ITERATION in 1) echo 1 > src/a;; *) echo 2 > src/b; echo 3 > src/c;; esac\n";
    numbers(&env, worker, "");
    with_credential(&env, MINT, REVOKE);
    let output = env.git_loop(&["run", "fix"]).expect_code(10);
    let made = ["token-number-0-of-this-test", "token-number-1-of-this-test"];
    assert_eq!(lines(&env, "revoked"), made);
    assert_eq!(lines(&env, "arguments"), ["", ""], "never on a command line");
    is_kept_secret(&env, &format!("{output:?}"));
    let show = env.git_loop(&["show", "fix", "1", "--json"]).expect_code(0).json();
    let log = show["record"]["body"]["evidence"].as_array().unwrap().iter();
    let log = log.clone().find(|file| file["name"] == "worker.log").unwrap()["id"].as_str().unwrap();
    assert_eq!(env.git(&["cat-file", "blob", log]), "I have [redacted WORK_TOKEN]");
    both(&env, 0, "a loop with credentials");
}

#[test]
fn a_credential_is_revoked_when_the_worker_fails_or_cannot_be_started() {
    for worker in ["exit 7\n", "kill -9 $$\n"] {
        let env = TestEnv::new();
        numbers(&env, worker, "");
        with_credential(&env, MINT, REVOKE);
        let output = env.git_loop(&["run", "fix"]).expect_code(40);
        assert_eq!(lines(&env, "revoked").len(), 1, "{worker}");
        is_kept_secret(&env, &format!("{output:?}"));
    }
}

#[test]
fn a_credential_that_a_dead_runner_left_is_revoked_by_the_next() {
    let env = TestEnv::new();
    // It ends its own runner, as nothing isolates it.
    let worker = "echo 1 > src/a; [ $GIT_LOOP_ITERATION != 1 ] || kill -9 $(cat RUNNER)\n";
    numbers(&env, worker, "\n[sandbox]\nallowed = [\"none\"]\n");
    with_credential(&env, &format!("echo $PPID > LOG/parent; {MINT}"), REVOKE);
    let script =
        env.script("worker.sh", &worker.replace("RUNNER", &env.root().join("runner").display().to_string()));
    let toml = std::fs::read_to_string(env.repo().join("loop.toml")).unwrap();
    assert!(toml.contains(&script));
    let mut child = env.command(env!("CARGO_BIN_EXE_git-loop"), env.repo());
    let mut child = child.args(["run", "fix", "--once"]).stderr(std::process::Stdio::null()).spawn().unwrap();
    std::fs::write(env.root().join("runner"), child.id().to_string()).unwrap();
    assert_eq!(child.wait().unwrap().code(), None, "it was killed");
    assert!(lines(&env, "revoked").is_empty());
    env.git_loop(&["run", "fix", "--once"]).expect_code(0);
    assert_eq!(lines(&env, "revoked"), ["token-number-0-of-this-test", "token-number-1-of-this-test"]);
    is_kept_secret(&env, "");
}

#[test]
fn a_credential_that_cannot_be_made_costs_no_iteration_and_one_that_cannot_be_revoked_is_told() {
    let env = TestEnv::new();
    numbers(&env, "echo 1 > src/a\n", "");
    let mint = "[ -e LOG/mints ] || exit 3; echo token-number-x\n";
    with_credential(&env, mint, "cat >> LOG/seen; [ -e LOG/revokes ]\n");
    let allow = |name: &str| std::fs::write(env.root().join("credentials").join(name), "").unwrap();
    let output = env.git_loop(&["run", "fix", "--once"]).expect_code(30);
    assert!(output.stderr.contains("worker.credential.mint exited with 3"), "{output:?}");
    assert_eq!(env.git_loop(&["status", "fix", "--json"]).json()["iteration_count"], 0);
    allow("mints");
    let output = env.git_loop(&["run", "fix", "--once"]).expect_code(0);
    assert!(
        output.stderr.contains("could not be revoked: worker.credential.revoke exited with 1"),
        "{output:?}"
    );
    assert!(!output.stderr.contains("token-number"), "{output:?}");
    allow("revokes");
    env.git_loop(&["run", "fix", "--once"]).expect_code(0);
    // Twice the first one, once the second.
    assert_eq!(lines(&env, "seen").concat(), "token-number-x".repeat(3));
    is_kept_secret(&env, "");
}

#[test]
fn what_is_no_credential_is_offered_to_be_revoked_and_never_in_part() {
    let env = TestEnv::new();
    numbers(&env, "echo 1 > src/a\n", "");
    let mint = "echo 'note: good for 90 days'; echo token-number-x; [ ! -e LOG/fails ] || { echo token-number-y; exit 3; }\n";
    with_credential(&env, mint, "cat >> LOG/seen; echo >> LOG/seen\n");
    let output = env.git_loop(&["run", "fix", "--once"]).expect_code(30);
    assert!(output.stderr.contains("worker.credential.mint printed no credential"), "{output:?}");
    assert!(output.stderr.contains("was given to worker.credential.revoke"), "{output:?}");
    assert_eq!(lines(&env, "seen"), ["note: good for 90 days", "token-number-x"]);
    std::fs::write(env.root().join("credentials/fails"), "").unwrap();
    env.git_loop(&["run", "fix", "--once"]).expect_code(30);
    assert_eq!(lines(&env, "seen")[2..], ["note: good for 90 days", "token-number-x", "token-number-y"]);
    is_kept_secret(&env, &format!("{output:?}"));
}

#[test]
fn an_empty_journal_of_a_credential_is_told_and_not_revoked() {
    let env = TestEnv::new();
    numbers(&env, "echo 1 > src/a\n", "");
    with_credential(&env, MINT, REVOKE);
    env.git_loop(&["start", "fix"]).expect_code(0);
    let private = env.repo().join(".git/loops/fix");
    std::fs::create_dir_all(&private).unwrap();
    std::fs::write(private.join("0123.credential"), "").unwrap();
    std::fs::write(private.join("4567.credential.new"), "token-num").unwrap();
    let output = env.git_loop(&["run", "fix", "--once"]).expect_code(0);
    assert!(output.stderr.contains("is not known here and was not revoked"), "{output:?}");
    assert_eq!(lines(&env, "revoked"), ["token-number-0-of-this-test"]);
    is_kept_secret(&env, &format!("{output:?}"));
}

#[test]
fn a_grant_inside_the_repository_or_of_the_key_is_refused() {
    let env = TestEnv::new();
    let (git, key) = (env.repo().join(".git"), env.key("runner"));
    for (granted, told) in [(git.join("refs"), "lies in the repository"), (key, "the signing key")] {
        numbers(&env, "echo 1 > src/a\n", &format!("\n[sandbox]\nread_only = [\"{}\"]\n", granted.display()));
        let output = env.git_loop(&["run", "fix", "--once"]);
        assert!([30, 13].contains(&output.code), "{output:?}");
        assert!(output.stderr.contains(told), "{output:?}");
        assert_eq!(env.try_git(&["rev-parse", "--verify", "-q", "refs/loops/fix/ledger"]).stdout, "");
    }
}

#[test]
fn a_secret_that_json_escapes_is_not_in_what_was_read_out_of_it() {
    let mut env = TestEnv::new();
    let worker = "printf '{\"summary\": \"I used %s\"}' \"$(printf %s \"$THE_TOKEN\" | sed 's,/,\\\\/,g')\" > \"$GIT_LOOP_EVIDENCE\"; echo 1 > src/a\n";
    numbers(&env, worker, "");
    let toml = std::fs::read_to_string(env.repo().join("loop.toml")).unwrap();
    env.write("loop.toml", toml.replacen("[check]", "env = [\"THE_TOKEN\", \"SHORT_TOKEN\"]\n\n[check]", 1));
    env.set_env("THE_TOKEN", "token/number/of/this");
    env.set_env("SHORT_TOKEN", "token/number");
    let output = env.git_loop(&["run", "fix", "--once"]).expect_code(0);
    let show = env.git_loop(&["show", "fix", "1", "--json"]).expect_code(0).json();
    assert_eq!(show["record"]["body"]["receipt"]["worker"]["summary"], "I used [redacted THE_TOKEN]");
    for object in env.git(&["rev-list", "--objects", "--all"]).lines() {
        let object = object.split_whitespace().next().unwrap();
        let content = env.try_git(&["cat-file", "-p", object]).stdout;
        assert!(!content.contains("of/this") && !content.contains("of\\/this"), "{output:?} {content}");
    }
    both(&env, 0, "a loop with a token");
}

#[test]
fn a_home_with_credentials_is_not_granted() {
    let env = TestEnv::new();
    std::fs::create_dir_all(env.home().join(".ssh")).unwrap();
    std::fs::create_dir_all(env.home().join("tools")).unwrap();
    let home = env.home();
    std::os::unix::fs::symlink(home.join(".ssh"), home.join("link")).unwrap();
    for (granted, code) in [(home.display().to_string(), 13), ("~/link".into(), 13), ("~/tools".into(), 0)] {
        numbers(&env, "echo 1 > src/a\n", &format!("\n[sandbox]\nread_only = [\"{granted}\"]\n"));
        let output = env.git_loop(&["run", "fix", "--once"]).expect_code(code);
        if code == 13 {
            assert!(output.stderr.contains(".ssh"), "{output:?}");
        }
    }
}

#[test]
fn without_isolation_what_a_worker_did_to_the_repository_is_seen() {
    let cases = [
        (
            "git -C REPO update-ref refs/replace/$(git -C REPO rev-parse HEAD) $(git -C REPO rev-parse HEAD)",
            "refs/replace/",
        ),
        (
            "git -C REPO update-ref refs/replace/$(git -C REPO rev-parse HEAD) HEAD; git -C REPO pack-refs --all",
            "refs/replace/",
        ),
        ("git -C REPO update-ref -d refs/loops/other/ledger", "refs/loops/other/ledger"),
        ("git -C REPO update-ref refs/loops/other/ledger main", "refs/loops/other/ledger"),
        (
            "git -C REPO update-ref refs/loops/fix/head HEAD^{commit} || true; git -C REPO update-ref refs/notes/loops/fix HEAD",
            "refs/notes/loops/fix",
        ),
        ("git -C REPO config core.fsmonitor evil", "$GIT_DIR/config"),
        ("echo evil > REPO/.git/hooks/post-commit", "$GIT_DIR/hooks/post-commit"),
        ("echo '* filter=evil' > REPO/.git/info/attributes", "$GIT_DIR/info/attributes"),
        ("echo x > REPO/.git/info/grafts", "$GIT_DIR/info/grafts"),
        ("echo /elsewhere > REPO/.git/worktrees/beside/gitdir", "$GIT_DIR/worktrees/beside/gitdir"),
    ];
    for (attack, path) in cases {
        let env = TestEnv::new();
        let attack = attack.replace("REPO", &env.repo().display().to_string());
        numbers(&env, "exit 0\n", "\n[sandbox]\nallowed = [\"none\"]\n");
        env.git_loop(&["start", "other"]).expect_code(0);
        env.git(&["worktree", "add", "-q", "--detach", env.root().join("beside").to_str().unwrap()]);
        std::fs::create_dir_all(env.repo().join(".git/hooks")).unwrap();
        env.script("worker.sh", &format!("unset GIT_CEILING_DIRECTORIES\n{attack}\necho 1 > src/a\n"));
        env.git_loop(&["run", "fix", "--once"]).expect_code(13);
        let show = env.git_loop(&["show", "fix", "1", "--json"]).expect_code(0).json();
        let tampered = &show["record"]["body"]["receipt"]["guards"]["tampered"];
        let seen =
            tampered.as_array().unwrap().iter().any(|one| one["path"].as_str().unwrap().starts_with(path));
        assert!(seen, "{attack}: {tampered}");
    }
}

#[test]
fn report_1_43_a_change_of_the_users_own_configuration_is_told() {
    let env = TestEnv::new();
    let config = env.home().join(".gitconfig");
    let worker = format!("echo '[core]' > '{}'; echo 1 > src/a\n", config.display());
    numbers(&env, &worker, "\n[sandbox]\nallowed = [\"none\"]\n");
    let output = env.git_loop(&["run", "fix", "--once"]).expect_code(0);
    assert!(output.stderr.contains("your own git configuration changed"), "{output:?}");
    let quiet = env.git_loop(&["run", "fix", "--once"]);
    assert!(!quiet.stderr.contains("your own git configuration changed"), "{quiet:?}");
}
