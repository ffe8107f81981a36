//! The label: what a member records of its volume, and its encoding.
//!
//! The body of the block, little-endian, behind the header of [`super::block`]:
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 72 | 8 | data id |
//! | 80 | 128 | earlier data ids, newest first, each with its last generation; 0 for none |
//! | 208 | 1 | 1 if the volume was stopped in good order |
//! | 209 | 1 | profile, in the order of [`Profile::ALL`] |
//! | 210 | 1 | number of members |
//! | 212 | 4 | limit of members in a striped chunk; 0 for none |
//! | 216 | 8 | size of a chunk of md raid10; 0 for none |
//! | 224 | 8 | block size |
//! | 232 | 8 | offset on the volume from which the mirrors may differ; all ones if they are equal |
//! | 240 | 4 | CRC-32C of the chunk map |
//! | 256 | 66 | name, with its length before it |
//! | 322 | 66 | layout, likewise |
//! | 388 | 258 | read policy, likewise: the one of the table, or the fallback of a program |
//! | 646 | 1 | program: 0 none, 1 chooses in place of the policy, 2 was ended by a fault |
//! | 648 | 258 | reference to the program, `program:FILE` with parameters; likewise |
//! | 906 | 76 | name of the program, with the hash of its object; likewise |
//! | 1024 | 112 each | members, at most 16 |
//! | 2816 | 64 | how each earlier data id ended: see [`PastData`]; 0 if unknown |
//! | 2880 | 32 each | spares, at most 8: see [`super::spare`] |
//! | 3136 | 8 | generation of the list of bad blocks that the member has at least; 0 for none |
//!
//! A member:
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 0 | 16 | UUID; zero if its device was removed |
//! | 16 | 8 | devid |
//! | 24 | 8 | size in bytes |
//! | 32 | 1 | 0 in sync, 1 being rebuilt, 2 failed or missing |
//! | 33 | 1 | 1 if write-mostly |
//! | 34 | 1 | rotational: 0 as the device says, 1 no, 2 yes |
//! | 35 | 1 | 1 if it may lack repairs, so that it is rebuilt whole |
//! | 36 | 4 | priority |
//! | 40 | 8 | recovery offset, if it is being rebuilt |
//! | 48 | 8 | optimal I/O size and 1; 0 as the device says |
//! | 56 | 1 | 1 if an operator failed it |

use super::block::{
    BlockError, BlockHeader, BlockKind, FEATURE_BAD_BLOCKS, FEATURE_CHECKSUMS, METADATA_BYTES,
    Page, TEXT_ROOM, Uuid,
};
use super::spare::{LabelledSpare, SPARE_OFFSET, SPARE_ROW_BYTES, SPARES_MAX};
use mirrorball_core::geometry::{ArrayLayout, ChunkMap, Profile};
use mirrorball_core::member::{MemberConfig, MemberState};
use mirrorball_core::policy::KeptProgram;

/// Offsets of the two slots of a label on its member. They are 64 KiB apart, because a failed write
/// may damage its neighbours.
pub const LABEL_SLOTS: [u64; 2] = [4 << 10, 68 << 10];
const _: () = assert!(LABEL_SLOTS[0] + METADATA_BYTES as u64 <= SPARE_OFFSET);
const _: () = assert!(SPARE_OFFSET + METADATA_BYTES as u64 <= LABEL_SLOTS[1]);

pub const LABELLED_MEMBERS_MAX: usize = 16;

/// Limit of the length of a name, in bytes.
pub const NAME_BYTES_MAX: usize = TEXT_ROOM - 2;
/// Limit of the length of a policy, in bytes.
pub const POLICY_BYTES_MAX: usize = POLICY_ROOM - 2;

/// Limit of the length of a reference to a program, in bytes.
pub const PROGRAM_REFERENCE_BYTES_MAX: usize = POLICY_ROOM - 2;
/// Limit of the length of the name of a program, in bytes.
pub const PROGRAM_NAME_BYTES_MAX: usize = PROGRAM_NAME_ROOM - 2;

/// Limit of the size of a member: 64 PiB.
const MEMBER_SIZE_MAX: u64 = 1 << 56;

/// Number of earlier data ids that a label keeps.
pub(super) const HISTORY: usize = 8;

const POLICY_ROOM: usize = 258;
const PROGRAM_NAME_ROOM: usize = 76;
const HISTORY_AT: usize = 80;
const NAME: usize = 256;
const LAYOUT: usize = NAME + TEXT_ROOM;
const POLICY: usize = LAYOUT + TEXT_ROOM;
const PROGRAM_STATE: usize = POLICY + POLICY_ROOM;
const PROGRAM: usize = PROGRAM_STATE + 2;
const PROGRAM_NAME: usize = PROGRAM + POLICY_ROOM;
const MEMBERS: usize = 1024;
const MEMBER_BYTES: usize = 112;
const _: () = assert!(MEMBERS + LABELLED_MEMBERS_MAX * MEMBER_BYTES < METADATA_BYTES - 4);
const _: () = assert!(PROGRAM_NAME + PROGRAM_NAME_ROOM <= MEMBERS);
/// Behind the members: how each earlier data id ended.
const DEPARTURES: usize = MEMBERS + LABELLED_MEMBERS_MAX * MEMBER_BYTES;
/// Behind those: the spares.
const SPARES: usize = DEPARTURES + 8 * HISTORY;
const BAD_BLOCKS: usize = SPARES + SPARES_MAX * SPARE_ROW_BYTES;
const _: () = assert!(BAD_BLOCKS + 8 < METADATA_BYTES - 4);
/// Bit of a departure from members that were all in sync.
const COMPLETE: u64 = 1 << 63;

/// Name of a state of the data. Another is drawn whenever a member leaves the set of members in
/// sync, so two members with the same data id have missed no write that the other has. Not zero.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DataId(pub u64);

/// The data id of a volume, and those that it had before.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lineage {
    pub id: DataId,
    /// Earlier ones, newest first; the oldest are forgotten.
    pub history: Vec<PastData>,
}

/// A data id that a volume had.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PastData {
    pub id: DataId,
    /// The last generation that had it. A member with this id and a later generation went on
    /// without those that drew another id.
    pub until: u64,
    /// The sequence number that the dirty log of every member in sync had at least, when a member
    /// left them and the next id was drawn; `None` if it was not recorded.
    pub sequence: Option<u64>,
    /// True if all members were in sync until then.
    pub was_complete: bool,
}

/// The properties of a volume that never change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LabelledArray {
    pub uuid: Uuid,
    pub name: String,
    pub profile: Profile,
    pub layout: ArrayLayout,
    /// Limit of members in a striped chunk.
    pub stripe_width_max: Option<u32>,
    /// Block size: requests are multiples of this.
    pub block_bytes: u64,
    /// True if data have checksums, in a table behind the data of each member.
    pub has_checksums: bool,
    /// CRC-32C of the chunk map, which follows from the other properties and the sizes of the
    /// members. If this program computes another map, the data are not where they were.
    pub map_checksum: u32,
}

/// A member, as the labels describe it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LabelledMember {
    /// UUID; zero if the device was removed.
    pub uuid: Uuid,
    pub devid: u64,
    /// Size in bytes, by which the volume was laid out.
    pub size_bytes: u64,
    pub state: MemberState,
    /// True if it failed while repairs of it were not durable, so that what it missed is not all
    /// that it lacks: it is rebuilt whole. Never of a member in sync.
    pub lacks_repairs: bool,
    /// True if an operator failed it: it is not used before an operator takes it back. Never of a
    /// member that has not failed.
    pub is_kept_out: bool,
    /// True if it is read only when no other mirror can serve.
    pub write_mostly: bool,
    /// Whether it rotates, if the user said so.
    pub rotational: Option<bool>,
    /// Optimal I/O size, if the user gave one.
    pub optimal_io_bytes: Option<u64>,
    /// Priority, for policies that use it.
    pub priority: u32,
}

/// The contents of all labels of a volume, of one generation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Label {
    pub array: LabelledArray,
    /// Grows with each change.
    pub generation: u64,
    pub lineage: Lineage,
    /// True if the volume was stopped in good order: all mirrors are equal.
    pub is_clean: bool,
    /// Offset on the volume from which mirrors may differ, because they were never synchronised.
    pub resync_from: Option<u64>,
    /// The read policy, as the user wrote it.
    pub policy: String,
    /// The program that chooses in place of `policy`, which is its fallback. Versions that do not
    /// know programs use the policy, and write labels without the program.
    pub program: Option<KeptProgram>,
    /// The members, in the order of their indexes.
    pub members: Vec<LabelledMember>,
    /// The spares. Versions that do not know them write labels without them.
    pub spares: Vec<LabelledSpare>,
    /// The generation of the list of bad blocks that each member in sync has at least; zero while
    /// there are none. Versions that do not know the list refuse the label.
    pub bad_blocks_generation: u64,
    /// True if the label has features that a writer must know and this program does not.
    pub is_read_only: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MemberLabel {
    pub member: Uuid,
    pub label: Label,
}

impl MemberLabel {
    pub fn calls_in_sync(&self, member: Uuid) -> bool {
        self.label.calls_in_sync(member)
    }
}

impl PastData {
    /// A data id that was had up to a generation.
    pub fn new(id: DataId, until: u64) -> PastData {
        PastData { id, until, sequence: None, was_complete: false }
    }

    /// The sequence number and 1, with the highest bit if all members were in sync; 0 for neither.
    fn departure_word(&self) -> u64 {
        let sequence = self.sequence.map_or(0, |sequence| (sequence + 1) & !COMPLETE);
        sequence | if self.was_complete { COMPLETE } else { 0 }
    }

    fn decode(page: &Page, index: usize) -> PastData {
        let at = HISTORY_AT + 16 * index;
        let word = page.u64(DEPARTURES + 8 * index);
        PastData {
            id: DataId(page.u64(at)),
            until: page.u64(at + 8),
            sequence: (word & !COMPLETE).checked_sub(1),
            was_complete: word & COMPLETE != 0,
        }
    }
}

impl Lineage {
    /// A lineage without a past.
    pub fn new(id: DataId) -> Lineage {
        Lineage { id, history: Vec::new() }
    }

    /// Returns true if there may have been earlier ids than the history has.
    pub fn may_have_forgotten(&self) -> bool {
        self.history.len() == HISTORY
    }

    /// The lineage after a member left the set of those in sync, in the generation after `until`.
    pub fn successor(&self, id: DataId, until: u64) -> Lineage {
        let mut history = vec![PastData::new(self.id, until)];
        history.extend(self.history.iter().take(HISTORY - 1));
        assert!(history.iter().all(|past| past.id != id), "a data id is drawn once");
        assert!(history.is_sorted_by(|new, old| new.until >= old.until), "{history:?}");
        Lineage { id, history }
    }
}

impl Label {
    /// Encodes the label for a slot of a member. Panics if there are more members than fit, or a
    /// text is too long: `create` refuses both.
    pub fn encode(&self, member: Uuid, offset: u64) -> Box<[u8]> {
        let count = self.members.len();
        assert!((1..=LABELLED_MEMBERS_MAX).contains(&count), "{count} members");
        assert_ne!(self.lineage.id, DataId(0), "a label has a data id");
        assert!(self.lineage.history.len() <= HISTORY, "{:?}", self.lineage);
        let mut page = Page::new();
        page.put(72, &self.lineage.id.0.to_le_bytes());
        for (index, past) in self.lineage.history.iter().take(HISTORY).enumerate() {
            page.put(HISTORY_AT + 16 * index, &past.id.0.to_le_bytes());
            page.put(HISTORY_AT + 16 * index + 8, &past.until.to_le_bytes());
            page.put(DEPARTURES + 8 * index, &past.departure_word().to_le_bytes());
        }
        let LabelledArray { profile, layout, stripe_width_max, .. } = self.array;
        let profile = Profile::ALL.iter().position(|&other| other == profile);
        let profile = profile.expect("the list has every profile");
        page.put(208, &[u8::from(self.is_clean), profile as u8, self.members.len() as u8]);
        page.put(212, &stripe_width_max.unwrap_or(0).to_le_bytes());
        page.put(216, &layout.chunk_bytes().unwrap_or(0).to_le_bytes());
        page.put(224, &self.array.block_bytes.to_le_bytes());
        page.put(232, &self.resync_from.unwrap_or(u64::MAX).to_le_bytes());
        page.put(240, &self.array.map_checksum.to_le_bytes());
        if self.array.has_checksums {
            page.require(FEATURE_CHECKSUMS);
        }
        page.put_text(NAME, &self.array.name, TEXT_ROOM);
        page.put_text(LAYOUT, &layout.to_string(), TEXT_ROOM);
        page.put_text(POLICY, &self.policy, POLICY_ROOM);
        if let Some(KeptProgram { reference, name, has_faulted }) = &self.program {
            page.put(PROGRAM_STATE, &[1 + u8::from(*has_faulted)]);
            page.put_text(PROGRAM, reference, POLICY_ROOM);
            page.put_text(PROGRAM_NAME, name, PROGRAM_NAME_ROOM);
        }
        for (index, member) in self.members.iter().enumerate() {
            member.encode(&mut page, MEMBERS + index * MEMBER_BYTES);
        }
        for (index, spare) in self.spares.iter().enumerate() {
            assert!(index < SPARES_MAX, "more than {SPARES_MAX} spares");
            spare.encode(&mut page, SPARES + index * SPARE_ROW_BYTES);
        }
        if self.bad_blocks_generation > 0 {
            page.put(BAD_BLOCKS, &self.bad_blocks_generation.to_le_bytes());
            page.require(FEATURE_BAD_BLOCKS);
        }
        let header = BlockHeader {
            volume: self.array.uuid,
            member,
            offset,
            generation: self.generation,
            is_read_only: self.is_read_only,
        };
        let bytes = page.seal(BlockKind::Label, &header);
        let is_same = |it: MemberLabel| it.label == *self && it.member == member;
        debug_assert!(
            self.row(member).is_none() || Label::decode(&bytes, offset).is_ok_and(is_same),
            "{self:?} is read as it was written"
        );
        bytes
    }

    /// Decodes the label in a slot of a member. Fails if there is none, it is damaged, or of a
    /// newer format.
    pub fn decode(bytes: &[u8], offset: u64) -> Result<MemberLabel, BlockError> {
        let (page, header) = Page::open(bytes, BlockKind::Label, offset)?;
        let past = (0..HISTORY).map(|index| PastData::decode(&page, index));
        let history = past.take_while(|past| past.id != DataId(0)).collect();
        let lineage = Lineage { id: DataId(page.u64(72)), history };
        if lineage.id == DataId(0) {
            return Err(BlockError::Malformed("no data id"));
        }
        let count = usize::from(page.u8(210));
        if !(1..=LABELLED_MEMBERS_MAX).contains(&count) {
            return Err(BlockError::Malformed("an impossible number of members"));
        }
        let members = (0..count)
            .map(|index| LabelledMember::decode(&page, MEMBERS + index * MEMBER_BYTES))
            .collect::<Result<Vec<LabelledMember>, BlockError>>()?;
        if !members.iter().any(|member| member.uuid == header.member) {
            return Err(BlockError::Malformed("a member that is not in its own list"));
        }
        let label = Label {
            array: decode_array(&page, header.volume)?,
            generation: header.generation,
            lineage,
            is_clean: page.u8(208) == 1,
            resync_from: Some(page.u64(232)).filter(|&offset| offset != u64::MAX),
            policy: page.text(POLICY, POLICY_ROOM)?,
            program: decode_program(&page)?,
            members,
            spares: (0..SPARES_MAX)
                .filter_map(|index| LabelledSpare::decode(&page, SPARES + index * SPARE_ROW_BYTES))
                .collect(),
            bad_blocks_generation: page.u64(BAD_BLOCKS),
            is_read_only: header.is_read_only,
        };
        label.check()?;
        Ok(MemberLabel { member: header.member, label })
    }

    /// Refuses contents that no label has, though its checksum is right.
    fn check(&self) -> Result<(), BlockError> {
        let refuse = |what| Err(BlockError::Malformed(what));
        for (index, member) in self.members.iter().enumerate() {
            let earlier = &self.members[..index];
            if earlier.iter().any(|it| it.devid == member.devid) {
                return refuse("a devid of two members");
            }
            if member.has_device() && earlier.iter().any(|it| it.uuid == member.uuid) {
                return refuse("a UUID of two members");
            }
            if member.size_bytes > MEMBER_SIZE_MAX {
                return refuse("an impossible size of a member");
            }
            if let MemberState::Rebuilding { recovered_bytes } = member.state
                && recovered_bytes > member.size_bytes
            {
                return refuse("a recovery offset behind the end of its member");
            }
        }
        let Lineage { id, history } = &self.lineage;
        let ids = || std::iter::once(*id).chain(history.iter().map(|past| past.id));
        let is_repeated = ids().enumerate().any(|(index, id)| ids().take(index).any(|it| it == id));
        let is_ordered = history.is_sorted_by(|new, old| new.until >= old.until);
        let is_past = history.first().is_none_or(|past| past.until < self.generation);
        if is_repeated || !is_ordered || !is_past {
            return refuse("earlier data ids that are not possible");
        }
        Ok(())
    }

    /// Refuses offsets that are not on the volume, which is laid out by `map`. Fails if there is
    /// one.
    pub fn check_map(&self, map: &ChunkMap) -> Result<(), BlockError> {
        match self.resync_from {
            Some(from) if from > map.capacity_bytes() => {
                Err(BlockError::Malformed("a resync offset behind the end of the volume"))
            }
            _ => Ok(()),
        }
    }

    pub fn row(&self, member: Uuid) -> Option<usize> {
        self.members.iter().position(|row| row.uuid == member)
    }

    pub fn calls_in_sync(&self, member: Uuid) -> bool {
        self.row(member).is_some_and(|row| self.members[row].state == MemberState::InSync)
    }

    /// The descriptions of the members for a chunk map: devids and sizes.
    pub fn map_configs(&self) -> Vec<MemberConfig> {
        let config = |member: &LabelledMember| MemberConfig::new(member.devid, member.size_bytes);
        self.members.iter().map(config).collect()
    }
}

impl LabelledMember {
    /// Returns false if its device was removed, and none has replaced it.
    pub fn has_device(&self) -> bool {
        self.uuid != Uuid::NIL
    }

    fn encode(&self, page: &mut Page, at: usize) {
        let (state, recovered_bytes) = match self.state {
            MemberState::InSync => (0, 0),
            MemberState::Rebuilding { recovered_bytes } => (1, recovered_bytes),
            MemberState::Failed => (2, 0),
        };
        let rotational = self.rotational.map_or(0, |rotational| 1 + u8::from(rotational));
        page.put(at, &self.uuid.0);
        page.put(at + 16, &self.devid.to_le_bytes());
        page.put(at + 24, &self.size_bytes.to_le_bytes());
        let lacks_repairs = u8::from(self.lacks_repairs);
        page.put(at + 32, &[state, u8::from(self.write_mostly), rotational, lacks_repairs]);
        page.put(at + 36, &self.priority.to_le_bytes());
        page.put(at + 40, &recovered_bytes.to_le_bytes());
        let optimal = self.optimal_io_bytes.map_or(0, |bytes| bytes.saturating_add(1));
        page.put(at + 48, &optimal.to_le_bytes());
        page.put(at + 56, &[u8::from(self.is_kept_out)]);
    }

    fn decode(page: &Page, at: usize) -> Result<LabelledMember, BlockError> {
        let state = match page.u8(at + 32) {
            0 => MemberState::InSync,
            1 => MemberState::Rebuilding { recovered_bytes: page.u64(at + 40) },
            2 => MemberState::Failed,
            _ => return Err(BlockError::Malformed("an impossible state of a member")),
        };
        Ok(LabelledMember {
            uuid: Uuid(page.array(at)),
            devid: page.u64(at + 16),
            size_bytes: page.u64(at + 24),
            state,
            lacks_repairs: page.u8(at + 35) == 1,
            is_kept_out: page.u8(at + 56) == 1,
            write_mostly: page.u8(at + 33) == 1,
            rotational: match page.u8(at + 34) {
                0 => None,
                number => Some(number == 2),
            },
            optimal_io_bytes: page.u64(at + 48).checked_sub(1),
            priority: page.u32(at + 36),
        })
    }
}

fn decode_program(page: &Page) -> Result<Option<KeptProgram>, BlockError> {
    let has_faulted = match page.u8(PROGRAM_STATE) {
        0 => return Ok(None),
        1 => false,
        2 => true,
        _ => return Err(BlockError::Malformed("an impossible state of a program")),
    };
    let reference = page.text(PROGRAM, POLICY_ROOM)?;
    let name = page.text(PROGRAM_NAME, PROGRAM_NAME_ROOM)?;
    Ok(Some(KeptProgram { reference, name, has_faulted }))
}

fn decode_array(page: &Page, uuid: Uuid) -> Result<LabelledArray, BlockError> {
    let impossible = |_| BlockError::Malformed("an unknown layout");
    let profile = Profile::ALL.get(usize::from(page.u8(209)));
    let layout: ArrayLayout = page.text(LAYOUT, TEXT_ROOM)?.parse().map_err(impossible)?;
    let layout = match page.u64(216) {
        0 => layout,
        chunk_bytes => layout.with_chunk(chunk_bytes).map_err(impossible)?,
    };
    let block_bytes = page.u64(224);
    if !block_bytes.is_power_of_two() || !(512..=1 << 16).contains(&block_bytes) {
        return Err(BlockError::Malformed("an impossible block size"));
    }
    Ok(LabelledArray {
        uuid,
        name: page.text(NAME, TEXT_ROOM)?,
        profile: *profile.ok_or(BlockError::Malformed("an unknown profile"))?,
        layout,
        stripe_width_max: Some(page.u32(212)).filter(|&width| width > 0),
        block_bytes,
        has_checksums: page.requires(FEATURE_CHECKSUMS),
        map_checksum: page.u32(240),
    })
}
