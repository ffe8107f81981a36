//! Mirror check: compares samples of the mirrors before a volume is served.
//!
//! Members carry no metadata, so this is the only check that finds a stale or wrong member. The
//! samples are spread evenly over the volume, including its first and last bytes. The more data
//! differ, the more likely a sample finds it; equal samples prove nothing.

use mirrorball_core::geometry::ChunkMap;
use mirrorball_core::member::{MemberConfig, MemberState};
use mirrorball_core::units::format_bytes;
use std::fmt;
use std::io;

/// Maximum number of samples. Two hard disks read this many in a few seconds.
const SAMPLES: u64 = 256;
/// Bytes of a sample.
const SAMPLE_BYTES: u64 = 64 << 10;

/// Two members that hold different data for the same bytes of the volume.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Difference {
    /// Offset of the sample on the volume.
    pub volume_offset: u64,
    /// The devids of the members.
    pub devids: [u64; 2],
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Difference { volume_offset, devids: [first, second] } = self;
        write!(f, "the members with devid {first} and {second} hold different data in the ")?;
        let size = format_bytes(SAMPLE_BYTES);
        write!(f, "{size} at offset {volume_offset} of the volume")
    }
}

/// Compares samples of all mirrors that are in sync; returns the first difference.
/// `read(member, offset, length)` reads from a member.
///
/// # Errors
/// If a member cannot be read.
pub fn compare(
    map: &ChunkMap,
    members: &[MemberConfig],
    read: impl Fn(usize, u64, u32) -> io::Result<Vec<u8>>,
) -> io::Result<Option<Difference>> {
    for volume_offset in sample_offsets(map.capacity_bytes()) {
        let extent = map.map(volume_offset, SAMPLE_BYTES.min(map.capacity_bytes()));
        let mut first: Option<(u64, Vec<u8>)> = None;
        for mirror in extent.mirrors() {
            let config = &members[mirror.member.get()];
            let is_current = match config.state {
                MemberState::InSync => true,
                MemberState::Rebuilding { recovered_bytes } => {
                    mirror.offset + extent.length <= recovered_bytes
                }
                MemberState::Failed => false,
            };
            if !is_current {
                continue;
            }
            let bytes = read(mirror.member.get(), mirror.offset, extent.length as u32)?;
            match &first {
                None => first = Some((config.devid, bytes)),
                Some((_, expected)) if *expected == bytes => {}
                Some((devid, _)) => {
                    let devids = [*devid, config.devid];
                    return Ok(Some(Difference { volume_offset, devids }));
                }
            }
        }
    }
    Ok(None)
}

/// The note for the user after a check that found no difference.
pub fn note(map: &ChunkMap) -> String {
    let count = sample_offsets(map.capacity_bytes()).count();
    format!(
        "compared {count} samples of 64 KiB: they are identical on all mirrors; the rest of the \
         volume \
         was not compared"
    )
}

/// Offsets of the samples: whole strips, including the first and the last of the volume.
fn sample_offsets(capacity_bytes: u64) -> impl Iterator<Item = u64> {
    let strips = (capacity_bytes / SAMPLE_BYTES).max(1);
    let count = SAMPLES.min(strips);
    (0..count).map(move |index| match count {
        1 => 0,
        _ => {
            (u128::from(strips - 1) * u128::from(index) / u128::from(count - 1)) as u64
                * SAMPLE_BYTES
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use mirrorball_core::geometry::Profile;

    #[test]
    fn samples_are_spread_from_the_first_strip_to_the_last() {
        let strip = SAMPLE_BYTES;
        assert_eq!(sample_offsets(strip).collect::<Vec<u64>>(), [0]);
        assert_eq!(sample_offsets(3 * strip).collect::<Vec<u64>>(), [0, strip, 2 * strip]);
        let large: Vec<u64> = sample_offsets(1 << 40).collect();
        assert_eq!((large.len(), large[0], large[255]), (256, 0, (1 << 40) - strip));
        assert!(large.is_sorted());
    }

    #[test]
    fn a_difference_is_found_and_named() {
        let mut images = [1, 2].map(|_| vec![0u8; 4 << 20]);
        let configs = [5, 6].map(|devid| MemberConfig::new(devid, 4 << 20));
        let map = ChunkMap::allocate(Profile::Raid1, None, &configs).unwrap();
        let compare = |images: &[Vec<u8>; 2]| {
            compare(&map, &configs, |member, offset, length| {
                Ok(images[member][offset as usize..][..length as usize].to_vec())
            })
            .unwrap()
        };
        // The first MiB of a member is not mapped.
        images[1][1000] = 1;
        assert_eq!(compare(&images), None);
        images[1][(1 << 20) + 70_000] = 1;
        let found = compare(&images).unwrap();
        assert_eq!(found, Difference { volume_offset: 65536, devids: [5, 6] });
        let expected = "the members with devid 5 and 6 hold different data in the 64 KiB at \
                        offset 65536 of the volume";
        assert_eq!(found.to_string(), expected);
    }
}
