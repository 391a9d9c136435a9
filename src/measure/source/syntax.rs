//! A syntax tree as a flat list: each node knows its parent, its siblings and its first child by their places in the list.
//!
//! tree-sitter's own nodes find a parent or a sibling by walking down from the root, so a million nested parentheses would cost
//! the square of a million. Here a tree is copied once, by a cursor and without recursion; what follows is loops over a list.

use std::ops::ControlFlow;

use tree_sitter::{Language, ParseOptions, ParseState, Parser, TreeCursor};

/// The most bytes of a source file that are parsed. Generated files are larger; nobody writes such a file by hand.
pub const MAX_BYTES: usize = 1 << 20;
/// The most nodes of a tree. Dense code has about one for every two bytes.
pub const MAX_NODES: usize = 2_000_000;
/// How much work the parser may do: steps of a hundred operations, so many at least and one more for so many bytes. The densest of
/// ordinary code needs one step for 35 bytes. It is counted and not timed, so that a slow machine gives the same numbers.
const STEPS: usize = 5_000;
const BYTES_PER_STEP: usize = 8;

/// The most bytes of a signature that are looked at.
pub const LONGEST_HEADER: usize = 4096;

/// Why there is no tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoTree {
    /// More than [`MAX_BYTES`].
    TooLarge,
    /// More than [`MAX_NODES`], or more work than the parser may do.
    TooComplex,
    /// The machine does not give a thread the stack that parsing may need.
    NoStack,
}

/// A place in the list of nodes.
pub type At = usize;

/// One node. Every place is that of a node, or 0, the root, which is nobody's child, for none.
#[derive(Debug, Clone, Copy)]
struct Node {
    kind: &'static str,
    field: Option<&'static str>,
    named: bool,
    start: usize,
    end: usize,
    line: usize,
    parent: At,
    child: At,
    next: At,
    previous: At,
    after: At,
}

/// A parsed file.
#[derive(Debug)]
pub struct Syntax<'a> {
    source: &'a [u8],
    nodes: Vec<Node>,
    /// Whether a part of the file could not be parsed.
    pub broken: bool,
}

impl<'a> Syntax<'a> {
    /// Parses `source`.
    pub fn parse(source: &'a [u8], language: &Language) -> Result<Self, NoTree> {
        Self::parse_within(source, language, MAX_NODES)
    }

    fn parse_within(source: &'a [u8], language: &Language, limit: usize) -> Result<Self, NoTree> {
        if source.len() > MAX_BYTES {
            return Err(NoTree::TooLarge);
        }
        let mut parser = Parser::new();
        parser.set_language(language).expect("the grammars are of versions that this parser reads");
        let mut left = STEPS + source.len() / BYTES_PER_STEP;
        let mut progress = |_: &ParseState| {
            left = left.saturating_sub(1);
            if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let options = ParseOptions::new().progress_callback(&mut progress);
        let mut read = |at: usize, _| source.get(at..).unwrap_or_default();
        let tree = parser.parse_with_options(&mut read, None, Some(options)).ok_or(NoTree::TooComplex)?;
        let nodes = flatten(&mut tree.walk(), limit).ok_or(NoTree::TooComplex)?;
        Ok(Self { source, nodes, broken: tree.root_node().has_error() })
    }

    /// How many nodes there are. Each stands behind its parent, and before its next sibling.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// The grammar's name of a node; of a keyword or a sign that is its text.
    pub fn kind(&self, at: At) -> &'static str {
        self.nodes[at].kind
    }

    /// Whether the grammar has a name for it: it is no keyword and no sign.
    pub fn is_named(&self, at: At) -> bool {
        self.nodes[at].named
    }

    /// What a node is to its parent.
    pub fn field(&self, at: At) -> Option<&'static str> {
        self.nodes[at].field
    }

    /// The line it begins on, from 1.
    pub fn line(&self, at: At) -> usize {
        self.nodes[at].line
    }

    /// The parent; the root is its own.
    pub fn parent(&self, at: At) -> At {
        self.nodes[at].parent
    }

    /// The sibling before it.
    pub fn previous(&self, at: At) -> Option<At> {
        Some(self.nodes[at].previous).filter(|at| *at != 0)
    }

    /// The sibling before it that is no comment.
    pub fn previous_code(&self, at: At) -> Option<At> {
        let before = std::iter::successors(self.previous(at), |at| self.previous(*at));
        before.into_iter().find(|at| !self.kind(*at).ends_with("comment"))
    }

    /// The sibling behind it.
    pub fn next(&self, at: At) -> Option<At> {
        Some(self.nodes[at].next).filter(|at| *at != 0)
    }

    /// The first place behind a node and all that is in it.
    pub fn after(&self, at: At) -> At {
        self.nodes[at].after
    }

    /// Its children, in order.
    pub fn children(&self, at: At) -> impl Iterator<Item = At> + '_ {
        let first = Some(self.nodes[at].child).filter(|at| *at != 0);
        std::iter::successors(first, |at| self.next(*at))
    }

    /// Its children that the grammar has names for, comments left out.
    pub fn named(&self, at: At) -> impl Iterator<Item = At> + '_ {
        self.children(at).filter(|at| self.is_named(*at) && !self.kind(*at).ends_with("comment"))
    }

    /// The first child of this field.
    pub fn get(&self, at: At, field: &str) -> Option<At> {
        self.children(at).find(|at| self.field(*at) == Some(field))
    }

    /// The first child of this kind.
    pub fn child(&self, at: At, kind: &str) -> Option<At> {
        self.children(at).find(|at| self.kind(*at) == kind)
    }

    /// The source of a node.
    pub fn bytes(&self, at: At) -> &'a [u8] {
        &self.source[self.nodes[at].start..self.nodes[at].end]
    }

    /// The source of a node as text, of more than [`LONGEST_HEADER`] bytes the first: for names.
    pub fn text(&self, at: At) -> String {
        let bytes = self.bytes(at);
        String::from_utf8_lossy(&bytes[..bytes.len().min(LONGEST_HEADER)]).into_owned()
    }

    /// The source of a node as text, if it has at most so many bytes; else nothing.
    pub fn text_within(&self, at: At, most: usize) -> String {
        if self.bytes(at).len() <= most { self.text(at) } else { String::new() }
    }

    /// Whether the source of a node is exactly this.
    pub fn is(&self, at: At, text: &str) -> bool {
        self.bytes(at) == text.as_bytes()
    }

    /// The source from the start of `from` to the start of `to` (or to the end of `from`), every run of white space as one space.
    /// Of more than [`LONGEST_HEADER`] bytes the first: what is nested in itself would be read over and over.
    pub fn header(&self, from: At, to: Option<At>) -> String {
        let end = to.map_or(self.nodes[from].end, |to| self.nodes[to].start);
        let start = self.nodes[from].start.min(end);
        let bytes = &self.source[start..end.min(start + LONGEST_HEADER)];
        let text = String::from_utf8_lossy(bytes);
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// The first line of the source of a node, for people.
    pub fn excerpt(&self, at: At) -> String {
        let bytes = self.bytes(at);
        let bytes = &bytes[..bytes.len().min(400)];
        let text = String::from_utf8_lossy(bytes);
        let mut text: String = text.lines().next().unwrap_or_default().trim_end().chars().take(80).collect();
        if text.len() < self.bytes(at).len() {
            text.push('…');
        }
        text
    }
}

/// Copies a tree; `None` if it has more than `limit` nodes.
fn flatten(cursor: &mut TreeCursor<'_>, limit: usize) -> Option<Vec<Node>> {
    let mut nodes: Vec<Node> = Vec::new();
    let (mut parent, mut previous) = (0, 0);
    loop {
        let here = nodes.len();
        if here == limit {
            return None;
        }
        let node = cursor.node();
        nodes.push(Node {
            kind: node.kind(),
            field: cursor.field_name(),
            named: node.is_named(),
            start: node.start_byte(),
            end: node.end_byte(),
            line: node.start_position().row + 1,
            parent,
            child: 0,
            next: 0,
            previous,
            after: 0,
        });
        if previous != 0 {
            nodes[previous].next = here;
        } else if here != 0 {
            nodes[parent].child = here;
        }
        if cursor.goto_first_child() {
            (parent, previous) = (here, 0);
            continue;
        }
        let mut done = here;
        nodes[done].after = nodes.len();
        while !cursor.goto_next_sibling() {
            if !cursor.goto_parent() {
                return Some(nodes);
            }
            done = nodes[done].parent;
            nodes[done].after = nodes.len();
        }
        (parent, previous) = (nodes[done].parent, done);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn python() -> Language {
        tree_sitter_python::LANGUAGE.into()
    }

    #[test]
    fn a_tree_is_a_list_in_the_order_of_the_source() {
        let syntax = Syntax::parse(b"def f(a, b):\n    return a\n\nx = 1\n", &python()).unwrap();
        assert!(!syntax.broken);
        let top: Vec<_> = syntax.named(0).map(|at| (syntax.kind(at), syntax.line(at))).collect();
        assert_eq!(top, [("function_definition", 1), ("expression_statement", 4)]);
        let function = syntax.named(0).next().unwrap();
        assert_eq!(syntax.get(function, "name").map(|at| syntax.text(at)).as_deref(), Some("f"));
        assert_eq!(syntax.header(function, syntax.get(function, "body")), "def f(a, b):");
        assert_eq!(syntax.next(function), Some(syntax.after(function)));
        assert_eq!(syntax.previous(syntax.after(function)), Some(function));
        for at in 1..syntax.len() {
            assert!(syntax.parent(at) < at && at < syntax.after(at));
            assert!(syntax.children(syntax.parent(at)).any(|child| child == at));
        }
    }

    #[test]
    fn what_is_broken_is_said() {
        assert!(Syntax::parse(b"def f(:\n", &python()).unwrap().broken);
    }

    #[test]
    fn there_is_a_bound_on_bytes_and_on_nodes() {
        let large = vec![b' '; MAX_BYTES + 1];
        assert_eq!(Syntax::parse(&large, &python()).unwrap_err(), NoTree::TooLarge);
        let four = b"a + b\n";
        assert_eq!(Syntax::parse_within(four, &python(), 3).unwrap_err(), NoTree::TooComplex);
        assert!(Syntax::parse_within(four, &python(), 100).is_ok());
    }
}
