//! Loads programs for a running volume, without blocking the service.
//!
//! Reading and compiling a program takes milliseconds, in which no request would be served, so a
//! `BlockingWorker` does it. The policy changes when the program is ready, between two decisions.

use super::protocol::{RequestError, RequestErrorKind};
use crate::blocking_worker::BlockingWorker;
use crate::driver::{Driver, EventOwner, Token};
use crate::programs::load_programs;
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::policies::{Registry, Spec};
use std::io;

/// Loads programs in the background.
pub(super) struct PolicyLoader {
    registry: Registry,
    worker: BlockingWorker<LoadedPolicy>,
}

/// A policy that was loaded, or the reason why it was not.
pub(super) struct LoadedPolicy {
    /// Slot of the client that asked.
    pub(super) client: u32,
    /// True if the labels are to name it.
    pub(super) keep: bool,
    /// The policy.
    pub(super) spec: Result<Spec, Diagnostic>,
}

impl PolicyLoader {
    /// A loader without requests.
    ///
    /// # Errors
    /// If the process is out of file descriptors.
    pub(super) fn new(registry: Registry, driver: &mut Driver) -> io::Result<PolicyLoader> {
        let worker = BlockingWorker::new(Token::new(EventOwner::ControlProgram, 0), driver)?;
        Ok(PolicyLoader { registry, worker })
    }

    /// Queues a request to load the program that a policy string names by file.
    ///
    /// # Errors
    /// If the service has no loader, or the system cannot start a thread.
    pub(super) fn load(
        loader: Option<&mut PolicyLoader>,
        client: u32,
        name: String,
        keep: bool,
    ) -> Result<(), RequestError> {
        let loader = loader.ok_or_else(|| RequestError {
            error: "this service cannot run programs\n  help: start it with a build of Mirrorball \
                    that has the feature `programs`"
                .to_owned(),
            kind: RequestErrorKind::Policy,
        })?;
        // A copy: programs that were replaced are freed with the policy that ran them.
        let mut registry = loader.registry.clone();
        let task = move || {
            let text = load_programs(&name, &mut registry);
            let spec = text.and_then(|text| registry.parse(&text));
            LoadedPolicy { client, keep, spec }
        };
        loader.worker.run(task).map_err(|error| RequestError {
            error: format!("cannot load the program: {error}"),
            kind: RequestErrorKind::Refused,
        })
    }

    /// The next policy that was loaded.
    pub(super) fn poll(&self) -> Option<LoadedPolicy> {
        self.worker.poll()
    }
}
