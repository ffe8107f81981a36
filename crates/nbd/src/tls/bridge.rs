//! Moves bytes between a TLS connection and a plain stream, both ways, until both are done.
//!
//! Both streams are non-blocking. Neither direction is read before the bytes that were read there
//! are passed on, so a side that does not read delays its own connection and takes no memory. An
//! end is passed on, too: a side that has closed its direction still gets the replies to its
//! requests.

use rustls::Connection;
use std::io::{self, ErrorKind, Read, Write};

/// Limit of the bytes that are moved at once, each way.
const CHUNK_BYTES: usize = 64 << 10;

/// A TLS connection, and the bytes on their way between its socket and a plain stream.
pub struct Bridge {
    tls: Connection,
    /// Bytes out of TLS: those of `received` from `begin` to `end` are not passed on yet.
    received: Vec<u8>,
    begin: usize,
    end: usize,
    sending: Vec<u8>,
    /// True once the peer of TLS sends no more.
    outer_is_over: bool,
    /// True once the plain side sends no more.
    inner_is_over: bool,
}

/// The readiness for which a bridge waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wanted {
    /// The stream has bytes to read.
    pub readable: bool,
    /// The stream accepts bytes.
    pub writable: bool,
}

impl Bridge {
    /// A bridge of a TLS connection past its handshake.
    pub fn new(mut tls: Connection) -> Bridge {
        // Bytes of the plain side are bounded by `sending`.
        tls.set_buffer_limit(None);
        Bridge {
            tls,
            received: vec![0; CHUNK_BYTES],
            begin: 0,
            end: 0,
            sending: vec![0; CHUNK_BYTES],
            outer_is_over: false,
            inner_is_over: false,
        }
    }

    /// Moves the bytes that can be moved without waiting: `outer` is the socket of TLS, `inner` the
    /// plain stream. Returns true if there were any. Fails if the connection is broken, or the peer
    /// violates the protocol of TLS.
    pub fn step(
        &mut self,
        outer: &mut (impl Read + Write),
        inner: &mut (impl Read + Write),
    ) -> io::Result<bool> {
        let mut moved = self.pass_inwards(inner);
        while self.tls.wants_write() {
            match unless_blocked(self.tls.write_tls(outer))? {
                Some(_) => moved = true,
                None => break,
            }
        }
        if self.accepts_inner() {
            match unless_blocked(inner.read(&mut self.sending)) {
                Ok(None) => return Ok(moved | self.receive_outer(outer)?),
                Ok(Some(bytes)) if bytes > 0 => {
                    self.tls.writer().write_all(&self.sending[..bytes])?;
                }
                // A side that closes with unread bytes resets the connection.
                Ok(Some(_)) | Err(_) => {
                    self.inner_is_over = true;
                    self.tls.send_close_notify();
                }
            }
            moved = true;
        }
        Ok(moved | self.receive_outer(outer)?)
    }

    /// True when no more bytes will be moved.
    pub fn is_over(&self) -> bool {
        self.inner_is_over && !self.tls.wants_write()
    }

    /// True once the peer of TLS sends no more. The caller then shuts down writing to `inner`.
    pub fn outer_is_over(&self) -> bool {
        self.outer_is_over
    }

    /// True once the plain side sends no more.
    pub fn inner_is_over(&self) -> bool {
        self.inner_is_over
    }

    /// The readiness of the outer and the inner stream after which a step moves bytes.
    pub fn wanted(&self) -> [Wanted; 2] {
        let outer = Wanted { readable: self.accepts_outer(), writable: self.tls.wants_write() };
        let inner = Wanted { readable: self.accepts_inner(), writable: self.begin < self.end };
        [outer, inner]
    }

    /// Receives bytes of the peer of TLS. Returns true if there were any.
    fn receive_outer(&mut self, outer: &mut (impl Read + Write)) -> io::Result<bool> {
        if !self.accepts_outer() || unless_blocked(self.tls.read_tls(outer))?.is_none() {
            return Ok(false);
        }
        if let Err(error) = self.tls.process_new_packets() {
            // Sends the alert with the reason, if the peer still reads.
            let _ = self.tls.write_tls(outer);
            return Err(io::Error::new(ErrorKind::InvalidData, error));
        }
        Ok(true)
    }

    /// Passes on bytes that came out of TLS. Returns true if there were any.
    fn pass_inwards(&mut self, inner: &mut impl Write) -> bool {
        let mut moved = false;
        while !self.outer_is_over {
            if self.begin == self.end {
                match self.tls.reader().read(&mut self.received) {
                    Ok(bytes) if bytes > 0 => (self.begin, self.end) = (0, bytes),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    // It closed its direction, or was cut off.
                    Ok(_) | Err(_) => self.end_inwards(),
                }
            } else {
                match unless_blocked(inner.write(&self.received[self.begin..self.end])) {
                    Ok(Some(bytes)) => self.begin += bytes,
                    Ok(None) => break,
                    // The plain side reads no more, but the bytes it sent before are still sent.
                    Err(_) => self.end_inwards(),
                }
            }
            moved = true;
        }
        moved
    }

    fn end_inwards(&mut self) {
        (self.outer_is_over, self.begin, self.end) = (true, 0, 0);
    }

    /// True if bytes of the peer of TLS can be received.
    fn accepts_outer(&self) -> bool {
        !self.outer_is_over && self.begin == self.end
    }

    /// True if bytes of the plain side can be read.
    fn accepts_inner(&self) -> bool {
        !self.inner_is_over && !self.tls.wants_write()
    }
}

/// `None` if it would have had to wait.
fn unless_blocked(result: io::Result<usize>) -> io::Result<Option<usize>> {
    match result {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}
