//! Simulated backend: files and sockets in memory, on a virtual clock.
//!
//! A [`SimulatedWorld`] is a world with one driver and one thread. The program under test uses the
//! driver as any other; its clock, latencies and faults come from here. The test plays everything
//! outside of the driver: it holds the other ends of sockets, injects faults, and reads files.
//!
//! - **Time** passes only in the driver's wait, which jumps to the next event.
//! - **Operations** end after a random latency, so they overtake each other; events that are due
//!   together are reported in a random order. Some transfers move only a part of the bytes.
//! - **Stalls**: after some waits the thread loses the CPU for a while.
//! - **Sockets** deliver bytes in order. The side of the test sends at once and receives through a
//!   buffer of [`SOCKET_BYTES`].
//! - **Files** keep what was not synced apart, so a power failure can lose it (`file`). They have
//!   paths, and an open file is locked (`opening`).
//! - **Servers** on other machines are played by the test ([`SimulatedServer`]).
//! - **Wakers** are seen by the next wait. Blocking tasks run inline and report later
//!   (`blocking_worker`).
//!
//! Everything random comes from one seed, and [`SimulatedWorld::trace`] is a hash of all that
//! happened: the same seed gives the same trace.

mod file;
mod files;
mod opening;
mod perform;
mod pieces;
mod power;

use super::buffers::{Buffers, FreeMemory};
use super::operation::{OperationKey, OperationKind};
use super::{Endpoint, Waker};
use file::SimFile;
pub use file::{FileFault, Misdirection};
use mirrorball_core::rng::Rng;
use mirrorball_core::units::Nanos;
pub use opening::{SimulatedEndpoint, SimulatedServer};
use rustix::io::Errno;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Bytes that a socket holds for a test that does not receive.
pub const SOCKET_BYTES: usize = 256 << 10;

/// Time that a wait takes at least, so that polling makes time pass.
const WAIT_MIN: Nanos = Nanos::from_micros(1);

/// Latencies and faults of a simulated world.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SimOptions {
    pub seed: u64,
    /// Longest latency of an operation on a file.
    pub file_latency_max: Nanos,
    /// Longest latency of an operation on a socket, and of a blocking task.
    pub socket_latency_max: Nanos,
    /// One transfer in this many moves only a part of the bytes; 0 for none.
    pub partial_every: u64,
    /// After one wait in this many the thread is stalled; 0 for none.
    pub stall_every: u64,
    pub stall_max: Nanos,
}

impl Default for SimOptions {
    /// A hard disk's latencies, without faults.
    fn default() -> SimOptions {
        SimOptions {
            seed: 1,
            file_latency_max: Nanos::from_millis(10),
            socket_latency_max: Nanos::from_micros(200),
            partial_every: 0,
            stall_every: 0,
            stall_max: Nanos::ZERO,
        }
    }
}

/// Name of a simulated file, socket or listener.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ObjectId(u32);

impl ObjectId {
    /// The number of an object, unique in its world.
    pub fn number(self) -> u64 {
        self.0.into()
    }

    pub(crate) fn from_number(number: usize) -> ObjectId {
        ObjectId(number as u32)
    }
}

/// Handle to a simulated world; clones share it.
#[derive(Clone)]
pub struct SimulatedWorld(Arc<Mutex<World>>);

impl fmt::Debug for SimulatedWorld {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SimulatedWorld")
    }
}

struct World {
    options: SimOptions,
    now: Nanos,
    rng: Rng,
    objects: Vec<Object>,
    /// Events that are due, by time and then by the order in which they were scheduled.
    due: BTreeMap<(Nanos, u64), Due>,
    scheduled: u64,
    /// Operations that wait for their object to change.
    parked: Vec<SimOperation>,
    /// Number of blocking writes after which others fail; `None` for no limit.
    writes_left: Option<u64>,
    paths: BTreeMap<PathBuf, ObjectId>,
    servers: BTreeMap<String, Arc<dyn SimulatedServer>>,
    wakers: Vec<(OperationKey, Waker)>,
    /// True if the test has something to receive.
    outside_changed: bool,
    /// Memory that the last driver left, for the next: to map memory takes long.
    memory: FreeMemory,
    trace: u64,
}

enum Object {
    File(SimFile),
    Socket(Socket),
    Listener { backlog: VecDeque<ObjectId>, is_closed: bool },
}

struct Socket {
    peer: ObjectId,
    inbox: VecDeque<u8>,
    is_closed: bool,
    /// True for the end that the test holds.
    is_outside: bool,
}

impl Socket {
    /// Removes bytes that were received and fill the target.
    fn take(&mut self, target: &mut [u8]) {
        let (first, second) = self.inbox.as_slices();
        let (head, tail) = target.split_at_mut(first.len().min(target.len()));
        head.copy_from_slice(&first[..head.len()]);
        tail.copy_from_slice(&second[..tail.len()]);
        self.inbox.drain(..target.len());
    }
}

enum Due {
    Operation(SimOperation),
    Wake(Waker),
}

struct SimOperation {
    key: OperationKey,
    object: ObjectId,
    kind: OperationKind,
    /// Of a sync: number of changes of the file when it was started.
    changes: u64,
}

impl SimulatedWorld {
    /// A world without files and sockets, at time zero.
    pub fn new(options: SimOptions) -> SimulatedWorld {
        SimulatedWorld(Arc::new(Mutex::new(World {
            options,
            now: Nanos::ZERO,
            rng: Rng::new(options.seed),
            objects: Vec::new(),
            due: BTreeMap::new(),
            scheduled: 0,
            parked: Vec::new(),
            writes_left: None,
            paths: BTreeMap::new(),
            servers: BTreeMap::new(),
            wakers: Vec::new(),
            outside_changed: false,
            memory: FreeMemory::default(),
            trace: 0xcbf2_9ce4_8422_2325,
        })))
    }

    fn world(&self) -> MutexGuard<'_, World> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn now(&self) -> Nanos {
        self.world().now
    }

    /// Hash of everything that happened so far.
    pub fn trace(&self) -> u64 {
        self.world().trace
    }

    /// A file or socket to be given to a driver.
    pub fn endpoint(&self, object: ObjectId) -> Endpoint {
        Endpoint::Simulated(SimulatedEndpoint::new(self, object))
    }

    pub fn add_listener(&self) -> ObjectId {
        self.world().add(Object::Listener { backlog: VecDeque::new(), is_closed: false })
    }

    /// Connects to a listening socket; returns the test's end. If the listener is closed, so is
    /// the socket.
    pub fn connect(&self, listener: ObjectId) -> ObjectId {
        let (inside, outside) = self.socket_pair();
        let mut world = self.world();
        let object = &mut world.objects[listener.0 as usize];
        let Object::Listener { backlog, is_closed } = object else { panic!("not a listener") };
        if *is_closed {
            world.shut_down(inside);
        } else {
            backlog.push_back(inside);
            world.unpark(listener);
        }
        outside
    }

    /// Adds two connected sockets: one for the driver, one for the test.
    pub fn socket_pair(&self) -> (ObjectId, ObjectId) {
        let mut world = self.world();
        let next = world.objects.len() as u32;
        let (inside, outside) = (ObjectId(next), ObjectId(next + 1));
        for (peer, is_outside) in [(outside, false), (inside, true)] {
            let inbox = VecDeque::new();
            world.add(Object::Socket(Socket { peer, inbox, is_closed: false, is_outside }));
        }
        (inside, outside)
    }

    /// Sends bytes from the test's end of a socket.
    pub fn send(&self, outside: ObjectId, bytes: &[u8]) {
        let mut world = self.world();
        let peer = world.socket(outside).peer;
        world.socket(peer).inbox.extend(bytes);
        world.unpark(peer);
    }

    /// Receives the bytes that arrived at the test's end of a socket.
    pub fn receive(&self, outside: ObjectId) -> Vec<u8> {
        let mut world = self.world();
        let socket = world.socket(outside);
        let (bytes, peer) = (std::mem::take(&mut socket.inbox), socket.peer);
        world.unpark(peer);
        bytes.into()
    }

    /// True if the driver closed its end of a socket, and every byte was received.
    pub fn is_closed(&self, outside: ObjectId) -> bool {
        let mut world = self.world();
        let Socket { peer, ref inbox, .. } = *world.socket(outside);
        inbox.is_empty() && world.socket(peer).is_closed
    }

    /// Closes the test's end of a socket. Bytes that were sent are still received.
    pub fn close(&self, outside: ObjectId) {
        self.world().shut_down(outside);
    }

    /// Sets a waker when a blocking task ends that starts at `begin` or now, whichever is later;
    /// returns that time.
    pub(crate) fn wake_later(&self, begin: Nanos, waker: &Waker) -> Nanos {
        let world = &mut *self.world();
        let task = world.latency(world.options.socket_latency_max);
        let at = world.now.max(begin) + task;
        world.schedule(at, Due::Wake(waker.clone()));
        at
    }

    /// Removes and returns the memory that an earlier driver left.
    pub(super) fn take_memory(&self) -> FreeMemory {
        std::mem::take(&mut self.world().memory)
    }

    /// Ends what a driver has in flight that ends, and keeps its memory for the next.
    pub(super) fn leave_driver(&self, memory: FreeMemory) {
        let world = &mut *self.world();
        world.due.clear();
        world.parked.clear();
        world.wakers.clear();
        world.memory = memory;
    }

    pub(super) fn push(&self, key: OperationKey, object: Option<ObjectId>, kind: &OperationKind) {
        let mut world = self.world();
        match (object, kind) {
            (None, OperationKind::Wake(waker)) => world.wakers.push((key, waker.clone())),
            (None, _) => unreachable!("only wakers have a descriptor of the kernel"),
            (Some(object), kind) => {
                let changes = match &world.objects[object.0 as usize] {
                    Object::File(file) => file.changes(),
                    Object::Socket(_) | Object::Listener { .. } => 0,
                };
                world.start(SimOperation { key, object, kind: kind.clone(), changes });
            }
        }
    }

    /// Closes a socket or listener of the driver; what waits on it ends.
    pub(super) fn shut_down(&self, object: ObjectId) {
        self.world().shut_down(object);
    }

    /// Lets time pass until an operation ends or the test has something to receive, but at most
    /// for `timeout`.
    pub(super) fn wait(
        &self,
        timeout: Option<Duration>,
        buffers: &mut Buffers,
        ended: &mut Vec<(OperationKey, Result<usize, Errno>)>,
    ) -> io::Result<()> {
        let world = &mut *self.world();
        let result = world.wait(timeout, buffers, ended);
        world.outside_changed = false;
        if world.one_in(world.options.stall_every) {
            let stall = world.latency(world.options.stall_max);
            world.now += stall;
        }
        result
    }
}

impl World {
    fn add(&mut self, object: Object) -> ObjectId {
        self.objects.push(object);
        ObjectId(self.objects.len() as u32 - 1)
    }

    fn file(&mut self, id: ObjectId) -> &mut SimFile {
        match &mut self.objects[id.0 as usize] {
            Object::File(file) => file,
            _ => panic!("{id:?} is no file"),
        }
    }

    fn socket(&mut self, id: ObjectId) -> &mut Socket {
        match &mut self.objects[id.0 as usize] {
            Object::Socket(socket) => socket,
            _ => panic!("{id:?} is no socket"),
        }
    }

    fn one_in(&mut self, count: u64) -> bool {
        count > 0 && self.rng.below(count) == 0
    }

    fn latency(&mut self, max: Nanos) -> Nanos {
        Nanos(1 + self.rng.below(max.0.max(1)))
    }

    fn schedule(&mut self, at: Nanos, due: Due) {
        self.scheduled += 1;
        self.due.insert((at, self.scheduled), due);
    }

    fn start(&mut self, operation: SimOperation) {
        let max = match &self.objects[operation.object.0 as usize] {
            Object::File(_) => self.options.file_latency_max,
            _ => self.options.socket_latency_max,
        };
        let at = self.now + self.latency(max);
        self.schedule(at, Due::Operation(operation));
    }

    /// Tries again the operations that wait for this object.
    fn unpark(&mut self, object: ObjectId) {
        let is_of = |operation: &mut SimOperation| operation.object == object;
        let operations: Vec<SimOperation> = self.parked.extract_if(.., is_of).collect();
        operations.into_iter().for_each(|operation| self.start(operation));
    }

    fn shut_down(&mut self, id: ObjectId) {
        match &mut self.objects[id.0 as usize] {
            Object::File(_) => return,
            Object::Listener { is_closed, .. } => *is_closed = true,
            Object::Socket(socket) => {
                socket.is_closed = true;
                let peer = socket.peer;
                self.outside_changed |= self.socket(peer).is_outside;
                self.unpark(peer);
            }
        }
        self.unpark(id);
    }

    fn wait(
        &mut self,
        timeout: Option<Duration>,
        buffers: &mut Buffers,
        ended: &mut Vec<(OperationKey, Result<usize, Errno>)>,
    ) -> io::Result<()> {
        let timeout = timeout.map(|timeout| Nanos(timeout.as_nanos() as u64).max(WAIT_MIN));
        let deadline = timeout.map(|timeout| self.now.saturating_add(timeout));
        loop {
            self.take_wakers(ended);
            let next = self.due.first_key_value().map(|(&(at, _), _)| at);
            let is_over = !ended.is_empty() || self.outside_changed;
            match next {
                Some(at) if at <= self.now => {}
                _ if is_over => break,
                Some(at) if deadline.is_none_or(|deadline| at <= deadline) => self.now = at,
                _ => match deadline {
                    Some(deadline) => {
                        self.now = deadline;
                        break;
                    }
                    None => return Err(io::Error::other("nothing in the simulation can happen")),
                },
            }
            match self.due.pop_first().map(|(_, due)| due) {
                Some(Due::Wake(waker)) => waker.wake(),
                Some(Due::Operation(operation)) => match self.attempt(&operation, buffers) {
                    Some(result) => {
                        self.note(&operation, result);
                        ended.push((operation.key, result));
                    }
                    None => self.parked.push(operation),
                },
                None => {}
            }
        }
        for index in (1..ended.len()).rev() {
            let other = self.rng.below(index as u64 + 1) as usize;
            ended.swap(index, other);
        }
        Ok(())
    }

    fn take_wakers(&mut self, ended: &mut Vec<(OperationKey, Result<usize, Errno>)>) {
        self.wakers.retain(|(key, waker)| {
            if waker.is_set() {
                ended.push((*key, Ok(0)));
            }
            !waker.is_set()
        });
    }
}
