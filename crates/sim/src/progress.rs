//! The results of a section while a run goes on.

use crate::client::{ClientRequest, RequestEnd};
use crate::job::Section;
use crate::record::SectionResult;
use mirrorball_core::units::Nanos;

/// The results of one section so far.
pub(crate) struct SectionProgress {
    result: SectionResult,
    /// The last completion, or the end of the last clone.
    last: Nanos,
    /// The end of its runtime, if it has one.
    planned_end: Option<Nanos>,
    /// The middle of the measured window that is planned; never, without a runtime.
    middle: Nanos,
}

impl SectionProgress {
    /// The progress of a section whose group starts at `now`.
    pub(crate) fn new(section: &Section, now: Nanos) -> SectionProgress {
        let from = now.max(section.start_delay).saturating_add(section.ramp);
        let result = SectionResult {
            name: section.name.clone(),
            counts: section.counts,
            has_rate: section.has_rate(),
            from,
            ..SectionResult::default()
        };
        let planned_end = section.runtime.map(|runtime| from.saturating_add(runtime));
        let half = |runtime: Nanos| from.saturating_add(Nanos(runtime.0 / 2));
        let middle = section.runtime.map_or(Nanos::MAX, half);
        SectionProgress { result, last: now, planned_end, middle }
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
        self.last = self.last.max(now);
        if !ok {
            self.last = self.last.max(self.planned_end.unwrap_or_default());
        }
        if now < self.result.from {
            return;
        }
        let direction = self.result.direction_mut(request.kind);
        if ok {
            direction.bytes += request.length;
            direction.first_half_bytes += if now < self.middle { request.length } else { 0 };
            direction.latency.record_in(bin, now - request.intended);
        } else {
            direction.errors += 1;
        }
    }

    /// Reports the end of a clone. A clone that pauses to the end of its runtime has run that long.
    pub(crate) fn on_clone_end(&mut self, now: Nanos) {
        self.last = self.last.max(now);
    }

    /// The end of the measured window so far.
    pub(crate) fn last(&self) -> Nanos {
        self.last
    }

    pub(crate) fn finish(mut self) -> SectionResult {
        self.result.measured = self.last.saturating_sub(self.result.from);
        self.result
    }
}
