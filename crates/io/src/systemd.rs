//! Interface of systemd with a service that it starts: listening sockets, and a socket on which to
//! report that it is ready. Protocols: `sd_listen_fds(3)` and `sd_notify(3)`.
//!
//! Others start servers in the same way, libnbd for example.

use crate::address::{BoundSocket, ListenAddress};
use listenfd::ListenFd;
use rustix::net::sockopt::socket_acceptconn;
use std::env;
use std::io;
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::path::PathBuf;

/// Most sockets that are taken. More than the addresses that a service has is a mistake.
const SOCKETS_MAX: usize = 64;

/// Why a socket that was passed cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PassedSocketError {
    /// There are more than can be taken.
    #[error(
        "{0} sockets were passed in LISTEN_FDS, but at most {SOCKETS_MAX} are taken\n  help: give \
         the service fewer ListenStream= lines"
    )]
    TooMany(usize),
    /// It has no address of an export.
    #[error(
        "socket {number} of those passed in LISTEN_FDS is no Unix or TCP socket with an address\n  \
         help: use ListenStream= with a path or a port in the socket unit"
    )]
    OtherKind {
        /// The number, from 1.
        number: usize,
    },
    /// It is a connection.
    #[error(
        "socket {number} of those passed in LISTEN_FDS does not listen\n  help: set Accept=no in \
         the socket unit"
    )]
    NotListening {
        /// The number, from 1.
        number: usize,
    },
}

/// The number of sockets that were passed to this process; `None` if it was started otherwise.
pub fn passed_count() -> Option<usize> {
    let number = |name| env::var(name).ok().and_then(|text| text.parse::<u32>().ok());
    let is_meant = number("LISTEN_PID") == Some(std::process::id());
    number("LISTEN_FDS").filter(|&count| is_meant && count > 0).map(|count| count as usize)
}

/// Returns the sockets that were passed to this process; none if it was started otherwise. They can
/// be taken once. Fails if one of them is not a socket that listens at an address of an export.
pub fn passed_sockets() -> Result<Vec<BoundSocket>, PassedSocketError> {
    match passed_count() {
        None => return Ok(Vec::new()),
        Some(count) if count > SOCKETS_MAX => return Err(PassedSocketError::TooMany(count)),
        Some(_) => {}
    }
    let mut sockets = ListenFd::from_env();
    (0..sockets.len()).map(|index| passed_socket(&mut sockets, index)).collect()
}

fn passed_socket(sockets: &mut ListenFd, index: usize) -> Result<BoundSocket, PassedSocketError> {
    let number = index + 1;
    let found = take_unix(sockets, index).or_else(|| take_tcp(sockets, index));
    let (address, socket) = found.ok_or(PassedSocketError::OtherKind { number })?;
    match socket_acceptconn(&socket) {
        Ok(true) => Ok(BoundSocket { socket, address, note: None, file: None }),
        _ => Err(PassedSocketError::NotListening { number }),
    }
}

fn take_unix(sockets: &mut ListenFd, index: usize) -> Option<(ListenAddress, OwnedFd)> {
    let listener = sockets.take_unix_listener(index).ok()??;
    Some((unix_address(&listener)?, listener.into()))
}

fn take_tcp(sockets: &mut ListenFd, index: usize) -> Option<(ListenAddress, OwnedFd)> {
    let listener = sockets.take_tcp_listener(index).ok()??;
    Some((ListenAddress::Tcp(listener.local_addr().ok()?), listener.into()))
}

/// The path of a Unix socket, with `@` for the zero byte of an abstract one.
fn unix_address(listener: &UnixListener) -> Option<ListenAddress> {
    let address = listener.local_addr().ok()?;
    let name = |name: &[u8]| PathBuf::from(std::ffi::OsString::from_vec([b"@", name].concat()));
    let path = address.as_pathname().map(PathBuf::from);
    path.or_else(|| address.as_abstract_name().map(name)).map(ListenAddress::Unix)
}

/// Reports to systemd that clients can connect; does nothing if it did not ask. Fails if systemd
/// cannot be reached.
pub fn notify_ready() -> io::Result<()> {
    let Some(path) = env::var_os("NOTIFY_SOCKET") else { return Ok(()) };
    let address = match path.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(&path)?,
    };
    UnixDatagram::unbound()?.send_to_addr(b"READY=1", &address).map(|_| ())
}
