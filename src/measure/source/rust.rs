//! Rust: what decides, what falls back, what is public.

use super::facts::{FallbackKind, Grammar, Interface, Names, Scope};
use super::rust_tokens as tokens;
use super::syntax::{At, Syntax};

/// The words of Rust.
pub struct Rust;

/// Methods that put a value in the place of one that is missing.
pub const DEFAULTS: &[&str] =
    &["unwrap_or", "unwrap_or_else", "unwrap_or_default", "map_or", "map_or_else", "or_else"];
/// Macros that end the branch they stand in with a failure.
pub const RAISING: &[&str] =
    &["panic", "unreachable", "unimplemented", "todo", "bail", "anyhow", "compile_error"];

impl Grammar for Rust {
    fn scope(&self, syntax: &Syntax<'_>, at: At) -> Option<Scope> {
        let name = |field| syntax.get(at, field).map(|at| syntax.text(at));
        match syntax.kind(at) {
            "function_item" => name("name").map(Scope::Function),
            "mod_item" | "trait_item" | "struct_item" | "union_item" | "enum_item" => {
                name("name").map(Scope::Container)
            }
            "impl_item" => {
                let of = syntax.get(at, "type")?;
                let of = syntax.get(of, "type").unwrap_or(of);
                Some(Scope::Container(syntax.header(of, None)))
            }
            _ => None,
        }
    }

    fn decisions(&self, syntax: &Syntax<'_>, at: At) -> u32 {
        match syntax.kind(at) {
            "if_expression" | "while_expression" | "for_expression" | "try_expression" => 1,
            "let_declaration" => u32::from(syntax.get(at, "alternative").is_some()),
            "match_arm" => {
                u32::from(syntax.previous_code(at).is_some_and(|before| syntax.kind(before) != "{"))
            }
            "&&" | "||" => {
                let parent = syntax.kind(syntax.parent(at));
                u32::from(matches!(parent, "binary_expression" | "let_chain") || tokens::decides(syntax, at))
            }
            "if" | "while" | "for" | "?" => u32::from(tokens::decides(syntax, at)),
            _ => 0,
        }
    }

    fn fallback(&self, syntax: &Syntax<'_>, at: At) -> Option<FallbackKind> {
        match syntax.kind(at) {
            "match_arm" => arm(syntax, at),
            "call_expression" => call(syntax, at),
            "scoped_identifier" => path(syntax, at),
            "let_declaration" | "assignment_expression" => {
                let (left, right) = if syntax.kind(at) == "let_declaration" {
                    ("pattern", "value")
                } else {
                    ("left", "right")
                };
                let ignored = syntax.is(syntax.get(at, left)?, "_");
                let value = syntax.kind(syntax.get(at, right)?);
                (ignored && matches!(value, "call_expression" | "macro_invocation" | "await_expression"))
                    .then_some(FallbackKind::DiscardedError)
            }
            "identifier" | "_" => tokens::fallback(syntax, at),
            _ => None,
        }
    }

    fn interfaces(&self, syntax: &Syntax<'_>, names: &Names) -> Vec<Interface> {
        interfaces(syntax, names)
    }
}

/// An arm that takes everything, or every error without a look at it, and does not fail itself.
fn arm(syntax: &Syntax<'_>, at: At) -> Option<FallbackKind> {
    let pattern = syntax.get(at, "pattern")?;
    if syntax.get(pattern, "condition").is_some() {
        return None;
    }
    let inner = syntax.children(pattern).next()?;
    let kind = if takes_all(syntax, inner) {
        FallbackKind::CatchAll
    } else if syntax.kind(inner) == "tuple_struct_pattern"
        && syntax.get(inner, "type").is_some_and(|name| last_segment(syntax, name) == "Err")
        && syntax.child(inner, "_").is_some()
    {
        FallbackKind::DiscardedError
    } else {
        return None;
    };
    let raises = syntax.get(at, "value").is_some_and(|value| raises(syntax, value));
    (!raises).then_some(kind)
}

/// Whether a pattern takes every value: `_`, a name, alternatives with `_`, a tuple of nothing but `_`.
fn takes_all(syntax: &Syntax<'_>, pattern: At) -> bool {
    match syntax.kind(pattern) {
        "_" => true,
        // A name that begins as a constant or a variant does is one.
        "identifier" => syntax.bytes(pattern).first().is_some_and(|byte| !byte.is_ascii_uppercase()),
        "or_pattern" => syntax.child(pattern, "_").is_some(),
        "captured_pattern" => syntax.children(pattern).last().is_some_and(|last| syntax.kind(last) == "_"),
        "tuple_pattern" => {
            syntax.children(pattern).all(|at| matches!(syntax.kind(at), "(" | "," | ")" | "_"))
        }
        _ => false,
    }
}

fn last_segment(syntax: &Syntax<'_>, name: At) -> String {
    syntax.text(syntax.get(name, "name").unwrap_or(name))
}

/// Whether what is evaluated here is a failure: a macro that panics, `Err(…)`, either behind `return`, or a block that ends so.
pub fn raises(syntax: &Syntax<'_>, value: At) -> bool {
    let mut at = value;
    loop {
        at = match syntax.kind(at) {
            "block" => match syntax.named(at).last() {
                Some(last) => last,
                None => return false,
            },
            "expression_statement" | "return_expression" => match syntax.named(at).next() {
                Some(inner) => inner,
                None => return false,
            },
            "macro_invocation" => {
                return syntax
                    .get(at, "macro")
                    .is_some_and(|name| RAISING.contains(&last_segment(syntax, name).as_str()));
            }
            "call_expression" => {
                return syntax.get(at, "function").is_some_and(|name| {
                    last_segment(syntax, name) == "Err" || syntax.is(name, "std::process::exit")
                });
            }
            _ => return false,
        };
    }
}

/// A call of a method that brings a default, or that throws the error away.
fn call(syntax: &Syntax<'_>, at: At) -> Option<FallbackKind> {
    let function = syntax.get(at, "function")?;
    let function = if syntax.kind(function) == "generic_function" {
        syntax.get(function, "function")?
    } else {
        function
    };
    let name = (syntax.kind(function) == "field_expression").then(|| syntax.get(function, "field"))??;
    let name = syntax.text(name);
    let arguments = syntax.get(at, "arguments")?;
    let count = syntax.named(arguments).count();
    if name == "ok" {
        return (count == 0).then_some(FallbackKind::DiscardedError);
    }
    if name == "or" {
        return (count == 1).then_some(FallbackKind::DefaultValue);
    }
    let fails = || {
        let last = syntax.named(arguments).next();
        let body = last.filter(|at| syntax.kind(*at) == "closure_expression");
        body.and_then(|closure| syntax.get(closure, "body")).is_some_and(|body| raises(syntax, body))
    };
    (DEFAULTS.contains(&name.as_str()) && !fails()).then_some(FallbackKind::DefaultValue)
}

/// `Result::ok` and the like, where they are named instead of called as methods.
fn path(syntax: &Syntax<'_>, at: At) -> Option<FallbackKind> {
    let of = syntax.get(at, "path")?;
    if !syntax.is(of, "Result") && !syntax.is(of, "Option") {
        return None;
    }
    let name = syntax.text(syntax.get(at, "name")?);
    if name == "ok" {
        return Some(FallbackKind::DiscardedError);
    }
    DEFAULTS.contains(&name.as_str()).then_some(FallbackKind::DefaultValue)
}

/// What is known about where a node stands.
#[derive(Clone, Copy)]
struct Place {
    /// In the body of a function, or in a test: nobody else can name what is there.
    hidden: bool,
    /// A member of a public trait or enum, or a field of a public struct.
    of_public: bool,
}

fn interfaces(syntax: &Syntax<'_>, names: &Names) -> Vec<Interface> {
    let mut found = Vec::new();
    let mut places = vec![Place { hidden: false, of_public: false }; syntax.len()];
    for at in 1..syntax.len() {
        let parent = syntax.parent(at);
        let mut place = places[parent];
        let kind = syntax.kind(at);
        place.hidden |=
            kind == "block" || (matches!(kind, "mod_item" | "function_item") && is_test(syntax, at));
        let public = is_public(syntax, at);
        if !place.hidden {
            let mut add = |kind, name: &str, to: Option<At>| {
                let signature = syntax.header(at, to);
                let signature = signature.trim_end_matches(['=', ';', ' ']).to_owned();
                // What has a name of its own for what is in it stands below what its parent stands in.
                found.push(Interface {
                    kind,
                    name: names.below(parent, name),
                    line: syntax.line(at),
                    signature,
                });
            };
            let name = || syntax.get(at, "name").map(|name| syntax.text(name)).unwrap_or_default();
            let body = syntax.get(at, "body");
            match kind {
                "function_item" | "function_signature_item" if public || place.of_public => {
                    add("fn", &name(), body);
                }
                "struct_item" if public => add("struct", &name(), body),
                "union_item" if public => add("union", &name(), body),
                "enum_item" if public => add("enum", &name(), body),
                "trait_item" if public => add("trait", &name(), body),
                "mod_item" if public => add("mod", &name(), body),
                "type_item" if public => add("type", &name(), None),
                "associated_type" if place.of_public => add("type", &name(), None),
                "const_item" if public || place.of_public => add("const", &name(), syntax.get(at, "value")),
                "static_item" if public => add("static", &name(), syntax.get(at, "value")),
                "enum_variant" if place.of_public => add("variant", &name(), None),
                "field_declaration" if public && place.of_public => add("field", &name(), None),
                "extern_crate_declaration" if public => add("use", &name(), None),
                "macro_definition" if has_attribute(syntax, at, "macro_export") => {
                    add("macro", &name(), Some(at));
                }
                "ordered_field_declaration_list" if place.of_public => {
                    positional(syntax, names, at, &mut found);
                }
                "use_declaration" if public => used(syntax, names, at, &mut found),
                _ => {}
            }
        }
        // Items inside of a public item are members of it, those inside of their own bodies are not.
        place.of_public = match kind {
            "struct_item" | "union_item" | "enum_item" | "trait_item" => public,
            "declaration_list"
            | "field_declaration_list"
            | "ordered_field_declaration_list"
            | "enum_variant_list" => place.of_public,
            _ => false,
        };
        places[at] = place;
    }
    found
}

/// Whether a `pub` stands before it that is not limited to a part of the crate.
fn is_public(syntax: &Syntax<'_>, at: At) -> bool {
    syntax
        .children(at)
        .take(8)
        .any(|child| syntax.kind(child) == "visibility_modifier" && syntax.is(child, "pub"))
}

/// The fields without names.
fn positional(syntax: &Syntax<'_>, names: &Names, list: At, found: &mut Vec<Interface>) {
    let types = syntax.children(list).filter(|at| syntax.field(*at) == Some("type"));
    for (number, field) in types.enumerate() {
        let public = syntax.previous(field).filter(|at| syntax.is(*at, "pub"));
        if public.is_some() {
            let (name, line) = (names.below(list, &number.to_string()), syntax.line(field));
            found.push(Interface { kind: "field", name, line, signature: syntax.header(field, None) });
        }
    }
}

/// The names that a `pub use` gives away.
fn used(syntax: &Syntax<'_>, names: &Names, declaration: At, found: &mut Vec<Interface>) {
    for at in declaration + 1..syntax.after(declaration) {
        if !matches!(syntax.kind(syntax.parent(at)), "use_declaration" | "use_list") {
            continue;
        }
        let name = match syntax.kind(at) {
            "identifier" | "self" | "use_wildcard" => syntax.header(at, None),
            "scoped_identifier" => last_segment(syntax, at),
            "use_as_clause" => syntax.get(at, "alias").map(|at| syntax.text(at)).unwrap_or_default(),
            _ => continue,
        };
        let (name, line) = (names.below(declaration, &name), syntax.line(at));
        found.push(Interface { kind: "use", name, line, signature: String::new() });
    }
}

fn is_test(syntax: &Syntax<'_>, at: At) -> bool {
    has_attribute(syntax, at, "cfg(test)") || has_attribute(syntax, at, "test")
}

/// Whether `#[text]` stands before it. Looks at the last 20 attributes and comments.
fn has_attribute(syntax: &Syntax<'_>, at: At, text: &str) -> bool {
    let before = std::iter::successors(syntax.previous(at), |at| syntax.previous(*at)).take(20);
    let attributes = before
        .take_while(|at| matches!(syntax.kind(*at), "attribute_item" | "line_comment" | "block_comment"));
    attributes.into_iter().any(|at| {
        syntax
            .named(at)
            .next()
            .is_some_and(|attribute| syntax.header(attribute, None).replace(' ', "") == text)
    })
}
