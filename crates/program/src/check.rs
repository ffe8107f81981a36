//! Tries a program on random reads: faults, fuel and time of its calls.
//!
//! The contexts are drawn from a fixed seed: arrays of 2, 4 and 16 members whose statistics are
//! random, an event of each kind after each read, and now and then a change of the members. Fuel is
//! the same on every machine; times are those of this machine, and include writing the context.

use crate::abi::{CHOOSE_FUEL, EVENT_FUEL};
use crate::contexts::write_event;
use crate::dump::{choose_text, event_text};
use crate::fault::CallFault;
use crate::helpers::HelperOperation;
use crate::instance::ProgramInstance;
use crate::policy::ask;
use crate::program::Program;
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::io::Outcome;
use mirrorball_core::member::{MemberConfig, MemberIndex, Members};
use mirrorball_core::policies::MIRRORS_MAX;
use mirrorball_core::policy::{Mirror, PolicyFault, Read};
use mirrorball_core::rng::Rng;
use mirrorball_core::units::{GIB, Nanos};
use std::time::Instant;

const READS: u64 = 20_000;
/// The members change after so many reads.
const READS_BETWEEN_CHANGES: u64 = 1_000;
/// Calls of which the time is measured, in batches. The lowest batch counts: other load on the
/// machine only makes one slower.
const TIMED_CALLS: u32 = 1_000;
const TIMED_BATCHES: u32 = 20;

#[derive(Clone, PartialEq, Debug)]
pub struct OperationCost {
    pub operation: &'static str,
    pub calls: u64,
    /// Highest fuel of a call.
    pub fuel_max: u64,
    /// Fuel that a call may use.
    pub fuel_limit: u64,
    /// Time of a call in nanoseconds, `choose` with two mirrors: the lowest mean of several
    /// batches. `None` after a fault, which ends what would be measured.
    pub call_ns: Option<f64>,
}

#[derive(Clone, PartialEq, Debug)]
pub struct CheckReport {
    /// Each operation that the program has and that decides or is notified of I/O.
    pub costs: Vec<OperationCost>,
    /// The first fault, which ends the check.
    pub fault: Option<PolicyFault>,
}

impl CheckReport {
    /// Adds what calls took elsewhere.
    pub fn add(&mut self, costs: &[OperationCost]) {
        for cost in &mut self.costs {
            if let Some(other) = costs.iter().find(|other| other.operation == cost.operation) {
                cost.calls += other.calls;
                cost.fuel_max = cost.fuel_max.max(other.fuel_max);
            }
        }
    }
}

impl OperationCost {
    pub(crate) fn add(&mut self, fuel: u64) {
        self.calls += 1;
        self.fuel_max = self.fuel_max.max(fuel);
    }
}

/// Runs a program on random reads. Fails if it cannot be started with these values of its
/// parameters.
pub fn check(program: &Program, values: &[u64]) -> Result<CheckReport, Diagnostic> {
    let mut costs = costs_of(program);
    let fault = run(program, values, READS, &mut costs)?;
    if fault.is_some() {
        return Ok(CheckReport { costs, fault });
    }
    for index in 0..costs.len() {
        match Trial::new(program, values, 2)?.time(costs[index].operation) {
            Ok(call_ns) => costs[index].call_ns = Some(call_ns),
            Err(fault) => {
                // None of the times is of a program that works.
                costs.iter_mut().for_each(|cost| cost.call_ns = None);
                return Ok(CheckReport { costs, fault: Some(describe(program, &fault, "")) });
            }
        }
    }
    Ok(CheckReport { costs, fault: None })
}

/// Runs a program on `reads` random reads of each array; returns the first fault, which ends it.
/// Fails if it cannot be started with these values of its parameters.
pub fn try_reads(
    program: &Program,
    values: &[u64],
    reads: u64,
) -> Result<Option<PolicyFault>, Diagnostic> {
    run(program, values, reads, &mut [])
}

fn run(
    program: &Program,
    values: &[u64],
    reads: u64,
    costs: &mut [OperationCost],
) -> Result<Option<PolicyFault>, Diagnostic> {
    for mirrors in [2, 4, MIRRORS_MAX as u16] {
        let mut trial = Trial::new(program, values, mirrors)?;
        for number in 0..reads {
            let is_change = number % READS_BETWEEN_CHANGES == READS_BETWEEN_CHANGES / 2;
            let changed = if is_change { trial.change() } else { Ok(()) };
            if let Err((fault, shown)) = changed.and_then(|()| trial.step(costs)) {
                return Ok(Some(describe(program, &fault, &shown)));
            }
        }
    }
    Ok(None)
}

fn describe(program: &Program, fault: &CallFault, shown: &str) -> PolicyFault {
    let summary = format!("{}: {}", program.name, fault.summary());
    let frames = fault.frames.iter().map(|frame| format!("in {frame}\n"));
    let ended_program = Some(program.name.clone());
    PolicyFault { ended_program, summary, dump: frames.collect::<String>() + shown }
}

/// A cost without calls for each operation of a program that decides or is notified of I/O.
pub fn costs_of(program: &Program) -> Vec<OperationCost> {
    let limit_of = |operation| match operation {
        "choose" => Some(CHOOSE_FUEL),
        "submit" | "complete" => Some(EVENT_FUEL),
        _ => None,
    };
    let costs = program.operations().into_iter().filter_map(|operation| {
        let (calls, fuel_max, call_ns) = (0, 0, None);
        let fuel_limit = limit_of(operation)?;
        Some(OperationCost { operation, calls, fuel_max, fuel_limit, call_ns })
    });
    costs.collect()
}

/// An instance and random members.
struct Trial {
    instance: ProgramInstance,
    asks_members: bool,
    members: Members,
    mirrors: u16,
    now: Nanos,
    draw: Rng,
}

impl Trial {
    fn new(program: &Program, values: &[u64], mirrors: u16) -> Result<Trial, Diagnostic> {
        let configs = (1..=u64::from(mirrors)).map(|devid| MemberConfig {
            rotational: devid % 3 != 0,
            optimal_io_bytes: (devid % 2) << 16,
            ..MemberConfig::new(devid, 64 * GIB)
        });
        let members = Members::new(configs);
        let mut instance = program.start(values)?;
        instance.show_members(&members);
        instance.notify(HelperOperation::Init).map_err(|fault| {
            Diagnostic::new(format!("{} cannot start: {}", program.name, fault.summary()))
        })?;
        let (now, draw) = (Nanos(1), Rng::new(u64::from(mirrors)));
        Ok(Trial { instance, asks_members: program.asks_members, members, mirrors, now, draw })
    }

    /// A read, its submission and its end. On a fault, returns it with what the program was shown.
    fn step(&mut self, costs: &mut [OperationCost]) -> Result<(), (CallFault, String)> {
        self.change_members();
        let (read, mirrors) = self.read();
        let mut rng = self.draw.clone();
        let (now, asks_members) = (self.now, self.asks_members);
        let asked =
            ask(&mut self.instance, &read, &mirrors, &self.members, now, &mut rng, asks_members);
        let choice =
            asked.map_err(|fault| (fault, choose_text(&read, &mirrors, &self.members, now)))?;
        self.account(costs, "choose", CHOOSE_FUEL);
        let io = read.io(&mirrors[choice.first()], now);
        let outcome = Outcome {
            result: Ok(()),
            completed_at: now,
            wait: Nanos(self.draw.below(20_000_000)),
            superseded: false,
        };
        for outcome in [None, Some(&outcome)] {
            let operation =
                if outcome.is_none() { HelperOperation::Submit } else { HelperOperation::Complete };
            write_event(self.instance.context_mut(), &io, outcome, now);
            let done = self.instance.event(operation, &mut rng);
            done.map_err(|fault| (fault, event_text(&io, outcome, now)))?;
            let name = if outcome.is_none() { "submit" } else { "complete" };
            self.account(costs, name, EVENT_FUEL);
        }
        Ok(())
    }

    fn change(&mut self) -> Result<(), (CallFault, String)> {
        let member = MemberIndex(self.draw.below(u64::from(self.mirrors)) as u16);
        self.members.get_mut(member).config.size_bytes += GIB;
        self.instance.show_members(&self.members);
        self.instance.notify(HelperOperation::Change).map_err(|fault| (fault, String::new()))
    }

    fn account(&self, costs: &mut [OperationCost], operation: &str, limit: u64) {
        if let Some(cost) = costs.iter_mut().find(|cost| cost.operation == operation) {
            cost.add(self.instance.fuel_used(limit));
        }
    }

    /// Time of a call, with the writing of its context.
    fn time(&mut self, operation: &str) -> Result<f64, CallFault> {
        let mut lowest = f64::INFINITY;
        for _ in 0..TIMED_BATCHES {
            lowest = self.time_batch(operation)?.min(lowest);
        }
        Ok(lowest)
    }

    fn time_batch(&mut self, operation: &str) -> Result<f64, CallFault> {
        let (read, mirrors) = self.read();
        let io = read.io(&mirrors[0], self.now);
        let mut rng = self.draw.clone();
        let start = Instant::now();
        for _ in 0..TIMED_CALLS {
            match operation {
                "choose" => ask(
                    &mut self.instance, &read, &mirrors, &self.members, self.now, &mut rng,
                    self.asks_members,
                )
                .map(drop)?,
                "submit" => {
                    write_event(self.instance.context_mut(), &io, None, self.now);
                    self.instance.event(HelperOperation::Submit, &mut rng)?;
                }
                _ => {
                    write_event(self.instance.context_mut(), &io, None, self.now);
                    self.instance.event(HelperOperation::Complete, &mut rng)?;
                }
            }
        }
        Ok(start.elapsed().as_nanos() as f64 / f64::from(TIMED_CALLS))
    }

    /// Time passes, and the statistics of the members change.
    fn change_members(&mut self) {
        self.now = Nanos(self.now.0 + self.draw.below(1_000_000));
        for index in 0..self.mirrors {
            let member = self.members.get_mut(MemberIndex(index));
            member.reads_in_flight = self.draw.below(33) as u32;
            member.writes_in_flight = self.draw.below(3) as u32;
            member.bytes_in_flight = u64::from(member.reads_in_flight) * 4096;
            member.submitted_end = self.draw.below(64 * GIB);
            member.completed_end = self.draw.below(64 * GIB);
            member.submitted_at = self.now;
            member.last_wait = Nanos(self.draw.below(20_000_000));
            member.reads_completed += self.draw.below(4);
            member.read_wait += member.last_wait;
        }
    }

    fn read(&mut self) -> (Read, Vec<Mirror>) {
        let offset = self.draw.below(64 * GIB / 4096) * 4096;
        let copies = self.mirrors as u8;
        let (stream, background) = (self.draw.below(8), self.draw.below(10) == 0);
        let length = 4096 << self.draw.below(6);
        let read = Read { offset, length, stream, cpu: 0, background, copies };
        let mirror = |index| Mirror { member: MemberIndex(index), offset, copy: index as u8 };
        (read, (0..self.mirrors).map(mirror).collect())
    }
}
