//! Command overhead and interface rate of a hard disk, from reads of two sizes that its cache
//! answers: the smaller ones take the overhead, the larger ones the transfer on top.

use super::recording::StepRecord;
use super::statistics::{bootstrap, quantile};
use mirrorball_core::units::KIB;

/// Sizes of the reads.
const SMALL: f64 = 4.0 * KIB as f64;
const LARGE: f64 = 256.0 * KIB as f64;
/// Reads shorter than this share of a revolution were answered by the cache. Large ones take some
/// time for their transfer.
const SMALL_HIT: f64 = 0.12;
const LARGE_HIT: f64 = 0.7;
const HITS_MIN: usize = 8;
/// Blocks of consecutive hits that are drawn again, of each size.
const BLOCKS: usize = 20;
const RATES: std::ops::Range<f64> = 20e6..20e9;

/// A value and its interval.
pub(super) type BoundedReads = (f64, Option<(f64, f64)>);

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct CachedReads {
    /// Time of a command apart from the transfer, in seconds.
    pub(super) overhead: Option<BoundedReads>,
    /// Bytes per second.
    pub(super) rate: Option<BoundedReads>,
}

/// A hit: true if it is a large one, and its latency without the host.
type Hit = (bool, f64);

/// Figures of the disk and of its host, in seconds and bytes per second.
#[derive(Clone, Copy, Debug)]
pub(super) struct CacheContext {
    /// Time of a revolution, which a read that the cache does not answer takes at least: the same
    /// place comes by again.
    pub(super) revolution: f64,
    /// Time that the host adds to each read.
    pub(super) host: f64,
    /// The rate that the profile has if it is not found.
    pub(super) assumed_rate: f64,
}

/// The fit to the steps with small and with large reads.
pub(super) fn fit(
    small: Option<&StepRecord>,
    large: Option<&StepRecord>,
    context: CacheContext,
) -> CachedReads {
    let CacheContext { revolution, host, assumed_rate } = context;
    let hits = |step: Option<&StepRecord>, is_large: bool| -> Vec<Hit> {
        let latencies = step.map(StepRecord::latencies).unwrap_or_default();
        let longest = revolution * if is_large { LARGE_HIT } else { SMALL_HIT };
        let hits = latencies.into_iter().filter(|latency| *latency < longest);
        hits.map(|latency| (is_large, latency - host)).collect()
    };
    let (small, large) = (hits(small, false), hits(large, true));
    let all = [&small[..], &large].concat();
    let blocks = |hits: &[Hit]| -> Vec<Vec<Hit>> {
        hits.chunks(hits.len().div_ceil(BLOCKS).max(1)).map(<[Hit]>::to_vec).collect()
    };
    let blocks = [blocks(&small), blocks(&large)].concat();
    let overhead = |hits: &[Hit]| overhead(hits, assumed_rate);
    CachedReads {
        overhead: overhead(&all).map(|value| (value, bootstrap(&blocks, 5, overhead))),
        rate: rate(&all).map(|value| (value, bootstrap(&blocks, 6, rate))),
    }
}

fn median(hits: &[Hit], is_large: bool) -> Option<f64> {
    let of_size = hits.iter().filter(|hit| hit.0 == is_large).map(|hit| hit.1);
    let of_size: Vec<f64> = of_size.collect();
    (of_size.len() >= HITS_MIN).then(|| quantile(&of_size, 0.5))
}

fn rate(hits: &[Hit]) -> Option<f64> {
    let (small, large) = (median(hits, false)?, median(hits, true)?);
    Some((LARGE - SMALL) / (large - small).max(1e-6)).filter(|rate| RATES.contains(rate))
}

fn overhead(hits: &[Hit], assumed_rate: f64) -> Option<f64> {
    let transfer = SMALL / rate(hits).unwrap_or(assumed_rate);
    Some((median(hits, false)? - transfer).max(1e-6))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::recording::{BlankBlocks, ProbeRead, ReadSample, StepPurpose};
    use mirrorball_core::rng::Rng;
    use mirrorball_core::units::Nanos;

    const CONTEXT: CacheContext =
        CacheContext { revolution: 8e-3, host: 30e-6, assumed_rate: 500e6 };

    /// Reads of an overhead of 100 us and 500 MB/s, with jitter, of which each tenth is no hit.
    fn step(name: &'static str, length: u64, seed: u64) -> StepRecord {
        let mut rng = Rng::new(seed);
        let mut step = StepRecord {
            name,
            purpose: StepPurpose::Measured,
            is_stationary: true,
            depths: vec![1],
            samples: Vec::new(),
            errors: 0,
            blank: BlankBlocks::default(),
        };
        for index in 0..200 {
            let hit = 130e-6 + length as f64 / 500e6 + 5e-6 * rng.normal();
            let latency = if index % 10 == 0 { 8.3e-3 } else { hit };
            let submitted_at = Nanos::from_millis(index * 10);
            step.samples.push(ReadSample {
                agent: 0,
                read: ProbeRead { offset: 0, length, pause: Nanos::ZERO },
                submitted_at,
                completed_at: submitted_at + Nanos::from_secs_f64(latency),
            });
        }
        step
    }

    #[test]
    fn intervals_hold_the_values_of_most_disks() {
        let mut held = (0, 0);
        for seed in 0..40 {
            let steps =
                (step("cached-4k", 4 * KIB, seed), step("cached-256k", 256 * KIB, seed + 100));
            let found = fit(Some(&steps.0), Some(&steps.1), CONTEXT);
            let holds = |found: Option<BoundedReads>, truth: f64| {
                let (low, high) = found.unwrap().1.unwrap();
                usize::from(low <= truth && truth <= high)
            };
            held.0 += holds(found.overhead, 100e-6);
            held.1 += holds(found.rate, 500e6);
        }
        // 38 are expected of each.
        assert!(held.0 >= 34 && held.1 >= 34, "{held:?}");
    }

    #[test]
    fn without_hits_nothing_is_known() {
        let small = step("cached-4k", 4 * KIB, 1);
        let fast = CacheContext { revolution: 100e-6, ..CONTEXT };
        assert_eq!(fit(Some(&small), None, fast), CachedReads::default());
        // The profile has the assumed rate, which takes a part of each read.
        let only_small = fit(Some(&small), None, CONTEXT);
        assert!((only_small.overhead.unwrap().0 - 100e-6).abs() < 3e-6, "{only_small:?}");
        assert!(only_small.rate.is_none());
    }
}
