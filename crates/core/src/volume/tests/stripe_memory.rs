//! The buffers of full stripes in tests: a word for each block, and slow arithmetic on its bytes.

use super::*;
use crate::geometry::FullStripe;
use crate::volume::{BufferRows, RequestRows, StripeBuffer, StripeStep};
use std::ops::Range;

/// The buffers by their numbers.
#[derive(Default)]
pub(super) struct StripeMemory {
    buffers: BTreeMap<u32, Buffer>,
}

struct Buffer {
    stripe: FullStripe,
    rows: usize,
    words: Vec<u64>,
}

/// A word times a power of 2, byte by byte.
pub(super) fn times_power(word: u64, exponent: u8) -> u64 {
    let double = |byte: u8| (byte << 1) ^ if byte & 0x80 != 0 { 0x1d } else { 0 };
    let times = |byte: u8| (0..exponent).fold(byte, |byte, _| double(byte));
    u64::from_ne_bytes(word.to_ne_bytes().map(times))
}

/// P and Q of the data of a row.
pub(super) fn parities_of(data: &[u64]) -> [u64; 2] {
    let p = data.iter().fold(0, |sum, word| sum ^ word);
    let with_columns = (0..).zip(data);
    let q = with_columns.fold(0, |sum, (column, word)| sum ^ times_power(*word, column));
    [p, q]
}

impl Buffer {
    fn word(&mut self, column: u8, row: usize) -> &mut u64 {
        &mut self.words[usize::from(column) * self.rows + row]
    }

    fn data(&mut self, row: usize) -> Vec<u64> {
        (0..self.stripe.data).map(|column| *self.word(column, row)).collect()
    }

    fn compute(&mut self, row: usize) {
        let data = self.data(row);
        let parities = parities_of(&data);
        for (parity, column) in parities.into_iter().zip(self.stripe.data..self.stripe.columns()) {
            *self.word(column, row) = parity;
        }
    }

    /// Tries all values of each byte of the missing data: slow, and certainly right.
    fn recover(&mut self, row: usize, missing: &[u8]) {
        let known: Vec<u8> = (self.stripe.data..self.stripe.columns())
            .filter(|column| !missing.contains(column))
            .collect();
        let lost: Vec<u8> =
            missing.iter().copied().filter(|&column| column < self.stripe.data).collect();
        assert!(lost.len() <= known.len(), "{missing:?} cannot be recovered");
        for &column in &lost {
            *self.word(column, row) = 0;
        }
        let data = self.data(row);
        let sums = parities_of(&data);
        let wanted: Vec<(usize, [u8; 8])> = known
            .iter()
            .map(|&column| {
                let parity = usize::from(column - self.stripe.data);
                (parity, (sums[parity] ^ *self.word(column, row)).to_ne_bytes())
            })
            .collect();
        for byte in 0..8 {
            let fits = |values: &[u8]| {
                wanted.iter().take(lost.len()).all(|(parity, sum)| {
                    let terms = values.iter().zip(&lost).map(|(&value, &exponent)| {
                        let exponent = if *parity == 0 { 0 } else { exponent };
                        times_power(value.into(), exponent) as u8
                    });
                    terms.fold(0, |sum, term| sum ^ term) == sum[byte]
                })
            };
            let found: Vec<u8> = match lost.len() {
                0 => continue,
                1 => (0..=255).map(|a| vec![a]).find(|it| fits(it)).unwrap(),
                _ => {
                    // With P known, the second follows from the first.
                    let p = wanted[0].1[byte];
                    (0..=255).map(|a| vec![a, a ^ p]).find(|it| fits(it)).unwrap()
                }
            };
            for (&column, value) in lost.iter().zip(found) {
                let word = self.word(column, row);
                let mut bytes = word.to_ne_bytes();
                bytes[byte] = value;
                *word = u64::from_ne_bytes(bytes);
            }
        }
        let data = self.data(row);
        let parities = parities_of(&data);
        for (parity, column) in parities.into_iter().zip(self.stripe.data..self.stripe.columns()) {
            if missing.contains(&column) {
                *self.word(column, row) = parity;
            }
        }
    }
}

fn blocks(rows: &Range<u64>) -> Range<usize> {
    (rows.start / BLOCK) as usize..(rows.end / BLOCK) as usize
}

impl World {
    /// Does the steps that the volume asks for.
    pub(super) fn do_stripe_steps(&mut self) {
        while let Some((StripeBuffer(number), step)) = self.volume.poll_stripe_step() {
            if let StripeStep::Begin { stripe, rows_bytes } = step {
                let rows = (rows_bytes / BLOCK) as usize;
                // What was never read or computed must not matter.
                let words = vec![0xbad; rows * usize::from(stripe.columns())];
                let buffer = Buffer { stripe: *stripe, rows, words };
                assert!(self.stripes.buffers.insert(number, buffer).is_none(), "{number} twice");
                continue;
            }
            self.do_stripe_step(number, step);
        }
    }

    fn do_stripe_step(&mut self, number: u32, step: StripeStep) {
        let buffer = self.stripes.buffers.get_mut(&number).unwrap();
        match step {
            StripeStep::Begin { .. } => unreachable!("it is done before"),
            StripeStep::Load(data) => {
                for (place, on_volume) in pairs(&data) {
                    *buffer.word(data.place.column, place) =
                        self.buffers[&data.request.0][&on_volume];
                }
            }
            StripeStep::Update { data, parities } => {
                let column = data.place.column;
                for (place, on_volume) in pairs(&data) {
                    let new = self.buffers[&data.request.0][&on_volume];
                    let difference = *buffer.word(column, place) ^ new;
                    let first = buffer.stripe.data;
                    if parities[0] {
                        *buffer.word(first, place) ^= difference;
                    }
                    if parities[1] {
                        *buffer.word(first + 1, place) ^= times_power(difference, column);
                    }
                    *buffer.word(column, place) = new;
                }
            }
            StripeStep::Compute(rows) => blocks(&rows).for_each(|row| buffer.compute(row)),
            StripeStep::Recover { rows, missing, wanted } => {
                assert_eq!(wanted & !missing, 0, "only what is missing is recovered");
                let columns = |bits: u64| {
                    (0..64).filter(move |bit| bits & 1 << bit != 0).collect::<Vec<u8>>()
                };
                let missing = columns(missing);
                for row in blocks(&rows) {
                    buffer.recover(row, &missing);
                    for &column in missing.iter().filter(|it| wanted & 1 << **it == 0) {
                        *buffer.word(column, row) = 0xbad;
                    }
                }
            }
            StripeStep::Deliver(data) => {
                let into = self.buffers.get_mut(&data.request.0).unwrap();
                for (place, on_volume) in pairs(&data) {
                    into.insert(on_volume, *buffer.word(data.place.column, place));
                }
            }
            StripeStep::End => {
                self.stripes.buffers.remove(&number);
            }
        }
    }

    /// Performs an I/O on the buffer of a stripe.
    pub(super) fn perform_for_stripe(&mut self, io: &MemberIo) -> Result<Vec<(u64, u64)>, IoError> {
        let place = self.volume.stripe_place(io);
        let buffer = self.stripes.buffers.get_mut(&place.buffer.0).unwrap();
        let first = (place.offset / BLOCK) as usize;
        for index in 0..io.length / BLOCK {
            let on_member = (io.member.0, io.offset / BLOCK + index);
            let word = &mut buffer.words[first + index as usize];
            match io.op {
                Op::Read if self.bad.contains(&on_member) => return Err(IoError::Medium),
                Op::Read => *word = self.disks.get(&on_member).copied().unwrap_or(0),
                _ => {
                    self.disks.insert(on_member, *word);
                    self.bad.retain(|&bad| bad != on_member);
                }
            }
        }
        Ok(Vec::new())
    }
}

/// The blocks of a part of a request: row in the buffer, block of the volume.
fn pairs(data: &RequestRows) -> impl Iterator<Item = (usize, u64)> + use<> {
    let RequestRows { volume_offset, place: BufferRows { rows, .. }, .. } = data;
    blocks(rows).zip(volume_offset / BLOCK..)
}
