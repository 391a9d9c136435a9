use super::*;
use crate::git::testing::TestRepo;

fn refusal(repo: &TestRepo, dir: &Path) -> RepoError {
    Repo::discover(dir, repo.host()).unwrap_err()
}

#[test]
fn found_from_the_top_a_subfolder_and_inside_the_git_folder() {
    let repo = TestRepo::new();
    let sub = repo.path().join("a/b");
    std::fs::create_dir_all(&sub).unwrap();
    for dir in [repo.path(), &sub, &repo.path().join(".git")] {
        let open = Repo::discover(dir, repo.host()).unwrap();
        assert_eq!(open.worktree_root(), Some(repo.path()), "{}", dir.display());
        assert_eq!(open.git_dir(), repo.path().join(".git"));
        assert_eq!(open.common_dir(), open.git_dir());
        assert!(!open.is_linked_worktree());
        assert_eq!(open.require_commit().unwrap(), repo.id("HEAD"));
    }
    let relative = Repo::discover(Path::new("a"), repo.host()).unwrap();
    assert_eq!(relative.worktree_root(), Some(repo.path()));
}

#[test]
fn git_dir_and_work_tree_variables() {
    let repo = TestRepo::new();
    let elsewhere = repo.outside().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    let host = repo.host().clone().with_var("GIT_DIR", repo.path().join(".git"));
    let open = Repo::discover(&elsewhere, &host).unwrap();
    assert_eq!(open.git_dir(), repo.path().join(".git"));
    let host = host.with_var("GIT_WORK_TREE", &elsewhere);
    assert_eq!(Repo::discover(repo.path(), &host).unwrap().worktree_root(), Some(elsewhere.as_path()));
    let host = repo.host().clone().with_var("GIT_DIR", ".git");
    assert_eq!(Repo::discover(repo.path(), &host).unwrap().worktree_root(), Some(repo.path()));
    let host = host.with_var("GIT_DIR", "/nowhere");
    let error = Repo::discover(repo.path(), &host).unwrap_err();
    assert_eq!(error.to_string(), "GIT_DIR names /nowhere, which has no HEAD");
    let host = repo.host().clone().with_var("GIT_NAMESPACE", "x");
    assert_eq!(
        Repo::discover(repo.path(), &host).unwrap_err().to_string(),
        "GIT_NAMESPACE is set, which is not supported"
    );
}

#[test]
fn linked_worktrees_share_the_common_folder() {
    let repo = TestRepo::new();
    let linked = repo.outside().join("linked");
    repo.git(["worktree", "add", "-q", "--detach", linked.to_str().unwrap()]);
    let open = Repo::discover(&linked, repo.host()).unwrap();
    assert!(open.is_linked_worktree());
    assert_eq!(open.common_dir(), repo.path().join(".git"));
    assert_eq!(open.git_dir(), repo.path().join(".git/worktrees/linked"));
    assert_eq!(open.worktree_root(), Some(linked.as_path()));
    assert_eq!(open.require_commit().unwrap(), repo.id("HEAD"));
    // What git exports to a hook that runs in a linked worktree.
    let host = repo.host().clone().with_var("GIT_DIR", open.git_dir());
    assert_eq!(Repo::discover(&linked, &host).unwrap().worktree_root(), Some(linked.as_path()));
}

/// A pruned registration must not send us to the repository around the worktree.
#[test]
fn a_git_file_that_leads_nowhere_is_an_error() {
    let repo = TestRepo::new();
    let linked = repo.path().join("linked");
    repo.git(["worktree", "add", "-q", "--detach", linked.to_str().unwrap()]);
    std::fs::remove_dir_all(repo.path().join(".git/worktrees/linked")).unwrap();
    let error = refusal(&repo, &linked);
    assert!(matches!(error, RepoError::Broken { .. }), "{error}");
    assert!(error.to_string().ends_with("which has no HEAD"), "{error}");
}

#[test]
fn refusals_are_distinct_and_name_the_way_out() {
    let repo = TestRepo::new();
    let hint = |error: RepoError| crate::error::Error::from(error).hints().join("; ");
    let error = refusal(&repo, repo.outside());
    assert!(matches!(error, RepoError::NotARepository { .. }), "{error}");
    assert!(hint(error).contains("git init"));

    let bare = repo.outside().join("bare.git");
    repo.git(["clone", "-q", "--bare", ".", bare.to_str().unwrap()]);
    let error = refusal(&repo, &bare);
    assert!(matches!(error, RepoError::Bare { .. }), "{error}");
    assert!(hint(error).contains("git worktree add"));
    let open = Repo::open_bare_ok(&bare, repo.host()).unwrap();
    assert_eq!((open.worktree_root(), open.require_commit().unwrap()), (None, repo.id("HEAD")));
    let linked = repo.outside().join("of-bare");
    repo.git(["-C", bare.to_str().unwrap(), "worktree", "add", "-q", "--detach", linked.to_str().unwrap()]);
    assert_eq!(Repo::discover(&linked, repo.host()).unwrap().worktree_root(), Some(linked.as_path()));

    repo.commit("second");
    let shallow = repo.outside().join("shallow");
    let url = format!("file://{}", repo.path().display());
    repo.git(["clone", "-q", "--depth", "1", &url, shallow.to_str().unwrap()]);
    let error = refusal(&repo, &shallow);
    assert!(matches!(error, RepoError::Shallow { .. }), "{error}");
    assert!(hint(error).contains("--unshallow"));
    assert!(Repo::open(&shallow, repo.host(), Allow { bare: false, shallow: true }).unwrap().is_shallow());

    let empty = TestRepo::without_commit(&[]);
    let error = empty.open().require_commit().unwrap_err();
    assert!(matches!(error, RepoError::NoCommit { .. }), "{error}");
}

#[test]
fn reftables_and_unknown_extensions_are_refused_and_known_ones_are_not() {
    let repo = TestRepo::with(&["--ref-format=reftable"]);
    let error = refusal(&repo, repo.path());
    assert!(matches!(&error, RepoError::RefStorage { format, .. } if format == "reftable"), "{error}");

    let repo = TestRepo::new();
    let file = repo.path().join(".git/config");
    // Newer than the git that may run these tests: field report 2.30.
    std::fs::write(&file, "[core]\nrepositoryFormatVersion = 1\n[extensions]\nrelativeWorktrees = true\n")
        .unwrap();
    repo.open();
    std::fs::write(&file, "[core]\nrepositoryFormatVersion = 1\n[extensions]\nfromTheFuture = true\n")
        .unwrap();
    let error = refusal(&repo, repo.path());
    assert!(error.to_string().contains("the extension 'fromTheFuture'"), "{error}");
    std::fs::write(&file, "[core]\nrepositoryFormatVersion = 2\n").unwrap();
    let error = refusal(&repo, repo.path());
    assert!(error.to_string().contains("repository format version 2"), "{error}");
}

#[test]
fn corrupt_head_and_config_are_named() {
    let repo = TestRepo::new();
    std::fs::write(repo.path().join(".git/HEAD"), "").unwrap();
    let error = refusal(&repo, repo.path());
    assert!(error.to_string().ends_with("has a HEAD that names neither a branch nor a commit"), "{error}");
    let repo = TestRepo::new();
    std::fs::write(repo.path().join(".git/config"), "[core\n").unwrap();
    let error = refusal(&repo, repo.path());
    assert!(matches!(error, RepoError::Config(ConfigError::Parse { .. })), "{error}");
}

#[test]
fn sha256_repositories_open() {
    let repo = TestRepo::with(&["--object-format=sha256"]);
    let open = repo.open();
    assert_eq!(open.hash_kind(), gix::hash::Kind::Sha256);
    assert_eq!(open.require_commit().unwrap(), repo.id("HEAD"));
}

/// Field report 1.47: `git replace` made an unsigned commit look signed.
#[test]
fn replace_refs_have_no_effect() {
    let repo = TestRepo::new();
    let (first, second) = (repo.id("HEAD"), repo.commit("second"));
    repo.git(["replace", &second.to_string(), &first.to_string()]);
    let open = repo.open();
    let commit = open.gix().find_commit(second).unwrap();
    assert_eq!(commit.message_raw().unwrap(), "second\n");
}

#[cfg(unix)]
#[test]
fn repositories_of_others_are_refused_unless_declared_safe() {
    use std::os::unix::fs::{MetadataExt, chown};
    let repo = TestRepo::new();
    if repo.path().metadata().unwrap().uid() != 0 {
        return; // Only root can give files away.
    }
    let git_dir = repo.path().join(".git");
    chown(&git_dir, Some(12345), None).unwrap();
    let error = refusal(&repo, repo.path());
    assert!(matches!(&error, RepoError::ForeignOwner { path, .. } if *path == git_dir), "{error}");
    repo.git(["config", "--global", "--add", "safe.directory", repo.outside().join("*").to_str().unwrap()]);
    repo.open();
    repo.git(["config", "--global", "--add", "safe.directory", ""]);
    assert!(matches!(refusal(&repo, repo.path()), RepoError::ForeignOwner { .. }));
    // What the repository itself declares does not count.
    std::fs::write(git_dir.join("config"), "[safe]\ndirectory = *\n").unwrap();
    assert!(matches!(refusal(&repo, repo.path()), RepoError::ForeignOwner { .. }));
}

#[test]
fn ceilings_stop_the_search() {
    let repo = TestRepo::new();
    let sub = repo.path().join("sub");
    std::fs::create_dir(&sub).unwrap();
    let host = repo.host().clone().with_var("GIT_CEILING_DIRECTORIES", repo.path());
    assert!(matches!(Repo::discover(&sub, &host), Err(RepoError::NotARepository { .. })));
    Repo::discover(repo.path(), &host).unwrap();
}
