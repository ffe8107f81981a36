//! Our policies against the originals: real btrfs and md on two disks of known speed.
//!
//! Measured on 20 November 2026 with Linux 7.2.13 (`CONFIG_BTRFS_EXPERIMENTAL`) in a QEMU guest:
//! two virtio disks, each a file served one request at a time in 2 ms and in 6 ms; btrfs RAID1
//! with `nodatacow`, and md raid1; fio 3.33, direct, io_uring, 6 s, a file of 256 MiB. Such disks
//! have exact answers, so the rows test a rule and nothing else: each disk's share of the reads
//! within 3 points, and at depth, where the guest's own cost hides behind the disks, the IOPS
//! within 5 %. `btrfs/pid` is left out: which disk a process gets is its pid's parity.

use mirrorball_core::units::Nanos;
use mirrorball_disk::array_file::{ArrayFile, ArraySpec};
use mirrorball_sim::engine::{Contender, Run, Watch, run};
use mirrorball_sim::job::{Environment, JobFile};

/// One measurement.
struct Row {
    policy: &'static str,
    job: &'static str,
    iops: f64,
    reads: [f64; 2],
}

const fn row(policy: &'static str, job: &'static str, iops: f64, reads: [f64; 2]) -> Row {
    Row { policy, job, iops, reads }
}

const RANDOM_1: &str = "rw=randread\nbs=4k\niodepth=1";
const RANDOM_8: &str = "rw=randread\nbs=4k\niodepth=8";
const RANDOM_4X4: &str = "rw=randread\nbs=4k\niodepth=4\nnumjobs=4";
const STREAM_128K: &str = "rw=read\nbs=128k\niodepth=4";
const STREAM_64K: &str = "rw=read\nbs=64k\niodepth=1";

const ROWS: [Row; 16] = [
    row("btrfs/round-robin:262144", RANDOM_1, 217.0, [663.0, 640.0]),
    row("btrfs/round-robin:262144", RANDOM_8, 281.0, [859.0, 832.0]),
    row("btrfs/round-robin:262144", RANDOM_4X4, 321.0, [974.0, 988.0]),
    row("btrfs/round-robin:262144", STREAM_128K, 337.0, [1012.0, 1015.0]),
    row("btrfs/round-robin:262144", STREAM_64K, 207.0, [621.0, 623.0]),
    row("btrfs/round-robin:4096", RANDOM_8, 332.0, [1005.0, 1006.0]),
    row("btrfs/round-robin:4096", STREAM_128K, 501.0, [3009.0, 0.0]),
    row("btrfs/round-robin:4096", STREAM_64K, 329.0, [1976.0, 0.0]),
    row("btrfs/devid:1", RANDOM_1, 377.0, [2263.0, 0.0]),
    row("btrfs/devid:1", RANDOM_8, 499.0, [3004.0, 0.0]),
    row("btrfs/devid:2", RANDOM_8, 166.0, [0.0, 1006.0]),
    row("md/raid1", RANDOM_1, 399.0, [2377.0, 24.0]),
    row("md/raid1", RANDOM_8, 604.0, [2639.0, 1004.0]),
    row("md/raid1", RANDOM_4X4, 592.0, [2592.0, 1014.0]),
    row("md/raid1", STREAM_128K, 393.0, [2048.0, 321.0]),
    row("md/raid1", STREAM_64K, 384.0, [2308.0, 0.0]),
];

fn array() -> ArraySpec {
    let mut array = ArrayFile::builtin("two-delays-raid1").expect("it is built in").spec;
    // What the guest added to each request at depth 1.
    array.host.overhead = Nanos::from_micros(400);
    array
}

#[test]
fn shares_and_rates_are_those_of_the_kernel() {
    let array = array();
    let mut misses = Vec::new();
    for Row { policy, job, iops, reads } in &ROWS {
        let text = format!("[job]\nioengine=io_uring\ndirect=1\nsize=256M\n{job}\n");
        let jobs = JobFile::parse(&text, "job.fio", &Environment::empty()).expect("a valid job");
        let (contender, duration) = (Contender::Policy(policy), Some(Nanos::from_secs(6)));
        let watch = Watch::Checked;
        let run = run(&Run { array: &array, jobs: &jobs, contender, seed: 1, duration, watch });
        let record = run.expect("it runs");
        let ours: Vec<f64> = record.members.iter().map(|m| m.foreground_reads as f64).collect();
        let share = |reads: &[f64]| 100.0 * reads[0] / (reads[0] + reads[1]);
        let rate = record.jobs[0].read.latency.count() as f64 / record.measured.as_secs_f64();
        let deep = !job.contains("iodepth=1");
        let same_share = (share(&ours) - share(reads)).abs() <= 3.0;
        if !same_share || (deep && (rate / iops - 1.0).abs() > 0.05) {
            let job = job.replace('\n', " ");
            misses.push(format!(
                "{policy}, {job}: {rate:.0} IOPS for {iops}, {ours:?} for {reads:?}"
            ));
        }
    }
    assert!(misses.is_empty(), "{}", misses.join("\n"));
}
