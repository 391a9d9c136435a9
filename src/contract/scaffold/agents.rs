//! The agents that can be proposed as worker: how each is run without a person, with the task on standard input.
//!
//! Their usage parsers are not built yet, so that all of them are proposed with `usage = "none"`. None of these commands
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
            "claude" => ProposedCommand::args(&["claude", "-p", "--permission-mode", "acceptEdits"]),
            "codex" => ProposedCommand::args(&["codex", "exec", "--sandbox", "workspace-write", "-"]),
            "gemini" => ProposedCommand::args(&["gemini", "--approval-mode", "auto_edit"]),
            "opencode" => ProposedCommand::args(&["opencode", "run"]),
            // It takes a file, and keeps notes of its own that must not lie in the worktree.
            _ => ProposedCommand::Line(
                "aider --yes-always --no-auto-commits --no-gitignore --map-tokens 0 --chat-history-file \
                 \"$HOME/chat.md\" --input-history-file \"$HOME/input\" --message-file \"$GIT_LOOP_CONTEXT\""
                    .to_owned(),
            ),
        }
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
