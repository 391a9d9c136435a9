//! Which system calls a sandboxed command may not make. The filters are compiled here, before the fork, and loaded after it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, sock_filter,
};

/// Stands in a filter for the process id of the supervisor, which is known only after the fork. No process has it:
/// `PID_MAX_LIMIT` is 2^22.
pub(super) const SUPERVISOR: u32 = 0x7fff_fff0;
/// Stands for the negated process id of the supervisor, that is its process group.
pub(super) const SUPERVISOR_GROUP: u32 = 0x7fff_fff1;

/// What the filters must close, because nothing else does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Closed {
    /// Internet sockets.
    pub inet: bool,
    /// Unix sockets; `socketpair` stays.
    pub unix: bool,
    /// Every other way around Landlock: new user namespaces, io_uring, key rings, exotic socket families and so on.
    pub hardening: bool,
    /// Shared memory and queues of the host, which would be a channel from a worker to a check.
    pub ipc: bool,
    /// Signals to this process, to its group and to the supervisor.
    pub signals: Option<Runner>,
    /// Limits and scheduling of others.
    pub limits: Others,
}

/// Whose resource limits, priority, scheduling and processors may not be set. The kernel asks only whether both are the same user's, and
/// what the runner or the supervisor has, the next command inherits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Others {
    /// Nobody's.
    None,
    /// Those of process 1: the supervisor, the only one in a PID namespace that is none of the command's.
    First,
    /// Anybody's but the calling thread's own: every process of the user can be seen.
    All,
}

/// This process, as the target of signals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Runner {
    pub pid: i32,
    pub group: i32,
}

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// The architecture, if filters can be made for it.
pub(super) fn architecture() -> Result<TargetArch, String> {
    TargetArch::try_from(std::env::consts::ARCH).map_err(|error| error.to_string())
}

/// The programs to load, in this order. Empty if nothing is to be closed.
pub(super) fn programs(closed: &Closed) -> Result<Vec<BpfProgram>, String> {
    // A loop has two sorts of commands, and many of each.
    static COMPILED: Mutex<Vec<(Closed, Vec<BpfProgram>)>> = Mutex::new(Vec::new());
    const KEPT: usize = 8;
    let mut compiled = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, programs)) = compiled.iter().find(|(known, _)| known == closed) {
        return Ok(programs.clone());
    }
    let programs = compile(closed)?;
    if compiled.len() < KEPT {
        compiled.push((*closed, programs.clone()));
    }
    Ok(programs)
}

fn compile(closed: &Closed) -> Result<Vec<BpfProgram>, String> {
    let (programs, calls) = separate(closed)?;
    Ok(if programs.is_empty() { programs } else { vec![shortcut(chain(programs), &calls)] })
}

/// One program for each answer, and the calls that they are about.
fn separate(closed: &Closed) -> Result<(Vec<BpfProgram>, Vec<u32>), String> {
    let arch = architecture()?;
    // A user, or a library, should see "not supported" where a fallback exists, and "not permitted" where it was refused.
    let mut unsupported = Rules::new();
    let mut refused = Rules::new();

    if closed.hardening || closed.inet || closed.unix {
        // io_uring can create and connect sockets without a system call that a filter sees.
        for call in [libc::SYS_io_uring_setup, libc::SYS_io_uring_enter, libc::SYS_io_uring_register] {
            unsupported.insert(call, Vec::new());
        }
        refused.insert(libc::SYS_socket, socket_rules(closed));
    }
    if closed.hardening {
        // Its flags are behind a pointer, where no filter can look; libc falls back to clone.
        unsupported.insert(libc::SYS_clone3, Vec::new());
        let new_user = u64::from(libc::CLONE_NEWUSER.cast_unsigned());
        for call in [libc::SYS_clone, libc::SYS_unshare] {
            refused.insert(call, vec![rule(vec![when(0, SeccompCmpOp::MaskedEq(new_user), new_user)])]);
        }
        for call in [
            libc::SYS_keyctl,
            libc::SYS_add_key,
            libc::SYS_request_key,
            libc::SYS_bpf,
            libc::SYS_perf_event_open,
            libc::SYS_userfaultfd,
            // A candidate that runs inside of a check must not write into the memory of the program that judges it.
            libc::SYS_ptrace,
            libc::SYS_process_vm_readv,
            libc::SYS_process_vm_writev,
            libc::SYS_pidfd_getfd,
            libc::SYS_setns,
            libc::SYS_mount,
            libc::SYS_umount2,
            libc::SYS_pivot_root,
            libc::SYS_chroot,
            libc::SYS_open_tree,
            libc::SYS_move_mount,
            libc::SYS_fsopen,
            libc::SYS_fsmount,
            libc::SYS_fspick,
            libc::SYS_mount_setattr,
            libc::SYS_open_by_handle_at,
            libc::SYS_kexec_load,
            libc::SYS_init_module,
            libc::SYS_finit_module,
            libc::SYS_delete_module,
        ] {
            refused.insert(call, Vec::new());
        }
        // Typing into a terminal that somebody else reads.
        let typing = [libc::TIOCSTI, libc::TIOCLINUX];
        let typing = typing.map(|request| rule(vec![when(1, SeccompCmpOp::Eq, request)]));
        refused.insert(libc::SYS_ioctl, typing.into());
    }
    if closed.ipc {
        for call in [libc::SYS_shmget, libc::SYS_semget, libc::SYS_msgget, libc::SYS_mq_open] {
            unsupported.insert(call, Vec::new());
        }
    }
    if let Some(runner) = closed.signals {
        signal_rules(&mut refused, runner);
        // A process is named to it by a descriptor, where no filter can look; who needs it has `kill`.
        unsupported.insert(libc::SYS_pidfd_send_signal, Vec::new());
    }
    limit_rules(&mut refused, closed.limits);

    let calls: BTreeSet<u32> =
        unsupported.keys().chain(refused.keys()).filter_map(|call| u32::try_from(*call).ok()).collect();
    let mut programs = Vec::new();
    let x32 = if refused.is_empty() { None } else { no_x32() };
    for (rules, errno) in [(unsupported, libc::ENOSYS), (refused, libc::EPERM)] {
        if rules.is_empty() {
            continue;
        }
        let action = SeccompAction::Errno(errno.cast_unsigned());
        let filter = SeccompFilter::new(rules, SeccompAction::Allow, action, arch);
        let program = filter.and_then(BpfProgram::try_from).map_err(|error| error.to_string())?;
        programs.push(program);
    }
    // After the ones that look at the architecture.
    programs.extend(x32);
    Ok((programs, calls.into_iter().collect()))
}

const LOAD_WORD: u16 = 0x20;
const JUMP: u16 = 0x05;
const JUMP_IF_EQUAL: u16 = 0x15;
const JUMP_IF_GREATER_OR_EQUAL: u16 = 0x35;
const RETURN: u16 = 0x06;
/// The number from which on calls are of x32.
const X32: u32 = 0x4000_0000;
/// Where a filter finds the architecture.
const ARCHITECTURE: u32 = 4;

/// Lets every call through at once that the program is not about. The kernel runs a filter once for each of its calls when it loads it,
/// and a program looks at one call after the other: without this, loading takes a fifth of a millisecond.
fn shortcut(program: BpfProgram, calls: &[u32]) -> BpfProgram {
    // The program begins with its own look at the architecture, and so knows which it is for.
    let Some(native) = program.iter().find(|step| step.code == JUMP_IF_EQUAL).map(|step| step.k) else {
        return program;
    };
    let mut tree = Vec::new();
    search(&mut tree, calls);
    // Both are counted from the end of the tree: first comes the answer "allow", then the program.
    let (allow, on) = (0, 1);
    let end = tree.len();
    let Ok(steps) = tree
        .into_iter()
        .enumerate()
        .map(|(at, node)| {
            let to = |target: usize| u8::try_from(end - at - 1 + target);
            Ok(match node {
                Node::Is(call) => step(JUMP_IF_EQUAL, to(on)?, to(allow)?, call),
                Node::Split { call, right } => step(JUMP_IF_GREATER_OR_EQUAL, u8::try_from(right)?, 0, call),
            })
        })
        .collect::<Result<Vec<_>, std::num::TryFromIntError>>()
    else {
        // More calls than a jump reaches over; then it is just slower.
        return program;
    };
    let over = u32::try_from(steps.len()).unwrap_or(u32::MAX).saturating_add(1);
    // From the step at which each of the two jumps stands, over the answer "allow".
    let mut all = vec![
        step(LOAD_WORD, 0, 0, ARCHITECTURE),
        step(JUMP_IF_EQUAL, 1, 0, native),
        step(JUMP, 0, 0, over + 3),
        step(LOAD_WORD, 0, 0, 0),
        step(JUMP_IF_GREATER_OR_EQUAL, 0, 1, X32),
        step(JUMP, 0, 0, over),
    ];
    all.extend(steps);
    all.push(step(RETURN, 0, 0, SeccompAction::Allow.into()));
    all.extend(program);
    all
}

/// A part of the search for a call among sorted ones.
enum Node {
    /// The last comparison.
    Is(u32),
    /// From this call on, skip so many steps.
    Split { call: u32, right: usize },
}

fn search(tree: &mut Vec<Node>, calls: &[u32]) {
    match calls {
        [] => {}
        [call] => tree.push(Node::Is(*call)),
        _ => {
            let (left, right) = calls.split_at(calls.len() / 2);
            let at = tree.len();
            tree.push(Node::Split { call: right[0], right: 0 });
            search(tree, left);
            let skipped = tree.len() - at - 1;
            tree[at] = Node::Split { call: right[0], right: skipped };
            search(tree, right);
        }
    }
}

fn step(code: u16, jt: u8, jf: u8, k: u32) -> sock_filter {
    sock_filter { code, jt, jf, k }
}

/// One program in the place of several: what one of them lets through goes on to the next. The kernel takes as long to load a program as a
/// command takes to start.
fn chain(programs: Vec<BpfProgram>) -> BpfProgram {
    let allow: u32 = SeccompAction::Allow.into();
    let last = programs.len().saturating_sub(1);
    let mut all = Vec::with_capacity(programs.iter().map(Vec::len).sum());
    for (number, mut program) in programs.into_iter().enumerate() {
        let length = program.len();
        for (at, step) in program.iter_mut().enumerate() {
            if number < last && step.code == RETURN && step.k == allow {
                // The steps that are left of this program are jumped over; none may be left.
                let over = u32::try_from(length - at - 1).unwrap_or(0);
                *step = self::step(JUMP, 0, 0, over);
            }
        }
        all.append(&mut program);
    }
    all
}

/// Which socket families are refused.
fn socket_rules(closed: &Closed) -> Vec<SeccompRule> {
    let mut families = Vec::new();
    if !closed.unix {
        families.push(libc::AF_UNIX);
    }
    if !closed.inet {
        // Netlink tells a program its interfaces; of its protocols only that one is left. Vsock, packet, bluetooth
        // and the rest are not listed: some of them ignore network namespaces.
        families.extend([libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK]);
    }
    let family = |family: i32| u64::from(family.cast_unsigned());
    let mut rules = Vec::new();
    if families.is_empty() {
        // Empty means: refused whatever the arguments are.
        return rules;
    }
    rules.push(rule(families.iter().map(|&one| when(0, SeccompCmpOp::Ne, family(one))).collect()));
    if !closed.inet {
        let route = u64::from(libc::NETLINK_ROUTE.cast_unsigned());
        rules.push(rule(vec![
            when(0, SeccompCmpOp::Eq, family(libc::AF_NETLINK)),
            when(2, SeccompCmpOp::Ne, route),
        ]));
    }
    rules
}

/// No signal to the runner, the supervisor, their groups, or "everybody".
fn signal_rules(refused: &mut Rules, runner: Runner) {
    let everybody = u32::MAX;
    let pid = runner.pid.cast_unsigned();
    let group = runner.group.wrapping_neg().cast_unsigned();
    let to = |targets: &[u32]| -> Vec<SeccompRule> {
        targets.iter().map(|&target| rule(vec![when(0, SeccompCmpOp::Eq, target.into())])).collect()
    };
    refused.insert(libc::SYS_kill, to(&[everybody, pid, group, SUPERVISOR, SUPERVISOR_GROUP]));
    for call in [
        libc::SYS_tkill,
        libc::SYS_tgkill,
        libc::SYS_rt_sigqueueinfo,
        libc::SYS_rt_tgsigqueueinfo,
        libc::SYS_pidfd_open,
    ] {
        refused.insert(call, to(&[pid, SUPERVISOR]));
    }
}

/// No limit, priority or scheduling for others. Zero is the calling thread.
fn limit_rules(refused: &mut Rules, others: Others) {
    let target = |argument| match others {
        Others::None => None,
        Others::First => Some(when(argument, SeccompCmpOp::Eq, 1)),
        Others::All => Some(when(argument, SeccompCmpOp::Ne, 0)),
    };
    let (Some(first), Some(second)) = (target(0), target(1)) else { return };
    for call in [
        libc::SYS_prlimit64,
        libc::SYS_sched_setaffinity,
        libc::SYS_sched_setscheduler,
        libc::SYS_sched_setparam,
        libc::SYS_sched_setattr,
    ] {
        refused.insert(call, vec![rule(vec![first.clone()])]);
    }
    // Their first argument says what the second is: a process, or a group or a user, which are many.
    for (call, one) in [(libc::SYS_setpriority, PRIO_PROCESS), (libc::SYS_ioprio_set, IOPRIO_WHO_PROCESS)] {
        let mut rules = vec![rule(vec![second.clone()])];
        if others == Others::All {
            rules.push(rule(vec![when(0, SeccompCmpOp::Ne, one)]));
        }
        refused.insert(call, rules);
    }
}

/// `setpriority` is about one process (`sys/resource.h`).
const PRIO_PROCESS: u64 = 0;
/// `ioprio_set` is about one process (`linux/ioprio.h`).
const IOPRIO_WHO_PROCESS: u64 = 1;

/// On x86-64 the x32 calls have the same architecture and other numbers, which no rule matches. None of them is let through:
/// hardly any kernel has them, and hardly any program needs them.
fn no_x32() -> Option<BpfProgram> {
    let unsupported = SeccompAction::Errno(libc::ENOSYS.cast_unsigned());
    cfg!(target_arch = "x86_64").then(|| {
        vec![
            step(LOAD_WORD, 0, 0, 0),
            step(JUMP_IF_GREATER_OR_EQUAL, 0, 1, X32),
            step(RETURN, 0, 0, unsupported.into()),
            step(RETURN, 0, 0, SeccompAction::Allow.into()),
        ]
    })
}

/// # Panics
/// Never: the only error is an argument number above 5, and they are constants.
fn when(argument: u8, operator: SeccompCmpOp, value: u64) -> SeccompCondition {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value)
        .expect("a system call has six arguments")
}

/// # Panics
/// Never: the only error is an empty list, and no caller passes one.
fn rule(conditions: Vec<SeccompCondition>) -> SeccompRule {
    SeccompRule::new(conditions).expect("a rule has conditions")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a program answers to a system call, as the kernel runs it.
    fn answer(program: &[sock_filter], nr: u32, arch: u32, arguments: [u64; 6]) -> u32 {
        let mut data = Vec::new();
        for word in [nr, arch, 0, 0] {
            data.extend_from_slice(&word.to_ne_bytes());
        }
        for argument in arguments {
            data.extend_from_slice(&argument.to_ne_bytes());
        }
        let load = |at: u32| {
            let at = at as usize;
            u32::from_ne_bytes(data[at..at + 4].try_into().unwrap())
        };
        let (mut at, mut accumulator) = (0, 0);
        loop {
            let step = &program[at];
            let taken = |holds: bool| usize::from(if holds { step.jt } else { step.jf });
            at += 1 + match step.code {
                0x20 => {
                    accumulator = load(step.k);
                    0
                }
                0x54 => {
                    accumulator &= step.k;
                    0
                }
                0x05 => step.k as usize,
                0x15 => taken(accumulator == step.k),
                0x25 => taken(accumulator > step.k),
                0x35 => taken(accumulator >= step.k),
                0x45 => taken(accumulator & step.k != 0),
                0x06 => return step.k,
                other => panic!("step {other:#x}"),
            };
        }
    }

    #[test]
    fn a_chain_answers_what_its_programs_answer_together() {
        let runner = Some(Runner { pid: 100, group: 100 });
        for (bits, limits) in (0..32_u8).zip([Others::None, Others::First, Others::All].into_iter().cycle()) {
            let closed = Closed {
                inet: bits & 1 != 0,
                unix: bits & 2 != 0,
                hardening: bits & 4 != 0,
                ipc: bits & 8 != 0,
                signals: runner.filter(|_| bits & 16 != 0),
                limits,
            };
            let (single, _) = separate(&closed).unwrap();
            let chained = compile(&closed).unwrap();
            assert_eq!(chained.len(), usize::from(!single.is_empty()));
            let Some(chained) = chained.first() else { continue };
            // AUDIT_ARCH_X86_64, AUDIT_ARCH_AARCH64 and AUDIT_ARCH_I386.
            for arch in [0xc000_003e, 0xc000_00b7, 0x4000_0003] {
                for nr in (0..470).chain([0x4000_0000, 0x4000_0001]) {
                    for first in [0, 1, 2, 10, 16, 100, 0x1000_0000, 0xffff_ffff] {
                        let arguments = [first, 0x5412, 0, 0, 0, 0];
                        // Of several answers the kernel takes the strictest, which is the smallest as a signed number.
                        let answers = single.iter().map(|program| answer(program, nr, arch, arguments));
                        let strictest = answers.min_by_key(|answer| answer.cast_signed());
                        let got = answer(chained, nr, arch, arguments);
                        assert_eq!(Some(got), strictest, "{closed:?} {nr} {arch:#x} {first}");
                    }
                }
            }
        }
    }

    #[test]
    fn limits_and_scheduling_of_others_are_closed_and_ones_own_stay() {
        let arch: u32 = if cfg!(target_arch = "x86_64") { 0xc000_003e } else { 0xc000_00b7 };
        let program = |limits| {
            let closed =
                Closed { inet: false, unix: false, hardening: true, ipc: false, signals: None, limits };
            compile(&closed).unwrap().remove(0)
        };
        let allow: u32 = SeccompAction::Allow.into();
        let calls = [
            (libc::SYS_prlimit64, 0, 0),
            (libc::SYS_sched_setaffinity, 0, 0),
            (libc::SYS_sched_setscheduler, 0, 0),
            (libc::SYS_sched_setparam, 0, 0),
            (libc::SYS_sched_setattr, 0, 0),
            (libc::SYS_setpriority, 1, PRIO_PROCESS),
            (libc::SYS_ioprio_set, 1, IOPRIO_WHO_PROCESS),
        ];
        for (call, at, which) in calls {
            let allowed = |limits, target: u64| {
                let mut arguments = [which, 0, 0, 0, 0, 0];
                arguments[at] = target;
                answer(&program(limits), u32::try_from(call).unwrap(), arch, arguments) == allow
            };
            assert_eq!([0, 1, 77].map(|pid| allowed(Others::All, pid)), [true, false, false], "{call}");
            assert_eq!([0, 1, 77].map(|pid| allowed(Others::First, pid)), [true, false, true], "{call}");
            assert_eq!([0, 1, 77].map(|pid| allowed(Others::None, pid)), [true; 3], "{call}");
        }
        // A whole user, which has the number zero for "mine".
        for (call, user) in [(libc::SYS_setpriority, 2), (libc::SYS_ioprio_set, 3)] {
            let arguments = [user, 0, 0, 0, 0, 0];
            assert_ne!(answer(&program(Others::All), u32::try_from(call).unwrap(), arch, arguments), allow);
        }
    }
}
