//! The table of modifiers, from the inside out: what reads twice first, what narrows last.

use super::{ModifierInfo, autosit, fail_slow, hedge, prefer_member, tied, write_mostly};
use crate::policies::{Origin, ParameterInfo, Unit, origins};

/// Policies and modifiers that read twice already.
const READ_TWICE: &[&str] = &["hedge", "tied", "crucible/read-all-first"];
/// Modifiers that let slow members sit out.
const SIT_OUT: &[&str] = &["autosit", "fail-slow"];

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
    meaning: "how many of the reads of a length answer before a second is sent",
};

const BUDGET: ParameterInfo = ParameterInfo {
    name: "budget",
    unit: Unit::Percent,
    default: Some(5),
    range: 1..=100,
    multiple_of: 1,
    meaning: "how many of the reads may be hedged in the long run",
};

const AFTER: ParameterInfo = ParameterInfo {
    name: "after",
    unit: Unit::Millis,
    default: Some(1),
    range: 0..=10_000,
    multiple_of: 1,
    meaning: "how long a read waits in its first queue alone",
};

const SIT_OUT_TIME: ParameterInfo = ParameterInfo {
    name: "time",
    unit: Unit::Millis,
    default: Some(600_000),
    range: 1000..=86_400_000,
    multiple_of: 1,
    meaning: "how long a slow member is not read",
};

const THRESHOLD: ParameterInfo = ParameterInfo {
    name: "threshold",
    unit: Unit::Percent,
    default: Some(200),
    range: 110..=10_000,
    multiple_of: 1,
    meaning: "how slow, against its fastest peer, is too slow",
};

const TAIL_AT_SCALE: Origin = Origin {
    system: "The Tail at Scale",
    version: "CACM 56(2), 2013",
    file: "pages 74 to 80",
    authors: "Jeffrey Dean, Luiz André Barroso",
};

/// Every modifier.
pub const ALL: &[ModifierInfo] = &[
    ModifierInfo {
        name: "hedge",
        summary: "a read slower than 95 % of its kind is read again elsewhere",
        parameters: &[QUANTILE, BUDGET],
        origin: TAIL_AT_SCALE,
        excludes: READ_TWICE,
        repeatable: false,
        build: hedge::build,
        source: include_str!("hedge.rs"),
    },
    ModifierInfo {
        name: "tied",
        summary: "a read waits in two queues and is served where it is next first",
        parameters: &[AFTER],
        origin: TAIL_AT_SCALE,
        excludes: READ_TWICE,
        repeatable: false,
        build: tied::build,
        source: include_str!("tied.rs"),
    },
    ModifierInfo {
        name: "autosit",
        summary: "a member far slower than all others is not read for ten minutes",
        parameters: &[SIT_OUT_TIME],
        origin: Origin {
            version: "August 2025",
            file: "module/zfs/vdev_raidz.c",
            authors: "OpenZFS contributors",
            ..origins::ZFS
        },
        excludes: SIT_OUT,
        repeatable: false,
        build: autosit::build,
        source: include_str!("autosit.rs"),
    },
    ModifierInfo {
        name: "fail-slow",
        summary: "a member twice as slow as its fastest peer is not read for ten seconds",
        parameters: &[THRESHOLD],
        origin: Origin {
            system: "Cassandra drivers",
            version: "DataStax Java driver",
            file: "LatencyAwarePolicy.java",
            authors: "DataStax",
        },
        excludes: SIT_OUT,
        repeatable: false,
        build: fail_slow::build,
        source: include_str!("fail_slow.rs"),
    },
    ModifierInfo {
        name: "prefer-member",
        summary: "what has a mirror on this member is read from it",
        parameters: &[devid("the member to read from")],
        origin: Origin {
            system: "VxVM",
            version: "rdpol=siteread and prefer",
            file: "vxvol(1M)",
            authors: "Veritas",
        },
        excludes: &["prefer-member"],
        repeatable: false,
        build: prefer_member::build,
        source: include_str!("prefer_member.rs"),
    },
    ModifierInfo {
        name: "write-mostly",
        summary: "this member is read only where no other can serve",
        parameters: &[devid("the member to leave alone")],
        origin: Origin { file: "drivers/md/raid1.c", ..origins::MD },
        excludes: &[],
        repeatable: true,
        build: write_mostly::build,
        source: include_str!("write_mostly.rs"),
    },
];
