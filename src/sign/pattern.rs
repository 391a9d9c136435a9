//! Pattern lists as OpenSSH understands them (`PATTERNS` in ssh_config(5)): `*`, `?`, commas, `!` for "not".

/// OpenSSH gives up on a longer part of a list and says that nothing matches.
const LONGEST_PART: usize = 1023;

/// What a pattern list says about a string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// A part matches and none with `!` does.
    Match,
    /// No part matches.
    NoMatch,
    /// A part with `!` matches: that is final, whatever the others say.
    Negated,
}

/// Matches `text` against a comma-separated list. Case matters.
pub(super) fn match_list(text: &str, list: &str) -> Verdict {
    let mut verdict = Verdict::NoMatch;
    // A comma at the very end starts no further part, and neither does an empty list.
    for part in list.strip_suffix(',').unwrap_or(list).split(',') {
        let (negated, pattern) = part.strip_prefix('!').map_or((false, part), |pattern| (true, pattern));
        if pattern.len() >= LONGEST_PART {
            return Verdict::NoMatch;
        }
        if list.is_empty() || !match_one(text.as_bytes(), pattern.as_bytes()) {
            continue;
        }
        if negated {
            return Verdict::Negated;
        }
        verdict = Verdict::Match;
    }
    verdict
}

/// Could `part` match more than itself?
pub(super) fn is_literal(part: &str) -> bool {
    !part.is_empty() && !part.contains(['*', '?', '!'])
}

/// `*` is any run of bytes, `?` is one byte. Linear in `text` for each star: only the last star ever backtracks.
fn match_one(text: &[u8], pattern: &[u8]) -> bool {
    let (mut t, mut p) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(&byte) if byte == b'?' || byte == text[t] => {
                t += 1;
                p += 1;
            }
            _ => match star {
                Some((star_p, star_t)) => {
                    star = Some((star_p, star_t + 1));
                    p = star_p + 1;
                    t = star_t + 1;
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lists_read_as_openssh_reads_them() {
        use Verdict::{Match, Negated, NoMatch};
        for (text, list, expected) in [
            ("a", "a", Match),
            ("a", "b,a", Match),
            ("a", "A", NoMatch),
            ("a", "*", Match),
            ("a", "?", Match),
            ("ab", "?", NoMatch),
            ("ann@example.org", "*@example.org", Match),
            ("ann@example.org", "*@example.org,!ann@*", Negated),
            ("ann@example.org", "!ann@*,*", Negated),
            ("bob@example.org", "!ann@*,*", Match),
            ("bob@example.org", "!ann@*", NoMatch),
            ("a", "", NoMatch),
            ("", "", NoMatch),
            ("", "a,,b", Match),
            ("", "a,", NoMatch),
            ("abab", "*ab", Match),
            ("aXbXc", "a*b*c", Match),
            ("aXbX", "a*b*c", NoMatch),
        ] {
            assert_eq!(match_list(text, list), expected, "{text:?} against {list:?}");
        }
        assert_eq!(match_list("a", &format!("{},a", "x".repeat(LONGEST_PART))), NoMatch);
    }

    #[test]
    fn many_stars_do_not_explode() {
        let pattern = "*a".repeat(200);
        assert_eq!(match_list(&"a".repeat(100_000), &format!("{pattern}b")), Verdict::NoMatch);
    }

    proptest! {
        #[test]
        fn a_literal_matches_itself_only(text in "[a-z]{1,8}", other in "[a-z]{1,8}") {
            prop_assert!(is_literal(&text));
            prop_assert_eq!(match_list(&other, &text) == Verdict::Match, text == other);
        }

        #[test]
        fn is_total(text in ".{0,20}", list in "[ab*?!,é]{0,30}") {
            match_list(&text, &list);
        }
    }
}
