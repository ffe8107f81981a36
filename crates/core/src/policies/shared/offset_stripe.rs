//! ZFS's static striping: 2 MiB of the volume to each mirror in turn.
//!
//! It was once the whole rule, and now breaks ties.
//!
//! Source: `vdev_mirror_shift` in OpenZFS `module/zfs/vdev_mirror.c`, since OpenSolaris.

/// A stripe has 2 to this power bytes.
const STRIPE_SHIFT: u32 = 21;

/// Index of the mirror, of this many, to which an offset of the volume belongs.
#[inline]
pub(crate) fn stripe_at(offset: u64, mirrors: u64) -> u64 {
    (offset >> STRIPE_SHIFT) % mirrors
}
