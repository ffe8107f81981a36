//! Torn entries of the journal.

use super::*;
use crate::units::KIB;

/// A write failed midway while a member was missing, so what that member had there is lost, and no
/// member is rebuilt. Once it is written again, all is well, without a restart.
#[test]
fn a_write_of_what_is_lost_ends_a_torn_entry_and_lets_a_rebuild_go_on() {
    let mut volume = volume_of(new_label(Profile::Raid5, 3, 21 * MIB, false), Vec::new());
    let map = volume.map();
    let stripe = map.full_stripe(0).unwrap();
    let [lost, bad] = [0, 1].map(|column| map.column(&stripe, column).0);
    let size_bytes = volume.members()[lost].config.size_bytes;
    volume.set_member_state(lost, MemberState::Failed);
    let write = |column: u64| (RequestKind::Write, column * 64 * KIB + 8192, 4096);
    let in_place = |io: &MemberIo| io.member == bad && io.purpose == Purpose::User;
    let refused = Err(VolumeError::Unwritable);
    assert_eq!(run(&mut volume, write(1), |io| io.op == Op::Write && in_place(io)), refused);
    assert_eq!(volume.unfinished_writes(), 1);
    volume.set_member_state(lost, MemberState::Rebuilding { recovered_bytes: 0 });
    let rebuild = (RequestKind::Rebuild(lost), 0, size_bytes);
    assert!(run(&mut volume, rebuild, |_| false).is_err());
    assert_eq!(run(&mut volume, write(1), |_| false), refused, "the parity needs what is lost");
    let ios = std::cell::RefCell::new(Vec::new());
    let record = |io: &MemberIo| {
        ios.borrow_mut().extend((io.purpose == Purpose::User).then_some((io.op, io.member)));
        false
    };
    assert_eq!(run(&mut volume, write(0), record), Ok(()));
    let writes = ios.into_inner().into_iter().filter(|(op, _)| *op == Op::Write).count();
    assert_eq!(writes, 3, "all columns: a restart would write the torn entry first");
    assert_eq!(volume.unfinished_writes(), 0);
    assert_eq!(run(&mut volume, rebuild, |_| false), Ok(()));
    assert_eq!(volume.members()[lost].state, MemberState::InSync);
}

/// Runs a request while the medium of a member cannot be read; `None` if the request hangs.
fn run_on_bad_medium(
    volume: &mut Volume,
    (kind, offset, length): (RequestKind, u64, u64),
    bad: MemberIndex,
) -> Option<Result<(), VolumeError>> {
    let id = RequestId(1);
    let request = Request { id, kind, offset, length, stream: 0, cpu: 0, background: false };
    volume.submit(request);
    while let Some(io) = volume.poll_io(Nanos::ZERO) {
        let is_bad = io.member == bad && io.op == Op::Read;
        let result = if is_bad { Err(IoError::Medium) } else { Ok(()) };
        volume.complete(io.id, result, Nanos::ZERO);
    }
    volume.poll_reply().map(|reply| reply.result)
}

/// An entry that ended stays as long as the torn one before it, which only a resync of its rows
/// mends: so no repair of the rows of a read waits for it.
#[test]
fn a_read_of_what_was_written_after_a_torn_entry_waits_for_no_resync() {
    let mut volume = volume_of(new_label(Profile::Raid5, 3, 21 * MIB, false), Vec::new());
    let map = volume.map();
    let stripe = map.full_stripe(0).unwrap();
    let [rebuilt, bad, parity] = [0, 1, 2].map(|column| map.column(&stripe, column).0);
    volume.set_member_state(rebuilt, MemberState::Failed);
    volume.set_member_state(rebuilt, MemberState::Rebuilding { recovered_bytes: 0 });
    // Its beginning is in sync, so no other member may fail.
    assert_eq!(run(&mut volume, (RequestKind::Rebuild(rebuilt), 0, 8 * MIB), |_| false), Ok(()));
    let in_place = |io: &MemberIo| io.op == Op::Write && io.purpose == Purpose::User;
    let tears = |io: &MemberIo| io.member == parity && in_place(io);
    let refused = Err(VolumeError::Unwritable);
    let at = |row: u64, length: u64| (64 * KIB + row, length);
    let request = |kind, (offset, length)| (kind, offset, length);
    assert_eq!(run(&mut volume, request(RequestKind::Write, at(0, 8192)), tears), refused);
    for row in [4096, 8192] {
        let write = request(RequestKind::Write, at(row, 8192));
        assert_eq!(run(&mut volume, write, |_| false), Ok(()));
    }
    assert_eq!(volume.unfinished_writes(), 1);
    for row in [8192, 12288] {
        let read = request(RequestKind::Read, at(row, 4096));
        let result = run_on_bad_medium(&mut volume, read, bad);
        assert_eq!(result, Some(Ok(())), "rows {row}");
    }
    let write = request(RequestKind::Write, at(8192, 4096));
    assert_eq!(run(&mut volume, write, |_| false), Ok(()));
    assert_eq!(run(&mut volume, (RequestKind::Resync, 0, 4 * MIB), |_| false), Ok(()));
    assert_eq!(volume.unfinished_writes(), 0);
}

/// The rows of a torn entry were written, and are torn by the next one.
#[test]
fn a_resync_mends_rows_that_were_torn_twice_with_a_write_in_between() {
    let mut volume = volume_of(new_label(Profile::Raid5, 3, 21 * MIB, false), Vec::new());
    let map = volume.map();
    let stripe = map.full_stripe(0).unwrap();
    let [rebuilt, parity] = [0, 2].map(|column| map.column(&stripe, column).0);
    volume.set_member_state(rebuilt, MemberState::Failed);
    volume.set_member_state(rebuilt, MemberState::Rebuilding { recovered_bytes: 0 });
    assert_eq!(run(&mut volume, (RequestKind::Rebuild(rebuilt), 0, 8 * MIB), |_| false), Ok(()));
    let in_place = |io: &MemberIo| io.op == Op::Write && io.purpose == Purpose::User;
    let tears = |io: &MemberIo| io.member == parity && in_place(io);
    let refused = Err(VolumeError::Unwritable);
    let write = |row: u64| (RequestKind::Write, 64 * KIB + row, 8192);
    assert_eq!(run(&mut volume, write(0), tears), refused);
    assert_eq!(run(&mut volume, write(8192), tears), refused);
    assert_eq!(run(&mut volume, write(4096), |_| false), Ok(()));
    assert_eq!(run(&mut volume, write(2048), tears), refused);
    assert_eq!(volume.unfinished_writes(), 3);
    assert_eq!(run(&mut volume, (RequestKind::Resync, 0, 4 * MIB), |_| false), Ok(()));
    assert_eq!(volume.unfinished_writes(), 0);
}
