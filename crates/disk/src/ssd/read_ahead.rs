//! Read-ahead: a drive that sees a sequential reader fetches what comes next into its memory.
//!
//! Without it a reader of depth one pays tR for every request, and one of small requests pays it
//! again for each part of a page; real drives bring both close to the link rate. From the third
//! request in sequence on, the drive keeps one to two windows ahead of the reader, of half the
//! read-ahead size each. A request inside them waits only until its window is there; one that runs
//! past them is read from flash itself.
//!
//! Eight readers are remembered, the longest known is forgotten first. Non-goals: strided and
//! backward readers; data that is overwritten while fetched (a model holds no data).

use super::parameters::SsdParameters;
use crate::model::ByteRange;

const STREAMS: usize = 8;
/// Requests that must have come in sequence before one is taken for a stream's.
const SEQUENCE: u32 = 2;

/// The readers that the drive follows.
#[derive(Clone, Debug)]
pub(super) struct DriveReadAhead {
    /// Zero if the drive does not read ahead.
    window_bytes: u64,
    page_bytes: u64,
    /// Where the next request of each reader would begin; apart from the rest, because every
    /// random read is compared with all of them.
    expected: [u64; STREAMS],
    streams: [ReadStream; STREAMS],
    oldest: usize,
}

/// One reader. Times are in nanoseconds, offsets in bytes.
#[derive(Clone, Copy, Debug, Default)]
struct ReadStream {
    /// Requests in sequence so far, the first not counted.
    sequence: u32,
    /// End of the part that is in memory at `near_ready`.
    near_end: u64,
    near_ready: u64,
    /// End of the part after `near_end` that is in memory at `far_ready`.
    far_end: u64,
    far_ready: u64,
}

impl DriveReadAhead {
    /// Read-ahead that follows no reader yet.
    pub(super) fn new(parameters: &SsdParameters) -> DriveReadAhead {
        DriveReadAhead {
            window_bytes: parameters.read_ahead / 2,
            page_bytes: parameters.page,
            expected: [u64::MAX; STREAMS],
            streams: [ReadStream::default(); STREAMS],
            oldest: 0,
        }
    }

    /// When `range`, a read of this stream, is in memory, if it is or will be without another read
    /// of flash.
    #[inline]
    pub(super) fn ready(&self, stream: Option<usize>, range: ByteRange) -> Option<u64> {
        let stream = &self.streams[stream?];
        let end = range.offset + range.length;
        if end <= stream.near_end {
            Some(stream.near_ready)
        } else if end <= stream.far_end {
            Some(stream.far_ready)
        } else {
            None
        }
    }

    /// Notes a read of this stream and answers what to fetch now, as the number of the stream and a
    /// range; then [`DriveReadAhead::fetched`] must follow.
    #[inline(always)]
    pub(super) fn note(
        &mut self,
        stream: Option<usize>,
        range: ByteRange,
    ) -> Option<(usize, ByteRange)> {
        if self.window_bytes == 0 {
            return None;
        }
        let end = range.offset + range.length;
        let Some(index) = stream else {
            let index = self.oldest;
            self.oldest = (index + 1) % STREAMS;
            self.expected[index] = end;
            self.streams[index] = ReadStream::default();
            return None;
        };
        self.expected[index] = end;
        let stream = &mut self.streams[index];
        stream.sequence = stream.sequence.saturating_add(1);
        if stream.sequence < SEQUENCE || end <= stream.near_end {
            return None;
        }
        // The reader has got into the far window, or past it.
        let offset = stream.far_end.max(end);
        // Windows end with a page, so that no page is read for two of them.
        let fetched = (offset + self.window_bytes) | (self.page_bytes - 1);
        Some((index, ByteRange { offset, length: fetched + 1 - offset }))
    }

    /// Notes that the range asked for by [`DriveReadAhead::note`] will be in memory at `ready`.
    pub(super) fn fetched(&mut self, index: usize, range: ByteRange, ready: u64) {
        let stream = &mut self.streams[index];
        stream.near_end = range.offset;
        stream.near_ready = stream.far_ready;
        stream.far_end = range.offset + range.length;
        stream.far_ready = ready;
    }

    /// The stream that a read continues.
    #[inline]
    pub(super) fn follow(&self, range: ByteRange) -> Option<usize> {
        self.expected.iter().position(|&expected| expected == range.offset)
    }
}
