//! The machine of a remote member: an NBD server over a disk of the world.

use mirrorball_core::geometry::RESERVED_BYTES;
use mirrorball_io::driver::sim::{FileFault, ObjectId, SimulatedServer, SimulatedWorld};
use mirrorball_nbd::client::RemoteExport;
use mirrorball_nbd::wire::{
    REQUEST_BYTES, RawRequest, SIMPLE_REPLY_BYTES, WireError, request, simple_reply,
    transmission_flag,
};
use std::sync::{Mutex, MutexGuard, PoisonError};

#[derive(Debug)]
pub(crate) struct MemberServer {
    file: ObjectId,
    size_bytes: u64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// True if it refuses connections.
    is_gone: bool,
    /// Connections, with what arrived on them.
    sockets: Vec<(ObjectId, Vec<u8>)>,
    reads: u64,
}

impl MemberServer {
    pub(crate) fn new(file: ObjectId, size_bytes: u64) -> MemberServer {
        MemberServer { file, size_bytes, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Breaks one connection, and loses nothing.
    pub(crate) fn disconnect(&self, world: &SimulatedWorld) {
        if let Some((socket, _)) = self.state().sockets.pop() {
            world.close(socket);
        }
    }

    pub(crate) fn shut_down(&self, world: &SimulatedWorld) {
        self.state().sockets.drain(..).for_each(|(socket, _)| world.close(socket));
    }

    /// Accepts connections or refuses them.
    pub(crate) fn set_gone(&self, is_gone: bool) {
        self.state().is_gone = is_gone;
    }

    /// Performs the first request in the input and adds the reply; returns the length of the
    /// request, or `None` if there is no whole one.
    fn perform(
        &self,
        world: &SimulatedWorld,
        state: &mut State,
        (input, replies): (&[u8], &mut Vec<u8>),
    ) -> Option<usize> {
        let raw = RawRequest::parse(input.first_chunk::<REQUEST_BYTES>()?)?;
        let data_bytes = if raw.kind == request::WRITE { raw.length as usize } else { 0 };
        let data = input.get(REQUEST_BYTES..REQUEST_BYTES + data_bytes)?;
        let mut error = 0;
        let begin = replies.len();
        replies.extend(simple_reply(0, raw.cookie));
        match raw.kind {
            request::READ => {
                state.reads += 1;
                // A member whose labels cannot be read does not start.
                if raw.offset >= RESERVED_BYTES
                    && let FileFault::FailsReads(every) = world.fault(self.file)
                    && state.reads.is_multiple_of(every)
                {
                    error = WireError::Io as u32;
                } else if world.has_lost(self.file, raw.offset, raw.length as usize) {
                    error = WireError::Io as u32;
                } else {
                    replies.extend(world.read_file(self.file, raw.offset, raw.length as usize));
                }
            }
            request::WRITE if world.fault(self.file) == FileFault::FailsWrites => {
                error = WireError::Io as u32;
            }
            request::WRITE => world.write_unsynced(self.file, raw.offset, data),
            request::FLUSH => world.sync_file(self.file),
            request::TRIM => world.discard(self.file, raw.offset, raw.length.into()),
            kind => panic!("members send no requests of kind {kind}"),
        }
        replies[begin..][..SIMPLE_REPLY_BYTES].copy_from_slice(&simple_reply(error, raw.cookie));
        Some(REQUEST_BYTES + data_bytes)
    }
}

impl SimulatedServer for MemberServer {
    fn accept(&self, socket: ObjectId) -> Option<RemoteExport> {
        use transmission_flag::{CAN_MULTI_CONN, HAS_FLAGS, SEND_FLUSH, SEND_TRIM};
        let mut state = self.state();
        if state.is_gone {
            return None;
        }
        state.sockets.push((socket, Vec::new()));
        Some(RemoteExport {
            size_bytes: self.size_bytes,
            flags: HAS_FLAGS | SEND_FLUSH | SEND_TRIM | CAN_MULTI_CONN,
            block_bytes: 512,
        })
    }

    fn act(&self, world: &SimulatedWorld) {
        if world.fault(self.file) == FileFault::Hangs {
            return;
        }
        let state = &mut *self.state();
        let mut sockets = std::mem::take(&mut state.sockets);
        for (socket, input) in &mut sockets {
            input.extend(world.receive(*socket));
            let (mut done, mut replies) = (0, Vec::new());
            while let Some(length) = self.perform(world, state, (&input[done..], &mut replies)) {
                done += length;
            }
            input.drain(..done);
            if !replies.is_empty() {
                world.send(*socket, &replies);
            }
        }
        sockets.retain(|(socket, _)| !world.is_closed(*socket));
        state.sockets = sockets;
    }
}
