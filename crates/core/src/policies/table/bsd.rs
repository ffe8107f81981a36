//! Rows of the BSDs.

use crate::policies::*;

pub(super) const GMIRROR_ROWS: &[PolicyInfo] = &[
    PolicyInfo {
        name: "gmirror/prefer",
        aliases: &["prefer"],
        basis: Basis::Address,
        summary: "the mirror on the member of highest priority",
        parameters: &[],
        build: built::<gmirror_prefer::Prefer>,
        source: include_str!("../gmirror_prefer.rs"),
    },
    PolicyInfo {
        name: "gmirror/round-robin",
        aliases: &[],
        basis: Basis::Turns,
        summary: "the next mirror for each request, whatever its size",
        parameters: &[],
        build: built::<gmirror_round_robin::RoundRobin>,
        source: include_str!("../gmirror_round_robin.rs"),
    },
    PolicyInfo {
        name: "gmirror/split",
        aliases: &["split"],
        basis: Basis::Turns,
        summary: "large reads are split, a piece from each mirror; small ones take turns",
        parameters: &[ParameterInfo {
            name: "slice",
            unit: Unit::Bytes,
            default: Some(4096),
            range: 1..=i64::MAX as u64,
            multiple_of: 1,
            meaning: "longest read that is not split",
        }],
        build: gmirror_split::build,
        source: include_str!("../gmirror_split.rs"),
    },
    PolicyInfo {
        name: "gmirror/load-old",
        aliases: &["load-old"],
        basis: Basis::Measurements,
        summary: "the lowest wait of each member's last I/O",
        parameters: &[],
        build: built::<gmirror_load_old::LoadOld>,
        source: include_str!("../gmirror_load_old.rs"),
    },
    PolicyInfo {
        name: "gmirror/load",
        aliases: &["load"],
        basis: Basis::Measurements,
        summary: "the lowest smoothed queue, less a bonus for a head in position",
        parameters: &[],
        build: built::<gmirror_load::GmirrorLoad>,
        source: include_str!("../gmirror_load.rs"),
    },
];

pub(super) const GRAID_ROWS: &[PolicyInfo] = &[PolicyInfo {
    name: "graid/raid1",
    aliases: &[],
    basis: Basis::Measurements,
    summary: "the lowest smoothed queue, less a bonus for a head in position; writes count",
    parameters: &[],
    build: built::<graid_raid1::Raid1>,
    source: include_str!("../graid_raid1.rs"),
}];

pub(super) const RAIDFRAME_ROWS: &[PolicyInfo] = &[
    PolicyInfo {
        name: "raidframe/idle",
        aliases: &[],
        basis: Basis::Measurements,
        summary: "the shortest queue; of equals, the nearest head",
        parameters: &[],
        build: built::<raidframe_idle::Idle>,
        source: include_str!("../raidframe_idle.rs"),
    },
    PolicyInfo {
        name: "raidframe/partition",
        aliases: &[],
        basis: Basis::Address,
        summary: "the lower half of the addresses from one member, the upper half from the next",
        parameters: &[],
        build: built::<raidframe_partition::RaidframePartition>,
        source: include_str!("../raidframe_partition.rs"),
    },
];
