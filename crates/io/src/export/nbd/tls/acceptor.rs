//! The door of a server for clients behind TLS.
//!
//! A thread for each listener takes connections, and a thread for each connection asks who it is
//! and then pumps. Clients that have not shown a certificate are few: when there are too many, the
//! one that came first goes, so that silent connections keep nobody out. Those with a certificate
//! are the server's to count.

use super::prelude::{Flags, await_tls};
use crate::driver::Waker;
use crate::export::nbd::handshake::greeting;
use crate::tls::{ServerTls, pump};
use rustix::net::{Shutdown, shutdown, sockopt};
use rustls::{Connection, ServerConnection};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// How many clients may be at the door without having shown a certificate.
const PENDING_HANDSHAKES_MAX: usize = 64;
/// How long a stranger may be silent.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long to wait when there are no descriptors for another connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// See the page of this module.
#[derive(Debug)]
pub struct Acceptor {
    shared: Arc<Shared>,
    listeners: Vec<TcpListener>,
}

/// Whom a acceptor let in, as plain connections.
#[derive(Debug)]
pub struct AcceptedConnections {
    /// The connections.
    pub(in crate::export::nbd) receiver: Receiver<UnixStream>,
    /// Set after each.
    pub(in crate::export::nbd) waker: Waker,
}

#[derive(Debug)]
struct Shared {
    tls: ServerTls,
    sender: Sender<UnixStream>,
    waker: Waker,
    pending_handshakes: Mutex<PendingHandshakes>,
    /// Threads that have a connection.
    connections: AtomicUsize,
    stopping: AtomicBool,
}

/// Connections that have shown no certificate, in the order in which they came.
#[derive(Debug, Default)]
struct PendingHandshakes {
    next: u64,
    sockets: BTreeMap<u64, TcpStream>,
}

impl Acceptor {
    /// Opens the door on these listeners. What is let in is for
    /// [`crate::export::nbd::server::Server::with_accepted`].
    ///
    /// # Errors
    /// If the system has no socket or thread to spare.
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
            stopping: AtomicBool::new(false),
        });
        for listener in &listeners {
            let (listener, shared) = (listener.try_clone()?, Arc::clone(&shared));
            std::thread::Builder::new().spawn(move || accept_connections(&listener, &shared))?;
        }
        Ok((Acceptor { shared, listeners }, AcceptedConnections { receiver, waker }))
    }

    /// Lets nobody in any more, and waits until whoever is in has what the server said to them, but
    /// at most for `patience`. The server ends first.
    pub fn close(self, patience: Duration) {
        self.shared.stopping.store(true, Ordering::Relaxed);
        for listener in &self.listeners {
            let _ = shutdown(listener, Shutdown::Both);
        }
        for socket in self.shared.pending_handshakes().sockets.values() {
            let _ = shutdown(socket, Shutdown::Both);
        }
        let deadline = Instant::now() + patience;
        while self.shared.connections.load(Ordering::Acquire) > 0 && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Shared {
    fn pending_handshakes(&self) -> MutexGuard<'_, PendingHandshakes> {
        self.pending_handshakes.lock().expect("nobody panics while holding it")
    }
}

fn accept_connections(listener: &TcpListener, shared: &Arc<Shared>) {
    while !shared.stopping.load(Ordering::Relaxed) {
        if listener.accept().and_then(|(socket, _)| start_handshake(socket, shared)).is_err() {
            // Out of descriptors or threads, most likely.
            std::thread::sleep(ACCEPT_PAUSE);
        }
    }
}

/// Sets out to ask a stranger who it is.
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
    let thread = std::thread::Builder::new().name("tls".to_owned()).stack_size(pump::STACK_BYTES);
    shared.connections.fetch_add(1, Ordering::Relaxed);
    let theirs = Arc::clone(shared);
    let spawned = thread.spawn(move || {
        let let_in = perform_handshake(socket, &theirs);
        theirs.pending_handshakes().sockets.remove(&number);
        if let Ok((tls, socket, flags)) = let_in {
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

/// Has a stranger show its certificate.
fn perform_handshake(
    mut socket: TcpStream,
    shared: &Shared,
) -> io::Result<(ServerConnection, TcpStream, Flags)> {
    socket.set_read_timeout(Some(HANDSHAKE_TIMEOUT))?;
    socket.set_write_timeout(Some(HANDSHAKE_TIMEOUT))?;
    socket.set_nodelay(true)?;
    sockopt::set_socket_keepalive(&socket, true)?;
    let flags = await_tls(&mut socket)?;
    let ServerTls(config) = &shared.tls;
    let tls = ServerConnection::new(Arc::clone(config));
    let mut tls = tls.map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
    while tls.is_handshaking() {
        tls.complete_io(&mut socket)?;
    }
    Ok((tls, socket, flags))
}

/// Hands a client over to the server, and carries its bytes from then on.
fn serve(
    tls: ServerConnection,
    socket: TcpStream,
    flags: Flags,
    shared: &Shared,
) -> io::Result<()> {
    let (ours, mut theirs) = UnixStream::pair()?;
    let gone = |_| io::Error::from(ErrorKind::BrokenPipe);
    shared.sender.send(ours).map_err(gone)?;
    shared.waker.wake();
    // The server greets as ever; that and the client's answer are behind us already.
    theirs.set_read_timeout(Some(HANDSHAKE_TIMEOUT))?;
    theirs.read_exact(&mut greeting())?;
    theirs.write_all(&flags)?;
    pump::pump(Connection::Server(tls), socket.into(), theirs);
    Ok(())
}
