//! Load of a member: the work that it has in flight.
//!
//! Work is counted in sixteenths of an I/O. Each I/O is one whole, and its bytes add to that: on a
//! disk 1 MiB costs about as much as one access, on flash 8 KiB as much as one command. The
//! volume's counters of I/O and bytes in flight give the load without a loop over the I/O.

use crate::member::Member;

/// Work of an I/O without its bytes.
pub(super) const IO: u64 = 16;
/// Upper bound, so that no product in the policy can overflow.
pub(super) const WORK_MAX: u64 = 1 << 20;

/// Converts bytes to work: one for each 2^`shift`.
#[derive(Clone, Copy, Debug)]
pub(super) struct WorkScale {
    shift: u32,
}

/// I/O of a member in flight.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MemberLoad {
    /// Reads and writes together.
    pub(super) work: u64,
    /// Number of both.
    pub(super) ios: u64,
    pub(super) writes: u32,
}

impl WorkScale {
    pub(super) const DISK: WorkScale = WorkScale { shift: 20 - IO.ilog2() };
    pub(super) const FLASH: WorkScale = WorkScale { shift: 13 - IO.ilog2() };

    #[inline]
    pub(super) fn of_bytes(self, bytes: u64) -> u64 {
        bytes >> self.shift
    }

    #[inline]
    pub(super) fn load(self, member: &Member) -> MemberLoad {
        let ios = u64::from(member.in_flight());
        let work = (ios * IO + self.of_bytes(member.bytes_in_flight)).min(WORK_MAX);
        MemberLoad { work, ios, writes: member.writes_in_flight }
    }
}
