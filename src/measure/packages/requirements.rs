//! Requirements as pip reads them: files of them, and single ones in the notation of PEP 508.

use super::Listed;

/// `requirements.txt`. Options and files that it includes are left out; included files of a telling name are read by themselves.
pub fn file(text: &str) -> Listed {
    let mut listed = Listed::default();
    let text = text.replace("\\\r\n", " ").replace("\\\n", " ");
    for line in text.lines() {
        // A comment begins at the start or behind white space: an address may have a #.
        let line = line.find(" #").map_or(line, |at| &line[..at]).trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let line =
            line.strip_prefix("-e ").or_else(|| line.strip_prefix("--editable ")).unwrap_or(line).trim();
        if let Some((_, egg)) = line.split_once("#egg=") {
            let name: String = egg.chars().take_while(|c| is_of_name(*c)).collect();
            listed.direct(normal(&name), "");
        } else if !line.starts_with('-')
            && let Some((name, version)) = requirement(line)
        {
            listed.direct(name, version);
        }
    }
    listed
}

/// The name and the rest of a requirement: `name[extra] >= 1.0; marker`, `name @ address`. `None` if it is a path or an address.
pub fn requirement(text: &str) -> Option<(String, String)> {
    let text = text.trim();
    let end = text.find(|c| !is_of_name(c)).unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    if !name.starts_with(|c: char| c.is_ascii_alphanumeric()) {
        return None;
    }
    let rest = rest.trim_start();
    let version = match rest.strip_prefix('[') {
        Some(extras) => extras.split_once(']')?.1.trim_start(),
        None => rest,
    };
    let begins = |c: char| matches!(c, '=' | '<' | '>' | '!' | '~' | '@' | ';' | '(' | ',');
    if !version.is_empty() && !version.starts_with(begins) && !version.starts_with("--") {
        return None;
    }
    let version = version.split(';').next().unwrap_or_default();
    let version = version.split(" --").next().unwrap_or_default();
    Some((normal(name), version.trim().to_owned()))
}

fn is_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')
}

/// The form in which names are compared (PEP 503): small letters, every run of `-`, `_` and `.` one `-`.
pub fn normal(name: &str) -> String {
    let mut normal = String::with_capacity(name.len());
    for c in name.chars() {
        match c {
            '-' | '_' | '.' if normal.ends_with('-') => {}
            '-' | '_' | '.' => normal.push('-'),
            c => normal.push(c.to_ascii_lowercase()),
        }
    }
    normal.trim_end_matches('-').to_owned()
}
