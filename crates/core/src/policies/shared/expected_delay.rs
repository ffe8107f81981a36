//! Expected delay of a read: the time until the reads before it and the read itself complete.
//!
//! A member that serves µ reads per second and has q in flight completes one more after
//! (q + 1) / µ. Here µ is measured from the service times of successful reads.
//!
//! Source: Linux `net/netfilter/ipvs/ip_vs_sed.c` and `ip_vs_nq.c`, where µ is a weight that the
//! administrator gives.

use super::moving_mean::MovingMean;
use super::rank::PolicyRank;
use super::serial_service::SerialService;
use crate::io::{MemberIo, Op, Outcome};
use crate::member::Members;
use crate::policy::Mirror;
use crate::units::Nanos;

/// Mean service time of each member.
#[derive(Debug, Default)]
pub(crate) struct ExpectedDelay {
    serial: SerialService,
    /// By member, in nanoseconds.
    service: Vec<MovingMean>,
}

impl ExpectedDelay {
    pub(crate) fn resize(&mut self, members: &Members) {
        self.serial.resize(members);
        self.service.resize(members.len(), MovingMean::default());
    }

    /// Updates the mean from a completion.
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

    /// Rank of a mirror by its expected delay in nanoseconds.
    #[inline]
    pub(crate) fn rank(&self, mirror: &Mirror, members: &Members, now: Nanos) -> PolicyRank<u64> {
        let member = &members[mirror.member];
        let service_ns = self.service[mirror.member.get()].get(now);
        PolicyRank::new(member, service_ns.map(|ns| ns * (u64::from(member.in_flight()) + 1)))
    }
}
