//! Amounts as reports of usage write them.

use crate::check::json::Json;
use crate::money::{MicroUsd, MoneyError};

/// A larger cost of one run counts as this one: it is over any limit, and no sum of such overflows.
pub(super) const MAX_USD: MicroUsd = MicroUsd::from_micros(1_000_000_000 * 1_000_000);

/// A larger number of tokens of one run counts as this one: the first that is over any limit.
pub(super) const MAX_TOKENS: u64 = 1_000_000_000_001;

/// A number of tokens. What is wrong with it goes to `problems`, under the name `name`.
pub(super) fn tokens(value: &Json, name: &str, problems: &mut Vec<String>) -> Option<u64> {
    #[allow(clippy::cast_precision_loss, reason = "what matters is that it is far too large")]
    let too_many = match value {
        Json::Count(count) if *count < MAX_TOKENS => return Some(*count),
        Json::Count(_) => true,
        Json::Number(number) => *number >= MAX_TOKENS as f64,
        _ => false,
    };
    if too_many {
        // Unknown it would be no limit's business until the next start.
        problems.push(format!("`{name}` is {MAX_TOKENS} or more, and counts as that"));
        return Some(MAX_TOKENS);
    }
    problems.push(format!("`{name}` is not a number of tokens"));
    None
}

/// An amount of dollars, written as a number or as a string that holds one. What is wrong with it goes to `problems`.
pub(super) fn dollars(value: &Json, name: &str, problems: &mut Vec<String>) -> Option<MicroUsd> {
    let amount = match value {
        Json::Count(dollars) => MicroUsd::from_decimal(&dollars.to_string()),
        Json::Number(dollars) => MicroUsd::from_f64(*dollars),
        Json::Text(text) => MicroUsd::from_decimal(text),
        _ => Err(MoneyError::Syntax),
    };
    match amount {
        Ok(usd) if usd < MAX_USD => Some(usd),
        Ok(_) | Err(MoneyError::TooLarge) => {
            problems.push(format!("`{name}` is {MAX_USD} or more, and counts as that"));
            Some(MAX_USD)
        }
        Err(error) => {
            problems.push(format!("`{name}`: {error}"));
            None
        }
    }
}

/// The sum of two costs of one run, at most [`MAX_USD`].
pub(super) fn add_dollars(one: MicroUsd, other: MicroUsd) -> MicroUsd {
    one.checked_add(other).unwrap_or(MAX_USD).min(MAX_USD)
}

/// The sum of two numbers of tokens, at most [`MAX_TOKENS`].
pub(super) fn add_tokens(one: u64, other: u64) -> u64 {
    one.saturating_add(other).min(MAX_TOKENS)
}
