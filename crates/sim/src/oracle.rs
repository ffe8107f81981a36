//! The clairvoyant oracle: an upper bound that no policy can honestly reach.
//!
//! Before each choice the engine asks the models themselves when the read would complete on each
//! mirror, and posts the answers; the oracle takes the earliest. It is greedy: it sees what the
//! disks will do with what they hold, chance included, but nothing of the reads to come. A policy
//! may therefore beat it now and then, for example by keeping a stream on one disk.

use mirrorball_core::io::Op;
use mirrorball_core::member::Members;
use mirrorball_core::policy::{Choice, Ctx, Mirror, Read, ReadPolicy};
use mirrorball_core::units::Nanos;
use mirrorball_core::volume::{NextChoice, Volume};
use mirrorball_disk::bank::Bank;
use mirrorball_disk::model::DiskIo;
use std::sync::{Arc, Mutex};

/// What the models foresee for the next choice: one time of completion for each eligible mirror.
#[derive(Clone, Default)]
pub(crate) struct Foresight {
    // Uncontended: engine and oracle live on one thread, but a policy must be `Send`.
    completions: Arc<Mutex<Vec<Nanos>>>,
}

impl Foresight {
    /// Asks the models about the choice that comes next, if one does, and posts their answers.
    pub(crate) fn look_ahead(&self, volume: &mut Volume, bank: &Bank, now: Nanos) {
        if let Some(choice) = volume.next_choice() {
            let mut posted = self.completions.lock().expect("no holder of this lock panics");
            posted.clear();
            posted.extend(completions(&choice, bank, now));
        }
    }
}

/// When each mirror of a choice would have the data, by its model.
pub(crate) fn completions(
    choice: &NextChoice,
    bank: &Bank,
    now: Nanos,
) -> impl Iterator<Item = Nanos> {
    // No tag in flight is this one: the volume counts its I/O from the bottom.
    let (tag, length) = (u64::MAX, choice.read.length);
    choice.mirrors.as_slice().iter().map(move |&Mirror { member, offset, .. }| {
        bank.completion_if_submitted(now, member, DiskIo { tag, op: Op::Read, offset, length })
    })
}

/// The policy that reads what was posted.
pub(crate) struct Oracle {
    foresight: Foresight,
}

impl Oracle {
    pub(crate) fn new(foresight: Foresight) -> Oracle {
        Oracle { foresight }
    }
}

impl ReadPolicy for Oracle {
    fn choose(
        &mut self,
        _read: &Read,
        mirrors: &[Mirror],
        members: &Members,
        _ctx: &mut Ctx<'_>,
    ) -> Choice {
        let posted = self.foresight.completions.lock().expect("no holder of this lock panics");
        assert_eq!(posted.len(), mirrors.len(), "the engine posts before every choice");
        Choice::Mirror(earliest(&posted, mirrors, members))
    }
}

/// The place of the mirror that is foreseen to have the data first.
pub(crate) fn earliest(completions: &[Nanos], mirrors: &[Mirror], members: &Members) -> usize {
    // A disk that is dead, or dies first, is foreseen at the end of time.
    // Of equal times the member with less to do: the other may be a tie by queueing alone.
    let key = |&index: &usize| (completions[index], members[mirrors[index].member].in_flight());
    let earliest = (0..mirrors.len()).min_by_key(key);
    earliest.expect("a policy is asked only where there is a choice")
}
