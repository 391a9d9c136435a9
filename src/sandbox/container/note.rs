//! The names of containers on the disk, from before an engine is told of them until they are surely gone.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{clients_own, remove};
use crate::sandbox::Adapter;

/// What a command's container is called, and where that is noted.
#[derive(Debug, Clone)]
pub struct Named {
    /// The container's name: of nothing else on this machine.
    pub name: String,
    /// The step that it is made for, for its label.
    pub step: String,
    /// The file that holds the name while there may be such a container. It must not exist.
    pub note: Option<PathBuf>,
}

impl Named {
    /// A container that nobody needs to find again.
    pub(super) fn without_note(name: String) -> Self {
        Self { step: name.clone(), name, note: None }
    }
}

/// What a note says.
#[derive(Debug, Serialize, Deserialize)]
struct Content {
    engine: Adapter,
    name: String,
    /// The variables by which the client found its engine: another engine does not know the container.
    client: Vec<(String, String)>,
}

/// A note that was written.
pub(super) struct Note(Option<PathBuf>);

impl Note {
    /// Writes the note, if the container is to have one, and waits for the disk.
    pub fn write(engine: Adapter, named: &Named) -> io::Result<Self> {
        let Some(path) = &named.note else { return Ok(Self(None)) };
        let text =
            |pair: (OsString, OsString)| Some((pair.0.into_string().ok()?, pair.1.into_string().ok()?));
        let client = clients_own().into_iter().filter_map(text).filter(|(name, _)| name != "PATH").collect();
        let content = Content { engine, name: named.name.clone(), client };
        let mut options = fs::OpenOptions::new();
        options.write(true).create_new(true);
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(path)?;
        file.write_all(&serde_json::to_vec(&content)?)?;
        file.sync_all()?;
        Ok(Self(Some(path.clone())))
    }

    /// The container is gone.
    pub fn close(self) {
        if let Some(path) = self.0 {
            // A note that stays leads to a container that is not there, and is closed by the next who reads it.
            let _ = fs::remove_file(path);
        }
    }
}

/// Ends the container that a note of a process that has died leads to, and removes the note.
pub fn end_noted(note: &Path) -> Result<(), String> {
    let bytes = fs::read(note).map_err(|error| error.to_string())?;
    // A note that was never finished: the engine was not told of any container yet.
    if let Ok(Content { engine, name, client }) = serde_json::from_slice(&bytes) {
        let mut env: Vec<(OsString, OsString)> =
            clients_own().into_iter().filter(|(name, _)| name == "PATH").collect();
        env.extend(client.into_iter().map(|(name, value)| (name.into(), value.into())));
        remove(engine, &name, &env)?;
    }
    fs::remove_file(note).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_there_until_it_is_closed_and_never_written_over() {
        let dir = tempfile::tempdir().unwrap();
        let note = dir.path().join("x.container");
        let named = Named { name: "x".into(), step: "x".into(), note: Some(note.clone()) };
        let written = Note::write(Adapter::Podman, &named).unwrap();
        let content: Content = serde_json::from_slice(&fs::read(&note).unwrap()).unwrap();
        assert_eq!((content.engine, content.name.as_str()), (Adapter::Podman, "x"));
        assert!(content.client.iter().all(|(name, _)| name != "PATH"));
        assert!(Note::write(Adapter::Podman, &named).is_err());
        written.close();
        assert!(!note.exists());
        // Half a note is of a container that nobody has asked for.
        fs::write(&note, "{\"engine\":\"podm").unwrap();
        end_noted(&note).unwrap();
        assert!(!note.exists());
    }
}
