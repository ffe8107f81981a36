//! Reopening members, without blocking the service.
//!
//! Opening a device or connecting to another machine may take seconds, so a `BlockingWorker` does
//! it, one member at a time, in the order of the requests.

use crate::blocking_worker::BlockingWorker;
use crate::driver::{Driver, EventOwner, FileId, Token};
use crate::executor::Executor;
use crate::member::Source;
use mirrorball_core::label::assembly::FoundMember;
use mirrorball_core::member::MemberIndex;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// Opens the members of a volume again.
pub trait OpenMember: Send + Sync {
    /// Opens a member that holds `size_bytes` of the volume.
    ///
    /// # Errors
    /// If the member cannot be opened, or cannot replace what was open; the text says why.
    fn open_again(&self, member: MemberIndex, size_bytes: u64) -> Result<OpenedMember, String>;

    /// Compares the file at the path of a member with the open one.
    fn path_state(&self, member: MemberIndex, open: Option<FileId>) -> PathState;
}

/// The storage of a member that was opened again.
pub struct OpenedMember {
    /// The storage.
    pub source: Source,
    /// The label and dirty log on it, if there are any.
    pub found: Option<FoundMember>,
    /// Notes for the user, a line each.
    pub notes: Vec<String>,
}

/// The file at the path of a member, compared with the open one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PathState {
    /// It is the same file, or the member has no path.
    Same,
    /// It is another file.
    Replaced,
    /// There is no file at this path.
    Missing(PathBuf),
}

/// A member that was opened, or why it could not be.
pub struct ReopenedMember {
    /// The member.
    pub member: MemberIndex,
    /// Its storage.
    pub result: Result<OpenedMember, String>,
}

/// Opens members in the background.
pub struct Reopener {
    opener: Arc<dyn OpenMember>,
    worker: BlockingWorker<ReopenedMember>,
}

impl Reopener {
    /// A reopener without requests.
    ///
    /// # Errors
    /// If the process is out of file descriptors.
    pub fn new(opener: Arc<dyn OpenMember>, driver: &mut Driver) -> io::Result<Reopener> {
        let worker = BlockingWorker::new(Token::new(EventOwner::Reopen, 0), driver)?;
        Ok(Reopener { opener, worker })
    }

    /// Queues a request to open a member that holds `size_bytes` of the volume.
    ///
    /// # Errors
    /// If the system cannot start a thread.
    pub fn open(&mut self, member: MemberIndex, size_bytes: u64) -> io::Result<()> {
        let opener = Arc::clone(&self.opener);
        let task = move || ReopenedMember { member, result: opener.open_again(member, size_bytes) };
        self.worker.run(task)
    }

    /// The next member that was opened, or could not be.
    pub fn poll(&self) -> Option<ReopenedMember> {
        self.worker.poll()
    }

    /// Compares the file at the path of a member with the open one.
    pub fn path_state(&self, member: MemberIndex, executor: &Executor) -> PathState {
        self.opener.path_state(member, executor.file_id(member))
    }
}
