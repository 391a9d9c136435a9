//! JavaScript and TypeScript: what decides, what falls back, which names are functions.

use super::facts::{FallbackKind, Grammar, Interface, Names, Scope};
use super::script_exports;
use super::syntax::{At, Syntax};

/// The words of JavaScript and TypeScript, in one file.
pub struct Script {
    /// Whether the file is a test, which nothing imports.
    test: bool,
}

impl Script {
    /// The words of the language in the file of this path.
    pub fn of(path: &str) -> Self {
        let file = path.rsplit('/').next().unwrap_or(path);
        Self { test: file.contains(".test.") || file.contains(".spec.") }
    }
}

/// What makes a function, besides its own declaration, where it is given a name.
pub const FUNCTION_VALUES: &[&str] = &["arrow_function", "function_expression", "generator_function"];

impl Grammar for Script {
    fn scope(&self, syntax: &Syntax<'_>, at: At) -> Option<Scope> {
        let name = || syntax.get(at, "name").map(|at| syntax.text(at));
        match syntax.kind(at) {
            "function_declaration" | "generator_function_declaration" => {
                Some(Scope::Function(name().unwrap_or_else(|| "default".to_owned())))
            }
            "method_definition" => name().map(Scope::Function),
            "class_declaration" | "abstract_class_declaration" | "class" => name().map(Scope::Container),
            "internal_module" | "module" | "interface_declaration" | "enum_declaration" => {
                name().map(Scope::Container)
            }
            kind if FUNCTION_VALUES.contains(&kind) => given(syntax, at).or_else(name).map(Scope::Function),
            _ => None,
        }
    }

    fn decisions(&self, syntax: &Syntax<'_>, at: At) -> u32 {
        let parent = || syntax.kind(syntax.parent(at));
        match syntax.kind(at) {
            "if_statement" | "for_statement" | "for_in_statement" | "while_statement" | "do_statement"
            | "switch_case" | "catch_clause" | "ternary_expression" => 1,
            "&&" | "||" | "??" => u32::from(parent() == "binary_expression"),
            "&&=" | "||=" | "??=" => u32::from(parent() == "augmented_assignment_expression"),
            _ => 0,
        }
    }

    fn fallback(&self, syntax: &Syntax<'_>, at: At) -> Option<FallbackKind> {
        match syntax.kind(at) {
            "switch_default" => {
                let last = syntax.named(at).last();
                (!last.is_some_and(|last| throws(syntax, last))).then_some(FallbackKind::CatchAll)
            }
            "catch_clause" => {
                let body = syntax.get(at, "body")?;
                (!throws(syntax, body)).then_some(FallbackKind::BroadHandler)
            }
            "call_expression" => handler(syntax, at),
            "binary_expression" | "augmented_assignment_expression" => {
                let sign = syntax.get(at, "operator")?;
                let right = syntax.get(at, "right")?;
                let default = match syntax.kind(sign) {
                    "??" | "??=" => true,
                    "||" | "||=" => is_literal(syntax.kind(right)),
                    _ => false,
                };
                default.then_some(FallbackKind::DefaultValue)
            }
            _ => None,
        }
    }

    fn interfaces(&self, syntax: &Syntax<'_>, names: &Names) -> Vec<Interface> {
        if self.test { Vec::new() } else { script_exports::interfaces(syntax, names) }
    }
}

/// The name that the place of a function gives it.
fn given(syntax: &Syntax<'_>, at: At) -> Option<String> {
    let parent = syntax.parent(at);
    let (name, value) = match syntax.kind(parent) {
        "variable_declarator" | "public_field_definition" => ("name", "value"),
        "field_definition" => ("property", "value"),
        "pair" => ("key", "value"),
        "assignment_expression" => ("left", "right"),
        "export_statement" => return (syntax.field(at) == Some("value")).then(|| "default".to_owned()),
        _ => return None,
    };
    (syntax.field(at) == Some(value)).then(|| syntax.get(parent, name))?.map(|at| syntax.text_within(at, 200))
}

/// Whether a statement throws, or ends so.
fn throws(syntax: &Syntax<'_>, statement: At) -> bool {
    let mut at = statement;
    while syntax.kind(at) == "statement_block" {
        match syntax.named(at).last() {
            Some(last) => at = last,
            None => return false,
        }
    }
    syntax.kind(at) == "throw_statement"
}

fn is_literal(kind: &str) -> bool {
    matches!(
        kind,
        "number"
            | "string"
            | "template_string"
            | "array"
            | "object"
            | "null"
            | "undefined"
            | "true"
            | "false"
            | "regex"
    )
}

/// `.catch(…)` of a promise whose handler does not throw.
fn handler(syntax: &Syntax<'_>, at: At) -> Option<FallbackKind> {
    let function = syntax.get(at, "function")?;
    if syntax.kind(function) != "member_expression" || !syntax.is(syntax.get(function, "property")?, "catch")
    {
        return None;
    }
    let handler = syntax.named(syntax.get(at, "arguments")?).next()?;
    let body = syntax.get(handler, "body").filter(|_| FUNCTION_VALUES.contains(&syntax.kind(handler)));
    (!body.is_some_and(|body| throws(syntax, body))).then_some(FallbackKind::BroadHandler)
}
