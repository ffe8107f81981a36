//! Latency histograms as they are saved.
//!
//! A job's latencies keep fio's bins (64 to the octave), so that repeats merge without loss and
//! ours are comparable with fio's `json+`. A member's waits and each interval's latencies are only
//! drawn, never merged into a figure: they keep every eighth border, 8 bins to the octave, which is
//! finer than a picture shows and a fraction of the size.

use mirrorball_core::histogram::{BINS, Histogram, bin_middle};
use mirrorball_core::units::Nanos;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Fine bins in a coarse one.
const COARSENING: usize = 8;
/// No count of latencies is larger, so that sums over cells stay in range.
const COUNT_MAX: u128 = 1 << 48;

/// The quantiles that are reported, with the names of their fields.
pub const QUANTILES: [(&str, f64); 6] = [
    ("p50", 0.5),
    ("p90", 0.9),
    ("p95", 0.95),
    ("p99", 0.99),
    ("p99.9", 0.999),
    ("p99.99", 0.9999),
];

/// A latency histogram in fio's bins: only those that are not empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "LatencyRecord"))]
pub(super) struct SavedBins {
    /// Indexes of the bins, rising: fio's `plat` index, 64 bins to the octave.
    bins: Vec<u32>,
    /// How many latencies fell into each.
    counts: Vec<u64>,
    /// Exact sum of all latencies.
    sum_ns: u64,
    /// The least.
    min_ns: u64,
    /// The greatest.
    max_ns: u64,
}

/// A latency histogram for pictures: bin `n` holds fio's bins `8 n` to `8 n + 7`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct CoarseLatency {
    /// Indexes of the bins that are not empty, rising.
    pub bins: Vec<u32>,
    /// How many latencies fell into each.
    pub counts: Vec<u64>,
}

/// The mean and the usual percentiles of a histogram, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Percentiles {
    /// The exact mean.
    pub mean_ns: u64,
    /// The median.
    pub p50_ns: u64,
    /// 90 % are no slower.
    pub p90_ns: u64,
    /// 95 % are no slower.
    pub p95_ns: u64,
    /// 99 % are no slower.
    pub p99_ns: u64,
    /// 99.9 % are no slower.
    pub p99_9_ns: u64,
    /// 99.99 % are no slower.
    pub p99_99_ns: u64,
}

/// Writes a histogram as its bins.
pub(super) fn serialize<S: Serializer>(
    histogram: &Histogram,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let (bins, counts) = histogram.bins().map(|(bin, count)| (bin as u32, count)).unzip();
    let saved = SavedBins {
        bins,
        counts,
        // 2^64 ns are 584 years of waiting; JSON readers do not take larger integers.
        sum_ns: u64::try_from(histogram.sum_ns()).unwrap_or(u64::MAX),
        min_ns: histogram.min().unwrap_or_default().0,
        max_ns: histogram.max().unwrap_or_default().0,
    };
    saved.serialize(serializer)
}

/// Reads a histogram, and refuses bins that no histogram has: the file was edited or damaged.
pub(super) fn deserialize<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Histogram, D::Error> {
    let SavedBins { bins, counts, sum_ns, min_ns, max_ns } = SavedBins::deserialize(deserializer)?;
    if bins.is_empty() && counts.is_empty() {
        return Ok(Histogram::default());
    }
    let total: u128 = counts.iter().map(|&count| u128::from(count)).sum();
    let is_sound = bins.len() == counts.len()
        && bins.is_sorted_by(|left, right| left < right)
        && bins.last().is_none_or(|&last| (last as usize) < BINS)
        && total <= COUNT_MAX
        && min_ns <= max_ns;
    let bins = bins.iter().map(|&bin| bin as usize).zip(counts);
    let histogram = Histogram::from_parts(bins, sum_ns.into(), Nanos(min_ns), Nanos(max_ns));
    histogram.filter(|_| is_sound).ok_or_else(|| D::Error::custom("a latency histogram"))
}

impl CoarseLatency {
    /// The middle of coarse bin `bin`, for drawing.
    pub fn middle(bin: u32) -> Nanos {
        let first = bin as usize * COARSENING;
        Nanos((bin_middle(first).0 + bin_middle(first + COARSENING - 1).0) / 2)
    }
}

impl From<&Histogram> for CoarseLatency {
    fn from(histogram: &Histogram) -> CoarseLatency {
        let mut coarse = CoarseLatency::default();
        for (bin, count) in histogram.bins() {
            let bin = (bin / COARSENING) as u32;
            match coarse.counts.last_mut() {
                Some(last) if coarse.bins.last() == Some(&bin) => *last += count,
                _ => {
                    coarse.bins.push(bin);
                    coarse.counts.push(count);
                }
            }
        }
        coarse
    }
}

impl From<&Histogram> for Percentiles {
    fn from(histogram: &Histogram) -> Percentiles {
        let [p50_ns, p90_ns, p95_ns, p99_ns, p99_9_ns, p99_99_ns] =
            QUANTILES.map(|(_, fraction)| histogram.quantile(fraction).0);
        let mean_ns = histogram.mean().0;
        Percentiles { mean_ns, p50_ns, p90_ns, p95_ns, p99_ns, p99_9_ns, p99_99_ns }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn histogram(values: impl IntoIterator<Item = u64>) -> Histogram {
        let mut histogram = Histogram::default();
        values.into_iter().for_each(|value| histogram.record(Nanos(value)));
        histogram
    }

    #[derive(Serialize, Deserialize)]
    struct Saved(#[serde(with = "super")] Histogram);

    fn read(text: &str) -> Option<Histogram> {
        serde_json::from_str(text).ok().map(|Saved(histogram)| histogram)
    }

    #[test]
    fn fine_bins_survive_the_file() {
        for before in [histogram((1..500).map(|n| n * n * 997)), Histogram::default()] {
            let text = serde_json::to_string(&Saved(before.clone())).unwrap();
            assert_eq!(read(&text), Some(before));
        }
    }

    #[test]
    fn a_record_that_was_tampered_with_is_refused() {
        let text = serde_json::to_string(&Saved(histogram([5, 70_000]))).unwrap();
        let [_, last] = &histogram([5, 70_000]).bins().collect::<Vec<_>>()[..] else { panic!() };
        let bins = format!("[5,{}]", last.0);
        assert!(text.contains(&bins));
        for other in ["[5,9999]", "[5]", "[5,5]"] {
            assert_eq!(read(&text.replace(&bins, other)), None, "{other}");
        }
        assert_eq!(read(&text.replace("[1,1]", "[1,999999999999999]")), None);
        assert_eq!(read(&text.replace("\"min_ns\":5", "\"min_ns\":70001")), None);
    }

    #[test]
    fn coarse_bins_keep_every_count_within_a_sixteenth() {
        let values: Vec<u64> = (0..2_000).map(|n| 1_000 + n * n * 31).collect();
        let coarse = CoarseLatency::from(&histogram(values.iter().copied()));
        assert_eq!(coarse.counts.iter().sum::<u64>(), 2_000);
        assert!(coarse.bins.is_sorted_by(|left, right| left < right));
        for value in values {
            let only = CoarseLatency::from(&histogram([value]));
            let middle = CoarseLatency::middle(only.bins[0]).0;
            assert!(middle.abs_diff(value) * 15 <= value, "{value} drawn at {middle}");
        }
    }
}
