//! Repairs: what is written without a region in the dirty log.

use super::*;
use crate::label::{DIRTY_REGIONS_MAX, STALE_MAP_BYTES, STALE_MAP_OFFSET};

/// A repair of the first block that has started: its labels are current.
fn started_repair(source: MemberIndex) -> (Volume, Vec<MemberIo>) {
    let mut volume = volume_of(new_label(Profile::Raid1, 2, 11 * MIB, false), Vec::new());
    volume.submit(request(1, (RequestKind::Repair(source), 0, 4096)));
    loop {
        let next = ios(&mut volume, Nanos::ZERO);
        match next.iter().any(|io| io.purpose == Purpose::Metadata) {
            true => complete(&mut volume, &next, Nanos::ZERO),
            false => return (volume, next),
        }
    }
}

/// When a member fails that was repaired.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum FailsAt {
    Read,
    Written,
    Gone,
    Flushed,
}

/// No stale map and no record tells that a member lacks a repair.
#[test]
fn a_member_that_fails_before_a_repair_of_mirrors_is_flushed_is_rebuilt_whole() {
    let [source, repaired] = [MemberIndex(0), MemberIndex(1)];
    for (at, expected) in [
        (FailsAt::Read, true),
        (FailsAt::Written, true),
        (FailsAt::Gone, true),
        (FailsAt::Flushed, false),
    ] {
        let (mut volume, read) = started_repair(source);
        assert_eq!((read.len(), read[0].op, read[0].member), (1, Op::Read, source));
        if at != FailsAt::Read {
            complete(&mut volume, &read, Nanos::ZERO);
            complete_all(&mut volume, Nanos::ZERO);
            assert_eq!(volume.poll_reply().map(|it| it.result), Some(Ok(())));
        }
        if at == FailsAt::Gone {
            let is_gone = |io: &MemberIo| io.member == repaired && io.purpose == Purpose::User;
            let result = |io: &MemberIo| if is_gone(io) { Err(IoError::Gone) } else { Ok(()) };
            assert_eq!(run_with(&mut volume, WRITE, result), Ok(()));
            assert_eq!(volume.members()[repaired].state, MemberState::Failed);
        }
        while at == FailsAt::Flushed
            && let Some(now) = volume.poll_timeout()
        {
            volume.on_timeout(now);
            complete_all(&mut volume, now);
        }
        fail_member(&mut volume, repaired);
        complete_all(&mut volume, Nanos::from_secs(100));
        assert_eq!(row(&volume, repaired).lacks_repairs, expected, "{at:?}");
    }
}

#[test]
fn a_member_that_fails_in_a_repair_of_a_mirror_is_rebuilt_whole() {
    let mut volume = volume_of(new_label(Profile::Raid1, 2, 41 * MIB, false), Vec::new());
    let [good, bad] = [MemberIndex(0), MemberIndex(1)];
    let fails = |io: &MemberIo| io.member == bad && io.purpose == Purpose::Repair;
    let result = run(&mut volume, (RequestKind::Repair(good), 0, 4096), fails);
    assert_eq!(result, Ok(()), "no mirror differs");
    let row = row(&volume, bad);
    assert!(row.state == MemberState::Failed && row.lacks_repairs, "{row:?}");
}

#[test]
fn a_repair_waits_until_it_is_on_record_that_a_missing_member_lacks_it() {
    let mut volume = volume_of(new_label(Profile::Raid1c3, 3, 41 * MIB, false), Vec::new());
    volume.lose_member(MemberIndex(2));
    // A region leaves the log.
    let write = (RequestKind::Write, 5 * REGION_BYTES, 4096);
    assert_eq!(run(&mut volume, write, |_| false), Ok(()));
    pass(&mut volume, 5);
    let mut maps = 0;
    // The map has the region that was written to.
    for (region, expected) in [(1, 2), (1, 2), (5, 2), (6, 4)] {
        let repair = (RequestKind::Repair(MemberIndex(0)), region * REGION_BYTES, 4096);
        let result = run(&mut volume, repair, |io| {
            let slots = STALE_MAP_OFFSET..STALE_MAP_OFFSET + u64::from(STALE_MAP_BYTES);
            maps += u32::from(io.op == Op::Write && slots.contains(&io.offset));
            if io.purpose == Purpose::Repair {
                assert_eq!(maps, expected, "both members, for region {region}");
            }
            false
        });
        assert_eq!(result, Ok(()));
    }
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
    volume.submit_write(request(1, (RequestKind::Write, behind, 4096)), &[1; 4096]);
    volume.submit(request(2, (RequestKind::Resync, 0, REGION_BYTES)));
    let mut repaired_bytes = 0;
    while let Some(io) = volume.poll_io(Nanos::ZERO) {
        let is_metadata = io.purpose == Purpose::Metadata;
        match io.op {
            Op::Read => {
                let byte = if is_metadata { 0 } else { io.member.0 as u8 };
                assert_eq!(volume.on_read(io.id, &vec![byte; io.length as usize]), Ok(()));
            }
            Op::Write if io.purpose == Purpose::Repair => repaired_bytes += io.length,
            _ => {}
        }
        volume.complete(io.id, Ok(()), Nanos::ZERO);
    }
    assert_eq!(repaired_bytes, REGION_BYTES);
    let reply = volume.poll_reply().map(|it| (it.request, it.result));
    assert_eq!(reply, Some((RequestId(2), Ok(()))));
}
