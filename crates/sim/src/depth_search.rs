//! The search for a depth (`latency_target`), as fio's `lat_target_*` do it.
//!
//! It begins with a depth of one. After each window in which enough requests were fast enough the
//! depth doubles, or goes half the way to one that was too deep; after one in which they were not
//! it goes half the way back, when all requests have ended. A depth that does not change any more
//! is measured for one window, without the requests before, and then the clone ends.

use crate::job::DepthGoal;
use mirrorball_core::units::Nanos;

/// Windows in a row after which a depth that is stable may grow.
const STABLE_WINDOWS: u32 = 3;

#[derive(Default)]
pub(crate) struct DepthSearch {
    goal: DepthGoal,
    /// End of the ramp, before which the depth stays.
    from: Nanos,
    depth: u32,
    low: u32,
    high: u32,
    max: u32,
    stable: u32,
    /// The current window: its start, the requests that ended in it, and the slow ones of these.
    since: Nanos,
    ended: u64,
    slow: u64,
    is_draining: bool,
    /// Whether the last window has begun, and whether the results before it are to be forgotten.
    is_last: bool,
    forgets: bool,
    is_done: bool,
}

/// Next step of a search.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DepthStep {
    /// At most so many requests in flight.
    AtMost(u32),
    /// No request before all in flight have ended.
    Drain,
    /// The results so far do not count.
    ForgetResults,
    End,
}

impl DepthSearch {
    /// A search up to `max` of a clone that starts at `start`, with a ramp.
    pub(crate) fn new(goal: DepthGoal, max: u32, start: Nanos, ramp: Nanos) -> DepthSearch {
        DepthSearch {
            goal,
            from: start.saturating_add(ramp),
            depth: 1,
            low: 1,
            high: max,
            max,
            since: start,
            ..DepthSearch::default()
        }
    }

    pub(crate) fn step(&mut self, now: Nanos, in_flight: u32) -> DepthStep {
        let has_window = now >= self.from && now >= self.since.saturating_add(self.goal.window);
        if has_window && !self.is_draining && !self.is_done {
            let fast = (self.ended as f64 - self.slow as f64) / self.ended as f64;
            match fast * 100.0 >= self.goal.percentile {
                true => self.succeed(now),
                false => _ = self.fail(),
            }
        }
        match self.is_draining {
            _ if self.is_done => return DepthStep::End,
            true if in_flight > 0 => return DepthStep::Drain,
            true => self.begin_window(now),
            false => {}
        }
        match std::mem::take(&mut self.forgets) {
            true => DepthStep::ForgetResults,
            false => DepthStep::AtMost(self.depth),
        }
    }

    /// Counts a request that ended. Returns false if the clone ends, as it was slow at a depth of
    /// one although none may be.
    pub(crate) fn on_end(&mut self, latency: Nanos) -> bool {
        self.ended += 1;
        match latency > self.goal.latency {
            true if self.goal.percentile >= 100.0 => return self.fail(),
            true => self.slow += 1,
            false => {}
        }
        true
    }

    fn begin_window(&mut self, now: Nanos) {
        (self.since, self.ended, self.slow, self.is_draining) = (now, 0, 0, false);
    }

    /// Lowers the depth. Returns false if it is one already.
    fn fail(&mut self) -> bool {
        if self.depth == 1 {
            return false;
        }
        self.high = self.depth;
        self.low -= u32::from(self.depth == self.low);
        (self.depth, self.stable, self.is_draining) = (self.depth.midpoint(self.low), 0, true);
        true
    }

    fn succeed(&mut self, now: Nanos) {
        let depth = self.depth;
        self.low = depth;
        if depth + 1 == self.high {
            self.stable += 1;
            if self.stable >= STABLE_WINDOWS {
                (self.high, self.stable) = (self.high + 1, 0);
            }
        }
        self.depth = match self.high == self.max {
            true => depth.saturating_mul(2),
            false => depth.midpoint(self.high),
        };
        self.depth = self.depth.min(self.max);
        let is_found = !self.goal.is_endless && self.depth == depth;
        (self.is_done, self.forgets) = (is_found && self.is_last, is_found && !self.is_last);
        self.is_last |= is_found;
        self.begin_window(now);
        self.is_draining = self.forgets;
    }
}
