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
