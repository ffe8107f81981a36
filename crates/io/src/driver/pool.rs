//! The backend without io_uring: `preadv` and `pwritev` in a few threads, `poll` for the sockets.
//!
//! A thread gets a file operation with memory of its own. The thread that owns the driver copies
//! the bytes to or from the driver's buffer, so no memory is shared, at the cost of a copy.
//! Operations on sockets run in that thread, once `poll` reports that they are ready. A [`Waker`]
//! among the polled descriptors reports that a file operation ended.

use super::buffers::{Buffers, HEAD_BYTES, Slice};
use super::memory::Memory;
use super::operation::send_at_once;
use super::{OperationKey, OperationKind, Waker};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::FallocateFlags;
use rustix::io::{Errno, IoSlice, IoSliceMut};
use rustix::net::{RecvFlags, SocketFlags};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{IntoRawFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Number of threads for file I/O, and so of I/Os in flight.
const THREADS: usize = 8;

/// A file operation for a thread, or one that a thread has done.
struct Job {
    key: OperationKey,
    fd: Arc<OwnedFd>,
    task: Task,
    result: Result<usize, Errno>,
}

enum Task {
    Read { offset: u64, memory: Memory, slice: Slice },
    Write { offset: u64, memory: Memory, length: usize },
    Sync,
    Discard { offset: u64, length: u64 },
}

#[derive(Default)]
struct Queues {
    waiting: VecDeque<Job>,
    ended: Vec<Job>,
    over: bool,
}

struct Shared {
    queues: Mutex<Queues>,
    work: Condvar,
    /// Set when a job ended.
    waker: Waker,
}

/// A socket operation whose socket is not ready.
struct Pending {
    key: OperationKey,
    fd: Arc<OwnedFd>,
    task: SocketTask,
}

enum SocketTask {
    Accept,
    Receive(Slice),
    Send(Vec<Slice>),
    Hangup,
    /// The eventfd of a waker; the driver reads it.
    Wake,
}

pub(super) struct Pool {
    shared: Arc<Shared>,
    pending: Vec<Pending>,
}

impl Pool {
    pub(super) fn new() -> io::Result<Pool> {
        let waker = Waker::new()?;
        let (queues, work) = (Mutex::default(), Condvar::new());
        let pool = Pool { shared: Arc::new(Shared { queues, work, waker }), pending: Vec::new() };
        for number in 0..THREADS {
            let shared = pool.shared.clone();
            let thread = std::thread::Builder::new().name(format!("member-io-{number}"));
            thread.spawn(move || shared.serve())?;
        }
        Ok(pool)
    }

    pub(super) fn push(
        &mut self,
        key: OperationKey,
        fd: &Arc<OwnedFd>,
        kind: &OperationKind,
        buffers: &Buffers,
    ) {
        let fd = fd.clone();
        let task = match kind {
            OperationKind::Accept => {
                return self.pending.push(Pending { key, fd, task: SocketTask::Accept });
            }
            OperationKind::Receive(slice) => {
                let task = SocketTask::Receive(*slice);
                return self.pending.push(Pending { key, fd, task });
            }
            OperationKind::Send(list) => {
                let task = SocketTask::Send(list.clone());
                return self.pending.push(Pending { key, fd, task });
            }
            OperationKind::Hangup => {
                return self.pending.push(Pending { key, fd, task: SocketTask::Hangup });
            }
            OperationKind::Wake(_) => {
                return self.pending.push(Pending { key, fd, task: SocketTask::Wake });
            }
            OperationKind::Read { offset, slice } => {
                Task::Read { offset: *offset, memory: Memory::new(slice.length), slice: *slice }
            }
            OperationKind::Write { offset, slice } => {
                let mut memory = Memory::new(slice.length);
                memory.slice_mut(HEAD_BYTES, slice.length).copy_from_slice(buffers.bytes(*slice));
                Task::Write { offset: *offset, memory, length: slice.length }
            }
            OperationKind::Sync => Task::Sync,
            OperationKind::Discard { offset, length } => {
                Task::Discard { offset: *offset, length: *length }
            }
        };
        self.shared.lock().waiting.push_back(Job { key, fd, task, result: Ok(0) });
        self.shared.work.notify_one();
    }

    /// Forgets an operation that waits for a socket; returns true if there was one.
    pub(super) fn cancel(&mut self, key: OperationKey) -> bool {
        let before = self.pending.len();
        self.pending.retain(|pending| pending.key != key);
        self.pending.len() < before
    }

    /// Waits for an operation to end, at most for `timeout`, and appends all that ended.
    pub(super) fn wait(
        &mut self,
        timeout: Option<Duration>,
        buffers: &mut Buffers,
        ended: &mut Vec<(OperationKey, Result<usize, Errno>)>,
    ) -> io::Result<()> {
        let ready = self.ready(timeout)?;
        let mut index = 0;
        self.pending.retain(|pending| {
            index += 1;
            let events = ready[index - 1];
            if events.is_empty() {
                return true;
            }
            match pending.perform(buffers) {
                // A listener that was shut down stays ready and returns no connection.
                Err(Errno::AGAIN) if events.contains(PollFlags::HUP) => {
                    ended.push((pending.key, Err(Errno::CANCELED)));
                    false
                }
                Err(Errno::AGAIN | Errno::INTR) => true,
                result => {
                    ended.push((pending.key, result));
                    false
                }
            }
        });
        for job in std::mem::take(&mut self.shared.lock().ended) {
            if let (Task::Read { memory, slice, .. }, Ok(length)) = (&job.task, job.result) {
                let target = buffers.target(Slice { length, ..*slice });
                target.copy_from_slice(memory.slice(HEAD_BYTES, length));
            }
            ended.push((job.key, job.result));
        }
        Ok(())
    }

    /// Polls; returns for each pending operation what its socket is ready for.
    fn ready(&self, timeout: Option<Duration>) -> io::Result<Vec<PollFlags>> {
        let mut polled: Vec<PollFd<'_>> = self.pending.iter().map(Pending::poll_fd).collect();
        polled.push(PollFd::new(self.shared.waker.eventfd(), PollFlags::IN));
        let timeout = timeout.map(|timeout| Timespec {
            tv_sec: timeout.as_secs() as i64,
            tv_nsec: timeout.subsec_nanos().into(),
        });
        match poll(&mut polled, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let mut ready: Vec<PollFlags> = polled.iter().map(PollFd::revents).collect();
        if ready.pop().is_some_and(|events| !events.is_empty()) {
            // Cleared before the jobs are taken: a job that ends in between sets it again.
            self.shared.waker.clear();
        }
        Ok(ready)
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.lock().over = true;
        self.shared.work.notify_all();
    }
}

impl Pending {
    fn poll_fd(&self) -> PollFd<'_> {
        let direction = match self.task {
            SocketTask::Accept | SocketTask::Receive(_) | SocketTask::Wake => PollFlags::IN,
            SocketTask::Send(_) => PollFlags::OUT,
            // `poll` adds the end of the connection to what is polled for.
            SocketTask::Hangup => PollFlags::empty(),
        };
        PollFd::new(&self.fd, direction)
    }

    fn perform(&self, buffers: &mut Buffers) -> Result<usize, Errno> {
        match &self.task {
            SocketTask::Accept => {
                let accepted = rustix::net::accept_with(&self.fd, SocketFlags::CLOEXEC)?;
                Ok(accepted.into_raw_fd() as usize)
            }
            SocketTask::Receive(slice) => {
                let target = buffers.target(*slice);
                Ok(rustix::net::recv(&self.fd, target, RecvFlags::empty())?.0)
            }
            SocketTask::Send(list) => send_at_once(&self.fd, list, buffers),
            SocketTask::Hangup => Ok(PollFlags::HUP.bits().into()),
            SocketTask::Wake => Ok(0),
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queues> {
        // No code that can panic runs while the queues are inconsistent.
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs jobs until the pool is dropped.
    fn serve(&self) {
        let mut queues = self.lock();
        loop {
            if let Some(mut job) = queues.waiting.pop_front() {
                drop(queues);
                job.result = perform(&mut job.task, &job.fd);
                queues = self.lock();
                queues.ended.push(job);
                self.waker.wake();
            } else if queues.over {
                return;
            } else {
                queues = self.work.wait(queues).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }
}

fn perform(task: &mut Task, fd: &OwnedFd) -> Result<usize, Errno> {
    rustix::io::retry_on_intr(|| match task {
        Task::Read { offset, memory, slice } => {
            let target = memory.slice_mut(HEAD_BYTES, slice.length);
            rustix::io::preadv(fd, &mut [IoSliceMut::new(target)], *offset)
        }
        Task::Write { offset, memory, length } => {
            let source = memory.slice(HEAD_BYTES, *length);
            rustix::io::pwritev(fd, &[IoSlice::new(source)], *offset)
        }
        Task::Sync => rustix::fs::fdatasync(fd).map(|()| 0),
        Task::Discard { offset, length } => {
            let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            rustix::fs::fallocate(fd, mode, *offset, *length).map(|()| 0)
        }
    })
}
