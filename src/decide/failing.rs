//! What the failing sets of a loop say together. F_0 is the baseline's; an iteration whose check gave no complete report has none.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// In which failing sets each test has been, as far as any test was in one.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct FailingSets {
    /// How many sets there are so far.
    pub count: u32,
    /// Tests that were in the very same sets stand together, ordered by `failed`.
    pub histories: Vec<History>,
}

/// Tests with one and the same history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct History {
    /// One letter for each set, the first one first: `F` where the tests were in it, `.` where not.
    pub failed: String,
    /// Their ids, in byte order.
    pub tests: Vec<String>,
}

const IN: char = 'F';
const OUT: char = '.';

impl FailingSets {
    /// The sets so far and one more.
    #[must_use]
    pub fn with(&self, failing: &[String]) -> Self {
        let failing: BTreeSet<&str> = failing.iter().map(String::as_str).collect();
        let mut known = BTreeSet::new();
        let mut histories: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for history in &self.histories {
            for test in &history.tests {
                known.insert(test.as_str());
                let mark = if failing.contains(test.as_str()) { IN } else { OUT };
                histories.entry(format!("{}{mark}", history.failed)).or_default().push(test.clone());
            }
        }
        let before = OUT.to_string().repeat(self.count as usize);
        for test in failing.into_iter().filter(|test| !known.contains(test)) {
            histories.entry(format!("{before}{IN}")).or_default().push(test.to_owned());
        }
        let histories = histories
            .into_iter()
            .map(|(failed, mut tests)| {
                tests.sort_unstable();
                History { failed, tests }
            })
            .collect();
        Self { count: self.count + 1, histories }
    }

    /// Whether the last set is one that was there before, with another one between: the first part of an oscillation.
    pub fn returned(&self) -> bool {
        self.returned_from().is_some()
    }

    /// The position of the first set that the last one equals, if another one stands between them.
    pub fn returned_from(&self) -> Option<usize> {
        let last = (self.count as usize).checked_sub(1)?;
        let same = |at: usize| {
            self.histories.iter().all(|history| {
                let marks = history.failed.as_bytes();
                marks.get(at) == marks.get(last)
            })
        };
        let first = (0..last).find(|at| same(*at))?;
        (first + 1..last).any(|at| !same(at)).then_some(first)
    }

    /// The sets in which exactly one of the tests `a` and `b` is, repeats dropped: the position of each, and whether it is `a`.
    pub fn alternation(&self, a: &str, b: &str) -> Vec<(usize, bool)> {
        let of = |test: &str| {
            let known = self.histories.iter().find(|history| history.tests.iter().any(|one| one == test));
            known.map_or("", |history| history.failed.as_str())
        };
        alternate(of(a), of(b)).collect()
    }

    /// Two tests that exclude each other: of the sets in which exactly one of them is, repeats dropped, the sequence reads
    /// a b a b. Of several such pairs the first in byte order.
    pub fn contradiction(&self) -> Option<(&str, &str)> {
        let pairs = self.histories.iter().enumerate().flat_map(|(at, one)| {
            self.histories[at + 1..]
                .iter()
                .filter(|other| alternate(&one.failed, &other.failed).count() >= 4)
                .filter_map(|other| Some((one.tests.first()?, other.tests.first()?)))
        });
        pairs.map(|(a, b)| if a < b { (a.as_str(), b.as_str()) } else { (b.as_str(), a.as_str()) }).min()
    }
}

/// Those sets in which exactly one of two tests is, repeats dropped: the position of each, and whether it is the first test.
fn alternate<'a>(one: &'a str, other: &'a str) -> impl Iterator<Item = (usize, bool)> + use<'a> {
    let mut last = None;
    let exactly_one = one.bytes().zip(other.bytes()).enumerate().filter(|(_, (a, b))| a != b);
    exactly_one
        .map(|(at, (a, _))| (at, a == IN as u8))
        .filter(move |(_, first)| last.replace(*first) != Some(*first))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sets(sets: &[&str]) -> FailingSets {
        sets.iter().fold(FailingSets::default(), |so_far, set| {
            so_far.with(&set.chars().map(String::from).collect::<Vec<_>>())
        })
    }

    #[test]
    fn histories_group_tests_that_behave_alike() {
        let history = |failed: &str, tests: &[&str]| History {
            failed: failed.to_owned(),
            tests: tests.iter().map(|test| (*test).to_owned()).collect(),
        };
        assert_eq!(sets(&[]), FailingSets { count: 0, histories: vec![] });
        assert_eq!(sets(&["", ""]), FailingSets { count: 2, histories: vec![] });
        assert_eq!(
            sets(&["ab", "abc", "ac"]),
            FailingSets {
                count: 3,
                histories: vec![history(".FF", &["c"]), history("FF.", &["b"]), history("FFF", &["a"])]
            }
        );
        assert_eq!(sets(&["ab", "b", "a"]).histories, [history("F.F", &["a"]), history("FF.", &["b"])]);
        assert_eq!(sets(&["ba", "", "ab"]).histories, [history("F.F", &["a", "b"])]);
    }

    #[test]
    fn a_set_comes_back_only_over_another() {
        for (sequence, returned) in [
            (&["a"][..], false),
            (&["a", "a"], false),
            (&["a", "a", "a"], false),
            (&["a", "b"], false),
            (&["a", "b", "a"], true),
            (&["a", "b", "b"], false),
            (&["a", "b", "a", "a"], true),
            (&["a", "b", "c"], false),
            (&["a", "b", "c", "b"], true),
            (&["", "a", ""], true),
            (&["ab", "a", "ab"], true),
            (&["ab", "a", "b"], false),
        ] {
            assert_eq!(sets(sequence).returned(), returned, "{sequence:?}");
        }
    }

    #[test]
    fn two_tests_contradict_each_other_after_a_b_a_b() {
        for (sequence, pair) in [
            (&["a", "b", "a"][..], None),
            (&["a", "b", "a", "b"], Some(("a", "b"))),
            (&["b", "a", "b", "a"], Some(("a", "b"))),
            // Repeats, both and neither count for nothing.
            (&["a", "a", "ab", "b", "", "b", "a", "ab", "b"], Some(("a", "b"))),
            (&["a", "ab", "a", "ab"], None),
            (&["a", "", "a", ""], None),
            // Other tests in between change nothing.
            (&["ax", "by", "az", "b"], Some(("a", "b"))),
            (&["a", "b", "c", "a", "b", "c"], Some(("a", "b"))),
        ] {
            assert_eq!(sets(sequence).contradiction(), pair, "{sequence:?}");
        }
    }

    proptest! {
        /// The same from the history of sets, word by word as the design says it.
        #[test]
        fn as_the_design_says_it(sequence in proptest::collection::vec("[a-d]{0,3}", 0..9)) {
            let sequence: Vec<BTreeSet<char>> = sequence.iter().map(|set| set.chars().collect()).collect();
            let all = sequence.iter().fold(FailingSets::default(), |so_far, set| {
                so_far.with(&set.iter().map(ToString::to_string).collect::<Vec<_>>())
            });
            let returned = sequence.split_last().is_some_and(|(last, before)| {
                (0..before.len()).any(|j| before[j] == *last && before[j + 1..].iter().any(|between| between != last))
            });
            prop_assert_eq!(all.returned(), returned);
            let tests: BTreeSet<char> = sequence.iter().flatten().copied().collect();
            let contradicts = tests.iter().any(|a| tests.iter().any(|b| {
                let mut only: Vec<char> = sequence.iter().filter_map(|set| match (set.contains(a), set.contains(b)) {
                    (true, false) => Some(*a),
                    (false, true) => Some(*b),
                    _ => None,
                }).collect();
                only.dedup();
                a != b && only.len() >= 4
            }));
            prop_assert_eq!(all.contradiction().is_some(), contradicts);
            // The sets can be read off again.
            prop_assert_eq!(all.count as usize, sequence.len());
            for (at, set) in sequence.iter().enumerate() {
                let read: BTreeSet<char> = all.histories.iter()
                    .filter(|history| history.failed.as_bytes()[at] == b'F')
                    .flat_map(|history| history.tests.iter().map(|test| test.chars().next().unwrap()))
                    .collect();
                prop_assert_eq!(&read, set);
            }
        }
    }
}
