//! Read-ahead: what the page cache asks of the volume when a program reads without O_DIRECT.
//!
//! One state an open file, as in Linux (`mm/readahead.c`, retold from its documentation and the
//! paper "On the design of a new Linux readahead framework", Wu, Xi, Xu, 2008):
//!
//! - A read at the start of the file, or where the last one ended, is sequential. The first such
//!   read that misses opens a window: the read's size rounded up to a power of two, four times that
//!   if it is at most 1/32 of the limit, twice if at most 1/4, else the limit.
//! - The part of a window behind what was asked is the asynchronous part. When the reader comes to
//!   its first byte, the next window is submitted, four times as large below 1/16 of the limit,
//!   twice as large up to 1/2, else the limit; all of it is asynchronous.
//! - Any other read goes to the volume as it is, and leaves no window.
//!
//! Each window goes to the volume as one request. What was read once is not found again: the model
//! stands for files larger than memory.

use mirrorball_core::units::KIB;
use std::collections::VecDeque;

/// A run of bytes: of the file, of the volume, of a member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Run {
    pub(crate) offset: u64,
    pub(crate) length: u64,
}

impl Run {
    fn end(self) -> u64 {
        self.offset + self.length
    }

    pub(crate) fn overlaps(self, other: Run) -> bool {
        self.offset < other.end() && other.offset < self.end()
    }
}

/// The read-ahead state of one open file.
#[derive(Clone, Debug)]
pub(crate) struct ReadAhead {
    limit_bytes: u64,
    file: Run,
    /// Where the last read ended; `None` before the first.
    previous_end: Option<u64>,
    /// The window submitted last, and where its asynchronous part begins.
    window: Option<(Run, u64)>,
    /// Submitted runs that the reader has not passed, with whether their data has come.
    runs: VecDeque<(Run, bool)>,
    /// Runs to submit.
    queued: VecDeque<Run>,
}

impl ReadAhead {
    /// For a reader of `file`, a run of the volume, by windows of at most `limit_kib`.
    pub(crate) fn new(limit_kib: u64, file: Run) -> ReadAhead {
        ReadAhead {
            limit_bytes: limit_kib.saturating_mul(KIB),
            file,
            previous_end: None,
            window: None,
            runs: VecDeque::new(),
            queued: VecDeque::new(),
        }
    }

    /// The program reads `read`. If that is sequential, what must be submitted for it and ahead of
    /// it is queued; if not, it is the program's own affair. Says which.
    pub(crate) fn takes(&mut self, read: Run) -> bool {
        let sequential = read.offset == self.previous_end.unwrap_or(self.file.offset);
        self.previous_end = Some(read.end());
        self.runs.retain(|(run, _)| sequential && run.end() > read.offset);
        if !sequential || self.limit_bytes == 0 {
            self.window = None;
            return false;
        }
        let covered_until = self.runs.back().map_or(read.offset, |(run, _)| run.end());
        if covered_until < read.end() && self.window.is_none_or(|(w, _)| w.end() <= read.offset) {
            self.open_window(read, covered_until);
        }
        // A read may be longer than a window: then it pulls several.
        while let Some((window, marker)) = self.window {
            if marker >= read.end() || !self.open_next(window) {
                break;
            }
        }
        true
    }

    /// The next run to submit to the volume.
    pub(crate) fn poll(&mut self) -> Option<Run> {
        self.queued.pop_front()
    }

    /// The data of a submitted run has come.
    pub(crate) fn on_data(&mut self, run: Run) {
        if let Some((_, came)) = self.runs.iter_mut().find(|(candidate, _)| *candidate == run) {
            *came = true;
        }
    }

    /// How many of the runs that hold the data of `read` have not come.
    pub(crate) fn missing(&self, read: Run) -> usize {
        self.runs.iter().filter(|(run, came)| !came && run.overlaps(read)).count()
    }

    fn open_window(&mut self, read: Run, from: u64) {
        let limit = self.limit_bytes;
        let asked = read.length.min(limit);
        let rounded = asked.next_power_of_two();
        let size = match rounded {
            rounded if rounded <= limit / 32 => rounded * 4,
            rounded if rounded <= limit / 4 => rounded * 2,
            _ => limit,
        };
        let window = self.clip(Run { offset: from, length: size });
        let marker = if size > asked { from + asked } else { from };
        self.window = Some((window, marker));
        self.submit(window);
    }

    /// Submits the window that follows `window`; says whether there was anything left to submit.
    fn open_next(&mut self, window: Run) -> bool {
        let limit = self.limit_bytes;
        let size = match window.length {
            length if length < limit / 16 => length * 4,
            length if length <= limit / 2 => length * 2,
            _ => limit,
        };
        let next = self.clip(Run { offset: window.end(), length: size });
        self.window = Some((next, next.offset));
        if next.length > 0 {
            self.submit(next);
        }
        next.length > 0
    }

    fn clip(&self, run: Run) -> Run {
        Run {
            offset: run.offset,
            length: run.length.min(self.file.end().saturating_sub(run.offset)),
        }
    }

    fn submit(&mut self, run: Run) {
        self.runs.push_back((run, false));
        self.queued.push_back(run);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(offset_kib: u64, length_kib: u64) -> Run {
        Run { offset: offset_kib * KIB, length: length_kib * KIB }
    }

    fn submitted(state: &mut ReadAhead) -> Vec<(u64, u64)> {
        let kib = |run: Run| (run.offset / KIB, run.length / KIB);
        std::iter::from_fn(|| state.poll()).map(kib).collect()
    }

    /// The growth that `mm/readahead.c` gives 4 KiB reads with a limit of 128 KiB: 16, 32, 64, 128.
    #[test]
    fn windows_grow_to_the_limit() {
        let mut state = ReadAhead::new(128, run(0, 1 << 20));
        let mut windows = Vec::new();
        for index in 0..80 {
            state.takes(run(index * 4, 4));
            windows.extend(submitted(&mut state));
        }
        assert_eq!(windows[..4], [(0, 16), (16, 32), (48, 64), (112, 128)]);
        assert!(windows[4..].iter().all(|&(_, length)| length == 128), "{windows:?}");
    }

    /// With reads as large as the limit there are always two windows on their way.
    #[test]
    fn the_next_window_is_submitted_before_it_is_needed() {
        let mut state = ReadAhead::new(128, run(0, 1 << 20));
        state.takes(run(0, 128));
        assert_eq!(submitted(&mut state), [(0, 128), (128, 128)]);
        state.on_data(run(0, 128));
        assert_eq!((state.missing(run(0, 128)), state.missing(run(128, 128))), (0, 1));
        state.takes(run(128, 128));
        assert_eq!(submitted(&mut state), [(256, 128)]);
    }

    #[test]
    fn a_long_read_pulls_several_windows() {
        let mut state = ReadAhead::new(128, run(0, 1 << 20));
        state.takes(run(0, 1024));
        let windows = submitted(&mut state);
        assert!(windows.iter().all(|&(_, length)| length == 128), "{windows:?}");
        assert_eq!(state.missing(run(0, 1024)), 8);
        assert_eq!(windows.last(), Some(&(1024, 128)), "one ahead");
        windows.iter().for_each(|&(offset, length)| state.on_data(run(offset, length)));
        assert_eq!(state.missing(run(0, 1024)), 0);
    }

    #[test]
    fn random_reads_are_left_alone_and_a_stream_may_begin_anywhere_after() {
        let mut state = ReadAhead::new(128, run(0, 1 << 20));
        for offset in [400, 20, 8000] {
            assert!(!state.takes(run(offset, 4)));
            assert_eq!(submitted(&mut state), []);
        }
        assert!(state.takes(run(8004, 4)));
        assert_eq!(submitted(&mut state), [(8004, 16)], "where the last one ended");
    }

    #[test]
    fn nothing_is_read_beyond_the_file_and_a_limit_of_zero_turns_it_off() {
        let mut state = ReadAhead::new(128, run(100, 160));
        state.takes(run(100, 128));
        assert_eq!(submitted(&mut state), [(100, 128), (228, 32)]);
        state.takes(run(228, 32));
        assert_eq!(submitted(&mut state), []);
        let mut off = ReadAhead::new(0, run(0, 1 << 20));
        assert!(!off.takes(run(0, 4)) && !off.takes(run(4, 4)));
    }
}
