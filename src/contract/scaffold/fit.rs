//! Makes a proposal's patterns fit the paths of the commit: what a start would refuse is taken out.

use gix::bstr::{BStr, ByteSlice};

use super::survey::{Survey, as_pattern};
use super::{FILL_IN, Pattern, Proposal, push};
use crate::guard::{PathSet, overlap};

/// The most links in frozen folders that are left out one by one.
const LINKS_LISTED: usize = 100;

pub(super) fn fit(proposal: &mut Proposal, survey: &Survey) {
    for pattern in leave_out_links(proposal, survey) {
        push(&mut proposal.check, pattern);
    }
    let paths: Vec<&BStr> = survey.entries().map(|(path, _)| path).collect();
    for pattern in keep_apart(proposal, &paths) {
        push(&mut proposal.mutable, pattern);
    }
    if proposal.fill_in.contains(&"paths.mutable") {
        for pattern in proposal.mutable.iter_mut().filter(|pattern| pattern.why.is_empty()) {
            pattern.why = format!("{FILL_IN}: where the code is; nothing was found there");
        }
    }
}

/// A link cannot be frozen: what it leads to would not be frozen with it. Left out it is nobody's, so that a change of it
/// rejects an attempt all the same.
fn leave_out_links(proposal: &Proposal, survey: &Survey) -> Vec<Pattern> {
    let Some(check) = set(&proposal.check) else { return Vec::new() };
    let links = survey.entries().filter(|(path, is_file)| !is_file && check.matches_folded_as(path, true));
    links
        .filter_map(|(path, _)| path.to_str().ok())
        .take(LINKS_LISTED)
        .map(|path| Pattern::new(format!("!/{}", as_pattern(path)), "a link, which cannot be frozen"))
        .collect()
}

/// What is frozen is taken out of what may change, by the very pattern that freezes it: files that come later are kept
/// apart as well.
fn keep_apart(proposal: &Proposal, paths: &[&BStr]) -> Vec<Pattern> {
    let (Some(mutable), Some(check)) = (set(&proposal.mutable), set(&proposal.check)) else {
        return Vec::new();
    };
    let both = overlap(&mutable, &check, paths.iter().copied());
    let mut apart = Vec::new();
    for pattern in proposal.check.iter().filter(|pattern| !pattern.text.starts_with('!')) {
        let one = set(std::slice::from_ref(pattern));
        if one.is_some_and(|one| both.iter().any(|path| one.matches_folded(path.as_bstr()))) {
            apart.push(Pattern::new(format!("!{}", pattern.text), "frozen below"));
        }
    }
    // A path that only another spelling of a pattern freezes (`Tests/` beside `tests/`) is left.
    let all: Vec<Pattern> = proposal.mutable.iter().chain(&apart).cloned().collect();
    if let Some(mutable) = set(&all) {
        let left = overlap(&mutable, &check, paths.iter().copied());
        for path in left.iter().filter_map(|path| path.to_str().ok()) {
            apart.push(Pattern::new(format!("!/{}", as_pattern(path)), "frozen below"));
        }
    }
    apart
}

fn set(patterns: &[Pattern]) -> Option<PathSet> {
    let texts: Vec<&str> = patterns.iter().map(|pattern| pattern.text.as_str()).collect();
    PathSet::parse(&texts).ok()
}
