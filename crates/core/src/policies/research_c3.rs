//! # Idea
//! Takes the lowest Ψ = R − 1/µ + q̂³/µ, where R is the mean wait of a member's reads, 1/µ their
//! mean service time, and q̂ = 1 + in flight + mean queue an estimate of its queue. The cube sends
//! reads away from a long queue even where that member is faster.
//!
//! # State
//! Per member: moving means of wait, service time and the number of I/O that a completed read
//! leaves in flight; the number of I/O in flight; the time of the last completion.
//!
//! # Cost
//! A cube in 128 bits per mirror; three divisions per completion.
//!
//! # Good at
//! Tails: a member of a third of the speed gets its first read at a queue of one, and no queue
//! grows long before the others are used.
//!
//! # Bad at
//! - Throughput of very unequal members: at a queue of ten, the cube sends a read to a member a
//!   thousand times slower.
//! - Sequential streams: it ignores head positions.
//! - One client: the queue that the members report is the client's own, so it counts twice.
//!
//! # Origin
//! Suresh, Canini, Schmid and Feldmann, "C3: Cutting Tail Latency in Cloud Data Stores via Adaptive
//! Replica Selection", NSDI 2015; with one client. Its rate control is left out, because a volume
//! cannot hold reads back. µ is a rate; older Elasticsearch put the service *time* in its place,
//! which inverts the preference. A device does not report queue and service time with its answer,
//! so here the queue is what a completion leaves in flight, and the service time lasts from
//! submission, or the previous completion if later. Also added here: weights of 1/8; means expire
//! after a second without a read, so the next read replaces them; successful reads only; ties go to
//! the first mirror.

use super::shared::moving_mean::MovingMean;
use super::shared::rank::PolicyRank;
use super::shared::serial_service::SerialService;
use super::shared::smallest::first_smallest;
use crate::io::{MemberIo, Op, Outcome};
use crate::member::Members;
use crate::policy::{Choice, Ctx, Mirror, Read, ReadPolicy};
use crate::units::Nanos;

/// Queue lengths are in 1/256 of an I/O.
const QUEUE_SCALE: u64 = 256;

#[derive(Default)]
pub(super) struct C3 {
    serial: SerialService,
    servers: Vec<ServerEstimate>,
}

#[derive(Clone, Default)]
struct ServerEstimate {
    in_flight: u64,
    wait_ns: MovingMean,
    service_ns: MovingMean,
    queue: MovingMean,
}

impl ServerEstimate {
    /// Ψ in units of a nanosecond / `QUEUE_SCALE`³, or `None` while unknown.
    #[inline]
    fn psi(&self, in_flight: u32, now: Nanos) -> Option<i128> {
        let wait_ns = i128::from(self.wait_ns.get(now)?);
        let service_ns = i128::from(self.service_ns.get(now)?);
        let queue = (1 + u64::from(in_flight)) * QUEUE_SCALE + self.queue.get(now)?;
        let scale_cubed = i128::from(QUEUE_SCALE.pow(3));
        Some((wait_ns - service_ns) * scale_cubed + i128::from(queue).pow(3) * service_ns)
    }
}

impl ReadPolicy for C3 {
    fn choose(&mut self, _read: &Read, mirrors: &[Mirror], ctx: &mut Ctx<'_>) -> Choice {
        Choice::Mirror(first_smallest(mirrors, |mirror| {
            let member = &ctx.members[mirror.member];
            let server = &self.servers[mirror.member.get()];
            PolicyRank::new(member, server.psi(member.in_flight(), ctx.now))
        }))
    }

    fn on_submit(&mut self, io: &MemberIo, _ctx: &mut Ctx<'_>) {
        self.servers[io.member.get()].in_flight += 1;
    }

    fn on_complete(&mut self, io: &MemberIo, outcome: &Outcome, _ctx: &mut Ctx<'_>) {
        let service = self.serial.observe(io, outcome);
        let server = &mut self.servers[io.member.get()];
        server.in_flight -= 1;
        match service {
            Some(service) if io.op == Op::Read && outcome.result.is_ok() => {
                let now = outcome.completed_at;
                server.wait_ns.add(outcome.wait.0, now);
                server.service_ns.add(service.0, now);
                server.queue.add(server.in_flight * QUEUE_SCALE, now);
            }
            _ => {}
        }
    }

    fn on_members_change(&mut self, members: &Members) {
        self.serial.resize(members);
        self.servers.resize(members.len(), ServerEstimate::default());
    }
}
