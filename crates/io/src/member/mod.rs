//! The storage of members.
//!
//! - [`mod@file`]: a file or block device; [`guard`] refuses devices that are in use.
//! - [`remote`]: an NBD export of another machine.
//! - [`memory`]: the data of an emulated member in memory.
//!
//! The timing of an emulated member comes from a model of `mirrorball_disk`, its data are in a
//! [`Store`].

mod block_devices;
pub mod file;
pub mod guard;
pub mod memory;
mod release;
pub mod remote;

use crate::driver::{Endpoint, Handle};
use file::RealMember;
use memory::MemoryStore;
use mirrorball_core::io::IoError;
use mirrorball_core::member::MemberConfig;
use remote::Remote;
use remote::peer::Peer;
use rustix::io::Errno;

/// The storage of a member, owned by the driver.
pub enum Store {
    /// A file or block device.
    Real(Handle),
    /// An export of another machine.
    Remote(Box<Remote>),
    /// None: a file or device that failed and was closed.
    Absent,
    /// A file; the timing is a model's.
    EmulatedFile(Handle),
    /// Memory; the timing is a model's.
    EmulatedMemory(MemoryStore),
    /// None: writes are dropped, reads return zeroes. The timing is a model's.
    EmulatedNothing,
}

/// The storage of a member, before the driver owns it.
pub enum Source {
    /// A file or block device.
    Real(Endpoint),
    /// An export of another machine.
    Remote(Peer),
    /// None: the member was not found.
    Absent,
    EmulatedFile(RealMember),
    EmulatedMemory,
    /// An emulated disk without data.
    EmulatedNothing,
}

pub struct NewMember {
    pub config: MemberConfig,
    pub source: Source,
}

pub(crate) fn io_error(errno: Errno) -> IoError {
    match errno {
        Errno::NODEV | Errno::NXIO | Errno::BADF | Errno::NOMEDIUM | Errno::STALE => IoError::Gone,
        Errno::TIMEDOUT | Errno::AGAIN | Errno::NOMEM | Errno::NOLINK | Errno::PIPE => {
            IoError::Transport
        }
        _ => IoError::Medium,
    }
}
