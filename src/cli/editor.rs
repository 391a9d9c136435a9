//! The user's editor. Only the user's environment names it: a repository's config must not name a program that we run.

use std::fs;
use std::process::Command;

use crate::error::{Error, Result, ResultExt};
use crate::host::HostEnv;

/// The variables that name an editor, in the order in which git asks.
const VARIABLES: [&str; 3] = ["GIT_EDITOR", "VISUAL", "EDITOR"];

/// Lets the user edit `text`; what they saved.
pub fn edit(host: &HostEnv, text: &str) -> Result<String> {
    let Some(editor) = VARIABLES.into_iter().find_map(|name| host.non_empty_var(name)) else {
        return Err(Error::usage("no editor is named by GIT_EDITOR, VISUAL or EDITOR")
            .hint("say it on the command line: --approve or --reject, --persona, --attest, --comment"));
    };
    let folder = tempfile::Builder::new().prefix("git-loop-review-").tempdir();
    let folder = folder.or_workspace(|| "there is no place for the form".to_owned())?;
    let file = folder.path().join("REVIEW");
    fs::write(&file, text).or_workspace(|| "the form cannot be written".to_owned())?;
    let mut line = editor.to_owned();
    line.push(" \"$@\"");
    let status = Command::new("sh").arg("-c").arg(line).arg("editor").arg(&file).status();
    let status = status.or_workspace(|| "the editor cannot be started".to_owned())?;
    if !status.success() {
        return Err(Error::refused("the editor ended with an error; nothing is recorded"));
    }
    fs::read_to_string(&file).or_workspace(|| "the form cannot be read".to_owned())
}
