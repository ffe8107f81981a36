//! btrfs's rotation: the blocks read from the whole volume are counted, and the count divided by
//! the length of a turn gives the mirror.
//!
//! Source: `btrfs_read_rr` in Linux `fs/btrfs/volumes.c` and the statistics it reads.

use crate::io::{MemberIo, Op};
use crate::member::Members;
use crate::policy::Mirror;
use crate::units::SECTOR_BYTES;

/// Number of blocks read, and the length of a turn.
#[derive(Debug)]
pub(crate) struct BlockRotation {
    blocks_read: u32,
    blocks_per_turn: u32,
}

impl BlockRotation {
    /// Turns of `contiguous_bytes`, a multiple of the sector. A turn too long for the 32-bit count
    /// of blocks lasts as long as that count can.
    pub(crate) fn new(contiguous_bytes: u64) -> BlockRotation {
        let blocks = contiguous_bytes / SECTOR_BYTES;
        BlockRotation {
            blocks_read: 0,
            blocks_per_turn: blocks.clamp(1, u64::from(u32::MAX)) as u32,
        }
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

    /// Index of the current one of `mirrors` mirrors.
    #[inline]
    pub(crate) fn turn(&self, mirrors: u32) -> u32 {
        (self.blocks_read / self.blocks_per_turn) % mirrors
    }
}

/// Position of the candidate that is `rank`-th in the order of devids; `None` if there are fewer
/// candidates. The order of the slice follows free space and differs from chunk to chunk, that of
/// the devids does not.
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
