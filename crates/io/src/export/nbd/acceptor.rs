//! Accepts TLS connections for the NBD server.
//!
//! A thread for each listener accepts connections. A thread for each connection performs the
//! handshake, and then copies bytes between TLS and a plain socket. The number of unfinished
//! handshakes is limited: above it, the oldest is closed, so that silent connections do not block
//! other clients. The server limits the number of connections after the handshake.

use crate::driver::Waker;
use crate::tls_relay;
use mirrorball_nbd::handshake::{ClientFlags, await_tls, greeting};
use mirrorball_nbd::tls::ServerTls;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{Shutdown, shutdown, sockopt};
use rustls::{Connection, ServerConnection};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// Limit of connections that have not shown a certificate.
const PENDING_HANDSHAKES_MAX: usize = 64;
/// How long a client may be silent during the handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Delay after a failed `accept()`.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Accepts TLS connections; see the module documentation.
#[derive(Debug)]
pub struct Acceptor {
    shared: Arc<Shared>,
}

/// Connections that passed the handshake, as plain sockets.
#[derive(Debug)]
pub struct AcceptedConnections {
    /// The connections, and the addresses of their clients.
    pub(super) receiver: Receiver<(UnixStream, IpAddr)>,
    /// Woken after each.
    pub(super) waker: Waker,
}

#[derive(Debug)]
struct Shared {
    tls: ServerTls,
    sender: Sender<(UnixStream, IpAddr)>,
    waker: Waker,
    pending_handshakes: Mutex<PendingHandshakes>,
    connections: AtomicUsize,
    /// Set when no more connections are to be accepted. Nothing clears it, so it ends all waits.
    stopping: Waker,
}

/// Connections that have not shown a certificate, oldest first.
#[derive(Debug, Default)]
struct PendingHandshakes {
    next: u64,
    sockets: BTreeMap<u64, TcpStream>,
}

impl Acceptor {
    /// Accepts connections of these listeners, for [`super::server::Server::with_accepted`]. Fails
    /// if the system has no socket or thread to spare.
    pub fn new(
        tls: ServerTls,
        listeners: Vec<TcpListener>,
    ) -> io::Result<(Acceptor, AcceptedConnections)> {
        let waker = Waker::new()?;
        let (sender, receiver) = channel();
        let shared = Arc::new(Shared {
            tls,
            sender,
            waker: waker.clone(),
            pending_handshakes: Mutex::default(),
            connections: AtomicUsize::new(0),
            stopping: Waker::new()?,
        });
        for listener in listeners {
            // Another process may take the connection that `poll` reported.
            listener.set_nonblocking(true)?;
            let shared = Arc::clone(&shared);
            std::thread::Builder::new().spawn(move || accept_connections(&listener, &shared))?;
        }
        Ok((Acceptor { shared }, AcceptedConnections { receiver, waker }))
    }

    /// Accepts no more connections, and waits up to `timeout` until clients have received the last
    /// replies. Called after the server has stopped.
    pub fn close(self, timeout: Duration) {
        self.shared.stopping.wake();
        for socket in self.shared.pending_handshakes().sockets.values() {
            let _ = shutdown(socket, Shutdown::Both);
        }
        let deadline = Instant::now() + timeout;
        while self.shared.connections.load(Ordering::Acquire) > 0 && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Shared {
    fn pending_handshakes(&self) -> MutexGuard<'_, PendingHandshakes> {
        self.pending_handshakes.lock().expect("no thread panics while it holds the lock")
    }
}

fn accept_connections(listener: &TcpListener, shared: &Arc<Shared>) {
    while wait_for_client(listener, shared) {
        match listener.accept().and_then(|(socket, _)| start_handshake(socket, shared)) {
            // The process is probably out of descriptors or threads.
            Err(error) if error.kind() != ErrorKind::WouldBlock => std::thread::sleep(ACCEPT_PAUSE),
            _ => {}
        }
    }
}

/// Waits until a client connects; returns false if no more are to be accepted. The listener is not
/// shut down to end the wait: it may be one that systemd keeps for the next service.
fn wait_for_client(listener: &TcpListener, shared: &Shared) -> bool {
    let stopping = shared.stopping.eventfd();
    let mut polled =
        [listener.as_fd(), stopping.as_fd()].map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
    let _ = poll(&mut polled, None);
    !shared.stopping.is_set()
}

fn start_handshake(socket: TcpStream, shared: &Arc<Shared>) -> io::Result<()> {
    let mut pending_handshakes = shared.pending_handshakes();
    let number = pending_handshakes.next;
    pending_handshakes.next += 1;
    pending_handshakes.sockets.insert(number, socket.try_clone()?);
    if pending_handshakes.sockets.len() > PENDING_HANDSHAKES_MAX
        && let Some((_, oldest)) = pending_handshakes.sockets.pop_first()
    {
        let _ = shutdown(oldest, Shutdown::Both);
    }
    drop(pending_handshakes);
    shared.connections.fetch_add(1, Ordering::Relaxed);
    let theirs = Arc::clone(shared);
    let spawned = tls_relay::thread().spawn(move || {
        let accepted = perform_handshake(socket, &theirs);
        theirs.pending_handshakes().sockets.remove(&number);
        if let Ok((tls, socket, flags)) = accepted {
            let _ = serve(tls, socket, flags, &theirs);
        }
        theirs.connections.fetch_sub(1, Ordering::Release);
    });
    if spawned.is_err() {
        shared.pending_handshakes().sockets.remove(&number);
        shared.connections.fetch_sub(1, Ordering::Release);
    }
    spawned.map(drop)
}

/// Negotiates TLS and checks the client's certificate.
fn perform_handshake(
    mut socket: TcpStream,
    shared: &Shared,
) -> io::Result<(ServerConnection, TcpStream, ClientFlags)> {
    socket.set_read_timeout(Some(HANDSHAKE_TIMEOUT))?;
    socket.set_write_timeout(Some(HANDSHAKE_TIMEOUT))?;
    socket.set_nodelay(true)?;
    sockopt::set_socket_keepalive(&socket, true)?;
    let flags = await_tls(&mut socket)?;
    let mut tls = shared.tls.connection()?;
    while tls.is_handshaking() {
        tls.complete_io(&mut socket)?;
    }
    Ok((tls, socket, flags))
}

/// Hands a connection to the server, and copies its bytes until it ends.
fn serve(
    tls: ServerConnection,
    socket: TcpStream,
    flags: ClientFlags,
    shared: &Shared,
) -> io::Result<()> {
    let (ours, mut theirs) = UnixStream::pair()?;
    let gone = |_| io::Error::from(ErrorKind::BrokenPipe);
    let address = socket.peer_addr()?.ip();
    shared.sender.send((ours, address)).map_err(gone)?;
    shared.waker.wake();
    // The server sends its greeting, which this thread has already exchanged with the client.
    theirs.set_read_timeout(Some(HANDSHAKE_TIMEOUT))?;
    theirs.read_exact(&mut greeting())?;
    theirs.write_all(&flags)?;
    tls_relay::relay(Connection::Server(tls), socket.into(), theirs);
    Ok(())
}
