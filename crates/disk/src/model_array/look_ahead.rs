//! Foreseen effect of an I/O on a member: when it would complete, and how much longer the member
//! would be busy.
//!
//! Two copies of the member run until they are idle, one with the I/O and one without.

use super::{ModelArray, ModelSlot};
use crate::link::Link;
use crate::model::{Completion, DiskIo};
use mirrorball_core::member::MemberIndex;
use mirrorball_core::units::Nanos;

/// Foreseen effect of an I/O on a member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Impact {
    /// When the I/O would complete, or [`Nanos::MAX`] if the member is dead or dies first.
    pub completion: Nanos,
    /// How much later the last I/O of the member would complete.
    pub added: Nanos,
}

impl ModelArray {
    /// Effect of `io` on `member` if it were submitted at `now` and nothing came after it. An
    /// estimate for a member whose link others use meanwhile. Costs a run of all I/O in flight
    /// there.
    pub fn impact_if_submitted(&self, now: Nanos, member: MemberIndex, io: DiskIo) -> Impact {
        let slot = &self.members[member.get()];
        let link = slot.path.as_ref().map(|path| &self.links[path.link]);
        let without = run_out(slot, link, now, None);
        let with = run_out(slot, link, now, Some(io));
        let last = |completions: &[Completion]| {
            completions.iter().map(|completion| completion.at).max().unwrap_or(now)
        };
        let own =
            with.iter().find(|completion| completion.tag == io.tag && completion.result.is_ok());
        Impact {
            completion: own.map_or(Nanos::MAX, |completion| completion.at),
            added: last(&with).saturating_sub(last(&without)),
        }
    }
}

/// Everything that a copy of a member completes, with an I/O submitted at `now` if one is given.
fn run_out(
    slot: &ModelSlot,
    link: Option<&Link>,
    now: Nanos,
    io: Option<DiskIo>,
) -> Vec<Completion> {
    let mut copy = slot.clone();
    let mut link = link.cloned();
    if let Some(io) = io {
        match (&mut copy.path, &mut link) {
            (Some(path), Some(link)) => path.submit(now, io, link),
            _ => copy.model.submit(now, io),
        }
    }
    let mut completions = Vec::new();
    loop {
        let at = copy.next_event();
        if at == Nanos::MAX {
            return completions;
        }
        match (&mut copy.path, &mut link) {
            (Some(path), Some(link)) => {
                path.step(at, copy.model.as_mut(), link, &mut completions);
            }
            _ => copy.model.advance(at, &mut completions),
        }
    }
}
