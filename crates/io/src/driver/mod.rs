//! The driver: asynchronous operations on files and sockets, and the clock.
//!
//! One thread owns a driver. It starts operations, and waits for the first to end or for a timeout.
//! A driver has one of three backends:
//!
//! - **io_uring** (`ring.rs`): one system call submits the operations of a turn and waits.
//! - **threads** (`pool.rs`): `preadv` and `pwritev` in a few threads, `poll` for the sockets. For
//!   kernels without io_uring and containers that forbid it; slower, and otherwise the same.
//! - **simulated** ([`sim`]): files and sockets in memory on a virtual clock, for tests.
//!
//! A read from the page cache, and a send that fits the socket's buffer, end when they are started
//! (`operation.rs`); the next wait reports them.
//!
//! The driver owns memory ([`buffers`]) and descriptors, so neither can be freed while an operation
//! uses it. The driver continues partial transfers: a read returns fewer bytes than requested only
//! at the end of its file. It never looks at the bytes.

pub mod buffers;
mod endpoint;
mod memory;
mod operation;
mod peer;
mod platform;
mod pool;
mod ring;
pub mod sim;
mod teardown;
#[cfg(test)]
mod tests;
mod waker;

pub use endpoint::{BackendKind, Endpoint, FileId};
pub(crate) use endpoint::{BlockingStream, read_aligned, set_timeouts};
pub use operation::{Event, EventOwner, Handle, Output, Token};
pub(crate) use peer::PeerPlace;
pub use platform::Platform;
pub use waker::Waker;

use buffers::{Buffers, Slice};
use endpoint::Resource;
use mirrorball_core::slab::Slab;
use mirrorball_core::units::Nanos;
use operation::{Operation, OperationKey, OperationKind};
use pool::Pool;
use ring::Ring;
use rustix::io::Errno;
use sim::{ObjectId, SimulatedWorld};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Number of slices that one send takes at most.
pub const SLICES_MAX: usize = 64;

/// Number of waits in a row that may report only operations that ended when they were started. A
/// request and its reply take two; without a limit a busy client would starve the others.
const IMMEDIATE_WAITS_MAX: u32 = 4;

struct Descriptor {
    resource: Resource,
    in_flight: u32,
    closing: bool,
    /// True if reads may find their data in the page cache.
    cached: bool,
    waker: Option<Waker>,
    /// True for a socket that other processes use as well.
    is_shared: bool,
}

enum Backend {
    Ring(Box<Ring>),
    Threads(Pool),
    Simulated(SimulatedWorld),
}

/// See the page of this module.
pub struct Driver {
    /// Memory for operations; other modules reach it by the methods in `buffers.rs` only.
    buffers: Buffers,
    descriptors: Slab<Handle, Descriptor>,
    operations: Slab<OperationKey, Operation>,
    backend: Backend,
    start: Instant,
    /// Operations that ended when they were started, until the next wait.
    ended: Vec<(OperationKey, Result<usize, Errno>)>,
    /// Number of waits in a row that reported only those.
    immediate_waits: u32,
    spare_lists: Vec<Vec<Slice>>,
}

impl Driver {
    /// A driver with this kind of backend; with `None`, io_uring if available, else threads.
    /// Returns why io_uring is not available, too. Fails if the requested backend is not available,
    /// or threads cannot be started.
    pub fn new(wanted: Option<BackendKind>) -> io::Result<(Driver, Option<io::Error>)> {
        let (backend, refusal) = match wanted {
            Some(BackendKind::Ring) => (Backend::Ring(Box::new(Ring::new()?)), None),
            Some(BackendKind::Threads) => (Backend::Threads(Pool::new()?), None),
            Some(BackendKind::Simulated) => return Err(io::ErrorKind::Unsupported.into()),
            None => match Ring::new() {
                Ok(ring) => (Backend::Ring(Box::new(ring)), None),
                Err(error) => (Backend::Threads(Pool::new()?), Some(error)),
            },
        };
        Ok((Driver::with_backend(backend, Buffers::default()), refusal))
    }

    /// The driver of a simulated world, which has no other.
    pub fn simulated(simulation: &SimulatedWorld) -> Driver {
        let buffers = Buffers::with_memory(simulation.take_memory());
        Driver::with_backend(Backend::Simulated(simulation.clone()), buffers)
    }

    fn with_backend(backend: Backend, buffers: Buffers) -> Driver {
        Driver {
            buffers,
            descriptors: Slab::default(),
            operations: Slab::default(),
            backend,
            start: Instant::now(),
            ended: Vec::new(),
            immediate_waits: 0,
            spare_lists: Vec::new(),
        }
    }

    /// The time since the driver was made: monotonic, or that of the simulation.
    #[inline]
    pub fn now(&self) -> Nanos {
        match &self.backend {
            Backend::Simulated(simulation) => simulation.now(),
            Backend::Ring(_) | Backend::Threads(_) => Nanos(self.start.elapsed().as_nanos() as u64),
        }
    }

    /// The time since 1970 by the clock of the machine, which may jump; for people only.
    pub fn unix_time(&self) -> Nanos {
        let since = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        match &self.backend {
            Backend::Simulated(simulation) => simulation.now(),
            Backend::Ring(_) | Backend::Threads(_) => Nanos(since().as_nanos() as u64),
        }
    }

    pub(crate) fn simulation(&self) -> Option<&SimulatedWorld> {
        match &self.backend {
            Backend::Simulated(simulation) => Some(simulation),
            Backend::Ring(_) | Backend::Threads(_) => None,
        }
    }

    pub fn backend(&self) -> BackendKind {
        match self.backend {
            Backend::Ring(_) => BackendKind::Ring,
            Backend::Threads(_) => BackendKind::Threads,
            Backend::Simulated(_) => BackendKind::Simulated,
        }
    }

    /// Becomes the owner of a descriptor. Fails if its mode cannot be set.
    pub fn adopt(&mut self, fd: OwnedFd) -> io::Result<Handle> {
        if let Backend::Threads(_) = self.backend {
            // Operations start when `poll` reports the socket, and must not block. Ignored by
            // files.
            let flags = rustix::fs::fcntl_getfl(&fd)?;
            rustix::fs::fcntl_setfl(&fd, flags | rustix::fs::OFlags::NONBLOCK)?;
        }
        let cached = operation::is_cached(&fd);
        Ok(self.insert(Resource::Fd(Arc::new(fd)), cached))
    }

    /// Becomes the owner of a descriptor of a socket that other processes use as well, such as a
    /// listener that systemd passed. When it is closed, the socket stays as it is. Fails if its
    /// mode cannot be set.
    pub fn adopt_shared(&mut self, fd: OwnedFd) -> io::Result<Handle> {
        let handle = self.adopt(fd)?;
        self.descriptors.get_mut(handle).is_shared = true;
        Ok(handle)
    }

    /// Becomes the owner of a file or socket. Fails if its mode cannot be set.
    pub fn adopt_endpoint(&mut self, endpoint: Endpoint) -> io::Result<Handle> {
        match endpoint {
            Endpoint::Fd(fd) => self.adopt(fd),
            Endpoint::Simulated(endpoint) => Ok(self.insert(Resource::Simulated(endpoint), false)),
        }
    }

    fn insert(&mut self, resource: Resource, cached: bool) -> Handle {
        let (waker, is_shared) = (None, false);
        let descriptor =
            Descriptor { resource, in_flight: 0, closing: false, cached, waker, is_shared };
        let handle = self.descriptors.insert(descriptor);
        if let (Backend::Ring(ring), Resource::Fd(fd)) =
            (&mut self.backend, &self.descriptors.get(handle).resource)
        {
            ring.register(handle, fd);
        }
        handle
    }

    /// The identity of an open file, if the system knows it.
    pub fn file_id(&self, file: Handle) -> Option<FileId> {
        match &self.descriptors.get(file).resource {
            Resource::Fd(fd) => rustix::fs::fstat(fd).ok().map(FileId::of),
            Resource::Simulated(file) => {
                Some(FileId { device: u64::MAX, inode: file.object.number() })
            }
        }
    }

    /// A file, for use outside of the driver; it stays open for that long. `None` if it is
    /// simulated.
    pub(crate) fn share(&self, file: Handle) -> Option<Arc<OwnedFd>> {
        match &self.descriptors.get(file).resource {
            Resource::Fd(fd) => Some(fd.clone()),
            Resource::Simulated(_) => None,
        }
    }

    /// Closes a descriptor when its operations have ended. Operations that wait on a socket end
    /// now.
    pub fn close(&mut self, handle: Handle) {
        let descriptor = self.descriptors.get_mut(handle);
        descriptor.closing = true;
        if descriptor.in_flight == 0 {
            return self.forget(handle);
        }
        self.end_waits(handle);
    }

    /// Reports an event with this token each time the waker is set, until the handle is closed.
    /// Fails if the mode of its descriptor cannot be set.
    pub fn add_waker(&mut self, token: Token, waker: &Waker) -> io::Result<Handle> {
        let handle = self.insert(Resource::Fd(waker.eventfd().clone()), false);
        self.descriptors.get_mut(handle).waker = Some(waker.clone());
        self.start(token, handle, OperationKind::Wake(waker.clone()));
        Ok(handle)
    }

    /// Waits for a connection on a listening socket.
    pub fn accept(&mut self, token: Token, listener: Handle) {
        self.start(token, listener, OperationKind::Accept);
    }

    /// Receives bytes from a socket; zero bytes mean that the peer has closed.
    pub fn receive(&mut self, token: Token, socket: Handle, slice: Slice) {
        self.start(token, socket, OperationKind::Receive(slice));
    }

    /// Waits for the end of a connection, whatever was not received. The output is
    /// [`Output::HungUp`], or zero bytes if the peer has ended its half only.
    pub(crate) fn watch_hangup(&mut self, token: Token, socket: Handle) {
        self.start(token, socket, OperationKind::Hangup);
    }

    /// Sends all bytes of these slices, in order. Panics if there are none, or more than
    /// [`SLICES_MAX`].
    pub fn send(&mut self, token: Token, socket: Handle, slices: &[Slice]) {
        assert!((1..=SLICES_MAX).contains(&slices.len()), "one send takes {SLICES_MAX} slices");
        let mut list = self.spare_lists.pop().unwrap_or_default();
        list.extend_from_slice(slices);
        self.start(token, socket, OperationKind::Send(list));
    }

    pub fn read(&mut self, token: Token, file: Handle, offset: u64, slice: Slice) {
        self.start(token, file, OperationKind::Read { offset, slice });
    }

    pub fn write(&mut self, token: Token, file: Handle, offset: u64, slice: Slice) {
        self.start(token, file, OperationKind::Write { offset, slice });
    }

    /// Makes earlier writes to a file durable.
    pub fn sync(&mut self, token: Token, file: Handle) {
        self.start(token, file, OperationKind::Sync);
    }

    /// Deallocates a range of a file, which then reads as zeroes.
    pub fn discard(&mut self, token: Token, file: Handle, offset: u64, length: u64) {
        self.start(token, file, OperationKind::Discard { offset, length });
    }

    pub fn in_flight(&self) -> usize {
        self.operations.len()
    }

    /// Waits for an operation to end, but at most for `timeout`, and appends the events of all that
    /// ended. May return without events after a partial transfer. New operations are submitted to
    /// the kernel here, or by one of the next few waits if others ended when they were started.
    pub fn wait(&mut self, timeout: Option<Duration>, events: &mut Vec<Event>) -> io::Result<()> {
        let mut ended = std::mem::take(&mut self.ended);
        self.immediate_waits = if ended.is_empty() { 0 } else { self.immediate_waits + 1 };
        if ended.is_empty() || self.immediate_waits > IMMEDIATE_WAITS_MAX {
            let timeout = if ended.is_empty() { timeout } else { Some(Duration::ZERO) };
            self.immediate_waits = 0;
            match &mut self.backend {
                Backend::Ring(ring) => ring.wait(timeout, &mut ended)?,
                Backend::Threads(pool) => pool.wait(timeout, &mut self.buffers, &mut ended)?,
                Backend::Simulated(simulation) => {
                    simulation.wait(timeout, &mut self.buffers, &mut ended)?;
                }
            }
        }
        for (key, result) in ended.drain(..) {
            self.finish(key, result, events);
        }
        self.ended = ended;
        Ok(())
    }

    #[inline]
    fn start(&mut self, token: Token, handle: Handle, kind: OperationKind) {
        let descriptor = self.descriptors.get_mut(handle);
        assert!(!descriptor.closing, "no operation starts on a descriptor that is being closed");
        descriptor.in_flight += 1;
        kind.each_use(&mut self.buffers, Buffers::begin_use);
        let result = self.attempt(handle, &kind);
        let key = self.operations.insert(Operation { token, handle, kind, moved: 0 });
        match result {
            Some(result) => self.ended.push((key, result)),
            None => self.push(key),
        }
    }

    /// Performs an operation, or its first part, if that needs no waiting.
    #[inline]
    fn attempt(&mut self, handle: Handle, kind: &OperationKind) -> Option<Result<usize, Errno>> {
        let descriptor = self.descriptors.get_mut(handle);
        let Resource::Fd(fd) = &descriptor.resource else { return None };
        let result = match kind {
            OperationKind::Send(list) => operation::send_at_once(fd, list, &self.buffers),
            OperationKind::Read { offset, slice } if descriptor.cached => {
                let result = operation::read_cached(fd, *offset, self.buffers.target(*slice));
                return operation::cached_result(result, &mut descriptor.cached);
            }
            _ => return None,
        };
        match result {
            Err(Errno::AGAIN | Errno::INTR) => None,
            result => Some(result),
        }
    }

    #[inline]
    fn push(&mut self, key: OperationKey) {
        let operation = self.operations.get(key);
        let resource = &self.descriptors.get(operation.handle).resource;
        match (&mut self.backend, resource) {
            (Backend::Ring(ring), Resource::Fd(fd)) => {
                ring.push(key, operation.handle, fd, &operation.kind, &mut self.buffers);
            }
            (Backend::Threads(pool), Resource::Fd(fd)) => {
                pool.push(key, fd, &operation.kind, &self.buffers);
            }
            (Backend::Simulated(simulation), Resource::Fd(_)) => {
                simulation.push(key, None, &operation.kind);
            }
            (Backend::Simulated(simulation), Resource::Simulated(endpoint)) => {
                simulation.push(key, Some(endpoint.object), &operation.kind);
            }
            (_, Resource::Simulated(_)) => unreachable!("only a simulation has simulated files"),
        }
    }

    /// Handles the end of an operation, or of a part of it.
    #[inline]
    fn finish(&mut self, key: OperationKey, result: Result<usize, Errno>, events: &mut Vec<Event>) {
        let operation = self.operations.get_mut(key);
        if let Ok(moved) = result
            && moved > 0
            && operation.kind.moves_bytes()
        {
            operation.moved += moved;
            if operation.kind.advance(moved) {
                return self.push(key);
            }
        }
        if let OperationKind::Wake(waker) = &operation.kind
            && !self.descriptors.get(operation.handle).closing
        {
            waker.clear();
            events.push(Event { token: operation.token, result: Ok(Output::Woken) });
            return self.push(key);
        }
        let is_waker = matches!(operation.kind, OperationKind::Wake(_));
        let Operation { token, handle, kind, moved } =
            self.operations.remove(key).expect("an operation ends once");
        kind.each_use(&mut self.buffers, Buffers::end_use);
        let (accepts, watches) =
            (matches!(kind, OperationKind::Accept), matches!(kind, OperationKind::Hangup));
        if let OperationKind::Send(mut list) = kind {
            list.clear();
            self.spare_lists.push(list);
        }
        let descriptor = self.descriptors.get_mut(handle);
        descriptor.in_flight -= 1;
        if descriptor.closing && descriptor.in_flight == 0 {
            self.forget(handle);
        }
        let result = match result {
            Ok(number) if accepts => self.adopt_accepted(number),
            Ok(flags) if watches && operation::is_hangup(flags) => Ok(Output::HungUp),
            Ok(_) => Ok(Output::Bytes(moved)),
            Err(errno) => Err(errno),
        };
        if !is_waker {
            events.push(Event { token, result });
        }
    }

    fn forget(&mut self, handle: Handle) {
        if let Backend::Ring(ring) = &mut self.backend {
            ring.unregister(handle);
        }
        if let Some(Descriptor { resource: resource @ Resource::Simulated(_), .. }) =
            self.descriptors.remove(handle)
        {
            resource.shut_down();
        }
    }

    fn adopt_accepted(&mut self, number: usize) -> Result<Output, Errno> {
        let endpoint = match &self.backend {
            Backend::Simulated(world) => world.endpoint(ObjectId::from_number(number)),
            Backend::Ring(_) | Backend::Threads(_) => Endpoint::Fd(ring::own_accepted(number)),
        };
        let handle = self.adopt_endpoint(endpoint).map_err(|_| Errno::CONNABORTED)?;
        Ok(Output::Connection(handle))
    }
}
