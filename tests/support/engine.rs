//! A real container engine, with storage of its own in the folder of a test, and an image made from programs of this machine.
#![cfg(target_os = "linux")]

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::sync::OnceLock;

use super::{Output, TestEnv, tool};

/// Programs of the image besides git: all of busybox.
const PROGRAMS: [&str; 24] = [
    "sh", "cat", "ls", "rm", "mkdir", "chmod", "stat", "head", "tail", "wc", "grep", "sleep", "setsid", "nc",
    "env", "mount", "touch", "kill", "id", "seq", "dd", "nslookup", "ps", "true",
];

/// Podman with an image for this test, by its digest; a printed reason where there is none. An engine that is installed and cannot run (in a
/// container, say, or without the right to make one) is no fault of ours, in CI neither.
pub fn podman(env: &mut TestEnv) -> Option<String> {
    static RUNTIME: OnceLock<Result<&str, String>> = OnceLock::new();
    if !tool("podman") || !tool("busybox") {
        return None;
    }
    let place = env.root().join("engine");
    fs::create_dir(&place).unwrap();
    // Nothing of it is shared with the user's own containers, and it works on any file system.
    let storage = format!(
        "[storage]\ndriver = \"vfs\"\ngraphroot = \"{0}/storage\"\nrunroot = \"{0}/run\"\n",
        place.display()
    );
    fs::write(place.join("storage.conf"), storage).unwrap();
    env.set_env("CONTAINERS_STORAGE_CONF", place.join("storage.conf").to_str().unwrap());
    env.set_env("CONTAINERS_CONF", place.join("containers.conf").to_str().unwrap());
    configure(&place, "crun");
    let image = import(env, &place);
    let works = RUNTIME.get_or_init(|| {
        let mut why = String::new();
        for runtime in ["crun", "runc"] {
            configure(&place, runtime);
            let tried = image.as_ref().map_err(Clone::clone).and_then(|image| try_out(env, image));
            match tried {
                Ok(()) => return Ok(runtime),
                Err(error) => why = format!("{why}\n  with {runtime}: {error}"),
            }
        }
        Err(why)
    });
    match works {
        Ok(runtime) => configure(&place, runtime),
        Err(why) => {
            eprintln!("skipped: podman is installed and runs no container here:{why}");
            return None;
        }
    }
    Some(image.expect("it worked before"))
}

fn configure(place: &Path, runtime: &str) {
    let text = format!(
        "[engine]\ncgroup_manager = \"cgroupfs\"\nevents_logger = \"none\"\nruntime = \"{runtime}\"\nlock_type = \"file\"\n\
         tmp_dir = \"{0}/tmp\"\n",
        place.display()
    );
    fs::write(place.join("containers.conf"), text).unwrap();
}

fn engine(env: &TestEnv, args: &[&str]) -> Output {
    env.run_command(env.command("podman", env.repo()).args(args))
}

fn checked(output: Output) -> Result<Output, String> {
    if output.code == 0 { Ok(output) } else { Err(output.stderr.trim().to_owned()) }
}

/// The name and the digest of an image of busybox and git.
fn import(env: &TestEnv, place: &Path) -> Result<String, String> {
    let root = place.join("image");
    for folder in ["bin", "tmp", "proc", "sys", "dev", "etc", "run", "var/tmp", "root"] {
        fs::create_dir_all(root.join(folder)).unwrap();
    }
    let busybox = which("busybox").unwrap();
    copy_program(env, &root, &busybox, "bin/busybox");
    for program in PROGRAMS {
        std::os::unix::fs::symlink("busybox", root.join("bin").join(program)).unwrap();
    }
    copy_program(env, &root, &which("git").unwrap(), "bin/git");
    let tar = place.join("image.tar");
    let made = env.run_command(env.command("tar", &root).arg("-cf").arg(&tar).arg("."));
    checked(made)?;
    fs::remove_dir_all(&root).unwrap();
    checked(engine(env, &["import", "--quiet", tar.to_str().unwrap(), "localhost/git-loop-test:latest"]))?;
    let inspect =
        ["image", "inspect", "--format", "{{index .RepoDigests 0}}", "localhost/git-loop-test:latest"];
    Ok(checked(engine(env, &inspect))?.stdout.trim().to_owned())
}

/// Runs nothing in a container, with as little as every command asks for.
fn try_out(env: &TestEnv, image: &str) -> Result<(), String> {
    let limits = ["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024"];
    let mut args = vec!["run", "--rm", "--init", "--network", "none", "--memory", "1073741824"];
    args.extend(limits);
    args.extend([image, "true"]);
    checked(engine(env, &args)).map(drop)
}

fn which(name: &str) -> Option<std::path::PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// Copies a program, and the libraries that it is linked with to where they lie here.
fn copy_program(env: &TestEnv, root: &Path, from: &Path, to: &str) {
    fs::copy(from, root.join(to)).unwrap();
    // A static one has none.
    let linked = env.run_command(env.command("ldd", env.repo()).arg(from).stderr(Stdio::null()));
    for word in linked.stdout.split_whitespace().filter(|word| word.starts_with('/')) {
        let at = root.join(word.trim_start_matches('/'));
        fs::create_dir_all(at.parent().unwrap()).unwrap();
        fs::copy(word, at).unwrap();
    }
}
