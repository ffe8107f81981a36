//! One run: a mirrored volume, its clients, and what goes wrong with its members.

use super::client::{BLOCK_BYTES, Client, Contents, block};
use super::peer::Machine;
use mirrorball_core::geometry::{ChunkMap, Profile};
use mirrorball_core::member::{MemberConfig, MemberIndex, MemberState, Members};
use mirrorball_core::policies::Spec;
use mirrorball_core::rng::Rng;
use mirrorball_core::units::Nanos;
use mirrorball_io::Volume;
use mirrorball_io::clock::{Clock, Speed};
use mirrorball_io::control::protocol::ControlRequest;
use mirrorball_io::control::{Control, Endpoint, Protocol};
use mirrorball_io::device_address::DeviceAddress;
use mirrorball_io::driver::Driver;
use mirrorball_io::driver::sim::{FileFault, ObjectId, SimOptions, SimulatedWorld};
use mirrorball_io::executor::{Executor, Target};
use mirrorball_io::export::Export;
use mirrorball_io::export::nbd::server::{ConnectionsMax, Server};
use mirrorball_io::member::{NewMember, Source};
use mirrorball_io::reopen::{OpenMember, OpenRequest, OpenedMember, SpareRequest};
use mirrorball_io::service::{Service, ServiceState, Stopper};
use mirrorball_store::label::LabelledSpare;
use rustix::io::Errno;
use std::fmt;
use std::sync::Arc;

const MEMBER_BYTES: u64 = 6 << 20;
const CLIENTS: u64 = 3;
const REQUESTS: u32 = 150;
const FAULTS: u32 = 4;
/// A run that takes longer hangs.
const TIME_MAX: Nanos = Nanos::from_secs(3600);
const TURNS_MAX: u32 = 1_000_000;
const POLICIES: [&str; 4] = ["round-robin", "pid", "crucible/read-all-first", "mirrorball/auto"];

/// What a run came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Outcome {
    /// Hash of everything that happened.
    pub(crate) trace: u64,
    pub(crate) replies: u64,
    pub(crate) rebuilds: u32,
    pub(crate) time: Nanos,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Outcome { trace, replies, rebuilds, time } = self;
        write!(f, "trace {trace:016x}, {replies} replies, {rebuilds} rebuilds, {time}")
    }
}

#[derive(Clone)]
enum Storage {
    File(ObjectId),
    Machine(Machine),
}

/// Opens members again, as they are.
struct Opener {
    simulation: SimulatedWorld,
    storage: Vec<Storage>,
}

impl Opener {
    fn open(&self, member: usize) -> Result<Source, String> {
        match &self.storage[member] {
            Storage::File(file) => Ok(Source::Real(self.simulation.endpoint(*file))),
            Storage::Machine(machine) => {
                machine.peer().map(Source::Remote).map_err(|error| error.to_string())
            }
        }
    }
}

impl OpenMember for Opener {
    fn open_again(&self, request: &OpenRequest) -> Result<OpenedMember, String> {
        let source = self.open(request.member.get())?;
        Ok(OpenedMember { source, found: None, notes: Vec::new() })
    }

    fn prepare_spare(&self, _: &SpareRequest) -> Result<LabelledSpare, String> {
        Err("the volume has no labels".to_owned())
    }

    fn device(&self, _: MemberIndex) -> Option<DeviceAddress> {
        None
    }
}

/// What is wrong with a member now.
#[derive(Clone, Copy, Debug)]
struct Fault {
    member: usize,
    ends_at: Nanos,
}

pub(crate) struct Scenario {
    simulation: SimulatedWorld,
    rng: Rng,
    service: Service,
    stopper: Stopper,
    storage: Vec<Storage>,
    clients: Vec<Client>,
    control: ObjectId,
    fault: Option<Fault>,
    next_fault: Nanos,
    faults_left: u32,
    /// The connection of a `rebuild` command that has no reply yet.
    command: Option<ObjectId>,
    /// What arrived of its response.
    response: Vec<u8>,
    rebuilds: u32,
}

impl Scenario {
    pub(crate) fn new(seed: u64) -> Scenario {
        let mut rng = Rng::stream(seed, "scenario");
        let simulation = SimulatedWorld::new(SimOptions {
            seed,
            file_latency_max: Nanos(1 + rng.below(10_000_000)),
            socket_latency_max: Nanos(1 + rng.below(500_000)),
            partial_every: rng.below(20),
            stall_every: rng.below(2) * 500,
            stall_max: Nanos::from_millis(50),
        });
        let count = 2 + (seed % 2) as usize;
        let remote = (seed / 2 % 4) as usize;
        let storage: Vec<Storage> = (0..count)
            .map(|index| match index == remote {
                true => {
                    let rng = Rng::stream(seed, "machine");
                    Storage::Machine(Machine::new(&simulation, MEMBER_BYTES, rng))
                }
                false => Storage::File(simulation.add_file(MEMBER_BYTES)),
            })
            .collect();
        let opener = Opener { simulation: simulation.clone(), storage: storage.clone() };
        let policy = POLICIES[rng.below(POLICIES.len() as u64) as usize];
        let mut executor = executor(&simulation, &opener, policy, seed);
        let (listener, control) = (simulation.add_listener(), simulation.add_listener());
        let mut adopt =
            |object| executor.driver.adopt_endpoint(simulation.endpoint(object)).unwrap();
        let (nbd, lines) = (adopt(listener), adopt(control));
        let export = Export {
            name: "volume".to_owned(),
            description: String::new(),
            target: Target::Volume,
            size_bytes: executor.size_bytes(Target::Volume),
            block_bytes: 512,
            rotational: false,
            is_read_only: false,
        };
        let blocks = export.size_bytes / BLOCK_BYTES as u64 / CLIENTS;
        let server = Server::new(vec![export], vec![nbd], ConnectionsMax(16), &mut executor);
        let endpoint = Endpoint { listener: lines, protocol: Protocol::JsonLines };
        let name = "volume".to_owned();
        let served = Control::new(name, Some(policy.to_owned()), vec![endpoint], &mut executor);
        let (service, stopper) = Service::new(executor, server, Some(served)).unwrap();
        let service = service.with_opener(Some(Arc::new(opener)), Vec::new()).unwrap();
        let client = |index: u64| {
            let rng = Rng::stream(seed, &format!("client {index}"));
            let part = index * blocks..(index + 1) * blocks;
            Client::new(&simulation, listener, part, REQUESTS, rng)
        };
        let clients = (0..CLIENTS).map(client).collect();
        Scenario {
            rng,
            service,
            stopper,
            storage,
            clients,
            control,
            fault: None,
            next_fault: Nanos::from_millis(100),
            faults_left: FAULTS,
            command: None,
            response: Vec::new(),
            rebuilds: 0,
            simulation,
        }
    }

    /// Runs to the end, and checks what is left.
    pub(crate) fn run(mut self) -> Outcome {
        for turn in 0.. {
            let now = self.simulation.now();
            assert!(turn < TURNS_MAX && now < TIME_MAX, "it does not end: {:?}", self.fault);
            self.clients.iter_mut().for_each(|client| client.act(now));
            for storage in &self.storage {
                if let Storage::Machine(machine) = storage {
                    machine.act();
                }
            }
            self.break_and_mend(now);
            if self.is_done() {
                break;
            }
            let clients = self.clients.iter().filter_map(Client::next_request);
            let next = clients.chain([self.next_fault]).min().unwrap_or(now);
            let timeout = next.saturating_sub(now).max(Nanos::from_micros(50));
            let state = self.service.turn(Some(timeout)).unwrap();
            assert_eq!(state, ServiceState::Running, "the test did not stop it");
        }
        self.stop();
        self.compare_mirrors();
        Outcome {
            trace: self.simulation.trace(),
            replies: self.clients.iter().map(|client| client.replies).sum(),
            rebuilds: self.rebuilds,
            time: self.simulation.now(),
        }
    }

    fn is_done(&self) -> bool {
        let clients = self.clients.iter().all(Client::is_done);
        clients && self.faults_left == 0 && self.fault.is_none() && self.failed().is_none()
    }

    fn state(&self, member: usize) -> MemberState {
        let volume = self.service.executor().volume().unwrap();
        volume.members()[MemberIndex(member as u16)].state
    }

    /// The first member that is not in sync.
    fn failed(&self) -> Option<usize> {
        (0..self.storage.len()).find(|&member| self.state(member) != MemberState::InSync)
    }

    /// Begins a fault, ends it, and has its member rebuilt. One member at a time is at fault, so
    /// no request may fail.
    fn break_and_mend(&mut self, now: Nanos) {
        if let Some(fault) = self.fault {
            if fault.ends_at <= now {
                self.end_fault(fault.member);
                self.fault = None;
                self.next_fault = now;
            }
            return;
        }
        match self.failed() {
            Some(member) => self.rebuild(member, now),
            None if self.faults_left > 0 && self.next_fault <= now => self.begin_fault(now),
            None => {}
        }
        self.next_fault = self.next_fault.max(now + Nanos::from_millis(1));
    }

    fn begin_fault(&mut self, now: Nanos) {
        self.faults_left -= 1;
        let member = self.rng.below(self.storage.len() as u64) as usize;
        let kind = self.rng.below(4);
        match &self.storage[member] {
            Storage::File(file) => self.simulation.set_fault(
                *file,
                match kind {
                    0 | 1 => FileFault::Fails(if kind == 0 { Errno::IO } else { Errno::NODEV }),
                    2 => FileFault::FailsReads(3),
                    _ => FileFault::Hangs,
                },
            ),
            Storage::Machine(machine) => match kind {
                0 | 1 => machine.lose_power(),
                2 => machine.break_connection(),
                _ => machine.hang(),
            },
        }
        let ends_at = now + Nanos::from_millis(20 + self.rng.below(500));
        self.next_fault = ends_at;
        self.fault = Some(Fault { member, ends_at });
    }

    fn end_fault(&mut self, member: usize) {
        match &self.storage[member] {
            Storage::File(file) => {
                if self.state(member) == MemberState::Failed {
                    self.simulation.lose_unsynced(*file);
                }
                self.simulation.set_fault(*file, FileFault::None);
            }
            Storage::Machine(machine) => machine.start(),
        }
    }

    /// Asks for a rebuild of a failed member, until the service does it.
    fn rebuild(&mut self, member: usize, now: Nanos) {
        if let Some(socket) = self.command {
            if !self.simulation.is_closed(socket) {
                self.response.extend(self.simulation.receive(socket));
                self.next_fault = now + Nanos::from_millis(1);
                return;
            }
            self.command = None;
            let response = String::from_utf8(std::mem::take(&mut self.response)).unwrap();
            let is_response =
                response.starts_with("{\"answer\"") || response.starts_with("{\"error\"");
            assert!(is_response, "{response:?}");
        }
        if self.state(member) == MemberState::Failed {
            let socket = self.simulation.connect(self.control);
            let request =
                ControlRequest::Rebuild { devid: member as u64 + 1, rate_bytes_per_s: None };
            let line = format!("{}\n", serde_json::to_string(&request).unwrap());
            self.simulation.send(socket, line.as_bytes());
            self.command = Some(socket);
            self.rebuilds += 1;
        }
        self.next_fault = now + Nanos::from_millis(10);
    }

    /// Stops the service while its clients are connected.
    fn stop(&mut self) {
        self.stopper.stop();
        let mut turns = 0;
        while self.service.turn(None).unwrap() == ServiceState::Running {
            turns += 1;
            assert!(turns < TURNS_MAX, "it does not stop");
            for client in &self.clients {
                client.disconnect();
            }
            for storage in &self.storage {
                if let Storage::Machine(machine) = storage {
                    machine.act();
                }
            }
        }
    }

    /// Every mirror holds what the clients wrote; where that is not known, all hold the same.
    fn compare_mirrors(&self) {
        let map = self.service.executor().volume().unwrap().map();
        for (number, contents) in self.clients.iter().flat_map(Client::blocks) {
            let extent = map.map(number * BLOCK_BYTES as u64, BLOCK_BYTES as u64);
            let read = |member: usize, offset| match &self.storage[member] {
                Storage::File(file) => self.simulation.read_file(*file, offset, BLOCK_BYTES),
                Storage::Machine(machine) => machine.contents(offset, BLOCK_BYTES),
            };
            let mirrors = extent.mirrors().iter();
            let copies: Vec<Vec<u8>> =
                mirrors.map(|mirror| read(mirror.member.get(), mirror.offset)).collect();
            for (index, copy) in copies.iter().enumerate() {
                match contents {
                    Contents::Version(version) => {
                        let expected = block(number, version);
                        assert!(*copy == expected, "block {number}, copy {index}: {version}");
                    }
                    Contents::Unknown => {
                        assert!(*copy == copies[0], "block {number}, copy {index} differs");
                    }
                }
            }
        }
    }
}

fn executor(simulation: &SimulatedWorld, opener: &Opener, policy: &str, seed: u64) -> Executor {
    let devids = 1..=opener.storage.len() as u64;
    let configs: Vec<MemberConfig> =
        devids.clone().map(|devid| MemberConfig::new(devid, MEMBER_BYTES)).collect();
    let member = |(index, config): (usize, &MemberConfig)| NewMember {
        config: config.clone(),
        source: opener.open(index).unwrap(),
    };
    let members = configs.iter().enumerate().map(member).collect();
    let profile = if configs.len() == 2 { Profile::Raid1 } else { Profile::Raid1c3 };
    let map = ChunkMap::allocate(profile, None, &configs).unwrap();
    let policy = Spec::parse(policy).unwrap().build(&devids.collect::<Vec<u64>>()).unwrap();
    let volume = Volume::without_gate(map, Members::new(configs), policy, seed);
    let driver = Driver::simulated(simulation);
    Executor::new(driver, Clock::new(Speed::REAL), members, None, Some(volume)).unwrap()
}
