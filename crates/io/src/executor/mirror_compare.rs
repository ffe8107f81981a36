//! Comparison of mirrors, for a scrub.
//!
//! Each mirror is read into a buffer of its own. The first good read of a range is also copied to
//! the buffer of the request, from which mirrors whose medium failed are rewritten. When the
//! request ends, the mirrors of each range are compared, a block at a time. A volume with checksums
//! compares them itself, by these.

use super::{Executor, SCRUB_BLOCK_BYTES};
use crate::driver::buffers::{BufferKey, Slice};
use mirrorball_core::io::{MemberIo, RequestId};
use mirrorball_core::member::MemberIndex;
use mirrorball_core::volume::gate::Array;
use mirrorball_store::StoreGate;

/// The mirrors that scrubs in flight have read, and what their comparison found.
#[derive(Default)]
pub(super) struct MirrorCompare {
    read: Vec<MirrorRead>,
    found: Vec<BlockDifference>,
}

struct MirrorRead {
    request: RequestId,
    /// First byte, on the volume.
    offset: u64,
    length: usize,
    member: MemberIndex,
    buffer: BufferKey,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BlockDifference {
    pub offset: u64,
    /// A member with the data that most mirrors have; `None` if no data are on more than half.
    pub right: Option<MemberIndex>,
    /// The members with other data than most have.
    pub odd: Vec<MemberIndex>,
}

impl MirrorCompare {
    /// Returns true if no data are kept.
    pub(super) fn is_empty(&self) -> bool {
        self.read.is_empty()
    }
}

impl Executor {
    /// Removes and returns the blocks in which the mirrors of a scrub that ended differ, in
    /// ascending order.
    pub fn take_differences(&mut self) -> Vec<BlockDifference> {
        let mut found = std::mem::take(&mut self.mirror_compare.found);
        let differing = self
            .volume
            .as_mut()
            .and_then(|it| it.change_gate(|store, _| store.take_differing_blocks()));
        let differing = differing.into_iter().flatten();
        found.extend(differing.filter_map(|block| compare_block(block.offset, &block.mirrors)));
        found.sort_unstable_by_key(|block| block.offset);
        found
    }

    /// Removes and returns the blocks that scrubs found with wrong data: the member, and the offset
    /// on the volume.
    pub fn take_mismatched(&mut self) -> Vec<(MemberIndex, u64)> {
        let take = |store: &mut StoreGate, _: &mut Array<'_>| store.take_mismatched_blocks();
        let volume = self.volume.as_mut();
        volume.and_then(|volume| volume.change_gate(take)).unwrap_or_default()
    }

    /// Keeps the data that a scrub read from a mirror until its request ends; `to` is the place of
    /// the data in the buffer of the request.
    pub(super) fn keep_mirror(&mut self, buffer: BufferKey, to: Slice, io: &MemberIo) {
        let (request, offset) = (io.request, io.volume_offset);
        let read = &mut self.mirror_compare.read;
        if !read.iter().any(|it| it.request == request && it.offset == offset) {
            self.driver.copy(Slice::data(buffer, 0, to.length), to);
        }
        read.push(MirrorRead { request, offset, length: to.length, member: io.member, buffer });
    }

    /// Compares the mirrors that a request has read.
    pub(super) fn compare_mirrors(&mut self, request: RequestId) {
        let all = std::mem::take(&mut self.mirror_compare.read);
        let (mut read, others): (Vec<MirrorRead>, _) =
            all.into_iter().partition(|it| it.request == request);
        self.mirror_compare.read = others;
        read.sort_by_key(|it| (it.offset, it.length, it.member));
        for mirrors in
            read.chunk_by(|one, other| (one.offset, one.length) == (other.offset, other.length))
        {
            let MirrorRead { offset: start, length, .. } = mirrors[0];
            for from in (0..length).step_by(SCRUB_BLOCK_BYTES as usize) {
                let until = length.min(from + SCRUB_BLOCK_BYTES as usize);
                let bytes = |it: &MirrorRead| {
                    let slice = Slice::data(it.buffer, from, until - from);
                    (it.member, self.driver.bytes(slice))
                };
                let blocks: Vec<(MemberIndex, &[u8])> = mirrors.iter().map(bytes).collect();
                let found = compare_block(start + from as u64, &blocks);
                self.mirror_compare.found.extend(found);
            }
        }
        for it in read {
            self.driver.release(it.buffer);
        }
    }
}

/// Compares the data of one block on several members, or their digests; `None` if they are equal.
fn compare_block<T: PartialEq>(
    offset: u64,
    blocks: &[(MemberIndex, T)],
) -> Option<BlockDifference> {
    let (_, first) = blocks.first()?;
    if blocks.iter().all(|(_, data)| data == first) {
        return None;
    }
    let count = |wanted: &T| blocks.iter().filter(|(_, data)| data == wanted).count();
    let majority = blocks.iter().find(|(_, data)| 2 * count(data) > blocks.len());
    let is_odd = |data: &T| majority.is_some_and(|(_, most)| data != most);
    Some(BlockDifference {
        offset,
        right: majority.map(|(member, _)| *member),
        odd: blocks.iter().filter(|(_, it)| is_odd(it)).map(|(member, _)| *member).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_data_of_most_mirrors_are_right() {
        let compare = |blocks: &[u8]| {
            let blocks: Vec<[u8; 1]> = blocks.iter().map(|&byte| [byte]).collect();
            let blocks: Vec<(MemberIndex, &[u8])> =
                (0..).map(MemberIndex).zip(blocks.iter().map(<[u8; 1]>::as_slice)).collect();
            let found = compare_block(8192, &blocks)?;
            assert_eq!(found.offset, 8192);
            let odd: Vec<u16> = found.odd.iter().map(|member| member.0).collect();
            Some((found.right.map(|member| member.0), odd))
        };
        assert_eq!(compare(&[]), None);
        assert_eq!(compare(&[1]), None);
        assert_eq!(compare(&[1, 1, 1]), None);
        assert_eq!(compare(&[1, 2]), Some((None, vec![])), "one of two");
        assert_eq!(compare(&[2, 1, 1]), Some((Some(1), vec![0])));
        assert_eq!(compare(&[1, 1, 2, 1]), Some((Some(0), vec![2])));
        assert_eq!(compare(&[1, 2, 1, 3, 1]), Some((Some(0), vec![1, 3])));
        assert_eq!(compare(&[1, 1, 2, 2]), Some((None, vec![])), "two against two");
        assert_eq!(compare(&[1, 2, 3]), Some((None, vec![])));
    }
}
