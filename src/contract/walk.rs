//! Walks a TOML document beside the shape of `loop.toml`: unknown keys, wrong types, ranges, missing keys, values that
//! are not built yet. Every fault is found in one pass.

use std::collections::BTreeMap;
use std::ops::Range;

use serde_json::Value;
use toml::Spanned;
use toml::de::{DeInteger, DeTable, DeValue};

use super::bytes::Bytes;
use super::duration::Seconds;
use super::hint::{accepts, expected, join, missing_key, nearest, or_list, rewrite, unknown_key};
use super::money::{BadAmount, Dollars};
use super::problem::{Problem, Source, quoted};
use super::shape::{self, Choice, Field, Kind, Node};

/// The most faults that are told. Each costs a search for its line, and nobody reads a thousand.
pub(super) const MAX_PROBLEMS: usize = 100;

/// Where a key and its value stand in the text.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) key: Range<usize>,
    pub(super) value: Range<usize>,
}

/// What a walk found.
pub(super) struct Walk<'t> {
    pub(super) source: &'t Source<'t>,
    pub(super) problems: Vec<Problem>,
    /// How many more there were than [`MAX_PROBLEMS`].
    pub(super) omitted: usize,
    /// The place of every key that was seen, by its path.
    pub(super) places: BTreeMap<String, Place>,
    /// The paths whose value cannot become a typed one.
    pub(super) broken: Vec<String>,
}

impl<'t> Walk<'t> {
    /// Walks a whole document. Unknown keys are taken out of it, so that the rest can still be read.
    pub(super) fn document(source: &'t Source<'t>, table: &mut DeTable<'_>) -> Self {
        let mut walk =
            Self { source, problems: Vec::new(), omitted: 0, places: BTreeMap::new(), broken: Vec::new() };
        walk.table(shape::root().fields(), "", &(0..0), table);
        walk
    }

    /// Walks a document that is one table of a whole one.
    pub(super) fn section(source: &'t Source<'t>, table: &mut DeTable<'_>, name: &str) -> Self {
        let mut walk =
            Self { source, problems: Vec::new(), omitted: 0, places: BTreeMap::new(), broken: Vec::new() };
        let fields: Vec<Field> =
            shape::root().fields().iter().filter(|field| field.name == name).cloned().collect();
        walk.table(&fields, "", &(0..0), table);
        walk
    }

    /// Whether `path` or something below it cannot become a typed value.
    pub(super) fn is_broken(&self, path: &str) -> bool {
        self.broken.iter().any(|broken| is_at_or_below(broken, path))
    }

    /// The place of the value at `path`, or of the nearest table above it.
    pub(super) fn value_span(&self, path: &str) -> Range<usize> {
        self.nearest(path)
            .map_or(0..0, |(place, exact)| if exact { place.value.clone() } else { place.key.clone() })
    }

    /// The place of the key at `path`, or of the nearest table above it.
    pub(super) fn key_span(&self, path: &str) -> Range<usize> {
        self.nearest(path).map_or(0..0, |(place, _)| place.key.clone())
    }

    fn nearest(&self, path: &str) -> Option<(&Place, bool)> {
        let mut at = path;
        loop {
            if let Some(place) = self.places.get(at) {
                return Some((place, at == path));
            }
            at = &at[..at.rfind(['.', '['])?];
        }
    }

    /// Adds a fault.
    pub(super) fn fault(
        &mut self,
        span: &Range<usize>,
        path: &str,
        message: impl Into<String>,
        hint: Option<String>,
    ) {
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(self.source.problem(span, path, message, hint));
        } else {
            self.omitted += 1;
        }
    }

    fn broken(&mut self, span: &Range<usize>, path: &str, message: String, hint: Option<String>) {
        self.fault(span, path, message, hint);
        self.broken.push(path.to_owned());
    }

    fn table(&mut self, fields: &[Field], path: &str, header: &Range<usize>, table: &mut DeTable<'_>) {
        let unknown: Vec<(String, Range<usize>)> = table
            .keys()
            .filter(|key| fields.iter().all(|field| field.name != key.get_ref().as_ref()))
            .map(|key| (key.get_ref().to_string(), key.span()))
            .collect();
        for (name, span) in unknown {
            table.remove(name.as_str());
            if self.problems.len() < MAX_PROBLEMS {
                let (message, hint) = unknown_key(fields, path, &name);
                self.fault(&span, &join(path, &name), message, hint);
            } else {
                // Looking for the nearest key is the slow part.
                self.omitted += 1;
            }
        }
        for Field { name, required, node } in fields {
            let at = join(path, name);
            let Some((key, _)) = table.get_key_value(name.as_str()) else {
                if *required {
                    let (message, hint) = missing_key(node, &at);
                    self.broken(header, &at, message, hint);
                    if path.is_empty()
                        && let Some(problem) = self.problems.last_mut().filter(|problem| problem.key == at)
                    {
                        // The whole file is where it is missing; its first line would show nothing.
                        problem.excerpt = None;
                    }
                }
                continue;
            };
            let key = key.span();
            if let Some(value) = table.get_mut(name.as_str()) {
                self.places.insert(at.clone(), Place { key: key.clone(), value: value.span() });
                self.value(node, &at, &key, value);
            }
        }
    }

    fn value(&mut self, node: &Node, path: &str, key: &Range<usize>, value: &mut Spanned<DeValue<'_>>) {
        let before = self.problems.len();
        self.form(node, path, key, value);
        let Some(built) = &node.built else { return };
        if built.is_empty() {
            // Whatever else is wrong with it does not matter yet.
            self.problems.truncate(before);
        }
        if self.problems.len() == before && !built.contains(&plain(value.get_ref())) {
            let (span, message, hint) = not_built(built, path, key, value);
            self.fault(&span, path, message, hint);
        }
    }

    fn form(&mut self, node: &Node, path: &str, key: &Range<usize>, spanned: &mut Spanned<DeValue<'_>>) {
        let span = spanned.span();
        let value = spanned.get_mut();
        match (&node.kind, value) {
            (Kind::Either(branches), value) => {
                match branches.iter().find(|branch| accepts(&branch.kind, value)) {
                    Some(branch) => self.form(branch, path, key, spanned),
                    None => self.wrong_type(node, path, &span, spanned.get_ref()),
                }
            }
            (Kind::Table(fields), DeValue::Table(table)) => {
                self.table(fields, path, key, table);
            }
            (Kind::Map(item), DeValue::Table(table)) => {
                for (name, value) in table.iter_mut() {
                    let at = join(path, name.get_ref());
                    self.places.insert(at.clone(), Place { key: name.span(), value: value.span() });
                    self.value(item, &at, &name.span(), value);
                }
            }
            (Kind::List { item, min }, DeValue::Array(items)) => {
                if items.is_empty() && *min > 0 {
                    self.fault(
                        &span,
                        path,
                        format!("`{path}` is empty"),
                        Some("write at least one entry".into()),
                    );
                }
                for (index, value) in items.iter_mut().enumerate() {
                    let at = format!("{path}[{index}]");
                    let span = value.span();
                    self.places.insert(at.clone(), Place { key: span.clone(), value: span.clone() });
                    self.value(item, &at, &span, value);
                }
            }
            (Kind::Text { min, max }, DeValue::String(text)) => {
                let length = text.chars().count() as u64;
                if *min > 0 && text.trim().is_empty() {
                    self.broken(&span, path, format!("`{path}` is empty"), None);
                } else if length > *max {
                    let message = format!("`{path}` has {length} characters; at most {max} are allowed");
                    self.broken(&span, path, message, None);
                }
            }
            (Kind::Choice(choices), DeValue::String(word)) => self.choice(choices, path, &span, word),
            (Kind::Duration { min, max }, DeValue::String(text)) => match text.parse::<Seconds>() {
                Ok(seconds) => {
                    let ordered = bounds(min, max).is_none_or(|(min, max)| min <= seconds && seconds <= max);
                    self.range(
                        ordered,
                        seconds.get() == 0,
                        path,
                        &span,
                        &quoted(text),
                        &format!("{min} to {max}"),
                    );
                }
                Err(_) => self.wrong_type(node, path, &span, &DeValue::String(text.clone())),
            },
            (Kind::Size { min, max }, DeValue::String(text)) => match text.parse::<Bytes>() {
                Ok(size) => {
                    let ordered = bounds(min, max).is_none_or(|(min, max)| min <= size && size <= max);
                    let allowed = format!("{min} to {max}");
                    self.range(ordered, size.get() == 0, path, &span, &quoted(text), &allowed);
                }
                Err(_) => self.wrong_type(node, path, &span, &DeValue::String(text.clone())),
            },
            (Kind::Dollars { min, max }, value) if amount_text(value).is_some() => {
                let text = amount_text(value).unwrap_or_default();
                match text.parse::<Dollars>() {
                    Ok(amount) => {
                        let ordered =
                            bounds(min, max).is_none_or(|(min, max)| min <= amount && amount <= max);
                        self.range(
                            ordered,
                            amount.micros() == 0,
                            path,
                            &span,
                            &text,
                            &format!("{min} to {max}"),
                        );
                    }
                    Err(BadAmount::Syntax) => self.wrong_type(node, path, &span, spanned.get_ref()),
                    Err(error) => self.broken(&span, path, format!("`{path} = {text}`: {error}"), {
                        Some(format!("use {min} to {max}"))
                    }),
                }
            }
            (Kind::Integer { min, max }, DeValue::Integer(number)) => {
                let value = integer(number);
                let ordered = value.is_some_and(|value| (*min..=*max).contains(&value));
                self.range(
                    ordered,
                    value == Some(0),
                    path,
                    &span,
                    &number.to_string(),
                    &format!("{min}..={max}"),
                );
            }
            (Kind::Number { min, max }, value @ (DeValue::Integer(_) | DeValue::Float(_))) => {
                self.number((*min, *max), path, &span, value);
            }
            (Kind::Boolean, DeValue::Boolean(_)) => {}
            (_, value) => {
                let value = value.clone();
                self.wrong_type(node, path, &span, &value);
            }
        }
    }

    fn choice(&mut self, choices: &[Choice], path: &str, span: &Range<usize>, word: &str) {
        if choices.iter().any(|choice| choice.word == word) {
            return;
        }
        let words = || choices.iter().map(|choice| choice.word.as_str());
        let hint = match nearest(word, words()) {
            Some(near) => format!("did you mean \"{near}\"?"),
            None => format!("use {}", or_list(words().map(|word| format!("\"{word}\"")))),
        };
        self.broken(span, path, format!("`{path}` cannot be {}", quoted(word)), Some(hint));
    }

    fn number(
        &mut self,
        range: (Option<f64>, Option<f64>),
        path: &str,
        span: &Range<usize>,
        value: &DeValue<'_>,
    ) {
        let text = plain_number(value);
        let Some(number) = text.parse::<f64>().ok().filter(|number| number.is_finite()) else {
            return self.broken(span, path, format!("`{path} = {text}` is not a finite number"), None);
        };
        let (min, max) = range;
        let ordered = min.is_none_or(|min| min <= number) && max.is_none_or(|max| number <= max);
        let allowed = match (min, max) {
            (Some(min), Some(max)) => format!("{min} to {max}"),
            (Some(min), None) => format!("{min} or more"),
            (None, Some(max)) => format!("{max} or less"),
            (None, None) => String::new(),
        };
        self.range(ordered, number == 0.0, path, span, &text, &allowed);
    }

    fn range(
        &mut self,
        ordered: bool,
        zero: bool,
        path: &str,
        span: &Range<usize>,
        text: &str,
        allowed: &str,
    ) {
        if ordered {
            return;
        }
        let message = if zero && (path.starts_with("limits.") || path.ends_with("_limit")) {
            format!("`{path} = {text}`: a limit of 0 is not \"no limit\"")
        } else if zero && path.ends_with("timeout") {
            format!("`{path} = {text}`: a time-out of 0 is not \"no time-out\"")
        } else {
            format!("`{path} = {text}` is out of range")
        };
        self.broken(span, path, message, Some(format!("use {allowed}")));
    }

    fn wrong_type(&mut self, node: &Node, path: &str, span: &Range<usize>, value: &DeValue<'_>) {
        let found = match value {
            DeValue::String(text) => format!("the string {}", quoted(text)),
            DeValue::Integer(_) | DeValue::Float(_) => format!("the number {}", plain_number(value)),
            DeValue::Boolean(flag) => format!("{flag}"),
            DeValue::Datetime(_) => "a date".to_owned(),
            DeValue::Array(_) => "an array".to_owned(),
            DeValue::Table(_) => "a table".to_owned(),
        };
        let message = format!("`{path}` must be {}, found {found}", expected(&node.kind));
        self.broken(span, path, message, rewrite(&node.kind, value));
    }
}

/// Whether `path` is `above` or lies in it.
fn is_at_or_below(path: &str, above: &str) -> bool {
    path.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

fn not_built(
    built: &[Value],
    path: &str,
    key: &Range<usize>,
    value: &Spanned<DeValue<'_>>,
) -> (Range<usize>, String, Option<String>) {
    if built.is_empty() {
        let name = if value.get_ref().is_table() { format!("[{path}]") } else { path.to_owned() };
        let hint = Some("take it out; this version refuses it rather than ignore it".to_owned());
        return (key.clone(), format!("`{name}` is not built yet"), hint);
    }
    let shown = match value.get_ref() {
        DeValue::String(text) => quoted(text),
        DeValue::Table(_) => "{ … }".into(),
        DeValue::Array(_) => "[…]".into(),
        other => plain(other).to_string(),
    };
    let subject = if path.ends_with(']') { shown } else { format!("{path} = {shown}") };
    let hint = format!("built so far: {}", or_list(built.iter().map(ToString::to_string)));
    (value.span(), format!("`{subject}` is not built yet"), Some(hint))
}

fn bounds<T: std::str::FromStr>(min: &str, max: &str) -> Option<(T, T)> {
    Some((min.parse().ok()?, max.parse().ok()?))
}

/// The number as it was typed: money does not go through a float, except where it was typed with an exponent.
fn amount_text(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) => integer(number).map(|number| number.to_string()),
        DeValue::Float(number) => {
            let text = number.as_str();
            if text.contains(['e', 'E']) {
                return text.parse::<f64>().ok().filter(|number| number.is_finite()).map(|it| it.to_string());
            }
            Some(text.strip_prefix('+').unwrap_or(text).to_owned())
        }
        _ => None,
    }
}

fn integer(number: &DeInteger<'_>) -> Option<i128> {
    i128::from_str_radix(number.as_str(), number.radix()).ok()
}

fn plain_number(value: &DeValue<'_>) -> String {
    match value {
        DeValue::Integer(number) => {
            integer(number).map_or_else(|| number.to_string(), |number| number.to_string())
        }
        DeValue::Float(number) => number.to_string(),
        _ => String::new(),
    }
}

/// The JSON of a simple value; of any other something that no list of built values holds.
fn plain(value: &DeValue<'_>) -> Value {
    match value {
        DeValue::String(text) => Value::from(text.as_ref()),
        DeValue::Boolean(flag) => Value::from(*flag),
        DeValue::Integer(number) => integer(number).and_then(|number| i64::try_from(number).ok()).into(),
        DeValue::Array(items) if items.is_empty() => Value::Array(Vec::new()),
        _ => Value::Null,
    }
}
