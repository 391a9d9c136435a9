use std::fmt::Write as _;
use std::path::Path;

use clap::Args;
use serde_json::{Value, json};

use super::Context;
use super::hooks;
use super::ui::Reply;
use crate::contract;
use crate::contract::scaffold::{self, FILL_IN, Proposal};
use crate::error::{Error, Result, ResultExt};
use crate::escape::{escape_line, shell_word};
use crate::git::Repo;
use crate::ledger::trust::TRUST_PATH;
use crate::setup;
use crate::setup::people::{People, SIGNING_KEY, set_signing_key};
use crate::setup::trust::{TrustPlace, Trusted, add_signers, trusted};
use crate::sign::{AllowedSigners, enroll};

/// The file that is written.
const FILE: &str = "loop.toml";

/// Write loop.toml for the project in HEAD, and a trust file that names you.
///
/// Nothing is committed and no file is replaced. What is written is a start, to be read and changed; the lines with FILL
/// IN are yours. Who is trusted is said by .loops/allowed_signers, unless the configuration names another file.
#[derive(Debug, Args)]
pub struct InitArgs {
    /// Make a key for the runner alone and sign loops of this repository with it.
    ///
    /// It lies in the git folder, without a passphrase, and loop.signingKey in the repository's configuration is set to
    /// it. Whoever works alone then reviews and promotes with their own key: --key FILE.
    #[arg(long)]
    runner_key: bool,
    /// Install the client's hook as well, as git loop hooks install does.
    #[arg(long)]
    hooks: bool,
}

pub fn run(context: &Context, args: &InitArgs) -> Result<Reply> {
    let repo = context.repo()?;
    let top = repo.worktree_root().unwrap_or(&context.directory).to_path_buf();
    let file = top.join(FILE);
    if file.symlink_metadata().is_ok() {
        return Err(Error::usage(format!("{} exists already, and is never replaced", file.display()))
            .hint("go on with it: git loop start ID --dry-run")
            .hint("or move it away and run this again"));
    }
    let base = repo.require_commit()?;
    let tree = repo.commit_tree(base).or_workspace(|| "HEAD cannot be read".to_owned())?;
    let mut proposal = scaffold::detect(&setup::survey(&repo, tree)?);
    proposal.notes.extend(setup::notes(&repo, tree, &proposal)?);
    proposal.notes.extend(setup::pytest_is_elsewhere(&context.host, &proposal));
    let place = TrustPlace::find(&repo, &top)?;
    let signers = place.read()?;
    let people =
        People::find(&repo, &place, &signers, context.key.as_deref(), &context.directory, args.runner_key)?;
    let agent = setup::find_agent(&context.host);
    let text = scaffold::render(&proposal, agent.as_ref(), &people.principals());
    contract::parse(FILE, &text).or_internal(|| format!("the proposed {FILE} is not valid"))?;

    // loop.toml comes last: as long as it is not there the command can be run again.
    let mut done = Done { top, hooks: json!([]), ..Done::default() };
    if args.hooks {
        let (hooks, lines) = hooks::install_client(context, &repo)?;
        done.text.push_str(&lines);
        done.hooks = json!(hooks);
    }
    write_runner_key(&repo, &people, &mut done)?;
    let missing = people.missing_lines();
    let signers = write_trust(&place, signers, &missing, &mut done)?;
    setup::write_new(&file, &text)?;
    done.file(&file, "wrote", &format!("for {}", described(&proposal)));

    let mut fill_in = vec!["worker.command"];
    fill_in.extend(&proposal.fill_in);
    let mut notes = proposal.notes;
    notes.extend(reviewers(&people, &place, &signers, &missing));
    for note in &notes {
        context.ui.warn(note);
    }
    let next = next_steps(&repo, &place, &signers, &people, &missing, &fill_in)?;
    let mut text = done.text;
    text.push_str("\nnext:\n");
    let column = next.iter().map(|(command, _)| command.chars().count()).filter(|width| *width <= 44).max();
    for (command, why) in &next {
        let gap = " ".repeat(column.unwrap_or(0).saturating_sub(command.chars().count()));
        let why = if why.is_empty() { String::new() } else { format!("{gap}  # {why}") };
        let _ = writeln!(text, "  {command}{why}");
    }
    let principals = people.principals();
    Ok(Reply::text(text)
        .field("project", proposal.kind.as_str())
        .field("files", done.files)
        .field("config", done.config)
        .field("hooks", done.hooks)
        .field(
            "allowed_signers",
            json!({ "file": place.path(), "missing": missing_elsewhere(&place, &missing) }),
        )
        .field("principals", json!({ "user": principals.user, "runner": principals.runner }))
        .field("fill_in", json!(fill_in))
        .field("notes", notes)
        .field("next", next.into_iter().map(|(command, _)| command).collect::<Vec<_>>()))
}

/// What was done, for people and for programs.
#[derive(Debug, Default)]
struct Done {
    top: std::path::PathBuf,
    text: String,
    files: Vec<Value>,
    config: Vec<Value>,
    hooks: Value,
}

impl Done {
    fn file(&mut self, path: &Path, action: &str, what: &str) {
        let shown = path.strip_prefix(&self.top).unwrap_or(path);
        let _ = writeln!(self.text, "{action} {} {what}", shown.display());
        self.files.push(json!({ "path": path, "action": action }));
    }
}

fn described(proposal: &Proposal) -> String {
    let found_by = proposal.found_by.as_ref().map(|file| format!(" ({})", escape_line(file)));
    format!("{}{}", proposal.kind.noun(), found_by.unwrap_or_default())
}

fn write_runner_key(repo: &Repo, people: &People, done: &mut Done) -> Result<()> {
    let Some(runner) = &people.runner else { return Ok(()) };
    if runner.write()? {
        done.file(
            &runner.path,
            "made",
            &format!("(ed25519, no passphrase): the key of {}", runner.enrolled.principal),
        );
    } else {
        let _ =
            writeln!(done.text, "kept {}: the key of {}", runner.path.display(), runner.enrolled.principal);
    }
    if let Some(before) = set_signing_key(repo, &runner.path)? {
        let was =
            before.as_ref().map(|before| format!(" (it was {})", escape_line(before))).unwrap_or_default();
        let _ = writeln!(done.text, "set {SIGNING_KEY} in this repository's configuration to that key{was}");
        done.config.push(json!({ "key": SIGNING_KEY, "value": runner.path, "before": before }));
    }
    Ok(())
}

/// Adds what the trust file lacks, if it is the repository's own. Gives its text afterwards.
fn write_trust(place: &TrustPlace, mut text: String, missing: &[String], done: &mut Done) -> Result<String> {
    match place {
        TrustPlace::Configured { key, path } => {
            let shown = path.display();
            let _ = writeln!(
                done.text,
                "{shown} says who is trusted ({key}); nothing is written to it, or to .loops"
            );
        }
        TrustPlace::Repository(path) if missing.is_empty() => {
            let shown = path.strip_prefix(&done.top).unwrap_or(path).display();
            let _ = writeln!(done.text, "kept {shown}: it has your key already");
        }
        TrustPlace::Repository(path) => {
            let is_new = text.is_empty();
            add_signers(path, &text, missing)?;
            text.push_str(&enroll::addition(&text, missing));
            let names: Vec<&str> = missing.iter().filter_map(|line| line.split(' ').next()).collect();
            let action = if is_new { "wrote" } else { "changed" };
            let added = if is_new { "with" } else { "by adding" };
            done.file(path, action, &format!("{added} {}", names.join(" and ")));
        }
    }
    Ok(text)
}

/// The lines that a person has to add to a file of theirs.
fn missing_elsewhere<'a>(place: &TrustPlace, missing: &'a [String]) -> &'a [String] {
    if matches!(place, TrustPlace::Configured { .. }) { missing } else { &[] }
}

/// What to say if nobody could review. `signers` is the trust file as it will be.
fn reviewers(people: &People, place: &TrustPlace, signers: &str, missing: &[String]) -> Option<String> {
    let whole = format!("{signers}{}", enroll::addition(signers, missing_elsewhere(place, missing)));
    let principals = people.principals();
    let starter = principals.runner.as_ref().or(principals.user.as_ref())?;
    let known = AllowedSigners::parse(&whole).map(|known| known.literal_principals()).unwrap_or_default();
    if known.iter().any(|principal| principal != starter) {
        return None;
    }
    let file = match place {
        TrustPlace::Configured { path, .. } => path.display().to_string(),
        TrustPlace::Repository(_) => TRUST_PATH.to_owned(),
    };
    Some(match &principals.runner {
        None => format!(
            "only {starter} is trusted here, and nobody reviews what their own key ran. Add the line of somebody else to \
             {file}, or begin again with a key for the runner: rm loop.toml && git loop init --runner-key"
        ),
        Some(_) => format!(
            "nobody could review: you have no key. Make one (ssh-keygen -t ed25519), add its line to {file}, and name \
             yourself as reviewer and promoter in {FILE}"
        ),
    })
}

/// What to do next, each with the reason.
fn next_steps(
    repo: &Repo,
    place: &TrustPlace,
    signers: &str,
    people: &People,
    missing: &[String],
    fill_in: &[&str],
) -> Result<Vec<(String, String)>> {
    let mut steps = Vec::new();
    let mut step = |command: String, why: &str| steps.push((command, why.to_owned()));
    step(format!("edit {FILE}"), &format!("the lines with {FILL_IN}: {}", fill_in.join(", ")));
    for line in missing_elsewhere(place, missing) {
        let file = shell_word(&place.path().display().to_string());
        step(format!("echo {} >> {file}", shell_word(line)), "until then the key is not trusted here");
    }
    let commit = |paths: &str| format!("git add {paths} && git commit -m 'Terms of a loop'");
    let with_trust = format!("{FILE} .loops");
    let counts = "the trust file counts from the protected branch";
    match place {
        TrustPlace::Configured { .. } => step(commit(FILE), ""),
        TrustPlace::Repository(_) => match trusted(repo, signers)? {
            Trusted::Already => step(commit(FILE), ""),
            Trusted::Commit => step(commit(&with_trust), counts),
            Trusted::OtherBranch(branch) => {
                step(commit(&with_trust), "");
                step(format!("bring {TRUST_PATH} to the branch {branch}"), counts);
            }
            Trusted::Push(name) => {
                step(commit(&with_trust), "");
                let why = format!("{counts}: {}", name.strip_prefix("refs/remotes/").unwrap_or(&name));
                step("git push".to_owned(), &why);
            }
            Trusted::NoBranch(branch) => {
                step(commit(&with_trust), "");
                let branch = branch.map_or_else(|| "BRANCH".to_owned(), |branch| shell_word(&branch));
                step(format!("git config loop.protectedBranch {branch}"), counts);
            }
        },
    }
    step(
        "git loop start fix --dry-run".to_owned(),
        "runs the check on HEAD and signs nothing; `fix` is any name",
    );
    // Where the runner has a key of its own, everything but running is the person's.
    let own = people.runner.as_ref().and(people.user.as_ref());
    let with_key = own.map_or_else(String::new, |(_, key)| format!(" --key {}", shell_word(&key.value)));
    let yours = if own.is_some() { ", with your key, not the runner's" } else { "" };
    step(format!("git loop start fix{with_key}"), &format!("freezes the terms and signs them{yours}"));
    step("git loop run fix".to_owned(), "until it halts");
    if own.is_some() {
        step(format!("git loop review fix --approve{with_key}"), "once you have read `git loop diff fix`");
        step(format!("git loop promote fix{with_key}"), "says that it is done");
        step("git loop land fix".to_owned(), "onto the branch that is checked out");
    }
    Ok(steps)
}
