//! The labels and records that a volume starts with, from what was found on its members.

use crate::label::assembly::{AssembledMember, FoundMember, LabelAssembly, MemberStanding};
use crate::label::{
    BadBlocks, DirtyRecord, Label, LabelledMember, NewestLabel, ScrubRecord, StaleMap, Uuid,
    assembled_map, can_catch_up,
};
use crate::unsynced_regions::REGION_BYTES;
use mirrorball_core::member::{MemberIndex, MemberState};
use std::collections::BTreeSet;

#[derive(Clone, Debug)]
pub struct VolumeLabels {
    /// The newest label. Its states may differ from those of the members, which count.
    pub label: Label,
    /// For each member, the slot of the newest label on it.
    pub slots: Vec<usize>,
    /// Members with current data whose label is one generation behind, or one ahead: announced by
    /// them alone, and never committed.
    pub behind: Vec<MemberIndex>,
    /// True if a member is to be rebuilt whose label is older than this one, though this one may
    /// say so.
    pub is_joined: bool,
    /// Members that only an announcement calls in sync.
    pub announced: Vec<MemberIndex>,
    /// The sequence number of the newest record of the dirty log on any member.
    pub sequence: u64,
    /// Every member in sync has a record of this sequence number or later.
    pub least_sequence: u64,
    /// Regions whose mirrors may differ: those of the newest records, after a crash.
    pub unsynced: Vec<u32>,
    pub scrub: Option<ScrubRecord>,
    /// The ranges that members in sync lack.
    pub bad_blocks: BadBlocks,
    /// The generation of the newest list of bad blocks on any member.
    pub bad_blocks_generation: u64,
    /// For each member, the slot of the newest list on it.
    pub bad_blocks_slots: Vec<usize>,
    /// The regions that members may lack which are not in sync, and whether there are more than in
    /// the map that the members have; `None` if there is no map.
    pub stale: Option<(StaleMap, bool)>,
    /// The generation of the newest stale map on any member.
    pub map_generation: u64,
    /// Members to be rebuilt that lack no other regions.
    pub catching_up: Vec<MemberIndex>,
    /// Seed of data ids: not to be used for another start.
    pub seed: u64,
}

impl VolumeLabels {
    /// The metadata of an assembled volume at its start. `found` has what each device holds, in the
    /// order in which the assembly has them.
    pub fn of(
        assembly: &LabelAssembly,
        found: &[FoundMember],
        capacity_bytes: u64,
        seed: u64,
    ) -> VolumeLabels {
        let newest = &assembly.newest;
        let device = |row: &AssembledMember| row.found.map(|index| &found[index]);
        let is_behind = |row: &&(MemberIndex, AssembledMember)| {
            let (_, AssembledMember { found: Some(index), .. }) = row else { return false };
            let generation = found[*index].newest.found.label.generation;
            assembly.standings[*index].is_current() && generation != newest.generation
        };
        let slot = |row: &AssembledMember| device(row).map_or(0, |it| slot(it, newest));
        // Its label counts for others that do not know of the newest.
        let has_refuted = |row: &(MemberIndex, AssembledMember)| {
            let (_, AssembledMember { found: Some(index), .. }) = row else { return false };
            let label = &found[*index].newest.found.label;
            let is_other = label.lineage.id != newest.lineage.id;
            assembly.standings[*index].is_current()
                && is_other
                && label.generation >= newest.generation
        };
        let rows = (0..).map(MemberIndex).zip(assembly.members.iter().copied());
        let rows: Vec<(MemberIndex, AssembledMember)> = rows.collect();
        let records = found.iter().filter_map(|device| device.record.as_ref());
        let count = capacity_bytes.div_ceil(REGION_BYTES);
        let mut stale = assembled_map(assembly, found, count);
        let mut catching_up = Vec::new();
        for &(member, AssembledMember { found: index, .. }) in &rows {
            let Some(index) = index else { continue };
            let is_stale = assembly.standings[index] == MemberStanding::Stale;
            if let Some((map, has_more)) = &mut stale
                && is_stale
                && can_catch_up(newest, &found[index])
            {
                let regions = found[index].last_regions();
                let regions = regions.filter(|&region| u64::from(region) < count);
                regions.for_each(|region| *has_more |= map.insert(region));
                catching_up.push(member);
            }
        }
        let maps = found.iter().flat_map(|device| &device.stale_maps);
        VolumeLabels {
            map_generation: maps.map(|map| map.generation).max().unwrap_or(0),
            stale,
            catching_up,
            bad_blocks: bad_blocks(assembly, found, capacity_bytes),
            bad_blocks_generation: found.iter().map(bad_generation).max().unwrap_or(0),
            bad_blocks_slots: bad_blocks_slots(assembly, found),
            label: newest.clone(),
            is_joined: assembly.standings.contains(&MemberStanding::Stale)
                || rows.iter().any(has_refuted),
            announced: rows
                .iter()
                .filter(|(member, _)| assembly.announced.contains(&member.get()))
                .map(|(member, _)| *member)
                .collect(),
            slots: assembly.members.iter().map(slot).collect(),
            behind: rows.iter().filter(is_behind).map(|(member, _)| *member).collect(),
            sequence: records.map(|record| record.sequence).max().unwrap_or(0),
            least_sequence: assembly.log_sequence(found),
            unsynced: unsynced_regions(assembly, found, capacity_bytes),
            scrub: devices_in_use(assembly)
                .filter_map(|index| found[index].scrub)
                .max_by_key(|record| record.sequence),
            seed,
        }
    }
}

/// The slot that is not written next. A label that does not count and has a later generation than
/// the newest gives way to the next, which has the same.
fn slot(device: &FoundMember, newest: &Label) -> usize {
    let NewestLabel { ref found, slot, ref previous } = device.newest;
    // Without another label, a crash could leave none.
    let gives_way = found.label.generation > newest.generation && previous.is_some();
    if gives_way { 1 - slot } else { slot }
}

/// The indexes of the devices that have current data, if only in part.
fn devices_in_use(assembly: &LabelAssembly) -> impl Iterator<Item = usize> {
    let has_data = |row: &&AssembledMember| match row.state {
        MemberState::InSync => true,
        MemberState::Rebuilding { recovered_bytes } => recovered_bytes > 0,
        MemberState::Failed => false,
    };
    assembly.members.iter().filter(has_data).filter_map(|row| row.found)
}

fn bad_generation(device: &FoundMember) -> u64 {
    device.bad_blocks.as_ref().map_or(0, |(record, _)| record.generation)
}

/// Returns true if no member with current data has the list of bad blocks that the labels name.
pub fn has_lost_bad_blocks(assembly: &LabelAssembly, found: &[FoundMember]) -> bool {
    let lists = devices_in_use(assembly).map(|index| bad_generation(&found[index]));
    lists.max().unwrap_or(0) < assembly.newest.bad_blocks_generation
}

fn bad_blocks_slots(assembly: &LabelAssembly, found: &[FoundMember]) -> Vec<usize> {
    let list = |row: &AssembledMember| found[row.found?].bad_blocks.as_ref();
    assembly.members.iter().map(|row| list(row).map_or(0, |(_, slot)| *slot)).collect()
}

/// The bad blocks by the newest list of the members with current data; none if the labels know of
/// none: nothing relies on a list that a crash interrupted, and an older one is out of date.
fn bad_blocks(assembly: &LabelAssembly, found: &[FoundMember], capacity_bytes: u64) -> BadBlocks {
    let mut blocks = BadBlocks::default();
    let lists = devices_in_use(assembly).filter_map(|index| found[index].bad_blocks.as_ref());
    if assembly.newest.bad_blocks_generation > 0
        && let Some((newest, _)) = lists.max_by_key(|(record, _)| record.generation)
    {
        let known = newest.blocks.within(&(0..capacity_bytes));
        let has_device = |it: &LabelledMember| it.uuid != Uuid::NIL;
        blocks.extend(&known, |row| assembly.newest.members.get(row).is_some_and(has_device));
    }
    blocks
}

/// The regions in which mirrors may differ after a crash: those of the newest record of each member
/// that has current data. Without any record, all.
fn unsynced_regions(
    assembly: &LabelAssembly,
    found: &[FoundMember],
    capacity_bytes: u64,
) -> Vec<u32> {
    if assembly.newest.is_clean {
        return Vec::new();
    }
    let records = devices_in_use(assembly).filter_map(|index| found[index].record.as_ref());
    let records: Vec<&DirtyRecord> = records.collect();
    let all = 0..capacity_bytes.div_ceil(REGION_BYTES) as u32;
    if records.is_empty() {
        return all.collect();
    }
    let regions = records.iter().flat_map(|record| record.regions.iter().copied());
    let regions = regions.filter(|region| all.contains(region));
    regions.collect::<BTreeSet<u32>>().into_iter().collect()
}
