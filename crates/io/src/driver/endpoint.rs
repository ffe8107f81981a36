//! Files and sockets before a driver owns them, and what its descriptors stand for.

use super::memory::HEAD_BYTES;
use super::memory::Memory;
use super::sim::SimulatedEndpoint;
use rustix::fs::{SeekFrom, Stat, fdatasync, seek, stat};
use rustix::io::Errno;
use rustix::net::{Shutdown, sockopt};
use std::fmt;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BackendKind {
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
    Fd(OwnedFd),
    /// One of a `SimulatedWorld`.
    Simulated(SimulatedEndpoint),
}

/// A connected socket for blocking use.
#[derive(Debug)]
pub(crate) enum BlockingStream {
    Fd(File),
    /// One of a `SimulatedWorld`.
    Simulated(SimulatedEndpoint),
}

impl Endpoint {
    /// Another descriptor of the same file or socket. Fails if the process is out of file
    /// descriptors, or the endpoint is simulated.
    pub fn try_clone_fd(&self) -> io::Result<OwnedFd> {
        match self {
            Endpoint::Fd(fd) => fd.try_clone(),
            Endpoint::Simulated(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// The same socket for blocking use.
    pub(crate) fn stream(&self) -> io::Result<BlockingStream> {
        match self {
            Endpoint::Fd(fd) => Ok(BlockingStream::Fd(fd.try_clone()?.into())),
            Endpoint::Simulated(socket) => Ok(BlockingStream::Simulated(socket.clone())),
        }
    }

    /// Reads a range of a file up to its end, blocking.
    pub(crate) fn read(&self, offset: u64, length: usize) -> Result<Vec<u8>, Errno> {
        match self {
            Endpoint::Fd(fd) => read_aligned(fd, offset, length),
            Endpoint::Simulated(file) => file.read_at(offset, length),
        }
    }

    /// Writes a range of a file and makes it durable, blocking.
    pub(crate) fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), Errno> {
        match self {
            Endpoint::Fd(fd) => write_aligned(fd, offset, bytes),
            Endpoint::Simulated(file) => {
                file.write_at(offset, bytes)?;
                file.sync()
            }
        }
    }

    /// Makes earlier writes to a file durable, blocking.
    pub(crate) fn flush(&self) -> Result<(), Errno> {
        match self {
            Endpoint::Fd(fd) => fdatasync(fd),
            Endpoint::Simulated(file) => file.sync(),
        }
    }

    /// Returns true if a file has no data at all.
    pub(crate) fn is_hole(&self) -> bool {
        match self {
            Endpoint::Fd(fd) => matches!(seek(fd, SeekFrom::Data(0)), Err(Errno::NXIO)),
            Endpoint::Simulated(file) => file.is_hole(),
        }
    }
}

/// Identity of a file, whatever its path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileId {
    pub device: u64,
    pub inode: u64,
}

pub(super) enum Resource {
    /// A descriptor of the kernel, shared with the threads that work on it.
    Fd(Arc<OwnedFd>),
    Simulated(SimulatedEndpoint),
}

impl Resource {
    /// Ends what waits on a socket. A file is no socket, and its operations end by themselves.
    pub(super) fn shut_down(&self) {
        match self {
            Resource::Fd(fd) => drop(rustix::net::shutdown(fd.as_fd(), Shutdown::Both)),
            Resource::Simulated(endpoint) => endpoint.shut_down(),
        }
    }
}

impl BlockingStream {
    /// Bounds the time of each operation. In a simulation none takes time.
    pub(crate) fn set_timeouts(&self, timeout: Option<Duration>) -> io::Result<()> {
        match self {
            BlockingStream::Fd(socket) => set_timeouts(socket, timeout),
            BlockingStream::Simulated(_) => Ok(()),
        }
    }

    pub(crate) fn shut_down(&self) {
        match self {
            BlockingStream::Fd(socket) => drop(rustix::net::shutdown(socket, Shutdown::Both)),
            BlockingStream::Simulated(socket) => socket.shut_down(),
        }
    }
}

impl Read for BlockingStream {
    fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
        match self {
            BlockingStream::Fd(socket) => socket.read(target),
            BlockingStream::Simulated(socket) => socket.read(target),
        }
    }
}

impl Write for BlockingStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            BlockingStream::Fd(socket) => socket.write(bytes),
            BlockingStream::Simulated(socket) => socket.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Bounds the time of sends and receives of a socket.
pub(crate) fn set_timeouts(socket: impl AsFd, timeout: Option<Duration>) -> io::Result<()> {
    for direction in [sockopt::Timeout::Recv, sockopt::Timeout::Send] {
        sockopt::set_socket_timeout(&socket, direction, timeout)?;
    }
    Ok(())
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
pub(crate) fn read_aligned(fd: impl AsFd, offset: u64, bytes: usize) -> Result<Vec<u8>, Errno> {
    let mut memory = Memory::new(bytes);
    let length = rustix::io::pread(fd, memory.slice_mut(HEAD_BYTES, bytes), offset)?;
    Ok(memory.slice(HEAD_BYTES, length).to_vec())
}
