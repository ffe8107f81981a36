//! The table of modifiers, from the innermost to the outermost: those that read twice come first,
//! those that restrict the choice last.

use super::{ModifierInfo, autosit, fail_slow, hedge, prefer_member, tied, write_mostly};
use crate::policies::{ParameterInfo, Unit};

/// Policies and modifiers that read twice.
const READ_TWICE: &[&str] = &["hedge", "tied", "crucible/read-all-first"];
/// Modifiers that exclude slow members.
const EXCLUDE_SLOW: &[&str] = &["autosit", "fail-slow"];

const fn devid(meaning: &'static str) -> ParameterInfo {
    ParameterInfo {
        name: "devid",
        unit: Unit::Devid,
        default: None,
        range: 1..=i64::MAX as u64,
        multiple_of: 1,
        meaning,
    }
}

const QUANTILE: ParameterInfo = ParameterInfo {
    name: "quantile",
    unit: Unit::Percent,
    default: Some(95),
    range: 50..=99,
    multiple_of: 1,
    meaning: "percentage of the reads of similar length that complete before a second read is sent",
};

const BUDGET: ParameterInfo = ParameterInfo {
    name: "budget",
    unit: Unit::Percent,
    default: Some(5),
    range: 1..=100,
    multiple_of: 1,
    meaning: "percentage of the reads that may be hedged in the long run",
};

const AFTER: ParameterInfo = ParameterInfo {
    name: "after",
    unit: Unit::Millis,
    default: Some(1),
    range: 0..=10_000,
    multiple_of: 1,
    meaning: "time that a read waits in its first queue only",
};

const EXCLUSION_TIME: ParameterInfo = ParameterInfo {
    name: "time",
    unit: Unit::Millis,
    default: Some(600_000),
    range: 1000..=86_400_000,
    multiple_of: 1,
    meaning: "time for which a slow member is not read",
};

const THRESHOLD: ParameterInfo = ParameterInfo {
    name: "threshold",
    unit: Unit::Percent,
    default: Some(200),
    range: 110..=10_000,
    multiple_of: 1,
    meaning: "latency above which a member is excluded, relative to its fastest peer",
};

pub const ALL: &[ModifierInfo] = &[
    ModifierInfo {
        name: "hedge",
        summary: "a read slower than 95 % of similar reads is read again from another mirror",
        parameters: &[QUANTILE, BUDGET],
        excludes: READ_TWICE,
        repeatable: false,
        build: hedge::build,
        source: include_str!("hedge.rs"),
    },
    ModifierInfo {
        name: "tied",
        summary: "a read waits in two queues and is served where it is first in line sooner",
        parameters: &[AFTER],
        excludes: READ_TWICE,
        repeatable: false,
        build: tied::build,
        source: include_str!("tied.rs"),
    },
    ModifierInfo {
        name: "autosit",
        summary: "a member far slower than five or more others is not read for ten minutes",
        parameters: &[EXCLUSION_TIME],
        excludes: EXCLUDE_SLOW,
        repeatable: false,
        build: autosit::build,
        source: include_str!("autosit.rs"),
    },
    ModifierInfo {
        name: "fail-slow",
        summary: "a member twice as slow as its fastest peer is not read for ten seconds",
        parameters: &[THRESHOLD],
        excludes: EXCLUDE_SLOW,
        repeatable: false,
        build: fail_slow::build,
        source: include_str!("fail_slow.rs"),
    },
    ModifierInfo {
        name: "prefer-member",
        summary: "a block that has a mirror on this member is read from it",
        parameters: &[devid("the member to read from")],
        excludes: &["prefer-member"],
        repeatable: false,
        build: prefer_member::build,
        source: include_str!("prefer_member.rs"),
    },
    ModifierInfo {
        name: "write-mostly",
        summary: "this member is read only where no other mirror can serve",
        parameters: &[devid("the member to avoid")],
        excludes: &[],
        repeatable: true,
        build: write_mostly::build,
        source: include_str!("write_mostly.rs"),
    },
];
