//! Spares: devices that are to take the place of members that fail.
//!
//! The labels list the spares of their volume. A spare has no label of its own, but a *spare block*
//! that says whose it is. It is written before the labels list the spare, and stays where it is
//! when the spare becomes a member: the UUID of the member is that of the spare, and a label on the
//! device, which is written then, counts more. So after a crash at any point the device is found as
//! a spare or as the member, and what the labels of the others say is one of the two.
//!
//! The body of the block, little-endian:
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 72 | 66 | name of the volume when the spare was added, with its length before it |
//!
//! In a label, at most 8 spares of 32 bytes each follow [`super::contents`]: the UUID, which is
//! zero for none, the size in bytes, and the devid of the member that is copied to it, or zero.

use super::block::{BlockError, BlockHeader, BlockKind, Page, TEXT_ROOM, Uuid};

/// Offset of the spare block on a spare, away from both slots of the label.
pub const SPARE_OFFSET: u64 = 36 << 10;

/// Limit of the number of spares of a volume.
pub const SPARES_MAX: usize = 8;

pub(super) const SPARE_ROW_BYTES: usize = 32;

const NAME: usize = 72;

/// A spare, as the labels describe it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LabelledSpare {
    /// UUID, also as a member.
    pub uuid: Uuid,
    pub size_bytes: u64,
    /// The devid of the member that is copied to it, and whose place it takes then.
    pub replaces: Option<u64>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SpareBlock {
    pub volume: Uuid,
    pub uuid: Uuid,
    /// Name of its volume when it was added.
    pub name: String,
}

impl SpareBlock {
    pub fn encode(&self) -> Box<[u8]> {
        let mut page = Page::new();
        page.put_text(NAME, &self.name, TEXT_ROOM);
        let header = BlockHeader {
            volume: self.volume,
            member: self.uuid,
            offset: SPARE_OFFSET,
            generation: 0,
            is_read_only: false,
        };
        let bytes = page.seal(BlockKind::Spare, &header);
        debug_assert_eq!(SpareBlock::decode(&bytes).as_ref(), Ok(self));
        bytes
    }

    /// Decodes the block. Fails if there is none, it is damaged, or of a newer format.
    pub fn decode(bytes: &[u8]) -> Result<SpareBlock, BlockError> {
        let (page, header) = Page::open(bytes, BlockKind::Spare, SPARE_OFFSET)?;
        let name = page.text(NAME, TEXT_ROOM)?;
        Ok(SpareBlock { volume: header.volume, uuid: header.member, name })
    }
}

impl LabelledSpare {
    pub(super) fn encode(&self, page: &mut Page, offset: usize) {
        assert_ne!(self.uuid, Uuid::NIL, "a spare has a UUID");
        page.put(offset, &self.uuid.0);
        page.put(offset + 16, &self.size_bytes.to_le_bytes());
        page.put(offset + 24, &self.replaces.unwrap_or(0).to_le_bytes());
    }

    /// The spare at an offset of a label; `None` if there is none.
    pub(super) fn decode(page: &Page, offset: usize) -> Option<LabelledSpare> {
        let uuid = Uuid(page.array(offset));
        let size_bytes = page.u64(offset + 16);
        let replaces = Some(page.u64(offset + 24)).filter(|&devid| devid > 0);
        (uuid != Uuid::NIL).then_some(LabelledSpare { uuid, size_bytes, replaces })
    }
}
