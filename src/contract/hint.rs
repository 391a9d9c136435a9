//! The words of a fault of form: what was expected, which key was probably meant, where it belongs.

use toml::de::DeValue;

use super::problem::quoted;
use super::shape::{self, Field, Kind, Node};

/// `a.b`, with `b` quoted where TOML would ask for it.
pub(super) fn join(path: &str, name: &str) -> String {
    let bare =
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    let name = if bare { name.to_owned() } else { quoted(name) };
    if path.is_empty() { name } else { format!("{path}.{name}") }
}

pub(super) fn accepts(kind: &Kind, value: &DeValue<'_>) -> bool {
    match kind {
        Kind::Table(_) | Kind::Map(_) => value.is_table(),
        Kind::List { .. } => value.is_array(),
        Kind::Text { .. } | Kind::Choice(_) | Kind::Duration { .. } | Kind::Size { .. } => value.is_str(),
        Kind::Dollars { .. } => value.is_str() || value.is_integer() || value.is_float(),
        Kind::Integer { .. } => value.is_integer(),
        Kind::Number { .. } => value.is_integer() || value.is_float(),
        Kind::Boolean => value.is_bool(),
        Kind::Either(branches) => branches.iter().any(|branch| accepts(&branch.kind, value)),
        Kind::Unknown => false,
    }
}

/// What a value must be, as it follows "must be".
pub(super) fn expected(kind: &Kind) -> String {
    match kind {
        Kind::Table(_) | Kind::Map(_) => "a table".into(),
        Kind::List { item, .. } => match &item.kind {
            Kind::Text { .. } => "an array of strings".into(),
            Kind::Choice(choices) => {
                format!(
                    "an array of {}",
                    or_list(choices.iter().map(|choice| format!("\"{}\"", choice.word)))
                )
            }
            _ => "an array of tables".into(),
        },
        Kind::Text { .. } => "a string".into(),
        Kind::Duration { .. } => "a duration such as \"90s\", \"20m\" or \"1h30m\"".into(),
        Kind::Size { .. } => "a size such as \"500MiB\" or \"2GiB\"".into(),
        Kind::Dollars { .. } => "an amount in dollars such as 1.50".into(),
        Kind::Integer { .. } => "a whole number".into(),
        Kind::Number { .. } => "a number".into(),
        Kind::Boolean => "true or false".into(),
        Kind::Choice(choices) => or_list(choices.iter().map(|choice| format!("\"{}\"", choice.word))),
        Kind::Either(branches) => or_list(branches.iter().map(|branch| expected(&branch.kind))),
        Kind::Unknown => "another value".into(),
    }
}

/// What a value of the wrong type probably was meant to be.
pub(super) fn rewrite(kind: &Kind, value: &DeValue<'_>) -> Option<String> {
    match (kind, value) {
        (Kind::Duration { .. }, DeValue::Integer(number)) => Some(format!("write \"{number}s\" for seconds")),
        (Kind::List { item, .. }, DeValue::String(text)) if accepts(&item.kind, value) => {
            Some(format!("write [{}]", quoted(text)))
        }
        (
            Kind::Text { .. } | Kind::Choice(_),
            DeValue::Integer(_) | DeValue::Float(_) | DeValue::Boolean(_),
        ) => Some("put it in quotes".into()),
        (Kind::Integer { .. } | Kind::Number { .. } | Kind::Boolean, DeValue::String(text))
            if text.parse::<f64>().is_ok() || text == "true" || text == "false" =>
        {
            Some(format!("write {text} without quotes"))
        }
        (Kind::Either(branches), _) => branches.iter().find_map(|branch| rewrite(&branch.kind, value)),
        _ => None,
    }
}

pub(super) fn unknown_key(fields: &[Field], path: &str, name: &str) -> (String, Option<String>) {
    let message = format!("unknown key `{}`", join(path, name));
    let homes = homes(name);
    let here = || fields.iter().map(|field| field.name.as_str());
    let hint = if let [first, ..] = homes.as_slice() {
        if first.is_empty() {
            format!("`{name}` belongs at the top level, above the first [table]")
        } else {
            format!("`{name}` belongs in {}", or_list(homes.iter().map(|home| format!("[{home}]"))))
        }
    } else if let Some(near) = nearest(name, here()) {
        format!("did you mean `{near}`?")
    } else if let Some((home, near)) = nearest_anywhere(name) {
        format!("did you mean `{}`?", join(&home, &near))
    } else {
        format!("known keys here: {}", here().collect::<Vec<_>>().join(", "))
    };
    (message, Some(hint))
}

pub(super) fn missing_key(node: &Node, path: &str) -> (String, Option<String>) {
    let needs: Vec<&str> =
        node.fields().iter().filter(|field| field.required).map(|field| field.name.as_str()).collect();
    match &node.kind {
        Kind::Table(_) => {
            (format!("missing table `[{path}]`"), Some(format!("it needs at least {}", needs.join(", "))))
        }
        kind => (format!("missing key `{path}`"), Some(format!("add it; its value is {}", expected(kind)))),
    }
}

/// The tables that have a key of this name.
fn homes(name: &str) -> Vec<String> {
    let mut homes = Vec::new();
    each_key(shape::root(), "", &mut |table, key| {
        if key == name {
            homes.push(table.to_owned());
        }
    });
    homes
}

/// The key of any table that is spelled most like this one.
fn nearest_anywhere(name: &str) -> Option<(String, String)> {
    let mut keys = Vec::new();
    each_key(shape::root(), "", &mut |table, key| keys.push((table.to_owned(), key.to_owned())));
    let near = nearest(name, keys.iter().map(|(_, key)| key.as_str()))?.to_owned();
    keys.into_iter().find(|(_, key)| *key == near)
}

fn each_key(node: &Node, path: &str, see: &mut impl FnMut(&str, &str)) {
    for field in node.fields() {
        see(path, &field.name);
        each_key(&field.node, &join(path, &field.name), see);
    }
}

/// The known word that `word` most likely misspells.
pub(super) fn nearest<'w>(word: &str, known: impl Iterator<Item = &'w str>) -> Option<&'w str> {
    let lower = word.to_lowercase().replace('-', "_");
    known
        .map(|known| (strsim::jaro_winkler(&lower, &known.to_lowercase().replace('-', "_")), known))
        .filter(|(likeness, _)| *likeness > 0.82)
        .max_by(|one, other| one.0.total_cmp(&other.0))
        .map(|(_, known)| known)
}

/// `a`, `a or b`, `a, b or c`.
pub(super) fn or_list(words: impl Iterator<Item = String>) -> String {
    let mut words: Vec<String> = words.collect();
    match words.pop() {
        Some(last) if words.is_empty() => last,
        Some(last) => format!("{} or {last}", words.join(", ")),
        None => String::new(),
    }
}
