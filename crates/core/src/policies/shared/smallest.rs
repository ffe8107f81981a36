//! The mirror with the smallest key, which many policies choose.

use crate::policy::Mirror;

/// Position of the mirror with the smallest key, the first of equals. For another order of equals,
/// extend the key.
#[inline]
pub(crate) fn first_smallest<K: Ord>(mirrors: &[Mirror], key: impl Fn(&Mirror) -> K) -> usize {
    let mut best_place = 0;
    let mut best_key = key(&mirrors[0]);
    for (place, mirror) in mirrors.iter().enumerate().skip(1) {
        let this_key = key(mirror);
        if this_key < best_key {
            (best_place, best_key) = (place, this_key);
        }
    }
    best_place
}
