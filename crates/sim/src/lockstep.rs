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
use mirrorball_core::policy::{Choice, Ctx, Mirror, Read, ReadPolicy, StripeRead};
use mirrorball_core::rng::Rng;
use mirrorball_core::volume::Volume;
use mirrorball_disk::array_file::ArraySpec;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Policies that have chosen as the policy of a run did so far, shared with those who need their
/// runs. After the run it holds the policies whose run would have been the same.
#[derive(Clone, Debug, Default)]
pub struct AlikePolicies {
    shared: Arc<SharedPolicies>,
}

#[derive(Debug, Default)]
struct SharedPolicies {
    policies: Mutex<Vec<String>>,
    changed: Condvar,
}

impl AlikePolicies {
    /// Policies of the table that are to be compared with that of a run, by their policy strings.
    pub fn new(policies: Vec<String>) -> AlikePolicies {
        let shared = SharedPolicies { policies: Mutex::new(policies), changed: Condvar::new() };
        AlikePolicies { shared: Arc::new(shared) }
    }

    /// Their policy strings.
    pub fn policies(&self) -> Vec<String> {
        self.lock().clone()
    }

    /// Returns true if there is none.
    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Returns true if `policy` has chosen the same so far.
    pub fn contains(&self, policy: &str) -> bool {
        self.lock().iter().any(|it| it == policy)
    }

    /// Removes `policy`, before the run.
    pub fn remove(&self, policy: &str) {
        self.lock().retain(|it| it != policy);
    }

    /// Waits until `policy` has chosen otherwise, or the run is over and [`AlikePolicies::clear`]
    /// was called.
    pub fn wait_without(&self, policy: &str) {
        let is_alike = |policies: &mut Vec<String>| policies.iter().any(|it| it == policy);
        let waited = self.shared.changed.wait_while(self.lock(), is_alike);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// Removes all policies, for those who wait.
    pub fn clear(&self) {
        self.set(Vec::new());
    }

    pub(crate) fn set(&self, policies: Vec<String>) {
        *self.lock() = policies;
        self.shared.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Vec<String>> {
        self.shared.policies.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The policy of a run, with others in lockstep. It decides.
pub(crate) struct Lockstep {
    policy: Box<dyn ReadPolicy>,
    others: Vec<OtherPolicy>,
    alike: AlikePolicies,
}

/// A policy that has chosen the same so far.
struct OtherPolicy {
    text: String,
    policy: Box<dyn ReadPolicy>,
    rng: Rng,
}

impl Lockstep {
    /// `policy` with those of `alike`, on `array`. `seed` is that of the volume. The policies that
    /// chose the same are left in `alike` when the volume is dropped. Fails if there is no such
    /// policy, or it does not fit the array.
    pub(crate) fn new(
        policy: Box<dyn ReadPolicy>,
        array: &ArraySpec,
        seed: u64,
        alike: AlikePolicies,
    ) -> Result<Lockstep, Diagnostic> {
        let devids: Vec<u64> = array.members.iter().map(|member| member.devid).collect();
        let other = |text: String| {
            let policy = Spec::parse(&text)?.build(&devids)?;
            Ok(OtherPolicy { text, policy, rng: Volume::policy_rng(seed) })
        };
        let others = alike.policies().into_iter().map(other);
        let others = others.collect::<Result<Vec<_>, Diagnostic>>()?;
        let mut lockstep = Lockstep { policy, others, alike };
        let (has_parity, reconstructs) =
            (array.profile.parities() > 0, lockstep.policy.reconstructs());
        lockstep.keep(|it| !has_parity || it.policy.reconstructs() == reconstructs);
        Ok(lockstep)
    }

    /// Ends the part of the others that `is_alike` refuses.
    #[inline]
    fn keep(&mut self, is_alike: impl FnMut(&mut OtherPolicy) -> bool) {
        let before = self.others.len();
        self.others.retain_mut(is_alike);
        if self.others.len() < before {
            self.publish();
        }
    }

    fn keep_without_counters(&mut self) {
        let has_none = self.policy.counters().is_empty();
        self.keep(|other| has_none && other.policy.counters().is_empty());
    }

    #[cold]
    fn publish(&self) {
        self.alike.set(self.others.iter().map(|other| other.text.clone()).collect());
    }
}

impl ReadPolicy for Lockstep {
    fn inner(&self) -> Option<&dyn ReadPolicy> {
        Some(self.policy.as_ref())
    }

    fn inner_mut(&mut self) -> Option<&mut dyn ReadPolicy> {
        Some(self.policy.as_mut())
    }

    #[inline]
    fn choose(&mut self, read: &Read, mirrors: &[Mirror], ctx: &mut Ctx<'_>) -> Choice {
        let choice = self.policy.choose(read, mirrors, ctx);
        self.keep(|OtherPolicy { policy, rng, .. }| {
            policy.choose(read, mirrors, &mut ctx.with_rng(rng)) == choice
        });
        choice
    }

    fn leave_out(&mut self, read: &StripeRead, columns: &[Mirror], ctx: &mut Ctx<'_>) -> ColumnSet {
        let left_out = self.policy.leave_out(read, columns, ctx);
        self.keep(|OtherPolicy { policy, rng, .. }| {
            policy.leave_out(read, columns, &mut ctx.with_rng(rng)) == left_out
        });
        left_out
    }

    #[inline]
    fn on_submit(&mut self, io: &MemberIo, ctx: &mut Ctx<'_>) {
        self.policy.on_submit(io, ctx);
        for OtherPolicy { policy, rng, .. } in &mut self.others {
            policy.on_submit(io, &mut ctx.with_rng(rng));
        }
    }

    #[inline]
    fn on_complete(&mut self, io: &MemberIo, outcome: &Outcome, ctx: &mut Ctx<'_>) {
        self.policy.on_complete(io, outcome, ctx);
        for OtherPolicy { policy, rng, .. } in &mut self.others {
            policy.on_complete(io, outcome, &mut ctx.with_rng(rng));
        }
    }

    fn on_members_change(&mut self, members: &Members) {
        self.policy.on_members_change(members);
        for other in &mut self.others {
            other.policy.on_members_change(members);
        }
        self.keep_without_counters();
    }
}

impl Drop for Lockstep {
    fn drop(&mut self) {
        self.keep_without_counters();
    }
}
