//! fio's latencies as a histogram with fio's bins.

use super::document::{Direction, Latency};
use crate::experiment::record::LatencySource;
use anyhow::{Context, Result, bail};
use mirrorball_core::histogram::{Histogram, bin_middle, bin_of};
use mirrorball_core::units::Nanos;

/// Larger than any real count, and small enough to add up many files.
const COUNT_MAX: u128 = 1 << 48;

/// The latencies of a direction that has some, and where they come from: the best there is.
pub(super) fn histogram(direction: &Direction) -> Result<(Histogram, LatencySource)> {
    let Direction { clat_ns, lat_ns, total_ios, .. } = direction;
    let of_percentiles = |latency| of_percentiles(latency, *total_ios);
    if !lat_ns.bins.is_empty() {
        return Ok((of_bins(lat_ns)?, LatencySource::TotalBins));
    }
    if !clat_ns.bins.is_empty() {
        return Ok((of_bins(clat_ns)?, LatencySource::CompletionBins));
    }
    if !lat_ns.percentile.is_empty() {
        return Ok((of_percentiles(lat_ns)?, LatencySource::TotalPercentiles));
    }
    if !clat_ns.percentile.is_empty() {
        return Ok((of_percentiles(clat_ns)?, LatencySource::CompletionPercentiles));
    }
    if *total_ios == 0 {
        return Ok((Histogram::default(), LatencySource::TotalBins));
    }
    // `gtod_reduce` leaves the throughput, `clat_percentiles=0` also the mean.
    Ok((Histogram::default(), LatencySource::Absent))
}

/// The mean of the latencies of a direction; none if fio measured none.
pub(super) fn mean_ns(direction: &Direction) -> Option<f64> {
    let means = [direction.lat_ns.mean, direction.clat_ns.mean];
    means.into_iter().find(|mean| *mean > 0.0)
}

fn of_bins(latency: &Latency) -> Result<Histogram> {
    let mut bins = Vec::new();
    for (key, &count) in &latency.bins {
        let middle: u64 = key
            .parse()
            .with_context(|| format!("has the histogram bin `{key}`, which is not a number"))?;
        let bin = bin_of(Nanos(middle));
        if bin_middle(bin).0 != middle {
            bail!("has histogram bins that fio 3 does not have (`{key}` is the middle of none)");
        }
        bins.push((bin, count));
    }
    built(bins, latency)
}

/// As many latencies as fio counted, each at the least percentile that it does not exceed. What
/// fio printed reads off it unchanged. Where fio does not say how many it counted, there is one for
/// each request.
fn of_percentiles(latency: &Latency, total_ios: u64) -> Result<Histogram> {
    let count = latency.count.unwrap_or(total_ios);
    let mut points: Vec<(f64, u64)> = Vec::new();
    for (key, &value) in &latency.percentile {
        let percent: f64 = key
            .parse()
            .with_context(|| format!("has the percentile `{key}`, which is not a number"))?;
        if percent > 0.0 && percent <= 100.0 {
            points.push((percent, value));
        }
    }
    points.sort_by(|left, right| left.0.total_cmp(&right.0));
    points.push((100.0, latency.max));
    let mut bins = Vec::new();
    let mut counted = 0;
    for (percent, value) in points {
        let until = ((percent / 100.0 * count as f64).ceil() as u64).min(count);
        if until > counted {
            bins.push((bin_of(Nanos(value)), until - counted));
            counted = until;
        }
    }
    built(bins, latency)
}

fn built(bins: Vec<(usize, u64)>, latency: &Latency) -> Result<Histogram> {
    let count: u128 = bins.iter().map(|&(_, count)| u128::from(count)).sum();
    if count > COUNT_MAX || latency.min > latency.max {
        bail!("has latencies that contradict each other");
    }
    // fio prints the mean, rounded to a millionth of a nanosecond.
    let sum_ns = (latency.mean.max(0.0) * count as f64).round() as u128;
    let (min, max) = (Nanos(latency.min), Nanos(latency.max));
    Ok(Histogram::from_parts(bins, sum_ns, min, max).expect("`bin_of` gives bins that exist"))
}
