//! Repairs and rebuilds: what is written without a region in the dirty log or an entry of the
//! journal.

use super::*;
use crate::label::{DIRTY_REGIONS_MAX, LABEL_SLOTS};
use crate::units::KIB;
use crate::volume::unsynced_regions::REGION_BYTES;

fn request(id: u64, (kind, offset, length): (RequestKind, u64, u64)) -> Request {
    Request { id: RequestId(id), kind, offset, length, stream: 0, cpu: 0, background: false }
}

/// A write to a stripe of its own.
fn write(stripe: u64) -> (RequestKind, u64, u64) {
    (RequestKind::Write, stripe * 128 * KIB, 4096)
}

fn ios(volume: &mut Volume) -> Vec<MemberIo> {
    std::iter::from_fn(|| volume.poll_io(Nanos::ZERO)).collect()
}

fn complete(volume: &mut Volume, ios: &[MemberIo]) {
    ios.iter().for_each(|io| _ = volume.complete(io.id, Ok(()), Nanos::ZERO));
}

/// Completes these I/Os and all that follow.
fn complete_all(volume: &mut Volume, mut next: Vec<MemberIo>) {
    while !next.is_empty() {
        complete(volume, &next);
        next = ios(volume);
    }
}

/// Returns true if the volume has replied to each of these requests.
fn has_replied(volume: &mut Volume, requests: &[u64]) -> bool {
    let replies: Vec<u64> =
        std::iter::from_fn(|| volume.poll_reply().map(|it| it.request.0)).collect();
    requests.iter().all(|id| replies.contains(id))
}

/// Writes until entries leave after a flush; returns the last write. Its entry is void, and no
/// durable entry says so.
fn fill(volume: &mut Volume) -> u64 {
    let is_void = |stripe: &u64| {
        let before = volume.journal.as_ref().unwrap().oldest();
        assert_eq!(run(volume, write(*stripe), |_| false), Ok(()));
        let journal = volume.journal.as_ref().unwrap();
        *stripe > 8 && (journal.oldest() > before || journal.void() > 0)
    };
    (0..100).find(is_void).expect("half of the journal is in use")
}

/// Submits a write and completes what precedes its entry in the journal; returns the I/Os of that.
fn submit_up_to_entry(volume: &mut Volume, id: u64, stripe: u64) -> Vec<MemberIo> {
    volume.submit(request(id, write(stripe)));
    let mut entry = Vec::new();
    loop {
        let is_entry = |io: &MemberIo| {
            io.purpose == Purpose::Metadata && io.op == Op::Write && io.offset > 20 * MIB
        };
        let (of_entry, rest): (Vec<MemberIo>, Vec<MemberIo>) =
            ios(volume).into_iter().partition(is_entry);
        entry.extend(of_entry);
        match rest.is_empty() {
            true => return entry,
            false => complete(volume, &rest),
        }
    }
}

/// Submits a read of what a write wrote, whose member cannot read it, up to its repair.
fn submit_bad_read(volume: &mut Volume, id: u64, stripe: u64) {
    let (_, offset, length) = write(stripe);
    volume.submit(request(id, (RequestKind::Read, offset, length)));
    let bad = ios(volume);
    assert_eq!(bad.len(), 1);
    volume.complete(bad[0].id, Err(IoError::Medium), Nanos::ZERO);
    let others = ios(volume);
    assert_eq!(others.len(), 2, "the other columns");
    complete(volume, &others);
}

/// The entry of another write says that no start repeats the rows any more. It was under way when
/// the repair began to wait, and the labels were being written, so no checkpoint began.
#[test]
fn a_durable_entry_wakes_the_repairs_that_wait_for_it() {
    let mut volume = volume_of(new_label(Profile::Raid5, 3, 41 * MIB, false), Vec::new());
    let stripe = fill(&mut volume);
    let entry = submit_up_to_entry(&mut volume, 1, 240);
    assert_eq!(entry.len(), 2);
    assert!(volume.keep_policy("second", None));
    let labels = ios(&mut volume);
    assert!(labels.len() == 3 && labels.iter().all(|io| LABEL_SLOTS.contains(&io.offset)));
    submit_bad_read(&mut volume, 2, stripe);
    assert_eq!(ios(&mut volume), [], "the labels are being written");
    complete_all(&mut volume, entry);
    complete_all(&mut volume, labels);
    volume.submit(request(3, write(stripe)));
    let next = ios(&mut volume);
    complete_all(&mut volume, next);
    assert!(has_replied(&mut volume, &[1, 2, 3]));
}

/// The same, with no slot for a checkpoint.
#[test]
fn a_repair_is_done_though_the_journal_is_full() {
    let mut volume = volume_of(new_label(Profile::Raid5, 3, 41 * MIB, false), Vec::new());
    fill(&mut volume);
    // The oldest entry, behind which all others stay.
    let mut entries = vec![submit_up_to_entry(&mut volume, 100, 100)];
    let stripe = fill(&mut volume);
    for id in 101.. {
        if !volume.journal.as_ref().unwrap().has_slot() {
            break;
        }
        entries.push(submit_up_to_entry(&mut volume, id, id));
    }
    let last = 99 + entries.len() as u64;
    submit_bad_read(&mut volume, 1000, stripe);
    assert_eq!(ios(&mut volume), [], "there is no slot");
    entries.into_iter().rev().for_each(|it| complete_all(&mut volume, it));
    volume.submit(request(1001, write(stripe)));
    let next = ios(&mut volume);
    complete_all(&mut volume, next);
    let all: Vec<u64> = (100..=last).chain([1000, 1001]).collect();
    assert!(has_replied(&mut volume, &all));
}

/// The member that is rebuilt stays, because another one lost data, and lacks what was not written.
#[test]
fn a_rebuild_fails_if_a_member_that_stays_could_not_be_written() {
    let mut volume = volume_of(new_label(Profile::Raid5, 3, 41 * MIB, false), Vec::new());
    let [rebuilt, cut] = [MemberIndex(0), MemberIndex(2)];
    volume.set_member_state(rebuilt, MemberState::Failed);
    volume.set_member_state(rebuilt, MemberState::Rebuilding { recovered_bytes: 0 });
    let rebuild = |begin, length| (RequestKind::Rebuild(rebuilt), begin, length);
    assert_eq!(run(&mut volume, rebuild(0, 8 * MIB), |_| false), Ok(()));
    volume.on_data_lost(cut, 30 * MIB);
    assert_eq!(volume.members()[cut].state, MemberState::Rebuilding { recovered_bytes: 30 * MIB });
    let fails = |io: &MemberIo| {
        io.member == rebuilt && io.op == Op::Write && io.purpose == Purpose::Rebuild
    };
    assert!(run(&mut volume, rebuild(8 * MIB, 4 * MIB), fails).is_err());
    let kept = MemberState::Rebuilding { recovered_bytes: 8 * MIB };
    assert_eq!(volume.members()[rebuilt].state, kept);
    assert_eq!(volume.unfinished_writes(), 0);
    assert_eq!(run(&mut volume, rebuild(8 * MIB, 4 * MIB), |_| false), Ok(()));
}

/// No stale map and no record tells that a member lacks a repair.
#[test]
fn a_member_that_fails_before_a_repair_of_mirrors_is_flushed_is_rebuilt_whole() {
    let [source, repaired] = [MemberIndex(0), MemberIndex(1)];
    let repair = (RequestKind::Repair(source), 0, 4096);
    let has_lost_data = |volume: &mut Volume| {
        assert!(volume.fail_on_request(repaired));
        let labels = ios(volume);
        complete_all(volume, labels);
        volume.label().expect("it has labels").members[repaired.get()].has_lost_data
    };
    let started = || {
        let mut volume = volume_of(new_label(Profile::Raid1, 2, 11 * MIB, false), Vec::new());
        volume.submit(request(1, repair));
        loop {
            let next = ios(&mut volume);
            match next.iter().any(|io| io.purpose == Purpose::Metadata) {
                true => complete(&mut volume, &next),
                false => return (volume, next),
            }
        }
    };
    // While the block is read.
    let (mut volume, read) = started();
    assert_eq!((read.len(), read[0].op, read[0].member), (1, Op::Read, source));
    assert!(has_lost_data(&mut volume));
    // Written, and not flushed.
    let (mut volume, read) = started();
    complete_all(&mut volume, read);
    assert!(has_replied(&mut volume, &[1]));
    assert!(has_lost_data(&mut volume));
    // The same, and it is gone.
    let (mut volume, read) = started();
    complete_all(&mut volume, read);
    volume.submit(request(2, (RequestKind::Write, 0, 4096)));
    loop {
        let next = ios(&mut volume);
        let (own, rest): (Vec<_>, Vec<_>) =
            next.into_iter().partition(|io| io.member == repaired && io.purpose == Purpose::User);
        complete(&mut volume, &rest);
        if let [io] = own[..] {
            volume.complete(io.id, Err(IoError::Gone), Nanos::ZERO);
            break;
        }
    }
    assert!(has_lost_data(&mut volume));
    // Flushed.
    let (mut volume, read) = started();
    complete_all(&mut volume, read);
    while let Some(now) = volume.poll_timeout() {
        volume.on_timeout(now);
        while let Some(io) = volume.poll_io(now) {
            volume.complete(io.id, Ok(()), now);
        }
    }
    assert!(!has_lost_data(&mut volume));
}

/// A write waits for space in the log, and the resync that makes it does not wait behind the write:
/// the regions that it repairs are in the log.
#[test]
fn a_resync_repairs_blocks_though_the_log_is_full() {
    let full: Vec<u32> = (0..DIRTY_REGIONS_MAX as u32).collect();
    let behind = DIRTY_REGIONS_MAX as u64 * REGION_BYTES;
    let size_bytes = behind + (1 << 30);
    let mut volume = volume_of(new_label(Profile::Raid1c3, 3, size_bytes, true), full);
    volume.set_member_state(MemberIndex(2), MemberState::Failed);
    let [write, resync] = [1, 2].map(RequestId);
    let with = |id, kind, offset, length| Request {
        id,
        kind,
        offset,
        length,
        stream: 0,
        cpu: 0,
        background: false,
    };
    volume.submit_write(with(write, RequestKind::Write, behind, 4096), Box::new([1]));
    volume.submit(with(resync, RequestKind::Resync, 0, REGION_BYTES));
    let mut repaired_bytes = 0;
    while let Some(io) = volume.poll_io(Nanos::ZERO) {
        match (io.op, io.purpose) {
            (Op::Read, Purpose::Metadata) => {
                volume.on_metadata_read(io.id, &vec![0; io.length as usize]);
            }
            (Op::Read, _) if volume.is_compared(io.id) => {
                let data = vec![io.member.0 as u8; io.length as usize];
                let checksummer = volume.checksummer().expect("it has checksums");
                let digests = checksummer.digests(io.volume_offset, &data).collect();
                volume.compare(io.id, digests);
            }
            (Op::Write, Purpose::Repair | Purpose::Rebuild) => repaired_bytes += io.length,
            _ => {}
        }
        volume.complete(io.id, Ok(()), Nanos::ZERO);
    }
    assert_eq!(repaired_bytes, REGION_BYTES);
    assert_eq!(volume.poll_reply().map(|it| (it.request, it.result)), Some((resync, Ok(()))));
}

/// After a crash nothing else has to be changed in the labels.
#[test]
fn the_guard_of_a_file_is_recorded_by_itself() {
    let mut volume = volume_of(new_label(Profile::Raid1, 2, 11 * MIB, false), Vec::new());
    let write = |volume: &mut Volume| run(volume, (RequestKind::Write, 0, 4096), |_| false);
    assert_eq!(write(&mut volume), Ok(()));
    volume.set_guard(MemberIndex(0), true);
    assert_eq!(write(&mut volume), Ok(()));
    let has_guard = |row: &LabelledMember| row.has_guard;
    let rows: Vec<bool> = volume.label().unwrap().members.iter().map(has_guard).collect();
    assert_eq!(rows, [true, false]);
}
