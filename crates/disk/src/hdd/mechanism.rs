//! The arm and the spindle: what it costs to reach a place, and which of several is reached first.
//!
//! The spindle never stops, so its angle is a function of time and of a start phase that differs
//! from disk to disk. A head that reads or writes *follows* the recording: its position at any time
//! is an anchor plus the turns since, until it seeks away. Whatever starts where a following head
//! is about to pass costs neither seek nor settling.
//!
//! Angles and seeks are counted in units of 2^-24 revolution (half a nanosecond at 7200 rpm), so
//! that going round is a mask instead of a division.

use super::geometry::{Geometry, PositionRange, REVOLUTION, TrackPosition, TrackSpan};
use super::parameters::HddParameters;
use super::seek::SeekTable;
use crate::model::ByteRange;
use mirrorball_core::units::Nanos;

const MASK: u32 = (REVOLUTION - 1) as u32;
/// How far a place may have passed already and still be caught: the roundings of a few conversions,
/// thirty nanoseconds of a revolution.
const SLACK: u32 = 64;

/// Fixed mechanics of one disk.
#[derive(Clone, Debug)]
pub(super) struct Mechanics {
    pub(super) geometry: Geometry,
    seeks: SeekTable,
    revolution_ns: u64,
    /// Position units per nanosecond, times 2^32.
    units_per_ns: u64,
    phase_ns: u64,
    write_settle: u32,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    pub(super) place: TrackPosition,
    /// The first byte after the last one read or written.
    pub(super) end_byte: u64,
    /// When the head was, or will be, at `anchor_position`, following the recording.
    anchor_at: Nanos,
    anchor_position: u64,
}

/// Facts for the choice among commands; half a cache line.
#[derive(Clone, Copy, Debug)]
pub(super) struct AccessCandidate {
    /// When it may start at the earliest; its age counts from here.
    pub(super) ready_at: Nanos,
    pub(super) offset: u64,
    pub(super) cylinder: u32,
    pub(super) track: u32,
    angle: u32,
    settle: u32,
}

/// Everything the mechanism needs to serve a command.
#[derive(Clone, Copy, Debug)]
pub(super) struct AccessTarget {
    pub(super) candidate: AccessCandidate,
    pub(super) extent: TrackSpan,
    length: u64,
}

/// How the head came by a target.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Passage {
    /// When it has passed the last byte.
    pub(super) ended_at: Nanos,
    /// Whether it had to leave the recording that it followed.
    pub(super) positioned: bool,
}

/// Whether the head reads or writes; writes settle longer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum HeadAccess {
    Read,
    Write,
}

/// The candidate chosen, and when it may start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct AccessPick {
    pub(super) index: usize,
    pub(super) start: Nanos,
    pub(super) cost: u32,
    /// Why it was chosen.
    pub(super) reason: PickReason,
}

/// Why a candidate was chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PickReason {
    /// It has waited beyond the age limit.
    Overdue,
    /// The command whose access starts soonest.
    Nearest,
    /// Nothing is ready, and it will be first.
    FirstReady,
}

impl AccessTarget {
    pub(super) fn positions(&self) -> PositionRange {
        self.extent.positions()
    }

    pub(super) fn bytes(&self) -> ByteRange {
        ByteRange { offset: self.candidate.offset, length: self.length }
    }

    /// The first byte after those it covers.
    pub(super) fn end_byte(&self) -> u64 {
        self.candidate.offset + self.length
    }

    /// Leaves out what lies before `position`, which a cache holds.
    pub(super) fn skip_to(&mut self, position: u64) {
        let start = &mut self.extent.start.position;
        *start = (*start).max(position);
        self.candidate.angle = *start as u32 & MASK;
    }
}

impl Mechanics {
    pub(super) fn new(parameters: &HddParameters, capacity_bytes: u64, phase: u64) -> Mechanics {
        let revolution_ns = parameters.revolution().0;
        let geometry = Geometry::new(parameters, capacity_bytes);
        let unit_ns = revolution_ns as f64 / REVOLUTION as f64;
        Mechanics {
            seeks: SeekTable::new(parameters, geometry.cylinders(), unit_ns),
            geometry,
            revolution_ns,
            units_per_ns: (REVOLUTION << 32) / revolution_ns,
            phase_ns: phase % revolution_ns,
            write_settle: (parameters.write_settle.0 * REVOLUTION / revolution_ns) as u32,
        }
    }

    pub(super) fn revolution_ns(&self) -> u64 {
        self.revolution_ns
    }

    /// The start of a disk's life: the head rests at the first byte, following nothing.
    pub(super) fn head(&self) -> Head {
        let place = self.geometry.extent(0, 1).start;
        Head { place, end_byte: u64::MAX, anchor_at: Nanos::ZERO, anchor_position: u64::MAX / 2 }
    }

    /// Computes once what every choice will look at.
    pub(super) fn target(
        &self,
        access: HeadAccess,
        bytes: ByteRange,
        ready_at: Nanos,
    ) -> AccessTarget {
        let extent = self.geometry.extent(bytes.offset, bytes.length);
        let candidate = AccessCandidate {
            ready_at,
            offset: bytes.offset,
            cylinder: extent.start.cylinder,
            track: extent.start.track,
            angle: extent.start.position as u32 & MASK,
            settle: match access {
                HeadAccess::Read => 0,
                HeadAccess::Write => self.write_settle,
            },
        };
        AccessTarget { candidate, extent, length: bytes.length }
    }

    /// Chooses the candidate whose access starts soonest if the head leaves at `now`: shortest
    /// access time first. One that waits beyond `age_limit` goes before all others; if none is
    /// ready, the first to be ready is taken. `None` without candidates.
    #[inline]
    pub(super) fn choose(
        &self,
        head: &Head,
        candidates: &[AccessCandidate],
        now: Nanos,
        age_limit: Nanos,
    ) -> Option<AccessPick> {
        let angle_now = self.angle_at(now);
        let follows = self.position_at(head, now) <= head.place.position + u64::from(SLACK);
        let continued = if follows { head.end_byte } else { u64::MAX };
        // Minima of plain numbers, so that the loop has no branch to mispredict.
        let mut best = u64::MAX;
        let mut oldest_ready = Nanos::MAX;
        for (index, candidate) in candidates.iter().enumerate() {
            oldest_ready = oldest_ready.min(candidate.ready_at);
            let positioning = self.positioning(head, candidate, angle_now);
            let cost = if candidate.offset == continued { 0 } else { positioning };
            let cost = if candidate.ready_at <= now { cost } else { u32::MAX };
            best = best.min((u64::from(cost) << 32) | index as u64);
        }
        if candidates.is_empty() {
            return None;
        }
        let reason = if oldest_ready > now {
            PickReason::FirstReady
        } else if oldest_ready.saturating_add(age_limit) < now {
            PickReason::Overdue
        } else {
            let (index, cost) = (best as u32 as usize, (best >> 32) as u32);
            return Some(AccessPick { index, start: now, cost, reason: PickReason::Nearest });
        };
        let index = candidates.iter().position(|candidate| candidate.ready_at == oldest_ready);
        let index = index.expect("the minimum is one of them");
        Some(AccessPick { index, start: oldest_ready.max(now), cost: 0, reason })
    }

    /// Moves the head to read or write `target` from time `start` on.
    pub(super) fn access(&self, head: &mut Head, target: &AccessTarget, start: Nanos) -> Passage {
        let AccessTarget { candidate, extent, .. } = target;
        let from = extent.start.position;
        let positioned = !self.follows(head, from, candidate.settle, start);
        if positioned {
            let turn = self.positioning(head, candidate, self.angle_at(start));
            head.anchor_at = start + self.nanos(u64::from(turn));
            head.anchor_position = from;
        }
        head.place = extent.end;
        head.end_byte = target.end_byte();
        Passage { ended_at: self.time_of(head, extent.end.position), positioned }
    }

    /// Delays a following head by whole revolutions, so that it still follows afterwards.
    pub(super) fn delay(&self, head: &mut Head, revolutions: u64) -> Nanos {
        let delay = Nanos(revolutions * self.revolution_ns);
        head.anchor_at += delay;
        delay
    }

    /// Whether a head that just goes on from `start` comes by position `from` next: within a
    /// revolution for a read, within a switch of tracks for a write, which has to be on track
    /// before it starts.
    fn follows(&self, head: &Head, from: u64, settle: u32, start: Nanos) -> bool {
        let reach = if settle == 0 { REVOLUTION } else { self.geometry.widest_gap() };
        let here = self.position_at(head, start);
        from + u64::from(SLACK) >= here && from <= here + reach
    }

    /// Seek, settling and rotation from where the head is at `angle_now`, in units.
    #[inline]
    fn positioning(&self, head: &Head, candidate: &AccessCandidate, angle_now: u32) -> u32 {
        let distance = candidate.cylinder.abs_diff(head.place.cylinder);
        let travel =
            if candidate.track == head.place.track { 0 } else { self.seeks.time(distance) };
        let moved = travel + candidate.settle;
        let wait = candidate.angle.wrapping_add(SLACK).wrapping_sub(angle_now.wrapping_add(moved));
        moved + (wait & MASK).saturating_sub(SLACK)
    }

    /// How many revolutions the head has followed the recording without leaving it.
    pub(super) fn followed_revolutions(&self, head: &Head, now: Nanos) -> u64 {
        self.position_at(head, now).saturating_sub(head.anchor_position) / REVOLUTION
    }

    /// The position of a head that goes on following.
    #[inline]
    pub(super) fn position_at(&self, head: &Head, now: Nanos) -> u64 {
        head.anchor_position + self.units(now.saturating_sub(head.anchor_at))
    }

    /// When a head that goes on following passes `position`; zero if that lies behind it.
    #[inline]
    pub(super) fn time_of(&self, head: &Head, position: u64) -> Nanos {
        match position.checked_sub(head.anchor_position) {
            Some(ahead) => head.anchor_at + self.nanos(ahead),
            None => Nanos::ZERO,
        }
    }

    /// Lets a head that stopped at `position` wait until the spindle brings it round again.
    pub(super) fn resume(&self, head: &mut Head, position: u64, now: Nanos) {
        let wait = (position as u32).wrapping_sub(self.angle_at(now)) & MASK;
        head.anchor_at = now + self.nanos(u64::from(wait));
        head.anchor_position = position;
    }

    /// The angle under the head at `now`.
    #[inline]
    fn angle_at(&self, now: Nanos) -> u32 {
        let turned_ns = (now.0 + self.phase_ns) % self.revolution_ns;
        ((turned_ns * self.units_per_ns) >> 32) as u32 & MASK
    }

    #[inline]
    pub(super) fn units(&self, duration: Nanos) -> u64 {
        let revolutions = duration.0 / self.revolution_ns;
        let rest = duration.0 - revolutions * self.revolution_ns;
        revolutions * REVOLUTION + ((rest * self.units_per_ns) >> 32)
    }

    /// Position units as a duration.
    #[inline]
    pub(super) fn nanos(&self, units: u64) -> Nanos {
        let rest = (units & u64::from(MASK)) * self.revolution_ns;
        Nanos(units / REVOLUTION * self.revolution_ns + rest / REVOLUTION)
    }
}
