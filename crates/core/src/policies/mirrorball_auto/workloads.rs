//! Workloads: streams that read alike.
//!
//! A program with sixteen threads is one user, who waits for all of them together. A kernel sees
//! sixteen streams. Streams of the same request size and depth, by powers of two, count as one
//! workload, whose depth is a stream's own times their number. Depths of eight and more are alike.
//! Programs that happen to read alike count as one as well; that costs them no more than their
//! part.

/// Sizes from 4 KiB, and depths from one, have classes by their logarithms.
const SIZE_SHIFT_MIN: u32 = 12;
const SIZES: u32 = 16;
const DEPTHS: u32 = 4;

/// Size and depth of a workload's streams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Workload(u8);

/// How many streams of each workload have I/O in flight.
#[derive(Debug)]
pub(super) struct Workloads {
    streams: [u8; (SIZES * DEPTHS) as usize],
}

impl Default for Workloads {
    fn default() -> Workloads {
        Workloads { streams: [0; (SIZES * DEPTHS) as usize] }
    }
}

impl Workload {
    /// The workload of a stream that reads `length` bytes at a time, up to `depth` at once.
    #[inline]
    pub(super) fn of(length: u64, depth: u32) -> Workload {
        let size = length.max(1).ilog2().saturating_sub(SIZE_SHIFT_MIN).min(SIZES - 1);
        Workload((size * DEPTHS + depth.max(1).ilog2().min(DEPTHS - 1)) as u8)
    }
}

impl Workloads {
    /// Number of its streams.
    #[inline]
    pub(super) fn streams(&self, workload: Workload) -> u32 {
        self.streams[usize::from(workload.0)].into()
    }

    /// Number of streams of all workloads.
    #[cfg(test)]
    pub(super) fn total(&self) -> u32 {
        self.streams.iter().map(|&number| u32::from(number)).sum()
    }

    /// Counts one more stream.
    #[inline]
    pub(super) fn add(&mut self, workload: Workload) {
        self.streams[usize::from(workload.0)] += 1;
    }

    /// Counts one stream less.
    #[inline]
    pub(super) fn remove(&mut self, workload: Workload) {
        self.streams[usize::from(workload.0)] -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_of_like_size_and_depth_are_one_workload() {
        let of = Workload::of;
        assert_eq!(of(4096, 1), of(7168, 1));
        assert_eq!(of(65_536, 4), of(65_536, 7));
        assert_eq!(of(65_536, 8), of(65_536, 64), "the deepest count alike");
        assert_ne!(of(4096, 1), of(8192, 1));
        assert_ne!(of(4096, 1), of(4096, 2));
        let all: Vec<Workload> = [(0, 0), (512, 1), (u64::MAX, u32::MAX)]
            .map(|(length, depth)| of(length, depth))
            .into();
        assert_eq!(all[0], all[1]);
        let mut workloads = Workloads::default();
        all.iter().for_each(|&workload| workloads.add(workload));
        assert_eq!(all.iter().map(|&it| workloads.streams(it)).max(), Some(2));
        workloads.remove(all[0]);
        assert_eq!(all.iter().map(|&it| workloads.streams(it)).max(), Some(1));
    }
}
