//! Repairs of what a scrub found.

use super::*;
use crate::label::{STALE_MAP_BYTES, STALE_MAP_OFFSET};
use std::cell::Cell;

/// Writes to a region, and waits until it has left the log.
fn write_until_idle(volume: &mut Volume, region: u64) {
    let write = (RequestKind::Write, region * REGION_BYTES, 4096);
    assert_eq!(run(volume, write, |_| false), Ok(()));
    for tick in 1..6 {
        let now = Nanos::from_secs(tick * 3);
        volume.on_timeout(now);
        while let Some(io) = volume.poll_io(now) {
            volume.complete(io.id, Ok(()), now);
        }
    }
}

#[test]
fn a_member_that_fails_in_a_repair_of_a_mirror_is_rebuilt_whole() {
    let mut volume = volume_of(new_label(Profile::Raid1, 2, 41 * MIB, false), Vec::new());
    let [good, bad] = [MemberIndex(0), MemberIndex(1)];
    let fails = |io: &MemberIo| io.member == bad && io.purpose == Purpose::Repair;
    let result = run(&mut volume, (RequestKind::Repair(good), 0, 4096), fails);
    assert_eq!(result, Ok(()), "no mirror differs");
    let row = &volume.label().unwrap().members[bad.get()];
    assert!(row.state == MemberState::Failed && row.lacks_repairs, "{row:?}");
}

#[test]
fn a_repair_waits_until_it_is_on_record_that_a_missing_member_lacks_it() {
    let mut volume = volume_of(new_label(Profile::Raid1c3, 3, 41 * MIB, false), Vec::new());
    volume.lose_member(MemberIndex(2));
    write_until_idle(&mut volume, 5);
    let maps = Cell::new(0);
    // The map has the region that was written to.
    for (region, expected) in [(1, 2), (1, 2), (5, 2), (6, 4)] {
        let repair = (RequestKind::Repair(MemberIndex(0)), region * REGION_BYTES, 4096);
        let result = run(&mut volume, repair, |io| {
            let slots = STALE_MAP_OFFSET..STALE_MAP_OFFSET + u64::from(STALE_MAP_BYTES);
            let is_map = io.op == Op::Write && slots.contains(&io.offset);
            maps.set(maps.get() + u32::from(is_map));
            if io.purpose == Purpose::Repair {
                assert_eq!(maps.get(), expected, "both members, for region {region}");
            }
            false
        });
        assert_eq!(result, Ok(()));
    }
}
