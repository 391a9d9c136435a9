//! The command line: one file per command. Commands are thin; they read arguments, call the library and print.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, CommandFactory, Parser, Subcommand};

use crate::error::Error;
use crate::exit::ExitCode;
use crate::git::Repo;
use crate::host::HostEnv;

mod checkpoint;
mod common;
mod demo;
mod diff;
mod editor;
mod explain;
mod finding;
mod gate;
mod hook;
mod hooks;
mod init;
mod invocation;
mod land;
mod list;
mod log;
mod measure;
mod promote;
mod prune;
mod record;
mod release;
mod renew;
mod review;
mod run;
mod show;
mod start;
mod status;
mod stop;
mod sync;
pub mod ui;
mod verdict;
mod verify;

use ui::{ColorChoice, Reply, Ui};

/// Bounded improvement loops whose whole history is signed commits in git.
///
/// A worker proposes a change in a fresh worktree, a check that it cannot touch measures it, and a pure decision accepts
/// it or rolls it back, under hard limits. Everything that happened is a signed commit under refs/loops/*.
#[derive(Debug, Parser)]
#[command(name = "git-loop", bin_name = "git loop", version, propagate_version = true, max_term_width = 100)]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

/// Options that every command has.
#[derive(Debug, Args)]
#[command(next_help_heading = "Options of every command")]
struct Global {
    /// Run as if started in DIR.
    #[arg(short = 'C', value_name = "DIR", global = true)]
    directory: Option<PathBuf>,
    /// Sign with this key: a private key file, or a public one whose private key is beside it or in the SSH agent. Without it:
    /// loop.signingKey, else user.signingkey, of git config.
    #[arg(long, value_name = "FILE", global = true)]
    key: Option<String>,
    /// Print exactly one JSON object on stdout; text for people goes to stderr.
    #[arg(long, global = true)]
    json: bool,
    /// When to use colour.
    #[arg(long, value_enum, default_value_t, value_name = "WHEN", global = true)]
    color: ColorChoice,
    /// Do not pipe long output into a pager.
    #[arg(long, global = true)]
    no_pager: bool,
    /// Say only what is asked for, and errors.
    #[arg(short, long, global = true)]
    quiet: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    Init(init::InitArgs),
    Start(start::StartArgs),
    Run(run::RunArgs),
    Status(status::StatusArgs),
    List(list::ListArgs),
    Log(log::LogArgs),
    Show(show::ShowArgs),
    Explain(explain::ExplainArgs),
    Diff(diff::DiffArgs),
    Measure(measure::MeasureArgs),
    Stop(stop::StopArgs),
    Renew(renew::RenewArgs),
    Review(review::ReviewArgs),
    Promote(promote::PromoteArgs),
    Land(land::LandArgs),
    Release(release::ReleaseArgs),
    Finding(finding::FindingArgs),
    Invocation(invocation::InvocationArgs),
    Checkpoint(checkpoint::CheckpointArgs),
    Record(record::RecordArgs),
    Verdict(verdict::VerdictArgs),
    Verify(verify::VerifyArgs),
    Sync(sync::SyncArgs),
    Gate(gate::GateArgs),
    Hooks(hooks::HooksArgs),
    Hook(hook::HookArgs),
    Prune(prune::PruneArgs),
    Demo(demo::DemoArgs),
}

/// What a command works with.
#[derive(Debug)]
struct Context {
    host: HostEnv,
    ui: Ui,
    directory: PathBuf,
    key: Option<String>,
}

impl Context {
    /// The repository that may be run in: not bare.
    fn repo(&self) -> Result<Repo, Error> {
        Ok(Repo::discover(&self.directory, &self.host)?)
    }

    /// The repository for looking only: it may be bare.
    fn repo_to_look_at(&self) -> Result<Repo, Error> {
        Ok(Repo::open_bare_ok(&self.directory, &self.host)?)
    }
}

/// Parses the arguments, runs the command and returns its exit code.
pub fn main() -> std::process::ExitCode {
    match HostEnv::from_process() {
        Ok(host) => run_with(std::env::args_os(), host).into(),
        Err(cause) => {
            // Without a current folder there is nothing to be relative to, not even for a message in JSON.
            eprintln!("error: the current folder cannot be found: {cause}");
            ExitCode::WORKSPACE.into()
        }
    }
}

/// Commands that are planned and not built yet.
const PLANNED: &[&str] = &[
    "rollback",
    "context",
    "invocation",
    "probe",
    "doctor",
    "replay",
    "reexecute",
    "attest",
    "export",
    "cost",
    "report",
    "watch",
    "escalate",
    "ack",
    "audit",
    "mcp",
    "serve",
    "completions",
    "man",
];

fn run_with(args: impl IntoIterator<Item = OsString>, host: HostEnv) -> ExitCode {
    let args: Vec<OsString> = args.into_iter().collect();
    let help = help_command(&args);
    let cli = match Cli::try_parse_from(&args) {
        Ok(cli) => cli,
        // Help and version are what was asked for; everything else is bad usage, in git's code.
        Err(error) if !error.use_stderr() => return ui::clap_message(&error, &help, None, ExitCode::OK),
        Err(error) => {
            // A command of the design that this version lacks is not a slip of the finger.
            let planned =
                args.iter().skip(1).filter_map(|arg| arg.to_str()).find(|arg| PLANNED.contains(arg));
            if let (clap::error::ErrorKind::InvalidSubcommand, Some(name)) = (error.kind(), planned) {
                let json = args.iter().any(|arg| arg == "--json");
                let ui = Ui::new(json, false, ColorChoice::Auto, true, &host);
                let error = Error::usage(format!("git loop {name} is not built yet"));
                return ui.finish(Err(error.hint("see what there is: git loop -h")));
            }
            let usage = whole_usage(&args);
            if args.iter().any(|arg| arg == "--json") {
                let ui = Ui::new(true, false, ColorChoice::Never, true, &host);
                return ui.finish(Err(usage_error(&error, &help, usage.as_deref())));
            }
            return ui::clap_message(&error, &help, usage.as_deref(), ExitCode::USAGE);
        }
    };
    let Global { directory, key, json, color, no_pager, quiet } = cli.global;
    let ui = Ui::new(json, quiet, color, no_pager, &host);
    let here = host.current_dir().to_path_buf();
    let directory = directory.map_or_else(|| here.clone(), |dir| here.join(dir));
    let context = Context { host, ui, directory, key };
    let result = dispatch(&context, cli.command);
    context.ui.finish(result)
}

/// How to ask for the help of the command that `args` name. Not `git loop --help`: git looks for a manual page then.
fn help_command(args: &[OsString]) -> String {
    let cli = Cli::command();
    let words = || args.iter().skip(1).filter_map(|arg| arg.to_str());
    let known = |word: &&str| *word != "help" && cli.find_subcommand(word).is_some();
    words().find(known).map_or_else(|| "git loop help".to_owned(), |name| format!("git loop help {name}"))
}

/// The usage of the command that `args` name, with everything that it takes. In an error clap writes one of its own, in which every option
/// that was given looks as if it were required. `None` where there is no such command, or it has commands of its own.
fn whole_usage(args: &[OsString]) -> Option<String> {
    let mut cli = Cli::command();
    cli.build();
    let words = || args.iter().skip(1).filter_map(|arg| arg.to_str());
    let name = words().find(|word| cli.find_subcommand(word).is_some())?.to_owned();
    let command = cli.find_subcommand_mut(&name).filter(|command| !command.has_subcommands())?;
    Some(command.render_usage().to_string())
}

/// What clap says of a fault of usage, as one line with hints.
fn usage_error(error: &clap::Error, help: &str, usage: Option<&str>) -> Error {
    let text = error.render().to_string();
    let (mut message, mut hints) = (Vec::new(), Vec::new());
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if line.starts_with("For more information") {
            break;
        }
        match line.strip_prefix("tip: ") {
            Some(tip) => hints.push(tip.to_owned()),
            None if line.starts_with("Usage: ") => hints.push(usage.unwrap_or(line).to_owned()),
            None => message.push(line.trim_start_matches("error: ")),
        }
    }
    hints.push(help.to_owned());
    hints.into_iter().fold(Error::usage(message.join(" ")), Error::hint)
}

fn dispatch(context: &Context, command: Command) -> Result<Reply, Error> {
    match command {
        Command::Init(args) => init::run(context, &args),
        Command::Start(args) => start::run(context, &args),
        Command::Run(args) => run::run(context, &args),
        Command::Status(args) => status::run(context, &args),
        Command::List(args) => list::run(context, &args),
        Command::Log(args) => log::run(context, &args),
        Command::Show(args) => show::run(context, &args),
        Command::Explain(args) => explain::run(context, &args),
        Command::Diff(args) => diff::run(context, &args),
        Command::Measure(args) => measure::run(context, &args),
        Command::Stop(args) => stop::run(context, &args),
        Command::Land(args) => land::run(context, &args),
        Command::Release(args) => release::run(context, &args),
        Command::Renew(args) => renew::run(context, &args),
        Command::Review(args) => review::run(context, &args),
        Command::Promote(args) => promote::run(context, &args),
        Command::Finding(args) => finding::run(context, &args),
        Command::Invocation(args) => invocation::run(context, &args),
        Command::Checkpoint(args) => checkpoint::run(context, &args),
        Command::Record(args) => record::run(context, &args),
        Command::Verdict(args) => verdict::run(context, &args),
        Command::Verify(args) => verify::run(context, &args),
        Command::Sync(args) => sync::run(context, &args),
        Command::Gate(args) => gate::run(context, &args),
        Command::Hooks(args) => hooks::run(context, &args),
        Command::Hook(args) => hook::run(context, &args),
        Command::Prune(args) => prune::run(context, &args),
        Command::Demo(args) => demo::run(context, &args),
    }
}

#[cfg(test)]
mod tests {
    use super::PLANNED;
    use crate::exit::HaltReason;

    /// A table that says `renew` sends people to a command that there is not.
    #[test]
    fn no_way_out_of_a_halt_is_a_command_that_is_not_built() {
        for reason in HaltReason::ALL {
            let text = reason.left_by();
            let planned = text.split(|c: char| !c.is_ascii_alphabetic()).find(|word| PLANNED.contains(word));
            assert!(planned.is_none() || text.contains("not built yet"), "{reason}: {text}");
        }
    }
}
