//! Opening members again, beside the loop.
//!
//! To open a device or to attach to a peer may take seconds, and clients do not wait for it: it is
//! an errand (`blocking_worker.rs`). One member is opened at a time, in the order of the wishes.

use crate::assemble::MemberOpener;
use crate::blocking_worker::BlockingWorker;
use crate::driver::{Driver, Token};
use crate::executor::Executor;
use crate::member::{FileId, Source};
use mirrorball_core::member::MemberIndex;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// The owner of the token of the bell.
pub const BELL_OWNER: u8 = 11;

/// What is at the address of a member, beside what is open.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PathState {
    /// The same, as far as one can tell without attaching to it.
    Same,
    /// Another file.
    Replaced,
    /// Nothing.
    Missing(PathBuf),
}

/// A member that was opened again, or why it was not.
pub struct ReopenedMember {
    /// Which.
    pub member: MemberIndex,
    /// What it is now, and what its owner should be told.
    pub result: Result<(Source, Vec<String>), String>,
}

/// See the page of this module.
pub struct Reopener {
    opener: Arc<MemberOpener>,
    errands: BlockingWorker<ReopenedMember>,
}

impl Reopener {
    /// Nothing is being opened yet.
    ///
    /// # Errors
    /// If the system has no socket to spare.
    pub fn new(opener: MemberOpener, driver: &mut Driver) -> io::Result<Reopener> {
        let errands = BlockingWorker::new(Token::new(BELL_OWNER, 0), driver)?;
        Ok(Reopener { opener: Arc::new(opener), errands })
    }

    /// Sets out to open a member, which holds `size_bytes` of the volume.
    ///
    /// # Errors
    /// If the system has no thread to spare.
    pub fn begin(&mut self, member: MemberIndex, size_bytes: u64) -> io::Result<()> {
        let opener = self.opener.clone();
        self.errands.run(move || {
            let mut notes = Vec::new();
            let source = opener.open_again(member, size_bytes, &mut notes);
            let result = source.map(|source| (source, notes)).map_err(|error| error.to_string());
            ReopenedMember { member, result }
        })
    }

    /// The next member that was opened, or could not be.
    pub fn poll(&self) -> Option<ReopenedMember> {
        self.errands.poll()
    }

    /// The bell rang.
    pub fn on_bell(&self, driver: &mut Driver) {
        self.errands.listen(driver);
    }

    /// Whether what is at the address of a member is what is open as that.
    pub fn address(&self, member: MemberIndex, executor: &Executor) -> PathState {
        let Some(path) = self.opener.path(member) else { return PathState::Same };
        match (FileId::at(&path), executor.file_id(member)) {
            (None, _) => PathState::Missing(path),
            (there, open) if there == open => PathState::Same,
            (Some(_), _) => PathState::Replaced,
        }
    }
}
