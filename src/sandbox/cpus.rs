//! How many processors a command sees: so many that whoever asks (`nproc`, a test runner that starts one worker for each) gets the
//! same answer on every machine. It is no wall: a command may ask the kernel for the others, and `/proc` and `/sys` list all of them.

use std::ffi::OsString;

/// The variables by which common runners and libraries are told how many threads or jobs to start. They do the same on every machine with or
/// without the processors, as some of these programs read `/sys`.
const VARIABLES: [&str; 11] = [
    "CARGO_BUILD_JOBS",
    "GOMAXPROCS",
    "MKL_NUM_THREADS",
    "NEXTEST_TEST_THREADS",
    "NUMEXPR_NUM_THREADS",
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "PYTEST_XDIST_AUTO_NUM_WORKERS",
    "PYTHON_CPU_COUNT",
    "RAYON_NUM_THREADS",
    "RUST_TEST_THREADS",
];

/// The variables that say `count`.
pub fn variables(count: u32) -> Vec<(OsString, OsString)> {
    VARIABLES.iter().map(|name| (name.into(), count.to_string().into())).collect()
}

/// The processors that this process may use, by their numbers.
#[cfg(target_os = "linux")]
fn allowed() -> Vec<usize> {
    // SAFETY: the set is plain data of the size that is told, and lives through the call.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        if libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set) != 0 {
            return Vec::new();
        }
        let most = usize::try_from(libc::CPU_SETSIZE).unwrap_or_default();
        (0..most).filter(|&cpu| libc::CPU_ISSET(cpu, &set)).collect()
    }
}

#[cfg(not(target_os = "linux"))]
fn allowed() -> Vec<usize> {
    Vec::new()
}

/// `count` of the processors of this process, or why it cannot give so many. Runners beside each other begin with different ones.
pub(super) fn choose(count: u32) -> Result<Vec<usize>, String> {
    let all = allowed();
    let wanted = count as usize;
    if wanted > all.len() {
        return Err(match all.len() {
            0 => format!(
                "check.cpus = {count}, and on this system no command is held to a number of processors"
            ),
            there => format!("check.cpus = {count}, and the runner has {there} here"),
        });
    }
    let first = std::process::id() as usize % all.len();
    let mut chosen: Vec<usize> = all.iter().cycle().skip(first).take(wanted).copied().collect();
    chosen.sort_unstable();
    Ok(chosen)
}

/// Whether a command can be held to so many processors here, and if not, why.
pub fn can_have(count: u32) -> Result<(), String> {
    choose(count).map(drop)
}

/// Processors as the kernel takes them.
#[cfg(target_os = "linux")]
pub(super) fn set_of(cpus: &[usize]) -> libc::cpu_set_t {
    // SAFETY: the set is plain data; numbers are those of another set, and so below its size.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        for &cpu in cpus {
            libc::CPU_SET(cpu, &mut set);
        }
        set
    }
}

/// Processors as an option of an engine takes them.
#[cfg(unix)]
pub(super) fn list_of(cpus: &[usize]) -> String {
    cpus.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn so_many_are_chosen_or_none() {
        let all = allowed();
        for count in 1..=u32::try_from(all.len()).unwrap() {
            let chosen = choose(count).unwrap();
            assert_eq!(chosen.len(), count as usize);
            assert!(
                chosen.iter().all(|cpu| all.contains(cpu)) && chosen.windows(2).all(|two| two[0] < two[1])
            );
        }
        assert!(choose(u32::try_from(all.len()).unwrap() + 1).unwrap_err().contains("the runner has"));
        assert_eq!(list_of(&[0, 3]), "0,3");
    }
}
