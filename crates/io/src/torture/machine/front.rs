//! How a tortured volume is served: by the parts of a service, of which the machine takes the
//! turns, or by a whole service, of which it is the clients and the user.

use super::nbd_client::{ClientReply, NbdClient};
use crate::Volume;
use crate::control::protocol::{ControlRequest, ControlResponse};
use crate::control::{Control, Endpoint, Protocol};
use crate::driver::sim::{ObjectId, SimulatedWorld};
use crate::executor::{Executor, Target};
use crate::export::Export;
use crate::export::nbd::server::{ConnectionsMax, Server};
use crate::rebuild::Rebuild;
use crate::reopen::{OpenMember, Reopener};
use crate::scrub::Scrub;
use crate::service::{Service, ServiceState, Stopper};
use crate::spares::FoundSpare;
use mirrorball_core::units::Nanos;
use mirrorball_store::StoreGate;
use mirrorball_store::label::ScrubProgress;
use std::io;
use std::sync::Arc;

/// Number of NBD clients.
const CLIENTS: usize = 2;

pub(super) enum Front {
    Parts(Box<Parts>),
    Service(Box<ServiceFront>),
}

/// The parts of a service that a volume needs.
pub(super) struct Parts {
    pub(super) executor: Executor,
    pub(super) rebuild: Rebuild,
    pub(super) scrub: Scrub,
}

/// A whole service, its clients and its user.
pub(super) struct ServiceFront {
    simulation: SimulatedWorld,
    service: Service,
    stopper: Stopper,
    /// The listener of the control socket.
    control: ObjectId,
    clients: Vec<NbdClient>,
    commands: Vec<Command>,
    /// What changes when data are copied between members.
    version: (u64, u64),
}

/// A command of the user whose response has not come.
struct Command {
    socket: ObjectId,
    received: Vec<u8>,
    effect: CommandEffect,
}

/// What the success of a command means for the machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum CommandEffect {
    /// Nothing.
    None,
    /// A disk is in the place of a member now.
    Replaced { member: usize, disk: ObjectId },
}

/// A command that ended, and its error.
pub(super) type CommandEnd = (CommandEffect, Result<(), String>);

impl Front {
    pub(super) fn executor(&self) -> &Executor {
        match self {
            Front::Parts(parts) => &parts.executor,
            Front::Service(front) => front.service.executor(),
        }
    }

    pub(super) fn volume(&self) -> Option<&Volume> {
        self.executor().volume()
    }

    pub(super) fn scrub_progress(&self) -> Option<ScrubProgress> {
        let scrub = match self {
            Front::Parts(parts) => &parts.scrub,
            Front::Service(front) => front.service.scrub(),
        };
        scrub.progress().copied()
    }
}

impl Parts {
    pub(super) fn new(mut executor: Executor, opener: Arc<dyn OpenMember>) -> io::Result<Parts> {
        let reopener = Reopener::new(opener, &mut executor.driver)?;
        let rebuild = Rebuild::new(&mut executor).with_reopener(Some(reopener));
        let scrub = Scrub::new(&executor);
        Ok(Parts { executor, rebuild, scrub })
    }
}

impl ServiceFront {
    pub(super) fn new(
        mut executor: Executor,
        (opener, spares): (Arc<dyn OpenMember>, Vec<FoundSpare>),
        simulation: &SimulatedWorld,
        block_bytes: u64,
    ) -> io::Result<ServiceFront> {
        let (nbd, control) = (simulation.add_listener(), simulation.add_listener());
        let mut adopt = |object| executor.driver.adopt_endpoint(simulation.endpoint(object));
        let (nbd_listener, listener) = (adopt(nbd)?, adopt(control)?);
        let export = Export {
            name: "volume".to_owned(),
            description: String::new(),
            target: Target::Volume,
            size_bytes: executor.size_bytes(Target::Volume),
            block_bytes: block_bytes as u32,
            rotational: false,
            is_read_only: false,
        };
        let connections_max = ConnectionsMax(2 * CLIENTS);
        let server = Server::new(vec![export], vec![nbd_listener], connections_max, &mut executor);
        let endpoint = Endpoint { listener, protocol: Protocol::JsonLines };
        let name = "volume".to_owned();
        let user = Control::new(name, Some("first".to_owned()), vec![endpoint], &mut executor);
        let (service, stopper) = Service::new(executor, server, Some(user))?;
        Ok(ServiceFront {
            service: service.with_opener(Some(opener), spares)?,
            stopper,
            control,
            clients: (0..CLIENTS).map(|_| NbdClient::new(simulation, nbd)).collect(),
            commands: Vec::new(),
            version: (0, 0),
            simulation: simulation.clone(),
        })
    }

    /// The client that sends the request with this number.
    pub(super) fn client(&mut self, number: u32) -> &mut NbdClient {
        &mut self.clients[number as usize % CLIENTS]
    }

    /// Sends a command of the user.
    pub(super) fn send_command(&mut self, request: &ControlRequest, effect: CommandEffect) {
        let socket = self.simulation.connect(self.control);
        let line = serde_json::to_string(request).expect("requests have keys that are strings");
        self.simulation.send(socket, format!("{line}\n").as_bytes());
        self.commands.push(Command { socket, received: Vec::new(), effect });
    }

    pub(super) fn has_commands(&self) -> bool {
        !self.commands.is_empty()
    }

    /// One turn of the service.
    pub(super) fn turn(&mut self, timeout: Nanos) -> io::Result<ServiceState> {
        self.service.turn(Some(timeout))
    }

    /// Begins to stop the service.
    pub(super) fn stop(&self) {
        self.stopper.stop();
    }

    /// Returns true if data were copied between members, or a state changed, since the last call.
    pub(super) fn take_copied(&mut self) -> bool {
        let volume = self.service.executor().volume();
        let version = volume.map_or((0, 0), |it| {
            (it.members_version(), it.gate().map_or(0, StoreGate::unsynced_bytes))
        });
        std::mem::replace(&mut self.version, version) != version
    }

    /// The replies to clients that have come.
    pub(super) fn take_replies(&mut self) -> Result<Vec<ClientReply>, String> {
        let replies = self.clients.iter_mut().map(NbdClient::take_replies);
        Ok(replies.collect::<Result<Vec<_>, String>>()?.concat())
    }

    /// The commands that have ended.
    pub(super) fn take_command_ends(&mut self) -> Result<Vec<CommandEnd>, String> {
        let mut ends = Vec::new();
        for mut command in std::mem::take(&mut self.commands) {
            command.received.extend(self.simulation.receive(command.socket));
            if !self.simulation.is_closed(command.socket) {
                self.commands.push(command);
                continue;
            }
            let text = String::from_utf8_lossy(&command.received).into_owned();
            let is_response = text.lines().next().map(serde_json::from_str);
            let result = match is_response {
                Some(Ok(ControlResponse::<serde_json::Value>::Done { .. })) => Ok(()),
                Some(Ok(ControlResponse::Failed(error))) => Err(error.error),
                // Events have no envelope, and there may be none.
                _ if text.is_empty() || text.starts_with("{\"number") => Ok(()),
                _ => return Err(format!("the control socket responds with `{text}`")),
            };
            ends.push((command.effect, result));
        }
        Ok(ends)
    }
}
