//! TLS relay: a thread for each TLS connection, between its socket and a plain socket pair.
//!
//! The NBD server and remote members work with plain sockets. The cipher runs in these threads, so
//! that it does not delay other connections.

use mirrorball_nbd::tls::{Bridge, Wanted};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustls::{ClientConnection, Connection};
use std::fs::File;
use std::io::{self, ErrorKind};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::thread::Builder;
use std::time::Duration;

/// Time that the last bytes may wait for a peer that does not receive them.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);
const STACK_BYTES: usize = 256 << 10;

/// The configuration of a relay's thread.
pub(crate) fn thread() -> Builder {
    Builder::new().name("tls".to_owned()).stack_size(STACK_BYTES)
}

/// Starts to relay a connection to a server; returns the plain socket.
pub(crate) fn relay_client(tls: ClientConnection, outer: OwnedFd) -> io::Result<OwnedFd> {
    let (ours, theirs) = UnixStream::pair()?;
    thread().spawn(move || relay(Connection::Client(tls), outer, theirs))?;
    Ok(ours.into())
}

/// Relays until one side has closed the connection, or both are done. An error closes both sockets.
pub(crate) fn relay(tls: Connection, outer: OwnedFd, inner: UnixStream) {
    let _ = try_relay(Bridge::new(tls), File::from(outer), inner);
}

fn try_relay(mut bridge: Bridge, mut outer: File, mut inner: UnixStream) -> io::Result<()> {
    rustix::io::ioctl_fionbio(&outer, true)?;
    rustix::io::ioctl_fionbio(&inner, true)?;
    let mut is_shut = false;
    loop {
        while bridge.step(&mut outer, &mut inner)? {}
        if bridge.outer_is_over() && !is_shut {
            is_shut = true;
            // An error means that the plain side has closed; reading it reports that.
            let _ = inner.shutdown(Shutdown::Write);
        }
        if bridge.is_over() {
            return Ok(());
        }
        wait(&bridge, &outer, &inner)?;
    }
}

fn wait(bridge: &Bridge, outer: &File, inner: &UnixStream) -> io::Result<()> {
    let flags = bridge.wanted().map(|Wanted { readable, writable }| {
        let flag = |wanted, flag| if wanted { flag } else { PollFlags::empty() };
        flag(readable, PollFlags::IN) | flag(writable, PollFlags::OUT)
    });
    let polled = [PollFd::new(outer, flags[0]), PollFd::new(inner, flags[1])];
    // The end of a socket without flags would be reported again and again.
    let polled = polled.into_iter().zip(flags).filter(|(_, flags)| !flags.is_empty());
    let mut polled: Vec<PollFd<'_>> = polled.map(|(polled, _)| polled).collect();
    let timeout = Timespec { tv_sec: CLOSE_TIMEOUT.as_secs() as i64, tv_nsec: 0 };
    match poll(&mut polled, bridge.inner_is_over().then_some(&timeout)) {
        Ok(0) => Err(ErrorKind::TimedOut.into()),
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}
