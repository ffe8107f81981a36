//! The mirror with the smallest key, with ties broken by an index, as in ZFS.
//!
//! Mirrors of equal key are counted in the order of their members, which is that of the children
//! there.
//!
//! Source: `vdev_mirror.c` of OpenZFS.

use super::slot_order::slot_order;
use crate::policy::Mirror;

/// Position of the mirror with the smallest key. If several have it, `which` gets their number and
/// returns the index of the one to take. Panics if `which` returns an index that is too large.
#[inline]
pub(crate) fn smallest_with_tie_break(
    mirrors: &[Mirror],
    key: impl Fn(&Mirror) -> u32,
    which: impl FnOnce(u64) -> u64,
) -> usize {
    let mut smallest = (u32::MAX, 0);
    let mut number = 0;
    for (place, mirror) in mirrors.iter().enumerate() {
        let this = key(mirror);
        if number == 0 || this < smallest.0 {
            (smallest, number) = ((this, place), 1);
        } else if this == smallest.0 {
            number += 1;
        }
    }
    if number == 1 {
        return smallest.1;
    }
    let mut ties = slot_order(mirrors).filter(|&place| key(&mirrors[place]) == smallest.0);
    ties.nth(which(number) as usize).expect("the index is below the number of ties")
}
