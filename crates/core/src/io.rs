//! Requests to a volume, the member I/O that they take, and the outcomes of both.

use crate::units::Nanos;
use std::fmt;

/// Number of a member within its array, counted from zero. Users see its `devid` instead.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct MemberIndex(pub u16);

/// Names a request; chosen by the executor and returned with the reply.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct RequestId(pub u64);

/// Names a member I/O; chosen by the volume, unique among those in flight.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct IoId(pub u64);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RequestKind {
    /// Read the range once, from the mirrors that the policy chooses.
    Read,
    /// Write the range to every mirror.
    Write,
    /// Make every write that was replied to before this request durable.
    Flush,
    /// Tell the members that the range is no longer needed.
    Discard,
    /// Read every mirror of the range and rewrite those that fail; with parity, every column of the
    /// full stripes of the range.
    Scrub,
    /// Copy a range of a member that is being rebuilt from the other mirrors. Offset and length of
    /// the request are on that member, not on the volume.
    Rebuild(MemberIndex),
    /// Copy a range whose mirrors may differ from the mirror that it is read from to the others.
    Resync,
    /// Copy a range from the mirror on this member to the others. Fails if that cannot be read.
    Repair(MemberIndex),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// Returned with the reply.
    pub id: RequestId,
    pub kind: RequestKind,
    /// First byte, on the volume (on the member for [`RequestKind::Rebuild`]).
    pub offset: u64,
    /// Number of bytes; ignored for a flush.
    pub length: u64,
    /// The stream that the request belongs to: in a kernel, the pid.
    pub stream: u64,
    /// The CPU on which the request was made; in a service, the number of the stream.
    pub cpu: u32,
    /// True for background I/O: defrag, scrub, rebuild.
    pub background: bool,
}

/// Operation of a member I/O.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    Read,
    Write,
    /// Make completed writes durable.
    Flush,
    Discard,
}

/// The reason for a member I/O.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Purpose {
    /// A read, write, flush or discard request.
    User,
    /// The rewrite of a mirror that could not be read, with data from another mirror.
    Repair,
    Scrub,
    /// The rebuild of a member, or a resync.
    Rebuild,
    /// An update of the metadata of a member. Its bytes come from the [gate](crate::volume::gate)
    /// of the volume, and it serves no request.
    Metadata,
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
    /// A read or write of a part of a full stripe. Its bytes are not in the buffer of the request
    /// but at [`Volume::stripe_place`](crate::volume::Volume::stripe_place).
    Stripe,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemberIo {
    /// Returned to the volume on completion.
    pub id: IoId,
    pub request: RequestId,
    pub member: MemberIndex,
    pub op: Op,
    pub purpose: Purpose,
    /// First byte, on the member.
    pub offset: u64,
    /// Number of bytes; zero for a flush.
    pub length: u64,
    /// First byte, on the volume: it gives the part of the request's buffer. Of a full stripe, the
    /// first byte of its data or of the strip, which may lie outside of the request.
    pub volume_offset: u64,
    pub stream: u64,
    /// True for background I/O.
    pub background: bool,
    /// The part of this read among several reads of the same data. If it is not
    /// [`ReadRole::Only`], the executor reads into a separate buffer, and keeps the data of the
    /// read that succeeds and is not [`Outcome::superseded`].
    pub role: ReadRole,
    /// When the I/O was handed to the member.
    pub submitted_at: Nanos,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IoError {
    /// The medium could not be read or written there; other ranges may be readable.
    Medium,
    /// The member did not answer in time, or its transport failed.
    Transport,
    Gone,
    /// The data do not match their checksums: the medium returned other data than were written.
    Checksum,
    /// The executor cancelled it because
    /// [`Volume::poll_cancel`](crate::volume::Volume::poll_cancel) named it. Not an error of the
    /// member.
    Cancelled,
}

/// The end of a member I/O.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// Success, or the error.
    pub result: Result<(), IoError>,
    /// When the I/O completed.
    pub completed_at: Nanos,
    /// Completion minus submission, queueing included.
    pub wait: Nanos,
    /// True if another mirror answered first, so that this data is not needed.
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
    ReadOnly,
}

impl MemberIndex {
    #[inline]
    pub const fn get(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for VolumeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            VolumeError::OutOfRange => {
                "the range is outside the volume or not in whole blocks of 512 bytes"
            }
            VolumeError::Unreadable => "too few of the members that hold the range could be read",
            VolumeError::Unwritable => {
                "too few of the members that hold the range could be written"
            }
            VolumeError::NotRebuilding => "the member is not being rebuilt",
            VolumeError::ReadOnly => "the volume is read-only",
        })
    }
}

impl std::error::Error for VolumeError {}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reply {
    pub request: RequestId,
    /// Success, or the error.
    pub result: Result<(), VolumeError>,
}
