//! What a member has in flight, as work.
//!
//! Work is counted in sixteenths of an I/O. Each I/O is one whole and its bytes add to that: on a
//! disk 1 MiB costs about as much as one access, on flash 8 KiB as much as one command. The books
//! give the work in flight without a look at each I/O.

use crate::member::Member;

/// The work of an I/O without its bytes.
pub(super) const IO: u64 = 16;
/// More than this counts as this much, so that no product of the policy can overflow.
const LOAD_MAX: u64 = 1 << 20;
const BYTES_MAX: u64 = 1 << 50;

/// How much work bytes are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    io_bytes_shift: u32,
}

/// What a member has in flight.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Busy {
    /// The work of it.
    pub(super) load: u64,
    /// How many of it are writes.
    pub(super) writes: u32,
}

impl Scale {
    /// Of a disk.
    pub(super) const DISK: Scale = Scale { io_bytes_shift: 20 };
    /// Of flash.
    pub(super) const FLASH: Scale = Scale { io_bytes_shift: 13 };

    /// The work of an I/O's bytes.
    #[inline]
    pub(super) fn of_bytes(self, bytes: u64) -> u64 {
        (bytes * IO) >> self.io_bytes_shift
    }

    /// What is in flight.
    #[inline]
    pub(super) fn busy(self, member: &Member) -> Busy {
        let bytes = member.bytes_in_flight.min(BYTES_MAX);
        let load = (u64::from(member.in_flight()) * IO + self.of_bytes(bytes)).min(LOAD_MAX);
        Busy { load, writes: member.writes_in_flight }
    }
}
