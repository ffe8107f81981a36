//! Metadata blocks: 4 KiB with a header that says what the block is, whose and where it belongs.
//!
//! Every block of metadata on a member has this header, little-endian:
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 0 | 8 | `mirrball` |
//! | 8 | 2 | kind of block |
//! | 10 | 2 | format version: 1 |
//! | 12 | 4 | compatible features: a program may ignore those that it does not know |
//! | 16 | 4 | features that only writers must know: others may use the volume read-only |
//! | 20 | 4 | features that everyone must know |
//! | 24 | 16 | UUID of the volume |
//! | 40 | 16 | UUID of the member |
//! | 56 | 8 | offset of the block on the member |
//! | 64 | 8 | generation |
//! | 4092 | 4 | CRC-32C of the bytes before |
//!
//! The offset exposes a block that was written to a wrong place, and a member that begins at
//! another place of its disk than it did.

use crc32c::crc32c;
use std::fmt;
use std::str::FromStr;

pub const METADATA_BYTES: usize = 4096;

const MAGIC: [u8; 8] = *b"mirrball";
const FORMAT: u16 = 1;
/// Of a label: data have checksums, in tables behind them.
pub(super) const FEATURE_CHECKSUMS: u32 = 1;
/// Of a label: members lack blocks, which are listed.
pub(super) const FEATURE_BAD_BLOCKS: u32 = 2;
const CHECKSUM: usize = METADATA_BYTES - 4;

/// Limit of generations: none that were counted up come near it.
const GENERATION_MAX: u64 = 1 << 62;

/// Bytes of a name with its length.
pub(super) const TEXT_ROOM: usize = 66;

/// A universally unique identifier: 16 random bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Uuid(pub [u8; 16]);

impl Uuid {
    /// The UUID of a member whose device was removed: no device has it.
    pub const NIL: Uuid = Uuid([0; 16]);
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum BlockKind {
    Label = 1,
    DirtyRecord = 2,
    Scrub = 3,
    StaleMap = 4,
    Checksums = 5,
    Spare = 6,
    BadBlocks = 7,
}

impl BlockKind {
    /// The features that this program knows, of those that everyone must know.
    fn known_features(self) -> u32 {
        match self {
            BlockKind::Label => FEATURE_CHECKSUMS | FEATURE_BAD_BLOCKS,
            _ => 0,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct BlockHeader {
    pub(super) volume: Uuid,
    pub(super) member: Uuid,
    pub(super) offset: u64,
    /// Grows with each change of the contents.
    pub(super) generation: u64,
    /// True if the block has features that a writer must know and this program does not.
    pub(super) is_read_only: bool,
}

/// Why a metadata block cannot be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BlockError {
    /// It is no metadata block of this program.
    Absent,
    /// A wrong checksum: a torn write, or damage.
    Damaged,
    /// It belongs at another offset.
    Misplaced { offset: u64 },
    /// It is of a newer format, or uses features that this program does not know.
    Unsupported {
        format: u16,
        /// Unknown features, as bits.
        features: u32,
    },
    /// Contents that are not possible, with the right checksum.
    Malformed(&'static str),
}

impl fmt::Display for BlockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BlockError::Absent => write!(f, "no label"),
            BlockError::Damaged => write!(f, "a label with a wrong checksum"),
            BlockError::Misplaced { offset } => {
                write!(f, "a label that belongs at offset {offset} of the member")
            }
            BlockError::Unsupported { format, features } => write!(
                f,
                "a label of format {format} with features {features:#x}, which this version of \
                 mirrorball does not support"
            ),
            BlockError::Malformed(what) => write!(f, "a label with {what}"),
        }
    }
}

impl std::error::Error for BlockError {}

/// A metadata block in memory; its fields are little-endian.
pub(super) struct Page(pub(super) Box<[u8; METADATA_BYTES]>);

impl Page {
    pub(super) fn new() -> Page {
        Page(Box::new([0; METADATA_BYTES]))
    }

    pub(super) fn put(&mut self, offset: usize, bytes: &[u8]) {
        let end = offset + bytes.len();
        assert!(offset == CHECKSUM || end <= CHECKSUM, "{offset}..{end} is before the checksum");
        self.0[offset..end].copy_from_slice(bytes);
    }

    /// Writes a text with its length before it; `room` is what both may take.
    pub(super) fn put_text(&mut self, offset: usize, text: &str, room: usize) {
        assert!(text.len() + 2 <= room, "`{text}` does not fit {room} bytes");
        self.put(offset, &(text.len() as u16).to_le_bytes());
        self.put(offset + 2, text.as_bytes());
    }

    pub(super) fn array<const N: usize>(&self, offset: usize) -> [u8; N] {
        let mut array = [0; N];
        array.copy_from_slice(&self.0[offset..offset + N]);
        array
    }

    pub(super) fn u8(&self, offset: usize) -> u8 {
        self.0[offset]
    }

    pub(super) fn u16(&self, offset: usize) -> u16 {
        u16::from_le_bytes(self.array(offset))
    }

    pub(super) fn u32(&self, offset: usize) -> u32 {
        u32::from_le_bytes(self.array(offset))
    }

    pub(super) fn u64(&self, offset: usize) -> u64 {
        u64::from_le_bytes(self.array(offset))
    }

    pub(super) fn text(&self, offset: usize, room: usize) -> Result<String, BlockError> {
        let length = usize::from(self.u16(offset));
        let bytes = self.0[offset + 2..offset + room].get(..length);
        let text = bytes.and_then(|bytes| std::str::from_utf8(bytes).ok());
        text.map(str::to_owned).ok_or(BlockError::Malformed("a text that is not valid"))
    }

    /// Refuses programs that do not know a feature.
    pub(super) fn require(&mut self, feature: u32) {
        self.put(20, &(self.u32(20) | feature).to_le_bytes());
    }

    /// Returns true if [`Page::require`] was called with this feature.
    pub(super) fn requires(&self, feature: u32) -> bool {
        self.u32(20) & feature != 0
    }

    /// Adds the header and the checksum, and returns the bytes.
    pub(super) fn seal(mut self, kind: BlockKind, header: &BlockHeader) -> Box<[u8]> {
        let is_block = header.offset.is_multiple_of(METADATA_BYTES as u64);
        assert!(is_block, "{kind:?} at {} is a block of the member", header.offset);
        self.put(0, &MAGIC);
        self.put(8, &(kind as u16).to_le_bytes());
        self.put(10, &FORMAT.to_le_bytes());
        self.put(24, &header.volume.0);
        self.put(40, &header.member.0);
        self.put(56, &header.offset.to_le_bytes());
        self.put(64, &header.generation.to_le_bytes());
        let checksum = crc32c(&self.0[..CHECKSUM]);
        self.put(CHECKSUM, &checksum.to_le_bytes());
        self.0
    }

    /// Records a block that was read from `offset` of a member, and checks everything but its body.
    pub(super) fn open(
        bytes: &[u8],
        kind: BlockKind,
        offset: u64,
    ) -> Result<(Page, BlockHeader), BlockError> {
        let bytes: Box<[u8; METADATA_BYTES]> =
            Box::new(bytes.try_into().map_err(|_| BlockError::Absent)?);
        let page = Page(bytes);
        if page.array(0) != MAGIC {
            return Err(BlockError::Absent);
        }
        if page.u32(CHECKSUM) != crc32c(&page.0[..CHECKSUM]) {
            return Err(BlockError::Damaged);
        }
        let (format, features) = (page.u16(10), page.u32(20));
        let unknown = features & !kind.known_features();
        if format != FORMAT || unknown != 0 {
            return Err(BlockError::Unsupported { format, features: unknown });
        }
        let header = BlockHeader {
            volume: Uuid(page.array(24)),
            member: Uuid(page.array(40)),
            offset: page.u64(56),
            generation: page.u64(64),
            is_read_only: page.u32(16) != 0,
        };
        if header.offset != offset {
            return Err(BlockError::Misplaced { offset: header.offset });
        }
        if page.u16(8) != kind as u16 {
            return Err(BlockError::Malformed("the contents of another kind of block"));
        }
        if header.generation > GENERATION_MAX {
            return Err(BlockError::Malformed("an impossible generation"));
        }
        Ok((page, header))
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, byte) in self.0.iter().enumerate() {
            let separator = if matches!(index, 4 | 6 | 8 | 10) { "-" } else { "" };
            write!(f, "{separator}{byte:02x}")?;
        }
        Ok(())
    }
}

/// The text is not a UUID.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotUuid;

impl FromStr for Uuid {
    type Err = NotUuid;

    fn from_str(text: &str) -> Result<Uuid, NotUuid> {
        let digits: String = text.chars().filter(|&letter| letter != '-').collect();
        if digits.len() != 32 || !digits.is_ascii() {
            return Err(NotUuid);
        }
        let number = u128::from_str_radix(&digits, 16).map_err(|_| NotUuid)?;
        Ok(Uuid(number.to_be_bytes()))
    }
}
