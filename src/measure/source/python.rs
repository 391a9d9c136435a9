//! Python: what decides, what falls back, what is public.

use std::collections::BTreeSet;

use super::facts::{FallbackKind, Grammar, Interface, Names, Scope, join};
use super::syntax::{At, Syntax};

/// The words of Python, in one file.
pub struct Python {
    /// Whether nothing in the file is for others: a test, or a module whose name begins with one underscore.
    private: bool,
}

impl Python {
    /// The words of Python in the file of this path.
    pub fn of(path: &str) -> Self {
        let hidden = |name: &str| name.starts_with('_') && !name.starts_with("__");
        let file = path.rsplit('/').next().unwrap_or(path);
        let stem = file.rsplit_once('.').map_or(file, |(stem, _)| stem);
        let test = stem.starts_with("test_") || stem.ends_with("_test") || stem == "conftest";
        Self { private: test || path.split('/').any(hidden) }
    }
}

impl Grammar for Python {
    fn scope(&self, syntax: &Syntax<'_>, at: At) -> Option<Scope> {
        let name = || syntax.get(at, "name").map(|at| syntax.text(at));
        match syntax.kind(at) {
            "function_definition" => name().map(Scope::Function),
            "class_definition" => name().map(Scope::Container),
            _ => None,
        }
    }

    fn decisions(&self, syntax: &Syntax<'_>, at: At) -> u32 {
        match syntax.kind(at) {
            "if_statement"
            | "elif_clause"
            | "for_statement"
            | "while_statement"
            | "except_clause"
            | "except_group_clause"
            | "boolean_operator"
            | "conditional_expression"
            | "for_in_clause"
            // Of a comprehension, or the guard of a case.
            | "if_clause" => 1,
            "case_clause" => u32::from(!takes_all(syntax, at)),
            _ => 0,
        }
    }

    fn fallback(&self, syntax: &Syntax<'_>, at: At) -> Option<FallbackKind> {
        match syntax.kind(at) {
            "except_clause" | "except_group_clause" => {
                (is_broad(syntax, at) && !raises(syntax, at)).then_some(FallbackKind::BroadHandler)
            }
            "case_clause" => (takes_all(syntax, at) && !raises(syntax, at)).then_some(FallbackKind::CatchAll),
            "boolean_operator" => {
                let or = syntax.get(at, "operator").is_some_and(|sign| syntax.is(sign, "or"));
                let right = syntax.get(at, "right")?;
                (or && is_literal(syntax.kind(right))).then_some(FallbackKind::DefaultValue)
            }
            "call" => call(syntax, at),
            _ => None,
        }
    }

    fn interfaces(&self, syntax: &Syntax<'_>, names: &Names) -> Vec<Interface> {
        let mut found = Vec::new();
        if !self.private {
            interfaces(syntax, names, &mut found);
        }
        found
    }
}

/// Whether a case takes what no other took: `_` or a name, without a guard.
fn takes_all(syntax: &Syntax<'_>, case: At) -> bool {
    if syntax.get(case, "guard").is_some() {
        return false;
    }
    let mut patterns = syntax.children(case).filter(|at| syntax.kind(*at) == "case_pattern");
    let (Some(pattern), None) = (patterns.next(), patterns.next()) else { return false };
    let mut parts = syntax.children(pattern);
    let (Some(part), None) = (parts.next(), parts.next()) else { return false };
    match syntax.kind(part) {
        "_" => true,
        // A dotted name is a constant.
        "dotted_name" => syntax.named(part).count() == 1,
        _ => false,
    }
}

/// Whether a handler takes every error: it names none, or `Exception` or `BaseException` among others.
fn is_broad(syntax: &Syntax<'_>, handler: At) -> bool {
    let Some(value) = syntax.named(handler).find(|at| syntax.kind(*at) != "block") else { return true };
    let value =
        if syntax.kind(value) == "as_pattern" { syntax.named(value).next().unwrap_or(value) } else { value };
    let all = |at: At| syntax.is(at, "Exception") || syntax.is(at, "BaseException");
    all(value) || (syntax.kind(value) == "tuple" && syntax.named(value).any(all))
}

/// Whether the last statement of what is handled raises.
fn raises(syntax: &Syntax<'_>, at: At) -> bool {
    let last = syntax.child(at, "block").and_then(|block| syntax.named(block).last());
    last.is_some_and(|last| syntax.kind(last) == "raise_statement")
}

fn is_literal(kind: &str) -> bool {
    matches!(
        kind,
        "integer"
            | "float"
            | "string"
            | "concatenated_string"
            | "none"
            | "true"
            | "false"
            | "list"
            | "dictionary"
            | "tuple"
            | "set"
    )
}

/// A call that brings a default, or a block that suppresses everything.
fn call(syntax: &Syntax<'_>, at: At) -> Option<FallbackKind> {
    let function = syntax.get(at, "function")?;
    let method = syntax.kind(function) == "attribute";
    let name = if method { syntax.get(function, "attribute")? } else { function };
    let arguments = syntax.get(at, "arguments")?;
    let plain = |at: &At| !matches!(syntax.kind(*at), "keyword_argument" | "list_splat" | "dictionary_splat");
    let given = syntax.named(arguments).take(4).collect::<Vec<_>>();
    let positional = if given.iter().all(plain) { given.len() } else { 0 };
    match (syntax.text_within(name, 20).as_str(), positional) {
        ("get" | "pop", 2) if method => Some(FallbackKind::DefaultValue),
        ("getattr", 3) | ("next", 2) if !method => Some(FallbackKind::DefaultValue),
        ("getenv", 2) => Some(FallbackKind::DefaultValue),
        ("suppress", _) => {
            let broad = |at: &At| syntax.is(*at, "Exception") || syntax.is(*at, "BaseException");
            given.iter().any(broad).then_some(FallbackKind::BroadHandler)
        }
        _ => None,
    }
}

/// Where a node stands.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    /// At the top of the module, perhaps below an `if` or a `try`.
    Module,
    /// At the top of a public class.
    Class,
    /// Anywhere else.
    Hidden,
}

fn interfaces(syntax: &Syntax<'_>, names: &Names, found: &mut Vec<Interface>) {
    let listed = listed(syntax);
    let mut places = vec![Place::Hidden; syntax.len()];
    places[0] = Place::Module;
    let mut given = BTreeSet::new();
    for at in 1..syntax.len() {
        let parent = syntax.parent(at);
        let place = places[parent];
        if place == Place::Hidden {
            continue;
        }
        let public = |name: &str| match (&listed, place) {
            (Some(listed), Place::Module) => listed.contains(name),
            _ => !name.starts_with('_'),
        };
        let mut add = |kind, name: &str, signature: String| {
            if public(name) {
                if place == Place::Module {
                    given.insert(name.to_owned());
                }
                let name = names.below(parent, name);
                found.push(Interface { kind, name, line: syntax.line(at), signature });
            }
        };
        let name = || syntax.get(at, "name").map(|name| syntax.text(name)).unwrap_or_default();
        places[at] = match syntax.kind(at) {
            "class_definition" => {
                add("class", &name(), syntax.header(at, syntax.get(at, "body")));
                if public(&name()) { Place::Class } else { Place::Hidden }
            }
            "function_definition" => {
                let kind = if place == Place::Module { "function" } else { "method" };
                add(kind, &name(), syntax.header(at, syntax.get(at, "body")));
                Place::Hidden
            }
            "assignment" => {
                let signature = syntax.get(at, "type").map(|at| syntax.header(at, None)).unwrap_or_default();
                let left = syntax.get(at, "left");
                for target in left.into_iter().flat_map(|left| targets(syntax, left)) {
                    add("name", &syntax.text(target), signature.clone());
                }
                // `A = B = 1` stands in the right side.
                place
            }
            "type_alias_statement" => {
                let alias = syntax.get(at, "left").map(|at| syntax.header(at, None)).unwrap_or_default();
                let name = alias.split('[').next().unwrap_or_default();
                add("name", name, syntax.header(at, None));
                Place::Hidden
            }
            "block"
            | "expression_statement"
            | "decorated_definition"
            | "if_statement"
            | "elif_clause"
            | "else_clause"
            | "try_statement"
            | "except_clause"
            | "except_group_clause"
            | "finally_clause"
            | "with_statement" => place,
            _ => Place::Hidden,
        };
    }
    // What the module lists and only imports is given to others, too.
    for name in listed.unwrap_or_default() {
        if !given.contains(&name) {
            found.push(Interface { kind: "name", name: join("", &name), line: 1, signature: String::new() });
        }
    }
}

/// The names that an assignment gives values to.
fn targets(syntax: &Syntax<'_>, left: At) -> Vec<At> {
    match syntax.kind(left) {
        "identifier" => vec![left],
        "pattern_list" | "tuple_pattern" | "list_pattern" => {
            syntax.named(left).filter(|at| syntax.kind(*at) == "identifier").collect()
        }
        _ => Vec::new(),
    }
}

/// The strings of `__all__`, if there is one.
fn listed(syntax: &Syntax<'_>) -> Option<BTreeSet<String>> {
    let mut listed = None;
    let statements = (1..syntax.len()).filter(|at| {
        let kind = syntax.kind(*at);
        matches!(kind, "assignment" | "augmented_assignment")
            && syntax.get(*at, "left").is_some_and(|left| syntax.is(left, "__all__"))
    });
    for at in statements {
        let all = listed.get_or_insert_with(BTreeSet::new);
        let Some(right) = syntax.get(at, "right") else { continue };
        let strings = (right..syntax.after(right)).filter(|at| syntax.kind(*at) == "string_content");
        all.extend(strings.map(|at| syntax.text(at)));
    }
    listed
}
