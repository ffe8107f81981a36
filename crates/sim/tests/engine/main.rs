//! The engine against closed forms: on disks of fixed service time every answer is known.

mod array_cache;
mod auto;
mod controller;
mod files;
mod golden;
mod layouts;
mod lockstep;
mod md_parity;
mod measuring;
mod pace;
mod parity;
mod published_figures;
mod published_order;
mod replay;

use mirrorball_core::units::Nanos;
use mirrorball_disk::array_file::{ArrayFile, ArraySpec, HostOverhead};
use mirrorball_sim::SimError;
use mirrorball_sim::engine::{Checks, PolicyUnderTest, Simulation, run, run_until};
use mirrorball_sim::job::{JobContext, JobFile};
use mirrorball_sim::record::{INTERVALS_MAX, MemberRecord, RunRecord, SAMPLES_MAX, SectionRecord};
use std::sync::atomic::AtomicBool;

/// Members with one server each, of these service times, on a host that costs nothing.
fn delays(profile: &str, services: &[&str]) -> ArraySpec {
    let mut text =
        format!("name = \"delays\"\nprofile = \"{profile}\"\n[host]\noverhead = \"0us\"\n");
    for service in services {
        text += &format!(
            "[[member]]\nmodel = \"delay\"\nsize = \"64GiB\"\nset = {{ service = \"{service}\" }}\n"
        );
    }
    ArrayFile::parse(&text, "delays.toml").expect("a valid array").spec
}

fn jobs(options: &str) -> JobFile {
    let text = format!(
        "[global]\nfilename=/dev/md0\nioengine=io_uring\ndirect=1\nsize=8G\nruntime=10\n\
         time_based\n[job]\n{options}\n"
    );
    JobFile::parse(&text, "test.fio", &JobContext::empty()).expect("a valid job")
}

fn simulate(array: &ArraySpec, jobs: &JobFile, policy: &str) -> RunRecord {
    let policy = PolicyUnderTest::Policy(policy);
    let checks = Checks::On;
    run(&Simulation { array, job: jobs, policy, seed: 1, duration: None, checks }).expect("it runs")
}

fn iops(record: &RunRecord) -> f64 {
    let reads: u64 = record.sections.iter().map(|job| job.read.latency.count()).sum();
    reads as f64 / record.measured.as_secs_f64()
}

fn reads_in_intervals(record: &RunRecord) -> u64 {
    record.intervals.read_latency.iter().flat_map(|latency| &latency.counts).sum()
}

fn member_reads(record: &RunRecord) -> Vec<u64> {
    record.members.iter().map(|member| member.foreground_reads).collect()
}

#[track_caller]
fn assert_near(actual: f64, expected: f64, tolerance: f64) {
    let error = (actual - expected).abs() / expected;
    assert!(error <= tolerance, "{actual} is not {expected} within {tolerance}");
}

#[test]
fn one_server_serves_one_at_a_time_whatever_the_depth() {
    let array = delays("single", &["2ms"]);
    for depth in [1, 8, 64] {
        let record = simulate(&array, &jobs(&format!("rw=randread\niodepth={depth}")), "first");
        assert_near(iops(&record), 500.0, 0.002);
        // Little's law: with nothing else to wait for, latency is depth times service.
        let mean = record.sections[0].read.latency.mean();
        assert_near(mean.as_secs_f64(), 0.002 * f64::from(depth), 0.01);
    }
}

#[test]
fn the_host_costs_its_overhead_once_a_request() {
    let mut array = delays("single", &["2ms"]);
    array.host.overhead = HostOverhead { mean: Nanos::from_micros(400), jitter: 0.0 };
    let record = simulate(&array, &jobs("rw=randread"), "first");
    assert_near(iops(&record), 1.0 / 0.0024, 0.002);
}

#[test]
fn rotation_over_unequal_members_runs_at_the_pace_of_the_slower() {
    let array = delays("raid1", &["2ms", "6ms"]);
    // At depth 1 a pair of turns takes 2 + 6 ms.
    let record = simulate(&array, &jobs("rw=randread"), "btrfs/round-robin:4096");
    assert_near(iops(&record), 2.0 / 0.008, 0.005);
    // At depth the slower one is never idle and takes every second read.
    let record = simulate(&array, &jobs("rw=randread\niodepth=32"), "btrfs/round-robin:4096");
    assert_near(iops(&record), 2.0 / 0.006, 0.01);
    let reads = member_reads(&record);
    assert!(reads[0].abs_diff(reads[1]) <= 32, "{reads:?}");
}

#[test]
fn the_shortest_queue_keeps_both_members_busy() {
    let array = delays("raid1", &["2ms", "6ms"]);
    let record = simulate(&array, &jobs("rw=randread\niodepth=8"), "kakra/queue");
    assert_near(iops(&record), 500.0 + 1000.0 / 6.0, 0.01);
}

#[test]
fn pid_sends_each_clone_to_a_mirror_of_its_own() {
    let array = delays("raid1", &["2ms", "2ms"]);
    let one = member_reads(&simulate(&array, &jobs("rw=randread\niodepth=4"), "pid"));
    assert!(one.contains(&0), "{one:?}");
    let four = member_reads(&simulate(&array, &jobs("rw=randread\nnumjobs=4"), "pid"));
    assert!(four[0].abs_diff(four[1]) <= 2, "{four:?}");
}

#[test]
fn the_oracle_finds_the_earliest_completion() {
    let array = delays("raid1", &["2ms", "6ms"]);
    let jobs = jobs("rw=randread\niodepth=4");
    let policy = PolicyUnderTest::Oracle;
    let checks = Checks::On;
    let record =
        run(&Simulation { array: &array, job: &jobs, policy, seed: 1, duration: None, checks });
    // Four in flight: three on the fast member end after 6 ms, as does one on the slow.
    assert_near(iops(&record.expect("it runs")), 500.0 + 1000.0 / 6.0, 0.01);
}

/// A stream of 16 next to a lone reader: the greedy oracle halves the queue, so that each read of
/// the lone one waits for eight others. The fair one leaves it a member.
#[test]
fn the_fair_oracle_leaves_a_lone_reader_a_mirror() {
    let array = delays("raid1", &["1ms", "1ms"]);
    let jobs = jobs("rw=randread\niodepth=16\n[lone]\nrw=randread\niodepth=1");
    let rates = |policy| {
        let checks = Checks::On;
        let simulation =
            Simulation { array: &array, job: &jobs, policy, seed: 1, duration: None, checks };
        let record = run(&simulation).expect("it runs");
        let seconds = record.measured.as_secs_f64();
        let rate = |section: &SectionRecord| section.read.latency.count() as f64 / seconds;
        [rate(&record.sections[0]), rate(&record.sections[1])]
    };
    let [deep, lone] = rates(PolicyUnderTest::Oracle);
    assert_near(deep, 2000.0 * 16.0 / 17.0, 0.02);
    assert_near(lone, 2000.0 / 17.0, 0.1);
    // At best each has a member to itself, for a product of a million.
    let [deep, lone] = rates(PolicyUnderTest::FairOracle);
    assert!(lone > 450.0 && deep * lone > 700_000.0, "{deep} and {lone}");
}

#[test]
#[should_panic(expected = "the policy chose mirror 2 of 2")]
fn the_canary_does_not_get_away() {
    let array = delays("raid1", &["1ms", "1ms"]);
    let jobs = jobs("rw=randread");
    let policy = PolicyUnderTest::Canary;
    let checks = Checks::On;
    let _ = run(&Simulation { array: &array, job: &jobs, policy, seed: 1, duration: None, checks });
}

#[test]
fn equal_seeds_give_equal_records_and_others_do_not() {
    let array = ArrayFile::builtin("hetero-hdd-raid1").expect("it is built in").spec;
    let jobs = jobs("rw=randrw\niodepth=8");
    let records = [1, 1, 2].map(|seed| {
        let policy = PolicyUnderTest::Policy("random");
        let checks = Checks::Off;
        let record =
            run(&Simulation { array: &array, job: &jobs, policy, seed, duration: None, checks });
        format!("{:?}", record.expect("it runs"))
    });
    assert_eq!(records[0], records[1]);
    assert_ne!(records[0], records[2]);
}

#[test]
fn a_record_does_not_grow_with_the_run() {
    let array = delays("raid1", &["100us", "100us"]);
    let long = simulate(&array, &jobs("rw=randread\nruntime=300"), "random");
    let (intervals, samples) = (long.intervals.from_us.len(), long.samples.at_us.len());
    assert!(intervals <= INTERVALS_MAX && samples <= SAMPLES_MAX);
    assert!(intervals * 2 >= INTERVALS_MAX && samples * 2 >= SAMPLES_MAX);
    assert_eq!(reads_in_intervals(&long), long.sections[0].read.latency.count());
    let width = Nanos::from_micros(long.intervals.width_us.iter().sum());
    assert!(width.0.abs_diff(long.measured.0) < 1_000, "{width}");
}

#[test]
fn stonewall_runs_groups_one_after_the_other() {
    let array = delays("single", &["2ms"]);
    let jobs = jobs("rw=randread\n[second]\nstonewall\nrw=randread\niodepth=4");
    let record = simulate(&array, &jobs, "first");
    assert_eq!(record.sections.len(), 2);
    for job in &record.sections {
        assert_near(job.measured.as_secs_f64(), 10.0, 0.01);
        assert_near(job.read.latency.count() as f64, 5000.0, 0.01);
    }
}

#[test]
fn the_first_clone_to_end_ends_its_group() {
    let array = delays("raid1", &["100us", "100us"]);
    let text = "[global]\nexitall\nsize=1m\n[short]\n[long]\nsize=1g\n[next]\nstonewall\nsize=2m";
    let file = JobFile::parse(text, "a.fio", &JobContext::empty()).unwrap();
    let record = simulate(&array, &file, "btrfs/pid");
    let [short, long, next] = &record.sections[..] else { panic!("three sections") };
    assert_eq!((short.read.bytes, next.read.bytes), (1 << 20, 2 << 20));
    assert!((1 << 18..1 << 23).contains(&long.read.bytes), "{}", long.read.bytes);
}

#[test]
fn a_ramp_is_run_but_not_measured() {
    let array = delays("single", &["2ms"]);
    let record = simulate(&array, &jobs("rw=randread\nramp_time=5"), "first");
    assert_near(record.sections[0].measured.as_secs_f64(), 10.0, 0.01);
    assert_near(record.sections[0].read.latency.count() as f64, 5000.0, 0.01);
    assert_near(reads_in_intervals(&record) as f64, 7500.0, 0.01);
}

#[test]
fn read_ahead_keeps_two_windows_in_flight_for_a_buffered_stream() {
    let mut array = delays("single", &["2ms"]);
    array.host.read_ahead_kb = 128;
    let job = jobs("rw=read\nbs=16k\ndirect=0");
    let record = simulate(&array, &job, "first");
    // 500 windows of 128 KiB a second, each eight reads.
    assert_near(iops(&record), 4000.0, 0.01);
}

/// Every policy over every built-in array under the checkers, with faults, writes, flushes, trims,
/// scrub and rebuild where the array has one: nothing may trip them.
#[test]
fn no_policy_trips_the_checkers_anywhere() {
    let text = "; mirrorball: background=scrub rate=20MB/s\n; mirrorball: background=defrag\n\
        [global]\nfilename=/dev/md0\nioengine=io_uring\ndirect=1\nsize=16G\nruntime=300ms\n\
        time_based\n\
        [a]\nrw=randrw\nbssplit=4k/50:64k/30:512k/20\niodepth=16\nfsync=8\n\
        [b]\nrw=read\nbs=128k\ndirect=0\n";
    let trims = "[c]\nrw=randtrim\nbs=64k\nrate_iops=50\n";
    for name in ArrayFile::builtin_names() {
        let array = ArrayFile::builtin(name).expect("it is built in").spec;
        // Trims do nothing on an array with parity, and are refused there.
        let trims = if array.profile.parities() > 0 { "" } else { trims };
        let text = format!("{text}{trims}");
        let jobs = JobFile::parse(&text, "mixed.fio", &JobContext::empty()).expect("a valid job");
        let policies = mirrorball_core::policies::all().map(|info| info.name.to_owned());
        let modified = MODIFIERS.map(|modifier| format!("gmirror/split+{modifier}"));
        let chosen = MODIFIERS.map(|modifier| format!("zfs/mirror+{modifier}"));
        for policy in policies.chain(modified).chain(chosen) {
            let record = simulate(&array, &jobs, &policy);
            assert!(record.member_ios > 0, "{name} {policy}");
        }
    }
}

const MODIFIERS: [&str; 5] =
    ["hedge:50:100", "tied:0", "autosit", "fail-slow:110", "prefer-member:1+write-mostly:2"];

/// A second read helps where members stall, costs what is counted, and a withdrawn one costs none.
#[test]
fn second_reads_shorten_the_tail_and_are_counted() {
    let array = |disk: &str| {
        let member =
            |stall: &str| format!("[[member]]\n{disk}\nsize = \"64GiB\"\nfault = [{stall}]\n");
        let stalls: Vec<String> =
            (0..20).map(|second| format!("{{ stall = \"50ms\", at = \"{second}.3s\" }}")).collect();
        let text = "name = \"stalls\"\nprofile = \"raid1\"\n".to_owned()
            + &member(&stalls.join(", "))
            + &member("");
        ArrayFile::parse(&text, "stalls.toml").expect("a valid array").spec
    };
    let text = "[a]\nioengine=io_uring\ndirect=1\nsize=4G\nrw=randread\nbs=4k\niodepth=4\n\
        rate_iops=100\nramp_time=2\nruntime=18\ntime_based\n";
    let jobs = JobFile::parse(text, "hedge.fio", &JobContext::empty()).expect("a valid job");
    let of = |record: &RunRecord| {
        let sum = |pick: fn(&MemberRecord) -> u64| record.members.iter().map(pick).sum::<u64>();
        let p999 = record.sections[0].read.latency.quantile(0.999);
        (p999, sum(|it| it.extra_reads), sum(|it| it.cancelled_reads), sum(|it| it.reads))
    };
    let ssd = array("model = \"ssd-sata-consumer\"");
    let (plain_p999, extra, ..) = of(&simulate(&ssd, &jobs, "random"));
    assert_eq!(extra, 0);
    let (p999, extra, _, reads) = of(&simulate(&ssd, &jobs, "random+hedge"));
    assert!(p999 * 10 < plain_p999, "{p999} hedged, {plain_p999} plain");
    assert!(extra > 10 && extra * 100 < reads * 6, "{extra} of {reads} in vain");
    let (p999, extra, _, reads) = of(&simulate(&ssd, &jobs, "read-all-first"));
    assert!(p999 * 10 < plain_p999);
    assert!(extra * 200 > reads * 99 && extra * 2 <= reads, "{extra} of {reads} in vain");
    let steady = delays("raid1", &["1ms", "1ms"]);
    let text = "[a]\nioengine=io_uring\ndirect=1\nsize=4G\nrw=randread\nbs=4k\niodepth=1\n\
        runtime=1\ntime_based\n";
    let single = JobFile::parse(text, "single.fio", &JobContext::empty()).expect("a valid job");
    let (_, extra, ..) = of(&simulate(&steady, &single, "drbd/prefer-local+hedge"));
    assert_eq!(extra, 0, "all reads take the same time");
    // A queue of the host's, from which all is withdrawn that was not begun.
    let queue = array("model = \"delay\"\nset = { service = \"8ms\" }");
    let mean = |record: &RunRecord| record.sections[0].read.latency.mean();
    let plain = simulate(&queue, &jobs, "random");
    let tied = simulate(&queue, &jobs, "random+tied");
    assert!(mean(&tied) < mean(&plain), "{} tied, {} plain", mean(&tied), mean(&plain));
    let ((.., plain_reads), (_, extra, cancelled, reads)) = (of(&plain), of(&tied));
    assert!(cancelled > 20, "{cancelled} withdrawn");
    assert_eq!((extra, reads), (0, plain_reads), "who is next in line is known exactly");
}

#[test]
fn members_that_fail_return_and_are_rebuilt_keep_every_rule() {
    let text = "name = \"faults\"\nprofile = \"raid1c4\"\n\
        [[member]]\nmodel = \"hdd-7k2-ent\"\nsize = \"64GiB\"\n\
        [[member]]\nmodel = \"hdd-7k2-ent\"\nsize = \"64GiB\"\n\
        fault = [{ error_rate = 0.02, from = \"0s\", until = \"5s\" },\n\
        { stall = \"500ms\", at = \"6s\" }]\n\
        [[member]]\nmodel = \"ssd-sata-consumer\"\nsize = \"64GiB\"\n\
        fault = [{ dead = true, from = \"3s\" }]\n\
        [[member]]\nmodel = \"hdd-5k4\"\nsize = \"64GiB\"\nrebuilding = \"1GiB\"\n";
    let array = ArrayFile::parse(text, "faults.toml").expect("a valid array").spec;
    let text = "; mirrorball: background=rebuild\n[global]\nioengine=io_uring\ndirect=1\nsize=4G\n\
        runtime=10\ntime_based\n[a]\nrw=randrw\niodepth=8\n";
    let jobs = JobFile::parse(text, "faults.fio", &JobContext::empty()).expect("a valid job");
    let record = simulate(&array, &jobs, "random");
    assert_eq!(record.sections[0].read.errors, 0, "there is always another copy");
    assert!(record.members[1].errors > 0 && record.members[2].errors > 0);
    assert!(record.background_bytes > 0);
}

#[test]
fn a_delayed_start_is_not_measured_and_a_failed_job_is_measured_to_its_planned_end() {
    let array = delays("single", &["1ms"]);
    let record = simulate(&array, &jobs("rw=randread\nstartdelay=5"), "first");
    assert_eq!(record.sections[0].from, Nanos::from_secs(5));
    assert_near(record.sections[0].measured.as_secs_f64(), 10.0, 0.001);
    assert_near(record.sections[0].read.latency.count() as f64, 10_000.0, 0.001);
    let text = "name = \"dies\"\nprofile = \"single\"\n[[member]]\nmodel = \"delay\"\n\
        size = \"64GiB\"\nset = { service = \"1ms\" }\nfault = [{ dead = true, from = \"2s\" }]\n";
    let array = ArrayFile::parse(text, "dies.toml").expect("a valid array").spec;
    let record = simulate(&array, &jobs("rw=randread"), "first");
    assert_eq!(record.sections[0].read.errors, 1, "a clone ends at its first failed request");
    assert_eq!(record.sections[0].measured, Nanos::from_secs(10), "what it did not do counts");
}

#[test]
fn a_deep_buffered_reader_loses_no_read_at_its_end() {
    let mut array = delays("single", &["1ms"]);
    array.host.read_ahead_kb = 128;
    let text = "[a]\nioengine=io_uring\ndirect=0\nrw=read\nbs=4k\niodepth=16\nsize=1m\n";
    let jobs = JobFile::parse(text, "deep.fio", &JobContext::empty()).expect("a valid job");
    let record = simulate(&array, &jobs, "first");
    assert_eq!(record.sections[0].read.latency.count(), 256);
}
