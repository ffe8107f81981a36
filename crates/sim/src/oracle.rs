//! The clairvoyant oracle: an upper bound that no policy can honestly reach.
//!
//! Before each choice the engine asks the models themselves when the read would complete on each
//! mirror, and posts the answers; the oracle takes the earliest. It is greedy: it sees what the
//! disks will do with what they hold, chance included, but nothing of the reads to come. A policy
//! may therefore beat it now and then, for example by keeping a stream on one disk.

use mirrorball_core::member::Members;
use mirrorball_core::policy::{Choice, Ctx, Mirror, Read, ReadPolicy};
use mirrorball_core::units::Nanos;
use std::sync::{Arc, Mutex};

/// What the models foresee for the next choice: one time of completion for each eligible mirror.
#[derive(Clone, Default)]
pub(crate) struct Foresight {
    // Uncontended: engine and oracle live on one thread, but a policy must be `Send`.
    completions: Arc<Mutex<Vec<Nanos>>>,
}

impl Foresight {
    /// Posts the answers for the next choice.
    pub(crate) fn post(&self, completions: impl Iterator<Item = Nanos>) {
        let mut posted = self.completions.lock().expect("no holder of this lock panics");
        posted.clear();
        posted.extend(completions);
    }
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
        // A disk that is dead, or dies first, is foreseen at the end of time.
        // Of equal times the member with less to do: the other may be a tie by queueing alone.
        let key = |&index: &usize| (posted[index], members[mirrors[index].member].in_flight());
        let earliest = (0..mirrors.len()).min_by_key(key);
        Choice::Mirror(earliest.expect("a policy is asked only where there is a choice"))
    }
}
