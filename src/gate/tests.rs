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

/// A user's fetch refspec may put the loops of the remote anywhere; a loop is still no branch.
#[test]
fn a_loop_that_was_fetched_under_another_name_is_not_what_the_remote_has() {
    let lab = Lab::new();
    let fix = lab.a_loop();
    let last = fix.candidates[2].id.to_string();
    let spec = format!("{last}:refs/heads/x");
    let tree = lab.git(&["rev-parse", "main^{tree}"]).trim().to_owned();
    let ledger =
        lab.git(&["commit-tree", "-p", "main", "-p", &last, "-m", "record", &tree]).trim().to_owned();
    let refused = |what: &str| {
        assert_eq!(told(&lab.push(from_ref(&fix), &[&spec])), [CONTENT, CONTENT], "{what}");
    };

    // By the configuration, at any depth, also where the whole space of refs is mapped.
    for (refspec, name) in [
        ("+refs/loops/*:refs/remotes/origin/foo/*", "refs/remotes/origin/foo/fix/ledger"),
        ("refs/loops/*/ledger:refs/remotes/origin/l-*", "refs/remotes/origin/l-fix"),
        ("+refs/loops/fix/ledger:refs/remotes/origin/one", "refs/remotes/origin/one"),
        ("+refs/*:refs/remotes/origin/*", "refs/remotes/origin/loops/fix/ledger"),
        ("+refs/*:refs/remotes/origin/all/*", "refs/remotes/origin/all/loops/fix/ledger"),
    ] {
        lab.git(&["config", "--add", "remote.origin.fetch", refspec]);
        lab.git(&["update-ref", name, &ledger]);
        refused(refspec);
        lab.git(&["update-ref", "-d", name]);
        lab.git(&["config", "--unset-all", "remote.origin.fetch"]);
    }

    // By hand: what is at a candidate, at a record, or at a candidate of another loop that was built on one.
    let record = lab.path("record");
    for name in ["contract.json", "record.json", ".loop_state.json"] {
        std::fs::create_dir_all(&record).unwrap();
        std::fs::write(record.join(name), "{}\n").unwrap();
    }
    let blob = lab.git_with_input(&["hash-object", "-w", "--stdin"], b"{}\n").trim().to_owned();
    let listing = ["contract.json", "record.json", ".loop_state.json"]
        .map(|name| format!("100644 blob {blob}\t{name}\n"))
        .concat();
    let tree_of_record = lab.git_with_input(&["mktree"], listing.as_bytes()).trim().to_owned();
    let record = lab
        .git(&["commit-tree", "-p", "main", "-p", &last, "-m", "a record", &tree_of_record])
        .trim()
        .to_owned();
    let message = "Candidate of iteration 1 of loop b\n\nLoop-Id: b\nLoop-Iteration: 1\nLoop-Environment: e";
    let built_on = lab.git(&["commit-tree", "-p", &last, "-m", message, &tree]).trim().to_owned();
    let built_on_that = lab.git(&["commit-tree", "-p", &built_on, "-m", message, &tree]).trim().to_owned();
    for id in [&last, &record, &built_on, &built_on_that] {
        lab.git(&["update-ref", "refs/remotes/origin/by/hand", id]);
        refused(id);
    }

    // A branch is a branch, whatever it is called.
    lab.git(&["push", "-q", "--no-verify", "origin", &format!("{last}:refs/heads/by/mistake")]);
    let after = lab.git(&["commit-tree", "-p", &last, "-m", "more", &tree]).trim().to_owned();
    lab.git(&["update-ref", "refs/remotes/origin/by/hand", &after]);
    assert!(lab.push(from_ref(&fix), &[&spec]).is_allowed(), "nobody's fault");
    // So is a candidate of a loop that has nothing to do with one that is held back.
    let apart = lab.git(&["commit-tree", "-p", "main", "-m", message, &tree]).trim().to_owned();
    lab.git(&["update-ref", "refs/remotes/origin/by/hand", &apart]);
    let next = lab.git(&["commit-tree", "-p", &apart, "-m", "next", &tree]).trim().to_owned();
    let verdict = lab.push(from_ref(&fix), &[&format!("{next}:refs/heads/y")]);
    assert_eq!((verdict.is_allowed(), verdict.commits), (true, 1));
}

/// What a server has are its branches and tags; a host makes other refs by itself, from what nobody judged.
#[test]
fn a_server_has_its_branches_and_tags_only() {
    let lab = Lab::new();
    let fix = lab.a_loop();
    let last = fix.candidates[2].id.to_string();
    let tree = lab.git(&["rev-parse", "main^{tree}"]).trim().to_owned();
    let above = lab.git(&["commit-tree", "-p", &last, "-m", "above", &tree]).trim().to_owned();
    let judge = |name: &str, at: &str| {
        lab.git(&["push", "-q", "--no-verify", "origin", &format!("+{at}:{name}")]);
        let input = format!("{} {last} refs/heads/x\n", lab.zeros());
        let repo = open_at(&lab.remote());
        let verdict = judge_by_tripwire(
            &repo,
            &Side::Server,
            from_ref(&fix),
            &input::pre_receive(input.as_bytes()).unwrap(),
        );
        lab.git(&["push", "-q", "--no-verify", "origin", &format!(":{name}")]);
        told(&verdict.unwrap())
    };
    // Every candidate is looked for, also the one that was rejected, so its objects have to be there.
    lab.git(&["push", "-q", "--no-verify", "origin", &format!("{}:refs/loops/fix/r", fix.candidates[1].id)]);
    for name in ["refs/pull/1/head", "refs/keep-around/x", "refs/remotes/up/x", "refs/notes/x"] {
        assert_eq!(judge(name, &above), [CONTENT, CONTENT], "{name}");
    }
    for name in ["refs/heads/leaked", "refs/tags/leaked"] {
        assert_eq!(judge(name, &above), [""; 0], "{name}");
        assert_eq!(judge(name, &last), [CONTENT, CONTENT], "{name} at the candidate itself");
    }
}

/// `git loop gate --stdin` runs where branches are what somebody checked out, after the push.
#[test]
fn lines_for_a_ci_job_are_judged_by_their_old_ids_alone() {
    let lab = Lab::new();
    let fix = lab.a_loop();
    let (main, last) = (lab.id("main"), fix.candidates[2].id.to_string());
    lab.git(&["branch", "pushed", &last]);
    lab.git(&["update-ref", "refs/remotes/origin/pushed", &last]);
    lab.git(&["tag", "pushed", &last]);
    let judge = |input: String| {
        let updates = input::pre_receive(input.as_bytes()).unwrap();
        told(&judge_by_tripwire(&lab.open(), &Side::Range, from_ref(&fix), &updates).unwrap())
    };
    assert_eq!(judge(format!("{main} {last} refs/heads/pushed\n")), [CONTENT, CONTENT]);
    assert_eq!(judge(format!("{} {last} refs/heads/pushed\n", lab.zeros())), [CONTENT, CONTENT]);
    assert_eq!(judge(format!("{} {last} refs/heads/pushed\n", fix.candidates[0].id)), [CONTENT]);
    // A new branch beside one whose old id is told.
    let line = format!("{main} {main} refs/heads/main\n{} {main} refs/heads/new\n", lab.zeros());
    assert_eq!(judge(line), [""; 0]);
}

/// git takes a tree that has a name twice, and readers differ on which of the two it is.
#[test]
fn a_name_that_a_tree_has_twice_hides_nothing() {
    let lab = Lab::new();
    let fix = lab.a_loop();
    let entry = |mode: &str, name: &str, id: ObjectId| {
        [format!("{mode} {name}\0").as_bytes(), id.as_bytes()].concat()
    };
    let (good, bad) = (lab.id("main:src/a.rs"), lab.id(&format!("{}:src/a.rs", fix.candidates[0].id)));
    let write = |entries: &[Vec<u8>]| {
        let out = lab.git_with_input(
            &["hash-object", "-t", "tree", "-w", "--stdin", "--literally"],
            &entries.concat(),
        );
        out.trim().parse::<ObjectId>().unwrap()
    };
    let plain = write(&[entry("100644", "a.rs", good)]);
    let carrying = write(&[entry("100644", "a.rs", bad)]);
    let trees = [
        write(&[entry(
            "40000",
            "src",
            write(&[entry("100644", "a.rs", bad), entry("100644", "a.rs", good)]),
        )]),
        write(&[entry("40000", "src", carrying), entry("40000", "src", plain)]),
        write(&[entry("100644", "src", good), entry("40000", "src", carrying), entry("40000", "src", plain)]),
    ];
    for tree in trees {
        let commit = lab.git(&["commit-tree", "-p", "main", "-m", "twice", &tree.to_string()]);
        let verdict = lab.push(from_ref(&fix), &[&format!("{}:refs/heads/x", commit.trim())]);
        assert_eq!(told(&verdict), ["- - cannot_judge"], "{tree}");
        assert!(verdict.refusals[0].reason.contains("twice"), "{verdict:?}");
    }
}

/// What a commit is, and how it is joined to others, does not matter.
#[test]
fn roots_octopuses_and_modes_hide_nothing() {
    let lab = Lab::new();
    let fix = lab.a_loop();
    let candidate = fix.candidates[0].id.to_string();
    let tree = |rev: &str| lab.git(&["rev-parse", &format!("{rev}^{{tree}}")]).trim().to_owned();
    let commit = |tree: &str, parents: &[&str]| {
        let parents: Vec<&str> = parents.iter().flat_map(|parent| ["-p", parent]).collect();
        lab.git(&[&["commit-tree", "-m", "x", tree][..], &parents].concat()).trim().to_owned()
    };
    let (good, bad) = (tree("main"), tree(&candidate));
    let sides: Vec<String> = ["1", "2"]
        .iter()
        .map(|side| commit(&good, &["main", &commit(&good, &[side_root(&lab, side).as_str()])]))
        .collect();
    let executable = {
        lab.git(&["checkout", "-q", "--detach", &candidate]);
        lab.git(&["update-index", "--chmod=+x", "src/a.rs"]);
        let tree = lab.git(&["write-tree"]).trim().to_owned();
        lab.git(&["reset", "-q", "--hard", "main"]);
        tree
    };
    let link = {
        let id = lab.id(&format!("{candidate}:src/a.rs"));
        lab.git(&["update-index", "--add", "--cacheinfo", &format!("120000,{id},src/a.rs")]);
        let tree = lab.git(&["write-tree"]).trim().to_owned();
        lab.git(&["reset", "-q", "--hard", "main"]);
        tree
    };
    for (what, id) in [
        ("a root", commit(&bad, &[])),
        ("an octopus", commit(&bad, &["main", &sides[0], &sides[1]])),
        ("an octopus of roots", commit(&bad, &[&sides[0], &commit(&good, &[]), "main"])),
        ("another mode", commit(&executable, &["main"])),
        ("a symlink", commit(&link, &["main"])),
    ] {
        assert_eq!(told(&lab.push(from_ref(&fix), &[&format!("{id}:refs/heads/x")])), [CONTENT], "{what}");
    }
    // A graft changes what git shows, not what is judged.
    let top = commit(&good, &[&commit(&bad, &["main"])]);
    std::fs::create_dir_all(lab.work().join(".git/info")).unwrap();
    std::fs::write(lab.work().join(".git/info/grafts"), format!("{top} {}\n", lab.id("main"))).unwrap();
    assert_eq!(told(&lab.push(from_ref(&fix), &[&format!("{top}:refs/heads/x")])), [CONTENT], "a graft");
}

fn side_root(lab: &Lab, message: &str) -> String {
    lab.git(&["commit-tree", "-m", message, "main^{tree}"]).trim().to_owned()
}

/// A file that was renamed on the way, a tree in a folder of its own, the tree of a notes ref.
#[test]
fn content_is_found_under_another_path() {
    let lab = Lab::new();
    let long = "fn a_function_with_a_name_of_its_own() {\n    and_a_body_that_nobody_else_has();\n}\n";
    let fix = lab.loop_of("fix", || {
        lab.write("src/new.rs", long);
        lab.write("src/short.rs", "mod a;\n");
        lab.git(&["mv", "src/b.rs", "src/c.rs"]);
    });
    let candidate = fix.candidates[0].id.to_string();
    let push = |what: &str| told(&lab.push(from_ref(&fix), &[&format!("{what}:refs/heads/x")]));
    lab.write("lib/renamed.rs", long);
    lab.write("lib/short.rs", "mod a;\n");
    lab.git(&["mv", "src/b.rs", "lib/b.rs"]);
    lab.commit("under another name");
    assert_eq!(push("HEAD"), ["fix lib/renamed.rs unpromoted_content"]);

    // Told once where it stands at both.
    lab.write("src/new.rs", long);
    lab.git(&["add", "-A"]);
    lab.git(&["commit", "-q", "--amend", "-m", "at both"]);
    assert_eq!(push("HEAD"), ["fix lib/renamed.rs unpromoted_content", "fix src/new.rs unpromoted_content"]);
    // What a parent has already is not new in the next commit.
    lab.git(&["mv", "lib/renamed.rs", "lib/again.rs"]);
    lab.commit("moved");
    assert_eq!(push("HEAD").len(), 2);
    lab.git(&["reset", "-q", "--hard", "origin/main"]);

    // The whole tree below a folder, and in a commit of notes.
    let tree = lab.git(&["rev-parse", &format!("{candidate}^{{tree}}")]).trim().to_owned();
    let below = lab.git_with_input(&["mktree"], format!("040000 tree {tree}\tvendor\n").as_bytes());
    let below = lab.git(&["commit-tree", "-m", "vendored", "-p", "main", below.trim()]);
    assert_eq!(push(below.trim()), ["fix vendor/src/new.rs unpromoted_content"]);
    lab.git(&["notes", "add", "-m", "x", "main"]);
    lab.git(&[
        "notes",
        "add",
        "-f",
        "-C",
        lab.id(&format!("{candidate}:src/new.rs")).to_string().as_str(),
        "main",
    ]);
    let verdict = lab.push(from_ref(&fix), &["refs/notes/commits"]);
    assert!(!verdict.is_allowed(), "{verdict:?}");
    // A replacement of one commit by another, or of a blob by a blob, is a ref like others.
    lab.git(&["replace", "main", &candidate]);
    lab.git(&[
        "replace",
        &lab.id("main:src/a.rs").to_string(),
        &lab.id(&format!("{candidate}:src/new.rs")).to_string(),
    ]);
    for name in lab.git(&["for-each-ref", "--format=%(refname)", "refs/replace"]).lines() {
        assert!(!lab.push(from_ref(&fix), &[name]).is_allowed(), "{name}");
    }
}

/// Whom to trust and what is protected may be read from a remote-tracking ref.
#[test]
fn nobody_pushes_what_a_server_has_fetched() {
    let lab = Lab::new();
    let main = lab.id("main");
    let repo = open_at(&lab.remote());
    let judge = |side: &Side, name: &str| {
        let update = Update { reference: name.into(), old: None, new: Some(main) };
        told(&judge_by_tripwire(&repo, side, &[], &[update]).unwrap())
    };
    for name in ["refs/remotes/origin/HEAD", "refs/remotes/origin/main", "refs/Remotes/origin/HEAD"] {
        assert_eq!(judge(&Side::Server, name), ["- - protected_ref"], "{name}");
    }
    assert_eq!(judge(&Side::Client { remotes: Vec::new() }, "refs/remotes/origin/main"), [""; 0]);
    assert_eq!(judge(&Side::Server, "refs/heads/remotes"), [""; 0]);
}
/// All refs of a push are judged in one walk, and each is told what it brings itself.
#[test]
fn each_ref_answers_for_what_it_brings() {
    let lab = Lab::new();
    let fix = lab.a_loop();
    let tree = lab.git(&["rev-parse", "main^{tree}"]).trim().to_owned();
    let on = |parent: &str| lab.git(&["commit-tree", "-p", parent, "-m", "x", &tree]).trim().to_owned();
    let (below, at) = (on("main"), fix.candidates[0].id.to_string());
    let (above, beside) = (on(&at), on(&below));
    let specs = [&below, &at, &above, &beside].map(|id| format!("{id}:refs/heads/{}", &id[..8]));
    let verdict = lab.push(from_ref(&fix), &specs.each_ref().map(String::as_str));
    assert_eq!(verdict.commits, 4);
    let mut refs: Vec<_> = verdict.refusals.iter().map(|refusal| refusal.reference.clone()).collect();
    refs.sort_unstable();
    let mut expected = [&at, &above].map(|id| format!("refs/heads/{}", &id[..8]));
    expected.sort_unstable();
    assert_eq!(refs, expected);
    assert!(verdict.refusals.iter().all(|refusal| refusal.commit.as_ref() == Some(&at)));

    // What one of them cannot be judged for is not the fault of the others.
    let update =
        |name: &str, new: &str| Update { reference: name.into(), old: None, new: Some(new.parse().unwrap()) };
    let missing = format!(
        "tree {tree}\nparent {}\nauthor T <t> 1 +0000\ncommitter T <t> 1 +0000\n\nx\n",
        "b".repeat(40)
    );
    let broken = lab.git_with_input(&["hash-object", "-t", "commit", "-w", "--stdin"], missing.as_bytes());
    let updates = [update("refs/heads/good", &below), update("refs/heads/broken", broken.trim())];
    let side = Side::Client { remotes: Vec::new() };
    let verdict = judge_by_tripwire(&lab.open(), &side, from_ref(&fix), &updates).unwrap();
    assert_eq!(told(&verdict), ["- - cannot_judge"]);
    assert_eq!(verdict.refusals[0].reference, "refs/heads/broken");
}
