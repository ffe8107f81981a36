//! Connections that another thread accepted: those that the TLS acceptor hands over.

use super::server::{ExternalConnections, Server};
use super::tls::acceptor::AcceptedConnections;
use crate::driver::{EventOwner, PeerPlace, Token};
use crate::executor::Executor;
use std::io;

impl Server {
    /// Also serves connections that an acceptor hands over.
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

    /// Serves the connections that were accepted since the last call.
    pub(super) fn on_external_connections(&mut self, executor: &mut Executor) {
        while let Some(external) = &self.external_connections
            && let Ok((socket, address)) = external.receiver.try_recv()
        {
            // Without a free descriptor the connection is closed, as at a listener.
            if let Ok(socket) = executor.driver.adopt(socket.into()) {
                self.on_connection(socket, PeerPlace::machine(address), executor);
            }
        }
    }
}
