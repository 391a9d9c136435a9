//! The repository that a worker sees with `history = "sealed"`: a throw-away `.git` that holds the base commit, its
//! trees and blobs, and nothing else.
//!
//! Its first commit is the base itself, cut off from its parents (`shallow`), so status, diff, add, commit and log
//! work as ever. There are no alternates, remotes or hooks: other objects and refs of the real repository cannot be
//! reached from it, and nothing of it is ever read again.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use gix::ObjectId;
use gix::objs::Kind;

use super::error::WorktreeError;
use super::index::write_index;
use super::manifest::{Manifest, read_object};
use super::pack::{Chunk, PackWriter};
use super::pool;
use super::registration::write_new;
use super::warm::copy_file;

/// The branch that a sealed repository is on.
pub const SEALED_BRANCH: &str = "refs/heads/loop";

/// How to make a sealed repository.
#[derive(Debug, Clone, Copy, Default)]
pub struct SealOptions<'a> {
    /// A private folder (not one that a worker may write to) where the pack of a large base is kept, so that the next
    /// worktree of the same base copies it. It must exist.
    pub cache: Option<&'a Path>,
    /// Name and address for the worker's own commits, which never leave its worktree. Without it the worker's git
    /// needs an identity from elsewhere.
    pub identity: Option<(&'a str, &'a str)>,
}

/// Packs with fewer objects are made anew each time: as fast, and nothing to keep.
const WORTH_KEEPING: usize = 512;
/// Packs kept in a cache folder: green, and the one it may fall back to.
const KEPT: usize = 2;
const OBJECTS_PER_UNIT: usize = 64;

/// Makes `.git` in `place` a repository that holds the commit `base`, with the index of what was checked out there.
pub fn create(
    repo: &gix::Repository,
    base: ObjectId,
    checked_out: &Manifest,
    place: &Path,
    options: &SealOptions<'_>,
) -> Result<(), WorktreeError> {
    let mut buf = Vec::new();
    let commit = read_object(&repo.objects, base, Kind::Commit, None, &mut buf)?;
    let (tree, has_parents) = tree_and_parents(base, commit, repo.object_hash())?;
    let other;
    let manifest = if tree == checked_out.tree() {
        checked_out
    } else {
        other = Manifest::read(repo, tree, false)?;
        &other
    };

    let git = place.join(".git");
    for dir in ["", "objects", "objects/pack", "objects/info", "refs", "refs/heads", "refs/tags", "info"] {
        let dir = git.join(dir);
        fs::create_dir(&dir).map_err(WorktreeError::io("make the folder", &dir))?;
    }
    let id = base.to_string();
    let pack = git.join("objects/pack").join(format!("pack-{id}.pack"));
    provide_pack(repo, base, commit, manifest, &pack, options.cache)?;

    write_new(
        &git.join("config"),
        &[config(repo.object_hash(), options.identity, checked_out.selection().is_some()).as_bytes()],
    )?;
    // What a candidate holds is raw bytes, so that is what git shows here, whatever the attributes say.
    write_new(&git.join("info/attributes"), &[b"* -text -eol -ident -filter -working-tree-encoding\n"])?;
    if has_parents {
        write_new(&git.join("shallow"), &[id.as_bytes(), b"\n"])?;
    }
    write_new(&git.join(SEALED_BRANCH), &[id.as_bytes(), b"\n"])?;
    write_index(checked_out, &git.join("index"))?;
    write_new(&git.join("HEAD"), &[b"ref: ", SEALED_BRANCH.as_bytes(), b"\n"])
}

fn tree_and_parents(
    id: ObjectId,
    data: &[u8],
    hash: gix::hash::Kind,
) -> Result<(ObjectId, bool), WorktreeError> {
    gix::objs::CommitRef::from_bytes(data, hash)
        .map(|commit| (commit.tree(), !commit.parents.is_empty()))
        .map_err(|error| WorktreeError::Object { id, path: None, source: error.into() })
}

fn config(hash: gix::hash::Kind, identity: Option<(&str, &str)>, partial: bool) -> String {
    let user = identity.map_or_else(String::new, |(name, email)| {
        let quote = |value: &str| {
            let plain: String = value.chars().filter(|c| !c.is_control()).collect();
            format!("\"{}\"", plain.replace('\\', "\\\\").replace('"', "\\\""))
        };
        format!("[user]\n\tname = {}\n\temail = {}\n", quote(name), quote(email))
    });
    // There are no patterns of a sparse checkout: with this git only goes by the marks of the index, and sees a file that is there all the same.
    let sparse = if partial { "\tsparseCheckout = true\n" } else { "" };
    let (version, extensions) =
        if hash == gix::hash::Kind::Sha1 { (0, "") } else { (1, "[extensions]\n\tobjectformat = sha256\n") };
    format!(
        "[core]\n\trepositoryformatversion = {version}\n\tfilemode = true\n\tbare = false\n\tsymlinks = true\n\
         \tlogallrefupdates = true\n\tautocrlf = false\n\tfsmonitor = false\n{sparse}[gc]\n\tauto = 0\n\
         [maintenance]\n\tauto = false\n[commit]\n\tgpgsign = false\n[tag]\n\tgpgsign = false\n{extensions}{user}"
    )
}

/// Puts the pack of `base` at `pack`, and its index beside it.
fn provide_pack(
    repo: &gix::Repository,
    base: ObjectId,
    commit: &[u8],
    manifest: &Manifest,
    pack: &Path,
    cache: Option<&Path>,
) -> Result<(), WorktreeError> {
    let objects = objects(manifest);
    let index = pack.with_extension("idx");
    let Some(cache) = cache.filter(|_| objects.len() >= WORTH_KEEPING) else {
        return write_pack(repo, base, commit, &objects, pack, &index);
    };
    let kept = cache.join(format!("base-{base}.pack"));
    let kept_index = kept.with_extension("idx");
    let copy = || -> io::Result<()> {
        copy_file(&kept, pack)?;
        copy_file(&kept_index, &index)
    };
    if copy().is_ok() {
        return Ok(());
    }
    // Not there, or just removed by another loop. A partial copy must not stay.
    let _ = fs::remove_file(pack);
    let _ = fs::remove_file(&index);
    write_pack(repo, base, commit, &objects, pack, &index)?;
    // Keeping it is a favour to the next worktree; that it fails is no failure of this one.
    let _ = keep(cache, pack, &index, &kept, &kept_index);
    Ok(())
}

fn keep(cache: &Path, pack: &Path, index: &Path, kept: &Path, kept_index: &Path) -> io::Result<()> {
    for (from, to) in [(pack, kept), (index, kept_index)] {
        let temporary = tempfile::Builder::new().prefix(".base-").tempfile_in(cache)?.into_temp_path();
        fs::remove_file(&temporary)?;
        copy_file(from, &temporary)?;
        temporary.persist(to).map_err(|error| error.error)?;
    }
    let mut packs: Vec<(std::time::SystemTime, PathBuf)> = fs::read_dir(cache)?
        .filter_map(Result::ok)
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "pack"))
        .filter_map(|path| Some((path.metadata().ok()?.modified().ok()?, path)))
        .collect();
    packs.sort_unstable();
    let surplus = packs.len().saturating_sub(KEPT);
    for (_, old) in packs.into_iter().take(surplus).filter(|(_, path)| path != kept) {
        fs::remove_file(&old)?;
        fs::remove_file(old.with_extension("idx"))?;
    }
    Ok(())
}

/// Every tree and blob of the manifest, once.
fn objects(manifest: &Manifest) -> Vec<(ObjectId, Kind)> {
    // Also what is not checked out: a commit has it.
    let manifest = manifest.whole();
    let empty = ObjectId::empty_tree(manifest.hash);
    let mut objects: Vec<(ObjectId, Kind)> = Vec::new();
    for dir in &manifest.dirs {
        // The empty tree need not be stored for git to know it, and the repository may not have it.
        objects.extend((dir.tree != empty).then_some((dir.tree, Kind::Tree)));
        objects.extend(
            dir.entries
                .iter()
                .filter(|entry| entry.mode.is_blob_or_symlink())
                .map(|entry| (entry.id, Kind::Blob)),
        );
    }
    objects.sort_unstable_by_key(|object| object.0);
    objects.dedup_by_key(|object| object.0);
    objects
}

fn write_pack(
    repo: &gix::Repository,
    base: ObjectId,
    commit: &[u8],
    objects: &[(ObjectId, Kind)],
    pack: &Path,
    index: &Path,
) -> Result<(), WorktreeError> {
    let fail = || WorktreeError::io("write the pack", pack);
    let mut writer = PackWriter::create(pack, repo.object_hash(), objects.len() + 1).map_err(fail())?;
    let mut first = Chunk::default();
    first.add(base, Kind::Commit, commit);
    writer.append(&first).map_err(fail())?;

    let units: Vec<&[(ObjectId, Kind)]> = objects.chunks(OBJECTS_PER_UNIT).collect();
    let locals = (0..pool::threads_for(objects.len()).min(units.len().max(1)))
        .map(|_| (repo.objects.clone(), Vec::new(), Chunk::default()))
        .collect();
    let writer = Mutex::new(writer);
    pool::each(&units, locals, |(odb, buf, chunk), unit| {
        chunk.clear();
        for (id, kind) in *unit {
            chunk.add(*id, *kind, read_object(odb, *id, *kind, None, buf)?);
        }
        let mut writer = writer.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        writer.append(chunk).map_err(fail())
    })?;
    let writer = writer.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    writer.finish(index).map_err(fail())
}
