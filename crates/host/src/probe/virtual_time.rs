//! Runs what asks for reads against disk models, in virtual time.
//!
//! The same loop measures a model whose parameters are known ([`RunningProbe`]) and repeats
//! measured reads on a model that is being fitted ([`super::replay`]).

use super::machine::{MachineAction, ReadEnd, RunningProbe};
use super::recording::ProbeRead;
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
    /// The next action at `now`.
    fn poll(&mut self, now: Nanos) -> MachineAction;
    fn complete(&mut self, end: ReadEnd);
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct HostCost {
    pub(super) mean: Nanos,
    pub(super) deviation: Nanos,
    /// Greatest size of a request that it hands over: longer reads are split, and end with their
    /// last part.
    pub(super) request_bytes: Option<u64>,
}

/// Parts left of the reads that were split, by slot.
#[derive(Default)]
struct PartsLeft(Vec<u64>);

impl PartsLeft {
    /// Hands a read over in parts.
    fn submit(
        &mut self,
        read: ProbeRead,
        slot: usize,
        request_bytes: Option<u64>,
        mut hand_over: impl FnMut(DiskIo),
    ) {
        let ProbeRead { offset, length, .. } = read;
        let most = request_bytes.unwrap_or(length).max(1);
        if self.0.len() <= slot {
            self.0.resize(slot + 1, 0);
        }
        self.0[slot] = length.div_ceil(most).max(1);
        for part in 0..self.0[slot] {
            let done = part * most;
            let length = most.min(length - done);
            hand_over(DiskIo { tag: slot as u64, op: Op::Read, offset: offset + done, length });
        }
    }

    /// Records the end of a part; true if it was the last one of its read.
    fn end(&mut self, slot: usize) -> bool {
        self.0[slot] -= 1;
        self.0[slot] == 0
    }
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
    let mut parts = PartsLeft::default();
    loop {
        let wake = loop {
            match source.poll(now) {
                MachineAction::Read { slot, read } => {
                    parts.submit(read, slot, host.request_bytes, |io| {
                        models.submit(now, MemberIndex(0), io);
                    });
                }
                MachineAction::WaitUntil(at) => break Some(at),
                MachineAction::Wait => break None,
                MachineAction::Finished => return,
            }
        };
        let first = returning.peek().map(|Reverse((at, _, _))| *at);
        let next = [models.next_event(), first, wake].into_iter().flatten().min();
        let Some(next) = next else { return };
        now = next.max(now);
        models.advance(now, &mut ended);
        for (_, completion) in ended.drain(..) {
            if !parts.end(completion.tag as usize) {
                continue;
            }
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

impl ReadSource for RunningProbe {
    fn poll(&mut self, now: Nanos) -> MachineAction {
        RunningProbe::poll(self, now)
    }

    fn complete(&mut self, end: ReadEnd) {
        RunningProbe::complete(self, end);
    }
}

#[cfg(test)]
mod tests {
    use super::{PartsLeft, ProbeRead};
    use mirrorball_core::units::{KIB, Nanos};

    #[test]
    fn a_read_that_is_split_ends_with_its_last_part() {
        let mut parts = PartsLeft::default();
        let mut handed = Vec::new();
        let mut submit = |(offset, length), slot, most| {
            handed.clear();
            let read = ProbeRead { offset, length, pause: Nanos::ZERO };
            parts.submit(read, slot, most, |io| handed.push((io.tag, io.offset, io.length)));
            handed.clone()
        };
        assert_eq!(submit((0, 4 * KIB), 0, None), [(0, 0, 4 * KIB)]);
        assert_eq!(submit((8 * KIB, 4 * KIB), 1, Some(512 * KIB)), [(1, 8 * KIB, 4 * KIB)]);
        let split = submit((KIB, 1100 * KIB), 2, Some(512 * KIB));
        let expected = [(2, KIB, 512 * KIB), (2, 513 * KIB, 512 * KIB), (2, 1025 * KIB, 76 * KIB)];
        assert_eq!(split, expected);
        assert!(parts.end(0) && parts.end(1));
        assert_eq!([parts.end(2), parts.end(2), parts.end(2)], [false, false, true]);
    }
}
