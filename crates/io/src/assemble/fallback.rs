//! The fallback of a program that was not started: a policy of the table that reports why it
//! decides.

use mirrorball_core::policy::{Choice, Counter, Ctx, Mirror, PolicyFault, Read, ReadPolicy};

/// A policy that decides in place of a program that was not started.
pub(super) struct FallbackPolicy {
    inner: Box<dyn ReadPolicy>,
    fault: PolicyFault,
    reads: i64,
}

impl FallbackPolicy {
    /// The policy `inner` in place of a program; `reason` names the program and says why it was not
    /// started, on one line.
    pub(super) fn new(inner: Box<dyn ReadPolicy>, reason: String) -> FallbackPolicy {
        let fault = PolicyFault { ended_program: None, summary: reason, dump: String::new() };
        FallbackPolicy { inner, fault, reads: 0 }
    }
}

impl ReadPolicy for FallbackPolicy {
    fn inner(&self) -> Option<&dyn ReadPolicy> {
        Some(self.inner.as_ref())
    }

    fn inner_mut(&mut self) -> Option<&mut dyn ReadPolicy> {
        Some(self.inner.as_mut())
    }

    fn choose(&mut self, read: &Read, mirrors: &[Mirror], ctx: &mut Ctx<'_>) -> Choice {
        self.reads += 1;
        self.inner.choose(read, mirrors, ctx)
    }

    /// The counters of a program after a fault.
    fn counters(&self) -> Vec<Counter> {
        let all = [("faults", 1), ("fallback_reads", self.reads)];
        all.map(|(name, value)| Counter { member: None, name, value }).to_vec()
    }

    fn fault(&self) -> Option<&PolicyFault> {
        Some(&self.fault)
    }
}
