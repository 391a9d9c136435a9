//! The sums of pairs of files.

use proptest::prelude::*;

use super::source::{Language, facts};
use super::sums::Sums;
use super::*;

/// What a change of one Rust file comes to.
fn pair(old: &str, new: &str) -> Measured {
    let facts = |source: &str| facts(Language::Rust, b"a.rs", source.as_bytes()).unwrap();
    let mut sums = Sums::default();
    sums.add("a.rs", &facts(old), &facts(new));
    sums.finish()
}

const OLD: &str = "
pub fn a(x: u8) -> u8 { if x > 1 { 2 } else { 3 } }
pub fn gone() {}
fn b(x: Option<u8>) -> u8 { x.unwrap_or(1) }
";
const NEW: &str = "
pub fn a(x: u16) -> u8 { if x > 1 && x < 9 { 2 } else { 3 } }
pub struct Come { pub field: u8 }
fn b(x: Option<u8>) -> u8 {
    let y = x.unwrap_or_default();
    x.unwrap_or(1)
}
fn c(x: E) -> u8 { match x { E::A => 1, E::B => 2, _ => 3 } }
";

#[test]
fn what_made_a_number_is_listed() {
    let measured = pair(OLD, NEW);
    // b: another default; c: a catch-all.
    assert_eq!(measured.fallback_branches, 2);
    let added: Vec<_> = measured
        .fallbacks
        .added
        .iter()
        .map(|one| (one.line, one.within.as_str(), one.text.as_str()))
        .collect();
    assert_eq!(added, [(5, "b", "x.unwrap_or_default()"), (8, "c", "_ => 3")]);
    assert_eq!(measured.fallbacks.removed, []);
    // Come and its field came, gone went.
    assert_eq!(measured.public_interfaces, 1);
    let names: Vec<_> = measured.interfaces.added.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["Come", "Come.field"]);
    assert_eq!(measured.interfaces.removed[0].name, "gone");
    let changed = &measured.interfaces.changed;
    assert_eq!(changed.len(), 1);
    assert_eq!(
        (changed[0].old.as_str(), changed[0].new.as_str()),
        ("pub fn a(x: u8) -> u8", "pub fn a(x: u16) -> u8")
    );
    // a: one more; gone: one less; c: three.
    assert_eq!(measured.cyclomatic_complexity, 3);
    let functions: Vec<_> =
        measured.functions.iter().map(|one| (one.name.as_str(), one.old, one.new)).collect();
    assert_eq!(functions, [("c", None, Some(3)), ("a", Some(2), Some(3)), ("gone", Some(1), None)]);
}

#[test]
fn there_and_back_is_nothing() {
    let (there, back) = (pair(OLD, NEW), pair(NEW, OLD));
    assert_eq!(there.fallback_branches, -back.fallback_branches);
    assert_eq!(there.public_interfaces, -back.public_interfaces);
    assert_eq!(there.cyclomatic_complexity, -back.cyclomatic_complexity);
    assert_eq!(there.fallbacks.added, back.fallbacks.removed);
    assert_eq!(there.interfaces.added, back.interfaces.removed);
}

#[test]
fn numbers_have_stable_names() {
    let json = serde_json::to_value(pair("", "")).unwrap();
    let keys: Vec<_> = json.as_object().unwrap().keys().map(String::as_str).collect();
    let expected = [
        "measure",
        "fallback_branches",
        "dependencies",
        "public_interfaces",
        "cyclomatic_complexity",
        "changed_lines",
        "lines",
        "fallbacks",
        "functions",
        "interfaces",
        "packages",
        "unmeasurable",
        "not_measured",
    ];
    assert_eq!(keys, expected);
    assert_eq!(json["measure"], 1);
}

/// Pieces of which files are made.
fn file() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        "[a-c]".prop_map(|name| format!("pub fn {name}(x: u8) {{ if x {{ y.unwrap_or(1) }} }}\n")),
        "[a-c]".prop_map(|name| format!("fn {name}() {{ match x {{ A => 1, _ => 2 }} }}\n")),
        "[A-C]".prop_map(|name| format!("pub struct {name} {{ pub a: u8 }}\n")),
        "[A-C]".prop_map(|name| format!("impl {name} {{ pub fn f(self) {{ let _ = g(); }} }}\n")),
        Just("}\n".to_owned()),
    ];
    proptest::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn numbers_of_a_change_are_those_of_its_reverse_with_the_other_sign(old in file(), new in file()) {
        let (there, back, still) = (pair(&old, &new), pair(&new, &old), pair(&old, &old));
        prop_assert_eq!(there.fallback_branches, -back.fallback_branches);
        prop_assert_eq!(there.public_interfaces, -back.public_interfaces);
        prop_assert_eq!(there.cyclomatic_complexity, -back.cyclomatic_complexity);
        prop_assert_eq!(&there.fallbacks.added, &back.fallbacks.removed);
        // The lists come to the numbers.
        let rise: i64 = there.functions.iter().map(report::FunctionChange::delta).sum();
        prop_assert_eq!(there.cyclomatic_complexity, rise);
        prop_assert_eq!(there.fallback_branches, report::rise(there.fallbacks.removed.len(), there.fallbacks.added.len()));
        prop_assert_eq!(still, Sums::default().finish());
    }
}
