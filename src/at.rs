//! Points in time as records have them: whole seconds, UTC, RFC 3339 with a final `Z`.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::time::{SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Seconds since the epoch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct At(i64);

impl At {
    /// The time that many seconds after the epoch; `None` outside the years that RFC 3339 can write.
    pub fn from_seconds(seconds: i64) -> Option<Self> {
        // Year 9999 is jiff's and RFC 3339's end; times before the epoch are no times of a loop.
        (seconds >= 0 && Timestamp::from_second(seconds).is_ok()).then_some(Self(seconds))
    }

    /// Now, by the clock of this machine.
    pub fn now() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self::from_seconds(i64::try_from(since.as_secs()).unwrap_or(0)).unwrap_or(Self(0))
    }

    /// Seconds since the epoch.
    pub fn seconds(self) -> i64 {
        self.0
    }

    /// Whole seconds from `earlier` to this time; 0 if it is not earlier.
    pub fn seconds_since(self, earlier: Self) -> u64 {
        u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0)
    }

    /// This time for libraries that want one.
    pub fn timestamp(self) -> Timestamp {
        Timestamp::from_second(self.0).expect("checked when it was made")
    }
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.timestamp().fmt(f)
    }
}

impl fmt::Debug for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for At {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let at = text
            .parse::<Timestamp>()
            .ok()
            .and_then(|time| Self::from_seconds(time.as_second()))
            .ok_or_else(|| format!("{text:?} is not a time like 2026-01-31T08:00:00Z"))?;
        // One spelling only: no fractions, no offsets.
        if at.to_string() == text { Ok(at) } else { Err(format!("time {text:?} must be written {at}")) }
    }
}

impl Serialize for At {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for At {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(D::Error::custom)
    }
}

impl JsonSchema for At {
    fn schema_name() -> Cow<'static, str> {
        "At".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "format": "date-time", "pattern": "Z$" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_one_spelling() {
        let at: At = "2026-11-30T13:27:14Z".parse().unwrap();
        assert_eq!(at.to_string(), "2026-11-30T13:27:14Z");
        for other in [
            "2026-11-30T13:27:14.5Z",
            "2026-11-30T14:27:14+01:00",
            "2026-11-30 13:27:14Z",
            "1969-12-31T23:59:59Z",
        ] {
            assert!(other.parse::<At>().is_err(), "{other}");
        }
    }

    #[test]
    fn time_does_not_run_backwards() {
        let (a, b) = (At::from_seconds(10).unwrap(), At::from_seconds(25).unwrap());
        assert_eq!(b.seconds_since(a), 15);
        assert_eq!(a.seconds_since(b), 0);
    }
}
