//! Opening files and connecting to servers of a simulated world, and blocking I/O on them: what a
//! program does outside of its driver, for example with the labels of members.
//!
//! No time passes meanwhile. A file that is gone or hangs returns an error; other faults are those
//! of a driver's operations.

use super::{FileFault, ObjectId, SimulatedWorld};
use crate::driver::Endpoint;
use mirrorball_core::units::Nanos;
use mirrorball_nbd::client::RemoteExport;
use rustix::io::Errno;
use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::path::Path;
use std::sync::Arc;

/// A server on another machine.
pub trait SimulatedServer: fmt::Debug + Send + Sync {
    /// Accepts a connection, of which this is the server's socket; `None` if it refuses.
    fn accept(&self, socket: ObjectId) -> Option<RemoteExport>;

    /// Handles the bytes that arrived on its sockets.
    fn act(&self, world: &SimulatedWorld);
}

/// A file or socket of a world. A file that was opened by its path is locked until it is dropped.
#[derive(Clone, Debug)]
pub struct SimulatedEndpoint {
    world: SimulatedWorld,
    pub(in crate::driver) object: ObjectId,
    lock: Option<Arc<()>>,
}

impl SimulatedWorld {
    /// Gives a file a path, in place of the file that had it.
    pub fn set_path(&self, path: impl AsRef<Path>, file: ObjectId) {
        self.world().paths.insert(path.as_ref().to_owned(), file);
    }

    pub fn add_server(&self, uri: &str, server: Arc<dyn SimulatedServer>) {
        self.world().servers.insert(uri.to_owned(), server);
    }

    /// Has the servers handle what arrived.
    pub fn act_servers(&self) {
        let servers: Vec<_> = self.world().servers.values().cloned().collect();
        servers.iter().for_each(|server| server.act(self));
    }

    /// Lets time pass.
    pub(crate) fn sleep(&self, time: Nanos) {
        self.world().now += time;
    }

    pub(crate) fn random_bytes<const N: usize>(&self) -> [u8; N] {
        let rng = &mut self.world().rng;
        std::array::from_fn(|_| rng.below(256) as u8)
    }

    /// Opens the file at a path without a lock.
    pub(crate) fn open_unlocked(&self, path: &Path) -> Result<Endpoint, Errno> {
        let mut world = self.world();
        let &object = world.paths.get(path).ok_or(Errno::NOENT)?;
        match world.file(object).fault {
            FileFault::Fails(errno) => Err(errno),
            _ => Ok(Endpoint::Simulated(SimulatedEndpoint::new(self, object))),
        }
    }

    /// Opens the file at a path, and locks it; returns its size, too.
    pub(crate) fn open(&self, path: &Path) -> Result<(Endpoint, u64), Errno> {
        let Endpoint::Simulated(mut endpoint) = self.open_unlocked(path)? else {
            unreachable!("a simulated world has no other files")
        };
        let mut world = self.world();
        let file = world.file(endpoint.object);
        if file.lock.strong_count() > 0 {
            return Err(Errno::AGAIN);
        }
        let lock = Arc::new(());
        file.lock = Arc::downgrade(&lock);
        endpoint.lock = Some(lock);
        Ok((Endpoint::Simulated(endpoint), file.end()))
    }

    pub(crate) fn connect_to(&self, uri: &str) -> io::Result<(Endpoint, RemoteExport)> {
        let server = self.world().servers.get(uri).cloned();
        let (inside, outside) = self.socket_pair();
        match server.and_then(|server| server.accept(outside)) {
            Some(export) => Ok((self.endpoint(inside), export)),
            None => Err(ErrorKind::ConnectionRefused.into()),
        }
    }
}

impl SimulatedEndpoint {
    pub(super) fn new(world: &SimulatedWorld, object: ObjectId) -> SimulatedEndpoint {
        SimulatedEndpoint { world: world.clone(), object, lock: None }
    }

    /// Reads a range of a file up to its end.
    pub(crate) fn read_at(&self, offset: u64, length: usize) -> Result<Vec<u8>, Errno> {
        self.check()?;
        Ok(self.world.read_file(self.object, offset, length))
    }

    pub(crate) fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), Errno> {
        self.check()?;
        let mut world = self.world.world();
        if world.file(self.object).fault == FileFault::FailsWrites {
            return Err(Errno::IO);
        }
        if let Some(left) = &mut world.writes_left {
            *left = left.checked_sub(1).ok_or(Errno::NODEV)?;
        }
        world.file(self.object).write(offset, bytes);
        Ok(())
    }

    /// Makes earlier writes to a file durable.
    pub(crate) fn sync(&self) -> Result<(), Errno> {
        self.check()?;
        self.world.sync_file(self.object);
        Ok(())
    }

    fn check(&self) -> Result<(), Errno> {
        match self.world.fault(self.object) {
            FileFault::Fails(errno) => Err(errno),
            FileFault::Hangs => Err(Errno::TIMEDOUT),
            _ => Ok(()),
        }
    }

    /// Returns true if nothing was ever written to a file.
    pub(crate) fn is_hole(&self) -> bool {
        self.world.world().file(self.object).is_hole()
    }

    pub(crate) fn shut_down(&self) {
        self.world.shut_down(self.object);
    }
}

impl Read for SimulatedEndpoint {
    /// Receives from a socket, whose server acts meanwhile.
    fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
        for _ in 0..2 {
            let mut world = self.world.world();
            let socket = world.socket(self.object);
            let length = target.len().min(socket.inbox.len());
            socket.take(&mut target[..length]);
            let peer = socket.peer;
            if length > 0 || socket.is_closed || world.socket(peer).is_closed {
                return Ok(length);
            }
            drop(world);
            self.world.act_servers();
        }
        Err(ErrorKind::WouldBlock.into())
    }
}

impl Write for SimulatedEndpoint {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.world.send(self.object, bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::SimOptions;
    use super::*;

    #[test]
    fn a_file_is_locked_while_it_is_open_and_read_by_its_path() {
        let world = SimulatedWorld::new(SimOptions::default());
        let path = Path::new("/dev/disk");
        assert_eq!(world.open(path).unwrap_err(), Errno::NOENT);
        world.set_path(path, world.add_file(1 << 20));
        let (file, size_bytes) = world.open(path).unwrap();
        assert!(file.is_hole() && size_bytes == 1 << 20);
        assert_eq!(world.open(path).unwrap_err(), Errno::AGAIN);
        file.write(4096, &[7; 512]).unwrap();
        let unlocked = world.open_unlocked(path).unwrap();
        assert_eq!(unlocked.read(4096, 512).unwrap(), [7; 512]);
        drop(file);
        assert!(!world.open(path).unwrap().0.is_hole());
    }
}
