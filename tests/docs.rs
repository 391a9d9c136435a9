//! The documentation says what the code does: the table of exit codes, and links that lead somewhere.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use git_loop::exit::HaltReason;

use crate::support::TestEnv;

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

/// The commands of the page, in its order, as somebody would type them.
#[test]
fn a_loop_is_driven_from_outside_as_the_page_says() {
    let mut env = TestEnv::new();
    let mut script = String::new();
    let mut in_shell = false;
    for line in read(&root().join("docs/src/guide/outside.md")).lines() {
        match line {
            "```sh" => in_shell = true,
            "```" => in_shell = false,
            line if in_shell => {
                script.push_str(line);
                script.push('\n');
            }
            _ => {}
        }
    }
    let folder = Path::new(env!("CARGO_BIN_EXE_git-loop")).parent().unwrap().to_path_buf();
    let path = std::env::var("PATH").unwrap();
    env.set_env("PATH", &format!("{}:{path}", folder.display()));
    let output = env.run_command(env.command("sh", &env.root()).args(["-c", &script]));
    assert_eq!(output.code, 0, "{output:?}");
    assert!(!output.stderr.contains("error:"), "{output:?}");
    let outside = env.root().join("outside");
    for id in ["near", "far"] {
        let json = env.git_loop_in(&outside, &["status", id, "--json"]).expect_code(0).json();
        assert_eq!(json["status"], "awaiting_review");
    }
    // Nobody starts a worker by mistake.
    env.git_loop_in(&outside, &["start", "again"]).expect_code(0);
    let run = env.git_loop_in(&outside, &["run", "again"]).expect_code(30);
    run.expect_stderr("driven-from-outside is not found");
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
