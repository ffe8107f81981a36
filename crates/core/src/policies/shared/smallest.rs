//! The mirror with the smallest key: the heart of most policies.

use crate::policy::Mirror;

/// The place of the mirror with the smallest key, the first of equals. Where equals are to be told
/// apart otherwise, the key says how.
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
