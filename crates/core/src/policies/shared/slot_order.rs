//! Orders of mirrors other than that of the slice.
//!
//! md and ZFS scan the disks of a mirror by a fixed slot, and dm-multipath keeps its paths in a
//! list. The slice given to a policy follows the chunk's stripes, which differ from chunk to chunk.

use crate::policies::MIRRORS_MAX;
use crate::policy::Mirror;

/// Positions in `mirrors`, ordered by member index. Allocates nothing. Panics if there are more
/// than [`MIRRORS_MAX`].
#[inline]
pub(crate) fn slot_order(mirrors: &[Mirror]) -> impl Iterator<Item = usize> + use<> {
    order_by(mirrors, |mirror| mirror.member)
}

/// Positions in `mirrors`, the smallest key first; equals in the order of the slice. Panics if
/// there are more than [`MIRRORS_MAX`].
#[inline]
pub(crate) fn order_by<K: Ord, F: Fn(&Mirror) -> K>(
    mirrors: &[Mirror],
    key: F,
) -> impl Iterator<Item = usize> + use<K, F> {
    assert!(mirrors.len() <= MIRRORS_MAX, "{} mirrors, at most {MIRRORS_MAX}", mirrors.len());
    let mut places = [0u8; MIRRORS_MAX];
    for place in 0..mirrors.len() {
        // Insertion sort: there are two to four mirrors, most often in order already.
        let mut hole = place;
        while hole > 0 && key(&mirrors[places[hole - 1] as usize]) > key(&mirrors[place]) {
            places[hole] = places[hole - 1];
            hole -= 1;
        }
        places[hole] = place as u8;
    }
    places.into_iter().take(mirrors.len()).map(usize::from)
}
