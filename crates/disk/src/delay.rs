//! A disk that takes a fixed time: the model whose results have closed forms.
//!
//! One first-in first-out queue before `servers` equal servers (the D/D/n queue when arrivals are
//! regular). An I/O holds one server for `service` plus its length over `bandwidth`. With depth q
//! the throughput is `min(q, servers) / holding time` and the latency `max(q, servers) / servers`
//! holding times; tests of executors and policies rest on that. It is also what dm-delay and
//! nbdkit's delay filter offer, with the queue they lack.
//!
//! Every operation takes the service time. Flushes and discards move no bytes. Writes are durable
//! when they complete, so a flush waits for nothing but its turn.
//!
//! Non-goals: position, caches, chance.

use crate::model::{Completion, DiskIo, Model};
use crate::profile::{ModelParameters, quantity};
use crate::time_queue::TimeQueue;
use mirrorball_core::io::Op;
use mirrorball_core::units::Nanos;
use serde::{Deserialize, Deserializer};

/// The settings of a [`Delay`], in the units that people write.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DelayParameters {
    /// What every operation takes on its server (`"2ms"`).
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
    fn check(&self, _capacity_bytes: u64) -> Result<(), String> {
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
    /// What was submitted and has not been handed out, by its time of completion: known at
    /// submission, because nothing overtakes in the queue.
    pending: TimeQueue<u64>,
}

impl Delay {
    /// An idle disk.
    ///
    /// # Panics
    /// If there is no server.
    pub fn new(parameters: DelayParameters) -> Delay {
        assert!(parameters.servers > 0, "a disk without a server never completes anything");
        let mut servers = TimeQueue::default();
        for _ in 0..parameters.servers {
            servers.push(Nanos::ZERO, ());
        }
        Delay { parameters, servers, pending: TimeQueue::default() }
    }
}

impl Model for Delay {
    #[inline]
    fn submit(&mut self, now: Nanos, io: DiskIo) {
        let (free_at, ()) = self.servers.pop_due(Nanos::MAX).expect("there is a server");
        let end = now.max(free_at).saturating_add(self.parameters.holding_time(&io));
        self.servers.push(end, ());
        self.pending.push(end, io.tag);
    }

    #[inline]
    fn next_event(&self) -> Option<Nanos> {
        self.pending.first_due()
    }

    #[inline]
    fn advance(&mut self, now: Nanos, completions: &mut Vec<Completion>) {
        while let Some((at, tag)) = self.pending.pop_due(now) {
            completions.push(Completion { tag, at, result: Ok(()) });
        }
    }

    fn completion_if_submitted(&self, now: Nanos, io: DiskIo) -> Nanos {
        let free_at = self.servers.first_due().expect("there is a server");
        now.max(free_at).saturating_add(self.parameters.holding_time(&io))
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
