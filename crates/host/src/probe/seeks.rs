//! The seek curve of a hard disk, from the latencies of chained reads.
//!
//! A read of one block takes the seek, a wait that is uniform between nothing and a revolution, and
//! a constant. With the time of a revolution known, the middle between the shortest and the longest
//! wait of a few dozen reads over one distance gives the seek better than their mean does.
//!
//! First a curve `a + b·√d + c·d` over the distance `d`, a fraction of the tracks, is fitted to all
//! reads by least squares. Then the reads are put in groups of like distance, and the middle of the
//! waits of each group corrects the curve there, as far as the groups differ by more than chance.
//! The result never falls with the distance.

use super::patterns::SHORTEST_JUMP;
use super::recording::StepRecord;
use super::statistics::{bootstrap, mean, sorted};
use super::track_map::TrackMap;

/// Distances of the points of the result, as fractions of all tracks.
const GRID: [f64; 18] = [
    0.0005, 0.002, 0.005, 0.01, 0.02, 0.04, 0.07, 0.11, 0.16, 0.22, 0.3, 0.4, 0.5, 0.62, 0.75,
    0.88, 0.95, 1.0,
];
/// Moves of up to this many times the shortest jump, and at least half of it, count as the shortest
/// seek; those below may stay on the track.
const SHORT: f64 = 1.6;
/// Reads whose wait is this share of a revolution outside of the possible missed a turn, or met a
/// recovery.
const OUTSIDE: f64 = 0.1;
const GROUP: usize = 48;

/// A seek: its distance as a fraction of the tracks, and its time with the wait, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Jump {
    pub(super) distance: f64,
    pub(super) time: f64,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct SeekFit {
    /// Distances as fractions of all tracks, and times in seconds, both rising.
    pub(super) points: Vec<(f64, f64)>,
    /// Time of the shortest seek.
    pub(super) track: f64,
    /// Whether it was measured; otherwise it is extrapolated.
    pub(super) is_track_measured: bool,
    /// Interval of the track seek, if that was measured.
    pub(super) track_interval: Option<(f64, f64)>,
    /// Mean over random pairs of tracks.
    pub(super) mean: f64,
    pub(super) interval: Option<(f64, f64)>,
}

/// The moves between consecutive reads of steps.
#[derive(Clone, Debug, Default)]
pub(super) struct Jumps {
    /// Those whose distance is known well enough.
    pub(super) long: Vec<Jump>,
    /// Times of those over a few tracks.
    pub(super) short: Vec<f64>,
}

impl Jumps {
    /// Adds the moves of a step. `constant` is what a read takes without seek and wait.
    pub(super) fn add(
        &mut self,
        step: &StepRecord,
        tracks: &TrackMap,
        capacity: u64,
        constant: f64,
    ) {
        let place = |offset: u64| tracks.track(offset as f64 / capacity as f64);
        let shortest = SHORTEST_JUMP / capacity as f64;
        for pair in step.samples.windows(2) {
            let [from, to] = [pair[0].read.offset, pair[1].read.offset];
            let distance = (place(from) - place(to)).abs();
            let time = pair[1].latency() - constant;
            let fraction = from.abs_diff(to) as f64 / capacity as f64;
            if time <= 0.0 || fraction < shortest / 2.0 {
                continue;
            }
            if fraction > SHORT * shortest {
                self.long.push(Jump { distance, time });
            } else {
                self.short.push(time);
            }
        }
    }
}

/// The curve of these moves on a disk with this time of a revolution; `None` if there are too few.
pub(super) fn fit(jumps: &Jumps, revolution: f64) -> Option<SeekFit> {
    let Jumps { long, short } = jumps;
    let points = curve(long, revolution)?;
    let blocks: Vec<Vec<Jump>> = long.chunks(64).map(<[Jump]>::to_vec).collect();
    let interval = bootstrap(&blocks, 3, |drawn| curve(drawn, revolution).map(|it| mean_of(&it)));
    let measured = middle(short, revolution).filter(|_| short.len() >= 16);
    let track = measured.unwrap_or(intercept(&points)).max(1e-5).min(points[0].1);
    let is_track_measured = measured.is_some();
    // Waits are spread evenly over a revolution, and the middle of the extremes of n of them is off
    // by more than t with the probability exp(-2nt), t in revolutions, if n is large.
    let off = revolution * 20f64.ln() / (2.0 * short.len().max(1) as f64);
    // The shortest jump is longer than a track: the line through longer seeks says how much less
    // one track may take.
    let least = intercept(&points).min(track);
    let track_interval = measured.map(|_| ((least - off).max(0.0), track + off));
    let mean = mean_of(&points);
    Some(SeekFit { mean, track, is_track_measured, track_interval, points, interval })
}

/// The mean over random pairs of tracks: distances have the density `2(1 - d)`.
pub(super) fn mean_of(points: &[(f64, f64)]) -> f64 {
    const STEPS: usize = 2000;
    let at = |step: usize| (step as f64 + 0.5) / STEPS as f64;
    let sum: f64 = (0..STEPS).map(|step| 2.0 * (1.0 - at(step)) * between(points, at(step))).sum();
    sum / STEPS as f64
}

/// The curve at a distance: straight lines between points, level outside.
fn between(points: &[(f64, f64)], distance: f64) -> f64 {
    let after = points.partition_point(|point| point.0 < distance);
    match (after.checked_sub(1).map(|before| points[before]), points.get(after)) {
        (Some(left), Some(&right)) => {
            left.1 + (right.1 - left.1) * (distance - left.0) / (right.0 - left.0)
        }
        (None, Some(point)) => point.1,
        (Some(point), None) => point.1,
        (None, None) => 0.0,
    }
}

/// Where the square root through the first two points meets distance zero.
fn intercept(points: &[(f64, f64)]) -> f64 {
    let [(left, low), (right, high)] = [points[0], points[1]];
    let slope = (high - low) / (right.sqrt() - left.sqrt());
    low - slope * left.sqrt()
}

fn curve(jumps: &[Jump], revolution: f64) -> Option<Vec<(f64, f64)>> {
    let smooth = smooth_curve(jumps, revolution)?;
    let corrections = corrections(jumps, &smooth, revolution);
    let at = |&distance: &f64| {
        let correction = between(&corrections, distance.sqrt());
        (distance, (smooth.at(distance) + correction).max(1e-5))
    };
    let mut points: Vec<(f64, f64)> = GRID.iter().map(at).collect();
    for index in 1..points.len() {
        points[index].1 = points[index].1.max(points[index - 1].1);
    }
    Some(points)
}

/// `a + b·√d + c·d`.
#[derive(Clone, Copy, Debug)]
struct SmoothCurve([f64; 3]);

impl SmoothCurve {
    fn at(&self, distance: f64) -> f64 {
        let [constant, root, linear] = self.0;
        constant + root * distance.sqrt() + linear * distance
    }
}

/// Least squares, several times: reads that the curve of the last round shows to have missed a turn
/// are left out.
fn smooth_curve(jumps: &[Jump], revolution: f64) -> Option<SmoothCurve> {
    let mut kept: Vec<Jump> = jumps.to_vec();
    let mut curve = None;
    for _ in 0..4 {
        if kept.len() < 32 {
            return None;
        }
        let fitted = rising_least_squares(&kept, revolution / 2.0)?;
        let is_possible = |jump: &&Jump| {
            let wait = jump.time - fitted.at(jump.distance);
            (-OUTSIDE * revolution..(1.0 + OUTSIDE) * revolution).contains(&wait)
        };
        kept = jumps.iter().filter(is_possible).copied().collect();
        curve = Some(fitted);
    }
    curve
}

/// Where a wait of no time would lie, of times that differ by waits of up to a revolution. Times a
/// revolution above the least missed a turn.
fn middle(times: &[f64], revolution: f64) -> Option<f64> {
    let times = sorted(times);
    let least = *times.first()?;
    let within = times.partition_point(|time| *time <= least + revolution);
    Some((least + times[within - 1] - revolution) / 2.0)
}

/// The best curve that nowhere falls: of the whole form, else of the form without one term.
fn rising_least_squares(jumps: &[Jump], wait: f64) -> Option<SmoothCurve> {
    let forms =
        [[true, true, true], [true, true, false], [true, false, true], [true, false, false]];
    let curves = forms.into_iter().filter_map(|form| least_squares(jumps, wait, form));
    curves.into_iter().find(|SmoothCurve([_, root, linear])| *root >= 0.0 && *linear >= 0.0)
}

/// Least squares by the normal equations; terms that are not in the form are zero.
fn least_squares(jumps: &[Jump], wait: f64, form: [bool; 3]) -> Option<SmoothCurve> {
    let mut matrix = [[0.0; 4]; 3];
    for jump in jumps {
        let terms = [1.0, jump.distance.sqrt(), jump.distance];
        for row in 0..3 {
            for column in 0..3 {
                matrix[row][column] += terms[row] * terms[column];
            }
            matrix[row][3] += terms[row] * (jump.time - wait);
        }
    }
    for index in (0..3).filter(|index| !form[*index]) {
        matrix[index] = [0.0; 4];
        matrix[index][index] = 1.0;
        for row in matrix.iter_mut().enumerate().filter(|(row, _)| *row != index) {
            row.1[index] = 0.0;
        }
    }
    solve(matrix).map(SmoothCurve)
}

/// Gauss elimination of three equations, the right side in the last column.
fn solve(mut matrix: [[f64; 4]; 3]) -> Option<[f64; 3]> {
    for pivot in 0..3 {
        let row =
            (pivot..3).max_by(|a, b| matrix[*a][pivot].abs().total_cmp(&matrix[*b][pivot].abs()));
        matrix.swap(pivot, row?);
        if matrix[pivot][pivot].abs() < 1e-12 {
            return None;
        }
        let chosen = matrix[pivot];
        for (_, other) in matrix.iter_mut().enumerate().filter(|(index, _)| *index != pivot) {
            let factor = other[pivot] / chosen[pivot];
            for column in 0..4 {
                other[column] -= factor * chosen[column];
            }
        }
    }
    Some(std::array::from_fn(|index| matrix[index][3] / matrix[index][index]))
}

/// By how much the middles of the waits differ from the curve, by the root of the distance. Shrunk
/// by the share of their spread that chance explains.
fn corrections(jumps: &[Jump], smooth: &SmoothCurve, revolution: f64) -> Vec<(f64, f64)> {
    let mut ordered = jumps.to_vec();
    ordered.sort_unstable_by(|a, b| a.distance.total_cmp(&b.distance));
    let count = (ordered.len() / GROUP).max(1);
    let size = ordered.len().div_ceil(count);
    let mut found = Vec::new();
    for group in ordered.chunks(size).filter(|group| group.len() >= GROUP / 2) {
        let waits: Vec<f64> = group
            .iter()
            .map(|jump| jump.time - smooth.at(jump.distance))
            .filter(|wait| (-OUTSIDE * revolution..(1.0 + OUTSIDE) * revolution).contains(wait))
            .collect();
        let Some(middle) = middle(&waits, revolution) else { continue };
        let roots: Vec<f64> = group.iter().map(|jump| jump.distance.sqrt()).collect();
        found.push((mean(&roots), middle, waits.len() as f64));
    }
    let chance = |count: f64| (1.5 * revolution / count).powi(2);
    let spread = mean(&found.iter().map(|(_, middle, _)| middle * middle).collect::<Vec<f64>>());
    let by_chance = mean(&found.iter().map(|(_, _, count)| chance(*count)).collect::<Vec<f64>>());
    let excess = (spread - by_chance).max(0.0);
    let shrink = |count: f64| excess / (excess + chance(count));
    found.iter().map(|(root, middle, count)| (*root, middle * shrink(*count))).collect()
}
