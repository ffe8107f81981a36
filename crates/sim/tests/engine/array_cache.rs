//! A cache tier on a device of 100 us in front of a raid1 of two members of 2 ms, against closed
//! forms. The host costs nothing.

use super::{assert_near, jobs, member_reads, simulate};
use mirrorball_core::units::MIB;
use mirrorball_disk::array_file::{ArrayFile, ArraySpec};
use mirrorball_disk::cache_tier::CacheTierCounts;
use mirrorball_sim::engine::{ArrayState, Checks, PolicyUnderTest, Simulation, run_next};
use mirrorball_sim::record::{DirectionRecord, RunRecord};

/// 1024 requests of 4 KiB, each to another block.
const ONCE: &str = "bs=4k\nsize=4m\ntime_based=0";

fn array(keys: &str) -> ArraySpec {
    let text = format!(
        "profile = \"raid1\"\n[host]\noverhead = \"0us\"\n[cache]\nmodel = \"delay\"\n\
         size = \"64MiB\"\nset = {{ service = \"100us\" }}\n{keys}\n[[member]]\nmodel = \"delay\"\n\
         count = 2\nsize = \"16GiB\"\nset = {{ service = \"2ms\" }}\n"
    );
    ArrayFile::parse(&text, "tier.toml").expect("a valid array").spec
}

fn counts(record: &RunRecord) -> CacheTierCounts {
    record.array_cache.expect("there is a cache")
}

/// Checks that each request of one kind took a number of microseconds.
#[track_caller]
fn assert_takes(requests: &DirectionRecord, microseconds: f64) {
    assert!(requests.latency.count() > 0 && requests.errors == 0);
    assert_near(requests.latency.mean().as_secs_f64() * 1e6, microseconds, 0.001);
}

#[test]
fn a_hit_takes_the_time_of_the_cache_device_and_no_member() {
    let record = simulate(&array("warm = \"100%\""), &jobs("rw=randread"), "first");
    assert_takes(&record.sections[0].read, 100.0);
    assert_eq!(record.member_ios, 0);
    let counts = counts(&record);
    assert!(counts.read_hit_bytes == counts.read_bytes && counts.read_bytes > 100 * MIB);
}

#[test]
fn a_miss_takes_the_time_of_a_member_and_is_a_hit_later() {
    let options = format!("rw=randread\n{ONCE}\n[again]\nstonewall\nrw=randread\n{ONCE}");
    let record = simulate(&array(""), &jobs(&options), "btrfs/round-robin:4096");
    assert_takes(&record.sections[0].read, 2000.0);
    assert_takes(&record.sections[1].read, 100.0);
    assert_eq!(member_reads(&record), [512, 512], "the policy balances what the cache lacks");
    let expected = CacheTierCounts {
        read_bytes: 8 * MIB,
        read_hit_bytes: 4 * MIB,
        inserted_bytes: 4 * MIB,
        ..CacheTierCounts::default()
    };
    assert_eq!(counts(&record), expected);
}

#[test]
fn a_write_ends_where_its_mode_says() {
    for (mode, write_us, read_us) in [
        ("writethrough", 2000.0, 100.0),
        ("writearound", 2000.0, 2000.0),
        ("writeback", 100.0, 100.0),
    ] {
        let options = format!("rw=randwrite\n{ONCE}\n[again]\nstonewall\nrw=randread\n{ONCE}");
        let array = array(&format!("mode = \"{mode}\""));
        let record = simulate(&array, &jobs(&options), "first");
        assert_takes(&record.sections[0].write, write_us);
        assert_takes(&record.sections[1].read, read_us);
        // 4 of 64 MiB are less than a tenth, so nothing is written back.
        let written = if mode == "writeback" { 0 } else { 4 * MIB };
        let members = record.members.iter().map(|member| member.written_bytes);
        assert_eq!(members.collect::<Vec<_>>(), [written; 2], "{mode}");
    }
}

#[test]
fn a_flush_goes_to_the_array_too_and_a_trim_removes() {
    let options = format!("rw=randwrite\nfsync=8\n{ONCE}");
    let record = simulate(&array("mode = \"writeback\""), &jobs(&options), "first");
    assert_takes(&record.sections[0].write, 100.0);
    assert_takes(&record.sections[0].flush, 2000.0);
    let options = format!("rw=trim\n{ONCE}\n[again]\nstonewall\nrw=randread\n{ONCE}");
    let record = simulate(&array("warm = \"100%\""), &jobs(&options), "first");
    assert_takes(&record.sections[0].trim, 2000.0);
    assert_takes(&record.sections[1].read, 2000.0);
}

#[test]
fn a_run_of_a_series_begins_with_the_cache_that_the_run_before_left() {
    let (array, job) = (array(""), jobs(&format!("rw=randread\n{ONCE}")));
    let (policy, checks) = (PolicyUnderTest::Policy("first"), Checks::On);
    let run = Simulation { array: &array, job: &job, policy, seed: 1, duration: None, checks };
    let mut state = ArrayState::default();
    for microseconds in [2000.0, 100.0] {
        let record = run_next(&run, &mut state).expect("it runs");
        assert_takes(&record.sections[0].read, microseconds);
    }
}

/// The tier is above the controller, which takes the writes of the tier at once.
#[test]
fn a_write_through_tier_writes_into_the_cache_of_a_controller() {
    let array = array("[controller]\ncache = \"64MiB\"");
    let options = format!("rw=randwrite\nfsync=8\n{ONCE}\n[again]\nstonewall\nrw=randread\n{ONCE}");
    let record = simulate(&array, &jobs(&options), "first");
    assert_takes(&record.sections[0].write, 100.0);
    assert_takes(&record.sections[0].flush, 100.0);
    assert_takes(&record.sections[1].read, 100.0);
    assert_eq!(record.controller.expect("there is a controller").writes, 1024);
    assert_eq!(record.member_ios, 0);
}

/// With the checkers on: all modes, with and without a controller and caches of members, on mirrors
/// and on parity, with races of reads and a scrub below.
#[test]
fn a_tier_serves_mixed_loads_in_front_of_every_array() {
    let controller = "[controller]\ncache = \"16MiB\"\nhigh_mark = \"50%\"\n";
    let member = "[[member]]\nmodel = \"hdd-7k2-ent\"\nsize = \"32GiB\"\n";
    let cache = "cache = { model = \"ssd-sata-plp\", size = \"16MiB\", mode = \"writeback\" }\n";
    let options = "rw=randrw\nbssplit=4k/50:256k/50\niodepth=16\nsize=64m\nruntime=4\n\
                   fsync=32\n; mirrorball: background=scrub";
    for mode in ["writethrough", "writeback", "writearound"] {
        for (layout, below) in [
            ("profile = \"raid1\"", format!("{member}count = 2\n")),
            ("profile = \"raid1\"", format!("{controller}{member}count = 2\n{cache}")),
            ("layout = \"md-raid6\"", format!("{controller}{member}count = 4\n")),
        ] {
            let text = format!(
                "{layout}\n[cache]\nmodel = \"ssd-sata-plp\"\nsize = \"32MiB\"\nmode = \"{mode}\"\n\
                 {below}"
            );
            let array = ArrayFile::parse(&text, "mixed.toml").expect("a valid array").spec;
            let run = || simulate(&array, &jobs(options), "mirrorball/auto+hedge");
            let (record, again) = (run(), run());
            let counts = counts(&record);
            assert!(counts.read_hit_bytes > 0 && counts.failed_write_backs == 0, "{counts:?}");
            assert_eq!(counts.written_back_bytes > 0, mode == "writeback", "{counts:?}");
            assert_eq!(record.sections[0].read.errors, 0);
            assert_eq!(record.array_cache, again.array_cache);
            assert_eq!(member_reads(&record), member_reads(&again));
        }
    }
}
