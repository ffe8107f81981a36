//! The fair oracle: the oracle that maximises the sum of the logarithms of all streams' rates.
//!
//! **Worth.** A stream with `d` reads in flight and a mean latency `L` has the rate `d / L`. If one
//! of its reads takes `t` longer, the stream completes `t / L` fewer reads, which changes the
//! logarithm of its rate over a time `T` by `(t / L) / (T d / L) = t / (T d)`. So a nanosecond of
//! delay is worth `1 / d`, whatever the rate: proportional fairness (Kelly, "Charging and rate
//! control for elastic traffic", 1997) needs the number of reads in flight only. For a stream whose
//! rate is given, where the mean latency counts, the same holds.
//!
//! **Cost.** A read on a mirror costs its own delay there, and the time by which it makes the
//! member busy for longer, for each I/O of other streams in flight on the member: that is by how
//! much those that are overtaken, or their successors, are delayed. Each delay is weighted by its
//! worth. The read's own stream is left out of the second part: a stream that keeps a member busy
//! loses by a longer queue what the delay of its own reads already says. So with one stream the
//! fair oracle decides as the oracle does. Background I/O is worth nothing, as in the score.
//!
//! The models say both times; like the oracle, it does not know later reads.

use mirrorball_core::io::{MemberIo, Op, Outcome};
use mirrorball_core::member::MemberIndex;
use mirrorball_core::policy::{Choice, Ctx, Mirror, Read, ReadPolicy};
use mirrorball_core::units::Nanos;
use mirrorball_core::volume::Volume;
use mirrorball_disk::model::DiskIo;
use mirrorball_disk::model_array::{Impact, ModelArray};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// Bits after the point of a worth.
const WORTH_BITS: u32 = 32;

/// Foreseen effect of the next read on each of its mirrors.
#[derive(Clone, Default)]
pub(crate) struct ImpactForecast {
    // Uncontended: engine and oracle run on one thread, but a policy must be `Send`.
    impacts: Arc<Mutex<Vec<Impact>>>,
}

impl ImpactForecast {
    /// Stores the models' answers for the next choice, if there is one.
    pub(crate) fn update(&self, volume: &mut Volume, model_array: &ModelArray, now: Nanos) {
        if let Some(choice) = volume.next_choice() {
            // The volume numbers its I/O from zero, so this tag is never in flight.
            let (tag, length) = (u64::MAX, choice.read.length);
            let impact = |&Mirror { member, offset, .. }: &Mirror| {
                let io = DiskIo { tag, op: Op::Read, offset, length };
                model_array.impact_if_submitted(now, member, io)
            };
            let mut stored = self.impacts.lock().expect("no holder of this lock panics");
            stored.clear();
            stored.extend(choice.mirrors.as_slice().iter().map(impact));
        }
    }
}

/// The policy that chooses by an [`ImpactForecast`].
pub(crate) struct FairOracle {
    forecast: ImpactForecast,
    /// Foreground I/O in flight of each stream.
    in_flight: BTreeMap<u64, u64>,
    /// The same by member and stream.
    on_member: BTreeMap<(MemberIndex, u64), u64>,
}

impl FairOracle {
    pub(crate) fn new(forecast: ImpactForecast) -> FairOracle {
        FairOracle { forecast, in_flight: BTreeMap::new(), on_member: BTreeMap::new() }
    }

    /// Cost of a delay of one nanosecond to the I/O that other streams have in flight on a member.
    fn worth_on(&self, member: MemberIndex, read: &Read) -> u128 {
        let range = (member, 0)..=(member, u64::MAX);
        let worth = |(&(_, stream), &count): (&(MemberIndex, u64), &u64)| {
            u128::from(count) * self.worth(stream, read)
        };
        let is_other = |&(&(_, stream), _): &(&(MemberIndex, u64), &u64)| {
            read.background || stream != read.stream
        };
        self.on_member.range(range).filter(is_other).map(worth).sum()
    }

    /// Cost of a delay of one nanosecond of a stream's I/O, `read` being in flight too.
    fn worth(&self, stream: u64, read: &Read) -> u128 {
        let in_flight = self.in_flight.get(&stream).copied().unwrap_or(0);
        let own = u64::from(stream == read.stream && !read.background);
        (1 << WORTH_BITS) / u128::from((in_flight + own).max(1))
    }
}

impl ReadPolicy for FairOracle {
    fn choose(&mut self, read: &Read, mirrors: &[Mirror], ctx: &mut Ctx<'_>) -> Choice {
        let stored = self.forecast.impacts.lock().expect("no holder of this lock panics");
        assert_eq!(stored.len(), mirrors.len(), "the engine updates the forecast before a choice");
        let own_worth = if read.background { 0 } else { self.worth(read.stream, read) };
        let key = |&index: &usize| {
            let Impact { completion, added } = stored[index];
            let Mirror { member, .. } = mirrors[index];
            let own = u128::from(completion.saturating_sub(ctx.now).0) * own_worth;
            let others = u128::from(added.0) * self.worth_on(member, read);
            // A dead disk comes last, also for a background read.
            let is_dead = completion == Nanos::MAX;
            (is_dead, own + others, completion, ctx.members[member].in_flight())
        };
        let best = (0..mirrors.len()).min_by_key(key);
        Choice::Mirror(best.expect("a policy is asked only if there is a choice"))
    }

    fn on_submit(&mut self, io: &MemberIo, _ctx: &mut Ctx<'_>) {
        if !io.background {
            *self.in_flight.entry(io.stream).or_default() += 1;
            *self.on_member.entry((io.member, io.stream)).or_default() += 1;
        }
    }

    fn on_complete(&mut self, io: &MemberIo, _outcome: &Outcome, _ctx: &mut Ctx<'_>) {
        if !io.background {
            decrement(&mut self.in_flight, &io.stream);
            decrement(&mut self.on_member, &(io.member, io.stream));
        }
    }
}

/// Subtracts one from a count, and removes it when it is zero.
fn decrement<K: Ord>(counts: &mut BTreeMap<K, u64>, key: &K) {
    let count = counts.get_mut(key).expect("what completes was submitted");
    *count -= 1;
    if *count == 0 {
        counts.remove(key);
    }
}
