//! A small volume that plays a script: it updates the members' statistics, and calls the policy.
//!
//! Members are identified by their devid. A read's mirrors are the eligible members in stripe
//! order, all at the volume's own offset.

use crate::io::{IoError, IoId, MemberIo, Op, Outcome};
use crate::member::{MemberConfig, MemberIndex, MemberState, Members};
use crate::policies::Spec;
use crate::policy::{Choice, Ctx, Mirror, Read, ReadPolicy};
use crate::rng::Rng;
use crate::units::{GIB, Nanos};

/// Stream and CPU of a read.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reader {
    pub(super) stream: u64,
    pub(super) cpu: u32,
}

/// One line of a script.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    /// The oldest I/O in flight on the member completes after this wait.
    Complete {
        devid: u64,
        wait_ms: u64,
    },
    /// The newest I/O in flight on the member is cancelled: the member had not begun it.
    Cancel {
        devid: u64,
    },
    Write {
        devid: u64,
        offset: u64,
        length: u64,
    },
    Wait {
        millis: u64,
    },
    /// From here on these stripes are eligible, in this order; others are dead.
    Eligible(&'static [u64]),
}

pub(super) struct Script {
    pub(super) policy: Box<dyn ReadPolicy>,
    pub(super) members: Members,
    /// Devids of all stripes in order.
    stripes: Vec<u64>,
    eligible: Vec<u64>,
    in_flight: Vec<MemberIo>,
    now: Nanos,
    rng: Rng,
    next_id: u64,
}

/// The oldest I/O in flight on a member completes.
pub(super) fn complete(devid: u64, wait_ms: u64) -> Step {
    Step::Complete { devid, wait_ms }
}

pub(super) fn wait(millis: u64) -> Step {
    Step::Wait { millis }
}

/// Rotational members with devids from 1; `change` adapts each.
pub(super) fn members(number: u64, change: impl Fn(&mut MemberConfig)) -> Vec<MemberConfig> {
    let configs = (1..=number).map(|devid| {
        let mut config = MemberConfig::new(devid, GIB);
        change(&mut config);
        config
    });
    configs.collect()
}

impl Script {
    pub(super) fn new(spec: &str, configs: Vec<MemberConfig>) -> Script {
        let devids: Vec<u64> = configs.iter().map(|config| config.devid).collect();
        let members = Members::new(configs);
        let mut policy = Spec::parse(spec).unwrap().build(&devids).unwrap();
        policy.on_members_change(&members);
        Script {
            policy,
            members,
            stripes: devids.clone(),
            eligible: devids,
            in_flight: Vec::new(),
            now: Nanos::ZERO,
            rng: Rng::new(1),
            next_id: 0,
        }
    }

    /// Sets the order of the chunk's stripes, by devid.
    pub(super) fn set_stripes(&mut self, devids: &[u64]) {
        self.stripes = devids.to_vec();
        self.set_eligible(devids);
    }

    /// Makes all stripes but these dead.
    pub(super) fn set_eligible(&mut self, devids: &[u64]) {
        self.eligible = devids.to_vec();
    }

    /// One read on CPU 0: the devid chosen, or 0 for a split, which the volume then cuts.
    pub(super) fn read(&mut self, offset: u64, length: u64, stream: u64) -> u64 {
        self.read_as(Reader { stream, cpu: 0 }, offset, length)
    }

    pub(super) fn read_as(&mut self, reader: Reader, offset: u64, length: u64) -> u64 {
        let (read, choice) = self.choose_as(reader, offset, length);
        let mirrors = self.mirrors(offset);
        match choice {
            Choice::Split(_) => {
                let piece = Read { length: length / mirrors.len() as u64, ..read };
                for mirror in &mirrors {
                    self.submit(piece.io(mirror, self.now));
                }
                0
            }
            _ => {
                let place = choice.first();
                self.submit(read.io(&mirrors[place], self.now));
                self.members[mirrors[place].member].config.devid
            }
        }
    }

    /// The choice of the policy; nothing is submitted.
    pub(super) fn choose(&mut self, offset: u64, length: u64, stream: u64) -> (Read, Choice) {
        self.choose_as(Reader { stream, cpu: 0 }, offset, length)
    }

    fn choose_as(&mut self, reader: Reader, offset: u64, length: u64) -> (Read, Choice) {
        let Reader { stream, cpu } = reader;
        let mirrors = self.mirrors(offset);
        let copies = self.stripes.len() as u8;
        let read = Read { offset, length, stream, cpu, background: false, copies };
        let mut ctx = Ctx { now: self.now, members: &self.members, rng: &mut self.rng };
        (read, self.policy.choose(&read, &mirrors, &mut ctx))
    }

    pub(super) fn play(&mut self, step: &Step) {
        match *step {
            Step::Complete { devid, wait_ms } => self.complete(devid, wait_ms),
            Step::Cancel { devid } => self.cancel(devid),
            Step::Write { devid, offset, length } => {
                let mirror = Mirror { member: self.member(devid), offset, copy: 0 };
                let read = Read { offset, length, stream: 0, cpu: 0, background: false, copies: 1 };
                self.submit(MemberIo { op: Op::Write, ..read.io(&mirror, self.now) });
            }
            Step::Wait { millis } => self.now += Nanos::from_millis(millis),
            Step::Eligible(devids) => self.eligible = devids.to_vec(),
        }
    }

    /// The policy's counter of this name, of a member or of the volume.
    pub(super) fn counter(&self, name: &str, devid: Option<u64>) -> i64 {
        let member = devid.map(|devid| self.member(devid));
        let counters = self.policy.counters();
        let found = counters.iter().find(|it| it.name == name && it.member == member);
        found.unwrap_or_else(|| panic!("no counter {name} in {counters:?}")).value
    }

    /// Submits a read for which the policy was not called.
    pub(super) fn submit_read(&mut self, devid: u64) {
        let mirror = Mirror { member: self.member(devid), offset: 0, copy: 0 };
        let read =
            Read { offset: 0, length: 4096, stream: 0, cpu: 0, background: false, copies: 1 };
        self.submit(read.io(&mirror, self.now));
    }

    /// Plays fifty reads of each member that take these milliseconds.
    pub(super) fn measure(&mut self, waits_ms: &[u64]) {
        for (devid, &wait_ms) in (1..).zip(waits_ms) {
            for _ in 0..50 {
                self.submit_read(devid);
                self.complete(devid, wait_ms);
            }
        }
    }

    pub(super) fn fail(&mut self, devid: u64) {
        let member = self.member(devid);
        self.members.get_mut(member).state = MemberState::Failed;
        self.policy.on_members_change(&self.members);
    }

    fn complete(&mut self, devid: u64, wait_ms: u64) {
        let member = self.member(devid);
        let oldest = self.in_flight.iter().position(|io| io.member == member).unwrap();
        let io = self.in_flight.remove(oldest);
        self.end(&io, Ok(()), Nanos::from_millis(wait_ms));
    }

    fn cancel(&mut self, devid: u64) {
        let member = self.member(devid);
        let newest = self.in_flight.iter().rposition(|io| io.member == member).unwrap();
        let io = self.in_flight.remove(newest);
        self.end(&io, Err(IoError::Cancelled), self.now - io.submitted_at);
    }

    fn end(&mut self, io: &MemberIo, result: Result<(), IoError>, wait: Nanos) {
        let outcome = Outcome { result, completed_at: self.now, wait, superseded: false };
        self.members.get_mut(io.member).account_completion(io, &outcome);
        let mut ctx = Ctx { now: self.now, members: &self.members, rng: &mut self.rng };
        self.policy.on_complete(io, &outcome, &mut ctx);
    }

    fn submit(&mut self, io: MemberIo) {
        let io = MemberIo { id: IoId(self.next_id), ..io };
        self.next_id += 1;
        self.members.get_mut(io.member).account_submission(&io);
        self.in_flight.push(io);
        let mut ctx = Ctx { now: self.now, members: &self.members, rng: &mut self.rng };
        self.policy.on_submit(&io, &mut ctx);
    }

    fn mirrors(&self, offset: u64) -> Vec<Mirror> {
        let live = self.stripes.iter().enumerate().filter(|(_, it)| self.eligible.contains(it));
        let mirror = |(copy, &devid): (usize, &u64)| Mirror {
            member: self.member(devid),
            offset,
            copy: copy as u8,
        };
        live.map(mirror).collect()
    }

    fn member(&self, devid: u64) -> MemberIndex {
        self.members.find(devid).unwrap()
    }
}
