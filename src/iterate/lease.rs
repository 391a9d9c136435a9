//! Who alone runs a loop that is shared.
//!
//! On one machine the loop's lock sees to it. Of two machines that run one loop at once, one would run for nothing: a ledger only
//! grows, and the records of whoever pushes second have no place. So a loop that was synchronised with a remote is run under a lease:
//! a record that is pushed before anything else is done. That push is a compare-and-swap, and one of two wins it.
//!
//! A lease outlasts one whole iteration, so that none begins that another machine could take over in the middle. After its end it is
//! in the way of others for as long as clocks may differ.

use std::fs;
use std::io;
use std::path::PathBuf;

use super::iteration::random_id;
use super::session::Session;
use crate::at::At;
use crate::contract::Contract;
use crate::error::{Error, Result, ResultExt};
use crate::git::{LoopId, Repo};
use crate::host::host_name;
use crate::ledger::fold::is_host;
use crate::ledger::record::{Body, LEASE_GRACE_SECONDS, LONGEST_LEASE_SECONDS, LeaseBody};
use crate::ledger::state::{Lease, Phase};
use crate::sync::exchange::default_remote;
use crate::sync::seen::Seen;
use crate::sync::{Exchange, Request};

/// The shortest lease, in seconds.
const SHORTEST: u64 = 900;
/// What an iteration may take besides its commands, in seconds.
const SLACK: u64 = 300;
/// How often a lease is asked for while others append.
const ATTEMPTS: u32 = 5;

/// How long an iteration may take under `contract`, and how long a lease for it lasts, both in seconds.
fn durations(contract: &Contract) -> (u64, u64) {
    let holdout = contract.holdout.as_ref().map_or(0, |holdout| holdout.timeout_seconds);
    let checks = contract.check.timeout_seconds.saturating_mul(u64::from(contract.metric.repeat));
    let one =
        contract.worker.timeout_seconds.saturating_add(checks).saturating_add(holdout).saturating_add(SLACK);
    // No longer than the loop itself: it ends what runs.
    let one = one.min(contract.limits.duration_seconds.saturating_add(SLACK)).min(LONGEST_LEASE_SECONDS / 2);
    (one, one.saturating_mul(2).clamp(SHORTEST, LONGEST_LEASE_SECONDS))
}

impl Session<'_> {
    /// The remote that the loop is shared with, if it is shared.
    fn shared_with(&self) -> Result<Option<String>> {
        let seen = Seen::read(self.repo, &self.id)?;
        let known = self.repo.gix().remote_names();
        let remotes: Vec<&str> =
            seen.remotes().filter(|remote| known.iter().any(|name| *name == **remote)).collect();
        let default = default_remote(self.repo).ok();
        Ok(match default {
            Some(default) if remotes.contains(&default.as_str()) => Some(default),
            _ => remotes.first().map(|remote| (*remote).to_owned()),
        })
    }

    /// Takes or renews the lease of a loop that is shared, unless the one that this clone has is long enough for another iteration.
    pub(super) fn take_lease(&mut self) -> Result<()> {
        if self.tip.state.phase == Phase::Halted {
            return Ok(());
        }
        let Some(remote) = self.shared_with()? else { return Ok(()) };
        let holder = clone_id(self.repo)?;
        let (needed, lasts) = durations(&self.tip.contract);
        for _ in 0..ATTEMPTS {
            let state = &self.tip.state;
            if state.phase == Phase::Halted || state.due_halt.is_some() {
                return Ok(());
            }
            let now = At::now().max(self.tip.at);
            let ours = |lease: &&Lease| self.is_ours(lease, &holder);
            if state.lease.as_ref().filter(ours).is_some_and(|lease| lease.until.seconds_since(now) >= needed)
            {
                return Ok(());
            }
            // Whoever has it may have given it up, or somebody else may have taken it.
            self.exchange(&remote)?;
            let state = &self.tip.state;
            if state.phase == Phase::Halted || state.due_halt.is_some() {
                return Ok(());
            }
            let now = At::now().max(self.tip.at);
            if let Some(lease) = state.lease.as_ref().filter(|lease| !self.is_ours(lease, &holder)) {
                if lease.holds_at(now) {
                    return Err(held(&self.id, lease));
                }
                (self.say)(&format!(
                    "{}: took over from {} on {}, whose lease ended at {}",
                    self.id, lease.principal, lease.host, lease.until
                ));
            }
            let until = At::from_seconds(now.seconds().saturating_add(lasts.cast_signed())).unwrap_or(now);
            let body = LeaseBody { holder: holder.clone(), host: machine(), until };
            if let Err(error) = self.append(Body::Lease(body), now, "loop: lease") {
                // Somebody appended a finding or a stop here.
                if !self.refresh()? {
                    return Err(error);
                }
                continue;
            }
            self.exchange(&remote)?;
        }
        Err(Error::workspace(format!("the lease of loop `{}` on {remote} could not be had", self.id))
            .hint("others keep changing the loop there; run it again"))
    }

    fn is_ours(&self, lease: &Lease, holder: &str) -> bool {
        lease.holder == holder && lease.key == self.author.signer.fingerprint()
    }

    /// At the end of a run: the remote gets what was recorded, and the lease is given up if the loop may go on elsewhere. What cannot
    /// be pushed now is pushed by the next synchronisation.
    pub(super) fn hand_back(&mut self) -> Result<()> {
        let Some(remote) = self.shared_with()? else { return Ok(()) };
        let holder = clone_id(self.repo)?;
        let state = &self.tip.state;
        if state.due_halt.is_none()
            && let Some(lease) = state.lease.as_ref().filter(|lease| self.is_ours(lease, &holder))
        {
            let now = self.now();
            let (holder, host) = (lease.holder.clone(), lease.host.clone());
            let given_up = Body::Lease(LeaseBody { holder, host, until: now });
            if self.append(given_up, now, "loop: lease").is_err() {
                // It ends by itself.
                self.refresh()?;
            }
        }
        if let Err(error) = self.exchange(&remote) {
            (self.say)(&format!(
                "{}: not pushed to {remote}: {}; git loop sync {remote} {}",
                self.id,
                error.chain(),
                self.id
            ));
        }
        Ok(())
    }

    /// Synchronises this loop, and goes on from where it is then.
    fn exchange(&mut self, remote: &str) -> Result<()> {
        let signer = || Ok(self.author.signer);
        let exchange = Exchange::new(self.repo, self.trust, remote.to_owned(), &signer)?;
        let request = Request { ids: vec![self.id.clone()], held: Some(&self.id) };
        let watching = self.expected.pause();
        let ends = exchange.run(&request);
        let tip = super::session::verified_tip(self.repo, &self.id, self.trust);
        if let Ok(tip) = &tip {
            self.expected.only(tip.id);
        }
        drop(watching);
        let ends = ends.map_err(|error| {
            error
                .while_doing(format!(
                    "loop `{}` is shared with {remote}, which has to say who runs it",
                    self.id
                ))
                .hint(format!("mend the way to {remote}: git ls-remote {remote}"))
        });
        self.tip = tip?;
        for end in ends? {
            for warning in end.warnings {
                (self.say)(&format!("{}: {warning}", self.id));
            }
            for aside in &end.aside {
                (self.say)(&format!(
                    "{}: kept aside: record {} ({}): {}",
                    self.id,
                    aside.seq,
                    aside.kind.as_str(),
                    aside.why
                ));
            }
            if let Some(error) = end.error {
                return Err(error);
            }
        }
        Ok(())
    }
}

/// The refusal to run a loop that another machine runs.
fn held(id: &LoopId, lease: &Lease) -> Error {
    let free = At::from_seconds(lease.until.seconds().saturating_add(LEASE_GRACE_SECONDS.cast_signed()));
    let free = free.unwrap_or(lease.until);
    Error::workspace(format!(
        "loop `{id}` is run by {} on {} (clone {}) until {}",
        lease.principal, lease.host, lease.holder, lease.until
    ))
    .hint(format!("run it there, or here after {free}: that long the clocks of two machines may differ"))
    .hint(format!(
        "if that machine is gone for good: git loop stop {id}, git loop sync, git loop run {id} --resume"
    ))
}

/// What this machine is called in a lease.
fn machine() -> String {
    let name: String = host_name()
        .chars()
        .take(64)
        .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-') { c } else { '-' })
        .collect();
    if is_host(&name) { name } else { "localhost".to_owned() }
}

/// The id of this clone: random, and kept in the common git folder with the place that it is for, so that a copy of the folder is
/// another clone.
///
/// ```text
/// <common git folder>/loops/.clone    `<id> <machine> <folder>`
/// ```
fn clone_id(repo: &Repo) -> Result<String> {
    let path: PathBuf = repo.common_dir().join("loops/.clone");
    let place = format!("{} {}", machine(), repo.common_dir().display());
    let unusable = || format!("{} cannot be used", path.display());
    match fs::read_to_string(&path) {
        Ok(text) => {
            if let Some((id, kept)) = text.trim_end_matches('\n').split_once(' ')
                && kept == place
                && id.len() == 16
            {
                return Ok(id.to_owned());
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error).or_workspace(unusable),
    }
    let id = random_id();
    let write = || {
        fs::create_dir_all(repo.common_dir().join("loops"))?;
        repo.write_durably(&path, format!("{id} {place}\n").as_bytes())
    };
    write().or_workspace(unusable)?;
    Ok(id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::git::testing::TestRepo;

    #[test]
    fn a_clone_keeps_its_id_and_a_copy_of_it_gets_another() {
        let repo = TestRepo::new();
        let open = repo.open();
        let id = clone_id(&open).unwrap();
        assert_eq!(clone_id(&open).unwrap(), id);
        let path = open.common_dir().join("loops/.clone");
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.replace(&open.common_dir().display().to_string(), "/elsewhere/.git")).unwrap();
        assert_ne!(clone_id(&open).unwrap(), id);
        fs::write(&path, "damaged").unwrap();
        assert_eq!(clone_id(&open).unwrap().len(), 16);
        assert!(is_host(&machine()));
    }
}
