//! Arithmetic of RAID5 and RAID6 parity: P and Q of full stripes, and what they recover.
//!
//! A full stripe has n columns of data, then P, and Q with two parities, all of equal length. P is
//! the sum of the data, Q the sum of each datum times a power of 2, in GF(2^8) with the polynomial
//! 0x11d; sums are exclusive ors. Which power belongs to which column is a matter of the layout.
//!
//! - [`StripeBytes`] has the operations on a full stripe in memory: compute, recover, update.
//! - `lanes` has the loops over bytes, on 64 of them at a time.
//! - `field` has arithmetic of single elements, for constants.
//!
//! Non-goals: more than two parities; waiting, files and layouts.
//!
//! Source: H. Peter Anvin, "The mathematics of RAID-6", 2004-2011. The code is ours.

mod field;
mod lanes;
mod stripe;
#[cfg(test)]
mod tests;

pub use stripe::StripeBytes;
