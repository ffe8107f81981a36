//! Members whose files were truncated.

use super::*;
use crate::units::KIB;
use std::cell::Cell;

/// What it has left is no base for a rebuild of what it missed.
#[test]
fn a_member_that_lost_data_is_rebuilt_whole() {
    let mut volume = volume_of(new_label(Profile::Raid1, 2, 11 * MIB, false), Vec::new());
    let write = (RequestKind::Write, 0, 4096);
    assert_eq!(run(&mut volume, write, |_| false), Ok(()));
    volume.on_data_lost(MemberIndex(1), 4 * MIB);
    assert_eq!(run(&mut volume, write, |_| false), Ok(()));
    let label = volume.label().unwrap();
    assert_eq!(label.members[1].state, MemberState::Failed);
    assert!(volume.label().unwrap().members[1].has_lost_data);
}

/// What is left of the last member is read, and nothing else; the labels say so.
#[test]
fn the_last_member_that_lost_data_keeps_its_beginning() {
    let mut volume = volume_of(new_label(Profile::Raid1, 2, 11 * MIB, false), Vec::new());
    volume.lose_member(MemberIndex(1));
    assert_eq!(run(&mut volume, (RequestKind::Write, 0, 4096), |_| false), Ok(()));
    volume.on_data_lost(MemberIndex(0), 5 * MIB + 100);
    let kept = MemberState::Rebuilding { recovered_bytes: 5 * MIB };
    assert_eq!(volume.members()[MemberIndex(0)].state, kept);
    assert_eq!(run(&mut volume, (RequestKind::Read, 0, 4096), |_| false), Ok(()));
    let behind = (RequestKind::Read, 8 * MIB, 4096);
    assert_eq!(run(&mut volume, behind, |_| false), Err(VolumeError::Unreadable));
    let write = (RequestKind::Write, 8 * MIB, 4096);
    assert_eq!(run(&mut volume, write, |_| false), Err(VolumeError::Unwritable));
    let flush = (RequestKind::Flush, 0, 0);
    assert_eq!(run(&mut volume, flush, |_| false), Err(VolumeError::Unwritable));
    assert_eq!(volume.label().unwrap().members[0].state, kept);
    volume.on_data_lost(MemberIndex(0), 6 * MIB);
    assert_eq!(volume.members()[MemberIndex(0)].state, kept, "a write made the file longer");
    volume.on_data_lost(MemberIndex(0), 4 * MIB);
    let kept = MemberState::Rebuilding { recovered_bytes: 4 * MIB };
    assert_eq!(volume.members()[MemberIndex(0)].state, kept);
}

/// Each of several reads in flight finds it, while another update of the labels is under way.
#[test]
fn what_is_left_is_recorded_though_the_cut_is_found_again() {
    let mut volume = volume_of(new_label(Profile::Raid1, 2, 11 * MIB, false), Vec::new());
    volume.lose_member(MemberIndex(1));
    volume.update_labels();
    volume.on_data_lost(MemberIndex(0), 5 * MIB);
    volume.on_data_lost(MemberIndex(0), 6 * MIB);
    assert_eq!(run(&mut volume, (RequestKind::Read, 0, 4096), |_| false), Ok(()));
    let kept = MemberState::Rebuilding { recovered_bytes: 5 * MIB };
    assert_eq!(volume.label().unwrap().members[0].state, kept);
}

/// A member that came back and got what it had missed is no longer one that lacks only that.
#[test]
fn a_member_that_caught_up_and_lost_data_is_not_caught_up_again() {
    let mut volume = volume_of(new_label(Profile::Raid1, 2, 11 * MIB, false), Vec::new());
    let [first, second] = [MemberIndex(0), MemberIndex(1)];
    volume.set_member_state(first, MemberState::Failed);
    volume.set_member_state(first, MemberState::Rebuilding { recovered_bytes: 0 });
    volume.states.set_catching_up(first, true);
    let rebuild = (RequestKind::Rebuild(first), 0, 11 * MIB);
    assert_eq!(run(&mut volume, rebuild, |_| false), Ok(()));
    assert_eq!(volume.members()[first].state, MemberState::InSync);
    assert!(!volume.is_catching_up(first), "it is in sync");
    volume.states.set_catching_up(first, true);
    volume.lose_member(second);
    assert_eq!(run(&mut volume, (RequestKind::Write, 0, 4096), |_| false), Ok(()));
    volume.on_data_lost(first, 5 * MIB);
    assert!(!volume.is_catching_up(first), "it lacks more than it missed");
}

/// A write that failed on the last member may be acknowledged because another got it. Then it must
/// not be read from that one, though it is in the part that was not cut.
#[test]
fn a_member_that_lacks_a_write_keeps_nothing() {
    let mut volume = volume_of(new_label(Profile::Raid1, 2, 21 * MIB, false), Vec::new());
    let [last, other] = [MemberIndex(0), MemberIndex(1)];
    volume.set_member_state(other, MemberState::Failed);
    volume.set_member_state(other, MemberState::Rebuilding { recovered_bytes: 0 });
    assert_eq!(run(&mut volume, (RequestKind::Rebuild(other), 0, 8 * MIB), |_| false), Ok(()));
    volume.submit(Request {
        id: RequestId(8),
        kind: RequestKind::Write,
        offset: 64 * KIB,
        length: 4096,
        stream: 0,
        cpu: 0,
        background: false,
    });
    let mut held = None;
    while let Some(io) = volume.poll_io(Nanos::ZERO) {
        let is_write = io.purpose == Purpose::User && io.op == Op::Write;
        match is_write && io.member == other {
            true => held = Some(io),
            false if is_write => _ = volume.complete(io.id, Err(IoError::Transport), Nanos::ZERO),
            false => _ = volume.complete(io.id, Ok(()), Nanos::ZERO),
        }
    }
    volume.on_data_lost(last, 6 * MIB);
    volume.complete(held.unwrap().id, Ok(()), Nanos::ZERO);
    while let Some(io) = volume.poll_io(Nanos::ZERO) {
        volume.complete(io.id, Ok(()), Nanos::ZERO);
    }
    assert_eq!(volume.poll_reply().map(|reply| reply.result), Some(Ok(())));
    assert!(!volume.members()[last].is_in_sync(MIB + 64 * KIB, 4096), "it never got it");
}

/// A write to what is gone fails; it is of no part that is left.
#[test]
fn what_is_left_stays_though_the_cut_is_found_again_after_a_failed_write() {
    let mut volume = volume_of(new_label(Profile::Raid1, 2, 11 * MIB, false), Vec::new());
    let last = MemberIndex(0);
    volume.lose_member(MemberIndex(1));
    let write = (RequestKind::Write, 8 * MIB, 4096);
    assert_eq!(run(&mut volume, write, |_| false), Ok(()));
    let (kind, offset, length) = write;
    let request =
        Request { id: RequestId(8), kind, offset, length, stream: 0, cpu: 0, background: false };
    volume.submit(request);
    let io = volume.poll_io(Nanos::ZERO).expect("the write");
    assert_eq!((io.op, io.purpose), (Op::Write, Purpose::User));
    volume.on_data_lost(last, 5 * MIB);
    volume.complete(io.id, Err(IoError::Transport), Nanos::ZERO);
    assert!(volume.may_lack_writes(last, 10 * MIB), "the end of the write is held");
    volume.on_data_lost(last, 6 * MIB);
    let kept = MemberState::Rebuilding { recovered_bytes: 5 * MIB };
    assert_eq!(volume.members()[last].state, kept);
}

/// It is in sync, as before.
#[test]
fn the_last_member_that_has_all_that_is_used_lost_nothing() {
    let mut label = new_label(Profile::Raid1, 2, 11 * MIB, false);
    label.members[0].size_bytes = 20 * MIB;
    let mut volume = volume_of(label, Vec::new());
    let [last, other] = [MemberIndex(0), MemberIndex(1)];
    volume.lose_member(other);
    volume.on_data_lost(last, 11 * MIB);
    assert_eq!(volume.members()[last].state, MemberState::InSync);
    volume.on_data_lost(last, 11 * MIB - 4096);
    assert_ne!(volume.members()[last].state, MemberState::InSync);
}

/// A volume of two members, of which the second is catching up and has its first 8 MiB.
fn catching_up(member_bytes: u64) -> (Volume, [MemberIndex; 2]) {
    let mut volume = volume_of(new_label(Profile::Raid1, 2, member_bytes, false), Vec::new());
    let [first, second] = [MemberIndex(0), MemberIndex(1)];
    volume.lose_member(second);
    assert_eq!(run(&mut volume, (RequestKind::Write, 0, 4096), |_| false), Ok(()));
    let base = volume.label().unwrap().lineage.complete_id();
    volume.log.as_mut().unwrap().stale.set_base(Some(base.unwrap()));
    volume.set_member_state(second, MemberState::Rebuilding { recovered_bytes: 0 });
    volume.states.set_catching_up(second, true);
    let rebuild = (RequestKind::Rebuild(second), 0, 8 * MIB);
    assert_eq!(run(&mut volume, rebuild, |_| false), Ok(()));
    (volume, [first, second])
}

fn do_all(volume: &mut Volume, now: Nanos) {
    while let Some(io) = volume.poll_io(now) {
        volume.complete(io.id, Ok(()), now);
    }
}

fn submit(volume: &mut Volume, kind: RequestKind, offset: u64, length: u64) {
    let id = RequestId(8);
    volume.submit(Request { id, kind, offset, length, stream: 0, cpu: 0, background: false });
}

#[test]
fn a_member_that_catches_up_and_is_cut_behind_its_offset_is_rebuilt_whole() {
    let (mut volume, [first, second]) = catching_up(21 * MIB);
    // So the second cannot be failed.
    volume.on_data_lost(first, 16 * MIB);
    volume.on_data_lost(second, 10 * MIB);
    let rest = (RequestKind::Rebuild(second), 8 * MIB, 13 * MIB);
    let result = run(&mut volume, rest, |_| false);
    let state = volume.members()[second].state;
    assert!(!volume.members()[second].is_in_sync(12 * MIB, MIB), "{result:?} {state:?}");
}

#[test]
fn a_step_of_a_rebuild_does_not_count_if_what_it_wrote_may_be_cut_off() {
    let (mut volume, [first, second]) = catching_up(21 * MIB);
    volume.on_data_lost(first, 16 * MIB);
    do_all(&mut volume, Nanos::ZERO);
    submit(&mut volume, RequestKind::Rebuild(second), 8 * MIB, MIB);
    let mut held = None;
    while let Some(io) = volume.poll_io(Nanos::ZERO) {
        match io.op == Op::Flush && io.purpose != Purpose::Metadata {
            true => held = Some(io),
            false => _ = volume.complete(io.id, Ok(()), Nanos::ZERO),
        }
    }
    volume.on_data_lost(second, 8 * MIB);
    volume.complete(held.unwrap().id, Ok(()), Nanos::ZERO);
    do_all(&mut volume, Nanos::ZERO);
    let state = volume.members()[second].state;
    assert!(!volume.members()[second].is_in_sync(8 * MIB, MIB), "{state:?}");
}

#[test]
fn a_flush_fails_during_which_a_cut_is_found() {
    let mut volume = volume_of(new_label(Profile::Raid1, 2, 21 * MIB, false), Vec::new());
    let [first, second] = [MemberIndex(0), MemberIndex(1)];
    volume.lose_member(second);
    assert_eq!(run(&mut volume, (RequestKind::Write, 12 * MIB, 4096), |_| false), Ok(()));
    submit(&mut volume, RequestKind::Flush, 0, 0);
    let io = volume.poll_io(Nanos::ZERO).unwrap();
    assert_eq!(io.op, Op::Flush);
    volume.on_data_lost(first, 6 * MIB);
    volume.complete(io.id, Ok(()), Nanos::ZERO);
    do_all(&mut volume, Nanos::ZERO);
    let reply = volume.poll_reply().map(|reply| reply.result);
    assert_eq!(reply, Some(Err(VolumeError::Unwritable)), "the write at 12 MiB is lost");
}

#[test]
fn writes_that_fail_behind_the_cut_stop_no_others() {
    let label = new_label(Profile::Raid1, 2, 6000 * MIB, false);
    let mut volume = volume_of(label, Vec::new());
    let [first, second] = [MemberIndex(0), MemberIndex(1)];
    volume.lose_member(second);
    let write = |at: u64| (RequestKind::Write, at, 4096);
    assert_eq!(run(&mut volume, write(0), |_| false), Ok(()));
    volume.on_data_lost(first, 1000 * MIB);
    for region in 0..1001 {
        let at = 1100 * MIB + region * 4 * MIB;
        assert!(run(&mut volume, write(at), |_| false).is_err(), "{region}");
    }
    assert_eq!(volume.next_unsynced(0), None, "no mirror there is in sync");
    assert_eq!(run(&mut volume, write(8 * MIB), |_| false), Ok(()));
    // Where mirrors differed before.
    volume.add_unsynced(1100 * MIB..1104 * MIB);
    let resync = (RequestKind::Resync, 1100 * MIB, 4 * MIB);
    assert_eq!(run(&mut volume, resync, |_| panic!("there is nothing to read")), Ok(()));
    assert_eq!(volume.next_unsynced(0), None);
}

#[test]
fn a_member_goes_on_catching_up_if_the_other_is_cut() {
    let (mut volume, [first, second]) = catching_up(61 * MIB);
    volume.on_data_lost(first, 32 * MIB);
    assert_eq!(run(&mut volume, (RequestKind::Write, 0, 4096), |_| false), Ok(()));
    for seconds in [3, 6, 9, 12] {
        let now = Nanos::from_secs(seconds);
        volume.on_timeout(now);
        do_all(&mut volume, now);
    }
    submit(&mut volume, RequestKind::Rebuild(second), 8 * MIB, 53 * MIB);
    do_all(&mut volume, Nanos::from_secs(12));
    let reply = volume.poll_reply().map(|it| it.result);
    assert_eq!(reply, Some(Ok(())), "it has all data");
}

#[test]
fn a_failed_member_that_lost_data_is_marked_in_its_own_label_too() {
    let mut volume = volume_of(new_label(Profile::Raid1, 2, 21 * MIB, false), Vec::new());
    let second = MemberIndex(1);
    let own_label = |volume: &mut Volume| {
        let mut last = None;
        while let Some(io) = volume.poll_io(Nanos::ZERO) {
            if io.member == second && io.purpose == Purpose::Metadata && io.op == Op::Write {
                last = Label::decode(&volume.metadata_bytes(&io), io.offset).ok();
            }
            volume.complete(io.id, Ok(()), Nanos::ZERO);
        }
        last.map(|found| found.label.members[1].clone())
    };
    volume.on_data_lost(second, 10 * MIB);
    let row = own_label(&mut volume).expect("its own label says so");
    assert!(row.state == MemberState::Failed && row.has_lost_data, "{row:?}");
    assert!(volume.label().unwrap().members[1].has_lost_data);
    // One that failed before is marked; what its device says is not known.
    let mut volume = volume_of(new_label(Profile::Raid1, 2, 21 * MIB, false), Vec::new());
    volume.lose_member(second);
    assert_eq!(run(&mut volume, (RequestKind::Write, 0, 4096), |_| false), Ok(()));
    volume.on_data_lost(second, 10 * MIB);
    assert_eq!(own_label(&mut volume), None);
    assert!(volume.label().unwrap().members[1].has_lost_data);
}

#[test]
fn a_read_only_volume_fails_no_member_that_is_cut() {
    let volume = volume_of(new_label(Profile::Raid1, 2, 21 * MIB, false), Vec::new());
    let mut volume = volume.read_only();
    volume.on_data_lost(MemberIndex(0), 16 * MIB);
    volume.on_data_lost(MemberIndex(1), 10 * MIB);
    assert!(volume.members()[MemberIndex(0)].is_in_sync(12 * MIB, MIB));
}

#[test]
fn labels_claim_no_progress_of_a_rebuild_that_is_not_flushed() {
    let label = new_label(Profile::Raid10, 4, 1001 * MIB, false);
    let mut volume = volume_of(label, Vec::new());
    let [second, third] = [MemberIndex(1), MemberIndex(2)];
    volume.lose_member(second);
    assert_eq!(run(&mut volume, (RequestKind::Write, 0, 4096), |_| false), Ok(()));
    volume.set_member_state(second, MemberState::Rebuilding { recovered_bytes: 0 });
    let rebuild = (RequestKind::Rebuild(second), 0, 8 * MIB);
    assert_eq!(run(&mut volume, rebuild, |_| false), Ok(()));
    volume.on_data_lost(third, 16 * MIB);
    do_all(&mut volume, Nanos::ZERO);
    assert!(volume.is_complete());
    volume.on_data_lost(second, 10 * MIB);
    do_all(&mut volume, Nanos::ZERO);
    let recorded = volume.label().unwrap().members[1].state;
    assert_eq!(recorded, MemberState::Rebuilding { recovered_bytes: 0 });
}

#[test]
fn a_region_is_synchronised_of_which_two_mirrors_have_the_beginning() {
    let (mut volume, [first, _]) = catching_up(21 * MIB);
    volume.add_unsynced(4 * MIB..8 * MIB);
    volume.on_data_lost(first, 7 * MIB);
    do_all(&mut volume, Nanos::ZERO);
    let copied = Cell::new(0);
    let result = run(&mut volume, (RequestKind::Resync, 4 * MIB, 4 * MIB), |io| {
        let is_copy = io.op == Op::Write && io.purpose == Purpose::Rebuild;
        copied.set(copied.get() + if is_copy { io.length } else { 0 });
        false
    });
    assert_eq!((result, copied.get()), (Ok(()), 2 * MIB), "5 to 7 MiB of the second member");
    assert_eq!(volume.next_unsynced(0), None);
}

#[test]
fn a_failed_write_across_the_end_of_what_is_left_leaves_mirrors_that_may_differ() {
    let (mut volume, [first, second]) = catching_up(21 * MIB);
    volume.on_data_lost(first, 9 * MIB);
    do_all(&mut volume, Nanos::ZERO);
    let write = (RequestKind::Write, 7 * MIB - 65536, MIB + 131_072);
    let is_of_second = |io: &MemberIo| io.member == second && io.purpose == Purpose::User;
    assert!(run(&mut volume, write, is_of_second).is_err());
    assert!(volume.is_unsynced(&(7 * MIB - 65536..7 * MIB)));
}
