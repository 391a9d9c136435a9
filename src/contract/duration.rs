//! Durations as people write them: `"90s"`, `"20m"`, `"1h30m"`; whole seconds inside.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A whole number of seconds.
///
/// The text form is hours, minutes and seconds, each at most once and in that order. [`fmt::Display`] gives the one
/// canonical form (`5400` is `1h30m`), which is also how it is serialized.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Seconds(u64);

/// Why a text is not a duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a duration")]
pub struct BadDuration;

impl Seconds {
    /// This many seconds.
    pub const fn new(seconds: u64) -> Self {
        Self(seconds)
    }

    /// The number of seconds.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl From<Seconds> for Duration {
    fn from(seconds: Seconds) -> Self {
        Self::from_secs(seconds.0)
    }
}

impl FromStr for Seconds {
    type Err = BadDuration;

    fn from_str(text: &str) -> Result<Self, BadDuration> {
        let mut rest = text;
        let mut total = 0_u64;
        for (unit, seconds) in [('h', 3600), ('m', 60), ('s', 1)] {
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            if digits == 0 || !rest[digits..].starts_with(unit) {
                continue;
            }
            let count: u64 = rest[..digits].parse().map_err(|_| BadDuration)?;
            total = count.checked_mul(seconds).and_then(|part| total.checked_add(part)).ok_or(BadDuration)?;
            rest = &rest[digits + 1..];
        }
        if rest.is_empty() && !text.is_empty() { Ok(Self(total)) } else { Err(BadDuration) }
    }
}

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (hours, minutes, seconds) = (self.0 / 3600, self.0 / 60 % 60, self.0 % 60);
        if hours > 0 {
            write!(f, "{hours}h")?;
        }
        if minutes > 0 {
            write!(f, "{minutes}m")?;
        }
        if seconds > 0 || self.0 == 0 {
            write!(f, "{seconds}s")?;
        }
        Ok(())
    }
}

impl Serialize for Seconds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Seconds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        text.parse().map_err(|_| de::Error::custom("expected a duration such as \"20m\" or \"1h30m\""))
    }
}

impl JsonSchema for Seconds {
    fn schema_name() -> Cow<'static, str> {
        "Seconds".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "pattern": "^(?=.)([0-9]+h)?([0-9]+m)?([0-9]+s)?$",
            "x-kind": "duration",
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_hours_minutes_and_seconds_in_that_order() {
        for (text, seconds) in [
            ("90s", 90),
            ("20m", 1200),
            ("1h", 3600),
            ("1h30m", 5400),
            ("1h1s", 3601),
            ("0s", 0),
            ("2h3m4s", 7384),
        ] {
            assert_eq!(text.parse(), Ok(Seconds::new(seconds)), "{text}");
        }
    }

    #[test]
    fn refuses_every_other_form() {
        for text in [
            "",
            "s",
            "20",
            "20 m",
            " 20m",
            "20m ",
            "-1s",
            "+1s",
            "1.5h",
            "1m1h",
            "1s1s",
            "500ms",
            "1d",
            "1H",
            "99999999999999999999s",
            "9999999999999999h",
            "１h",
        ] {
            assert_eq!(text.parse::<Seconds>(), Err(BadDuration), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn shown_and_read_again_is_the_same(seconds: u64) {
            let seconds = Seconds::new(seconds);
            prop_assert_eq!(seconds.to_string().parse(), Ok(seconds));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "\\PC{0,20}|[0-9hms]{0,30}") {
            let _ = text.parse::<Seconds>();
        }
    }
}
