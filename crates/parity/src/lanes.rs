//! The loops over bytes: blocks of 64 bytes as eight words.
//!
//! Each loop is written once, in portable code that a compiler turns into vector instructions, and
//! compiled twice: for the least processor of the target, and for AVX2. The processor decides which
//! of them runs. Only the product with a factor is written twice: no compiler finds the shuffle of
//! bytes by which AVX2 looks up 32 products at once.

#![allow(unsafe_code, reason = "the call of a function compiled for AVX2; see the page above")]

use crate::field::POLYNOMIAL;
#[cfg(target_arch = "x86_64")]
use crate::field::multiply;
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

/// Compiles the body of a function twice and calls the version for this processor. In the body,
/// `$multiply` is the function that multiplies a block by a factor.
macro_rules! for_processor {
    ($(#[$meta:meta])* $name:ident($($arguments:tt)*) $body:block) => {
        for_processor! { $(#[$meta])* $name[_multiply]($($arguments)*) $body }
    };
    ($(#[$meta:meta])* $name:ident[$multiply:ident]($($argument:ident: $kind:ty),*) $body:block)
    => {
        $(#[$meta])*
        pub(crate) fn $name($($argument: $kind),*) {
            #[inline(always)]
            fn portable($multiply: impl Fn(Block, u8) -> Block, $($argument: $kind),*) $body

            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2")]
                fn avx2($($argument: $kind),*) {
                    portable(|block, factor| shuffled_product(block, factor), $($argument),*);
                }
                if std::arch::is_x86_feature_detected!("avx2") {
                    // SAFETY: the processor has AVX2.
                    return unsafe { avx2($($argument),*) };
                }
            }
            portable(product, $($argument),*);
        }
    };
}

for_processor! {
    /// Writes the sums of `terms`.
    sum(terms: &[RowTerm<'_>], sums: &mut Sums<'_>) {
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
    sum_p(terms: &[RowTerm<'_>], p: &mut [u8]) {
        for at in (0..p.len()).step_by(BLOCK_BYTES) {
            let sum = terms.iter().fold(ZERO, |sum, term| add(sum, load(&term.bytes[at..])));
            store(&mut p[at..], sum);
        }
    }
}

for_processor! {
    /// Adds `factor` times `from` to `to`.
    add_multiple[multiply](to: &mut [u8], from: &[u8], factor: u8) {
        for at in (0..to.len()).step_by(BLOCK_BYTES) {
            let product = multiply(load(&from[at..]), factor);
            let sum = add(load(&to[at..]), product);
            store(&mut to[at..], sum);
        }
    }
}

for_processor! {
    /// Replaces the bytes of a column by `new`, and adds the difference to its parities.
    replace[multiply](column: &mut [u8], new: &[u8], parities: Updated<'_>) {
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
                let sum = add(load(&q[at..]), multiply(difference, factor));
                store(&mut q[at..], sum);
            }
        }
    }
}

for_processor! {
    /// Multiplies `bytes` by `factor`.
    scale[multiply](bytes: &mut [u8], factor: u8) {
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

/// The product of each byte and a factor, by doubling.
#[inline(always)]
pub(crate) fn product(mut block: Block, factor: u8) -> Block {
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

/// The product of each byte and a factor, by a look-up of the products of its halves.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2")]
fn shuffled_product(block: Block, factor: u8) -> Block {
    use std::arch::x86_64::*;
    let [low, high] = HALF_PRODUCTS[usize::from(factor)];
    let low_products = _mm256_set_epi64x(low[1], low[0], low[1], low[0]);
    let high_products = _mm256_set_epi64x(high[1], high[0], high[1], high[0]);
    let half = _mm256_set1_epi8(0x0f);
    let mut product = ZERO;
    for (to, from) in product.chunks_exact_mut(4).zip(block.chunks_exact(4)) {
        let bytes =
            _mm256_set_epi64x(from[3] as i64, from[2] as i64, from[1] as i64, from[0] as i64);
        let low = _mm256_and_si256(bytes, half);
        let high = _mm256_and_si256(_mm256_srli_epi64::<4>(bytes), half);
        let sum = _mm256_xor_si256(
            _mm256_shuffle_epi8(low_products, low),
            _mm256_shuffle_epi8(high_products, high),
        );
        to[0] = _mm256_extract_epi64::<0>(sum) as u64;
        to[1] = _mm256_extract_epi64::<1>(sum) as u64;
        to[2] = _mm256_extract_epi64::<2>(sum) as u64;
        to[3] = _mm256_extract_epi64::<3>(sum) as u64;
    }
    product
}

/// For each factor its products with each low half of a byte, then with each high half: 16 bytes as
/// two words.
#[cfg(target_arch = "x86_64")]
static HALF_PRODUCTS: [[[i64; 2]; 2]; 256] = {
    let mut products = [[[0; 2]; 2]; 256];
    let mut at = 0;
    while at < 256 * 16 {
        let (factor, half) = (at / 16, at % 16);
        let shift = half % 8 * 8;
        let low = multiply(factor as u8, half as u8);
        let high = multiply(factor as u8, (half as u8) << 4);
        products[factor][0][half / 8] |= (low as i64) << shift;
        products[factor][1][half / 8] |= (high as i64) << shift;
        at += 1;
    }
    products
};
