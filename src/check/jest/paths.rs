//! Names for files that stay the same when the folder does not that all of them lie in.

use std::collections::HashMap;

/// The longest path that is read, in bytes: what Linux takes.
pub(super) const LONGEST: usize = 4096;

/// For each path as few of its last components as tell it from the others with the same last component.
///
/// The folders that all paths of one last component share never count: they hold that of the worktree.
pub(super) fn short(paths: &[&str]) -> Vec<String> {
    let slashed: Vec<String> = paths.iter().map(|path| with_slashes(path)).collect();
    let split: Vec<Vec<&str>> =
        slashed.iter().map(|path| path.split('/').filter(|part| !part.is_empty()).collect()).collect();
    let mut groups: HashMap<&str, Vec<&[&str]>> = HashMap::new();
    for parts in &split {
        let group = groups.entry(parts.last().copied().unwrap_or_default()).or_default();
        group.push(parts);
    }
    let mut names: HashMap<&[&str], String> = HashMap::new();
    for mut group in groups.into_values() {
        group.sort_unstable();
        group.dedup();
        let shared = shared_folders(&group);
        // Backwards, so that those with the longest tail in common are neighbours.
        group.sort_by(|a, b| a[shared..].iter().rev().cmp(b[shared..].iter().rev()));
        let mut before = 0;
        for (index, parts) in group.iter().enumerate() {
            let own = &parts[shared..];
            let after = group.get(index + 1).map_or(0, |next| same_tail(own, &next[shared..]));
            let length = (before.max(after) + 1).min(own.len());
            names.insert(parts, own[own.len() - length..].join("/"));
            before = after;
        }
    }
    split.iter().map(|parts| names.get(parts.as_slice()).cloned().unwrap_or_default()).collect()
}

/// How many components two paths have in common at their ends.
fn same_tail(a: &[&str], b: &[&str]) -> usize {
    a.iter().rev().zip(b.iter().rev()).take_while(|(a, b)| a == b).count()
}

/// How many folders all these paths begin with, their last component aside.
fn shared_folders(group: &[&[&str]]) -> usize {
    let Some((first, rest)) = group.split_first() else { return 0 };
    rest.iter().fold(first.len().saturating_sub(1), |shared, parts| {
        let same = first.iter().zip(*parts).take_while(|(a, b)| a == b).count();
        shared.min(same).min(parts.len().saturating_sub(1))
    })
}

/// A path with `/` between its parts. On Unix a backslash may be part of a name.
fn with_slashes(path: &str) -> String {
    if path.contains('/') { path.to_owned() } else { path.replace('\\', "/") }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn as_short_as_can_be() {
        for (paths, expected) in [
            (&["/w/1/a.js", "/w/1/x/b.js"][..], &["a.js", "b.js"][..]),
            (&["/w/1/a/i.js", "/w/1/b/i.js", "/w/1/c.js"], &["a/i.js", "b/i.js", "c.js"]),
            // One that is a tail of another never takes in the folder of the worktree.
            (&["/w/1/i.js", "/w/1/a/i.js"], &["i.js", "a/i.js"]),
            (&["/w/1/a/x/i.js", "/w/1/b/x/i.js", "/w/1/i.js"], &["a/x/i.js", "b/x/i.js", "i.js"]),
            (&["/w/1/a/x/i.js", "/w/1/a/y/i.js", "/w/1/z/i.js"], &["x/i.js", "y/i.js", "z/i.js"]),
            // The same file twice: two projects of one run.
            (&["/w/1/i.js", "/w/1/i.js"], &["i.js", "i.js"]),
            (&["C:\\w\\1\\a\\i.js", "C:\\w\\1\\b\\i.js"], &["a/i.js", "b/i.js"]),
            // The place of the worktree is no part of a name, also where a folder has its name.
            (&["/w/1/i.js", "/w/1/w/1/i.js"], &["i.js", "1/i.js"]),
            (&["i.js"], &["i.js"]),
            (&["/", "//"], &["", ""]),
            (&[], &[]),
        ] {
            assert_eq!(short(paths), expected, "{paths:?}");
        }
    }

    proptest! {
        #[test]
        fn names_tell_apart_and_do_not_depend_on_the_place(
            files in proptest::collection::btree_set(proptest::collection::vec("[ab]", 1..5), 1..8),
            here in "(/[a-c]){0,3}",
            there in "(/[a-c]){0,3}",
        ) {
            let at = |place: &str| -> Vec<String> { files.iter().map(|file| format!("{place}/{}", file.join("/"))).collect() };
            let names = |place: &str| short(&at(place).iter().map(String::as_str).collect::<Vec<_>>());
            let first = names(&here);
            prop_assert_eq!(&first, &names(&there));
            let distinct: std::collections::BTreeSet<_> = first.iter().collect();
            prop_assert_eq!(distinct.len(), files.len());
            for (name, file) in first.iter().zip(&files) {
                prop_assert!(file.join("/").ends_with(name.as_str()));
            }
        }
    }
}
