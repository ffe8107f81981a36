//! Checksums of the data of a volume: CRC-32C of each block of 4 KiB, seeded with the volume and
//! the place of the block.
//!
//! The seed exposes a block that was written to a wrong place, or is of another volume. All mirrors
//! of a block have the same checksum.
//!
//! Other data may have it as well. That need not be rare: data that end in a CRC-32C of their own,
//! as the headers of fio and some records of databases do, all have one checksum. Mirrors are
//! therefore compared by a [`BlockDigest`], which is computed in another way.

use crc32c::{crc32c, crc32c_append};

pub const CHECKSUM_BLOCK_BYTES: u64 = 4096;

/// The checksum of a block of which none is known: it was never written, or discarded.
pub const UNKNOWN: u32 = 0;

/// Word that tells the data of two mirrors of a block apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockDigest {
    pub checksum: u32,
    mixed: u64,
}

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
        debug_assert!(data.len() as u64 <= CHECKSUM_BLOCK_BYTES, "{} bytes", data.len());
        let seed = crc32c_append(self.seed, &offset.to_le_bytes());
        crc32c_append(seed, data).max(1)
    }

    /// The checksums of the blocks of `data`, which is at `offset` of the volume.
    pub fn of_blocks(&self, offset: u64, data: &[u8]) -> impl Iterator<Item = u32> {
        blocks(offset, data).map(|(offset, block)| self.of_block(offset, block))
    }

    /// The digests of the blocks of `data`, which is at `offset` of the volume.
    pub fn digests(&self, offset: u64, data: &[u8]) -> impl Iterator<Item = BlockDigest> {
        blocks(offset, data).map(|(offset, block)| {
            let checksum = self.of_block(offset, block);
            BlockDigest { checksum, mixed: mixed(block) }
        })
    }
}

fn blocks(offset: u64, data: &[u8]) -> impl Iterator<Item = (u64, &[u8])> {
    assert!(offset.is_multiple_of(CHECKSUM_BLOCK_BYTES), "{offset} is not that of a block");
    let offsets = (offset..).step_by(CHECKSUM_BLOCK_BYTES as usize);
    offsets.zip(data.chunks(CHECKSUM_BLOCK_BYTES as usize))
}

/// A hash that is not linear, as a CRC is: it folds products of 128 bits. Four are computed at
/// once, which is faster than the CRC.
fn mixed(data: &[u8]) -> u64 {
    const KEY: u64 = 0x9e37_79b9_7f4a_7c15;
    let mix = |one: u64, other: u64| {
        let product = u128::from(one) * u128::from(other);
        product as u64 ^ (product >> 64) as u64
    };
    let (pieces, rest) = data.as_chunks::<64>();
    let mut lanes = [KEY; 4];
    for piece in pieces {
        for (lane, pair) in lanes.iter_mut().zip(piece.as_chunks::<16>().0) {
            let pair = u128::from_le_bytes(*pair);
            *lane = mix(*lane ^ pair as u64, KEY ^ (pair >> 64) as u64);
        }
    }
    let bytes = rest.iter().map(|&byte| u64::from(byte));
    lanes.into_iter().chain(bytes).fold(KEY, |hash, word| mix(hash ^ word, KEY))
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
    fn digests_differ_where_checksums_are_equal() {
        // Each ends in its own CRC-32C.
        let sealed = |byte: u8| {
            let data = [byte; 36];
            [&data[..], &crc32c(&data).to_le_bytes()].concat()
        };
        let volume = Checksummer::new([1; 16]);
        let digest = |data: &[u8]| volume.digests(0, data).next().unwrap();
        let (one, other) = (digest(&sealed(7)), digest(&sealed(8)));
        assert_eq!(one.checksum, other.checksum);
        assert_ne!(one, other);
        assert_eq!(one.checksum, volume.of_block(0, &sealed(7)));
        let data: Vec<u8> = (0..101).collect();
        for at in 0..data.len() {
            let mut changed = data.clone();
            changed[at] ^= 0x80;
            assert_ne!(mixed(&data), mixed(&changed), "byte {at}");
        }
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
