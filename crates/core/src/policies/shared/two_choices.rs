//! Two mirrors drawn at random, and the better of them.
//!
//! Source: Mitzenmacher, "The Power of Two Choices in Randomized Load Balancing", IEEE TPDS 12(10),
//! 2001. His model may draw the same server twice; balancers in use (Finagle) draw two that differ,
//! and so does this.

use crate::policy::Mirror;
use crate::rng::Rng;

/// Draws two mirrors and returns the position of the one with the smaller key; of equals, of the
/// one drawn first. There are at least two mirrors.
#[inline]
pub(crate) fn better_of_two<K: Ord>(
    mirrors: &[Mirror],
    rng: &mut Rng,
    mut key: impl FnMut(&Mirror) -> K,
) -> usize {
    let number = mirrors.len() as u64;
    let first = rng.below(number) as usize;
    // One of the others: numbers from `first` on are shifted up by one.
    let other = rng.below(number - 1) as usize;
    let second = other + usize::from(other >= first);
    if key(&mirrors[second]) < key(&mirrors[first]) { second } else { first }
}
