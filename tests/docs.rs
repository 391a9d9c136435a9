//! The documentation says what the code does: the table of exit codes, and links that lead somewhere.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use git_loop::exit::HaltReason;

/// What stands around the generated table.
const TABLE_BEGIN: &str = "<!-- generated: exit codes -->\n";
const TABLE_END: &str = "<!-- end generated: exit codes -->";

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn the_table_of_exit_codes_is_that_of_the_code() {
    let page = read(&root().join("docs/src/reference/exit-codes.md"));
    let (_, rest) = page.split_once(TABLE_BEGIN).expect("the page has the table's first marker");
    let (table, _) = rest.split_once(TABLE_END).expect("the page has the table's last marker");
    let mut expected = String::from("| exit | `halt_reason` | left by |\n| --- | --- | --- |\n");
    for reason in HaltReason::ALL {
        let _ = writeln!(expected, "| {} | `{reason}` | {} |", reason.exit_code(), reason.left_by());
    }
    assert_eq!(table, expected, "docs/src/reference/exit-codes.md and src/exit.rs differ");
}

#[test]
fn every_relative_link_leads_to_a_file_and_a_heading() {
    let mut pages = vec![root().join("README.md")];
    pages.extend(markdown_below(&root().join("docs/src")));
    let mut broken = Vec::new();
    for page in &pages {
        for link in links(&read(page)) {
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            let (file, heading) =
                link.split_once('#').map_or((link.as_str(), None), |(file, at)| (file, Some(at)));
            let target = if file.is_empty() { page.clone() } else { page.with_file_name("").join(file) };
            if !target.is_file() {
                broken.push(format!("{}: {link}: no such file", page.display()));
            } else if let Some(heading) = heading
                && !headings(&read(&target)).iter().any(|known| known == heading)
            {
                broken.push(format!("{}: {link}: no such heading", page.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn every_page_is_in_the_summary() {
    let source = root().join("docs/src");
    let summary = read(&source.join("SUMMARY.md"));
    let listed: Vec<PathBuf> = links(&summary).iter().map(|link| source.join(link)).collect();
    for page in markdown_below(&source) {
        assert!(
            page.ends_with("SUMMARY.md") || listed.contains(&page),
            "{} is not in SUMMARY.md",
            page.display()
        );
    }
}

fn markdown_below(folder: &Path) -> Vec<PathBuf> {
    let mut pages = Vec::new();
    for entry in fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
        let path = entry.expect("the folder can be read").path();
        if path.is_dir() {
            pages.extend(markdown_below(&path));
        } else if path.extension().is_some_and(|extension| extension == "md") {
            pages.push(path);
        }
    }
    pages.sort();
    pages
}

/// The lines that are prose: code between fences may look like anything.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut in_code = false;
    text.lines().filter(move |line| {
        let fence = line.trim_start().starts_with("```");
        in_code ^= fence;
        !fence && !in_code
    })
}

/// The targets of `[text](target)`.
fn links(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in prose(text) {
        let mut rest = line;
        while let Some(start) = rest.find("](") {
            rest = &rest[start + 2..];
            let Some(end) = rest.find(')') else { break };
            found.push(rest[..end].to_owned());
            rest = &rest[end..];
        }
    }
    found
}

/// The anchors of the headings, as mdBook and GitHub make them.
fn headings(text: &str) -> Vec<String> {
    prose(text)
        .filter(|line| line.starts_with('#'))
        .map(|line| {
            let title = line.trim_start_matches('#').trim().to_lowercase();
            title
                .chars()
                .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
                .map(|c| if c == ' ' { '-' } else { c })
                .collect()
        })
        .collect()
}
