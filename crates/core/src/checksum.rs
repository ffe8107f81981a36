//! Checksums of the data of a volume: CRC-32C of each block of 4 KiB, seeded with the volume and
//! the place of the block.
//!
//! The seed exposes a block that was written to a wrong place, or is of another volume. All mirrors
//! of a block have the same checksum.

use crc32c::{crc32c, crc32c_append};

/// Size of a block that has a checksum.
pub const CHECKSUM_BLOCK_BYTES: u64 = 4096;

/// The checksum of a block of which none is known: it was never written, or discarded.
pub const UNKNOWN: u32 = 0;

/// Computes the checksums of the data of one volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Checksummer {
    seed: u32,
}

impl Checksummer {
    /// The checksums of the volume with this UUID.
    pub fn new(volume: [u8; 16]) -> Checksummer {
        Checksummer { seed: crc32c(&volume) }
    }

    /// The checksum of the block that holds `data` at `offset` of the volume; never [`UNKNOWN`].
    #[inline]
    pub fn of_block(&self, offset: u64, data: &[u8]) -> u32 {
        let seed = crc32c_append(self.seed, &offset.to_le_bytes());
        crc32c_append(seed, data).max(1)
    }

    /// The checksums of the blocks of `data`, which is at `offset` of the volume.
    pub fn of_blocks(&self, offset: u64, data: &[u8]) -> impl Iterator<Item = u32> {
        let blocks = data.chunks(CHECKSUM_BLOCK_BYTES as usize);
        let offsets = (offset..).step_by(CHECKSUM_BLOCK_BYTES as usize);
        offsets.zip(blocks).map(|(offset, block)| self.of_block(offset, block))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_values_of_crc32c() {
        // RFC 3720, appendix B.4.
        let counting = |last: u8| (0..=last).collect::<Vec<u8>>();
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
        assert_eq!(crc32c(&counting(31)), 0x46dd_794e);
        assert_eq!(crc32c(&[]), 0);
    }

    #[test]
    fn a_checksum_depends_on_volume_place_and_data() {
        let (volume, other) = (Checksummer::new([1; 16]), Checksummer::new([2; 16]));
        let (data, changed) = ([0x55; 4096], [0x54; 4096]);
        let checksum = volume.of_block(8192, &data);
        assert_eq!(checksum, volume.of_block(8192, &data));
        assert_ne!(checksum, volume.of_block(4096, &data));
        assert_ne!(checksum, volume.of_block(8192, &changed));
        assert_ne!(checksum, other.of_block(8192, &data));
        let both: Vec<u32> = volume.of_blocks(4096, &[data, data].concat()).collect();
        assert_eq!(both, [volume.of_block(4096, &data), checksum]);
        // Frozen: members hold such checksums.
        assert_eq!(checksum, 139_479_670);
    }
}
