//! What a file of JavaScript or TypeScript exports.

use std::collections::{BTreeMap, BTreeSet};

use super::facts::{Interface, Names, join};
use super::script::FUNCTION_VALUES;
use super::syntax::{At, Syntax};

/// The names that a file exports, and the members of the classes, interfaces and enums among them.
pub fn interfaces(syntax: &Syntax<'_>, names: &Names) -> Vec<Interface> {
    let mut exports =
        Exports { syntax, names, local: BTreeMap::new(), told: BTreeSet::new(), found: Vec::new() };
    exports.locals();
    for at in 1..syntax.len() {
        match syntax.kind(at) {
            "export_statement" => exports.statement(at),
            "assignment_expression" => exports.common(at),
            _ => {}
        }
    }
    exports.found
}

struct Exports<'a> {
    syntax: &'a Syntax<'a>,
    names: &'a Names,
    /// The declarations at the top, by name: `export { a }` may come before or after them.
    local: BTreeMap<String, At>,
    /// The declarations that were exported under a name already: the members of a class count once.
    told: BTreeSet<At>,
    found: Vec<Interface>,
}

impl Exports<'_> {
    fn locals(&mut self) {
        let syntax = self.syntax;
        for at in syntax.named(0) {
            let declared =
                if syntax.kind(at) == "export_statement" { syntax.get(at, "declaration") } else { Some(at) };
            let Some(declared) = declared else { continue };
            let kind = syntax.kind(declared);
            if matches!(kind, "lexical_declaration" | "variable_declaration") {
                for one in syntax.named(declared) {
                    if let Some(name) = syntax.get(one, "name").filter(|at| syntax.kind(*at) == "identifier")
                    {
                        self.local.insert(syntax.text(name), one);
                    }
                }
            } else if let Some(name) = syntax.get(declared, "name") {
                self.local.insert(syntax.text(name), declared);
            }
        }
    }

    fn add(&mut self, kind: &'static str, name: String, at: At, signature: String) {
        self.found.push(Interface { kind, name, line: self.syntax.line(at), signature });
    }

    fn statement(&mut self, at: At) {
        let syntax = self.syntax;
        let outer = self.names.of(at).to_owned();
        if let Some(declaration) = syntax.get(at, "declaration") {
            let default = syntax.child(at, "default").map(|_| join(&outer, "default"));
            self.declaration(declaration, &outer, default);
        } else if let Some(value) = syntax.get(at, "value") {
            let name = join(&outer, "default");
            match self.local.get(&syntax.text_within(value, 200)).copied() {
                Some(declared) => self.declaration(declared, &outer, Some(name)),
                None => self.value(name, value),
            }
        } else if let Some(clause) = syntax.child(at, "export_clause") {
            let source = syntax.get(at, "source").is_some();
            for one in syntax.named(clause).filter(|at| syntax.kind(*at) == "export_specifier") {
                let Some(name) = syntax.get(one, "name") else { continue };
                let given = syntax.get(one, "alias").unwrap_or(name);
                let given = join(&outer, syntax.text(given).trim_matches(['"', '\'']));
                match self.local.get(&syntax.text(name)).copied().filter(|_| !source) {
                    Some(declared) => self.declaration(declared, &outer, Some(given)),
                    None => self.add("export", given, one, String::new()),
                }
            }
        } else if let Some(space) = syntax.child(at, "namespace_export") {
            let name = syntax.named(space).next().map(|at| syntax.text(at)).unwrap_or_default();
            self.add("export", join(&outer, &name), at, String::new());
        } else if let Some(source) = syntax.get(at, "source") {
            let name = format!("* from {}", syntax.text(source).trim_matches(['"', '\'']));
            self.add("export", join(&outer, &name), at, String::new());
        } else if syntax.child(at, "=").is_some() {
            self.add("export", join(&outer, "export ="), at, String::new());
        }
    }

    /// A declaration that is exported, by its own name or by `given`.
    fn declaration(&mut self, at: At, outer: &str, given: Option<String>) {
        let syntax = self.syntax;
        if let Some(given) = given.as_ref().filter(|_| !self.told.insert(at)) {
            return self.add("export", given.clone(), at, String::new());
        }
        let own = || syntax.get(at, "name").map(|name| syntax.text(name)).unwrap_or_default();
        let name = |exports: &str| given.clone().unwrap_or_else(|| join(exports, &own()));
        let header = || syntax.header(at, syntax.get(at, "body"));
        match syntax.kind(at) {
            "function_declaration" | "generator_function_declaration" | "function_signature" => {
                self.add("function", name(outer), at, header());
            }
            "class_declaration" | "abstract_class_declaration" | "class" => {
                self.add("class", name(outer), at, header());
                self.members(at, &name(outer));
            }
            "interface_declaration" => {
                self.add("interface", name(outer), at, header());
                self.members(at, &name(outer));
            }
            "enum_declaration" => {
                self.add("enum", name(outer), at, header());
                self.members(at, &name(outer));
            }
            "type_alias_declaration" => self.add("type", name(outer), at, syntax.header(at, None)),
            // What is exported in it are export statements of their own.
            "internal_module" | "module" => self.add("namespace", name(outer), at, String::new()),
            "import_alias" => {
                let alias = syntax.named(at).next().map(|at| syntax.text(at)).unwrap_or_default();
                self.add("export", join(outer, &alias), at, String::new());
            }
            "ambient_declaration" => {
                if let Some(inner) = syntax.named(at).next() {
                    self.declaration_in_ambient(inner, outer);
                }
            }
            "lexical_declaration" | "variable_declaration" => {
                for one in syntax.named(at).filter(|at| syntax.kind(*at) == "variable_declarator") {
                    self.variable(one, outer, None);
                }
            }
            "variable_declarator" => self.variable(at, outer, given),
            _ => {}
        }
    }

    /// `export declare …`: one level, so that nothing here calls itself for ever.
    fn declaration_in_ambient(&mut self, at: At, outer: &str) {
        if self.syntax.kind(at) != "ambient_declaration" {
            self.declaration(at, outer, None);
        }
    }

    fn variable(&mut self, at: At, outer: &str, given: Option<String>) {
        let syntax = self.syntax;
        let Some(name) = syntax.get(at, "name") else { return };
        if syntax.kind(name) == "identifier" {
            let name = given.unwrap_or_else(|| join(outer, &syntax.text(name)));
            match syntax.get(at, "value") {
                Some(value) => self.value(name, value),
                None => self.add("variable", name, at, String::new()),
            }
            return;
        }
        // A pattern: every name that it binds.
        for part in name..syntax.after(name) {
            let bound = match syntax.kind(part) {
                "shorthand_property_identifier_pattern" => true,
                "identifier" => {
                    let role = (syntax.kind(syntax.parent(part)), syntax.field(part));
                    matches!(
                        role,
                        ("array_pattern" | "rest_pattern", _)
                            | ("pair_pattern", Some("value"))
                            | (_, Some("left"))
                    )
                }
                _ => false,
            };
            if bound {
                self.add("variable", join(outer, &syntax.text(part)), part, String::new());
            }
        }
    }

    /// A value that is exported under a name: a function, a class, or anything else.
    fn value(&mut self, name: String, value: At) {
        let syntax = self.syntax;
        let kind = syntax.kind(value);
        if FUNCTION_VALUES.contains(&kind) {
            self.add("function", name, value, syntax.header(value, syntax.get(value, "body")));
        } else if kind == "class" {
            self.add("class", name.clone(), value, syntax.header(value, syntax.get(value, "body")));
            self.members(value, &name);
        } else {
            self.add("variable", name, value, String::new());
        }
    }

    /// The members of a class, an interface or an enum that are not private.
    fn members(&mut self, of: At, outer: &str) {
        let syntax = self.syntax;
        let Some(body) = syntax.get(of, "body") else { return };
        for at in syntax.children(body) {
            let kind = match syntax.kind(at) {
                "method_definition" | "method_signature" | "abstract_method_signature" => "method",
                "public_field_definition" | "field_definition" | "property_signature" => "field",
                "enum_assignment" => "variant",
                "property_identifier" if syntax.field(at) == Some("name") => "variant",
                _ => continue,
            };
            let hidden = syntax.children(at).take(6).any(
                |child| matches!(syntax.kind(child), "accessibility_modifier" if !syntax.is(child, "public")),
            );
            let name = syntax.get(at, "name").or_else(|| syntax.get(at, "property")).unwrap_or(at);
            let name = syntax.text_within(name, 200);
            if hidden || name.starts_with('#') {
                continue;
            }
            let to = syntax.get(at, "body").or_else(|| syntax.get(at, "value"));
            let signature = syntax.header(at, to).trim_end_matches(['=', ' ']).to_owned();
            self.add(kind, join(outer, &name), at, signature);
        }
    }

    /// `module.exports = …`, `module.exports.x = …` and `exports.x = …`.
    fn common(&mut self, at: At) {
        let syntax = self.syntax;
        let (Some(left), Some(right)) = (syntax.get(at, "left"), syntax.get(at, "right")) else { return };
        if syntax.kind(left) != "member_expression" {
            return;
        }
        if !syntax.is(left, "module.exports") {
            let (Some(object), Some(property)) = (syntax.get(left, "object"), syntax.get(left, "property"))
            else {
                return;
            };
            if syntax.is(object, "exports") || syntax.is(object, "module.exports") {
                self.exported(syntax.text(property), right);
            }
            return;
        }
        if syntax.kind(right) != "object" {
            self.exported("module.exports".to_owned(), right);
            return;
        }
        for one in syntax.named(right) {
            match syntax.kind(one) {
                "shorthand_property_identifier" => self.exported(syntax.text(one), one),
                "pair" => {
                    if let (Some(key), Some(value)) = (syntax.get(one, "key"), syntax.get(one, "value")) {
                        self.exported(
                            syntax.text_within(key, 200).trim_matches(['"', '\'']).to_owned(),
                            value,
                        );
                    }
                }
                "method_definition" => {
                    let name =
                        syntax.get(one, "name").map(|at| syntax.text_within(at, 200)).unwrap_or_default();
                    self.add("function", name, one, syntax.header(one, syntax.get(one, "body")));
                }
                "spread_element" => {
                    let name =
                        syntax.named(one).next().map(|at| syntax.text_within(at, 80)).unwrap_or_default();
                    self.add("export", format!("...{name}"), one, String::new());
                }
                _ => {}
            }
        }
    }

    /// A value that CommonJS exports; the declaration it names, if there is one.
    fn exported(&mut self, name: String, value: At) {
        match self.local.get(&self.syntax.text_within(value, 200)).copied() {
            Some(declared) => self.declaration(declared, "", Some(name)),
            None => self.value(name, value),
        }
    }
}
