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

/// How often each step is done; the best time counts.
const ROUNDS: usize = 5;

const COLUMNS: [&str; 8] =
    ["checkout", "verified", "link", "seal first", "seal again", "snapshot", "remove", "git worktree add"];

fn git(dir: &Path, args: &[&str]) -> String {
    let output = Command::new("git")
        .current_dir(dir)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .args(["-c", "user.name=Bench", "-c", "user.email=bench@example.org"])
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
    for files in [10, 2_000, 20_000] {
        let best = measure(&root, files);
        println!("{files:>6} {}", best.map(|ms| format!("{ms:16.2}")).join(" "));
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
    let mut note = |column: usize, start: Instant| {
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
            let options = CheckoutOptions { verify, unchanged: None };
            let (manifest, _) = checkout(&repo, tree, worktree.path(), options).expect("a checkout");
            note(usize::from(verify), start);
            let start = Instant::now();
            if verify {
                worktree.link(&manifest).expect("a link");
                note(2, start);
            } else {
                let options = SealOptions { cache: Some(&cache), identity: None };
                worktree.seal(&repo, head, &manifest, &options).expect("a sealed repository");
                note(if sealed { 4 } else { 3 }, start);
                sealed = true;
            }
            for number in 0..10.min(files) {
                std::fs::write(worktree.path().join(path(number)), format!("{round} {verify}\n"))
                    .expect("a change");
            }
            let start = Instant::now();
            snapshot(&repo, &manifest, worktree.path(), &ignores, SnapshotOptions::default())
                .expect("a snapshot");
            note(5, start);
            let start = Instant::now();
            worktree.remove().expect("removed");
            note(6, start);
        }
        let start = Instant::now();
        git(&dir, &["worktree", "add", "--quiet", "--detach", "../by-git"]);
        note(7, start);
        git(&dir, &["worktree", "remove", "--force", "../by-git"]);
    }
    best
}
