//! Comparison of mirrors, for a scrub.
//!
//! Each mirror is read into a buffer of its own. The first good read of a range is copied to the
//! buffer of the request, from which mirrors whose medium failed are rewritten, and the others are
//! compared with it.

use super::active_io::{ActiveIo, IoRequestKey};
use super::{Executor, SCRUB_BLOCK_BYTES};
use crate::driver::buffers::{BufferKey, Slice};

/// The mirrors that scrubs in flight read.
#[derive(Default)]
pub(super) struct MirrorCompare {
    /// Requests, and the offsets in their buffers, for which a mirror was read.
    read: Vec<(IoRequestKey, usize)>,
    /// Offsets on the volume of blocks that differed.
    differences: Vec<u64>,
}

impl MirrorCompare {
    /// Forgets the ranges of a request.
    pub(super) fn end(&mut self, request: IoRequestKey) {
        self.read.retain(|(other, _)| *other != request);
    }
}

impl Executor {
    /// Takes the offsets of the blocks that differed between mirrors, in ascending order.
    pub fn take_differences(&mut self) -> Vec<u64> {
        let mut offsets = std::mem::take(&mut self.mirror_compare.differences);
        offsets.sort_unstable();
        offsets.dedup();
        offsets
    }

    /// Takes the data that a scrub read from a mirror, and releases its buffer.
    pub(super) fn compare_mirror(&mut self, buffer: BufferKey, io: &ActiveIo) {
        let request = *self.requests.get(io.request);
        let target = request.buffer.expect("a scrub has a buffer");
        let length = io.length as usize;
        let from = Slice::data(buffer, 0, length);
        let to = Slice::data(target, io.within, length);
        let range = (io.request, io.within);
        let MirrorCompare { read, differences } = &mut self.mirror_compare;
        if read.contains(&range) {
            let block = SCRUB_BLOCK_BYTES as usize;
            let mirrors = [from, to].map(|slice| self.driver.bytes(slice).chunks(block));
            let [one, other] = mirrors;
            let offsets = (request.offset + io.within as u64..).step_by(block);
            let differing = one.zip(other).zip(offsets).filter(|((one, other), _)| one != other);
            differences.extend(differing.map(|(_, offset)| offset));
        } else {
            self.driver.copy(from, to);
            read.push(range);
        }
        self.driver.release(buffer);
    }
}
