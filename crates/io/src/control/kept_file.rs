//! The policy of a volume without labels, which its array file keeps.
//!
//! The file belongs to the command that read it, which says how it is written. Writing may take as
//! long as a disk does, and may even wait for the volume itself, if the file is on it. So a
//! `BlockingWorker` does it, and the policy changes when it is recorded.

use super::policy_change::{ChangeRequest, NewPolicy};
use crate::blocking_worker::BlockingWorker;
use crate::driver::{Driver, EventOwner, Token};
use mirrorball_core::policy::PolicyFault;
use mirrorball_disk::array_file::KeptPolicy;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

/// Writes the policy of a volume to its array file.
pub trait PolicyStore: Send {
    /// Puts a policy into the file.
    ///
    /// # Errors
    /// If the file cannot be written, or is no longer the one that was read. The text says so, with
    /// the path of the file and what to do.
    fn keep(&mut self, policy: &KeptPolicy) -> Result<(), String>;

    /// Puts a policy into the file whose program was ended by a fault. No client is waiting for the
    /// result, so the store reports an error to the user itself.
    fn record_fault(&mut self, policy: &KeptPolicy);
}

/// An array file, and the policy that it has.
pub(super) struct KeptFile {
    store: Arc<Mutex<Box<dyn PolicyStore>>>,
    policy: Option<KeptPolicy>,
    /// Writes the file. A fault that was recorded has no result.
    worker: BlockingWorker<Option<RecordedPolicy>>,
    /// Number of writes that have not ended.
    writes: usize,
}

/// A policy that was recorded, or the reason why it was not.
pub(super) struct RecordedPolicy {
    /// The request.
    pub(super) request: ChangeRequest,
    /// The policy.
    pub(super) new: NewPolicy,
    /// Why it is not recorded.
    pub(super) result: Result<(), String>,
    kept: KeptPolicy,
}

impl KeptFile {
    /// A file that has this policy.
    ///
    /// # Errors
    /// If the process is out of file descriptors.
    pub(super) fn new(
        store: Box<dyn PolicyStore>,
        policy: Option<KeptPolicy>,
        driver: &mut Driver,
    ) -> io::Result<KeptFile> {
        let worker = BlockingWorker::new(Token::new(EventOwner::ControlPolicyFile, 0), driver)?;
        Ok(KeptFile { store: Arc::new(Mutex::new(store)), policy, worker, writes: 0 })
    }

    /// Queues a policy to be put into the file, and to be used then.
    ///
    /// # Errors
    /// If the system cannot start a thread.
    pub(super) fn keep(
        &mut self,
        request: ChangeRequest,
        new: NewPolicy,
        kept: KeptPolicy,
    ) -> io::Result<()> {
        self.write(move |store| {
            let result = store.keep(&kept);
            Some(RecordedPolicy { request, new, result, kept })
        })
    }

    /// Records that a fault ended the program of the file, if that is so, so that the volume does
    /// not start with it again.
    pub(super) fn record_fault(&mut self, fault: &PolicyFault) {
        // A write in flight may put another policy into the file.
        let Some(policy) = self.policy.as_mut().filter(|_| self.writes == 0) else { return };
        let ended = fault.ended_program.as_ref();
        let program = policy.program.as_mut();
        if let Some(program) = program.filter(|it| !it.has_faulted && Some(&it.name) == ended) {
            program.has_faulted = true;
            let policy = policy.clone();
            // Without a thread nothing can be recorded; the fault itself is reported anyway.
            let _ = self.write(move |store| {
                store.record_fault(&policy);
                None
            });
        }
    }

    /// The next policy that was recorded, or could not be.
    pub(super) fn poll(&mut self) -> Option<RecordedPolicy> {
        loop {
            let written = self.worker.poll()?;
            self.writes -= 1;
            if let Some(recorded) = written {
                if recorded.result.is_ok() {
                    self.policy = Some(recorded.kept.clone());
                }
                return Some(recorded);
            }
        }
    }

    /// True while the file is being written.
    pub(super) fn is_writing(&self) -> bool {
        self.writes > 0
    }

    fn write(
        &mut self,
        task: impl FnOnce(&mut dyn PolicyStore) -> Option<RecordedPolicy> + Send + 'static,
    ) -> io::Result<()> {
        let store = Arc::clone(&self.store);
        self.worker.run(move || {
            let mut store = store.lock().unwrap_or_else(PoisonError::into_inner);
            task(&mut **store)
        })?;
        self.writes += 1;
        Ok(())
    }
}
