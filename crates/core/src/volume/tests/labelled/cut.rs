//! Members whose files were truncated.

use super::*;
use crate::units::KIB;

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
    assert_eq!(label.lineage.complete_id(), None);
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
