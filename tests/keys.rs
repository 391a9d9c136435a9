//! Every form in which git takes a signing key, from start to a commit that stock git verifies.

#![cfg(unix)]

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::scenario::numbers;
use crate::support::{APPROVER, Output, REVIEWER, RUNNER, TestEnv, tool};

/// A worker that needs one iteration.
const QUICK: &str = "echo 1 > src/a\necho 2 > src/b\necho 3 > src/c\n";

const PASSPHRASE: &str = "open sesame";

/// How long a refusal may take. Nothing is waited for; the rest is a slow machine.
const AT_ONCE: Duration = Duration::from_secs(120);

/// A loop in a fresh repository whose runner signs with a key that `ssh-keygen` makes from `arguments`.
fn with_key(arguments: &[&str], passphrase: &str) -> TestEnv {
    let env = TestEnv::new();
    let key = env.key("made");
    let mut command = env.command("ssh-keygen", &env.root());
    command.args(["-q", "-C", "", "-N", passphrase, "-f"]).arg(&key).args(arguments);
    assert_eq!(env.run_command(&mut command).code, 0, "{arguments:?}");
    env.write_trust(&[("made", RUNNER), ("ann", REVIEWER), ("lead", APPROVER)]);
    env.git(&["config", "user.signingkey", key.to_str().unwrap()]);
    numbers(&env, QUICK, "");
    env
}

/// `git-loop` without a controlling terminal: nobody can be asked, also where a person runs these tests.
fn alone(env: &TestEnv, args: &[&str]) -> Output {
    let mut command = env.command(env!("CARGO_BIN_EXE_git-loop"), env.repo());
    command.args(args);
    // SAFETY: `setsid` is safe to call between fork and exec, and nothing else is done there.
    unsafe {
        command.pre_exec(|| {
            libc::setsid();
            Ok(())
        });
    }
    env.run_command(&mut command)
}

/// Starts, runs and verifies the loop `id`, and lets stock git verify the records and the candidate.
#[track_caller]
fn runs(env: &TestEnv, id: &str, form: &str) {
    let done = alone(env, &["start", id, "-f", "loop.toml"]);
    assert_eq!(done.code, 0, "{form}: {}", done.stderr);
    let done = alone(env, &["run", id]);
    assert_eq!(done.code, 10, "{form}: {}", done.stderr);
    let done = alone(env, &["verify", id]);
    assert_eq!(done.code, 0, "{form}: {}", done.stderr);
    let trust = format!("gpg.ssh.allowedSignersFile={}", env.trust_file().display());
    for name in [format!("refs/loops/{id}/ledger"), format!("refs/loops/{id}/head")] {
        let output = env.try_git(&["-c", &trust, "verify-commit", &name]);
        assert_eq!(output.code, 0, "{form}: {}", output.stderr);
        assert!(
            output.stderr.contains(&format!("Good \"git\" signature for {RUNNER}")),
            "{form}: {output:?}"
        );
    }
}

/// Nothing of the loop `id` may come into being: exit 30, at once, and `text` says why.
#[track_caller]
fn refuses(env: &TestEnv, id: &str, text: &str) {
    let begun = Instant::now();
    let output = alone(env, &["run", id, "-f", "loop.toml"]);
    assert!(begun.elapsed() < AT_ONCE, "it took {:?}: {output:?}", begun.elapsed());
    let output = output.expect_code(30).expect_stderr(text);
    assert!(output.stderr.contains("hint: "), "{output:?}");
    assert_eq!(env.git(&["for-each-ref", &format!("refs/loops/{id}/**")]), "", "nothing is recorded");
}

/// An ssh-agent that ends with the test.
struct Agent {
    child: Child,
    socket: PathBuf,
}

impl Agent {
    fn start(env: &TestEnv) -> Self {
        let socket = env.root().join("agent");
        let mut command = env.command("ssh-agent", &env.root());
        command.args(["-D", "-a"]).arg(&socket).stdout(Stdio::null());
        let child = command.spawn().expect("ssh-agent starts");
        let agent = Self { child, socket };
        let begun = Instant::now();
        while !agent.socket.exists() {
            assert!(begun.elapsed() < AT_ONCE, "ssh-agent makes no socket");
            std::thread::sleep(Duration::from_millis(10));
        }
        agent
    }

    fn add(&self, env: &TestEnv, key: &Path, askpass: &str) {
        let mut command: Command = env.command("ssh-add", &env.root());
        command.env("SSH_AUTH_SOCK", &self.socket).env("SSH_ASKPASS", askpass);
        command.env("SSH_ASKPASS_REQUIRE", "force").arg("-q").arg(key);
        let output = env.run_command(&mut command);
        assert_eq!(output.code, 0, "{output:?}");
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A program that prints the passphrase and leaves a line for each time that it was asked.
fn askpass(env: &TestEnv) -> String {
    let asked = env.root().join("asked");
    std::fs::write(&asked, "").unwrap();
    env.script("askpass", &format!("#!/bin/sh\necho \"$1\" >> '{}'\necho '{PASSPHRASE}'\n", asked.display()))
}

#[test]
fn key_files_of_every_kind_sign_from_start_to_verification() {
    if !tool("ssh-keygen") {
        return;
    }
    let kinds: [&[&str]; 6] = [
        &["-t", "ed25519"],
        &["-t", "ecdsa", "-b", "256"],
        &["-t", "ecdsa", "-b", "384"],
        &["-t", "ecdsa", "-b", "521"],
        &["-t", "rsa", "-b", "3072"],
        // The form of before 2014 is read by ssh-keygen only.
        &["-t", "rsa", "-b", "3072", "-m", "PEM"],
    ];
    for kind in kinds {
        let env = with_key(kind, "");
        runs(&env, "fix", &format!("{kind:?}"));
    }
}

#[test]
fn a_public_key_stands_for_the_private_key_beside_it() {
    if !tool("ssh-keygen") {
        return;
    }
    let env = with_key(&["-t", "ed25519"], "");
    env.git(&["config", "user.signingkey", env.key("made.pub").to_str().unwrap()]);
    runs(&env, "fix", "path.pub");
    env.git(&["config", "user.signingkey", "~/keys/made.pub"]);
    runs(&env, "fix2", "~/path.pub");
}

#[test]
fn an_encrypted_key_asks_once_and_without_anybody_to_ask_it_ends_at_once() {
    if !tool("ssh-keygen") {
        return;
    }
    let mut env = with_key(&["-t", "ed25519"], PASSPHRASE);
    refuses(&env, "fix", "there is nobody to ask for its passphrase");

    let asked = env.root().join("asked");
    let program = askpass(&env);
    env.set_env("SSH_ASKPASS", &program);
    env.set_env("SSH_ASKPASS_REQUIRE", "never");
    refuses(&env, "fix", "there is nobody to ask for its passphrase");
    assert_eq!(std::fs::read_to_string(&asked).unwrap(), "");

    // Without a terminal a display is enough, as for ssh.
    env.set_env("SSH_ASKPASS_REQUIRE", "");
    env.set_env("DISPLAY", ":0");
    runs(&env, "fix", "askpass");
    let asked = std::fs::read_to_string(&asked).unwrap();
    assert_eq!(asked.lines().count(), 2, "once for start, once for run, never for verify: {asked}");

    let wrong = env.script("wrong", "#!/bin/sh\necho nonsense\n");
    env.set_env("SSH_ASKPASS", &wrong);
    refuses(&env, "fix2", "passphrase");
}

#[test]
fn keys_in_an_agent_sign_in_every_form_and_an_agent_that_is_gone_ends_at_once() {
    if !tool("ssh-keygen") || !tool("ssh-agent") || !tool("ssh-add") {
        return;
    }
    let mut env = with_key(&["-t", "ed25519"], PASSPHRASE);
    let program = askpass(&env);
    let agent = Agent::start(&env);
    agent.add(&env, &env.key("made"), &program);
    env.set_env("SSH_AUTH_SOCK", agent.socket.to_str().unwrap());

    let path = env.key("made.pub");
    let line = env.public_key("made").trim().to_owned();
    let forms = [
        ("path", path.with_extension("").to_str().unwrap().to_owned()),
        ("public", path.to_str().unwrap().to_owned()),
        ("prefixed", format!("key::{line}")),
        ("literal", line.clone()),
    ];
    for (id, form) in &forms {
        env.git(&["config", "user.signingkey", form]);
        runs(&env, id, form);
    }

    // Without the private key beside it the public key is enough.
    std::fs::remove_file(env.key("made")).unwrap();
    env.git(&["config", "user.signingkey", path.to_str().unwrap()]);
    runs(&env, "alone", "path.pub alone");

    // A key that the agent does not have is not replaced by one that it has.
    env.git(&["config", "user.signingkey", &format!("key::{}", env.public_key("lead").trim())]);
    refuses(&env, "other", "agent");

    // The agent is killed: its socket stays, and nobody listens.
    drop(agent);
    for (index, (_, form)) in forms.iter().skip(1).enumerate() {
        env.git(&["config", "user.signingkey", form]);
        refuses(&env, &format!("dead{index}"), "agent");
    }
    env.set_env("SSH_AUTH_SOCK", env.root().join("nothing").to_str().unwrap());
    refuses(&env, "nowhere", "agent");
    env.set_env("SSH_AUTH_SOCK", "");
    refuses(&env, "unset", "SSH_AUTH_SOCK");
}
