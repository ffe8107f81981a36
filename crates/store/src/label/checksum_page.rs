//! Checksum pages: the checksums of the data, in a table behind the data of each member.
//!
//! A page has the checksums of 2 MiB of the volume, a block of 4 KiB each. It is on the members
//! that hold the first byte of that span, at the same number in the table of each: so as many
//! members have it as have the data. A table has room for the pages of the whole volume; those that
//! were never written are no valid blocks, and then no checksum of their span is known.
//!
//! A page has two slots, which are written in turn, so that a write that power tears leaves the
//! version before.
//!
//! So the table takes 1/256 of the volume. The checksums are 1/1024; the second slot doubles that,
//! and so does a span that is a power of two: 1024 checksums leave no space in 4 KiB for the number
//! of the page, its member and a checksum of its own, which tell a page that is lost, torn or in a
//! wrong place. A page of 8 KiB could have them, but each write of it would be twice as long.
//!
//! The body, little-endian: the number of the page (8 bytes at 72), and 512 checksums (4 bytes
//! each, from 128 on; 0 for a block of which none is known).

use super::block::{BlockError, BlockHeader, BlockKind, METADATA_BYTES, Page, Uuid};
use crate::checksum::{CHECKSUM_BLOCK_BYTES, UNKNOWN};
use mirrorball_core::geometry::{Profile, RESERVED_BYTES};

pub const PAGE_CHECKSUMS: usize = 512;

pub const PAGE_SPAN_BYTES: u64 = PAGE_CHECKSUMS as u64 * CHECKSUM_BLOCK_BYTES;

/// Bytes of both slots of a page.
pub const PAGE_SLOTS_BYTES: u64 = 2 * METADATA_BYTES as u64;

const CHECKSUMS: usize = 128;
const _: () = assert!(CHECKSUMS + 4 * PAGE_CHECKSUMS <= METADATA_BYTES - 4);
const _: () = assert!(RESERVED_BYTES.is_multiple_of(METADATA_BYTES as u64));

/// See the page of this module.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChecksumPage {
    /// Grows each time the page is written.
    pub generation: u64,
    pub checksums: Box<[u32; PAGE_CHECKSUMS]>,
}

impl ChecksumPage {
    /// A page that was never written.
    pub fn unknown() -> ChecksumPage {
        ChecksumPage { generation: 0, checksums: Box::new([UNKNOWN; PAGE_CHECKSUMS]) }
    }

    /// Where the page with this number is written in a table that begins at `table`.
    pub fn offset(&self, number: u32, table: u64) -> u64 {
        let slot = self.generation % 2 * METADATA_BYTES as u64;
        table + u64::from(number) * PAGE_SLOTS_BYTES + slot
    }

    /// Encodes the page with this number for a member whose table begins at `table`.
    pub fn encode(&self, number: u32, table: u64, volume: Uuid, member: Uuid) -> Box<[u8]> {
        let mut page = Page::new();
        page.put(72, &u64::from(number).to_le_bytes());
        for (index, checksum) in self.checksums.iter().enumerate() {
            page.put(CHECKSUMS + 4 * index, &checksum.to_le_bytes());
        }
        let (offset, generation) = (self.offset(number, table), self.generation);
        let header = BlockHeader { volume, member, offset, generation, is_read_only: false };
        let bytes = page.seal(BlockKind::Checksums, &header);
        debug_assert_eq!(
            ChecksumPage::decode(&bytes, number, offset, volume, member).as_ref(),
            Ok(self)
        );
        bytes
    }

    fn decode(
        bytes: &[u8],
        number: u32,
        offset: u64,
        volume: Uuid,
        member: Uuid,
    ) -> Result<ChecksumPage, BlockError> {
        let (page, header) = Page::open(bytes, BlockKind::Checksums, offset)?;
        let is_own = header.volume == volume && header.member == member;
        if !is_own || page.u64(72) != u64::from(number) {
            return Err(BlockError::Malformed("the checksums of another place"));
        }
        let checksums = std::array::from_fn(|index| page.u32(CHECKSUMS + 4 * index));
        Ok(ChecksumPage { generation: header.generation, checksums: Box::new(checksums) })
    }
}

/// A page was written, and no version of it is valid any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DamagedPage;

/// The newest valid version of the page with this number, from both of its slots on a member, which
/// begin at `offset`; `None` if they have no blocks of this program: the page was never written.
/// Fails if there is none, and a block with a wrong checksum, or with the UUIDs of volume and
/// member. What overwrote these is not found.
pub fn newest_page(
    slots: &[u8],
    number: u32,
    offset: u64,
    volume: Uuid,
    member: Uuid,
) -> Result<Option<ChecksumPage>, DamagedPage> {
    assert_eq!(slots.len() as u64, PAGE_SLOTS_BYTES, "both slots of page {number}");
    // What is left of a block whose beginning was overwritten.
    let has_uuids = |bytes: &[u8]| bytes[24..40] == volume.0 && bytes[40..56] == member.0;
    let is_rest = |(bytes, page): &(&[u8], &Result<ChecksumPage, BlockError>)| {
        **page == Err(BlockError::Absent) && has_uuids(bytes)
    };
    let blocks = slots.chunks_exact(METADATA_BYTES);
    let slots = slots.chunks_exact(METADATA_BYTES).zip((offset..).step_by(METADATA_BYTES));
    let pages: Vec<Result<ChecksumPage, BlockError>> = slots
        .map(|(bytes, offset)| ChecksumPage::decode(bytes, number, offset, volume, member))
        .collect();
    let is_damaged =
        pages.contains(&Err(BlockError::Damaged)) || blocks.zip(&pages).any(|it| is_rest(&it));
    match pages.into_iter().flatten().max_by_key(|page| page.generation) {
        None if is_damaged => Err(DamagedPage),
        newest => Ok(newest),
    }
}

/// The size of the table of each member, for members of these sizes: enough for the largest volume
/// that they can hold.
pub fn checksum_table_bytes(profile: Profile, sizes: impl Iterator<Item = u64>) -> u64 {
    let raw_bytes: u128 = sizes.map(u128::from).sum();
    let capacity_bytes = raw_bytes / profile.copies().max(1) as u128;
    let pages = capacity_bytes.div_ceil(u128::from(PAGE_SPAN_BYTES));
    let bytes = u64::try_from(pages * u128::from(PAGE_SLOTS_BYTES)).unwrap_or(u64::MAX / 2);
    bytes.next_multiple_of(RESERVED_BYTES)
}

/// Where the table of a member of this size begins; zero if the table is larger than the member.
pub fn tail_begin(size_bytes: u64, table_bytes: u64) -> u64 {
    size_bytes.saturating_sub(table_bytes) / RESERVED_BYTES * RESERVED_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    const VOLUME: Uuid = Uuid([7; 16]);
    const MEMBER: Uuid = Uuid([8; 16]);

    #[test]
    fn a_page_is_read_where_it_was_written_and_nowhere_else() {
        let at = |generation: u64| {
            let mut page = ChecksumPage { generation, ..ChecksumPage::unknown() };
            (page.checksums[0], page.checksums[511]) = (0x0102_0304, generation as u32);
            page
        };
        let encode = |generation: u64| at(generation).encode(3, 1 << 20, VOLUME, MEMBER);
        // Frozen: members hold such pages.
        assert_eq!(crc32c::crc32c(&encode(5)[..METADATA_BYTES - 4]), 0xb7a6_6c54);
        let offset = (1 << 20) + 3 * PAGE_SLOTS_BYTES;
        assert_eq!((at(4).offset(3, 1 << 20), at(5).offset(3, 1 << 20)), (offset, offset + 4096));
        let slots = [encode(4), encode(5)].concat();
        let found = |slots: &[u8], number, offset, volume, member| {
            newest_page(slots, number, offset, volume, member)
        };
        assert_eq!(found(&slots, 3, offset, VOLUME, MEMBER), Ok(Some(at(5))));
        assert_eq!(found(&slots, 4, offset, VOLUME, MEMBER), Ok(None), "another number");
        assert_eq!(found(&slots, 3, offset + 8192, VOLUME, MEMBER), Ok(None), "another place");
        assert_eq!(found(&slots, 3, offset, MEMBER, MEMBER), Ok(None), "another volume");
        assert_eq!(found(&slots, 3, offset, VOLUME, VOLUME), Ok(None), "another member");
        let torn = [encode(4), vec![0; METADATA_BYTES].into()].concat();
        assert_eq!(found(&torn, 3, offset, VOLUME, MEMBER), Ok(Some(at(4))));
        let mut newer = [encode(6), encode(5)].concat();
        assert_eq!(found(&newer, 3, offset, VOLUME, MEMBER), Ok(Some(at(6))));
        newer[200] ^= 1;
        assert_eq!(found(&newer, 3, offset, VOLUME, MEMBER), Ok(Some(at(5))));
        newer[METADATA_BYTES + 200] ^= 1;
        assert_eq!(found(&newer, 3, offset, VOLUME, MEMBER), Err(DamagedPage));
        newer[..8].fill(0);
        newer[METADATA_BYTES..][..8].fill(0);
        assert_eq!(found(&newer, 3, offset, VOLUME, MEMBER), Err(DamagedPage));
        let unwritten = [vec![0x55; METADATA_BYTES], vec![0; METADATA_BYTES]].concat();
        assert_eq!(found(&unwritten, 3, offset, VOLUME, MEMBER), Ok(None));
    }

    #[test]
    fn a_table_has_room_for_the_whole_volume() {
        const MIB: u64 = 1 << 20;
        let table = |profile, sizes: &[u64]| checksum_table_bytes(profile, sizes.iter().copied());
        assert_eq!(table(Profile::Raid1, &[11 * MIB; 2]), MIB, "six pages, rounded up");
        // 2 TiB have 2^20 pages.
        assert_eq!(table(Profile::Raid1, &[2 << 40; 2]), 8 << 30);
        assert_eq!(table(Profile::Raid10, &[2 << 40; 4]), 16 << 30);
        assert_eq!(tail_begin(11 * MIB + 5, MIB), 10 * MIB);
        assert_eq!(tail_begin(MIB, 4 * MIB), 0);
    }
}
