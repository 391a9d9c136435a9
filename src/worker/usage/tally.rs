//! What a run used, summed up over the sessions and steps that it reports.

use super::amount::{add_dollars, add_tokens};
use super::{Basis, NamedModel, Usage, problem};
use crate::money::MicroUsd;

/// A sum in which one unknown part makes the whole unknown.
pub(super) struct Tally {
    prompt: Option<u64>,
    completion: Option<u64>,
    usd: Option<MicroUsd>,
    models: Vec<NamedModel>,
    pub problems: Vec<String>,
}

impl Tally {
    /// Nothing used yet.
    pub fn new() -> Self {
        Self {
            prompt: Some(0),
            completion: Some(0),
            usd: Some(MicroUsd::ZERO),
            models: Vec::new(),
            problems: Vec::new(),
        }
    }

    pub fn prompt(&mut self, tokens: Option<u64>) {
        self.prompt = self.prompt.zip(tokens).map(|(one, other)| add_tokens(one, other));
    }

    pub fn completion(&mut self, tokens: Option<u64>) {
        self.completion = self.completion.zip(tokens).map(|(one, other)| add_tokens(one, other));
    }

    pub fn usd(&mut self, usd: Option<MicroUsd>) {
        self.usd = self.usd.zip(usd).map(|(one, other)| add_dollars(one, other));
    }

    /// Something was used of which nothing is known.
    pub fn unknown(&mut self, why: impl Into<String>) {
        self.prompt = None;
        self.completion = None;
        self.usd = None;
        self.problems.push(why.into());
    }

    /// Whether the cost, if there is one, is less than `price` micro-dollars for a million tokens, of which there are `enough`.
    pub fn is_too_cheap(&self, enough: u64, price: u64) -> bool {
        let (Some(usd), Some(prompt), Some(completion)) = (self.usd, self.prompt, self.completion) else {
            return false;
        };
        let tokens = add_tokens(prompt, completion);
        let per_million = u128::from(usd.micros()) * 1_000_000 / u128::from(tokens.max(1));
        usd > MicroUsd::ZERO && tokens >= enough && per_million < u128::from(price)
    }

    pub fn model(&mut self, provider: Option<&str>, model: &str) {
        let named = NamedModel { provider: provider.map(str::to_owned), model: model.to_owned() };
        if !model.trim().is_empty() && !self.models.contains(&named) {
            self.models.push(named);
        }
    }

    pub fn usage(self) -> Usage {
        Usage {
            prompt_tokens: self.prompt,
            completion_tokens: self.completion,
            usd: self.usd,
            basis: if self.usd.is_some() { Basis::Reported } else { Basis::Unknown },
            models: self.models,
            problem: problem(self.problems),
        }
    }
}

/// What was used in all by sessions that report their total so far: while one lasts it grows, so that a smaller one is
/// that of another session.
pub(super) fn grown<T: PartialOrd + Copy>(
    totals: impl IntoIterator<Item = T>,
    zero: T,
    add: fn(T, T) -> T,
) -> T {
    let (mut before, mut last) = (zero, zero);
    for total in totals {
        if total < last {
            before = add(before, last);
        }
        last = total;
    }
    add(before, last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_that_grow_and_begin_anew() {
        let sum = |totals: &[u64]| grown(totals.iter().copied(), 0, add_tokens);
        assert_eq!(sum(&[]), 0);
        assert_eq!(sum(&[10, 30]), 30);
        assert_eq!(sum(&[10, 10]), 10);
        assert_eq!(sum(&[10, 30, 5, 7]), 37);
        assert_eq!(sum(&[u64::MAX, 1]), super::super::amount::MAX_TOKENS);
    }
}
