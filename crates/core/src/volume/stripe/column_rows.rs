//! Rows of columns: the ranges that a write cuts a stripe into, and the I/Os that plans take.

use super::row_plan::RowPlan;
use crate::column_set::ColumnSet;
use crate::geometry::FullStripe;
use std::ops::Range;

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct ColumnRows {
    pub(super) column: u8,
    pub(super) rows: Range<u64>,
}

/// The parts of a range of the volume on the columns of its full stripe.
pub(super) fn strips(
    stripe: &FullStripe,
    range: &Range<u64>,
) -> impl Iterator<Item = ColumnRows> + use<> {
    let first = stripe.volume_offset;
    assert!(first <= range.start && range.end <= first + stripe.length(), "{range:?} in {first}");
    let (strip_bytes, mut rest) = (stripe.strip_bytes, range.start - first..range.end - first);
    std::iter::from_fn(move || {
        let start = rest.start % strip_bytes;
        let length = (strip_bytes - start).min(rest.end - rest.start);
        let column = (rest.start / strip_bytes) as u8;
        rest.start += length;
        (length > 0).then_some(ColumnRows { column, rows: start..start + length })
    })
}

/// The ranges of rows within `window` that each cover the same columns, with these.
pub(super) fn segments<'a>(
    written: impl Iterator<Item = &'a ColumnRows> + Clone,
    window: Range<u64>,
) -> impl Iterator<Item = (Range<u64>, ColumnSet)> {
    let mut rest = window;
    std::iter::from_fn(move || {
        let mut found: Option<(Range<u64>, ColumnSet)> = None;
        while !rest.is_empty() {
            let (rows, covered) = first_segment(written.clone(), &rest);
            match &mut found {
                Some((before, columns)) if *columns == covered => before.end = rows.end,
                Some(_) => break,
                None if covered.is_empty() => {}
                None => found = Some((rows.clone(), covered)),
            }
            rest.start = rows.end;
        }
        found
    })
}

/// The columns that cover the first of some rows, and the rows up to the next start or end.
fn first_segment<'a>(
    written: impl Iterator<Item = &'a ColumnRows>,
    rows: &Range<u64>,
) -> (Range<u64>, ColumnSet) {
    let (mut end, mut covered) = (rows.end, ColumnSet::default());
    for it in written {
        if it.rows.contains(&rows.start) {
            covered.insert(it.column);
            end = end.min(it.rows.end);
        } else if it.rows.start > rows.start {
            end = end.min(it.rows.start);
        }
    }
    assert!(rows.start < end && end <= rows.end, "{end} is in {rows:?}");
    (rows.start..end, covered)
}

/// The I/Os of the columns that `columns_of` returns for each plan: neighbouring rows of a column
/// are one I/O.
pub(super) fn joined(
    plans: &[RowPlan],
    columns_of: impl Fn(&RowPlan) -> ColumnSet,
) -> Vec<ColumnRows> {
    let all = plans.iter().fold(ColumnSet::default(), |all, plan| all.or(columns_of(plan)));
    let mut ios: Vec<ColumnRows> = Vec::with_capacity(all.count());
    for column in all.iter() {
        for plan in plans.iter().filter(|plan| columns_of(plan).contains(column)) {
            debug_assert!(!plan.rows.is_empty(), "{plan:?} has rows");
            match ios.last_mut() {
                Some(io) if io.column == column && io.rows.end == plan.rows.start => {
                    io.rows.end = plan.rows.end;
                }
                _ => ios.push(ColumnRows { column, rows: plan.rows.clone() }),
            }
        }
    }
    ios
}

#[cfg(test)]
mod tests {
    use super::super::row_plan::Arithmetic;
    use super::*;

    fn rows_of(column: u8, rows: Range<u64>) -> ColumnRows {
        ColumnRows { column, rows }
    }

    /// A write from the middle of column 0 to the middle of column 2.
    #[test]
    fn rows_are_divided_where_the_covered_columns_change() {
        let write = [rows_of(0, 40..64), rows_of(1, 0..64), rows_of(2, 0..16)];
        let columns = |columns: &[u8]| ColumnSet::of(columns.iter().copied());
        let segments = |written: &[ColumnRows], window: Range<u64>| {
            super::segments(written.iter(), window).collect::<Vec<_>>()
        };
        let expected =
            [(0..16, columns(&[1, 2])), (16..40, columns(&[1])), (40..64, columns(&[0, 1]))];
        assert_eq!(segments(&write, 0..64), expected);
        let clipped = [(10..16, columns(&[1, 2])), (16..20, columns(&[1]))];
        assert_eq!(segments(&write, 10..20), clipped);
        let gap = [rows_of(0, 0..8), rows_of(1, 24..32), rows_of(0, 8..16)];
        let expected = [(0..16, columns(&[0])), (24..32, columns(&[1]))];
        assert_eq!(segments(&gap, 0..64), expected, "neighbours are joined");
    }

    #[test]
    fn rows_of_one_column_are_joined_to_one_io() {
        let plan = |rows: Range<u64>, reads: &[u8]| RowPlan {
            rows,
            covered: ColumnSet::default(),
            reads: ColumnSet::of(reads.iter().copied()),
            arithmetic: Arithmetic::Compute,
            writes: ColumnSet::default(),
        };
        let plans = [plan(0..16, &[0, 3]), plan(16..40, &[0, 2, 3]), plan(40..64, &[3])];
        let ios = joined(&plans, |plan| plan.reads);
        assert_eq!(ios, [rows_of(0, 0..40), rows_of(2, 16..40), rows_of(3, 0..64)]);
    }
}
