//! # Idea
//! A small neural network, trained once, predicts how long the read takes at each mirror. The
//! lowest prediction wins.
//!
//! # State
//! Per member: the waits of its last four reads and the I/O in flight when each was submitted;
//! moving means of wait, length and I/O in flight, as logarithms; the sums of the network's first
//! layer over these, which a completion updates.
//!
//! # Cost
//! 64 multiplications per mirror, 144 per completion.
//!
//! # Good at
//! Flash that is busy for a while with its own work, which the last waits show before any mean
//! does.
//!
//! # Bad at
//! - Disks unlike the simulated ones of its training, although all inputs are relative to a
//!   member's own means.
//! - Sequential streams and seeks: no input is an offset.
//! - Explanations: nothing says why a mirror won.
//!
//! # Origin
//! Hao et al., "LinnOS: Predictability on Unpredictable Flash Storage with a Light Neural Network",
//! OSDI 2020: I/O in flight now, and the last four reads with those in flight at their arrival; 256
//! neurons in one hidden layer; trained for each device. A read that is predicted slow goes to
//! another replica. Kurniawan et al., "Heimdall", EuroSys 2025, adds the length of the read. Here
//! one network serves all devices, so it predicts the logarithm of the wait over the member's mean,
//! not slow or fast, which would not tell unequal mirrors apart. Also added: the time since the
//! last completion; 16 neurons and integers; training on simulated arrays
//! (`benches/train-linnos.py`). A member without a read for a second is unknown, as in
//! `research/sed`. Ties go to the shortest queue.

mod network;
mod weights;

use super::shared::moving_mean::is_fresh;
use super::shared::rank::PolicyRank;
use super::shared::smallest::first_smallest;
use super::shared::submitted_depths::SubmittedDepths;
use crate::io::{MemberIo, Op, Outcome};
use crate::member::Members;
use crate::policy::{Choice, Ctx, Mirror, Read, ReadPolicy};
use crate::units::Nanos;
use network::{LayerSums, LogMean, NOW_INPUTS, PAST_INPUTS, log2, predict, scaled};

/// Number of recent reads of which each is an input.
const RECENT: usize = 4;

#[derive(Default)]
pub(super) struct Linnos {
    servers: Vec<TrackedServer>,
}

#[derive(Clone, Default)]
struct TrackedServer {
    submitted: SubmittedDepths,
    history: History,
}

/// Completed reads of a member; all values are logarithms.
#[derive(Clone, Default)]
struct History {
    /// Newest first: wait, and I/O in flight at the submission.
    recent: [(i32, i32); RECENT],
    wait: LogMean,
    depth: LogMean,
    length: LogMean,
    sums: LayerSums,
    sampled_at: Option<Nanos>,
}

impl History {
    fn add(&mut self, depth: u32, length: u64, outcome: &Outcome) {
        let is_first = !is_fresh(self.sampled_at, outcome.completed_at);
        let (wait, depth) = (log2(outcome.wait.0), log2(u64::from(depth) + 1));
        self.wait.add(wait, is_first);
        self.depth.add(depth, is_first);
        self.length.add(log2(length), is_first);
        if is_first {
            self.recent.fill((wait, depth));
        }
        self.recent.rotate_right(1);
        self.recent[0] = (wait, depth);
        self.sampled_at = Some(outcome.completed_at);
        let mut inputs = [self.depth.get(); PAST_INPUTS];
        for (place, (wait, depth)) in self.recent.into_iter().enumerate() {
            inputs[1 + place] = wait - self.wait.get();
            inputs[1 + RECENT + place] = depth;
        }
        self.sums = LayerSums::of_past(inputs);
    }

    /// Logarithm of the wait to expect, or `None` while unknown.
    #[inline]
    fn expected(&self, in_flight: u32, length: u64, now: Nanos) -> Option<i32> {
        let sampled_at = self.sampled_at.filter(|_| is_fresh(self.sampled_at, now))?;
        let age = log2(now.saturating_sub(sampled_at).0);
        let inputs: [i32; NOW_INPUTS] = [
            log2(u64::from(in_flight) + 1),
            log2(length) - self.length.get(),
            age - self.wait.get(),
        ];
        Some(predict(&self.sums, inputs) + scaled(self.wait.get()))
    }
}

impl ReadPolicy for Linnos {
    fn choose(&mut self, read: &Read, mirrors: &[Mirror], ctx: &mut Ctx<'_>) -> Choice {
        Choice::Mirror(first_smallest(mirrors, |mirror| {
            let member = &ctx.members[mirror.member];
            let in_flight = member.in_flight();
            let history = &self.servers[mirror.member.get()].history;
            let expected = history.expected(in_flight, read.length, ctx.now);
            PolicyRank::new(member, expected.map(|wait| (wait, in_flight)))
        }))
    }

    fn on_submit(&mut self, io: &MemberIo, ctx: &mut Ctx<'_>) {
        if io.op == Op::Read {
            let depth = ctx.members[io.member].in_flight().saturating_sub(1);
            self.servers[io.member.get()].submitted.add(io.id, depth);
        }
    }

    fn on_complete(&mut self, io: &MemberIo, outcome: &Outcome, _ctx: &mut Ctx<'_>) {
        let server = &mut self.servers[io.member.get()];
        if let Some(depth) = server.submitted.remove(io.id)
            && outcome.result.is_ok()
        {
            server.history.add(depth, io.length, outcome);
        }
    }

    fn on_members_change(&mut self, members: &Members) {
        self.servers.resize_with(members.len(), TrackedServer::default);
    }
}
