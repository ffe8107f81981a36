//! The io_uring backend; it and `memory.rs` are the only files with `unsafe` in them.
//!
//! Three things need it. Queueing an entry hands the kernel pointers that must stay valid until the
//! operation ends: they point into the driver's buffers, which neither move nor go away while an
//! operation uses them ([`super::buffers`]), or into the messages kept here. A connection comes
//! back as a number that must be made a descriptor. And the C structures of a message start as
//! zeroes.
//!
//! The system call that waits for completions, with a timeout, also submits the queued entries.
//! Task work is deferred to that call where the kernel can (Linux 6.1), so that nothing interrupts
//! the thread in between.

#![allow(unsafe_code, reason = "the interface of io_uring is pointers; see the page above")]

use super::buffers::{Buffers, Slice};
use super::{Handle, OperationKey, OperationKind, SLICES_MAX};
use io_uring::types::{Fd, FsyncFlags, SubmitArgs, Timespec};
use io_uring::{IoUring, Probe, opcode, squeue};
use mirrorball_core::slab::SlabKey;
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// Entries that can be queued before a system call takes them.
const ENTRIES: u32 = 512;
/// Completions that can wait to be read.
const COMPLETIONS: u32 = 4096;
/// Size of the table of registered descriptors: members, listeners, and the usual number of
/// clients.
const TABLE: u32 = 1024;
/// Marks the end of a cancellation, which is no operation of the driver.
const CANCELLATION: u64 = u64::MAX;
/// Operations that the kernel must support.
const NEEDED: [u8; 9] = [
    opcode::Accept::CODE,
    opcode::Recv::CODE,
    opcode::SendMsg::CODE,
    opcode::Read::CODE,
    opcode::Write::CODE,
    opcode::Fsync::CODE,
    opcode::Fallocate::CODE,
    opcode::PollAdd::CODE,
    opcode::AsyncCancel::CODE,
];

/// The message header that a send points to.
struct Message {
    header: libc::msghdr,
    vectors: [libc::iovec; SLICES_MAX],
}

// SAFETY: its pointers are into its own box and into buffers that the driver owns, and the driver
// moves between threads whole.
unsafe impl Send for Message {}

pub(super) struct Ring {
    ring: IoUring,
    /// By key of the operation.
    messages: Vec<Option<Box<Message>>>,
    /// Descriptors whose handle is lower are in the ring's table of registered descriptors.
    table_size: u32,
}

impl Ring {
    pub(super) fn new() -> io::Result<Ring> {
        let ring = IoUring::builder()
            .setup_cqsize(COMPLETIONS)
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_taskrun_flag()
            .build(ENTRIES)
            .or_else(|_| IoUring::builder().setup_cqsize(COMPLETIONS).build(ENTRIES))?;
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        let complete = NEEDED.iter().all(|&code| probe.is_supported(code));
        if !(complete && ring.params().is_feature_ext_arg()) {
            let text = "this kernel's io_uring is too old";
            return Err(io::Error::new(io::ErrorKind::Unsupported, text));
        }
        // Without the table the kernel looks up the descriptor of every operation.
        let table =
            closes_when_unregistered() && ring.submitter().register_files_sparse(TABLE).is_ok();
        let table_size = if table { TABLE } else { 0 };
        Ok(Ring { ring, messages: Vec::new(), table_size })
    }

    /// Registers a descriptor, if the table has room.
    pub(super) fn register(&mut self, handle: Handle, fd: &OwnedFd) {
        self.update_table(handle, fd.as_raw_fd());
    }

    /// Unregisters a descriptor, which the table would keep open.
    pub(super) fn unregister(&mut self, handle: Handle) {
        self.update_table(handle, -1);
    }

    /// Unregisters all descriptors, which the ring would keep open until the kernel has ended it.
    pub(super) fn release_table(&mut self) {
        if std::mem::take(&mut self.table_size) > 0 {
            // What is not released is closed later.
            let _ = self.ring.submitter().unregister_files();
        }
    }

    fn update_table(&mut self, handle: Handle, number: i32) {
        if handle.slot() < self.table_size {
            let updated = self.ring.submitter().register_files_update(handle.slot(), &[number]);
            updated.expect("the kernel takes a descriptor that is open into a place that is there");
        }
    }

    #[inline]
    pub(super) fn push(
        &mut self,
        key: OperationKey,
        handle: Handle,
        fd: &OwnedFd,
        kind: &OperationKind,
        buffers: &mut Buffers,
    ) {
        let (fd, flags) = match handle.slot() < self.table_size {
            true => (Fd(handle.slot() as i32), squeue::Flags::FIXED_FILE),
            false => (Fd(fd.as_raw_fd()), squeue::Flags::empty()),
        };
        let entry = match kind {
            OperationKind::Accept => {
                opcode::Accept::new(fd, std::ptr::null_mut(), std::ptr::null_mut())
                    .flags(libc::SOCK_CLOEXEC)
                    .build()
            }
            OperationKind::Receive(slice) => {
                opcode::Recv::new(fd, buffers.pointer_mut(*slice), slice.length as u32).build()
            }
            OperationKind::Send(list) => {
                let header = self.message(key, list, buffers);
                let flags = (libc::MSG_NOSIGNAL | libc::MSG_WAITALL) as u32;
                opcode::SendMsg::new(fd, header).flags(flags).build()
            }
            OperationKind::Read { offset, slice } => {
                opcode::Read::new(fd, buffers.pointer_mut(*slice), slice.length as u32)
                    .offset(*offset)
                    .build()
            }
            OperationKind::Write { offset, slice } => {
                opcode::Write::new(fd, buffers.pointer(*slice), slice.length as u32)
                    .offset(*offset)
                    .build()
            }
            OperationKind::Sync => opcode::Fsync::new(fd).flags(FsyncFlags::DATASYNC).build(),
            OperationKind::Discard { offset, length } => opcode::Fallocate::new(fd, *length)
                .offset(*offset)
                .mode(libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE)
                .build(),
            // The kernel adds the end of the connection to what is polled for.
            OperationKind::Hangup => opcode::PollAdd::new(fd, 0).build(),
            OperationKind::Wake(_) => opcode::PollAdd::new(fd, libc::POLLIN as u32).build(),
        };
        self.queue(&entry.flags(flags).user_data(u64::from(key.slot())));
    }

    /// Cancels an operation that waits; it ends with an error, unless it ends by itself before.
    pub(super) fn cancel(&mut self, key: OperationKey) {
        let entry = opcode::AsyncCancel::new(u64::from(key.slot())).build();
        self.queue(&entry.user_data(CANCELLATION));
    }

    /// Leaks the headers of messages, which an operation that does not end may still use.
    pub(super) fn leak_messages(&mut self) {
        std::mem::forget(std::mem::take(&mut self.messages));
    }

    /// Waits for an operation to end, at most for `timeout`, and appends all that ended.
    pub(super) fn wait(
        &mut self,
        timeout: Option<Duration>,
        ended: &mut Vec<(OperationKey, Result<usize, Errno>)>,
    ) -> io::Result<()> {
        let entered = match timeout {
            Some(Duration::ZERO) => self.look(),
            timeout => {
                let time = timeout.map(Timespec::from);
                let arguments = SubmitArgs::new();
                let arguments = match &time {
                    Some(time) => arguments.timespec(time),
                    None => arguments,
                };
                self.ring.submitter().submit_with_args(1, &arguments)
            }
        };
        match entered {
            Ok(_) => {}
            Err(error) if is_timeout(&error) => {}
            Err(error) => return Err(error),
        }
        for end in self.ring.completion().filter(|end| end.user_data() != CANCELLATION) {
            let result = match end.result() {
                moved if moved >= 0 => Ok(moved as usize),
                errno => Err(Errno::from_raw_os_error(-errno)),
            };
            ended.push((OperationKey::from_slot(end.user_data() as u32), result));
        }
        Ok(())
    }

    /// Enters the kernel without waiting, if there are entries or completions to process.
    #[inline]
    fn look(&mut self) -> io::Result<usize> {
        let queue = self.ring.submission();
        let is_needed = !queue.is_empty() || queue.taskrun() || queue.cq_overflow();
        drop(queue);
        if is_needed { self.ring.submit() } else { Ok(0) }
    }

    /// The message of an operation: pointers to its slices.
    fn message(
        &mut self,
        key: OperationKey,
        list: &[Slice],
        buffers: &Buffers,
    ) -> *const libc::msghdr {
        let index = key.slot() as usize;
        if self.messages.len() <= index {
            self.messages.resize_with(index + 1, || None);
        }
        let message = self.messages[index].get_or_insert_with(empty_message);
        let left = list.iter().filter(|slice| slice.length > 0);
        let mut count = 0;
        for (slice, vector) in left.zip(&mut message.vectors) {
            vector.iov_base = buffers.pointer(*slice).cast_mut().cast();
            vector.iov_len = slice.length;
            count += 1;
        }
        message.header.msg_iov = message.vectors.as_mut_ptr();
        message.header.msg_iovlen = count;
        &raw const message.header
    }

    #[inline]
    fn queue(&mut self, entry: &squeue::Entry) {
        // SAFETY: the pointers of an entry are into buffers that the driver marks as in use until
        // the operation ends and neither moves nor frees before, or into a boxed message that is
        // kept for as long as the ring; the descriptor is kept open until then as well.
        while unsafe { self.ring.submission().push(entry) }.is_err() {
            // The queue is full: submit it. If that fails, the next wait reports the error.
            if self.ring.submit().is_err() {
                std::thread::yield_now();
            }
        }
    }
}

/// True if the kernel closes a descriptor as soon as it is unregistered. Before Linux 6.13 it kept
/// the descriptor until every operation that began earlier had ended, so a waiting `accept` kept
/// the connections of all clients that had disconnected. Source: issue 1192 of
/// axboe/liburing, and the kernel's commit 7029acd8a950.
fn closes_when_unregistered() -> bool {
    let uname = rustix::system::uname();
    let release = uname.release().to_string_lossy();
    let mut numbers = release.split(['.', '-']).map_while(|number| number.parse::<u32>().ok());
    (numbers.next(), numbers.next()) >= (Some(6), Some(13))
}

/// Makes a descriptor of the number that an accept ended with.
pub(super) fn own_accepted(number: usize) -> OwnedFd {
    // SAFETY: the kernel has just created this descriptor for this process, and it has no owner.
    unsafe { OwnedFd::from_raw_fd(number as i32) }
}

/// True for errors of a wait that mean a timeout or a signal.
fn is_timeout(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN))
}

fn empty_message() -> Box<Message> {
    // SAFETY: both structures are plain data, for which all zeroes is a value: no name, no slices.
    unsafe { Box::new(std::mem::zeroed()) }
}
