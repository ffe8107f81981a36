//! Followers of a run, which change nothing in it: the trace of choices, and the log of the I/O of
//! members that a picture is drawn from.

use crate::explain::DecisionTrace;
use mirrorball_core::io::{IoId, MemberIo, Op, Outcome};
use mirrorball_core::member::MemberIndex;
use mirrorball_core::units::Nanos;
use mirrorball_core::volume::Volume;
use mirrorball_disk::model_array::ModelArray;

pub(crate) enum Watcher {
    Decisions(DecisionTrace),
    /// Records I/O of members.
    Io(IoLog),
}

/// A member I/O that a log has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LoggedIo {
    /// Identity while it is in flight.
    pub id: IoId,
    pub member: MemberIndex,
    pub op: Op,
    /// First byte on the member.
    pub offset: u64,
    pub length: u64,
    /// The stream of its request: one for each clone of a section.
    pub stream: u64,
    /// True if it serves background work.
    pub is_background: bool,
    /// When it was handed to the member.
    pub at: Nanos,
    /// When it ended, and whether it succeeded; none while it is in flight.
    pub end: Option<(Nanos, bool)>,
}

/// The I/O of members since the log was last taken.
#[derive(Debug, Default)]
pub(crate) struct IoLog {
    /// When the run pauses.
    pub(crate) pause_at: Nanos,
    /// In the order of their events: each I/O when it begins, and again when it ends.
    pub(crate) events: Vec<LoggedIo>,
    /// Bytes that foreground reads returned.
    pub(crate) read_bytes: u64,
    pub(crate) reads: u64,
}

impl IoLog {
    /// Most events that are kept; what follows is counted, and not drawn.
    const EVENTS_MAX: usize = 4096;

    fn keep(&mut self, io: &MemberIo, end: Option<(Nanos, bool)>) {
        if self.events.len() < IoLog::EVENTS_MAX {
            self.events.push(LoggedIo {
                id: io.id,
                member: io.member,
                op: io.op,
                offset: io.offset,
                length: io.length,
                stream: io.stream,
                is_background: io.background,
                at: io.submitted_at,
                end,
            });
        }
    }

    fn on_complete(&mut self, io: &MemberIo, outcome: &Outcome) {
        let is_ok = outcome.result.is_ok();
        self.keep(io, Some((outcome.completed_at, is_ok)));
        if is_ok && io.op == Op::Read && !io.background {
            self.read_bytes += io.length;
            self.reads += 1;
        }
    }
}

impl Watcher {
    /// Whether the run ends, or pauses, now.
    pub(crate) fn is_done(&self, now: Nanos) -> bool {
        match self {
            Watcher::Decisions(trace) => trace.is_done(now),
            Watcher::Io(log) => now >= log.pause_at,
        }
    }

    /// Reports that the volume is about to hand out I/O.
    pub(crate) fn before_io(&mut self, volume: &mut Volume, model_array: &ModelArray, now: Nanos) {
        if let Watcher::Decisions(trace) = self {
            trace.before_io(volume, model_array, now);
        }
    }

    /// Reports that a member I/O was submitted.
    pub(crate) fn on_submit(&mut self, io: &MemberIo) {
        match self {
            Watcher::Decisions(trace) => trace.on_submit(io),
            Watcher::Io(log) => log.keep(io, None),
        }
    }

    /// Reports that a member I/O ended.
    pub(crate) fn on_complete(&mut self, io: &MemberIo, outcome: &Outcome) {
        match self {
            Watcher::Decisions(trace) => trace.on_complete(io, outcome),
            Watcher::Io(log) => log.on_complete(io, outcome),
        }
    }
}
