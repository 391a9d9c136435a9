//! What is counted in one source file.

use std::collections::BTreeMap;

use serde::Serialize;

use super::syntax::{At, Syntax};

/// The kinds of fallback branches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FallbackKind {
    /// An arm that takes whatever no other arm took.
    CatchAll,
    /// A handler of every error, which does not raise it again.
    BroadHandler,
    /// A value in the place of one that is missing.
    DefaultValue,
    /// An error that is thrown away.
    DiscardedError,
}

impl FallbackKind {
    /// The stable name, as in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::CatchAll => "catch_all",
            Self::BroadHandler => "broad_handler",
            Self::DefaultValue => "default_value",
            Self::DiscardedError => "discarded_error",
        }
    }
}

/// One fallback branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fallback {
    /// Of which kind.
    pub kind: FallbackKind,
    /// Its line, from 1.
    pub line: usize,
    /// Its first line, shortened.
    pub text: String,
    /// The function it stands in.
    pub within: String,
}

/// One function and the decisions in it, those of closures in it too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function {
    /// Its name, with the names of what it stands in before it. `(file)` for what stands in no function.
    pub name: String,
    /// Its line, from 1.
    pub line: usize,
    /// McCabe's number: decisions + 1; of `(file)` the decisions.
    pub complexity: u32,
}

/// The name of what stands in no function.
pub const FILE: &str = "(file)";

/// One name that other code can use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// What it is: `fn`, `struct`, `method`, …
    pub kind: &'static str,
    /// Its name, with the names of what it stands in before it.
    pub name: String,
    /// Its line, from 1.
    pub line: usize,
    /// What it promises, white space reduced.
    pub signature: String,
}

/// What is counted in one source file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// By place.
    pub functions: Vec<Function>,
    /// By place; one name may be there more than once.
    pub interfaces: Vec<Interface>,
    /// By place.
    pub fallbacks: Vec<Fallback>,
    /// Whether a part of the file could not be parsed, and so was not counted well.
    pub broken: bool,
}

impl Facts {
    /// The sum of the complexities.
    pub fn complexity(&self) -> u32 {
        self.functions.iter().map(|function| function.complexity).sum()
    }

    /// The interfaces by kind and name, each with its line and all its signatures: overloads, and definitions for several platforms,
    /// are one name.
    pub fn named(&self) -> BTreeMap<(&'static str, &str), (usize, Vec<&str>)> {
        let mut all: BTreeMap<_, (usize, Vec<&str>)> = BTreeMap::new();
        for one in &self.interfaces {
            let entry = all.entry((one.kind, one.name.as_str())).or_insert((one.line, Vec::new()));
            entry.1.push(&one.signature);
        }
        all
    }
}

/// What names a node gives to what is in it.
pub enum Scope {
    /// A function of its own, with this name.
    Function(String),
    /// Something else with a name: a class, a module.
    Container(String),
}

/// What a language says about its syntax.
pub trait Grammar {
    /// The name that `at` gives to what is in it.
    fn scope(&self, syntax: &Syntax<'_>, at: At) -> Option<Scope>;
    /// How many decisions `at` itself makes.
    fn decisions(&self, syntax: &Syntax<'_>, at: At) -> u32;
    /// Whether `at` is a fallback branch.
    fn fallback(&self, syntax: &Syntax<'_>, at: At) -> Option<FallbackKind>;
    /// Every name that other code can use. `names` are those that [`Grammar::scope`] gave: of each node the one it stands in.
    fn interfaces(&self, syntax: &Syntax<'_>, names: &Names) -> Vec<Interface>;
}

/// The longest name, and the longest name of a scope that another name is added to, in bytes: what is nested a hundred thousand
/// times has no whole name.
const LONGEST: usize = 200;

/// In which scope each node stands.
#[derive(Debug)]
pub struct Names {
    scopes: Vec<(String, usize)>,
    of: Vec<usize>,
}

impl Names {
    /// The name of what `at` stands in, or is; empty at the top.
    pub fn of(&self, at: At) -> &str {
        &self.scopes[self.of[at]].0
    }

    /// `name` below what `at` stands in.
    pub fn below(&self, at: At, name: &str) -> String {
        join(self.of(at), name)
    }
}

/// `name` below `outer`.
pub fn join(outer: &str, name: &str) -> String {
    // `str::floor_char_boundary` is younger than our minimum Rust.
    let end = (0..=name.len().min(LONGEST)).rev().find(|at| name.is_char_boundary(*at)).unwrap_or(0);
    let name = &name[..end];
    if outer.is_empty() {
        name.to_owned()
    } else if outer.len() > LONGEST {
        format!("….{name}")
    } else {
        format!("{outer}.{name}")
    }
}

/// Counts what is in a file.
pub fn count(syntax: &Syntax<'_>, grammar: &dyn Grammar) -> Facts {
    let mut functions = vec![Function { name: FILE.to_owned(), line: 1, complexity: 0 }];
    // Each scope with the function that what is in it belongs to.
    let mut scopes = vec![(String::new(), 0)];
    let mut of = vec![0; syntax.len()];
    let mut fallbacks = Vec::new();
    for at in 0..syntax.len() {
        let outer = of[syntax.parent(at)];
        of[at] = match grammar.scope(syntax, at) {
            None => outer,
            Some(scope) => {
                let (Scope::Function(name) | Scope::Container(name)) = &scope;
                let name = join(&scopes[outer].0, name);
                let mut function = scopes[outer].1;
                if matches!(scope, Scope::Function(_)) {
                    function = functions.len();
                    functions.push(Function { name: name.clone(), line: syntax.line(at), complexity: 1 });
                }
                scopes.push((name, function));
                scopes.len() - 1
            }
        };
        let function = scopes[of[at]].1;
        functions[function].complexity += grammar.decisions(syntax, at);
        if let Some(kind) = grammar.fallback(syntax, at) {
            fallbacks.push(Fallback {
                kind,
                line: syntax.line(at),
                text: syntax.excerpt(at),
                within: functions[function].name.clone(),
            });
        }
    }
    functions.retain(|function| function.name != FILE || function.complexity > 0);
    let interfaces = grammar.interfaces(syntax, &Names { scopes, of });
    Facts { functions, interfaces, fallbacks, broken: syntax.broken }
}
