//! Between `fork` and `exec`, on Linux: the supervisor, which is the first process of the tree, and the command's own first steps.
//!
//! Another thread of the runner may hold any lock at the moment of the fork. So nothing here allocates, locks, formats, panics or
//! unwinds: everything it needs was made before and lies in a [`Plan`], and every call is a thin wrapper of a system call.
//!
//! The supervisor does not exec. It is process 1 of a PID namespace, or a subreaper, so that every orphan of the tree
//! becomes its child; it reaps them, and it does not end before the last of them has. It answers to the runner over two pipes, and takes the
//! end of the runner (the control pipe closes) as the order to end everything.

use std::ffi::{CStr, CString};
use std::mem::MaybeUninit;
use std::ptr;

use libc::{c_char, c_int, c_uint, c_ulong, c_void, pid_t};
use seccompiler::sock_filter;

use super::super::root::{OverlayPlan, RootPlan};
use super::super::{landlock, seccomp};
use super::layers::{
    ONE, ZERO, drop_capabilities, enter_root, errno, fix_devices, keep_capabilities_once, loopback_up,
    open_overlay, own_processes, send_listener, write_file,
};

/// Runner to supervisor: SIGTERM to the tree.
pub(super) const TERM: u8 = b'T';
/// Runner to supervisor: SIGKILL to the tree.
pub(super) const KILL: u8 = b'K';

/// What the supervisor reports, as four words in one atomic write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Report {
    /// The command was not started.
    Failed { stage: Stage, errno: i32 },
    /// The command runs.
    Started,
    /// The command has ended with this wait status; others may still be there.
    Exited { status: i32 },
    /// Nobody is left.
    Done { status: i32, survivors: u32 },
}

/// Length of a report in bytes.
pub(super) const REPORT: usize = 12;

impl Report {
    fn encode(self) -> [u8; REPORT] {
        let (kind, a, b) = match self {
            Self::Failed { stage, errno } => (0, stage as u32, errno),
            Self::Started => (1, 0, 0),
            Self::Exited { status } => (2, 0, status),
            Self::Done { status, survivors } => (3, survivors, status),
        };
        let mut bytes = [0; REPORT];
        let (first, rest) = bytes.split_at_mut(4);
        let (second, third) = rest.split_at_mut(4);
        first.copy_from_slice(&u32::to_ne_bytes(kind));
        second.copy_from_slice(&u32::to_ne_bytes(a));
        third.copy_from_slice(&i32::to_ne_bytes(b));
        bytes
    }

    pub(super) fn decode(bytes: [u8; REPORT]) -> Option<Self> {
        let word = |at: usize| [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
        let (a, b) = (u32::from_ne_bytes(word(4)), i32::from_ne_bytes(word(8)));
        Some(match u32::from_ne_bytes(word(0)) {
            0 => Self::Failed { stage: Stage::from_number(a)?, errno: b },
            1 => Self::Started,
            2 => Self::Exited { status: b },
            3 => Self::Done { status: b, survivors: a },
            _ => return None,
        })
    }
}

/// Declares [`Stage`] with the name and the number of each.
macro_rules! stages {
    ($($(#[$doc:meta])* $variant:ident = $name:literal;)*) => {
        /// Which step failed.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(super) enum Stage { $($(#[$doc])* $variant,)* }

        impl Stage {
            pub(super) const ALL: &[Self] = &[$(Self::$variant,)*];

            /// What an error calls it.
            pub(super) fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            fn from_number(number: u32) -> Option<Self> {
                Self::ALL.iter().copied().find(|&stage| stage as u32 == number)
            }
        }
    };
}

stages! {
    Clone = "new namespaces";
    UserMap = "user namespace";
    Loopback = "loopback";
    Overlay = "overlay";
    Root = "private root";
    Reaper = "supervisor";
    Session = "session";
    Streams = "standard streams";
    Cwd = "working folder";
    Capabilities = "capabilities";
    Landlock = "landlock";
    Seccomp = "seccomp";
    Exec = "exec";
    Bwrap = "bwrap";
    Gate = "gate of the network";
}

impl Stage {
    /// Whether a failure here means that this machine gives us no namespaces.
    pub(super) fn is_namespaces(self) -> bool {
        matches!(self, Self::Clone | Self::UserMap | Self::Loopback | Self::Root | Self::Gate)
    }
}

#[derive(Clone, Copy)]
struct Failure {
    stage: Stage,
    errno: c_int,
}

/// Everything that the supervisor and the command need, made before the fork.
pub(super) struct Plan {
    pub program: CString,
    /// Null-terminated; the strings are owned by `_strings`.
    pub argv: Vec<*const c_char>,
    pub envp: Vec<*const c_char>,
    pub _strings: Vec<CString>,
    pub cwd: CString,
    /// Standard input, output and error of the command. All numbers here are above 2.
    pub streams: [c_int; 3],
    pub report: c_int,
    pub control: c_int,
    /// Ranges of descriptors to close: all but the ones named here.
    pub close: Vec<(c_uint, c_uint)>,
    /// `uid_map` and `gid_map`, in a new user namespace.
    pub maps: Option<[CString; 2]>,
    pub loopback: bool,
    /// Our end of a pair of sockets: over it the runner gets the socket that listens in the command's network namespace.
    pub gate: Option<c_int>,
    pub root: Option<RootPlan>,
    /// Only with a root.
    pub overlay: Option<OverlayPlan>,
    /// The rights on the folder where the overlay is.
    pub overlay_access: u64,
    /// One slot for each mount of `root`.
    pub trees: Vec<c_int>,
    /// Whether the supervisor is process 1 of a PID namespace.
    pub pid_namespace: bool,
    /// Where the program is bubblewrap, which builds the root and then becomes the command.
    pub wrapped: Option<Wrapped>,
    pub drop_capabilities: bool,
    pub no_new_privs: bool,
    /// The largest file that may be written, in bytes.
    pub file_size: Option<u64>,
    /// The processors that it may use.
    pub cpus: Option<libc::cpu_set_t>,
    pub ruleset: Option<c_int>,
    pub late_rules: Vec<(&'static CStr, u64)>,
    pub filters: Vec<Vec<sock_filter>>,
    /// The stack of the command between clone and exec.
    pub stack: Vec<MaybeUninit<u8>>,
    pub settle_ms: i32,
}

/// Descriptors that bubblewrap is given, and our ends of them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wrapped {
    /// Kept open over the exec: they are bubblewrap's.
    pub inherit: [c_int; 4],
    /// It says here who the command is.
    pub info: c_int,
    /// It reads this before it mounts anything, to the end: both ends, as the one that it reads from also shows whether it does.
    pub hold: [c_int; 2],
    /// It waits here, with everything mounted, for a byte: both ends, as the one that it reads from also shows whether it did.
    pub block: [c_int; 2],
}

fn check(ok: bool, stage: Stage) -> Result<(), Failure> {
    if ok { Ok(()) } else { Err(Failure { stage, errno: errno() }) }
}

/// Runs the plan and never returns. Called in the forked child, with all signals blocked.
///
/// # Safety
/// The calling process was just forked and has one thread; `plan` is its own copy.
pub(super) unsafe fn supervise(plan: &mut Plan) -> ! {
    // SAFETY: as for this function; each call below upholds its own contract by the plan's invariants.
    unsafe {
        let report = plan.report;
        let started = prepare(plan);
        // Before the command is there: what it may do to our limits must not keep us from finding what it leaves.
        let children = if plan.pid_namespace { -1 } else { open_children() };
        let started = started.and_then(|()| launch(plan));
        let started = started.and_then(|child| match &plan.wrapped {
            Some(wrapped) => adopt(wrapped, child),
            None => Ok(child),
        });
        let child = match started {
            Ok(child) => child,
            Err(failure) => {
                send(report, Report::Failed { stage: failure.stage, errno: failure.errno });
                libc::_exit(1);
            }
        };
        // Only the tree holds them now: the runner reads to the end once it is gone.
        for fd in plan.streams {
            libc::close(fd);
        }
        send(report, Report::Started);
        let (status, survivors) = attend(plan, child, children);
        send(report, Report::Done { status, survivors });
        libc::_exit(0)
    }
}

unsafe fn send(fd: c_int, report: Report) {
    let bytes = report.encode();
    // SAFETY: the buffer is on this stack. If the runner is gone there is nobody to tell (SIGPIPE is blocked).
    unsafe { libc::write(fd, bytes.as_ptr().cast(), bytes.len()) };
}

/// Everything up to the clone of the command.
unsafe fn prepare(plan: &mut Plan) -> Result<(), Failure> {
    // SAFETY: system calls on the plan's own descriptors and NUL-terminated strings, in a process with one thread.
    unsafe {
        // Exec resets handlers but keeps what is ignored (Rust ignores SIGPIPE). Past libc, which spares the signals it uses itself. All
        // zeroes is a kernel `sigaction` with SIG_DFL, no flags and an empty mask; it has at most four words.
        let default = [0_u64; 4];
        for signal in 1..=64 as c_int {
            let (new, old) = (default.as_ptr(), ptr::null_mut::<u64>());
            libc::syscall(libc::SYS_rt_sigaction, signal, new, old, size_of::<u64>());
        }
        libc::setsid();
        // Copies of descriptors that belong to other threads' commands would keep their pipes open.
        for &(first, last) in &plan.close {
            if libc::syscall(libc::SYS_close_range, first, last, 0) != 0 {
                for fd in first..=last.min(65_536) {
                    libc::close(fd.cast_signed());
                }
            }
        }
        if let Some([uid, gid]) = &plan.maps {
            let ok = write_file(c"/proc/self/setgroups", c"deny")
                && write_file(c"/proc/self/uid_map", uid)
                && write_file(c"/proc/self/gid_map", gid);
            check(ok, Stage::UserMap)?;
        }
        if plan.loopback {
            check(loopback_up(), Stage::Loopback)?;
        }
        if let Some(gate) = plan.gate {
            check(send_listener(gate, super::GATE_PORT), Stage::Gate)?;
            libc::close(gate);
        }
        libc::umask(0);
        if let Some(root) = &plan.root {
            let mut mounted = -1;
            if let Some(overlay) = &plan.overlay {
                mounted = open_overlay(overlay);
                check(mounted >= 0, Stage::Overlay)?;
            }
            check(enter_root(root, mounted, &mut plan.trees), Stage::Root)?;
        }
        libc::umask(0o022);
        if plan.wrapped.is_some() {
            check(own_processes() && fix_devices(), Stage::Root)?;
        }
        if !plan.pid_namespace {
            check(libc::prctl(libc::PR_SET_CHILD_SUBREAPER, ONE, ZERO, ZERO, ZERO) == 0, Stage::Reaper)?;
        }
        // Nobody of the same user may trace the supervisor or read its memory, which is a copy of the runner's.
        libc::prctl(libc::PR_SET_DUMPABLE, ZERO, ZERO, ZERO, ZERO);
        if let Some(set) = plan.ruleset {
            for &(path, access) in &plan.late_rules {
                check(landlock::add_rule(set, path, access), Stage::Landlock)?;
            }
            if let Some(overlay) = &plan.overlay {
                let added = landlock::add_rule(set, &overlay.place, plan.overlay_access);
                check(added, Stage::Landlock)?;
            }
        }
        Ok(())
    }
}

struct Launch {
    plan: *mut Plan,
    supervisor: pid_t,
    failure: Option<Failure>,
}

/// Clones the command. It borrows the supervisor's memory until its exec, as `vfork` does: no second copy of page tables,
/// and its failure can be read here.
unsafe fn launch(plan: &mut Plan) -> Result<pid_t, Failure> {
    // SAFETY: the stack is the plan's and used by nobody else; the supervisor is suspended until the child has exec'ed or exited, so
    // that `launch` outlives it and is not touched by two at once.
    unsafe {
        let top = plan.stack.as_mut_ptr().add(plan.stack.len());
        let top = top.sub(top as usize % 16);
        let mut launch = Launch { plan, supervisor: libc::getpid(), failure: None };
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
        let pid = libc::clone(command, top.cast(), flags, (&raw mut launch).cast());
        check(pid > 0, Stage::Exec)?;
        match ptr::read_volatile(&raw const launch.failure) {
            Some(failure) => Err(failure),
            None => Ok(pid),
        }
    }
}

extern "C" fn command(argument: *mut c_void) -> c_int {
    // SAFETY: `launch` passes a pointer to its own `Launch`, which lives until this process has exec'ed or exited.
    unsafe {
        let launch = argument.cast::<Launch>();
        let failure = become_command(&mut *(*launch).plan, (*launch).supervisor);
        ptr::write_volatile(&raw mut (*launch).failure, Some(failure));
        libc::_exit(127)
    }
}

/// The command's steps to its exec; only comes back if one fails.
unsafe fn become_command(plan: &mut Plan, supervisor: pid_t) -> Failure {
    // SAFETY: system calls with the plan's strings and descriptors.
    unsafe {
        let step = || -> Result<(), Failure> {
            check(libc::setsid() >= 0, Stage::Session)?;
            // The three are above 2, so none is overwritten before it is used, and the copies lose close-on-exec.
            for (to, from) in (0..).zip(plan.streams) {
                check(libc::dup2(from, to) == to, Stage::Streams)?;
            }
            check(libc::chdir(plan.cwd.as_ptr()) == 0, Stage::Cwd)?;
            let no_core = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
            libc::setrlimit(libc::RLIMIT_CORE, &raw const no_core);
            if let Some(most) = plan.file_size {
                let most = libc::rlimit { rlim_cur: most, rlim_max: most };
                check(libc::setrlimit(libc::RLIMIT_FSIZE, &raw const most) == 0, Stage::Session)?;
            }
            if let Some(cpus) = &plan.cpus {
                let size = size_of::<libc::cpu_set_t>();
                check(libc::sched_setaffinity(0, size, cpus) == 0, Stage::Session)?;
            }
            if let Some(wrapped) = &plan.wrapped {
                for fd in wrapped.inherit {
                    check(libc::fcntl(fd, libc::F_SETFD, 0) == 0, Stage::Streams)?;
                }
                keep_capabilities_once();
            }
            if plan.drop_capabilities {
                check(drop_capabilities(), Stage::Capabilities)?;
            }
            if plan.no_new_privs {
                check(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, ONE, ZERO, ZERO, ZERO) == 0, Stage::Seccomp)?;
            }
            if let Some(set) = plan.ruleset {
                check(landlock::restrict_self(set), Stage::Landlock)?;
            }
            // Before the filters: they need no exception for it.
            let mut empty: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&raw mut empty);
            libc::sigprocmask(libc::SIG_SETMASK, &raw const empty, ptr::null_mut());
            for filter in &mut plan.filters {
                name_supervisor(filter, supervisor);
                let program = libc::sock_fprog {
                    len: libc::c_ushort::try_from(filter.len()).unwrap_or(0),
                    filter: filter.as_mut_ptr().cast(),
                };
                let mode = c_ulong::from(libc::SECCOMP_MODE_FILTER);
                check(libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program) == 0, Stage::Seccomp)?;
            }
            Ok(())
        };
        if let Err(failure) = { step }() {
            return failure;
        }
        libc::execve(plan.program.as_ptr(), plan.argv.as_ptr(), plan.envp.as_ptr());
        Failure { stage: Stage::Exec, errno: errno() }
    }
}

/// Takes the command over from bubblewrap: it has forked once, and the first of the two only waits and would hide how the command
/// ends. Without it the command is a child of the supervisor like any other. Comes back once everything is mounted.
unsafe fn adopt(wrapped: &Wrapped, first: pid_t) -> Result<pid_t, Failure> {
    let failed = Failure { stage: Stage::Bwrap, errno: 0 };
    let mut text = [0_u8; 512];
    let mut length = 0;
    // SAFETY: system calls with local buffers and the plan's descriptors.
    unsafe {
        let [held, holding] = wrapped.hold;
        let [read, write] = wrapped.block;
        // Whoever waits for the end of this pipe must not wait for us.
        for fd in wrapped.inherit.into_iter().filter(|fd| *fd != read && *fd != held) {
            libc::close(fd);
        }
        while length < text.len() && !text[..length].contains(&b'}') {
            let got = libc::read(wrapped.info, text[length..].as_mut_ptr().cast(), text.len() - length);
            if got <= 0 {
                break;
            }
            length += got.cast_unsigned();
        }
        libc::close(wrapped.info);
        let command = number_in(&text[..length]).ok_or(failed)?;
        // It is there once the first has let it go on, and has nothing more to do but wait. It comes no further while we hold the pipe.
        libc::write(holding, c"x".as_ptr().cast(), 1);
        if !is_taken(held, first) {
            return Err(failed);
        }
        libc::kill(first, libc::SIGKILL);
        libc::waitpid(first, ptr::null_mut(), libc::__WALL);
        libc::close(held);
        libc::close(holding);
        libc::write(write, c"x".as_ptr().cast(), 1);
        if !is_taken(read, command) {
            return Err(failed);
        }
        libc::close(read);
        libc::close(write);
        Ok(command)
    }
}

/// Waits until what was written into a pipe has been read. False if our child `reader` ends first.
unsafe fn is_taken(pipe: c_int, reader: pid_t) -> bool {
    // SAFETY: system calls with local buffers.
    unsafe {
        loop {
            let mut left: c_int = 0;
            if libc::ioctl(pipe, libc::FIONREAD as _, &raw mut left) == 0 && left == 0 {
                return true;
            }
            let mut seen: libc::siginfo_t = std::mem::zeroed();
            let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
            let rc = libc::waitid(libc::P_PID, reader.cast_unsigned(), &raw mut seen, options);
            if rc != 0 || seen.si_signo != 0 {
                return false;
            }
            let pause = libc::timespec { tv_sec: 0, tv_nsec: 100_000 };
            libc::nanosleep(&raw const pause, ptr::null_mut());
        }
    }
}

/// The first number in a text.
fn number_in(text: &[u8]) -> Option<pid_t> {
    let start = text.iter().position(u8::is_ascii_digit)?;
    let digits = text[start..].iter().take_while(|byte| byte.is_ascii_digit());
    digits
        .take(10)
        .try_fold(0, |number: pid_t, byte| number.checked_mul(10)?.checked_add(pid_t::from(byte - b'0')))
}

/// Puts the supervisor's process id where the filter has a place for it.
fn name_supervisor(filter: &mut [sock_filter], supervisor: pid_t) {
    for instruction in filter {
        if instruction.k == seccomp::SUPERVISOR {
            instruction.k = supervisor.cast_unsigned();
        } else if instruction.k == seccomp::SUPERVISOR_GROUP {
            instruction.k = supervisor.wrapping_neg().cast_unsigned();
        }
    }
}

/// Waits until nobody is left, and ends whom it has to end. The status is the command's.
unsafe fn attend(plan: &Plan, child: pid_t, children: c_int) -> (c_int, u32) {
    let mut status: Option<c_int> = None;
    let mut killing = false;
    let mut told = false;
    let mut survivors = 0;
    // Milliseconds until what outlived the command is killed.
    let mut settle = plan.settle_ms;
    // SAFETY: system calls with local buffers and the plan's descriptors.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGCHLD);
        // SIGCHLD is blocked, as all signals are. Should there be no descriptor, the wait below still ends in time.
        let signals = libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
        let mut control = plan.control;
        loop {
            loop {
                let mut found: c_int = 0;
                let pid = libc::waitpid(-1, &raw mut found, libc::WNOHANG | libc::__WALL);
                if pid == child {
                    status = Some(found);
                    send(plan.report, Report::Exited { status: found });
                } else if pid > 0
                    && killing
                    && libc::WIFSIGNALED(found)
                    && libc::WTERMSIG(found) == libc::SIGKILL
                {
                    survivors += 1;
                } else if pid < 0 && errno() == libc::ECHILD {
                    return (status.unwrap_or(0), survivors);
                } else if pid <= 0 {
                    break;
                }
            }
            if status.is_some() && settle <= 0 {
                killing = true;
            }
            if killing {
                signal_all(plan, child, children, status.is_none(), libc::SIGKILL);
            }
            let tick = match (killing, status.is_some()) {
                (true, _) => 2,
                (false, true) => 10,
                (false, false) if signals < 0 => 20,
                (false, false) => -1,
            };
            let poll = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
            let mut polled = [poll(signals), poll(control)];
            let before = now_ms();
            libc::poll(polled.as_mut_ptr(), 2, tick);
            if status.is_some() {
                settle -= now_ms().wrapping_sub(before).max(1);
            }
            if polled[0].revents != 0 {
                let mut drained = [0_u8; 1024];
                libc::read(signals, drained.as_mut_ptr().cast(), drained.len());
            }
            if polled[1].revents != 0 {
                let mut order = 0_u8;
                match libc::read(control, (&raw mut order).cast(), 1) {
                    1 if order == TERM && !told => {
                        told = true;
                        signal_all(plan, child, children, status.is_none(), libc::SIGTERM);
                        // A stopped process would never see it.
                        signal_all(plan, child, children, status.is_none(), libc::SIGCONT);
                    }
                    1 if order == TERM => {}
                    1 => killing = true,
                    // The runner is gone.
                    _ => {
                        killing = true;
                        control = -1;
                    }
                }
            }
        }
    }
}

/// The list of this process's children, which can be read again and again.
unsafe fn open_children() -> c_int {
    // SAFETY: the path is NUL-terminated. The command does not get it: it closes on exec.
    unsafe { libc::open(c"/proc/thread-self/children".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) }
}

/// Sends a signal to the tree: to everybody in the PID namespace, else to the command's group and to the supervisor's children. Killed
/// parents make children of their children, so repeating this reaches all.
unsafe fn signal_all(plan: &Plan, child: pid_t, children: c_int, child_alive: bool, signal: c_int) {
    // SAFETY: system calls with local buffers. A child is only ever reaped by this thread, so its number is not reused meanwhile.
    unsafe {
        if plan.pid_namespace {
            libc::kill(-1, signal);
            return;
        }
        if child_alive {
            libc::kill(-child, signal);
            libc::kill(child, signal);
        }
        if libc::lseek(children, 0, libc::SEEK_SET) != 0 {
            return;
        }
        let mut buffer = [0_u8; 4096];
        let mut pid: pid_t = 0;
        loop {
            let got = libc::read(children, buffer.as_mut_ptr().cast(), buffer.len());
            if got <= 0 {
                break;
            }
            for &byte in buffer.iter().take(got.cast_unsigned()) {
                if byte.is_ascii_digit() {
                    pid = pid.wrapping_mul(10).wrapping_add(pid_t::from(byte - b'0'));
                } else {
                    if pid > 1 {
                        libc::kill(pid, signal);
                    }
                    pid = 0;
                }
            }
        }
    }
}

#[allow(clippy::cast_possible_truncation, reason = "only differences are used, so that wrapping is harmless")]
fn now_ms() -> i32 {
    // SAFETY: `timespec` is plain data and the clock always exists.
    let time = unsafe {
        let mut time: libc::timespec = std::mem::zeroed();
        libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time);
        time
    };
    (time.tv_sec.wrapping_mul(1000).wrapping_add(time.tv_nsec / 1_000_000)) as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_survive_the_pipe() {
        let stages = Stage::ALL.iter().map(|&stage| Report::Failed { stage, errno: 13 });
        let others = [
            Report::Started,
            Report::Exited { status: 256 },
            Report::Done { status: -1, survivors: u32::MAX },
        ];
        for report in stages.chain(others) {
            assert_eq!(Report::decode(report.encode()), Some(report));
        }
        assert_eq!(Report::decode([0xff; REPORT]), None);
    }

    #[test]
    fn the_number_of_a_process_is_read_from_what_bubblewrap_says() {
        assert_eq!(number_in(b"{\n    \"child-pid\": 4711\n}\n"), Some(4711));
        for none in [&b""[..], b"{}", b"99999999999999"] {
            assert_eq!(number_in(none), None);
        }
    }
}
