//! What a worker can do, and see, in a sealed repository.

use std::fs;

use super::*;
use crate::worktree::{LinkedWorktree, SealOptions};

struct Sealed {
    sandbox: Sandbox,
    worktree: LinkedWorktree,
    manifest: Manifest,
    secret: ObjectId,
}

fn sealed(format: &str, files: usize, cache: bool) -> Sealed {
    let sandbox = Sandbox::with(&[format]);
    sandbox.write("old-secret", "the answer\n");
    let secret = sandbox.commit();
    fs::remove_file(sandbox.path("repo/old-secret")).unwrap();
    sandbox.write("a.txt", "a\r\n");
    sandbox.write(".gitattributes", "*.txt text eol=lf\n");
    for number in 0..files {
        sandbox.write(&format!("d{}/f{number}", number % 9), format!("{number}\n"));
    }
    link("a.txt", &sandbox.path("repo/link"));
    fs::write(sandbox.path("repo/.git/info/attributes"), "* -text\n").unwrap();
    sandbox.commit();
    sandbox.git(&["branch", "hidden", "HEAD~1"]);
    let (worktree, manifest) = seal(&sandbox, "loop-sealed-1", cache);
    Sealed { sandbox, worktree, manifest, secret }
}

fn seal(sandbox: &Sandbox, name: &str, cache: bool) -> (LinkedWorktree, Manifest) {
    let repo = sandbox.open();
    let base = sandbox.id("HEAD");
    let worktree = LinkedWorktree::create(&repo, &sandbox.places(), name, base, "").unwrap();
    let (manifest, _) =
        checkout(&repo, sandbox.id("HEAD^{tree}"), worktree.path(), CheckoutOptions::default()).unwrap();
    let cache = cache.then(|| sandbox.path("home"));
    let options = SealOptions { cache: cache.as_deref(), identity: Some(("wor\"ker", "worker@example.org")) };
    worktree.seal(&repo, base, &manifest, &options).unwrap();
    (worktree, manifest)
}

#[test]
fn git_works_inside_and_sees_the_base_commit_only() {
    for format in ["--object-format=sha1", "--object-format=sha256"] {
        let Sealed { sandbox, worktree, secret, .. } = sealed(format, 20, false);
        let head = sandbox.id("HEAD").to_string();
        let place = worktree.path();
        let inside = |args: &[&str]| sandbox.git_in(place, args);
        assert_eq!(inside(&["status", "--porcelain"]), "");
        assert_eq!(inside(&["log", "--format=%H"]), head);
        inside(&["fsck", "--full", "--strict"]);
        inside(&["verify-pack", &format!(".git/objects/pack/pack-{head}.idx")]);
        // Everything there is, is what the commit needs.
        let all = inside(&["cat-file", "--batch-all-objects", "--batch-check=%(objectname)"]);
        let mut needed: Vec<String> = inside(&["rev-list", "--objects", "--no-object-names", "HEAD"])
            .lines()
            .map(ToOwned::to_owned)
            .collect();
        needed.sort();
        needed.dedup();
        assert_eq!(all.lines().collect::<Vec<_>>(), needed);
        assert!(!sandbox.command(place, &["cat-file", "-e", &secret.to_string()]).status.success());
        assert_eq!(inside(&["for-each-ref", "--format=%(refname)"]), "refs/heads/loop");
        assert_eq!(inside(&["remote"]), "");

        // A second later git believes the index; either way nothing is shown that is not so.
        assert_eq!(inside(&["diff", "--name-only"]), "");
        fs::write(place.join("d1/f1"), "changed\n").unwrap();
        put(place, "new", "n\n");
        assert_eq!(inside(&["diff", "--stat", "--format="]).lines().count(), 2);
        inside(&["add", "-A"]);
        // The worker's own identity, from the sealed config: the environment has none here.
        let output = Command::new("git")
            .args(["commit", "-q", "-m", "work"])
            .current_dir(place)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", sandbox.path("home"))
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(inside(&["log", "--format=%an"]).lines().next(), Some("wor\"ker"));
        assert_eq!(inside(&["log", "--format=%H"]).lines().count(), 2);
        inside(&["checkout", "-q", "HEAD~1", "--", "d1/f1"]);
        inside(&["stash", "-q"]);
        inside(&["checkout", "-q", "-b", "elsewhere", "HEAD~1"]);
        inside(&["gc", "-q", "--prune=now"]);
        inside(&["fsck", "--full", "--strict"]);

        // The registration is that of any worktree, and the real repository did not change.
        assert!(sandbox.git(&["worktree", "list"]).contains("loop-sealed-1"));
        sandbox.git(&["worktree", "prune", "--expire=now"]);
        sandbox.git(&["gc", "-q", "--prune=now"]);
        assert!(sandbox.git(&["worktree", "list"]).contains("loop-sealed-1"));
        assert_eq!(
            sandbox.git(&["for-each-ref", "--format=%(refname)"]),
            "refs/heads/hidden\nrefs/heads/main"
        );
        worktree.remove().unwrap();
        assert_eq!(sandbox.git(&["worktree", "list"]).lines().count(), 1);
    }
}

#[test]
fn a_large_base_is_packed_once_and_copied_then() {
    let Sealed { sandbox, worktree, .. } = sealed("--object-format=sha1", 900, true);
    let head = sandbox.id("HEAD");
    let kept = sandbox.path("home").join(format!("base-{head}.pack"));
    assert!(kept.exists());
    // A worker may do to its copy what it likes.
    let pack = worktree.path().join(format!(".git/objects/pack/pack-{head}.pack"));
    fs::write(&pack, "garbage").unwrap();
    let (second, _) = seal(&sandbox, "loop-sealed-2", true);
    sandbox.git_in(second.path(), &["fsck", "--full", "--strict"]);
    assert_eq!(sandbox.git_in(second.path(), &["status", "--porcelain"]), "");

    // Old packs do not pile up.
    for number in 0..4 {
        sandbox.write("a.txt", format!("{number}"));
        sandbox.commit();
        let (worktree, _) = seal(&sandbox, &format!("loop-more-{number}"), true);
        sandbox.git_in(worktree.path(), &["fsck", "--full", "--strict"]);
    }
    let packs = fs::read_dir(sandbox.path("home")).unwrap().count();
    assert!(packs <= 4, "{packs} files in the cache");
}

/// Whatever a worker does to index, `HEAD`, branches or ignore files: the snapshot is of the files.
#[test]
fn games_in_the_sealed_repository_change_no_snapshot() {
    let Sealed { sandbox, worktree, manifest, .. } = sealed("--object-format=sha1", 20, false);
    let place = worktree.path();
    let expected = sandbox.snapshot(place, &manifest).tree;
    assert_eq!(expected, sandbox.id("HEAD^{tree}"));
    let inside = |args: &[&str]| sandbox.git_in(place, args);
    let marker = sandbox.path("MARKER");
    inside(&["update-index", "--assume-unchanged", "d1/f1"]);
    inside(&["update-index", "--skip-worktree", "d2/f2"]);
    inside(&["rm", "-q", "--cached", "d3/f3"]);
    inside(&["config", "core.worktree", "/"]);
    inside(&["config", "core.fsmonitor", &format!("touch '{}'", marker.display())]);
    inside(&["config", "core.excludesFile", "/etc/passwd"]);
    fs::write(place.join(".git/info/exclude"), "*\n").unwrap();
    fs::write(place.join(".git/info/attributes"), "* filter=evil text\n").unwrap();
    assert_eq!(sandbox.snapshot(place, &manifest).tree, expected);
    fs::remove_file(place.join(".git/config")).unwrap();
    inside(&["commit", "-q", "--allow-empty", "-m", "x"]);
    assert_eq!(sandbox.snapshot(place, &manifest).tree, expected);
    // A candidate is made even if there is no repository any more, or a link to the real one.
    fs::remove_dir_all(place.join(".git")).unwrap();
    assert_eq!(sandbox.snapshot(place, &manifest).tree, expected);
    symlink(sandbox.path("repo/.git"), place.join(".git")).unwrap();
    assert_eq!(sandbox.snapshot(place, &manifest).tree, expected);
    assert!(!marker.exists());
    worktree.remove().unwrap();
    assert!(sandbox.path("repo/.git/HEAD").exists());
}
