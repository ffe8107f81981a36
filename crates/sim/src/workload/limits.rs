//! Limits and pauses of a workload: bytes, requests, passes; flushes and think time.

use crate::job::{Access, Direction, Mix, Section};
use mirrorball_core::units::Nanos;

/// Work left to do. A time-based job is never through.
#[derive(Clone, Debug)]
pub(super) struct RequestBudget {
    endless: bool,
    bytes_left: u64,
    /// Requests of all passes, and those left.
    ios: u64,
    ios_left: u64,
    pass_left: u64,
    pass_bytes: u64,
    passes_left: u64,
    /// Passes go on beyond their number until a number of bytes are done, but for what is less than
    /// a request: fio starts no pass for that.
    io_bytes: u64,
    largest_bytes: u64,
    done_bytes: u64,
}

/// When to flush and when to think.
#[derive(Clone, Debug)]
pub(super) struct Pauses {
    fsync: u64,
    fdatasync: u64,
    writes: u64,
    final_flush: bool,
    think_time: Nanos,
    think_ios: u64,
    think_lag: u64,
    rate_skips_pauses: bool,
    /// Requests before the burst, which have all ended; those of the burst; and how many had ended
    /// at the pause before it, as fio counts them.
    ended: u64,
    burst: u64,
    counted_before: u64,
    pub(super) flush_due: bool,
    pub(super) flush_in_flight: bool,
    pub(super) thinking: bool,
    idle_since: Nanos,
}

impl RequestBudget {
    /// The work of a clone whose regions have `bytes` together.
    pub(super) fn new(job: &Section, bytes: u64) -> RequestBudget {
        // fio knows no more bytes than the files have.
        let size = job.pass_bytes.map_or(bytes, |pass| pass.min(bytes));
        let (bytes, io_bytes) = match job.passes_end_with_file {
            true => (bytes, job.io_bytes.or(Some(size))),
            false => (size, job.io_bytes),
        };
        let share = |percent: u64| (u128::from(bytes) * u128::from(percent) / 100) as u64;
        let bytes = job.io_percent.map_or(bytes, share);
        // Of a discard and its write, `number_ios` counts one, and so do the bytes of a pass.
        // Whether another pass follows depends on the bytes of both.
        let ios_each = if job.mix == Mix::TrimWrite { 2 } else { 1 };
        let io_limit = io_bytes.unwrap_or(bytes).saturating_mul(job.loops);
        let io_bytes = io_bytes.unwrap_or(0) / ios_each;
        let writes = job.mix.directions().contains(&Direction::Write);
        // fio lets random writes without a map go on within one pass until io_size is reached.
        let goes_on = writes && job.access == Access::Random && !job.random_map;
        let pass_bytes =
            if goes_on && job.mix != Mix::TrimWrite { bytes.max(io_bytes) } else { bytes };
        let used = job.mix.directions().iter().flat_map(|&direction| &job.sizes[direction]);
        let ios = job.number_ios.map_or(u64::MAX, |it| it.saturating_mul(ios_each * job.loops));
        RequestBudget {
            endless: job.time_based,
            bytes_left: io_limit,
            ios,
            ios_left: ios,
            pass_left: pass_bytes,
            pass_bytes,
            passes_left: job.loops.saturating_sub(1),
            io_bytes,
            largest_bytes: used.map(|size| size.bytes).max().unwrap_or(0),
            done_bytes: 0,
        }
    }

    /// Counts a request of `bytes`.
    #[inline]
    pub(super) fn spend(&mut self, bytes: u64) {
        if !self.endless {
            self.bytes_left = self.bytes_left.saturating_sub(bytes);
            self.pass_left = self.pass_left.saturating_sub(bytes);
            self.ios_left -= 1;
            self.done_bytes += bytes;
        }
    }

    /// Counts requests from zero on at the end of the ramp, but for those `in_flight`.
    pub(super) fn end_ramp(&mut self, in_flight: u32) {
        self.ios_left = self.ios.saturating_sub(u64::from(in_flight));
    }

    pub(super) fn end_pass(&mut self) {
        self.pass_left = 0;
    }

    /// Whether a pass, or all of the job, is done.
    #[inline]
    pub(super) fn is_spent(&self) -> bool {
        !self.endless && (self.pass_left == 0 || self.bytes_left == 0 || self.ios_left == 0)
    }

    /// Begins another pass if there is one to do.
    pub(super) fn begin_pass(&mut self) -> bool {
        let more = self.passes_left > 0 || self.done_bytes + self.largest_bytes <= self.io_bytes;
        if !more || self.bytes_left == 0 || self.ios_left == 0 {
            return false;
        }
        self.passes_left = self.passes_left.saturating_sub(1);
        self.pass_left = self.pass_bytes;
        true
    }
}

impl Pauses {
    pub(super) fn new(job: &Section) -> Pauses {
        Pauses {
            fsync: job.fsync,
            fdatasync: job.fdatasync,
            writes: 0,
            final_flush: job.final_flush,
            think_time: job.think_time,
            think_ios: job.think_ios,
            think_lag: job.think_lag,
            rate_skips_pauses: job.rate_skips_pauses,
            ended: 0,
            burst: 0,
            counted_before: 0,
            flush_due: false,
            flush_in_flight: false,
            thinking: false,
            idle_since: Nanos::ZERO,
        }
    }

    /// Whether there may be any.
    pub(super) fn any(&self) -> bool {
        let flushes = self.fsync > 0 || self.fdatasync > 0 || self.final_flush;
        flushes || self.think_time > Nanos::ZERO
    }

    pub(super) fn issued(&mut self, direction: Direction) {
        if direction == Direction::Write {
            self.writes += 1;
            let due = |every: u64| every > 0 && self.writes.is_multiple_of(every);
            self.flush_due = due(self.fsync) || due(self.fdatasync);
        }
        self.burst += 1;
        let counted = self.ended + self.burst.saturating_sub(self.think_lag);
        if self.think_time > Nanos::ZERO && counted >= self.counted_before + self.think_ios {
            self.thinking = true;
            self.counted_before = counted;
        }
    }

    /// Counts all requests as ended: fio waits for them before it sleeps, and at the end of a pass.
    pub(super) fn end_burst(&mut self) {
        self.ended += std::mem::take(&mut self.burst);
    }

    /// Ends a pause. Returns how much later that makes the requests of a rate.
    pub(super) fn stop_thinking(&mut self) -> Nanos {
        self.thinking = false;
        self.end_burst();
        if self.rate_skips_pauses { self.think_time } else { Nanos::ZERO }
    }

    pub(super) fn completed(&mut self, flush: bool, now: Nanos) {
        self.flush_in_flight &= !flush;
        self.idle_since = now;
    }

    /// When thinking ends, if nothing is in flight any more.
    pub(super) fn wakes_at(&self) -> Nanos {
        self.idle_since.saturating_add(self.think_time)
    }

    /// The last flush was issued.
    pub(super) fn final_flush_issued(&mut self) {
        self.final_flush = false;
    }

    /// Whether the job wants a flush behind its last write.
    pub(super) fn wants_final_flush(&self) -> bool {
        self.final_flush && self.writes > 0
    }
}
