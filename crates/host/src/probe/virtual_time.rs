//! Runs what asks for reads against disk models, in virtual time.
//!
//! The same loop measures a model whose parameters are known ([`super::machine::Probe`]) and
//! repeats measured reads on a model that is being fitted ([`super::replay`]).

use super::machine::{Action, Probe, ReadEnd};
use mirrorball_core::io::Op;
use mirrorball_core::member::MemberIndex;
use mirrorball_core::rng::Rng;
use mirrorball_core::units::Nanos;
use mirrorball_disk::model::DiskIo;
use mirrorball_disk::model_array::ModelArray;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Asks for reads, and takes their ends.
pub(super) trait ReadSource {
    /// What to do at `now`.
    fn poll(&mut self, now: Nanos) -> Action;
    /// Takes the end of a read.
    fn complete(&mut self, end: ReadEnd);
}

/// What the host adds to each read.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct HostCost {
    /// Mean time.
    pub(super) mean: Nanos,
    /// Standard deviation.
    pub(super) deviation: Nanos,
}

/// Runs `source` against the first member of `models` until it has finished.
pub(super) fn run(
    source: &mut impl ReadSource,
    models: &mut ModelArray,
    host: HostCost,
    seed: u64,
) {
    let mut rng = Rng::stream(seed, "probe host");
    let mut now = Nanos::ZERO;
    let mut ended = Vec::new();
    // Ends that the host still handles: time, order and slot.
    let mut returning: BinaryHeap<Reverse<(Nanos, u64, usize)>> = BinaryHeap::new();
    let mut number = 0;
    loop {
        let wake = loop {
            match source.poll(now) {
                Action::Read { slot, read } => {
                    let (offset, length) = (read.offset, read.length);
                    let io = DiskIo { tag: slot as u64, op: Op::Read, offset, length };
                    models.submit(now, MemberIndex(0), io);
                }
                Action::WaitUntil(at) => break Some(at),
                Action::Wait => break None,
                Action::Finished => return,
            }
        };
        let first = returning.peek().map(|Reverse((at, _, _))| *at);
        let next = [models.next_event(), first, wake].into_iter().flatten().min();
        let Some(next) = next else { return };
        now = next.max(now);
        models.advance(now, &mut ended);
        for (_, completion) in ended.drain(..) {
            number += 1;
            let at = completion.at + cost(&host, &mut rng);
            returning.push(Reverse((at, number, completion.tag as usize)));
        }
        while let Some(&Reverse((at, _, slot))) = returning.peek()
            && at <= now
        {
            returning.pop();
            source.complete(ReadEnd { slot, at, is_ok: true, is_blank: None });
        }
    }
}

fn cost(host: &HostCost, rng: &mut Rng) -> Nanos {
    if host.deviation == Nanos::ZERO {
        return host.mean;
    }
    let drawn = host.mean.0 as f64 + host.deviation.0 as f64 * rng.normal();
    Nanos(drawn.max(host.mean.0 as f64 / 2.0) as u64)
}

impl ReadSource for Probe {
    fn poll(&mut self, now: Nanos) -> Action {
        Probe::poll(self, now)
    }

    fn complete(&mut self, end: ReadEnd) {
        Probe::complete(self, end);
    }
}
