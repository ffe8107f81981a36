//! Read policies for Mirrorball in Rust, interface version 1.
//!
//! A policy decides which mirror of a volume serves a read. It is a type that implements
//! [`Policy`]; [`program!`] exports it, and [`parameter!`] declares a number that the user may set.
//! `mirrorball program build policy.rs` compiles it to WebAssembly. The smallest complete policy:
//!
//! ```ignore
//! #![no_std]
//! use mirrorball_policy::{Choose, Policy, program};
//!
//! struct ShortestQueue;
//!
//! impl Policy for ShortestQueue {
//!     const START: ShortestQueue = ShortestQueue;
//!
//!     fn choose(&mut self, c: &Choose) -> usize {
//!         let queues = c.mirrors().iter().map(|mirror| mirror.member.in_flight());
//!         queues.enumerate().min_by_key(|&(_, queue)| queue).map_or(0, |(index, _)| index)
//!     }
//! }
//!
//! program!(ShortestQueue, "shortest-queue", "1", "", "takes the mirror with the least in flight");
//! ```
//!
//! Structures have the layout of `mirrorball_policy.h`, the header for policies in C, and a test
//! compares every field. All times are in nanoseconds, sizes and offsets in bytes. The value that
//! implements [`Policy`] is the state: each volume has its own, which begins as [`Policy::START`].
//! A policy has no clock but `now_ns`, no chance but [`random`], no memory but its state, and a
//! limit of instructions for each call. A panic ends the policy with a fault, whose code is the
//! line of the panic.

#![no_std]

mod exports;
mod helpers;

pub use exports::{Parameter, Program, State};
pub use helpers::{count, error, hedge, member, note, random, random_below, read_all, split};

/// Version of the interface.
pub const ABI: u32 = 1;
/// Highest number of mirrors in a [`Choose`].
pub const MIRRORS_MAX: usize = 16;

/// Flag of a member: the kernel reports the device as rotational.
pub const ROTATIONAL: u32 = 1;
/// Flag of a member: read only when no other mirror can serve.
pub const WRITE_MOSTLY: u32 = 2;
/// Flag of a member: in sync in part.
pub const REBUILDING: u32 = 4;
/// Flag of a member: missing or failed, neither read nor written.
pub const FAILED: u32 = 8;

/// Flag of a read: scrub, rebuild, defragmentation.
pub const BACKGROUND: u32 = 1;
/// Flag of a read: the layout places copies at different offsets by design.
pub const COPIES_APART: u32 = 2;
/// Flag of a read: the choice is not made but shown, and [`note`] has an effect.
pub const EXPLAINED: u32 = 4;

/// Operation of an event: a read.
pub const READ: u8 = 0;
/// Operation of an event: a write.
pub const WRITE: u8 = 1;
/// Operation of an event: a flush.
pub const FLUSH: u8 = 2;
/// Operation of an event: a discard.
pub const DISCARD: u8 = 3;

/// Purpose of an event: a request of a client.
pub const USER: u8 = 0;
/// Purpose of an event: the repair of a mirror.
pub const REPAIR: u8 = 1;
/// Purpose of an event: a scrub.
pub const SCRUB: u8 = 2;
/// Purpose of an event: a rebuild.
pub const REBUILD: u8 = 3;
/// Purpose of an event: metadata of the volume.
pub const METADATA: u8 = 4;

/// Result of an event: success, or a submission.
pub const OK: u8 = 0;
/// Result of an event: the medium could not be read or written.
pub const MEDIUM: u8 = 1;
/// Result of an event: the connection to the device failed.
pub const TRANSPORT: u8 = 2;
/// Result of an event: the device is gone.
pub const GONE: u8 = 3;
/// Result of an event: cancelled.
pub const CANCELLED: u8 = 4;

/// Flag of an event: scrub, rebuild, defragmentation.
pub const EVENT_BACKGROUND: u8 = 1;
/// Flag of an event: a further read of data whose first read is in flight.
pub const EVENT_EXTRA: u8 = 2;
/// Flag of an event: another mirror answered first.
pub const EVENT_SUPERSEDED: u8 = 4;

/// A member and its statistics.
///
/// Counters run from the start of the volume and are never reset: a policy that needs a window
/// keeps a copy and subtracts.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Member {
    /// Index of the member in the array: 0, 1, …
    pub index: u32,
    /// [`ROTATIONAL`], …
    pub flags: u32,
    /// Number of the device, as in btrfs: 1, 2, …
    pub devid: u64,
    /// Capacity.
    pub size_bytes: u64,
    /// The device's `io_opt`, or 0 if it reports none.
    pub optimal_io_bytes: u64,
    /// Queue depth of the device, as the kernel knows it.
    pub queue_depth: u32,
    /// A policy that uses priorities prefers the higher.
    pub priority: u32,
    /// Reads that were submitted and are not completed, of any purpose.
    pub reads_in_flight: u32,
    /// Writes, flushes and discards.
    pub writes_in_flight: u32,
    /// Bytes of all I/O in flight.
    pub bytes_in_flight: u64,
    /// End offset of the last I/O submitted.
    pub submitted_end: u64,
    /// End offset of the last I/O completed.
    pub completed_end: u64,
    /// When the last I/O was submitted.
    pub submitted_at_ns: u64,
    /// Wait of the last I/O completed; 0 before the first.
    pub last_wait_ns: u64,
    /// Reads completed successfully.
    pub reads_completed: u64,
    /// Bytes of these reads.
    pub read_bytes: u64,
    /// Sum of the waits of these reads: completion minus submission.
    pub read_wait_ns: u64,
    /// Writes completed successfully.
    pub writes_completed: u64,
    /// Bytes of these writes.
    pub written_bytes: u64,
    /// Sum of the waits of these writes.
    pub write_wait_ns: u64,
    /// I/O of any kind that failed.
    pub errors: u64,
}

/// One of the copies of a block.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Mirror {
    /// First byte of the read on the member.
    pub offset: u64,
    /// Index among all copies of the block, eligible or not.
    pub copy: u32,
    /// Zero.
    pub reserved: u32,
    /// The member that holds the copy.
    pub member: Member,
}

/// A read for which a mirror is chosen.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Choose {
    /// [`ABI`] of the host.
    pub abi: u32,
    /// Number of mirrors: at least 2, all eligible.
    pub nr: u32,
    /// Time on the clock of the volume.
    pub now_ns: u64,
    /// First byte on the volume.
    pub offset: u64,
    /// Number of bytes.
    pub length: u64,
    /// In a kernel, the process id of the reader.
    pub stream: u64,
    /// CPU on which the request was made.
    pub cpu: u32,
    /// [`BACKGROUND`], …
    pub flags: u32,
    /// Copies of the block, eligible or not.
    pub copies: u32,
    /// Members of the array.
    pub members: u32,
    /// Zero.
    pub reserved: u64,
    /// The first `nr` are mirrors, in the order of the chunk's stripes; see [`Choose::mirrors`].
    pub mirror: [Mirror; MIRRORS_MAX],
}

/// An I/O that was submitted to a member, or completed.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Event {
    /// Time on the clock of the volume.
    pub now_ns: u64,
    /// First byte on the member.
    pub offset: u64,
    /// Number of bytes; 0 for a flush.
    pub length: u64,
    /// Completion minus submission; 0 for a submission.
    pub wait_ns: u64,
    /// Stream of the request.
    pub stream: u64,
    /// Index of the member.
    pub member: u32,
    /// [`READ`], …
    pub op: u8,
    /// [`USER`], …
    pub purpose: u8,
    /// [`OK`], …
    pub result: u8,
    /// [`EVENT_EXTRA`], …
    pub flags: u8,
    /// First byte on the volume.
    pub volume_offset: u64,
    /// Names the I/O: unique among those in flight.
    pub id: u64,
}

/// A read policy: its state and its operations. Only [`Policy::choose`] is required; of the others
/// the host calls those that [`program!`] names.
pub trait Policy: Sized {
    /// State of a volume that starts.
    const START: Self;

    /// Chooses the mirror that serves a read: its index in [`Choose::mirrors`].
    fn choose(&mut self, c: &Choose) -> usize;

    /// An I/O was handed to its member. Also called for writes, and for reads that were not chosen
    /// (scrub, the only mirror left).
    fn submit(&mut self, _e: &Event) {}

    /// An I/O ended whose submission was reported.
    fn complete(&mut self, _e: &Event) {}

    /// The volume starts, or the policy is put into a running volume.
    fn init(&mut self) {}

    /// A member changed its state.
    fn change(&mut self) {}
}

impl Member {
    /// Number of I/Os in flight, of every kind.
    pub fn in_flight(&self) -> u32 {
        self.reads_in_flight + self.writes_in_flight
    }
}

impl Choose {
    /// The mirrors: all eligible, in the order of the chunk's stripes.
    pub fn mirrors(&self) -> &[Mirror] {
        &self.mirror[..(self.nr as usize).min(MIRRORS_MAX)]
    }
}
