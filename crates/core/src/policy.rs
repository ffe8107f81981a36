//! The trait that every read policy implements, and what a policy is shown.
//!
//! One method is required. The volume keeps the books and asserts around each call, so a policy
//! trusts its inputs. `on_*` reports a fact; `choose` decides.

use crate::io::{MemberIo, Outcome};
use crate::member::{MemberIndex, Members};
use crate::rng::Rng;
use crate::units::Nanos;

/// One of the copies of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mirror {
    /// The member that holds it.
    pub member: MemberIndex,
    /// Its first byte on that member.
    pub offset: u64,
    /// Its place among *all* copies of the block, eligible or not, in the order in which the chunk
    /// lists its stripes (the emptiest member at allocation first, in btrfs).
    pub copy: u8,
}

/// A read that wants a mirror.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Read {
    /// First byte on the volume.
    pub offset: u64,
    /// Number of bytes: at most a strip on raid0 and raid10, as asked otherwise.
    pub length: u64,
    /// Who asks: what a kernel would know as the pid.
    pub stream: u64,
    /// The CPU on which the request was made.
    pub cpu: u32,
    /// Whether nobody waits for it.
    pub background: bool,
    /// How many copies the block has, eligible or not.
    pub copies: u8,
}

/// What a policy answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Choice {
    /// Read it all from this mirror, by its place in the slice.
    Mirror(usize),
    /// Cut the read into as many pieces as there are places and read one from each, in the order
    /// of the slice. Pieces are whole logical blocks; the last may be shorter, and a mirror for
    /// which none is left reads nothing.
    Split(MirrorSet),
    /// Read it from `first`; if that has not answered `after` this time, from `backup` as well.
    /// The first good answer counts, and the other read is cancelled.
    Hedge {
        /// Place of the mirror that is read at once.
        first: usize,
        /// Place of the other.
        backup: usize,
        /// How long to wait for the first.
        after: Nanos,
    },
    /// Queue it on `first` and, if it is not next in line there `after` this time, on `second` as
    /// well. Where it is next in line first it is read; the other is cancelled.
    Tied {
        /// Place of the mirror that gets it at once.
        first: usize,
        /// Place of the other.
        second: usize,
        /// How long the first may have it alone.
        after: Nanos,
    },
    /// Read it from all of these at once. The first good answer counts; the other reads run on.
    All(MirrorSet),
}

/// A set of places in a slice of mirrors; never empty.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MirrorSet(u16);

impl Choice {
    /// The place of the mirror that is read whatever happens.
    pub fn first(self) -> usize {
        match self {
            Choice::Mirror(first) | Choice::Hedge { first, .. } | Choice::Tied { first, .. } => {
                first
            }
            Choice::Split(places) | Choice::All(places) => places.first(),
        }
    }

    /// The same choice in a slice in which the mirror of each place stands at `place_of` it.
    pub fn translated(self, place_of: impl Fn(usize) -> usize) -> Choice {
        match self {
            Choice::Mirror(place) => Choice::Mirror(place_of(place)),
            Choice::Split(places) => Choice::Split(places.translated(place_of)),
            Choice::Hedge { first, backup, after } => {
                Choice::Hedge { first: place_of(first), backup: place_of(backup), after }
            }
            Choice::Tied { first, second, after } => {
                Choice::Tied { first: place_of(first), second: place_of(second), after }
            }
            Choice::All(places) => Choice::All(places.translated(place_of)),
        }
    }
}

impl MirrorSet {
    /// Every place of `mirrors`.
    pub fn all(mirrors: &[Mirror]) -> MirrorSet {
        assert!((1..=16).contains(&mirrors.len()), "{} mirrors do not fit", mirrors.len());
        MirrorSet(u16::MAX >> (16 - mirrors.len()))
    }

    /// These two.
    pub fn pair(first: usize, second: usize) -> MirrorSet {
        assert!(first.max(second) < 16, "a slice of mirrors has at most 16 places");
        MirrorSet(1 << first | 1 << second)
    }

    /// The places, ascending.
    pub fn iter(self) -> impl DoubleEndedIterator<Item = usize> {
        (0..16).filter(move |place| self.0 & 1 << place != 0)
    }

    fn first(self) -> usize {
        self.0.trailing_zeros() as usize
    }

    fn translated(self, place_of: impl Fn(usize) -> usize) -> MirrorSet {
        MirrorSet(self.iter().fold(0, |set, place| set | 1 << place_of(place)))
    }
}

/// The only sources of time and chance that a policy has.
pub struct Ctx<'a> {
    /// The time on the volume's clock.
    pub now: Nanos,
    /// The volume's generator.
    pub rng: &'a mut Rng,
}

/// A counter that a policy shows, for example `ignored` of the member with devid 6.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Counter {
    /// The member it belongs to, or `None` for the policy as a whole.
    pub member: Option<MemberIndex>,
    /// What it counts, with its unit where it has one (`checkpoint_wait_ns`).
    pub name: &'static str,
    /// Its value now.
    pub value: i64,
}

/// Why a policy would take or leave one mirror: a score, and what that is made of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MirrorScore {
    /// What the policy compares, the lowest being the best. Of equals a turn or chance decides, and
    /// a policy may take another for once, to learn about it.
    pub score: ScoreTerm,
    /// What the score is made of or was decided by, in a fixed order; empty where it says it all.
    pub parts: Vec<ScoreTerm>,
}

/// A named number of a [`MirrorScore`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ScoreTerm {
    /// What it is, with its unit where it has one (`mean_wait_ns`).
    pub name: &'static str,
    /// How much of it.
    pub value: i64,
}

impl MirrorScore {
    /// A score without parts.
    pub fn new(name: &'static str, value: impl TryInto<i64>) -> MirrorScore {
        MirrorScore { score: ScoreTerm::new(name, value), parts: Vec::new() }
    }

    /// The same with one more part.
    pub fn with(mut self, name: &'static str, value: impl TryInto<i64>) -> MirrorScore {
        self.parts.push(ScoreTerm::new(name, value));
        self
    }
}

impl ScoreTerm {
    /// A part; a value beyond the range is shown as the largest.
    fn new(name: &'static str, value: impl TryInto<i64>) -> ScoreTerm {
        ScoreTerm { name, value: value.try_into().unwrap_or(i64::MAX) }
    }
}

/// Chooses which mirror serves a read.
pub trait ReadPolicy: Send {
    /// Chooses among `mirrors`: never empty, all eligible, in the order of their chunk's stripes.
    /// With a single eligible mirror the volume does not ask.
    fn choose(
        &mut self,
        read: &Read,
        mirrors: &[Mirror],
        members: &Members,
        ctx: &mut Ctx<'_>,
    ) -> Choice;

    /// A member I/O was handed to its member; the books include it. Reads that were not chosen by
    /// the policy (scrub, the only mirror left) and writes are reported too.
    fn on_submit(&mut self, _io: &MemberIo, _ctx: &mut Ctx<'_>) {}

    /// A member I/O ended of which [`ReadPolicy::on_submit`] told; the books include that.
    fn on_complete(&mut self, _io: &MemberIo, _outcome: &Outcome, _ctx: &mut Ctx<'_>) {}

    /// The volume starts, or a member changed its state.
    fn on_members_change(&mut self, _members: &Members) {}

    /// The policy's own counters, in a fixed order.
    fn counters(&self) -> Vec<Counter> {
        Vec::new()
    }

    /// For people: what [`ReadPolicy::choose`] would go by if it were asked this now, a reason for
    /// each of `mirrors` in their order, or nothing from a policy that does not tell. Asked only
    /// while decisions are explained, so it may allocate.
    fn explain(
        &self,
        _read: &Read,
        _mirrors: &[Mirror],
        _members: &Members,
        _now: Nanos,
    ) -> Vec<MirrorScore> {
        Vec::new()
    }
}
