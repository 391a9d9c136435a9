//! The `sandbox-exec` adapter of macOS: the profile that the kernel holds a command to, as text.
//!
//! In such a profile the last rule that matches wins. Paths are real ones: `/tmp` and `/etc` are links on macOS.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use super::Network;

/// The program that puts a profile into force. It is part of the system.
pub(super) const PROGRAM: &str = "/usr/bin/sandbox-exec";

/// What every command may read: programs, libraries, their configuration.
pub(super) const BASE: [&str; 11] = [
    "/bin",
    "/sbin",
    "/usr",
    "/opt",
    "/System",
    "/Library",
    "/Applications/Xcode.app",
    "/private/etc",
    "/private/var/db/dyld",
    "/private/var/db/timezone",
    "/private/var/select",
];

/// And what of it none may: keys.
const CLOSED: [&str; 3] = ["/Library/Keychains", "/private/etc/ssh", "/private/etc/master.passwd"];

/// Devices that hold no state of the host.
const DEVICES: [&str; 6] = ["null", "zero", "random", "urandom", "tty", "dtracehelper"];

/// The profile for these folders, whose paths are real ones, and this network. `None` if a path cannot be written in one.
pub(super) fn profile(
    writable: &[PathBuf],
    readable: &[PathBuf],
    hidden: &[PathBuf],
    network: Network,
) -> Option<String> {
    let mut text = String::from("(version 1)\n(deny default)\n(allow process-fork process-exec)\n");
    text.push_str("(allow signal process-info* (target same-sandbox))\n(allow sysctl-read ipc-posix-sem)\n");
    text.push_str("(allow mach-lookup (global-name \"com.apple.system.opendirectoryd.libinfo\"))\n");
    text.push_str("(allow file-read-metadata)\n(allow file-read* (literal \"/\"))\n");
    let mut rule = |verb: &str, what: &str, kind: &str, path: &str| {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "({verb} {what} ({kind} \"{path}\"))");
    };
    for path in BASE {
        rule("allow", "file-read*", "subpath", path);
    }
    for name in DEVICES {
        rule("allow", "file-read* file-write-data file-ioctl", "literal", &format!("/dev/{name}"));
    }
    for path in CLOSED {
        rule("deny", "file-read*", "subpath", path);
    }
    let is_hidden = |path: &&PathBuf| hidden.iter().any(|above| path.starts_with(above));
    for path in readable.iter().filter(|path| !is_hidden(path)) {
        rule("allow", "file-read*", "subpath", quotable(path)?);
    }
    for path in hidden {
        rule("deny", "file-read*", "subpath", quotable(path)?);
    }
    for path in readable.iter().filter(is_hidden) {
        rule("allow", "file-read*", "subpath", quotable(path)?);
        for below in hidden.iter().filter(|below| *below != path && below.starts_with(path)) {
            rule("deny", "file-read*", "subpath", quotable(below)?);
        }
    }
    for path in writable {
        rule("allow", "file-read* file-write*", "subpath", quotable(path)?);
    }
    if network == Network::Host {
        text.push_str(
            "(allow network* system-socket)\n(allow mach-lookup (global-name \"com.apple.trustd\"))\n",
        );
    }
    Some(text)
}

/// A path that ends no string.
fn quotable(path: &Path) -> Option<&str> {
    path.to_str().filter(|text| text.starts_with('/') && !text.contains(['"', '\\', '\n']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_profile_grants_what_the_policy_grants_and_nothing_else() {
        let (writable, readable) = ([PathBuf::from("/w/tree")], [PathBuf::from("/r/tools")]);
        let closed = profile(&writable, &readable, &[], Network::None).unwrap();
        insta::assert_snapshot!(closed, @r#"
        (version 1)
        (deny default)
        (allow process-fork process-exec)
        (allow signal process-info* (target same-sandbox))
        (allow sysctl-read ipc-posix-sem)
        (allow mach-lookup (global-name "com.apple.system.opendirectoryd.libinfo"))
        (allow file-read-metadata)
        (allow file-read* (literal "/"))
        (allow file-read* (subpath "/bin"))
        (allow file-read* (subpath "/sbin"))
        (allow file-read* (subpath "/usr"))
        (allow file-read* (subpath "/opt"))
        (allow file-read* (subpath "/System"))
        (allow file-read* (subpath "/Library"))
        (allow file-read* (subpath "/Applications/Xcode.app"))
        (allow file-read* (subpath "/private/etc"))
        (allow file-read* (subpath "/private/var/db/dyld"))
        (allow file-read* (subpath "/private/var/db/timezone"))
        (allow file-read* (subpath "/private/var/select"))
        (allow file-read* file-write-data file-ioctl (literal "/dev/null"))
        (allow file-read* file-write-data file-ioctl (literal "/dev/zero"))
        (allow file-read* file-write-data file-ioctl (literal "/dev/random"))
        (allow file-read* file-write-data file-ioctl (literal "/dev/urandom"))
        (allow file-read* file-write-data file-ioctl (literal "/dev/tty"))
        (allow file-read* file-write-data file-ioctl (literal "/dev/dtracehelper"))
        (deny file-read* (subpath "/Library/Keychains"))
        (deny file-read* (subpath "/private/etc/ssh"))
        (deny file-read* (subpath "/private/etc/master.passwd"))
        (allow file-read* (subpath "/r/tools"))
        (allow file-read* file-write* (subpath "/w/tree"))
        "#);
        let open = profile(&writable, &readable, &[], Network::Host).unwrap();
        let added =
            "(allow network* system-socket)\n(allow mach-lookup (global-name \"com.apple.trustd\"))\n";
        assert_eq!(open, closed + added);
    }

    #[test]
    fn what_is_hidden_is_closed_and_what_is_granted_in_it_open_again() {
        let readable = ["/r", "/r/repo/venv"].map(PathBuf::from);
        let text = profile(&[PathBuf::from("/r/w")], &readable, &[PathBuf::from("/r/repo")], Network::None);
        let text = text.unwrap();
        let at = |rule: &str| text.find(rule).unwrap_or_else(|| panic!("{rule}: {text}"));
        let order = [
            "(allow file-read* (subpath \"/r\"))",
            "(deny file-read* (subpath \"/r/repo\"))",
            "(allow file-read* (subpath \"/r/repo/venv\"))",
            "(allow file-read* file-write* (subpath \"/r/w\"))",
        ];
        assert!(order.windows(2).all(|pair| at(pair[0]) < at(pair[1])), "{text}");
    }

    #[test]
    fn a_path_that_would_end_a_string_is_refused() {
        for path in ["/a\"))(allow default)(\"", "/a\\", "relative", "/a\nb"] {
            assert_eq!(profile(&[path.into()], &[], &[], Network::None), None, "{path:?}");
        }
    }
}
