//! The engine: runs one simulation on a virtual clock.
//!
//! Clients (clones of job sections, and background work) submit requests to a [`Volume`], through
//! the caches in front of it if the array has any (`submission`, `front_caches`). The volume
//! hands member I/O to a [`ModelArray`] of modelled disks. The clock jumps from event to event.
//! Events of one instant are handled in a fixed order: completions by member, then replies in the
//! order in which the volume gave them, then clients that wake, in the order in which they went to
//! sleep, then the caches. A reply reaches its client after the host's overhead.
//!
//! A run ends when all its sections have ended; background work is abandoned at that point, and so
//! are requests of sections that do not wait for them ([`JobFile::in_steady_state`]).

mod alike;
mod array_cache;
mod front_caches;
mod member_io;
mod series;
mod submission;
mod watched;

use crate::canary::Canary;
use crate::checkers::Checkers;
use crate::client::{Action, ClientRequest, EndedRequest, RequestEnd};
use crate::client_slot::{self, ClientFactory, ClientSlot};
use crate::error::SimError;
use crate::explain::{DecisionTrace, Explanation, TraceWindow};
use crate::host_overhead::HostOverhead;
use crate::job::{JobFile, Section};
use crate::policy_under_test::Forecast;
use crate::progress::SectionProgress;
use crate::record::RunRecord;
use crate::recorder::Recorder;
use crate::watcher::Watcher;
use crate::workload::Flows;
use crate::write_caches::RunWrites;
use front_caches::FrontCaches;
use mirrorball_core::geometry::ChunkMap;
use mirrorball_core::histogram::bin_of;
use mirrorball_core::io::RequestKind;
use mirrorball_core::member::Members;
use mirrorball_core::policy::ReadPolicy;
use mirrorball_core::slab::{Slab, SlabKey};
use mirrorball_core::time_queue::TimeQueue;
use mirrorball_core::units::Nanos;
use mirrorball_core::volume::Volume;
use mirrorball_disk::array_file::ArraySpec;
use mirrorball_disk::model_array::ModelArray;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicBool, Ordering};

pub use crate::lockstep::AlikePolicies;
pub use crate::policy_under_test::PolicyUnderTest;
pub use crate::simulation::{Checks, Simulation};
pub use alike::run_alike;
pub use series::{ArrayState, run_next};
pub use watched::{LoggedIo, Step, WatchedRun};

/// Checks that a job file can run on an array, under any policy.
///
/// # Errors
/// As [`run`], but for the policy.
pub fn check(array: &ArraySpec, job: &JobFile) -> Result<(), SimError> {
    let (canary, checks) = (PolicyUnderTest::Canary, Checks::Off);
    let run = Simulation { array, job, policy: canary, seed: 0, duration: None, checks };
    let policy = Box::new(Canary::default());
    Engine::new(&run, array.chunk_map()?, policy, None, 0).map(|_| ())
}

/// Runs a simulation to its end. Fails if the policy, a section or the background work does not fit
/// the array, the policy is a program that had a fault, or a trace was changed since the job file
/// was read. Panics if a checker or an assertion of the volume finds a bug.
pub fn run(run: &Simulation<'_>) -> Result<RunRecord, SimError> {
    run_until(run, &NEVER)
}

/// Runs a simulation to its end, or until `stop` is set, which is read before each clone starts
/// and every few thousand events.
///
/// # Errors
/// As [`run`], and [`SimError::Stopped`].
///
/// # Panics
/// As [`run`].
pub fn run_until(run: &Simulation<'_>, stop: &AtomicBool) -> Result<RunRecord, SimError> {
    let mut engine = Engine::with_policy(run, 0)?;
    engine.run_sections(run, stop)?;
    Ok(engine.finish(run))
}

/// Runs a simulation to the end of a window, and returns the choices made within the window.
/// # Panics
/// As [`run`].
pub fn explain(run: &Simulation<'_>, window: TraceWindow) -> Result<Explanation, SimError> {
    let mut engine = Engine::with_policy(run, 0)?;
    engine.watcher = Some(Watcher::Decisions(DecisionTrace::new(window)));
    engine.run_sections(run, &NEVER)?;
    let Some(Watcher::Decisions(trace)) = engine.watcher.take() else {
        unreachable!("it was set above")
    };
    Ok(trace.finish(&engine.volume, engine.now))
}

/// The flag of a run that is never stopped.
static NEVER: AtomicBool = AtomicBool::new(false);
/// Events between two looks at the flag and at faults; a power of two.
const STOP_CHECK_EVENTS: u64 = 1 << 13;

mirrorball_core::slab_key! {
    /// Key of a pending request; its slot is the number of the volume's request.
    struct PendingKey;
}

/// A request of a client that has not been replied to.
#[derive(Clone, Copy, Debug)]
struct PendingRequest {
    slot: u32,
    overhead: Nanos,
    request: ClientRequest,
}

/// A reply on its way to its client. Its request stays in the slab until then: replies are moved to
/// stay in order, so they are kept small.
#[derive(Clone, Copy, Debug)]
struct PendingReply {
    request: PendingKey,
    end: RequestEnd,
}

struct Engine {
    now: Nanos,
    host_overhead: HostOverhead,
    volume: Volume,
    model_array: ModelArray,
    /// The caches in front of the volume, if the array has any.
    caches: Option<Box<FrontCaches>>,
    /// The seed of this run, which differs from the others of its series.
    seed_in_series: u64,
    slots: Vec<ClientSlot>,
    /// Clones that have not ended, or have requests in flight.
    foreground_left: usize,
    pending: Slab<PendingKey, PendingRequest>,
    /// By the time at which they reach their clients, after the host's overhead.
    replies: TimeQueue<PendingReply>,
    /// Sleeping clients: wake-up time, order in which they went to sleep, slot.
    timers: BinaryHeap<Reverse<(Nanos, u64, u32)>>,
    sleeps: u64,
    events: u64,
    sections: Vec<SectionProgress>,
    recorder: Recorder,
    forecast: Option<Forecast>,
    checkers: Option<Checkers>,
    watcher: Option<Watcher>,
}

impl Engine {
    fn with_policy(run: &Simulation<'_>, runs_before: u64) -> Result<Engine, SimError> {
        let (policy, forecast) = run.policy.build(&run.devids())?;
        Engine::new(run, run.array.chunk_map()?, policy, forecast, runs_before)
    }

    fn new(
        run: &Simulation<'_>,
        map: ChunkMap,
        policy: Box<dyn ReadPolicy>,
        forecast: Option<Forecast>,
        runs_before: u64,
    ) -> Result<Engine, SimError> {
        let members = Members::new(run.array.member_configs()?);
        let sections = run.sections()?;
        let first_group = sections.iter().take_while(|section| section.group == 0);
        let measure_from = first_group.map(|section| section.start_delay + section.ramp).min();
        let checkers = (run.checks == Checks::On).then(|| Checkers::new(&members));
        let recorder = Recorder::new(&members, measure_from.unwrap_or_default());
        let free_bytes = map.capacity_bytes() - run.array.used_bytes(map.capacity_bytes());
        run.job.validate_against(free_bytes)?;
        let seed = series::seed_of(run.seed, runs_before);
        let mut engine = Engine {
            now: Nanos::ZERO,
            host_overhead: HostOverhead::new(run.array.host.overhead),
            volume: Volume::new(map, members, policy, seed)
                .with_rmw_level(run.array.rmw_level)
                .without_data(),
            model_array: run.array.model_array(seed)?,
            caches: FrontCaches::new(run.array, seed).map(Box::new),
            seed_in_series: seed,
            slots: Vec::new(),
            foreground_left: 0,
            pending: Slab::default(),
            replies: TimeQueue::default(),
            timers: BinaryHeap::new(),
            sleeps: 0,
            events: 0,
            sections: Vec::new(),
            recorder,
            forecast,
            checkers,
            watcher: None,
        };
        let workers = ClientFactory::new(run, &engine.volume, seed).background()?;
        for slot in workers {
            engine.add_client(slot);
        }
        Ok(engine)
    }

    /// Adds the clones of a group of sections, which start now.
    fn start_group(
        &mut self,
        run: &Simulation<'_>,
        sections: &[Section],
        stop: &AtomicBool,
    ) -> Result<(), SimError> {
        let flows = Flows::of(sections, self.now);
        for section in sections {
            self.sections.push(SectionProgress::new(section, self.now));
            let factory = ClientFactory::new(run, &self.volume, self.seed_in_series);
            let slots = factory.clones(section, self.now, &flows)?;
            for slot in slots {
                // A clone submits its whole depth here, which takes time if both are large.
                if stop.load(Ordering::Relaxed) {
                    return Err(SimError::Stopped);
                }
                self.foreground_left += 1;
                self.add_client(slot);
            }
        }
        Ok(())
    }

    fn add_client(&mut self, slot: ClientSlot) {
        self.slots.push(slot);
        self.run_client(self.slots.len() as u32 - 1);
    }

    fn run_sections(&mut self, run: &Simulation<'_>, stop: &AtomicBool) -> Result<(), SimError> {
        let sections = run.sections()?;
        for group in sections.chunk_by(|section, next| section.group == next.group) {
            if self.is_running() {
                self.start_group(run, group, stop)?;
                // A group that follows needs the disks as this one leaves them.
                let is_last = self.sections.len() == sections.len();
                let ends = self.sections.iter().map(SectionProgress::until);
                let end = ends.max().filter(|_| is_last).unwrap_or(Nanos::MAX);
                self.run_group(end, stop)?;
                client_slot::check(&mut self.slots)?;
            }
        }
        SimError::check_policy(&self.volume)
    }

    /// Whether the run continues: one that is watched may stop or pause before its end.
    #[inline]
    fn is_running(&self) -> bool {
        self.watcher.as_ref().is_none_or(|watcher| !watcher.is_done(self.now))
    }

    /// Runs until every clone of the current group has ended, at most to `end`.
    fn run_group(&mut self, end: Nanos, stop: &AtomicBool) -> Result<(), SimError> {
        self.submit_member_io();
        if self.caches.as_ref().is_some_and(|caches| caches.array_cache.is_some()) {
            self.run_caches();
        }
        while self.foreground_left > 0 && self.is_running() {
            self.events += 1;
            if self.events.is_multiple_of(STOP_CHECK_EVENTS) {
                if stop.load(Ordering::Relaxed) {
                    return Err(SimError::Stopped);
                }
                SimError::check_policy(&self.volume)?;
            }
            let timeout = self.volume.poll_timeout().unwrap_or(Nanos::MAX);
            let next = self.next_event().min(timeout);
            assert!(next < Nanos::MAX, "clients that have not ended wait for an event");
            if next > end {
                self.end_in_flight(end);
                break;
            }
            self.now = next;
            if self.recorder.is_interval_over(next) {
                self.recorder.close_intervals(next);
            }
            if timeout <= next {
                self.volume.on_timeout(next);
            }
            // Most events are of one kind only, and testing is cheaper than an empty `complete`.
            // Replies to what completed are taken at the end of the event, by `submit_member_io`.
            if self.model_array.next_event().unwrap_or(Nanos::MAX) <= next {
                self.complete();
            }
            self.deliver();
            self.wake();
            self.submit_member_io();
            if self.caches.is_some() {
                self.run_caches();
            }
        }
        Ok(())
    }

    /// Ends the clones that are left at `now`, with requests in flight.
    fn end_in_flight(&mut self, now: Nanos) {
        self.now = now;
        self.foreground_left = 0;
        for section in self.slots.iter_mut().filter_map(|slot| slot.section.take()) {
            self.sections[section].on_clone_end(now);
        }
    }

    fn finish(self, run: &Simulation<'_>) -> RunRecord {
        let until = self.sections.iter().map(SectionProgress::last).max().unwrap_or(self.now);
        let (array_cache, controller) = self
            .caches
            .map_or((None, None), |caches| (caches.tier_counts(), caches.controller_counts()));
        let is_flushed = self.sections.iter().any(SectionProgress::has_flushes);
        let writes = RunWrites { array: run.array, array_cache, controller, is_flushed };
        let fit_caches = writes.fit_caches(self.recorder.run_written_bytes());
        let declared = self.sections.into_iter().zip(&run.job.sections);
        let sections = declared.map(|(section, declared)| section.finish(declared, fit_caches));
        let record = self.recorder.finish(until, sections.collect(), &self.volume.counters());
        RunRecord { choices: Some(self.volume.choices()), array_cache, controller, ..record }
    }

    /// When something happens next but in the volume; [`Nanos::MAX`] if nothing does.
    #[inline]
    fn next_event(&self) -> Nanos {
        // A chain of comparisons: this runs once per event, and an iterator over options is slower.
        let mut next = self.model_array.next_event().unwrap_or(Nanos::MAX);
        if let Some((at, _)) = self.replies.front() {
            next = next.min(Nanos(*at));
        }
        if let Some(Reverse((at, _, _))) = self.timers.peek() {
            next = next.min(*at);
        }
        if let Some(caches) = &self.caches {
            next = next.min(caches.next_event());
        }
        next
    }

    /// Queues the volume's replies, which reach their clients after the host's overhead.
    #[inline(always)]
    fn take_replies(&mut self) {
        while let Some(reply) = self.volume.poll_reply() {
            let ok = reply.result.is_ok();
            if let Some(checkers) = &mut self.checkers {
                checkers.on_reply(reply.request, ok, self.volume.members(), self.now);
            }
            if front_caches::is_of_cache(reply.request) {
                self.end_for_cache(reply.request, ok);
                continue;
            }
            let end = if ok { RequestEnd::Done } else { RequestEnd::Failed };
            self.queue_reply(PendingKey::from_slot(reply.request.0 as u32), end);
        }
    }

    /// Delivers the replies that are due, and runs their clients.
    #[inline]
    fn deliver(&mut self) {
        while let Some(&(at, PendingReply { request, end })) = self.replies.front() {
            if at > self.now.0 {
                return;
            }
            self.replies.pop_front();
            let pending = self.pending.get(request);
            let number = pending.slot;
            let slot = &mut self.slots[number as usize];
            slot.in_flight -= 1;
            let ended = slot.client.on_reply(&pending.request, end, self.now);
            let ended = match &ended {
                EndedRequest::Same => Some(&pending.request),
                EndedRequest::Other(request) => Some(request),
                EndedRequest::None => None,
            };
            if let (Some(section), Some(request)) = (slot.section, ended) {
                let progress = &mut self.sections[section];
                measure(&mut self.recorder, progress, request, end, self.now);
            }
            self.pending.discard(request);
            self.run_client(number);
        }
    }

    #[inline(always)]
    fn queue_reply(&mut self, request: PendingKey, end: RequestEnd) {
        let at = self.now + self.pending.get(request).overhead;
        // Requests of unequal overhead overtake each other, but seldom by more than a few places.
        self.replies.push(at.0, PendingReply { request, end });
    }

    /// Runs the clients whose sleep is over.
    #[inline]
    fn wake(&mut self) {
        while let Some(&Reverse((at, _, slot))) = self.timers.peek() {
            if at > self.now {
                return;
            }
            self.timers.pop();
            let sleeper = &mut self.slots[slot as usize];
            if sleeper.wakes_at == Some(at) {
                sleeper.wakes_at = None;
                self.run_client(slot);
            }
        }
    }

    /// Performs a client's actions until it waits or ends.
    #[inline]
    fn run_client(&mut self, slot: u32) {
        loop {
            let client_slot = &mut self.slots[slot as usize];
            if client_slot.in_flight >= client_slot.depth {
                return;
            }
            if client_slot.ended {
                break;
            }
            match client_slot.client.next_action(self.now) {
                Action::Submit(request) => self.submit(slot, request),
                Action::AnswerFromCache(request) => {
                    client_slot.in_flight += 1;
                    let overhead = self.host_overhead.cache_hit();
                    let key = self.pending.insert(PendingRequest { slot, overhead, request });
                    self.queue_reply(key, RequestEnd::CacheHit);
                }
                Action::Sleep(until) => {
                    if client_slot.wakes_at != Some(until) {
                        client_slot.wakes_at = Some(until);
                        self.sleeps += 1;
                        self.timers.push(Reverse((until, self.sleeps, slot)));
                    }
                    return;
                }
                Action::Wait => return,
                Action::ForgetResults => {
                    if let Some(section) = client_slot.section {
                        self.sections[section].restart(self.now);
                    }
                }
                Action::End => client_slot.ended = true,
            }
        }
        let client_slot = &mut self.slots[slot as usize];
        if client_slot.in_flight == 0
            && let Some(section) = client_slot.section.take()
        {
            client_slot.client.leave();
            self.foreground_left -= 1;
            self.sections[section].on_clone_end(self.now);
            if let Some(ends) = self.sections[section].ends {
                self.end_clones(ends);
            }
        }
    }

    /// Lets no clone of these sections submit a further request.
    #[cold]
    fn end_clones(&mut self, [first, last]: [usize; 2]) {
        for number in 0..self.slots.len() {
            let slot = &mut self.slots[number];
            if slot.section.is_some_and(|it| (first..=last).contains(&it)) && !slot.ended {
                slot.ended = true;
                self.run_client(number as u32);
            }
        }
    }
}

/// Counts a request of a section that ended.
#[inline]
fn measure(
    recorder: &mut Recorder,
    section: &mut SectionProgress,
    request: &ClientRequest,
    end: RequestEnd,
    now: Nanos,
) {
    let latency = now - request.intended;
    let bin = bin_of(latency);
    if request.kind == RequestKind::Read && end != RequestEnd::Failed {
        recorder.on_read_reply(request.length, latency, bin);
    }
    section.on_request_end(request, end, now, bin);
}
