//! Operations on a full stripe in memory.

use crate::field::{inverse, power_of_2};
use crate::lanes::{BLOCK_BYTES, RowTerm, Sums, Updated, add_multiple, replace, scale, sum, sum_p};
use std::cmp::Reverse;
use std::ops::Range;

/// A full stripe in memory: its columns one after the other, data first, then the parities.
pub struct StripeBytes<'a> {
    bytes: &'a mut [u8],
    column_bytes: usize,
    /// Power of 2 of each column of data in Q.
    exponents: &'a [u8],
    parities: usize,
}

impl<'a> StripeBytes<'a> {
    /// A stripe with a column of data for each of `exponents`.
    ///
    /// # Panics
    /// If there are no data, no or more than two parities, or the bytes do not divide into as many
    /// columns of whole blocks.
    pub fn new(bytes: &'a mut [u8], exponents: &'a [u8], parities: usize) -> StripeBytes<'a> {
        assert!(!exponents.is_empty() && (1..=2).contains(&parities), "a stripe has data, P and Q");
        let columns = exponents.len() + parities;
        let column_bytes = bytes.len() / columns;
        let is_whole = column_bytes * columns == bytes.len();
        assert!(is_whole && column_bytes.is_multiple_of(BLOCK_BYTES), "columns have whole blocks");
        StripeBytes { bytes, column_bytes, exponents, parities }
    }

    /// Computes the parities of some rows from the data.
    pub fn compute(&mut self, rows: Range<usize>) {
        let (data, parities) = self.bytes.split_at_mut(self.exponents.len() * self.column_bytes);
        let (terms, last_doublings) = terms(data, self.column_bytes, self.exponents, &rows, &[]);
        let (p, q) = parities.split_at_mut(self.column_bytes);
        let p = &mut p[rows.clone()];
        match q.get_mut(rows) {
            None => sum_p(&terms, p),
            Some(q) => sum(&terms, &mut Sums { p: Some(p), q: Some(q), last_doublings }),
        }
    }

    /// Recovers the columns in `wanted` from all but those in `missing`, of which there are as many
    /// as parities at most. Other columns in `missing` have any bytes afterwards.
    ///
    /// # Panics
    /// If there are more.
    pub fn recover(&mut self, rows: Range<usize>, missing: &[usize], wanted: &[usize]) {
        assert!(missing.len() <= self.parities, "{missing:?} of {} parities", self.parities);
        let data = self.data();
        let mut lost = missing.to_vec();
        lost.sort_unstable();
        let lost_parities: Vec<usize> = lost.iter().copied().filter(|&it| it >= data).collect();
        lost.retain(|&column| column < data);
        match lost[..] {
            [] => {}
            [column] if !lost_parities.contains(&data) => {
                self.sum_into(&rows, &[column], &[]);
                self.add(column, data, &rows, 1);
            }
            [column] => {
                // Q without the column, plus Q, is its multiple.
                self.sum_q_into(&rows, &[column], column);
                self.add(column, data + 1, &rows, 1);
                let factor = power_of_2(-i32::from(self.exponents[column]));
                scale(self.column_mut(column, &rows), factor);
            }
            [a, b] => self.recover_two(&rows, a, b),
            _ => unreachable!("at most two columns are missing"),
        }
        let wanted: Vec<usize> =
            lost_parities.into_iter().filter(|column| wanted.contains(column)).collect();
        self.sum_into(&rows, &[], &wanted);
    }

    /// Replaces bytes of a column of data, and updates the parities in `parities` by the
    /// difference: `update[0]` is for P, `update[1]` for Q.
    pub fn update(&mut self, column: usize, row: usize, new: &[u8], update: [bool; 2]) {
        let rows = row..row + new.len();
        let (data, parities) = self.bytes.split_at_mut(self.exponents.len() * self.column_bytes);
        let (p, q) = parities.split_at_mut(self.column_bytes);
        let p = update[0].then(|| &mut p[rows.clone()]);
        let q = q.get_mut(rows.clone()).filter(|_| update[1]);
        let column_start = column * self.column_bytes;
        let old = &mut data[column_start + rows.start..column_start + rows.end];
        let factor = power_of_2(self.exponents[column].into());
        replace(old, new, Updated { p, q, factor });
    }

    /// Bytes of a column.
    pub fn column(&self, column: usize, rows: &Range<usize>) -> &[u8] {
        let start = column * self.column_bytes;
        &self.bytes[start + rows.start..start + rows.end]
    }

    /// Bytes of a column, to be filled.
    pub fn column_mut(&mut self, column: usize, rows: &Range<usize>) -> &mut [u8] {
        let start = column * self.column_bytes;
        &mut self.bytes[start + rows.start..start + rows.end]
    }

    fn data(&self) -> usize {
        self.exponents.len()
    }

    /// Recovers two columns of data, by the solution of their two equations.
    fn recover_two(&mut self, rows: &Range<usize>, a: usize, b: usize) {
        let exponent = |column: usize| i32::from(self.exponents[column]);
        let (of_a, of_b) = (exponent(a), exponent(b));
        let of_p = inverse(power_of_2(of_b - of_a) ^ 1);
        let of_q = inverse(power_of_2(of_a) ^ power_of_2(of_b));
        // The lost parts of P and Q, in the places of a and b.
        self.sums_into_two(rows, [a, b]);
        self.add(a, self.data(), rows, 1);
        self.add(b, self.data() + 1, rows, 1);
        scale(self.column_mut(b, rows), of_q);
        self.add(b, a, rows, of_p);
        self.add(a, b, rows, 1);
    }

    /// Adds a multiple of a column to another one.
    fn add(&mut self, to: usize, from: usize, rows: &Range<usize>, factor: u8) {
        let (to, from) = (to * self.column_bytes, from * self.column_bytes);
        let (first, second) = self.bytes.split_at_mut(to.max(from));
        let (to, from) = match to < from {
            true => (&mut first[to..], &*second),
            false => (second, &first[from..]),
        };
        add_multiple(&mut to[rows.clone()], &from[rows.clone()], factor);
    }

    /// The columns of data but those in `without`, in the order of Horner's rule, and the doublings
    /// after the last.
    fn terms(&self, rows: &Range<usize>, without: &[usize]) -> (Vec<RowTerm<'_>>, u32) {
        terms(self.bytes, self.column_bytes, self.exponents, rows, without)
    }

    /// Sums the data but the columns in `without` up: into P and Q, as far as `parities` names
    /// them, and P into the one column of `without`.
    fn sum_into(&mut self, rows: &Range<usize>, without: &[usize], parities: &[usize]) {
        let data = self.data();
        let into_p = without.first().copied().or(parities.contains(&data).then_some(data));
        let into_q = parities.contains(&(data + 1)).then_some(data + 1);
        self.sums(rows, without, into_p, into_q);
    }

    fn sum_q_into(&mut self, rows: &Range<usize>, without: &[usize], into: usize) {
        self.sums(rows, without, None, Some(into));
    }

    fn sums_into_two(&mut self, rows: &Range<usize>, [p, q]: [usize; 2]) {
        self.sums(rows, &[p, q], Some(p), Some(q));
    }

    /// Sums the data but the columns in `without` up, P and Q into the columns given for them. Both
    /// are in `without`, or parities.
    fn sums(
        &mut self,
        rows: &Range<usize>,
        without: &[usize],
        into_p: Option<usize>,
        into_q: Option<usize>,
    ) {
        // The results are taken out of the stripe while the others are read.
        let mut results: [Vec<u8>; 2] = Default::default();
        let [p, q] = &mut results;
        let (terms, last_doublings) = self.terms(rows, without);
        match (into_p, into_q) {
            (None, None) => return,
            _ if terms.is_empty() => {
                p.resize(rows.len(), 0);
                q.resize(rows.len(), 0);
            }
            (Some(_), None) => {
                p.resize(rows.len(), 0);
                sum_p(&terms, p);
            }
            _ => {
                p.resize(rows.len(), 0);
                q.resize(rows.len(), 0);
                sum(&terms, &mut Sums { p: Some(p), q: Some(q), last_doublings });
            }
        }
        for (into, result) in [into_p, into_q].into_iter().zip(&results) {
            if let Some(into) = into {
                self.column_mut(into, rows).copy_from_slice(result);
            }
        }
    }
}

/// The columns of data but those in `without`, in the order of Horner's rule: each with how often
/// the sum of those before it is doubled first. Returns them with the doublings after the last.
fn terms<'a>(
    bytes: &'a [u8],
    column_bytes: usize,
    exponents: &[u8],
    rows: &Range<usize>,
    without: &[usize],
) -> (Vec<RowTerm<'a>>, u32) {
    let mut order: Vec<usize> =
        (0..exponents.len()).filter(|column| !without.contains(column)).collect();
    order.sort_by_key(|&column| Reverse(exponents[column]));
    let mut exponent = order.first().map_or(0, |&column| exponents[column]);
    let term = |&column: &usize| {
        let start = column * column_bytes;
        let doublings = u32::from(std::mem::replace(&mut exponent, exponents[column]));
        let doublings = doublings - u32::from(exponents[column]);
        RowTerm { bytes: &bytes[start + rows.start..start + rows.end], doublings }
    };
    let terms = order.iter().map(term).collect();
    (terms, exponent.into())
}
