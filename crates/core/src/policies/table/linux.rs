//! Rows of the Linux block layer.

use super::parameters::*;
use crate::policies::origins::*;
use crate::policies::*;

pub(super) const MD_ROWS: &[PolicyInfo] = &[
    PolicyInfo {
        name: "md/raid1",
        aliases: &["md"],
        basis: Basis::Measurements,
        summary: "the disk of the stream; else an idle disk, the shortest queue, the nearest head",
        parameters: &[FIRST],
        origin: PolicyOrigin {
            system: "Linux md",
            version: "6.9 and later",
            file: "drivers/md/raid1.c",
            authors: "Yu Kuai <yukuai3@huawei.com>, Paul Luse <paul.e.luse@linux.intel.com>",
        },
        build: md_raid1::build,
        source: include_str!("../md_raid1.rs"),
    },
    PolicyInfo {
        name: "md/raid1-weighted-writes",
        aliases: &[],
        basis: Basis::Measurements,
        summary: "as md/raid1, but on SSDs each four writes in a queue count as five",
        parameters: &[],
        origin: PolicyOrigin {
            version: "patch, October 2024, not merged",
            file: "linux-raid, \"md: raid1 mixed RW performance improvement\"",
            authors: "Paul Luse <paulluselinux@gmail.com>",
            ..MD
        },
        build: md_raid1_weighted_writes::build,
        source: include_str!("../md_raid1_weighted_writes.rs"),
    },
    PolicyInfo {
        name: "md/raid10",
        aliases: &[],
        basis: Basis::Measurements,
        summary: "an idle disk or the nearest head, or the lowest address; on SSDs the queue",
        parameters: &[LAYOUT],
        origin: MD,
        build: md_raid10::build,
        source: include_str!("../md_raid10.rs"),
    },
    PolicyInfo {
        name: "md/raid10-2008",
        aliases: &[],
        basis: Basis::Measurements,
        summary: "the first idle disk, else the nearest head; in far and offset the lowest address",
        parameters: &[LAYOUT],
        origin: PolicyOrigin {
            version: "2.6.26 to 5.2",
            authors: "Neil Brown, Keld Simonsen",
            ..MD
        },
        build: md_raid10_2008::build,
        source: include_str!("../md_raid10_2008.rs"),
    },
    PolicyInfo {
        name: "md/raid1-2010",
        aliases: &[],
        basis: Basis::Measurements,
        summary: "scan from the disk used last: a stream, else an idle disk, else the nearest head",
        parameters: &[],
        origin: PolicyOrigin {
            version: "2.6.36 to 3.5",
            file: "drivers/md/raid1.c",
            authors: "Neil Brown",
            ..MD
        },
        build: md_raid1_2010::build,
        source: include_str!("../md_raid1_2010.rs"),
    },
    PolicyInfo {
        name: "md/raid1-2012",
        aliases: &[],
        basis: Basis::Measurements,
        summary: "the first disk idle or with the stream; else shortest queue or nearest head",
        parameters: &[FIRST],
        origin: PolicyOrigin {
            version: "3.6 to 4.9",
            file: "drivers/md/raid1.c",
            authors: "Shaohua Li, Neil Brown",
            ..MD
        },
        build: md_raid1_2012::build,
        source: include_str!("../md_raid1_2012.rs"),
    },
    PolicyInfo {
        name: "md/raid1-2016",
        aliases: &[],
        basis: Basis::Measurements,
        summary: "as md/raid1, but a long stream stays on its SSD whatever else is idle",
        parameters: &[FIRST],
        origin: PolicyOrigin {
            version: "4.10 to 6.8.1",
            file: "drivers/md/raid1.c",
            authors: "Shaohua Li, Neil Brown",
            ..MD
        },
        build: md_raid1_2016::build,
        source: include_str!("../md_raid1_2016.rs"),
    },
];

pub(super) const DRBD_ROWS: &[PolicyInfo] = &[
    PolicyInfo {
        name: "drbd/prefer-local",
        aliases: &[],
        basis: Basis::Address,
        summary: "the local copy: the member of lowest index",
        parameters: &[],
        origin: DRBD,
        build: drbd_prefer_local::build,
        source: include_str!("../drbd_prefer_local.rs"),
    },
    PolicyInfo {
        name: "drbd/prefer-remote",
        aliases: &[],
        basis: Basis::Address,
        summary: "a peer: any but the member of lowest index",
        parameters: &[],
        origin: DRBD,
        build: drbd_prefer_remote::build,
        source: include_str!("../drbd_prefer_remote.rs"),
    },
    PolicyInfo {
        name: "drbd/round-robin",
        aliases: &[],
        basis: Basis::Turns,
        summary: "local and remote in turn",
        parameters: &[],
        origin: DRBD,
        build: drbd_round_robin::build,
        source: include_str!("../drbd_round_robin.rs"),
    },
    PolicyInfo {
        name: "drbd/least-pending",
        aliases: &[],
        basis: Basis::Queues,
        summary: "the local copy unless it has more in flight than the peer",
        parameters: &[],
        origin: DRBD,
        build: drbd_least_pending::build,
        source: include_str!("../drbd_least_pending.rs"),
    },
    PolicyInfo {
        name: "drbd/striping",
        aliases: &[],
        basis: Basis::Address,
        summary: "even stripes of the volume from the local copy, odd ones from a peer",
        parameters: &[STRIPE_BYTES],
        origin: DRBD,
        build: drbd_striping::build,
        source: include_str!("../drbd_striping.rs"),
    },
];

pub(super) const DM_ROWS: &[PolicyInfo] = &[
    PolicyInfo {
        name: "dm/round-robin",
        aliases: &[],
        basis: Basis::Turns,
        summary: "the member chosen longest ago, for a number of reads",
        parameters: &[READS_PER_TURN],
        origin: PolicyOrigin {
            version: "every version",
            file: "drivers/md/dm-ps-round-robin.c",
            authors: "Heinz Mauelshagen, Sistina Software",
            ..MULTIPATH
        },
        build: dm_round_robin::build,
        source: include_str!("../dm_round_robin.rs"),
    },
    PolicyInfo {
        name: "dm/queue-length",
        aliases: &[],
        basis: Basis::Queues,
        summary: "the fewest I/O in flight; of equals, the member chosen longest ago",
        parameters: &[],
        origin: PolicyOrigin {
            file: "drivers/md/dm-ps-queue-length.c",
            authors: "Stefan Bader, IBM; Kiyoshi Ueda, NEC",
            ..MULTIPATH
        },
        build: dm_queue_length::build,
        source: include_str!("../dm_queue_length.rs"),
    },
    PolicyInfo {
        name: "dm/service-time",
        aliases: &[],
        basis: Basis::Queues,
        summary: "the fewest bytes in flight; of equals, the member chosen longest ago",
        parameters: &[],
        origin: PolicyOrigin {
            file: "drivers/md/dm-ps-service-time.c",
            authors: "Kiyoshi Ueda, Jun'ichi Nomura, NEC",
            ..MULTIPATH
        },
        build: dm_service_time::build,
        source: include_str!("../dm_service_time.rs"),
    },
    PolicyInfo {
        name: "dm/historical-service-time",
        aliases: &[],
        basis: Basis::Measurements,
        summary: "the fewest in flight times mean service time, with probes of stale members",
        parameters: &[BASE_WEIGHT, THRESHOLD_MULTIPLIER],
        origin: PolicyOrigin {
            version: "5.8 and later",
            file: "drivers/md/dm-ps-historical-service-time.c",
            authors: "Khazhismel Kumykov <khazhy@google.com>",
            ..MULTIPATH
        },
        build: dm_historical_service_time::build,
        source: include_str!("../dm_historical_service_time.rs"),
    },
    PolicyInfo {
        name: "dm/io-affinity",
        aliases: &[],
        basis: Basis::Address,
        summary: "the CPU that submits the read selects the stripe",
        parameters: &[],
        origin: PolicyOrigin {
            version: "5.11 and later",
            file: "drivers/md/dm-ps-io-affinity.c",
            authors: "Mike Christie <michael.christie@oracle.com>",
            ..MULTIPATH
        },
        build: dm_io_affinity::build,
        source: include_str!("../dm_io_affinity.rs"),
    },
];

pub(super) const NVME_ROWS: &[PolicyInfo] = &[
    PolicyInfo {
        name: "nvme/numa",
        aliases: &[],
        basis: Basis::Address,
        summary: "the first member, kept while it can serve; the kernel's default",
        parameters: &[],
        origin: PolicyOrigin { authors: "Christoph Hellwig", ..NVME },
        build: nvme_numa::build,
        source: include_str!("../nvme_numa.rs"),
    },
    PolicyInfo {
        name: "nvme/round-robin",
        aliases: &[],
        basis: Basis::Turns,
        summary: "the next member for each request",
        parameters: &[],
        origin: PolicyOrigin { authors: "Hannes Reinecke <hare@suse.de>", ..NVME },
        build: nvme_round_robin::build,
        source: include_str!("../nvme_round_robin.rs"),
    },
    PolicyInfo {
        name: "nvme/queue-depth",
        aliases: &[],
        basis: Basis::Queues,
        summary: "the fewest I/O in flight; of equals, the first member",
        parameters: &[],
        origin: PolicyOrigin {
            version: "6.11 and later",
            authors: "Thomas Song, John Meneghini",
            ..NVME
        },
        build: nvme_queue_depth::build,
        source: include_str!("../nvme_queue_depth.rs"),
    },
    PolicyInfo {
        name: "nvme/adaptive",
        aliases: &["nvme/latency"],
        basis: Basis::Measurements,
        summary: "round robin with turns inverse to the members' smoothed read latencies",
        parameters: &[],
        origin: PolicyOrigin {
            version: "RFC v5, November 2025 (v6: latency), not merged",
            file: "linux-nvme",
            authors: "Nilay Shroff <nilay@linux.ibm.com>",
            ..NVME
        },
        build: nvme_adaptive::build,
        source: include_str!("../nvme_adaptive.rs"),
    },
];
