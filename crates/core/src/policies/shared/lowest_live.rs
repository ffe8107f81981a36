//! btrfs's fallback when the preferred stripe cannot be read: the lowest live stripe serves.
//!
//! So all of the share of a missing device goes to one of the others.
//!
//! Source: `find_live_mirror` in Linux `fs/btrfs/volumes.c`.

use crate::policy::{Mirror, Read};

/// The preferred position in the slice if that stripe is live, else the position of the lowest live
/// stripe. The slice holds eligible mirrors in stripe order, so that is the first.
#[inline]
pub(crate) fn or_lowest_live(preferred: Option<usize>) -> usize {
    preferred.unwrap_or(0)
}

/// Position of the stripe that a number selects among all, live or not, or of the lowest live one
/// if the selected one is dead. The number is a process id or a CPU.
#[inline]
pub(crate) fn stripe_of(number: u64, read: &Read, mirrors: &[Mirror]) -> usize {
    let preferred = (number % u64::from(read.copies)) as u8;
    or_lowest_live(mirrors.iter().position(|mirror| mirror.copy == preferred))
}
