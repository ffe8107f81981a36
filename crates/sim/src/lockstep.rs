//! Runs other policies in lockstep with the policy of a run, to find those that choose the same.
//!
//! Everything that happens in a run follows from its seed and the choices of its policy. A policy
//! that is asked about every read of the run of another one, and chooses the same each time, has
//! the same run, so it need not be simulated for it. Many policies share a rule, or agree where a
//! job leaves them little choice: in the default comparison every fourth second of work is a
//! repetition.
//!
//! Each policy has a random generator of its own, in the state in which a volume would give it, and
//! is notified of everything. The first choice that differs ends its part, so most cost a few
//! choices only. Policies with counters are left out, because a result includes these. With parity,
//! so are policies that reconstruct if the policy of the run does not, and the reverse: the volume
//! asks only the former about reads of full stripes, and a result includes how often it asked.

use mirrorball_core::column_set::ColumnSet;
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::io::{MemberIo, Outcome};
use mirrorball_core::member::Members;
use mirrorball_core::policies::Spec;
use mirrorball_core::policy::{
    Choice, Counter, Ctx, Mirror, MirrorScore, PolicyFault, Read, ReadPolicy, StripeRead,
};
use mirrorball_core::rng::Rng;
use mirrorball_core::units::Nanos;
use mirrorball_core::volume::Volume;
use mirrorball_disk::array_file::ArraySpec;
use std::sync::{Arc, Mutex, PoisonError};

/// Policy strings of the policies that chose as the policy of a run did, once that has ended.
#[derive(Clone, Debug, Default)]
pub(crate) struct SameChoices {
    // Written once, at the end: a policy must be `Send`.
    policies: Arc<Mutex<Vec<String>>>,
}

impl SameChoices {
    /// The policies found.
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.policies.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn set(&self, policies: Vec<String>) {
        *self.policies.lock().unwrap_or_else(PoisonError::into_inner) = policies;
    }
}

/// The policy of a run, with others in lockstep. It decides.
pub(crate) struct Lockstep {
    policy: Box<dyn ReadPolicy>,
    others: Vec<OtherPolicy>,
    same: SameChoices,
}

/// A policy that has chosen the same so far.
struct OtherPolicy {
    text: String,
    policy: Box<dyn ReadPolicy>,
    rng: Rng,
}

impl Lockstep {
    /// `policy` with the policies of the table called `others`, on `array`. `seed` is that of the
    /// volume. The policies that chose the same are in `same` when the volume is dropped.
    ///
    /// # Errors
    /// If there is no such policy, or it does not fit the array.
    pub(crate) fn new(
        policy: Box<dyn ReadPolicy>,
        others: &[&str],
        array: &ArraySpec,
        seed: u64,
        same: SameChoices,
    ) -> Result<Lockstep, Diagnostic> {
        let devids: Vec<u64> = array.members.iter().map(|member| member.devid).collect();
        let has_parity = array.profile.parities() > 0;
        let other = |text: &&str| {
            let policy = Spec::parse(text)?.build(&devids)?;
            Ok(OtherPolicy { text: (*text).to_owned(), policy, rng: Volume::policy_rng(seed) })
        };
        let mut others = others.iter().map(other).collect::<Result<Vec<_>, Diagnostic>>()?;
        let reconstructs = policy.reconstructs();
        others.retain(|other| !has_parity || other.policy.reconstructs() == reconstructs);
        Ok(Lockstep { policy, others, same })
    }
}

impl ReadPolicy for Lockstep {
    #[inline]
    fn choose(
        &mut self,
        read: &Read,
        mirrors: &[Mirror],
        members: &Members,
        ctx: &mut Ctx<'_>,
    ) -> Choice {
        let choice = self.policy.choose(read, mirrors, members, ctx);
        let now = ctx.now;
        self.others.retain_mut(|other| {
            let ctx = &mut Ctx { now, rng: &mut other.rng };
            other.policy.choose(read, mirrors, members, ctx) == choice
        });
        choice
    }

    fn reconstructs(&self) -> bool {
        self.policy.reconstructs()
    }

    fn leave_out(
        &mut self,
        read: &StripeRead,
        columns: &[Mirror],
        members: &Members,
        ctx: &mut Ctx<'_>,
    ) -> ColumnSet {
        let left_out = self.policy.leave_out(read, columns, members, ctx);
        let now = ctx.now;
        self.others.retain_mut(|other| {
            let ctx = &mut Ctx { now, rng: &mut other.rng };
            other.policy.leave_out(read, columns, members, ctx) == left_out
        });
        left_out
    }

    #[inline]
    fn on_submit(&mut self, io: &MemberIo, ctx: &mut Ctx<'_>) {
        self.policy.on_submit(io, ctx);
        for other in &mut self.others {
            other.policy.on_submit(io, &mut Ctx { now: ctx.now, rng: &mut other.rng });
        }
    }

    #[inline]
    fn on_complete(&mut self, io: &MemberIo, outcome: &Outcome, ctx: &mut Ctx<'_>) {
        self.policy.on_complete(io, outcome, ctx);
        for other in &mut self.others {
            other.policy.on_complete(io, outcome, &mut Ctx { now: ctx.now, rng: &mut other.rng });
        }
    }

    fn on_members_change(&mut self, members: &Members) {
        self.policy.on_members_change(members);
        for other in &mut self.others {
            other.policy.on_members_change(members);
        }
        if !self.policy.counters().is_empty() {
            self.others.clear();
        }
        self.others.retain(|other| other.policy.counters().is_empty());
    }

    fn counters(&self) -> Vec<Counter> {
        self.policy.counters()
    }

    fn fault(&self) -> Option<&PolicyFault> {
        self.policy.fault()
    }

    fn explain(
        &self,
        read: &Read,
        mirrors: &[Mirror],
        members: &Members,
        now: Nanos,
    ) -> Vec<MirrorScore> {
        self.policy.explain(read, mirrors, members, now)
    }
}

impl Drop for Lockstep {
    fn drop(&mut self) {
        let has_none = |policy: &dyn ReadPolicy| policy.counters().is_empty();
        let same = self.others.drain(..).filter(|other| has_none(other.policy.as_ref()));
        let same: Vec<String> = same.map(|other| other.text).collect();
        self.same.set(if has_none(self.policy.as_ref()) { same } else { Vec::new() });
    }
}
