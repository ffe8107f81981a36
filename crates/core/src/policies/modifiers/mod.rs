//! Modifiers: rules that wrap any policy and are written after it, as in `zfs/mirror+hedge`.
//!
//! A modifier restricts the mirrors from which its policy chooses, or adds a second read to the
//! choice. It is one file here and one row of [`ALL`]. Rows are in the order from the innermost to
//! the outermost, whatever the order in a policy string: a modifier that reads twice is inside one
//! that restricts the choice, so that a second read never goes where a first one may not.

mod autosit;
mod fail_slow;
mod hedge;
mod narrowed;
mod prefer_member;
mod table;
mod tied;
mod write_mostly;

use super::{Build, ParameterInfo, PolicyOrigin};
use crate::column_set::ColumnSet;
use crate::diagnostic::Diagnostic;
use crate::io::{MemberIo, Outcome};
use crate::member::Members;
use crate::policy::{
    Choice, Counter, Ctx, Mirror, MirrorScore, PolicyFault, Read, ReadPolicy, StripeRead,
};
use crate::units::Nanos;

pub use table::ALL;

/// One modifier: name, parameters, origin, and constructor.
#[derive(Debug)]
pub struct ModifierInfo {
    /// Name, as written after a plus sign.
    pub name: &'static str,
    /// Summary of the modifier, in one line.
    pub summary: &'static str,
    /// Values that may follow the name, each after a colon, in this order.
    pub parameters: &'static [ParameterInfo],
    /// Where the rule was defined.
    pub origin: PolicyOrigin,
    /// Modifiers and policies with which it cannot be combined.
    pub excludes: &'static [&'static str],
    /// True if it may be given more than once, each time with a different value.
    pub repeatable: bool,
    /// Wraps a policy; `build` holds a value for each of `parameters`.
    pub build: fn(build: &Build<'_>, inner: Box<dyn ReadPolicy>) -> Built,
    pub(super) source: &'static str,
}

/// A policy wrapped in a modifier, or the reason why that is impossible.
pub type Built = Result<Box<dyn ReadPolicy>, Diagnostic>;

/// Finds the row with this name.
pub fn find(name: &str) -> Option<&'static ModifierInfo> {
    ALL.iter().find(|info| info.name == name)
}

impl ModifierInfo {
    /// The modifier's page, with the same headings as a policy's.
    pub fn page(&self) -> String {
        super::page_of(self.source)
    }

    /// Syntax of the modifier with its parameters: `+hedge[:quantile[:budget]]`.
    pub fn usage(&self) -> String {
        super::usage_of(&format!("+{}", self.name), self.parameters)
    }
}

/// Behaviour of a modifier. Methods with a default leave everything to the policy.
pub(super) trait Modifier: Send {
    /// Chooses, using the wrapped policy.
    fn choose(
        &mut self,
        inner: &mut dyn ReadPolicy,
        read: &Read,
        mirrors: &[Mirror],
        members: &Members,
        ctx: &mut Ctx<'_>,
    ) -> Choice;

    /// As [`ReadPolicy::reconstructs`].
    fn reconstructs(&self) -> bool {
        false
    }

    /// As [`ReadPolicy::leave_out`], using the wrapped policy.
    fn leave_out(
        &mut self,
        inner: &mut dyn ReadPolicy,
        read: &StripeRead,
        columns: &[Mirror],
        members: &Members,
        ctx: &mut Ctx<'_>,
    ) -> ColumnSet {
        inner.leave_out(read, columns, members, ctx)
    }

    /// As [`ReadPolicy::on_submit`].
    fn on_submit(&mut self, _io: &MemberIo, _ctx: &mut Ctx<'_>) {}

    /// As [`ReadPolicy::on_complete`].
    fn on_complete(&mut self, _io: &MemberIo, _outcome: &Outcome, _ctx: &mut Ctx<'_>) {}

    /// As [`ReadPolicy::on_members_change`].
    fn on_members_change(&mut self, _members: &Members) {}

    /// Counters of the modifier, listed after those of the policy.
    fn counters(&self) -> Vec<Counter> {
        Vec::new()
    }
}

/// A policy wrapped in a modifier.
struct Modified<M> {
    inner: Box<dyn ReadPolicy>,
    modifier: M,
}

fn wrap<M: Modifier + 'static>(inner: Box<dyn ReadPolicy>, modifier: M) -> Built {
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

    fn reconstructs(&self) -> bool {
        self.inner.reconstructs() || self.modifier.reconstructs()
    }

    fn leave_out(
        &mut self,
        read: &StripeRead,
        columns: &[Mirror],
        members: &Members,
        ctx: &mut Ctx<'_>,
    ) -> ColumnSet {
        self.modifier.leave_out(self.inner.as_mut(), read, columns, members, ctx)
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

    fn fault(&self) -> Option<&PolicyFault> {
        self.inner.fault()
    }

    /// Reasons of the wrapped policy for every mirror, including those that the modifier excludes.
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
