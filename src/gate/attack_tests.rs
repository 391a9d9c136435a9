//! What a pusher who wants to get content of a loop out may try.

use std::slice::from_ref;

use super::testing::{Lab, judge_by_tripwire, open_at, told};
use super::*;

const CONTENT: &str = "fix src/a.rs unpromoted_content";

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
    refused("what only a ref here says");
    lab.git(&["push", "-q", "--no-verify", "origin", &format!("{after}:refs/heads/by/mistake")]);
    assert!(lab.push(from_ref(&fix), &[&spec]).is_allowed(), "nobody's fault");
    // So is a candidate of a loop that has nothing to do with one that is held back.
    let apart = lab.git(&["commit-tree", "-p", "main", "-m", message, &tree]).trim().to_owned();
    lab.git(&["update-ref", "refs/remotes/origin/by/hand", &apart]);
    let next = lab.git(&["commit-tree", "-p", &apart, "-m", "next", &tree]).trim().to_owned();
    let verdict = lab.push(from_ref(&fix), &[&format!("{next}:refs/heads/y")]);
    assert_eq!((verdict.is_allowed(), verdict.commits), (true, 1));
}

/// Anybody can move a remote-tracking ref: `git fetch . x:refs/remotes/origin/x`.
#[test]
fn a_remote_tracking_ref_that_the_remote_does_not_confirm_hides_nothing() {
    let lab = Lab::new();
    let fix = lab.a_loop();
    let tree = format!("{}^{{tree}}", fix.candidates[2].id);
    let squash = lab.git(&["commit-tree", "-p", "main", "-m", "squash", &tree]).trim().to_owned();
    let spec = format!("{squash}:refs/heads/x");
    let plain = told(&lab.push(from_ref(&fix), &[&spec]));
    assert!(!plain.is_empty());
    lab.git(&["branch", "tmp", &squash]);
    lab.git(&["fetch", "-q", ".", "tmp:refs/remotes/origin/tmp"]);
    assert_eq!(told(&lab.push(from_ref(&fix), &[&spec])), plain);
    // Where the remote cannot be asked, neither.
    lab.git(&["config", "remote.origin.url", "/nowhere"]);
    let repo = lab.open();
    let side = Side::Client { remotes: vec!["origin".into()] };
    let update = Update { reference: "refs/heads/x".into(), old: None, new: squash.parse().ok() };
    let objects = Objects::new(&repo, None).unwrap();
    let ledgers = |_: &str, _: ObjectId| Ok(());
    let (loops, protected) = (from_ref(&fix), None);
    let gate = Gate { repo: &repo, objects: &objects, side: &side, protected, loops, ledgers: &ledgers };
    let verdict = gate.judge(from_ref(&update)).unwrap();
    assert_eq!((told(&verdict), verdict.commits, verdict.notes.len()), (plain, 1, 1));
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
