//! Effects of simulated operations when they are due.

use super::{FileFault, Object, ObjectId, SOCKET_BYTES, SimOperation, World};
use crate::driver::buffers::Buffers;
use crate::driver::operation::OperationKind;
use rustix::event::PollFlags;
use rustix::io::Errno;

impl World {
    /// Ends an operation, or a part of it; `None` if it has to wait for its object.
    pub(super) fn attempt(
        &mut self,
        operation: &SimOperation,
        buffers: &mut Buffers,
    ) -> Option<Result<usize, Errno>> {
        let id = operation.object;
        let is_partial = self.one_in(self.options.partial_every);
        match &self.objects[id.0 as usize] {
            Object::File(_) => self.attempt_file(operation, is_partial, buffers),
            Object::Socket(_) => self.attempt_socket(id, &operation.kind, is_partial, buffers),
            Object::Listener { .. } => {
                let object = &mut self.objects[id.0 as usize];
                let Object::Listener { backlog, is_closed } = object else { return None };
                match backlog.pop_front() {
                    _ if *is_closed => Some(Err(Errno::CANCELED)),
                    Some(socket) => Some(Ok(socket.0 as usize)),
                    None => None,
                }
            }
        }
    }

    fn attempt_file(
        &mut self,
        operation: &SimOperation,
        is_partial: bool,
        buffers: &mut Buffers,
    ) -> Option<Result<usize, Errno>> {
        let SimOperation { object: id, ref kind, changes, .. } = *operation;
        let is_read = matches!(kind, OperationKind::Read { .. });
        let is_write = matches!(kind, OperationKind::Write { .. });
        let fault = self.file(id).fault;
        match fault {
            FileFault::Hangs => return None,
            FileFault::Fails(errno) => return Some(Err(errno)),
            FileFault::FailsReads(n) if is_read && self.one_in(n) => return Some(Err(Errno::IO)),
            FileFault::FailsWrites if is_write => return Some(Err(Errno::IO)),
            FileFault::RefusesDiscards if matches!(kind, OperationKind::Discard { .. }) => {
                return Some(Err(Errno::OPNOTSUPP));
            }
            FileFault::Ends(end) if is_behind(kind, end) => return Some(Err(Errno::NOSPC)),
            FileFault::FailsNextSync if matches!(kind, OperationKind::Sync) => {
                if let Object::File(file) = &mut self.objects[id.0 as usize] {
                    file.fault = FileFault::None;
                    file.fail_sync(&mut self.rng);
                }
                return Some(Err(Errno::IO));
            }
            FileFault::FailsNextWrite(from, to) => {
                if let OperationKind::Write { offset, slice } = kind
                    && (from..to).contains(offset)
                {
                    self.file(id).fail_write(*offset, buffers.bytes(*slice));
                    return Some(Err(Errno::IO));
                }
            }
            FileFault::Ends(_)
            | FileFault::FailsNextSync
            | FileFault::FailsReads(_)
            | FileFault::FailsWrites
            | FileFault::RefusesDiscards
            | FileFault::SyncsNothing
            | FileFault::None => {}
        }
        let file = self.file(id);
        Some(match kind {
            OperationKind::Read { offset, slice } => {
                let target = buffers.target(*slice);
                let length = part(target.len(), is_partial);
                if file.has_lost(*offset, length) {
                    return Some(Err(Errno::IO));
                }
                Ok(file.read(*offset, &mut target[..length]))
            }
            OperationKind::Write { offset, slice } => {
                let source = buffers.bytes(*slice);
                let length = part(source.len(), is_partial);
                file.write(*offset, &source[..length]);
                Ok(length)
            }
            OperationKind::Sync => {
                file.sync(changes);
                Ok(0)
            }
            OperationKind::Discard { offset, length } => {
                file.discard(*offset, *length);
                Ok(0)
            }
            _ => Err(Errno::OPNOTSUPP),
        })
    }

    fn attempt_socket(
        &mut self,
        id: ObjectId,
        kind: &OperationKind,
        is_partial: bool,
        buffers: &mut Buffers,
    ) -> Option<Result<usize, Errno>> {
        let peer = self.socket(id).peer;
        let peer_is_closed = self.socket(peer).is_closed;
        let part = |length: usize| if is_partial { length.div_ceil(2) } else { length };
        match kind {
            OperationKind::Receive(slice) => {
                let socket = self.socket(id);
                if socket.is_closed {
                    return Some(Ok(0));
                }
                if socket.inbox.is_empty() {
                    return peer_is_closed.then_some(Ok(0));
                }
                let target = buffers.target(*slice);
                let length = part(target.len().min(socket.inbox.len()));
                socket.take(&mut target[..length]);
                Some(Ok(length))
            }
            OperationKind::Hangup => {
                let has_ended = self.socket(id).is_closed || peer_is_closed;
                has_ended.then_some(Ok(PollFlags::HUP.bits().into()))
            }
            OperationKind::Send(slices) => {
                if self.socket(id).is_closed || peer_is_closed {
                    return Some(Err(Errno::PIPE));
                }
                let inbox = &mut self.socket(peer).inbox;
                let wanted: usize = slices.iter().map(|slice| slice.length).sum();
                let room = SOCKET_BYTES.saturating_sub(inbox.len()).min(wanted);
                if room == 0 {
                    return None;
                }
                let length = part(room);
                let mut left = length;
                for slice in slices.iter() {
                    let bytes = buffers.bytes(*slice);
                    let bytes = &bytes[..bytes.len().min(left)];
                    inbox.extend(bytes);
                    left -= bytes.len();
                }
                self.outside_changed = true;
                Some(Ok(length))
            }
            _ => Some(Err(Errno::OPNOTSUPP)),
        }
    }

    /// Adds the end of an operation to the trace.
    pub(super) fn note(&mut self, operation: &SimOperation, result: Result<usize, Errno>) {
        let outcome = match result {
            Ok(bytes) => bytes as u64,
            Err(errno) => u64::MAX - errno.raw_os_error() as u64,
        };
        for word in [self.now.0, u64::from(operation.object.0), outcome] {
            self.trace = (self.trace ^ word).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(23);
        }
    }
}

/// Bytes that an operation transfers: devices transfer whole sectors.
fn part(length: usize, is_partial: bool) -> usize {
    if is_partial { (length / 2).next_multiple_of(512).min(length) } else { length }
}

/// Returns true if an operation changes bytes behind the end of its device.
fn is_behind(kind: &OperationKind, end: u64) -> bool {
    match kind {
        OperationKind::Write { offset, slice } => offset + slice.length as u64 > end,
        OperationKind::Discard { offset, length } => offset + length > end,
        _ => false,
    }
}
