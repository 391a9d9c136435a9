//! What worktrees cost, beside `git worktree add` in the same run: `GIT_LOOP_BENCH_DIR=/dev/shm cargo bench --bench worktree`.
//!
//! Read ratios within one run; the numbers of two machines, or of two moments of a shared one, say little.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use git_loop::worktree::{
    BaseIgnores, CheckoutOptions, LinkedWorktree, SealOptions, SnapshotOptions, checkout, snapshot,
    worktree_folder,
};
#[cfg(target_os = "linux")]
use git_loop::worktree::{Layer, Manifest, Marks, Overlaid, snapshot_overlaid};

/// How often each step is done; the best time counts.
const ROUNDS: usize = 5;

const COLUMNS: [&str; 14] = [
    "checkout",
    "verified",
    "link",
    "seal first",
    "seal again",
    "snapshot",
    "remove",
    "git worktree add",
    "layer made",
    "layer found",
    "overlay",
    "mount",
    "snapshot",
    "remove",
];
const GIT: usize = 7;
const OVERLAY: usize = 10;
const MOUNT: usize = 11;
/// The acceptance limits: what a fresh worktree may cost at most, in parts of what `git worktree add --detach` takes.
const CHECKOUT_LIMIT: f64 = 0.5;
const OVERLAY_LIMIT: f64 = 0.05;

fn git(dir: &Path, args: &[&str]) -> String {
    let output = Command::new("git")
        .current_dir(dir)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        // A collection that git starts by itself would meet the one that is asked for.
        .args(["-c", "user.name=Bench", "-c", "user.email=bench@example.org", "-c", "gc.auto=0"])
        .args(args)
        .output()
        .expect("git runs");
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// Text that differs from file to file, or a pack would hold nothing but deltas.
fn text(number: usize) -> String {
    let mut state = number as u64;
    let mut text = String::new();
    while text.len() < 600 + number % 40 * 60 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let _ = write!(text, "{:x}{}", state >> 44, if state >> 60 == 0 { ";\n" } else { " " });
    }
    text
}

fn path(number: usize) -> String {
    format!("d{}/e{}/f{number}.rs", number % 20, number % 100)
}

fn main() {
    let root = std::env::var_os("GIT_LOOP_BENCH_DIR").map_or_else(std::env::temp_dir, PathBuf::from);
    println!("ms, best of {ROUNDS}, in {}", root.display());
    println!("{:>6} {}", "files", COLUMNS.map(|name| format!("{name:>16}")).join(" "));
    let mut last = [f64::NAN; COLUMNS.len()];
    for files in [10, 100, 200, 400, 2_000, 20_000] {
        let best = measure(&root, files);
        println!("{files:>6} {}", best.map(|ms| format!("{ms:16.2}")).join(" "));
        last = best;
    }
    println!("a fresh worktree of the last, in parts of what git worktree add takes:");
    // Everything that git's command does, too: the registration, the files, the index.
    for (what, time, limit) in [
        ("checkout", last[0] + last[2], CHECKOUT_LIMIT),
        ("overlay, mounted", last[OVERLAY] + last[MOUNT], OVERLAY_LIMIT),
    ] {
        let part = time / last[GIT];
        let kept = if part <= limit { "kept" } else { "MISSED" };
        println!("{what:>20} {part:.3}, limit {limit}: {kept}");
    }
}

fn measure(root: &Path, files: usize) -> [f64; COLUMNS.len()] {
    let place = tempfile::tempdir_in(root).expect("a folder");
    let dir = place.path().join("repo");
    for number in 0..files {
        let file = dir.join(path(number));
        std::fs::create_dir_all(file.parent().expect("it has one")).expect("folders");
        std::fs::write(file, text(number)).expect("a file");
    }
    git(&dir, &["init", "--quiet"]);
    git(&dir, &["add", "-A"]);
    git(&dir, &["commit", "--quiet", "-m", "Begin"]);
    git(&dir, &["gc", "--quiet"]);
    let repo = gix::open(&dir).expect("a repository");
    let head = repo.head_id().expect("a commit").detach();
    let tree = repo.head_tree_id().expect("a tree").detach();
    let ignores = BaseIgnores::read(&repo, tree).expect("ignore rules");
    let folder = worktree_folder(repo.common_dir(), None, &place.path().join("cache")).expect("a place");
    let cache = place.path().to_path_buf();

    let mut best = [f64::INFINITY; COLUMNS.len()];
    let note = |best: &mut [f64; COLUMNS.len()], column: usize, start: Instant| {
        best[column] = best[column].min(start.elapsed().as_secs_f64() * 1000.0);
    };
    let mut sealed = false;
    for round in 0..ROUNDS {
        for verify in [false, true] {
            let start = Instant::now();
            let worktree = LinkedWorktree::create(
                &repo,
                &folder,
                &format!("loop-bench-{round}-{verify}"),
                head,
                "bench",
            )
            .expect("a worktree");
            let options = CheckoutOptions { verify, ..CheckoutOptions::default() };
            let (manifest, _) = checkout(&repo, tree, worktree.path(), options).expect("a checkout");
            note(&mut best, usize::from(verify), start);
            let start = Instant::now();
            if verify {
                worktree.link(&manifest).expect("a link");
                note(&mut best, 2, start);
            } else {
                let options = SealOptions { cache: Some(&cache), identity: None };
                worktree.seal(&repo, head, &manifest, &options).expect("a sealed repository");
                note(&mut best, if sealed { 4 } else { 3 }, start);
                sealed = true;
            }
            for number in 0..10.min(files) {
                std::fs::write(worktree.path().join(path(number)), format!("{round} {verify}\n"))
                    .expect("a change");
            }
            let start = Instant::now();
            snapshot(&repo, &manifest, worktree.path(), &ignores, SnapshotOptions::default())
                .expect("a snapshot");
            note(&mut best, 5, start);
            let start = Instant::now();
            worktree.remove().expect("removed");
            note(&mut best, 6, start);
        }
        let start = Instant::now();
        git(&dir, &["worktree", "add", "--quiet", "--detach", "../by-git"]);
        note(&mut best, GIT, start);
        git(&dir, &["worktree", "remove", "--force", "../by-git"]);
    }

    #[cfg(target_os = "linux")]
    let (mut plain, mut mounted) = (f64::INFINITY, f64::INFINITY);
    #[cfg(target_os = "linux")]
    for round in 0..ROUNDS {
        let start = Instant::now();
        let layer = Layer::obtain(&repo, &folder, tree, None).expect("a layer").expect("it is intact");
        note(&mut best, 8, start);
        drop(layer);
        let start = Instant::now();
        let layer = Layer::obtain(&repo, &folder, tree, None).expect("a layer").expect("it is intact");
        note(&mut best, 9, start);

        let name = format!("loop-bench-over-{round}");
        let start = Instant::now();
        let worktree = LinkedWorktree::create(&repo, &folder, &name, head, "bench").expect("a worktree");
        let (overlaid, manifest): (Overlaid, std::sync::Arc<Manifest>) =
            Overlaid::fill(&repo, &layer, tree, worktree.path(), Marks::Trusted, true, 0)
                .expect("filled")
                .expect("nothing differs");
        worktree.link(&manifest).expect("a link");
        note(&mut best, OVERLAY, start);
        for _ in 0..ROUNDS {
            plain = plain.min(sandboxed(&worktree, None, "true").expect("a sandbox"));
            let Some(with) = sandboxed(&worktree, Some(layer.path()), "true") else {
                println!("no overlay can be mounted here");
                return best;
            };
            mounted = mounted.min(with);
        }
        // What the mount adds to a command in a sandbox.
        best[MOUNT] = mounted - plain;
        let changes: Vec<String> =
            (0..10.min(files)).map(|number| format!("echo {round} > {}", path(number))).collect();
        sandboxed(&worktree, Some(layer.path()), &changes.join("; ")).expect("a sandbox");
        let start = Instant::now();
        snapshot_overlaid(&repo, &manifest, &overlaid, &ignores, SnapshotOptions::default())
            .expect("a snapshot");
        best[12] = best[12].min(start.elapsed().as_secs_f64() * 1000.0);
        let start = Instant::now();
        worktree.remove().expect("removed");
        best[13] = best[13].min(start.elapsed().as_secs_f64() * 1000.0);
        drop(layer);
        git_loop::worktree::reclaim_layers(&folder, false).expect("removed");
    }
    best
}

/// How long a command takes in its sandbox, in milliseconds; `None` if it cannot be run.
#[cfg(target_os = "linux")]
fn sandboxed(worktree: &LinkedWorktree, lower: Option<&Path>, script: &str) -> Option<f64> {
    use git_loop::sandbox::{Adapter, Command, Network, Overlay, Policy, run};
    let work = worktree.path().with_extension("work");
    let overlay = lower.map(|lower| {
        let _ = std::fs::remove_dir_all(&work);
        std::fs::create_dir(&work).expect("a folder");
        Overlay {
            upper: worktree.path().to_owned(),
            lower: vec![lower.to_owned()],
            work: work.clone(),
            user_marks: false,
        }
    });
    let command = Command { overlay, ..Command::new(["/bin/sh", "-c", script], worktree.path()) };
    let policy = Policy {
        writable: vec![worktree.path().to_owned()],
        ..Policy::new(Adapter::Landlock, Network::None)
    };
    let start = Instant::now();
    run(&command, &policy, &std::sync::atomic::AtomicBool::new(false)).ok()?;
    Some(start.elapsed().as_secs_f64() * 1000.0)
}
