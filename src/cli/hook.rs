use clap::{Args, Subcommand};

use super::Context;
use super::gate::{answer, judge, read_stdin};
use super::ui::Reply;
use crate::error::Result;
use crate::gate::known::Place;
use crate::gate::{GateError, Side, input};

/// What the installed hooks call; not for people.
#[derive(Debug, Args)]
#[command(hide = true)]
pub struct HookArgs {
    #[command(subcommand)]
    hook: Hook,
}

#[derive(Debug, Subcommand)]
enum Hook {
    /// A client, before it pushes: lines on standard input.
    PrePush {
        /// The remote, or its URL where it has no name.
        remote: String,
        /// Its URL.
        url: String,
    },
    /// A server, before any ref moves: lines on standard input.
    PreReceive,
    /// A server, once for each ref.
    Update {
        /// The ref.
        reference: String,
        /// What it is.
        old: String,
        /// What it is to be.
        new: String,
    },
}

pub fn run(context: &Context, args: &HookArgs) -> Result<Reply> {
    let repo = context.repo_to_look_at()?;
    let (updates, side, place) = match &args.hook {
        Hook::PrePush { remote, url } => {
            let side = Side::client(repo.gix(), remote.as_str().into(), url.as_str().into());
            let place = Place::Remote { name: remote.as_str().into(), url: url.as_str().into() };
            (input::pre_push(&read_stdin()?).map_err(GateError::from)?, side, place)
        }
        Hook::PreReceive => {
            (input::pre_receive(&read_stdin()?).map_err(GateError::from)?, Side::Server, Place::Here)
        }
        Hook::Update { reference, old, new } => {
            let update =
                input::update_hook(reference.as_str().into(), old.as_str().into(), new.as_str().into());
            (vec![update.map_err(GateError::from)?], Side::Server, Place::Here)
        }
    };
    let verdict = judge(&repo, &side, place, &updates)?;
    let reply = answer(context, &verdict, "nothing is refused")?;
    // A hook that has nothing to say says nothing.
    Ok(if context.ui.json() { reply } else { Reply::text("") })
}
