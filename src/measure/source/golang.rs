//! Go: what decides, what falls back, what is public.

use super::facts::{FallbackKind, Grammar, Interface, Names, Scope};
use super::syntax::{At, Syntax};

/// The words of Go, in one file.
pub struct Go {
    /// Whether the file is a test, which no other package can import.
    test: bool,
}

impl Go {
    /// The words of Go in the file of this path.
    pub fn of(path: &str) -> Self {
        Self { test: path.ends_with("_test.go") }
    }
}

impl Grammar for Go {
    fn scope(&self, syntax: &Syntax<'_>, at: At) -> Option<Scope> {
        let name = || syntax.get(at, "name").map(|at| syntax.text(at));
        match syntax.kind(at) {
            "function_declaration" => name().map(Scope::Function),
            "method_declaration" => {
                let method = name()?;
                Some(Scope::Function(match receiver(syntax, at) {
                    Some(receiver) => format!("{receiver}.{method}"),
                    None => method,
                }))
            }
            "type_spec" | "type_alias" => name().map(Scope::Container),
            _ => None,
        }
    }

    fn decisions(&self, syntax: &Syntax<'_>, at: At) -> u32 {
        match syntax.kind(at) {
            "if_statement" | "for_statement" | "expression_case" | "type_case" | "communication_case" => 1,
            "&&" | "||" => u32::from(syntax.kind(syntax.parent(at)) == "binary_expression"),
            _ => 0,
        }
    }

    fn fallback(&self, syntax: &Syntax<'_>, at: At) -> Option<FallbackKind> {
        match syntax.kind(at) {
            "default_case" => {
                // The default of a select only means that it does not wait.
                let select = syntax.kind(syntax.parent(at)) == "select_statement";
                (!select && !raises(syntax, at)).then_some(FallbackKind::CatchAll)
            }
            "call_expression" => {
                let function = syntax.get(at, "function")?;
                if syntax.is(function, "recover") {
                    return Some(FallbackKind::BroadHandler);
                }
                syntax.is(function, "cmp.Or").then_some(FallbackKind::DefaultValue)
            }
            "short_var_declaration" | "assignment_statement" => ignored(syntax, at),
            _ => None,
        }
    }

    fn interfaces(&self, syntax: &Syntax<'_>, names: &Names) -> Vec<Interface> {
        let mut found = Vec::new();
        if !self.test {
            interfaces(syntax, names, &mut found);
        }
        found
    }
}

/// The name of the type that a method belongs to.
fn receiver(syntax: &Syntax<'_>, method: At) -> Option<String> {
    let list = syntax.get(method, "receiver")?;
    let of = (list..syntax.after(list)).find(|at| syntax.kind(*at) == "type_identifier")?;
    Some(syntax.text(of))
}

/// Whether the last statement of a case panics, or returns an error as its last value.
fn raises(syntax: &Syntax<'_>, case: At) -> bool {
    let Some(last) = syntax.child(case, "statement_list").and_then(|list| syntax.named(list).last()) else {
        return false;
    };
    let called = |at: At| syntax.get(at, "function").map(|at| syntax.text_within(at, 40)).unwrap_or_default();
    let inner = syntax.named(last).next();
    match syntax.kind(last) {
        "expression_statement" => inner.is_some_and(|at| {
            matches!(
                called(at).as_str(),
                "panic" | "os.Exit" | "log.Fatal" | "log.Fatalf" | "log.Fatalln" | "log.Panic" | "log.Panicf"
            )
        }),
        "return_statement" => inner.and_then(|list| syntax.named(list).last()).is_some_and(|value| {
            syntax.is(value, "err")
                || matches!(called(value).as_str(), "fmt.Errorf" | "errors.New" | "errors.Join")
        }),
        _ => false,
    }
}

/// The last value of a call, a look-up or a type assertion (its error, or whether there was one) that is thrown away.
fn ignored(syntax: &Syntax<'_>, at: At) -> Option<FallbackKind> {
    let last = syntax.named(syntax.get(at, "left")?).last()?;
    let mut values = syntax.named(syntax.get(at, "right")?);
    let (value, None) = (values.next()?, values.next()) else { return None };
    if !syntax.is(last, "_") {
        return None;
    }
    match syntax.kind(value) {
        "call_expression" => Some(FallbackKind::DiscardedError),
        "index_expression" | "type_assertion_expression" if syntax.previous(last).is_some() => {
            Some(FallbackKind::DefaultValue)
        }
        _ => None,
    }
}

fn exported(name: &str) -> bool {
    name.chars().next().is_some_and(char::is_uppercase)
}

fn interfaces(syntax: &Syntax<'_>, names: &Names, found: &mut Vec<Interface>) {
    // In the body of a function, or in a type that nobody else can name.
    let mut hidden = vec![false; syntax.len()];
    for at in 1..syntax.len() {
        let parent = syntax.parent(at);
        hidden[at] = hidden[parent];
        if hidden[at] {
            continue;
        }
        let kind = syntax.kind(at);
        let mut add = |kind, name: String, to: Option<At>| {
            let signature = syntax.header(at, to).trim_end_matches(['=', ' ']).to_owned();
            found.push(Interface { kind, name, line: syntax.line(at), signature });
        };
        let name = || syntax.get(at, "name").map(|name| syntax.text(name)).unwrap_or_default();
        match kind {
            "block" | "func_literal" => hidden[at] = true,
            "function_declaration" if exported(&name()) => add("func", name(), syntax.get(at, "body")),
            "method_declaration" => {
                let of = receiver(syntax, at).unwrap_or_default();
                if exported(&name()) && exported(&of) {
                    add("method", format!("{of}.{}", name()), syntax.get(at, "body"));
                }
            }
            "type_spec" | "type_alias" => {
                hidden[at] = !exported(&name());
                if !hidden[at] {
                    let of = syntax.get(at, "type");
                    let listed = |at: &At| matches!(syntax.kind(*at), "struct_type" | "interface_type");
                    add("type", name(), of.filter(listed).and_then(|of| syntax.children(of).nth(1)));
                }
            }
            "const_spec" | "var_spec" => {
                let every = syntax.children(at).filter(|child| syntax.kind(*child) == "identifier");
                let kind = if kind == "const_spec" { "const" } else { "var" };
                let signature = syntax.get(at, "type").map(|of| syntax.header(of, None)).unwrap_or_default();
                for name in every.map(|child| syntax.text(child)).filter(|name| exported(name)) {
                    found.push(Interface { kind, name, line: syntax.line(at), signature: signature.clone() });
                }
            }
            "method_elem" if exported(&name()) => add("method", names.below(parent, &name()), None),
            "field_declaration" => fields(syntax, names, at, found),
            _ => {}
        }
    }
}

/// The fields of one declaration; an embedded type is a field of its name.
fn fields(syntax: &Syntax<'_>, names: &Names, at: At, found: &mut Vec<Interface>) {
    let Some(of) = syntax.get(at, "type") else { return };
    let signature = syntax.header(of, None);
    let mut every: Vec<String> = syntax
        .children(at)
        .filter(|child| syntax.field(*child) == Some("name"))
        .map(|child| syntax.text(child))
        .collect();
    if every.is_empty() {
        let inner = syntax.get(of, "name").or_else(|| syntax.get(of, "type")).unwrap_or(of);
        every.push(syntax.text(inner));
    }
    for name in every.into_iter().filter(|name| exported(name)) {
        let name = names.below(at, &name);
        found.push(Interface { kind: "field", name, line: syntax.line(at), signature: signature.clone() });
    }
}
