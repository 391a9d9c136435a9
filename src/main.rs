//! `git-loop`: parse, run, exit.

fn main() -> std::process::ExitCode {
    git_loop::cli::main()
}
