//! How many lines were added and removed: those of a shortest edit script.
//!
//! Which lines a diff marks is a matter of its algorithm; how many of them a *shortest* one has is not, so the number is that of
//! `git diff --minimal --numstat` and stays the same whatever library makes diffs. The method is the greedy one of E. W. Myers, "An
//! O(ND) Difference Algorithm and Its Variations" (1986), section 4, which needs no memory for the way where only its length is
//! asked for. Lines that only one side has can be in no common sequence; they are counted and left out before.

use std::collections::HashMap;

/// How far git looks for a NUL before it takes a file for text.
const SNIFFED: usize = 8000;

/// The most steps of one comparison. Files that differ in 30,000 places are within it.
pub const MAX_STEPS: u64 = 1 << 29;
/// The most bytes of a side that are compared line by line.
pub const MAX_BYTES: usize = 16 << 20;

/// Lines that a change adds and removes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lines {
    /// Lines that only the new side has.
    pub added: u64,
    /// Lines that only the old side has.
    pub removed: u64,
    /// Whether this is the shortest script. If not, the two were too different to look for it: the lines between the equal start
    /// and the equal end, less those that only one side has, count as all removed and all added.
    pub exact: bool,
}

/// Whether git takes it for binary: a NUL in the first 8,000 bytes.
pub fn is_binary(content: &[u8]) -> bool {
    content[..content.len().min(SNIFFED)].contains(&0)
}

/// The lines that differ. `steps` is how much work may be done; what was done is taken from it. A last line without a line feed is another line than the same with
/// one, as for git. If a side has more than [`MAX_BYTES`], all lines of both count.
pub fn count(old: &[u8], new: &[u8], steps: &mut u64) -> Lines {
    if old.len().max(new.len()) > MAX_BYTES {
        let all = |content: &[u8]| content.split_inclusive(|byte| *byte == b'\n').count() as u64;
        return Lines { added: all(new), removed: all(old), exact: false };
    }
    let most = (*steps).min(MAX_STEPS);
    let mut left = most;
    let lines = by_line(old, new, &mut left);
    *steps -= most - left;
    lines
}

fn by_line(old: &[u8], new: &[u8], steps: &mut u64) -> Lines {
    let (old, new): (Vec<&[u8]>, Vec<&[u8]>) = (lines(old), lines(new));
    let same = |(a, b): &(&&[u8], &&[u8])| a == b;
    let head = old.iter().zip(&new).take_while(same).count();
    let (old, new) = (&old[head..], &new[head..]);
    let tail = old.iter().rev().zip(new.iter().rev()).take_while(same).count();
    let (old, new) = (&old[..old.len() - tail], &new[..new.len() - tail]);
    let total = (old.len() as u64, new.len() as u64);
    let (old, new) = shared(old, new);
    let distance = distance(&old, &new, steps);
    let exact = distance.is_some();
    let distance = distance.unwrap_or(old.len() + new.len()) as u64;
    // A script of D steps from n lines to m keeps (n + m - D) / 2 of each.
    let kept = ((old.len() + new.len()) as u64 - distance) / 2;
    Lines { added: total.1 - kept, removed: total.0 - kept, exact }
}

fn lines(content: &[u8]) -> Vec<&[u8]> {
    content.split_inclusive(|byte| *byte == b'\n').collect()
}

/// The lines that are on both sides, as numbers.
fn shared(old: &[&[u8]], new: &[&[u8]]) -> (Vec<usize>, Vec<usize>) {
    let mut numbers: HashMap<&[u8], (usize, bool)> = HashMap::new();
    for line in old {
        let next = numbers.len();
        numbers.entry(line).or_insert((next, false));
    }
    let mut right = Vec::new();
    for line in new {
        if let Some((number, both)) = numbers.get_mut(line) {
            *both = true;
            right.push(*number);
        }
    }
    let left =
        old.iter().filter_map(|line| numbers.get(line)).filter(|(_, both)| *both).map(|(number, _)| *number);
    (left.collect(), right)
}

/// The length of a shortest edit script, if it is found in the steps that are left.
fn distance(old: &[usize], new: &[usize], left: &mut u64) -> Option<usize> {
    let (n, m) = (old.len(), new.len());
    // How far each diagonal was followed: the place in `old`, plus 1; 0 where nothing has been. Diagonal k, where the place in
    // `old` is k more than that in `new`, is at k + m + 1, with one unused place on either side.
    let middle = m + 1;
    let mut furthest = vec![0_usize; n + m + 3];
    furthest[middle + 1] = 1;
    for edits in 0..=n + m {
        // Diagonals beyond the two corners lead nowhere. Each round has every other one.
        let low = if edits <= m { edits } else { m - (edits - m) % 2 };
        let high = if edits <= n { edits } else { n - (edits - n) % 2 };
        for at in (middle - low..=middle + high).step_by(2) {
            let (before, after) = (furthest[at - 1], furthest[at + 1]);
            let start = if before < after { after - 1 } else { before };
            // Where a diagonal has left the texts at a corner it stays there.
            let (mut x, mut y) = (start, (start + middle).saturating_sub(at));
            while x < n && y < m && old[x] == new[y] {
                x += 1;
                y += 1;
            }
            if x >= n && y >= m {
                return Some(edits);
            }
            furthest[at] = x + 1;
            *left = left.checked_sub(1 + (x - start) as u64)?;
        }
    }
    Some(n + m)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn numbers(old: &str, new: &str) -> (u64, u64) {
        let lines = count(old.as_bytes(), new.as_bytes(), &mut { MAX_STEPS });
        assert!(lines.exact);
        (lines.added, lines.removed)
    }

    #[test]
    fn lines_are_counted_by_hand() {
        assert_eq!(numbers("", ""), (0, 0));
        assert_eq!(numbers("", "a\nb\n"), (2, 0));
        assert_eq!(numbers("a\nb\n", ""), (0, 2));
        assert_eq!(numbers("a\nb\nc\n", "a\nB\nc\n"), (1, 1));
        assert_eq!(numbers("a\nb\nc\nd\n", "b\na\nc\nd\n"), (1, 1));
        assert_eq!(numbers("a\nb\nc\na\nb\nb\na\n", "c\nb\na\nb\na\nc\n"), (2, 3), "the example of Myers");
        assert_eq!(numbers("a", "a\n"), (1, 1), "the last line has no line feed");
        assert_eq!(numbers("a\r\n", "a\n"), (1, 1));
    }

    #[test]
    fn a_nul_near_the_start_makes_it_binary() {
        assert!(is_binary(b"a\0b"));
        assert!(!is_binary(b"ab"));
        let mut late = vec![b'x'; SNIFFED];
        late.push(0);
        assert!(!is_binary(&late));
    }

    #[test]
    fn what_takes_too_long_counts_whole_but_for_its_ends_and_is_said() {
        let lines = count(b"s\na\nb\nc\nx\ne\n", b"s\nc\nb\na\ny\ny\ne\n", &mut 3);
        assert_eq!(lines, Lines { added: 5, removed: 4, exact: false });
        let whole = count(b"s\na\nb\nc\nx\ne\n", b"s\nc\nb\na\ny\ny\ne\n", &mut { MAX_STEPS });
        assert_eq!(whole, Lines { added: 4, removed: 3, exact: true });
    }

    /// The length of a longest common subsequence, from the table that every textbook has.
    fn common(old: &[&[u8]], new: &[&[u8]]) -> u64 {
        let mut table = vec![vec![0; new.len() + 1]; old.len() + 1];
        for (i, a) in old.iter().enumerate() {
            for (j, b) in new.iter().enumerate() {
                table[i + 1][j + 1] =
                    if a == b { table[i][j] + 1 } else { u64::max(table[i][j + 1], table[i + 1][j]) };
            }
        }
        table[old.len()][new.len()]
    }

    proptest! {
        #[test]
        fn no_script_is_shorter(old in "([a-d]\n?){0,30}", new in "([a-d]\n?){0,30}") {
            let (a, b) = (lines(old.as_bytes()), lines(new.as_bytes()));
            let kept = common(&a, &b);
            let counted = count(old.as_bytes(), new.as_bytes(), &mut { MAX_STEPS });
            prop_assert_eq!(counted, Lines { added: b.len() as u64 - kept, removed: a.len() as u64 - kept, exact: true });
        }
    }
}
