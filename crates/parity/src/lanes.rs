//! The loops over bytes: blocks of 64 bytes as eight words.
//!
//! Each loop is written once, in portable code that a compiler turns into vector instructions, and
//! compiled twice: for the least processor of the target, and for AVX2. The processor decides which
//! of them runs.

#![allow(unsafe_code)]

use crate::field::POLYNOMIAL;
use std::array::from_fn;

/// Bytes of a block.
pub(crate) const BLOCK_BYTES: usize = 64;

type Block = [u64; BLOCK_BYTES / 8];

const ZERO: Block = [0; BLOCK_BYTES / 8];

/// Each byte of a word.
const fn bytes(byte: u8) -> u64 {
    u64::from_ne_bytes([byte; 8])
}

/// A column in the order of Horner's rule.
#[derive(Clone, Copy)]
pub(crate) struct Term<'a> {
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

/// Compiles the body of a function twice and calls the version for this processor.
macro_rules! for_processor {
    ($(#[$meta:meta])* $name:ident($($argument:ident: $kind:ty),*) $body:block) => {
        $(#[$meta])*
        pub(crate) fn $name($($argument: $kind),*) {
            #[inline(always)]
            fn portable($($argument: $kind),*) $body

            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2")]
                fn avx2($($argument: $kind),*) {
                    portable($($argument),*);
                }
                if std::arch::is_x86_feature_detected!("avx2") {
                    // SAFETY: the processor has AVX2.
                    return unsafe { avx2($($argument),*) };
                }
            }
            portable($($argument),*);
        }
    };
}

for_processor! {
    /// Writes the sums of `terms`.
    sum(terms: &[Term<'_>], sums: &mut Sums<'_>) {
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
}

for_processor! {
    /// Writes the sum of `terms` to `p`: the sums without Q, in less time.
    sum_p(terms: &[Term<'_>], p: &mut [u8]) {
        for at in (0..p.len()).step_by(BLOCK_BYTES) {
            let sum = terms.iter().fold(ZERO, |sum, term| add(sum, load(&term.bytes[at..])));
            store(&mut p[at..], sum);
        }
    }
}

for_processor! {
    /// Adds `factor` times `from` to `to`.
    add_multiple(to: &mut [u8], from: &[u8], factor: u8) {
        for at in (0..to.len()).step_by(BLOCK_BYTES) {
            let product = multiply(load(&from[at..]), factor);
            let sum = add(load(&to[at..]), product);
            store(&mut to[at..], sum);
        }
    }
}

for_processor! {
    /// Multiplies `bytes` by `factor`.
    scale(bytes: &mut [u8], factor: u8) {
        for at in (0..bytes.len()).step_by(BLOCK_BYTES) {
            let product = multiply(load(&bytes[at..]), factor);
            store(&mut bytes[at..], product);
        }
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

#[inline(always)]
fn multiply(mut block: Block, factor: u8) -> Block {
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
