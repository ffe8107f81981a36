//! The rates of a hard disk from the outer edge to the inner one.
//!
//! Runs of sequential reads with two in flight, at places spread over the disk. The first reads of
//! a run hold a seek and the start of the stream, and are dropped. A line of the rate over the
//! tracks is fitted; where a byte lies among the tracks follows from the line itself, so both are
//! found in turns.

use super::recording::{ReadSample, StepRecord};
use super::statistics::bootstrap;
use super::track_map::TrackMap;
use mirrorball_core::units::MIB;

/// Bytes at the start of a run that do not count.
const DROPPED_BYTES: u64 = 2 * MIB;
/// Rounds of fitting the line and placing the runs on it.
const ROUNDS: usize = 8;
/// Runs further from the line than this share of it are left out, if few are: a run that met a
/// recovery.
const OFF_LINE: f64 = 0.15;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct ZoneFit {
    /// The line, and where bytes lie.
    pub(super) tracks: TrackMap,
    pub(super) outer_interval: Option<(f64, f64)>,
    pub(super) inner_interval: Option<(f64, f64)>,
}

/// The rates that a step of sequential runs saw; `None` with fewer than three runs.
pub(super) fn fit(step: &StepRecord, capacity_bytes: u64) -> Option<ZoneFit> {
    let runs = rates(step, capacity_bytes);
    let tracks = line(&runs)?;
    let near = |&(at, rate): &(f64, f64)| {
        let expected = tracks.rate(tracks.track(at));
        (rate / expected - 1.0).abs() < OFF_LINE
    };
    let kept: Vec<(f64, f64)> = runs.iter().copied().filter(near).collect();
    let kept = if kept.len() * 4 >= runs.len() * 3 { kept } else { runs };
    let tracks = line(&kept)?;
    let blocks: Vec<Vec<(f64, f64)>> = kept.iter().map(|run| vec![*run]).collect();
    let outer_interval = bootstrap(&blocks, 2, |drawn| line(drawn).map(|tracks| tracks.outer));
    let inner_interval = bootstrap(&blocks, 2, |drawn| line(drawn).map(|tracks| tracks.inner));
    Some(ZoneFit { tracks, outer_interval, inner_interval })
}

fn rates(step: &StepRecord, capacity_bytes: u64) -> Vec<(f64, f64)> {
    let is_next = |left: &ReadSample, right: &ReadSample| {
        right.read.offset == left.read.offset + left.read.length
    };
    let runs = step.samples.chunk_by(is_next);
    let rate = |run: &[ReadSample]| {
        let begin = run.first()?.read.offset;
        let dropped = run.partition_point(|sample| sample.read.offset < begin + DROPPED_BYTES);
        let start = run.get(dropped.checked_sub(1)?)?.completed_at;
        let end = run.last()?.completed_at;
        let bytes: u64 = run[dropped..].iter().map(|sample| sample.read.length).sum();
        let elapsed = end.saturating_sub(start).as_secs_f64();
        let middle = begin as f64 + (DROPPED_BYTES + bytes / 2) as f64;
        (elapsed > 0.0).then(|| (middle / capacity_bytes as f64, bytes as f64 / elapsed))
    };
    runs.filter_map(rate).collect()
}

/// The line of the rate over the tracks, by least squares.
fn line(runs: &[(f64, f64)]) -> Option<TrackMap> {
    let mut tracks = TrackMap::EVEN;
    if runs.len() < 3 {
        return None;
    }
    for _ in 0..ROUNDS {
        let count = runs.len() as f64;
        let points: Vec<(f64, f64)> =
            runs.iter().map(|&(at, rate)| (tracks.track(at), rate)).collect();
        let mean_x = points.iter().map(|(x, _)| x).sum::<f64>() / count;
        let mean_y = points.iter().map(|(_, y)| y).sum::<f64>() / count;
        let spread: f64 = points.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
        let product: f64 = points.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
        if spread <= 0.0 {
            return None;
        }
        // Rates never rise inwards on a disk; noise must not say so.
        let slope = (product / spread).min(0.0);
        let outer = mean_y - slope * mean_x;
        tracks = TrackMap { outer, inner: (outer + slope).max(0.05 * outer) };
    }
    Some(tracks)
}
