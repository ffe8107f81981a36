//! What goes in and out of a volume: requests, the member I/O made of them, and their outcomes.

use crate::member::MemberIndex;
use crate::units::Nanos;
use std::fmt;

/// Names a request; chosen by whoever submits it and given back with the reply.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct RequestId(pub u64);

/// Names a member I/O; chosen by the volume, unique among those in flight.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct IoId(pub u64);

/// What a request asks of the volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RequestKind {
    /// Read the range once, from whichever mirrors the policy chooses.
    Read,
    /// Write the range to every mirror.
    Write,
    /// Make every write that was replied to before this request durable.
    Flush,
    /// Tell the members that the range is no longer needed.
    Discard,
    /// Read every mirror of the range and rewrite those that fail: what a scrub does.
    Scrub,
    /// Copy a range of a member that is being rebuilt from the other mirrors. Offset and length
    /// of the request count on that member, not on the volume.
    Rebuild(MemberIndex),
}

/// A request to the volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// Given back in the reply.
    pub id: RequestId,
    /// What is asked.
    pub kind: RequestKind,
    /// First byte, on the volume (on the member for [`RequestKind::Rebuild`]).
    pub offset: u64,
    /// Number of bytes; ignored for a flush.
    pub length: u64,
    /// Who asks: what a kernel would know as the pid.
    pub stream: u64,
    /// The CPU on which the request was made.
    pub cpu: u32,
    /// Whether nobody waits for it: defrag, scrub, rebuild.
    pub background: bool,
}

/// What a member is asked to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    /// Read the range.
    Read,
    /// Write the range.
    Write,
    /// Make completed writes durable.
    Flush,
    /// Forget the range.
    Discard,
}

/// Why the volume issued a member I/O.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Purpose {
    /// A request asked for it.
    User,
    /// It rewrites a mirror whose read failed with data from another.
    Repair,
    /// It belongs to a scrub.
    Scrub,
    /// It belongs to the rebuild of a member.
    Rebuild,
}

/// The part that a read plays among several reads of the same data.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ReadRole {
    /// No other mirror is read: the executor may read straight into the buffer of the request.
    #[default]
    Only,
    /// The first read; others may be issued while it is in flight.
    First,
    /// A further read of data whose first read is in flight.
    Extra,
}

/// One I/O to one member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemberIo {
    /// Given back to the volume on completion.
    pub id: IoId,
    /// The request it serves.
    pub request: RequestId,
    /// The member it goes to.
    pub member: MemberIndex,
    /// What the member is asked to do.
    pub op: Op,
    /// Why.
    pub purpose: Purpose,
    /// First byte, on the member.
    pub offset: u64,
    /// Number of bytes; zero for a flush.
    pub length: u64,
    /// First byte, on the volume: tells an executor which part of the request's buffer it is.
    pub volume_offset: u64,
    /// Who asked.
    pub stream: u64,
    /// Whether nobody waits for it.
    pub background: bool,
    /// The part of this read among several reads of the same data. If it is not
    /// [`ReadRole::Only`], the executor reads into a separate buffer, and keeps the data of the
    /// read that succeeds and is not [`Outcome::superseded`].
    pub role: ReadRole,
    /// When it was handed to the member.
    pub submitted_at: Nanos,
}

/// How a member I/O went wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IoError {
    /// The medium could not be read or written there; other ranges may be well.
    Medium,
    /// The member did not answer in time, or its transport failed.
    Transport,
    /// The member is gone.
    Gone,
    /// It was withdrawn because [`Volume::poll_cancel`](crate::volume::Volume::poll_cancel) named
    /// it: nobody's fault.
    Cancelled,
}

/// How and when a member I/O ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// Whether it succeeded.
    pub result: Result<(), IoError>,
    /// When it completed.
    pub completed_at: Nanos,
    /// Completion minus submission, queueing included.
    pub wait: Nanos,
    /// Whether another mirror had answered before, so that its data is not wanted any more.
    pub superseded: bool,
}

/// Why a request failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum VolumeError {
    /// The range does not lie within the volume, or is not in whole logical blocks.
    OutOfRange,
    /// No mirror of some part of the range could be read.
    Unreadable,
    /// No mirror of some part of the range could be written.
    Unwritable,
    /// The member named by a rebuild is not being rebuilt.
    NotRebuilding,
}

impl fmt::Display for VolumeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            VolumeError::OutOfRange => {
                "the range is outside the volume or not in whole blocks of 512 bytes"
            }
            VolumeError::Unreadable => "no mirror of the range could be read",
            VolumeError::Unwritable => "no mirror of the range could be written",
            VolumeError::NotRebuilding => "the member is not being rebuilt",
        })
    }
}

impl std::error::Error for VolumeError {}

/// The end of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reply {
    /// The request that ended.
    pub request: RequestId,
    /// Whether it succeeded.
    pub result: Result<(), VolumeError>,
}
