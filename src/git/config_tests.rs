use super::*;
use crate::git::testing::TestRepo;

fn load(repo: &TestRepo, host: &HostEnv) -> Config {
    let git_dir = repo.path().join(".git");
    let dirs = RepoDirs { git_dir: &git_dir, common_dir: &git_dir, base: repo.path() };
    Config::load(host, dirs).unwrap()
}

#[test]
fn precedence_is_gits() {
    let repo = TestRepo::new();
    let host = repo.host();
    repo.git(["config", "--global", "loop.remote", "global"]);
    assert_eq!(load(&repo, host).loop_remote().as_deref(), Some("global"));
    repo.git(["config", "loop.remote", "local"]);
    assert_eq!(load(&repo, host).loop_remote().as_deref(), Some("local"));
    repo.git(["config", "extensions.worktreeConfig", "true"]);
    repo.git(["config", "--worktree", "loop.remote", "worktree"]);
    assert_eq!(load(&repo, host).loop_remote().as_deref(), Some("worktree"));
    let host = host.clone().with_var("GIT_CONFIG_COUNT", "1").with_var("GIT_CONFIG_KEY_0", "Loop.REMOTE");
    let host = host.with_var("GIT_CONFIG_VALUE_0", "counted");
    assert_eq!(load(&repo, &host).loop_remote().as_deref(), Some("counted"));
    let host = host.with_var("GIT_CONFIG_PARAMETERS", "'loop.remote=parameters'");
    let config = load(&repo, &host);
    assert_eq!(config.loop_remote().as_deref(), Some("parameters"));
    assert_eq!(config.get_all("loop.remote"), ["global", "local", "worktree", "counted", "parameters"]);
    assert_eq!(config.entry("loop.remote").unwrap().scope, Scope::Command);
}

#[test]
fn what_git_exports_for_dash_c_is_what_we_read() {
    let repo = TestRepo::new();
    let exported = repo.git([
        "-c",
        "a.b=it's! =x",
        "-c",
        "c.D.e",
        "-c",
        "alias.parameters=!printenv GIT_CONFIG_PARAMETERS",
        "parameters",
    ]);
    let host = repo.host().clone().with_var("GIT_CONFIG_PARAMETERS", exported.trim_end());
    let config = load(&repo, &host);
    assert_eq!(config.get("a.b").as_deref(), Some("it's! =x"));
    assert_eq!(config.get_bool("c.D.e").unwrap(), Some(true));
    assert_eq!(config.get("c.d.e"), None, "subsections keep their case");
}

#[test]
fn booleans_and_keys_without_value() {
    let repo = TestRepo::new();
    let file = repo.path().join(".git/config");
    let mut text = std::fs::read_to_string(&file).unwrap();
    text.push_str("[x]\n a\n b =\n c = \"On\"\n d = 0\n e = maybe\n a2 = 7\n[X]\n f = 1\n F = no\n");
    std::fs::write(&file, text).unwrap();
    let config = load(&repo, repo.host());
    let get = |key: &str| config.get_bool(key).unwrap();
    assert_eq!(get("x.a"), Some(true));
    assert_eq!(get("x.b"), Some(false));
    assert_eq!(get("x.c"), Some(true));
    assert_eq!(get("x.d"), Some(false));
    assert_eq!(get("x.a2"), Some(true));
    assert_eq!(get("x.f"), Some(false), "the last one wins, whatever its case");
    assert_eq!(get("x.none"), None);
    assert_eq!(
        config.get_bool("x.e").unwrap_err().to_string(),
        "x.e = \"maybe\" in the git configuration is not true or false"
    );
}

#[test]
fn paths_are_expanded_as_git_does() {
    let repo = TestRepo::new();
    let path = |value: &str| {
        repo.git(["config", "loop.allowedSigners", value]);
        load(&repo, repo.host()).loop_allowed_signers().unwrap()
    };
    assert_eq!(path("~/signers"), Some(repo.host().home_dir().unwrap().join("signers")));
    assert_eq!(path("sub/signers"), Some(repo.path().join("sub/signers")));
    assert_eq!(path("/abs/signers"), Some("/abs/signers".into()));
    assert_eq!(path(""), None);
    assert_eq!(path(":(optional)/not/there"), None);
}

#[test]
fn includes_are_followed_and_keep_their_scope() {
    let repo = TestRepo::new();
    let included = repo.host().home_dir().unwrap().join("more");
    std::fs::write(&included, "[loop]\nremote = included\nminSandbox = none\n").unwrap();
    repo.git(["config", "include.path", included.to_str().unwrap()]);
    repo.git(["config", "--global", "loop.minSandbox", "landlock"]);
    let config = load(&repo, repo.host());
    let entry = config.entry("loop.remote").unwrap();
    assert_eq!(
        (entry.value.as_ref().unwrap().as_slice(), entry.scope),
        (b"included".as_slice(), Scope::Local)
    );
    assert_eq!(entry.path.as_deref(), Some(included.as_path()));
    assert_eq!(config.loop_min_sandbox().as_deref(), Some("landlock"), "a repository cannot lower the bar");
}

#[test]
fn broken_files_are_named() {
    let repo = TestRepo::new();
    let file = repo.path().join(".git/config");
    std::fs::write(&file, "[core\nbare = maybe").unwrap();
    let git_dir = repo.path().join(".git");
    let dirs = RepoDirs { git_dir: &git_dir, common_dir: &git_dir, base: repo.path() };
    let error = Config::load(repo.host(), dirs).unwrap_err();
    assert!(error.to_string().contains(file.to_str().unwrap()), "{error}");
}
