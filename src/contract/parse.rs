//! From the text of `loop.toml` to a typed, validated [`LoopFile`], or to everything that is wrong with it.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use toml::de::{DeTable, Error as TomlError, ValueDeserializer};

use super::file::{Class, Limits, LoopFile, Metric, Paths, Roles, Sandbox, Worker, Worktree};
use super::judge::{Check, Holdout};
use super::lasting::LASTING_KEYS;
use super::problem::{LoopFileError, Problem, Source, Warning};
use super::validate;
use super::walk::{MAX_PROBLEMS, Walk};

/// The largest `loop.toml` that is read, in bytes.
pub const MAX_BYTES: usize = 1024 * 1024;

/// The most faults of syntax that are told; one of them often causes the next.
const MAX_SYNTAX_PROBLEMS: usize = 5;

/// A valid `loop.toml`, and what is doubtful about it.
#[derive(Debug, Clone, PartialEq)]
pub struct Parsed {
    /// The terms.
    pub file: LoopFile,
    /// What its writer should look at again, in the order of the file.
    pub warnings: Vec<Warning>,
}

/// Reads a `loop.toml` from bytes. `name` is the file's name in messages.
pub fn parse_bytes(name: &str, bytes: &[u8]) -> Result<Parsed, LoopFileError> {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            let (good, _) = bytes.split_at(error.valid_up_to());
            let text = String::from_utf8_lossy(good);
            let source = Source::new(&text);
            let end = text.len();
            let hint = Some("save the file as UTF-8".to_owned());
            let problem = source.problem(&(end..end), "", "a byte that is not UTF-8", hint);
            return Err(LoopFileError { file: name.to_owned(), errors: vec![problem], omitted: 0 });
        }
    };
    parse(name, text)
}

/// Reads a `loop.toml`. `name` is the file's name in messages.
///
/// Every fault that can be found is in the error: all unknown keys, wrong types, missing keys, values out of range or
/// not built yet, and of the other rules those whose tables can be read.
pub fn parse(name: &str, text: &str) -> Result<Parsed, LoopFileError> {
    let source = Source::new(text);
    read(&source).map_err(|(mut errors, omitted)| {
        // Stable: faults at one place keep the order in which they were found.
        errors.sort_by_key(|problem| (problem.line, problem.column));
        LoopFileError { file: name.to_owned(), errors, omitted }
    })
}

/// The file, or its faults and how many more there were.
fn read(source: &Source<'_>) -> Result<Parsed, (Vec<Problem>, usize)> {
    if source.text().len() > MAX_BYTES {
        let message = format!("the file is larger than {} KiB", MAX_BYTES / 1024);
        return Err((vec![source.problem(&(0..0), "", message, None)], 0));
    }
    let (mut document, errors) = DeTable::parse_recoverable(source.text());
    let duplicates_only = errors.iter().all(|error| error.message() == "duplicate key");
    let told = errors.iter().take(MAX_PROBLEMS);
    let mut syntax: Vec<Problem> = told.map(|error| syntax_problem(source, error)).collect();
    if !duplicates_only {
        syntax.sort_by_key(|problem| (problem.line, problem.column));
        syntax.dedup_by_key(|problem| problem.line);
        syntax.truncate(MAX_SYNTAX_PROBLEMS);
        return Err((syntax, 0));
    }
    let mut walk = Walk::document(source, document.get_mut());
    walk.problems.append(&mut syntax);
    let draft = Draft::read(&mut walk, document.get_ref());
    let warnings = validate::validate(&draft, &mut walk);
    if !walk.problems.is_empty() {
        return Err((walk.problems, walk.omitted));
    }
    match LoopFile::deserialize(toml::de::Deserializer::from(document)) {
        Ok(file) => Ok(Parsed { file, warnings }),
        // The shape let something through that the types refuse.
        Err(error) => Err((vec![syntax_problem(source, &error)], 0)),
    }
}

/// A fault that the TOML reader found.
pub(super) fn syntax_problem(source: &Source<'_>, error: &TomlError) -> Problem {
    let span = error.span().unwrap_or(0..0);
    if error.message() == "duplicate key" {
        let key = source.text().get(span.clone()).unwrap_or_default().trim().to_owned();
        let message = format!("duplicate key `{}`", key.escape_debug());
        return source.problem(&span, key, message, Some("keep one of the two".to_owned()));
    }
    let message = error.message().lines().collect::<Vec<_>>().join("; ");
    source.problem(&span, "", format!("not valid TOML: {message}"), None)
}

/// What could be read of a file: the tables without a fault of form. The rules are asked of these, so that a fault in one
/// table does not hide those in another.
#[derive(Debug, Default)]
pub(super) struct Draft {
    pub(super) objective: Option<String>,
    pub(super) class: Option<Class>,
    pub(super) paths: Option<Paths>,
    pub(super) worker: Option<Worker>,
    pub(super) worktree: Option<Worktree>,
    pub(super) check: Option<Check>,
    pub(super) holdout: Option<Holdout>,
    pub(super) metric: Option<Metric>,
    pub(super) limits: Option<Limits>,
    pub(super) sandbox: Option<Sandbox>,
    pub(super) roles: Option<Roles>,
    pub(super) lasting: LastingDraft,
}

/// The keys of lasting code that are there.
#[derive(Debug, Default)]
pub(super) struct LastingDraft {
    /// Their names, also of those whose value cannot be read.
    pub(super) present: Vec<&'static str>,
    pub(super) invariants: Option<Vec<super::lasting::NamedCommand>>,
    pub(super) independence: Option<Vec<super::lasting::NamedCommand>>,
    pub(super) allowed: Option<Vec<String>>,
    pub(super) forbidden: Option<Vec<String>>,
    pub(super) personas: Option<Vec<String>>,
    pub(super) human_promotion: Option<bool>,
}

impl Draft {
    fn read(walk: &mut Walk<'_>, root: &DeTable<'_>) -> Self {
        Self {
            objective: section(walk, root, "objective"),
            class: section(walk, root, "class"),
            paths: section(walk, root, "paths"),
            worker: section(walk, root, "worker"),
            worktree: or_default(walk, root, "worktree"),
            check: section(walk, root, "check"),
            holdout: section(walk, root, "holdout"),
            metric: section(walk, root, "metric"),
            limits: or_default(walk, root, "limits"),
            sandbox: or_default(walk, root, "sandbox"),
            roles: or_default(walk, root, "roles"),
            lasting: LastingDraft {
                present: LASTING_KEYS.into_iter().filter(|key| root.contains_key(*key)).collect(),
                invariants: section(walk, root, "invariant_boundaries"),
                independence: section(walk, root, "machine_independence_requirements"),
                allowed: section(walk, root, "allowed_semantic_changes"),
                forbidden: section(walk, root, "forbidden_semantic_changes"),
                personas: section(walk, root, "required_review_personas"),
                human_promotion: section(walk, root, "human_promotion_required"),
            },
        }
    }
}

fn section<T: DeserializeOwned>(walk: &mut Walk<'_>, root: &DeTable<'_>, key: &str) -> Option<T> {
    if walk.is_broken(key) {
        return None;
    }
    let value = root.get(key)?.clone();
    let span = value.span();
    match T::deserialize(ValueDeserializer::from(value)) {
        Ok(value) => Some(value),
        Err(error) => {
            // The shape let something through that the types refuse.
            let span = error.span().unwrap_or(span);
            let message = format!("`{key}`: {}", error.message());
            walk.fault(&span, key, message, None);
            None
        }
    }
}

fn or_default<T: DeserializeOwned + Default>(
    walk: &mut Walk<'_>,
    root: &DeTable<'_>,
    key: &str,
) -> Option<T> {
    if root.contains_key(key) { section(walk, root, key) } else { Some(T::default()) }
}
