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

use super::{Build, Built, ParameterInfo};
use crate::policy::{Counter, ReadPolicy};

pub use table::ALL;

/// One modifier: name, parameters and constructor.
#[derive(Debug)]
pub struct ModifierInfo {
    /// Name, as written after a plus sign.
    pub name: &'static str,
    pub summary: &'static str,
    /// Values that may follow the name, each after a colon, in this order.
    pub parameters: &'static [ParameterInfo],
    /// Modifiers and policies with which it cannot be combined.
    pub excludes: &'static [&'static str],
    /// True if it may be given more than once, each time with a different value.
    pub repeatable: bool,
    /// Wraps a policy; `build` holds a value for each of `parameters`.
    pub build: fn(build: &Build<'_>, inner: Box<dyn ReadPolicy>) -> Built,
    pub(super) source: &'static str,
}

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

/// The counters of a wrapped policy, and one of its modifier.
fn counters_with(inner: &dyn ReadPolicy, name: &'static str, value: i64) -> Vec<Counter> {
    let mut counters = inner.counters();
    counters.push(Counter { member: None, name, value });
    counters
}
