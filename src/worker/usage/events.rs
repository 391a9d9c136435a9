//! The JSON objects in what an agent printed.
//!
//! Agents print one object a line, or a single one over many lines, and around and between them notices, spinners and what
//! their tools say. What does not parse is skipped; that nothing was found is for the caller to say.

use crate::check::json::{self, Json};

/// How many objects over several lines are looked for. Agents print one; each costs a pass over the rest of the text.
const MAX_SPREAD: usize = 16;

/// Every object that begins a line, in order; the members of a list that begins one count as such.
pub(super) fn events(text: &[u8]) -> Vec<Json> {
    let mut found = Vec::new();
    let mut spread = 0;
    let mut at = 0;
    while at < text.len() {
        let end = text[at..].iter().position(|byte| *byte == b'\n').map_or(text.len(), |end| at + end);
        let line = text[at..end].trim_ascii();
        let start = end - text[at..end].trim_ascii_start().len();
        at = end + 1;
        if !matches!(line.first(), Some(b'{' | b'[')) {
            continue;
        }
        if let Some(value) = read(line) {
            take(value, &mut found);
        } else if spread < MAX_SPREAD {
            spread += 1;
            let Some(whole) = balanced(&text[start..]) else { continue };
            if let Some(value) = read(whole) {
                take(value, &mut found);
                at = start + whole.len();
            }
        }
    }
    found
}

fn read(bytes: &[u8]) -> Option<Json> {
    json::read(std::str::from_utf8(bytes).ok()?).ok()
}

fn take(value: Json, found: &mut Vec<Json>) {
    match value {
        Json::Map(_) => found.push(value),
        Json::List(list) => found.extend(list.into_iter().filter(|value| matches!(value, Json::Map(_)))),
        _ => {}
    }
}

/// The bytes up to the bracket that closes the first one. Whether it is JSON is not looked at.
fn balanced(text: &[u8]) -> Option<&[u8]> {
    let mut depth = 0_usize;
    let (mut in_string, mut is_escaped) = (false, false);
    for (at, byte) in text.iter().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_string => is_escaped = true,
            b'"' => in_string = !in_string,
            b'{' | b'[' if !in_string => depth += 1,
            b'}' | b']' if !in_string => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(&text[..=at]);
                }
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn types(text: &str) -> Vec<String> {
        events(text.as_bytes()).iter().map(|event| event.text("type").unwrap_or("-").to_owned()).collect()
    }

    #[test]
    fn objects_among_other_words() {
        assert_eq!(types("{\"type\": \"a\"}\n{\"type\": \"b\"}"), ["a", "b"]);
        assert_eq!(types("Loading {x}\n  {\"type\": \"a\"}  \r\n| spinner\n{\"type\": \"b\"}\n"), ["a", "b"]);
        assert_eq!(types("[{\"type\": \"a\"}, 5, {\"type\": \"b\"}]"), ["a", "b"]);
        assert_eq!(types("{ not json\n{\"type\": \"a\"}\n{\"type\""), ["a"]);
        assert_eq!(types("5\n\"x\"\n\n{}"), ["-"]);
    }

    #[test]
    fn an_object_over_many_lines() {
        let spread = "notice\n{\n  \"type\": \"a\",\n  \"text\": \"}{ \\\" ]\",\n  \"more\": [\n    {\n      \"type\": \"inner\"\n    }\n  ]\n}\n";
        assert_eq!(types(spread), ["a"]);
        assert_eq!(types(&format!("{spread}{{\"type\": \"b\"}}\n{spread}")), ["a", "b", "a"]);
    }

    #[test]
    fn what_is_not_utf_8_hides_its_own_line_only() {
        let mut text = b"{\"type\": \"\xff\"}\n".to_vec();
        text.extend(b"{\"type\": \"a\"}\n");
        assert_eq!(events(&text).len(), 1);
    }

    #[test]
    fn a_key_that_comes_twice_says_nothing() {
        assert_eq!(types("{\"type\": \"a\", \"type\": \"b\"}"), [""; 0]);
    }

    proptest! {
        #[test]
        fn total(text in "[\\[{}\\]\",:a\\n\\\\ ]{0,200}", bytes: Vec<u8>) {
            let _ = events(text.as_bytes());
            let _ = events(&bytes);
        }

        #[test]
        fn finds_what_was_printed(words in proptest::collection::vec("[a-z{}\"\\\\\n]{0,8}", 0..5), spread: bool) {
            let text: String = words
                .iter()
                .map(|word| {
                    let value = serde_json::json!({ "type": word, "more": [{ "x": [word] }] });
                    let text = if spread { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) };
                    text.unwrap() + "\n"
                })
                .collect();
            prop_assert_eq!(types(&text), words);
        }
    }
}
