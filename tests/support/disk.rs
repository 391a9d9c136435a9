//! A disk that forgets: what a folder may look like after a loss of power, from a recording of the system calls of a command.
//!
//! The model is the least that POSIX promises: the content of a file is on the disk after an `fsync` of the file, a name after an
//! `fsync` of the folder that it is in. Whatever was done since may have reached the disk, in any order, or not.
#![cfg(target_os = "linux")]

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Something that was done, in the order in which it was done.
#[derive(Debug, Clone)]
enum Event {
    Open {
        fd: u32,
        path: PathBuf,
        create: bool,
        truncate: bool,
        append: bool,
    },
    Write {
        fd: u32,
        path: PathBuf,
        at: Option<usize>,
        bytes: Vec<u8>,
    },
    Truncate {
        fd: u32,
        path: PathBuf,
        length: usize,
    },
    Sync {
        fd: u32,
        path: PathBuf,
    },
    Rename(PathBuf, PathBuf),
    Link(PathBuf, PathBuf),
    Symlink(OsString, PathBuf),
    MakeDir(PathBuf),
    Remove(PathBuf),
    /// Printed for people.
    Said(String),
}

/// What a command did in one folder, and what it printed meanwhile.
pub struct Recording {
    top: PathBuf,
    events: Vec<Event>,
    before: Disk,
}

/// The calls that change files, or say that they are on the disk.
pub const CALLS: &str = "trace=open,openat,creat,write,pwrite64,writev,rename,renameat,renameat2,link,linkat,unlink,\
                         unlinkat,mkdir,mkdirat,rmdir,symlink,symlinkat,fsync,fdatasync,ftruncate,truncate,copy_file_range,sendfile";

impl Recording {
    /// Takes what `strace -f -qq -y -xx` wrote. `before` is the folder `top` as it was before the command.
    pub fn read(log: &Path, top: &Path, before: Disk) -> Self {
        let text = fs::read_to_string(log).unwrap();
        let mut unfinished: HashMap<&str, String> = HashMap::new();
        let mut events = Vec::new();
        for line in text.lines() {
            let (pid, call) = line.split_once(' ').unwrap();
            let call = call.trim_start();
            let whole = if let Some(begin) = call.strip_suffix(" <unfinished ...>") {
                unfinished.insert(pid, begin.to_owned());
                continue;
            } else if call.starts_with("<... ") {
                let (_, end) = call.split_once(" resumed>").unwrap();
                unfinished.remove(pid).unwrap_or_default() + end
            } else {
                call.to_owned()
            };
            events.extend(event(&whole, top));
        }
        Self { top: top.to_owned(), events, before }
    }

    /// How many moments there are.
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// The moments right after something that `wanted` was printed.
    pub fn said(&self, wanted: impl Fn(&str) -> bool) -> Vec<usize> {
        let said = |event: &Event| matches!(event, Event::Said(text) if wanted(text));
        (0..self.events.len()).filter(|at| said(&self.events[*at])).map(|at| at + 1).collect()
    }

    /// The moments right after something became durable, or before it did.
    pub fn syncs(&self) -> Vec<usize> {
        (0..self.events.len()).filter(|at| matches!(self.events[*at], Event::Sync { .. })).collect()
    }

    /// What was printed up to a moment.
    pub fn printed(&self, moment: usize) -> String {
        self.events[..moment]
            .iter()
            .filter_map(|event| if let Event::Said(text) = event { Some(text.as_str()) } else { None })
            .collect()
    }

    /// The disk at a moment.
    pub fn at(&self, moment: usize) -> Disk {
        let mut disk = self.before.clone();
        for event in &self.events[..moment] {
            disk.apply(event, &self.top);
        }
        disk
    }
}

/// One system call, if it is about `top` or prints something.
fn event(call: &str, top: &Path) -> Option<Event> {
    let (name, rest) = call.split_once('(')?;
    let (inside, result) = rest.rsplit_once(" = ")?;
    let inside = inside.trim_end().strip_suffix(')')?;
    if result.starts_with('-') {
        return None;
    }
    let args: Vec<&str> = inside.split(", ").collect();
    // Relative to a folder that an argument names, or absolute.
    let joined = |folder: &str, path: &str| described(folder).unwrap_or_default().join(text(path));
    let absolute = |path: &str| PathBuf::from(text(path));
    let within = |path: PathBuf| path.starts_with(top).then_some(path);
    let fd = |arg: &str| arg.split('<').next().and_then(|fd| fd.parse::<u32>().ok());
    match name {
        "open" | "openat" | "creat" => {
            let path = within(described(result)?)?;
            let flags = args.iter().find(|arg| arg.starts_with("O_")).copied().unwrap_or("O_CREAT|O_TRUNC");
            let has = |flag: &str| flags.split('|').any(|one| one == flag);
            let (create, truncate, append) = (has("O_CREAT"), has("O_TRUNC"), has("O_APPEND"));
            Some(Event::Open { fd: fd(result)?, path, create, truncate, append })
        }
        "write" | "pwrite64" | "writev" => {
            let strings = inside.split('"').skip(1).step_by(2);
            let mut bytes: Vec<u8> = strings.flat_map(unescape).collect();
            bytes.truncate(result.parse().ok()?);
            let number = fd(args[0])?;
            let path = described(args[0]).unwrap_or_default();
            if let Some(path) = within(path) {
                let at = if name == "pwrite64" { args.last()?.parse().ok() } else { None };
                return Some(Event::Write { fd: number, path, at, bytes });
            }
            (number <= 2).then(|| Event::Said(String::from_utf8_lossy(&bytes).into_owned()))
        }
        "ftruncate" => {
            let path = within(described(args[0])?)?;
            Some(Event::Truncate { fd: fd(args[0])?, path, length: args[1].parse().ok()? })
        }
        "fsync" | "fdatasync" => Some(Event::Sync { fd: fd(args[0])?, path: within(described(args[0])?)? }),
        "rename" => Some(Event::Rename(within(absolute(args[0]))?, absolute(args[1]))),
        "renameat" | "renameat2" => {
            Some(Event::Rename(within(joined(args[0], args[1]))?, joined(args[2], args[3])))
        }
        "link" => Some(Event::Link(absolute(args[0]), within(absolute(args[1]))?)),
        "linkat" => Some(Event::Link(joined(args[0], args[1]), within(joined(args[2], args[3]))?)),
        "symlink" => Some(Event::Symlink(text(args[0]), within(absolute(args[1]))?)),
        "symlinkat" => Some(Event::Symlink(text(args[0]), within(joined(args[1], args[2]))?)),
        "mkdir" => Some(Event::MakeDir(within(absolute(args[0]))?)),
        "mkdirat" => Some(Event::MakeDir(within(joined(args[0], args[1]))?)),
        "unlink" | "rmdir" => Some(Event::Remove(within(absolute(args[0]))?)),
        "unlinkat" => Some(Event::Remove(within(joined(args[0], args[1]))?)),
        "copy_file_range" | "sendfile" | "truncate" => {
            let path = args.iter().find_map(|arg| within(described(arg)?));
            assert!(path.is_none(), "the model does not know {call}");
            None
        }
        _ => None,
    }
}

/// The path in `5<path>` or `AT_FDCWD<path>`.
fn described(arg: &str) -> Option<PathBuf> {
    let (_, rest) = arg.split_once('<')?;
    Some(OsString::from_vec(unescape(rest.split('>').next()?)).into())
}

fn text(arg: &str) -> OsString {
    OsString::from_vec(unescape(arg.trim_matches('"')))
}

fn unescape(hex: &str) -> Vec<u8> {
    hex.split("\\x").skip(1).filter_map(|pair| u8::from_str_radix(pair.get(..2)?, 16).ok()).collect()
}

#[derive(Debug, Clone)]
enum Node {
    File { live: Vec<u8>, durable: Vec<u8> },
    Folder { live: Names, durable: Names },
    Link(OsString),
}

type Names = BTreeMap<OsString, usize>;

/// A folder in memory and on the disk.
#[derive(Debug, Clone)]
pub struct Disk {
    /// The first one is the top.
    nodes: Vec<Node>,
    open: HashMap<u32, (usize, usize, bool)>,
}

/// What of it survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Survives {
    /// All: the process was killed, the machine was not.
    Everything,
    /// Nothing that was not waited for.
    Nothing,
    /// All names, but of the content only what was waited for: empty files.
    Names,
    /// Of each file and each folder the one or the other, by chance.
    Some(u64),
}

impl Disk {
    /// A folder as it is, all of it on the disk.
    pub fn of(top: &Path) -> Self {
        let mut disk = Self { nodes: Vec::new(), open: HashMap::new() };
        disk.load(top);
        disk
    }

    fn load(&mut self, path: &Path) -> usize {
        let meta = fs::symlink_metadata(path).unwrap();
        let at = self.nodes.len();
        if meta.is_symlink() {
            self.nodes.push(Node::Link(fs::read_link(path).unwrap().into()));
        } else if meta.is_dir() {
            self.nodes.push(Node::Folder { live: Names::new(), durable: Names::new() });
            let mut names = Names::new();
            for entry in fs::read_dir(path).unwrap() {
                let entry = entry.unwrap();
                names.insert(entry.file_name(), self.load(&entry.path()));
            }
            self.nodes[at] = Node::Folder { live: names.clone(), durable: names };
        } else {
            let content = fs::read(path).unwrap();
            self.nodes.push(Node::File { live: content.clone(), durable: content });
        }
        at
    }

    fn find(&self, path: &Path, top: &Path) -> Option<usize> {
        let mut at = 0;
        for part in path.strip_prefix(top).ok()? {
            let Node::Folder { live, .. } = &self.nodes[at] else { return None };
            at = *live.get(part)?;
        }
        Some(at)
    }

    fn names(&mut self, path: &Path, top: &Path) -> Option<&mut Names> {
        let at = self.find(path, top)?;
        match &mut self.nodes[at] {
            Node::Folder { live, .. } => Some(live),
            _ => None,
        }
    }

    fn add(&mut self, path: &Path, top: &Path, node: Node) -> usize {
        let at = self.nodes.len();
        self.nodes.push(node);
        self.name(path, top, at);
        at
    }

    fn name(&mut self, path: &Path, top: &Path, at: usize) {
        let folder = path.parent().unwrap();
        if self.find(folder, top).is_none() {
            // Two threads made and removed it at the same time, and the recorder saw them the other way round.
            self.add(folder, top, Node::Folder { live: Names::new(), durable: Names::new() });
        }
        let names = self.names(folder, top);
        let names = names.unwrap_or_else(|| panic!("{} is no folder", folder.display()));
        names.insert(path.file_name().unwrap().to_owned(), at);
    }

    fn take(&mut self, path: &Path, top: &Path) -> Option<usize> {
        let name = path.file_name()?.to_owned();
        self.names(path.parent()?, top)?.remove(&name)
    }

    fn opened(&self, fd: u32, path: &Path, top: &Path) -> Option<usize> {
        self.open.get(&fd).map(|(at, ..)| *at).or_else(|| self.find(path, top))
    }

    fn apply(&mut self, event: &Event, top: &Path) {
        match event {
            Event::Open { fd, path, create, truncate, append } => {
                let file = || Node::File { live: Vec::new(), durable: Vec::new() };
                let at = match self.find(path, top) {
                    Some(at) => at,
                    None if *create => self.add(path, top, file()),
                    None => return,
                };
                if let (Node::File { live, .. }, true) = (&mut self.nodes[at], *truncate) {
                    live.clear();
                }
                self.open.insert(*fd, (at, 0, *append));
            }
            Event::Write { fd, path, at: offset, bytes } => {
                let Some(at) = self.opened(*fd, path, top) else { return };
                let (_, position, append) = self.open.get(fd).copied().unwrap_or((at, 0, false));
                let Node::File { live, .. } = &mut self.nodes[at] else { return };
                let start = if append { live.len() } else { offset.unwrap_or(position) };
                live.resize(live.len().max(start + bytes.len()), 0);
                live[start..start + bytes.len()].copy_from_slice(bytes);
                if offset.is_none() {
                    self.open.insert(*fd, (at, start + bytes.len(), append));
                }
            }
            Event::Truncate { fd, path, length } => {
                let Some(at) = self.opened(*fd, path, top) else { return };
                if let Node::File { live, .. } = &mut self.nodes[at] {
                    live.resize(*length, 0);
                }
            }
            Event::Sync { fd, path } => {
                let Some(at) = self.opened(*fd, path, top) else { return };
                match &mut self.nodes[at] {
                    Node::File { live, durable } => durable.clone_from(live),
                    Node::Folder { live, durable } => durable.clone_from(live),
                    Node::Link(_) => {}
                }
            }
            Event::Rename(from, to) => {
                if let Some(at) = self.take(from, top)
                    && to.starts_with(top)
                {
                    self.name(to, top, at);
                }
            }
            Event::Link(from, to) => {
                if let Some(at) = self.find(from, top) {
                    self.name(to, top, at);
                }
            }
            Event::Symlink(target, path) => {
                self.add(path, top, Node::Link(target.clone()));
            }
            Event::MakeDir(path) => {
                self.add(path, top, Node::Folder { live: Names::new(), durable: Names::new() });
            }
            Event::Remove(path) => {
                self.take(path, top);
            }
            Event::Said(_) => {}
        }
    }

    /// Makes the folder `to` what the disk is after the loss.
    pub fn write(&self, to: &Path, survives: Survives) {
        self.write_node(0, to, survives);
    }

    fn write_node(&self, at: usize, to: &Path, survives: Survives) {
        let (names, content) = match survives {
            Survives::Everything => (true, true),
            Survives::Nothing => (false, false),
            Survives::Names => (true, false),
            Survives::Some(seed) => {
                let mut mixed = seed ^ (at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                mixed ^= mixed >> 29;
                mixed = mixed.wrapping_mul(0xbf58_476d_1ce4_e5b9);
                ((mixed >> 33) & 1 == 1, (mixed >> 34) & 1 == 1)
            }
        };
        match &self.nodes[at] {
            Node::File { live, durable } => fs::write(to, if content { live } else { durable }).unwrap(),
            Node::Link(target) => std::os::unix::fs::symlink(target, to).unwrap(),
            Node::Folder { live, durable } => {
                fs::create_dir(to).unwrap();
                for (name, below) in if names { live } else { durable } {
                    let path = to.join(name);
                    assert!(!name.as_bytes().is_empty());
                    self.write_node(*below, &path, survives);
                }
            }
        }
    }
}
