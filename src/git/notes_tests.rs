use std::fmt::Write as _;

use super::*;
use crate::git::testing::TestRepo;
use crate::git::{Expect, LoopId, RefChange};

const NOTES: &str = "refs/notes/loops/fix";

/// Made-up objects to annotate: notes need not be about anything that exists.
fn target(repo: &Repo, n: usize) -> ObjectId {
    gix::objs::compute_hash(repo.hash_kind(), Kind::Blob, format!("target {n}").as_bytes()).unwrap()
}

fn append(repo: &TestRepo, open: &Repo, tip: Option<ObjectId>, target: ObjectId, line: &str) -> ObjectId {
    open.append_note_line(tip, target, line, &repo.signature(), Durability::Fast).unwrap()
}

fn set_notes(repo: &TestRepo, open: &Repo, tip: ObjectId) {
    let name = LoopId::new("fix").unwrap().refs().notes();
    let change = RefChange { name, expect: Expect::Any, to: Some(tip), message: "notes".into() };
    open.update_refs(&[change], &repo.signature(), Durability::Fast).unwrap();
}

#[test]
fn git_shows_what_we_write() {
    for format in ["sha1", "sha256"] {
        let repo = TestRepo::with(&[&format!("--object-format={format}")]);
        let (open, head) = (repo.open(), repo.id("HEAD"));
        let first = append(&repo, &open, None, head, "{\"n\":1}");
        let second = append(&repo, &open, Some(first), head, "{\"n\":2}");
        assert_eq!(
            append(&repo, &open, Some(second), head, "{\"n\":1}"),
            second,
            "a known line changes nothing"
        );
        set_notes(&repo, &open, second);
        assert_eq!(repo.git(["notes", "--ref=loops/fix", "show", "HEAD"]), "{\"n\":1}\n{\"n\":2}\n");
        let log = repo.git(["log", "--notes=loops/fix", "-1"]);
        assert!(log.contains("Notes (loops/fix):\n    {\"n\":1}\n    {\"n\":2}\n"), "{log}");
        assert_eq!(repo.git(["log", "--format=%an %ae %at", NOTES]).lines().count(), 2);
        assert_eq!(open.read_note_lines(Some(second), head).unwrap(), ["{\"n\":1}", "{\"n\":2}"]);
        assert_eq!(open.read_note_lines(None, head).unwrap(), Vec::<String>::new());
        repo.git(["fsck", "--strict"]);
    }
}

/// Writes `count` notes with git, quickly: by one fast-import, which chooses the fan-out as `git notes` does.
fn notes_by_git(repo: &TestRepo, open: &Repo, numbers: std::ops::Range<usize>) {
    let mut stream = format!("commit {NOTES}\ncommitter Git <git@example.org> 1700000000 +0000\ndata 0\n");
    if repo.try_git(["rev-parse", "-q", "--verify", NOTES]).status.success() {
        let _ = writeln!(stream, "from {NOTES}^0");
    }
    for n in numbers {
        // fast-import only annotates commits that exist; `M` takes any path.
        let line = format!("by git {n}\n");
        let hex = target(open, n).to_string();
        let _ = write!(stream, "M 644 inline {}/{}\ndata {}\n{line}\n", &hex[..2], &hex[2..], line.len());
    }
    repo.git_with_input(["fast-import", "--quiet", "--force"], stream);
}

#[test]
fn we_append_to_what_git_fanned_out_and_git_reads_it() {
    let repo = TestRepo::new();
    let open = repo.open();
    // Real `git notes`, on real commits, until it fans out by itself.
    let mut stream = String::new();
    for n in 0..320 {
        let _ = write!(
            stream,
            "commit refs/heads/many\ncommitter C <c@example.org> {} +0000\ndata 1\nx\n",
            1_700_000_000 + n
        );
    }
    repo.git_with_input(["fast-import", "--quiet", "--force"], stream);
    let commits: Vec<ObjectId> =
        repo.git(["rev-list", "many"]).lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(commits.len(), 320);
    let blob = repo.git_with_input(["hash-object", "-w", "--stdin"], "by git\n");
    let mut copies = String::new();
    repo.git(["notes", "--ref=loops/fix", "add", "-C", blob.trim(), &commits[0].to_string()]);
    for commit in &commits[1..300] {
        let _ = writeln!(copies, "{} {commit}", commits[0]);
    }
    repo.git_with_input(["notes", "--ref=loops/fix", "copy", "--stdin"], copies);
    let mut tip = repo.id(NOTES);
    let fanned = repo.git(["ls-tree", "--name-only", NOTES]);
    assert!(fanned.lines().all(|name| name.len() == 2), "git fanned out: {fanned}");

    for commit in &commits[290..] {
        tip = append(&repo, &open, Some(tip), *commit, "by us");
    }
    set_notes(&repo, &open, tip);
    let names = repo.git(["ls-tree", "--name-only", NOTES]);
    assert!(names.lines().all(|name| name.len() == 2), "the style is kept: {names}");
    for (n, commit) in commits.iter().enumerate() {
        let expected = match n {
            0..290 => "by git\n",
            290..300 => "by git\nby us\n",
            _ => "by us\n",
        };
        assert_eq!(open.read_note_lines(Some(tip), *commit).unwrap().join("\n") + "\n", expected);
    }
    assert_eq!(repo.git(["notes", "--ref=loops/fix", "list"]).lines().count(), 320);
    assert_eq!(repo.git(["notes", "--ref=loops/fix", "show", &commits[295].to_string()]), "by git\nby us\n");
    assert_eq!(open.list_notes(Some(tip)).unwrap().len(), 320);
    // And git goes on with ours.
    repo.git(["notes", "--ref=loops/fix", "append", "-m", "again", &commits[310].to_string()]);
    let lines = open.read_note_lines(Some(repo.id(NOTES)), commits[310]).unwrap();
    assert_eq!(lines, ["by us", "again"]);
    repo.git(["fsck", "--strict"]);
}

#[test]
fn git_reads_hundreds_that_we_wrote() {
    let repo = TestRepo::new();
    let open = repo.open();
    let mut tip = None;
    for n in 0..400 {
        tip = Some(append(&repo, &open, tip, target(&open, n), &format!("line {n}")));
        if n == MAX_FLAT - 1 {
            let tree = open.notes_tree(tip.unwrap()).unwrap();
            assert!(
                open.read_tree(tree).unwrap().iter().all(|entry| entry.name.len() == 40),
                "flat while small"
            );
        }
    }
    let tip = tip.unwrap();
    set_notes(&repo, &open, tip);
    let root = open.read_tree(open.notes_tree(tip).unwrap()).unwrap();
    assert!(root.iter().all(|entry| entry.mode == EntryKind::Tree && entry.name.len() == 2));
    let listed = repo.git(["notes", "--ref=loops/fix", "list"]);
    assert_eq!(listed.lines().count(), 400);
    for n in 0..400 {
        let target = target(&open, n);
        assert_eq!(open.read_note_lines(Some(tip), target).unwrap(), [format!("line {n}")]);
        assert!(listed.contains(&target.to_string()));
    }
    repo.git(["fsck", "--strict"]);
}

#[test]
fn many_notes_stay_cheap() {
    let repo = TestRepo::new();
    let open = repo.open();
    notes_by_git(&repo, &open, 0..3000);
    let mut tip = repo.id(NOTES);
    let before = loose_bytes(&repo);
    for n in 3000..3050 {
        tip = append(&repo, &open, Some(tip), target(&open, n), "line");
    }
    let each = (loose_bytes(&repo) - before) / 50;
    assert!(each < 16 * 1024, "{each} bytes for each note");
    assert_eq!(open.read_note_lines(Some(tip), target(&open, 7)).unwrap(), ["by git 7"]);
    assert_eq!(open.list_notes(Some(tip)).unwrap().len(), 3050);
}

fn loose_bytes(repo: &TestRepo) -> u64 {
    let folders = std::fs::read_dir(repo.path().join(".git/objects")).unwrap();
    let folders = folders.map(|entry| entry.unwrap()).filter(|entry| entry.file_name().len() == 2);
    let files = folders.flat_map(|folder| std::fs::read_dir(folder.path()).unwrap());
    files.map(|file| file.unwrap().metadata().unwrap().len()).sum()
}

#[test]
fn any_mixture_of_fan_outs_is_read_and_what_others_wrote_stays() {
    let repo = TestRepo::new();
    let open = repo.open();
    let blob = |text: &str| open.write_raw(Kind::Blob, text.as_bytes(), Durability::Fast).unwrap();
    let hexes: Vec<_> = (0..3).map(|n| target(&open, n).to_string()).collect();
    let path = |hex: &str, levels: usize| {
        let mut parts: Vec<_> = (0..levels).map(|n| &hex[2 * n..2 * n + 2]).collect();
        parts.push(&hex[2 * levels..]);
        parts.join("/")
    };
    let mut builder = TreeBuilder::empty();
    let mut put = |path: &str, text: &str| {
        builder.upsert(&open, path.into(), EntryKind::Blob, blob(text)).unwrap();
    };
    put(&path(&hexes[0], 0), "flat, without a line break");
    put(&path(&hexes[1], 1), "one\n\none\r\n  \ntwo\n");
    put(&path(&hexes[1], 3), "two\nthree\n");
    put(&path(&hexes[2], 2), "deep\n");
    put("README", "not a note\n");
    put("zz/file", "not a note either\n");
    let tree = builder.write(&open, Durability::Fast).unwrap();
    let who = repo.signature();
    let commit = format!("tree {tree}\nauthor {who}\ncommitter {who}\n\n");
    let tip = open.write_raw(Kind::Commit, commit.as_bytes(), Durability::Fast).unwrap();
    let read = |tip, n| open.read_note_lines(Some(tip), target(&open, n)).unwrap();
    assert_eq!(read(tip, 0), ["flat, without a line break"]);
    assert_eq!(read(tip, 1), ["one", "two", "three"], "blank and repeated lines are dropped");
    assert_eq!(read(tip, 2), ["deep"]);
    assert_eq!(append(&repo, &open, Some(tip), target(&open, 1), "three"), tip);

    let mut next = tip;
    for n in 0..3 {
        next = append(&repo, &open, Some(next), target(&open, n), "ours");
    }
    assert_eq!(read(next, 0), ["flat, without a line break", "ours"]);
    assert_eq!(read(next, 1), ["one", "two", "ours", "three"]);
    assert_eq!(read(next, 2), ["deep", "ours"]);
    let after = open.list_tree_recursive(open.notes_tree(next).unwrap()).unwrap();
    let before = open.list_tree_recursive(tree).unwrap();
    assert_eq!(
        after.iter().map(|entry| &entry.path).collect::<Vec<_>>(),
        before.iter().map(|entry| &entry.path).collect::<Vec<_>>(),
        "every note and every other file is where it was"
    );
    assert_eq!(open.list_notes(Some(next)).unwrap().len(), 4);
}

#[test]
fn lines_that_are_none_are_refused() {
    let repo = TestRepo::new();
    let (open, head) = (repo.open(), repo.id("HEAD"));
    for line in ["", "  ", "a\nb", "a\r", "a\0b"] {
        let result = open.append_note_line(None, head, line, &repo.signature(), Durability::Fast);
        assert!(matches!(result, Err(NotesError::NotALine)), "{line:?}");
    }
    let tree = repo.id("HEAD^{tree}");
    let result = open.append_note_line(Some(tree), head, "x", &repo.signature(), Durability::Fast);
    assert!(matches!(result, Err(NotesError::NotACommit { .. })));
}

/// Field report 2.35.
#[test]
fn an_unfinished_merge_of_these_notes_blocks() {
    let repo = TestRepo::new();
    let (open, name) = (repo.open(), LoopId::new("fix").unwrap().refs().notes());
    let other = LoopId::new("other").unwrap().refs().notes();
    repo.git(["notes", "--ref=loops/fix", "add", "-m", "ours"]);
    repo.git(["notes", "--ref=theirs", "add", "-m", "theirs"]);
    open.check_no_notes_merge(name.as_ref()).unwrap();
    let merge = repo.try_git(["notes", "--ref=loops/fix", "merge", "-s", "manual", "refs/notes/theirs"]);
    assert!(!merge.status.success());
    let error = open.check_no_notes_merge(name.as_ref()).unwrap_err();
    assert!(error.to_string().starts_with("a merge of refs/notes/loops/fix is not finished: "), "{error}");
    assert!(crate::error::Error::from(error).hints()[0].ends_with("git notes merge --abort"));
    open.check_no_notes_merge(other.as_ref()).unwrap();
    repo.git(["notes", "--ref=loops/fix", "merge", "--abort"]);
    open.check_no_notes_merge(name.as_ref()).unwrap();
    // Without the file that says which ref it is about, it may be about any.
    let worktree = repo.path().join(".git/NOTES_MERGE_WORKTREE");
    std::fs::create_dir_all(&worktree).unwrap();
    open.check_no_notes_merge(name.as_ref()).unwrap();
    std::fs::write(worktree.join("x"), "").unwrap();
    assert!(matches!(open.check_no_notes_merge(name.as_ref()), Err(NotesError::MergeInProgress { .. })));
}
