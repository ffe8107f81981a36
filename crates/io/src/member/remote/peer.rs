//! Connecting to a remote export: once when a volume is assembled, and again after a connection
//! broke.
//!
//! An attempt may block for seconds, so a `BlockingWorker` makes it. After a failure the member
//! waits before the next attempt, twice as long each time (`Backoff`).

use super::lock::PeerLock;
use crate::blocking_worker::BlockingWorker;
use crate::driver::sim::SimulatedWorld;
use crate::driver::{BlockingStream, Driver, Endpoint, Platform, Token, set_timeouts};
use crate::tls_relay::relay_client;
use mirrorball_core::units::Nanos;
use mirrorball_nbd::client::{
    ClientConnection, ClientError, ClientHandshake, ClientStep, RemoteExport, negotiate,
};
use mirrorball_nbd::tls::ClientTls;
use mirrorball_nbd::uri::{NbdUri, Place};
use mirrorball_nbd::wire::{RawRequest, SIMPLE_REPLY_BYTES, request, transmission_flag};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};
use std::fmt;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Timeout of connecting, and of each message of the handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
/// Time after which TCP reports a peer that does not respond.
pub const SILENCE_MAX: Duration = Duration::from_secs(10);
/// Default time for which a server may owe a reply: longer than healthy disks take.
pub const REPLY_TIMEOUT: Nanos = Nanos::from_secs(30);
/// Delay after the first failure to connect.
const BACKOFF_FIRST: Nanos = Nanos::from_millis(100);
const BACKOFF_LONGEST: Nanos = Nanos::from_secs(10);

/// A connection to a remote export, past the handshake.
#[derive(Debug)]
pub struct Peer {
    /// Connects again to the same address.
    pub connect: Arc<dyn ConnectPeer>,
    pub socket: Endpoint,
    /// The export, as the server describes it.
    pub export: RemoteExport,
    /// How long the server may owe a reply.
    pub timeout: Nanos,
    /// Keeps other services of this machine from the export.
    pub lock: Option<PeerLock>,
}

/// Connects to a remote export. May block, so it runs in a `BlockingWorker`.
pub trait ConnectPeer: fmt::Debug + Send + Sync {
    /// Connects, and negotiates. Fails if the server does not answer in time, or its export cannot
    /// be a member.
    fn connect(&self) -> Result<(Endpoint, RemoteExport), ClientError>;

    /// Locks the export against other services of this machine, where that is possible. Fails if
    /// another service has locked it.
    fn lock(&self) -> Result<Option<PeerLock>, ClientError> {
        Ok(None)
    }
}

/// The result of an attempt to connect.
pub(super) struct NewConnection {
    pub(super) index: u32,
    pub(super) backoff: Backoff,
    /// The socket, or `None` if the attempt failed.
    pub(super) socket: Option<Endpoint>,
}

/// Connects in the background, one attempt at a time.
pub(super) struct Connector {
    worker: BlockingWorker<NewConnection>,
    connect: Arc<dyn ConnectPeer>,
    /// The size that the export must have: another size is another export.
    size_bytes: u64,
}

impl ConnectPeer for NbdUri {
    fn lock(&self) -> Result<Option<PeerLock>, ClientError> {
        PeerLock::take(self).map(Some).map_err(|error| match error {
            Errno::ADDRINUSE => {
                let text = "it is in use by another server on this machine (stop that server)";
                ClientError::System(io::Error::new(ErrorKind::AddrInUse, text))
            }
            error => ClientError::System(error.into()),
        })
    }

    fn connect(&self) -> Result<(Endpoint, RemoteExport), ClientError> {
        let (mut file, is_tcp) = connect(self)?;
        if is_tcp {
            set_keepalive(&file)?;
        }
        let (socket, export) = match (&self.place, &self.certificates) {
            (Place::Tcp(host, _), Some(folder)) => {
                attach_with_tls(file, host, &self.export, folder)?
            }
            _ => {
                let export = attach(&mut file, ClientHandshake::new(&self.export))?;
                (OwnedFd::from(file), export)
            }
        };
        // From here on replies may take as long as disks do.
        set_timeouts(&socket, None)?;
        Ok((Endpoint::Fd(socket), export))
    }
}

/// Connects to a server of a simulated world.
#[derive(Debug)]
struct SimulatedConnector {
    world: SimulatedWorld,
    uri: String,
}

impl ConnectPeer for SimulatedConnector {
    fn connect(&self) -> Result<(Endpoint, RemoteExport), ClientError> {
        Ok(self.world.connect_to(&self.uri)?)
    }
}

pub(crate) fn connector(platform: &Platform, uri: &NbdUri, text: &str) -> Arc<dyn ConnectPeer> {
    match platform {
        Platform::System(_) => Arc::new(uri.clone()),
        Platform::Simulated(world) => {
            Arc::new(SimulatedConnector { world: world.clone(), uri: text.to_owned() })
        }
    }
}

impl Peer {
    /// Connects to an export. Fails if the server does not answer in time, or its export cannot be
    /// a member.
    pub fn open(connect: Arc<dyn ConnectPeer>) -> Result<Peer, ClientError> {
        let lock = connect.lock()?;
        Ok(Peer { lock, ..Peer::open_unlocked(connect)? })
    }

    /// Connects to an export that another service may use, to read from it. Fails if the server
    /// does not answer in time, or its export cannot be a member.
    pub fn open_unlocked(connect: Arc<dyn ConnectPeer>) -> Result<Peer, ClientError> {
        let (socket, export) = connect.connect().map_err(|error| match error {
            ClientError::System(error) if error.kind() == ErrorKind::WouldBlock => {
                let text = format!("it has not answered for {} s", HANDSHAKE_TIMEOUT.as_secs());
                ClientError::System(io::Error::new(ErrorKind::TimedOut, text))
            }
            error => error,
        })?;
        Ok(Peer { connect, socket, export, timeout: REPLY_TIMEOUT, lock: None })
    }

    /// Reads a range, blocking, before the driver owns the connection. Fails if the connection
    /// breaks, or the server cannot read the range.
    pub fn read(&self, offset: u64, length: u32) -> io::Result<Vec<u8>> {
        let raw = RawRequest { flags: 0, kind: request::READ, cookie: 0, offset, length };
        let mut data = vec![0; length as usize];
        self.blocking(|socket| perform(socket, raw, &[], &mut data))?;
        Ok(data)
    }

    /// Makes earlier writes durable, blocking, before the driver owns the connection. Fails if the
    /// connection breaks, or the server cannot flush.
    pub fn flush(&self) -> io::Result<()> {
        self.blocking(|socket| self.flush_socket(socket))
    }

    /// Writes a range and makes it durable, blocking, before the driver owns the connection. Fails
    /// if the connection breaks, or the server cannot write the range.
    pub fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let length = data.len() as u32;
        let raw = RawRequest { flags: 0, kind: request::WRITE, cookie: 0, offset, length };
        self.blocking(|socket| {
            perform(socket, raw, data, &mut [])?;
            self.flush_socket(socket)
        })
    }

    fn flush_socket(&self, socket: &mut BlockingStream) -> io::Result<()> {
        if !self.export.can(transmission_flag::SEND_FLUSH) {
            return Ok(());
        }
        let raw = RawRequest { flags: 0, kind: request::FLUSH, cookie: 0, offset: 0, length: 0 };
        perform(socket, raw, &[], &mut [])
    }

    /// Performs a blocking operation on the connection, which is given up if the server is silent
    /// for longer than it may owe a reply, or sends a malformed one.
    fn blocking<T>(&self, act: impl FnOnce(&mut BlockingStream) -> io::Result<T>) -> io::Result<T> {
        let mut socket = self.socket.stream()?;
        let timeout = Duration::from_nanos(self.timeout.0.max(1_000_000));
        socket.set_timeouts(Some(timeout))?;
        let result = act(&mut socket);
        give_up_after(&result, &socket);
        if result.as_ref().is_err_and(|error| error.kind() == ErrorKind::WouldBlock) {
            let text = format!("the server has not replied for {} (--peer-timeout)", self.timeout);
            return Err(io::Error::new(ErrorKind::TimedOut, text));
        }
        socket.set_timeouts(None)?;
        result
    }
}

/// Performs a request on a connection that has no other: sends `data`, and reads into `read`. An
/// error of the server has the kind `InvalidData`, and the connection can be used further; after
/// another error it cannot.
fn perform(
    stream: &mut (impl Read + Write),
    raw: RawRequest,
    data: &[u8],
    read: &mut [u8],
) -> io::Result<()> {
    let mut connection = ClientConnection::default();
    let (_, raw) = connection.start(raw, ());
    stream.write_all(&raw.bytes())?;
    stream.write_all(data)?;
    let mut header = [0; SIMPLE_REPLY_BYTES];
    stream.read_exact(&mut header)?;
    match connection.receive(&header) {
        Ok((_, Ok(()))) => stream.read_exact(read),
        Ok((_, Err(_))) => {
            let verb = if raw.kind == request::READ { "read" } else { "write" };
            Err(io::Error::new(ErrorKind::InvalidData, format!("the server failed to {verb}")))
        }
        Err(malformed) => Err(io::Error::new(ErrorKind::ConnectionAborted, malformed)),
    }
}

/// Attaches to an export; requests may follow on the stream.
fn attach(
    stream: &mut (impl Read + Write),
    mut handshake: ClientHandshake,
) -> Result<RemoteExport, ClientError> {
    match negotiate(stream, &mut handshake)? {
        ClientStep::Attached(export) => Ok(export),
        ClientStep::More | ClientStep::StartTls => {
            Err(ClientError::NoServer("it started TLS unasked"))
        }
    }
}

/// Attaches to an export of a server that is called `host`, with the certificates of a folder.
/// Requests may follow on the socket that is returned.
pub(crate) fn attach_with_tls(
    mut outer: File,
    host: &str,
    export: &str,
    folder: &Path,
) -> Result<(OwnedFd, RemoteExport), ClientError> {
    let mut tls = ClientTls::load(folder)?.connection(host)?;
    let mut handshake = ClientHandshake::new(export).with_tls();
    negotiate(&mut outer, &mut handshake)?;
    let export = attach(&mut rustls::Stream::new(&mut tls, &mut outer), handshake)?;
    Ok((relay_client(tls, outer.into())?, export))
}

/// Gives up the connection after each error that is no reply of the server: a reply that comes
/// later would be taken for that of the next request.
fn give_up_after<T>(result: &io::Result<T>, socket: &BlockingStream) {
    if result.as_ref().is_err_and(|error| error.kind() != ErrorKind::InvalidData) {
        socket.shut_down();
    }
}

impl Connector {
    /// A connector whose results are followed by an event with this token.
    pub(super) fn new(
        token: Token,
        connect: Arc<dyn ConnectPeer>,
        size_bytes: u64,
        driver: &mut Driver,
    ) -> io::Result<Connector> {
        Ok(Connector { worker: BlockingWorker::new(token, driver)?, connect, size_bytes })
    }

    /// Queues an attempt. Returns false if the system cannot start a thread.
    pub(super) fn connect(&mut self, index: u32, backoff: Backoff) -> bool {
        let (connect, size_bytes) = (Arc::clone(&self.connect), self.size_bytes);
        let attempt = move || {
            let connected = connect.connect().ok();
            let fitting = connected.filter(|(_, export)| export.size_bytes == size_bytes);
            NewConnection { index, backoff, socket: fitting.map(|(socket, _)| socket) }
        };
        self.worker.run(attempt).is_ok()
    }

    pub(super) fn poll(&self) -> Option<NewConnection> {
        self.worker.poll()
    }

    /// Stops; attempts that are running are dropped.
    pub(super) fn close(self, driver: &mut Driver) {
        self.worker.close(driver);
    }
}

/// The delay before the next attempt to connect.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Backoff {
    delay: Nanos,
}

impl Backoff {
    /// The delay after another failure: twice the one before.
    pub(super) fn next(&mut self) -> Nanos {
        self.delay = Nanos(self.delay.0 * 2).clamp(BACKOFF_FIRST, BACKOFF_LONGEST);
        self.delay
    }
}

/// Opens a socket; the bool is true for TCP.
fn connect(uri: &NbdUri) -> io::Result<(File, bool)> {
    let (socket, is_tcp) = match &uri.place {
        Place::Unix(path) => (connect_unix(path, HANDSHAKE_TIMEOUT)?, false),
        Place::Tcp(host, port) => (connect_tcp(host, *port)?.into(), true),
    };
    set_timeouts(&socket, Some(HANDSHAKE_TIMEOUT))?;
    Ok((socket.into(), is_tcp))
}

/// Connects to a Unix socket. A server that accepts no connection is given up after `timeout`.
fn connect_unix(path: &Path, timeout: Duration) -> io::Result<OwnedFd> {
    let address = SocketAddrUnix::new(path)?;
    let (family, kind) = (AddressFamily::UNIX, SocketType::STREAM);
    let socket = rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None)?;
    set_timeouts(&socket, Some(timeout))?;
    rustix::net::connect(&socket, &address)?;
    Ok(socket)
}

fn connect_tcp(host: &str, port: u16) -> io::Result<TcpStream> {
    let mut last = io::Error::new(ErrorKind::NotFound, "the host has no address");
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, HANDSHAKE_TIMEOUT) {
            Ok(socket) => return Ok(socket),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Makes TCP detect a peer whose machine or network is gone.
fn set_keepalive(socket: &File) -> io::Result<()> {
    let step = SILENCE_MAX / 5;
    sockopt::set_tcp_nodelay(socket, true)?;
    sockopt::set_socket_keepalive(socket, true)?;
    sockopt::set_tcp_keepidle(socket, step)?;
    sockopt::set_tcp_keepintvl(socket, step)?;
    sockopt::set_tcp_keepcnt(socket, 4)?;
    sockopt::set_tcp_user_timeout(socket, SILENCE_MAX.as_millis() as u32)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use mirrorball_nbd::wire::simple_reply;
    use std::os::unix::net::{UnixListener, UnixStream};

    #[test]
    fn a_malformed_reply_is_no_error_of_the_medium() {
        let raw = RawRequest { flags: 0, kind: request::READ, cookie: 0, offset: 0, length: 0 };
        let cookie = ClientConnection::default().start(raw, ()).1.cookie;
        for (reply, kind) in [
            (simple_reply(5, cookie), ErrorKind::InvalidData),
            (simple_reply(0, cookie + 7), ErrorKind::ConnectionAborted),
            (simple_reply(5, cookie + 7), ErrorKind::ConnectionAborted),
            ([0x66; 16], ErrorKind::ConnectionAborted),
        ] {
            let (mut ours, mut server) = UnixStream::pair().unwrap();
            server.write_all(&reply).unwrap();
            let result = perform(&mut ours, raw, &[], &mut []);
            assert_eq!(result.unwrap_err().kind(), kind);
        }
    }

    fn peer(socket: UnixStream, timeout: Nanos) -> Peer {
        Peer {
            connect: Arc::new(NbdUri::parse("nbd://host/").unwrap()),
            socket: Endpoint::Fd(socket.into()),
            export: RemoteExport { size_bytes: 4096, flags: u16::MAX, block_bytes: 512 },
            timeout,
            lock: None,
        }
    }

    #[test]
    fn a_server_that_does_not_answer_is_given_up() {
        let acts: [fn(&Peer) -> io::Result<()>; 3] =
            [Peer::flush, |peer| peer.write(0, &[1; 512]), |peer| peer.read(0, 512).map(drop)];
        for act in acts {
            let (ours, _theirs) = UnixStream::pair().unwrap();
            let error = act(&peer(ours, Nanos::from_millis(20))).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::TimedOut);
            assert!(error.to_string().contains("--peer-timeout"), "{error}");
        }
    }

    #[test]
    fn a_server_that_accepts_no_connection_is_given_up() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("peer");
        let listener = UnixListener::bind(&path).unwrap();
        rustix::net::listen(&listener, 1).unwrap();
        // The first connections wait in the backlog.
        let connect = |_| connect_unix(&path, Duration::from_millis(20));
        let connected: Vec<io::Result<OwnedFd>> = (0..4).map(connect).collect();
        assert!(connected[0].is_ok());
        assert_eq!(connected[3].as_ref().unwrap_err().kind(), ErrorKind::WouldBlock);
    }

    #[test]
    fn the_connection_of_a_malformed_reply_is_given_up() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        theirs.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        theirs.write_all(&[0x55; 2 * 16]).unwrap();
        let peer = peer(ours, REPLY_TIMEOUT);
        assert_eq!(peer.flush().unwrap_err().kind(), ErrorKind::ConnectionAborted);
        let mut received = Vec::new();
        theirs.read_to_end(&mut received).expect("the other side closed it");
        assert!(peer.read(0, 512).is_err());
    }
}
