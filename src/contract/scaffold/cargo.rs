//! Cargo packages and workspaces.

use std::collections::BTreeMap;

use super::survey::{Survey, as_pattern};
use super::{Litter, ProjectKind, Proposal, ProposedCommand, Verdict};

/// Folders whose packages are not members: test data, copies of others' code, builds.
const NOT_MEMBERS: [&str; 6] = ["tests", "fixtures", "examples", "vendor", "target", "third_party"];

pub(super) fn detect(survey: &Survey) -> Option<Proposal> {
    if !survey.has("Cargo.toml") {
        return None;
    }
    let manifest: toml::Table = survey.text("Cargo.toml").parse().unwrap_or_default();
    let is_workspace = manifest.contains_key("workspace");
    let mut words = vec!["cargo", "test"];
    if is_workspace {
        words.push("--workspace");
    }
    words.extend(["--no-fail-fast", "--offline"]);
    let mut proposal = Proposal::new(
        ProjectKind::Cargo,
        Some("Cargo.toml"),
        ProposedCommand::args(&words),
        Verdict::Libtest,
    );
    "all tests of all binaries; crates are taken from your cargo cache".clone_into(&mut proposal.command_why);

    let mut folders = vec![String::new()];
    if is_workspace {
        folders.extend(members(survey));
    }
    for folder in folders {
        if matches_any(survey, &folder, "src") {
            proposal.mutable(format!("{folder}src/**"), "the code, with the unit tests that are in it");
        }
        if matches_any(survey, &folder, "tests") {
            proposal.check(format!("{folder}tests/**"), "the integration tests");
        }
    }
    proposal.check("Cargo.toml", "dependencies, features and targets, in every folder");
    proposal.check_files(survey, &[("Cargo.lock", "the exact versions")]);
    if survey.has_folder(".cargo") {
        proposal.check(".cargo/**", "cargo's configuration");
    }
    proposal
        .check_files(survey, &[("rust-toolchain.toml", "the compiler"), ("rust-toolchain", "the compiler")]);
    if proposal.mutable.is_empty() {
        proposal.mutable("src/**", "");
        proposal.fill_in.push("paths.mutable");
    }
    if has_test_without_harness(&manifest) {
        proposal.notes.push(
            "Cargo.toml has a test with `harness = false`, whose output is no report: leave it out of check.command \
             (--lib, --test NAME)"
                .to_owned(),
        );
    }
    // The target folder is the preset's.
    if !survey.has("Cargo.lock") {
        proposal.litter.push(Litter { path: "Cargo.lock", is_dir: false });
    }
    Some(proposal)
}

/// The folders of the members, each with a slash at its end; those that share a folder as one pattern.
fn members(survey: &Survey) -> Vec<String> {
    let mut by_parent: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for folder in survey.files().filter_map(|path| path.strip_suffix("/Cargo.toml")) {
        if folder.split('/').any(|name| NOT_MEMBERS.contains(&name)) {
            continue;
        }
        let parent = folder.rsplit_once('/').map_or("", |(parent, _)| parent);
        by_parent.entry(parent).or_default().push(folder);
    }
    let mut patterns = Vec::new();
    for (parent, folders) in by_parent {
        // Folders at the top are named one by one: `*/src/**` would be a promise about any folder there will be.
        if parent.is_empty() || folders.len() == 1 {
            patterns.extend(folders.into_iter().map(|folder| format!("{}/", as_pattern(folder))));
        } else {
            patterns.push(format!("{}/*/", as_pattern(parent)));
        }
    }
    patterns
}

/// Whether a folder `name` with files in it is where the pattern `folder` says.
fn matches_any(survey: &Survey, folder: &str, name: &str) -> bool {
    match folder.strip_suffix("*/") {
        None => survey.has_folder(&format!("{folder}{name}")),
        Some(parent) => survey
            .files()
            .filter_map(|path| path.strip_prefix(parent)?.split_once('/'))
            .any(|(_, rest)| rest.strip_prefix(name).is_some_and(|rest| rest.starts_with('/'))),
    }
}

fn has_test_without_harness(manifest: &toml::Table) -> bool {
    let tests = manifest.get("test").and_then(toml::Value::as_array);
    tests.into_iter().flatten().any(|test| test.get("harness").and_then(toml::Value::as_bool) == Some(false))
}
