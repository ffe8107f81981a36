//! The mirrors with the smallest key, and one of them by number: how ZFS tells equals apart.
//!
//! Equals are counted in the order of their members, which is that of the children there.
//!
//! Source: `vdev_mirror.c` of OpenZFS.

use super::slot_order::slot_order;
use crate::policy::Mirror;

/// The place of the mirror with the smallest key. Where several have it, `which` says, given how
/// many there are, the number of the one to take, counted from zero.
///
/// # Panics
/// If `which` gives a number that is too large.
#[inline]
pub(crate) fn smallest_by_number(
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
    let mut equals = slot_order(mirrors).filter(|&place| key(&mirrors[place]) == smallest.0);
    equals.nth(which(number) as usize).expect("the number is below that of the equals")
}
