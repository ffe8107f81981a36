//! The time of a revolution, from reads of the same addresses.
//!
//! The end of a read of one address always falls on the same angle, so the gaps between two reads
//! of the same address are whole turns. The period is the one that makes the gaps most coherent:
//! the mean of e^(2πi·gap/period) is longest. Short gaps find it roughly, all gaps exactly. Every
//! fraction of the period is as coherent, so the longest coherent one counts.
//!
//! Reads that a cache answered do not end on the angle of their address, and are dropped.

use super::recording::StepRecord;
use super::statistics::{bootstrap, quantile};
use std::collections::BTreeMap;

/// Shorter reads were answered by a cache.
const CACHED_BELOW: f64 = 1e-3;
/// Periods that are tried, in seconds: 17,000 to 3,500 revolutions per minute.
const PERIODS: (f64, f64) = (3.5e-3, 17e-3);
/// Least coherence of a device that rotates.
const COHERENCE_MIN: f64 = 0.5;
/// Least spread of the latencies of a device that rotates, as a share of the period. Gaps between
/// reads that all take the same time are coherent too.
const SPREAD_MIN: f64 = 0.5;
/// Share of the best coherence that a longer period needs to be preferred.
const PREFERRED: f64 = 0.9;
/// Number of gaps for the rough search.
const SHORT_GAPS: usize = 96;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct RotationFit {
    /// Time of a revolution in seconds.
    pub(super) period: f64,
    pub(super) interval: Option<(f64, f64)>,
    /// Length of the mean of the unit vectors, 0 to 1.
    pub(super) coherence: f64,
    /// From the twentieth part of the latencies to the last but one, in seconds.
    pub(super) spread: f64,
    /// Share of the reads that a cache answered.
    pub(super) cached_share: f64,
    /// The time by which the slowest hundredth of the reads ended off their angle, in seconds: how
    /// late the host noted completions.
    pub lateness_p99: f64,
}

impl RotationFit {
    /// Returns true if the device rotates.
    pub(super) fn is_rotating(&self) -> bool {
        self.coherence >= COHERENCE_MIN && self.spread >= SPREAD_MIN * self.period
    }
}

/// The period of the reads of a step that visits addresses again.
pub(super) fn fit(step: &StepRecord) -> RotationFit {
    let mut by_place: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    let mut cached = 0;
    let latencies = step.latencies();
    let spread = quantile(&latencies, 0.95) - quantile(&latencies, 0.05);
    for sample in &step.samples {
        if sample.latency() < CACHED_BELOW {
            cached += 1;
            continue;
        }
        by_place.entry(sample.read.offset).or_default().push(sample.completed_at.as_secs_f64());
    }
    let gaps_of = |ends: &Vec<f64>| -> Vec<f64> {
        ends.windows(2).map(|pair| pair[1] - pair[0]).filter(|gap| *gap > PERIODS.0 / 2.0).collect()
    };
    let blocks: Vec<Vec<f64>> =
        by_place.values().map(gaps_of).filter(|gaps| !gaps.is_empty()).collect();
    let gaps: Vec<f64> = blocks.concat();
    let cached_share = f64::from(cached) / step.samples.len().max(1) as f64;
    let Some(period) = rough_period(&gaps).map(|period| refine(&gaps, period)) else {
        let coherence = 0.0;
        return RotationFit {
            period: 0.0,
            interval: None,
            coherence,
            spread,
            cached_share,
            lateness_p99: 0.0,
        };
    };
    let off: Vec<f64> = gaps.iter().map(|gap| off_turn(*gap, period).abs()).collect();
    RotationFit {
        period,
        interval: bootstrap(&blocks, 1, |drawn| least_squares(drawn, period)),
        coherence: coherence(&gaps, period),
        spread,
        cached_share,
        lateness_p99: quantile(&off, 0.99),
    }
}

/// The longest coherent period of the shortest gaps.
fn rough_period(gaps: &[f64]) -> Option<f64> {
    let mut short = gaps.to_vec();
    short.sort_unstable_by(f64::total_cmp);
    short.truncate(SHORT_GAPS.min(gaps.len().div_ceil(3)).max(8));
    let longest = *short.last()?;
    // A step of a sixth of a turn over the longest gap.
    let step = PERIODS.0 / (6.0 * longest);
    let steps = ((PERIODS.1 / PERIODS.0).ln() / step).ceil() as usize;
    let tried: Vec<(f64, f64)> = (0..=steps)
        .map(|index| PERIODS.0 * (index as f64 * step).exp())
        .map(|period| (period, coherence(&short, period)))
        .collect();
    let best = tried.iter().map(|(_, coherence)| *coherence).fold(0.0, f64::max);
    let first = tried.iter().rposition(|(_, coherence)| *coherence >= PREFERRED * best)?;
    // Down to the top of this peak.
    let mut top = first;
    while top > 0 && tried[top - 1].1 > tried[top].1 {
        top -= 1;
    }
    Some(tried[top].0)
}

/// The period near `period` that fits all gaps. Longer and longer gaps are taken in, so that the
/// number of turns of each is certain.
fn refine(gaps: &[f64], period: f64) -> f64 {
    let mut sorted = gaps.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let mut period = period;
    let mut count = 8.min(sorted.len());
    loop {
        for _ in 0..3 {
            period = least_squares(&sorted[..count], period).unwrap_or(period);
        }
        if count == sorted.len() {
            return period;
        }
        count = (count * 3 / 2).min(sorted.len());
    }
}

/// The period that fits the gaps with the numbers of turns that `period` gives them. Gaps that are
/// a fifth of a turn off do not count.
fn least_squares(gaps: &[f64], period: f64) -> Option<f64> {
    let (mut sum, mut squares) = (0.0, 0.0);
    for gap in gaps {
        let turns = (gap / period).round();
        if off_turn(*gap, period).abs() < 0.2 * period {
            sum += gap * turns;
            squares += turns * turns;
        }
    }
    (squares > 0.0).then(|| sum / squares)
}

/// By how much a gap differs from whole turns.
fn off_turn(gap: f64, period: f64) -> f64 {
    gap - (gap / period).round() * period
}

fn coherence(gaps: &[f64], period: f64) -> f64 {
    let (mut real, mut imaginary) = (0.0, 0.0);
    for gap in gaps {
        let (sine, cosine) = (std::f64::consts::TAU * gap / period).sin_cos();
        real += cosine;
        imaginary += sine;
    }
    real.hypot(imaginary) / gaps.len().max(1) as f64
}
