//! Carries bytes between a TLS connection and a plain socket, both ways, until both are done.
//!
//! One thread waits for both sockets. Neither way is read before what was read there is passed on,
//! so a side that does not read holds up its own connection and takes no memory. An end is passed
//! on, too: a side that has closed its direction still gets the replies to its requests.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustls::Connection;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Bytes that are taken at once, each way.
const CHUNK_BYTES: usize = 64 << 10;
/// How long the last bytes may wait for a client that does not take them.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);
/// The memory of a thread that pumps.
pub(crate) const STACK_BYTES: usize = 256 << 10;

/// Both ends, and what is on its way between them.
struct Pump {
    tls: Connection,
    /// The socket of TLS.
    outer: File,
    /// The plain one.
    inner: UnixStream,
    /// Bytes that came out of TLS: those of `received` from `begin` to `end` are not passed on yet.
    received: Vec<u8>,
    begin: usize,
    end: usize,
    sending: Vec<u8>,
    /// True once the other side of TLS sends no more.
    outer_over: bool,
    /// True once our own side sends no more.
    inner_over: bool,
}

/// Pumps until one side is gone, or both are done. Whatever breaks ends both connections, which is
/// all that their owners need to know.
pub(crate) fn pump(tls: Connection, outer: OwnedFd, inner: UnixStream) {
    let (received, sending) = (vec![0; CHUNK_BYTES], vec![0; CHUNK_BYTES]);
    let (begin, end, outer_over, inner_over) = (0, 0, false, false);
    let outer = File::from(outer);
    let mut pump =
        Pump { tls, outer, inner, received, begin, end, sending, outer_over, inner_over };
    let _ = pump.run();
}

impl Pump {
    fn run(&mut self) -> io::Result<()> {
        rustix::io::ioctl_fionbio(&self.outer, true)?;
        rustix::io::ioctl_fionbio(&self.inner, true)?;
        // What is read from our side is bounded here, so none of it need be bounded there.
        self.tls.set_buffer_limit(None);
        loop {
            while self.step()? {}
            if self.inner_over && !self.tls.wants_write() {
                return Ok(());
            }
            self.wait()?;
        }
    }

    /// Moves the bytes that can be moved without waiting. Returns true if there were any.
    fn step(&mut self) -> io::Result<bool> {
        let mut moved = self.pass_inwards();
        while self.tls.wants_write() {
            match unless_blocked(self.tls.write_tls(&mut self.outer))? {
                Some(_) => moved = true,
                None => break,
            }
        }
        if self.can_take_inner() {
            match unless_blocked(self.inner.read(&mut self.sending)) {
                Ok(None) => return Ok(moved | self.take_outer()?),
                Ok(Some(bytes)) if bytes > 0 => {
                    self.tls.writer().write_all(&self.sending[..bytes])?;
                }
                // A side that closes with something unread resets the connection.
                Ok(Some(_)) | Err(_) => {
                    self.inner_over = true;
                    self.tls.send_close_notify();
                }
            }
            moved = true;
        }
        Ok(moved | self.take_outer()?)
    }

    /// Takes bytes of the other side of TLS. Returns true if there were any.
    fn take_outer(&mut self) -> io::Result<bool> {
        if !self.can_take_outer() {
            return Ok(false);
        }
        if unless_blocked(self.tls.read_tls(&mut self.outer))?.is_none() {
            return Ok(false);
        }
        if let Err(error) = self.tls.process_new_packets() {
            // Sends the alert that says why, if the peer still reads.
            let _ = self.tls.write_tls(&mut self.outer);
            return Err(io::Error::new(ErrorKind::InvalidData, error));
        }
        Ok(true)
    }

    /// Passes on bytes that came out of TLS. Returns true if there were any.
    fn pass_inwards(&mut self) -> bool {
        let mut moved = false;
        while !self.outer_over {
            if self.begin == self.end {
                match self.tls.reader().read(&mut self.received) {
                    Ok(bytes) if bytes > 0 => (self.begin, self.end) = (0, bytes),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    // It closed its direction, or was cut off.
                    Ok(_) | Err(_) => self.end_inwards(),
                }
            } else {
                match unless_blocked(self.inner.write(&self.received[self.begin..self.end])) {
                    Ok(Some(bytes)) => self.begin += bytes,
                    Ok(None) => break,
                    // Our side reads no more, but what it sent before is still to be read.
                    Err(_) => self.end_inwards(),
                }
            }
            moved = true;
        }
        moved
    }

    /// Closes the direction to our side.
    fn end_inwards(&mut self) {
        (self.outer_over, self.begin, self.end) = (true, 0, 0);
        // If that fails it is gone, and reading it says so.
        let _ = self.inner.shutdown(Shutdown::Write);
    }

    /// Returns true if bytes from the other side of TLS can be taken.
    fn can_take_outer(&self) -> bool {
        !self.outer_over && self.begin == self.end
    }

    /// Returns true if bytes from our side can be taken.
    fn can_take_inner(&self) -> bool {
        !self.inner_over && !self.tls.wants_write()
    }

    fn wait(&self) -> io::Result<()> {
        let writes = self.tls.wants_write();
        let flag = |wanted, flag| if wanted { flag } else { PollFlags::empty() };
        let outer = flag(self.can_take_outer(), PollFlags::IN) | flag(writes, PollFlags::OUT);
        let inner = flag(self.can_take_inner(), PollFlags::IN)
            | flag(self.begin < self.end, PollFlags::OUT);
        let watched = [PollFd::new(&self.outer, outer), PollFd::new(&self.inner, inner)];
        // A socket of which nothing is wanted would wake us for its end again and again.
        let mut watched: Vec<PollFd<'_>> = watched
            .into_iter()
            .zip([outer, inner])
            .filter(|(_, wanted)| !wanted.is_empty())
            .map(|(watched, _)| watched)
            .collect();
        let timeout = Timespec { tv_sec: CLOSE_TIMEOUT.as_secs() as i64, tv_nsec: 0 };
        match poll(&mut watched, self.inner_over.then_some(&timeout)) {
            Ok(0) => Err(ErrorKind::TimedOut.into()),
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }
}

/// `None` if it would have had to wait.
fn unless_blocked(result: io::Result<usize>) -> io::Result<Option<usize>> {
    match result {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
        Err(error) if error.kind() == ErrorKind::Interrupted => Ok(None),
        Err(error) => Err(error),
    }
}
