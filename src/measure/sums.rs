//! Adding up what the files of a change come to.

use std::collections::{BTreeMap, BTreeSet};

use super::packages::PackageChanges;
use super::report::{
    ChangedInterface, Delta, FallbackChanges, FunctionChange, InterfaceChanges, LineCount, Measured,
    NotMeasured, PlacedFallback, PlacedInterface, VERSION, Why, rise,
};
use super::source::{Facts, Fallback, FallbackKind, Function};

/// The sums so far.
#[derive(Debug, Default)]
pub struct Sums {
    /// Lines of all files.
    pub lines: LineCount,
    /// Packages, which are compared once for the whole trees.
    pub packages: PackageChanges,
    /// What is left out.
    pub not_measured: Vec<NotMeasured>,
    /// The paths whose new side is of a kind that is measured, and could not be.
    unmeasurable: BTreeSet<String>,
    fallbacks: FallbackChanges,
    functions: Vec<FunctionChange>,
    interfaces: InterfaceChanges,
    fallback_branches: i64,
    public_interfaces: i64,
    cyclomatic_complexity: i64,
}

impl Sums {
    /// Notes that some numbers leave out a path.
    pub fn leave_out(&mut self, path: &str, of: &[Delta], why: Why, detail: Option<String>) {
        self.not_measured.push(NotMeasured { path: path.to_owned(), of: of.to_vec(), why, detail });
    }

    /// Notes that the new side of a path should be measured and cannot be.
    pub fn unmeasurable(&mut self, path: &str) {
        self.unmeasurable.insert(path.to_owned());
    }

    /// Adds the two sides of a source file.
    pub fn add(&mut self, path: &str, old: &Facts, new: &Facts) {
        self.cyclomatic_complexity += i64::from(new.complexity()) - i64::from(old.complexity());
        self.fallback_branches += rise(old.fallbacks.len(), new.fallbacks.len());
        self.fallbacks.added.extend(surplus(path, &old.fallbacks, &new.fallbacks));
        self.fallbacks.removed.extend(surplus(path, &new.fallbacks, &old.fallbacks));
        self.functions(path, &old.functions, &new.functions);
        self.interfaces(path, old, new);
    }

    fn functions(&mut self, path: &str, old: &[Function], new: &[Function]) {
        let (before, after) = (numbered(old), numbered(new));
        let mut change = |function: &Function, old: Option<u32>, new: Option<u32>| {
            if old != new {
                let (name, line) = (function.name.clone(), function.line);
                self.functions.push(FunctionChange { path: path.to_owned(), line, name, old, new });
            }
        };
        for (key, function) in &after {
            change(function, before.get(key).map(|old| old.complexity), Some(function.complexity));
        }
        for (_, function) in before.iter().filter(|(key, _)| !after.contains_key(*key)) {
            change(function, Some(function.complexity), None);
        }
    }

    fn interfaces(&mut self, path: &str, old: &Facts, new: &Facts) {
        let (before, after) = (old.named(), new.named());
        self.public_interfaces += rise(before.len(), after.len());
        let placed = |(&(kind, name), &(line, _)): (&(&'static str, &str), &(usize, Vec<&str>))| {
            PlacedInterface { path: path.to_owned(), line, kind, name: name.to_owned() }
        };
        self.interfaces.added.extend(after.iter().filter(|(key, _)| !before.contains_key(*key)).map(placed));
        self.interfaces
            .removed
            .extend(before.iter().filter(|(key, _)| !after.contains_key(*key)).map(placed));
        for (&(kind, name), (line, signatures)) in &after {
            let Some((_, was)) = before.get(&(kind, name)).filter(|(_, was)| was != signatures) else {
                continue;
            };
            self.interfaces.changed.push(ChangedInterface {
                path: path.to_owned(),
                line: *line,
                kind,
                name: name.to_owned(),
                old: was.join("; "),
                new: signatures.join("; "),
            });
        }
    }

    /// The result, in an order that the trees alone determine.
    pub fn finish(mut self) -> Measured {
        self.not_measured.sort_by(|a, b| (&a.path, a.why, &a.detail).cmp(&(&b.path, b.why, &b.detail)));
        self.functions.sort_by(|a, b| {
            (-a.delta(), &a.path, a.line, &a.name).cmp(&(-b.delta(), &b.path, b.line, &b.name))
        });
        for list in [&mut self.interfaces.added, &mut self.interfaces.removed] {
            list.sort_by(|a, b| (&a.path, a.line, &a.name, a.kind).cmp(&(&b.path, b.line, &b.name, b.kind)));
        }
        Measured {
            measure: VERSION,
            fallback_branches: self.fallback_branches,
            dependencies: self.packages.net(),
            public_interfaces: self.public_interfaces,
            cyclomatic_complexity: self.cyclomatic_complexity,
            changed_lines: i64::try_from(self.lines.added + self.lines.removed).unwrap_or(i64::MAX),
            lines: self.lines,
            fallbacks: self.fallbacks,
            functions: self.functions,
            interfaces: self.interfaces,
            packages: self.packages,
            unmeasurable: self.unmeasurable.into_iter().collect(),
            not_measured: self.not_measured,
        }
    }
}

/// The functions by name and, of one name, by number.
fn numbered(functions: &[Function]) -> BTreeMap<(&str, usize), &Function> {
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    let mut all = BTreeMap::new();
    for function in functions {
        let number = seen.entry(&function.name).or_default();
        *number += 1;
        all.insert((function.name.as_str(), *number), function);
    }
    all
}

/// The fallback branches of `here` that `there` does not have. The same branch in the same function is the same one; of several
/// the last are the surplus.
fn surplus(path: &str, there: &[Fallback], here: &[Fallback]) -> Vec<PlacedFallback> {
    let mut known: BTreeMap<(FallbackKind, &str, &str), usize> = BTreeMap::new();
    for one in there {
        *known.entry((one.kind, &one.within, &one.text)).or_default() += 1;
    }
    let mut surplus = Vec::new();
    for one in here {
        if let Some(left) = known.get_mut(&(one.kind, one.within.as_str(), one.text.as_str()))
            && *left > 0
        {
            *left -= 1;
            continue;
        }
        surplus.push(PlacedFallback {
            path: path.to_owned(),
            line: one.line,
            kind: one.kind,
            within: one.within.clone(),
            text: one.text.clone(),
        });
    }
    surplus
}
