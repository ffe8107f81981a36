//! Labels and records with the right checksum and any contents: each is refused, or does no harm.

use super::*;
use crate::label::assembly::{ArrayVerdict, FoundMember, assemble};
use crate::label::{
    DirtyRecord, METADATA_BYTES, NewestLabel, SCRUB_BYTES, SCRUB_OFFSET, STALE_MAP_BYTES,
    STALE_MAP_OFFSET, ScrubProgress, ScrubRecord, StaleMap, newest_record, newest_scrub,
    stale_maps,
};
use crc32c::crc32c;
use std::collections::BTreeSet;
use std::ops::Range;

const WORDS: [u64; 16] = [
    0,
    1,
    2,
    3,
    16,
    17,
    255,
    1 << 22,
    u32::MAX as u64 - 1,
    u32::MAX as u64,
    1 << 32,
    1 << 40,
    1 << 62,
    1 << 63,
    u64::MAX - 1,
    u64::MAX,
];

/// Two members in sync and one that is rebuilt, as a power cut left them.
fn label() -> Label {
    let mut label = new_label(Profile::Raid1c3, 3, 11 * MIB, false);
    label.lineage = label.lineage.successor(DataId(2), 2).successor(DataId(3), 4);
    (label.generation, label.is_clean, label.resync_from) = (6, false, Some(4 << 20));
    label.members[2].state = MemberState::Rebuilding { recovered_bytes: 4 << 20 };
    label
}

/// The blocks that differ from this one in a field of a range.
fn crafted(bytes: &[u8], range: Range<usize>) -> impl Iterator<Item = Vec<u8>> {
    let fields = range.flat_map(|at| {
        let widths = [1, 4, 8].into_iter().filter(move |width| at % width == 0);
        widths.flat_map(move |width| WORDS.map(|word| (at, width, word)))
    });
    fields.map(|(at, width, word)| {
        let width = width.min(METADATA_BYTES - 4 - at);
        changed(bytes, at, &word.to_le_bytes()[..width])
    })
}

/// A block with other bytes at an offset, and the right checksum.
fn changed(bytes: &[u8], at: usize, to: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[at..at + to.len()].copy_from_slice(to);
    let checksum = crc32c(&bytes[..METADATA_BYTES - 4]);
    bytes[METADATA_BYTES - 4..].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

fn device(found: crate::label::MemberLabel, record: Option<DirtyRecord>) -> FoundMember {
    let newest = NewestLabel { found, slot: 0, previous: None };
    FoundMember { record, ..FoundMember::of_label(newest) }
}

fn devices() -> Vec<FoundMember> {
    let record = DirtyRecord { sequence: 9, least_sequence: 8, ..DirtyRecord::default() };
    let device = |member: &LabelledMember| {
        let found = crate::label::MemberLabel { member: member.uuid, label: label() };
        device(found, Some(record.clone()))
    };
    label().members.iter().map(device).collect()
}

/// Assembles devices of the volume of the first as a start does, and writes if it starts.
fn serve(mut found: Vec<FoundMember>) -> bool {
    let uuid = found[0].newest.found.label.array.uuid;
    found.retain(|device| device.newest.found.label.array.uuid == uuid);
    let assembly = assemble(&found, &[]);
    let newest = &assembly.newest;
    let is_served = newest.array.profile.parities() == 0;
    let Ok(map) = newest.array.chunk_map(&newest.map_configs()) else { return false };
    let may_start =
        matches!(assembly.verdict(&map), ArrayVerdict::Start | ArrayVerdict::NeedsDegraded { .. });
    let is_known = map_checksum(&map) == newest.array.map_checksum;
    if !is_known || !is_served || newest.check_map(&map).is_err() || !may_start {
        return false;
    }
    let labels = VolumeLabels::of(&assembly, &found, map.capacity_bytes(), 1);
    let states: Vec<MemberState> = assembly.members.iter().map(|row| row.state).collect();
    let mut volume = volume_with(labels, &states, Box::new(First), false);
    assert_eq!(run(&mut volume, (RequestKind::Write, 0, 1 << 16), |_| false), Ok(()));
    fail_member(&mut volume, MemberIndex(2));
    pass(&mut volume, 10);
    true
}

#[test]
fn crafted_labels_are_refused_or_do_no_harm() {
    let bytes = label().encode(Uuid([1; 16]), LABEL_SLOTS[0]);
    let (mut started, mut refused) = (0, BTreeSet::new());
    let clone = changed(&bytes, 1024 + 112, &[1; 16]);
    for bytes in crafted(&bytes, 24..2992).chain([clone]) {
        match Label::decode(&bytes, LABEL_SLOTS[0]) {
            Ok(found) => {
                let mut devices = devices();
                devices[0] = device(found, devices[0].record.clone());
                started += u64::from(serve(devices));
            }
            Err(error) => _ = refused.insert(error.to_string()),
        }
    }
    assert!(started > 1000, "{started} start");
    for field in ["generation", "devid", "UUID", "size", "recovery offset", "earlier data ids"] {
        assert!(refused.iter().any(|error| error.contains(field)), "{field} in {refused:?}");
    }
}

#[test]
fn crafted_records_and_maps_are_refused_or_do_no_harm() {
    let (volume, member) = (label().array.uuid, Uuid([1; 16]));
    let record =
        DirtyRecord { sequence: 9, least_sequence: 8, regions: vec![0, 1], map_generation: 2 };
    let block = record.encode(volume, member);
    let mut refused = BTreeSet::new();
    for bytes in crafted(&block, 24..96).chain(crafted(&block, 4080..METADATA_BYTES - 4)) {
        let mut log = vec![0; DIRTY_LOG_BYTES as usize];
        let at = (record.offset() - DIRTY_LOG_OFFSET) as usize;
        log[at..at + METADATA_BYTES].copy_from_slice(&bytes);
        match newest_record(&log, volume, member) {
            Ok(record) => {
                let mut devices = devices();
                devices[0].record = record;
                serve(devices);
            }
            Err(error) => _ = refused.insert(error.to_string()),
        }
    }
    for field in ["generation", "dirty regions", "sequence number"] {
        assert!(refused.iter().any(|error| error.contains(field)), "{field} in {refused:?}");
    }
    let mut map = StaleMap::new(DataId(2), 3);
    map.generation = 2;
    map.insert(1);
    for bytes in crafted(&map.encode(volume, member), 24..100) {
        let mut slots = vec![0; STALE_MAP_BYTES as usize];
        let at = (map.offset() - STALE_MAP_OFFSET) as usize;
        slots[at..at + METADATA_BYTES].copy_from_slice(&bytes);
        let mut devices = devices();
        devices[0].stale_maps = stale_maps(&slots, volume, member);
        serve(devices);
    }
}

#[test]
fn crafted_records_of_scrubs_are_refused_or_do_no_harm() {
    let (volume, member) = (label().array.uuid, Uuid([1; 16]));
    let record = ScrubRecord { sequence: 2, progress: ScrubProgress::begin(true, None, None) };
    let (mut used, mut refused) = (0, 0);
    for bytes in crafted(&record.encode(volume, member), 24..700) {
        let mut slots = vec![0; SCRUB_BYTES as usize];
        let at = (record.offset() - SCRUB_OFFSET) as usize;
        slots[at..at + METADATA_BYTES].copy_from_slice(&bytes);
        let mut devices = devices();
        devices[0].scrub = newest_scrub(&slots, volume, member);
        match devices[0].scrub {
            Some(ScrubRecord { progress, .. }) => {
                used += 1;
                assert!(progress.bad_blocks() < 1 << 61, "{progress:?}");
                serve(devices);
            }
            None => refused += 1,
        }
    }
    assert!(used > 100 && refused > 100, "{used} are used, {refused} refused");
}
