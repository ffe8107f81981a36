//! Catching up: whether a device that missed writes has to get only the regions that were written
//! to since.
//!
//! It has if it was in sync by its own label when it left, the volume was synchronised then,
//! its data id is of the time since all members were in sync for the last time (the stale map
//! covers that time), and its dirty log is as new as that of every member in sync was then: an
//! earlier copy of it may have missed more. If its log is newer, the others are copies of
//! themselves from earlier, which were started without it, and it has data that they lack.

use super::assembly::{FoundMember, LabelAssembly, MemberStanding, least_sequence};
use super::contents::{DataId, Label, Lineage, MemberLabel};
use super::departure::{AHEAD_MAX, ahead, past, went_on};
use super::dirty_record::DirtyRecord;
use super::relation::{is_forgotten, left_at};
use super::stale_map::StaleMap;
use mirrorball_core::member::MemberState;

impl Lineage {
    /// The data id that all members had when they were in sync for the last time; `None` if it was
    /// forgotten, or they never were.
    pub fn complete_id(&self) -> Option<DataId> {
        self.history.iter().find(|past| past.was_complete).map(|past| past.id)
    }
}

/// Returns true if a device that the newest label does not call in sync missed only writes that are
/// in the stale map or in the dirty log.
pub fn can_catch_up(newest: &Label, device: &FoundMember) -> bool {
    let MemberLabel { member, label } = &device.newest.found;
    let Some(row) = newest.row(*member) else { return false };
    let history = &newest.lineage.history;
    let Some(base) = history.iter().position(|past| past.was_complete) else { return false };
    let Some(past) = past(&history[..=base], label) else { return false };
    newest.members[row].state != MemberState::InSync
        && !newest.members[row].lacks_repairs
        && newest.resync_from.is_none()
        && label.resync_from.is_none()
        && device.newest.found.calls_in_sync(*member)
        && ahead(past, device.record.as_ref()).is_some_and(|records| records <= AHEAD_MAX)
}

/// Whether a device has data that the other members of its volume lack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OwnData {
    None,
    /// It left so long ago that the label has forgotten what it had then.
    Unknown,
    /// It was used without them.
    Some,
}

/// Whether a device of a volume that runs with this label has data that the others lack: it calls
/// itself in sync, and its data id is none that the volume had, or its dirty log is newer than
/// theirs was when it left.
pub fn own_data(label: &Label, device: &FoundMember) -> OwnData {
    let found = &device.newest.found;
    let (id, generation) = (found.label.lineage.id, found.label.generation);
    let is_known = id == label.lineage.id
        || left_at(label, &found.label).is_some_and(|until| generation <= until);
    let is_forgotten = is_forgotten(label, &found.label);
    match found.calls_in_sync(found.member) && !is_known
        || went_on(label, found, device.record.as_ref())
    {
        false => OwnData::None,
        true if is_forgotten => OwnData::Unknown,
        true => OwnData::Some,
    }
}

/// The stale map of an assembled volume, and whether it has more than members have; `None` if all
/// members are in sync, or it is not known since when they are not.
pub fn assembled_map(
    assembly: &LabelAssembly,
    found: &[FoundMember],
    regions: u64,
) -> Option<(StaleMap, bool)> {
    let newest = &assembly.newest;
    if newest.members.iter().all(|row| row.state == MemberState::InSync) {
        return None;
    }
    let base = newest.lineage.complete_id()?;
    let in_sync = || {
        let devices = found.iter().zip(&assembly.standings);
        devices.filter(|(_, it)| **it == MemberStanding::InSync).map(|(device, _)| device)
    };
    let records = || in_sync().filter_map(|device| device.record.as_ref());
    let least = records().map(|record| u64::from(record.map_generation)).max().unwrap_or(0);
    let maps = || in_sync().flat_map(|device| &device.stale_maps);
    // A record relies on the map of an earlier absence if no region has left the log since. A later
    // map with this generation would be in the place of it.
    let is_earlier = |map: &StaleMap| map.base != base && map.generation == least;
    let least = if maps().any(is_earlier) { 0 } else { least };
    let maps = maps().filter(|map| map.base == base && map.fits(regions));
    let mut has_more = false;
    let mut map = match maps.max_by_key(|map| map.generation) {
        Some(map) if map.generation >= least => map.clone(),
        _ => {
            let mut map = StaleMap::new(base, regions);
            if least > 0 || records().next().is_none() {
                // It was damaged, or nothing says what was written.
                map.insert_all();
                has_more = true;
            }
            map
        }
    };
    if in_sync().all(|device| device.may_lack_record) {
        // A region may have entered the log that no record names now.
        map.insert_all();
        has_more = true;
    }
    // Also after a stop in good order: the active regions were written to, and not yet in the map.
    for region in records().flat_map(|record: &DirtyRecord| &record.regions) {
        if u64::from(*region) < regions {
            has_more |= map.insert(*region);
        }
    }
    assert!(map.base == base && map.fits(regions), "the map is of this absence");
    Some((map, has_more))
}

impl LabelAssembly {
    /// The sequence number that the dirty log of every member with current data has at least. After
    /// a stop in good order that is the newest record, unless a crash came before the first write.
    pub(crate) fn log_sequence(&self, found: &[FoundMember]) -> u64 {
        if !self.newest.is_clean {
            return least_sequence(&self.standings, found);
        }
        let current = found.iter().zip(&self.standings).filter(|(_, it)| it.is_current());
        let sequence =
            |(device, _): (&FoundMember, _)| device.record.as_ref().map_or(0, |it| it.sequence);
        current.map(sequence).min().unwrap_or(0)
    }
}

#[cfg(test)]
#[path = "catch_up_tests.rs"]
mod tests;
