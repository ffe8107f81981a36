//! A disk that takes a fixed time: the model whose results have closed forms.
//!
//! One first-in first-out queue before `servers` equal servers (the D/D/n queue when arrivals are
//! regular). An I/O holds one server for `service` plus its length over `bandwidth`. With depth q
//! the throughput is `min(q, servers) / holding time` and the latency `max(q, servers) / servers`
//! holding times; tests of executors and policies rest on that. It is also what dm-delay and
//! nbdkit's delay filter offer, with the queue they lack.
//!
//! Nothing overtakes in the queue, so what is submitted has its start and end at once. An I/O that
//! no server has started can be cancelled: those behind it are then scheduled again, as if it had
//! never been submitted.
//!
//! Every operation takes the service time. Flushes and discards move no bytes. Writes are durable
//! when they complete, so a flush waits for nothing but its turn.
//!
//! Non-goals: position, caches, chance.

use crate::model::{Completion, DiskIo, Model, ModelParameters};
use crate::quantity;
use mirrorball_core::io::Op;
use mirrorball_core::time_queue::TimeQueue;
use mirrorball_core::units::Nanos;
use serde::{Deserialize, Deserializer};

/// The settings of a [`Delay`], in the units that people write.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DelayParameters {
    /// Time of every operation on its server (`"2ms"`).
    #[serde(deserialize_with = "quantity::duration")]
    pub service: Nanos,
    /// How many operations are served at once; 1 if not given.
    #[serde(default = "one_server")]
    pub servers: u32,
    /// Bytes per second at which a server moves data, on top of `service` (`"200MB/s"`);
    /// immeasurably fast if not given.
    #[serde(default, deserialize_with = "optional_rate")]
    pub bandwidth: Option<u64>,
}

impl DelayParameters {
    /// A disk of one server with this service time.
    pub fn new(service: Nanos) -> DelayParameters {
        DelayParameters { service, servers: 1, bandwidth: None }
    }

    /// How long `io` holds its server.
    fn holding_time(&self, io: &DiskIo) -> Nanos {
        match (io.op, self.bandwidth) {
            (Op::Read | Op::Write, Some(rate)) => {
                self.service.saturating_add(Nanos::transfer(io.length, rate))
            }
            _ => self.service,
        }
    }
}

impl ModelParameters for DelayParameters {
    fn check(&self) -> Result<(), String> {
        if self.servers == 0 {
            return Err("`servers` is 0, but a disk needs at least one".to_owned());
        }
        if self.service == Nanos::ZERO {
            return Err("`service` is 0, but every I/O takes time".to_owned());
        }
        if self.bandwidth == Some(0) {
            return Err("`bandwidth` is 0, so nothing would ever complete".to_owned());
        }
        Ok(())
    }

    /// I/O in service: the queue before the servers is the host's.
    fn queue_depth(&self) -> u32 {
        self.servers
    }

    fn write_cache_bytes(&self) -> u64 {
        0
    }

    fn build(&self, _capacity_bytes: u64, _seed: u64) -> Box<dyn Model> {
        Box::new(Delay::new(self.clone()))
    }
}

/// A disk of fixed service time.
#[derive(Clone, Debug)]
pub struct Delay {
    parameters: DelayParameters,
    /// When each server becomes free, one entry per server.
    servers: TimeQueue<()>,
    /// I/O that was submitted and has not been handed out, by its time of completion.
    pending: TimeQueue<Planned>,
    /// How many were submitted so far.
    submitted: u64,
    /// The I/Os that [`Model::cancel`] schedules again; empty between calls.
    replanned: Vec<(Nanos, Planned)>,
}

/// An I/O and when its server begins it.
#[derive(Clone, Copy, Debug)]
struct Planned {
    tag: u64,
    /// Position in the order of submission.
    number: u64,
    start: Nanos,
}

impl Delay {
    /// An idle disk. Panics if there is no server.
    pub fn new(parameters: DelayParameters) -> Delay {
        assert!(parameters.servers > 0, "a disk without a server never completes anything");
        let mut servers = TimeQueue::default();
        for _ in 0..parameters.servers {
            servers.push(0, ());
        }
        let pending = TimeQueue::default();
        Delay { parameters, servers, pending, submitted: 0, replanned: Vec::new() }
    }

    /// Gives the I/O to the server that is free first.
    #[inline]
    fn plan(&mut self, ready: Nanos, tag: u64, number: u64, holding_time: Nanos) {
        let (free_at, ()) = self.servers.pop_front().expect("there is a server");
        let start = ready.max(Nanos(free_at));
        let end = start.saturating_add(holding_time);
        self.servers.push(end.0, ());
        self.pending.push(end.0, Planned { tag, number, start });
    }
}

impl Model for Delay {
    #[inline]
    fn submit(&mut self, now: Nanos, io: DiskIo) {
        self.submitted += 1;
        self.plan(now, io.tag, self.submitted, self.parameters.holding_time(&io));
    }

    #[inline]
    fn next_event(&self) -> Option<Nanos> {
        self.pending.front().map(|&(at, _)| Nanos(at))
    }

    #[inline]
    fn advance(&mut self, now: Nanos, completions: &mut Vec<Completion>) {
        while let Some((at, Planned { tag, .. })) = self.pending.pop_due(now.0) {
            completions.push(Completion { tag, at: Nanos(at), result: Ok(()) });
        }
    }

    /// Always possible before a server has begun, for this disk is nothing but a queue.
    fn cancel(&mut self, now: Nanos, tag: u64) -> bool {
        let is_cancelled = |(_, planned): &&(u64, Planned)| planned.tag == tag;
        let Some(&(_, cancelled)) = self.pending.iter().find(is_cancelled) else { return false };
        if cancelled.start <= now {
            return false;
        }
        let mut replanned = std::mem::take(&mut self.replanned);
        while let Some((end, planned)) =
            self.pending.take(|_, planned| planned.number >= cancelled.number)
        {
            // It waited, so its server becomes free just when it was to start.
            self.servers.push(planned.start.0, ());
            replanned.push((Nanos(end), planned));
        }
        for &(end, _) in &replanned {
            self.servers
                .take(|free_at, ()| free_at == end.0)
                .expect("a server was to be free then");
        }
        replanned.sort_unstable_by_key(|(_, planned)| planned.number);
        for (end, planned) in replanned.drain(..).skip(1) {
            let Planned { tag, number, start } = planned;
            self.plan(Nanos::ZERO, tag, number, end - start);
        }
        self.replanned = replanned;
        true
    }

    fn completion_if_submitted(&self, now: Nanos, io: DiskIo) -> Nanos {
        let &(free_at, ()) = self.servers.front().expect("there is a server");
        now.max(Nanos(free_at)).saturating_add(self.parameters.holding_time(&io))
    }

    fn boxed_clone(&self) -> Box<dyn Model> {
        Box::new(self.clone())
    }
}

fn one_server() -> u32 {
    1
}

fn optional_rate<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    quantity::rate(deserializer).map(Some)
}

#[cfg(test)]
mod tests;
