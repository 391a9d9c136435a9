//! Unified diffs of tree changes, made in this process: no program that config names is run.

use std::fmt::Write as _;

use gix::ObjectId;
use similar::TextDiff;

use crate::cli::ui::{Paint, Tone};
use crate::escape::{escape_path, escape_terminal};
use crate::git::ObjectError;
use crate::git::Repo;
use crate::guard::diff::Change;
use crate::guard::tree::Mode;

/// The most bytes of one side that are compared line by line.
const LARGEST: u64 = 4 << 20;

/// The changes as one unified diff. Everything of the files that a terminal would act on is escaped.
pub fn unified(repo: &Repo, changes: &[Change], paint: Paint) -> Result<String, ObjectError> {
    let mut text = String::new();
    for change in changes {
        let path = escape_path(change.path.as_ref());
        let header = format!("diff --git a/{path} b/{path}");
        let _ = writeln!(text, "{}", paint.tone(Tone::Bold, &header));
        match (&change.old, &change.new) {
            (None, Some(new)) => {
                let _ = writeln!(text, "new file mode {}", new.0.octal());
            }
            (Some(old), None) => {
                let _ = writeln!(text, "deleted file mode {}", old.0.octal());
            }
            (Some(old), Some(new)) if old.0 != new.0 => {
                let _ = writeln!(text, "old mode {}\nnew mode {}", old.0.octal(), new.0.octal());
            }
            _ => {}
        }
        if change.old.map(|side| side.1) == change.new.map(|side| side.1) {
            continue;
        }
        let (Some(old), Some(new)) = (content(repo, change.old)?, content(repo, change.new)?) else {
            let _ = writeln!(text, "Files of more than {} MiB differ", LARGEST >> 20);
            continue;
        };
        if is_binary(&old) || is_binary(&new) {
            let _ = writeln!(text, "Binary files differ");
            continue;
        }
        let from = if change.old.is_some() { format!("a/{path}") } else { "/dev/null".to_owned() };
        let to = if change.new.is_some() { format!("b/{path}") } else { "/dev/null".to_owned() };
        let (old, new) = (String::from_utf8_lossy(&old), String::from_utf8_lossy(&new));
        let diff = TextDiff::from_lines(old.as_ref(), new.as_ref());
        for line in diff.unified_diff().header(&from, &to).to_string().lines() {
            let safe = escape_terminal(line);
            let tone = match line.as_bytes().first() {
                Some(b'+' | b'-') if line.starts_with("+++ ") || line.starts_with("--- ") => Some(Tone::Bold),
                Some(b'+') => Some(Tone::Good),
                Some(b'-') => Some(Tone::Bad),
                Some(b'@') => Some(Tone::Dim),
                _ => None,
            };
            let _ =
                writeln!(text, "{}", tone.map_or_else(|| safe.to_string(), |tone| paint.tone(tone, &safe)));
        }
    }
    Ok(text)
}

/// The content of one side; `None` if it is larger than what is compared.
fn content(repo: &Repo, side: Option<(Mode, ObjectId)>) -> Result<Option<Vec<u8>>, ObjectError> {
    Ok(match side {
        // A submodule has no content here.
        Some((Mode::Gitlink, id)) => Some(format!("Subproject commit {id}\n").into_bytes()),
        Some((_, id)) if repo.object_header(id)?.1 > LARGEST => None,
        Some((_, id)) => Some(repo.read_blob(id)?),
        None => Some(Vec::new()),
    })
}

fn is_binary(bytes: &[u8]) -> bool {
    bytes.iter().take(8000).any(|byte| *byte == 0)
}
