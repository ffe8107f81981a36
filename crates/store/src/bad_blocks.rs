//! Blocks of which a member is known to have no good data: those that do not match their checksums,
//! and those that a rebuild left out because no mirror could give them.

use crate::checksum::CHECKSUM_BLOCK_BYTES;
use mirrorball_core::member::MemberIndex;
use std::collections::BTreeSet;
use std::ops::Range;

/// Blocks of either kind that are remembered.
const BLOCKS_MAX: usize = 4096;

/// The member before all others in the order of bad blocks.
const FIRST: MemberIndex = MemberIndex(0);

/// See the page of this module. Offsets are on the volume.
#[derive(Debug)]
pub(crate) struct BadBlocks {
    /// Blocks that were counted, so that each is counted once.
    known: BTreeSet<(u64, MemberIndex)>,
    /// Blocks that a member lacks since it was rebuilt.
    left_out: BTreeSet<(u64, MemberIndex)>,
    /// Number of blocks with wrong data that were found on each member.
    pub(crate) mismatched: Vec<u64>,
}

impl BadBlocks {
    pub(crate) fn new(members: usize) -> BadBlocks {
        let mismatched = vec![0; members];
        BadBlocks { known: BTreeSet::new(), left_out: BTreeSet::new(), mismatched }
    }

    /// Counts a block that a member has with wrong data, unless it is known.
    pub(crate) fn on_mismatch(&mut self, member: MemberIndex, offset: u64) {
        if self.left_out.contains(&(offset, member)) {
            return;
        }
        if self.known.len() >= BLOCKS_MAX {
            self.known.clear();
        }
        if self.known.insert((offset, member)) {
            self.mismatched[member.get()] += 1;
        }
    }

    /// Records that a rebuild of a member left out the blocks of a range.
    pub(crate) fn leave_out(&mut self, member: MemberIndex, range: &Range<u64>) {
        let first = range.start / CHECKSUM_BLOCK_BYTES * CHECKSUM_BLOCK_BYTES;
        for offset in (first..range.end).step_by(CHECKSUM_BLOCK_BYTES as usize) {
            if self.left_out.len() < BLOCKS_MAX {
                self.left_out.insert((offset, member));
            }
        }
    }

    pub(crate) fn on_written(&mut self, range: &Range<u64>) {
        for bad in [&mut self.known, &mut self.left_out] {
            let blocks = bad.range((range.start, FIRST)..(range.end, FIRST));
            for block in blocks.copied().collect::<Vec<(u64, MemberIndex)>>() {
                bad.remove(&block);
            }
        }
    }

    /// Records that a range is written with good data on a member.
    pub(crate) fn on_mended(&mut self, member: MemberIndex, range: &Range<u64>) {
        for bad in [&mut self.known, &mut self.left_out] {
            bad.retain(|(offset, bad)| *bad != member || !range.contains(offset));
        }
    }

    /// Forgets what rebuilds left out of a member that has failed.
    pub(crate) fn on_failed(&mut self, member: MemberIndex) {
        self.left_out.retain(|(_, other)| *other != member);
    }

    pub(crate) fn left_out(&self) -> impl Iterator<Item = (u64, MemberIndex)> + '_ {
        self.left_out.iter().copied()
    }
}
