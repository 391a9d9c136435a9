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
    /// `.py`, `.pyi`, `.pyw`
    Python,
    /// `.js`, `.mjs`, `.cjs`, `.jsx`, `.es6`, `.es`, `.jsm`
    JavaScript,
    /// `.ts`, `.mts`, `.cts`
    TypeScript,
    /// `.tsx`
    Tsx,
    /// `.go`
    Go,
}

impl Language {
    /// The language of a file: by the end of its name, in whatever case, else by the program that its first line names.
    pub fn of_file(path: &[u8], content: &[u8]) -> Option<Self> {
        Self::of(path).or_else(|| Self::of_first_line(content))
    }

    /// The language of a script that begins with `#!`.
    fn of_first_line(content: &[u8]) -> Option<Self> {
        let line = content.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
        let line = String::from_utf8_lossy(&line[..line.len().min(200)]).into_owned();
        // `#!/usr/bin/env -S node --flag`, `#!/usr/bin/python3.11 -u`
        line.split_whitespace().take(4).find_map(|word| {
            let program = word.rsplit('/').next()?.to_ascii_lowercase();
            let program = program.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
            match program {
                "python" | "pypy" => Some(Self::Python),
                "node" | "nodejs" | "bun" => Some(Self::JavaScript),
                "deno" | "ts-node" | "tsx" => Some(Self::TypeScript),
                "rust-script" => Some(Self::Rust),
                _ => None,
            }
        })
    }

    /// The language of a path, by the end of its name.
    pub fn of(path: &[u8]) -> Option<Self> {
        let name = path.rsplit(|byte| *byte == b'/').next()?;
        let dot = name.iter().rposition(|byte| *byte == b'.')?;
        Some(match name[dot + 1..].to_ascii_lowercase().as_slice() {
            b"rs" => Self::Rust,
            b"py" | b"pyi" | b"pyw" => Self::Python,
            b"js" | b"mjs" | b"cjs" | b"jsx" | b"es6" | b"es" | b"jsm" => Self::JavaScript,
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
    // A scanner takes a NUL for the end of the file, and what follows would be lost.
    if source.contains(&0) {
        let source: Vec<u8> = source.iter().map(|byte| if *byte == 0 { b' ' } else { *byte }).collect();
        return facts(language, path, &source);
    }
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
