//! The identity of a change to one file, whatever else is in the file: what a cherry-pick, a rebase and a squash keep.
//!
//! `git patch-id` hashes the hunks of a diff without line numbers and white space. It still hashes three lines of
//! context, so a pick that git applies without a conflict gets another id as soon as a line near it differs, and it
//! depends on how the diff algorithm aligns and slides its hunks. [`change_id`] keeps what is left without these:
//!
//! 1. Content is split at LF. From each line every ASCII space, tab, CR, VT and FF is removed; lines that are then
//!    empty do not exist.
//! 2. The *net lines* are the multiset difference of the two files: each line with how many more (added) or fewer
//!    (removed) times it stands in the new one.
//! 3. If a net line has a letter, a digit or a byte outside of ASCII, the id is the SHA-256 of the net lines in the
//!    order of their bytes.
//! 4. Else (a block only moved, or only braces came and went, which would be the same change in many places) the id
//!    is the SHA-256 of the hunks in their order, each with the line before and the line after it. These two
//!    cannot change in a pick without a conflict.
//!
//! Two changes with equal hunks have equal ids, so this catches whatever `git patch-id` per file catches.

use std::collections::BTreeMap;

use gix::diff::blob::{Algorithm, Diff, InternedInput};
use sha2::{Digest, Sha256};

/// The identity of a change to one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ChangeId([u8; 32]);

/// Files longer than this many bytes are known by their blob only.
pub const MAX_TEXT: usize = 16 * 1024 * 1024;

/// How far git looks for a NUL before it takes a file for text.
const SNIFFED: usize = 8000;

/// The identity of the change from `old` to `new`; a file that does not exist is empty. `None` if nothing but white
/// space changed, or if a side is binary (a NUL in the first 8,000 bytes, as for git) or longer than [`MAX_TEXT`].
pub fn change_id(old: &[u8], new: &[u8]) -> Option<ChangeId> {
    if is_binary(old) || is_binary(new) {
        return None;
    }
    let net = net_lines(old, new);
    let telling = |line: &[u8]| line.iter().any(|byte| byte.is_ascii_alphanumeric() || !byte.is_ascii());
    if net.keys().any(|line| telling(line)) {
        let mut hash = Sha256::new();
        hash.update(b"net\0");
        for (line, count) in &net {
            hash.update(count.to_be_bytes());
            feed(&mut hash, line);
        }
        return Some(ChangeId(hash.finalize().into()));
    }
    hunks(&normalized(lines(old)), &normalized(lines(new)))
}

fn is_binary(content: &[u8]) -> bool {
    content.len() > MAX_TEXT || content[..content.len().min(SNIFFED)].contains(&0)
}

fn lines(content: &[u8]) -> Vec<&[u8]> {
    content.split(|byte| *byte == b'\n').collect()
}

fn normalized<'a>(lines: impl IntoIterator<Item = &'a [u8]>) -> Vec<Vec<u8>> {
    let strip = |line: &[u8]| {
        line.iter()
            .copied()
            .filter(|byte| !matches!(byte, b' ' | b'\t' | b'\r' | 0x0b | 0x0c))
            .collect::<Vec<u8>>()
    };
    lines.into_iter().map(strip).filter(|line| !line.is_empty()).collect()
}

fn net_lines(old: &[u8], new: &[u8]) -> BTreeMap<Vec<u8>, i64> {
    // What both begin and end with adds nothing to the difference, and is most of a file.
    let (old, new) = (lines(old), lines(new));
    let same = |(a, b): &(&&[u8], &&[u8])| a == b;
    let head = old.iter().zip(&new).take_while(same).count();
    let (old, new) = (&old[head..], &new[head..]);
    let tail = old.iter().rev().zip(new.iter().rev()).take_while(same).count();
    let (old, new) = (&old[..old.len() - tail], &new[..new.len() - tail]);
    let mut net = BTreeMap::new();
    for (side, step) in [(old, -1), (new, 1)] {
        for line in normalized(side.iter().copied()) {
            *net.entry(line).or_insert(0) += step;
        }
    }
    net.retain(|_, count| *count != 0);
    net
}

fn hunks(old: &[Vec<u8>], new: &[Vec<u8>]) -> Option<ChangeId> {
    if old == new {
        return None;
    }
    let mut input: InternedInput<&[u8]> = InternedInput::default();
    input.update_before(old.iter().map(Vec::as_slice));
    input.update_after(new.iter().map(Vec::as_slice));
    let mut diff = Diff::compute(Algorithm::Histogram, &input);
    diff.postprocess_no_heuristic(&input);
    let mut hash = Sha256::new();
    hash.update(b"hunks\0");
    for hunk in diff.hunks() {
        let (before, after) = (hunk.before.start as usize..hunk.before.end as usize, hunk.after);
        let after = after.start as usize..after.end as usize;
        // An absent neighbour is the start or the end of the file, and no line is empty here.
        let neighbours = [before.start.checked_sub(1).and_then(|at| old.get(at)), old.get(before.end)];
        for neighbour in neighbours {
            feed(&mut hash, neighbour.map_or(&[], Vec::as_slice));
        }
        for (side, range) in [(old, before), (new, after)] {
            hash.update((range.len() as u64).to_be_bytes());
            side[range].iter().for_each(|line| feed(&mut hash, line));
        }
    }
    Some(ChangeId(hash.finalize().into()))
}

fn feed(hash: &mut Sha256, line: &[u8]) {
    hash.update((line.len() as u64).to_be_bytes());
    hash.update(line);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn id(old: &str, new: &str) -> Option<ChangeId> {
        change_id(old.as_bytes(), new.as_bytes())
    }

    #[test]
    fn other_lines_of_the_file_do_not_count() {
        let change = id("a\nb\nc\n", "a\nB\nc\n");
        assert!(change.is_some());
        assert_eq!(change, id("x\na\nb\nc\ny\n", "x\na\nB\nc\ny\n"));
        assert_eq!(change, id("not a\nb\nnot c", "not a\nB\nnot c"));
        assert_ne!(change, id("a\nb\nc\n", "a\nB2\nc\n"));
        assert_ne!(change, id("a\nB\nc\n", "a\nb\nc\n"), "a revert is another change");
    }

    #[test]
    fn white_space_does_not_count() {
        assert_eq!(id("a b\n", "\ta  b\r\n\n\n"), None);
        assert_eq!(
            id("if x {\n  y\n}\n", "if x {\n  z\n}\n"),
            id("\tif x {\n\ty\n\t}\n", "\tif x {\r\n\n\tz\n\t}\n")
        );
        assert_eq!(id("a", "a\nb"), id("a\n", "a\nb\n"));
        assert_eq!(id("", ""), None);
    }

    #[test]
    fn a_block_that_moved_is_a_change() {
        let moved = id("a\nb\nc\nd\n", "b\na\nc\nd\n");
        assert!(moved.is_some());
        assert_eq!(
            id("x\n1\na\nb\nc\nd\n", "x\n1\nb\na\nc\nd\n"),
            id("y\n1\na\nb\nc\nd\ne\n", "y\n1\nb\na\nc\nd\ne\n")
        );
        assert_ne!(moved, id("a\nb\nc\nd\n", "a\nc\nb\nd\n"));
    }

    #[test]
    fn one_brace_is_another_change_elsewhere() {
        let here = id("f {\ng\nh {\n}\n", "f {\n}\ng\nh {\n}\n");
        assert!(here.is_some());
        assert_ne!(here, id("f {\ng\nh {\n}\n", "f {\ng\nh {\n}\n}\n"));
        assert_eq!(here, id("other\nf {\ng\nh {\n}\n", "other\nf {\n}\ng\nh {\n}\n"));
    }

    #[test]
    fn binary_and_huge_content_has_no_change_id() {
        assert_eq!(id("a", "b\0"), None);
        assert_eq!(id("a\0", "b"), None);
        let huge = vec![b'x'; MAX_TEXT + 1];
        assert_eq!(change_id(b"", &huge), None);
        let mut late = vec![b'x'; SNIFFED];
        late.push(0);
        assert!(change_id(b"", &late).is_some(), "git takes it for text");
    }

    fn text() -> impl Strategy<Value = Vec<u8>> {
        proptest::collection::vec(
            prop_oneof![Just(b'\n'), Just(b' '), Just(b'}'), Just(b'a'), Just(b'b'), any::<u8>()],
            0..60,
        )
    }

    proptest! {
        #[test]
        fn it_is_total_and_none_exactly_for_white_space(old in text(), new in text()) {
            let same = normalized(lines(&old)) == normalized(lines(&new));
            let binary = old.contains(&0) || new.contains(&0);
            prop_assert_eq!(change_id(&old, &new).is_none(), same || binary);
        }

        #[test]
        fn the_same_edit_in_two_branches_has_one_id(
            // Lines of three alphabets: what both branches share, what the edit brings, what one branch has besides.
            shared in proptest::collection::vec("[a-d]{1,2}", 1..12),
            edit in proptest::collection::vec("[p-r]{1,2}", 1..4),
            other in proptest::collection::vec("[x-z]{1,2}", 0..6),
            at in any::<prop::sample::Index>(),
            removed in 0..2_usize,
        ) {
            let apply = |lines: &[String]| {
                let mut lines = lines.to_vec();
                let at = at.index(shared.len());
                let end = (at + removed).min(lines.len());
                lines.splice(at..end, edit.iter().cloned());
                lines.join("\n")
            };
            // What the other branch has besides stands behind the edit, so that the edit's place stays.
            let mut there = shared.clone();
            there.extend(other.iter().cloned());
            prop_assert_eq!(
                id(&shared.join("\n"), &apply(&shared)),
                id(&there.join("\n"), &apply(&there))
            );
        }
    }
}
