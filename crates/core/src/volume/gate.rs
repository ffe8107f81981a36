//! The gate of a volume: what requests and pieces wait for apart from locks and member I/O.
//!
//! A volume that keeps data must not start a write before its members know of it, nor reply before
//! they know which of them missed it. The volume asks its [`Gate`] before a request is cut, before
//! the first I/O of a piece, and before a piece ends. What has to wait, the gate remembers and
//! returns later from [`Gate::poll_released`]; the volume then asks again. Meanwhile the gate
//! writes its metadata by member I/O of its own ([`Gate::poll_io`]).
//!
//! A gate is a state machine without I/O and without a clock, as the volume is. It is called with
//! the [`Array`]: the layout, and the states of the members, which it may change. A simulation and
//! an emulated volume have no gate: nothing waits.

use super::member_states::MemberStates;
pub use super::piece::GateMarks;
use super::piece::{PieceKey, RequestKey};
use super::plan::PiecePlan;
use super::plan::{PlanTarget, TargetSet};
use crate::geometry::ChunkMap;
use crate::io::{IoError, MemberIo, Op, Request, RequestKind, VolumeError};
use crate::member::MemberIndex;
use crate::units::Nanos;
use std::ops::Range;

/// Layout and members of the volume, as its gate uses them.
pub struct Array<'a> {
    pub map: &'a ChunkMap,
    pub states: &'a mut MemberStates,
}

/// A piece of a request, as its gate sees it.
#[derive(Clone, Debug)]
pub struct PieceView {
    /// Key of the piece, valid until [`GateEvent::Ended`].
    pub key: PieceKey,
    /// Kind of the piece. A part of a scrub or resync may be a repair.
    pub kind: RequestKind,
    /// The range, and where it lies on members.
    pub plan: PiecePlan,
    pub request: RequestKey,
    pub request_kind: RequestKind,
    /// First byte of the request.
    pub request_offset: u64,
    /// True if the piece holds the lock of its range.
    pub has_lock: bool,
    /// Targets that the piece has written with success, and read back if it does that.
    pub written: TargetSet,
    pub marks: GateMarks,
}

/// Whether a request or a piece may go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GateAnswer {
    Go,
    /// It waits until [`Gate::poll_released`] returns it.
    Wait,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Closing {
    End,
    /// This member is flushed first. Then the gate is asked again.
    FlushFirst(MemberIndex),
}

/// A request or piece that need not wait any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Released {
    /// A request that [`Gate::open`] held: it is cut into pieces, or fails.
    Request(RequestKey, Result<(), VolumeError>),
    /// A piece that [`Gate::admit`] held.
    Start(PieceKey),
    /// A piece that [`Gate::settle`] held.
    End(PieceKey),
    /// A piece that either held. It fails.
    Fail(PieceKey),
}

/// A fact that the volume reports to its gate.
#[derive(Clone, Copy, Debug)]
pub enum GateEvent<'a> {
    MemberSet {
        member: MemberIndex,
        /// True if it had failed before.
        had_failed: bool,
    },
    /// A member that the volume cannot do without failed a flush.
    FlushFailed(MemberIndex),
    /// A range of a member was rebuilt, by this request.
    Rebuilt(MemberIndex, RequestKey),
    /// A part was cut off a piece. It has the marks of the piece.
    Divided(&'a PieceView),
    Ended(&'a PieceView),
    Closed(RequestKey),
    /// A write of a range failed on mirrors that stay, so they may differ.
    WriteFailed(&'a Range<u64>),
    /// Mirrors of a range differ, or may, from now on.
    Differs(&'a Range<u64>),
    /// Targets of a piece are being rewritten with good data.
    Rewriting(&'a PieceView, TargetSet),
}

/// The judgement of a part of a piece whose mirrors were compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Judgement {
    /// Nothing is to be done.
    Fine,
    /// The part is to be copied from this target to others.
    Copy(PlanTarget),
    /// No mirror has the part.
    Lost,
}

/// The judgement of a piece: of each unit of [`Gate::unit_bytes`], in order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Judged {
    pub first: PlanTarget,
    pub units: Vec<Judgement>,
}

/// Why no mirror could give a piece.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnreadableReason {
    /// True if the data of some targets did not match their checksums.
    pub is_mismatch: bool,
    /// True if every mirror in sync lacks it, or its medium or checksum is bad there. Else one that
    /// did not answer may have it.
    pub is_lost: bool,
}

/// How a piece goes on that no mirror could give.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unreadable {
    Fail,
    /// The piece is left out, and its request goes on.
    LeaveOut,
    /// Targets whose data did not match are read without a check.
    ReadUnchecked,
}

/// A member I/O of metadata.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MetadataIo {
    /// Names the I/O to the gate.
    pub token: u32,
    pub member: MemberIndex,
    pub op: Op,
    /// First byte, on the member.
    pub offset: u64,
    /// Number of bytes; zero for a flush.
    pub length: u64,
}

/// Decides when requests and pieces may start and end. See the page of this module.
///
/// A method that a gate does not have does what a volume without a gate does.
pub trait Gate {
    /// False for [`NoGate`]. The check for a gate then costs nothing.
    const EXISTS: bool = true;

    /// Decides whether a request may be cut into pieces.
    ///
    /// # Errors
    /// With which the request fails at once.
    fn open(
        &mut self,
        _key: RequestKey,
        _request: &Request,
        _array: &mut Array<'_>,
    ) -> Result<GateAnswer, VolumeError> {
        Ok(GateAnswer::Go)
    }

    /// Decides whether a request may end all of whose pieces have succeeded.
    fn close(&mut self, _key: RequestKey, _request: &Request, _array: &mut Array<'_>) -> Closing {
        Closing::End
    }

    /// Decides whether a piece may start, and sets its marks.
    fn admit(&mut self, _piece: &mut PieceView, _array: &mut Array<'_>) -> GateAnswer {
        GateAnswer::Go
    }

    /// Decides whether a piece may end.
    fn settle(&mut self, _piece: &PieceView, _array: &mut Array<'_>) -> GateAnswer {
        GateAnswer::Go
    }

    /// Handles a fact.
    fn on_event(&mut self, _event: GateEvent<'_>, _array: &mut Array<'_>) {}

    /// Returns what need not wait any more, one at a time.
    fn poll_released(&mut self) -> Option<Released> {
        None
    }

    /// Returns true if a range is to be read from its first mirror only, because mirrors differ.
    fn reads_first_only(&self, _range: &Range<u64>) -> bool {
        false
    }

    /// Returns the targets that lack a part of a piece: they are not read for it. A scrub rewrites
    /// them.
    fn lacking(&self, _plan: &PiecePlan) -> TargetSet {
        TargetSet::default()
    }

    /// Returns the first offset inside a range at which begins or ends what a member lacks.
    fn lacking_edge(&self, _range: &Range<u64>) -> Option<u64> {
        None
    }

    /// Returns true if a range of a member that is being rebuilt may lack something.
    fn may_lack(&self, _member: MemberIndex, _range: &Range<u64>) -> bool {
        true
    }

    /// Returns the offset behind `offset` at which a piece ends at the latest.
    fn piece_end(&self, _offset: u64) -> u64 {
        u64::MAX
    }

    /// Number of bytes that are checked and judged together; zero if data have no checksums.
    fn unit_bytes(&self) -> u64 {
        0
    }

    /// Judges a piece of a scrub or resync by what was read of its mirrors. The targets in
    /// `to_copy` are to be written whatever the others hold. Returns `None` if nothing was read.
    fn judge(
        &mut self,
        _piece: &PieceView,
        _to_copy: TargetSet,
        _array: &mut Array<'_>,
    ) -> Option<Judged> {
        None
    }

    /// Decides how a piece goes on that no mirror could give, for this reason.
    fn on_unreadable(
        &mut self,
        _piece: &PieceView,
        _reason: UnreadableReason,
        _array: &mut Array<'_>,
    ) -> Unreadable {
        Unreadable::Fail
    }

    /// Returns true if [`Gate::poll_io`] has something to do, which may still lead to no I/O.
    fn has_io(&self) -> bool {
        false
    }

    /// Returns the next I/O of metadata.
    fn poll_io(&mut self, _now: Nanos, _array: &mut Array<'_>) -> Option<MetadataIo> {
        None
    }

    /// Handles the end of an I/O of metadata.
    fn complete(
        &mut self,
        _token: u32,
        _io: &MemberIo,
        _result: Result<(), IoError>,
        _now: Nanos,
        _array: &mut Array<'_>,
    ) {
    }

    /// Sets the timeout of what became due at a later time. Called at the end of each member I/O.
    fn arm_timeout(&mut self, _now: Nanos) {}

    /// When [`Gate::on_timeout`] is due, if nothing happens before.
    fn poll_timeout(&self) -> Option<Nanos> {
        None
    }

    /// Does what is due at `now`.
    fn on_timeout(&mut self, _now: Nanos, _array: &mut Array<'_>) {}
}

/// The type of the gate of a volume that never has one.
#[derive(Clone, Copy, Debug)]
pub enum NoGate {}

impl Gate for NoGate {
    const EXISTS: bool = false;
}
