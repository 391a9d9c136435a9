//! Configuration that `git -c key=value loop …` and `GIT_CONFIG_COUNT` put into the environment.
//!
//! gix ignores the former, and reads the latter from the process instead of from what it is given. The formats are
//! those of git's `config.c`: `GIT_CONFIG_PARAMETERS` is a list of shell-quoted words, `'key=value'` before git 2.31
//! and `'key'='value'` since, where `'key'` and `'key'=` are a true without value.

use super::config::ConfigError;
use crate::host::HostEnv;

/// A key as it was written and its value; `None` is a key without value, which as a boolean is true.
pub(super) type Pair = (String, Option<String>);

/// All pairs, those that win last. `GIT_CONFIG_PARAMETERS` wins over `GIT_CONFIG_COUNT`, as in git.
pub(super) fn pairs(host: &HostEnv) -> Result<Vec<Pair>, ConfigError> {
    let mut pairs = counted(host)?;
    if let Some(list) = host.non_empty_var("GIT_CONFIG_PARAMETERS") {
        let list = list.to_str().ok_or_else(bogus_parameters)?;
        pairs.extend(parse_parameters(list).ok_or_else(bogus_parameters)?);
    }
    Ok(pairs)
}

fn bogus_parameters() -> ConfigError {
    ConfigError::Environment { name: "GIT_CONFIG_PARAMETERS".into(), problem: "is not what git writes there" }
}

fn counted(host: &HostEnv) -> Result<Vec<Pair>, ConfigError> {
    let Some(count) = host.non_empty_var("GIT_CONFIG_COUNT") else {
        return Ok(Vec::new());
    };
    let bad = |name: String, problem| ConfigError::Environment { name, problem };
    let count: u32 = count
        .to_str()
        .and_then(|count| count.parse().ok())
        .ok_or_else(|| bad("GIT_CONFIG_COUNT".into(), "is not a number"))?;
    // A huge count ends at the first missing pair, so it costs nothing.
    (0..count)
        .map(|index| {
            let get = |part: &str| {
                let name = format!("GIT_CONFIG_{part}_{index}");
                let value = host.var(&name).ok_or_else(|| bad(name.clone(), "is missing"))?;
                value.to_str().map(str::to_owned).ok_or_else(|| bad(name, "is not UTF-8"))
            };
            Ok((get("KEY")?, Some(get("VALUE")?)))
        })
        .collect()
}

/// Parses the whole list; `None` if any part of it is malformed.
fn parse_parameters(list: &str) -> Option<Vec<Pair>> {
    let mut pairs = Vec::new();
    let mut rest = list.trim_start_matches(is_space);
    while !rest.is_empty() {
        let (word, after) = unquote_word(rest)?;
        rest = if after.is_empty() || after.starts_with(is_space) {
            // Old style, the whole pair in one word; or a key alone.
            pairs.push(match word.split_once('=') {
                Some((key, value)) => (key.to_owned(), Some(value.to_owned())),
                None => (word, None),
            });
            after
        } else {
            let after = after.strip_prefix('=')?;
            if after.is_empty() || after.starts_with(is_space) {
                pairs.push((word, None));
                after
            } else {
                let (value, after) = unquote_word(after)?;
                if !(after.is_empty() || after.starts_with(is_space)) {
                    return None;
                }
                pairs.push((word, Some(value)));
                after
            }
        };
        rest = rest.trim_start_matches(is_space);
    }
    Some(pairs)
}

fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r' | '\x0b' | '\x0c')
}

/// Reads one word that git's `sq_quote_buf` wrote: in single quotes, where `'\''` and `'\!'` stand for `'` and `!`.
/// Returns it and what follows.
fn unquote_word(text: &str) -> Option<(String, &str)> {
    let mut rest = text.strip_prefix('\'')?;
    let mut word = String::new();
    loop {
        let end = rest.find('\'')?;
        word.push_str(&rest[..end]);
        rest = &rest[end + 1..];
        let Some(escaped) = rest.strip_prefix('\\') else {
            return Some((word, rest));
        };
        let escaped_char = escaped.chars().next().filter(|c| matches!(c, '\'' | '!'))?;
        word.push(escaped_char);
        rest = escaped[1..].strip_prefix('\'')?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn quote(word: &str) -> String {
        format!("'{}'", word.replace('\'', "'\\''").replace('!', "'\\!'"))
    }

    fn pair(key: &str, value: &str) -> Pair {
        (key.into(), Some(value.into()))
    }

    #[test]
    fn both_ways_of_quoting_are_read() {
        assert_eq!(parse_parameters(""), Some(vec![]));
        assert_eq!(
            parse_parameters("'a.b=c d' 'e.f'='g=h' "),
            Some(vec![pair("a.b", "c d"), pair("e.f", "g=h")])
        );
        assert_eq!(parse_parameters("'a.b=it'\\''s'\\!''"), Some(vec![pair("a.b", "it's!")]));
        assert_eq!(parse_parameters("'a.x=y.b'='c'"), Some(vec![pair("a.x=y.b", "c")]));
        assert_eq!(
            parse_parameters("'a.b'= 'c.d' 'e.f='"),
            Some(vec![("a.b".into(), None), ("c.d".into(), None), pair("e.f", "")])
        );
    }

    #[test]
    fn malformed_lists_are_refused_whole() {
        for list in ["a.b=c", "'a.b", "'a.b'x", "'a.b'='c'd", "'a.b'=c", "'a'\\x'b'", "'a=b' c"] {
            assert_eq!(parse_parameters(list), None, "{list}");
        }
    }

    #[test]
    fn counted_pairs_come_first_and_must_be_complete() {
        let vars = [
            ("GIT_CONFIG_COUNT", "2"),
            ("GIT_CONFIG_KEY_0", "a.b"),
            ("GIT_CONFIG_VALUE_0", "1"),
            ("GIT_CONFIG_KEY_1", "c.d"),
            ("GIT_CONFIG_VALUE_1", ""),
            ("GIT_CONFIG_PARAMETERS", "'a.b'='2'"),
        ];
        let host = HostEnv::new(vars, "/");
        assert_eq!(pairs(&host).unwrap(), [pair("a.b", "1"), pair("c.d", ""), pair("a.b", "2")]);
        let error = |host: HostEnv| pairs(&host).unwrap_err().to_string();
        assert_eq!(error(host.clone().without_var("GIT_CONFIG_VALUE_1")), "GIT_CONFIG_VALUE_1 is missing");
        assert_eq!(error(host.clone().with_var("GIT_CONFIG_COUNT", "x")), "GIT_CONFIG_COUNT is not a number");
        assert_eq!(
            error(host.with_var("GIT_CONFIG_PARAMETERS", "x")),
            "GIT_CONFIG_PARAMETERS is not what git writes there"
        );
    }

    proptest! {
        #[test]
        fn parsing_is_total(list in any::<String>(), tail in "['=\\\\! ab.]{0,30}") {
            let _ = parse_parameters(&list);
            let _ = parse_parameters(&tail);
        }

        #[test]
        fn what_git_would_write_is_read_back(
            pairs in proptest::collection::vec(("[a-z]{1,5}\\.[a-z]{1,5}", any::<Option<String>>()), 0..5)
        ) {
            let list: Vec<_> = pairs
                .iter()
                .map(|(key, value)| match value {
                    Some(value) => format!("{}={}", quote(key), quote(value)),
                    None => quote(key),
                })
                .collect();
            prop_assert_eq!(parse_parameters(&list.join(" ")), Some(pairs));
        }
    }
}
