//! Blocks of which a member has data that do not match their checksums.

use mirrorball_core::member::MemberIndex;
use std::collections::BTreeSet;
use std::ops::Range;

/// Blocks that are remembered.
const BLOCKS_MAX: usize = 4096;

/// The member before all others in the order of blocks.
const FIRST: MemberIndex = MemberIndex(0);

/// See the page of this module. Offsets are on the volume.
#[derive(Debug)]
pub(crate) struct MismatchedBlocks {
    /// Blocks that were counted, so that each is counted once.
    known: BTreeSet<(u64, MemberIndex)>,
    /// Number of blocks that were found on each member since the start, whatever its device.
    pub(crate) totals: Vec<u64>,
    /// Those that were found on the devices before.
    before: Vec<u64>,
}

impl MismatchedBlocks {
    pub(crate) fn new(members: usize) -> MismatchedBlocks {
        let zeroes = vec![0; members];
        MismatchedBlocks { known: BTreeSet::new(), totals: zeroes.clone(), before: zeroes }
    }

    /// Number of blocks that were found on the device that a member has.
    pub(crate) fn on_device(&self, member: MemberIndex) -> u64 {
        self.totals[member.get()] - self.before[member.get()]
    }

    /// Handles the end of the use of a device.
    pub(crate) fn on_replaced(&mut self, member: MemberIndex) {
        self.known.retain(|(_, bad)| *bad != member);
        self.before[member.get()] = self.totals[member.get()];
    }

    /// Counts a block that a member has with wrong data, unless it is known.
    pub(crate) fn on_mismatch(&mut self, member: MemberIndex, offset: u64) {
        if self.known.len() >= BLOCKS_MAX {
            self.known.clear();
        }
        if self.known.insert((offset, member)) {
            self.totals[member.get()] += 1;
        }
    }

    pub(crate) fn on_written(&mut self, range: &Range<u64>) {
        let blocks = self.known.range((range.start, FIRST)..(range.end, FIRST));
        for block in blocks.copied().collect::<Vec<(u64, MemberIndex)>>() {
            self.known.remove(&block);
        }
    }

    /// Records that a range is written with good data on a member.
    pub(crate) fn on_mended(&mut self, member: MemberIndex, range: &Range<u64>) {
        self.known.retain(|(offset, bad)| *bad != member || !range.contains(offset));
    }
}
