//! The metrics of a service, as Prometheus reads them.
//!
//! They are computed from the statistics of the executor when they are fetched, so they cost
//! nothing in between. Metrics of a member have its `devid` as a label.
//!
//! Waits are in the time of the disk models, as in `ctl stats`; lateness is in real time.
//!
//! Source of the format: OpenMetrics 1.0, through the crate `prometheus-client`.

use super::conditions::{WatchedParts, bytes_of_mirrors};
use super::protocol::{Condition, RebuildProgress, ReportedScrubState, ScrubReport};
use super::scrub_state::scrub_report;
use super::status::rebuilds;
use super::{Control, ServiceParts};
use crate::Volume;
use crate::executor::{Executor, MemberStats};
use mirrorball_core::histogram::{Histogram, bin_middle};
use mirrorball_core::member::{MemberConfig, MemberIndex};
use mirrorball_core::units::Nanos;
use mirrorball_store::StoreGate;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use std::collections::BTreeMap;
use std::fmt::Error;

/// Upper bounds of the buckets of histograms: 1, 2, 5 in each decade, from a fast SSD to a disk
/// whose commands time out.
const BOUNDS: [Nanos; 19] = [
    Nanos::from_micros(10),
    Nanos::from_micros(20),
    Nanos::from_micros(50),
    Nanos::from_micros(100),
    Nanos::from_micros(200),
    Nanos::from_micros(500),
    Nanos::from_millis(1),
    Nanos::from_millis(2),
    Nanos::from_millis(5),
    Nanos::from_millis(10),
    Nanos::from_millis(20),
    Nanos::from_millis(50),
    Nanos::from_millis(100),
    Nanos::from_millis(200),
    Nanos::from_millis(500),
    Nanos::from_secs(1),
    Nanos::from_secs(2),
    Nanos::from_secs(5),
    Nanos::from_secs(10),
];

type Sample = (Vec<(&'static str, String)>, Value);

#[derive(Debug)]
enum Value {
    Counter(u64),
    Gauge(i64),
    /// Sum in seconds, count, and the count of each bucket by its upper bound in seconds.
    Histogram(f64, u64, Vec<(f64, u64)>),
}

#[derive(Debug)]
struct Family {
    name: &'static str,
    help: &'static str,
    kind: MetricType,
    samples: Vec<Sample>,
}

/// How a metric is read from the statistics of a member; its type follows from that.
enum Find {
    Counter(fn(&MemberStats) -> u64),
    Gauge(fn(&MemberStats) -> u32),
    Histogram(fn(&MemberStats) -> &Histogram),
}

/// Metrics of each member: name, help, and how to read it.
const OF_MEMBER: [(&str, &str, Find); 9] = [
    ("member_reads", "Reads that ended well", Find::Counter(|stats| stats.reads)),
    ("member_read_bytes", "Bytes of those reads", Find::Counter(|stats| stats.read_bytes)),
    ("member_writes", "Writes that ended well", Find::Counter(|stats| stats.writes)),
    ("member_written_bytes", "Bytes of those writes", Find::Counter(|stats| stats.written_bytes)),
    ("member_errors", "I/Os that failed", Find::Counter(|stats| stats.errors)),
    ("member_in_flight", "I/Os submitted and not completed", Find::Gauge(|stats| stats.in_flight)),
    (
        "member_read_wait_seconds",
        "Completion minus submission of reads",
        Find::Histogram(|stats| &stats.read_wait),
    ),
    (
        "member_write_wait_seconds",
        "Completion minus submission of writes",
        Find::Histogram(|stats| &stats.write_wait),
    ),
    (
        "member_lateness_seconds",
        "How much later than the model said emulated I/Os ended",
        Find::Histogram(|stats| &stats.lateness),
    ),
];

impl Find {
    fn kind(&self) -> MetricType {
        match self {
            Find::Counter(_) => MetricType::Counter,
            Find::Gauge(_) => MetricType::Gauge,
            Find::Histogram(_) => MetricType::Histogram,
        }
    }

    fn value(&self, stats: &MemberStats) -> Value {
        match self {
            Find::Counter(find) => Value::Counter(find(stats)),
            Find::Gauge(find) => Value::Gauge(find(stats).into()),
            Find::Histogram(find) => histogram(find(stats)),
        }
    }
}

pub(super) fn text(control: &Control, parts: &ServiceParts<'_>) -> String {
    let mut registry = Registry::with_prefix("mirrorball");
    registry.register_collector(Box::new(Families(families(control, parts))));
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry)
        .expect("writing to a string does not fail");
    text
}

fn families(control: &Control, parts: &ServiceParts<'_>) -> Vec<Family> {
    let executor = &*parts.executor;
    let profile = executor.volume().map(|volume| volume.map().profile().name().to_owned());
    let labels = vec![
        ("name", control.name.clone()),
        ("profile", profile.unwrap_or_default()),
        ("policy", control.policy.clone().unwrap_or_default()),
    ];
    let served = vec![(labels, Value::Gauge(1))];
    let connected = vec![(Vec::new(), Value::Gauge(parts.server.connections() as i64))];
    let mut families = vec![
        gauge("volume_info", "What is served, and by which policy", served),
        gauge("connections", "Clients that are connected", connected),
        members_family(parts),
        conditions_family(&WatchedParts::of(parts).conditions()),
    ];
    families.extend(OF_MEMBER.iter().map(|(name, help, find)| {
        let samples = executor.members().map(|(config, stats)| (devid(config), find.value(stats)));
        Family { name, help, kind: find.kind(), samples: samples.collect() }
    }));
    if let Some(volume) = executor.volume() {
        families.extend([
            gauge(
                "volume_unsynced_bytes",
                "Bytes whose mirrors may differ",
                value(volume.gate().map_or(0, StoreGate::unsynced_bytes)),
            ),
            gauge(
                "volume_active_bytes",
                "Bytes that a crash now would have synchronised",
                value(bytes_of_mirrors(volume, StoreGate::crash_resync_bytes)),
            ),
        ]);
        families.extend(checksum_families(volume));
        families.push(failed_family(executor));
        families.extend(rebuild_families(&rebuilds(executor, parts.rebuild)));
    }
    families.extend(scrub_report(control, parts.scrub, executor).iter().flat_map(scrub_families));
    if let Some(volume) = executor.volume() {
        let samples = volume.counters().into_iter().map(|counter| {
            let member = counter.member.map(|member| &volume.members()[member].config);
            let mut labels = member.map(devid).unwrap_or_default();
            labels.push(("name", counter.name.to_owned()));
            (labels, Value::Gauge(counter.value))
        });
        let help = "What the policy counts, by its own names";
        families.push(gauge("policy_counter", help, samples.collect()));
    }
    families
}

/// The device of each member, for joins with the other metrics of members.
fn members_family(parts: &ServiceParts<'_>) -> Family {
    let members = (0..).map(MemberIndex).zip(parts.executor.members());
    let samples = members.map(|(index, (config, _))| {
        let device = parts.rebuild.device(index, parts.executor);
        let mut labels = devid(config);
        labels.push(("device", device.map_or(String::new(), |device| device.absolute())));
        (labels, Value::Gauge(1))
    });
    gauge("member_info", "Where a member is", samples.collect())
}

fn gauge(name: &'static str, help: &'static str, samples: Vec<Sample>) -> Family {
    Family { name, help, kind: MetricType::Gauge, samples }
}

/// The sample of a metric without labels.
fn value(value: u64) -> Vec<Sample> {
    vec![(Vec::new(), Value::Gauge(value as i64))]
}

/// Whether data have checksums, how many blocks of each member do not match, and how many pages of
/// checksums are lost.
fn checksum_families(volume: &Volume) -> [Family; 3] {
    let has_checksums = volume.has_checksums();
    let rows = volume.members().iter().filter(|_| has_checksums);
    let samples = rows.map(|(index, member)| {
        (
            devid(&member.config),
            Value::Counter(volume.gate().map_or(0, |store| store.mismatched_blocks(index))),
        )
    });
    [
        gauge(
            "volume_checksums",
            "1 if data have checksums, which every read verifies",
            value(has_checksums.into()),
        ),
        Family {
            name: "member_mismatched_blocks",
            help: "Blocks of 4 KiB that did not match their checksums",
            kind: MetricType::Counter,
            samples: samples.collect(),
        },
        Family {
            name: "volume_lost_checksum_pages",
            help: "Pages of 512 checksums that could not be read on any member",
            kind: MetricType::Counter,
            samples: vec![(
                Vec::new(),
                Value::Counter(volume.gate().map_or(0, StoreGate::lost_checksum_pages)),
            )],
        },
    ]
}

fn failed_family(executor: &Executor) -> Family {
    let failed = executor.failed_requests();
    let sample = |(op, count): (&str, u64)| (vec![("op", op.to_owned())], Value::Counter(count));
    Family {
        name: "volume_failed_requests",
        help: "Requests of clients that too few members could serve",
        kind: MetricType::Counter,
        samples: [("read", failed.reads), ("write", failed.writes)].map(sample).into(),
    }
}

/// Number of conditions now, by name and member.
fn conditions_family(conditions: &[Condition]) -> Family {
    let mut counts = BTreeMap::new();
    for Condition { name, severity, devid, .. } in conditions {
        let devid = devid.map_or(String::new(), |devid| devid.to_string());
        *counts.entry((name, severity.name(), devid)).or_default() += 1;
    }
    let sample = |((name, severity, devid), count): ((&String, &str, String), i64)| {
        let labels =
            vec![("name", name.clone()), ("severity", severity.to_owned()), ("devid", devid)];
        (labels, Value::Gauge(count))
    };
    let help = "Conditions: what is wrong now";
    gauge("condition", help, counts.into_iter().map(sample).collect())
}

/// How far the last scrub is, and what it found.
fn scrub_families(scrub: &ScrubReport) -> [Family; 8] {
    let is_running = u64::from(scrub.state == ReportedScrubState::Running);
    [
        gauge("scrub_running", "1 while a scrub runs", value(is_running)),
        gauge("scrub_total_bytes", "Size of the volume", value(scrub.total_bytes)),
        gauge("scrub_checked_bytes", "Bytes that it checked", value(scrub.checked_bytes)),
        gauge(
            "scrub_uncompared_bytes",
            "Bytes of those that could not be compared",
            value(scrub.uncompared_bytes),
        ),
        gauge(
            "scrub_differing_blocks",
            "Blocks of 4 KiB that differed between mirrors, or from their parities",
            value(scrub.differing_blocks),
        ),
        gauge(
            "scrub_repaired_blocks",
            "Blocks of 4 KiB of those that were made equal",
            value(scrub.repaired_blocks),
        ),
        gauge(
            "scrub_mismatched_blocks",
            "Blocks of 4 KiB, on any member, that did not match their checksums",
            value(scrub.mismatched_blocks),
        ),
        gauge(
            "scrub_unreadable_blocks",
            "Blocks of 4 KiB that could not be read, or that no mirror has right",
            value(scrub.unreadable_blocks),
        ),
    ]
}

/// How far the rebuilds of members are.
fn rebuild_families(rebuilds: &[RebuildProgress]) -> [Family; 3] {
    let samples = |find: fn(&RebuildProgress) -> u64| {
        let sample = |rebuild: &RebuildProgress| {
            let labels = vec![("devid", rebuild.devid.to_string())];
            (labels, Value::Gauge(find(rebuild) as i64))
        };
        rebuilds.iter().map(sample).collect()
    };
    let recovered = samples(|rebuild| rebuild.recovered_bytes);
    let help = "Bytes of the member that are in sync again";
    [
        gauge("rebuild_recovered_bytes", help, recovered),
        gauge(
            "rebuild_total_bytes",
            "Bytes to rebuild in all",
            samples(|rebuild| rebuild.total_bytes),
        ),
        gauge(
            "rebuild_only_missed",
            "1 if the member gets only what it missed",
            samples(|rebuild| rebuild.only_missed.into()),
        ),
    ]
}

fn devid(config: &MemberConfig) -> Vec<(&'static str, String)> {
    vec![("devid", config.devid.to_string())]
}

/// The buckets of a histogram. The middle of a bin decides to which bucket it belongs.
fn histogram(histogram: &Histogram) -> Value {
    let seconds = |nanos: Nanos| nanos.0 as f64 / 1e9;
    let mut buckets: Vec<(f64, u64)> = BOUNDS.iter().map(|&bound| (seconds(bound), 0)).collect();
    buckets.push((f64::INFINITY, 0));
    for (bin, count) in histogram.bins() {
        let middle = bin_middle(bin);
        buckets[BOUNDS.partition_point(|&bound| bound < middle)].1 += count;
    }
    Value::Histogram(histogram.sum_ns() as f64 / 1e9, histogram.count(), buckets)
}

#[derive(Debug)]
struct Families(Vec<Family>);

impl Collector for Families {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        for Family { name, help, kind, samples } in &self.0 {
            let mut metric = encoder.encode_descriptor(name, help, None, *kind)?;
            for (labels, value) in samples {
                if labels.is_empty() {
                    encode(&mut metric, value)?;
                } else {
                    encode(&mut metric.encode_family(labels)?, value)?;
                }
            }
        }
        Ok(())
    }
}

fn encode(metric: &mut MetricEncoder<'_>, value: &Value) -> Result<(), Error> {
    match value {
        Value::Counter(value) => metric.encode_counter::<NoLabelSet, _, f64>(value, None),
        Value::Gauge(value) => metric.encode_gauge(value),
        Value::Histogram(sum, count, buckets) => {
            metric.encode_histogram::<NoLabelSet>(*sum, *count, buckets, None)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_in_the_first_bucket_whose_bound_they_do_not_exceed() {
        let mut waits = Histogram::default();
        for micros in [1, 9, 11, 800, 30_000_000] {
            waits.record(Nanos::from_micros(micros));
        }
        let Value::Histogram(sum, count, buckets) = histogram(&waits) else { panic!() };
        assert_eq!((count, buckets.len()), (5, BOUNDS.len() + 1));
        assert!((sum - 30.000_821).abs() < 1e-9, "{sum}");
        let filled: Vec<(f64, u64)> = buckets.into_iter().filter(|&(_, n)| n > 0).collect();
        assert_eq!(filled, [(1e-5, 2), (2e-5, 1), (1e-3, 1), (f64::INFINITY, 1)]);
    }
}
