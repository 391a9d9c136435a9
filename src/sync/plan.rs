//! What is to be done with one ledger, from three lists and nothing else: the records here, those on the remote, and where
//! the remote was when it was last looked at. Pure; reads nothing.

use crate::oid::Oid;

/// The records of one ledger on both sides, the contract's first. Empty: there is none.
#[derive(Debug, Clone, Copy)]
pub struct Sides<'a> {
    /// Here.
    pub here: &'a [Oid],
    /// On the remote.
    pub there: &'a [Oid],
    /// The tip that the remote had when it was last fetched from or pushed to.
    pub seen: Option<Oid>,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Plan {
    /// Both are the same, or there is none.
    Same,
    /// The remote goes on from here.
    FastForward,
    /// What is here goes on from the remote, or the remote has none.
    Push,
    /// Both went on after the first `common` records: those that are only here come after those that are only there.
    Reappend {
        /// How many records both have.
        common: usize,
    },
    /// The remote did what no ledger does, or has another loop. Nothing may move.
    Refused(Fault),
}

/// What is wrong with the remote's ledger.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// It was there.
    #[error("it is gone from the remote, where it was at {}", seen.short())]
    Gone {
        /// Where it was.
        seen: Oid,
    },
    /// It lost records at its end.
    #[error("it went back on the remote, from {} to {}; a ledger only grows", seen.short(), there.short())]
    WentBack {
        /// Where it was.
        seen: Oid,
        /// Where it is.
        there: Oid,
    },
    /// What was its tip is none of its records any more.
    #[error("it was replaced on the remote: {}, where it was, is none of the records before {}", seen.short(), there.short())]
    Replaced {
        /// Where it was.
        seen: Oid,
        /// Where it is.
        there: Oid,
    },
    /// It begins with another contract.
    #[error("the remote has another loop of this id: its contract is {}, the one here {}", there.short(), here.short())]
    OtherLoop {
        /// The contract record here.
        here: Oid,
        /// The one there.
        there: Oid,
    },
}

impl Sides<'_> {
    /// Decides.
    pub fn plan(&self) -> Plan {
        let Self { here, there, seen } = *self;
        let Some(tip) = there.last() else {
            return match (seen, here) {
                (Some(seen), _) => Plan::Refused(Fault::Gone { seen }),
                (None, []) => Plan::Same,
                (None, _) => Plan::Push,
            };
        };
        if let Some(seen) = seen.filter(|seen| !there.contains(seen)) {
            // What is known of the records before `seen` is what is here.
            let before = here.iter().position(|id| *id == seen).map_or(&[][..], |at| &here[..at]);
            let there = *tip;
            return Plan::Refused(if before.contains(&there) {
                Fault::WentBack { seen, there }
            } else {
                Fault::Replaced { seen, there }
            });
        }
        let Some(first) = here.first() else { return Plan::FastForward };
        let common = here.iter().zip(there).take_while(|(here, there)| here == there).count();
        match (common == here.len(), common == there.len()) {
            _ if common == 0 => Plan::Refused(Fault::OtherLoop { here: *first, there: there[0] }),
            (true, true) => Plan::Same,
            (true, false) => Plan::FastForward,
            (false, true) => Plan::Push,
            (false, false) => Plan::Reappend { common },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ids(numbers: &[u32]) -> Vec<Oid> {
        numbers.iter().map(|number| format!("{number:040x}").parse().unwrap()).collect()
    }

    fn plan(here: &[u32], there: &[u32], seen: Option<u32>) -> Plan {
        let seen = seen.map(|seen| ids(&[seen])[0]);
        Sides { here: &ids(here), there: &ids(there), seen }.plan()
    }

    fn id(number: u32) -> Oid {
        ids(&[number])[0]
    }

    #[test]
    fn every_case() {
        assert_eq!(plan(&[], &[], None), Plan::Same);
        assert_eq!(plan(&[1, 2], &[], None), Plan::Push);
        assert_eq!(plan(&[], &[1, 2], None), Plan::FastForward);
        assert_eq!(plan(&[1, 2], &[1, 2], Some(1)), Plan::Same);
        assert_eq!(plan(&[1, 2, 3], &[1, 2], Some(2)), Plan::Push);
        assert_eq!(plan(&[1], &[1, 2], Some(1)), Plan::FastForward);
        assert_eq!(plan(&[1, 2, 4], &[1, 2, 3], Some(2)), Plan::Reappend { common: 2 });
        assert_eq!(
            plan(&[1, 2], &[3, 4], None),
            Plan::Refused(Fault::OtherLoop { here: id(1), there: id(3) })
        );
        // A clone that has no ledger any more takes what is there, if it is what was there.
        assert_eq!(plan(&[], &[1, 2], Some(1)), Plan::FastForward);
        assert_eq!(plan(&[], &[1, 3], Some(2)), Plan::Refused(Fault::Replaced { seen: id(2), there: id(3) }));
    }

    #[test]
    fn a_remote_that_lost_or_replaced_records_is_refused() {
        assert_eq!(plan(&[1, 2, 3], &[], Some(2)), Plan::Refused(Fault::Gone { seen: id(2) }));
        assert_eq!(plan(&[], &[], Some(2)), Plan::Refused(Fault::Gone { seen: id(2) }));
        assert_eq!(
            plan(&[1, 2, 3, 4], &[1, 2], Some(3)),
            Plan::Refused(Fault::WentBack { seen: id(3), there: id(2) })
        );
        assert_eq!(
            plan(&[1, 2, 3], &[1, 2, 9, 10], Some(3)),
            Plan::Refused(Fault::Replaced { seen: id(3), there: id(10) })
        );
        assert_eq!(
            plan(&[1, 2], &[7], Some(2)),
            Plan::Refused(Fault::Replaced { seen: id(2), there: id(7) })
        );
    }

    proptest! {
        /// Whatever two clones and their remote have been through: nothing that the remote had is ever missing from what is pushed, and
        /// nothing that is here is dropped without being named.
        #[test]
        fn nothing_is_lost(here in proptest::collection::vec(0u32..6, 0..6),
                           there in proptest::collection::vec(0u32..6, 0..6),
                           seen in proptest::option::of(0u32..6)) {
            let (here, there, seen) = (ids(&here), ids(&there), seen.map(id));
            match (Sides { here: &here, there: &there, seen }).plan() {
                Plan::Same => prop_assert_eq!(&here, &there),
                Plan::FastForward => prop_assert!(there.starts_with(&here) && there.len() > here.len()),
                Plan::Push => prop_assert!(here.starts_with(&there) && here.len() > there.len()),
                Plan::Reappend { common } => {
                    prop_assert!(common > 0 && here[..common] == there[..common]);
                    prop_assert!(common < here.len() && common < there.len());
                    prop_assert_ne!(here[common], there[common]);
                }
                Plan::Refused(Fault::OtherLoop { here: a, there: b }) => prop_assert!(a != b && here[0] == a && there[0] == b),
                Plan::Refused(fault) => {
                    let seen = seen.unwrap();
                    prop_assert!(!there.contains(&seen), "{fault}");
                }
            }
            // What was seen on the remote is part of whatever moves.
            if let Some(seen) = seen && !matches!((Sides { here: &here, there: &there, seen: Some(seen) }).plan(), Plan::Refused(_)) {
                prop_assert!(there.contains(&seen));
            }
        }
    }
}
