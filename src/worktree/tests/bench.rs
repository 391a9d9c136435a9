//! Times, printed and not asserted:
//! `WORKTREE_BENCH=/dev/shm cargo test --release --lib worktree::tests::bench -- --ignored --nocapture`.

use std::fmt::Write;
use std::time::Instant;

use super::*;
use crate::worktree::{LinkedWorktree, SealOptions};

#[test]
#[ignore = "prints times, decides nothing"]
fn times() {
    let root = std::env::var_os("WORKTREE_BENCH").map_or_else(std::env::temp_dir, PathBuf::from);
    println!(
        "files  checkout  verified  link  seal(first)  seal  snapshot(10 changed)  remove  git worktree add (ms, best)"
    );
    for files in [10, 2_000, 20_000] {
        let sandbox = Sandbox::inside(tempfile::tempdir_in(&root).unwrap(), &[]);
        for number in 0..files {
            // Words that differ from file to file, or a pack would hold nothing but deltas.
            let mut state = number as u64;
            let mut text = String::new();
            while text.len() < 600 + number % 40 * 60 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let _ = write!(text, "{:x}{}", state >> 44, if state >> 60 == 0 { ";\n" } else { " " });
            }
            sandbox.write(&format!("d{}/e{}/f{number}.rs", number % 20, number % 100), text);
        }
        sandbox.commit();
        sandbox.git(&["gc", "-q"]);
        let repo = sandbox.open();
        let (head, tree) = (sandbox.id("HEAD"), sandbox.id("HEAD^{tree}"));
        let ignores = BaseIgnores::read(&repo, tree).unwrap();
        let mut best = [f64::INFINITY; 8];
        let mut note = |column: usize, start: Instant| {
            best[column] = best[column].min(start.elapsed().as_secs_f64() * 1000.0);
        };
        let mut seal_first = true;
        for round in 0..7 {
            for verify in [false, true] {
                let create = Instant::now();
                let name = format!("loop-bench-{round}-{verify}");
                let worktree = LinkedWorktree::create(&repo, &sandbox.places(), &name, head, "").unwrap();
                let options = CheckoutOptions { verify, unchanged: None };
                let (manifest, _) = checkout(&repo, tree, worktree.path(), options).unwrap();
                note(usize::from(verify), create);
                let start = Instant::now();
                if verify {
                    worktree.link(&manifest).unwrap();
                    note(2, start);
                } else {
                    let cache = sandbox.path("home");
                    let options = SealOptions { cache: Some(&cache), identity: None };
                    worktree.seal(&repo, head, &manifest, &options).unwrap();
                    note(if seal_first { 3 } else { 4 }, start);
                    seal_first = false;
                }
                for number in 0..10.min(files) {
                    let path = format!("d{}/e{}/f{number}.rs", number % 20, number % 100);
                    put(worktree.path(), &path, format!("changed in {round} {verify}\n"));
                }
                let start = Instant::now();
                snapshot(&repo, &manifest, worktree.path(), &ignores, SnapshotOptions::default()).unwrap();
                note(5, start);
                let start = Instant::now();
                worktree.remove().unwrap();
                note(6, start);
            }
            let start = Instant::now();
            let place = sandbox.path("by-git");
            sandbox.git(&["worktree", "add", "-q", "--detach", place.to_str().unwrap()]);
            note(7, start);
            sandbox.git(&["worktree", "remove", "--force", place.to_str().unwrap()]);
        }
        let columns: Vec<String> = best.iter().map(|ms| format!("{ms:9.2}")).collect();
        println!("{files:>6} {}", columns.join(" "));
    }
}
