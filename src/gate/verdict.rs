//! What the gate answers, for people and for programs.

use std::fmt::Write as _;

use gix::ObjectId;
use gix::bstr::{BStr, ByteSlice};
use serde::Serialize;

use super::tripwire::{Carries, Hit};
use crate::error::Error;

/// The answer to one push or range.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// How many updates were judged.
    pub updates: usize,
    /// How many commits they bring, each counted once.
    pub commits: usize,
    /// How many of the updates are refs of loops, which the rules of ledgers are for.
    pub loop_refs: usize,
    /// The unpromoted `lasting_code` loops whose content was looked for.
    pub watched: Vec<String>,
    /// How many ledgers there are in this repository, of loops of any class.
    pub ledgers: usize,
    /// Why the push is refused; empty if it may pass.
    pub refusals: Vec<Refusal>,
    /// What a reader should know, although nothing is refused for it.
    pub notes: Vec<String>,
}

/// One reason to refuse.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Refusal {
    /// The ref that would move.
    pub reference: String,
    /// What kind of reason it is.
    pub code: Code,
    /// The loop it is about, where there is one.
    #[serde(rename = "loop")]
    pub loop_id: Option<String>,
    /// The path it is about, where there is one.
    pub path: Option<String>,
    /// The commit it is about, where there is one.
    pub commit: Option<String>,
    /// The reason.
    pub reason: String,
    /// What would unblock it.
    pub unblock: String,
}

/// The stable name of a kind of reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Code {
    /// Content of an unpromoted loop.
    UnpromotedContent,
    /// A change of an unpromoted loop.
    UnpromotedChange,
    /// A rule for the refs of loops is broken.
    LedgerRule,
    /// A ref that only the receiving side itself may write.
    ProtectedRef,
    /// Something that is needed cannot be read.
    CannotJudge,
}

/// How many lines people get for one ref.
const LINES_PER_REF: usize = 10;

impl Verdict {
    /// Whether the push may pass.
    pub fn is_allowed(&self) -> bool {
        self.refusals.is_empty()
    }

    /// One line for each refusal, at most ten for a ref and then how many more there are.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let mut rest = &self.refusals[..];
        while let Some(first) = rest.first() {
            let end = rest.iter().take_while(|refusal| refusal.reference == first.reference).count();
            let (same, others) = rest.split_at(end);
            lines.extend(same.iter().take(LINES_PER_REF).map(ToString::to_string));
            if end > LINES_PER_REF {
                lines.push(format!("{}: and {} more", first.reference, end - LINES_PER_REF));
            }
            rest = others;
        }
        lines
    }

    /// The refusal as an error with exit code 1; `None` if the push may pass.
    pub fn error(&self) -> Option<Error> {
        self.refusals.first()?;
        let mut message = "the push is refused by the gate of git-loop".to_owned();
        for line in self.lines() {
            // Each line stands alone, so that a hook's output stays readable behind git's `remote: `.
            let _ = write!(message, "\n  {line}");
        }
        Some(Error::refused(message))
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: ", self.reference)?;
        if let Some(id) = &self.loop_id {
            write!(f, "loop {id}: ")?;
        }
        if let Some(path) = &self.path {
            write!(f, "{path}")?;
            if let Some(commit) = &self.commit {
                write!(f, " in {}", &commit[..commit.len().min(12)])?;
            }
            f.write_str(": ")?;
        }
        write!(f, "{}; unblock: {}", self.reason, self.unblock)
    }
}

impl Refusal {
    /// A refusal for what the tripwire found in `commit` (none for a bare tree or blob).
    pub(super) fn hit(reference: &BStr, commit: Option<ObjectId>, hit: &Hit) -> Self {
        let id = &hit.loop_id;
        let (code, what) = match hit.carries {
            Carries::Content => (Code::UnpromotedContent, "the content"),
            Carries::Change => (Code::UnpromotedChange, "the change"),
        };
        let candidate = hit.candidate.to_hex_with_len(12);
        Self {
            reference: shown(reference),
            code,
            loop_id: Some(id.clone()),
            path: Some(shown(hit.path.as_bstr())),
            commit: commit.map(|id| id.to_string()),
            reason: format!(
                "it has {what} of iteration {} ({candidate}), which is not promoted",
                hit.iteration
            ),
            unblock: format!(
                "a promotion: git loop promote {id} --dry-run says what it needs; till then leave that commit out of the push; if {id} \
                 is given up, a promoter may free what it made: git loop release {id} --reason TEXT"
            ),
        }
    }
}

/// Bytes from a repository on one line of text that moves no cursor and turns no reading direction.
pub(super) fn shown(text: &BStr) -> String {
    let hidden = |c: char| {
        c.is_control()
            || matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
    };
    let mut out = String::with_capacity(text.len());
    for chunk in text.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\\' => out.push_str("\\\\"),
                c if hidden(c) => out.extend(c.escape_unicode()),
                c => out.push(c),
            }
        }
        for byte in chunk.invalid() {
            let _ = write!(out, "\\x{byte:02x}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(reference: &str, path: usize) -> Refusal {
        let hit = Hit {
            loop_id: "fix".to_owned(),
            iteration: 3,
            candidate: ObjectId::null(gix::hash::Kind::Sha1),
            path: format!("src/{path}.rs").into(),
            carries: Carries::Content,
        };
        Refusal::hit(reference.into(), Some(hit.candidate), &hit)
    }

    #[test]
    fn a_refusal_names_loop_path_reason_and_what_unblocks_it() {
        assert_eq!(
            refusal("refs/heads/x", 1).to_string(),
            "refs/heads/x: loop fix: src/1.rs in 000000000000: it has the content of iteration 3 (000000000000), \
             which is not promoted; unblock: a promotion: git loop promote fix --dry-run says what it needs; till then \
             leave that commit out of the push; if fix is given up, a promoter may free what it made: git loop release \
             fix --reason TEXT"
        );
        let json = serde_json::to_value(refusal("refs/heads/x", 1)).unwrap();
        assert_eq!(json["code"], "unpromoted_content");
        assert_eq!(json["loop"], "fix");
        assert_eq!(json["path"], "src/1.rs");
    }

    #[test]
    fn lines_are_capped_for_each_ref() {
        let mut refusals: Vec<Refusal> = (0..14).map(|path| refusal("refs/heads/a", path)).collect();
        refusals.push(refusal("refs/heads/b", 0));
        let verdict = Verdict { refusals, ..Verdict::default() };
        let lines = verdict.lines();
        assert_eq!(lines.len(), 12);
        assert_eq!(lines[10], "refs/heads/a: and 4 more");
        assert!(lines[11].starts_with("refs/heads/b: loop fix"));
        assert_eq!(verdict.error().unwrap().exit_code(), crate::exit::ExitCode::REFUSED);
        assert!(Verdict::default().error().is_none());
    }

    #[test]
    fn hostile_paths_stay_on_their_line() {
        assert_eq!(
            shown(BStr::new(b"a\nb\x1b[31m\xff\\\xe2\x80\xae")),
            "a\\u{a}b\\u{1b}[31m\\xff\\\\\\u{202e}"
        );
        assert_eq!(shown("späce x".into()), "späce x");
    }
}
