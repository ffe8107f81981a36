//! Tests of volumes with a store.

mod checksums;
mod crafted;
mod crash_writes;
mod labels;
mod log;
mod repairs;
mod starts;
mod unsynced;

use crate::label::{
    BadBlocks, DIRTY_LOG_BYTES, DIRTY_LOG_OFFSET, DataId, LABEL_SLOTS, Label, LabelledArray,
    LabelledMember, Lineage, Uuid, map_checksum,
};
use crate::{LabelsUnwritable, REGION_BYTES, StoreGate, StoreVolume, VolumeLabels};
use mirrorball_core::geometry::{ArrayLayout, ChunkMap, Profile};
use mirrorball_core::io::{
    IoError, MemberIo, Op, Purpose, Request, RequestId, RequestKind, VolumeError,
};
use mirrorball_core::member::{MemberConfig, MemberIndex, MemberState, Members};
use mirrorball_core::policy::{Choice, Ctx, Mirror, Read, ReadPolicy};
use mirrorball_core::rng::Rng;
use mirrorball_core::units::{MIB, Nanos};
use mirrorball_core::volume::gate::Array;
use std::collections::BTreeMap;

type Volume = mirrorball_core::volume::Volume<StoreGate>;

/// Kind, offset and length of a request.
type Span = (RequestKind, u64, u64);

const WRITE: Span = (RequestKind::Write, 0, 4096);
const FLUSH: Span = (RequestKind::Flush, 0, 0);

/// Reads the first eligible mirror.
struct First;

impl ReadPolicy for First {
    fn choose(&mut self, _: &Read, _: &[Mirror], _: &mut Ctx<'_>) -> Choice {
        Choice::Mirror(0)
    }
}

/// The label of a new volume of members of one size. Data with checksums have blocks of 4 KiB.
fn new_label(profile: Profile, count: u64, size_bytes: u64, has_checksums: bool) -> Label {
    let member = |devid: u64| LabelledMember {
        uuid: Uuid([devid as u8; 16]),
        devid,
        size_bytes,
        state: MemberState::InSync,
        lacks_repairs: false,
        is_kept_out: false,
        write_mostly: false,
        rotational: None,
        optimal_io_bytes: None,
        priority: 0,
    };
    let members: Vec<LabelledMember> = (1..=count).map(member).collect();
    let configs: Vec<MemberConfig> =
        members.iter().map(|it| MemberConfig::new(it.devid, it.size_bytes)).collect();
    let mut array = LabelledArray {
        uuid: Uuid([9; 16]),
        name: "volume".to_owned(),
        profile,
        layout: ArrayLayout::BTRFS,
        stripe_width_max: None,
        block_bytes: if has_checksums { 4096 } else { 512 },
        has_checksums,
        map_checksum: 0,
    };
    array.map_checksum = map_checksum(&array.chunk_map(&configs).unwrap());
    Label {
        array,
        generation: 2,
        lineage: Lineage::new(DataId(1)),
        is_clean: true,
        resync_from: None,
        policy: "first".to_owned(),
        program: None,
        members,
        spares: Vec::new(),
        bad_blocks_generation: 0,
        is_read_only: false,
    }
}

/// A volume that starts with this label and these regions unsynced.
fn volume_of(label: Label, unsynced: Vec<u32>) -> Volume {
    start(label, unsynced, false)
}

fn read_only_volume_of(label: Label) -> Volume {
    start(label, Vec::new(), true).read_only()
}

fn start(label: Label, unsynced: Vec<u32>, is_read_only: bool) -> Volume {
    let states: Vec<MemberState> = label.members.iter().map(|row| row.state).collect();
    let labels = VolumeLabels {
        slots: vec![0; label.members.len()],
        bad_blocks: BadBlocks::default(),
        bad_blocks_generation: 0,
        bad_blocks_slots: vec![0; label.members.len()],
        label,
        behind: Vec::new(),
        is_joined: false,
        announced: Vec::new(),
        sequence: 10,
        least_sequence: 9,
        unsynced,
        scrub: None,
        stale: None,
        map_generation: 0,
        catching_up: Vec::new(),
        seed: 1,
    };
    volume_with(labels, &states, Box::new(First), is_read_only)
}

/// A volume that starts with these labels, and members in these states.
fn volume_with(
    labels: VolumeLabels,
    states: &[MemberState],
    policy: Box<dyn ReadPolicy>,
    is_read_only: bool,
) -> Volume {
    let mut configs = labels.label.map_configs();
    let map = labels.label.array.chunk_map(&configs).unwrap();
    configs.iter_mut().zip(states).for_each(|(config, &state)| config.state = state);
    let (block_bytes, seed) = (labels.label.array.block_bytes, labels.seed);
    let store =
        |map: &ChunkMap, states: &mut _| Some(StoreGate::new(labels, map, states, is_read_only));
    let volume = Volume::with_gate(map, Members::new(configs), policy, seed, store);
    volume.with_block_bytes(block_bytes).with_one_buffer()
}

fn store(volume: &Volume) -> &StoreGate {
    volume.gate().unwrap()
}

/// The row of a member in the last label.
fn row(volume: &Volume, member: MemberIndex) -> &LabelledMember {
    &store(volume).label().members[member.get()]
}

fn command<R>(volume: &mut Volume, change: impl FnOnce(&mut StoreGate, &mut Array<'_>) -> R) -> R {
    volume.change_gate(change).unwrap()
}

fn fail_member(volume: &mut Volume, member: MemberIndex) {
    volume.lose_member(member);
    command(volume, |store, array| store.update_labels(array));
}

fn request(id: u64, (kind, offset, length): Span) -> Request {
    Request { id: RequestId(id), kind, offset, length, stream: 0, cpu: 0, background: false }
}

/// All member I/O that can be handed out now.
fn ios(volume: &mut Volume, now: Nanos) -> Vec<MemberIo> {
    std::iter::from_fn(|| volume.poll_io(now)).collect()
}

fn complete(volume: &mut Volume, ios: &[MemberIo], now: Nanos) {
    ios.iter().for_each(|io| _ = volume.complete(io.id, Ok(()), now));
}

/// Hands out and completes member I/O until there is none; returns all.
fn complete_all(volume: &mut Volume, now: Nanos) -> Vec<MemberIo> {
    let next = || volume.poll_io(now).inspect(|io| _ = volume.complete(io.id, Ok(()), now));
    std::iter::from_fn(next).collect()
}

/// Lets time pass, three seconds after three seconds; returns all member I/O.
fn pass(volume: &mut Volume, ticks: u64) -> Vec<MemberIo> {
    let tick = |tick| {
        let now = Nanos::from_secs(tick * 3);
        volume.on_timeout(now);
        complete_all(volume, now)
    };
    (1..=ticks).flat_map(tick).collect()
}

/// Runs a request to its end, with these results of member I/O.
fn run_with(
    volume: &mut Volume,
    range: Span,
    mut result: impl FnMut(&MemberIo) -> Result<(), IoError>,
) -> Result<(), VolumeError> {
    volume.submit(request(1, range));
    while let Some(io) = volume.poll_io(Nanos::ZERO) {
        volume.complete(io.id, result(&io), Nanos::ZERO);
    }
    volume.poll_reply().expect("it has ended").result
}

/// Runs a request to its end; those member I/Os fail that `fails` returns true for.
fn run(
    volume: &mut Volume,
    range: Span,
    mut fails: impl FnMut(&MemberIo) -> bool,
) -> Result<(), VolumeError> {
    run_with(volume, range, |io| if fails(io) { Err(IoError::Transport) } else { Ok(()) })
}

fn is_label(io: &MemberIo) -> bool {
    io.op == Op::Write && LABEL_SLOTS.contains(&io.offset)
}

fn is_record(io: &MemberIo) -> bool {
    let slots = DIRTY_LOG_OFFSET..DIRTY_LOG_OFFSET + u64::from(DIRTY_LOG_BYTES);
    io.op == Op::Write && slots.contains(&io.offset)
}
