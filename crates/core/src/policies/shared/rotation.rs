//! btrfs's rotation: blocks read from the whole volume are counted, and a cycle number that grows
//! by one for every so many blocks says whose turn it is.
//!
//! Source: `btrfs_read_rr` in Linux `fs/btrfs/volumes.c` and the statistics it reads.

use crate::io::{MemberIo, Op};
use crate::member::Members;
use crate::policy::Mirror;
use crate::units::SECTOR_BYTES;

/// The count of blocks read and the length of a turn.
#[derive(Debug)]
pub(crate) struct Rotation {
    blocks_read: u32,
    blocks_per_turn: u32,
}

impl Rotation {
    /// Turns of `contiguous_bytes`, a multiple of the sector. A turn too long for the 32-bit count
    /// of blocks lasts as long as that count can.
    pub(crate) fn new(contiguous_bytes: u64) -> Rotation {
        let blocks = contiguous_bytes / SECTOR_BYTES;
        Rotation { blocks_read: 0, blocks_per_turn: blocks.clamp(1, u64::from(u32::MAX)) as u32 }
    }

    /// Counts a member I/O if it is a read, whatever its purpose. The count wraps, as in btrfs.
    #[inline]
    pub(crate) fn count(&mut self, io: &MemberIo) {
        if io.op == Op::Read {
            self.blocks_read = self.blocks_read.wrapping_add((io.length / SECTOR_BYTES) as u32);
        }
    }

    /// Blocks read so far, modulo 2^32.
    pub(crate) fn blocks_read(&self) -> u32 {
        self.blocks_read
    }

    /// Which of `parties` has its turn.
    #[inline]
    pub(crate) fn turn(&self, parties: u32) -> u32 {
        (self.blocks_read / self.blocks_per_turn) % parties
    }
}

/// The candidate (by its place in the slice) that comes `rank`-th when candidates are ordered by
/// devid; `None` if there are not so many. The order of the slice follows free space and differs
/// from chunk to chunk, that of the devids does not.
#[inline]
pub(crate) fn nth_by_devid(
    mirrors: &[Mirror],
    members: &Members,
    rank: u32,
    is_candidate: impl Fn(&Mirror) -> bool,
) -> Option<usize> {
    let devid = |mirror: &Mirror| members[mirror.member].config.devid;
    let is_before =
        |mirror: &Mirror, own_devid: u64| devid(mirror) < own_devid && is_candidate(mirror);
    mirrors.iter().position(|mirror| {
        let own_devid = devid(mirror);
        is_candidate(mirror)
            && mirrors.iter().filter(|other| is_before(other, own_devid)).count() == rank as usize
    })
}
