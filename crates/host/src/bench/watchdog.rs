//! The watchdog: a second process that restores the settings if the first one dies.
//!
//! It holds the end of a pipe from `bench` and reads. The kernel closes the pipe when `bench` ends,
//! also by SIGKILL. If the journal is still there then, `bench` did not restore, and the watchdog
//! does. It is in a session of its own, so Ctrl-C and the end of the terminal do not reach it.

use super::array_lock::ArrayLock;
use super::journal::Journal;
use super::restore::{self, RestoreReport};
use crate::detect::Sysroot;
use mirrorball_core::diagnostic::Diagnostic;
use std::ffi::OsString;
use std::io::{self, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// The running watchdog. Dropping it closes the pipe and waits for its end.
#[derive(Debug)]
pub(super) struct Watchdog {
    child: Child,
}

impl Watchdog {
    /// Starts `command`, which must call [`watch`].
    ///
    /// # Errors
    /// If it cannot be started.
    pub(super) fn start(command: &[OsString]) -> io::Result<Watchdog> {
        let [program, arguments @ ..] = command else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::null());
        Ok(Watchdog { child: command.spawn()? })
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        // A watchdog that was killed has nothing more to do.
        let _ = self.child.wait();
    }
}

/// Waits for the end of `input`, then restores what the journal at `path` says, if it is there.
///
/// # Errors
/// If the journal cannot be read.
pub fn watch(
    sysroot: &Sysroot,
    path: &Path,
    mut input: impl Read,
) -> Result<Option<RestoreReport>, Diagnostic> {
    // Fails only in a process that leads its group already, which is as good.
    let _ = rustix::process::setsid();
    let mut byte = [0];
    while let Ok(1..) = input.read(&mut byte) {}
    if Journal::read(path)?.is_none() {
        return Ok(None);
    }
    let _lock = ArrayLock::of_journal(path, true)?;
    let journal = Journal::read(path)?;
    Ok(journal.map(|journal| restore::restore(sysroot, path, &journal)))
}
