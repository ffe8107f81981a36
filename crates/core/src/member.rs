//! Members and their statistics: the information that a kernel has about each device, and no more.
//!
//! Only the volume writes here; policies read. Counters run from the start of the volume and are
//! never reset, so a policy that needs a window keeps a snapshot and subtracts.

pub use crate::io::MemberIndex;

use crate::io::{IoError, MemberIo, Op, Outcome};
use crate::units::Nanos;
use std::ops::Index;

/// State of a member's contents.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MemberState {
    InSync,
    /// Being rebuilt: in sync below this byte offset, stale from there on.
    Rebuilding {
        /// The recovery offset.
        recovered_bytes: u64,
    },
    /// Missing or failed: neither read nor written.
    Failed,
}

/// The properties of a member that are fixed when the volume starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberConfig {
    /// As in btrfs: 1, 2, …
    pub devid: u64,
    pub size_bytes: u64,
    /// True if the kernel reports the device as rotational.
    pub rotational: bool,
    /// Optimal I/O size that the device reports (`io_opt`), or zero if it reports none.
    pub optimal_io_bytes: u64,
    /// Depth of the device's queue as the kernel knows it: 31 or 32 on SATA.
    pub queue_depth: u32,
    /// A policy that uses priorities prefers the higher.
    pub priority: u32,
    /// True if the member is read only when no other mirror can serve.
    pub write_mostly: bool,
    pub state: MemberState,
}

impl MemberConfig {
    /// A rotational member in sync, with a queue of 32. Its priority is `devid - 1`: `gmirror
    /// label` numbers providers so.
    pub fn new(devid: u64, size_bytes: u64) -> MemberConfig {
        MemberConfig {
            devid,
            size_bytes,
            rotational: true,
            optimal_io_bytes: 0,
            queue_depth: 32,
            priority: devid.saturating_sub(1).min(255) as u32,
            write_mostly: false,
            state: MemberState::InSync,
        }
    }
}

/// One member: its configuration, state and statistics.
#[derive(Clone, Debug)]
pub struct Member {
    /// The fixed properties; their `state` is the one at the start.
    pub config: MemberConfig,
    pub state: MemberState,
    /// Reads in flight, whatever their purpose.
    pub reads_in_flight: u32,
    /// Writes, flushes and discards in flight.
    pub writes_in_flight: u32,
    pub bytes_in_flight: u64,
    /// End offset of the last I/O submitted.
    pub submitted_end: u64,
    /// End offset of the last I/O completed.
    pub completed_end: u64,
    /// When the last I/O was submitted.
    pub submitted_at: Nanos,
    /// Wait of the last I/O completed, of any kind; zero before the first.
    pub last_wait: Nanos,
    pub reads_completed: u64,
    pub read_bytes: u64,
    pub read_wait: Nanos,
    pub writes_completed: u64,
    pub written_bytes: u64,
    pub write_wait: Nanos,
    /// I/O of any kind that failed.
    pub errors: u64,
}

impl Member {
    fn new(config: MemberConfig) -> Member {
        Member {
            state: config.state,
            config,
            reads_in_flight: 0,
            writes_in_flight: 0,
            bytes_in_flight: 0,
            submitted_end: 0,
            completed_end: 0,
            submitted_at: Nanos::ZERO,
            last_wait: Nanos::ZERO,
            reads_completed: 0,
            read_bytes: 0,
            read_wait: Nanos::ZERO,
            writes_completed: 0,
            written_bytes: 0,
            write_wait: Nanos::ZERO,
            errors: 0,
        }
    }

    /// Number of I/Os in flight, of every kind.
    #[inline]
    pub fn in_flight(&self) -> u32 {
        self.reads_in_flight + self.writes_in_flight
    }

    /// Returns true if `length` bytes at `offset` hold current data.
    #[inline]
    pub fn is_in_sync(&self, offset: u64, length: u64) -> bool {
        match self.state {
            MemberState::InSync => true,
            MemberState::Rebuilding { recovered_bytes } => offset + length <= recovered_bytes,
            MemberState::Failed => false,
        }
    }

    /// Accounts an I/O that is handed to the member.
    #[inline]
    pub(crate) fn account_submission(&mut self, io: &MemberIo) {
        match io.op {
            Op::Read => self.reads_in_flight += 1,
            Op::Write | Op::Flush | Op::Discard => self.writes_in_flight += 1,
        }
        self.bytes_in_flight += io.length;
        if io.op != Op::Flush {
            self.submitted_end = io.offset + io.length;
        }
        self.submitted_at = io.submitted_at;
    }

    /// Accounts the end of an I/O.
    #[inline]
    pub(crate) fn account_completion(&mut self, io: &MemberIo, outcome: &Outcome) {
        let in_flight = match io.op {
            Op::Read => &mut self.reads_in_flight,
            Op::Write | Op::Flush | Op::Discard => &mut self.writes_in_flight,
        };
        *in_flight = in_flight.checked_sub(1).expect("an I/O completes once, after its submission");
        self.bytes_in_flight -= io.length;
        if let Err(error) = outcome.result {
            self.errors += u64::from(error != IoError::Cancelled);
            return;
        }
        if io.op != Op::Flush {
            self.completed_end = io.offset + io.length;
        }
        self.last_wait = outcome.wait;
        let (count, bytes, wait) = match io.op {
            Op::Read => (&mut self.reads_completed, &mut self.read_bytes, &mut self.read_wait),
            Op::Write => {
                (&mut self.writes_completed, &mut self.written_bytes, &mut self.write_wait)
            }
            Op::Flush | Op::Discard => return,
        };
        *count += 1;
        *bytes += io.length;
        *wait += outcome.wait;
    }
}

/// All members of an array, in the order of their indexes.
#[derive(Clone, Debug)]
pub struct Members {
    list: Vec<Member>,
    copies_are_apart: bool,
}

impl Members {
    /// The members of an array at the start of its volume. Panics if there are more than 2^16
    /// members.
    pub fn new(configs: impl IntoIterator<Item = MemberConfig>) -> Members {
        let list: Vec<Member> = configs.into_iter().map(Member::new).collect();
        assert!(list.len() <= 1 << 16, "{} members do not fit an index", list.len());
        Members { list, copies_are_apart: false }
    }

    /// Returns true if the layout places the copies of a block at different offsets by design, as
    /// the `far` and `offset` layouts of md raid10 do. The kernel that reads such an array knows
    /// it.
    pub fn copies_are_apart(&self) -> bool {
        self.copies_are_apart
    }

    /// Says where the layout places copies, before any policy is asked.
    pub(crate) fn set_copies_are_apart(&mut self, copies_are_apart: bool) {
        self.copies_are_apart = copies_are_apart;
    }

    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Returns true if there is no member.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Each member with its index, in order.
    pub fn iter(&self) -> impl Iterator<Item = (MemberIndex, &Member)> {
        self.list.iter().enumerate().map(|(index, member)| (MemberIndex(index as u16), member))
    }

    /// Number of members with current data, if only at their beginning.
    pub fn with_data(&self) -> usize {
        self.list.iter().filter(|member| member.is_in_sync(0, 1)).count()
    }

    pub fn find(&self, devid: u64) -> Option<MemberIndex> {
        self.iter().find(|(_, member)| member.config.devid == devid).map(|(index, _)| index)
    }

    /// The member, to change. For the volume, and for tests and benches of policies that act as
    /// one.
    #[inline]
    pub fn get_mut(&mut self, index: MemberIndex) -> &mut Member {
        &mut self.list[index.get()]
    }
}

impl Index<MemberIndex> for Members {
    type Output = Member;
    #[inline]
    fn index(&self, index: MemberIndex) -> &Member {
        &self.list[index.get()]
    }
}
