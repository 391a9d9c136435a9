//! What a command is given besides its own: bubblewrap around it, the way to a proxy.

use std::ffi::{CString, OsString};
use std::fs::File;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use super::super::egress::Rule;
use super::super::root::Grants;
use super::super::{Command, bwrap};
use super::pipe;
use super::supervisor::Wrapped;

/// The variables that lead programs to the proxy of an allow-list. What is not asked of it is the command's own loopback, unless a
/// rule means this machine's.
pub(super) fn proxy_variables(rules: &[Rule]) -> Vec<(OsString, OsString)> {
    let host = IpAddr::from([127, 0, 0, 1]);
    let own =
        if rules.iter().any(|rule| rule.is_address(host)) { "localhost" } else { "localhost,127.0.0.1" };
    let proxy = format!("http://127.0.0.1:{}", super::GATE_PORT);
    let mut vars = Vec::new();
    for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"] {
        vars.push((name.into(), proxy.clone().into()));
    }
    for name in ["NO_PROXY", "no_proxy"] {
        vars.push((name.into(), own.into()));
    }
    // node looks at the others only if it is told to.
    vars.push(("NODE_USE_ENV_PROXY".into(), "1".into()));
    vars
}

/// What bubblewrap is started with besides the command's own descriptors.
pub(super) struct Wrapper {
    /// Bubblewrap and its arguments.
    pub words: Vec<OsString>,
    info: (OwnedFd, OwnedFd),
    hold: (OwnedFd, OwnedFd),
    block: (OwnedFd, OwnedFd),
    seccomp: OwnedFd,
}

impl Wrapper {
    pub(super) fn new(
        command: &Command,
        grants: &Grants,
        memory: u64,
        filters: &[Vec<seccompiler::sock_filter>],
    ) -> io::Result<Self> {
        let missing = || io::Error::new(io::ErrorKind::NotFound, "bubblewrap is not installed");
        let program = bwrap::program().ok_or_else(missing)?;
        let (info, hold, block) = (pipe()?, pipe()?, pipe()?);
        let (seccomp, program_in) = pipe()?;
        let mut bytes = Vec::new();
        for step in filters.iter().flatten() {
            bytes.extend_from_slice(&step.code.to_ne_bytes());
            bytes.extend_from_slice(&[step.jt, step.jf]);
            bytes.extend_from_slice(&step.k.to_ne_bytes());
        }
        // A program has at most 4096 steps of 8 bytes, and a pipe holds them.
        io::Write::write_all(&mut File::from(program_in), &bytes)?;
        let given = bwrap::Descriptors {
            info: info.1.as_raw_fd(),
            hold: hold.0.as_raw_fd(),
            block: block.0.as_raw_fd(),
            seccomp: seccomp.as_raw_fd(),
        };
        let words = bwrap::arguments(program, grants, &command.cwd, memory, given);
        Ok(Self { words, info, hold, block, seccomp })
    }

    pub(super) fn descriptors(&self) -> [RawFd; 7] {
        let Self { info, hold, block, seccomp, .. } = self;
        [&info.0, &info.1, &hold.0, &hold.1, &block.0, &block.1, seccomp].map(AsRawFd::as_raw_fd)
    }

    pub(super) fn plan(&self) -> Wrapped {
        let [info, info_in, hold, hold_in, block, block_in, seccomp] = self.descriptors();
        let inherit = [info_in, hold, block, seccomp];
        Wrapped { inherit, info, hold: [hold, hold_in], block: [block, block_in] }
    }
}

/// The user is root in the user namespace, and nobody else exists there.
pub(super) fn root_maps() -> [CString; 2] {
    // SAFETY: both only return numbers.
    let ids = unsafe { [libc::geteuid(), libc::getegid()] };
    ids.map(|id| CString::new(format!("0 {id} 1")).expect("digits and spaces have no NUL byte"))
}
