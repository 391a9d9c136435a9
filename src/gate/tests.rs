use std::slice::from_ref;

use gix::bstr::BStr;

use super::testing::{FILE, Lab, judge_by_tripwire, open_at, told};
use super::*;

const CONTENT: &str = "fix src/a.rs unpromoted_content";
const CHANGE: &str = "fix src/a.rs unpromoted_change";

/// Makes a branch at `main` whose `src/a.rs` has other edits, and checks it out.
fn other_branch(lab: &Lab) {
    lab.git(&["checkout", "-q", "-b", "other", "main"]);
    lab.edit("src/a.rs", "fn one() {\n    1\n", "fn zero() {}\n\nfn one() {\n    let x = 1;\n    x\n");
    lab.edit("src/a.rs", "    4\n", "    4 + 0\n");
    lab.commit("other edits in the same file");
}

#[test]
fn the_candidate_itself_is_refused() {
    for sha256 in [false, true] {
        let lab = Lab::with(sha256);
        let fix = lab.a_loop();
        let last = fix.candidates[2].id.to_string();
        let verdict = lab.push(from_ref(&fix), &[&format!("{last}:refs/heads/main")]);
        assert_eq!(told(&verdict), [CONTENT, CONTENT], "one for each of the two commits");
        assert_eq!(verdict.commits, 2);
        assert_eq!(verdict.refusals[1].commit.as_deref(), Some(&*last));
        assert!(verdict.refusals[1].reason.contains("iteration 3"), "{:?}", verdict.refusals[1]);
        assert_eq!(told(&lab.push(from_ref(&fix), &[&format!("{last}:refs/heads/new")])).len(), 2);
    }
}

#[test]
fn a_squash_is_refused_of_the_whole_and_of_a_part() {
    let lab = Lab::new();
    let fix = lab.a_loop();
    lab.git(&["checkout", "-q", "-b", "squashed", "main"]);
    lab.git(&["merge", "-q", "--squash", &fix.candidates[2].id.to_string()]);
    lab.edit("docs/note.md", "a note", "another note");
    lab.commit("all at once, with something else");
    assert_eq!(told(&lab.push(from_ref(&fix), &["squashed"])), [CONTENT]);

    other_branch(&lab);
    lab.git(&["cherry-pick", "-n", &fix.candidates[0].id.to_string(), &fix.candidates[2].id.to_string()]);
    lab.commit("two iterations as one, on other edits");
    assert_eq!(told(&lab.push(from_ref(&fix), &["other"])), [CHANGE]);
}

#[test]
fn a_cherry_pick_onto_other_edits_of_the_file_is_refused() {
    for sha256 in [false, true] {
        let lab = Lab::with(sha256);
        let fix = lab.a_loop();
        for candidate in [&fix.candidates[0], &fix.candidates[2]] {
            lab.git(&["branch", "-f", "-q", "other", "main"]);
            lab.git(&["branch", "-D", "-q", "other"]);
            other_branch(&lab);
            lab.git(&["cherry-pick", &candidate.id.to_string()]);
            let verdict = lab.push(from_ref(&fix), &["other"]);
            assert_eq!(told(&verdict), [CHANGE]);
            assert!(verdict.refusals[0].reason.contains(&format!("iteration {}", candidate.iteration)));
            lab.git(&["checkout", "-q", "main"]);
        }
    }
}

#[test]
fn a_rebase_is_refused() {
    let lab = Lab::new();
    let fix = lab.a_loop();
    other_branch(&lab);
    lab.git(&["checkout", "-q", "-b", "rebased", &fix.candidates[2].id.to_string()]);
    lab.git(&["rebase", "-q", "other"]);
    assert_eq!(told(&lab.push(from_ref(&fix), &["rebased"])), [CHANGE, CHANGE]);
}

#[test]
fn what_the_loop_did_not_do_passes() {
    let lab = Lab::new();
    let fix = lab.a_loop();
    other_branch(&lab);
    lab.git(&["mv", "src/b.rs", "src/c.rs"]);
    lab.commit("unrelated");
    let verdict = lab.push(from_ref(&fix), &["other"]);
    assert!(verdict.is_allowed(), "{verdict:?}");
    assert_eq!(verdict.commits, 2);
    // An edited copy is out of reach, and the docs say so.
    lab.edit("src/a.rs", "    2\n", "    two_from_the_loop() + 0\n");
    lab.commit("edited copy");
    assert!(lab.push(from_ref(&fix), &["other"]).is_allowed());
}

#[test]
fn rejected_candidates_count() {
    let lab = Lab::new();
    let fix = lab.a_loop();
    lab.write("src/new.rs", "fn rejected() {}\n");
    lab.commit("by hand, but the very content");
    assert_eq!(told(&lab.push(from_ref(&fix), &["main"])), ["fix src/new.rs unpromoted_content"]);
    lab.write("src/new.rs", "fn rejected()\t{}\r\n\r\n");
    lab.git(&["commit", "-q", "-a", "--amend", "-m", "only white space differs"]);
    assert_eq!(told(&lab.push(from_ref(&fix), &["main"])), ["fix src/new.rs unpromoted_change"]);
}

#[test]
fn promoted_and_released_loops_and_other_classes_pass() {
    let lab = Lab::new();
    let fix = lab.a_loop();
    let tip = fix.candidates[2].id;
    let spec = format!("{tip}:refs/heads/main");
    let with = |standing, lasting| [LoopContent { lasting, standing, ..fix.clone() }];
    for loops in
        [with(Standing::Promoted(tip), true), with(Standing::Released, true), with(Standing::Open, false)]
    {
        assert!(lab.push(&loops, &[&spec]).is_allowed());
    }
    // Field report 2.56: the commits on the way to a promoted one are covered, one more that is not is not.
    lab.git(&["checkout", "-q", "-b", "more", &tip.to_string()]);
    let open = lab.loop_of("second", || lab.write("src/second.rs", "fn second() {}\n"));
    lab.git(&["checkout", "-q", "more"]);
    lab.git(&["cherry-pick", &open.candidates[0].id.to_string()]);
    let loops = [with(Standing::Promoted(tip), true)[0].clone(), open];
    assert_eq!(told(&lab.push(&loops, &["more"])), ["second src/second.rs unpromoted_content"]);
}

/// What another loop promoted is free, and only that: not what it tried and rejected.
#[test]
fn content_of_a_promoted_loop_does_not_count() {
    let lab = Lab::new();
    let fix = lab.a_loop();
    let twin = LoopContent {
        id: "twin".to_owned(),
        standing: Standing::Promoted(fix.candidates[2].id),
        ..fix.clone()
    };
    let loops = [fix.clone(), twin];
    other_branch(&lab);
    lab.git(&["cherry-pick", &fix.candidates[0].id.to_string()]);
    lab.git(&["cherry-pick", &fix.candidates[2].id.to_string()]);
    assert!(lab.push(&loops, &[&format!("{}:refs/heads/x", fix.candidates[2].id), "other"]).is_allowed());
    let rejected = format!("{}:refs/heads/x", fix.candidates[1].id);
    assert_eq!(told(&lab.push(&loops, &[&rejected])), ["fix src/new.rs unpromoted_content"]);
}

#[test]
fn content_of_the_base_and_empty_files_do_not_count() {
    let lab = Lab::new();
    let moved = lab.loop_of("move", || {
        lab.git(&["mv", "src/b.rs", "src/moved.rs"]);
        lab.write("src/empty.rs", "");
        lab.write("src/a.rs", "");
        lab.git(&["rm", "-q", "docs/note.md"]);
    });
    let spec = format!("{}:refs/heads/x", moved.candidates[0].id);
    let verdict = lab.push(from_ref(&moved), &[&spec]);
    assert!(verdict.is_allowed(), "{verdict:?}");
}

#[test]
fn a_mode_that_changes_is_no_content() {
    let lab = Lab::new();
    let fix = lab.loop_of("mode", || {
        lab.git(&["update-index", "--chmod=+x", "src/a.rs"]);
        lab.git(&["commit", "-q", "-m", "mode"]);
        lab.git(&["reset", "-q", "--hard"]);
    });
    assert!(lab.push(from_ref(&fix), &[&format!("{}:refs/heads/x", fix.candidates[0].id)]).is_allowed());
}

#[test]
fn binary_content_is_found_by_its_bytes() {
    let lab = Lab::new();
    let fix = lab.loop_of("bin", || lab.write("logo.png", b"\x89PNG\0\0data"));
    lab.write("logo.png", b"\x89PNG\0\0data");
    lab.commit("same");
    assert_eq!(told(&lab.push(from_ref(&fix), &["main"])), ["bin logo.png unpromoted_content"]);
    lab.write("logo.png", b"\x89PNG\0\0other");
    lab.git(&["commit", "-q", "-a", "--amend", "-m", "other"]);
    assert!(lab.push(from_ref(&fix), &["main"]).is_allowed());
}

#[test]
fn tags_are_opened() {
    let lab = Lab::new();
    let fix = lab.a_loop();
    let tip = fix.candidates[0].id.to_string();
    lab.git(&["tag", "light", &tip]);
    lab.git(&["tag", "-a", "-m", "t", "annotated", &tip]);
    lab.git(&["tag", "-a", "-m", "t", "of-tag", "annotated"]);
    lab.git(&["tag", "-a", "-m", "t", "of-tree", &format!("{tip}^{{tree}}")]);
    lab.git(&["tag", "of-subtree", &format!("{tip}:src")]);
    lab.git(&["tag", "-a", "-m", "t", "of-blob", &format!("{tip}:src/a.rs")]);
    for tag in ["light", "annotated", "of-tag", "of-tree", "of-subtree", "of-blob"] {
        assert_eq!(told(&lab.push(from_ref(&fix), &[&format!("refs/tags/{tag}")])), [CONTENT], "{tag}");
    }
    lab.git(&["tag", "-a", "-m", "t", "good", "main"]);
    lab.git(&["tag", "-a", "-m", "t", "good-tree", "main^{tree}"]);
    lab.git(&["tag", "good-blob", "main:src/a.rs"]);
    assert!(
        lab.push(from_ref(&fix), &["refs/tags/good", "refs/tags/good-tree", "refs/tags/good-blob"])
            .is_allowed()
    );
}

#[test]
fn a_merge_hides_nothing_and_is_not_blamed_for_what_it_merges() {
    let lab = Lab::new();
    let fix = lab.a_loop();
    // Merged in from a side branch: told once, where it comes from.
    other_branch(&lab);
    lab.git(&["merge", "-q", "--no-ff", "-m", "merge", &fix.candidates[0].id.to_string()]);
    let verdict = lab.push(from_ref(&fix), &["other"]);
    assert_eq!(told(&verdict), [CONTENT]);
    assert_eq!(verdict.refusals[0].commit, Some(fix.candidates[0].id.to_string()));

    // Put into the merge commit itself, against either parent.
    for order in [["left", "right"], ["right", "left"]] {
        lab.git(&["checkout", "-q", "-B", "left", "main"]);
        lab.edit("src/a.rs", "    4\n", "    40\n");
        lab.commit("left");
        lab.git(&["checkout", "-q", "-B", "right", "main"]);
        lab.edit("docs/note.md", "a note", "right");
        lab.commit("right");
        lab.git(&["checkout", "-q", "-B", "evil", order[0]]);
        lab.git(&["merge", "-q", "--no-ff", "--no-commit", order[1]]);
        lab.edit("src/a.rs", "    2\n", "    two_from_the_loop()\n");
        lab.commit("evil");
        assert_eq!(told(&lab.push(from_ref(&fix), &["evil"])), [CHANGE]);
    }
}

#[test]
fn what_the_remote_has_is_nobodys_fault() {
    let lab = Lab::new();
    let fix = lab.a_loop();
    // It got past the gate once.
    other_branch(&lab);
    lab.git(&["cherry-pick", &fix.candidates[0].id.to_string()]);
    lab.git(&["push", "-q", "--no-verify", "origin", "other:leaked"]);
    // Merged into work that touches the same file, in both orders.
    for (first, second) in [("mine", "other"), ("other", "mine")] {
        lab.git(&["checkout", "-q", "-B", "mine", "main"]);
        lab.edit("src/a.rs", "    3\n", "    33\n");
        lab.commit("mine");
        lab.git(&["checkout", "-q", "-B", "merged", first]);
        lab.git(&["merge", "-q", "--no-ff", "-m", "merge", second]);
        let verdict = lab.push(from_ref(&fix), &["merged"]);
        assert!(verdict.is_allowed(), "{first}: {verdict:?}");
        assert_eq!(verdict.commits, 2);
    }
    // A new commit that has it again is judged like any other.
    lab.git(&["checkout", "-q", "mine"]);
    lab.git(&["cherry-pick", &fix.candidates[0].id.to_string()]);
    assert_eq!(told(&lab.push(from_ref(&fix), &["mine"])), [CHANGE]);
}

/// Field report 2.48: a force push over what somebody else pushed.
#[test]
fn an_unknown_id_on_the_other_side_is_no_way_around() {
    let lab = Lab::new();
    let fix = lab.a_loop();
    let clone = lab.path("clone");
    lab.git(&["clone", "-q", lab.remote().to_str().unwrap(), clone.to_str().unwrap()]);
    lab.git_in(&clone, &["commit", "-q", "--allow-empty", "-m", "elsewhere"]);
    lab.git_in(&clone, &["push", "-q", "origin", "HEAD:main"]);
    let verdict = lab.push(from_ref(&fix), &[&format!("+{}:refs/heads/main", fix.candidates[0].id)]);
    assert_eq!(told(&verdict), [CONTENT]);
    assert_eq!((verdict.commits, verdict.notes.len()), (1, 1));
    lab.commit("harmless");
    assert!(lab.push(from_ref(&fix), &["+main"]).is_allowed());
}

#[test]
fn deletions_and_nothing_at_all_pass() {
    let lab = Lab::new();
    let fix = lab.a_loop();
    lab.git(&["push", "-q", "origin", "main:gone"]);
    assert!(lab.push(from_ref(&fix), &[":gone"]).is_allowed());
    assert!(lab.push(from_ref(&fix), &["main"]).is_allowed(), "git gives no line at all");
}

/// To a remote that nobody configured the whole history goes out; what the base of the loop descends from is not the loop's.
#[test]
fn history_before_the_base_cannot_carry_the_loop() {
    let lab = Lab::new();
    // The loop brings back what the file was long ago.
    lab.edit("src/a.rs", "    1\n", "    100\n");
    lab.commit("later");
    let back = lab.loop_of("back", || lab.write("src/a.rs", FILE));
    let bare = lab.path("elsewhere.git");
    lab.git(&["init", "-q", "--bare", bare.to_str().unwrap()]);
    let url = bare.to_str().unwrap();
    let judge = |spec: &str| {
        let repo = lab.open();
        let side = Side::client(&repo, url.into(), url.into());
        assert_eq!(side, Side::Client { remotes: Vec::new() });
        let updates = input::pre_push(&lab.hook_input(url, &[spec])).unwrap();
        judge_by_tripwire(&repo, &side, from_ref(&back), &updates).unwrap()
    };
    let verdict = judge("main");
    assert!(verdict.is_allowed(), "{verdict:?}");
    assert_eq!(verdict.commits, 2);
    let verdict = judge(&format!("{}:refs/heads/main", back.candidates[0].id));
    assert_eq!(told(&verdict), ["back src/a.rs unpromoted_content"]);
}

#[test]
fn a_remote_named_by_its_url_is_recognised() {
    let lab = Lab::new();
    lab.git(&["remote", "add", "origin/nested", "/nowhere"]);
    let repo = lab.open();
    let url = lab.remote();
    let url = url.to_str().unwrap();
    let origin = Side::Client { remotes: vec!["origin".into()] };
    assert_eq!(Side::client(&repo, url.into(), url.into()), origin);
    assert_eq!(Side::client(&repo, "origin".into(), url.into()), origin);

    // The refs of `origin/nested` are below those of `origin`, and another remote's.
    let fix = lab.a_loop();
    lab.git(&["update-ref", "refs/remotes/origin/nested/x", &fix.candidates[0].id.to_string()]);
    assert_eq!(
        told(&lab.push(from_ref(&fix), &[&format!("{}:refs/heads/x", fix.candidates[0].id)])),
        [CONTENT]
    );
}

#[test]
fn the_range_of_a_ci_job() {
    let lab = Lab::new();
    let fix = lab.a_loop();
    let last = fix.candidates[2].id;
    let loops = [fix.clone()];
    assert_eq!(told(&lab.range(&loops, &format!("main..{last}"))), [CONTENT, CONTENT]);
    assert_eq!(told(&lab.range(&loops, &format!("{}..{last}", lab.zeros()))), [CONTENT, CONTENT]);
    assert_eq!(told(&lab.range(&loops, &format!("{}..{last}", fix.candidates[0].id))), [CONTENT]);
    assert!(lab.range(&loops, &format!("{last}..main")).is_allowed());
    let error = range_update(&lab.open(), BStr::new("nope..main")).unwrap_err();
    assert_eq!(error.to_string(), "\"nope\" is not a commit of this repository");
}

/// The ledger on a server has every candidate in its history; that must not let a branch bring one.
#[test]
fn a_server_does_not_count_loop_refs_as_what_it_has() {
    let lab = Lab::new();
    let fix = lab.a_loop();
    let candidate = fix.candidates[0].id.to_string();
    let fix = LoopContent { candidates: fix.candidates[..1].to_vec(), ..fix };
    lab.git(&["push", "-q", "--no-verify", "origin", &format!("{candidate}:refs/loops/fix/ledger")]);
    let repo = open_at(&lab.remote());
    let judge = |input: String| {
        let updates = input::pre_receive(input.as_bytes()).unwrap();
        judge_by_tripwire(&repo, &Side::Server, from_ref(&fix), &updates).unwrap()
    };
    let (main, zeros) = (lab.id("main"), lab.zeros());
    assert_eq!(told(&judge(format!("{zeros} {candidate} refs/heads/x\n"))), [CONTENT]);
    assert_eq!(told(&judge(format!("{main} {candidate} refs/heads/main\n"))), [CONTENT]);
    assert!(judge(format!("{zeros} {main} refs/heads/y\n")).is_allowed());
    assert!(judge(format!("{main} {zeros} refs/heads/main\n")).is_allowed());
}

#[test]
fn a_quarantine_is_in_view() {
    let lab = Lab::new();
    let fix = lab.a_loop();
    let quarantine = lab.path("quarantine");
    std::fs::create_dir(&quarantine).unwrap();
    // As `receive-pack` does it: new objects in a store of their own, which only its environment names.
    let objects = lab.work().join(".git/objects");
    let candidate = fix.candidates[0].id;
    let pack = format!("{candidate}\n^{}\n", lab.id("main"));
    lab.git_with_input(
        &["pack-objects", "--revs", "-q", &format!("{}/pack", quarantine.display())],
        pack.as_bytes(),
    );
    std::fs::create_dir(quarantine.join("pack")).unwrap();
    for file in std::fs::read_dir(&quarantine).unwrap().map(|file| file.unwrap().path()) {
        if file.is_file() {
            std::fs::rename(&file, quarantine.join("pack").join(file.file_name().unwrap())).unwrap();
        }
    }
    assert!(objects.is_dir());
    let repo = open_at(&lab.remote());
    let update =
        [Update { reference: "refs/heads/main".into(), old: Some(lab.id("main")), new: Some(candidate) }];
    let loops = [LoopContent { candidates: fix.candidates[..1].to_vec(), ..fix }];
    let blind = judge_by_tripwire(&repo, &Side::Server, &loops, &update).unwrap();
    assert_eq!(told(&blind), ["fix - cannot_judge"]);

    let incoming = gix::odb::at(quarantine, repo.object_hash()).unwrap();
    let objects = Objects::new(&repo, Some(&incoming)).unwrap();
    let ledgers = |_: &str, _: ObjectId| Ok(());
    let gate = Gate {
        repo: &repo,
        objects: &objects,
        side: &Side::Server,
        protected: None,
        loops: &loops,
        ledgers: &ledgers,
    };
    assert_eq!(told(&gate.judge(&update).unwrap()), [CONTENT]);
}

/// Field report 2.50: what cannot be judged is refused, with the command that mends it.
#[test]
fn shallow_history_is_refused_only_where_it_matters() {
    let lab = Lab::new();
    lab.commit("second");
    lab.commit("third");
    lab.git(&["push", "-q", "origin", "main"]);
    let fix = lab.a_loop();
    lab.git(&[
        "push",
        "-q",
        "--no-verify",
        "origin",
        &format!("{}:refs/loops/fix/ledger", fix.candidates[2].id),
    ]);
    let clone = lab.path("shallow");
    let url = format!("file://{}", lab.remote().display());
    lab.git(&["clone", "-q", "--depth=1", &url, clone.to_str().unwrap()]);
    let repo = open_at(&clone);
    let main = lab.id("main");

    let judge = |side: &Side, loops: &[LoopContent], old: Option<ObjectId>, new: &str| {
        let new = new.trim().parse().unwrap();
        let update = Update { reference: "refs/heads/x".into(), old, new: Some(new) };
        judge_by_tripwire(&repo, side, loops, &[update]).unwrap()
    };
    // The loop's objects are not here.
    let side = Side::client(&repo, "origin".into(), BStr::new(url.as_str()));
    let verdict = judge(&side, from_ref(&fix), None, &main.to_string());
    assert_eq!(told(&verdict), ["fix - cannot_judge"]);

    lab.git_in(
        &clone,
        &["fetch", "-q", "--depth=3", "origin", "refs/loops/fix/ledger:refs/loops/fix/ledger"],
    );
    let repo = open_at(&clone);
    let judge = |side: &Side, old: Option<ObjectId>, new: &str| {
        let new = new.trim().parse().unwrap();
        let update = Update { reference: "refs/heads/x".into(), old, new: Some(new) };
        let loops = [LoopContent { candidates: vec![fix.candidates[0], fix.candidates[2]], ..fix.clone() }];
        judge_by_tripwire(&repo, side, &loops, &[update]).unwrap()
    };
    lab.git_in(&clone, &["commit", "-q", "--allow-empty", "-m", "mine"]);
    let mine = lab.git_in(&clone, &["rev-parse", "HEAD"]);
    assert!(judge(&side, None, &mine).is_allowed(), "all that is new is here");
    // Nothing of the other side is known, so the whole history counts, and it is cut off.
    let nobody = Side::Client { remotes: Vec::new() };
    let verdict = judge(&nobody, None, &mine);
    assert_eq!(told(&verdict), ["- - cannot_judge"]);
    assert_eq!(verdict.refusals[0].unblock, "git fetch --unshallow");
    assert_eq!(verdict.error().unwrap().exit_code(), crate::exit::ExitCode::REFUSED);
}

#[test]
fn a_replaced_object_hides_nothing() {
    let lab = Lab::new();
    let fix = lab.a_loop();
    let candidate = fix.candidates[0].id.to_string();
    lab.git(&["replace", &candidate, "main"]);
    assert_eq!(told(&lab.push(from_ref(&fix), &[&format!("{candidate}:refs/heads/x")])), [CONTENT]);
}

#[test]
fn a_policy_on_the_protected_side_is_not_ignored() {
    let lab = Lab::new();
    lab.git(&["checkout", "-q", "-b", "topic"]);
    lab.write(".loops/policy.toml", "governed = []\n");
    lab.commit("policy");
    assert!(lab.push(&[], &["topic"]).is_allowed(), "the pushed side does not decide");
    lab.git(&["push", "-q", "--no-verify", "origin", "topic:main"]);
    lab.commit("more");
    let error = lab.try_push(&[], &["topic:main"]).unwrap_err();
    assert!(matches!(error, GateError::Governed { .. }));
    let error = Error::from(error);
    assert!(error.message().starts_with("governed mode is not built yet"), "{}", error.message());
    assert_eq!(error.exit_code(), crate::exit::ExitCode::REFUSED);
    let repo = lab.open();
    let update = range_update(&repo, "HEAD~1..HEAD".into()).unwrap();
    assert!(matches!(
        judge_by_tripwire(&repo, &Side::Range, &[], &[update]),
        Err(GateError::Governed { .. })
    ));
}

#[test]
fn a_line_that_is_no_line_refuses_everything() {
    let error = Error::from(GateError::from(input::pre_push(b"x\n").unwrap_err()));
    assert_eq!(error.exit_code(), crate::exit::ExitCode::REFUSED);
}

#[test]
fn an_object_that_is_not_here_is_refused() {
    let lab = Lab::new();
    let fix = lab.a_loop();
    let repo = lab.open();
    for id in ["b".repeat(40), "b".repeat(64)] {
        let new = Some(ObjectId::from_hex(id.as_bytes()).unwrap());
        let update = Update { reference: "refs/heads/x".into(), old: None, new };
        let verdict = judge_by_tripwire(&repo, &Side::Server, from_ref(&fix), &[update]).unwrap();
        assert_eq!(told(&verdict), ["- - cannot_judge"]);
    }
}

/// Dates that go backwards must not hide a commit.
#[test]
fn skewed_clocks_hide_nothing() {
    let lab = Lab::new();
    let fix = lab.a_loop();
    let tree = |rev: &str| lab.git(&["rev-parse", &format!("{rev}^{{tree}}")]).trim().to_owned();
    let commit = |tree: &str, parent: &str, time: u64| {
        let person = format!("T <t@example.org> {time} +0000");
        let text = format!("tree {tree}\nparent {parent}\nauthor {person}\ncommitter {person}\n\nskewed\n");
        lab.git_with_input(&["hash-object", "-t", "commit", "-w", "--stdin"], text.as_bytes())
            .trim()
            .to_owned()
    };
    let main = lab.id("main").to_string();
    let (bad, good) = (tree(&fix.candidates[0].id.to_string()), tree("main"));
    for times in [[1, 2_000_000_000, 2], [2_000_000_000, 1, 2_000_000_001], [3, 2, 1]] {
        let first = commit(&bad, &main, times[0]);
        let second = commit(&good, &first, times[1]);
        let third = commit(&good, &second, times[2]);
        let verdict = lab.push(from_ref(&fix), &[&format!("{third}:refs/heads/x")]);
        assert_eq!(told(&verdict), [CONTENT], "{times:?}");
        assert_eq!(verdict.commits, 3, "{times:?}");
    }
}
