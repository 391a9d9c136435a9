use proptest::prelude::*;

use super::super::testing::{Lab, told};
use super::super::{Gate, Side, Verdict};
use super::*;

/// Two records on top of each other, another root, and a commit that has the ledger as second parent only.
fn ledgers(lab: &Lab) -> [String; 4] {
    let tree = lab.git(&["rev-parse", "main^{tree}"]);
    let commit = |parents: &[&str]| {
        let parents: Vec<&str> = parents.iter().flat_map(|parent| ["-p", parent]).collect();
        lab.git(&[&["commit-tree", "-m", "record", tree.trim()][..], &parents].concat()).trim().to_owned()
    };
    let first = commit(&[]);
    let second = commit(&[&first]);
    let other = lab.git(&["commit-tree", "-m", "other loop", tree.trim()]).trim().to_owned();
    let beside = commit(&[&other, &second]);
    [first, second, other, beside]
}

fn push(lab: &Lab, specs: &[&str], ledgers: &dyn LedgerJudge) -> Verdict {
    let repo = lab.open();
    let objects = Objects::new(&repo, None).unwrap();
    let side = Side::client(&repo, "origin".into(), "".into());
    let updates = super::super::input::pre_push(&lab.hook_input("origin", specs)).unwrap();
    Gate { repo: &repo, objects: &objects, side: &side, protected: None, loops: &[], ledgers }
        .judge(&updates)
        .unwrap()
}

#[test]
fn a_ledger_only_fast_forwards() {
    let lab = Lab::new();
    let holds = |_: &str, _: ObjectId| Ok(());
    let [first, second, other, beside] = ledgers(&lab);
    let spec = |id: &str| format!("+{id}:refs/loops/fix/ledger");
    assert!(push(&lab, &[&spec(&first)], &holds).is_allowed());
    lab.git(&["push", "-q", "origin", &spec(&first)]);
    assert!(push(&lab, &[&spec(&second)], &holds).is_allowed());
    lab.git(&["push", "-q", "origin", &spec(&second)]);
    for id in [&first, &other, &beside] {
        let verdict = push(&lab, &[&spec(id)], &holds);
        assert_eq!(told(&verdict), ["fix - ledger_rule"]);
        assert!(verdict.refusals[0].reason.contains("only fast-forwards"), "{verdict:?}");
        assert_eq!(
            verdict.refusals[0].unblock,
            "git fetch origin 'refs/loops/fix/*:refs/loops/fix/*', then push again"
        );
    }
}

/// Ledgers whose facts are given.
#[derive(Default)]
struct Given {
    facts: LedgerFacts,
    received: Option<ObjectId>,
    asked: std::cell::RefCell<Vec<ObjectId>>,
}

impl LedgerJudge for Given {
    fn verify(&self, _: &str, tip: ObjectId) -> Result<Rc<LedgerFacts>, String> {
        self.asked.borrow_mut().push(tip);
        Ok(Rc::new(self.facts.clone()))
    }

    fn received(&self, _: &str) -> Result<Option<ObjectId>, String> {
        Ok(self.received)
    }
}

#[test]
fn a_head_is_the_base_or_a_candidate_of_the_ledger_that_will_be_there() {
    let lab = Lab::new();
    let [first, second, other, _] = ledgers(&lab);
    let (base, candidate) = (lab.id("main"), lab.commit("candidate"));
    lab.git(&["reset", "-q", "--hard", "HEAD~1"]);
    let mut given = Given::default();
    given.facts.base = Some(base);
    given.facts.candidates.insert(candidate, Vec::new());
    let head = |id: &str| format!("+{id}:refs/loops/fix/head");
    let ledger = format!("{first}:refs/loops/fix/ledger");

    // The other side has no ledger, and none is pushed.
    let verdict = push(&lab, &[&head(&candidate.to_string())], &given);
    assert_eq!(told(&verdict), ["fix - ledger_rule"]);
    assert!(verdict.refusals[0].reason.contains("has no ledger of this loop"), "{verdict:?}");
    assert_eq!(verdict.refusals[0].unblock, "git push origin refs/loops/fix/ledger refs/loops/fix/head");
    // The pushed one says what it may be.
    for id in [base, candidate] {
        assert!(push(&lab, &[&head(&id.to_string()), &ledger], &given).is_allowed());
    }
    // Not the commit that a candidate was made from, nor a record, nor anything else.
    for id in [&first, &second, &other] {
        assert_eq!(told(&push(&lab, &[&head(id), &ledger], &given)), ["fix - ledger_rule"]);
    }
    // So does the one that is there. The pushed one counts more.
    given.received = Some(second.parse().unwrap());
    assert!(push(&lab, &[&head(&candidate.to_string())], &given).is_allowed());
    assert_eq!(told(&push(&lab, &[&head(&other)], &given)), ["fix - ledger_rule"]);
    given.asked.borrow_mut().clear();
    assert!(push(&lab, &[&head(&candidate.to_string()), &ledger], &given).is_allowed());
    let first: ObjectId = first.parse().unwrap();
    assert!(given.asked.borrow().iter().all(|tip| *tip == first));
    // One that is not known here cannot be judged by.
    given.received = Some(ObjectId::from_hex("b".repeat(40).as_bytes()).unwrap());
    let verdict = push(&lab, &[&head(&candidate.to_string())], &given);
    assert!(verdict.refusals[0].reason.contains("is not known here"), "{verdict:?}");
}

/// What a notes ref carries, in any commit of it, is receipts.
#[test]
fn receipts_are_held_to_their_form_along_all_new_commits() {
    for sha256 in [false, true] {
        let lab = Lab::with(sha256);
        let candidate = lab.id("main");
        let hex = candidate.to_string();
        let mut given = Given { received: Some(lab.id("main")), ..Given::default() };
        given.facts.candidates.insert(candidate, vec!["{\"a\":1}".to_owned(), "{\"b\":2}".to_owned()]);
        let blob = |content: &str| {
            lab.git_with_input(&["hash-object", "-w", "--stdin"], content.as_bytes()).trim().to_owned()
        };
        let tree = |entries: &[(&str, &str, &str, &str)]| {
            let lines: Vec<String> = entries
                .iter()
                .map(|(mode, kind, id, name)| format!("{mode} {kind} {id}\t{name}\n"))
                .collect();
            lab.git_with_input(&["mktree"], lines.concat().as_bytes()).trim().to_owned()
        };
        let commit = |tree: &str, parents: &[&str]| {
            let parents: Vec<&str> = parents.iter().flat_map(|parent| ["-p", parent]).collect();
            lab.git(&[&["commit-tree", "-m", "notes", tree][..], &parents].concat()).trim().to_owned()
        };
        let judged = |id: &str| push(&lab, &[&format!("+{id}:refs/notes/loops/fix")], &given);
        let receipts = blob("{\"a\":1}\n\n{\"b\":2}\n{\"a\":1}\n");
        let flat = tree(&[("100644", "blob", &receipts, &hex)]);
        let fanned = tree(&[("100644", "blob", &receipts, &hex[4..])]);
        let fanned = tree(&[("040000", "tree", &fanned, &hex[2..4])]);
        let fanned = tree(&[("040000", "tree", &fanned, &hex[..2])]);
        let good = commit(&fanned, &[&commit(&flat, &[])]);
        assert!(judged(&good).is_allowed(), "{:?}", judged(&good));
        assert!(judged(&commit(&tree(&[]), &[&good])).is_allowed(), "a note may go");

        let other = blob("{\"a\":1}\nfn stolen() {}\n");
        let file = blob("fn stolen() {}\n");
        let below = tree(&[("100644", "blob", &receipts, "a.rs")]);
        let bad = [
            tree(&[("100644", "blob", &other, &hex)]),
            tree(&[("100644", "blob", &file, &hex)]),
            tree(&[("100644", "blob", &blob("{\"a\": 1}\n"), &hex)]),
            tree(&[("100644", "blob", &receipts, &lab.id("main^{tree}").to_string())]),
            tree(&[("100644", "blob", &receipts, &hex), ("100644", "blob", &file, "src")]),
            tree(&[("100644", "blob", &receipts, &hex), ("040000", "tree", &below, "aa")]),
            tree(&[("100644", "blob", &receipts, &hex[..8])]),
            tree(&[("120000", "blob", &receipts, &hex)]),
            tree(&[("100644", "blob", &receipts, &hex.to_uppercase())]),
            lab.git(&["rev-parse", "main^{tree}"]).trim().to_owned(),
        ];
        for tree in &bad {
            let commits = [
                commit(tree, &[&good]),
                // Behind a tip that is in order, along any parent.
                commit(&flat, &[&commit(tree, &[&good])]),
                commit(&flat, &[&good, &commit(tree, &[])]),
            ];
            for id in &commits {
                let verdict = judged(id);
                assert_eq!(told(&verdict), ["fix - ledger_rule"], "{}", lab.git(&["ls-tree", "-r", tree]));
                assert!(verdict.refusals[0].reason.contains("is no commit of receipts"), "{verdict:?}");
            }
        }
        // The history of a branch is none of receipts.
        assert!(!judged(&commit(&flat, &["main"])).is_allowed());

        // They only go on from what is there.
        lab.git(&["push", "-q", "origin", &format!("{good}:refs/notes/loops/fix")]);
        assert!(judged(&commit(&flat, &[&good])).is_allowed());
        assert!(judged(&commit(&flat, &[&commit(&flat, &[]), &good])).is_allowed(), "a merge");
        for id in [format!("{good}~1"), commit(&flat, &[])] {
            let verdict = judged(&id);
            assert!(verdict.refusals[0].reason.contains("only fast-forward"), "{verdict:?}");
            assert!(verdict.refusals[0].unblock.contains("git notes"), "{verdict:?}");
        }
    }
}

#[test]
fn a_ledger_that_does_not_verify_is_refused() {
    let lab = Lab::new();
    let [first, ..] = ledgers(&lab);
    let asked = std::cell::RefCell::new(Vec::new());
    let judge = |id: &str, tip: ObjectId| {
        asked.borrow_mut().push(format!("{id} {tip}"));
        Err("record 0 is not signed".to_owned())
    };
    let verdict = push(&lab, &[&format!("{first}:refs/loops/fix/ledger")], &judge);
    assert_eq!(told(&verdict), ["fix - ledger_rule"]);
    assert_eq!(verdict.refusals[0].reason, "the ledger does not verify: record 0 is not signed");
    assert_eq!(*asked.borrow(), [format!("fix {first}")]);
}

/// Field report 2.41: a mirror push from a clone without them.
#[test]
fn nothing_of_a_loop_is_deleted() {
    let lab = Lab::new();
    let [first, ..] = ledgers(&lab);
    let holds = |_: &str, _: ObjectId| Ok(());
    let refs = ["refs/loops/fix/ledger", "refs/loops/fix/head", "refs/notes/loops/fix"];
    for name in refs {
        lab.git(&["push", "-q", "origin", &format!("{first}:{name}")]);
    }
    for name in refs {
        let verdict = push(&lab, &[&format!(":{name}")], &holds);
        assert_eq!(told(&verdict), ["fix - ledger_rule"], "{name}");
        assert!(verdict.refusals[0].reason.contains("never deleted"), "{verdict:?}");
        assert!(verdict.refusals[0].unblock.contains("--mirror"), "{verdict:?}");
    }
}

#[test]
fn names_that_no_loop_has_are_refused() {
    let lab = Lab::new();
    let holds = |_: &str, _: ObjectId| Ok(());
    for name in [
        "refs/loops/fix/green",
        "refs/loops/fix/ledger/x",
        "refs/loops/Fix/ledger",
        "refs/Loops/fix/ledger",
        "refs/notes/LOOPS/fix",
        "refs/loop\u{17f}/fix/ledger",
        "refs/lo\u{200c}ops/fix/head",
        "refs/loops./fix/head",
        "refs/note\u{17f}/loops/fix",
        "refs/notes/loops/a/b",
        "refs/loops/fix",
    ] {
        assert_eq!(told(&push(&lab, &[&format!("main:{name}")], &holds)), ["- - ledger_rule"], "{name}");
    }
    for name in ["refs/loopsy/fix/ledger", "refs/notes/commits", "refs/heads/loops"] {
        assert!(push(&lab, &[&format!("main:{name}")], &holds).is_allowed(), "{name}");
    }
    lab.git(&["tag", "-a", "-m", "t", "tag", "main"]);
    for (what, name) in [("tag", "ledger"), ("main^{tree}", "head"), ("main:src/a.rs", "ledger")] {
        let verdict = push(&lab, &[&format!("{what}:refs/loops/fix/{name}")], &holds);
        assert!(verdict.refusals[0].reason.contains("is not a commit"), "{verdict:?}");
    }
}

#[test]
fn a_tip_that_is_not_known_here_has_to_be_fetched_first() {
    let lab = Lab::new();
    let objects = Objects::new(&lab.open(), None).unwrap();
    let [first, ..] = ledgers(&lab);
    let update = Update {
        reference: "refs/loops/fix/ledger".into(),
        old: Some(ObjectId::from_hex("b".repeat(40).as_bytes()).unwrap()),
        new: Some(first.parse().unwrap()),
    };
    let broken = judge(&objects, &update, &Pushed::default(), &|_: &str, _: ObjectId| Ok(()), Some("origin"))
        .unwrap_err();
    assert!(broken.reason.contains("is not known here"), "{broken:?}");
    assert!(broken.unblock.starts_with("git fetch origin"), "{broken:?}");
}

/// A ledger carries unpromoted candidates by design.
#[test]
fn the_tripwire_does_not_look_at_loop_refs() {
    let lab = Lab::new();
    let fix = lab.a_loop();
    let spec = format!("{}:refs/loops/fix/ledger", fix.candidates[2].id);
    assert!(lab.push(std::slice::from_ref(&fix), &[&spec]).is_allowed());
    let elsewhere = format!("{}:refs/heads/x", fix.candidates[2].id);
    assert!(!lab.push(&[fix], &[&spec, &elsewhere]).is_allowed());
}

proptest! {
    #[test]
    fn parsing_is_total(name in proptest::collection::vec(any::<u8>(), 0..80)) {
        let _ = (parse(name.as_bstr()), is_loop_space(name.as_bstr()));
    }

    #[test]
    fn what_is_a_loops_ref_is_in_the_space_of_loops(id in "[a-z0-9._-]{1,70}", kind in 0..3_usize) {
        let name = [format!("refs/loops/{id}/ledger"), format!("refs/loops/{id}/head"), format!("refs/notes/loops/{id}")];
        let name = BStr::new(name[kind].as_str());
        prop_assert!(is_loop_space(name));
        if let Some((parsed, _)) = parse(name) {
            prop_assert_eq!(parsed, id);
        }
    }
}
