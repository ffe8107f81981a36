//! # Idea
//! The lowest mean read wait, as `btrfs/latency`, but a member that was passed over 10,000 times in
//! a row is given another chance: its mean begins anew, and for 100 decisions it counts as unknown
//! and is taken.
//!
//! # State
//! Per member: decisions since last chosen (`age`), times passed over (`ignored`), rehabilitations
//! (`count`), and the reads and wait at the last of them (the checkpoint).
//!
//! # Cost
//! One division a mirror and its account.
//!
//! # Good at
//! Members whose speeds differ, and a member that was slow for a while.
//!
//! # Bad at
//! Depth, like every rule that takes the lowest mean: it herds.
//! Time: the threshold is counted in decisions, so an idle array never rehabilitates and a busy
//! NVMe one does so many times a second. A member that is always chosen keeps its lifetime mean, so
//! it reacts late to becoming slow.
//! The probe sends up to 100 reads in a row to a member that may still be slow.
//!
//! # Origin
//! kakra/linux PR #36 (6.12), by Kai Krakow; dropped in PR #40 (6.18) for `queue`. The code was not
//! at hand: the rule is from the text of the request. Ours: a rehabilitated member's age is held
//! below zero through its 100 decisions even when it is chosen; `:once` ends that at the first
//! read, the other reading of the text. Only eligible mirrors age, and only when there are two.

use super::Build;
use super::shared::checkpoint::{Accounts, Probe};
use super::shared::smallest::first_smallest;
use super::spec::PolicyError;
use crate::member::Members;
use crate::policy::{Choice, Counter, Ctx, Mirror, Read, ReadPolicy};

struct Latency {
    accounts: Accounts,
}

/// Builds the policy from the length of a probe.
pub(super) fn build(build: &Build<'_>) -> Result<Box<dyn ReadPolicy>, PolicyError> {
    Ok(Box::new(Latency { accounts: Accounts::new(Probe::from_value(build.values[0])) }))
}

impl ReadPolicy for Latency {
    fn choose(
        &mut self,
        _read: &Read,
        mirrors: &[Mirror],
        members: &Members,
        _ctx: &mut Ctx<'_>,
    ) -> Choice {
        self.accounts.begin_decision(mirrors, members);
        let place = first_smallest(mirrors, |mirror| self.accounts.mean_ns(mirror));
        self.accounts.end_decision(&mirrors[place]);
        Choice::Mirror(place)
    }

    fn on_members_change(&mut self, members: &Members) {
        self.accounts.resize(members);
    }

    fn counters(&self) -> Vec<Counter> {
        self.accounts.counters()
    }
}
