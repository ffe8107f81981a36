//! kakra's per-member accounts: how long a member has been passed over, and a mean wait that is
//! begun anew when that was too long.
//!
//! At each decision every candidate ages by one and counts one more time ignored; the chosen one
//! is then set back. A member whose age exceeds [`CHECKPOINT_AGE`] is rehabilitated: its statistics
//! so far become the baseline of its mean, and for [`PROBE_DECISIONS`] decisions its mean counts as
//! unknown, which makes it eligible whatever it was.
//!
//! Two points of the origin are open. It says both that a probe lasts 100 decisions and that
//! being chosen sets the age to 0, which would end a probe after one read; [`Probe`] offers both.
//! And it does not say whether the decision that passes the threshold is the first of the 100: here
//! it is. The kernel also ages copies on dead devices; the view shows eligible mirrors only.
//!
//! Source: kakra/linux PR #36 (text of 2025-04-25).

use super::averages::mean_wait_ns;
use crate::member::{MemberIndex, Members};
use crate::policy::{Counter, Mirror};
use crate::units::Nanos;

/// Passed over more often than this in a row, a member is rehabilitated.
pub(crate) const CHECKPOINT_AGE: i64 = 10_000;
/// For how many decisions a rehabilitated member counts as unknown.
pub(crate) const PROBE_DECISIONS: i64 = 100;

/// When a rehabilitated member stops counting as unknown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Probe {
    /// After 100 decisions, chosen or not.
    Window,
    /// When it is first chosen, or after 100 decisions.
    Once,
}

/// The accounts of all members.
#[derive(Clone, Debug)]
pub(crate) struct Accounts {
    list: Vec<Account>,
    probe: Probe,
}

#[derive(Clone, Debug, Default)]
struct Account {
    age: i64,
    ignored: i64,
    count: i64,
    checkpoint_reads: u64,
    checkpoint_wait: Nanos,
    mean_ns: u64,
}

impl Probe {
    /// From the place of its word in the policy's parameter.
    pub(crate) fn from_value(value: u64) -> Probe {
        if value == 0 { Probe::Window } else { Probe::Once }
    }
}

impl Accounts {
    pub(crate) fn new(probe: Probe) -> Accounts {
        Accounts { list: Vec::new(), probe }
    }

    /// Makes room for every member; existing accounts stay as they are.
    pub(crate) fn resize(&mut self, members: &Members) {
        self.list.resize(members.len(), Account::default());
    }

    /// Ages the candidates of a decision and brings their means up to date.
    #[inline]
    pub(crate) fn begin_decision(&mut self, mirrors: &[Mirror], members: &Members) {
        for mirror in mirrors {
            let account = &mut self.list[mirror.member.get()];
            let member = &members[mirror.member];
            account.age += 1;
            account.ignored += 1;
            if account.age > CHECKPOINT_AGE {
                account.checkpoint_reads = member.reads_completed;
                account.checkpoint_wait = member.read_wait;
                account.age = -PROBE_DECISIONS;
                account.count += 1;
            }
            account.mean_ns = if account.age < 0 {
                0
            } else {
                mean_wait_ns(
                    member.reads_completed - account.checkpoint_reads,
                    member.read_wait - account.checkpoint_wait,
                )
            };
        }
    }

    /// The mean wait of a candidate since its checkpoint, or 0 while unknown.
    #[inline]
    pub(crate) fn mean_ns(&self, mirror: &Mirror) -> u64 {
        self.list[mirror.member.get()].mean_ns
    }

    /// Sets back the account of the mirror that was chosen.
    #[inline]
    pub(crate) fn end_decision(&mut self, chosen: &Mirror) {
        let account = &mut self.list[chosen.member.get()];
        account.ignored -= 1;
        if account.age >= 0 || self.probe == Probe::Once {
            account.age = 0;
        }
    }

    /// `age`, `ignored`, `count`, and of the checkpoint the reads and wait (its baseline, zero
    /// until the first rehabilitation) and the mean since, as of the last decision.
    pub(crate) fn counters(&self) -> Vec<Counter> {
        let show = |(index, account): (usize, &Account)| {
            let member = Some(MemberIndex(index as u16));
            [
                ("age", account.age),
                ("ignored", account.ignored),
                ("count", account.count),
                ("checkpoint_ios", account.checkpoint_reads as i64),
                ("checkpoint_wait_ns", account.checkpoint_wait.0 as i64),
                ("checkpoint_avg_ns", account.mean_ns as i64),
            ]
            .map(|(name, value)| Counter { member, name, value })
        };
        self.list.iter().enumerate().flat_map(show).collect()
    }
}
