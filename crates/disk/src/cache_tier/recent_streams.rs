//! The most recent streams of I/O, to find the sequential ones.
//!
//! An I/O that begins where one of the last 128 streams ended continues it, whether it reads or
//! writes; any other begins a stream. bcache remembers as many.

use crate::model::ByteRange;
use std::collections::VecDeque;

const STREAMS: usize = 128;

#[derive(Clone, Debug)]
pub(super) struct RecentStreams {
    cutoff_bytes: u64,
    /// The end of each stream and its bytes, the latest first.
    streams: VecDeque<(u64, u64)>,
}

impl RecentStreams {
    pub(super) fn new(cutoff_bytes: u64) -> RecentStreams {
        RecentStreams { cutoff_bytes, streams: VecDeque::with_capacity(STREAMS) }
    }

    /// Returns true if the stream that an I/O continues reaches the cutoff with it.
    pub(super) fn reaches_cutoff(&self, range: ByteRange) -> bool {
        self.cutoff_bytes > 0
            && self.bytes_before(range).saturating_add(range.length) >= self.cutoff_bytes
    }

    pub(super) fn note(&mut self, range: ByteRange) {
        let bytes = self.bytes_before(range).saturating_add(range.length);
        if let Some(at) = self.position(range) {
            self.streams.remove(at);
        }
        self.streams.truncate(STREAMS - 1);
        self.streams.push_front((range.offset + range.length, bytes));
    }

    fn bytes_before(&self, range: ByteRange) -> u64 {
        self.position(range).map_or(0, |at| self.streams[at].1)
    }

    fn position(&self, range: ByteRange) -> Option<usize> {
        self.streams.iter().position(|&(end, _)| end == range.offset)
    }
}
