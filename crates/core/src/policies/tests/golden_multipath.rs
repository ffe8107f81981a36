//! Golden decisions of dm-multipath and NVMe multipath.

use super::script::{Script, Step, complete, members, read, wait};
use crate::member::{MemberIndex, MemberState};

/// Plays this many reads that must all come from one member, on CPU 0.
fn turn(script: &mut Script, reads: u32, from: u64) {
    for number in 0..reads {
        assert_eq!(script.read(0, 4096, 0), from, "read {number} of {reads}");
    }
}

#[test]
fn nvme_adaptive_smooths_batches_of_15_seconds() {
    let mut script = Script::new("nvme/adaptive", members(2, |_| ()));
    let weights = |script: &Script| [1, 2].map(|devid| script.counter("weight", Some(devid)));
    turn(&mut script, 8, 1);
    script.play(&complete(1, 10));
    turn(&mut script, 64, 1);
    turn(&mut script, 1, 2);
    script.follow(&[complete(2, 30), wait(14_999), complete(1, 100)]);
    assert_eq!(weights(&script), [48, 15], "the batch has not ended");
    script.follow(&[wait(1), complete(1, 1001)]);
    assert_eq!(weights(&script), [48, 15], "more than a second does not count");
    script.follow(&[Step::Write { devid: 2, offset: 0, length: 4096 }, complete(2, 500)]);
    assert_eq!(weights(&script), [48, 15], "a write does not count");
    script.follow(&[complete(1, 20)]);
    // The batch is (100 + 20) / 2 = 60; (7 * 10 + 60) / 8 = 16.25 ms, a score of 61 against 33.
    assert_eq!(weights(&script), [41, 22]);
    script.members.get_mut(MemberIndex(0)).state = MemberState::Failed;
    script.policy.on_members_change(&script.members);
    assert_eq!(weights(&script), [0, 22], "a failed member loses its mean");
    script.follow(&[Step::Eligible(&[2]), read(0, 2, "the only one"), Step::Eligible(&[1, 2])]);
    turn(&mut script, 21, 2);
    turn(&mut script, 30, 1);
}
