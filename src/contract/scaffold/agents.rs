//! The agents that can be proposed as worker: how each is run without a person, with the task on standard input.
//!
//! Each is made to print what it used, as the usage parser of its name reads it. None of these commands
//! lets the agent do more than edit files by itself; whoever wants more says so in the file.

use super::ProposedCommand;

/// An agent that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agent {
    /// The name of its program, one of [`NAMES`].
    pub name: &'static str,
    /// The folder that it is installed in, where a sandbox does not grant it by itself.
    pub folder: Option<String>,
}

/// The programs that are looked for, in the order of preference.
pub const NAMES: [&str; 5] = ["claude", "codex", "gemini", "opencode", "aider"];

impl Agent {
    /// The command.
    pub(super) fn command(&self) -> ProposedCommand {
        match self.name {
            "claude" => ProposedCommand::args(&[
                "claude",
                "-p",
                "--output-format",
                "json",
                "--permission-mode",
                "acceptEdits",
            ]),
            "codex" => {
                ProposedCommand::args(&["codex", "exec", "--json", "--sandbox", "workspace-write", "-"])
            }
            "gemini" => {
                ProposedCommand::args(&["gemini", "--output-format", "json", "--approval-mode", "auto_edit"])
            }
            "opencode" => ProposedCommand::args(&["opencode", "run", "--format", "json"]),
            // It takes a file, and keeps notes of its own that must not lie in the worktree.
            _ => ProposedCommand::Line(
                "aider --yes-always --no-auto-commits --no-gitignore --map-tokens 0 --chat-history-file \
                 \"$HOME/chat.md\" --input-history-file \"$HOME/input\" --message-file \"$GIT_LOOP_CONTEXT\""
                    .to_owned(),
            ),
        }
    }

    /// Whether its output names a cost, or tokens alone.
    pub(super) fn reports_cost(&self) -> bool {
        !matches!(self.name, "codex" | "gemini")
    }

    /// The variable that its key is usually in.
    pub(super) fn key_variable(&self) -> &'static str {
        match self.name {
            "codex" => "CODEX_API_KEY",
            "gemini" => "GEMINI_API_KEY",
            "aider" => "OPENAI_API_KEY",
            _ => "ANTHROPIC_API_KEY",
        }
    }
}
