//! Which tests passed, failed and were skipped in one run of the check.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::canonical::sha256_of;

/// What became of one test. Ordered by what wins where a test is reported more than once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// It ran and passed.
    Passed,
    /// It did not run.
    Skipped,
    /// It ran and failed, or could not be run.
    Failed,
}

/// The schema id of [`TestSets`]; another major version is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub enum TestsSchema {
    /// `git-loop/tests/v1`.
    #[default]
    #[serde(rename = "git-loop/tests/v1")]
    V1,
}

/// The tests of one report, by outcome: disjoint sets of test ids. Stored as `evidence/tests.json`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "Written")]
pub struct TestSets {
    /// The schema id.
    pub schema: TestsSchema,
    /// Ids of the tests that ran and passed.
    pub passed: BTreeSet<String>,
    /// Ids of the tests that failed.
    pub failed: BTreeSet<String>,
    /// Ids of the tests that were skipped or ignored.
    pub skipped: BTreeSet<String>,
    /// The runner stopped at the first failing part, so that tests behind it are in no set: `cargo test` without
    /// `--no-fail-fast`. A partial report always has a failure.
    pub partial: bool,
}

/// The fields of [`TestSets`] as they come from a file, where the sets may overlap.
#[derive(Deserialize, JsonSchema)]
struct Written {
    schema: TestsSchema,
    passed: BTreeSet<String>,
    failed: BTreeSet<String>,
    skipped: BTreeSet<String>,
    partial: bool,
}

impl TryFrom<Written> for TestSets {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        let Written { schema, passed, failed, skipped, partial } = written;
        let twice = passed
            .intersection(&failed)
            .chain(passed.intersection(&skipped))
            .chain(failed.intersection(&skipped))
            .next();
        match twice {
            Some(id) => Err(format!("the test `{}` has two outcomes", super::excerpt(id))),
            None => Ok(Self { schema, passed, failed, skipped, partial }),
        }
    }
}

impl TestSets {
    /// Adds one report of a test and says whether the test is new. Of several reports of one test the worst counts:
    /// failed before skipped before passed.
    pub fn record(&mut self, id: String, outcome: Outcome) -> bool {
        match self.outcome(&id) {
            Some(before) if before >= outcome => false,
            Some(before) => {
                self.set_mut(before).remove(&id);
                self.set_mut(outcome).insert(id);
                false
            }
            None => self.set_mut(outcome).insert(id),
        }
    }

    /// What became of a test; `None` if it was not collected.
    pub fn outcome(&self, id: &str) -> Option<Outcome> {
        if self.failed.contains(id) {
            Some(Outcome::Failed)
        } else if self.skipped.contains(id) {
            Some(Outcome::Skipped)
        } else if self.passed.contains(id) {
            Some(Outcome::Passed)
        } else {
            None
        }
    }

    fn set_mut(&mut self, outcome: Outcome) -> &mut BTreeSet<String> {
        match outcome {
            Outcome::Passed => &mut self.passed,
            Outcome::Skipped => &mut self.skipped,
            Outcome::Failed => &mut self.failed,
        }
    }

    /// The ids of all tests that were found, run or not, in byte order.
    pub fn collected(&self) -> impl Iterator<Item = &str> {
        let mut ids: Vec<&str> =
            [&self.passed, &self.failed, &self.skipped].into_iter().flatten().map(String::as_str).collect();
        ids.sort_unstable();
        ids.into_iter()
    }

    /// The number of tests that were found.
    pub fn len(&self) -> usize {
        self.passed.len() + self.failed.len() + self.skipped.len()
    }

    /// Whether no test was found.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of tests that ran.
    pub fn ran(&self) -> usize {
        self.passed.len() + self.failed.len()
    }

    /// One text for the collected set: the SHA-256, in hex, of the canonical JSON array of its ids in byte order.
    pub fn fingerprint(&self) -> String {
        sha256_of(&self.collected().collect::<Vec<_>>())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::canonical::{CanonicalError, canonical_json, read_canonical, sha256_hex};

    fn sets(reports: &[(&str, Outcome)]) -> TestSets {
        let mut sets = TestSets::default();
        for (id, outcome) in reports {
            sets.record((*id).into(), *outcome);
        }
        sets
    }

    #[test]
    fn the_worst_report_of_a_test_counts_in_any_order() {
        use Outcome::{Failed, Passed, Skipped};
        for (a, b, worst) in [
            (Passed, Passed, Passed),
            (Passed, Skipped, Skipped),
            (Passed, Failed, Failed),
            (Skipped, Failed, Failed),
            (Failed, Failed, Failed),
        ] {
            for order in [[a, b], [b, a]] {
                let mut sets = TestSets::default();
                assert!(sets.record("t".into(), order[0]));
                assert!(!sets.record("t".into(), order[1]));
                assert_eq!(sets.outcome("t"), Some(worst));
                assert_eq!(sets.len(), 1);
            }
        }
    }

    #[test]
    fn the_fingerprint_is_of_the_collected_ids_alone() {
        let a = sets(&[("b", Outcome::Passed), ("a", Outcome::Failed), ("é\"", Outcome::Skipped)]);
        let b = sets(&[("a", Outcome::Passed), ("é\"", Outcome::Passed), ("b", Outcome::Skipped)]);
        assert_eq!(a.collected().collect::<Vec<_>>(), ["a", "b", "é\""]);
        assert_eq!(a.fingerprint(), b.fingerprint());
        assert_eq!(a.fingerprint(), sha256_hex("[\n  \"a\",\n  \"b\",\n  \"é\\\"\"\n]\n"));
        assert_ne!(a.fingerprint(), sets(&[("a", Outcome::Passed)]).fingerprint());
        assert_eq!(TestSets::default().fingerprint(), sha256_hex("[]\n"));
    }

    #[test]
    fn the_stored_form() {
        let sets = sets(&[("b", Outcome::Passed), ("a", Outcome::Failed)]);
        let text = canonical_json(&sets);
        assert_eq!(
            text,
            "{\n  \"schema\": \"git-loop/tests/v1\",\n  \"passed\": [\n    \"b\"\n  ],\n  \"failed\": [\n    \"a\"\n  ],\n  \
             \"skipped\": [],\n  \"partial\": false\n}\n"
        );
        assert_eq!(read_canonical::<TestSets>(text.as_bytes()), Ok(sets));
        for bad in
            [text.replace("tests/v1", "tests/v2"), text.replace("\"b\"", "\"a\""), text.replace("\"b\"", "1")]
        {
            let read = read_canonical::<TestSets>(bad.as_bytes());
            assert!(matches!(read, Err(CanonicalError::Schema { .. })), "{read:?}");
        }
    }

    proptest! {
        #[test]
        fn any_sequence_of_reports_leaves_disjoint_sets(reports in proptest::collection::vec(("[a-d]", 0..3_usize), 0..20)) {
            let mut sets = TestSets::default();
            for (id, outcome) in reports {
                sets.record(id, [Outcome::Passed, Outcome::Skipped, Outcome::Failed][outcome]);
            }
            prop_assert!(sets.collected().zip(sets.collected().skip(1)).all(|(a, b)| a < b));
            prop_assert_eq!(read_canonical::<TestSets>(canonical_json(&sets).as_bytes()), Ok(sets));
        }
    }
}
