//! The rules for the refs of loops: what a push may do to `refs/loops/*` and `refs/notes/loops/*`.
//!
//! | ref | rule |
//! | --- | --- |
//! | `refs/loops/<id>/ledger` | verifies; only fast-forwards along first parents; is never deleted |
//! | `refs/loops/<id>/head` | a commit; may move anywhere; is never deleted |
//! | `refs/notes/loops/<id>` | a commit; may move anywhere, it can be rebuilt; is never deleted |
//! | anything else there | refused |
//!
//! An id cannot be used twice: the contract record of another loop of that name is not in the history of the ledger
//! that is there, so the new one does not fast-forward. Candidates of unpromoted loops travel inside these refs by
//! design; the tripwire does not look at them.

use gix::ObjectId;
use gix::bstr::{BStr, ByteSlice};

use super::input::Update;
use super::objects::{Objects, Target};

/// Says whether a ledger verifies against the trust root of the protected side.
pub trait LedgerJudge {
    /// `Err` says which record does not hold and why.
    fn verify(&self, id: &str, tip: ObjectId) -> Result<(), String>;
}

impl<F: Fn(&str, ObjectId) -> Result<(), String>> LedgerJudge for F {
    fn verify(&self, id: &str, tip: ObjectId) -> Result<(), String> {
        self(id, tip)
    }
}

/// What a loop's ref is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Ledger,
    Head,
    Notes,
}

/// Why an update of a loop's ref is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// The loop, where the name tells.
    pub id: Option<String>,
    /// The rule that is broken.
    pub reason: String,
    /// What would unblock it.
    pub unblock: String,
}

const LOOPS: &[u8] = b"refs/loops";
const NOTES: &[u8] = b"refs/notes/loops";

/// Whether a ref is in the space of the loops, under any spelling that some file system takes for it.
pub fn is_loop_space(name: &BStr) -> bool {
    [LOOPS, NOTES].iter().any(|space| {
        name.get(..space.len()).is_some_and(|head| head.eq_ignore_ascii_case(space))
            && matches!(name.get(space.len()), None | Some(b'/'))
    })
}

/// Judges one update of a ref for which [`is_loop_space`] holds. `remote` is where to fetch from.
pub fn judge(
    objects: &Objects,
    update: &Update,
    ledgers: &dyn LedgerJudge,
    remote: Option<&str>,
) -> Result<(), Broken> {
    let Some((id, kind)) = parse(update.reference.as_bstr()) else {
        return Err(Broken {
            id: None,
            reason: "no loop has such a ref; a loop has refs/loops/<id>/ledger, refs/loops/<id>/head and refs/notes/loops/<id>"
                .to_owned(),
            unblock: "push the refs of a loop under their own names".to_owned(),
        });
    };
    let broken = |reason: String, unblock: String| Broken { id: Some(id.to_owned()), reason, unblock };
    let remote = remote.unwrap_or("<remote>");
    let fetch = format!("git fetch {remote} 'refs/loops/{id}/*:refs/loops/{id}/*'");
    let Some(new) = update.new else {
        let what = match kind {
            Kind::Ledger => "a ledger is never deleted",
            Kind::Head => "the head of a loop is never deleted",
            Kind::Notes => "the receipts of a loop are never deleted",
        };
        let unblock = "push without --mirror, --prune and --delete for refs/loops/* and refs/notes/loops/*, or fetch them first";
        return Err(broken(what.to_owned(), format!("{unblock}: {fetch}")));
    };
    match objects.peel(new) {
        Ok(Target::Commit(target)) if target == new => {}
        Ok(_) => {
            return Err(broken(
                format!("{new} is not a commit"),
                format!("push refs/loops/{id}/* as they are"),
            ));
        }
        Err(error) => {
            let unblock = error.unblock(Some(remote));
            return Err(broken(format!("it cannot be judged: {error}"), unblock));
        }
    }
    if kind != Kind::Ledger {
        return Ok(());
    }
    if let Some(old) = update.old {
        fast_forwards(objects, old, new)
            .map_err(|reason| broken(reason, format!("{fetch}, then push again")))?;
    }
    ledgers.verify(id, new).map_err(|reason| {
        broken(format!("the ledger does not verify: {reason}"), format!("git loop verify {id}"))
    })
}

/// Whether `old` is `new` or one of its first parents.
fn fast_forwards(objects: &Objects, old: ObjectId, new: ObjectId) -> Result<(), String> {
    if !objects.has(old) {
        return Err(format!("its tip on the other side, {old}, is not known here"));
    }
    let mut current = new;
    while current != old {
        let commit = objects.commit(current).map_err(|error| format!("it cannot be judged: {error}"))?;
        current = match commit.parents.first() {
            Some(parent) => *parent,
            None => return Err(format!("a ledger only fast-forwards: {new} is not built on {old}")),
        };
    }
    Ok(())
}

/// The id and the kind of a loop's ref; `None` if no loop has it.
fn parse(name: &BStr) -> Option<(&str, Kind)> {
    let name = name.to_str().ok()?;
    let (id, kind) = match name.strip_prefix("refs/loops/") {
        Some(rest) => match rest.split_once('/')? {
            (id, "ledger") => (id, Kind::Ledger),
            (id, "head") => (id, Kind::Head),
            _ => return None,
        },
        None => (name.strip_prefix("refs/notes/loops/")?, Kind::Notes),
    };
    is_id(id).then_some((id, kind))
}

/// `[a-z0-9][a-z0-9._-]{0,63}`, no `..`, not ending in `.lock` or `.`.
fn is_id(id: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    id.len() <= 64
        && id.bytes().next().is_some_and(plain)
        && id.bytes().all(|byte| plain(byte) || matches!(byte, b'.' | b'_' | b'-'))
        && !id.contains("..")
        && !id.as_bytes().ends_with(b".lock")
        && !id.ends_with('.')
}

#[cfg(test)]
mod tests {
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
        // The head may move anywhere.
        lab.git(&["push", "-q", "origin", &format!("{second}:refs/loops/fix/head")]);
        assert!(push(&lab, &[&format!("+{other}:refs/loops/fix/head")], &holds).is_allowed());
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
            "refs/notes/loops/a/b",
            "refs/loops/fix",
        ] {
            assert_eq!(told(&push(&lab, &[&format!("main:{name}")], &holds)), ["- - ledger_rule"], "{name}");
        }
        for name in ["refs/loopsy/fix/ledger", "refs/notes/commits", "refs/heads/loops"] {
            assert!(push(&lab, &[&format!("main:{name}")], &holds).is_allowed(), "{name}");
        }
        assert!(push(&lab, &["main:refs/notes/loops/fix"], &holds).is_allowed());
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
        let broken = judge(&objects, &update, &|_: &str, _: ObjectId| Ok(()), Some("origin")).unwrap_err();
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
}
