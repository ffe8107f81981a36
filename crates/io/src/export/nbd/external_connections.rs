//! Connections that did not come through a listener of the server: a acceptor let them in.

use super::server::Server;
use super::tls::acceptor::AcceptedConnections;
use crate::driver::buffers::{BufferKey, Slice};
use crate::driver::{Handle, Token};
use crate::executor::Executor;
use std::io;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::Receiver;

/// The owner of the token of the bell.
pub(super) const BELL: u8 = 10;

/// Where a server hears of them.
pub(super) struct ExternalConnections {
    receiver: Receiver<UnixStream>,
    pub(super) bell: Handle,
    buffer: BufferKey,
}

impl Server {
    /// Takes these connections, too.
    ///
    /// # Errors
    /// If the driver cannot listen to the bell.
    pub fn with_accepted(
        mut self,
        accepted: AcceptedConnections,
        executor: &mut Executor,
    ) -> io::Result<Server> {
        let AcceptedConnections { receiver, bell } = accepted;
        let bell = executor.driver.adopt(bell.into())?;
        let buffer = executor.driver.buffers.acquire(1);
        self.external_connections = Some(ExternalConnections { receiver, bell, buffer });
        self.listen(executor);
        Ok(self)
    }

    /// The bell rang.
    pub(super) fn on_bell(&mut self, executor: &mut Executor) {
        while let Some(door) = &self.external_connections
            && let Ok(socket) = door.receiver.try_recv()
        {
            // Without a descriptor to spare it is hung up on, as at any other door.
            if let Ok(socket) = executor.driver.adopt(socket.into()) {
                self.on_connection(socket, executor);
            }
        }
        if !self.is_stopping() {
            self.listen(executor);
        }
    }

    fn listen(&self, executor: &mut Executor) {
        let Some(ExternalConnections { bell, buffer, .. }) = &self.external_connections else {
            return;
        };
        executor.driver.receive(Token::new(BELL, 0), *bell, Slice::data(*buffer, 0, 1));
    }
}
