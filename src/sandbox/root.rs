//! The root that a sandboxed command sees: a small tmpfs on which the granted paths are mounted under their own names.
//!
//! This file only plans; the plan is carried out between `fork` and `exec` in `process::supervisor`, where nothing may
//! be allocated. Planning needs no privilege and reads the file system.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CString, OsStr, c_char};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};
use std::sync::OnceLock;

/// What every command may read: programs, libraries, their configuration. Symlinks among them are kept as symlinks.
pub(super) const BASE: &[&str] = &[
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/etc",
    "/opt",
    "/sys",
    "/nix/store",
    "/gnu/store",
    "/run/current-system",
    // On many systems these are links out of /etc.
    "/etc/resolv.conf",
    "/etc/localtime",
    "/etc/static",
];

/// Devices that hold no state of the host.
pub(super) const DEVICES: &[&str] =
    &["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];

/// What every process on the machine does can be read here, by root.
const TRACES: [&str; 2] = ["/sys/kernel/debug", "/sys/kernel/tracing"];

/// A path as it was named, after its symlinks were followed.
#[derive(Debug)]
struct Followed {
    /// The symlinks on the way: where each is, and what it says.
    links: Vec<(PathBuf, PathBuf)>,
    real: PathBuf,
}

/// Follows symlinks as the kernel does, and keeps them.
fn follow(path: &Path) -> io::Result<Followed> {
    if !path.is_absolute() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the path is not absolute"));
    }
    let mut links = Vec::new();
    let mut real = PathBuf::from("/");
    let mut rest: Vec<PathBuf> = Vec::new();
    let queue = |rest: &mut Vec<PathBuf>, path: &Path| {
        rest.extend(path.components().rev().map(|part| PathBuf::from(part.as_os_str())));
    };
    queue(&mut rest, path);
    while let Some(part) = rest.pop() {
        match part.components().next() {
            Some(Component::RootDir) => real = PathBuf::from("/"),
            Some(Component::ParentDir) => {
                real.pop();
            }
            Some(Component::Normal(name)) => {
                real.push(name);
                if real.symlink_metadata()?.is_symlink() {
                    // The kernel's own limit.
                    if links.len() == 40 {
                        return Err(io::Error::from_raw_os_error(libc::ELOOP));
                    }
                    let target = real.read_link()?;
                    queue(&mut rest, &target);
                    links.push((real.clone(), target));
                    real.pop();
                }
            }
            _ => {}
        }
    }
    Ok(Followed { links, real })
}

/// The paths of a policy with all symlinks followed; no entry lies inside another of the same kind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Grants {
    /// Real path to whether it may be written.
    pub paths: BTreeMap<PathBuf, bool>,
    /// Symlinks on the way to granted paths: where each is, and what it says.
    links: BTreeMap<PathBuf, PathBuf>,
    /// Real paths the caller asked to read, as opposed to the base.
    asked: Vec<PathBuf>,
    /// Real paths in granted folders that are not granted with them, and whether each is a folder.
    pub hidden: BTreeMap<PathBuf, bool>,
}

/// What becomes of a path on the root that a command sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Right {
    /// It is the host's.
    Granted { writable: bool },
    /// Nothing is there but what was granted below it.
    Hidden { is_dir: bool },
}

impl Grants {
    /// The base and what the policy adds, without what it hides. The error names the path.
    pub(super) fn new(
        readable: &[PathBuf],
        writable: &[PathBuf],
        hidden: &[PathBuf],
    ) -> Result<Self, (PathBuf, io::Error)> {
        static SYSTEM: OnceLock<Grants> = OnceLock::new();
        let mut grants = SYSTEM
            .get_or_init(|| {
                let mut base = Self::default();
                for path in BASE {
                    // What this system does not have is not granted.
                    let _ = base.add(Path::new(path), false);
                }
                base
            })
            .clone();
        for path in readable {
            match grants.add(path, false) {
                Ok(real) => grants.asked.push(real),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err((path.clone(), error)),
            }
        }
        for path in writable {
            grants.add(path, true).map_err(|error| (path.clone(), error))?;
        }
        for path in hidden {
            match follow(path) {
                Ok(Followed { real, .. }) => {
                    let is_dir = real.is_dir();
                    grants.hidden.insert(real, is_dir);
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err((path.clone(), error)),
            }
        }
        grants.reduce();
        Ok(grants)
    }

    fn add(&mut self, path: &Path, write: bool) -> io::Result<PathBuf> {
        let Followed { links, real } = follow(path)?;
        if real.parent().is_none() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "the whole file system cannot be granted",
            ));
        }
        self.links.extend(links);
        if !made_anew(&real) {
            *self.paths.entry(real.clone()).or_default() |= write;
        }
        Ok(real)
    }

    /// Hides the sockets that lie in folders that may be read.
    pub(super) fn hide_sockets(&mut self, sockets: &[PathBuf]) {
        for socket in sockets {
            if self.above(socket) == Some(Right::Granted { writable: false })
                && !self.paths.contains_key(socket)
            {
                self.hidden.insert(socket.clone(), false);
            }
        }
    }

    /// Removes what an ancestor grants already, and what is hidden anyway. Rights only add up, so a readable path inside a writable one
    /// is dropped.
    fn reduce(&mut self) {
        let (paths, hidden) = (std::mem::take(&mut self.paths), std::mem::take(&mut self.hidden));
        let mut all: BTreeMap<PathBuf, Right> =
            hidden.into_iter().map(|(path, is_dir)| (path, Right::Hidden { is_dir })).collect();
        // Who was given exactly this has it.
        all.extend(paths.into_iter().map(|(path, writable)| (path, Right::Granted { writable })));
        for (path, right) in all {
            let above = self.above(&path);
            match right {
                Right::Granted { writable } => {
                    if !matches!(above, Some(Right::Granted { writable: w }) if w || !writable) {
                        self.paths.insert(path, writable);
                    }
                }
                Right::Hidden { is_dir } => {
                    if matches!(above, Some(Right::Granted { .. })) {
                        self.hidden.insert(path, is_dir);
                    }
                }
            }
        }
    }

    /// What the nearest path above this one is that has a right of its own.
    fn above(&self, path: &Path) -> Option<Right> {
        path.ancestors().skip(1).find_map(|above| {
            let granted = self.paths.get(above).map(|&writable| Right::Granted { writable });
            granted.or_else(|| self.hidden.get(above).map(|&is_dir| Right::Hidden { is_dir }))
        })
    }

    /// Every path with a right of its own; parents come before what lies in them.
    pub(super) fn in_order(&self) -> Vec<(&Path, Right)> {
        let granted = self.paths.iter().map(|(path, &writable)| (path, Right::Granted { writable }));
        let hidden = self.hidden.iter().map(|(path, &is_dir)| (path, Right::Hidden { is_dir }));
        let mut all: Vec<(&Path, Right)> =
            granted.chain(hidden).map(|(path, right)| (path.as_path(), right)).collect();
        if !self.hidden.is_empty() {
            all.sort_by_key(|(path, _)| *path);
        }
        all
    }

    /// The symlinks that a root of these grants needs besides: those that do not lie in a granted folder, and are none on the way to one.
    pub(super) fn links_to_make(&self) -> Vec<(&Path, &Path)> {
        let var_tmp = Path::new("/var/tmp");
        let mut links: Vec<(&Path, &Path)> = Vec::new();
        for (path, target) in &self.links {
            // Below a granted folder the link is there already; on the way to one it may be a folder by now.
            let taken = self.inside(path) || self.paths.keys().any(|granted| granted.starts_with(path));
            if !taken && !made_anew(path) {
                links.push((path, target));
            }
        }
        if !self.paths.keys().any(|path| path.starts_with(var_tmp))
            && !self.links.contains_key(Path::new("/var"))
        {
            links.push((var_tmp, Path::new("/tmp")));
        }
        links
    }

    /// Whether a path lies inside a granted one, and is seen there.
    fn inside(&self, path: &Path) -> bool {
        matches!(self.above(path), Some(Right::Granted { .. }))
    }

    /// Paths below `/etc` that the world may not read, and the kernel's own traces, as far as the caller did not ask for them.
    ///
    /// A plain user is kept out of them by the kernel. Root without capabilities still owns them, so for root they are hidden:
    /// password hashes and host keys are nothing a check needs.
    pub(super) fn secrets(&self) -> Vec<Secret> {
        if !super::process::is_root() {
            return Vec::new();
        }
        let all = all_secrets();
        let asked =
            |path: &Path| self.asked.iter().any(|real| real != Path::new("/etc") && real.starts_with(path));
        let under = |path: &Path| {
            let tops = ["/etc", "/sys"].into_iter().map(Path::new);
            tops.into_iter().any(|top| path.starts_with(top) && self.paths.get(top) == Some(&false))
        };
        all.iter().filter(|secret| under(&secret.path) && !asked(&secret.path)).cloned().collect()
    }
}

/// What [`Grants::secrets`] chooses from, looked for once.
fn all_secrets() -> &'static [Secret] {
    static SECRETS: OnceLock<Vec<Secret>> = OnceLock::new();
    SECRETS.get_or_init(|| {
        let mut found = Vec::new();
        unreadable(Path::new("/etc"), &mut found);
        for path in TRACES.map(Path::new) {
            if path.read_dir().is_ok_and(|mut entries| entries.next().is_some()) {
                found.push(Secret { path: path.to_path_buf(), is_dir: true });
            }
        }
        found
    })
}

/// Begins to look at `/etc`, of which every file is looked at, while the caller does something else: a process that runs one command
/// would wait for it longer than for the command.
pub(super) fn look_ahead() {
    if super::process::is_root() {
        // Where no thread can be had, whoever needs it looks.
        let _ = std::thread::Builder::new().spawn(all_secrets);
    }
}

/// Whether a path lies in what each command gets its own of, and cannot be granted. A folder in shared memory can, as one in `/tmp` can:
/// it is mounted on the command's own.
fn made_anew(path: &Path) -> bool {
    let shared = path.strip_prefix("/dev/shm").is_ok_and(|below| below.parent().is_some());
    path.starts_with("/proc") || (path.starts_with("/dev") && !shared)
}

/// What a command must not read although it lies in a folder that was granted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Secret {
    pub path: PathBuf,
    pub is_dir: bool,
}

/// Collects files that the world cannot read and folders that it cannot enter.
fn unreadable(dir: &Path, found: &mut Vec<Secret>) {
    let Ok(entries) = dir.read_dir() else { return };
    for entry in entries.flatten() {
        let Ok(meta) = entry.metadata() else { continue };
        let mode = meta.permissions().mode();
        if meta.is_dir() && mode & 0o001 != 0 && mode & 0o004 != 0 {
            unreadable(&entry.path(), found);
        } else if meta.is_dir() || (mode & 0o004 == 0 && !meta.is_symlink()) {
            found.push(Secret { path: entry.path(), is_dir: meta.is_dir() });
        }
    }
}

/// Paths as the kernel takes them, one behind the other in one piece of memory: the runner and the supervisor are copies of each other, so
/// that every page that one of them touches is copied.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Texts(Vec<u8>);

/// Where in [`Texts`] a path begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Text(usize);

impl Texts {
    /// # Panics
    /// Never: every path here was read from the file system or is a constant, and neither has NUL bytes.
    fn add(&mut self, parts: [&OsStr; 2]) -> Text {
        let start = self.0.len();
        for part in parts {
            self.0.extend_from_slice(part.as_bytes());
        }
        assert!(!self.0[start..].contains(&0), "a path of the file system has no NUL byte");
        self.0.push(0);
        Text(start)
    }

    /// The path, ended by a NUL byte, for as long as the texts live and nothing is added. Allocates nothing.
    pub fn pointer(&self, text: Text) -> *const c_char {
        self.0[text.0..].as_ptr().cast()
    }

    #[cfg(test)]
    fn path(&self, text: Text) -> PathBuf {
        let bytes = self.0[text.0..].split(|byte| *byte == 0).next().unwrap();
        PathBuf::from(OsStr::from_bytes(bytes))
    }
}

/// Something to create on the new root before anything is mounted on it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Make {
    /// A folder.
    Dir(Text),
    /// A folder for everybody.
    Shared(Text),
    /// An empty file to mount on.
    File(Text),
    /// A symlink.
    Link { target: Text, path: Text },
}

/// A part of the host to mount on the new root.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Bind {
    pub source: Text,
    pub target: Text,
    pub writable: bool,
    pub device: bool,
    /// Not the host's folder is mounted, but the plan's overlay.
    pub overlay: bool,
}

/// An overlay to mount, by names that are relative to one folder: what the kernel takes as options has no room for every
/// path.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct OverlayPlan {
    /// The folder that the names are relative to.
    pub folder: CString,
    /// The lower layers, as the option wants them.
    pub lower: CString,
    pub upper: CString,
    pub work: CString,
    pub user_marks: bool,
    /// Where the command sees it.
    pub place: CString,
}

/// Plans the mount of an overlay. `None` if it cannot be had: the layers do not lie below one folder, or under names that the
/// kernel would read as something else.
pub(super) fn plan_overlay(overlay: &super::Overlay, grants: &Grants) -> Option<OverlayPlan> {
    let folder = overlay.upper.parent()?;
    let name = |path: &Path| {
        let name = path.strip_prefix(folder).ok()?.to_str()?;
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '-' | '_');
        (!name.is_empty() && name.chars().all(plain)).then(|| name.to_owned())
    };
    let lower: Vec<String> = overlay.lower.iter().map(|path| name(path)).collect::<Option<_>>()?;
    let place = overlay.upper.canonicalize().ok()?;
    (grants.paths.get(&place) == Some(&true)).then_some(())?;
    Some(OverlayPlan {
        folder: c_text(folder.as_os_str())?,
        lower: CString::new(lower.join(":")).ok()?,
        upper: CString::new(name(&overlay.upper)?).ok()?,
        work: CString::new(name(&overlay.work)?).ok()?,
        user_marks: overlay.user_marks,
        place: c_text(place.as_os_str())?,
    })
}

/// How a path is hidden.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Cover {
    /// By a device file that cannot be opened.
    File(Text),
    /// By an empty folder.
    Dir(Text),
}

/// One step of filling the new root, in this order.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Mount {
    Bind(Bind),
    /// A mount point in a hidden folder.
    Make(Make),
    /// A folder to hide: something may be mounted in it before it is made read-only.
    Hide(Text),
    /// A file to hide.
    HideFile(Text),
}

/// The whole plan. All paths of the new root carry `base` in front.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RootPlan {
    /// The folder of the host on which the new root is mounted while it is filled.
    pub base: Text,
    pub makes: Vec<Make>,
    pub mounts: Vec<Mount>,
    pub covers: Vec<Cover>,
    pub proc: Text,
    pub pts: Text,
    /// How the new root is mounted: in memory, with so much of it.
    pub memory: CString,
    pub texts: Texts,
}

impl RootPlan {
    /// The parts of the host that are mounted.
    pub(super) fn binds(&self) -> impl Iterator<Item = &Bind> {
        self.mounts.iter().filter_map(|mount| if let Mount::Bind(bind) = mount { Some(bind) } else { None })
    }
}

/// The most memory that `/tmp` and `/dev/shm` of a command may take, in bytes.
pub(super) const MEMORY: u64 = 1 << 30;

/// How many files and folders may be where so many bytes may be: one for each page, and what a root needs. An empty file is in no count of
/// bytes, and takes the kernel's memory all the same.
fn names(memory: u64) -> u64 {
    const PAGE: u64 = 4096;
    const LEAST: u64 = 4096;
    (memory / PAGE).max(LEAST)
}

/// Plans a root for these grants. `None` if this host has no folder to build it on.
///
/// `memory` is how many bytes its `/tmp` and `/dev/shm` may hold together.
pub(super) fn plan(grants: &Grants, memory: u64, overlay: Option<&OverlayPlan>) -> Option<RootPlan> {
    let base = ["/tmp", "/mnt", "/srv", "/media", "/run", "/var"].into_iter().find(|dir| {
        // A symlink would send the mount elsewhere than the paths below it.
        Path::new(dir).symlink_metadata().is_ok_and(|meta| meta.is_dir())
    })?;
    let texts = Texts(Vec::with_capacity(8 << 10));
    let mut making = Making { base, dirs: BTreeSet::new(), makes: Vec::new(), texts };
    let mut mounts = Vec::new();
    for dir in ["/proc", "/dev/pts"] {
        making.dir(Path::new(dir));
    }
    for dir in ["/tmp", "/dev/shm"] {
        making.shared(Path::new(dir));
    }
    for device in DEVICES.iter().filter(|device| Path::new(device).exists()) {
        let path = Path::new(device);
        making.file(path);
        let (source, target) = (making.text(path), making.at(path));
        // Writing to a device is not stopped by a read-only mount; changing its mode, owner and times is.
        let first = Bind { source, target, writable: false, device: true, overlay: false };
        mounts.push(Mount::Bind(first));
    }
    let fixed = [
        ("/dev/ptmx", "pts/ptmx"),
        ("/dev/fd", "/proc/self/fd"),
        ("/dev/stdin", "/proc/self/fd/0"),
        ("/dev/stdout", "/proc/self/fd/1"),
        ("/dev/stderr", "/proc/self/fd/2"),
    ];
    for (path, target) in fixed {
        making.link(Path::new(path), Path::new(target));
    }
    for (path, right) in grants.in_order() {
        let writable = match right {
            Right::Granted { writable } => writable,
            Right::Hidden { is_dir } => {
                let at = making.at(path);
                mounts.push(if is_dir { Mount::Hide(at) } else { Mount::HideFile(at) });
                continue;
            }
        };
        if !grants.inside(path) {
            let before = making.makes.len();
            if path.is_dir() {
                making.dir(path);
            } else {
                making.file(path);
            }
            if grants.above(path).is_some() {
                // In a hidden folder, of which nothing is there before it is hidden.
                mounts.extend(making.makes.drain(before..).map(Mount::Make));
            }
        }
        let (source, target) = (making.text(path), making.at(path));
        let overlay = overlay.is_some_and(|overlay| overlay.place.as_bytes() == path.as_os_str().as_bytes());
        mounts.push(Mount::Bind(Bind { source, target, writable, device: false, overlay }));
    }
    for (path, target) in grants.links_to_make() {
        if !making.dirs.contains(path) {
            let before = making.makes.len();
            making.link(path, target);
            if grants.above(path).is_some() {
                mounts.extend(making.makes.drain(before..).map(Mount::Make));
            }
        }
    }
    let cover = |secret: Secret| {
        let at = making.at(&secret.path);
        if secret.is_dir { Cover::Dir(at) } else { Cover::File(at) }
    };
    let covers = grants.secrets().into_iter().map(cover).collect();
    Some(RootPlan {
        covers,
        base: making.text(Path::new(base)),
        proc: making.at(Path::new("/proc")),
        pts: making.at(Path::new("/dev/pts")),
        memory: CString::new(format!("mode=0755,size={memory},nr_inodes={}", names(memory))).ok()?,
        makes: making.makes,
        mounts,
        texts: making.texts,
    })
}

struct Making {
    base: &'static str,
    dirs: BTreeSet<PathBuf>,
    makes: Vec<Make>,
    texts: Texts,
}

impl Making {
    fn text(&mut self, path: &Path) -> Text {
        self.texts.add([path.as_os_str(), OsStr::new("")])
    }

    /// An absolute path on the new root.
    fn at(&mut self, path: &Path) -> Text {
        self.texts.add([OsStr::new(self.base), path.as_os_str()])
    }

    /// Makes a folder and those above it, once.
    fn dir(&mut self, path: &Path) {
        if path.parent().is_none() || self.dirs.contains(path) {
            return;
        }
        self.above(path);
        self.dirs.insert(path.to_path_buf());
        let at = self.at(path);
        self.makes.push(Make::Dir(at));
    }

    fn shared(&mut self, path: &Path) {
        self.above(path);
        self.dirs.insert(path.to_path_buf());
        let at = self.at(path);
        self.makes.push(Make::Shared(at));
    }

    fn file(&mut self, path: &Path) {
        self.above(path);
        let at = self.at(path);
        self.makes.push(Make::File(at));
    }

    fn link(&mut self, path: &Path, target: &Path) {
        self.above(path);
        let (target, path) = (self.text(target), self.at(path));
        self.makes.push(Make::Link { target, path });
    }

    fn above(&mut self, path: &Path) {
        if let Some(above) = path.parent() {
            self.dir(above);
        }
    }
}

/// Any text as the kernel takes it; `None` if it has a NUL byte.
pub(super) fn c_text(text: &OsStr) -> Option<CString> {
    CString::new(text.as_bytes()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn symlinks_on_the_way_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        std::fs::create_dir_all(top.join("real/sub")).unwrap();
        symlink("real", top.join("alias")).unwrap();
        symlink(top.join("alias/sub"), top.join("far")).unwrap();
        let got = follow(&top.join("far/../sub/.")).unwrap();
        assert_eq!(got.real, top.join("real/sub"));
        let links = [(top.join("far"), top.join("alias/sub")), (top.join("alias"), PathBuf::from("real"))];
        assert_eq!(got.links, links);
        symlink("loop", top.join("loop")).unwrap();
        assert_eq!(follow(&top.join("loop")).unwrap_err().raw_os_error(), Some(libc::ELOOP));
        assert_eq!(follow(&top.join("none")).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert!(follow(Path::new("relative")).is_err());
    }

    #[test]
    fn rights_only_add_up() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        for sub in ["w/inner", "r/inner", "r/w"] {
            std::fs::create_dir_all(top.join(sub)).unwrap();
        }
        let readable = ["w/inner", "r", "r/inner", "missing"].map(|sub| top.join(sub));
        let grants = Grants::new(&readable, &[top.join("w"), top.join("r/w")], &[]).unwrap();
        let got: Vec<_> = grants.paths.iter().filter(|(path, _)| path.starts_with(&top)).collect();
        let want = [(top.join("r"), false), (top.join("r/w"), true), (top.join("w"), true)];
        assert_eq!(got, want.iter().map(|(path, write)| (path, write)).collect::<Vec<_>>());
    }

    #[test]
    fn what_is_hidden_has_nothing_in_it_but_what_was_granted_there() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        for sub in ["g/h/inner/deep", "g/h/w", "g/other", "far"] {
            std::fs::create_dir_all(top.join(sub)).unwrap();
        }
        std::fs::write(top.join("g/key"), "").unwrap();
        let hidden =
            ["g/h", "g/h/inner/deep", "g/h/unseen", "g/key", "far", "g/other"].map(|sub| top.join(sub));
        let readable = ["g", "g/h/inner", "g/other", "g/h/inner/x"].map(|sub| top.join(sub));
        std::fs::create_dir_all(top.join("g/h/unseen")).unwrap();
        let grants = Grants::new(&readable, &[top.join("g/h/w")], &hidden).unwrap();
        let got: Vec<_> = grants
            .in_order()
            .into_iter()
            .filter_map(|(path, right)| Some((path.strip_prefix(&top).ok()?.to_str()?, right)))
            .collect();
        let (read, write) = (Right::Granted { writable: false }, Right::Granted { writable: true });
        let (folder, file) = (Right::Hidden { is_dir: true }, Right::Hidden { is_dir: false });
        let want = [
            ("g", read),
            ("g/h", folder),
            ("g/h/inner", read),
            ("g/h/inner/deep", folder),
            ("g/h/w", write),
            ("g/key", file),
        ];
        assert_eq!(got, want);
    }

    #[test]
    fn neither_everything_nor_nothing_can_be_granted() {
        let (path, _) = Grants::new(&[PathBuf::from("/")], &[], &[]).unwrap_err();
        assert_eq!(path, Path::new("/"));
        assert!(Grants::new(&[], &[PathBuf::from("/nonexistent/x")], &[]).is_err());
    }

    #[test]
    fn every_mount_point_is_made_or_mounted_first() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        std::fs::create_dir_all(top.join("a/b")).unwrap();
        std::fs::write(top.join("file"), "").unwrap();
        let grants = Grants::new(&[top.join("a"), top.join("file")], &[top.join("a/b")], &[]).unwrap();
        let plan = plan(&grants, MEMORY, None).unwrap();
        let path_of = |text: Text| plan.texts.path(text);
        let mut there = BTreeSet::from([path_of(plan.base)]);
        for make in &plan.makes {
            let (Make::Dir(path) | Make::Shared(path) | Make::File(path) | Make::Link { path, .. }) = make;
            let path = path_of(*path);
            assert!(there.contains(path.parent().unwrap()), "{}", path.display());
            assert!(there.insert(path.clone()), "{} is made twice", path.display());
        }
        let mut mounted: Vec<PathBuf> = Vec::new();
        for bind in plan.binds() {
            let target = path_of(bind.target);
            let ok = there.contains(&target) || mounted.iter().any(|above| target.starts_with(above));
            assert!(ok, "{}", target.display());
            mounted.push(target);
        }
        let order =
            |path: &str| plan.binds().position(|bind| path_of(bind.source) == top.join(path)).unwrap();
        assert!(order("a") < order("a/b"));
    }
}
