//! A program as a policy: asks the program while it works, and its fallback after a fault.

use crate::abi::COUNTERS;
use crate::contexts::{set_explained, write_choose, write_event};
use crate::dump::{choose_text, event_text};
use crate::fault::CallFault;
use crate::helpers::{HelperOperation, Wish};
use crate::instance::{InstanceSource, ProgramInstance};
use mirrorball_core::io::{MemberIo, Outcome};
use mirrorball_core::member::Members;
use mirrorball_core::policy::{
    Choice, Counter, Ctx, Mirror, MirrorScore, MirrorSet, PolicyFault, Read, ReadPolicy,
};
use mirrorball_core::rng::Rng;
use mirrorball_core::units::Nanos;
use std::cell::RefCell;

const COUNTER_NAMES: [&str; COUNTERS] = [
    "count_0", "count_1", "count_2", "count_3", "count_4", "count_5", "count_6", "count_7",
    "count_8", "count_9", "count_10", "count_11", "count_12", "count_13", "count_14", "count_15",
];

pub(crate) struct ProgramPolicy {
    name: String,
    asks_members: bool,
    /// True once `init` was called.
    has_begun: bool,
    /// The running program; `None` after a fault.
    instance: Option<ProgramInstance>,
    source: InstanceSource,
    /// Another instance, for explanations, so that they do not change the running one.
    explainer: RefCell<Option<ProgramInstance>>,
    fallback: Box<dyn ReadPolicy>,
    fault: Option<PolicyFault>,
    fallback_reads: i64,
    /// Counters at the time of the fault.
    last_counters: [i64; COUNTERS],
}

impl ProgramPolicy {
    /// A policy of the program `name`, whose instance was started.
    pub(crate) fn new(
        name: String,
        source: InstanceSource,
        instance: ProgramInstance,
        asks_members: bool,
        fallback: Box<dyn ReadPolicy>,
    ) -> ProgramPolicy {
        ProgramPolicy {
            name,
            asks_members,
            has_begun: false,
            instance: Some(instance),
            source,
            explainer: RefCell::new(None),
            fallback,
            fault: None,
            fallback_reads: 0,
            last_counters: [0; COUNTERS],
        }
    }

    /// Fuel that the last call used, of a budget; `None` after a fault.
    pub(crate) fn fuel_used(&self, budget: u64) -> Option<u64> {
        self.instance.as_ref().map(|instance| instance.fuel_used(budget))
    }

    #[cold]
    fn fail(&mut self, fault: &CallFault, shown: &str) {
        let Some(instance) = self.instance.take() else { return };
        self.last_counters = instance.state().counters;
        let mut dump = String::new();
        for frame in &fault.frames {
            dump += &format!("in {frame}\n");
        }
        dump += shown;
        let summary = format!("{}: {}", self.name, fault.summary());
        self.fault = Some(PolicyFault { ended_program: Some(self.name.clone()), summary, dump });
    }

    /// Notifies the fallback. As long as the program decides, the fallback draws from a copy of the
    /// generator, so that it changes nothing.
    #[inline]
    fn notify_fallback(&mut self, io: &MemberIo, outcome: Option<&Outcome>, ctx: &mut Ctx<'_>) {
        let mut copy;
        let rng = match &self.instance {
            Some(_) => {
                copy = ctx.rng.clone();
                &mut copy
            }
            None => &mut *ctx.rng,
        };
        let mut ctx = Ctx { rng, ..*ctx };
        match outcome {
            None => self.fallback.on_submit(io, &mut ctx),
            Some(outcome) => self.fallback.on_complete(io, outcome, &mut ctx),
        }
    }

    /// Calls `submit` or `complete`, if the program has it.
    #[inline]
    fn notify(&mut self, io: &MemberIo, outcome: Option<&Outcome>, ctx: &mut Ctx<'_>) {
        let Some(instance) = &mut self.instance else { return };
        let (operation, has_operation) = match outcome {
            None => (HelperOperation::Submit, instance.has_submit()),
            Some(_) => (HelperOperation::Complete, instance.has_complete()),
        };
        if !has_operation {
            return;
        }
        write_event(instance.context_mut(), io, outcome, ctx.now);
        if let Err(fault) = instance.event(operation, ctx.rng) {
            self.fail(&fault, &event_text(io, outcome, ctx.now));
        }
    }
}

impl ReadPolicy for ProgramPolicy {
    #[inline]
    fn choose(&mut self, read: &Read, mirrors: &[Mirror], ctx: &mut Ctx<'_>) -> Choice {
        if let Some(instance) = &mut self.instance {
            let asks_members = self.asks_members;
            match ask(instance, read, mirrors, ctx.members, ctx.now, ctx.rng, asks_members) {
                Ok(choice) => return choice,
                Err(fault) => self.fail(&fault, &choose_text(read, mirrors, ctx.members, ctx.now)),
            }
        }
        self.fallback_reads += 1;
        self.fallback.choose(read, mirrors, ctx)
    }

    #[inline]
    fn on_submit(&mut self, io: &MemberIo, ctx: &mut Ctx<'_>) {
        self.notify_fallback(io, None, ctx);
        self.notify(io, None, ctx);
    }

    #[inline]
    fn on_complete(&mut self, io: &MemberIo, outcome: &Outcome, ctx: &mut Ctx<'_>) {
        self.notify_fallback(io, Some(outcome), ctx);
        self.notify(io, Some(outcome), ctx);
    }

    fn on_members_change(&mut self, members: &Members) {
        self.fallback.on_members_change(members);
        let Some(instance) = &mut self.instance else { return };
        let operation =
            if self.has_begun { HelperOperation::Change } else { HelperOperation::Init };
        self.has_begun = true;
        instance.show_members(members);
        if let Err(fault) = instance.notify(operation) {
            self.fail(&fault, "");
        }
    }

    fn counters(&self) -> Vec<Counter> {
        let counters = match &self.instance {
            Some(instance) => instance.state().counters,
            None => self.last_counters,
        };
        let faults = i64::from(self.fault.is_some());
        let own = COUNTER_NAMES.iter().zip(counters).filter(|(_, value)| *value != 0);
        let own = own.map(|(name, value)| (*name, value));
        let all = [("faults", faults), ("fallback_reads", self.fallback_reads)];
        let all = all.into_iter().chain(own);
        all.map(|(name, value)| Counter { member: None, name, value }).collect()
    }

    fn fault(&self) -> Option<&PolicyFault> {
        self.fault.as_ref()
    }

    /// Asks another instance that has the same memory; the scores are those that it noted. The
    /// compilers keep all variables in memory, and globals for the stack pointer only.
    fn explain(&self, read: &Read, mirrors: &[Mirror], ctx: &Ctx<'_>) -> Vec<MirrorScore> {
        let Some(instance) = &self.instance else {
            return self.fallback.explain(read, mirrors, ctx);
        };
        let mut cached = self.explainer.borrow_mut();
        let Some(mut explainer) = cached.take().or_else(|| self.source.start().ok()) else {
            return Vec::new();
        };
        // Memories do not grow, so both have the same size.
        explainer.memory_mut().copy_from_slice(instance.memory());
        explainer.state_mut().notes = Some(Vec::new());
        let mut rng = Rng::new(0);
        let asked =
            ask(&mut explainer, read, mirrors, ctx.members, ctx.now, &mut rng, self.asks_members);
        let notes = explainer.state_mut().notes.take().unwrap_or_default();
        // After a fault it may be half changed. When the choice is made, the fault is reported.
        if asked.is_ok() {
            *cached = Some(explainer);
        }
        let score = |index| notes.iter().rev().find(|(place, _)| *place == index);
        let scores = (0..mirrors.len() as u32).map(|index| Some(score(index)?.1));
        let scores: Option<Vec<i64>> = scores.collect();
        let scores = scores.unwrap_or_default().into_iter();
        scores.map(|score| MirrorScore::new("score", score)).collect()
    }
}

/// Shows a read to the program and checks what it chooses.
#[inline]
pub(crate) fn ask(
    instance: &mut ProgramInstance,
    read: &Read,
    mirrors: &[Mirror],
    members: &Members,
    now: Nanos,
    rng: &mut Rng,
    asks_members: bool,
) -> Result<Choice, CallFault> {
    // A call that ended with a fault may have left one.
    instance.state_mut().wish = Wish::Nothing;
    write_choose(instance.context_mut(), read, mirrors, members, now);
    if instance.state().notes.is_some() {
        set_explained(instance.context_mut());
    }
    if asks_members {
        instance.show_members(members);
    }
    let returned = instance.choose(rng)?;
    let count = mirrors.len();
    let first = usize::try_from(returned).ok().filter(|&first| first < count);
    let Some(first) = first else {
        return Err(CallFault::of_result(format!("returned {returned}, but nr is {count}")));
    };
    match std::mem::replace(&mut instance.state_mut().wish, Wish::Nothing) {
        Wish::Nothing => Ok(Choice::Mirror(first)),
        Wish::Hedge { backup, after_ns } => {
            let backup = backup as usize;
            if backup >= count || backup == first {
                return Err(CallFault::of_result(format!(
                    "returned {first} with a hedge to mirror {backup} of {count}"
                )));
            }
            Ok(Choice::Hedge { first, backup, after: Nanos(after_ns) })
        }
        Wish::Split(mask) => Ok(Choice::Split(mirror_set("split over", mask, first, count)?)),
        Wish::All(mask) => Ok(Choice::All(mirror_set("read from all of", mask, first, count)?)),
    }
}

/// The mirrors of `mask`, which must exist and contain `first`; `what` is for the fault.
fn mirror_set(what: &str, mask: u32, first: usize, count: usize) -> Result<MirrorSet, CallFault> {
    let wrong = |why: &str| Err(CallFault::of_result(format!("{what} {mask:#b}: {why}")));
    if mask >> count != 0 {
        return wrong("a mirror of the set does not exist");
    }
    if mask & 1 << first == 0 {
        return wrong("the mirror that it returned is not in the set");
    }
    match MirrorSet::of_bits(mask as u16) {
        Some(set) => Ok(set),
        None => wrong("the set is empty"),
    }
}
