//! Source files: complexity, interfaces and fallback branches of one file, by its bytes alone.
//!
//! | module | what it holds |
//! | --- | --- |
//! | `syntax` | parsing within bounds; the tree as a list |
//! | `facts` | what is counted, and the loop that counts |
//! | `rust`, `python`, `script`, `golang` | what the words of each language mean |

mod facts;
mod golang;
mod python;
mod rust;
mod rust_tokens;
mod script;
mod script_exports;
mod syntax;
#[cfg(test)]
mod tests;

pub use facts::{FILE, Facts, Fallback, FallbackKind, Function, Interface};
pub use syntax::{MAX_BYTES, MAX_NODES, NoTree};

use facts::{Grammar, count};
use syntax::Syntax;

/// A language whose files are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// `.rs`
    Rust,
    /// `.py`, `.pyi`
    Python,
    /// `.js`, `.mjs`, `.cjs`, `.jsx`
    JavaScript,
    /// `.ts`, `.mts`, `.cts`
    TypeScript,
    /// `.tsx`
    Tsx,
    /// `.go`
    Go,
}

impl Language {
    /// The language of a path, by the end of its name.
    pub fn of(path: &[u8]) -> Option<Self> {
        let name = path.rsplit(|byte| *byte == b'/').next()?;
        let dot = name.iter().rposition(|byte| *byte == b'.')?;
        Some(match &name[dot + 1..] {
            b"rs" => Self::Rust,
            b"py" | b"pyi" => Self::Python,
            b"js" | b"mjs" | b"cjs" | b"jsx" => Self::JavaScript,
            b"ts" | b"mts" | b"cts" => Self::TypeScript,
            b"tsx" => Self::Tsx,
            b"go" => Self::Go,
            _ => return None,
        })
    }

    fn grammar(self) -> tree_sitter::Language {
        match self {
            Self::Rust => tree_sitter_rust::LANGUAGE.into(),
            Self::Python => tree_sitter_python::LANGUAGE.into(),
            Self::JavaScript => tree_sitter_javascript::LANGUAGE.into(),
            Self::TypeScript => tree_sitter_typescript::LANGUAGE_TYPESCRIPT.into(),
            Self::Tsx => tree_sitter_typescript::LANGUAGE_TSX.into(),
            Self::Go => tree_sitter_go::LANGUAGE.into(),
        }
    }
}

/// The stack of the thread that parses. The parser's stack is a graph, and it lets go of that by calling itself once for each node:
/// of a file that is nested as deep as a file can be, about 100 bytes for each byte of it. Only what is used is ever mapped.
const STACK: usize = if usize::BITS >= 64 { 512 << 20 } else { 128 << 20 };

/// Counts what is in a file. `path` says what of Python is private and which files are tests.
pub fn facts(language: Language, path: &[u8], source: &[u8]) -> Result<Facts, NoTree> {
    // Most files cannot be nested deeper than an ordinary stack holds.
    if source.len() <= SHALLOW {
        return count_in(language, path, source);
    }
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("parse".to_owned()).stack_size(STACK);
        let counting =
            thread.spawn_scoped(scope, || count_in(language, path, source)).map_err(|_| NoTree::NoStack)?;
        counting.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Files of so many bytes are parsed where the caller is.
const SHALLOW: usize = 4096;

fn count_in(language: Language, path: &[u8], source: &[u8]) -> Result<Facts, NoTree> {
    let syntax = Syntax::parse(source, &language.grammar())?;
    let path = String::from_utf8_lossy(path);
    let words: Box<dyn Grammar> = match language {
        Language::Rust => Box::new(rust::Rust),
        Language::Python => Box::new(python::Python::of(&path)),
        Language::JavaScript | Language::TypeScript | Language::Tsx => Box::new(script::Script::of(&path)),
        Language::Go => Box::new(golang::Go::of(&path)),
    };
    Ok(count(&syntax, words.as_ref()))
}
