//! Regions whose mirrors differ.

use super::*;

/// A volume with a region whose mirrors differ.
fn unsynced_volume(members: u64) -> Volume {
    let mut volume = volume_of(new_label(Profile::Raid1, members, 11 * MIB, false), Vec::new());
    command(&mut volume, |store, _| store.add_unsynced(0..REGION_BYTES));
    volume
}

/// The third member has failed, so the volume keeps the one that cannot be written.
#[test]
fn a_region_whose_resync_did_not_reach_a_mirror_stays_unsynced() {
    let mut volume = unsynced_volume(3);
    volume.set_member_state(MemberIndex(2), MemberState::Failed);
    let [source, broken] = [0, 1].map(|mirror| volume.map().map(0, 4096).mirrors[mirror].member);
    let does_not_arrive = |io: &MemberIo| {
        let is_copy = io.op == Op::Write && io.purpose != Purpose::Metadata;
        if is_copy && io.member == broken { Err(IoError::Gone) } else { Ok(()) }
    };
    let resync = (RequestKind::Resync, 0, REGION_BYTES);
    assert_eq!(run_with(&mut volume, resync, does_not_arrive), Err(VolumeError::Unwritable));
    assert_eq!(store(&volume).unsynced_bytes(), REGION_BYTES);
    let states = [source, broken].map(|member| volume.members()[member].state);
    assert_eq!(states, [MemberState::InSync; 2]);
    assert_eq!(run(&mut volume, resync, |_| false), Ok(()));
    assert_eq!(store(&volume).unsynced_bytes(), 0);
    // Nor does a repair count that did not arrive.
    let repair = (RequestKind::Repair(source), 0, 4096);
    assert_eq!(run_with(&mut volume, repair, does_not_arrive), Err(VolumeError::Unwritable));
}

/// The resync may be past the place.
#[test]
fn a_region_stays_unsynced_in_which_mirrors_come_to_differ_during_its_resync() {
    let mut volume = unsynced_volume(2);
    for left in [REGION_BYTES, 0] {
        volume.submit(request(1, (RequestKind::Resync, 0, REGION_BYTES)));
        let mut has_read = false;
        while let Some(io) = volume.poll_io(Nanos::ZERO) {
            let is_read = io.op == Op::Read;
            if is_read && left > 0 && !has_read {
                command(&mut volume, |store, _| store.add_unsynced(4096..8192));
            }
            has_read |= is_read;
            volume.complete(io.id, Ok(()), Nanos::ZERO);
        }
        assert!(has_read);
        assert_eq!(volume.poll_reply().map(|reply| reply.result), Some(Ok(())));
        assert_eq!(store(&volume).unsynced_bytes(), left);
    }
}

/// The resync decides which of the others is right.
#[test]
fn a_scrub_repairs_nothing_where_mirrors_differ() {
    let mut volume = unsynced_volume(3);
    let first = volume.map().map(0, 4096).mirrors[0].member;
    let written = std::cell::Cell::new(0);
    let scrubbed = run_with(&mut volume, (RequestKind::Scrub, 0, 4096), |io| {
        written.set(written.get() + u32::from(io.op == Op::Write));
        let is_bad = io.op == Op::Read && io.member == first;
        if is_bad { Err(IoError::Medium) } else { Ok(()) }
    });
    assert_eq!((scrubbed, written.get()), (Ok(()), 0));
}

/// A discard that a member missed which stays: its mirror is made equal.
#[test]
fn mirrors_are_synchronised_after_a_discard_that_one_missed() {
    let mut volume = volume_of(new_label(Profile::Raid1, 2, 11 * MIB, false), Vec::new());
    let other = MemberIndex(1);
    let misses = |io: &MemberIo| io.op == Op::Discard && io.member == other;
    assert_eq!(run(&mut volume, (RequestKind::Discard, 0, 4096), misses), Ok(()));
    assert_eq!(volume.members()[other].state, MemberState::InSync);
    assert_eq!(store(&volume).unsynced_bytes(), REGION_BYTES);
}
