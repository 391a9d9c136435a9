//! OpenSSH allowed-signers files (`ALLOWED SIGNERS` in ssh-keygen(1)): who may sign what, and when.
//!
//! Read as OpenSSH reads them, with three differences. A line that cannot be understood makes the whole file an error, where OpenSSH
//! gives up only when it gets to that line. A day that does not exist (30 February) is an error, where OpenSSH counts on into
//! March. And times without a `Z`, which OpenSSH takes as local, are UTC unless the caller names a time zone: a verdict must be the
//! same on every machine.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use ssh_key::PublicKey;

use super::pattern::{self, Verdict};
use super::pubkey::{self, KeyText};

/// Why a file is not a usable trust root.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AllowedSignersError {
    /// A line cannot be understood.
    #[error("line {line} of the allowed-signers file: {reason}")]
    Line {
        /// Counted from 1.
        line: usize,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The file trusts nobody.
    #[error("the allowed-signers file has no entry")]
    Empty,
}

impl From<AllowedSignersError> for crate::error::Error {
    fn from(error: AllowedSignersError) -> Self {
        let hint = match error {
            AllowedSignersError::Line { .. } => {
                "mend the line; the format is `PRINCIPAL[,PRINCIPAL…] [namespaces=\"git\",…] ssh-ed25519 AAAA…`"
            }
            AllowedSignersError::Empty => "add a line like `ann@example.org ssh-ed25519 AAAA…`",
        };
        Self::workspace("the trust file cannot be used").caused_by(error).hint(hint)
    }
}

/// Why a key is not allowed to sign as a principal. Where several entries fail, the one that came closest is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotAllowed {
    /// No entry has the key.
    #[error("the key is not in the allowed-signers file")]
    UnknownKey,
    /// The key belongs to someone else.
    #[error("the key belongs to another principal")]
    WrongPrincipal,
    /// The key may not sign for this purpose.
    #[error("the key is not allowed for this namespace")]
    WrongNamespace,
    /// The key becomes valid later.
    #[error("the key is not valid before {0}")]
    NotYetValid(Timestamp),
    /// The key was valid until earlier.
    #[error("the key has expired, it was valid until {0}")]
    Expired(Timestamp),
}

/// A parsed allowed-signers file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedSigners {
    entries: Vec<Entry>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    /// The pattern list as it stands in the file, without quotes.
    principals: String,
    key: KeyText,
    options: Options,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Options {
    /// The key signs certificates of signers; it never signs itself.
    certificate_authority: bool,
    namespaces: Option<String>,
    valid_after: Option<Timestamp>,
    valid_before: Option<Timestamp>,
}

impl AllowedSigners {
    /// Parses the text of a file. A file without entries parses; see [`Self::require_some`].
    pub fn parse(text: &str) -> Result<Self, AllowedSignersError> {
        Self::parse_in(text, &TimeZone::UTC)
    }

    /// As [`Self::parse`], with the time zone that times without a `Z` are in.
    pub fn parse_in(text: &str, zone: &TimeZone) -> Result<Self, AllowedSignersError> {
        let mut entries = Vec::new();
        for (index, line) in text.split('\n').enumerate() {
            let line = line.trim_matches([' ', '\t', '\r']);
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let entry = Entry::parse(line, zone)
                .map_err(|reason| AllowedSignersError::Line { line: index + 1, reason })?;
            entries.push(entry);
        }
        Ok(Self { entries })
    }

    /// Fails if nobody is trusted: an empty file is a mistake, not a policy.
    pub fn require_some(self) -> Result<Self, AllowedSignersError> {
        if self.entries.is_empty() { Err(AllowedSignersError::Empty) } else { Ok(self) }
    }

    /// Is there no entry at all?
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The principals that `key` may sign as in `namespace` at the moment `at`, in file order, each once. Only literal names: a
    /// pattern is nobody's name.
    pub fn principals_for(&self, key: &PublicKey, namespace: &str, at: Timestamp) -> Vec<String> {
        let usable =
            self.entries.iter().filter(|entry| entry.has_key(key) && entry.allows(namespace, at).is_ok());
        literals(usable)
    }

    /// May `key` sign as `principal` in `namespace` at the moment `at`?
    pub fn find(
        &self,
        principal: &str,
        key: &PublicKey,
        namespace: &str,
        at: Timestamp,
    ) -> Result<(), NotAllowed> {
        let mut closest = NotAllowed::UnknownKey;
        for entry in self.entries.iter().filter(|entry| entry.has_key(key)) {
            let refusal = if pattern::match_list(principal, &entry.principals) == Verdict::Match {
                match entry.allows(namespace, at) {
                    Ok(()) => return Ok(()),
                    Err(refusal) => refusal,
                }
            } else {
                NotAllowed::WrongPrincipal
            };
            if rank(refusal) > rank(closest) {
                closest = refusal;
            }
        }
        Err(closest)
    }

    /// Every principal that is named literally by an entry for a plain key, in file order, each once.
    pub fn literal_principals(&self) -> Vec<String> {
        literals(self.entries.iter().filter(|entry| !entry.options.certificate_authority))
    }
}

/// How far an entry got before it failed.
fn rank(refusal: NotAllowed) -> u8 {
    match refusal {
        NotAllowed::UnknownKey => 0,
        NotAllowed::WrongPrincipal => 1,
        NotAllowed::WrongNamespace => 2,
        NotAllowed::NotYetValid(_) | NotAllowed::Expired(_) => 3,
    }
}

fn literals<'a>(entries: impl Iterator<Item = &'a Entry>) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for entry in entries {
        for part in entry.principals.split(',').filter(|part| pattern::is_literal(part)) {
            // `ann,!a*` names Ann and excludes her again.
            let included = pattern::match_list(part, &entry.principals) == Verdict::Match;
            if included && !names.iter().any(|name| name == part) {
                names.push(part.to_owned());
            }
        }
    }
    names
}

impl Entry {
    fn parse(line: &str, zone: &TimeZone) -> Result<Self, &'static str> {
        let (principals, rest) = take_principals(line)?;
        if rest.is_empty() {
            return Err("there is no key after the principals");
        }
        if let Some(key) = pubkey::parse(rest) {
            return Ok(Self { principals, key, options: Options::default() });
        }
        let (options, rest) = take_options(rest)?;
        // The better message first: an option that nobody knows is often a key that is cut off.
        let known = pubkey::PLAIN_ALGORITHMS.contains(&options) || pubkey::is_certificate_algorithm(options);
        if known {
            return Err("the key cannot be decoded");
        }
        let options = Options::parse(options, zone)?;
        let key = pubkey::parse(rest).ok_or(if rest.is_empty() {
            "there is no key after the options"
        } else {
            "the key cannot be decoded"
        })?;
        Ok(Self { principals, key, options })
    }

    fn has_key(&self, key: &PublicKey) -> bool {
        let KeyText::Plain(found) = &self.key else { return false };
        !self.options.certificate_authority && found.key_data() == key.key_data()
    }

    fn allows(&self, namespace: &str, at: Timestamp) -> Result<(), NotAllowed> {
        let options = &self.options;
        if let Some(namespaces) = &options.namespaces
            && pattern::match_list(namespace, namespaces) != Verdict::Match
        {
            return Err(NotAllowed::WrongNamespace);
        }
        // OpenSSH compares whole seconds, and both ends belong to the time of validity.
        let second = at.as_second();
        if let Some(after) = options.valid_after.filter(|after| second < after.as_second()) {
            return Err(NotAllowed::NotYetValid(after));
        }
        if let Some(before) = options.valid_before.filter(|before| second > before.as_second()) {
            return Err(NotAllowed::Expired(before));
        }
        Ok(())
    }
}

/// The first field. A quote may start anywhere in it; the field then ends at the next quote.
fn take_principals(line: &str) -> Result<(String, &str), &'static str> {
    let end = line.find([' ', '\t', '\r', '"']).unwrap_or(line.len());
    let (head, tail) = line.split_at(end);
    let (principals, rest) = match tail.strip_prefix('"') {
        Some(quoted) => {
            let (inside, rest) = quoted.split_once('"').ok_or("a quote in the principals is not closed")?;
            (format!("{head}{inside}"), rest)
        }
        None => (head.to_owned(), tail),
    };
    if principals.is_empty() {
        return Err("there is no principal");
    }
    Ok((principals, rest.trim_start_matches([' ', '\t', '\r'])))
}

/// The options, up to the first space outside quotes. `\"` inside quotes is a quote.
fn take_options(text: &str) -> Result<(&str, &str), &'static str> {
    let mut quoted = false;
    let mut end = text.len();
    let mut bytes = text.bytes().enumerate().peekable();
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'\\' if bytes.peek().is_some_and(|(_, next)| *next == b'"') => {
                bytes.next();
            }
            b'"' => quoted = !quoted,
            b' ' | b'\t' if !quoted => {
                end = at;
                break;
            }
            _ => {}
        }
    }
    if quoted {
        return Err("a quote in the options is not closed");
    }
    let (options, rest) = text.split_at(end);
    Ok((options, rest.trim_start_matches([' ', '\t'])))
}

impl Options {
    fn parse(text: &str, zone: &TimeZone) -> Result<Self, &'static str> {
        let mut options = Self::default();
        let mut rest = text;
        loop {
            if let Some(after) = strip_name(rest, "cert-authority") {
                options.certificate_authority = true;
                rest = after;
            } else if let Some(after) = strip_name(rest, "namespaces=") {
                let (value, after) = take_value(after)?;
                if options.namespaces.replace(value).is_some() {
                    return Err("the option `namespaces` is there twice");
                }
                rest = after;
            } else if let Some(after) = strip_name(rest, "valid-after=") {
                let (value, after) = take_value(after)?;
                let moment = parse_time(&value, zone).ok_or("the time of `valid-after` cannot be read")?;
                if options.valid_after.replace(moment).is_some() {
                    return Err("the option `valid-after` is there twice");
                }
                rest = after;
            } else if let Some(after) = strip_name(rest, "valid-before=") {
                let (value, after) = take_value(after)?;
                let moment = parse_time(&value, zone).ok_or("the time of `valid-before` cannot be read")?;
                if options.valid_before.replace(moment).is_some() {
                    return Err("the option `valid-before` is there twice");
                }
                rest = after;
            } else if !rest.starts_with(',') {
                return Err(
                    "what follows the principals is neither an option nor a type of key that is known",
                );
            }
            // OpenSSH lets options be empty, but not the last one.
            match rest.strip_prefix(',') {
                Some("") => return Err("a comma ends the options"),
                Some(more) => rest = more,
                None if rest.is_empty() => break,
                None => return Err("an option is unknown, or has more after its value"),
            }
        }
        if let (Some(after), Some(before)) = (options.valid_after, options.valid_before)
            && before <= after
        {
            return Err("`valid-before` is not later than `valid-after`");
        }
        Ok(options)
    }
}

/// Names of options are known in upper and lower case.
fn strip_name<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let (head, tail) = text.split_at_checked(name.len())?;
    head.eq_ignore_ascii_case(name).then_some(tail)
}

/// A value in quotes, which OpenSSH insists on.
fn take_value(text: &str) -> Result<(String, &str), &'static str> {
    let text = text.strip_prefix('"').ok_or("the value of an option is not in quotes")?;
    let mut value = String::new();
    let mut chars = text.char_indices().peekable();
    while let Some((at, char)) = chars.next() {
        match char {
            '"' => return Ok((value, &text[at + 1..])),
            '\\' if chars.peek().is_some_and(|(_, next)| *next == '"') => {
                chars.next();
                value.push('"');
            }
            other => value.push(other),
        }
    }
    Err("a quote in the options is not closed")
}

/// `YYYYMMDD`, `YYYYMMDDHHMM` or `YYYYMMDDHHMMSS`, then perhaps `Z` or `UTC`. Times before 1970 and its first second are
/// not times for OpenSSH.
fn parse_time(text: &str, zone: &TimeZone) -> Option<Timestamp> {
    let suffix = |suffix: &str| {
        let (head, tail) = text.split_at_checked(text.len().checked_sub(suffix.len())?)?;
        tail.eq_ignore_ascii_case(suffix).then_some(head)
    };
    let utc = suffix("Z").or_else(|| suffix("UTC"));
    let digits = utc.unwrap_or(text);
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) || !matches!(digits.len(), 8 | 12 | 14) {
        return None;
    }
    // At most four digits, so that every part fits.
    let part = |from: usize, to: usize| digits.get(from..to).map_or(Some(0), |part| part.parse::<i16>().ok());
    let small = |from, to| part(from, to).and_then(|part| i8::try_from(part).ok());
    let civil = DateTime::new(
        part(0, 4)?,
        small(4, 6)?,
        small(6, 8)?,
        small(8, 10)?,
        small(10, 12)?,
        small(12, 14)?,
        0,
    )
    .ok()?;
    let zone = if utc.is_some() { &TimeZone::UTC } else { zone };
    let moment = zone.to_timestamp(civil).ok()?;
    (moment.as_second() > 0).then_some(moment)
}

#[cfg(test)]
mod tests;
