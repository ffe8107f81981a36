//! Tests against arithmetic that shares nothing with the code: a field of logarithm tables, built
//! by stepping through the powers of 2, and sums byte by byte.

use crate::StripeBytes;
use crate::field::{double, inverse, multiply, power_of_2};
use crate::lanes::{Updated, add_multiple, replace, scale};
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
    assert_eq!(power_of_2(-1), 0x8e);
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

/// The loops over bytes with each factor, at lengths of an odd and an even number of blocks.
#[test]
fn each_factor_multiplies_as_the_logarithms_do() {
    let field = Logarithms::new();
    for (factor, blocks) in (0..=255u8).flat_map(|factor| [1, 2, 3, 7].map(|it| (factor, it))) {
        let from: Vec<u8> = (0..blocks * 64).map(|at| (at * 37 + at / 256) as u8).collect();
        let before: Vec<u8> = from.iter().map(|byte| byte.wrapping_mul(11) ^ 0x5a).collect();
        let products: Vec<u8> = from.iter().map(|&byte| field.multiply(byte, factor)).collect();
        let summed =
            |sum: &[u8]| sum.iter().zip(&products).map(|(a, b)| a ^ b).collect::<Vec<u8>>();

        let mut sum = before.clone();
        add_multiple(&mut sum, &from, factor);
        assert_eq!(sum, summed(&before), "{blocks} blocks added {factor} times");
        let mut scaled = from.clone();
        scale(&mut scaled, factor);
        assert_eq!(scaled, products, "{blocks} blocks scaled by {factor}");
        let (mut column, mut q) = (vec![0; from.len()], before.clone());
        replace(&mut column, &from, Updated { p: None, q: Some(&mut q), factor });
        assert_eq!((column, q), (from.clone(), summed(&before)), "{blocks} blocks, {factor} in Q");
    }
}

/// A stripe of random bytes and its shape.
#[derive(Clone, Debug)]
struct Sample {
    bytes: Vec<u8>,
    column_bytes: usize,
    exponents: Vec<u8>,
    parities: usize,
}

impl Sample {
    fn stripe(&mut self) -> StripeBytes<'_> {
        StripeBytes::new(&mut self.bytes, &self.exponents, self.parities)
    }

    /// The stripe with its parities byte by byte.
    fn with_parities(mut self) -> Sample {
        let field = Logarithms::new();
        let data = self.exponents.len();
        for row in 0..self.column_bytes {
            let (mut p, mut q) = (0, 0);
            for (column, exponent) in self.exponents.iter().enumerate() {
                let byte = self.bytes[column * self.column_bytes + row];
                p ^= byte;
                q ^= field.multiply(byte, field.powers[usize::from(*exponent)]);
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
        self.exponents.len() + self.parities
    }
}

fn samples() -> impl Strategy<Value = Sample> {
    // Exponents as layouts have them: in order, rotated, or with gaps.
    let exponents = prop_oneof![
        (1..20u8).prop_map(|data| (0..data).collect::<Vec<u8>>()),
        (2..9u8, 1..8u8).prop_map(|(data, turn)| (0..data).map(|it| (it + turn) % data).collect()),
        Just(vec![4, 0, 1]),
        Just(vec![2, 3, 61]),
    ];
    (exponents, 1..3usize, 1..4usize, any::<u64>()).prop_map(
        |(exponents, parities, blocks, seed)| {
            let column_bytes = blocks * 64;
            let mut state = seed | 1;
            let bytes = (0..(exponents.len() + parities) * column_bytes).map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 56) as u8
            });
            Sample { bytes: bytes.collect(), column_bytes, exponents, parities }
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
        computed.stripe().compute(0..64);
        let expected = sample.clone().with_parities();
        for column in 0..sample.columns() {
            let start = column * sample.column_bytes;
            let (first, rest) = (start..start + 64, start + 64..start + sample.column_bytes);
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
        let data = before.exponents.len();
        let column = column % data;
        let mut after = before.clone();
        after.column(column)[..64].fill(0x5c);
        let after = after.with_parities();
        for update in [[true, true], [true, false], [false, true], [false, false]] {
            let (mut updated, mut expected) = (before.clone(), after.clone());
            updated.stripe().update(column, 0, &[0x5c; 64], update);
            for parity in (0..before.parities).filter(|&parity| !update[parity]) {
                let left_alone = before.clone().column(data + parity).to_vec();
                expected.column(data + parity).copy_from_slice(&left_alone);
            }
            prop_assert_eq!(updated.bytes, expected.bytes);
        }
    }
}

#[test]
#[should_panic(expected = "columns have whole blocks")]
fn columns_have_whole_blocks() {
    StripeBytes::new(&mut [0; 90], &[0, 1], 1);
}
