//! The oracle: chooses the mirror that the disks' models say will complete the read first.
//!
//! Before each choice the engine asks the models for the completion time of the read on each
//! mirror; the oracle takes the earliest. It is an upper bound that no real policy can reach,
//! because the models know their own random draws. It is greedy: it does not know later reads, so a
//! policy may beat it now and then, for example by keeping a stream on one disk.

use mirrorball_core::io::Op;
use mirrorball_core::member::Members;
use mirrorball_core::policy::{Choice, Ctx, Mirror, Read, ReadPolicy};
use mirrorball_core::units::Nanos;
use mirrorball_core::volume::{NextChoice, Volume};
use mirrorball_disk::model::DiskIo;
use mirrorball_disk::model_array::ModelArray;
use std::sync::{Arc, Mutex};

/// Expected completion times for the next choice, one for each eligible mirror.
#[derive(Clone, Default)]
pub(crate) struct CompletionForecast {
    // Uncontended: engine and oracle run on one thread, but a policy must be `Send`.
    completions: Arc<Mutex<Vec<Nanos>>>,
}

impl CompletionForecast {
    /// Stores the models' answers for the next choice, if there is one.
    pub(crate) fn update(&self, volume: &mut Volume, model_array: &ModelArray, now: Nanos) {
        if let Some(choice) = volume.next_choice() {
            let mut stored = self.completions.lock().expect("no holder of this lock panics");
            stored.clear();
            stored.extend(completions(&choice, model_array, now));
        }
    }
}

/// Completion time of the read on each mirror of a choice, by the member's model.
pub(crate) fn completions(
    choice: &NextChoice,
    model_array: &ModelArray,
    now: Nanos,
) -> impl Iterator<Item = Nanos> {
    // The volume numbers its I/O from zero, so this tag is never in flight.
    let (tag, length) = (u64::MAX, choice.read.length);
    choice.mirrors.as_slice().iter().map(move |&Mirror { member, offset, .. }| {
        model_array.completion_if_submitted(
            now,
            member,
            DiskIo { tag, op: Op::Read, offset, length },
        )
    })
}

/// The policy that chooses by a [`CompletionForecast`].
pub(crate) struct Oracle {
    forecast: CompletionForecast,
}

impl Oracle {
    pub(crate) fn new(forecast: CompletionForecast) -> Oracle {
        Oracle { forecast }
    }
}

impl ReadPolicy for Oracle {
    fn choose(&mut self, _read: &Read, mirrors: &[Mirror], ctx: &mut Ctx<'_>) -> Choice {
        let stored = self.forecast.completions.lock().expect("no holder of this lock panics");
        assert_eq!(stored.len(), mirrors.len(), "the engine updates the forecast before a choice");
        Choice::Mirror(earliest(&stored, mirrors, ctx.members))
    }
}

/// Index of the mirror with the earliest expected completion.
pub(crate) fn earliest(completions: &[Nanos], mirrors: &[Mirror], members: &Members) -> usize {
    // A dead disk never completes: `Nanos::MAX`. Of equal times, the member with less in flight:
    // the times may be equal only because both queue behind the same link.
    let key = |&index: &usize| (completions[index], members[mirrors[index].member].in_flight());
    let earliest = (0..mirrors.len()).min_by_key(key);
    earliest.expect("a policy is asked only if there is a choice")
}
