//! Do mirrors hold the same data? A look at samples, before a volume is served.
//!
//! Members carry no metadata, so nothing else could tell that one of them is stale, or is not what
//! its owner thinks. The samples are spread evenly over the volume, its first and last bytes
//! among them. A difference between them is found more likely the more of the data differs; that
//! nothing is found proves nothing.

use mirrorball_core::geometry::ChunkMap;
use mirrorball_core::member::{MemberConfig, MemberState};
use std::fmt;
use std::io;

/// How many samples are taken at most: a few seconds of two hard disks.
const SAMPLES: u64 = 256;
/// How long each is.
const SAMPLE_BYTES: u64 = 64 << 10;

/// Two members that hold different data for the same bytes of the volume.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Difference {
    /// Where the sample begins, on the volume.
    pub volume_offset: u64,
    /// The devids of the members.
    pub devids: [u64; 2],
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Difference { volume_offset, devids: [first, second] } = self;
        write!(f, "the members with devid {first} and {second} differ")?;
        write!(f, " within {SAMPLE_BYTES} bytes at {volume_offset} of the volume")
    }
}

/// Compares samples of all mirrors that are in sync, and returns the first difference. `read`
/// brings so many bytes at an offset of the member in that place.
///
/// # Errors
/// If a member cannot be read.
pub fn compare(
    map: &ChunkMap,
    members: &[MemberConfig],
    read: impl Fn(usize, u64, u32) -> io::Result<Vec<u8>>,
) -> io::Result<Option<Difference>> {
    for volume_offset in places(map.capacity_bytes()) {
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

/// What to tell of a comparison that found nothing.
pub fn note(map: &ChunkMap) -> String {
    let count = places(map.capacity_bytes()).count();
    format!("{count} samples of 64 KiB are alike on all mirrors; the rest was not compared")
}

/// Where samples begin: in whole strips, the first and the last of the volume among them.
fn places(capacity_bytes: u64) -> impl Iterator<Item = u64> {
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
    fn places_are_spread_from_the_first_strip_to_the_last() {
        let strip = SAMPLE_BYTES;
        assert_eq!(places(strip).collect::<Vec<u64>>(), [0]);
        assert_eq!(places(3 * strip).collect::<Vec<u64>>(), [0, strip, 2 * strip]);
        let large: Vec<u64> = places(1 << 40).collect();
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
        // The first MiB holds nothing of the volume.
        images[1][1000] = 1;
        assert_eq!(compare(&images), None);
        images[1][(1 << 20) + 70_000] = 1;
        let found = compare(&images).unwrap();
        assert_eq!(found, Difference { volume_offset: 65536, devids: [5, 6] });
    }
}
