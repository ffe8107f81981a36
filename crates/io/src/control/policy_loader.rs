//! Loads programs for a running volume, without blocking the service.
//!
//! Compiling a program takes milliseconds, in which no request would be served, so a
//! `BlockingWorker` does it. The policy changes when the program is ready, between two decisions.

use super::policy_change::ChangeRequest;
use super::protocol::{RequestError, RequestErrorKind};
use crate::blocking_worker::BlockingWorker;
use crate::driver::{Driver, EventOwner, Token};
use crate::programs::{ProgramReference, parse_hex_digits};
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::policies::{Registry, Spec};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// Most programs that are being loaded, or wait for that. Each has an object of up to 256 KiB, and
/// takes milliseconds.
pub(super) const LOADS_MAX: usize = 4;

/// Loads programs in the background.
pub(super) struct PolicyLoader {
    registry: Registry,
    worker: BlockingWorker<LoadedPolicy>,
    /// Number of requests without a result.
    waiting: usize,
}

/// A policy that was loaded, or the reason why it was not.
pub(super) struct LoadedPolicy {
    pub(super) request: ChangeRequest,
    pub(super) spec: Result<Spec, Diagnostic>,
}

impl PolicyLoader {
    /// A loader without requests.
    pub(super) fn new(registry: Registry, driver: &mut Driver) -> io::Result<PolicyLoader> {
        let worker = BlockingWorker::new(Token::new(EventOwner::ControlProgram, 0), driver)?;
        Ok(PolicyLoader { registry, worker, waiting: 0 })
    }

    /// Queues a request to load the program that a policy string names by file; `object` holds its
    /// digits. Fails if the service has no loader, the object is missing or malformed, too many
    /// programs are being loaded, or the system cannot start a thread.
    pub(super) fn load(
        loader: Option<&mut PolicyLoader>,
        request: ChangeRequest,
        reference: ProgramReference,
        object: Option<&str>,
    ) -> Result<(), RequestError> {
        let object = object.and_then(parse_hex_digits).ok_or_else(|| RequestError {
            error:
                "the request has no object of the program\n  help: use `mirrorball ctl` of this \
                    version, which reads the file and sends the object"
                    .to_owned(),
            kind: RequestErrorKind::Policy,
        })?;
        let loader = loader.ok_or_else(|| RequestError {
            error: "this service cannot run programs\n  help: start it with a build of Mirrorball \
                    that has the feature `programs`"
                .to_owned(),
            kind: RequestErrorKind::Policy,
        })?;
        if loader.waiting == LOADS_MAX {
            return Err(RequestError::refused(format!(
                "{LOADS_MAX} programs are being loaded for other requests\n  help: run the command \
                 again when they are done"
            )));
        }
        // A copy: programs that were replaced are freed with the policy that ran them.
        let mut registry = loader.registry.clone();
        let task = move || {
            let load = || {
                let text = reference.load(&object, &mut registry)?;
                if request.kept.is_some() {
                    check_file(&reference, &object)?;
                }
                registry.parse(&text)
            };
            // The registry is a copy, which nothing uses afterwards.
            let spec = catch_unwind(AssertUnwindSafe(load)).unwrap_or_else(|_| {
                let what = "the loader of programs panicked, which is a bug of Mirrorball";
                Err(Diagnostic::new(what).with_help("please report it, with the program"))
            });
            LoadedPolicy { request, spec }
        };
        let started = loader.worker.run(task);
        started
            .map_err(|error| RequestError::refused(format!("cannot load the program: {error}")))?;
        loader.waiting += 1;
        Ok(())
    }

    pub(super) fn poll(&mut self) -> Option<LoadedPolicy> {
        let loaded = self.worker.poll()?;
        self.waiting -= 1;
        Some(loaded)
    }
}

/// Checks that the service can read the object of a program from its file, as it will when the
/// volume is started.
fn check_file(reference: &ProgramReference, object: &[u8]) -> Result<(), Diagnostic> {
    let path = &reference.path;
    let refuse = |why: String| {
        Diagnostic::new(format!("the policy cannot be kept: {why}")).with_help(
            "put the object where the service can read it at each start, or leave out --keep",
        )
    };
    if !Path::new(path).is_absolute() {
        return Err(refuse(format!("the path `{path}` is not absolute")));
    }
    let found = reference.read().map_err(|error| refuse(error.message))?;
    match found == object {
        true => Ok(()),
        false => Err(refuse(format!("for the service, `{path}` is another object"))),
    }
}
