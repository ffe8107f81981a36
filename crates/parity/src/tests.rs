//! Tests against arithmetic that shares nothing with the code: a field of logarithm tables, built
//! by stepping through the powers of 2, and sums byte by byte.

use crate::{StripeBytes, double, inverse, multiply, power_of_2};
use proptest::prelude::*;

/// GF(2^8) by logarithms.
struct Logarithms {
    powers: [u8; 255],
    logarithms: [usize; 256],
}

impl Logarithms {
    fn new() -> Logarithms {
        let (mut powers, mut logarithms) = ([0; 255], [0; 256]);
        let mut x = 1u32;
        for (exponent, power) in powers.iter_mut().enumerate() {
            (*power, logarithms[x as usize]) = (x as u8, exponent);
            x *= 2;
            x = if x > 255 { x ^ 0x11d } else { x };
        }
        Logarithms { powers, logarithms }
    }

    fn multiply(&self, a: u8, b: u8) -> u8 {
        match (a, b) {
            (0, _) | (_, 0) => 0,
            _ => {
                let sum = self.logarithms[usize::from(a)] + self.logarithms[usize::from(b)];
                self.powers[sum % 255]
            }
        }
    }
}

/// The powers that Linux has in `raid6_gfexp`, at a few exponents.
#[test]
fn powers_are_those_of_linux() {
    let expected = [(0, 1), (7, 0x80), (8, 0x1d), (9, 0x3a), (25, 3), (254, 0x8e), (255, 1)];
    for (exponent, power) in expected {
        assert_eq!(power_of_2(exponent), power, "2^{exponent}");
    }
    assert_eq!(inverse(2), 0x8e);
}

#[test]
fn the_field_is_that_of_the_logarithms() {
    let field = Logarithms::new();
    for a in 0..=255 {
        assert_eq!(double(a), field.multiply(a, 2));
        for b in 0..=255 {
            assert_eq!(multiply(a, b), field.multiply(a, b), "{a} times {b}");
        }
        if a > 0 {
            assert_eq!(field.multiply(a, inverse(a)), 1);
        }
    }
}

/// A stripe of random bytes and its shape.
#[derive(Clone, Debug)]
struct Sample {
    bytes: Vec<u8>,
    column_bytes: usize,
    data: usize,
    parities: usize,
}

impl Sample {
    fn stripe(&mut self) -> StripeBytes<'_> {
        StripeBytes::new(&mut self.bytes, self.data, self.parities)
    }

    /// The stripe with its parities byte by byte.
    fn with_parities(mut self) -> Sample {
        let field = Logarithms::new();
        let data = self.data;
        for row in 0..self.column_bytes {
            let (mut p, mut q) = (0, 0);
            for column in 0..data {
                let byte = self.bytes[column * self.column_bytes + row];
                p ^= byte;
                q ^= field.multiply(byte, field.powers[column]);
            }
            self.bytes[data * self.column_bytes + row] = p;
            if self.parities == 2 {
                self.bytes[(data + 1) * self.column_bytes + row] = q;
            }
        }
        self
    }

    fn column(&mut self, column: usize) -> &mut [u8] {
        &mut self.bytes[column * self.column_bytes..(column + 1) * self.column_bytes]
    }

    fn columns(&self) -> usize {
        self.data + self.parities
    }
}

fn samples() -> impl Strategy<Value = Sample> {
    (1..20usize, 1..3usize, 1..200usize, any::<u64>()).prop_map(
        |(data, parities, column_bytes, seed)| {
            let mut state = seed | 1;
            let bytes = (0..(data + parities) * column_bytes).map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 56) as u8
            });
            Sample { bytes: bytes.collect(), column_bytes, data, parities }
        },
    )
}

proptest! {
    #[test]
    fn parities_are_those_of_the_definition(sample in samples()) {
        let expected = sample.clone().with_parities();
        let mut computed = sample;
        let rows = 0..computed.column_bytes;
        computed.stripe().compute(rows);
        prop_assert_eq!(computed.bytes, expected.bytes);
    }

    #[test]
    fn rows_outside_are_left_alone(sample in samples()) {
        let mut computed = sample.clone();
        let half = sample.column_bytes / 2;
        computed.stripe().compute(0..half);
        let expected = sample.clone().with_parities();
        for column in 0..sample.columns() {
            let start = column * sample.column_bytes;
            let (first, rest) = (start..start + half, start + half..start + sample.column_bytes);
            prop_assert_eq!(&computed.bytes[first.clone()], &expected.bytes[first]);
            prop_assert_eq!(&computed.bytes[rest.clone()], &sample.bytes[rest]);
        }
    }

    /// Every loss that the parities allow, each of one column and each of two.
    #[test]
    fn every_combination_of_losses_is_recovered(sample in samples()) {
        let whole = sample.with_parities();
        let columns = whole.columns();
        for first in 0..columns {
            for second in first..columns {
                let mut missing = vec![first, second];
                missing.dedup();
                if missing.len() > whole.parities {
                    continue;
                }
                let mut damaged = whole.clone();
                for &column in &missing {
                    damaged.column(column).fill(0xa5);
                }
                let rows = 0..damaged.column_bytes;
                damaged.stripe().recover(rows.clone(), &missing, &missing);
                prop_assert!(damaged.bytes == whole.bytes, "{:?} of {}", missing, columns);
                for &column in &missing {
                    let mut damaged = whole.clone();
                    missing.iter().for_each(|&it| damaged.column(it).fill(0xa5));
                    damaged.stripe().recover(rows.clone(), &missing, &[column]);
                    prop_assert!(damaged.column(column) == whole.clone().column(column));
                }
            }
        }
    }

    #[test]
    fn an_update_gives_the_parities_of_the_new_data(sample in samples(), column in any::<usize>()) {
        let before = sample.with_parities();
        let data = before.data;
        let column = column % data;
        let mut after = before.clone();
        let length = before.column_bytes.min(64);
        after.column(column)[..length].fill(0x5c);
        let after = after.with_parities();
        for update in [[true, true], [true, false], [false, true], [false, false]] {
            let (mut updated, mut expected) = (before.clone(), after.clone());
            updated.stripe().update(column, 0, &vec![0x5c; length], update);
            for parity in (0..before.parities).filter(|&parity| !update[parity]) {
                let left_alone = before.clone().column(data + parity).to_vec();
                expected.column(data + parity).copy_from_slice(&left_alone);
            }
            prop_assert_eq!(updated.bytes, expected.bytes);
        }
    }
}

#[test]
#[should_panic(expected = "columns have equal lengths")]
fn columns_have_equal_lengths() {
    StripeBytes::new(&mut [0; 91], 2, 1);
}
