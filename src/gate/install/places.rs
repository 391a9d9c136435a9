//! Where git looks for hooks, and whether ours belong there.

use std::path::{Path, PathBuf};

use super::super::shim::HookName;
use super::{HooksPath, Places, Scope, files};

/// Where git looks for hooks.
pub(super) struct Effective {
    pub dir: PathBuf,
    /// Why nothing of ours belongs there, and what to do instead.
    pub unfit: Option<(String, String)>,
}

impl Places {
    pub(super) fn effective(&self, hook: HookName) -> Effective {
        let shared = self.common_dir.join("hooks");
        let Some(HooksPath { value, scope }) = &self.hooks_path else {
            return self.inside_worktree(hook, shared.clone(), &shared);
        };
        // git resolves a relative value where hooks run: at the top of each work tree, or in a bare repository.
        let dir = self.worktree_top.as_ref().unwrap_or(&self.common_dir).join(value);
        let set = format!("core.hooksPath = {} is set {}", value.display(), scope.described());
        let own = "or let this repository use its own hooks: git config core.hooksPath \"$(git rev-parse --path-format=absolute --git-common-dir)/hooks\"";
        if value.as_os_str().is_empty() {
            let unblock = "unset it: git config --unset-all core.hooksPath".to_owned();
            return Effective {
                dir,
                unfit: Some((
                    "core.hooksPath is empty, so git finds no hook of this repository".to_owned(),
                    unblock,
                )),
            };
        }
        let line = self.line(hook, &dir);
        if value.is_relative() && self.worktree_top.is_some() {
            let why = format!(
                "{set}, and it is relative: each worktree resolves it anew, and without that folder git runs no hook and says nothing"
            );
            return Effective { dir, unfit: Some((why, format!("{line}; {own}"))) };
        }
        match scope {
            Scope::Local => self.inside_worktree(hook, dir, &shared),
            Scope::Command => {
                let unblock = "run it again without that setting".to_owned();
                Effective { dir, unfit: Some((set, unblock)) }
            }
            Scope::System | Scope::Global | Scope::Worktree if files::same_place(&dir, &shared) => {
                self.inside_worktree(hook, dir, &shared)
            }
            Scope::System | Scope::Global | Scope::Worktree => {
                Effective { dir, unfit: Some((set, format!("{line}; {own}"))) }
            }
        }
    }

    /// The value of `core.hooksPath` if each work tree has a folder of its own by it, and the top of this one. git
    /// resolves it there, wherever in the work tree it is called.
    pub fn relative_to_worktrees(&self) -> Option<(&Path, &Path)> {
        let HooksPath { value, scope } = self.hooks_path.as_ref()?;
        let relative = value.is_relative() && !value.as_os_str().is_empty() && *scope != Scope::Command;
        relative.then_some(value.as_path()).zip(self.worktree_top.as_deref())
    }

    /// A hooks folder that is part of the work tree belongs to the project; a symlink may lead there too.
    fn inside_worktree(&self, hook: HookName, dir: PathBuf, shared: &Path) -> Effective {
        let real = files::real(&dir);
        let in_git_folder = real.starts_with(files::real(&self.common_dir));
        let in_worktree = self.worktree_top.as_ref().is_some_and(|top| real.starts_with(files::real(top)));
        let unfit = (in_worktree && !in_git_folder).then(|| {
            let how =
                if dir == shared { "is a symlink into the work tree" } else { "is inside the work tree" };
            (format!("{} {how}, where files are the project's", dir.display()), self.line(hook, &dir))
        });
        Effective { dir, unfit }
    }

    /// What to write into a hook that is not ours.
    fn line(&self, hook: HookName, dir: &Path) -> String {
        let name = hook.as_str();
        // husky's generated folder calls the file of the same name one folder up.
        let dir = if dir.ends_with(".husky/_") { dir.parent().unwrap_or(dir) } else { dir };
        let file = dir.join(name);
        format!(
            "make this the first command of {}: git-loop hook {name} \"$@\" || exit $?",
            file.strip_prefix(self.worktree_top.as_deref().unwrap_or(Path::new("/")))
                .unwrap_or(&file)
                .display()
        )
    }

    pub(super) fn on_search_path(&self) -> bool {
        let program = format!("git-loop{}", std::env::consts::EXE_SUFFIX);
        let folders = self.search_path.as_deref().map(std::env::split_paths);
        folders.into_iter().flatten().any(|folder| files::is_executable(&folder.join(&program)))
    }
}
