//! Rows of all other systems: our own policies, ZFS, SPDK, bcachefs, the literature.

use super::parameters::{WITHOUT, ZFS_INCREMENTS};
use crate::policies::*;

pub(super) const MIRRORBALL_ROWS: &[PolicyInfo] = &[
    PolicyInfo {
        name: "mirrorball/auto",
        aliases: &["auto"],
        basis: Basis::Model,
        summary: "the mirror where the read costs least, by learned estimates of each member",
        parameters: &[WITHOUT],
        build: mirrorball_auto::build,
        source: include_str!("../mirrorball_auto.rs"),
    },
    PolicyInfo {
        name: "mirrorball/first",
        aliases: &["first"],
        basis: Basis::Address,
        summary: "always the first eligible mirror; the null policy",
        parameters: &[],
        build: built::<mirrorball_first::First>,
        source: include_str!("../mirrorball_first.rs"),
    },
    PolicyInfo {
        name: "mirrorball/random",
        aliases: &["random"],
        basis: Basis::Turns,
        summary: "a random mirror, all with equal probability; the baseline",
        parameters: &[],
        build: built::<mirrorball_random::Random>,
        source: include_str!("../mirrorball_random.rs"),
    },
];

pub(super) const ZFS_ROWS: &[PolicyInfo] = &[
    PolicyInfo {
        name: "zfs/mirror",
        aliases: &["zfs"],
        basis: Basis::Measurements,
        summary: "the shortest queue plus a penalty for a seek; ties by 2 MiB of offset",
        parameters: ZFS_INCREMENTS,
        build: zfs_mirror::build,
        source: include_str!("../zfs_mirror.rs"),
    },
    PolicyInfo {
        name: "zfs/mirror-bypass",
        aliases: &[],
        basis: Basis::Measurements,
        summary: "as zfs/mirror, but non-rotational members have no queue that counts",
        parameters: &[],
        build: zfs_mirror_bypass::build,
        source: include_str!("../zfs_mirror_bypass.rs"),
    },
    PolicyInfo {
        name: "zfs/offset",
        aliases: &[],
        basis: Basis::Address,
        summary: "2 MiB of the volume to each mirror in turn",
        parameters: &[],
        build: built::<zfs_offset::Offset>,
        source: include_str!("../zfs_offset.rs"),
    },
    PolicyInfo {
        name: "zfs/pending-10ms",
        aliases: &[],
        basis: Basis::Queues,
        summary: "the shortest queue; of equals, a different one every 10 ms",
        parameters: &[],
        build: built::<zfs_pending_10ms::PendingLoad>,
        source: include_str!("../zfs_pending_10ms.rs"),
    },
];

pub(super) const BCACHEFS_ROWS: &[PolicyInfo] = &[PolicyInfo {
    name: "bcachefs/inverse-square-latency",
    aliases: &["inverse-square-latency"],
    basis: Basis::Measurements,
    summary: "a random mirror, weighted by the inverse square of its latency",
    parameters: &[],
    build: built::<bcachefs_inverse_square_latency::InverseSquareLatency>,
    source: include_str!("../bcachefs_inverse_square_latency.rs"),
}];

pub(super) const SPDK_ROWS: &[PolicyInfo] = &[PolicyInfo {
    name: "spdk/raid1",
    aliases: &[],
    basis: Basis::Queues,
    summary: "the fewest bytes of reads in flight; of equals, the first member",
    parameters: &[],
    build: built::<spdk_raid1::Raid1>,
    source: include_str!("../spdk_raid1.rs"),
}];

pub(super) const SOLARIS_ROWS: &[PolicyInfo] = &[PolicyInfo {
    name: "solaris/geometric",
    aliases: &["geometric"],
    basis: Basis::Address,
    summary: "an equal part of the addresses from each member",
    parameters: &[],
    build: built::<solaris_geometric::Geometric>,
    source: include_str!("../solaris_geometric.rs"),
}];

pub(super) const VXVM_ROWS: &[PolicyInfo] = &[PolicyInfo {
    name: "vxvm/round",
    aliases: &[],
    basis: Basis::Turns,
    summary: "round robin, but a read that continues the last one stays on its mirror",
    parameters: &[],
    build: built::<vxvm_round::Round>,
    source: include_str!("../vxvm_round.rs"),
}];

pub(super) const RESEARCH_ROWS: &[PolicyInfo] = &[
    PolicyInfo {
        name: "research/p2c",
        aliases: &["p2c"],
        basis: Basis::Queues,
        summary: "of two mirrors drawn at random, the one with fewer I/Os in flight",
        parameters: &[],
        build: built::<research_p2c::PowerOfTwo>,
        source: include_str!("../research_p2c.rs"),
    },
    PolicyInfo {
        name: "research/sed",
        aliases: &["sed"],
        basis: Basis::Measurements,
        summary: "the shortest expected delay: in flight and one more, times the service time",
        parameters: &[],
        build: built::<research_sed::ShortestExpectedDelay>,
        source: include_str!("../research_sed.rs"),
    },
    PolicyInfo {
        name: "research/nq",
        aliases: &["nq"],
        basis: Basis::Measurements,
        summary: "the first idle member; if none is idle, the shortest expected delay",
        parameters: &[],
        build: built::<research_nq::NeverQueue>,
        source: include_str!("../research_nq.rs"),
    },
    PolicyInfo {
        name: "research/peak-ewma",
        aliases: &["peak-ewma"],
        basis: Basis::Measurements,
        summary: "of two mirrors drawn at random, the lower decaying peak of waits times the queue",
        parameters: &[],
        build: built::<research_peak_ewma::PeakEwma>,
        source: include_str!("../research_peak_ewma.rs"),
    },
    PolicyInfo {
        name: "research/c3",
        aliases: &["c3"],
        basis: Basis::Measurements,
        summary: "the lowest mean wait in the queue plus the cube of the queue times service time",
        parameters: &[],
        build: built::<research_c3::C3>,
        source: include_str!("../research_c3.rs"),
    },
    PolicyInfo {
        name: "research/prequal",
        aliases: &["prequal"],
        basis: Basis::Measurements,
        summary: "of members with no unusual queue the lowest recent wait, else the shortest queue",
        parameters: &[],
        build: research_prequal::build,
        source: include_str!("../research_prequal.rs"),
    },
    PolicyInfo {
        name: "research/linnos",
        aliases: &["linnos"],
        basis: Basis::Model,
        summary: "the mirror where a trained network expects the read to complete first",
        parameters: &[],
        build: built::<research_linnos::Linnos>,
        source: include_str!("../research_linnos.rs"),
    },
];

pub(super) const CRUCIBLE_ROWS: &[PolicyInfo] = &[PolicyInfo {
    name: "crucible/read-all-first",
    aliases: &["read-all-first"],
    basis: Basis::Address,
    summary: "every mirror is read, and the first answer is used",
    parameters: &[],
    build: built::<crucible_read_all_first::ReadAllFirst>,
    source: include_str!("../crucible_read_all_first.rs"),
}];
