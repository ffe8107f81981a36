//! Next work of the mechanism: commands, cached writes, flushes, and the work of an idle disk.

use super::mechanism::{AccessPick, AccessTarget, HeadAccess, Passage, PickReason};
use super::read_cache::CacheLookup;
use super::{DiskCommand, Hdd, HddConstants, WriteBack};
use crate::model::ByteRange;
use mirrorball_core::units::Nanos;

/// How many revolutions a stream may hold the head while others wait. A head that always took what
/// is nearest would never leave a reader that keeps asking; that disks do not do so shows in their
/// users' running several streams. No disk documents its number: this one makes two streams share
/// somewhat more than half of the rate.
const STREAM_REVOLUTIONS: u64 = 2;

impl Hdd {
    /// Returns true if a command or a required write-back waits for the mechanism.
    pub(super) fn is_wanted(&self) -> bool {
        !self.commands.is_empty() || self.must_write_back()
    }

    fn must_write_back(&self) -> bool {
        !self.stalled.is_empty() || !self.flushes.is_empty()
    }

    /// Lets the mechanism, if it is free at `now`, start what waits for it.
    pub(super) fn dispatch(&mut self, now: Nanos) {
        while self.free_at <= now {
            self.finish_write_back();
            if self.finish_flush(now) {
                continue;
            }
            if !self.is_wanted() {
                return;
            }
            self.start_next(now);
        }
    }

    fn start_next(&mut self, now: Nanos) {
        let write_back = if self.must_write_back() {
            self.fill_window();
            self.choose_write_back(now)
        } else {
            None
        };
        let HddConstants { mechanics, parameters, .. } = &*self.fixed;
        let command = mechanics.choose(&self.head, &self.candidates, now, parameters.age_limit);
        match (command, write_back) {
            (Some(pick), None) => self.start_command(pick, now),
            (None, Some(pick)) => self.start_write_back(pick),
            (Some(command), Some(write_back)) => {
                let soonest = |pick: &AccessPick| (pick.start, pick.cost);
                let write_back_first = if self.write_back_is_overdue(now) {
                    true
                } else if self.stream_is_spent(now) {
                    self.serving == HeadAccess::Read
                } else {
                    soonest(&write_back) < soonest(&command)
                };
                match write_back_first {
                    true => self.start_write_back(write_back),
                    false => self.start_command(command, now),
                }
            }
            (None, None) => unreachable!("who waits for the mechanism waits for a command"),
        }
    }

    /// Reads must not keep a flush or a stalled write waiting beyond the age limit.
    fn write_back_is_overdue(&self, now: Nanos) -> bool {
        let flush = self.flushes.front().map(|flush| flush.ready_at);
        let write = self.stalled.front().map(|write| write.submitted.ready_at);
        let limit = self.fixed.parameters.age_limit;
        [flush, write].into_iter().flatten().any(|since| since.saturating_add(limit) < now)
    }

    fn start_command(&mut self, pick: AccessPick, now: Nanos) {
        let index = match pick.reason {
            PickReason::Nearest if self.stream_is_spent(now) => self.oldest_command(),
            PickReason::Nearest => match self.next_of_stream(now) {
                Some(index) => index,
                None => self.first_of_run(pick.index),
            },
            PickReason::Overdue | PickReason::FirstReady => pick.index,
        };
        let command = self.commands.swap_remove(index);
        self.candidates.swap_remove(index);
        match command.access {
            HeadAccess::Read => self.start_read(command, pick.start),
            HeadAccess::Write => {
                let at = self.start_write(&command.target, pick.start);
                self.end(at, command.number, command.tag);
            }
        }
    }

    /// Whether the head has followed one stream for as long as others can be kept waiting.
    fn stream_is_spent(&self, now: Nanos) -> bool {
        self.fixed.mechanics.followed_revolutions(&self.head, now) >= STREAM_REVOLUTIONS
    }

    /// The command that has been in the queue for longest. In a single stream, the next of it.
    fn oldest_command(&self) -> usize {
        // Of those that came at once, such as the pieces of a request, the first.
        let age = |&index: &usize| (self.candidates[index].ready_at, self.commands[index].number);
        (0..self.commands.len()).min_by_key(age).expect("a command was chosen among them")
    }

    /// The queued read that goes on where the head is reading a stream ahead: no other is nearer.
    fn next_of_stream(&mut self, now: Nanos) -> Option<usize> {
        let stream = self.read_cache.stream(&self.fixed.mechanics, &self.head, now)?;
        let mut next = None;
        for (index, command) in self.commands.iter().enumerate() {
            let start = command.target.extent.start.position;
            let ready = command.target.candidate.ready_at <= now;
            let on_stream = stream.start <= start && start <= stream.end;
            if on_stream && ready && command.access == HeadAccess::Read {
                next = next.min(Some((start, index))).or(Some((start, index)));
            }
        }
        next.map(|(_, index)| index)
    }

    /// The first of the queued commands that lead without a gap to the one at `index`. Taking a
    /// stream from its middle because the spindle happens to stand there would leave its beginning
    /// behind.
    fn first_of_run(&self, mut index: usize) -> usize {
        for _ in 0..self.commands.len() {
            let DiskCommand { access, continues, target, .. } = &self.commands[index];
            if !continues {
                break;
            }
            let leads = |other: &DiskCommand| {
                other.access == *access && other.target.end_byte() == target.bytes().offset
            };
            match self.commands.iter().position(leads) {
                Some(before) => index = before,
                None => break,
            }
        }
        index
    }

    fn start_read(&mut self, mut command: DiskCommand, start: Nanos) {
        let mechanics = &self.fixed.mechanics;
        let ByteRange { offset, length } = command.target.bytes();
        let range = command.target.positions();
        let before = command.cached;
        let cached = self.read_cache.look_again(before, range, mechanics, &self.head, start);
        match cached {
            CacheLookup::Whole(segment) => {
                self.read_cache.consume(segment, range.end, mechanics, &mut self.head, start);
                let at = self.transfer(start, length);
                return self.end(at, command.number, command.tag);
            }
            CacheLookup::Beginning(segment) => {
                command.target.skip_to(self.read_cache.end_of(segment))
            }
            CacheLookup::Nothing => {}
        }
        self.read_cache.stop_filling(mechanics, &self.head, start);
        self.serving = HeadAccess::Read;
        let passage = mechanics.access(&mut self.head, &command.target, start);
        let parameters = &self.fixed.parameters;
        let size = mechanics.geometry.reach(offset, parameters.segment_size);
        let sequential = self.read_cache.extend(cached, range, size);
        let ahead = mechanics.geometry.reach(offset, parameters.read_ahead);
        let ahead = if sequential { mechanics.nanos(ahead) } else { Nanos::ZERO };
        let transferred_at = start + Nanos::transfer(length, parameters.interface_rate);
        self.free_at = passage.ended_at + self.recovery(passage);
        self.last_read_at = self.free_at;
        self.end(self.free_at.max(transferred_at), command.number, command.tag);
        // A queued read that goes on from here gets the data anyway.
        if self.candidates.iter().all(|next| next.offset != self.head.end_byte) {
            self.free_at += ahead;
        }
    }

    /// Starts writing; returns the end.
    fn start_write(&mut self, target: &AccessTarget, start: Nanos) -> Nanos {
        let mechanics = &self.fixed.mechanics;
        self.read_cache.stop_filling(mechanics, &self.head, start);
        self.read_cache.invalidate(target.positions());
        self.serving = HeadAccess::Write;
        let passage = mechanics.access(&mut self.head, target, start);
        self.free_at = passage.ended_at + self.recovery(passage);
        self.free_at
    }

    /// Draws whether the access just started meets a recovery; returns how long it takes.
    fn recovery(&mut self, passage: Passage) -> Nanos {
        if !passage.positioned || self.rng.next_u64() >= self.fixed.recovery_threshold {
            return Nanos::ZERO;
        }
        let parameters = &self.fixed.parameters;
        let spread = parameters.recovery_max.0 - parameters.recovery_min.0;
        let duration = parameters.recovery_min.0 + self.rng.below(spread + 1);
        let mechanics = &self.fixed.mechanics;
        mechanics.delay(&mut self.head, duration.div_ceil(mechanics.revolution_ns()))
    }

    /// Tops up the window of cached writes to choose among.
    fn fill_window(&mut self) {
        while self.window.len() < self.fixed.parameters.write_window
            && let Some(dirty) = self.write_cache.pop_oldest()
        {
            let (offset, bands_cleaned) = match &mut self.media_cache {
                Some(cache) => {
                    let placement = cache.place(dirty.offset, dirty.length);
                    (placement.offset, placement.bands_cleaned)
                }
                None => (dirty.offset, 0),
            };
            let bytes = ByteRange { offset, length: dirty.length };
            let target = self.fixed.mechanics.target(HeadAccess::Write, bytes, dirty.ready_at);
            self.window.push(WriteBack { dirty, target, bands_cleaned });
            self.window_candidates.push(target.candidate);
        }
    }

    /// Chooses the next cached write. None is overdue, because no command waits for a particular
    /// one.
    fn choose_write_back(&self, now: Nanos) -> Option<AccessPick> {
        self.fixed.mechanics.choose(&self.head, &self.window_candidates, now, Nanos::MAX)
    }

    fn start_write_back(&mut self, pick: AccessPick) {
        let WriteBack { dirty, target, bands_cleaned } = self.window.swap_remove(pick.index);
        self.window_candidates.swap_remove(pick.index);
        self.start_write(&target, pick.start);
        if bands_cleaned > 0 {
            let HddConstants { mechanics, clean_revolutions, .. } = &*self.fixed;
            let revolutions = bands_cleaned * clean_revolutions;
            self.free_at += mechanics.delay(&mut self.head, revolutions);
        }
        self.writing_back = Some(dirty);
    }

    /// Frees the room of a write-back that has ended, for writes that wait for it.
    fn finish_write_back(&mut self) {
        let Some(dirty) = self.writing_back.take() else { return };
        self.write_cache.release(dirty.length);
        self.take_in_writes(self.free_at);
    }

    /// Ends the oldest flush if all that it covers is on the medium. The mechanism is free.
    fn finish_flush(&mut self, now: Nanos) -> bool {
        let Some(&flush) = self.flushes.front() else { return false };
        let in_window = self.window.iter().map(|write_back| write_back.dirty.number);
        let oldest = in_window.chain(self.write_cache.oldest_number()).min();
        if oldest.is_some_and(|number| number <= flush.covers) {
            return false;
        }
        self.flushes.pop_front();
        self.free_at = now.max(flush.ready_at) + self.fixed.parameters.flush_overhead;
        self.end(self.free_at, flush.number, flush.tag);
        true
    }

    /// Works out what an idle disk wrote back before `now`.
    pub(super) fn catch_up(&mut self, now: Nanos) {
        while self.write_cache.used_bytes() > 0 && self.free_at < now && !self.is_wanted() {
            self.finish_write_back();
            self.fill_window();
            let idle_from = self.last_read_at + self.fixed.parameters.idle_delay;
            let from = self.free_at.max(idle_from);
            match self.choose_write_back(from) {
                Some(pick) if pick.start < now => self.start_write_back(pick),
                _ => break,
            }
        }
        self.clean_while_idle(now);
    }

    /// Works out which bands an idle shingled disk cleaned before `now`. A command that comes
    /// meanwhile waits for the end of the band.
    fn clean_while_idle(&mut self, now: Nanos) {
        if self.is_wanted() || self.write_cache.used_bytes() > 0 {
            return;
        }
        let Some(cache) = &mut self.media_cache else { return };
        let HddConstants { mechanics, parameters, clean_revolutions, .. } = &*self.fixed;
        let band = Nanos(clean_revolutions * mechanics.revolution_ns());
        loop {
            let idle_from = self.free_at.max(self.last_read_at) + parameters.clean_idle;
            let from = if self.free_at == self.cleaned_until { self.free_at } else { idle_from };
            if from >= now || !cache.clean_oldest() {
                return;
            }
            self.read_cache.stop_filling(mechanics, &self.head, from);
            self.free_at = from + band;
            self.cleaned_until = self.free_at;
        }
    }
}
