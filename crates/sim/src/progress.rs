//! The results of a section while a run goes on.

use crate::client::{ClientRequest, RequestEnd};
use crate::job::{Declared, Section};
use crate::record::{DirectionRecord, SectionRecord};
use mirrorball_core::histogram::Histogram;
use mirrorball_core::io::RequestKind;
use mirrorball_core::units::Nanos;

/// Writes in a section below which two halves are not compared.
const WRITES_TO_COMPARE: u64 = 100;

/// The results of one section so far.
pub(crate) struct SectionProgress {
    /// When the section starts.
    start: Nanos,
    /// Start of the measured window: the end of the ramp.
    from: Nanos,
    /// Whether the ramp goes on. What is counted then stands if the section ends within it, as in
    /// fio.
    is_ramp: bool,
    tallies: Tallies,
    /// The last completion, or the end of the last clone.
    last: Nanos,
    /// The end of its runtime, if it has one.
    planned_end: Option<Nanos>,
    /// The end of what counts.
    until: Nanos,
    /// First and last of the sections that end with a clone.
    pub(crate) ends: Option<[usize; 2]>,
    /// The middle of the measured window that is planned; never, without a runtime.
    middle: Nanos,
}

#[derive(Default)]
struct Tallies {
    read: RequestTally,
    write: RequestTally,
    trim: RequestTally,
    flush: RequestTally,
    /// Those bytes of writes that completed in the first half of the planned window. Without a
    /// runtime there is no planned window, and all bytes count.
    first_half_written: u64,
}

/// Requests of one kind so far.
#[derive(Default)]
struct RequestTally {
    bytes: u64,
    errors: u64,
    latency: Histogram,
}

impl SectionProgress {
    /// The progress of a section whose group starts at `now`.
    pub(crate) fn new(section: &Section, now: Nanos) -> SectionProgress {
        let start = now.max(section.start_delay);
        let from = start.saturating_add(section.ramp);
        let half = |runtime: Nanos| from.saturating_add(Nanos(runtime.0 / 2));
        let planned_end = section.runtime.map(|runtime| from.saturating_add(runtime));
        SectionProgress {
            start,
            from,
            is_ramp: from > start,
            tallies: Tallies::default(),
            last: now,
            planned_end,
            until: planned_end.filter(|_| section.ends_in_flight).unwrap_or(Nanos::MAX),
            ends: section.ends,
            middle: section.runtime.map_or(Nanos::MAX, half),
        }
    }

    /// Forgets what was measured so far.
    #[cold]
    pub(crate) fn restart(&mut self, now: Nanos) {
        (self.from, self.last, self.tallies) = (now, now, Tallies::default());
        self.is_ramp = false;
    }

    /// Forgets what was counted in the ramp, if that is over.
    #[inline]
    fn end_ramp(&mut self, now: Nanos) {
        if self.is_ramp && now >= self.from {
            (self.is_ramp, self.tallies) = (false, Tallies::default());
        }
    }

    /// Counts a request that ended, with a latency of this bin.
    #[inline]
    pub(crate) fn on_request_end(
        &mut self,
        request: &ClientRequest,
        end: RequestEnd,
        now: Nanos,
        bin: usize,
    ) {
        let ok = end != RequestEnd::Failed;
        if now > self.until {
            return;
        }
        self.last = self.last.max(now);
        if !ok {
            self.last = self.last.max(self.planned_end.unwrap_or_default());
        }
        self.end_ramp(now);
        let tally = match request.kind {
            RequestKind::Read => &mut self.tallies.read,
            RequestKind::Write => &mut self.tallies.write,
            RequestKind::Discard => &mut self.tallies.trim,
            RequestKind::Flush => &mut self.tallies.flush,
            _ => unreachable!("sections do not scrub or rebuild"),
        };
        if !ok {
            tally.errors += 1;
            return;
        }
        tally.bytes += request.length;
        tally.latency.record_in(bin, now - request.intended);
        if request.kind == RequestKind::Write && now < self.middle {
            self.tallies.first_half_written += request.length;
        }
    }

    /// Reports the end of a clone. A clone that pauses to the end of its runtime has run that long.
    pub(crate) fn on_clone_end(&mut self, now: Nanos) {
        self.end_ramp(now);
        self.last = self.last.max(now.min(self.until));
    }

    /// When it ends, whatever is in flight then; never if it waits for the last reply.
    pub(crate) fn until(&self) -> Nanos {
        self.until
    }

    /// The end of the measured window so far.
    pub(crate) fn last(&self) -> Nanos {
        self.last
    }

    /// Returns true if a flush succeeded.
    pub(crate) fn has_flushes(&self) -> bool {
        self.tallies.flush.latency.count() > 0
    }

    /// The record of the section, which `declared` describes as the job file has it.
    pub(crate) fn finish(self, declared: &Section, writes_fit_cache: bool) -> SectionRecord {
        let (from, ramp) = match self.is_ramp {
            true => (self.start, Nanos::ZERO),
            false => (self.from, declared.ramp),
        };
        let measured = self.last.saturating_sub(from);
        let write_rate_change = self.write_rate_change();
        let direction =
            |it: RequestTally| DirectionRecord::new(it.latency, it.bytes, it.errors, measured);
        let Declared { is_background, has_rate, asked_iops } = Declared::of(declared);
        SectionRecord {
            name: declared.name.clone(),
            from,
            measured,
            is_background,
            has_rate,
            asked_iops: offered_iops(declared, ramp, measured).or(asked_iops),
            write_rate_change,
            writes_fit_cache: writes_fit_cache && self.tallies.write.bytes > 0,
            read: direction(self.tallies.read),
            write: direction(self.tallies.write),
            trim: direction(self.tallies.trim),
            flush: direction(self.tallies.flush),
        }
    }

    /// A disk whose cache fills up, or whose garbage collection begins, slows down.
    fn write_rate_change(&self) -> Option<f64> {
        let (first, second) = (
            self.tallies.first_half_written,
            self.tallies.write.bytes - self.tallies.first_half_written,
        );
        let is_enough =
            self.tallies.write.latency.count() >= WRITES_TO_COMPARE && first > 0 && second > 0;
        is_enough.then(|| second as f64 / first as f64 - 1.0)
    }
}

/// Requests per second that the trace of a section offers while it is measured, behind a ramp:
/// reads if it reads, else writes.
fn offered_iops(declared: &Section, ramp: Nanos, measured: Nanos) -> Option<f64> {
    let replay = declared.replay.as_ref()?;
    let offered = replay.offered_iops(ramp, ramp.saturating_add(measured))?;
    Some(offered * f64::from(declared.clones))
}
