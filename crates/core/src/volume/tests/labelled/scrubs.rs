//! Repairs of what a scrub found.

use super::*;
use crate::label::{STALE_MAP_BYTES, STALE_MAP_OFFSET};
use crate::volume::durability::region_numbers;
use std::cell::Cell;

/// Runs a request to its end, in whose stripes these rows are found wrong.
fn run_stripes(
    volume: &mut Volume,
    (kind, offset, length): (RequestKind, u64, u64),
    wrong: &[WrongRows],
    fails: impl Fn(&MemberIo) -> bool,
) -> Result<(), VolumeError> {
    let id = RequestId(1);
    volume.submit(Request { id, kind, offset, length, stream: 0, cpu: 0, background: false });
    loop {
        while let Some(io) = volume.poll_io(Nanos::ZERO) {
            let result = if fails(&io) { Err(IoError::Medium) } else { Ok(()) };
            volume.complete(io.id, result, Nanos::ZERO);
        }
        match volume.poll_stripe_step() {
            Some((buffer, StripeStep::Verify(_))) => volume.on_verified(buffer, wrong),
            Some(_) => {}
            None => return volume.poll_reply().expect("it has ended").result,
        }
    }
}

/// Writes to a region, and waits until it has left the log.
fn write_until_idle(volume: &mut Volume, region: u64) {
    let write = (RequestKind::Write, region * REGION_BYTES, 4096);
    assert_eq!(run_stripes(volume, write, &[], |_| false), Ok(()));
    for tick in 1..6 {
        let now = Nanos::from_secs(tick * 3);
        volume.on_timeout(now);
        while let Some(io) = volume.poll_io(now) {
            volume.complete(io.id, Ok(()), now);
        }
    }
}

/// No write of a client tells that the member lacks the repair.
#[test]
fn a_member_that_fails_in_a_repair_of_a_stripe_gets_its_region_when_it_comes_back() {
    let mut volume = volume_of(new_label(Profile::Raid5, 3, 41 * MIB, false), Vec::new());
    // The stripe is in two regions.
    let stripe = volume.map().full_stripe(2 * REGION_BYTES - 4096).unwrap();
    let rows = stripe.strip_bytes - 4096..stripe.strip_bytes;
    let parity = volume.map().column(&stripe, stripe.data).0;
    let repair = (RequestKind::RepairStripes, stripe.volume_offset, 4096);
    let wrong = [WrongRows { rows, column: None }];
    let is_data = |io: &MemberIo| io.op == Op::Write && io.purpose != Purpose::Metadata;
    let fails = |io: &MemberIo| io.member == parity && is_data(io);
    let result = run_stripes(&mut volume, repair, &wrong, fails);
    assert_eq!(result, Err(VolumeError::Unwritable));
    assert_eq!(volume.members()[parity].state, MemberState::Failed);
    assert_eq!(volume.label().unwrap().members[parity.get()].state, MemberState::Failed);
    write_until_idle(&mut volume, 5);
    volume.set_member_state(parity, MemberState::Rebuilding { recovered_bytes: 0 });
    volume.states.set_catching_up(parity, true);
    let regions = (0..8).filter(|&region| volume.may_lack(parity, region));
    let end = stripe.volume_offset + stripe.length();
    let mut expected: Vec<u32> = region_numbers(&(stripe.volume_offset..end)).collect();
    expected.push(5);
    assert_eq!(regions.collect::<Vec<u32>>(), expected);
}

#[test]
fn a_member_that_fails_in_a_repair_of_a_mirror_is_rebuilt_whole() {
    let mut volume = volume_of(new_label(Profile::Raid1, 2, 41 * MIB, false), Vec::new());
    let [good, bad] = [MemberIndex(0), MemberIndex(1)];
    let fails = |io: &MemberIo| io.member == bad && io.purpose == Purpose::Repair;
    let result = run(&mut volume, (RequestKind::Repair(good), 0, 4096), fails);
    assert_eq!(result, Ok(()), "no mirror differs");
    let row = &volume.label().unwrap().members[bad.get()];
    assert!(row.state == MemberState::Failed && row.has_lost_data, "{row:?}");
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
