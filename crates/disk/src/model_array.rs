//! All modelled members of one array, driven as one.
//!
//! Each member is a model, with its faults already over it, and perhaps a link before it that it
//! shares with others. Events are taken in the order of time, ties in the order of members, so
//! equal inputs and seeds give equal completions in equal order.
//!
//! The cost is kept low because every simulated I/O passes here: the next event of each member is
//! kept in a flat array whose least is found by a scan (arrays have a handful of members, where a
//! scan beats a heap), a member without a link is called directly, and nothing is allocated once
//! the queues have grown to their depth.
//!
//! Non-goals: which member to use (`mirrorball_core`), and data.

mod link_path;
mod look_ahead;

use crate::cache_contents::CacheContents;
use crate::fault_kind::Fault;
use crate::link::Link;
use crate::model::{Completion, DiskIo, Model};
use link_path::LinkPath;
pub use look_ahead::Impact;
use mirrorball_core::member::MemberIndex;
use mirrorball_core::units::Nanos;

pub struct ModelMember {
    /// How its disk behaves, faults included.
    pub model: Box<dyn Model>,
    /// Index of its link in the links of the array, if it has one.
    pub link: Option<usize>,
}

pub struct ModelArray {
    members: Vec<ModelSlot>,
    links: Vec<Link>,
    /// The next event of each member, [`Nanos::MAX`] for none.
    events: Vec<Nanos>,
    earliest: Earliest,
    /// Completions of the last event that were not popped, the last first, all on `completed_on`.
    completions: Vec<Completion>,
    completed_on: MemberIndex,
}

#[derive(Clone)]
struct ModelSlot {
    model: Box<dyn Model>,
    path: Option<Box<LinkPath>>,
}

/// The member whose event comes first.
#[derive(Clone, Copy)]
struct Earliest {
    at: Nanos,
    member: usize,
}

impl ModelArray {
    /// Returns a model array of idle members. Panics if a member names a link that is not there, or
    /// there are more than 2^16 members.
    pub fn new(members: Vec<ModelMember>, links: Vec<Link>) -> ModelArray {
        assert!(members.len() <= 1 << 16, "{} members do not fit an index", members.len());
        let slot = |ModelMember { model, link }| {
            assert!(link.is_none_or(|link| link < links.len()), "there is no link {link:?}");
            ModelSlot { model, path: link.map(|link| Box::new(LinkPath::new(link))) }
        };
        let members: Vec<ModelSlot> = members.into_iter().map(slot).collect();
        ModelArray {
            events: vec![Nanos::MAX; members.len()],
            members,
            links,
            earliest: Earliest { at: Nanos::MAX, member: 0 },
            completions: Vec::new(),
            completed_on: MemberIndex(0),
        }
    }

    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Returns true if there are no members.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Hands an I/O to a member. Its tag must be unique among those in flight on that member.
    /// Panics if the model array has an event before `now` that it was not advanced to.
    #[inline]
    pub fn submit(&mut self, now: Nanos, member: MemberIndex, io: DiskIo) {
        assert!(now <= self.earliest.at, "advance to {} before {now}", self.earliest.at);
        let slot = &mut self.members[member.get()];
        let at = match &mut slot.path {
            None => slot.model.submit_and_look(now, io).unwrap_or(Nanos::MAX),
            Some(path) => {
                path.submit(now, io, &mut self.links[path.link]);
                slot.next_event()
            }
        };
        self.note_event(member.get(), at);
    }

    /// Cancels an I/O of a member if possible. Returns true if it is cancelled: it does not
    /// complete, and its tag is free. The time that it has spent on a link remains spent. Panics if
    /// the model array has an event before `now` that it was not advanced to.
    pub fn cancel(&mut self, now: Nanos, member: MemberIndex, tag: u64) -> bool {
        assert!(now <= self.earliest.at, "advance to {} before {now}", self.earliest.at);
        let slot = &mut self.members[member.get()];
        let is_cancelled = match &mut slot.path {
            None => slot.model.cancel(now, tag),
            Some(path) => path.cancel(now, tag, slot.model.as_mut()),
        };
        // A failed attempt also moves the member's time to `now`.
        let at = slot.next_event();
        self.note_event(member.get(), at);
        is_cancelled
    }

    /// Adds a fault to a member that was built with one. It begins now or later. Panics if the
    /// member was built without faults.
    pub fn add_fault(&mut self, member: MemberIndex, fault: Fault) {
        let slot = &mut self.members[member.get()];
        assert!(slot.model.add_fault(fault), "{member:?} was built without faults");
        let at = slot.next_event();
        self.note_event(member.get(), at);
    }

    /// Notes that the next event of `member` is now at `at`.
    #[inline]
    fn note_event(&mut self, member: usize, at: Nanos) {
        self.events[member] = at;
        let comes_first =
            at < self.earliest.at || (at == self.earliest.at && member < self.earliest.member);
        if comes_first {
            self.earliest = Earliest { at, member };
        } else if member == self.earliest.member && at > self.earliest.at {
            // The I/O that was added or removed may have delayed the next event of the member.
            self.earliest = find_earliest(&self.events);
        }
    }

    /// When something happens next (not always a completion), or `None` when all are idle.
    #[inline]
    pub fn next_event(&self) -> Option<Nanos> {
        (self.earliest.at < Nanos::MAX).then_some(self.earliest.at)
    }

    /// Lets time pass to the next completion up to and including `now`, and returns it. Completions
    /// come in order of time, ties in the order of members. After `None`, time is at `now`.
    #[inline]
    pub fn pop_completion(&mut self, now: Nanos) -> Option<(MemberIndex, Completion)> {
        while self.completions.is_empty() {
            if self.earliest.at > now || self.earliest.at == Nanos::MAX {
                return None;
            }
            self.step();
        }
        Some((self.completed_on, self.completions.pop()?))
    }

    /// Lets time pass up to and including `now`, and appends what completed, in the order of
    /// [`ModelArray::pop_completion`].
    pub fn advance(&mut self, now: Nanos, completions: &mut Vec<(MemberIndex, Completion)>) {
        completions.extend(std::iter::from_fn(|| self.pop_completion(now)));
    }

    /// Handles the first event.
    fn step(&mut self) {
        let Earliest { at, member } = self.earliest;
        let slot = &mut self.members[member];
        let next = match &mut slot.path {
            None => slot.model.advance_and_look(at, &mut self.completions).unwrap_or(Nanos::MAX),
            Some(path) => {
                let link = &mut self.links[path.link];
                path.step(at, slot.model.as_mut(), link, &mut self.completions);
                slot.next_event()
            }
        };
        if self.completions.len() > 1 {
            self.completions.reverse();
        }
        self.completed_on = MemberIndex(member as u16);
        self.events[member] = next;
        self.earliest = find_earliest(&self.events);
    }

    /// Contents of the caches in front of members, in the order of members.
    pub fn cache_contents(&self) -> Vec<Option<CacheContents>> {
        self.members.iter().map(|slot| slot.model.cache_contents()).collect()
    }

    /// Replaces what is in the caches in front of members, given in the order of members.
    pub fn set_cache_contents(&mut self, contents: Vec<Option<CacheContents>>) {
        for (slot, contents) in self.members.iter_mut().zip(contents) {
            contents.into_iter().for_each(|contents| slot.model.set_cache_contents(contents));
        }
    }

    /// When `io` would complete if it were submitted to `member` at `now` and nothing came after
    /// it. Exact for a member without a link, and for one whose link is otherwise unused until
    /// then; else an estimate, because what the other members will send across is not foreseen.
    pub fn completion_if_submitted(&self, now: Nanos, member: MemberIndex, io: DiskIo) -> Nanos {
        let slot = &self.members[member.get()];
        match &slot.path {
            None => slot.model.completion_if_submitted(now, io),
            Some(path) => {
                let link = &self.links[path.link];
                path.completion_if_submitted(now, io, slot.model.as_ref(), link)
            }
        }
    }
}

impl ModelSlot {
    #[inline]
    fn next_event(&self) -> Nanos {
        let at = match &self.path {
            None => self.model.next_event(),
            Some(path) => path.next_event(self.model.as_ref()),
        };
        at.unwrap_or(Nanos::MAX)
    }
}

/// The first of the least events.
#[inline]
fn find_earliest(events: &[Nanos]) -> Earliest {
    let mut earliest = Earliest { at: Nanos::MAX, member: 0 };
    for (member, &at) in events.iter().enumerate() {
        if at < earliest.at {
            earliest = Earliest { at, member };
        }
    }
    earliest
}

#[cfg(test)]
mod tests;
