//! Labels: what members record of their volume, and how a volume is assembled from them.
//!
//! Pure functions of bytes and of what was found; who reads and writes them is elsewhere.
//!
//! - `block`: the header and the checksum of every metadata block.
//! - `contents`: the label.
//! - `data_area`: where the data are on the members.
//! - `dirty_record`: the records of the dirty log.
//! - `stale_map`: the regions that were written to while a member was missing.
//! - `catch_up`: whether a member that comes back needs only those.
//! - `scrub_record`: the progress of a scrub.
//! - `bad_blocks`: ranges that members in sync lack.
//! - `checksum_page`: the checksums of the data.
//! - `spare`: devices that take the place of members that fail.
//! - `model_tests`: every order of events of three members, and who is current then.
//! - `relation`: which of two labels is newer.
//! - `found_member`: what was found on a device.
//! - `slots`: the two slots of a label on a member.
//! - [`assembly`]: which members are in sync, and whether the volume may start.
//!
//! **Generations.** A label is written to every member that takes writes. A change is written
//! twice, by two generations one after the other, each durable on all these members before the
//! next step. What depends on the change waits for the second. So:
//!
//! - a member that is one generation behind another was overtaken by a crash, and missed nothing
//!   that anything depended on;
//! - a member that the newest label calls in sync is never two generations behind. One that is was
//!   away and the others do not know: it is a copy from earlier, such as a restored snapshot. A
//!   copy from since the last change of the labels has an older dirty log than the others, unless
//!   it is only a few seconds old, or nothing was written since;
//! - after a change, both slots of a member have it.
//!
//! **Lineage.** Whenever a member leaves the set of members in sync, the update draws a new random
//! data id, before the first write that the member missed is replied to. The label keeps the ids
//! that came before. So a label whose id is in the history of another is older. Of two labels
//! neither of which has the other's id in its history, each may have data that the other lacks,
//! unless one is of a generation before all that the other remembers: see [`assembly`].
//!
//! An id in a history counts up to the generation that had it last. A label with that id and a
//! later generation went on without those that drew the next id. If it is later by one, and calls
//! one of them in sync or its own member not, it was announced and never committed, so nothing
//! depended on it.
//!
//! Clocks decide nothing.

pub mod assembly;
mod bad_blocks;
mod block;
mod catch_up;
mod checksum_page;
mod contents;
mod data_area;
mod departure;
mod dirty_record;
mod found_member;
#[cfg(test)]
mod model_tests;
mod relation;
mod scrub_record;
mod slots;
mod spare;
mod stale_map;
#[cfg(test)]
mod tests;

pub use bad_blocks::{
    BAD_BLOCKS_BYTES, BAD_BLOCKS_OFFSET, BadBlockRecord, BadBlocks, bad_blocks_offset,
    newest_bad_blocks,
};
pub use block::{BlockError, METADATA_BYTES, NotUuid, Uuid};
pub use catch_up::{OwnData, assembled_map, can_catch_up, own_data};
pub use checksum_page::{
    ChecksumPage, DamagedPage, PAGE_CHECKSUMS, PAGE_SLOTS_BYTES, PAGE_SPAN_BYTES,
    checksum_table_bytes, newest_page, tail_begin,
};
pub use contents::{
    DataId, LABEL_SLOTS, LABELLED_MEMBERS_MAX, Label, LabelledArray, LabelledMember, Lineage,
    MemberLabel, NAME_BYTES_MAX, POLICY_BYTES_MAX, PROGRAM_NAME_BYTES_MAX,
    PROGRAM_REFERENCE_BYTES_MAX, PastData,
};
pub use data_area::map_checksum;
pub(crate) use departure::departure_sequence;
pub use dirty_record::{
    DIRTY_LOG_BYTES, DIRTY_LOG_OFFSET, DIRTY_REGIONS_MAX, DirtyRecord, may_lack_record,
    newest_record,
};
pub use scrub_record::{
    SCRUB_BYTES, SCRUB_OFFSET, ScrubProgress, ScrubRecord, ScrubState, newest_scrub,
};
pub use slots::{NewestLabel, newest_label};
pub use spare::{LabelledSpare, SPARE_OFFSET, SPARES_MAX, SpareBlock};
pub use stale_map::{STALE_MAP_BYTES, STALE_MAP_OFFSET, StaleMap, stale_maps};
