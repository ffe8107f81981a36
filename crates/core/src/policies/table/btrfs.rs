//! Rows of btrfs: merged policies, patches that were not merged, and kakra's patch set.

use super::parameters::*;
use crate::policies::*;

pub(super) const BTRFS_ROWS: &[PolicyInfo] = &[
    PolicyInfo {
        name: "btrfs/pid",
        aliases: &["pid"],
        basis: Basis::Address,
        summary: "the reader's process id selects the stripe",
        parameters: &[],
        build: built::<btrfs_pid::Pid>,
        source: include_str!("../btrfs_pid.rs"),
    },
    PolicyInfo {
        name: "btrfs/round-robin",
        aliases: &["round-robin"],
        basis: Basis::Turns,
        summary: "mirrors take turns by the number of blocks read from the volume",
        parameters: &[CONTIGUOUS_BYTES],
        build: btrfs_round_robin::build,
        source: include_str!("../btrfs_round_robin.rs"),
    },
    PolicyInfo {
        name: "btrfs/rotation",
        aliases: &["rotation"],
        basis: Basis::Turns,
        summary: "mirrors take turns by the number of reads of the volume",
        parameters: &[ParameterInfo {
            default: Some(4096),
            meaning: "bytes read from one mirror before the next, if each read is of one sector",
            ..CONTIGUOUS_BYTES
        }],
        build: btrfs_rotation::build,
        source: include_str!("../btrfs_rotation.rs"),
    },
    PolicyInfo {
        name: "btrfs/devid",
        aliases: &["devid"],
        basis: Basis::Address,
        summary: "the mirror on one named member, else the first stripe",
        parameters: &[ParameterInfo {
            name: "id",
            unit: Unit::Devid,
            default: None,
            range: 1..=i64::MAX as u64,
            multiple_of: 1,
            meaning: "the member to read from",
        }],
        build: btrfs_devid::build,
        source: include_str!("../btrfs_devid.rs"),
    },
    PolicyInfo {
        name: "btrfs/latency",
        aliases: &["latency"],
        basis: Basis::Measurements,
        summary: "the lowest mean read wait since the start",
        parameters: &[],
        build: built::<btrfs_latency::BtrfsLatency>,
        source: include_str!("../btrfs_latency.rs"),
    },
    PolicyInfo {
        name: "btrfs/titovets",
        aliases: &[],
        basis: Basis::Queues,
        summary: "the mirror of the process id, unless its queue is much longer than the shortest",
        parameters: &[],
        build: built::<btrfs_titovets::Titovets>,
        source: include_str!("../btrfs_titovets.rs"),
    },
    PolicyInfo {
        name: "btrfs/inflight",
        aliases: &[],
        basis: Basis::Measurements,
        summary: "the lowest mean read wait, raised by a tenth for each I/O in flight from ten on",
        parameters: &[],
        build: built::<btrfs_inflight::Inflight>,
        source: include_str!("../btrfs_inflight.rs"),
    },
    PolicyInfo {
        name: "btrfs/rostecki",
        aliases: &[],
        basis: Basis::Queues,
        summary: "the stripe used last until its device's queue is full, then the next one",
        parameters: &[],
        build: built::<btrfs_rostecki::Rostecki>,
        source: include_str!("../btrfs_rostecki.rs"),
    },
];

pub(super) const KAKRA_ROWS: &[PolicyInfo] = &[
    PolicyInfo {
        name: "kakra/latency",
        aliases: &[],
        basis: Basis::Measurements,
        summary: "the lowest mean read wait since the last checkpoint",
        parameters: &[PROBE],
        build: kakra_latency::build,
        source: include_str!("../kakra_latency.rs"),
    },
    PolicyInfo {
        name: "kakra/latency-rr",
        aliases: &["latency-rr"],
        basis: Basis::Measurements,
        summary: "round robin among the mirrors within 25 % of the lowest mean read wait",
        parameters: &[CONTIGUOUS_BYTES, PROBE],
        build: kakra_latency_rr::build,
        source: include_str!("../kakra_latency_rr.rs"),
    },
    PolicyInfo {
        name: "kakra/queue",
        aliases: &["queue"],
        basis: Basis::Queues,
        summary: "the fewest reads and writes in flight",
        parameters: &[],
        build: built::<kakra_queue::Queue>,
        source: include_str!("../kakra_queue.rs"),
    },
    PolicyInfo {
        name: "kakra/queue-adaptive",
        aliases: &["queue-adaptive"],
        basis: Basis::Measurements,
        summary: "the fewest in flight, unless that member's recent reads were much slower",
        parameters: &[],
        build: built::<kakra_queue_adaptive::QueueAdaptive>,
        source: include_str!("../kakra_queue_adaptive.rs"),
    },
];
