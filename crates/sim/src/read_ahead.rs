//! Read-ahead: the reads that the page cache submits for a sequential reader without O_DIRECT.
//!
//! One state per open file, as in Linux (`mm/readahead.c`, after its documentation and the paper
//! "On the design of a new Linux readahead framework", Wu, Xi, Xu, 2008):
//!
//! - A read is sequential if it starts at the start of the file, or in the last page of the read
//!   before or behind it. The page cache has that page: requests that are not whole pages are
//!   widened to them.
//! - The first sequential read that misses opens a window: the read's size rounded up to a power
//!   of two, times four if that is at most 1/32 of the limit, times two if at most 1/4, else the
//!   limit.
//! - The part of a window after the requested bytes is the asynchronous part. When the reader
//!   reaches its first byte, the next window is submitted: four times as large below 1/16 of the
//!   limit, twice as large up to 1/2, else the limit. All of it is asynchronous.
//! - Any other read goes to the volume unchanged, and closes the window.
//!
//! Each window goes to the volume as one request. Data from before the last read is not cached: the
//! simulated file is larger than memory.

use mirrorball_core::units::{KIB, SECTOR_BYTES};
use std::collections::VecDeque;

/// A range of bytes of a file, the volume or a member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct IoRange {
    pub(crate) offset: u64,
    pub(crate) length: u64,
}

impl IoRange {
    fn end(self) -> u64 {
        self.offset + self.length
    }

    pub(crate) fn overlaps(self, other: IoRange) -> bool {
        self.offset < other.end() && other.offset < self.end()
    }
}

/// The read-ahead state of one open file.
#[derive(Clone, Debug)]
pub(crate) struct ReadAhead {
    limit_bytes: u64,
    file: IoRange,
    /// End of the last read; `None` before the first.
    previous_end: Option<u64>,
    /// The window submitted last, and the start of its asynchronous part.
    window: Option<(IoRange, u64)>,
    /// Submitted windows that the reader has not passed, and whether their data has arrived.
    windows: VecDeque<(IoRange, bool)>,
    /// Windows to submit.
    queued: VecDeque<IoRange>,
}

impl ReadAhead {
    /// The state of a reader of `file`, a range of the volume, with windows of at most `limit_kib`.
    pub(crate) fn new(limit_kib: u64, file: IoRange) -> ReadAhead {
        ReadAhead {
            limit_bytes: limit_kib.saturating_mul(KIB),
            file,
            previous_end: None,
            window: None,
            windows: VecDeque::new(),
            queued: VecDeque::new(),
        }
    }

    /// First byte of the file.
    pub(crate) fn start(&self) -> u64 {
        self.file.offset
    }

    /// Handles a read of the application. Returns true if the read is sequential: then its data
    /// comes from windows, and the windows it needs and the ones ahead of it are queued. Returns
    /// false if the read must go to the volume itself.
    pub(crate) fn takes(&mut self, read: IoRange) -> bool {
        let cached_until = self.previous_end.unwrap_or(self.file.offset);
        let sequential = read.offset == cached_until || read.offset + SECTOR_BYTES == cached_until;
        self.previous_end = Some(read.end());
        if sequential && read.end() == cached_until {
            return true;
        }
        self.windows.retain(|(window, _)| sequential && window.end() > read.offset);
        if !sequential || self.limit_bytes == 0 {
            self.window = None;
            return false;
        }
        let covered_until = self.windows.back().map_or(cached_until, |(window, _)| window.end());
        if covered_until < read.end() && self.window.is_none_or(|(w, _)| w.end() <= read.offset) {
            self.open_window(read, covered_until);
        }
        // A read may need several windows.
        while let Some((window, marker)) = self.window {
            if marker >= read.end() || !self.open_next(window) {
                break;
            }
        }
        true
    }

    /// The next window to submit to the volume.
    pub(crate) fn poll(&mut self) -> Option<IoRange> {
        self.queued.pop_front()
    }

    /// Reports that the data of a submitted window has arrived.
    pub(crate) fn on_data(&mut self, window: IoRange) {
        let found = self.windows.iter_mut().find(|(candidate, _)| *candidate == window);
        if let Some((_, arrived)) = found {
            *arrived = true;
        }
    }

    /// Number of windows that `read` needs and whose data has not arrived.
    pub(crate) fn missing(&self, read: IoRange) -> usize {
        self.windows.iter().filter(|(window, arrived)| !arrived && window.overlaps(read)).count()
    }

    fn open_window(&mut self, read: IoRange, from: u64) {
        let limit = self.limit_bytes;
        let asked = (read.end() - from).min(limit);
        let rounded = asked.next_power_of_two();
        let size = match rounded {
            rounded if rounded <= limit / 32 => rounded * 4,
            rounded if rounded <= limit / 4 => rounded * 2,
            _ => limit,
        };
        let window = self.clip(IoRange { offset: from, length: size });
        let marker = if size > asked { from + asked } else { from };
        self.window = Some((window, marker));
        self.submit(window);
    }

    /// Submits the window after `window`. Returns false at the end of the file.
    fn open_next(&mut self, window: IoRange) -> bool {
        let limit = self.limit_bytes;
        let size = match window.length {
            length if length < limit / 16 => length * 4,
            length if length <= limit / 2 => length * 2,
            _ => limit,
        };
        let next = self.clip(IoRange { offset: window.end(), length: size });
        self.window = Some((next, next.offset));
        if next.length > 0 {
            self.submit(next);
        }
        next.length > 0
    }

    fn clip(&self, window: IoRange) -> IoRange {
        IoRange {
            offset: window.offset,
            length: window.length.min(self.file.end().saturating_sub(window.offset)),
        }
    }

    fn submit(&mut self, window: IoRange) {
        self.windows.push_back((window, false));
        self.queued.push_back(window);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(offset_kib: u64, length_kib: u64) -> IoRange {
        IoRange { offset: offset_kib * KIB, length: length_kib * KIB }
    }

    fn submitted(state: &mut ReadAhead) -> Vec<(u64, u64)> {
        let kib = |window: IoRange| (window.offset / KIB, window.length / KIB);
        std::iter::from_fn(|| state.poll()).map(kib).collect()
    }

    /// The growth that `mm/readahead.c` gives 4 KiB reads with a limit of 128 KiB: 16, 32, 64, 128.
    #[test]
    fn windows_grow_to_the_limit() {
        let mut state = ReadAhead::new(128, range(0, 1 << 20));
        let mut windows = Vec::new();
        for index in 0..80 {
            state.takes(range(index * 4, 4));
            windows.extend(submitted(&mut state));
        }
        assert_eq!(windows[..4], [(0, 16), (16, 32), (48, 64), (112, 128)]);
        assert!(windows[4..].iter().all(|&(_, length)| length == 128), "{windows:?}");
    }

    /// With reads as large as the limit, two windows are always in flight.
    #[test]
    fn next_window_is_submitted_before_it_is_needed() {
        let mut state = ReadAhead::new(128, range(0, 1 << 20));
        state.takes(range(0, 128));
        assert_eq!(submitted(&mut state), [(0, 128), (128, 128)]);
        state.on_data(range(0, 128));
        assert_eq!((state.missing(range(0, 128)), state.missing(range(128, 128))), (0, 1));
        state.takes(range(128, 128));
        assert_eq!(submitted(&mut state), [(256, 128)]);
    }

    #[test]
    fn long_read_submits_several_windows() {
        let mut state = ReadAhead::new(128, range(0, 1 << 20));
        state.takes(range(0, 1024));
        let windows = submitted(&mut state);
        assert!(windows.iter().all(|&(_, length)| length == 128), "{windows:?}");
        assert_eq!(state.missing(range(0, 1024)), 8);
        assert_eq!(windows.last(), Some(&(1024, 128)), "one window ahead");
        windows.iter().for_each(|&(offset, length)| state.on_data(range(offset, length)));
        assert_eq!(state.missing(range(0, 1024)), 0);
    }

    /// Requests of 10 KiB are widened to 8 or 12 KiB, and begin in the last page of the one before.
    #[test]
    fn requests_that_are_not_whole_pages_have_the_windows_of_those_that_are() {
        let widened = |index: u64| {
            let start = index * 10 / 4 * 4;
            range(start, ((index + 1) * 10).next_multiple_of(4) - start)
        };
        let mut state = ReadAhead::new(128, range(0, 1 << 20));
        let mut windows = Vec::new();
        for index in 0..40 {
            assert!(state.takes(widened(index)), "{index}");
            let sent = submitted(&mut state);
            sent.iter().for_each(|&(offset, length)| state.on_data(range(offset, length)));
            windows.extend(sent);
            assert_eq!(state.missing(widened(index)), 0);
        }
        assert_eq!(windows[..4], [(0, 32), (32, 64), (96, 128), (224, 128)]);
    }

    /// Four requests of 1 KiB are in one page, which is read once, with read-ahead and without.
    #[test]
    fn page_of_the_last_read_is_cached() {
        for limit_kib in [128, 0] {
            let mut state = ReadAhead::new(limit_kib, range(0, 1 << 20));
            let first = state.takes(range(400, 4));
            assert!(!first && (0..3).all(|_| state.takes(range(400, 4))));
            assert_eq!(submitted(&mut state), []);
            assert_eq!(state.takes(range(404, 4)), limit_kib > 0);
        }
    }

    #[test]
    fn random_reads_have_no_window_and_a_sequence_may_start_anywhere() {
        let mut state = ReadAhead::new(128, range(0, 1 << 20));
        for offset in [400, 20, 8000] {
            assert!(!state.takes(range(offset, 4)));
            assert_eq!(submitted(&mut state), []);
        }
        assert!(state.takes(range(8004, 4)));
        assert_eq!(submitted(&mut state), [(8004, 16)], "at the end of the last read");
    }

    #[test]
    fn windows_end_with_the_file_and_limit_zero_disables_read_ahead() {
        let mut state = ReadAhead::new(128, range(100, 160));
        state.takes(range(100, 128));
        assert_eq!(submitted(&mut state), [(100, 128), (228, 32)]);
        state.takes(range(228, 32));
        assert_eq!(submitted(&mut state), []);
        let mut off = ReadAhead::new(0, range(0, 1 << 20));
        assert!(!off.takes(range(0, 4)) && !off.takes(range(4, 4)));
    }
}
