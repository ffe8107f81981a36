//! Flows: clones that keep the proportion of their requests (`flow`), as fio's `flow.c` does.
//!
//! Before each request a clone that is ahead of its share waits: it looks again after
//! [`LOOK_AGAIN`], where fio spins, or after its pause, before which its requests end.

use super::Next;
use crate::job::{Flow, Section};
use mirrorball_core::units::Nanos;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

const LOOK_AGAIN: Nanos = Nanos::from_micros(5);

/// The flows of sections that run together, by their ids.
#[derive(Debug, Default)]
pub(crate) struct Flows {
    flows: BTreeMap<u64, Rc<RefCell<FlowTotals>>>,
    /// When the sections start, but for their delays.
    start: Nanos,
}

#[derive(Debug)]
struct FlowTotals {
    /// One more than the requests of its clones.
    requests: u64,
    weight: u64,
}

/// A clone in a flow.
#[derive(Clone, Debug)]
pub(super) struct FlowShare {
    flow: Flow,
    totals: Rc<RefCell<FlowTotals>>,
    has_joined: bool,
    requests: u64,
    is_draining: bool,
    wakes_at: Nanos,
}

impl Flows {
    /// The flows of a group that starts at `start`. Clones with a delay join when it is over.
    pub(crate) fn of(sections: &[Section], start: Nanos) -> Flows {
        let mut flows = Flows { start, ..Flows::default() };
        for (section, flow) in sections.iter().filter_map(|it| Some((it, it.flow?))) {
            let new = || Rc::new(RefCell::new(FlowTotals { requests: 1, weight: 0 }));
            let totals = flows.flows.entry(flow.id).or_insert_with(new);
            let clones = if section.start_delay <= start { section.clones } else { 0 };
            totals.borrow_mut().weight += flow.weight * u64::from(clones);
        }
        flows
    }

    /// A new clone in the flow of its section.
    pub(super) fn share(&self, section: &Section) -> Option<FlowShare> {
        let flow = section.flow?;
        let totals = Rc::clone(self.flows.get(&flow.id)?);
        let has_joined = section.start_delay <= self.start;
        let (requests, is_draining, wakes_at) = (0, false, Nanos::ZERO);
        Some(FlowShare { flow, totals, has_joined, requests, is_draining, wakes_at })
    }
}

impl FlowShare {
    /// Counts the next request, or returns why it waits.
    pub(super) fn admit(&mut self, now: Nanos, in_flight: u32) -> Option<Next> {
        if self.is_draining {
            if in_flight > 0 {
                return Some(Next::Wait);
            }
            (self.is_draining, self.wakes_at) = (false, now.saturating_add(self.flow.pause));
        }
        if now < self.wakes_at {
            return Some(Next::NotBefore(self.wakes_at));
        }
        let mut totals = self.totals.borrow_mut();
        if !std::mem::replace(&mut self.has_joined, true) {
            totals.weight += self.flow.weight;
        }
        let share = self.requests as f64 / totals.requests as f64;
        if share <= self.flow.weight as f64 / totals.weight as f64 {
            (self.requests, totals.requests) = (self.requests + 1, totals.requests + 1);
            return None;
        }
        if self.flow.pause == Nanos::ZERO {
            return Some(Next::NotBefore(now.saturating_add(LOOK_AGAIN)));
        }
        drop(totals);
        self.is_draining = true;
        self.admit(now, in_flight)
    }

    /// Ends the clone: the others of the flow need not wait for it any more.
    pub(super) fn leave(self) {
        let mut totals = self.totals.borrow_mut();
        totals.requests -= self.requests;
        totals.weight -= if self.has_joined { self.flow.weight } else { 0 };
    }
}
