use clap::Args;

use super::Context;
use super::ui::Reply;
use crate::error::Result;

/// Measure by how much a change makes a project larger: the five deltas of a complexity budget.
///
/// Lines, dependencies, public interfaces, cyclomatic complexity and fallback branches, from the two trees alone: no work tree is
/// read and no program is run. What cannot be measured is said.
#[derive(Debug, Args)]
pub struct MeasureArgs {
    /// The old side: a commit, a tag, a branch, or a tree.
    #[arg(value_name = "OLD")]
    old: String,
    /// The new side.
    #[arg(value_name = "NEW")]
    new: String,
}

/// What a small build says.
#[cfg(not(feature = "measure"))]
pub fn run(_: &Context, args: &MeasureArgs) -> Result<Reply> {
    let MeasureArgs { old, new } = args;
    Err(crate::error::Error::workspace(format!(
        "{old} and {new} cannot be measured: this git-loop was built without its feature `measure`"
    ))
    .hint("build one that has it, as it is by default: cargo install git-loop"))
}

#[cfg(feature = "measure")]
pub use built::run;

#[cfg(feature = "measure")]
mod built {
    use serde_json::{Map, Value, json};

    use super::{Context, MeasureArgs, Reply, Result};
    use crate::error::{Error, ResultExt};
    use crate::git::{Repo, resolve_revision};
    use crate::measure::measure;
    use crate::oid::Oid;
    use crate::render::measure::told;

    pub fn run(context: &Context, args: &MeasureArgs) -> Result<Reply> {
        let repo = context.repo_to_look_at()?;
        let (old, new) = (tree(&repo, "OLD", &args.old)?, tree(&repo, "NEW", &args.new)?);
        let measured = measure(&repo, old.0, new.0).map_err(|error| {
            error.while_doing(format!("{} and {} cannot be measured", args.old, args.new))
        })?;
        let text = told(&measured, context.ui.out());
        let fields = match json!(measured) {
            Value::Object(fields) => fields,
            _ => Map::new(),
        };
        Ok(Reply::text(text).paged().field("old", json!(old)).field("new", json!(new)).fields(fields))
    }

    /// The tree that an argument names, or whose commit it names.
    fn tree(repo: &Repo, argument: &str, spec: &str) -> Result<Oid> {
        let wrong = |what: &str| {
            Error::usage(format!("{argument} {spec:?} {what}"))
                .hint("name a commit, a branch, a tag or a tree; which there are: git log --oneline --all")
        };
        let id = resolve_revision(repo.gix(), spec.into()).map_err(|why| wrong(&why.to_string()))?;
        let object =
            repo.gix().find_object(id).or_workspace(|| format!("{argument} {spec:?} cannot be read"))?;
        let kind = object.kind;
        let tree = object.peel_to_tree().map_err(|_| wrong(&format!("names a {kind} that is no tree")))?;
        Ok(Oid(tree.id))
    }
}
