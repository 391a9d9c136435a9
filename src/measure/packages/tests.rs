//! Small manifests and lock files, read by hand.

use proptest::prelude::*;

use super::*;

/// The names with their versions, `+` before those that a manifest asks for.
fn read(manifest: Manifest, text: &str) -> Vec<String> {
    let listed = manifest.read(text.as_bytes()).unwrap_or_else(|why| panic!("{why}"));
    let told = |one: Named| format!("{}{} {}", if one.direct { "+" } else { "" }, one.name, one.version);
    let mut all: Vec<String> =
        listed.packages.into_iter().map(|one| told(one).trim_end().to_owned()).collect();
    all.sort();
    all
}

/// Holds what a file names to this, in any order.
#[track_caller]
fn check(manifest: Manifest, text: &str, expected: &[&str]) {
    let mut expected = expected.to_vec();
    expected.sort_unstable();
    assert_eq!(read(manifest, text), expected);
}

#[test]
fn files_are_known_by_their_names() {
    assert_eq!(Role::of(b"a/Cargo.toml"), Role::Read(Manifest::CargoToml));
    assert_eq!(Role::of(b"requirements-dev.txt"), Role::Read(Manifest::Requirements));
    assert_eq!(Role::of(b"a/dev-requirements.txt"), Role::Read(Manifest::Requirements));
    assert_eq!(Role::of(b"requirements/base.txt"), Role::Read(Manifest::Requirements));
    assert_eq!(Role::of(b"setup.py"), Role::Unread);
    assert_eq!(Role::of(b"a/b.csproj"), Role::Unread);
    assert_eq!(Role::of(b"notes.txt"), Role::None);
    assert_eq!(Role::of(b"node_modules/a/package.json"), Role::None);
    assert_eq!(Role::of(b"a/vendor/b/go.mod"), Role::None);
    assert_eq!(Role::of(b"\xff/Cargo.toml"), Role::None);
}

#[test]
fn cargo() {
    let text = r#"
[package]
name = "own"
[dependencies]
a = "1"
renamed = { package = "real-b", version = "2" }
near = { path = "../near", version = "1" }
shared = { workspace = true }
[dev-dependencies.c]
git = "https://example.org/c"
[build-dependencies]
d = "3"
[target.'cfg(unix)'.dependencies]
e = "4"
[workspace.dependencies]
shared = "5"
"#;
    check(Manifest::CargoToml, text, &["+a 1", "+c", "+d 3", "+e 4", "+real-b 2", "+shared 5"]);
    let lock = r#"
version = 4
[[package]]
name = "own"
version = "0.1.0"
[[package]]
name = "a"
version = "1.0.1"
source = "registry+https://github.com/rust-lang/crates.io-index"
"#;
    check(Manifest::CargoLock, lock, &["a 1.0.1"]);
    check(Manifest::CargoLock, "", &[]);
    assert!(Manifest::CargoToml.read(b"[dependencies").is_err());
    assert!(Manifest::CargoToml.read(b"dependencies = 1").is_err());
    assert!(Manifest::CargoLock.read(b"[[package]]\nversion = '1'").is_err());
}

#[test]
fn npm() {
    let text = r#"{ "name": "own", "dependencies": { "a": "^1", "@s/b": "2", "alias": "npm:@t/real@3", "w": "workspace:*" },
        "devDependencies": { "c": "file:../c" }, "peerDependencies": { "d": ">=4" }, "optionalDependencies": {} }"#;
    check(Manifest::PackageJson, text, &["+a ^1", "+@s/b 2", "+@t/real 3", "+d >=4"]);
    // Version 1 nests, versions 2 and 3 have paths.
    let one = r#"{ "lockfileVersion": 1, "dependencies": { "a": { "version": "1.0.0", "dependencies": { "b": { "version": "2.0.0" } } },
        "x": { "version": "npm:real@3.0.0" }, "l": { "version": "file:l" } } }"#;
    check(Manifest::PackageLock, one, &["a 1.0.0", "b 2.0.0", "real 3.0.0"]);
    let three = r#"{ "lockfileVersion": 3, "packages": { "": { "name": "own" }, "packages/w": { "version": "1.0.0" },
        "node_modules/w": { "link": true, "resolved": "packages/w" }, "node_modules/@s/a": { "version": "1.0.0" },
        "node_modules/@s/a/node_modules/b": { "version": "2.0.0" }, "node_modules/x": { "name": "real", "version": "3.0.0" } } }"#;
    check(Manifest::PackageLock, three, &["@s/a 1.0.0", "b 2.0.0", "real 3.0.0"]);
    assert!(Manifest::PackageJson.read(b"[]").is_err());
    assert!(Manifest::PackageLock.read(b"{").is_err());
}

#[test]
fn yarn_and_pnpm() {
    let one = "# yarn lockfile v1\n\n\n\"@s/a@^1.0.0\", \"@s/a@^1.1.0\":\n  version \"1.2.0\"\n  resolved \"https://example.org\"\n  dependencies:\n    b \"^2\"\n\nb@^2:\n  version \"2.0.0\"\n";
    check(Manifest::YarnLock, one, &["@s/a 1.2.0", "b 2.0.0"]);
    let later = "__metadata:\n  version: 8\n  cacheKey: 10\n\n\"@s/a@npm:^1.0.0\":\n  version: 1.2.0\n  resolution: \"@s/a@npm:1.2.0\"\n\n\"x@npm:real@^3\":\n  version: 3.0.0\n\n\"own@workspace:.\":\n  version: 0.0.0-use.local\n";
    check(Manifest::YarnLock, later, &["@s/a 1.2.0", "real 3.0.0"]);
    assert!(Manifest::YarnLock.read(b"what is this\n").is_err());
    let five = "lockfileVersion: 5.4\n\npackages:\n\n  /@s/a/1.2.0:\n    resolution: {integrity: x}\n\n  /b/2.0.0:\n    dev: true\n";
    check(Manifest::PnpmLock, five, &["@s/a 1.2.0", "b 2.0.0"]);
    let six = "lockfileVersion: '6.0'\npackages:\n  /@s/a@1.2.0(b@2.0.0):\n    dev: true\n";
    check(Manifest::PnpmLock, six, &["@s/a 1.2.0"]);
    let nine = "lockfileVersion: '9.0'\nimporters:\n  .:\n    dependencies:\n      b:\n        version: 2.0.0\npackages:\n  '@s/a@1.2.0':\n    resolution: {}\n  b@2.0.0:\n    resolution: {}\nsnapshots:\n  b@2.0.0: {}\n";
    check(Manifest::PnpmLock, nine, &["@s/a 1.2.0", "b 2.0.0"]);
    assert!(Manifest::PnpmLock.read(b"packages:\n").is_err());
}

#[test]
fn requirement_files() {
    let text = "# comment\nA_b.C==1.0 ; python_version > '3' # why\nd[x,y]>=2 \\\n    --hash=sha256:00\n-r other.txt\n--index-url https://example.org\n-e git+https://example.org/e#egg=E_e\nf @ https://example.org/f.whl\n./local\ng\n";
    check(
        Manifest::Requirements,
        text,
        &["+a-b-c ==1.0", "+d >=2", "+e-e", "+f @ https://example.org/f.whl", "+g"],
    );
}

#[test]
fn python_projects_and_locks() {
    let text = r#"
[project]
name = "Own"
dependencies = ["a>=1", "b[x] ; python_version > '3'"]
[project.optional-dependencies]
extra = ["c"]
[build-system]
requires = ["d"]
[dependency-groups]
dev = ["e", { include-group = "test" }]
[tool.poetry.dependencies]
python = "^3"
f = "^1"
near = { path = "../near" }
[tool.poetry.group.dev.dependencies]
g = { version = "2" }
[tool.uv]
dev-dependencies = ["h"]
"#;
    check(Manifest::PyProject, text, &["+a >=1", "+b", "+c", "+d", "+e", "+f ^1", "+g 2", "+h"]);
    assert!(Manifest::PyProject.read(text.as_bytes()).unwrap().own.contains("own"));
    let uv = "[[package]]\nname = 'own'\nsource = { editable = '.' }\n[[package]]\nname = 'A_b'\nversion = '1'\nsource = { registry = 'x' }\n";
    check(Manifest::PythonLock, uv, &["a-b 1"]);
    check(Manifest::PythonLock, "[[packages]]\nname = 'a'\nversion = '1'\n", &["a 1"]);
    let pipfile =
        "[packages]\na = '*'\n[dev-packages]\nb = { version = '1' }\n[requires]\npython_version = '3'\n";
    check(Manifest::Pipfile, pipfile, &["+a *", "+b 1"]);
    let lock =
        r#"{ "_meta": { "hash": {} }, "default": { "a": { "version": "==1" } }, "develop": { "b": {} } }"#;
    check(Manifest::PipfileLock, lock, &["a ==1", "b"]);
}

#[test]
fn go() {
    let text = "module example.org/own\n\ngo 1.22\n\nrequire example.org/a v1.0.0\n\nrequire (\n\texample.org/b v2.0.0 // indirect\n\texample.org/c v3.0.0 // why\n)\n\nreplace example.org/a => ../a\nexclude (\n\texample.org/d v1.0.0\n)\n";
    check(Manifest::GoMod, text, &["+example.org/a v1.0.0", "example.org/b v2.0.0", "+example.org/c v3.0.0"]);
    let sums =
        "example.org/a v1.0.0 h1:x=\nexample.org/a v1.0.0/go.mod h1:y=\nexample.org/z v0.1.0/go.mod h1:z=\n";
    check(Manifest::GoSum, sums, &["example.org/a v1.0.0"]);
    assert!(Manifest::GoSum.read(b"<html>\n").is_err());
    assert!(Manifest::GoMod.read(b"require a\n").is_err());
}

#[test]
fn maven() {
    let text = r#"<?xml version="1.0"?>
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <parent><groupId>org.parent</groupId><artifactId>parent</artifactId><version>1</version></parent>
  <artifactId>own</artifactId>
  <dependencyManagement><dependencies><dependency><groupId>m</groupId><artifactId>managed</artifactId></dependency></dependencies></dependencyManagement>
  <dependencies>
    <dependency><groupId>g</groupId><artifactId>a</artifactId><version>1</version>
      <exclusions><exclusion><groupId>x</groupId><artifactId>y</artifactId></exclusion></exclusions></dependency>
    <dependency><groupId>${project.groupId}</groupId><artifactId>sibling</artifactId></dependency>
  </dependencies>
  <build><plugins><plugin><artifactId>p</artifactId></plugin></plugins></build>
</project>"#;
    let listed = Manifest::Pom.read(text.as_bytes()).unwrap();
    assert_eq!(listed.own.iter().collect::<Vec<_>>(), ["org.parent:own"]);
    check(Manifest::Pom, text, &["+g:a 1", "+org.parent:sibling", "+org.apache.maven.plugins:p"]);
    assert!(Manifest::Pom.read(b"<project><dependencies>").is_err());
    assert!(Manifest::Pom.read("<a>".repeat(1000).as_bytes()).is_err());
}

fn all(files: &[(Manifest, &str)]) -> All {
    let mut all = All::default();
    for (manifest, text) in files {
        all.add(manifest.ecosystem(), manifest.read(text.as_bytes()).unwrap());
    }
    all
}

#[test]
fn packages_count_once_by_ecosystem_and_name_and_versions_count_nothing() {
    let old = all(&[
        (Manifest::Requirements, "a==1\nb==1\ngone\n"),
        (Manifest::PackageJson, r#"{ "name": "own", "dependencies": { "a": "1", "own2": "1" } }"#),
    ]);
    let new = all(&[
        (Manifest::Requirements, "a==2\nb==1\nc\n"),
        (
            Manifest::PythonLock,
            "[[package]]\nname = 'c'\nversion = '3'\n[[package]]\nname = 'd'\nversion = '4'\n",
        ),
        (Manifest::PackageJson, r#"{ "name": "own", "dependencies": { "a": "1", "own2": "1", "c": "1" } }"#),
        (Manifest::PackageJson, r#"{ "name": "own2" }"#),
    ]);
    let changes = compare(&old, &new);
    let added: Vec<_> =
        changes.added.iter().map(|one| (one.ecosystem, one.name.as_str(), one.direct, one.locked)).collect();
    assert_eq!(
        added,
        [
            (Ecosystem::Npm, "c", true, false),
            (Ecosystem::PyPi, "c", true, true),
            (Ecosystem::PyPi, "d", false, true)
        ]
    );
    let removed: Vec<_> = changes.removed.iter().map(|one| (one.ecosystem, one.name.as_str())).collect();
    // A dependency on what is now made here is none on others.
    assert_eq!(removed, [(Ecosystem::Npm, "own2"), (Ecosystem::PyPi, "gone")]);
    assert_eq!(changes.changed.len(), 1);
    assert_eq!(
        (&changes.changed[0].old, &changes.changed[0].new),
        (&vec!["==1".to_owned()], &vec!["==2".to_owned()])
    );
    assert_eq!(changes.net(), 1);
    assert_eq!(compare(&new, &old).net(), -1);
    assert_eq!(compare(&new, &new), PackageChanges::default());
}

proptest! {
    #[test]
    fn no_bytes_are_too_strange(text in "[\\PC\n\t]{0,200}", bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        use Manifest::*;
        for manifest in [
            CargoToml, CargoLock, PackageJson, PackageLock, YarnLock, PnpmLock, Requirements, PyProject, Pipfile, PipfileLock,
            PythonLock, GoMod, GoSum, Pom,
        ] {
            let _ = manifest.read(text.as_bytes());
            let _ = manifest.read(&bytes);
        }
    }
}
