//! Volumes with labels, and a member that holds none of the data.

mod repairs;
mod scrubs;
mod starts;

use super::*;
use crate::geometry::ArrayLayout;
use crate::label::{DataId, Label, LabelledArray, LabelledMember, Lineage, Uuid, map_checksum};

/// The label of a new volume of members of one size. Data with checksums have blocks of 4 KiB.
pub(super) fn new_label(
    profile: Profile,
    count: u64,
    size_bytes: u64,
    has_checksums: bool,
) -> Label {
    let member = |devid: u64| LabelledMember {
        uuid: Uuid([devid as u8; 16]),
        devid,
        size_bytes,
        state: MemberState::InSync,
        lacks_repairs: false,
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
        is_read_only: false,
    }
}

/// A volume that starts with this label and these regions unsynced.
pub(super) fn volume_of(label: Label, unsynced: Vec<u32>) -> Volume {
    let mut configs = label.map_configs();
    let map = label.array.chunk_map(&configs).unwrap();
    configs.iter_mut().zip(&label.members).for_each(|(config, row)| config.state = row.state);
    let has_checksums = label.array.has_checksums;
    let labels = VolumeLabels {
        slots: vec![0; label.members.len()],
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
    let volume = Volume::new(map, Members::new(configs), Box::new(First), 1).with_labels(labels);
    match has_checksums {
        true => volume.with_block_bytes(4096).with_checksums(),
        false => volume,
    }
}

/// The others' records say from which sequence number on a member in sync has one. Without it, the
/// member would be taken for an old copy at the next start.
#[test]
fn a_member_without_data_gets_a_record_before_it_is_in_sync() {
    let mut label = new_label(Profile::Raid1, 3, 11 * MIB, false);
    let empty = MemberIndex(2);
    label.members[2].state = MemberState::Rebuilding { recovered_bytes: 0 };
    let map = label.array.chunk_map(&label.map_configs()).unwrap();
    let size_bytes = label.members[2].size_bytes;
    assert!(map.allocated(empty).is_empty(), "two of three hold the only chunk");
    let mut volume = volume_of(label, Vec::new());
    volume.submit(Request {
        id: RequestId(1),
        kind: RequestKind::Rebuild(empty),
        offset: 0,
        length: size_bytes,
        stream: 0,
        cpu: 0,
        background: true,
    });
    let mut ios = Vec::new();
    while let Some(io) = volume.poll_io(Nanos::ZERO) {
        volume.complete(io.id, Ok(()), Nanos::ZERO);
        ios.push(io);
    }
    assert_eq!(volume.poll_reply().map(|reply| reply.result), Some(Ok(())));
    assert_eq!(volume.members()[empty].state, MemberState::InSync);
    let label_slots = crate::label::LABEL_SLOTS;
    let record = ios.iter().position(|io| {
        io.member == empty && io.op == Op::Write && !label_slots.contains(&io.offset)
    });
    let label = ios.iter().rposition(|io| label_slots.contains(&io.offset));
    assert!(record.is_some() && record < label, "{ios:?}");
}

/// Runs a request to its end; those member I/Os fail that `fails` returns true for.
fn run(
    volume: &mut Volume,
    (kind, offset, length): (RequestKind, u64, u64),
    fails: impl Fn(&MemberIo) -> bool,
) -> Result<(), VolumeError> {
    let id = RequestId(1);
    let request = Request { id, kind, offset, length, stream: 0, cpu: 0, background: false };
    volume.submit(request);
    while let Some(io) = volume.poll_io(Nanos::ZERO) {
        let result = if fails(&io) { Err(IoError::Transport) } else { Ok(()) };
        volume.complete(io.id, result, Nanos::ZERO);
    }
    volume.poll_reply().expect("it has ended").result
}

/// A write is acknowledged, another member is gone, and the flush of the label that is to say so
/// fails: it may have lost the write, whatever later flushes say.
#[test]
fn after_a_failed_flush_of_metadata_no_flush_succeeds_until_another_member_has_all() {
    let label = new_label(Profile::Raid1, 2, 11 * MIB, false);
    let size_bytes = label.members[0].size_bytes;
    let mut volume = volume_of(label, Vec::new());
    let (write, flush) = ((RequestKind::Write, 0, 4096), (RequestKind::Flush, 0, 0));
    assert_eq!(run(&mut volume, write, |_| false), Ok(()));
    let (kept, lost) = (MemberIndex(0), MemberIndex(1));
    volume.set_member_state(lost, MemberState::Failed);
    let is_flush = |io: &MemberIo| io.op == Op::Flush;
    assert_eq!(run(&mut volume, write, is_flush), Err(VolumeError::Unwritable));
    assert_eq!(volume.members()[kept].state, MemberState::InSync, "it is the last");
    assert_eq!(run(&mut volume, flush, |_| false), Err(VolumeError::Unwritable));
    assert_eq!(run(&mut volume, write, |_| false), Ok(()), "the label was written again");
    assert_eq!(run(&mut volume, flush, |_| false), Err(VolumeError::Unwritable));
    volume.set_member_state(lost, MemberState::Rebuilding { recovered_bytes: 0 });
    assert_eq!(run(&mut volume, (RequestKind::Rebuild(lost), 0, size_bytes), |_| false), Ok(()));
    assert_eq!(run(&mut volume, flush, |_| false), Ok(()));
    let states = [kept, lost].map(|member| volume.members()[member].state);
    assert_eq!(states, [MemberState::Failed, MemberState::InSync]);
}

/// A flush of a client fails while a label is written to the last member: the flush of the label
/// that succeeds afterwards does not make it durable.
#[test]
fn a_label_that_another_flush_may_have_lost_is_written_again() {
    let mut label = new_label(Profile::Raid1, 2, 11 * MIB, false);
    label.members[1].state = MemberState::Failed;
    let mut volume = volume_of(label, Vec::new());
    let request = |id: u64, kind, length| {
        let id = RequestId(id);
        Request { id, kind, offset: 0, length, stream: 0, cpu: 0, background: false }
    };
    volume.submit(request(1, RequestKind::Write, 4096));
    let is_label = |io: &MemberIo| crate::label::LABEL_SLOTS.contains(&io.offset);
    let first = volume.poll_io(Nanos::ZERO).unwrap();
    assert!(first.op == Op::Write && is_label(&first), "{first:?}");
    volume.complete(first.id, Ok(()), Nanos::ZERO);
    volume.submit(request(2, RequestKind::Flush, 0));
    let mut labels = vec![first];
    while let Some(io) = volume.poll_io(Nanos::ZERO) {
        let fails = io.op == Op::Flush && io.purpose == Purpose::User;
        let result = if fails { Err(IoError::Transport) } else { Ok(()) };
        volume.complete(io.id, result, Nanos::ZERO);
        labels.extend((io.op == Op::Write && is_label(&io)).then_some(io));
    }
    volume.submit(request(3, RequestKind::Write, 4096));
    while let Some(io) = volume.poll_io(Nanos::ZERO) {
        volume.complete(io.id, Ok(()), Nanos::ZERO);
        labels.extend((io.op == Op::Write && is_label(&io)).then_some(io));
    }
    let slots: Vec<u64> = labels.iter().map(|io| io.offset).collect();
    let [first, second] = crate::label::LABEL_SLOTS;
    assert_eq!(slots, [second, first, first], "announced, and committed twice");
}

/// Regions with writes that a failed flush may have lost stay in the log: after a crash their data
/// may not match their checksums.
#[test]
fn regions_stay_in_the_log_after_a_failed_flush_on_the_last_member() {
    let count = crate::label::DIRTY_REGIONS_MAX as u64;
    let mut volume = volume_of(new_label(Profile::Raid1, 2, 5 << 30, false), Vec::new());
    volume.set_member_state(MemberIndex(1), MemberState::Failed);
    let write = |region: u64| (RequestKind::Write, region * REGION_BYTES, 4096);
    for region in 0..count {
        assert_eq!(run(&mut volume, write(region), |_| false), Ok(()));
    }
    let flush = (RequestKind::Flush, 0, 0);
    let is_flush = |io: &MemberIo| io.op == Op::Flush;
    assert_eq!(run(&mut volume, flush, is_flush), Err(VolumeError::Unwritable));
    for tick in 1..10 {
        volume.on_timeout(Nanos::from_secs(tick * 3));
        while let Some(io) = volume.poll_io(Nanos::from_secs(tick * 3)) {
            volume.complete(io.id, Ok(()), Nanos::from_secs(tick * 3));
        }
    }
    assert_eq!(volume.active_regions() as u64, count);
    assert_eq!(run(&mut volume, write(7), |_| false), Ok(()));
    let in_another = run(&mut volume, write(count), |_| false);
    assert_eq!(in_another, Err(VolumeError::Unwritable), "the log is full");
}

fn is_record(io: &MemberIo) -> bool {
    let begin = crate::label::DIRTY_LOG_OFFSET;
    io.op == Op::Write
        && (begin..begin + u64::from(crate::label::DIRTY_LOG_BYTES)).contains(&io.offset)
}

/// A device in use has a label that is at least as new as its records: else the others with its old
/// label would seem to be old copies, should they be started without the members in sync.
#[test]
fn a_member_that_joins_gets_no_record_before_its_label() {
    let mut label = new_label(Profile::Raid1, 2, 11 * MIB, false);
    let joined = MemberIndex(1);
    label.members[1].state = MemberState::Failed;
    let mut volume = volume_of(label, Vec::new());
    assert_eq!(run(&mut volume, (RequestKind::Write, 0, 4096), |_| false), Ok(()));
    volume.set_member_state(joined, MemberState::Rebuilding { recovered_bytes: 0 });
    let mut ios = Vec::new();
    for tick in 1..3 {
        let now = Nanos::from_secs(tick * 3);
        volume.on_timeout(now);
        while let Some(io) = volume.poll_io(now) {
            volume.complete(io.id, Ok(()), now);
            ios.extend((io.member == joined).then_some(io));
        }
    }
    let is_label = |io: &MemberIo| crate::label::LABEL_SLOTS.contains(&io.offset);
    let labels = ios.iter().filter(|io| io.op == Op::Write).take_while(|io| is_label(io)).count();
    assert_eq!(labels, 2, "announced and committed: {ios:?}");
    assert!(ios.iter().any(is_record), "{ios:?}");
}

/// A record and its flush cost milliseconds: writes in order wait for two, whatever their length.
#[test]
fn writes_that_continue_do_not_wait_for_records() {
    const REGIONS: u64 = 100;
    let mut volume = volume_of(new_label(Profile::Raid1, 2, 5 << 30, false), Vec::new());
    let mut records = 0;
    for region in 0..REGIONS {
        let offset = region * REGION_BYTES;
        let id = RequestId(1);
        let kind = RequestKind::Write;
        volume.submit(Request {
            id,
            kind,
            offset,
            length: 4096,
            stream: 0,
            cpu: 0,
            background: false,
        });
        let mut waits = true;
        for step in 0.. {
            // What is begun before anything has ended waits for nothing.
            let begun: Vec<MemberIo> = std::iter::from_fn(|| volume.poll_io(Nanos::ZERO)).collect();
            if begun.is_empty() {
                break;
            }
            waits &= step > 0 || begun.iter().all(|io| io.purpose != Purpose::User);
            records += begun.iter().filter(|io| io.member.get() == 0 && is_record(io)).count();
            begun.iter().for_each(|io| _ = volume.complete(io.id, Ok(()), Nanos::ZERO));
        }
        assert!(volume.poll_reply().is_some());
        assert_eq!(waits, region < 2, "region {region}");
    }
    let least = u64::from(super::super::dirty_log::REGIONS_AHEAD) / 2;
    assert!(records as u64 <= 2 + REGIONS / least, "{records}");
}

/// What is far apart gets no more into the log than what is written to.
#[test]
fn only_writes_that_continue_get_regions_ahead() {
    let mut volume = volume_of(new_label(Profile::Raid1, 2, 5 << 30, false), Vec::new());
    for region in (0..100).map(|number| number * 7 % 100 * 3) {
        let write = (RequestKind::Write, region * REGION_BYTES, 4096);
        assert_eq!(run(&mut volume, write, |_| false), Ok(()));
    }
    assert_eq!(volume.active_regions(), 100);
    assert_eq!(volume.crash_resync_bytes(), 100 * REGION_BYTES);
}

/// A member was rebuilt, and the one with the data is gone before its label says so: by that label
/// it starts alone. So nothing is written without it, until it has another label.
#[test]
fn no_member_is_failed_for_one_that_its_label_does_not_call_in_sync() {
    let mut label = new_label(Profile::Raid1, 2, 11 * MIB, false);
    let (kept, rebuilt) = (MemberIndex(0), MemberIndex(1));
    let size_bytes = label.members[1].size_bytes;
    label.members[1].state = MemberState::Rebuilding { recovered_bytes: 10 * MIB };
    let (rebuild, write) = (RequestKind::Rebuild(rebuilt), (RequestKind::Write, 0, 4096));
    let written = std::cell::Cell::new(0);
    let is_gone_after = |labels: u32| {
        written.set(0);
        let written = &written;
        move |io: &MemberIo| {
            let is_label = io.op == Op::Write && crate::label::LABEL_SLOTS.contains(&io.offset);
            written.set(written.get() + u32::from(is_label && io.member == kept));
            written.get() > labels && io.member == kept
        }
    };
    let rebuild = (rebuild, 10 * MIB, size_bytes - 10 * MIB);
    let mut volume = volume_of(label.clone(), Vec::new());
    assert_eq!(run(&mut volume, rebuild, is_gone_after(u32::MAX)), Ok(()));
    let count = written.get();
    // The last update is announced, and then committed.
    for (labels, is_announced) in [(count - 2, false), (count - 1, true)] {
        let mut volume = volume_of(label.clone(), Vec::new());
        assert_eq!(run(&mut volume, rebuild, is_gone_after(labels)), Ok(()));
        assert_eq!(volume.members()[rebuilt].state, MemberState::InSync);
        let is_written = run(&mut volume, write, |io| io.member == kept).is_ok();
        let is_failed = volume.members()[kept].state == MemberState::Failed;
        assert_eq!((is_written, is_failed), (is_announced, is_announced));
    }
}

/// A discard that a member missed which stays: its mirror is made equal.
#[test]
fn mirrors_are_synchronised_after_a_discard_that_one_missed() {
    let mut volume = volume_of(new_label(Profile::Raid1, 2, 11 * MIB, false), Vec::new());
    let other = MemberIndex(1);
    let misses = |io: &MemberIo| io.op == Op::Discard && io.member == other;
    assert_eq!(run(&mut volume, (RequestKind::Discard, 0, 4096), misses), Ok(()));
    assert_eq!(volume.members()[other].state, MemberState::InSync);
    assert_eq!(volume.unsynced_bytes(), REGION_BYTES);
}

/// After that no resync makes their mirrors equal.
#[test]
fn regions_leave_the_log_after_a_flush_of_every_member() {
    let mut volume = volume_of(new_label(Profile::Raid1, 2, 11 * MIB, false), Vec::new());
    assert_eq!(run(&mut volume, (RequestKind::Write, 0, 4096), |_| false), Ok(()));
    assert_eq!(volume.active_regions(), 1);
    let mut flushed = Vec::new();
    while volume.active_regions() > 0 {
        let now = volume.poll_timeout().expect("an active region is looked at again");
        volume.on_timeout(now);
        flushed.clear();
        while volume.active_regions() > 0
            && let Some(io) = volume.poll_io(now)
        {
            flushed.extend((io.op == Op::Flush).then_some(io.member));
            volume.complete(io.id, Ok(()), now);
        }
    }
    flushed.sort();
    assert_eq!(flushed, [MemberIndex(0), MemberIndex(1)]);
}

/// A crash would make the member in sync again, and lose what was replied to.
#[test]
fn a_write_and_a_flush_end_after_the_labels_say_that_a_member_missed_them() {
    let lost = MemberIndex(0);
    for (kind, op, length) in
        [(RequestKind::Write, Op::Write, 4096), (RequestKind::Flush, Op::Flush, 0)]
    {
        let mut volume = volume_of(new_label(Profile::Raid1, 2, 11 * MIB, false), Vec::new());
        assert_eq!(run(&mut volume, (RequestKind::Write, 0, 4096), |_| false), Ok(()));
        let id = RequestId(2);
        volume.submit(Request {
            id,
            kind,
            offset: 0,
            length,
            stream: 0,
            cpu: 0,
            background: false,
        });
        while let Some(io) = volume.poll_io(Nanos::ZERO) {
            assert_eq!(volume.poll_reply(), None, "before {io:?}");
            let fails = io.member == lost && io.op == op && io.purpose == Purpose::User;
            volume.complete(io.id, if fails { Err(IoError::Gone) } else { Ok(()) }, Nanos::ZERO);
        }
        assert_eq!(volume.poll_reply().map(|reply| reply.result), Some(Ok(())));
        assert_eq!(volume.label().unwrap().members[0].state, MemberState::Failed);
    }
}

/// A crash repeats what is behind the recorded offset, and no more.
#[test]
fn progress_of_the_first_synchronisation_is_recorded_after_a_flush() {
    let mut label = new_label(Profile::Raid1, 2, 21 * MIB, false);
    label.resync_from = Some(0);
    let mut volume = volume_of(label, Vec::new());
    let recorded = |volume: &Volume| volume.label().unwrap().resync_from;
    let mut resynced = 0;
    while let Some(range) = volume.next_unsynced(resynced) {
        assert!(!volume.wants_resync_flush());
        let length = range.end - range.start;
        resynced = range.end;
        let resync = (RequestKind::Resync, range.start, length);
        assert_eq!(run(&mut volume, resync, |_| false), Ok(()));
        assert_eq!(recorded(&volume), Some(range.start), "not before the flush");
        let left_bytes = volume.capacity_bytes() - range.start;
        assert_eq!(volume.crash_resync_bytes(), left_bytes);
        assert!(volume.wants_resync_flush());
        let failed = |io: &MemberIo| io.op == Op::Flush && io.member == MemberIndex(1);
        if range.start == 0 {
            // The member is failed for it, and its label must not say more than it has.
            assert_eq!(run(&mut volume, (RequestKind::Flush, 0, 0), failed), Ok(()));
        } else {
            assert_eq!(run(&mut volume, (RequestKind::Flush, 0, 0), |_| false), Ok(()));
        }
        let next = Some(range.end).filter(|&end| end < volume.capacity_bytes());
        assert_eq!(recorded(&volume), next);
    }
    assert_eq!((resynced, recorded(&volume)), (volume.capacity_bytes(), None));
    assert_eq!(volume.crash_resync_bytes(), 0);
}

#[test]
fn a_flush_of_a_read_only_volume_records_nothing() {
    let mut label = new_label(Profile::Raid1, 2, 21 * MIB, false);
    label.resync_from = Some(0);
    let mut volume = volume_of(label, Vec::new()).read_only();
    assert_eq!(run(&mut volume, (RequestKind::Flush, 0, 0), |_| panic!("no I/O")), Ok(()));
    assert_eq!(volume.label().unwrap().resync_from, Some(0));
}
