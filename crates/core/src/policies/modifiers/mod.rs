//! Modifiers: rules that wrap any policy, written behind it: `zfs/mirror+hedge`.
//!
//! A modifier narrows what its policy may choose from, or makes more of what it chose. It is one
//! file here and one row of [`ALL`]. Rows stand from the inside out: whatever the order in which
//! people write them, what reads twice is asked after what narrows the choice, so that a second
//! read never goes where a first one would not.

mod autosit;
mod fail_slow;
mod hedge;
mod narrowed;
mod prefer_member;
mod table;
mod tied;
mod write_mostly;

use super::{Build, Origin, ParameterInfo};
use crate::io::{MemberIo, Outcome};
use crate::member::Members;
use crate::policies::PolicyError;
use crate::policy::{Choice, Counter, Ctx, Mirror, MirrorScore, Read, ReadPolicy};
use crate::units::Nanos;

pub use table::ALL;

/// One modifier: its name, what it takes, where it comes from, and how to build it.
#[derive(Debug)]
pub struct ModifierInfo {
    /// Its name, as written behind a plus sign.
    pub name: &'static str,
    /// What it does, in one line.
    pub summary: &'static str,
    /// What may follow the name, each after a colon, in this order.
    pub parameters: &'static [ParameterInfo],
    /// Where the rule was defined.
    pub origin: Origin,
    /// Modifiers and policies that it cannot stand beside.
    pub excludes: &'static [&'static str],
    /// Whether it may be written more than once, each time with another value.
    pub repeatable: bool,
    /// Builds it around a policy; `build` holds a value for each of `parameters`.
    pub build: fn(build: &Build<'_>, inner: Box<dyn ReadPolicy>) -> Built,
    pub(super) source: &'static str,
}

/// A policy with a modifier around it, or why there cannot be one.
pub type Built = Result<Box<dyn ReadPolicy>, PolicyError>;

/// The row with this name.
pub fn find(name: &str) -> Option<&'static ModifierInfo> {
    ALL.iter().find(|info| info.name == name)
}

impl ModifierInfo {
    /// The modifier's page, under the same headings as a policy's.
    pub fn page(&self) -> String {
        super::page_of(self.source)
    }

    /// How it is written with its parameters: `+hedge[:quantile[:budget]]`.
    pub fn usage(&self) -> String {
        super::usage_of(&format!("+{}", self.name), self.parameters)
    }
}

/// What a modifier does; what it leaves out, its policy does alone.
pub(super) trait Modifier: Send {
    /// Chooses with the help of the policy inside.
    fn choose(
        &mut self,
        inner: &mut dyn ReadPolicy,
        read: &Read,
        mirrors: &[Mirror],
        members: &Members,
        ctx: &mut Ctx<'_>,
    ) -> Choice;

    /// As [`ReadPolicy::on_submit`].
    fn on_submit(&mut self, _io: &MemberIo, _ctx: &mut Ctx<'_>) {}

    /// As [`ReadPolicy::on_complete`].
    fn on_complete(&mut self, _io: &MemberIo, _outcome: &Outcome, _ctx: &mut Ctx<'_>) {}

    /// As [`ReadPolicy::on_members_change`].
    fn on_members_change(&mut self, _members: &Members) {}

    /// Counters of its own, shown behind those of the policy.
    fn counters(&self) -> Vec<Counter> {
        Vec::new()
    }
}

/// A policy with a modifier around it.
struct Modified<M> {
    inner: Box<dyn ReadPolicy>,
    modifier: M,
}

/// Puts a modifier around a policy.
fn around<M: Modifier + 'static>(inner: Box<dyn ReadPolicy>, modifier: M) -> Built {
    Ok(Box::new(Modified { inner, modifier }))
}

impl<M: Modifier> ReadPolicy for Modified<M> {
    fn choose(
        &mut self,
        read: &Read,
        mirrors: &[Mirror],
        members: &Members,
        ctx: &mut Ctx<'_>,
    ) -> Choice {
        self.modifier.choose(self.inner.as_mut(), read, mirrors, members, ctx)
    }

    fn on_submit(&mut self, io: &MemberIo, ctx: &mut Ctx<'_>) {
        self.inner.on_submit(io, ctx);
        self.modifier.on_submit(io, ctx);
    }

    fn on_complete(&mut self, io: &MemberIo, outcome: &Outcome, ctx: &mut Ctx<'_>) {
        self.inner.on_complete(io, outcome, ctx);
        self.modifier.on_complete(io, outcome, ctx);
    }

    fn on_members_change(&mut self, members: &Members) {
        self.inner.on_members_change(members);
        self.modifier.on_members_change(members);
    }

    fn counters(&self) -> Vec<Counter> {
        let mut counters = self.inner.counters();
        counters.extend(self.modifier.counters());
        counters
    }

    /// What the policy inside thinks of every mirror, whether or not it will be shown all.
    fn explain(
        &self,
        read: &Read,
        mirrors: &[Mirror],
        members: &Members,
        now: Nanos,
    ) -> Vec<MirrorScore> {
        self.inner.explain(read, mirrors, members, now)
    }
}
