//! The loops over bytes: blocks of 64 bytes as eight words, which a compiler turns into vector
//! instructions.

use crate::field::POLYNOMIAL;
use std::array::from_fn;

pub(crate) const BLOCK_BYTES: usize = 64;

type Block = [u64; BLOCK_BYTES / 8];

const ZERO: Block = [0; BLOCK_BYTES / 8];

/// Each byte of a word.
const fn bytes(byte: u8) -> u64 {
    u64::from_ne_bytes([byte; 8])
}

/// A column in the order of Horner's rule.
#[derive(Clone, Copy)]
pub(crate) struct RowTerm<'a> {
    pub(crate) bytes: &'a [u8],
    /// How often the sum so far is doubled before this column is added.
    pub(crate) doublings: u32,
}

/// The sums of the terms: P, and Q after `last_doublings` more.
pub(crate) struct Sums<'a> {
    pub(crate) p: Option<&'a mut [u8]>,
    pub(crate) q: Option<&'a mut [u8]>,
    pub(crate) last_doublings: u32,
}

/// The parities of a column that is updated.
pub(crate) struct Updated<'a> {
    pub(crate) p: Option<&'a mut [u8]>,
    pub(crate) q: Option<&'a mut [u8]>,
    /// The factor of the column in Q.
    pub(crate) factor: u8,
}

/// Writes the sums of `terms`.
pub(crate) fn sum(terms: &[RowTerm<'_>], sums: &mut Sums<'_>) {
    let length = terms.first().map_or(0, |term| term.bytes.len());
    for at in (0..length).step_by(BLOCK_BYTES) {
        let (mut p, mut q) = (ZERO, ZERO);
        for term in terms {
            let data = load(&term.bytes[at..]);
            for _ in 0..term.doublings {
                q = double(q);
            }
            p = add(p, data);
            q = add(q, data);
        }
        if let Some(out) = &mut sums.p {
            store(&mut out[at..], p);
        }
        if let Some(out) = &mut sums.q {
            for _ in 0..sums.last_doublings {
                q = double(q);
            }
            store(&mut out[at..], q);
        }
    }
}

/// Writes the sum of `terms` to `p`: the sums without Q, in less time.
pub(crate) fn sum_p(terms: &[RowTerm<'_>], p: &mut [u8]) {
    for at in (0..p.len()).step_by(BLOCK_BYTES) {
        let sum = terms.iter().fold(ZERO, |sum, term| add(sum, load(&term.bytes[at..])));
        store(&mut p[at..], sum);
    }
}

/// Adds `factor` times `from` to `to`.
pub(crate) fn add_multiple(to: &mut [u8], from: &[u8], factor: u8) {
    for at in (0..to.len()).step_by(BLOCK_BYTES) {
        let sum = add(load(&to[at..]), product(load(&from[at..]), factor));
        store(&mut to[at..], sum);
    }
}

/// Replaces the bytes of a column by `new`, and adds the difference to its parities.
pub(crate) fn replace(column: &mut [u8], new: &[u8], parities: Updated<'_>) {
    let Updated { mut p, mut q, factor } = parities;
    for at in (0..new.len()).step_by(BLOCK_BYTES) {
        let data = load(&new[at..]);
        let difference = add(load(&column[at..]), data);
        store(&mut column[at..], data);
        if let Some(p) = &mut p {
            let sum = add(load(&p[at..]), difference);
            store(&mut p[at..], sum);
        }
        if let Some(q) = &mut q {
            let sum = add(load(&q[at..]), product(difference, factor));
            store(&mut q[at..], sum);
        }
    }
}

/// Multiplies `bytes` by `factor`.
pub(crate) fn scale(bytes: &mut [u8], factor: u8) {
    for at in (0..bytes.len()).step_by(BLOCK_BYTES) {
        let scaled = product(load(&bytes[at..]), factor);
        store(&mut bytes[at..], scaled);
    }
}

#[inline(always)]
fn load(bytes: &[u8]) -> Block {
    let (words, _) = bytes[..BLOCK_BYTES].as_chunks::<8>();
    from_fn(|index| u64::from_ne_bytes(words[index]))
}

#[inline(always)]
fn store(bytes: &mut [u8], block: Block) {
    let (words, _) = bytes[..BLOCK_BYTES].as_chunks_mut::<8>();
    for (word, value) in words.iter_mut().zip(block) {
        *word = value.to_ne_bytes();
    }
}

#[inline(always)]
fn add(a: Block, b: Block) -> Block {
    from_fn(|index| a[index] ^ b[index])
}

/// Doubles each byte. The mask has 0xff in each byte whose highest bit is set.
#[inline(always)]
fn double(block: Block) -> Block {
    from_fn(|index| {
        let word = block[index];
        let high = word & bytes(0x80);
        let mask = (high << 1).wrapping_sub(high >> 7);
        ((word << 1) & bytes(0xfe)) ^ (mask & bytes(POLYNOMIAL))
    })
}

/// The product of each byte and a factor, by doubling.
#[inline(always)]
fn product(mut block: Block, factor: u8) -> Block {
    let mut product = ZERO;
    let mut left = factor;
    while left != 0 {
        if left & 1 != 0 {
            product = add(product, block);
        }
        left >>= 1;
        if left != 0 {
            block = double(block);
        }
    }
    product
}
