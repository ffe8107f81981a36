//! Files and sockets before a driver owns them, and what its descriptors stand for.

use super::memory::HEAD_BYTES;
use super::memory::Memory;
use super::sim::{ObjectId, SimulatedWorld};
use rustix::fs::{Stat, stat};
use rustix::io::Errno;
use rustix::net::Shutdown;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

/// Kind of backend.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BackendKind {
    /// io_uring.
    Ring,
    /// Threads and `poll`.
    Threads,
    /// A simulation, for tests.
    Simulated,
}

impl fmt::Display for BackendKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BackendKind::Ring => "io_uring",
            BackendKind::Threads => "threads (preadv and pwritev)",
            BackendKind::Simulated => "a simulation",
        })
    }
}

/// A file or socket that no driver owns yet.
#[derive(Debug)]
pub enum Endpoint {
    /// One of the kernel.
    Fd(OwnedFd),
    /// One of a `SimulatedWorld`.
    Simulated(ObjectId),
}

impl Endpoint {
    /// Another descriptor of the same file or socket.
    ///
    /// # Errors
    /// If the process is out of file descriptors, or the endpoint is simulated.
    pub(crate) fn try_clone_fd(&self) -> io::Result<OwnedFd> {
        match self {
            Endpoint::Fd(fd) => fd.try_clone(),
            Endpoint::Simulated(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }
}

/// Identity of a file, whatever its path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileId {
    /// The filesystem that it is on.
    pub device: u64,
    /// Its number there.
    pub inode: u64,
}

/// What a descriptor stands for.
pub(super) enum Resource {
    /// A descriptor of the kernel, shared with the threads that work on it.
    Fd(Arc<OwnedFd>),
    /// A simulated file or socket.
    Simulated(ObjectId),
}

impl Resource {
    /// Ends what waits on a socket. A file is no socket, and its operations end by themselves.
    pub(super) fn shut_down(&self, simulation: Option<&SimulatedWorld>) {
        match (self, simulation) {
            (Resource::Fd(fd), _) => drop(rustix::net::shutdown(fd.as_fd(), Shutdown::Both)),
            (Resource::Simulated(object), Some(simulation)) => {
                simulation.shut_down(*object);
            }
            (Resource::Simulated(_), _) => {}
        }
    }
}

impl FileId {
    /// The identity of the file at `path`; `None` if there is none.
    pub fn at(path: &Path) -> Option<FileId> {
        stat(path).ok().map(FileId::of)
    }

    pub(super) fn of(stat: Stat) -> FileId {
        FileId { device: stat.st_dev, inode: stat.st_ino }
    }
}

/// Writes to a file from memory aligned to a page, outside of any driver, and makes it durable.
///
/// # Errors
/// As `pwrite` and `fdatasync`; `NOSPC` if not all bytes are written.
pub(crate) fn write_aligned(fd: impl AsFd, offset: u64, bytes: &[u8]) -> Result<(), Errno> {
    let mut memory = Memory::new(bytes.len());
    memory.slice_mut(HEAD_BYTES, bytes.len()).copy_from_slice(bytes);
    let written = rustix::io::pwrite(&fd, memory.slice(HEAD_BYTES, bytes.len()), offset)?;
    if written < bytes.len() {
        return Err(Errno::NOSPC);
    }
    rustix::fs::fdatasync(fd)
}

/// Reads from a file into memory aligned to a page, outside of any driver; returns what there was.
///
/// # Errors
/// As `pread`.
pub(crate) fn read_aligned(fd: impl AsFd, offset: u64, bytes: usize) -> Result<Vec<u8>, Errno> {
    let mut memory = Memory::new(bytes);
    let length = rustix::io::pread(fd, memory.slice_mut(HEAD_BYTES, bytes), offset)?;
    Ok(memory.slice(HEAD_BYTES, length).to_vec())
}
