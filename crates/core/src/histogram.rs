//! Latency histograms with fio's bins, so that they merge with fio's without loss.
//!
//! Bins are log-linear: 64 to each octave, exact below 128 ns, relative error at most 1/128 above.
//! Values past the last bin (about 17 s) count in it, as in fio (`stat.h`: 29 groups of 64).
//! Histograms of several runs merge by adding bins; percentiles are never averaged.

use crate::units::Nanos;

const BITS: u32 = 6;
const PER_GROUP: usize = 1 << BITS;
const GROUPS: usize = 29;

pub const BINS: usize = GROUPS * PER_GROUP;

/// Counts of latencies by bin, with their exact number, sum, least and greatest.
#[derive(Clone, PartialEq, Eq)]
pub struct Histogram {
    /// Up to the last that is not empty.
    bins: Vec<u64>,
    count: u64,
    sum_ns: u128,
    min: Nanos,
    max: Nanos,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram { bins: Vec::new(), count: 0, sum_ns: 0, min: Nanos::MAX, max: Nanos::ZERO }
    }
}

impl Histogram {
    #[inline]
    pub fn record(&mut self, latency: Nanos) {
        self.record_in(bin_of(latency), latency);
    }

    /// Adds one latency, whose [`bin_of`] is known.
    #[inline]
    pub fn record_in(&mut self, bin: usize, latency: Nanos) {
        self.add(bin, 1);
        self.sum_ns += u128::from(latency.0);
        self.min = self.min.min(latency);
        self.max = self.max.max(latency);
    }

    /// Adds every count of `other`.
    pub fn merge(&mut self, other: &Histogram) {
        if self.bins.len() < other.bins.len() {
            self.bins.resize(other.bins.len(), 0);
        }
        for (mine, theirs) in self.bins.iter_mut().zip(&other.bins) {
            *mine += theirs;
        }
        self.count += other.count;
        self.sum_ns += other.sum_ns;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// A histogram from stored bins (index, count), exact sum and extremes. Returns `None` if an
    /// index is not below [`BINS`].
    pub fn from_parts(
        bins: impl IntoIterator<Item = (usize, u64)>,
        sum_ns: u128,
        min: Nanos,
        max: Nanos,
    ) -> Option<Histogram> {
        let mut histogram = Histogram { sum_ns, min, max, ..Histogram::default() };
        for (bin, count) in bins.into_iter().filter(|(_, count)| *count > 0) {
            if bin >= BINS {
                return None;
            }
            histogram.add(bin, count);
        }
        Some(histogram)
    }

    #[inline]
    fn add(&mut self, bin: usize, count: u64) {
        match self.bins.get_mut(bin) {
            Some(counted) => *counted += count,
            None => self.append(bin, count),
        }
        self.count += count;
    }

    #[cold]
    fn append(&mut self, bin: usize, count: u64) {
        self.bins.resize(bin, 0);
        self.bins.push(count);
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    /// Exact sum in nanoseconds.
    pub fn sum_ns(&self) -> u128 {
        self.sum_ns
    }

    /// Exact mean, or zero if the histogram is empty.
    pub fn mean(&self) -> Nanos {
        Nanos(self.sum_ns.checked_div(u128::from(self.count)).unwrap_or(0) as u64)
    }

    /// The least latency, or `None` if the histogram is empty.
    pub fn min(&self) -> Option<Nanos> {
        (self.count > 0).then_some(self.min)
    }

    /// The greatest latency, or `None` if the histogram is empty.
    pub fn max(&self) -> Option<Nanos> {
        (self.count > 0).then_some(self.max)
    }

    /// The non-empty bins in order, as (index, count).
    pub fn bins(&self) -> impl Iterator<Item = (usize, u64)> {
        self.bins.iter().copied().enumerate().filter(|&(_, count)| count > 0)
    }

    /// The quantile `fraction` (0.5 for the median): the middle of its bin, as fio prints it,
    /// clamped to the exact extremes. Zero if the histogram is empty.
    pub fn quantile(&self, fraction: f64) -> Nanos {
        let rank = ((self.count as f64 * fraction).ceil() as u64).clamp(1, self.count.max(1));
        let mut below = 0;
        for (bin, count) in self.bins() {
            below += count;
            if below >= rank {
                return bin_middle(bin).clamp(self.min, self.max);
            }
        }
        Nanos::ZERO
    }
}

impl std::fmt::Debug for Histogram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (median, tail) = (self.quantile(0.5), self.quantile(0.99));
        write!(f, "Histogram({} values, p50 {median}, p99 {tail})", self.count)
    }
}

/// The bin that `latency` falls into.
#[inline]
pub fn bin_of(latency: Nanos) -> usize {
    let value = latency.0;
    let magnitude = 63 - (value | 1).leading_zeros();
    if magnitude <= BITS {
        return value as usize;
    }
    let shift = magnitude - BITS;
    let offset = (value >> shift) as usize & (PER_GROUP - 1);
    (((shift as usize + 1) << BITS) + offset).min(BINS - 1)
}

/// The middle of a bin: fio's key for it in `json+`.
pub fn bin_middle(bin: usize) -> Nanos {
    assert!(bin < BINS, "bin {bin} of {BINS}");
    if bin < 2 * PER_GROUP {
        return Nanos(bin as u64);
    }
    let shift = (bin >> BITS) as u32 - 1;
    let base = 1u64 << (shift + BITS);
    let offset = (bin & (PER_GROUP - 1)) as u64;
    Nanos(base + (offset << shift) + (1 << (shift - 1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_are_exact_below_128_and_within_a_128th_above() {
        for value in (0..128).chain([129, 1_000, 98_765, 7_450_000, 1_600_000_000, 16_000_000_000])
        {
            let middle = bin_middle(bin_of(Nanos(value))).0;
            assert!(middle.abs_diff(value) <= value / 128, "{value} -> {middle}");
        }
        assert_eq!(bin_of(Nanos::MAX), BINS - 1);
    }

    #[test]
    fn every_bin_holds_its_own_middle() {
        for bin in 0..BINS {
            assert_eq!(bin_of(bin_middle(bin)), bin);
        }
    }

    #[test]
    fn quantiles_and_merge() {
        let mut low = Histogram::default();
        let mut high = Histogram::default();
        for value in 1..=100 {
            low.record(Nanos(value));
            high.record(Nanos(1_000_000 + value));
        }
        assert_eq!(low.quantile(0.5), Nanos(50));
        assert_eq!(low.quantile(0.99), Nanos(99));
        low.merge(&high);
        assert_eq!((low.count(), low.quantile(0.5)), (200, Nanos(100)));
        assert_eq!(low.max(), Some(Nanos(1_000_100)));
        let parts = Histogram::from_parts(low.bins(), low.sum_ns(), Nanos(1), Nanos(1_000_100));
        assert_eq!(parts, Some(low));
    }

    #[test]
    fn an_empty_histogram_has_zero_quantiles() {
        let empty = Histogram::default();
        assert_eq!(
            (empty.quantile(0.99), empty.mean(), empty.min()),
            (Nanos::ZERO, Nanos::ZERO, None)
        );
    }
}
