//! Which names may be made on a disk, whatever the tree says and whatever file system it is.

use gix::bstr::BStr;
use gix::validate::path::component;

/// What is wrong with one component of a path, if anything. Names that git, HFS+ or NTFS take for `.git` are refused
/// on every platform, so that a candidate made here is as safe in any clone; names that only Windows cannot hold are
/// refused there.
pub(super) fn objection(name: &BStr, is_link: bool) -> Option<String> {
    if name.contains(&0) {
        return Some("a NUL byte in a name".to_owned());
    }
    let options =
        component::Options { protect_windows: cfg!(windows), protect_hfs: true, protect_ntfs: true };
    let mode = is_link.then_some(component::Mode::Symlink);
    component(name, mode, options).err().map(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use gix::bstr::ByteSlice;

    use super::objection;

    #[test]
    fn every_spelling_of_dot_git_is_refused() {
        for name in [
            ".git",
            ".GIT",
            ".Git",
            "git~1",
            "GIT~1",
            ".git.",
            ".git ",
            ".git. .",
            ".git::$INDEX_ALLOCATION",
            ".g\u{200c}it",
            ".gi\u{200d}t",
            "\u{feff}.git",
            "..",
            ".",
            "",
            "a/b",
            "a\0b",
        ] {
            assert!(objection(name.as_bytes().as_bstr(), false).is_some(), "{name:?} got through");
        }
        assert!(objection(b".gitmodules".as_bstr(), true).is_some());
    }

    #[test]
    fn ordinary_and_odd_names_are_fine() {
        for name in [
            &b".gitignore"[..],
            b".gitmodules",
            b"git",
            b"...",
            b"a b",
            b"aux.c",
            b"\xff\xfe",
            "\u{e9}t\u{e9}".as_bytes(),
        ] {
            if cfg!(unix) {
                assert_eq!(objection(name.as_bstr(), false), None, "{name:?}");
            }
        }
    }
}
