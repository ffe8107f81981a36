//! The part of a disk that it reads most, and what a read elsewhere costs.
//!
//! The middle of that part follows the reads given to the disk. Since a read costs more the further
//! it lies from the middle, the copies of a mirror drift apart and each gets the addresses nearest
//! to it, as RAIDframe's `Partition` deals them out. But here a faster disk gets a larger part, a
//! longer queue moves the border, and the parts need not be known beforehand. Reads that only one
//! disk could serve count as well: while another is rebuilt, it keeps to what only it has.
//!
//! On an idle disk a read costs what its seek takes, by a common seek curve. A busy one sorts its
//! queue, and what one seek takes matters less than that all lie close together: there the cost
//! rises with distance and with the queue, to many times an access, so that a read crosses the
//! border only to even out queues.

/// Distances are counted in parts of the disk, of which it has at least half so many.
const PARTS_SHIFT: u32 = 12;
/// The time of an access, in 256ths of the mean one, by distance in 64ths of the disk: rotation and
/// transfer, and a seek that takes the root of its distance.
const IDLE_ACCESS: [u64; 64] = {
    let mut table = [0; 64];
    let mut part = 0;
    while part < 64 {
        table[part] = 160 + (288 * 288 * (2 * part as u64 + 1) / 128).isqrt();
        part += 1;
    }
    table
};
/// What all of the disk's length adds on a busy disk, in accesses.
const BUSY_ACCESSES: u64 = 64;

/// Where a disk reads.
#[derive(Clone, Debug)]
pub(super) struct Territory {
    middle: u64,
    part_shift: u32,
}

impl Territory {
    /// Of a member of so many bytes.
    pub(super) fn new(size_bytes: u64) -> Territory {
        let bits = u64::BITS - size_bytes.leading_zeros();
        Territory { middle: size_bytes / 2, part_shift: bits.saturating_sub(PARTS_SHIFT) }
    }

    /// What the access to this offset costs beside so much work in flight (`Speed::load`), if the
    /// mean one takes `access_ns`.
    #[inline]
    pub(super) fn seek_ns(&self, offset: u64, load: u64, access_ns: u64) -> u64 {
        let parts = (self.middle.abs_diff(offset) >> self.part_shift).min((1 << PARTS_SHIFT) - 1);
        if load == 0 {
            return (access_ns * IDLE_ACCESS[(parts >> (PARTS_SHIFT - 6)) as usize]) >> 8;
        }
        access_ns + ((access_ns * parts * (BUSY_ACCESSES + load / 16)) >> PARTS_SHIFT)
    }

    /// The disk was given a read here.
    #[inline]
    pub(super) fn drift(&mut self, offset: u64) {
        let distance = offset as i64 - self.middle as i64;
        self.middle = (self.middle as i64 + (distance >> 4)) as u64;
    }
}
