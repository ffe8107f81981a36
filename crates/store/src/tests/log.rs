//! The dirty log: when records are written, and when regions leave.

use super::*;
use crate::dirty_log::REGIONS_AHEAD;
use crate::label::DIRTY_REGIONS_MAX;

fn write(region: u64) -> Span {
    (RequestKind::Write, region * REGION_BYTES, 4096)
}

/// A volume whose last member failed a flush: all regions stay in its log, which is full.
fn full_of_lost_writes() -> Volume {
    let mut volume = volume_of(new_label(Profile::Raid1, 2, 5 << 30, false), Vec::new());
    volume.set_member_state(MemberIndex(1), MemberState::Failed);
    for region in 0..DIRTY_REGIONS_MAX as u64 {
        assert_eq!(run(&mut volume, write(region), |_| false), Ok(()));
    }
    let is_flush = |io: &MemberIo| io.op == Op::Flush;
    assert_eq!(run(&mut volume, FLUSH, is_flush), Err(VolumeError::Unwritable));
    volume
}

/// Regions with writes that a failed flush may have lost stay in the log: after a crash their data
/// may not match their checksums.
#[test]
fn regions_stay_in_the_log_after_a_failed_flush_on_the_last_member() {
    let mut volume = full_of_lost_writes();
    pass(&mut volume, 9);
    assert_eq!(store(&volume).active_regions(), DIRTY_REGIONS_MAX);
    assert_eq!(run(&mut volume, write(7), |_| false), Ok(()));
    let in_another = run(&mut volume, write(DIRTY_REGIONS_MAX as u64), |_| false);
    assert_eq!(in_another, Err(VolumeError::Unwritable), "the log is full");
}

/// The log refuses the write when its lock is granted, and nothing else happens then.
#[test]
fn a_write_that_waited_for_a_lock_ends_though_the_log_is_full() {
    let mut volume = full_of_lost_writes();
    let (_, offset, length) = write(DIRTY_REGIONS_MAX as u64);
    volume.submit(request(1, (RequestKind::Scrub, offset, length)));
    volume.submit(request(2, (RequestKind::Write, offset, length)));
    complete_all(&mut volume, Nanos::ZERO);
    let replies = std::iter::from_fn(|| volume.poll_reply()).map(|reply| reply.result);
    assert_eq!(replies.collect::<Vec<_>>(), [Ok(()), Err(VolumeError::Unwritable)]);
}

/// A device in use has a label that is at least as new as its records: else the others with its old
/// label would seem to be old copies, should they be started without the members in sync.
#[test]
fn a_member_that_joins_gets_no_record_before_its_label() {
    let mut label = new_label(Profile::Raid1, 2, 11 * MIB, false);
    let joined = MemberIndex(1);
    label.members[1].state = MemberState::Failed;
    let mut volume = volume_of(label, Vec::new());
    assert_eq!(run(&mut volume, WRITE, |_| false), Ok(()));
    volume.set_member_state(joined, MemberState::Rebuilding { recovered_bytes: 0 });
    let mut ios = pass(&mut volume, 2);
    ios.retain(|io| io.member == joined && io.op == Op::Write);
    let labels = ios.iter().take_while(|io| is_label(io)).count();
    assert_eq!(labels, 2, "announced and committed: {ios:?}");
    assert!(ios.iter().any(is_record), "{ios:?}");
}

/// The data of a device that failed and returns are not known.
#[test]
fn a_member_that_returns_gets_a_record_before_it_is_written() {
    let mut volume = volume_of(new_label(Profile::Raid1, 2, 11 * MIB, false), Vec::new());
    let returned = MemberIndex(1);
    assert_eq!(run(&mut volume, WRITE, |_| false), Ok(()));
    for state in [MemberState::Failed, MemberState::Rebuilding { recovered_bytes: 0 }] {
        volume.set_member_state(returned, state);
    }
    let mut writes = Vec::new();
    let result = run(&mut volume, WRITE, |io| {
        let is_write = io.member == returned && io.op == Op::Write && !is_label(io);
        writes.extend(is_write.then_some(*io));
        false
    });
    assert_eq!(result, Ok(()));
    assert!(is_record(&writes[0]) && writes.len() == 2, "{writes:?}");
}

/// A record and its flush cost milliseconds: writes in order wait for two, whatever their length.
#[test]
fn writes_that_continue_do_not_wait_for_records() {
    const REGIONS: u64 = 100;
    let mut volume = volume_of(new_label(Profile::Raid1, 2, 5 << 30, false), Vec::new());
    let mut records = 0;
    for region in 0..REGIONS {
        volume.submit(request(1, write(region)));
        let mut waits = true;
        for step in 0.. {
            // What is begun before anything has ended waits for nothing.
            let begun = ios(&mut volume, Nanos::ZERO);
            if begun.is_empty() {
                break;
            }
            waits &= step > 0 || begun.iter().all(|io| io.purpose != Purpose::User);
            records += begun.iter().filter(|io| io.member.get() == 0 && is_record(io)).count();
            complete(&mut volume, &begun, Nanos::ZERO);
        }
        assert!(volume.poll_reply().is_some());
        assert_eq!(waits, region < 2, "region {region}");
    }
    let least = u64::from(REGIONS_AHEAD) / 2;
    assert!(records as u64 <= 2 + REGIONS / least, "{records}");
}

/// Writes that are far apart get no regions into the log ahead of them.
#[test]
fn only_writes_that_continue_get_regions_ahead() {
    let mut volume = volume_of(new_label(Profile::Raid1, 2, 5 << 30, false), Vec::new());
    for region in (0..100).map(|number| number * 7 % 100 * 3) {
        assert_eq!(run(&mut volume, write(region), |_| false), Ok(()));
    }
    assert_eq!(store(&volume).active_regions(), 100);
    assert_eq!(store(&volume).crash_resync_bytes(), 100 * REGION_BYTES);
}

#[test]
fn a_crash_has_nothing_synchronised_where_there_is_a_single_copy() {
    let mut volume = volume_of(new_label(Profile::Raid0, 2, 5 << 30, false), Vec::new());
    assert_eq!(run(&mut volume, write(0), |_| false), Ok(()));
    assert_eq!((store(&volume).active_regions(), store(&volume).crash_resync_bytes()), (1, 0));
}

/// After that no resync makes their mirrors equal.
#[test]
fn regions_leave_the_log_after_a_flush_of_every_member() {
    let mut volume = volume_of(new_label(Profile::Raid1, 2, 11 * MIB, false), Vec::new());
    assert_eq!(run(&mut volume, WRITE, |_| false), Ok(()));
    assert_eq!(store(&volume).active_regions(), 1);
    let mut flushed = Vec::new();
    while store(&volume).active_regions() > 0 {
        let now = volume.poll_timeout().expect("an active region is looked at again");
        volume.on_timeout(now);
        flushed.clear();
        while store(&volume).active_regions() > 0
            && let Some(io) = volume.poll_io(now)
        {
            flushed.extend((io.op == Op::Flush).then_some(io.member));
            volume.complete(io.id, Ok(()), now);
        }
    }
    flushed.sort();
    assert_eq!(flushed, [MemberIndex(0), MemberIndex(1)]);
}

/// Mirrors may come to differ while the members are flushed for regions to leave.
#[test]
fn a_region_stays_in_the_log_whose_mirrors_come_to_differ_while_it_is_about_to_leave() {
    let mut volume = volume_of(new_label(Profile::Raid1, 2, 11 * MIB, false), Vec::new());
    assert_eq!(run(&mut volume, WRITE, |_| false), Ok(()));
    // Idle since the tick before, the region leaves when the flush ends.
    pass(&mut volume, 1);
    let now = Nanos::from_secs(6);
    volume.on_timeout(now);
    let flushes = ios(&mut volume, now);
    assert!(flushes.len() == 2 && flushes.iter().all(|io| io.op == Op::Flush), "{flushes:?}");
    command(&mut volume, |store, _| store.add_unsynced(0..4096));
    complete(&mut volume, &flushes, now);
    complete_all(&mut volume, now);
    assert_eq!(store(&volume).active_regions(), 1, "a crash has it synchronised");
}

/// A member that stays may have the record without a region, though another one failed to write it.
#[test]
fn a_write_waits_for_a_record_after_one_without_its_region_that_a_member_lacks() {
    let mut volume = volume_of(new_label(Profile::Raid1c3, 3, 11 * MIB, false), Vec::new());
    assert_eq!(run(&mut volume, write(0), |_| false), Ok(()));
    pass(&mut volume, 1);
    // Idle since the tick before, the region leaves. One member fails the record that says so.
    let (now, mut dropped) = (Nanos::from_secs(6), false);
    volume.on_timeout(now);
    while let Some(io) = volume.poll_io(now) {
        let fails = is_record(&io) && io.member.get() == 2;
        dropped |= is_record(&io) && !fails;
        volume.complete(io.id, if fails { Err(IoError::Transport) } else { Ok(()) }, now);
    }
    assert!(dropped && store(&volume).active_regions() == 0);
    // The first write has a record begun, the second one comes while that is under way.
    volume.submit(request(1, write(0)));
    let mut ios = Vec::new();
    while !ios.iter().any(is_record) {
        complete(&mut volume, &ios, now);
        ios = self::ios(&mut volume, now);
        assert!(!ios.is_empty(), "a record is written");
    }
    volume.submit(request(2, (RequestKind::Write, 8192, 4096)));
    let early = self::ios(&mut volume, now);
    assert!(early.iter().all(|io| io.purpose != Purpose::User), "{early:?}");
    complete(&mut volume, &ios, now);
    complete(&mut volume, &early, now);
    complete_all(&mut volume, now);
    let results = std::iter::from_fn(|| volume.poll_reply()).map(|reply| reply.result);
    assert_eq!(results.collect::<Vec<_>>(), [Ok(()), Ok(())]);
}

/// An operator fails it, because its device does not answer.
#[test]
fn a_write_goes_on_without_a_member_that_fails_while_metadata_are_in_flight() {
    for steps in 0..4 {
        let mut volume = volume_of(new_label(Profile::Raid1, 2, 11 * MIB, true), Vec::new());
        let hangs = |io: &MemberIo| io.member.get() == 1 && io.purpose == Purpose::Metadata;
        volume.submit_write(request(1, WRITE), &[1; 4096]);
        let mut hung = Vec::new();
        for step in 0.. {
            let ios = ios(&mut volume, Nanos::ZERO);
            let (late, now): (Vec<_>, Vec<_>) =
                ios.into_iter().partition(|io| hangs(io) && step >= steps);
            hung.extend(late);
            if now.is_empty() {
                break;
            }
            complete(&mut volume, &now, Nanos::ZERO);
        }
        assert!(!hung.is_empty() && volume.poll_reply().is_none(), "after {steps} steps");
        fail_member(&mut volume, MemberIndex(1));
        complete_all(&mut volume, Nanos::ZERO);
        assert_eq!(volume.poll_reply().expect("it has ended").result, Ok(()));
        complete(&mut volume, &hung, Nanos::ZERO);
        assert_eq!(complete_all(&mut volume, Nanos::ZERO), [], "nobody waits for its end");
        assert_eq!(row(&volume, MemberIndex(1)).state, MemberState::Failed);
    }
}
