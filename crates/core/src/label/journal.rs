//! The journal of a volume with parity: what is to be written to full stripes, before it is.
//!
//! A write of a part of a full stripe is several writes to members. If a crash stops them midway,
//! the parities do not match the data, and what they give for a missing member is garbage. So each
//! such write is an *entry* first: every member that it goes to, a *participant*, gets a block with
//! what will be written to that member, in a ring behind its data. The write in place begins when
//! all of them are durable. After a crash, entries that all participants have are written again;
//! of the others nothing was written in place.
//!
//! Entries have sequence numbers. Each says which is the oldest that may not be durable in place,
//! so those before are done with, and which later ones are *void*: given up before anything of them
//! was written in place, or mended. An entry without participants, a *checkpoint*, says nothing
//! else.
//!
//! Each start that may write ends the journal with a checkpoint, once what was left is written: an
//! entry that was not written again must not be at a later start, with other members.
//!
//! A member that is rebuilt takes part, but counts only once progress of its rebuild was recorded.
//! Before that, a checkpoint is durable behind which all older entries are done with: so a member
//! is never asked for entries from before it joined.
//!
//! The label says whether the journal of each member with data was *begun*, which is to say that a
//! slot was written: `create` writes a checkpoint, and a member that joins gets one. So a journal
//! in which no slot was written is known to be overwritten by something else.
//!
//! If the end of a member is cut off that the volume cannot do without, its journal is gone, too.
//! An entry that it lacks then may have been written in place, so it is *doubtful*: its rows may be
//! torn. The label says that the journals are not begun until a checkpoint is durable behind which
//! all entries from before are done with. What is lacking is doubtful only as long as it says so.
//!
//! A slot is a metadata block and up to 64 KiB of data. The body of the block, little-endian:
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 72 | 8 | sequence number of the oldest entry that may not be durable in place |
//! | 80 | 2 | participants, a bit for each member in the order of the label |
//! | 82 | 2 | number of parts |
//! | 84 | 4 | CRC-32C of the data |
//! | 88 | 8 | first byte of the full stripe on the volume |
//! | 96 | 16 | its rows: the first, and the one behind the last |
//! | 112 | 8 | void entries, a bit for each from the oldest on |
//! | 128 | 16 each | parts: offset on the member (8 bytes) and length (4) |

use super::block::{BlockError, BlockHeader, BlockKind, METADATA_BYTES, Page, Uuid};
use super::contents::LABELLED_MEMBERS_MAX;
use crate::geometry::RESERVED_BYTES;
use crate::member::MemberIndex;
use crc32c::crc32c;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Number of slots on a member.
pub const JOURNAL_SLOTS: u64 = 64;
/// Limit of the rows of an entry, and so of the data in a slot.
pub const JOURNAL_ROWS_BYTES: u64 = 64 << 10;
/// Bytes of a slot.
const SLOT_BYTES: u64 = METADATA_BYTES as u64 + JOURNAL_ROWS_BYTES;
/// Bytes of all slots.
pub const JOURNAL_BYTES: u64 = JOURNAL_SLOTS * SLOT_BYTES;

/// After a start, sequence numbers go on at least this much later: a member that is missing may
/// have entries that no other one has, but not this many.
const SEQUENCE_GAP: u64 = 16 * JOURNAL_SLOTS;

const PARTS: usize = 128;
const PART_BYTES: usize = 16;
/// As many as rows of the least size.
const PARTS_MAX: usize = (JOURNAL_ROWS_BYTES / 512) as usize;
const _: () = assert!(PARTS + PARTS_MAX * PART_BYTES <= METADATA_BYTES - 4);
const _: () = assert!(JOURNAL_SLOTS <= u64::BITS as u64, "a bit for each void entry");
const _: () = assert!(LABELLED_MEMBERS_MAX <= 16, "a bit for each participant");

/// A range of a member that an entry writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct JournalPart {
    /// First byte on the member.
    pub offset: u64,
    /// Number of bytes.
    pub length: u32,
}

/// What a member has of an entry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JournalEntry {
    /// Its sequence number.
    pub sequence: u64,
    /// The oldest entry that may not be durable in place.
    pub oldest: u64,
    /// Entries that are void, a bit for each from the oldest on.
    pub void: u64,
    /// The members that have it, a bit for each; none if it is a checkpoint.
    pub participants: u16,
    /// First byte of the full stripe on the volume.
    pub stripe_offset: u64,
    /// The rows that are written.
    pub rows: Range<u64>,
    /// What is written to this member.
    pub parts: Vec<JournalPart>,
}

/// The size of the journal of each member: whole MiB, so that what is before it stays aligned.
pub(super) fn journal_bytes() -> u64 {
    JOURNAL_BYTES.next_multiple_of(RESERVED_BYTES)
}

impl JournalEntry {
    /// A checkpoint.
    pub fn checkpoint(sequence: u64, oldest: u64, void: u64) -> JournalEntry {
        let (participants, stripe_offset, rows, parts) = (0, 0, 0..0, Vec::new());
        JournalEntry { sequence, oldest, void, participants, stripe_offset, rows, parts }
    }

    /// Where the entry is written on a member whose journal begins at `begin`.
    pub fn offset(&self, begin: u64) -> u64 {
        begin + self.sequence % JOURNAL_SLOTS * SLOT_BYTES
    }

    /// Number of bytes of the entry on a member: whole blocks.
    pub fn length(&self) -> u64 {
        METADATA_BYTES as u64 + self.data_bytes().next_multiple_of(METADATA_BYTES as u64)
    }

    /// The entries that it calls void.
    fn voids(&self) -> impl Iterator<Item = u64> {
        let (oldest, void) = (self.oldest, self.void);
        (0..u64::from(u64::BITS)).filter(move |bit| void & 1 << bit != 0).map(move |it| oldest + it)
    }

    fn data_bytes(&self) -> u64 {
        self.parts.iter().map(|part| u64::from(part.length)).sum()
    }

    /// Encodes the entry for a member whose journal begins at `begin`, with the data of its parts
    /// one after the other.
    ///
    /// # Panics
    /// If there is too much, or the data are not those of the parts.
    pub fn encode(&self, begin: u64, data: &[u8], volume: Uuid, member: Uuid) -> Box<[u8]> {
        assert!(self.parts.len() <= PARTS_MAX, "{} parts", self.parts.len());
        assert_eq!(self.data_bytes(), data.len() as u64, "the data of the parts");
        assert!(self.length() <= SLOT_BYTES, "{} bytes", data.len());
        let mut page = Page::new();
        page.put(72, &self.oldest.to_le_bytes());
        page.put(80, &self.participants.to_le_bytes());
        page.put(82, &(self.parts.len() as u16).to_le_bytes());
        page.put(84, &crc32c(data).to_le_bytes());
        page.put(88, &self.stripe_offset.to_le_bytes());
        page.put(96, &self.rows.start.to_le_bytes());
        page.put(104, &self.rows.end.to_le_bytes());
        page.put(112, &self.void.to_le_bytes());
        for (index, part) in self.parts.iter().enumerate() {
            page.put(PARTS + PART_BYTES * index, &part.offset.to_le_bytes());
            page.put(PARTS + PART_BYTES * index + 8, &part.length.to_le_bytes());
        }
        let (offset, generation) = (self.offset(begin), self.sequence);
        let header = BlockHeader { volume, member, offset, generation, is_read_only: false };
        let mut bytes = page.seal(BlockKind::Journal, &header).into_vec();
        bytes.extend_from_slice(data);
        bytes.resize(self.length() as usize, 0);
        bytes.into()
    }

    /// Decodes a slot of a journal that begins at `begin`; returns the data of the parts, too, if
    /// they are whole. What the entry says of others is so even if they are not.
    fn decode(
        slot: &[u8],
        (begin, offset): (u64, u64),
        volume: Uuid,
        member: Uuid,
    ) -> Result<(JournalEntry, Option<&[u8]>), BlockError> {
        let (head, data) = slot.split_at(METADATA_BYTES.min(slot.len()));
        let (page, header) = Page::open(head, BlockKind::Journal, offset)?;
        let count = usize::from(page.u16(82));
        if header.volume != volume || header.member != member || count > PARTS_MAX {
            return Err(BlockError::Malformed("the journal of another member"));
        }
        let part = |index| {
            let at = PARTS + PART_BYTES * index;
            JournalPart { offset: page.u64(at), length: page.u32(at + 8) }
        };
        let entry = JournalEntry {
            sequence: header.generation,
            oldest: page.u64(72),
            void: page.u64(112),
            participants: page.u16(80),
            stripe_offset: page.u64(88),
            rows: page.u64(96)..page.u64(104),
            parts: (0..count).map(part).collect(),
        };
        let is_within = |part: &JournalPart| {
            let end = part.offset.checked_add(part.length.into());
            part.offset >= RESERVED_BYTES && end.is_some_and(|end| end <= begin)
        };
        let rows_bytes = entry.rows.end.checked_sub(entry.rows.start);
        let is_possible = entry.oldest <= entry.sequence
            && entry.sequence < u64::MAX / 2
            && rows_bytes.is_some_and(|bytes| bytes <= JOURNAL_ROWS_BYTES);
        if !is_possible || !entry.parts.iter().all(is_within) {
            return Err(BlockError::Malformed("an entry that is not of data"));
        }
        let data = data.get(..entry.data_bytes() as usize);
        Ok((entry, data.filter(|data| crc32c(data) == page.u32(84))))
    }
}

/// The journal of a member.
#[derive(Clone, Copy, Debug)]
pub struct MemberJournal<'a> {
    /// The member.
    pub member: MemberIndex,
    /// Its UUID.
    pub uuid: Uuid,
    /// Where its journal begins.
    pub begin: u64,
    /// True if the member has current data, if only in part. Of others only the numbers count, so
    /// that none is used twice.
    pub has_data: bool,
    /// True if entries may be gone that were durable on it, because its device lost data.
    pub may_lack_entries: bool,
    /// The bytes of the journal.
    pub bytes: &'a [u8],
}

impl<'a> MemberJournal<'a> {
    /// The slots, and their offsets on the member.
    fn slots(&self) -> impl Iterator<Item = (&'a [u8], u64)> + use<'a> {
        let slots = self.bytes.chunks_exact(SLOT_BYTES as usize);
        slots.zip((self.begin..).step_by(SLOT_BYTES as usize))
    }

    /// Returns true if a slot was written for this member, if only in part.
    pub fn has_begun(&self, volume: Uuid) -> bool {
        let owner = (volume, self.uuid);
        let mut slots = self.slots();
        slots.any(|(slot, offset)| Page::begins_as(slot, BlockKind::Journal, owner, offset))
    }
}

/// A write to a member that is to be repeated.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RepeatedWrite {
    /// The member.
    pub member: MemberIndex,
    /// First byte there.
    pub offset: u64,
    /// The data.
    pub data: Vec<u8>,
}

/// What journals say after a crash.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct JournalRecovery {
    /// The sequence number that the next entry has.
    pub next: u64,
    /// True if a later start could write entries again that this one does not.
    pub has_entries: bool,
    /// True if each journal of a member with data was begun.
    pub has_begun: bool,
    /// The writes to repeat, in this order.
    pub replays: Vec<RepeatedWrite>,
    /// The rows that they are in: the first byte of a full stripe, and rows of it. Until they are
    /// written, nothing can be recovered there.
    pub torn: Vec<(u64, Range<u64>)>,
    /// The entries of which it is not known whether they were written in place. What other members
    /// have of them is among the writes to repeat.
    pub doubtful: Vec<DoubtfulEntry>,
}

/// An entry that a member lacks which may have lost it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DoubtfulEntry {
    /// The member.
    pub member: MemberIndex,
    /// First byte of the full stripe on the volume.
    pub stripe_offset: u64,
    /// The rows that it writes.
    pub rows: Range<u64>,
}

impl JournalRecovery {
    /// Begins a checkpoint behind which all entries are done with, because the writes that are to
    /// be repeated are durable.
    pub fn begin_checkpoint(&mut self) -> JournalEntry {
        let sequence = self.next;
        self.next += 1;
        self.has_entries = false;
        JournalEntry::checkpoint(sequence, sequence, 0)
    }
}

/// The index of a journal, the entry there, and its data.
type FoundEntry<'a> = (usize, JournalEntry, &'a [u8]);

/// Finds what is to be written again: of the entries that may not be durable in place, those that
/// all participants have which are there, or may have had.
pub fn recover_journal(volume: Uuid, journals: &[MemberJournal<'_>]) -> JournalRecovery {
    let mut entries: BTreeMap<u64, Vec<FoundEntry<'_>>> = BTreeMap::new();
    let (mut oldest, mut newest, mut newest_with_data) = (0, 0, 0);
    let mut void = BTreeSet::new();
    for (index, journal) in journals.iter().enumerate() {
        for (slot, offset) in journal.slots() {
            let place = (journal.begin, offset);
            if let Ok((entry, data)) = JournalEntry::decode(slot, place, volume, journal.uuid) {
                newest = newest.max(entry.sequence);
                if !journal.has_data {
                    continue;
                }
                newest_with_data = newest_with_data.max(entry.sequence);
                oldest = oldest.max(entry.oldest);
                void.extend(entry.voids());
                let whole = data.map(|data| (index, entry.clone(), data));
                entries.entry(entry.sequence).or_default().extend(whole);
            }
        }
    }
    let next = next_sequence(newest, newest_with_data);
    let mut with_data = journals.iter().filter(|journal| journal.has_data);
    let has_begun = with_data.all(|journal| journal.has_begun(volume));
    let mut recovery = JournalRecovery { next, has_begun, ..JournalRecovery::default() };
    for found in entries.range(oldest..).map(|(_, found)| found) {
        let Some((_, first, _)) = found.first() else { continue };
        recovery.has_entries |= first.participants != 0;
        let lacks_it = |(index, journal): (usize, &MemberJournal<'_>)| {
            let takes_part = first.participants & 1 << journal.member.get() != 0;
            takes_part && journal.has_data && !found.iter().any(|(other, _, _)| *other == index)
        };
        let lacking = journals.iter().enumerate().filter(|it| lacks_it(*it));
        let lacking: Vec<&MemberJournal<'_>> = lacking.map(|(_, journal)| journal).collect();
        let is_unwritten = lacking.iter().any(|journal| !journal.may_lack_entries);
        if is_unwritten || first.participants == 0 || void.contains(&first.sequence) {
            continue;
        }
        if let Some(MemberJournal { member, .. }) = lacking.first() {
            let (stripe_offset, rows) = (first.stripe_offset, first.rows.clone());
            recovery.doubtful.push(DoubtfulEntry { member: *member, stripe_offset, rows });
        }
        for (index, entry, mut data) in found.iter().map(|(index, it, data)| (index, it, *data)) {
            for part in &entry.parts {
                let (this, rest) = data.split_at(part.length as usize);
                let (member, offset) = (journals[*index].member, part.offset);
                recovery.replays.push(RepeatedWrite { member, offset, data: this.to_vec() });
                data = rest;
            }
        }
        recovery.torn.push((first.stripe_offset, first.rows.clone()));
    }
    recovery
}

/// The number of the first entry after a start: later than the newest of any member. Its slot is
/// the one behind the newest entry of those with data, so that their oldest are overwritten first:
/// what is left of them is written again after a crash, and is right only together with all later
/// ones.
fn next_sequence(newest: u64, newest_with_data: u64) -> u64 {
    let least = newest + SEQUENCE_GAP;
    let slot = (newest_with_data + 1) % JOURNAL_SLOTS;
    least + (slot + JOURNAL_SLOTS - least % JOURNAL_SLOTS) % JOURNAL_SLOTS
}

#[cfg(test)]
#[path = "journal_tests.rs"]
mod tests;
