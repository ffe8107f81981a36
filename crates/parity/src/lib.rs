//! Arithmetic of RAID5 and RAID6 parity: P and Q of full stripes, and what they recover.
//!
//! A full stripe has n columns of data, then P, and Q with two parities, all of equal length. P is
//! the sum of the data, Q the sum of column c times 2^c, in GF(2^8) with the polynomial 0x11d; sums
//! are exclusive ors. The loops over bytes are simple, so that a compiler vectorizes them.
//!
//! Non-goals: more than two parities; waiting, files and layouts; the factors of other systems,
//! because no other system reads what is written here.
//!
//! Source: H. Peter Anvin, "The mathematics of RAID-6", 2004-2011. The code is ours.

#[cfg(test)]
mod tests;

use std::array::from_fn;
use std::ops::Range;

/// The polynomial without its highest term.
const POLYNOMIAL: u8 = 0x1d;

/// A full stripe in memory: its columns one after the other, data first, then the parities.
pub struct StripeBytes<'a> {
    bytes: &'a mut [u8],
    column_bytes: usize,
    data: usize,
    parities: usize,
}

impl<'a> StripeBytes<'a> {
    /// A stripe with so many columns of data and parity. Panics if there are no data, no or more
    /// than two parities, or the bytes do not divide into columns.
    pub fn new(bytes: &'a mut [u8], data: usize, parities: usize) -> StripeBytes<'a> {
        assert!(data > 0 && (1..=2).contains(&parities), "a stripe has data, P and Q");
        let column_bytes = bytes.len() / (data + parities);
        assert_eq!(column_bytes * (data + parities), bytes.len(), "columns have equal lengths");
        StripeBytes { bytes, column_bytes, data, parities }
    }

    /// Computes the parities of some rows from the data.
    pub fn compute(&mut self, rows: Range<usize>) {
        let sums = self.sums(&rows, &[]);
        for (parity, sum) in sums.iter().enumerate().take(self.parities) {
            self.column_mut(self.data + parity, &rows).copy_from_slice(sum);
        }
    }

    /// Recovers the columns in `wanted` from all but those in `missing`, of which there are as many
    /// as parities at most. Other columns in `missing` have any bytes afterwards. Panics if there
    /// are more.
    pub fn recover(&mut self, rows: Range<usize>, missing: &[usize], wanted: &[usize]) {
        assert!(missing.len() <= self.parities, "{missing:?} of {} parities", self.parities);
        let mut lost = missing.to_vec();
        lost.sort_unstable();
        lost.retain(|&column| column < self.data);
        let [mut p, mut q] = self.sums(&rows, &lost);
        let has_p = !missing.contains(&self.data);
        if has_p {
            add(&mut p, self.column(self.data, &rows));
        }
        if self.parities == 2 {
            add(&mut q, self.column(self.data + 1, &rows));
        }
        // Now they are the sums of what is lost.
        match lost[..] {
            [] => {}
            [column] if has_p => self.column_mut(column, &rows).copy_from_slice(&p),
            [column] => {
                let factor = multiples(inverse(power_of_2(column)));
                q.iter_mut().for_each(|byte| *byte = factor[usize::from(*byte)]);
                self.column_mut(column, &rows).copy_from_slice(&q);
            }
            [a, b] => {
                let of_a = multiples(power_of_2(a));
                let difference = multiples(inverse(power_of_2(a) ^ power_of_2(b)));
                for (q, p) in q.iter_mut().zip(&mut p) {
                    *q = difference[usize::from(*q ^ of_a[usize::from(*p)])];
                    *p ^= *q;
                }
                self.column_mut(a, &rows).copy_from_slice(&p);
                self.column_mut(b, &rows).copy_from_slice(&q);
            }
            _ => unreachable!("at most two columns are missing"),
        }
        let is_wanted = |parity: &usize| wanted.contains(&(self.data + parity));
        let parities: Vec<usize> = (0..self.parities).filter(is_wanted).collect();
        if !parities.is_empty() {
            let sums = self.sums(&rows, &[]);
            for parity in parities {
                self.column_mut(self.data + parity, &rows).copy_from_slice(&sums[parity]);
            }
        }
    }

    /// Replaces bytes of a column of data, and updates the parities in `parities` by the
    /// difference: `update[0]` is for P, `update[1]` for Q.
    pub fn update(&mut self, column: usize, row: usize, new: &[u8], update: [bool; 2]) {
        let rows = row..row + new.len();
        let mut difference = self.column(column, &rows).to_vec();
        add(&mut difference, new);
        self.column_mut(column, &rows).copy_from_slice(new);
        if update[0] {
            add(self.column_mut(self.data, &rows), &difference);
        }
        if update[1] && self.parities == 2 {
            let factor = multiples(power_of_2(column));
            difference.iter_mut().for_each(|byte| *byte = factor[usize::from(*byte)]);
            add(self.column_mut(self.data + 1, &rows), &difference);
        }
    }

    fn column(&self, column: usize, rows: &Range<usize>) -> &[u8] {
        let start = column * self.column_bytes;
        &self.bytes[start + rows.start..start + rows.end]
    }

    fn column_mut(&mut self, column: usize, rows: &Range<usize>) -> &mut [u8] {
        let start = column * self.column_bytes;
        &mut self.bytes[start + rows.start..start + rows.end]
    }

    /// P and, with two parities, Q of the data but the columns in `without`, by Horner's rule.
    fn sums(&self, rows: &Range<usize>, without: &[usize]) -> [Vec<u8>; 2] {
        let mut sums = [vec![0; rows.len()], vec![0; rows.len()]];
        for column in (0..self.data).rev() {
            if self.parities == 2 {
                sums[1].iter_mut().for_each(|byte| *byte = double(*byte));
            }
            if !without.contains(&column) {
                let data = self.column(column, rows);
                sums.iter_mut().take(self.parities).for_each(|sum| add(sum, data));
            }
        }
        sums
    }
}

fn add(to: &mut [u8], from: &[u8]) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to ^= from);
}

fn double(x: u8) -> u8 {
    (x << 1) ^ ((x >> 7) * POLYNOMIAL)
}

fn multiply(mut x: u8, mut y: u8) -> u8 {
    let mut product = 0;
    while y != 0 {
        product ^= (y & 1) * x;
        x = double(x);
        y >>= 1;
    }
    product
}

/// The products of each element and a factor.
fn multiples(factor: u8) -> [u8; 256] {
    from_fn(|x| multiply(x as u8, factor))
}

fn power_of_2(exponent: usize) -> u8 {
    (0..exponent).fold(1, |power, _| double(power))
}

/// The inverse of an element other than zero: its power of 254.
fn inverse(x: u8) -> u8 {
    assert_ne!(x, 0, "zero has no inverse");
    (0..254).fold(1, |power, _| multiply(power, x))
}
