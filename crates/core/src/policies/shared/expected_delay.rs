//! The expected delay of a read: how long until the reads before it and the read itself are done.
//!
//! A member that serves µ reads a second and has q in flight is done with one more after
//! (q + 1) / µ. Ours: µ is measured, from the service times of successful reads.
//!
//! Source: Linux `net/netfilter/ipvs/ip_vs_sed.c` and `ip_vs_nq.c`, where µ is a weight that the
//! administrator gives.

use super::rank::Rank;
use super::serial_service::SerialService;
use super::smoothed::Smoothed;
use crate::io::{MemberIo, Op, Outcome};
use crate::member::Members;
use crate::policy::Mirror;
use crate::units::Nanos;

/// What is known of each member's service time.
#[derive(Debug, Default)]
pub(crate) struct ExpectedDelay {
    serial: SerialService,
    /// By member, in nanoseconds.
    service: Vec<Smoothed>,
}

impl ExpectedDelay {
    /// Makes room for every member.
    pub(crate) fn resize(&mut self, members: &Members) {
        self.serial.resize(members);
        self.service.resize(members.len(), Smoothed::default());
    }

    /// Takes in a completion.
    #[inline]
    pub(crate) fn observe(&mut self, io: &MemberIo, outcome: &Outcome) {
        let service = self.serial.observe(io, outcome);
        match service {
            Some(service) if io.op == Op::Read && outcome.result.is_ok() => {
                self.service[io.member.get()].add(service.0, outcome.completed_at);
            }
            _ => {}
        }
    }

    /// Where a mirror stands by its expected delay in nanoseconds.
    #[inline]
    pub(crate) fn rank(&self, mirror: &Mirror, members: &Members, now: Nanos) -> Rank<u64> {
        let member = &members[mirror.member];
        let service_ns = self.service[mirror.member.get()].get(now);
        Rank::new(member, service_ns.map(|ns| ns * (u64::from(member.in_flight()) + 1)))
    }
}
