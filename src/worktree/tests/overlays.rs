//! Overlays mounted for real, in the sandbox: what a snapshot of the upper folder says against one of all that the command saw.

use std::os::unix::fs::MetadataExt;
use std::sync::atomic::AtomicBool;

use gix::bstr::BStr;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::*;
use crate::sandbox::{self, Adapter, Network, Policy};
use crate::worktree::{
    Layer, Lies, LinkedWorktree, Marks, Overlaid, Probe, SealOptions, Selection, digest_folder,
    is_nothing_but, reclaim_layers, snapshot_overlaid,
};

static NEVER: AtomicBool = AtomicBool::new(false);

/// Runs a script in the overlay of `upper`, with another writable folder beside it. `None` if there are no overlays here.
fn run(
    script: &str,
    upper: &Path,
    lower: &[PathBuf],
    work: &Path,
    marks: Marks,
    beside: &Path,
) -> Option<String> {
    let command = sandbox::Command {
        env: vec![("PATH".into(), "/usr/bin:/bin".into()), ("HOME".into(), beside.into())],
        overlay: Some(sandbox::Overlay {
            upper: upper.to_owned(),
            lower: lower.to_vec(),
            work: work.to_owned(),
            user_marks: marks == Marks::User,
        }),
        ..sandbox::Command::new(["bash", "-c", script], upper)
    };
    let policy = Policy {
        writable: vec![upper.to_owned(), beside.to_owned()],
        ..Policy::new(Adapter::Landlock, Network::Host)
    };
    match sandbox::run(&command, &policy, &NEVER) {
        Ok(outcome) => {
            let printed = [outcome.stdout.whole.unwrap(), outcome.stderr.whole.unwrap()].concat();
            Some(String::from_utf8(printed).unwrap())
        }
        Err(error) => {
            println!("no overlay here: {error}");
            None
        }
    }
}

/// The marks that work here: both for root, those of users in a user namespace. Where there must be some and are none, a
/// test fails.
fn all_marks() -> Vec<Marks> {
    let works = |marks: &Marks| {
        let temp = tempfile::tempdir().unwrap();
        let top = temp.path().canonicalize().unwrap();
        let probe = Probe::prepare(&top).unwrap();
        let beside = top.join("beside");
        fs::create_dir(&beside).unwrap();
        run(Probe::SCRIPT, &probe.upper, std::slice::from_ref(&probe.lower), &probe.work, *marks, &beside)
            .is_some()
            && probe.shows(*marks)
    };
    let all: Vec<Marks> = [Marks::Trusted, Marks::User].into_iter().filter(works).collect();
    if all.is_empty() {
        assert!(std::env::var_os("GIT_LOOP_CI").is_none(), "no overlays here");
        println!("skipped: this machine gives no overlay mounts");
    }
    all
}

/// One overlaid worktree.
struct Environment {
    linked: LinkedWorktree,
    overlaid: Overlaid,
    manifest: std::sync::Arc<Manifest>,
    work: PathBuf,
    beside: PathBuf,
}

impl Environment {
    fn new(sandbox: &Sandbox, layer: &Layer, rev: &str, marks: Marks, name: &str) -> Self {
        let repo = sandbox.open();
        let head = sandbox.id("HEAD");
        let linked =
            LinkedWorktree::create(&repo, &sandbox.places(), &format!("loop-{name}"), head, "test").unwrap();
        let tree = sandbox.id(rev);
        let (overlaid, manifest) =
            Overlaid::fill(&repo, layer, tree, linked.path(), marks, true, 10_000).unwrap().unwrap();
        let beside = sandbox.path(&format!("beside-{name}"));
        fs::create_dir(&beside).unwrap();
        let work = linked.make_work().unwrap();
        Self { linked, overlaid, manifest, work, beside }
    }

    fn run(&self, script: &str) -> String {
        let lower = self.overlaid.layers();
        run(script, self.linked.path(), &lower, &self.work, self.overlaid.marks(), &self.beside).unwrap()
    }

    /// A second command in the same worktree, which needs a working space of its own.
    fn run_again(&self, script: &str) -> String {
        crate::worktree::remove_all(&self.work).unwrap();
        fs::create_dir(&self.work).unwrap();
        self.run(script)
    }

    fn snapshot(&self, sandbox: &Sandbox) -> Snapshot {
        let repo = sandbox.open();
        let ignores = BaseIgnores::of(&repo, &self.manifest).unwrap();
        let options = SnapshotOptions::default();
        snapshot_overlaid(&repo, &self.manifest, &self.overlaid, &ignores, options).unwrap()
    }

    /// The snapshot of what the command saw, taken from a copy that it made.
    fn whole(&self, sandbox: &Sandbox) -> Snapshot {
        let repo = sandbox.open();
        let ignores = BaseIgnores::of(&repo, &self.manifest).unwrap();
        let options = SnapshotOptions { read_all: true, ..Default::default() };
        snapshot(&repo, &self.manifest, &self.beside.join("copy"), &ignores, options).unwrap()
    }
}

const COPY: &str = "cp -a . \"$HOME/copy\"";

/// A tree with a bit of everything.
fn base(sandbox: &Sandbox) {
    for path in ["a/f", "a/g", "a/c/f", "a/c/d/f", "b/f", "b/h", "c/d/e/f", "f", "g", "keep/log"] {
        sandbox.write(path, format!("{path}\n"));
    }
    sandbox.write(".gitignore", "*.log\n/out/\n!keep.log\n");
    sandbox.write("b/.gitignore", "ignored\n");
    sandbox.write("a/tracked.log", "tracked although it is ignored\n");
    sandbox.write("run.sh", "#!/bin/sh\necho ran\n");
    make_executable(&sandbox.path("repo/run.sh"));
    link("f", &sandbox.path("repo/l"));
    link("../../etc", &sandbox.path("repo/a/out-of-it"));
    sandbox.commit();
    // A submodule's link, which has an empty folder for it.
    let blob = sandbox.git(&["hash-object", "-w", "f"]);
    sandbox.git(&["update-index", "--add", "--cacheinfo", &format!("160000,{blob},sub")]);
    fs::create_dir_all(sandbox.path("repo/sub")).unwrap();
    sandbox.git(&["commit", "-q", "-m", "with a submodule"]);
}

fn layer(sandbox: &Sandbox, rev: &str) -> Layer {
    Layer::obtain(&sandbox.open(), &sandbox.places(), sandbox.id(rev), None).unwrap().unwrap()
}

fn any_path() -> impl Strategy<Value = String> {
    let name = prop::sample::select(vec![
        "a",
        "b",
        "c",
        "d",
        "e",
        "f",
        "g",
        "h",
        "l",
        "sub",
        "out",
        "x.log",
        "keep.log",
        "ignored",
        ".gitignore",
        "tracked.log",
        "run.sh",
        "out-of-it",
        "new one",
        ".git",
        "GIT~1",
        "ü",
    ]);
    prop::collection::vec(name, 1..4).prop_map(|names| names.join("/"))
}

/// One thing that a worker may do to its files.
fn any_edit() -> impl Strategy<Value = String> {
    let path = any_path;
    prop_oneof![
        // Whoever opens a FIFO waits for somebody at its other end.
        4 => (path(), 0..3u8).prop_map(|(p, n)| format!("[ -p '{p}' ] || echo {n} > '{p}'")),
        2 => path().prop_map(|p| format!("[ -p '{p}' ] || echo more >> '{p}'")),
        4 => path().prop_map(|p| format!("rm -rf './{p}'")),
        3 => path().prop_map(|p| format!("mkdir -p '{p}'")),
        5 => (path(), path()).prop_map(|(p, q)| format!("mv -T '{p}' '{q}'")),
        2 => (path(), path()).prop_map(|(p, q)| format!("mv '{p}' '{q}'")),
        1 => (path(), path()).prop_map(|(p, q)| format!("cp -a --remove-destination '{p}' '{q}'")),
        2 => (path(), path()).prop_map(|(p, q)| format!("ln '{p}' '{q}'")),
        1 => (path(), path()).prop_map(|(p, q)| format!("ln -s '{p}' '{q}'")),
        2 => path().prop_map(|p| format!("chmod +x '{p}'")),
        1 => path().prop_map(|p| format!("chmod 700 '{p}'")),
        1 => path().prop_map(|p| format!("touch '{p}'")),
        1 => path().prop_map(|p| format!("mkfifo '{p}'")),
        1 => path().prop_map(|p| format!("timeout 5 git init -q '{p}'")),
        1 => path().prop_map(|p| format!("truncate -s 0 '{p}'")),
        1 => (path(), path()).prop_map(|(p, q)| format!("rm -rf '{p}' && mkdir '{p}' && echo y > '{p}/{q}'")),
        1 => path().prop_map(|p| format!("mv '{p}' .t && mv .t '{p}'")),
    ]
}

fn script(edits: &[String]) -> String {
    let lines: Vec<String> = edits.iter().map(|edit| format!("{{ {edit}; }} 2>/dev/null")).collect();
    format!("{}\n{COPY}\n", lines.join("\n"))
}

#[test]
fn a_snapshot_of_the_changes_is_one_of_everything() {
    for marks in all_marks() {
        let sandbox = Sandbox::new();
        base(&sandbox);
        let layer = layer(&sandbox, "HEAD^{tree}");
        let number = std::cell::Cell::new(0);
        let config = Config { cases: 60, failure_persistence: None, ..Config::default() };
        TestRunner::new(config)
            .run(&prop::collection::vec(any_edit(), 1..14), |edits| {
                number.set(number.get() + 1);
                let name = format!("prop-{}", number.get());
                let fresh = Environment::new(&sandbox, &layer, "HEAD^{tree}", marks, &name);
                let printed = fresh.run(&script(&edits));
                let (quick, whole) = (fresh.snapshot(&sandbox), fresh.whole(&sandbox));
                prop_assert_eq!(&quick.violations, &whole.violations, "{}", printed);
                prop_assert_eq!(
                    quick.tree,
                    whole.tree,
                    "{:?} {:?}",
                    sandbox.list(quick.tree),
                    sandbox.list(whole.tree)
                );
                prop_assert_eq!(quick.stats.files, whole.stats.files);
                fresh.linked.remove().unwrap();
                Ok(())
            })
            .unwrap();
        // Nothing of one environment is in the next.
        let fresh = Environment::new(&sandbox, &layer, "HEAD^{tree}", marks, "last");
        fresh.run(COPY);
        assert_eq!(fresh.whole(&sandbox).tree, sandbox.id("HEAD^{tree}"));
        fresh.linked.remove().unwrap();
        let left: Vec<_> =
            fs::read_dir(sandbox.places()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["layers"], "{marks:?}");
    }
}

/// A layer that is a part of its tree: what is not in it stays, wherever what was there is moved to.
#[test]
fn a_snapshot_of_the_changes_to_a_part_is_one_of_everything() {
    for marks in all_marks() {
        let sandbox = Sandbox::new();
        base(&sandbox);
        let repo = sandbox.open();
        let whole = Manifest::read(&repo, sandbox.id("HEAD^{tree}"), true).unwrap();
        let part = Selection::new("part", whole, |path: &BStr| {
            path.starts_with(b"b") || path == "a/g" || path == "a/c/d/f" || path == "g" || path == "run.sh"
        });
        let tree = sandbox.id("HEAD^{tree}");
        let layer = Layer::obtain(&repo, &sandbox.places(), tree, Some(&part)).unwrap().unwrap();
        assert!(layer.path().join("a/g").exists() && !layer.path().join("a/f").exists());
        let number = std::cell::Cell::new(0);
        let config = Config { cases: 60, failure_persistence: None, ..Config::default() };
        TestRunner::new(config)
            .run(&prop::collection::vec(any_edit(), 0..14), |edits| {
                number.set(number.get() + 1);
                let name = format!("part-{}", number.get());
                let fresh = Environment::new(&sandbox, &layer, "HEAD^{tree}", marks, &name);
                let printed = fresh.run(&script(&edits));
                let (quick, whole) = (fresh.snapshot(&sandbox), fresh.whole(&sandbox));
                prop_assert_eq!(&quick.violations, &whole.violations, "{}", printed);
                prop_assert_eq!(
                    quick.tree,
                    whole.tree,
                    "{:?} {:?}",
                    sandbox.list(quick.tree),
                    sandbox.list(whole.tree)
                );
                prop_assert!(!edits.is_empty() || quick.tree == tree);
                fresh.linked.remove().unwrap();
                Ok(())
            })
            .unwrap();
    }
}

/// Takes a warm folder out of a worktree, as it is done before a candidate is made.
fn take(place: &Path, folder: &str) {
    let above = place.join(folder).parent().unwrap().to_owned();
    let plain = above.ancestors().take_while(|one| *one != place).all(|one| !one.is_symlink());
    if plain && above.is_dir() {
        crate::worktree::remove_all(&place.join(folder)).unwrap();
    }
}

/// One thing that a worker may do to its warm folders and what lies around them.
fn any_edit_of_warm_folders() -> impl Strategy<Value = String> {
    let path = || {
        let known =
            ["d", "d/a", "d/a/b", "d/f", "a/h", "a/h/d", "a", "b", "b/n", "e", "e/x.log", "n", "n/m", "c/d"];
        prop::sample::select(known.to_vec())
    };
    prop_oneof![
        6 => (path(), path()).prop_map(|(p, q)| format!("mv -T '{p}' '{q}'")),
        2 => (path(), path()).prop_map(|(p, q)| format!("mv '{p}' '{q}'")),
        2 => path().prop_map(|p| format!("rm -rf './{p}'")),
        2 => path().prop_map(|p| format!("mkdir -p '{p}'")),
        3 => path().prop_map(|p| format!("echo changed > '{p}/f'")),
        1 => path().prop_map(|p| format!("rm '{p}/f'")),
        1 => (path(), path()).prop_map(|(p, q)| format!("ln -s '{p}' '{q}'")),
    ]
}

/// Warm folders below the layer: none of it is in a candidate where it lies, all of it where the command has moved it.
#[test]
fn a_warm_folder_below_the_layer_is_as_good_as_a_copy() {
    for marks in all_marks().into_iter().filter(|marks| *marks == Marks::Trusted) {
        let sandbox = Sandbox::new();
        base(&sandbox);
        let layer = layer(&sandbox, "HEAD^{tree}");
        let warm = sandbox.places().join("warm");
        let folders = ["d", "a/h", "e/x.log"];
        for (path, content) in [
            ("d/f", "warm"),
            ("d/a/b/f", "warm"),
            ("d/a/c", "warm"),
            ("a/h/f", "warm"),
            ("a/h/d/g", "warm"),
            ("e/x.log/f", "warm"),
        ] {
            put(&warm, path, content);
        }
        link("f", &warm.join("d/l"));
        make_executable(&warm.join("a/h/f"));
        let names: Vec<gix::bstr::BString> = folders.iter().map(|folder| (*folder).into()).collect();
        assert!(is_nothing_but(&warm, &names).unwrap());
        let before = digest_folder(&warm).unwrap();
        let number = std::cell::Cell::new(0);
        let edit = prop_oneof![1 => any_edit(), 4 => any_edit_of_warm_folders()];
        let config = Config { cases: 150, failure_persistence: None, ..Config::default() };
        TestRunner::new(config)
            .run(&prop::collection::vec(edit, 0..10), |edits| {
                number.set(number.get() + 1);
                let name = format!("warm-{}", number.get());
                let mut fresh = Environment::new(&sandbox, &layer, "HEAD^{tree}", marks, &name);
                fresh.overlaid = fresh.overlaid.with_warm(&warm);
                let printed = fresh.run(&format!("cat d/f a/h/f e/x.log/f\n{}", script(&edits)));
                prop_assert!(printed.starts_with("warmwarmwarm"), "{}", printed);
                for folder in folders {
                    take(fresh.linked.path(), folder);
                    take(&fresh.beside.join("copy"), folder);
                }
                let (quick, whole) = (fresh.snapshot(&sandbox), fresh.whole(&sandbox));
                prop_assert_eq!(&quick.violations, &whole.violations, "{}", printed);
                prop_assert_eq!(
                    quick.tree,
                    whole.tree,
                    "{:?} {:?}",
                    sandbox.list(quick.tree),
                    sandbox.list(whole.tree)
                );
                fresh.linked.remove().unwrap();
                Ok(())
            })
            .unwrap();
        assert_eq!(digest_folder(&warm).unwrap(), before);
        put(&warm, "a/more", "not a part of any");
        assert!(!is_nothing_but(&warm, &names).unwrap());
    }
}

/// Any tree over the layer of any other: files, folders, links and submodules in each other's places.
#[test]
fn another_tree_than_the_layers_is_shown_as_it_is() {
    for marks in all_marks() {
        let sandbox = Sandbox::new();
        base(&sandbox);
        let layer = layer(&sandbox, "HEAD^{tree}");
        let number = std::cell::Cell::new(0);
        let config = Config { cases: 40, failure_persistence: None, ..Config::default() };
        let edits = (prop::collection::vec(any_edit(), 1..10), any::<bool>());
        TestRunner::new(config)
            .run(&edits, |(edits, edit_again)| {
                number.set(number.get() + 1);
                let first =
                    Environment::new(&sandbox, &layer, "HEAD^{tree}", marks, &format!("1-{}", number.get()));
                first.run(&script(&edits));
                let tree = first.snapshot(&sandbox).tree.to_string();
                first.linked.remove().unwrap();

                let second = Environment::new(&sandbox, &layer, &tree, marks, &format!("2-{}", number.get()));
                prop_assert_eq!(second.snapshot(&sandbox).tree.to_string(), tree.clone());
                // With the same edits once more on top of it, or none.
                second.run(&script(if edit_again { &edits } else { &[] }));
                let (quick, whole) = (second.snapshot(&sandbox), second.whole(&sandbox));
                prop_assert_eq!(&quick.violations, &whole.violations);
                prop_assert_eq!(quick.tree, whole.tree);
                if !edit_again {
                    prop_assert_eq!(whole.tree.to_string(), tree);
                }
                second.linked.remove().unwrap();
                Ok(())
            })
            .unwrap();
    }
}

#[test]
fn git_in_an_overlay_is_clean_and_need_not_read_a_file() {
    for marks in all_marks() {
        let sandbox = Sandbox::new();
        base(&sandbox);
        let layer = layer(&sandbox, "HEAD^{tree}");
        sandbox.write("a/g", "green\n");
        sandbox.write("new/file", "green\n");
        sandbox.git(&["rm", "-q", "-r", "c"]);
        let green = sandbox.commit();
        let fresh = Environment::new(&sandbox, &layer, "HEAD^{tree}", marks, "sealed");
        let options = SealOptions { cache: None, identity: Some(("w", "w@example.org")) };
        fresh.linked.seal(&sandbox.open(), green, &fresh.manifest, &options).unwrap();
        // The second looks at times and sizes only, and would name what git had to read.
        let printed = fresh.run("git diff-files --raw; git status --porcelain; git log --format=%s");
        assert_eq!(printed, "c\n", "{marks:?}");
        let printed = fresh.run_again("echo x >> a/f && git add -A && git commit -qm w && git status --porcelain && git log --format=%s");
        assert_eq!(printed, "w\nc\n");
        let tree = fresh.snapshot(&sandbox).tree;
        assert_eq!(
            sandbox.git(&["diff-tree", "-r", "--name-only", &green.to_string(), &tree.to_string()]),
            "a/f"
        );
    }
}

#[test]
fn what_lies_below_cannot_be_changed_or_reached() {
    for marks in all_marks() {
        let sandbox = Sandbox::new();
        base(&sandbox);
        let first = layer(&sandbox, "HEAD^{tree}");
        let inode = |layer: &Layer| fs::metadata(layer.path().join("f")).unwrap().ino();
        let before = inode(&first);
        let fresh = Environment::new(&sandbox, &first, "HEAD^{tree}", marks, "hostile");
        let lower = first.path().display();
        let printed = fresh.run(&format!(
            "ls '{lower}' && echo reached; ls '{work}' && echo reached
             for f in f a/f run.sh; do echo evil > $f; chmod 777 $f; touch $f; done
             mount -o remount,rw . && echo remounted; umount . && echo unmounted
             mknod whiteout c 0 0 && echo made; setfattr -n trusted.overlay.opaque -v y a && echo marked
             setfattr -n user.overlay.redirect -v /c a && echo marked
             exec 3<g; echo evil > /proc/self/fd/3; rm -rf b; {COPY}",
            work = fresh.work.display(),
        ));
        for word in ["reached", "remounted", "unmounted", "made", "marked"] {
            assert!(!printed.lines().any(|line| line == word), "{marks:?}: {printed}");
        }
        assert_eq!(fresh.snapshot(&sandbox).tree, fresh.whole(&sandbox).tree);
        fresh.linked.remove().unwrap();
        // Found intact, it is not made again.
        drop(first);
        let again = layer(&sandbox, "HEAD^{tree}");
        assert_eq!(inode(&again), before);
        assert_eq!(fs::read(again.path().join("g")).unwrap(), b"g\n");
    }
}

#[test]
fn files_are_found_where_the_command_left_them() {
    for marks in all_marks() {
        let sandbox = Sandbox::new();
        base(&sandbox);
        let layer = layer(&sandbox, "HEAD^{tree}");
        let fresh = Environment::new(&sandbox, &layer, "HEAD^{tree}", marks, "found");
        fresh.run(
            "echo new > a/c/d/n; rm a/f; rm -r b; mkdir b; mv c moved; rm -r keep; ln -s a keep; chmod +x g",
        );
        let find = |path: &str| fresh.overlaid.find(path.into()).unwrap();
        let id = sandbox.id("HEAD:a/c/d/f");
        assert!(matches!(find("a/c/d/f"), Lies::Untouched(_, found) if *found == id));
        assert_eq!(find("a/c/d/n"), Lies::Changed(fresh.linked.path().join("a/c/d/n")));
        assert_eq!(find("g"), Lies::Changed(fresh.linked.path().join("g")));
        for path in ["a/f", "b/f", "c/d/e/f", "moved/d/e/none", "keep/log", "keep/g", "f/x", "none", "none/x"]
        {
            assert_eq!(find(path), Lies::Nowhere, "{path}");
        }
    }
}

#[test]
fn a_layer_that_was_tampered_with_is_made_again() {
    let sandbox = Sandbox::new();
    base(&sandbox);
    let tree = sandbox.id("HEAD^{tree}");
    let changes: [&dyn Fn(&Path); 8] = [
        &|path| fs::write(path.join("f"), "F\n").unwrap(),
        &|path| fs::remove_file(path.join("a/f")).unwrap(),
        &|path| fs::write(path.join("a/more"), "").unwrap(),
        &|path| fs::create_dir(path.join("empty")).unwrap(),
        &|path| make_executable(&path.join("g")),
        &|path| {
            fs::remove_file(path.join("l")).unwrap();
            link("g", &path.join("l"));
        },
        &|path| fs::write(path.join("sub/x"), "").unwrap(),
        &|path| {
            fs::remove_dir_all(path).unwrap();
            link("/etc", path);
        },
    ];
    for change in changes {
        let path = layer(&sandbox, "HEAD^{tree}").path().to_owned();
        change(&path);
        let again = layer(&sandbox, "HEAD^{tree}");
        assert_eq!(again.path(), path);
        let manifest = Manifest::read(&sandbox.open(), tree, false).unwrap();
        let taken = sandbox.snapshot(&path, &manifest);
        assert_eq!((taken.tree, taken.violations.len()), (tree, 0));
        assert!(!path.join("empty").exists());
    }
}

#[test]
fn loops_on_one_base_share_its_layer_and_do_not_wait_for_each_other() {
    let sandbox = Sandbox::new();
    base(&sandbox);
    let inodes: Vec<u64> = std::thread::scope(|scope| {
        let start = || {
            scope.spawn(|| {
                let layer = layer(&sandbox, "HEAD^{tree}");
                (fs::metadata(layer.path().join("f")).unwrap().ino(), layer)
            })
        };
        let threads: Vec<_> = (0..6).map(|_| start()).collect();
        // All of them hold theirs until the last has one.
        let held: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        held.iter().map(|(inode, _)| *inode).collect()
    });
    assert!(inodes.iter().all(|inode| *inode == inodes[0]), "{inodes:?}");

    // One that is damaged and in use is neither used nor taken away from under those who use it.
    let held = layer(&sandbox, "HEAD^{tree}");
    fs::write(held.path().join("f"), "damaged\n").unwrap();
    assert!(
        Layer::obtain(&sandbox.open(), &sandbox.places(), sandbox.id("HEAD^{tree}"), None).unwrap().is_none()
    );
    assert_eq!(fs::read(held.path().join("f")).unwrap(), b"damaged\n");
}

/// Field report 2.26: what is kept is bounded, what is in use stays, and what a killed process left half made goes.
#[test]
fn layers_are_bounded_and_those_in_use_are_left_alone() {
    let sandbox = Sandbox::new();
    let mut held = None;
    for number in 0..7 {
        sandbox.write("f", number.to_string());
        sandbox.commit();
        let layer = layer(&sandbox, "HEAD^{tree}");
        if number == 0 {
            held = Some(layer);
        }
    }
    let all = sandbox.path("places/layers");
    let count = |end: &str| {
        let entries = fs::read_dir(&all).unwrap().map(|entry| entry.unwrap().file_name());
        entries.filter(|name| name.to_str().unwrap().ends_with(end)).count()
    };
    // Four that nobody uses, the one in use, and the last, which was in use as the others were looked at.
    assert_eq!((count(".lock"), count("")), (6, 12));
    let held = held.unwrap();
    assert!(held.path().join("f").exists());
    let name = "0".repeat(40);
    fs::create_dir(all.join(format!("{name}.part"))).unwrap();
    fs::write(all.join(format!("{name}.lock")), "").unwrap();
    let would = reclaim_layers(&sandbox.places(), true).unwrap();
    assert_eq!((would.len(), count(".lock")), (6, 7));
    assert_eq!(reclaim_layers(&sandbox.places(), false).unwrap(), would);
    assert_eq!((count(".lock"), count(".part"), count("")), (1, 0, 2));
    assert!(held.path().join("f").exists());
}
