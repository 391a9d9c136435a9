//! Which agent and which model did something, as an `invocation` record says it. A model that a packet, a review or a contract names is
//! a label; what counts is derived here, and only here.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::worker::usage::NamedModel;

/// The longest text of an invocation, in bytes.
pub const LONGEST: usize = 200;

/// What an agent did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AgentRole {
    /// It proposed changes.
    Worker,
    /// It reviewed them.
    Reviewer,
}

/// How it is known which model it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// The agent's own output names it.
    Provider,
    /// The contract names it: assumed.
    Declared,
    /// Whoever signed the record says so: assumed.
    Stated,
}

/// An agent with its model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Identity {
    /// The agent.
    pub agent_id: String,
    /// The canonical id of its model; null if provider or model are not known.
    pub model: Option<String>,
    /// Whether the model is only assumed; such a one never shows that two models differ.
    pub assumed: bool,
}

/// `lower(provider)/lower(model)`, without what is none of `[a-z0-9._/-]`. None where one of them is not known or nothing of it is left.
pub fn canonical_model(provider: Option<&str>, model: Option<&str>) -> Option<String> {
    let reduced = |text: &str| -> Option<String> {
        let kept =
            |c: &char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '.' | '_' | '/' | '-');
        let text: String = text.chars().map(|c| c.to_ascii_lowercase()).filter(kept).collect();
        Some(text).filter(|text| !text.is_empty())
    };
    Some(format!("{}/{}", reduced(provider?)?, reduced(model?)?))
}

/// Provider and model as an agent's output names them; one that it names `provider/model` is taken apart. None if that leaves nothing
/// that could be recorded.
pub fn named(one: &NamedModel) -> Option<(Option<String>, String)> {
    match (&one.provider, one.model.split_once('/')) {
        (Some(provider), _) => Some((name(provider), name(&one.model)?)),
        (None, Some((provider, model))) => Some((name(provider), name(model)?)),
        (None, None) => Some((None, name(&one.model)?)),
    }
}

/// Whether a text may stand in an invocation: something that can be read, on one line, and not long.
pub fn is_name(text: &str) -> bool {
    text.len() <= LONGEST && !text.trim().is_empty() && !text.chars().any(char::is_control)
}

/// `text` as far as [`is_name`] allows it; none if nothing is left.
pub fn name(text: &str) -> Option<String> {
    let flat: String = text.chars().filter(|c| !c.is_control()).collect();
    let mut end = flat.len().min(LONGEST);
    while !flat.is_char_boundary(end) {
        end -= 1;
    }
    Some(flat[..end].trim().to_owned()).filter(|name| is_name(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_canonical_id_is_derived_by_one_rule() {
        let of = |provider, model| canonical_model(Some(provider), Some(model));
        assert_eq!(of("Anthropic", "Claude-Opus 4.1").as_deref(), Some("anthropic/claude-opus4.1"));
        assert_eq!(of("x", "A/B_c:d@é").as_deref(), Some("x/a/b_cd"));
        assert_eq!(of("é", "m"), None);
        assert_eq!(of("p", " "), None);
        assert_eq!(canonical_model(None, Some("m")), None);
        assert_eq!(canonical_model(Some("p"), None), None);
    }

    #[test]
    fn a_provider_is_taken_from_the_output_or_not_at_all() {
        let of = |provider: Option<&str>, model: &str| {
            named(&NamedModel { provider: provider.map(str::to_owned), model: model.to_owned() })
        };
        let told =
            |provider: Option<&str>, model: &str| Some((provider.map(str::to_owned), model.to_owned()));
        assert_eq!(of(Some("anthropic"), "a/b"), told(Some("anthropic"), "a/b"));
        assert_eq!(of(None, "openai/gpt/x"), told(Some("openai"), "gpt/x"));
        assert_eq!(of(None, "gpt"), told(None, "gpt"));
        assert_eq!(of(None, "openai/"), None);
        assert_eq!(of(Some("p"), "\n"), None);
    }

    #[test]
    fn names_are_short_and_on_one_line() {
        assert!(is_name("claude-code 2.1"));
        assert!(!is_name("  ") && !is_name("a\nb") && !is_name(&"x".repeat(201)));
        assert_eq!(name(" a\nb ").as_deref(), Some("ab"));
        assert_eq!(name(&"é".repeat(150)).map(|name| name.len()), Some(200));
        assert_eq!(name("\n"), None);
    }
}
