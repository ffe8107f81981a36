//! Connections that did not come through a listener of the server: a acceptor let them in.

use super::server::Server;
use super::tls::acceptor::AcceptedConnections;
use crate::driver::{EventOwner, Handle, Token};
use crate::executor::Executor;
use std::io;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::Receiver;

/// Where a server hears of them.
pub(super) struct ExternalConnections {
    receiver: Receiver<UnixStream>,
    pub(super) waker: Handle,
}

impl Server {
    /// Takes these connections, too.
    ///
    /// # Errors
    /// If the process is out of file descriptors.
    pub fn with_accepted(
        mut self,
        accepted: AcceptedConnections,
        executor: &mut Executor,
    ) -> io::Result<Server> {
        let AcceptedConnections { receiver, waker } = accepted;
        let waker = executor.driver.add_waker(Token::new(EventOwner::NbdExternal, 0), &waker)?;
        self.external_connections = Some(ExternalConnections { receiver, waker });
        Ok(self)
    }

    /// Takes the connections that were accepted since the last call.
    pub(super) fn on_external_connections(&mut self, executor: &mut Executor) {
        while let Some(door) = &self.external_connections
            && let Ok(socket) = door.receiver.try_recv()
        {
            // Without a descriptor to spare it is hung up on, as at any other door.
            if let Ok(socket) = executor.driver.adopt(socket.into()) {
                self.on_connection(socket, executor);
            }
        }
    }
}
