//! Who did something and when, in the form of commits and reflogs.

use std::fmt;

use jiff::Timestamp;

/// A name, an address and a moment; always UTC, as the records are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature {
    name: String,
    email: String,
    at: Timestamp,
}

/// What is left of a name or an address once git's cleaning is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    /// The name has nothing that a commit may hold.
    #[error("the name of an author or committer must not be empty")]
    EmptyName,
    /// The address has nothing that a commit may hold.
    #[error("the email of an author or committer must not be empty")]
    EmptyEmail,
}

impl From<SignatureError> for crate::error::Error {
    fn from(error: SignatureError) -> Self {
        Self::workspace(error.to_string())
            .hint("set them: git config --global user.name NAME; git config --global user.email ADDRESS")
    }
}

impl Signature {
    /// Cleans both as git does: no `<`, `>` or line break anywhere, none of its crud at either end. A name that
    /// could break out of its field would let a worker's label forge a header.
    pub fn new(name: &str, email: &str, at: Timestamp) -> Result<Self, SignatureError> {
        let (name, email) = (clean(name), clean(email));
        if name.is_empty() {
            return Err(SignatureError::EmptyName);
        }
        if email.is_empty() {
            return Err(SignatureError::EmptyEmail);
        }
        Ok(Self { name, email, at })
    }

    /// The cleaned name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The cleaned address.
    pub fn email(&self) -> &str {
        &self.email
    }

    /// The moment.
    pub fn at(&self) -> Timestamp {
        self.at
    }
}

impl fmt::Display for Signature {
    /// `Name <address> seconds +0000`, the form of commit headers and reflog lines.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} <{}> {} +0000", self.name, self.email, self.at.as_second())
    }
}

fn clean(text: &str) -> String {
    let is_crud = |c: char| c <= ' ' || matches!(c, '.' | ',' | ':' | ';' | '<' | '>' | '"' | '\\' | '\'');
    let inside = text.trim_matches(is_crud);
    inside.chars().filter(|c| !matches!(c, '<' | '>' | '\n' | '\r' | '\0')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_breaks_out_of_its_field() {
        let at = Timestamp::from_second(7).unwrap();
        let signature = Signature::new("  Ann\nparent x <a> B.", "<ann@example.org>\n", at).unwrap();
        assert_eq!(signature.to_string(), "Annparent x a B <ann@example.org> 7 +0000");
        assert_eq!(Signature::new(" .,<>\n", "a@b", at), Err(SignatureError::EmptyName));
        assert_eq!(Signature::new("a", "<>", at), Err(SignatureError::EmptyEmail));
    }
}
