//! Workloads: the requests of one clone of a job, one after the other, with fio's semantics.
//!
//! The engine keeps [`Section::depth`] requests in flight: while there is room it asks
//! [`Workload::next`], and it tells of every completion. The state is of constant size, whatever
//! the size of the job and however long it runs.
//!
//! Model, as measured on fio 3.33 with `--write_iolog`:
//! - Each direction has its own position: mixed sequential reads and writes both start at the
//!   region's start. With `percentage_random` the requests that are not random go on where the last
//!   one of their direction ended.
//! - A *pass* moves as many bytes as the region has. Passes follow until `loops` are done and
//!   `io_size` is reached; `number_ios` and `io_size` count per loop, and `number_ios` from the end
//!   of `ramp_time` on. With `time_based` only the
//!   runtime ends a job, and a sequential one starts over at the region's end.
//! - A file ends, for the pass, at an address behind its region, at a request that reaches beyond
//!   the file or device itself, and where the random map has no block left. A request may reach
//!   beyond the region. What would follow the end of the file or device in a random job is random.
//! - The random map: without `norandommap` each block starts one request per pass, in an order
//!   computed in constant memory. With several sizes (`bssplit`, `bsrange`) blocks of the smallest
//!   size are mapped, and a request ends before a visited block, so that none overlap in a pass.
//!   Directions share a map if their blocks are alike. A size that does not fit the end of the
//!   region is replaced by the smallest, where fio draws again.
//! - Several files: each has positions and maps of its own. They share the count that ends a
//!   strided zone.
//! - `trimwrite`: each discard is followed by a write of the same range.
//! - `thinktime`: after a number of requests nothing is issued until all have completed and the
//!   time has passed. fio counts those that have ended, and takes the end of one only while all
//!   places of `iodepth` are in use: at a larger depth bursts are unequal.
//! - `fsync`: after that many writes a flush is issued, and nothing else until it has completed.
//! - `startdelay` counts from the start of the run, `runtime` from the start of the clone.
//!
//! Seeds: the run's seed decides. With `randrepeat=0` the runs that follow one another on one array
//! differ in the seed that they give here. Each clone draws from a stream of its own, named by the
//! job's place in the file, the clone and, where given, `randseed`. Asking before it is time draws
//! nothing, so the sequence does not depend on how often the engine asks.

mod arrivals;
mod block_map;
mod block_source;
mod direction_stream;
mod file_set;
mod flow;
mod limits;
mod map;
mod permutation;
mod replay_stream;

#[cfg(test)]
mod distribution_tests;
#[cfg(test)]
mod end_tests;
#[cfg(test)]
mod replay_tests;
#[cfg(test)]
mod tests;

use crate::job::{AddressModifier, Direction, Section, WorkRegion};
use arrivals::ArrivalSchedule;
use direction_stream::DirectionDraw;
use file_set::{FileSet, FileTarget};
use flow::FlowShare;
pub(crate) use flow::Flows;
use limits::{Pauses, RequestBudget};
use mirrorball_core::io::RequestKind;
use mirrorball_core::rng::Rng;
use mirrorball_core::units::{Nanos, SECTOR_BYTES};
pub(crate) use replay_stream::ReplayStream;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Issue {
    /// Read, write, discard or flush.
    pub kind: RequestKind,
    /// First byte, on the volume; zero for a flush.
    pub offset: u64,
    /// Number of bytes; zero for a flush.
    pub length: u64,
    /// When it was meant to start: now, or earlier in an open loop that had no room for it.
    pub intended: Nanos,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// Issues this request, now.
    Issue(Issue),
    /// Nothing before this time; ask again then.
    NotBefore(Nanos),
    /// Nothing before a completion; ask again after one.
    Wait,
    /// Nothing any more; what is in flight still completes.
    Done,
}

/// Where and when a clone runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CloneSpec {
    /// Which clone of the job, from zero.
    pub clone: u32,
    pub volume_bytes: u64,
    /// When its group starts, counted from the start of the run.
    pub group_start: Nanos,
    pub seed: u64,
}

/// One clone of a job, under way.
#[derive(Clone, Debug)]
pub struct Workload {
    pick: DirectionDraw,
    files: FileSet,
    /// Whether requests may have to be widened to whole sectors.
    is_unaligned: bool,
    schedules: [ArrivalSchedule; 3],
    rng: Rng,
    /// The direction drawn for the next request, if it had to wait.
    drawn: Option<Direction>,
    /// The range of the last discard, if a write of it is to follow.
    trimmed: Option<FileTarget>,
    start: Nanos,
    /// When requests are counted from zero on, if `number_ios` bounds them.
    ramp_end: Nanos,
    stop: Nanos,
    budget: RequestBudget,
    pauses: Pauses,
    flow: Option<FlowShare>,
    /// Whether anything but the budget and the stop may hold a request back.
    gated: bool,
    in_flight: u32,
}

/// Passes without a request after which a job is taken for one without any.
const EMPTY_PASSES_MAX: u64 = 1 << 12;
pub(super) const DIRECTIONS: [Direction; 3] = [Direction::Read, Direction::Write, Direction::Trim];

impl Workload {
    /// Clone number `clone_spec.clone` of `job`. Panics if its region does not fit the volume: see
    /// [`JobFile::validate_against`](crate::job::JobFile::validate_against).
    pub fn new(job: &Section, clone_spec: CloneSpec) -> Workload {
        let seed = job.random_seed.map_or(String::new(), |seed| format!(" randseed {seed}"));
        let label = format!("job {} clone {}{seed}", job.index, clone_spec.clone);
        let mut rng = Rng::stream(clone_spec.seed, &label);
        let regions = job.regions(clone_spec.clone, clone_spec.volume_bytes);
        let files = FileSet::new(job, &regions, &mut rng);
        let bytes = regions.iter().map(|it| it.region.bytes).sum();
        let start = clone_spec.group_start.max(job.start_delay);
        let ramp_end = start.saturating_add(job.ramp);
        let has_ramp = job.ramp > Nanos::ZERO && job.number_ios.is_some();
        let schedules = DIRECTIONS.map(|direction| ArrivalSchedule::new(job, direction, start));
        let rated = job.mix.directions().iter().any(|&d| schedules[d as usize].is_rated());
        let pauses = Pauses::new(job);
        Workload {
            pick: DirectionDraw::new(job.mix),
            files,
            is_unaligned: is_unaligned(job, &regions),
            rng,
            drawn: None,
            trimmed: None,
            start,
            ramp_end: if has_ramp { ramp_end } else { Nanos::MAX },
            stop: job.runtime.map_or(Nanos::MAX, |runtime| ramp_end.saturating_add(runtime)),
            budget: RequestBudget::new(job, bytes),
            gated: rated || pauses.any() || start > Nanos::ZERO || has_ramp,
            schedules,
            pauses,
            flow: None,
            in_flight: 0,
        }
    }

    /// The same in the flow of its section, if it has one.
    pub(crate) fn in_flow(self, job: &Section, flows: &Flows) -> Workload {
        let flow = flows.share(job);
        Workload { gated: self.gated || flow.is_some(), flow, ..self }
    }

    /// When it starts: the later of its group's start and its own delay.
    pub fn start(&self) -> Nanos {
        self.start
    }

    /// The next action at `now`, which is never earlier than any time passed before. Ask only while
    /// fewer than [`Section::depth`] of its requests are in flight.
    #[inline(always)]
    pub fn next(&mut self, now: Nanos) -> Next {
        if now >= self.stop || (self.budget.is_spent() && !self.begin_pass()) {
            return self.end(now);
        }
        if self.gated
            && let Some(held) = self.hold(now)
        {
            return held;
        }
        let direction = match self.drawn.take() {
            Some(direction) => direction,
            None => self.draw_direction(),
        };
        let Some(target) = self.draw_target(direction) else {
            return self.end(now);
        };
        self.budget.spend(if self.trimmed.is_some() { 0 } else { target.length });
        let mut intended = now;
        if self.gated {
            self.pauses.issued(direction);
            let arrivals = &mut self.schedules[direction as usize];
            intended = arrivals.take(now, target.length, &mut self.rng);
        }
        let kind = match direction {
            Direction::Read => RequestKind::Read,
            Direction::Write => RequestKind::Write,
            Direction::Trim => RequestKind::Discard,
        };
        let (mut offset, mut length) = (target.offset, target.length);
        if self.is_unaligned {
            let end = (offset + length).next_multiple_of(SECTOR_BYTES);
            offset -= offset % SECTOR_BYTES;
            length = end - offset;
        }
        self.issue(Issue { kind, offset, length, intended })
    }

    #[inline]
    fn draw_direction(&mut self) -> Direction {
        match self.trimmed {
            Some(_) => Direction::Write,
            None => self.pick.draw(&mut self.rng),
        }
    }

    /// Draws the next request of a direction. `None` if the files are done and so is the job.
    #[inline]
    fn draw_target(&mut self, direction: Direction) -> Option<FileTarget> {
        if self.trimmed.is_some() {
            return self.trimmed.take();
        }
        let mut drawn = self.files.next(direction, &mut self.rng);
        if drawn.is_none() {
            drawn = self.draw_of_next_pass(direction);
        }
        if matches!(self.pick, DirectionDraw::TrimWrite) {
            self.trimmed = drawn;
        }
        drawn
    }

    /// Draws the first request of the next pass that has one.
    #[cold]
    fn draw_of_next_pass(&mut self, direction: Direction) -> Option<FileTarget> {
        for _ in 0..EMPTY_PASSES_MAX {
            self.budget.end_pass();
            if self.budget.is_spent() && !self.begin_pass() {
                return None;
            }
            self.files.restart(&mut self.rng);
            let drawn = self.files.next(direction, &mut self.rng);
            if drawn.is_some() {
                return drawn;
            }
        }
        None
    }

    /// One of its requests, of this kind, completed.
    #[inline]
    pub fn complete(&mut self, kind: RequestKind, now: Nanos) {
        self.in_flight -= 1;
        if self.gated {
            self.pauses.completed(kind == RequestKind::Flush, now);
        }
    }

    #[inline]
    fn issue(&mut self, issue: Issue) -> Next {
        self.in_flight += 1;
        Next::Issue(issue)
    }

    /// Reason that holds the next request back; if nothing does, its direction is settled.
    fn hold(&mut self, now: Nanos) -> Option<Next> {
        let sleep = |until: Nanos| Some(Next::NotBefore(until));
        if now < self.start {
            return sleep(self.start.min(self.stop));
        }
        if now >= self.ramp_end {
            self.ramp_end = Nanos::MAX;
            self.budget.end_ramp(self.in_flight);
        }
        if self.pauses.flush_in_flight {
            return Some(Next::Wait);
        }
        if self.pauses.flush_due {
            return Some(self.flush(now));
        }
        if self.pauses.thinking {
            if self.in_flight > 0 {
                return Some(Next::Wait);
            }
            if now < self.pauses.wakes_at() {
                return sleep(self.pauses.wakes_at().min(self.stop));
            }
            let skipped = self.pauses.stop_thinking();
            self.schedules.iter_mut().for_each(|schedule| schedule.skip(skipped));
        }
        let mut direction = match self.drawn {
            Some(direction) => direction,
            None => self.draw_direction(),
        };
        let mut due = self.schedules[direction as usize].due();
        if due > now
            && let Some(other) = self.pick.other(direction)
        {
            // A direction that is ahead of its rate leaves its turn to the other, as in fio.
            let due_other = self.schedules[other as usize].due();
            if due_other < due {
                (direction, due) = (other, due_other);
            }
        }
        self.drawn = Some(direction);
        if due > now {
            self.pauses.end_burst();
            return sleep(due.min(self.stop));
        }
        match self.flow.as_mut().and_then(|flow| flow.admit(now, self.in_flight)) {
            Some(Next::NotBefore(until)) => {
                self.pauses.end_burst();
                sleep(until.min(self.stop))
            }
            held => held,
        }
    }

    fn flush(&mut self, now: Nanos) -> Next {
        self.pauses.flush_due = false;
        self.pauses.flush_in_flight = true;
        self.issue(Issue { kind: RequestKind::Flush, offset: 0, length: 0, intended: now })
    }

    /// The end: at once, or behind a last flush if the job asks for one.
    fn end(&mut self, now: Nanos) -> Next {
        if !self.pauses.wants_final_flush() {
            return Next::Done;
        }
        if self.in_flight > 0 {
            return Next::Wait;
        }
        self.pauses.final_flush_issued();
        self.flush(now)
    }

    /// Lets no clone of its flow wait for it.
    pub(crate) fn leave_flow(&mut self) {
        if let Some(flow) = self.flow.take() {
            flow.leave();
        }
    }

    /// Starts over if the job has another pass to do.
    #[cold]
    fn begin_pass(&mut self) -> bool {
        if !self.budget.begin_pass() {
            return false;
        }
        self.pauses.end_burst();
        self.files.restart(&mut self.rng);
        true
    }
}

/// Whether a request of a job to its regions may not be whole sectors.
fn is_unaligned(job: &Section, regions: &[WorkRegion]) -> bool {
    let is_odd = |bytes: u64| !bytes.is_multiple_of(SECTOR_BYTES);
    let sizes = job.mix.directions().iter().flat_map(|&direction| &job.sizes[direction]);
    let starts = regions.iter().map(|it| it.region.offset);
    let aligned = job.align_bytes.0.into_iter().chain([job.offset_align]).flatten();
    let (skip, ends) = match job.modifier {
        // Backwards the addresses count from the end.
        AddressModifier::Skip(bytes) if bytes < 0 => (Some(bytes.unsigned_abs()), regions),
        AddressModifier::Skip(bytes) => (Some(bytes.unsigned_abs()), &[][..]),
        _ => (None, &[][..]),
    };
    let ends = ends.iter().map(|it| it.region.bytes);
    let zones = job.zones.iter().flat_map(|it| [it.range_bytes, it.skip_bytes]);
    let bytes = sizes.map(|size| size.bytes).chain(starts).chain(aligned).chain(skip).chain(ends);
    bytes.chain(zones).any(is_odd)
}
