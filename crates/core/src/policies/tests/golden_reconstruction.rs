//! Which columns of a full stripe policies and modifiers leave out.

use super::script::members;
use crate::column_set::ColumnSet;
use crate::io::{IoId, MemberIo, Op, Outcome, Purpose, ReadRole, RequestId};
use crate::member::{MemberConfig, MemberIndex, Members};
use crate::policies::Spec;
use crate::policy::{Ctx, Mirror, ReadPolicy, StripeRead};
use crate::rng::Rng;
use crate::units::Nanos;

/// An array of one full stripe per read, of which column c is on member c.
struct Stripes {
    policy: Box<dyn ReadPolicy>,
    members: Members,
    spare: usize,
    now: Nanos,
    rng: Rng,
    reads: u64,
}

impl Stripes {
    fn new(spec: &str, number: u64, spare: usize, adjust: fn(&mut MemberConfig)) -> Stripes {
        let configs = members(number, adjust);
        let devids: Vec<u64> = configs.iter().map(|config| config.devid).collect();
        let mut policy = Spec::parse(spec).unwrap().build(&devids).unwrap();
        let members = Members::new(configs);
        policy.on_members_change(&members);
        Stripes { policy, members, spare, now: Nanos::ZERO, rng: Rng::new(1), reads: 0 }
    }

    /// The columns left out of a read of 4 KiB of these columns.
    fn leave_out(&mut self, wanted: &[u8]) -> Vec<u8> {
        let count = self.members.len() as u8;
        let read = StripeRead {
            offset: 0,
            length: 4096,
            stream: 0,
            background: false,
            wanted: ColumnSet::of(wanted.iter().copied()),
            eligible: ColumnSet::range(0..count),
            spare: self.spare,
        };
        let place = |copy: u8| Mirror { member: MemberIndex(copy.into()), offset: 0, copy };
        let columns: Vec<Mirror> = (0..count).map(place).collect();
        let ctx = &mut Ctx { now: self.now, members: &self.members, rng: &mut self.rng };
        let left_out = self.policy.leave_out(&read, &columns, ctx);
        assert!(left_out.count() <= self.spare);
        left_out.iter().collect()
    }

    /// Starts a read of a member, far from the one before.
    fn start(&mut self, member: u16) -> MemberIo {
        self.reads += 1;
        let io = MemberIo {
            id: IoId(self.reads),
            request: RequestId(self.reads),
            member: MemberIndex(member),
            op: Op::Read,
            purpose: Purpose::User,
            offset: self.reads % 97 * 1_048_576,
            length: 4096,
            volume_offset: 0,
            stream: 0,
            background: false,
            role: ReadRole::Stripe,
            submitted_at: self.now,
        };
        self.members.get_mut(io.member).account_submission(&io);
        let ctx = &mut Ctx { now: self.now, members: &self.members, rng: &mut self.rng };
        self.policy.on_submit(&io, ctx);
        io
    }

    fn end(&mut self, io: &MemberIo) {
        let wait = self.now - io.submitted_at;
        let outcome = Outcome { result: Ok(()), completed_at: self.now, wait, superseded: false };
        self.members.get_mut(io.member).account_completion(io, &outcome);
        let ctx = &mut Ctx { now: self.now, members: &self.members, rng: &mut self.rng };
        self.policy.on_complete(io, &outcome, ctx);
    }

    /// Reads each member some times, alone; `waits_us` is what each takes.
    fn learn(&mut self, waits_us: &[u64], times: u64) {
        for _ in 0..times {
            for (member, &wait_us) in (0..).zip(waits_us) {
                self.leave_out(&[member as u8]);
                let io = self.start(member);
                self.now += Nanos::from_micros(wait_us);
                self.end(&io);
            }
        }
    }
}

fn flash(config: &mut MemberConfig) {
    config.rotational = false;
}

#[test]
fn policies_that_do_not_reconstruct_are_not_asked() {
    for spec in
        ["mirrorball/first", "md/raid1", "zfs/mirror+hedge", "mirrorball/auto:reconstruction"]
    {
        let policy = Spec::parse(spec).unwrap().build(&[1, 2]).unwrap();
        assert!(!policy.reconstructs(), "{spec}");
    }
    for spec in
        ["mirrorball/auto", "first+autosit", "first+fail-slow+hedge", "md/raid1+write-mostly:2"]
    {
        let policy = Spec::parse(spec).unwrap().build(&[1, 2]).unwrap();
        assert!(policy.reconstructs(), "{spec}");
    }
}

#[test]
fn write_mostly_leaves_its_members_out_as_far_as_parity_allows() {
    let mut stripes = Stripes::new("first+write-mostly:2", 4, 1, |_| {});
    assert_eq!(stripes.leave_out(&[0]), [1], "column 1 is on devid 2");
    let mut stripes = Stripes::new("first+write-mostly:2+write-mostly:4", 4, 1, |_| {});
    assert_eq!(stripes.leave_out(&[0]).len(), 1, "one is to spare");
    let mut stripes = Stripes::new("first+write-mostly:2+write-mostly:4", 5, 2, |_| {});
    assert_eq!(stripes.leave_out(&[0]), [1, 3]);
}

/// The same figures as with mirrors: 5 points a second for the slow one, out with more than 20.
#[test]
fn autosit_sits_out_no_more_members_than_there_are_parities() {
    for (spare, expected) in [(2, vec![0]), (0, vec![])] {
        let mut stripes = Stripes::new("first+autosit", 6, spare, |_| {});
        for second in 1..=5 {
            assert_eq!(stripes.leave_out(&[0]), [] as [u8; 0], "{} points", 5 * (second - 1));
            stripes.learn(&[400_000, 2000, 2200, 2400, 2600, 2800], 1);
            stripes.now = Nanos::from_millis(1000 * second);
        }
        assert_eq!(stripes.leave_out(&[0]), expected, "{spare} to spare");
        stripes.now = Nanos::from_millis(606_000);
        assert_eq!(stripes.leave_out(&[0]), [] as [u8; 0], "after ten minutes");
    }
}

#[test]
fn auto_leaves_equal_members_alone_however_busy_they_are() {
    for adjust in [flash as fn(&mut MemberConfig), |_| {}] {
        let mut stripes = Stripes::new("mirrorball/auto", 5, 1, adjust);
        stripes.learn(&[8000; 5], 40);
        assert_eq!(stripes.leave_out(&[0]), [] as [u8; 0]);
        for _ in 0..20 {
            stripes.start(0);
        }
        assert_eq!(stripes.leave_out(&[0]), [] as [u8; 0], "20 in flight, none elsewhere");
    }
}

#[test]
fn auto_recovers_what_a_slow_member_holds() {
    // Four disks of 8 ms and one of 40: the last of four takes 8 x (2 - 2/5) = 12.8 ms.
    let mut stripes = Stripes::new("mirrorball/auto", 5, 1, |_| {});
    stripes.learn(&[40_000, 8000, 8000, 8000, 8000], 40);
    assert_eq!(stripes.leave_out(&[0]), [0]);
    assert_eq!(stripes.leave_out(&[1]), [] as [u8; 0], "another is not slow");
    assert_eq!(stripes.leave_out(&[0, 1, 2, 3]), [0], "a whole row, with the parity instead");
    // With eight in flight on each of the others, the four reads delay 32.
    for member in 1..5 {
        (0..8).for_each(|_| {
            stripes.start(member);
        });
    }
    assert_eq!(stripes.leave_out(&[0]), [] as [u8; 0], "the others are too busy");
}

#[test]
fn auto_takes_the_cheapest_others() {
    let mut stripes = Stripes::new("mirrorball/auto", 6, 2, flash);
    stripes.learn(&[3000, 100, 100, 300, 100, 100], 40);
    assert_eq!(stripes.leave_out(&[0]), [0, 3]);
    assert_eq!(stripes.leave_out(&[0, 3]), [0, 3], "both are three times as slow as others");
}

/// A member with a read in flight for far longer than reads take.
#[test]
fn auto_recovers_what_a_stalled_member_holds() {
    for (adjust, is_flash) in [(flash as fn(&mut MemberConfig), true), (|_| {}, false)] {
        let mut stripes = Stripes::new("mirrorball/auto", 5, 1, adjust);
        stripes.learn(&[1000; 5], 40);
        let stalled = stripes.start(2);
        assert_eq!(stripes.leave_out(&[2]), [] as [u8; 0]);
        stripes.now += Nanos::from_millis(50);
        assert_eq!(stripes.leave_out(&[2]), [2]);
        assert_eq!(stripes.leave_out(&[3]), [] as [u8; 0]);
        stripes.end(&stalled);
        // The mean of a disk takes the 50 ms for an access; that of flash does not.
        assert_eq!(stripes.leave_out(&[2]).is_empty(), is_flash);
    }
}

#[test]
fn auto_reads_a_slow_member_now_and_then_to_see_whether_it_is_still_slow() {
    let mut stripes = Stripes::new("mirrorball/auto", 5, 1, flash);
    stripes.learn(&[3000, 100, 100, 100, 100], 40);
    assert_eq!(stripes.leave_out(&[0]), [0]);
    stripes.now += Nanos::from_millis(64 * 3 + 2);
    assert_eq!(stripes.leave_out(&[0]), [] as [u8; 0], "once in 64 times 3 ms");
    let io = stripes.start(0);
    stripes.now += Nanos::from_micros(100);
    stripes.end(&io);
    assert_eq!(stripes.leave_out(&[0]), [] as [u8; 0], "and it has recovered");
}
