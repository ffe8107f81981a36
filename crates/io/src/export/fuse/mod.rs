//! A FUSE export: volumes and members as files in a folder.
//!
//! Threads of the `fuser` crate read the kernel's requests (`files.rs`) and put them into a queue
//! (`call_queue.rs`). The executor's thread takes them from there, and replies to the kernel when
//! they end. I/O bypasses the page cache, many requests are in flight, and a loop device over such
//! a file ([`mount`]) is a block device for any filesystem.
//!
//! **Parts of blocks.** Volumes are written in whole blocks, but a program may write any bytes, and
//! the kernel splits long writes at page boundaries. A write of a part of a block first reads the
//! block. No other change is in flight meanwhile, because one of two writes to the same block would
//! undo the other.
//!
//! **Holes.** A punched hole must read as zeroes. It is discarded if every member is known to read
//! zeroes after a discard, because `mkfs` on a loop device punches all of it; else zeroes are
//! written.
//!
//! Non-goals: `FUSE_IO_URING`, passthrough, and reporting holes.
//!
//! Source: the Linux kernel's `Documentation/filesystems/fuse/` and `include/uapi/linux/fuse.h`.

mod call_queue;
mod files;
pub mod mount;
#[cfg(test)]
mod tests;

use crate::background_teardown::BackgroundTeardown;
use crate::driver::buffers::{BufferKey, Slice};
use crate::driver::{EventOwner, Token, Waker};
use crate::executor::{Executor, IoReply, IoRequest, Target};
use crate::export::Durability;
use crate::export::Export;
use crate::export::chunked_ops::{discard_step, zero_step, zeroes};
use call_queue::{Call, CallKind, CallQueue};
use files::Files;
use fuser::Errno;
use mirrorball_core::io::{RequestKind, VolumeError};
use mirrorball_core::slab::{Slab, SlabKey};
use mount::{Mount, MountError};
use std::collections::VecDeque;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

mirrorball_core::slab_key! {
    /// Names a call in progress; its slot is in the tokens of its I/O requests.
    struct CallKey;
}

/// Mounted files; see the module documentation.
pub struct Fuse {
    exports: Vec<Export>,
    queue: Arc<CallQueue>,
    waker: Waker,
    pending: Slab<CallKey, PendingCall>,
    zeroes: BufferKey,
    taken: Vec<Call>,
    /// Number of pending calls that change data.
    changes: u32,
    /// True if one of them changes a part of a block.
    patching: bool,
    /// Changes that wait for pending ones.
    blocked: VecDeque<Call>,
    /// `None` once stopped.
    mount: Option<Mount>,
    /// Unmounts; its result is a note for the user.
    teardown: Option<BackgroundTeardown<Option<String>>>,
}

struct PendingCall {
    call: Call,
    /// The whole blocks that it touches.
    span: Range<u64>,
    buffer: Option<BufferKey>,
    stage: Stage,
    /// Number of bytes of a hole that are done.
    punched: u64,
}

/// The reason why a call waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// A read of the blocks that it changes in part.
    Fill,
    /// The operation itself.
    Do,
    /// A write of zeroes, where a discard may not result in zeroes.
    Zero,
    /// The flush after it.
    Flush,
}

impl Fuse {
    /// Mounts files for these exports in `folder`, which is created if missing. Mounts and loop
    /// devices that a killed server left there are removed; the second value lists them. Fails if
    /// the folder is in use or holds files, or the system refuses.
    pub fn mount(
        folder: &Path,
        exports: Vec<Export>,
        executor: &mut Executor,
    ) -> Result<(Fuse, Vec<String>), MountError> {
        let waker = Waker::new().map_err(std::io::Error::from)?;
        let queue = Arc::new(CallQueue::new(waker.clone()));
        let (uid, gid) = (rustix::process::getuid(), rustix::process::getgid());
        let files = Files {
            exports: exports.clone(),
            queue: Arc::clone(&queue),
            owner: (uid.as_raw(), gid.as_raw()),
        };
        let (mount, notes) = Mount::new(folder, files)?;
        executor.driver.add_waker(Token::new(EventOwner::FuseCall, 0), &waker)?;
        let fuse = Fuse {
            exports,
            queue,
            waker,
            pending: Slab::default(),
            zeroes: zeroes(&mut executor.driver),
            taken: Vec::new(),
            changes: 0,
            patching: false,
            blocked: VecDeque::new(),
            mount: Some(mount),
            teardown: None,
        };
        Ok((fuse, notes))
    }

    pub fn files(&self) -> Vec<(Export, PathBuf)> {
        let folder = self.mount.as_ref().map_or(Path::new(""), Mount::folder);
        let path = |export| folder.join(Files::name(&self.exports, export));
        self.exports.iter().map(|export| (export.clone(), path(export))).collect()
    }

    /// Starts the calls in the queue.
    pub fn on_event(&mut self, executor: &mut Executor) {
        let mut taken = std::mem::take(&mut self.taken);
        self.queue.take(&mut taken);
        for call in taken.drain(..) {
            match self.may_begin(&call) && (self.blocked.is_empty() || !call.changes()) {
                true => self.begin(call, executor),
                false => self.blocked.push_back(call),
            }
        }
        self.taken = taken;
    }

    /// Handles the end of an I/O request.
    pub fn on_reply(&mut self, ended: IoReply, executor: &mut Executor) {
        let key = CallKey::from_slot(ended.token.key());
        let pending = self.pending.get_mut(key);
        if matches!(pending.call.kind, CallKind::Punch { .. }) {
            return self.on_punched(key, ended.result, executor);
        }
        if let (CallKind::Write { offset, data, durability, .. }, Ok(())) =
            (&pending.call.kind, ended.result)
        {
            let next = match pending.stage {
                Stage::Fill => Some(Stage::Do),
                Stage::Do => (*durability == Durability::AtReply).then_some(Stage::Flush),
                Stage::Zero | Stage::Flush => None,
            };
            if let Some(stage) = next {
                if stage == Stage::Do {
                    let buffer = pending.buffer.expect("a write has a buffer");
                    let skip = (offset - pending.span.start) as usize;
                    let place = Slice::data(buffer, skip, data.len());
                    executor.driver.bytes_mut(place).copy_from_slice(data);
                }
                pending.stage = stage;
                return self.submit(key, executor);
            }
        }
        self.end(key, ended.result, executor);
    }

    /// Handles the end of an I/O request that punches a hole.
    fn on_punched(
        &mut self,
        key: CallKey,
        result: Result<(), VolumeError>,
        executor: &mut Executor,
    ) {
        let pending = self.pending.get_mut(key);
        let target = self.exports[pending.call.file].target;
        if pending.stage == Stage::Do && !executor.discards_zero(target) {
            // This discard may have revealed it.
            pending.stage = Stage::Zero;
            return self.submit(key, executor);
        }
        pending.punched += step(pending, target);
        if result.is_err() || pending.punched == pending.span.end - pending.span.start {
            return self.end(key, result, executor);
        }
        self.submit(key, executor);
    }

    /// Replies to a call, and begins calls that waited for it.
    fn end(&mut self, key: CallKey, result: Result<(), VolumeError>, executor: &mut Executor) {
        let PendingCall { call, span, buffer, .. } =
            self.pending.remove(key).expect("a call ends once");
        if call.changes() {
            self.changes -= 1;
            if std::mem::take(&mut self.patching) {
                executor.end_hold();
            }
        }
        let result = result.map_err(|error| match error {
            VolumeError::OutOfRange => Errno::EINVAL,
            VolumeError::ReadOnly => Errno::EROFS,
            _ => Errno::EIO,
        });
        match (call.kind, result) {
            (CallKind::Read { offset, length, reply }, Ok(())) => {
                let buffer = buffer.expect("a read has a buffer");
                let slice = Slice::data(buffer, (offset - span.start) as usize, length as usize);
                reply.data(executor.driver.bytes(slice));
            }
            (CallKind::Read { reply, .. }, Err(error)) => reply.error(error),
            (CallKind::Write { data, reply, .. }, result) => {
                match result {
                    Ok(()) => reply.written(data.len() as u32),
                    Err(error) => reply.error(error),
                }
                self.queue.recycle(data);
            }
            (CallKind::Flush { reply } | CallKind::Punch { reply, .. }, Ok(())) => reply.ok(),
            (CallKind::Flush { reply } | CallKind::Punch { reply, .. }, Err(error)) => {
                reply.error(error)
            }
        }
        if let Some(buffer) = buffer {
            executor.driver.release(buffer);
        }
        while self.blocked.front().is_some_and(|call| self.may_begin(call)) {
            let call = self.blocked.pop_front().expect("the queue is not empty");
            self.begin(call, executor);
        }
    }

    /// Starts a thread that detaches loop devices and unmounts. The kernel may send more calls
    /// until that is done.
    pub fn stop(&mut self) {
        if let Some(mount) = self.mount.take() {
            let folder = mount.folder().to_owned();
            let failed = move |error| {
                let folder = folder.display();
                Some(format!(
                    "cannot start a thread to unmount `{folder}`: {error}. If it is still \
                     mounted, run `fusermount3 -u -z {folder}`"
                ))
            };
            let teardown = || mount.unmount_and_detach();
            self.teardown = Some(BackgroundTeardown::start(teardown, self.waker.clone(), failed));
        }
    }

    /// Fails all calls at once, for a service that cannot answer them. Only root can do this; other
    /// users have no loop devices that would wait.
    pub fn abort(&self) {
        if let Some(mount) = &self.mount {
            mount.abort();
        }
    }

    /// Returns true when it is unmounted and every call is answered.
    pub fn is_over(&self) -> bool {
        self.pending.is_empty()
            && self.blocked.is_empty()
            && self.teardown.as_ref().is_some_and(BackgroundTeardown::is_done)
    }

    /// The note of the teardown for the user, once it is done.
    pub fn teardown_note(&self) -> Option<String> {
        self.teardown.as_ref().and_then(BackgroundTeardown::result).flatten()
    }

    /// The whole blocks that a call touches.
    fn span(&self, call: &Call) -> Range<u64> {
        let export = &self.exports[call.file];
        let unit = u64::from(export.block_bytes);
        let Range { start, end } = call.range();
        start - start % unit..end.next_multiple_of(unit).min(export.size_bytes)
    }

    fn changes_parts(&self, call: &Call) -> bool {
        call.changes() && self.span(call) != call.range()
    }

    fn may_begin(&self, call: &Call) -> bool {
        !call.changes() || !self.patching && (self.changes == 0 || !self.changes_parts(call))
    }

    fn begin(&mut self, call: Call, executor: &mut Executor) {
        let span = self.span(&call);
        let patches = self.changes_parts(&call);
        self.changes += u32::from(call.changes());
        self.patching |= patches;
        let driver = &mut executor.driver;
        let bytes = (span.end - span.start) as usize;
        let buffer = match &call.kind {
            CallKind::Read { .. } | CallKind::Write { .. } => Some(driver.acquire(bytes)),
            CallKind::Flush { .. } | CallKind::Punch { .. } => None,
        };
        if let (CallKind::Write { data, .. }, Some(buffer), false) = (&call.kind, buffer, patches) {
            driver.bytes_mut(Slice::data(buffer, 0, bytes)).copy_from_slice(data);
        }
        let discards_zero = executor.discards_zero(self.exports[call.file].target);
        let stage = match &call.kind {
            _ if patches => Stage::Fill,
            CallKind::Punch { .. } if !discards_zero => Stage::Zero,
            _ => Stage::Do,
        };
        let key = self.pending.insert(PendingCall { call, span, buffer, stage, punched: 0 });
        self.submit(key, executor);
    }

    fn submit(&mut self, key: CallKey, executor: &mut Executor) {
        let pending = self.pending.get(key);
        let PendingCall { call, span, buffer, stage, punched } = pending;
        let target = self.exports[call.file].target;
        let kind = match (&call.kind, stage) {
            (_, Stage::Fill) | (CallKind::Read { .. }, _) => RequestKind::Read,
            (_, Stage::Flush) | (CallKind::Flush { .. }, _) => RequestKind::Flush,
            (CallKind::Write { .. }, _) | (_, Stage::Zero) => RequestKind::Write,
            (CallKind::Punch { .. }, _) => RequestKind::Discard,
        };
        let (offset, length, buffer) = match (kind, stage) {
            (RequestKind::Flush, _) => (0, 0, None),
            (_, Stage::Zero) => (span.start + punched, step(pending, target), Some(self.zeroes)),
            _ => (span.start + punched, step(pending, target), *buffer),
        };
        let (token, stream) = (Token::new(EventOwner::FuseRequest, key.slot()), call.stream);
        let request = IoRequest { token, target, kind, offset, length, buffer, stream };
        match stage {
            // Clients of other exports may write to the blocks meanwhile.
            Stage::Fill => executor.read_and_hold(request),
            Stage::Do if self.patching && call.changes() => executor.change_held(request),
            _ => executor.submit(request),
        }
    }
}

/// Number of bytes of the next I/O request.
fn step(pending: &PendingCall, target: Target) -> u64 {
    let left = pending.span.end - pending.span.start - pending.punched;
    match (&pending.call.kind, pending.stage) {
        (_, Stage::Zero) => zero_step(left),
        (CallKind::Punch { .. }, _) => discard_step(target, left),
        _ => left,
    }
}
