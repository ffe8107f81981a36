//! Mirror check: compares samples of the mirrors before a volume is served.
//!
//! Members carry no metadata, so this is the only check that finds a stale, wrong or blank member.
//! The samples are spread evenly over the volume, including its first and last bytes. Where members
//! are sparse files, the data in them are sampled, too: a file with little data differs from a
//! blank one at no other place. The more data differ, the more likely a sample finds it; equal
//! samples prove nothing.
//!
//! A blank member is never taken for one in sync if another has data: it is a new disk in the place
//! of a lost one, and its zeroes would be read in place of the data.

use crate::member::memory::is_zero;
use mirrorball_core::geometry::ChunkMap;
use mirrorball_core::member::{MemberConfig, MemberIndex, MemberState};
use mirrorball_core::units::format_bytes;
use std::fmt;
use std::io;
use std::ops::Range;

/// Maximum number of samples. Two hard disks read this many in a few seconds.
const SAMPLES: u64 = 256;
/// Bytes of a sample.
const SAMPLE_BYTES: u64 = 64 << 10;
/// The samples of data in sparse files begin at multiples of this.
const DATA_UNIT: u64 = 4096;

/// The contents of the members.
pub trait MemberContents {
    /// Reads from a member.
    ///
    /// # Errors
    /// If it cannot be read.
    fn read(&self, member: usize, offset: u64, length: u32) -> io::Result<Vec<u8>>;

    /// The first offset from `offset` on where a member may hold data; `None` if the rest of it
    /// reads as zeroes without having been written.
    fn next_data(&self, member: usize, offset: u64) -> Option<u64>;

    /// True if [`Self::next_data`] knows where a member has data.
    fn is_sparse(&self, member: usize) -> bool;
}

/// Why mirrors are not taken as equal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Mismatch {
    /// Two members hold different data.
    Differ(Difference),
    /// A member holds no data, and another does.
    Blank(BlankMember),
}

/// Two members that hold different data for the same bytes of the volume.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Difference {
    /// Offset of the sample on the volume.
    pub volume_offset: u64,
    /// The devids of the members.
    pub devids: [u64; 2],
}

/// A member without data whose mirror has some.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BlankMember {
    /// Its devid.
    pub devid: u64,
    /// The devid of the member with data.
    pub with_data: u64,
    /// Where the data are on the volume.
    pub volume_offset: u64,
    /// True if it was never written; false if all its samples are zeroes.
    pub is_unwritten: bool,
}

/// The result of a check that found no mismatch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EqualSamples {
    /// Number of samples.
    pub samples: u64,
    /// True if all of them are zeroes.
    pub are_zeroes: bool,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Difference { volume_offset, devids: [first, second] } = self;
        write!(f, "the members with devid {first} and {second} hold different data in the ")?;
        let size = format_bytes(SAMPLE_BYTES);
        write!(f, "{size} at offset {volume_offset} of the volume")
    }
}

impl fmt::Display for BlankMember {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let BlankMember { devid, with_data, volume_offset, is_unwritten } = self;
        let why = match is_unwritten {
            true => "its file holds no data",
            false => "it reads as zeroes in every sample",
        };
        write!(
            f,
            "the member with devid {devid} is blank: {why}, but the member with devid {with_data} \
             has data, for example at offset {volume_offset} of the volume"
        )
    }
}

impl fmt::Display for EqualSamples {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let EqualSamples { samples, are_zeroes } = self;
        let size = format_bytes(SAMPLE_BYTES);
        write!(f, "compared {samples} samples of {size}: ")?;
        match are_zeroes {
            true => write!(f, "all of them are zeroes on all mirrors; ")?,
            false => write!(f, "they are identical on all mirrors; ")?,
        }
        write!(f, "the rest of the volume was not compared")
    }
}

/// Compares samples of all mirrors that are in sync.
///
/// # Errors
/// If a member cannot be read.
pub fn check(
    map: &ChunkMap,
    members: &[MemberConfig],
    contents: &impl MemberContents,
) -> io::Result<Result<EqualSamples, Mismatch>> {
    Check { map, members, contents }.run()
}

struct Check<'a, C> {
    map: &'a ChunkMap,
    members: &'a [MemberConfig],
    contents: &'a C,
}

/// What one sample holds.
enum Sample {
    /// The same on all mirrors: all zeroes, or not.
    Equal { are_zeroes: bool },
    /// Different data on these members, and whether each reads as zeroes.
    Different([(MemberIndex, bool); 2]),
}

impl<C: MemberContents> Check<'_, C> {
    fn run(&self) -> io::Result<Result<EqualSamples, Mismatch>> {
        let samples = self.samples();
        if let Some(blank) = self.unwritten_member(&samples) {
            return Ok(Err(Mismatch::Blank(blank)));
        }
        let mut equal = EqualSamples { samples: samples.len() as u64, are_zeroes: true };
        for &volume_offset in &samples {
            match self.compare(volume_offset)? {
                Sample::Equal { are_zeroes } => equal.are_zeroes &= are_zeroes,
                Sample::Different(found) => {
                    return Ok(Err(self.mismatch(volume_offset, found, &samples)?));
                }
            }
        }
        Ok(Ok(equal))
    }

    /// Offsets of the samples on the volume, in order.
    fn samples(&self) -> Vec<u64> {
        let mut offsets: Vec<u64> = sample_offsets(self.map.capacity_bytes()).collect();
        offsets.extend(self.indexes().flat_map(|member| self.data_offsets(member)));
        offsets.sort_unstable();
        offsets.dedup();
        offsets
    }

    fn indexes(&self) -> impl Iterator<Item = MemberIndex> {
        (0..self.members.len()).map(|index| MemberIndex(index as u16))
    }

    /// Offsets on the volume of data in a sparse file, spread over it, including the first.
    fn data_offsets(&self, member: MemberIndex) -> Vec<u64> {
        let Range { start, end } = self.map.allocated(member);
        if start >= end || !self.contents.is_sparse(member.get()) {
            return Vec::new();
        }
        let step = (end - start).div_ceil(SAMPLES).max(1);
        let mut offsets = Vec::new();
        let mut from = start;
        while let Some(at) = self.contents.next_data(member.get(), from).filter(|&at| at < end) {
            if let Some(range) = self.map.locate(member, at) {
                offsets.push(range.volume_offset - range.volume_offset % DATA_UNIT);
            }
            from = start + ((at - start) / step + 1) * step;
        }
        offsets
    }

    /// The mirrors in sync of the sample at an offset, and its length.
    fn mirrors(&self, volume_offset: u64) -> (Vec<(MemberIndex, u64)>, u32) {
        let rest = self.map.capacity_bytes() - volume_offset;
        let extent = self.map.map(volume_offset, SAMPLE_BYTES.min(rest));
        let is_current = |config: &MemberConfig, offset: u64| match config.state {
            MemberState::InSync => true,
            MemberState::Rebuilding { recovered_bytes } => {
                offset + extent.length <= recovered_bytes
            }
            MemberState::Failed => false,
        };
        let mirrors = extent.mirrors().iter();
        let mirrors = mirrors.filter(|it| is_current(&self.members[it.member.get()], it.offset));
        (mirrors.map(|mirror| (mirror.member, mirror.offset)).collect(), extent.length as u32)
    }

    fn compare(&self, volume_offset: u64) -> io::Result<Sample> {
        let (mirrors, length) = self.mirrors(volume_offset);
        let mut first: Option<(MemberIndex, Vec<u8>)> = None;
        for (member, offset) in mirrors {
            let bytes = self.contents.read(member.get(), offset, length)?;
            match &first {
                None => first = Some((member, bytes)),
                Some((_, expected)) if *expected == bytes => {}
                Some((other, expected)) => {
                    let found = [(*other, is_zero(expected)), (member, is_zero(&bytes))];
                    return Ok(Sample::Different(found));
                }
            }
        }
        Ok(Sample::Equal { are_zeroes: first.is_none_or(|(_, bytes)| is_zero(&bytes)) })
    }

    /// A member that was never written, where a mirror of it was.
    fn unwritten_member(&self, samples: &[u64]) -> Option<BlankMember> {
        let is_unwritten = |member: MemberIndex| {
            let Range { start, end } = self.map.allocated(member);
            let next = || self.contents.next_data(member.get(), start);
            start < end && next().is_none_or(|at| at >= end)
        };
        let blank: Vec<MemberIndex> = self.indexes().filter(|it| is_unwritten(*it)).collect();
        if blank.is_empty() {
            return None;
        }
        samples.iter().find_map(|&volume_offset| {
            let (mirrors, length) = self.mirrors(volume_offset);
            let has_data = |&(member, offset): &(MemberIndex, u64)| {
                let next = self.contents.next_data(member.get(), offset);
                next.is_some_and(|at| at < offset + u64::from(length))
            };
            let (with_data, _) = *mirrors
                .iter()
                .find(|mirror| self.contents.is_sparse(mirror.0.get()) && has_data(mirror))?;
            let (member, _) = *mirrors.iter().find(|mirror| blank.contains(&mirror.0))?;
            let [devid, with_data] = [member, with_data].map(|it| self.members[it.get()].devid);
            Some(BlankMember { devid, with_data, volume_offset, is_unwritten: true })
        })
    }

    /// What a difference says about two members.
    fn mismatch(
        &self,
        volume_offset: u64,
        found: [(MemberIndex, bool); 2],
        samples: &[u64],
    ) -> io::Result<Mismatch> {
        let devid = |member: MemberIndex| self.members[member.get()].devid;
        let [(first, _), (second, _)] = found;
        for ((member, is_zero), other) in found.into_iter().zip([second, first]) {
            if is_zero && self.reads_as_zeroes(member, samples)? {
                let [devid, with_data] = [member, other].map(devid);
                let blank = BlankMember { devid, with_data, volume_offset, is_unwritten: false };
                return Ok(Mismatch::Blank(blank));
            }
        }
        let devids = [first, second].map(devid);
        Ok(Mismatch::Differ(Difference { volume_offset, devids }))
    }

    fn reads_as_zeroes(&self, member: MemberIndex, samples: &[u64]) -> io::Result<bool> {
        for &volume_offset in samples {
            let (mirrors, length) = self.mirrors(volume_offset);
            for (_, offset) in mirrors.into_iter().filter(|mirror| mirror.0 == member) {
                if !is_zero(&self.contents.read(member.get(), offset, length)?) {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }
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
    use std::collections::BTreeMap;

    #[test]
    fn samples_are_spread_from_the_first_strip_to_the_last() {
        let strip = SAMPLE_BYTES;
        assert_eq!(sample_offsets(strip).collect::<Vec<u64>>(), [0]);
        assert_eq!(sample_offsets(3 * strip).collect::<Vec<u64>>(), [0, strip, 2 * strip]);
        let large: Vec<u64> = sample_offsets(1 << 40).collect();
        assert_eq!((large.len(), large[0], large[255]), (256, 0, (1 << 40) - strip));
        assert!(large.is_sorted());
    }

    /// Members of which the bytes are kept that are not zero. Where one was written is known,
    /// unless it is a device.
    struct Images {
        images: [BTreeMap<u64, u8>; 2],
        is_sparse: bool,
    }

    impl MemberContents for Images {
        fn read(&self, member: usize, offset: u64, length: u32) -> io::Result<Vec<u8>> {
            let mut bytes = vec![0; length as usize];
            for (at, &byte) in self.images[member].range(offset..offset + u64::from(length)) {
                bytes[(at - offset) as usize] = byte;
            }
            Ok(bytes)
        }

        fn next_data(&self, member: usize, offset: u64) -> Option<u64> {
            let found = self.images[member].range(offset..).next().map(|(at, _)| *at);
            if self.is_sparse { found } else { Some(offset) }
        }

        fn is_sparse(&self, _member: usize) -> bool {
            self.is_sparse
        }
    }

    const SIZE_BYTES: u64 = 64 << 20;

    fn check(images: &Images) -> Result<EqualSamples, Mismatch> {
        let configs = [5, 6].map(|devid| MemberConfig::new(devid, SIZE_BYTES));
        let map = ChunkMap::allocate(Profile::Raid1, None, &configs).unwrap();
        super::check(&map, &configs, images).unwrap()
    }

    fn blank(is_sparse: bool) -> Images {
        Images { images: [BTreeMap::new(), BTreeMap::new()], is_sparse }
    }

    #[test]
    fn a_difference_is_found_and_named() {
        let mut images = blank(false);
        // The first MiB of a member is not mapped.
        images.images[1].insert(1000, 1);
        let equal = check(&images).unwrap();
        assert_eq!(equal, EqualSamples { samples: 256, are_zeroes: true });
        assert!(equal.to_string().contains("all of them are zeroes"), "{equal}");
        let last = SIZE_BYTES - 1;
        images.images[0].insert(last, 3);
        images.images[1].insert(last, 3);
        let equal = check(&images).unwrap();
        assert!(equal.to_string().contains("they are identical"), "{equal}");
        images.images[1].insert(1 << 20, 1);
        let Err(Mismatch::Differ(found)) = check(&images) else { panic!("they differ") };
        assert_eq!(found, Difference { volume_offset: 0, devids: [5, 6] });
        let expected = "the members with devid 5 and 6 hold different data in the 64 KiB at \
                        offset 0 of the volume";
        assert_eq!(found.to_string(), expected);
    }

    #[test]
    fn a_blank_device_is_named_wherever_the_other_has_data() {
        let mut images = blank(false);
        images.images[0].insert((1 << 20) + 70, 1);
        let Err(Mismatch::Blank(found)) = check(&images) else { panic!("6 is blank") };
        let expected =
            BlankMember { devid: 6, with_data: 5, volume_offset: 0, is_unwritten: false };
        assert_eq!(found, expected);
    }

    #[test]
    fn data_between_samples_are_found_in_sparse_files() {
        let mut images = blank(true);
        assert!(check(&images).is_ok());
        // 63 MiB are 1008 samples, of which every fourth or so is compared.
        let place = (1 << 20) + 10 * SAMPLE_BYTES;
        images.images[1].insert(place, 1);
        let Err(Mismatch::Blank(found)) = check(&images) else { panic!("5 is blank") };
        let expected = BlankMember {
            devid: 5,
            with_data: 6,
            volume_offset: 10 * SAMPLE_BYTES,
            is_unwritten: true,
        };
        assert_eq!(found, expected);
        images.is_sparse = false;
        assert!(check(&images).is_ok(), "no sample is there");
        // Where the first was written elsewhere, it is not blank.
        images.is_sparse = true;
        images.images[0].insert(place + 9 * SAMPLE_BYTES, 1);
        let Err(Mismatch::Differ(found)) = check(&images) else { panic!("they differ") };
        assert_eq!(found, Difference { volume_offset: 10 * SAMPLE_BYTES, devids: [5, 6] });
    }
}
