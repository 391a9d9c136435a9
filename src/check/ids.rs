//! Test ids as they are gathered: how much of them there may be, and how tests of one name are told apart.

use std::collections::HashMap;

use super::{Outcome, ReportProblem, TestSets, excerpt};

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
