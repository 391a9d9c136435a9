//! What the decision compared, for people.

use std::fmt::Write as _;

use super::line::span;
use super::status::dollars;
use crate::decide::{Comparison, Consideration, Value};
use crate::explain::Reasons;
use crate::ledger::message::one_line;

/// The most names that are shown.
const NAMED: usize = 20;

/// The lines that say which row and which stop applied, and what was compared.
/// `named` are the paths, the tests or the problem that the row is about.
pub fn reasons(reasons: &Reasons, named: &[String]) -> String {
    let mut text = String::new();
    if reasons.rows.is_empty() {
        list(&mut text, "the baseline", &reasons.stops);
    } else {
        list(&mut text, "rows", &reasons.rows);
        for line in some_of(named) {
            let _ = writeln!(text, "       {line}");
        }
        if reasons.stops.is_empty() {
            text.push_str("stops\n  none was asked: a blocked outcome is final\n");
        } else {
            list(&mut text, "stops", &reasons.stops);
        }
    }
    if !reasons.before_start.is_empty() {
        list(&mut text, "before the next start", &reasons.before_start);
    }
    text
}

/// A heading and a line for each; what applies is told in full.
fn list(text: &mut String, heading: &str, considered: &[Consideration]) {
    let _ = writeln!(text, "{heading}");
    for one in considered {
        let number = one.row.map_or_else(String::new, |number| number.to_string());
        let applies = if one.applies { "yes" } else { "no" };
        let facts: Vec<String> = one.compared.iter().map(comparison).collect();
        if one.applies {
            let _ = writeln!(text, "  {number:>2} {:<27} {applies}", one.name);
            for fact in full(one) {
                let _ = writeln!(text, "       {fact}");
            }
        } else {
            let line = format!("  {number:>2} {:<27} {applies:<3}  {}", one.name, facts.join("; "));
            let _ = writeln!(text, "{}", line.trim_end());
        }
    }
}

/// The first of these names, a line each, and how many more there are.
pub fn some_of(named: &[String]) -> Vec<String> {
    let mut lines: Vec<String> = named.iter().take(NAMED).map(|one| one_line(one, 200)).collect();
    if named.len() > NAMED {
        lines.push(format!("and {} more", named.len() - NAMED));
    }
    lines
}

/// Every value of one row or stop, a line each.
pub fn full(one: &Consideration) -> Vec<String> {
    let given = one.given.iter().map(|given| format!("{}: {}", given.what, value(&given.value)));
    let mut lines: Vec<String> = given.chain(one.compared.iter().map(comparison)).collect();
    if lines.is_empty() {
        lines.push("what is left when no other row applies".to_owned());
    }
    lines
}

/// One comparison: what it is, its value, and how that stands to the bound.
pub fn comparison(one: &Comparison) -> String {
    let Comparison { what, value: found, relation, bound, holds } = one;
    match (found, bound) {
        (Value::Flag(found), Value::Flag(_)) => format!("{what}: {}", if *found { "yes" } else { "no" }),
        (_, Value::None) => format!("{what}: {}; there is no bound yet", value(found)),
        _ if *holds => format!("{what}: {} {relation} {}", value(found), value(bound)),
        _ => format!("{what}: {}, not {relation} {}", value(found), value(bound)),
    }
}

fn value(value: &Value) -> String {
    match value {
        Value::Count(count) => count.to_string(),
        Value::Difference(difference) => difference.to_string(),
        Value::Number(number) => number.to_string(),
        Value::Usd(usd) => format!("${}", dollars(*usd)),
        Value::Seconds(seconds) => span(*seconds),
        Value::Flag(flag) => if *flag { "yes" } else { "no" }.to_owned(),
        Value::Text(text) => one_line(text, 200),
        Value::None => "none".to_owned(),
    }
}
