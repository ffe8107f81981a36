//! Stable hashes of texts: FNV-1a with 128 bits.
//!
//! The standard library's hash may change from release to release, and a saved cell must be found
//! again by later runs. FNV-1a is a few lines, and at 128 bits accidental collisions can be
//! neglected. No user gains by a collision, so resistance to deliberate ones is not needed.
//!
//! Source: Fowler, Noll, Vo; RFC 9923, "The FNV Non-Cryptographic Hash Algorithm".

const OFFSET_BASIS: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;

/// Returns the hash of several texts as 32 hexadecimal digits. Each text is preceded by its length,
/// so that `["ab", "c"]` and `["a", "bc"]` differ.
pub fn stable_hash<'a>(parts: impl IntoIterator<Item = &'a str>) -> String {
    let mut hasher = StableHasher::default();
    parts.into_iter().for_each(|part| hasher.absorb(part.as_bytes()));
    hasher.finish()
}

/// The same hash, taken in part by part.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StableHasher(u128);

impl Default for StableHasher {
    fn default() -> StableHasher {
        StableHasher(OFFSET_BASIS)
    }
}

impl StableHasher {
    /// Takes in a part, with its length in front.
    pub(crate) fn absorb(&mut self, part: &[u8]) {
        self.0 = absorb(absorb(self.0, &(part.len() as u64).to_le_bytes()), part);
    }

    /// Returns the hash as 32 hexadecimal digits.
    pub(crate) fn finish(self) -> String {
        format!("{:032x}", self.0)
    }
}

fn absorb(state: u128, bytes: &[u8]) -> u128 {
    bytes.iter().fold(state, |state, &byte| (state ^ u128::from(byte)).wrapping_mul(PRIME))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Published test vectors of FNV-1a, 128 bits.
    #[test]
    fn the_algorithm_matches_its_vectors() {
        assert_eq!(absorb(OFFSET_BASIS, b"a"), 0xd228_cb69_6f1a_8caf_7891_2b70_4e4a_8964);
        assert_eq!(absorb(OFFSET_BASIS, b"foobar"), 0x343e_1662_793c_64bf_6f0d_3597_ba44_6f18);
    }

    #[test]
    fn boundaries_between_texts_count() {
        assert_ne!(stable_hash(["ab", "c"]), stable_hash(["a", "bc"]));
        assert_ne!(stable_hash(["ab"]), stable_hash(["ab", ""]));
    }
}
