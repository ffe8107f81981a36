//! The door of a server for clients behind TLS.
//!
//! A thread for each listener takes connections, and a thread for each connection asks who it is
//! and then pumps. Clients that have not shown a certificate are few: when there are too many, the
//! one that came first goes, so that silent connections keep nobody out. Those with a certificate
//! are the server's to count.

use super::prelude::{Flags, await_tls};
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
const STRANGERS_MAX: usize = 64;
/// How long a stranger may be silent.
const SILENCE_MAX: Duration = Duration::from_secs(10);
/// How long to wait when there are no descriptors for another connection.
const REST: Duration = Duration::from_millis(50);

/// See the page of this module.
#[derive(Debug)]
pub struct Porter {
    shared: Arc<Shared>,
    listeners: Vec<TcpListener>,
}

/// Whom a porter let in, as plain connections.
#[derive(Debug)]
pub struct Arrivals {
    /// The connections.
    pub(in crate::export::nbd) receiver: Receiver<UnixStream>,
    /// A byte comes here with each.
    pub(in crate::export::nbd) bell: UnixStream,
}

#[derive(Debug)]
struct Shared {
    tls: ServerTls,
    sender: Sender<UnixStream>,
    mouth: UnixStream,
    strangers: Mutex<Strangers>,
    /// Threads that have a connection.
    connections: AtomicUsize,
    stopping: AtomicBool,
}

/// Connections that have shown no certificate, in the order in which they came.
#[derive(Debug, Default)]
struct Strangers {
    next: u64,
    sockets: BTreeMap<u64, TcpStream>,
}

impl Porter {
    /// Opens the door on these listeners. What is let in is for
    /// [`crate::export::nbd::server::Server::with_arrivals`].
    ///
    /// # Errors
    /// If the system has no socket or thread to spare.
    pub fn new(tls: ServerTls, listeners: Vec<TcpListener>) -> io::Result<(Porter, Arrivals)> {
        let (bell, mouth) = UnixStream::pair()?;
        let (sender, receiver) = channel();
        let shared = Arc::new(Shared {
            tls,
            sender,
            mouth,
            strangers: Mutex::default(),
            connections: AtomicUsize::new(0),
            stopping: AtomicBool::new(false),
        });
        for listener in &listeners {
            let (listener, shared) = (listener.try_clone()?, Arc::clone(&shared));
            std::thread::Builder::new().spawn(move || take_connections(&listener, &shared))?;
        }
        Ok((Porter { shared, listeners }, Arrivals { receiver, bell }))
    }

    /// Lets nobody in any more, and waits until whoever is in has what the server said to them, but
    /// at most for `patience`. The server ends first.
    pub fn close(self, patience: Duration) {
        self.shared.stopping.store(true, Ordering::Relaxed);
        for listener in &self.listeners {
            let _ = shutdown(listener, Shutdown::Both);
        }
        for socket in self.shared.strangers().sockets.values() {
            let _ = shutdown(socket, Shutdown::Both);
        }
        let deadline = Instant::now() + patience;
        while self.shared.connections.load(Ordering::Acquire) > 0 && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Shared {
    fn strangers(&self) -> MutexGuard<'_, Strangers> {
        self.strangers.lock().expect("nobody panics while holding it")
    }
}

fn take_connections(listener: &TcpListener, shared: &Arc<Shared>) {
    while !shared.stopping.load(Ordering::Relaxed) {
        if listener.accept().and_then(|(socket, _)| welcome(socket, shared)).is_err() {
            // Out of descriptors or threads, most likely.
            std::thread::sleep(REST);
        }
    }
}

/// Sets out to ask a stranger who it is.
fn welcome(socket: TcpStream, shared: &Arc<Shared>) -> io::Result<()> {
    let mut strangers = shared.strangers();
    let number = strangers.next;
    strangers.next += 1;
    strangers.sockets.insert(number, socket.try_clone()?);
    if strangers.sockets.len() > STRANGERS_MAX
        && let Some((_, oldest)) = strangers.sockets.pop_first()
    {
        let _ = shutdown(oldest, Shutdown::Both);
    }
    drop(strangers);
    let thread = std::thread::Builder::new().name("tls".to_owned()).stack_size(pump::STACK_BYTES);
    shared.connections.fetch_add(1, Ordering::Relaxed);
    let theirs = Arc::clone(shared);
    let spawned = thread.spawn(move || {
        let let_in = introduce(socket, &theirs);
        theirs.strangers().sockets.remove(&number);
        if let Ok((tls, socket, flags)) = let_in {
            let _ = serve(tls, socket, flags, &theirs);
        }
        theirs.connections.fetch_sub(1, Ordering::Release);
    });
    if spawned.is_err() {
        shared.strangers().sockets.remove(&number);
        shared.connections.fetch_sub(1, Ordering::Release);
    }
    spawned.map(drop)
}

/// Has a stranger show its certificate.
fn introduce(
    mut socket: TcpStream,
    shared: &Shared,
) -> io::Result<(ServerConnection, TcpStream, Flags)> {
    socket.set_read_timeout(Some(SILENCE_MAX))?;
    socket.set_write_timeout(Some(SILENCE_MAX))?;
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
    (&shared.mouth).write_all(&[1])?;
    // The server greets as ever; that and the client's answer are behind us already.
    theirs.set_read_timeout(Some(SILENCE_MAX))?;
    theirs.read_exact(&mut greeting())?;
    theirs.write_all(&flags)?;
    pump::pump(Connection::Server(tls), socket.into(), theirs);
    Ok(())
}
