//! What may end a run from outside: a signal, or a ledger that somebody else moved.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use crate::error::{Error, Kind, Result};

/// Set once when a run should end. Cheap to clone; all clones are one.
#[derive(Debug, Clone, Default)]
pub struct Interrupt {
    flag: Arc<AtomicBool>,
    signal: Arc<AtomicI32>,
}

impl Interrupt {
    /// An interrupt that SIGINT and SIGTERM set.
    #[cfg(unix)]
    pub fn on_signals() -> Result<Self> {
        use crate::error::ResultExt;
        let this = Self::default();
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            let (flag, number) = (Arc::clone(&this.flag), Arc::clone(&this.signal));
            // SAFETY: the handler only stores to atomics, which is async-signal-safe.
            #[allow(unsafe_code)]
            unsafe {
                signal_hook::low_level::register(signal, move || {
                    number.store(signal, Ordering::SeqCst);
                    flag.store(true, Ordering::SeqCst);
                })
            }
            .or_internal(|| format!("signal {signal} cannot be handled"))?;
        }
        Ok(this)
    }

    /// An interrupt that nothing sets: this platform has no such signals.
    #[cfg(not(unix))]
    pub fn on_signals() -> Result<Self> {
        Ok(Self::default())
    }

    /// Whether the run should end.
    pub fn is_set(&self) -> bool {
        self.flag.load(Ordering::SeqCst)
    }

    /// The flag that a running command watches.
    pub fn flag(&self) -> &AtomicBool {
        &self.flag
    }

    /// Sets it without a signal.
    pub fn set(&self) {
        self.flag.store(true, Ordering::SeqCst);
    }

    /// Takes it back, unless a signal set it.
    pub fn clear_unless_signalled(&self) {
        if self.signal().is_none() {
            self.flag.store(false, Ordering::SeqCst);
        }
    }

    /// The signal that set it.
    pub fn signal(&self) -> Option<i32> {
        match self.signal.load(Ordering::SeqCst) {
            0 => None,
            signal => Some(signal),
        }
    }

    /// The error a command ends with when a signal set it.
    pub fn error(&self, what: &str) -> Error {
        let signal = self.signal().unwrap_or(2);
        Error::new(Kind::Interrupted(signal), format!("{what} was interrupted by signal {signal}"))
    }
}
