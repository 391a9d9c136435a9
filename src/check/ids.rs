//! Test ids as they are gathered: how much of them there may be, and how tests of one name are told apart.

use std::collections::{BTreeMap, HashMap};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Outcome, ReportProblem, TestSets, excerpt};

/// What tests of one id are, in the formats where nothing but their order tells them apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SameIds {
    /// Tests of their own: `x`, `x #2`, `x #3`, so that none of them vanishes unseen. The failed ones come first, then those that
    /// were skipped: runners do not report in a fixed order.
    #[default]
    Numbered,
    /// One test, of whose reports the worst counts. For runners that report a test again when they run it again.
    Merged,
}

/// The reports of tests, of one id or not.
#[derive(Debug, Default)]
pub(super) struct Reports {
    /// Each id once: of several reports the worst counts.
    pub merged: TestSets,
    /// How many reports of each id there were: failed, skipped, passed.
    counts: BTreeMap<String, [u64; 3]>,
}

impl Reports {
    /// Adds a report.
    pub fn record(&mut self, id: String, outcome: Outcome) {
        self.counts.entry(id.clone()).or_default()[place(outcome)] += 1;
        self.merged.record(id, outcome);
    }

    /// Adds a report that says more of the test that was reported last.
    pub fn record_again(&mut self, id: String, outcome: Outcome) {
        self.merged.record(id, outcome);
    }

    /// The tests.
    pub fn into_sets(self, same: SameIds) -> TestSets {
        if same == SameIds::Merged || self.counts.len() as u64 == self.counts.values().flatten().sum::<u64>()
        {
            return self.merged;
        }
        let mut sets = TestSets { partial: self.merged.partial, ..TestSets::default() };
        for (id, counts) in &self.counts {
            let mut number = 1_u64;
            for outcome in [Outcome::Failed, Outcome::Skipped, Outcome::Passed] {
                for _ in 0..counts[place(outcome)] {
                    let mut name = if number == 1 { id.clone() } else { format!("{id} #{number}") };
                    // A test may be called like that.
                    while number > 1 && self.counts.contains_key(&name) {
                        number += 1;
                        name = format!("{id} #{number}");
                    }
                    number += 1;
                    sets.record(name, outcome);
                }
            }
        }
        sets
    }
}

fn place(outcome: Outcome) -> usize {
    match outcome {
        Outcome::Failed => 0,
        Outcome::Skipped => 1,
        Outcome::Passed => 2,
    }
}

/// All ids of a report together, in bytes. The ids of nested tests repeat the names of what they are nested in, so that a
/// report of [`super::MAX_REPORT`] bytes could ask for terabytes of them.
pub(super) const MAX_ID_BYTES: usize = 64 * 1024 * 1024;

/// [`TestSets`] that take in only so much.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    pub sets: TestSets,
    bytes: usize,
}

impl Gathered {
    /// Adds one report of a test; of several the worst counts.
    pub fn record(&mut self, id: String, outcome: Outcome) -> Result<(), ReportProblem> {
        self.bytes = self.bytes.saturating_add(id.len());
        if self.bytes > MAX_ID_BYTES {
            let id = excerpt(&id);
            return Err(ReportProblem::contradiction(format!(
                "the names of its tests take more than {MAX_ID_BYTES} bytes, the last of them `{id}`"
            )));
        }
        self.sets.record(id, outcome);
        Ok(())
    }
}

/// Tells tests of one name apart by their order: the first keeps the name, then come `#2`, `#3`, ….
#[derive(Debug, Default)]
pub(super) struct Ordinals(HashMap<String, u64>);

impl Ordinals {
    /// `name`, with its ordinal if it was there before.
    pub fn distinct(&mut self, name: &str) -> String {
        match self.0.get_mut(name) {
            Some(seen) => {
                *seen += 1;
                format!("{name} #{seen}")
            }
            None => {
                self.0.insert(name.to_owned(), 1);
                name.to_owned()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_of_one_name_are_told_apart() {
        let mut names = Ordinals::default();
        let given = ["a", "b", "a", "a", "b"].map(|name| names.distinct(name));
        assert_eq!(given, ["a", "b", "a #2", "a #3", "b #2"]);
    }

    fn numbered(reports: &[(&str, Outcome)]) -> TestSets {
        let mut all = Reports::default();
        for (id, outcome) in reports {
            all.record((*id).to_owned(), *outcome);
        }
        all.into_sets(SameIds::Numbered)
    }

    #[test]
    fn reports_of_one_id_are_tests_of_their_own_in_no_order() {
        use Outcome::{Failed, Passed, Skipped};
        let sets = numbered(&[("a", Passed), ("b", Passed), ("a", Failed), ("a", Skipped)]);
        assert_eq!(sets.failed, ["a".to_owned()].into());
        assert_eq!(sets.skipped, ["a #2".to_owned()].into());
        assert_eq!(sets.passed, ["a #3".to_owned(), "b".to_owned()].into());
        assert_eq!(sets, numbered(&[("a", Skipped), ("a", Failed), ("b", Passed), ("a", Passed)]));
        // A name that looks like a number hides nobody.
        let sets = numbered(&[("a", Passed), ("a #2", Failed), ("a", Passed), ("a #2", Passed)]);
        assert_eq!(sets.passed, ["a", "a #3", "a #2 #2"].map(str::to_owned).into());
        assert_eq!(sets.failed, ["a #2".to_owned()].into());
    }

    #[test]
    fn ids_have_a_bound() {
        let mut gathered = Gathered::default();
        let id = "x".repeat(MAX_ID_BYTES / 4);
        for _ in 0..4 {
            gathered.record(id.clone(), Outcome::Passed).unwrap();
        }
        assert!(matches!(
            gathered.record("y".into(), Outcome::Passed),
            Err(ReportProblem::Contradiction { .. })
        ));
        assert_eq!(gathered.sets.len(), 1);
    }
}
