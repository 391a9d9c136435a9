//! What people read of a measurement: five numbers, what made them, what they leave out.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::cli::ui::{Paint, Tone};
use crate::ledger::message::one_line;
use crate::measure::Measured;
use crate::measure::report::{Delta, NotMeasured, Why};
use crate::render::line::plural;

/// The most lines of one list. All of it is in the JSON.
const SHOWN: usize = 10;

/// The measurement as text.
pub fn told(measured: &Measured, paint: Paint) -> String {
    let mut text = String::new();
    let lines = &measured.lines;
    let (fallbacks, packages) = (&measured.fallbacks, &measured.packages);
    let interfaces = &measured.interfaces;
    let rows = [
        (
            "fallback branches",
            measured.fallback_branches,
            came(fallbacks.added.len(), fallbacks.removed.len(), 0),
        ),
        (
            "dependencies",
            measured.dependencies,
            came(packages.added.len(), packages.removed.len(), packages.changed.len()),
        ),
        (
            "public interfaces",
            measured.public_interfaces,
            came(interfaces.added.len(), interfaces.removed.len(), interfaces.changed.len()),
        ),
        (
            "cyclomatic complexity",
            measured.cyclomatic_complexity,
            match measured.functions.len() as u64 {
                0 => String::new(),
                count => format!("in {}", plural(count, "function", "functions")),
            },
        ),
        ("changed lines", measured.changed_lines, in_files(measured)),
    ];
    for (name, delta, what) in rows {
        let number = if name == "changed lines" { delta.to_string() } else { format!("{delta:+}") };
        let number = if delta == 0 { "0".to_owned() } else { number };
        let tone = if delta > 0 && name != "changed lines" { Tone::Warn } else { Tone::Bold };
        let line = format!("{name:<21}  {}  {what}", paint.tone(tone, &format!("{number:>6}")));
        let _ = writeln!(text, "{}", line.trim_end());
    }
    let place = |path: &str, line: usize| format!("{path}:{line}");
    list(&mut text, paint, "fallback branches added", fallbacks.added.iter(), |one| {
        format!("{}  {}: {}", place(&one.path, one.line), one.kind.as_str(), one_line(&one.text, 80))
    });
    list(
        &mut text,
        paint,
        "functions that rose",
        measured.functions.iter().filter(|one| one.delta() > 0),
        |one| {
            let old = one.old.map_or_else(|| "new".to_owned(), |old| old.to_string());
            let new = one.new.unwrap_or(0);
            format!("{}  {}: {old} -> {new}", place(&one.path, one.line), one_line(&one.name, 80))
        },
    );
    list(&mut text, paint, "packages added", packages.added.iter(), |one| {
        let how = if one.direct { "asked for" } else { "locked" };
        format!(
            "{} {} {} ({how})",
            one.ecosystem.as_str(),
            one_line(&one.name, 80),
            one_line(&one.versions.join(", "), 60)
        )
    });
    list(&mut text, paint, "packages with other versions", packages.changed.iter(), |one| {
        let (old, new) = (one.old.join(", "), one.new.join(", "));
        format!(
            "{} {} {} -> {}",
            one.ecosystem.as_str(),
            one_line(&one.name, 80),
            one_line(&old, 60),
            one_line(&new, 60)
        )
    });
    list(&mut text, paint, "public interfaces added", interfaces.added.iter(), |one| {
        format!("{}  {} {}", place(&one.path, one.line), one.kind, one_line(&one.name, 80))
    });
    list(&mut text, paint, "public interfaces changed", interfaces.changed.iter(), |one| {
        format!("{}  {} {}", place(&one.path, one.line), one.kind, one_line(&one.name, 80))
    });
    if lines.files > 0 && measured.not_measured.is_empty() && lines.binary.is_empty() {
        let _ = writeln!(text, "\neverything was measured");
    }
    list(&mut text, paint, "binary, so without lines", lines.binary.iter(), Clone::clone);
    let heading = "should be measured and cannot be: the numbers may be too small";
    list(&mut text, paint, heading, measured.unmeasurable.iter(), Clone::clone);
    left_out(&mut text, paint, &measured.not_measured);
    text
}

fn came(added: usize, removed: usize, changed: usize) -> String {
    let parts = [(added, "added"), (removed, "removed"), (changed, "changed")];
    let parts =
        parts.into_iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}"));
    parts.collect::<Vec<_>>().join(", ")
}

fn in_files(measured: &Measured) -> String {
    let lines = &measured.lines;
    if lines.files == 0 {
        return "the trees are the same".to_owned();
    }
    format!("{} added, {} removed in {}", lines.added, lines.removed, plural(lines.files, "file", "files"))
}

fn list<'a, T: 'a>(
    text: &mut String,
    paint: Paint,
    heading: &str,
    entries: impl Iterator<Item = &'a T>,
    line: impl Fn(&T) -> String,
) {
    let entries: Vec<&T> = entries.collect();
    if entries.is_empty() {
        return;
    }
    let _ = writeln!(text, "\n{}", paint.tone(Tone::Bold, heading));
    for entry in entries.iter().take(SHOWN) {
        let _ = writeln!(text, "  {}", line(entry));
    }
    if entries.len() > SHOWN {
        let _ = writeln!(text, "  and {} more; all of them: --json", entries.len() - SHOWN);
    }
}

/// What is no code is counted by the end of its name; the rest is listed.
fn left_out(text: &mut String, paint: Paint, all: &[NotMeasured]) {
    let (others, listed): (Vec<_>, Vec<_>) = all
        .iter()
        // Those are listed apart.
        .filter(|one| one.why != Why::Binary)
        .partition(|one| one.why == Why::UnknownLanguage && one.detail.is_none());
    list(text, paint, "not measured", listed.into_iter(), |one| {
        let detail =
            one.detail.as_ref().map_or_else(String::new, |detail| format!(" ({})", one_line(detail, 120)));
        let of: Vec<&str> = one.of.iter().map(|delta| name(*delta)).collect();
        format!("{}  {}: {}{detail}", one.path, of.join(", "), one.why.told())
    });
    if others.is_empty() {
        return;
    }
    let mut ends: BTreeMap<&str, usize> = BTreeMap::new();
    for one in &others {
        let file = one.path.rsplit('/').next().unwrap_or(&one.path);
        let end = file.rfind('.').filter(|at| *at > 0).map_or(file, |at| &file[at..]);
        *ends.entry(end).or_default() += 1;
    }
    let count = ends.len();
    let mut ends: Vec<(&str, usize)> = ends.into_iter().collect();
    ends.sort_by_key(|(end, count)| (std::cmp::Reverse(*count), *end));
    let mut told: Vec<String> =
        ends.into_iter().take(SHOWN).map(|(end, count)| format!("{} ({count})", one_line(end, 40))).collect();
    if count > SHOWN {
        told.push(format!("{} other kinds", count - SHOWN));
    }
    let files = plural(others.len() as u64, "file", "files");
    let _ = writeln!(
        text,
        "\n{}\n  {files} {}: {}",
        paint.tone(Tone::Bold, "lines only"),
        Why::UnknownLanguage.told(),
        told.join(", ")
    );
}

fn name(delta: Delta) -> &'static str {
    match delta {
        Delta::FallbackBranches => "fallback branches",
        Delta::Dependencies => "dependencies",
        Delta::PublicInterfaces => "interfaces",
        Delta::CyclomaticComplexity => "complexity",
        Delta::ChangedLines => "lines",
    }
}
