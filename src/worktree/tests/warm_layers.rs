//! Layers that a fresh worktree starts with.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::time::{Duration, UNIX_EPOCH};

use super::*;
use crate::worktree::{WarmLayers, copy_on_write};

#[test]
fn copies_keep_times_modes_links_and_share_nothing_writable() {
    let temp = tempfile::tempdir().unwrap();
    let source = temp.path().join("target");
    put(&source, "debug/deps/libx.rlib", "lib");
    put(&source, "debug/run", "run");
    make_executable(&source.join("debug/run"));
    fs::hard_link(source.join("debug/deps/libx.rlib"), source.join("debug/libx.rlib")).unwrap();
    link("deps/libx.rlib", &source.join("debug/latest"));
    link("/etc", &source.join("debug/etc"));
    fs::create_dir(source.join("empty")).unwrap();
    for number in 0..400 {
        put(&source, &format!("many/{number}"), number.to_string());
    }
    let time = UNIX_EPOCH + Duration::new(1_600_000_000, 123_456_789);
    let set = |path: &str| fs::File::open(source.join(path)).unwrap().set_modified(time).unwrap();
    set("debug/deps/libx.rlib");
    set("many/7");
    set("debug/deps");
    fs::set_permissions(source.join("empty"), fs::Permissions::from_mode(0o555)).unwrap();

    let target = temp.path().join("copy");
    let stats = copy_on_write(&source, &target).unwrap();
    assert_eq!(stats.files, 403);
    for path in ["debug/deps/libx.rlib", "many/7", "debug/deps"] {
        assert_eq!(fs::metadata(target.join(path)).unwrap().modified().unwrap(), time, "{path}");
    }
    assert_eq!(fs::metadata(target.join("debug/run")).unwrap().mode() & 0o777, 0o755);
    assert_eq!(fs::metadata(target.join("empty")).unwrap().mode() & 0o777, 0o555);
    assert_eq!(fs::read_link(target.join("debug/etc")).unwrap(), Path::new("/etc"));
    let inode = |path: PathBuf| fs::metadata(path).unwrap().ino();
    assert_eq!(inode(target.join("debug/libx.rlib")), inode(target.join("debug/deps/libx.rlib")));
    assert_ne!(inode(target.join("debug/libx.rlib")), inode(source.join("debug/libx.rlib")));
    fs::write(target.join("debug/libx.rlib"), "worker").unwrap();
    assert_eq!(fs::read(source.join("debug/deps/libx.rlib")).unwrap(), b"lib");
    assert!(copy_on_write(&source, &target).is_err());
    fs::set_permissions(source.join("empty"), fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn layers_go_where_the_tree_has_nothing_and_never_through_a_link() {
    let temp = tempfile::tempdir().unwrap();
    let (source, place, outside) = (temp.path().join("s"), temp.path().join("p"), temp.path().join("o"));
    put(&source, "web/node_modules/x/index.js", "x");
    put(&source, "target/debug/y", "y");
    put(&outside, "keep", "k");
    fs::create_dir(&place).unwrap();
    let folders = ["web/node_modules".into(), "target/".into(), "absent".into()];
    let layers = WarmLayers::prepare(&source, &folders).unwrap();
    let done = layers.copy_to(&place, None).unwrap();
    assert_eq!((done.stats.files, done.left_out.len()), (2, 0));
    assert_eq!(fs::read(place.join("web/node_modules/x/index.js")).unwrap(), b"x");
    fs::write(place.join("target/debug/y"), "mine").unwrap();
    let again = layers.copy_to(&place, None).unwrap();
    assert_eq!((again.stats.files, again.left_out.len()), (0, 2));
    assert_eq!(fs::read(place.join("target/debug/y")).unwrap(), b"mine");

    // A link above, a link in the very place, and files in both: never followed, never replaced.
    let inside = |name: &str| temp.path().join(name);
    for (number, what) in
        ["link above", "link to a folder", "broken link", "file above", "file"].into_iter().enumerate()
    {
        let place = inside(&format!("p{number}-2"));
        fs::create_dir(&place).unwrap();
        match what {
            "link above" => symlink(&outside, place.join("web")).unwrap(),
            "link to a folder" => {
                fs::create_dir(place.join("web")).unwrap();
                symlink(&outside, place.join("web/node_modules")).unwrap();
            }
            "broken link" => symlink("/nonexistent", place.join("web")).unwrap(),
            "file above" => put(&place, "web", "file"),
            _ => put(&place, "web/node_modules", "file"),
        }
        let done = layers.copy_to(&place, None).unwrap();
        assert_eq!(done.left_out, ["web/node_modules"], "{what}");
        assert_eq!(done.stats.files, 1, "{what}: the other folder is copied");
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 1, "{what}");
    }
    for bad in ["../x", "/etc", "a//b", ".git", ""] {
        assert!(WarmLayers::prepare(&source, &[bad.into()]).is_err(), "{bad}");
    }
}
