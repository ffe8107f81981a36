//! Members on the real clock: what holds their data.
//!
//! - [`mod@file`]: a real member, a file or a block device, with [`guard`] before it.
//! - [`remote`]: an NBD export of another machine.
//! - [`memory`]: the data of an emulated member in memory.
//!
//! An emulated member takes its timing from a model of `mirrorball_disk` and keeps its data in a
//! [`Store`], so that what is written is read back.

pub mod file;
pub mod guard;
pub mod memory;
pub mod remote;

use crate::driver::{Endpoint, Handle};
use file::RealMember;
use memory::MemoryStore;
use mirrorball_core::io::IoError;
use mirrorball_core::member::MemberConfig;
use remote::Remote;
use remote::peer::Peer;
use rustix::io::Errno;

/// What keeps the data of a member.
pub enum Store {
    /// A file or device whose timing is its own.
    Real {
        /// It.
        handle: Handle,
        /// Where the member begins in it.
        begin_bytes: u64,
        /// For a file, how long it must be: one that was cut short has lost what it held, even if
        /// a later write makes it long again.
        least_bytes: Option<u64>,
    },
    /// An export of another machine.
    Remote(Box<Remote>),
    /// Nothing: a file or device that failed, and is not opened again.
    Absent,
    /// A file whose timing is a model's.
    EmulatedFile(Handle),
    /// Memory; the timing is a model's.
    EmulatedMemory(MemoryStore),
    /// Nothing: writes are forgotten, reads bring zeroes. The timing is a model's.
    EmulatedNothing,
}

/// A file or block device of a member, before the driver owns it.
pub struct MemberFile {
    /// The file.
    pub file: Endpoint,
    /// First byte of the member in it.
    pub begin_bytes: u64,
    /// For a file, the length that it must keep.
    pub least_bytes: Option<u64>,
}

impl From<RealMember> for MemberFile {
    fn from(member: RealMember) -> MemberFile {
        MemberFile {
            least_bytes: member.is_file.then_some(member.begin_bytes + member.size_bytes),
            begin_bytes: member.begin_bytes,
            file: Endpoint::Fd(member.fd),
        }
    }
}

/// A member to be driven, before the driver has it.
pub enum Source {
    /// A file or block device.
    Real(MemberFile),
    /// An export of another machine.
    Remote(Peer),
    /// A modelled disk with its data in this file.
    EmulatedFile(RealMember),
    /// A modelled disk with its data in memory.
    EmulatedMemory,
    /// A modelled disk without data.
    EmulatedNothing,
}

/// A member to be driven: what the volume is told of it, and what it is.
pub struct NewMember {
    /// What the volume is told.
    pub config: MemberConfig,
    /// What it is.
    pub source: Source,
}

/// What an error of the system means for a member.
pub(crate) fn io_error(errno: Errno) -> IoError {
    match errno {
        Errno::NODEV | Errno::NXIO | Errno::BADF | Errno::NOMEDIUM | Errno::STALE => IoError::Gone,
        Errno::TIMEDOUT | Errno::AGAIN | Errno::NOMEM | Errno::NOLINK | Errno::PIPE => {
            IoError::Transport
        }
        _ => IoError::Medium,
    }
}
