//! Locality on a disk: the addresses that it reads most, and the cost of a read elsewhere.
//!
//! The centre of those addresses follows the reads given to the disk, without its owner's. A read
//! costs more the further it lies from the centre, so the disks of a mirror divide the addresses
//! among them, as RAIDframe's `Partition` does. Unlike there, a faster disk gets a larger part, a
//! longer queue moves the border, and the parts need not be known in advance. Reads that only one
//! disk could serve count as well: during a rebuild, a disk keeps to the addresses that only it
//! holds.
//!
//! On an idle disk a read costs its seek, by a common seek curve. A busy disk reorders its queue,
//! and the length of one seek matters less than that all reads lie close together. There the cost
//! rises with the distance and with the queue, up to many accesses, so that a read crosses the
//! border only to even out the queues.

/// Distances are counted in 2^12 to 2^11 parts of the disk.
const PARTS_SHIFT: u32 = 12;
/// Time of an access in 256ths of the mean, by distance in 64ths of the disk: rotation and
/// transfer, and a seek that takes the square root of its distance.
const IDLE_ACCESS: [u64; 64] = {
    let mut table = [0; 64];
    let mut part = 0;
    while part < 64 {
        table[part] = 160 + (288 * 288 * (2 * part as u64 + 1) / 128).isqrt();
        part += 1;
    }
    table
};
/// Cost of a read at the greatest distance on a busy disk, in accesses.
const BUSY_ACCESSES: u64 = 64;

/// Centre of the addresses that a disk reads.
#[derive(Clone, Debug)]
pub(super) struct Locality {
    centre: u64,
    part_shift: u32,
}

impl Locality {
    /// Locality on a member of this size, with its centre in the middle.
    pub(super) fn new(size_bytes: u64) -> Locality {
        let bits = u64::BITS - size_bytes.leading_zeros();
        Locality { centre: size_bytes / 2, part_shift: bits.saturating_sub(PARTS_SHIFT) }
    }

    /// Cost of the access to this offset behind `load`, if the mean access takes `access_ns`.
    #[inline]
    pub(super) fn seek_ns(&self, offset: u64, load: u64, access_ns: u64) -> u64 {
        let parts = (self.centre.abs_diff(offset) >> self.part_shift).min((1 << PARTS_SHIFT) - 1);
        if load == 0 {
            return (access_ns * IDLE_ACCESS[(parts >> (PARTS_SHIFT - 6)) as usize]) >> 8;
        }
        access_ns + ((access_ns * parts * (BUSY_ACCESSES + load / 16)) >> PARTS_SHIFT)
    }

    /// Moves the centre towards a read given to the disk.
    #[inline]
    pub(super) fn add(&mut self, offset: u64) {
        let distance = offset as i64 - self.centre as i64;
        self.centre = (self.centre as i64 + (distance >> 4)) as u64;
    }
}
