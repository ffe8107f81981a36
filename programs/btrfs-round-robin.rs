//! btrfs/round-robin in Rust: mirrors take turns by the number of 4 KiB blocks read from the whole
//! volume, in the order of their devids.
//!
//! The same as the built-in `btrfs/round-robin`, and as `btrfs-round-robin.c`, decision by
//! decision.

#![no_std]

use mirrorball_policy::{Choose, Event, Mirror, Policy, READ, parameter, program};

const BLOCK_BYTES: u64 = 4096;

parameter!(
    BLOCKS,
    "blocks",
    64,
    1,
    0xffff_ffff,
    "blocks of 4 KiB read from one mirror before the next"
);

struct RoundRobin {
    /// Reads of any purpose; wraps, as the 32-bit counter of btrfs does.
    blocks_read: u32,
}

/// Index of the mirror whose devid is the `rank`-th; 0, the lowest live stripe, if there is none.
fn nth_by_devid(mirrors: &[Mirror], rank: u32) -> usize {
    let rank_of = |mirror: &Mirror| {
        let before = mirrors.iter().filter(|other| other.member.devid < mirror.member.devid);
        before.count() as u32
    };
    mirrors.iter().position(|mirror| rank_of(mirror) == rank).unwrap_or(0)
}

impl Policy for RoundRobin {
    const START: RoundRobin = RoundRobin { blocks_read: 0 };

    fn choose(&mut self, c: &Choose) -> usize {
        let turn = self.blocks_read / BLOCKS.get() as u32;
        nth_by_devid(c.mirrors(), turn.checked_rem(c.copies).unwrap_or(0))
    }

    fn submit(&mut self, e: &Event) {
        if e.op == READ {
            self.blocks_read = self.blocks_read.wrapping_add((e.length / BLOCK_BYTES) as u32);
        }
    }
}

program!(
    RoundRobin,
    "btrfs-round-robin",
    "1",
    "btrfs/round-robin",
    "turns by the number of blocks read";
    submit
);
