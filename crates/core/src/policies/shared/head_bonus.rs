//! FreeBSD's weighing of a load and a head's position: a queue of one counts 256, a head exactly in
//! position is worth two requests, one within a mebibyte is worth one.
//!
//! Source: Alexander Motin's rule in `sys/geom/mirror/g_mirror.c` and `sys/geom/raid/tr_raid1.c`.

use crate::units::MIB;

/// What one request counts in a load.
pub(crate) const LOAD_SCALE: i64 = 256;
/// How near a head must be to count as near, in bytes.
const TRACK_BYTES: u64 = MIB;

/// What is taken off a load for a head that stands so many bytes from where the read begins.
#[inline]
pub(crate) fn head_bonus(distance_bytes: u64) -> i64 {
    match distance_bytes {
        0 => 2 * LOAD_SCALE,
        1..TRACK_BYTES => LOAD_SCALE,
        _ => 0,
    }
}

/// The load after one more I/O was sent: a queue joins it with a weight of an eighth.
#[inline]
pub(crate) fn smoothed_load(load: i64, queue: i64) -> i64 {
    (queue * LOAD_SCALE + 7 * load) / 8
}
