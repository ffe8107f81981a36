//! The engine: one run of one policy, on a virtual clock.
//!
//! Clients (the clones of jobs, and background work) submit requests to a [`Volume`], which hands
//! member I/O to a [`Bank`] of modelled disks. Time jumps from event to event; what happens at one
//! instant happens in a fixed order: completions by member, then replies in the order in which the
//! volume gave them, then clients that wake, in the order in which they went to sleep. A reply
//! reaches its client after the host's overhead.
//!
//! A run ends when its jobs have ended; background work is left where it is.

use crate::canary::Canary;
use crate::checkers::Checkers;
use crate::client::{Ending, Order, Turn};
use crate::error::SimError;
use crate::explain::{Explanation, Window, Witness};
use crate::job::{Job, JobFile};
use crate::oracle::Foresight;
use crate::record::{JobRecord, Record, Recorder};
use crate::seats::{Seat, Seating};
use mirrorball_core::io::{IoError, IoId, MemberIo, Request, RequestId, RequestKind};
use mirrorball_core::member::{MemberIndex, Members};
use mirrorball_core::policy::ReadPolicy;
use mirrorball_core::slab::{Slab, SlabKey};
use mirrorball_core::units::Nanos;
use mirrorball_core::volume::Volume;
use mirrorball_disk::array_file::ArraySpec;
use mirrorball_disk::bank::Bank;
use mirrorball_disk::model::{Completion, DiskIo};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

pub use crate::contender::Contender;

/// One run: what, on what, by which policy.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// The array.
    pub array: &'a ArraySpec,
    /// The jobs and the background work.
    pub jobs: &'a JobFile,
    /// Who chooses mirrors.
    pub contender: Contender<'a>,
    /// Everything random in the run comes from here.
    pub seed: u64,
    /// Makes every job time-based with this runtime.
    pub duration: Option<Nanos>,
    /// Whether the checkers watch.
    pub watch: Watch,
}

/// Whether a run could start, whoever chooses mirrors.
///
/// # Errors
/// As [`run`], but for the policy.
pub fn check(array: &ArraySpec, jobs: &JobFile) -> Result<(), SimError> {
    let (contender, watch) = (Contender::Canary, Watch::Unchecked);
    let run = Run { array, jobs, contender, seed: 0, duration: None, watch };
    Engine::new(&run, Box::new(Canary::default()), None).map(|_| ())
}

/// Whether the checkers watch a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Watch {
    /// They do, which costs about half of the speed.
    Checked,
    /// They do not.
    Unchecked,
}

/// Runs it.
///
/// # Errors
/// If the policy, a job or the background work does not fit the array.
///
/// # Panics
/// If a checker or an assertion of the volume catches a bug.
pub fn run(run: &Run<'_>) -> Result<Record, SimError> {
    let mut engine = Engine::with_contender(run)?;
    engine.run_jobs(run);
    Ok(engine.finish())
}

/// Runs it up to the end of a window, and tells what was decided within.
///
/// # Errors
/// As [`run`].
///
/// # Panics
/// As [`run`].
pub fn explain(run: &Run<'_>, window: Window) -> Result<Explanation, SimError> {
    let mut engine = Engine::with_contender(run)?;
    engine.witness = Some(Witness::new(window));
    engine.run_jobs(run);
    let witness = engine.witness.take().expect("nobody else takes it");
    Ok(witness.finish(&engine.volume, engine.now))
}

mirrorball_core::slab_key! {
    /// Names an order under way; its slot is the number of its request.
    struct FlightKey;
}

/// An order under way.
#[derive(Clone, Copy, Debug)]
struct Flight {
    seat: u32,
    order: Order,
}

/// Something on its way to a client through the host.
#[derive(Clone, Copy, Debug)]
struct Delivery {
    at: Nanos,
    flight: Flight,
    ending: Ending,
}

/// How a job stands.
struct JobProgress {
    record: JobRecord,
    last: Nanos,
    /// When its runtime would be over, if it has one.
    planned_end: Option<Nanos>,
}

/// Time passes with every request, or a client whose requests fail at once would hold it still.
const OVERHEAD_MIN: Nanos = Nanos(1);

struct Engine {
    now: Nanos,
    host_overhead: Nanos,
    volume: Volume,
    bank: Bank,
    seats: Vec<Seat>,
    /// Clones that have not ended, or still have requests in flight.
    foreground_left: usize,
    flights: Slab<FlightKey, Flight>,
    deliveries: VecDeque<Delivery>,
    /// Sleeping clients: when, in which order they went to sleep, who.
    timers: BinaryHeap<Reverse<(Nanos, u64, u32)>>,
    sleeps: u64,
    completions: Vec<(MemberIndex, Completion)>,
    jobs: Vec<JobProgress>,
    recorder: Recorder,
    foresight: Option<Foresight>,
    checkers: Option<Checkers>,
    witness: Option<Witness>,
}

impl Engine {
    /// An engine whose volume is read by the run's contender.
    fn with_contender(run: &Run<'_>) -> Result<Engine, SimError> {
        let devids: Vec<u64> = run.array.members.iter().map(|member| member.devid).collect();
        let (policy, foresight) = run.contender.build(&devids)?;
        Engine::new(run, policy, foresight)
    }

    fn new(
        run: &Run<'_>,
        policy: Box<dyn ReadPolicy>,
        foresight: Option<Foresight>,
    ) -> Result<Engine, SimError> {
        let members = Members::new(run.array.member_configs()?);
        let first_group = run.jobs.jobs.iter().take_while(|job| job.group == 0);
        let measure_from = first_group.map(|job| job.start_delay + job.ramp).min();
        let checkers = (run.watch == Watch::Checked).then(|| Checkers::new(&members));
        let recorder = Recorder::new(&members, measure_from.unwrap_or_default());
        let map = run.array.chunk_map()?;
        let free_bytes = map.capacity_bytes() - run.array.used_bytes(map.capacity_bytes());
        run.jobs.validate_against(free_bytes)?;
        let mut engine = Engine {
            now: Nanos::ZERO,
            host_overhead: run.array.host.overhead.mean.max(OVERHEAD_MIN),
            volume: Volume::new(map, members, policy, run.seed),
            bank: run.array.bank(run.seed)?,
            seats: Vec::new(),
            foreground_left: 0,
            flights: Slab::default(),
            deliveries: VecDeque::new(),
            timers: BinaryHeap::new(),
            sleeps: 0,
            completions: Vec::new(),
            jobs: Vec::new(),
            recorder,
            foresight,
            checkers,
            witness: None,
        };
        let workers = Seating::new(run, &engine.volume).background()?;
        for seat in workers {
            engine.sit_down(seat);
        }
        Ok(engine)
    }

    /// Seats the clones of a group of jobs, which start now.
    fn start_group(&mut self, run: &Run<'_>, jobs: &[Job]) {
        for job in jobs {
            let from = self.now.max(job.start_delay).saturating_add(job.ramp);
            let runtime = run.duration.or(job.runtime);
            self.jobs.push(JobProgress {
                record: JobRecord { name: job.name.clone(), from, ..JobRecord::default() },
                last: self.now,
                planned_end: runtime.map(|runtime| from.saturating_add(runtime)),
            });
            let seats = Seating::new(run, &self.volume).clones(job, self.now);
            for seat in seats {
                self.foreground_left += 1;
                self.sit_down(seat);
            }
        }
    }

    fn sit_down(&mut self, seat: Seat) {
        self.seats.push(seat);
        self.ask(self.seats.len() as u32 - 1);
    }

    fn run_jobs(&mut self, run: &Run<'_>) {
        for jobs in run.jobs.jobs.chunk_by(|job, next| job.group == next.group) {
            if self.is_under_way() {
                self.start_group(run, jobs);
                self.run_group();
            }
        }
    }

    /// Whether somebody still wants to see how it goes on.
    #[inline]
    fn is_under_way(&self) -> bool {
        self.witness.as_ref().is_none_or(|witness| !witness.is_done(self.now))
    }

    /// Runs until every clone of the jobs seated has ended.
    fn run_group(&mut self) {
        self.hand_out();
        while self.foreground_left > 0 && self.is_under_way() {
            let next = self.next_event().expect("clients that have not ended wait for something");
            self.now = next;
            if self.recorder.is_turn_due(next) {
                self.recorder.turn(next, &self.volume.counters());
            }
            if self.volume.poll_timeout().is_some_and(|at| at <= next) {
                self.volume.on_timeout(next);
            }
            // Most events are of one kind only, and asking is cheaper than doing nothing.
            if self.bank.next_event().is_some_and(|at| at <= next) {
                self.complete();
            }
            self.deliver();
            self.wake();
            self.hand_out();
        }
    }

    fn finish(self) -> Record {
        let until = self.jobs.iter().map(|job| job.last).max().unwrap_or(self.now);
        let counters = self.volume.counters();
        let jobs = self.jobs.into_iter().map(|mut job| {
            job.record.measured = job.last.saturating_sub(job.record.from);
            job.record
        });
        self.recorder.finish(until, jobs.collect(), counters)
    }

    #[inline]
    fn next_event(&self) -> Option<Nanos> {
        // A chain of comparisons: this runs once an event, and an iterator over options costs more
        // than what it finds.
        let mut next = self.bank.next_event().unwrap_or(Nanos::MAX);
        if let Some(delivery) = self.deliveries.front() {
            next = next.min(delivery.at);
        }
        if let Some(Reverse((at, _, _))) = self.timers.peek() {
            next = next.min(*at);
        }
        if let Some(timeout) = self.volume.poll_timeout() {
            next = next.min(timeout);
        }
        (next < Nanos::MAX).then_some(next)
    }

    /// Member I/O that completes now goes back to the volume, and replies start on their way.
    #[inline]
    fn complete(&mut self) {
        let mut completions = std::mem::take(&mut self.completions);
        self.bank.advance(self.now, &mut completions);
        for (_, completion) in completions.drain(..) {
            self.end_io(IoId(completion.tag), completion.result);
        }
        self.completions = completions;
        self.take_replies();
    }

    #[inline]
    fn end_io(&mut self, id: IoId, result: Result<(), IoError>) {
        let (io, outcome) = self.volume.complete(id, result, self.now);
        self.recorder.on_complete(&io, &outcome);
        if let Some(witness) = &mut self.witness {
            witness.on_complete(&io, &outcome);
        }
        if let Some(checkers) = &mut self.checkers {
            checkers.on_complete(&io, &outcome, self.volume.members(), self.now);
        }
    }

    /// Takes back what the volume names, where the disk has not begun it; says whether it could.
    #[inline]
    fn withdraw(&mut self) -> bool {
        let mut any = false;
        while let Some(io) = self.volume.poll_cancel() {
            if self.bank.cancel(self.now, io.member, io.id.0) {
                self.end_io(io.id, Err(IoError::Cancelled));
                any = true;
            }
        }
        any
    }

    /// Replies go to their clients by way of the host.
    #[inline]
    fn take_replies(&mut self) {
        while let Some(reply) = self.volume.poll_reply() {
            let ok = reply.result.is_ok();
            if let Some(checkers) = &mut self.checkers {
                checkers.on_reply(reply.request, ok, self.volume.members(), self.now);
            }
            let flight = self.flights.remove(FlightKey::from_slot(reply.request.0 as u32));
            let flight = flight.expect("the volume replies to what was submitted");
            let ending = if ok { Ending::Done } else { Ending::Failed };
            self.deliver_later(flight, ending);
        }
    }

    /// Hands replies that are due to their clients, and asks these what comes next.
    #[inline]
    fn deliver(&mut self) {
        while let Some(&Delivery { at, flight, ending }) = self.deliveries.front() {
            if at > self.now {
                return;
            }
            self.deliveries.pop_front();
            let seat = &mut self.seats[flight.seat as usize];
            seat.in_flight -= 1;
            let ended = seat.client.on_reply(&flight.order, ending, self.now);
            if let (Some(job), Some(order)) = (seat.job, ended) {
                self.measure(job, &order, ending);
            }
            self.ask(flight.seat);
        }
    }

    #[inline]
    fn deliver_later(&mut self, flight: Flight, ending: Ending) {
        let at = self.now + self.host_overhead;
        self.deliveries.push_back(Delivery { at, flight, ending });
    }

    #[inline]
    fn measure(&mut self, job: usize, order: &Order, ending: Ending) {
        let latency = self.now - order.intended;
        let ok = ending != Ending::Failed;
        if order.kind == RequestKind::Read && ok {
            self.recorder.on_read_reply(order.length, latency);
        }
        let progress = &mut self.jobs[job];
        progress.last = progress.last.max(self.now);
        if !ok {
            progress.last = progress.last.max(progress.planned_end.unwrap_or_default());
        }
        if self.now < progress.record.from {
            return;
        }
        let direction = progress.record.direction_mut(order.kind);
        if ok {
            direction.bytes += order.length;
            direction.latency.record(latency);
        } else {
            direction.errors += 1;
        }
    }

    /// Asks the clients whose sleep is over.
    #[inline]
    fn wake(&mut self) {
        while let Some(&Reverse((at, _, seat))) = self.timers.peek() {
            if at > self.now {
                return;
            }
            self.timers.pop();
            let sleeper = &mut self.seats[seat as usize];
            if sleeper.wakes_at == Some(at) {
                sleeper.wakes_at = None;
                self.ask(seat);
            }
        }
    }

    /// Asks a client what it does, until it has nothing more to do now.
    #[inline]
    fn ask(&mut self, seat: u32) {
        loop {
            let asked = &mut self.seats[seat as usize];
            if asked.ended {
                break;
            }
            match asked.client.turn(self.now) {
                Turn::Submit(order) => self.submit(seat, order),
                Turn::Answer(order) => {
                    asked.in_flight += 1;
                    self.deliver_later(Flight { seat, order }, Ending::Answered);
                }
                Turn::Sleep(until) => {
                    if asked.wakes_at != Some(until) {
                        asked.wakes_at = Some(until);
                        self.sleeps += 1;
                        self.timers.push(Reverse((until, self.sleeps, seat)));
                    }
                    return;
                }
                Turn::Wait => return,
                Turn::End => asked.ended = true,
            }
        }
        let asked = &mut self.seats[seat as usize];
        if asked.in_flight == 0 && asked.job.take().is_some() {
            self.foreground_left -= 1;
        }
    }

    #[inline]
    fn submit(&mut self, seat: u32, order: Order) {
        let key = self.flights.insert(Flight { seat, order });
        let submitter = &mut self.seats[seat as usize];
        submitter.in_flight += 1;
        let base = match order.kind {
            RequestKind::Rebuild(_) => 0,
            _ => submitter.base,
        };
        let request = Request {
            id: RequestId(u64::from(key.slot())),
            kind: order.kind,
            offset: base + order.offset,
            length: order.length,
            stream: submitter.stream,
            cpu: submitter.cpu,
            background: submitter.job.is_none(),
        };
        if let Some(checkers) = &mut self.checkers {
            checkers.on_request(&request, self.now);
        }
        self.volume.submit(request);
    }

    /// Hands to the members what the volume has for them, until nothing follows from that.
    #[inline]
    fn hand_out(&mut self) {
        loop {
            self.hand_out_io();
            if !self.withdraw() {
                break;
            }
        }
        self.take_replies();
    }

    #[inline]
    fn hand_out_io(&mut self) {
        loop {
            if let Some(foresight) = &self.foresight {
                foresight.look_ahead(&mut self.volume, &self.bank, self.now);
            }
            if let Some(witness) = &mut self.witness {
                witness.before_io(&mut self.volume, &self.bank, self.now);
            }
            let Some(io) = self.volume.poll_io(self.now) else {
                break;
            };
            self.recorder.on_submit(&io);
            if let Some(witness) = &mut self.witness {
                witness.on_submit(&io);
            }
            if let Some(checkers) = &mut self.checkers {
                checkers.on_submit(&io, self.volume.members(), self.now);
            }
            self.bank.submit(self.now, io.member, disk_io(&io));
        }
    }
}

fn disk_io(io: &MemberIo) -> DiskIo {
    DiskIo { tag: io.id.0, op: io.op, offset: io.offset, length: io.length }
}
