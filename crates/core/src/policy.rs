//! The trait that every read policy implements, and the types of its arguments and results.
//!
//! One method is required. The volume keeps the statistics and checks each choice, so a policy
//! trusts its inputs. `choose` decides; `on_*` notifies the policy of a fact.
//!
//! With parity there is one copy of each block and nothing to choose; but what a member holds can
//! be recovered from the other columns of its full stripe. A policy that
//! [`ReadPolicy::reconstructs`] is asked which columns a read leaves out.

use crate::column_set::ColumnSet;
use crate::io::{IoId, MemberIo, Op, Outcome, Purpose, ReadRole, RequestId};
use crate::member::{MemberIndex, Members};
use crate::rng::Rng;
use crate::units::Nanos;

/// One of the copies of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mirror {
    /// The member that holds it.
    pub member: MemberIndex,
    /// First byte on that member.
    pub offset: u64,
    /// Index among *all* copies of the block, eligible or not, in the order in which the chunk
    /// lists its stripes (in btrfs, the emptiest member at allocation first).
    pub copy: u8,
}

/// A read for which the policy chooses a mirror.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Read {
    /// First byte on the volume.
    pub offset: u64,
    /// Number of bytes; at most a strip on raid0 and raid10.
    pub length: u64,
    /// The stream that the request belongs to: in a kernel, the pid.
    pub stream: u64,
    /// The CPU on which the request was made.
    pub cpu: u32,
    /// True for background I/O.
    pub background: bool,
    /// Number of copies of the block, eligible or not.
    pub copies: u8,
}

/// A read of a part of a full stripe, of which a policy may leave columns out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StripeRead {
    /// First byte on the volume.
    pub offset: u64,
    /// Number of bytes of a column: the rows from the first to the last that are read.
    pub length: u64,
    /// The stream that the request belongs to: in a kernel, the pid.
    pub stream: u64,
    /// True for background I/O.
    pub background: bool,
    /// The columns that are read: all of them hold data.
    pub wanted: ColumnSet,
    /// The columns whose members may be read.
    pub eligible: ColumnSet,
    /// How many of the eligible columns may be left out. The others give all data.
    pub spare: usize,
}

/// The choice of a policy. Mirrors are named by their index in the slice that the policy was shown.
///
/// The volume panics if an index is out of range or both reads of a race go to one mirror.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Choice {
    /// Read the whole from this mirror.
    Mirror(usize),
    /// Cut the read into one piece for each mirror of the set, in the order of the slice. Pieces
    /// are whole logical blocks; the last may be shorter, and a mirror for which no block is left
    /// reads nothing.
    Split(MirrorSet),
    /// Read from `first`; if that has not answered `after` this time, from `backup` as well. The
    /// first good answer counts, and the other read is cancelled.
    Hedge {
        /// Index of the mirror that is read at once.
        first: usize,
        /// Index of the other mirror.
        backup: usize,
        /// Time to wait for the first.
        after: Nanos,
    },
    /// Queue the read on `first` and, if it is not next on that member `after` this time, on
    /// `second` as well. The member on which it is next first reads it; the other is cancelled.
    Tied {
        /// Index of the mirror that gets the read at once.
        first: usize,
        /// Index of the other mirror.
        second: usize,
        /// Time for which only the first has the read.
        after: Nanos,
    },
    /// Read from all mirrors of the set at once. The first good answer counts; the other reads run
    /// on.
    All(MirrorSet),
}

/// A set of indexes into a slice of mirrors; never empty.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MirrorSet(u16);

impl Read {
    /// The read of the whole from a mirror, as a volume without other requests hands it out.
    pub fn io(&self, mirror: &Mirror, submitted_at: Nanos) -> MemberIo {
        MemberIo {
            id: IoId(0),
            request: RequestId(0),
            member: mirror.member,
            op: Op::Read,
            purpose: Purpose::User,
            offset: mirror.offset,
            length: self.length,
            volume_offset: self.offset,
            stream: self.stream,
            background: self.background,
            role: ReadRole::Only,
            submitted_at,
        }
    }
}

impl Choice {
    /// Asserts that the choice names mirrors among the `count` that the policy was shown, and that
    /// a second read goes to another mirror than the first. One that does not is a bug of the
    /// policy.
    #[inline]
    pub(crate) fn check(self, count: usize) {
        let check = |index| assert!(index < count, "the policy chose mirror {index} of {count}");
        match self {
            Choice::Mirror(index) => check(index),
            Choice::Split(set) | Choice::All(set) => match set.iter().next_back() {
                Some(last) => check(last),
                None => panic!("the policy chose an empty set of mirrors"),
            },
            Choice::Hedge { first, backup: second, .. } | Choice::Tied { first, second, .. } => {
                check(first);
                check(second);
                assert!(
                    first != second,
                    "the policy chose mirror {first} for both reads of a race"
                );
            }
        }
    }

    /// Index of the mirror that is read first.
    pub fn first(self) -> usize {
        match self {
            Choice::Mirror(first) | Choice::Hedge { first, .. } | Choice::Tied { first, .. } => {
                first
            }
            Choice::Split(set) | Choice::All(set) => set.first(),
        }
    }

    /// The same choice for another slice, in which each mirror has the index that `index_in`
    /// returns for its index here.
    pub fn translated(self, index_in: impl Fn(usize) -> usize) -> Choice {
        match self {
            Choice::Mirror(index) => Choice::Mirror(index_in(index)),
            Choice::Split(set) => Choice::Split(set.translated(index_in)),
            Choice::Hedge { first, backup, after } => {
                Choice::Hedge { first: index_in(first), backup: index_in(backup), after }
            }
            Choice::Tied { first, second, after } => {
                Choice::Tied { first: index_in(first), second: index_in(second), after }
            }
            Choice::All(set) => Choice::All(set.translated(index_in)),
        }
    }
}

impl StripeRead {
    /// Asserts that a policy leaves out no more columns than the read can do without, all of them
    /// eligible. A choice that does not is a bug of the policy.
    pub(crate) fn check(&self, left_out: ColumnSet) {
        let StripeRead { eligible, spare, .. } = *self;
        assert!(left_out.is_within(eligible), "the policy left out {left_out:?} of {eligible:?}");
        let count = left_out.count();
        assert!(count <= spare, "the policy left out {count} columns where {spare} are to spare");
    }
}

impl MirrorSet {
    /// All of `mirrors`. Panics if there is none, or more than 16.
    pub fn all(mirrors: &[Mirror]) -> MirrorSet {
        assert!((1..=16).contains(&mirrors.len()), "{} mirrors do not fit", mirrors.len());
        MirrorSet(u16::MAX >> (16 - mirrors.len()))
    }

    /// The mirrors whose bit is set, or `None` if no bit is.
    pub fn of_bits(bits: u16) -> Option<MirrorSet> {
        (bits != 0).then_some(MirrorSet(bits))
    }

    /// Two mirrors. Panics if they are the same, or an index is not below 16.
    pub fn pair(first: usize, second: usize) -> MirrorSet {
        assert!(first.max(second) < 16, "a slice of mirrors has at most 16");
        assert!(first != second, "a pair has two different mirrors");
        MirrorSet(1 << first | 1 << second)
    }

    /// The indexes, ascending.
    pub fn iter(self) -> impl DoubleEndedIterator<Item = usize> {
        (0..16).filter(move |index| self.0 & 1 << index != 0)
    }

    fn first(self) -> usize {
        self.0.trailing_zeros() as usize
    }

    fn translated(self, index_in: impl Fn(usize) -> usize) -> MirrorSet {
        MirrorSet(self.iter().fold(0, |set, index| set | 1 << index_in(index)))
    }
}

/// The sources of time and randomness of a policy, which has no other, and the statistics.
pub struct Ctx<'a> {
    /// The time on the volume's clock.
    pub now: Nanos,
    /// The members with their statistics.
    pub members: &'a Members,
    /// The volume's random generator.
    pub rng: &'a mut Rng,
}

impl Ctx<'_> {
    /// The same with another random generator.
    pub fn with_rng<'b>(&'b self, rng: &'b mut Rng) -> Ctx<'b> {
        Ctx { rng, ..*self }
    }
}

/// A counter of a policy, for example `ignored` of the member with devid 6.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Counter {
    /// The member it belongs to, or `None` for the policy as a whole.
    pub member: Option<MemberIndex>,
    /// Name, with the unit if it has one (`checkpoint_wait_ns`).
    pub name: &'static str,
    /// Current value.
    pub value: i64,
}

/// The score of one mirror by which a policy decides, and the terms that it is made of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MirrorScore {
    /// The number that the policy compares; the lowest is the best. Among equals rotation or chance
    /// decides, and a policy may choose another mirror to probe it.
    pub score: ScoreTerm,
    /// The terms of the score, or the facts that decided it, in a fixed order; empty if the score
    /// says it all.
    pub parts: Vec<ScoreTerm>,
}

/// A named number of a [`MirrorScore`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ScoreTerm {
    /// Name, with the unit if it has one (`mean_wait_ns`).
    pub name: &'static str,
    /// Value.
    pub value: i64,
}

impl MirrorScore {
    /// A score without terms.
    pub fn new(name: &'static str, value: impl TryInto<i64>) -> MirrorScore {
        MirrorScore { score: ScoreTerm::new(name, value), parts: Vec::new() }
    }

    /// The score with one more term.
    pub fn with(mut self, name: &'static str, value: impl TryInto<i64>) -> MirrorScore {
        self.parts.push(ScoreTerm::new(name, value));
        self
    }
}

impl ScoreTerm {
    /// A term; a value out of range is shown as the largest.
    fn new(name: &'static str, value: impl TryInto<i64>) -> ScoreTerm {
        ScoreTerm { name, value: value.try_into().unwrap_or(i64::MAX) }
    }
}

/// Why a policy no longer decides by its own rule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PolicyFault {
    /// Name of the program that the fault ended, without parameters; `None` if the program was
    /// never started.
    pub ended_program: Option<String>,
    /// The policy, what it did, and in which operation, on one line.
    pub summary: String,
    /// Input of the policy when it did so, on several lines.
    pub dump: String,
}

/// Chooses which mirror serves a read.
///
/// A policy may wrap another, its `inner` one, which answers what the wrapper leaves out. A wrapper
/// that handles an event passes it on.
pub trait ReadPolicy: Send {
    /// The policy that this one wraps.
    fn inner(&self) -> Option<&dyn ReadPolicy> {
        None
    }

    /// The policy that this one wraps, to change.
    fn inner_mut(&mut self) -> Option<&mut dyn ReadPolicy> {
        None
    }

    /// Chooses among `mirrors`: never empty, all eligible, in the order of their chunk's stripes.
    /// With a single eligible mirror the volume does not ask.
    fn choose(&mut self, read: &Read, mirrors: &[Mirror], ctx: &mut Ctx<'_>) -> Choice;

    /// Returns true if the policy may have data of a full stripe recovered, which it decides when
    /// it is built. Then the volume calls [`ReadPolicy::leave_out`]; else it reads each column from
    /// its member.
    fn reconstructs(&self) -> bool {
        self.inner().is_some_and(|inner| inner.reconstructs())
    }

    /// Chooses the columns that a read of a full stripe leaves out: at most `read.spare` of the
    /// eligible ones. `columns` has one place for each column of the stripe, by its number, which
    /// is also its `copy`; what is read of a column begins there.
    ///
    /// If a column that is left out is wanted, the volume reads the other wanted columns, and of
    /// the rest as many as it takes to recover what is missing, under the lock of the rows.
    fn leave_out(&mut self, read: &StripeRead, columns: &[Mirror], ctx: &mut Ctx<'_>) -> ColumnSet {
        self.inner_mut().map_or_else(ColumnSet::default, |it| it.leave_out(read, columns, ctx))
    }

    /// A member I/O was handed to its member; the statistics include it. Also called for writes,
    /// and for reads that the policy did not choose (scrub, the only mirror left).
    fn on_submit(&mut self, io: &MemberIo, ctx: &mut Ctx<'_>) {
        if let Some(inner) = self.inner_mut() {
            inner.on_submit(io, ctx);
        }
    }

    /// A member I/O ended whose submission [`ReadPolicy::on_submit`] reported; the statistics
    /// include the end.
    fn on_complete(&mut self, io: &MemberIo, outcome: &Outcome, ctx: &mut Ctx<'_>) {
        if let Some(inner) = self.inner_mut() {
            inner.on_complete(io, outcome, ctx);
        }
    }

    /// The volume starts, or a member changed its state.
    fn on_members_change(&mut self, members: &Members) {
        if let Some(inner) = self.inner_mut() {
            inner.on_members_change(members);
        }
    }

    /// The policy's own counters, in a fixed order.
    fn counters(&self) -> Vec<Counter> {
        self.inner().map_or_else(Vec::new, ReadPolicy::counters)
    }

    /// The fault since which another rule decides in place of this policy's own; `None` while there
    /// was none. Only programs have faults.
    fn fault(&self) -> Option<&PolicyFault> {
        self.inner()?.fault()
    }

    /// The scores by which [`ReadPolicy::choose`] would decide now, one for each of `mirrors` in
    /// their order, to show to people; empty if the policy has none. Called only while decisions
    /// are explained, so it may allocate.
    fn explain(&self, read: &Read, mirrors: &[Mirror], ctx: &Ctx<'_>) -> Vec<MirrorScore> {
        self.inner().map_or_else(Vec::new, |inner| inner.explain(read, mirrors, ctx))
    }
}

/// A program that a volume is read by, as its records name it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeptProgram {
    /// Where its object is, with parameters and modifiers: `program:FILE?gain=4+hedge`.
    pub reference: String,
    /// Name, `program/NAME@HASH`. An object with another hash is another program.
    pub name: String,
    /// True if a fault ended it, so that the volume starts with its fallback.
    pub has_faulted: bool,
}
