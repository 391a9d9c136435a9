//! Running a loop: the iteration as an ordered transaction, crash recovery, and the end of a run.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`start`] | freezing and signing a contract |
//! | [`advice`] | what to know before a loop runs |
//! | [`renew`] | a new contract on the green of a loop that has halted |
//! | [`session`] | one run of one loop on this machine: what is open while it lasts |
//! | `preflight` | what must hold before a worker is paid |
//! | `baseline`, `iteration` | the check on the base; one iteration from checkpoint to record |
//! | `step` | one command of a loop as a process: program, environment, what it may touch |
//! | `commands` | the worker and the check, and what they left |
//! | `left`, `outcome` | files that a command left; what came of it |
//! | `secrets`, `spelling` | what is taken out of what it printed, and the ways in which that is written |
//! | [`output`] | what steps print, in files while they run; what is left of it when a runner is killed |
//! | `fresh` | what fills the fresh worktrees: an overlay or a checkout |
//! | `ahead` | worktrees that are made before they are wanted, while a worker runs |
//! | `warm` | what they get besides their trees: warm folders and included files |
//! | `holdout` | the second check that no worker can see: its folder, where it may lie, its run |
//! | `grants` | what is hidden in the folders that worker and check may read |
//! | `lasting` | the commands that lasting code has to pass besides its check, and its measurement |
//! | `places`, `cleaner` | the folders of one environment, and their removal |
//! | [`leftovers`] | what runners that have ended left on this machine |
//! | [`context`], `history` | what a worker is given to read; what it is told of earlier iterations |
//! | [`tamper`] | what a worker must leave alone besides files |
//! | `lease` | who alone runs a loop that is shared |
//! | [`outside`] | iterations whose worker, or also whose check, runs elsewhere |
//! | `recover` | what a dead runner left: closed, repaired, reclaimed |
//! | [`interrupt`], `watch` | Ctrl-C, SIGTERM and an operator's stop |

pub mod advice;
mod ahead;
mod baseline;
mod cleaner;
mod commands;
pub mod context;
mod credential;
mod fresh;
mod grants;
mod history;
mod holdout;
pub mod interrupt;
mod invocations;
mod iteration;
mod lasting;
mod lease;
mod left;
pub mod leftovers;
mod outcome;
pub mod output;
pub mod outside;
mod places;
pub mod preflight;
mod recover;
pub mod renew;
mod secrets;
pub mod session;
mod spelling;
pub mod start;
mod step;
pub mod tamper;
mod warm;
mod watch;

pub use places::Places;
pub use session::{RunEnd, Session, SessionOptions};
