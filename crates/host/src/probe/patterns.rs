//! The addresses that an agent of a step reads, one after the other.
//!
//! Draws come from a seed and the name of the step, so that a plan reads the same addresses on
//! every device of a size.

use super::recording::ProbeRead;
use super::step::{AgentSpec, Pattern, StreamGroup};
use super::track_map::TrackMap;
use mirrorball_core::rng::Rng;
use mirrorball_core::units::{MIB, Nanos};

/// Offsets are multiples of this, unless the reads of the step are shorter.
const ALIGNMENT: u64 = 4096;
/// Jumps differ by up to this share of their distance, and at least by [`DITHER_BYTES`], so that
/// the angle between their ends is random.
const DITHER_SHARE: f64 = 0.01;
/// More than the longest tracks.
const DITHER_BYTES: f64 = 4.0 * MIB as f64;
/// The shortest jump: a few tracks, so that it leaves the track, and no more.
pub(super) const SHORTEST_JUMP: f64 = 8.0 * MIB as f64;

/// Facts of the device that patterns need.
#[derive(Clone, Copy, Debug)]
pub(super) struct Surface {
    pub(super) capacity_bytes: u64,
    /// Where its bytes lie, as far as it is known.
    pub(super) tracks: TrackMap,
}

#[derive(Clone, Debug)]
pub(super) struct AgentState {
    spec: AgentSpec,
    surface: Surface,
    rng: Rng,
    /// Number of reads so far.
    issued: usize,
    /// The offsets of the current round, chain or group.
    places: Vec<u64>,
}

impl AgentState {
    pub(super) fn new(spec: AgentSpec, surface: Surface, rng: Rng) -> AgentState {
        AgentState { spec, surface, rng, issued: 0, places: Vec::new() }
    }

    /// The next read, or `None` at the end of the pattern.
    pub(super) fn next_read(&mut self) -> Option<ProbeRead> {
        let (offset, pause) = match self.spec.pattern {
            Pattern::Random { from, to } => (self.random(from, to), Nanos::ZERO),
            Pattern::Revisit { places, rounds } => (self.revisit(places, rounds)?, Nanos::ZERO),
            Pattern::Repeat { places, times } => (self.repeat(places, times)?, Nanos::ZERO),
            Pattern::Runs { places, run_bytes } => (self.run(places, run_bytes)?, Nanos::ZERO),
            Pattern::Jumps { distances, jumps } => (self.jump(distances, jumps)?, Nanos::ZERO),
            Pattern::Streams { groups } => (self.stream(groups)?, Nanos::ZERO),
            Pattern::Ahead { distances, repeats, pause } => {
                self.ahead(distances, repeats, pause)?
            }
            Pattern::Sequential => (self.sequential(), Nanos::ZERO),
            Pattern::Same => (self.same(), Nanos::ZERO),
            Pattern::Bursts { burst, pause } => {
                let begins = (self.issued as u64).is_multiple_of(burst);
                (self.random(0.0, 1.0), if begins { pause } else { Nanos::ZERO })
            }
        };
        self.issued += 1;
        Some(ProbeRead { offset, length: self.spec.length, pause })
    }

    /// The last offset at which a read may begin.
    fn last_offset(&self) -> u64 {
        align(self.surface.capacity_bytes.saturating_sub(self.spec.length))
    }

    fn random(&mut self, from: f64, to: f64) -> u64 {
        let last = self.last_offset();
        let begin = (from * last as f64) as u64;
        let span = ((to * last as f64) as u64).saturating_sub(begin) + 1;
        align(begin + self.rng.below(span))
    }

    fn revisit(&mut self, places: usize, rounds: usize) -> Option<u64> {
        if self.issued == places * rounds {
            return None;
        }
        if self.places.is_empty() {
            self.places = (0..places).map(|_| self.random(0.0, 1.0)).collect();
        }
        let index = self.issued % places;
        if index == 0 {
            for left in (1..places).rev() {
                let other = self.rng.below(left as u64 + 1) as usize;
                self.places.swap(left, other);
            }
        }
        Some(self.places[index])
    }

    fn repeat(&mut self, places: usize, times: usize) -> Option<u64> {
        if self.issued == places * times {
            return None;
        }
        if self.issued.is_multiple_of(times) {
            self.places = vec![self.random(0.0, 1.0)];
        }
        Some(self.places[0])
    }

    fn run(&self, places: usize, run_bytes: u64) -> Option<u64> {
        let length = (run_bytes / self.spec.length).max(1) as usize;
        let (place, within) = (self.issued / length, self.issued % length);
        if place == places {
            return None;
        }
        let last = self.surface.capacity_bytes.saturating_sub(length as u64 * self.spec.length);
        let begin = (place as f64 / (places - 1).max(1) as f64 * last as f64) as u64;
        Some(align(begin) + within as u64 * self.spec.length)
    }

    /// Read 0 of a chain goes to a random place; each further one jumps from there.
    fn jump(&mut self, distances: &[f64], jumps: usize) -> Option<u64> {
        let tracks = self.surface.tracks;
        let capacity = self.surface.capacity_bytes as f64;
        let distance = distances.get(self.issued / (jumps + 1))?.max(SHORTEST_JUMP / capacity);
        if self.issued.is_multiple_of(jumps + 1) {
            // From a place that leaves room for the jump in one direction at least.
            let room = (1.0 - distance).max(0.0);
            let track = self.rng.unit() * room;
            let track = if self.rng.below(2) == 0 { track } else { 1.0 - track };
            self.places = vec![self.offset_at(tracks.bytes(track))];
            return Some(self.places[0]);
        }
        let here = tracks.track(self.places[0] as f64 / capacity);
        let outwards = here >= distance && (here + distance > 1.0 || self.rng.below(2) == 0);
        let target = if outwards { here - distance } else { here + distance };
        let spread = (distance * DITHER_SHARE).max(DITHER_BYTES / capacity);
        let target = target + (self.rng.unit() - 0.5) * 2.0 * spread;
        // Reflected at the edges, not clamped: many targets on the last track would share an angle.
        let target = if target < 0.0 { -target } else { target };
        let target = if target > 1.0 { 2.0 - target } else { target };
        self.places[0] = self.offset_at(tracks.bytes(target));
        Some(self.places[0])
    }

    fn offset_at(&self, fraction: f64) -> u64 {
        let last = self.last_offset();
        align(((fraction * self.surface.capacity_bytes as f64) as u64).min(last))
    }

    fn stream(&mut self, groups: &[StreamGroup]) -> Option<u64> {
        let mut before = 0;
        for group in groups {
            let reads = group.streams * group.rounds;
            if self.issued < before + reads {
                let within = self.issued - before;
                if within == 0 {
                    self.places = self.stream_starts(group);
                }
                let offset = self.places[within % group.streams];
                return Some(offset + (within / group.streams) as u64 * self.spec.length);
            }
            before += reads;
        }
        None
    }

    fn stream_starts(&mut self, group: &StreamGroup) -> Vec<u64> {
        let reach = group.rounds as u64 * self.spec.length;
        let last = self.surface.capacity_bytes.saturating_sub(reach).max(1);
        (0..group.streams).map(|_| align(self.rng.below(last))).collect()
    }

    fn ahead(&mut self, distances: &[u64], repeats: usize, pause: Nanos) -> Option<(u64, Nanos)> {
        let distance = *distances.get(self.issued / (2 * repeats))?;
        if self.issued % 2 == 1 {
            return Some(((self.places[0] + distance).min(self.last_offset()), pause));
        }
        let last = self.last_offset().saturating_sub(distance).max(1);
        self.places = vec![align(self.rng.below(last))];
        Some((self.places[0], Nanos::ZERO))
    }

    fn sequential(&mut self) -> u64 {
        if self.issued == 0 {
            // Far enough from the end for a minute at 8 GB/s, where there is room.
            self.places = vec![self.random(0.0, 0.5)];
        }
        let reads = (self.last_offset() - self.places[0]) / self.spec.length + 1;
        self.places[0] + (self.issued as u64 % reads) * self.spec.length
    }

    fn same(&mut self) -> u64 {
        if self.issued == 0 {
            self.places = vec![self.random(0.0, 1.0)];
        }
        self.places[0]
    }
}

fn align(offset: u64) -> u64 {
    offset - offset % ALIGNMENT
}
