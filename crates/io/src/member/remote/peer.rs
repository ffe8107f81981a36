//! Connecting to a peer: once when a volume is assembled, and again and again when a connection
//! broke.
//!
//! That waits, so it happens in threads of its own; what they bring they hand to the loop, and wake
//! it by a socket. After a failure they wait, twice as long each time.

use super::client::{ClientError, RemoteExport, attach, read};
use super::tls;
use crate::nbd_protocol::uri::{NbdUri, Place};
use mirrorball_core::units::Nanos;
use rustix::net::sockopt;
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// How long a peer may take to accept a connection, and for each of its words of greeting.
const GREETING_MAX: Duration = Duration::from_secs(5);
/// How long a peer may be silent to TCP before its connection counts as broken.
pub const SILENCE_MAX: Duration = Duration::from_secs(10);
/// How long a peer may owe a reply, if its owner does not say: longer than disks that are well
/// take, shorter than people wait.
pub const PATIENCE: Nanos = Nanos::from_secs(30);
/// How long to wait after the first failure to connect.
const BACKOFF_FIRST: Duration = Duration::from_millis(100);
/// How long to wait at most.
const BACKOFF_LONGEST: Duration = Duration::from_secs(10);

/// An export that was attached to, with its connection.
#[derive(Debug)]
pub struct Peer {
    /// Where it is.
    pub uri: NbdUri,
    /// Its connection; requests may follow.
    pub socket: OwnedFd,
    /// What its server told of it.
    pub attached: RemoteExport,
    /// How long it may owe a reply.
    pub patience: Nanos,
}

/// A connection that was made anew.
pub(super) struct NewConnection {
    pub(super) connection: u32,
    pub(super) socket: OwnedFd,
}

/// Makes connections in the background.
pub(super) struct Connector {
    shared: Arc<Shared>,
    /// The loop's end of what its threads bring.
    receiver: Receiver<NewConnection>,
}

struct Shared {
    uri: NbdUri,
    /// What the export must have: another size is another export.
    size_bytes: u64,
    sender: Sender<NewConnection>,
    mouth: UnixStream,
}

impl Peer {
    /// Attaches to an export.
    ///
    /// # Errors
    /// If nobody answers in time, or the export cannot be a member.
    pub fn open(uri: &NbdUri) -> Result<Peer, ClientError> {
        let (mut file, is_tcp) = connect(uri)?;
        if is_tcp {
            watch(&file)?;
        }
        let (socket, attached) = match (&uri.place, &uri.certificates) {
            (Place::Tcp(host, _), Some(folder)) => tls::attach(file, host, &uri.export, folder)?,
            _ => {
                let attached = attach(&mut file, &uri.export)?;
                (OwnedFd::from(file), attached)
            }
        };
        // From here on replies may take as long as disks do.
        for timeout in [sockopt::Timeout::Recv, sockopt::Timeout::Send] {
            sockopt::set_socket_timeout(&socket, timeout, None).map_err(io::Error::from)?;
        }
        Ok(Peer { uri: uri.clone(), socket, attached, patience: PATIENCE })
    }

    /// Reads a range before the loop has the connection.
    ///
    /// # Errors
    /// If the connection breaks, or the server cannot read the range.
    pub fn read(&self, offset: u64, length: u32) -> io::Result<Vec<u8>> {
        read(&mut File::from(self.socket.try_clone()?), offset, length)
    }
}

impl Connector {
    /// A connector, and the socket on which it can be heard.
    pub(super) fn new(uri: NbdUri, size_bytes: u64) -> io::Result<(Connector, OwnedFd)> {
        let (ears, mouth) = UnixStream::pair()?;
        let (sender, receiver) = channel();
        let shared = Arc::new(Shared { uri, size_bytes, sender, mouth });
        Ok((Connector { shared, receiver }, ears.into()))
    }

    /// Sets out to connect this connection, until it is or the connector is dropped.
    pub(super) fn connect(&self, connection: u32) {
        let shared = Arc::downgrade(&self.shared);
        std::thread::spawn(move || keep_connecting(&shared, connection));
    }

    /// The next connection that was made.
    pub(super) fn poll(&self) -> Option<NewConnection> {
        self.receiver.try_recv().ok()
    }
}

fn keep_connecting(shared: &Weak<Shared>, connection: u32) {
    let mut backoff = BACKOFF_FIRST;
    while let Some(shared) = shared.upgrade() {
        if let Ok(peer) = Peer::open(&shared.uri)
            && peer.attached.size_bytes == shared.size_bytes
        {
            // Whoever does not hear it any more has no use for the connection.
            let sent = shared.sender.send(NewConnection { connection, socket: peer.socket });
            let _ = sent.map(|()| (&shared.mouth).write(&[1]));
            return;
        }
        drop(shared);
        std::thread::sleep(backoff);
        backoff = (backoff * 2).min(BACKOFF_LONGEST);
    }
}

/// Connects; whether it is TCP comes with it.
fn connect(uri: &NbdUri) -> io::Result<(File, bool)> {
    let (socket, is_tcp) = match &uri.place {
        Place::Unix(path) => (OwnedFd::from(UnixStream::connect(path)?), false),
        Place::Tcp(host, port) => (connect_tcp(host, *port)?.into(), true),
    };
    for timeout in [sockopt::Timeout::Recv, sockopt::Timeout::Send] {
        sockopt::set_socket_timeout(&socket, timeout, Some(GREETING_MAX))?;
    }
    Ok((socket.into(), is_tcp))
}

fn connect_tcp(host: &str, port: u16) -> io::Result<TcpStream> {
    let mut last = io::Error::new(ErrorKind::NotFound, "the host has no address");
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, GREETING_MAX) {
            Ok(socket) => return Ok(socket),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Has TCP notice a peer whose machine or network is gone.
fn watch(socket: &File) -> io::Result<()> {
    let step = SILENCE_MAX / 5;
    sockopt::set_tcp_nodelay(socket, true)?;
    sockopt::set_socket_keepalive(socket, true)?;
    sockopt::set_tcp_keepidle(socket, step)?;
    sockopt::set_tcp_keepintvl(socket, step)?;
    sockopt::set_tcp_keepcnt(socket, 4)?;
    sockopt::set_tcp_user_timeout(socket, SILENCE_MAX.as_millis() as u32)?;
    Ok(())
}
