//! FreeBSD's score of a queue and a head position: a queue of one counts 256, a head exactly in
//! position is worth two requests, one within 1 MiB is worth one.
//!
//! Source: Alexander Motin's rule in `sys/geom/mirror/g_mirror.c` and `sys/geom/raid/tr_raid1.c`.

use crate::units::MIB;

pub(crate) const LOAD_SCALE: i64 = 256;
/// A head nearer than this counts as near.
const TRACK_BYTES: u64 = MIB;

/// Bonus that is subtracted from a load, by the distance of the head from the start of the read.
#[inline]
pub(crate) fn head_bonus(distance_bytes: u64) -> i64 {
    match distance_bytes {
        0 => 2 * LOAD_SCALE,
        1..TRACK_BYTES => LOAD_SCALE,
        _ => 0,
    }
}

/// The load after one more I/O was sent; the queue length has a weight of 1/8.
#[inline]
pub(crate) fn smoothed_load(load: i64, queue: i64) -> i64 {
    (queue * LOAD_SCALE + 7 * load) / 8
}
