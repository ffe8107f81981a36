//! The grid of time that all charts of a job share.
//!
//! Its columns are as wide as the widest interval of any cell, or some neighbours together, so that
//! a chart never shows more detail than was saved. What little lies past the last whole column is
//! left out: while the last requests of a run drain, rates mean nothing.

use crate::experiment::record::IntervalsRecord;

/// Columns beyond which neighbours are put together: as many as a small chart can show.
const COLUMNS_MAX: usize = 64;

/// Equal columns of time from the start of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TimeGrid {
    pub(super) column_us: u64,
    /// How many there are; none if no cell has intervals.
    pub(super) count: usize,
}

impl TimeGrid {
    pub(super) fn of<'a>(cells: impl Iterator<Item = &'a IntervalsRecord>) -> TimeGrid {
        let mut column_us = 0;
        let mut ends_us: Vec<u64> = Vec::new();
        for cell in cells {
            let ends = cell.from_us.iter().zip(&cell.width_us).map(|(from, width)| from + width);
            ends_us.extend(ends.max());
            column_us = column_us.max(cell.width_us.iter().copied().max().unwrap_or(0));
        }
        let end_us = common_end(&ends_us);
        if column_us == 0 {
            return TimeGrid { column_us: 1, count: 0 };
        }
        let count = |column_us: u64| (end_us / column_us).max(1) as usize;
        while count(column_us) > COLUMNS_MAX {
            column_us *= 2;
        }
        TimeGrid { column_us, count: count(column_us) }
    }

    pub(super) fn seconds(&self) -> f64 {
        self.column_us as f64 / 1e6 * self.count as f64
    }

    /// The column that holds a moment.
    pub(super) fn column(&self, at_us: u64) -> usize {
        ((at_us / self.column_us) as usize).min(self.count.saturating_sub(1))
    }

    /// The columns that an interval covers, each with the part of the interval that lies in it.
    pub(super) fn parts(&self, from_us: u64, width_us: u64) -> impl Iterator<Item = (usize, f64)> {
        let width_us = width_us.max(1);
        let until_us = (from_us + width_us).min(self.column_us * self.count as u64);
        let columns = if from_us < until_us {
            self.column(from_us)..self.column(until_us - 1) + 1
        } else {
            0..0
        };
        let column_us = self.column_us;
        columns.map(move |column| {
            let start = from_us.max(column as u64 * column_us);
            let end = until_us.min((column as u64 + 1) * column_us);
            (column, (end - start) as f64 / width_us as f64)
        })
    }
}

/// The first end, if all runs took about as long: they were given the same time, and what differs
/// is how long the last requests took. Else each took the time it needed: the last end.
fn common_end(ends_us: &[u64]) -> u64 {
    let first = ends_us.iter().copied().min().unwrap_or(0);
    let last = ends_us.iter().copied().max().unwrap_or(0);
    if last - first <= last / 10 { first } else { last }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(widths: &[u64]) -> IntervalsRecord {
        let from_us = widths.iter().scan(0, |at, width| {
            *at += width;
            Some(*at - width)
        });
        IntervalsRecord {
            from_us: from_us.collect(),
            width_us: widths.to_vec(),
            ..IntervalsRecord::default()
        }
    }

    #[test]
    fn a_stub_at_the_end_is_left_out() {
        let grid = TimeGrid::of([&cell(&[100, 100, 100, 40])].into_iter());
        assert_eq!(grid, TimeGrid { column_us: 100, count: 3 });
        assert_eq!(grid.parts(300, 40).count(), 0);
        let shorter = TimeGrid::of([&cell(&[70])].into_iter());
        assert_eq!(shorter.parts(0, 70).collect::<Vec<_>>(), [(0, 1.0)], "all there is stays");
    }

    #[test]
    fn the_widest_interval_decides_and_many_columns_are_halved() {
        let (fine, coarse) = (cell(&[100; 8]), cell(&[200; 70]));
        let grid = TimeGrid::of([&fine, &coarse].into_iter());
        assert_eq!(grid, TimeGrid { column_us: 400, count: 35 });
        assert_eq!(TimeGrid::of([&cell(&[])].into_iter()).count, 0);
    }

    #[test]
    fn runs_of_a_given_time_end_together() {
        let count = |widths: [&[u64]; 2]| TimeGrid::of(widths.map(cell).iter()).count;
        assert_eq!(count([&[100; 30], &[100; 31]]), 30);
        assert_eq!(count([&[100; 30], &[100; 50]]), 50);
    }

    #[test]
    fn an_interval_is_parted_by_time() {
        let grid = TimeGrid { column_us: 100, count: 3 };
        assert_eq!(grid.parts(50, 100).collect::<Vec<_>>(), [(0, 0.5), (1, 0.5)]);
        assert_eq!(grid.parts(250, 100).collect::<Vec<_>>(), [(2, 0.5)]);
        let sum: f64 = grid.parts(0, 290).map(|(_, part)| part).sum();
        assert!((sum - 1.0).abs() < 1e-12);
    }
}
