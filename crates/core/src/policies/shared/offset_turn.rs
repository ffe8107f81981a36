//! ZFS's static striping: 2 MiB of the volume to each in turn.
//!
//! It was once the whole rule, and is now what tells equals apart.
//!
//! Source: `vdev_mirror_shift` in OpenZFS `module/zfs/vdev_mirror.c`, since OpenSolaris.

/// A turn lasts for 2 to this power bytes.
const TURN_SHIFT: u32 = 21;

/// Whose turn it is at an offset of the volume, of so many.
#[inline]
pub(crate) fn turn_at(offset: u64, parties: u64) -> u64 {
    (offset >> TURN_SHIFT) % parties
}
