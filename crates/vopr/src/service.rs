//! A service as its clients and its user reach it: by NBD and by the control socket.

use crate::nbd_client::{ClientReply, NbdClient};
use mirrorball_core::units::Nanos;
use mirrorball_io::Volume;
use mirrorball_io::assemble::Assembly;
use mirrorball_io::control::protocol::{ControlRequest, ControlResponse};
use mirrorball_io::control::{Control, Endpoint, Protocol};
use mirrorball_io::driver::sim::{ObjectId, SimulatedWorld};
use mirrorball_io::export::nbd::server::{ConnectionsMax, Server};
use mirrorball_io::service::{Service, ServiceState, Stopper};
use mirrorball_io::spares::SpareUse;
use mirrorball_store::StoreGate;
use mirrorball_store::label::LabelledSpare;
use std::io;

pub(crate) const CLIENTS: usize = 2;

/// See the page of this module.
pub(crate) struct ServedVolume {
    world: SimulatedWorld,
    pub(crate) service: Service,
    stopper: Stopper,
    nbd: ObjectId,
    control: ObjectId,
    clients: Vec<NbdClient>,
    commands: Vec<Command>,
    /// Changes when data are copied between members.
    version: (u64, u64),
}

/// A command of the user whose response has not come.
struct Command {
    socket: ObjectId,
    received: Vec<u8>,
    disk: Option<ObjectId>,
}

/// A command that has ended: the disk that was to take the place of a member, and the error.
type CommandEnd = (Option<ObjectId>, Result<(), String>);

impl ServedVolume {
    pub(crate) fn new(assembly: Assembly, world: &SimulatedWorld) -> io::Result<ServedVolume> {
        let Assembly { mut executor, exports, opener, spares, name, policy, .. } = assembly;
        let (nbd, control) = (world.add_listener(), world.add_listener());
        let nbd_listener = executor.driver.adopt_endpoint(world.endpoint(nbd))?;
        let listener = executor.driver.adopt_endpoint(world.endpoint(control))?;
        let connections_max = ConnectionsMax(4 * CLIENTS);
        let server = Server::new(exports, vec![nbd_listener], connections_max, &mut executor);
        let endpoint = Endpoint { listener, protocol: Protocol::JsonLines };
        let user = Control::new(name, policy, vec![endpoint], &mut executor);
        let (service, stopper) = Service::new(executor, server, Some(user))?;
        Ok(ServedVolume {
            service: service.with_opener(opener, spares)?,
            stopper,
            nbd,
            control,
            clients: (0..CLIENTS).map(|_| NbdClient::new(world, nbd)).collect(),
            commands: Vec::new(),
            version: (0, 0),
            world: world.clone(),
        })
    }

    pub(crate) fn volume(&self) -> &Volume {
        self.service.executor().volume().expect("a volume is served")
    }

    pub(crate) fn store(&self) -> &StoreGate {
        self.volume().gate().expect("its members have labels")
    }

    /// Returns true if a member that works is copied to another disk, or is about to be.
    pub(crate) fn is_copying(&self) -> bool {
        let is_awaited = |spare: &LabelledSpare| {
            let found = self.service.spares().find(spare.uuid);
            spare.replaces.is_some()
                && found.is_some_and(|(_, used)| !matches!(used, SpareUse::Failed(_)))
        };
        let mut copies = self.service.rebuild().copies().iter();
        copies.any(|copy| copy.error.is_none()) || self.store().spares().iter().any(is_awaited)
    }

    /// The client that sends the request with this number.
    pub(crate) fn client(&mut self, number: u32) -> &mut NbdClient {
        &mut self.clients[number as usize % CLIENTS]
    }

    /// Has a client break its connection and make another.
    pub(crate) fn reconnect(&mut self, number: u32) {
        let new = NbdClient::new(&self.world, self.nbd);
        std::mem::replace(self.client(number), new).disconnect();
    }

    /// Sends a command; `disk` is to take the place of a member.
    pub(crate) fn send_command(&mut self, request: &ControlRequest, disk: Option<ObjectId>) {
        let socket = self.world.connect(self.control);
        let line = serde_json::to_string(request).expect("requests have keys that are strings");
        self.world.send(socket, format!("{line}\n").as_bytes());
        self.commands.push(Command { socket, received: Vec::new(), disk });
    }

    pub(crate) fn has_commands(&self) -> bool {
        !self.commands.is_empty()
    }

    pub(crate) fn turn(&mut self, timeout: Nanos) -> io::Result<ServiceState> {
        self.world.act_servers();
        self.service.turn(Some(timeout))
    }

    pub(crate) fn stop(&self) {
        self.stopper.stop();
    }

    /// Returns true if data were copied between members, or a state changed, since the last call.
    pub(crate) fn take_copied(&mut self) -> bool {
        let version = (self.volume().states().version(), self.store().unsynced_bytes());
        std::mem::replace(&mut self.version, version) != version
    }

    pub(crate) fn take_replies(&mut self) -> Result<Vec<ClientReply>, String> {
        let replies = self.clients.iter_mut().map(NbdClient::take_replies);
        Ok(replies.collect::<Result<Vec<_>, String>>()?.concat())
    }

    /// The commands that have ended, each with its error.
    pub(crate) fn take_command_ends(&mut self) -> Result<Vec<CommandEnd>, String> {
        let mut ends = Vec::new();
        for mut command in std::mem::take(&mut self.commands) {
            command.received.extend(self.world.receive(command.socket));
            if !self.world.is_closed(command.socket) {
                self.commands.push(command);
                continue;
            }
            let text = String::from_utf8_lossy(&command.received).into_owned();
            let result = match text.lines().next().map(serde_json::from_str) {
                Some(Ok(ControlResponse::<serde_json::Value>::Done { .. })) => Ok(()),
                Some(Ok(ControlResponse::Failed(error))) => Err(error.error),
                // Events have no envelope, and there may be none.
                _ if text.is_empty() || text.starts_with("{\"number") => Ok(()),
                _ => return Err(format!("the control socket responds with `{text}`")),
            };
            ends.push((command.disk, result));
        }
        Ok(ends)
    }
}
