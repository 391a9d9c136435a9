//! What each kind of worker used.

mod agents;

use proptest::prelude::*;

use super::amount::{MAX_TOKENS, MAX_USD};
use super::*;

fn whole(text: &[u8]) -> Printed<'_> {
    Printed { text, is_cut: false }
}

fn json(evidence: &str) -> Usage {
    parse(UsageKind::Json, whole(b""), Some(evidence.as_bytes()))
}

fn cost(cost: &str) -> Usage {
    json(&format!(r#"{{"hypothesis": "x", "cost": {cost}}}"#))
}

#[test]
fn a_worker_that_costs_nothing() {
    let usage = parse(UsageKind::None, whole(b"total_cost_usd: 5"), Some(br#"{"cost": {"usd": 5}}"#));
    assert_eq!((usage.usd, usage.basis, usage.problem), (Some(MicroUsd::ZERO), Basis::None, None));
}

#[test]
fn a_reported_cost() {
    assert_eq!(
        cost(r#"{"prompt_tokens": 1204, "completion_tokens": 6120, "usd": 0.412345, "more": []}"#),
        Usage {
            prompt_tokens: Some(1204),
            completion_tokens: Some(6120),
            usd: Some(MicroUsd::from_micros(412_345)),
            basis: Basis::Reported,
            models: Vec::new(),
            problem: None,
        }
    );
    assert_eq!(cost(r#"{"usd": "0.1"}"#).usd, Some(MicroUsd::from_micros(100_000)));
    assert_eq!(cost(r#"{"usd": 999999999}"#).usd, Some(MicroUsd::from_micros(999_999_999_000_000)));
}

#[test]
fn an_explicit_zero_is_known() {
    // Field report 2.76.
    for zero in ["0", "0.0", "\"0.000000\"", "-0.0"] {
        let usage = cost(&format!(r#"{{"prompt_tokens": 0, "completion_tokens": 0, "usd": {zero}}}"#));
        assert_eq!(
            (usage.usd, usage.basis, usage.problem),
            (Some(MicroUsd::ZERO), Basis::Reported, None),
            "{zero}"
        );
        assert_eq!(usage.prompt_tokens, Some(0));
    }
}

#[test]
fn absent_is_not_zero() {
    // Field report 2.75: a cost under another name is unknown.
    for evidence in [
        "",
        "null",
        "[]",
        "{}",
        "{\"cost\": null}",
        "{\"cost\": 5}",
        "{\"cost\": []}",
        "{\"cost\": {}}",
        "{\"cost\": {\"usd\": null}}",
        "{\"cost_usd\": 5}",
        "{\"cost\": {\"total_usd\": 5}}",
        "{\"cost\": {\"usd\": 5}",
        "{\"cost\": {\"usd\": NaN}}",
        "\u{feff}{}",
    ] {
        let usage = json(evidence);
        assert_eq!((usage.usd, usage.basis), (None, Basis::Unknown), "{evidence}");
        assert!(usage.problem.is_some(), "{evidence}");
    }
    let missing = parse(UsageKind::Json, whole(b""), None);
    assert_eq!((missing.usd, missing.prompt_tokens, missing.basis), (None, None, Basis::Unknown));
    assert_eq!(parse(UsageKind::Json, whole(b""), Some(b"\xff")).basis, Basis::Unknown);
}

#[test]
fn impossible_amounts_are_unknown() {
    for usd in ["-1", "-0.01", "-1e300", "1e400", "\"NaN\"", "\"inf\"", "\"$1\"", "true", "{}", "[1]"] {
        let usage = cost(&format!(r#"{{"prompt_tokens": 1, "completion_tokens": 1, "usd": {usd}}}"#));
        assert_eq!((usage.usd, usage.basis), (None, Basis::Unknown), "{usd}");
        assert!(usage.problem.is_some(), "{usd}");
    }
    for tokens in ["-1", "1.5", "\"1\"", "-1e30", "true"] {
        let usage = cost(&format!(r#"{{"prompt_tokens": {tokens}, "completion_tokens": 2, "usd": 1}}"#));
        assert_eq!((usage.prompt_tokens, usage.completion_tokens), (None, Some(2)), "{tokens}");
        assert_eq!(usage.basis, Basis::Reported);
        assert!(usage.problem.unwrap().contains("prompt_tokens"), "{tokens}");
    }
    // What is known of the tokens stays known.
    assert_eq!(cost(r#"{"prompt_tokens": 7}"#).prompt_tokens, Some(7));
}

#[test]
fn an_amount_far_over_any_limit_is_no_unknown_one() {
    for usd in ["1000000000", "1000000000.000001", "1e18", "1e300", "\"1e999\"", "18446744073709551616"] {
        let usage = cost(&format!(r#"{{"prompt_tokens": 1, "completion_tokens": 1, "usd": {usd}}}"#));
        assert_eq!((usage.usd, usage.basis), (Some(MAX_USD), Basis::Reported), "{usd}");
        assert!(usage.problem.unwrap().contains("counts as that"), "{usd}");
    }
    for tokens in ["1000000000001", "18446744073709551615", "18446744073709551616", "1e30"] {
        let usage = cost(&format!(r#"{{"prompt_tokens": {tokens}, "completion_tokens": 2, "usd": 1}}"#));
        assert_eq!((usage.prompt_tokens, usage.completion_tokens), (Some(MAX_TOKENS), Some(2)), "{tokens}");
    }
    assert_eq!(cost(r#"{"prompt_tokens": 1000000000000}"#).prompt_tokens, Some(1_000_000_000_000));
}

#[test]
fn what_is_said_twice_is_not_known() {
    for evidence in [
        r#"{"cost": {"usd": 5}, "cost": {"usd": 0}}"#,
        r#"{"cost": {"usd": 5, "usd": 0}}"#,
        r#"{"cost": {"usd": 0}, "more": {"a": 1, "a": 1}}"#,
    ] {
        let usage = json(evidence);
        assert_eq!((usage.usd, usage.basis), (None, Basis::Unknown), "{evidence}");
    }
}

#[test]
fn names() {
    for kind in UsageKind::ALL {
        assert_eq!(UsageKind::parse_name(kind.name()), Ok(*kind));
        assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
    }
    assert_eq!(
        UsageKind::parse_name("cluade"),
        Err(UsageKindError::Unknown { name: "cluade".into(), nearest: Some("claude") })
    );
}

proptest! {
    #[test]
    fn any_evidence_is_total(bytes: Vec<u8>, usd in "[-+.0-9eE\"]{0,8}") {
        let _ = parse(UsageKind::Json, whole(&bytes), Some(&bytes));
        let usage = cost(&format!("{{\"usd\": {usd}}}"));
        prop_assert_eq!(usage.usd.is_none(), usage.basis == Basis::Unknown);
    }
}
