//! Rules of others that name a slow disk, on the same counters as the judge.

use crate::world::SECOND;
use mirrorball_health::counters::DiskCounters;
use mirrorball_health::judge::DiskWindow;
use mirrorball_health::service::DiskKind;
use std::collections::VecDeque;

pub(crate) const RULES: [&str; 4] = [
    "await over a bound",
    "twice the median of the array",
    "50 IQR, as ZFS' autosit",
    "latency regressed on throughput, as Perseus",
];
/// Seconds for which the first two rules must hold.
const HELD_S: u32 = 30;
/// Seconds in a window of the regression, windows that it is fitted to, and that decide.
const WINDOW_S: u64 = 15;
const FITTED: usize = 60;
const DECIDING: usize = 20;

pub(crate) struct Rules {
    class: DiskKind,
    disks: Vec<RuleDisk>,
    second: u64,
}

#[derive(Clone, Default)]
struct RuleDisk {
    held: [u32; 2],
    outlier_count: f64,
    gathered: DiskCounters,
    /// Throughput and mean wait of the first windows.
    points: Vec<(f64, f64)>,
    /// Coefficients of the parabola, and its standard deviation.
    fit: Option<([f64; 3], f64)>,
    is_over: VecDeque<bool>,
}

impl Rules {
    pub(crate) fn new(class: DiskKind, count: usize) -> Rules {
        Rules { class, disks: vec![RuleDisk::default(); count], second: 0 }
    }

    /// The disks that each rule names after a second.
    pub(crate) fn observe(&mut self, windows: &[DiskWindow]) -> [Vec<usize>; 4] {
        self.second += 1;
        let waits: Vec<f64> = windows.iter().map(|it| mean_wait_ms(&it.counters)).collect();
        let mut sorted = waits.clone();
        sorted.sort_by(f64::total_cmp);
        let median = sorted[(sorted.len() - 1) / 2];
        let bound = if self.class == DiskKind::Hdd { 30.0 } else { 3.0 };
        let mut named: [Vec<usize>; 4] = Default::default();
        for (place, wait) in waits.iter().enumerate() {
            let disk = &mut self.disks[place];
            let is_over = [*wait > bound, waits.len() > 1 && *wait > 2.0 * median.max(0.05)];
            for rule in 0..2 {
                disk.held[rule] = if is_over[rule] { disk.held[rule] + 1 } else { 0 };
                if disk.held[rule] >= HELD_S {
                    named[rule].push(place);
                }
            }
            disk.gathered = disk.gathered.plus(&windows[place].counters);
            if self.second.is_multiple_of(WINDOW_S) {
                disk.regress();
            }
            if disk.is_over.iter().filter(|it| **it).count() * 2 > DECIDING {
                named[3].push(place);
            }
        }
        named[2].extend(self.outlier(windows));
        named
    }

    /// The member whose reads lie beyond 50 interquartile ranges, again and again. The quartiles
    /// are of the others, so that the rule can name one of two.
    fn outlier(&mut self, windows: &[DiskWindow]) -> Option<usize> {
        let waits = windows.iter().map(|it| it.counters.read_ms as f64 / it.counters.reads as f64);
        let mut waits: Vec<(f64, usize)> = waits.zip(0..).collect();
        if waits.len() < 2 || windows.iter().any(|it| it.counters.reads == 0) {
            return None;
        }
        waits.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (most, place) = waits.pop()?;
        let (first, third) = (waits[waits.len() / 4].0, waits[waits.len() * 3 / 4].0);
        let range = (third - first).max(first / 4.0);
        let fence = third + 50.0 * range;
        if most > fence {
            self.disks[place].outlier_count += ((most - fence) / range).clamp(1.0, 5.0);
        }
        let total: f64 = self.disks.iter().map(|it| it.outlier_count).sum();
        let is_found = self.disks[place].outlier_count > 20.0;
        if total >= self.disks.len() as f64 && !is_found {
            self.disks
                .iter_mut()
                .for_each(|it| it.outlier_count = (it.outlier_count - 2.0).max(0.0));
        }
        is_found.then_some(place)
    }
}

impl RuleDisk {
    /// Ends a window of the regression.
    fn regress(&mut self) {
        let window = std::mem::take(&mut self.gathered);
        if window.reads + window.writes < 10 {
            return;
        }
        let seconds = WINDOW_S as f64 * SECOND.as_secs_f64();
        let bytes_per_s = (window.read_bytes() + window.written_bytes()) as f64 / seconds;
        let (x, wait) = (bytes_per_s / 1e8, mean_wait_ms(&window));
        if self.points.len() < FITTED {
            self.points.push((x, wait));
            if self.points.len() == FITTED {
                self.fit = parabola(&self.points);
            }
        } else if let Some(([a, b, c], deviation)) = self.fit {
            // The bound that 99.9 % of windows are below.
            self.is_over.push_back(wait > a + b * x + c * x * x + 3.09 * deviation);
            if self.is_over.len() > DECIDING {
                self.is_over.pop_front();
            }
        }
    }
}

fn mean_wait_ms(counters: &DiskCounters) -> f64 {
    let count = counters.reads + counters.writes;
    (counters.read_ms + counters.write_ms) as f64 / count.max(1) as f64
}

/// The parabola of least squares through points, and the standard deviation from it.
fn parabola(points: &[(f64, f64)]) -> Option<([f64; 3], f64)> {
    let mut rows = [[0.0; 4]; 3];
    for &(x, y) in points {
        let powers = [1.0, x, x * x];
        for (row, factor) in rows.iter_mut().zip(powers) {
            for (cell, value) in row.iter_mut().zip([1.0, x, x * x, y]) {
                *cell += factor * value;
            }
        }
    }
    for pivot in 0..3 {
        if rows[pivot][pivot].abs() < 1e-12 {
            return None;
        }
        for other in (0..3).filter(|it| *it != pivot) {
            let factor = rows[other][pivot] / rows[pivot][pivot];
            let above = rows[pivot];
            rows[other].iter_mut().zip(above).for_each(|(cell, value)| *cell -= factor * value);
        }
    }
    let [a, b, c] = [0, 1, 2].map(|row| rows[row][3] / rows[row][row]);
    let squares = points.iter().map(|&(x, y)| (y - a - b * x - c * x * x).powi(2));
    let variance = squares.sum::<f64>() / (points.len() - 3) as f64;
    Some(([a, b, c], variance.sqrt()))
}
