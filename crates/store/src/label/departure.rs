//! When a device left the other members of its volume, and how much newer its dirty log is than
//! theirs was then.

use super::contents::{Label, MemberLabel, PastData};
use super::dirty_record::DirtyRecord;

/// How many records newer than the one that every member in sync had the dirty log of a member may
/// be that leaves: one is under way, and one became durable while labels were being written.
pub(super) const AHEAD_MAX: u64 = 2;

/// With so many, writes went on without the others. Between this and [`AHEAD_MAX`] is what a member
/// may have if labels were being written at the end of each record.
const GONE_ON: u64 = 16;
const _: () = assert!(AHEAD_MAX < GONE_ON);

/// The sequence number for the history when a member leaves: the one that every member in sync has
/// at least, unless one may be so much newer that it would look like one that went on.
pub(crate) fn departure_sequence(least: u64, newest: u64) -> Option<u64> {
    assert!(least <= newest, "the newest record is {newest}, the least {least}");
    (newest <= least + AHEAD_MAX).then_some(least)
}

/// The part of the history in which a label was written.
pub(super) fn past<'a>(history: &'a [PastData], label: &Label) -> Option<&'a PastData> {
    history.iter().find(|past| past.id == label.lineage.id && label.generation <= past.until)
}

/// How many records newer the dirty log of a device is than that of every member in sync was when
/// it left; `None` if it is older, or that is not known.
pub(super) fn ahead(past: &PastData, record: Option<&DirtyRecord>) -> Option<u64> {
    record.map_or(0, |record| record.sequence).checked_sub(past.sequence?)
}

/// Returns true if a device that the newest label does not call in sync was written to when the
/// others had already left it: they were put back to an earlier state since.
pub(super) fn went_on(newest: &Label, found: &MemberLabel, record: Option<&DirtyRecord>) -> bool {
    let past = past(&newest.lineage.history, &found.label);
    // A volume without a record has none to compare with.
    let past = past.filter(|past| past.sequence != Some(0));
    let ahead = past.and_then(|past| ahead(past, record));
    // The record of one that left carries what was so before it left.
    let least = record.map_or(0, |record| record.least_sequence);
    let has_later = past.and_then(|past| past.sequence).is_some_and(|at| least > at + AHEAD_MAX);
    found.calls_in_sync(found.member)
        && has_later
        && ahead.is_some_and(|records| records >= GONE_ON)
}
