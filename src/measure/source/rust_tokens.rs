//! Rust inside of macro invocations, where there are only tokens: what stands there is counted as far as tokens tell.

use super::facts::FallbackKind;
use super::rust::{DEFAULTS, RAISING};
use super::syntax::{At, Syntax};

fn is_token(syntax: &Syntax<'_>, at: At) -> bool {
    syntax.kind(syntax.parent(at)) == "token_tree"
}

/// Whether a keyword or a sign decides.
pub fn decides(syntax: &Syntax<'_>, at: At) -> bool {
    if !is_token(syntax, at) {
        return false;
    }
    match syntax.kind(at) {
        "if" | "while" => true,
        // `for<'a>` is a type.
        "for" => syntax.next(at).is_some_and(|next| syntax.kind(next) != "<"),
        // `&&x` borrows twice, `||` alone begins a closure, `?Sized` is a bound.
        _ => syntax.previous(at).is_some_and(|before| is_value(syntax, before)),
    }
}

/// Whether a value may end with this token.
fn is_value(syntax: &Syntax<'_>, at: At) -> bool {
    match syntax.kind(at) {
        "identifier" => !syntax.is(at, "else") && !syntax.is(at, "in"),
        "token_tree" | "self" | "?" | "metavariable" => true,
        kind => kind.ends_with("_literal"),
    }
}

/// Whether a token is, or names, a fallback.
pub fn fallback(syntax: &Syntax<'_>, at: At) -> Option<FallbackKind> {
    if !is_token(syntax, at) {
        return None;
    }
    let next = syntax.next(at)?;
    if syntax.kind(at) == "_" {
        let value = syntax.next(next).filter(|_| syntax.kind(next) == "=>")?;
        let raises = RAISING.contains(&syntax.text_within(value, 40).as_str()) || syntax.is(value, "Err");
        return (!raises).then_some(FallbackKind::CatchAll);
    }
    let method = syntax.previous(at).is_some_and(|before| syntax.kind(before) == ".");
    if !method || syntax.kind(next) != "token_tree" {
        return None;
    }
    let name = syntax.text_within(at, 40);
    if name == "ok" {
        return syntax.is(next, "()").then_some(FallbackKind::DiscardedError);
    }
    DEFAULTS.contains(&name.as_str()).then_some(FallbackKind::DefaultValue)
}
