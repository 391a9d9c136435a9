//! What a row or a stop looks at. A condition is built from comparisons that are noted as they are made, so that what
//! `show --why` prints is what decided.

use std::fmt;

use serde::{Serialize, Serializer};

use crate::money::MicroUsd;

/// A value that the decision looks at.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A number of things.
    Count(u64),
    /// A difference of two numbers of things.
    Difference(i64),
    /// A metric, or what is computed from one.
    Number(f64),
    /// Money.
    Usd(MicroUsd),
    /// A duration in seconds.
    Seconds(u64),
    /// Yes or no.
    Flag(bool),
    /// A name.
    Text(String),
    /// There is none.
    None,
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Count(count) | Self::Seconds(count) => serializer.serialize_u64(*count),
            Self::Difference(difference) => serializer.serialize_i64(*difference),
            Self::Number(number) if number.is_finite() => serializer.serialize_f64(*number),
            Self::Usd(usd) => usd.serialize(serializer),
            Self::Flag(flag) => serializer.serialize_bool(*flag),
            Self::Text(text) => serializer.serialize_str(text),
            Self::Number(_) | Self::None => serializer.serialize_none(),
        }
    }
}

impl From<u32> for Value {
    fn from(count: u32) -> Self {
        Self::Count(count.into())
    }
}

impl From<u64> for Value {
    fn from(count: u64) -> Self {
        Self::Count(count)
    }
}

impl From<usize> for Value {
    fn from(count: usize) -> Self {
        Self::Count(count as u64)
    }
}

impl From<i64> for Value {
    fn from(difference: i64) -> Self {
        Self::Difference(difference)
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Self::Number(number)
    }
}

impl From<MicroUsd> for Value {
    fn from(usd: MicroUsd) -> Self {
        Self::Usd(usd)
    }
}

impl From<bool> for Value {
    fn from(flag: bool) -> Self {
        Self::Flag(flag)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl<T: Into<Self>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::None, Into::into)
    }
}

/// A duration in seconds, which is compared like a number and told as a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Seconds(pub u64);

impl From<Seconds> for Value {
    fn from(seconds: Seconds) -> Self {
        Self::Seconds(seconds.0)
    }
}

/// How a value is compared with its bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Relation {
    /// It is more.
    #[serde(rename = ">")]
    More,
    /// It is as much or more.
    #[serde(rename = ">=")]
    AtLeast,
    /// It is the same.
    #[serde(rename = "=")]
    Is,
}

impl fmt::Display for Relation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::More => ">",
            Self::AtLeast => ">=",
            Self::Is => "=",
        })
    }
}

/// One comparison.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// What is compared.
    pub what: &'static str,
    /// What it is.
    pub value: Value,
    /// How it is compared.
    pub relation: Relation,
    /// With what.
    pub bound: Value,
    /// Whether the comparison is true.
    pub holds: bool,
}

/// A value that is not compared by itself, but that one is computed from.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Given {
    /// What it is.
    pub what: &'static str,
    /// Its value.
    pub value: Value,
}

/// A row or a stop that was asked.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Consideration {
    /// The number of the row in the table; null for a stop, and for an interruption.
    pub row: Option<u8>,
    /// Its stable name.
    pub name: &'static str,
    /// Whether it applies. Only the last one that was asked does.
    pub applies: bool,
    /// What its comparisons are computed from.
    pub given: Vec<Given>,
    /// What it compared.
    pub compared: Vec<Comparison>,
}

/// Makes comparisons and notes them.
#[derive(Debug, Default)]
pub(super) struct Facts {
    given: Vec<Given>,
    compared: Vec<Comparison>,
}

impl Facts {
    /// Notes a value.
    pub fn given(&mut self, what: &'static str, value: impl Into<Value>) {
        self.given.push(Given { what, value: value.into() });
    }

    /// Whether `value` > `bound`.
    pub fn more<T: PartialOrd + Into<Value>>(&mut self, what: &'static str, value: T, bound: T) -> bool {
        let holds = value > bound;
        self.note(what, value, Relation::More, bound, holds)
    }

    /// Whether `value` >= `bound`.
    pub fn at_least<T: PartialOrd + Into<Value>>(&mut self, what: &'static str, value: T, bound: T) -> bool {
        let holds = value >= bound;
        self.note(what, value, Relation::AtLeast, bound, holds)
    }

    /// Whether `value` is `bound`.
    pub fn is<T: PartialEq + Into<Value>>(&mut self, what: &'static str, value: T, bound: T) -> bool {
        let holds = value == bound;
        self.note(what, value, Relation::Is, bound, holds)
    }

    /// A comparison whose outcome is known from elsewhere.
    pub fn note(
        &mut self,
        what: &'static str,
        value: impl Into<Value>,
        relation: Relation,
        bound: impl Into<Value>,
        holds: bool,
    ) -> bool {
        self.compared.push(Comparison { what, value: value.into(), relation, bound: bound.into(), holds });
        holds
    }

    /// What was noted, of the row or stop `name`.
    pub fn into_consideration(self, row: Option<u8>, name: &'static str, applies: bool) -> Consideration {
        Consideration { row, name, applies, given: self.given, compared: self.compared }
    }
}
