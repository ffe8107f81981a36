//! Rows of all other systems: our own policies, ZFS, SPDK, bcachefs, the literature.

use super::parameters::{WITHOUT, ZFS_INCREMENTS};
use crate::policies::origins::*;
use crate::policies::*;

pub(super) const MIRRORBALL_ROWS: &[PolicyInfo] = &[
    PolicyInfo {
        name: "mirrorball/auto",
        aliases: &["auto"],
        basis: Basis::Model,
        summary: "the mirror where the read costs least, by learned estimates of each member",
        parameters: &[WITHOUT],
        origin: MIRRORBALL,
        build: mirrorball_auto::build,
        source: include_str!("../mirrorball_auto.rs"),
    },
    PolicyInfo {
        name: "mirrorball/first",
        aliases: &["first"],
        basis: Basis::Address,
        summary: "always the first eligible mirror; the null policy",
        parameters: &[],
        origin: MIRRORBALL,
        build: mirrorball_first::build,
        source: include_str!("../mirrorball_first.rs"),
    },
    PolicyInfo {
        name: "mirrorball/random",
        aliases: &["random"],
        basis: Basis::Turns,
        summary: "a random mirror, all with equal probability; the baseline",
        parameters: &[],
        origin: MIRRORBALL,
        build: mirrorball_random::build,
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
        origin: ZFS,
        build: zfs_mirror::build,
        source: include_str!("../zfs_mirror.rs"),
    },
    PolicyInfo {
        name: "zfs/mirror-bypass",
        aliases: &[],
        basis: Basis::Measurements,
        summary: "as zfs/mirror, but non-rotational members have no queue that counts",
        parameters: &[],
        origin: PolicyOrigin {
            version: "after 2.4",
            file: "module/zfs/vdev_mirror.c, module/zfs/vdev_queue.c",
            ..ZFS
        },
        build: zfs_mirror_bypass::build,
        source: include_str!("../zfs_mirror_bypass.rs"),
    },
    PolicyInfo {
        name: "zfs/offset",
        aliases: &[],
        basis: Basis::Address,
        summary: "2 MiB of the volume to each mirror in turn",
        parameters: &[],
        origin: PolicyOrigin {
            system: "ZFS",
            version: "OpenSolaris, and illumos since",
            file: "usr/src/uts/common/fs/zfs/vdev_mirror.c",
            authors: "Sun Microsystems",
        },
        build: zfs_offset::build,
        source: include_str!("../zfs_offset.rs"),
    },
    PolicyInfo {
        name: "zfs/pending-10ms",
        aliases: &[],
        basis: Basis::Queues,
        summary: "the shortest queue; of equals, a different one every 10 ms",
        parameters: &[],
        origin: PolicyOrigin {
            system: "ZFS on Linux",
            version: "0.6.x",
            authors: "Brian Behlendorf",
            ..ZFS
        },
        build: zfs_pending_10ms::build,
        source: include_str!("../zfs_pending_10ms.rs"),
    },
];

pub(super) const BCACHEFS_ROWS: &[PolicyInfo] = &[PolicyInfo {
    name: "bcachefs/inverse-square-latency",
    aliases: &["inverse-square-latency"],
    basis: Basis::Measurements,
    summary: "a random mirror, weighted by the inverse square of its latency",
    parameters: &[],
    origin: PolicyOrigin {
        system: "bcachefs",
        version: "Linux 6.14 and later",
        file: "fs/bcachefs/extents.c",
        authors: "Kent Overstreet <kent.overstreet@gmail.com>",
    },
    build: bcachefs_inverse_square_latency::build,
    source: include_str!("../bcachefs_inverse_square_latency.rs"),
}];

pub(super) const SPDK_ROWS: &[PolicyInfo] = &[PolicyInfo {
    name: "spdk/raid1",
    aliases: &[],
    basis: Basis::Queues,
    summary: "the fewest bytes of reads in flight; of equals, the first member",
    parameters: &[],
    origin: PolicyOrigin {
        system: "SPDK",
        version: "present versions; an earlier one took turns",
        file: "module/bdev/raid/raid1.c",
        authors: "the SPDK authors",
    },
    build: spdk_raid1::build,
    source: include_str!("../spdk_raid1.rs"),
}];

pub(super) const SOLARIS_ROWS: &[PolicyInfo] = &[PolicyInfo {
    name: "solaris/geometric",
    aliases: &["geometric"],
    basis: Basis::Address,
    summary: "an equal part of the addresses from each member",
    parameters: &[],
    origin: PolicyOrigin {
        system: "Solaris Volume Manager",
        version: "Solstice DiskSuite 4.2.1 and later",
        file: "usr/src/uts/common/io/lvm/mirror/mirror.c",
        authors: "Sun Microsystems",
    },
    build: solaris_geometric::build,
    source: include_str!("../solaris_geometric.rs"),
}];

pub(super) const VXVM_ROWS: &[PolicyInfo] = &[PolicyInfo {
    name: "vxvm/round",
    aliases: &[],
    basis: Basis::Turns,
    summary: "round robin, but a read that continues the last one stays on its mirror",
    parameters: &[],
    origin: PolicyOrigin {
        system: "Veritas Volume Manager",
        version: "4.1 and later",
        file: "Administrator's Guide, vxvol rdpol",
        authors: "Veritas",
    },
    build: vxvm_round::build,
    source: include_str!("../vxvm_round.rs"),
}];

pub(super) const RESEARCH_ROWS: &[PolicyInfo] = &[
    PolicyInfo {
        name: "research/p2c",
        aliases: &["p2c"],
        basis: Basis::Queues,
        summary: "of two mirrors drawn at random, the one with fewer I/Os in flight",
        parameters: &[],
        origin: PolicyOrigin {
            system: "power of two choices",
            version: "1994",
            file: "\"Balanced Allocations\", STOC 1994",
            authors: "Azar, Broder, Karlin, Upfal",
        },
        build: research_p2c::build,
        source: include_str!("../research_p2c.rs"),
    },
    PolicyInfo {
        name: "research/sed",
        aliases: &["sed"],
        basis: Basis::Measurements,
        summary: "the shortest expected delay: in flight and one more, times the service time",
        parameters: &[],
        origin: IPVS,
        build: research_sed::build,
        source: include_str!("../research_sed.rs"),
    },
    PolicyInfo {
        name: "research/nq",
        aliases: &["nq"],
        basis: Basis::Measurements,
        summary: "the first idle member; if none is idle, the shortest expected delay",
        parameters: &[],
        origin: PolicyOrigin { file: "net/netfilter/ipvs/ip_vs_nq.c", ..IPVS },
        build: research_nq::build,
        source: include_str!("../research_nq.rs"),
    },
    PolicyInfo {
        name: "research/peak-ewma",
        aliases: &["peak-ewma"],
        basis: Basis::Measurements,
        summary: "of two mirrors drawn at random, the lower decaying peak of waits times the queue",
        parameters: &[],
        origin: PolicyOrigin {
            system: "Twitter Finagle",
            version: "6.x and later",
            file: "finagle-core/src/main/scala/com/twitter/finagle/loadbalancer/PeakEwma.scala",
            authors: "Twitter",
        },
        build: research_peak_ewma::build,
        source: include_str!("../research_peak_ewma.rs"),
    },
    PolicyInfo {
        name: "research/c3",
        aliases: &["c3"],
        basis: Basis::Measurements,
        summary: "the lowest mean wait in the queue plus the cube of the queue times service time",
        parameters: &[],
        origin: PolicyOrigin {
            system: "C3",
            version: "2015",
            file: "\"C3: Cutting Tail Latency in Cloud Data Stores via Adaptive Replica \
                   Selection\", NSDI 2015",
            authors: "Suresh, Canini, Schmid, Feldmann",
        },
        build: research_c3::build,
        source: include_str!("../research_c3.rs"),
    },
    PolicyInfo {
        name: "research/prequal",
        aliases: &["prequal"],
        basis: Basis::Measurements,
        summary: "of members with no unusual queue the lowest recent wait, else the shortest queue",
        parameters: &[],
        origin: PolicyOrigin {
            system: "Prequal",
            version: "2024",
            file: "\"Load is Not What You Should Balance: Introducing Prequal\", NSDI 2024",
            authors: "Wydrowski, Kleinberg, Rumble, Archer",
        },
        build: research_prequal::build,
        source: include_str!("../research_prequal.rs"),
    },
];

pub(super) const CRUCIBLE_ROWS: &[PolicyInfo] = &[PolicyInfo {
    name: "crucible/read-all-first",
    aliases: &["read-all-first"],
    basis: Basis::Address,
    summary: "every mirror is read, and the first answer is used",
    parameters: &[],
    origin: PolicyOrigin {
        system: "Crucible",
        version: "2021 and later",
        file: "upstairs/src",
        authors: "Oxide Computer Company",
    },
    build: crucible_read_all_first::build,
    source: include_str!("../crucible_read_all_first.rs"),
}];
