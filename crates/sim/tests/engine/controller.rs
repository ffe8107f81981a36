//! A controller with a write-back cache in front of a raid6 of five members of 2 ms, against closed
//! forms: the members write 500 full stripes of 192 KiB a second.

use super::{assert_near, jobs, member_reads, simulate};
use mirrorball_core::units::Nanos;
use mirrorball_disk::array_file::{ArrayFile, ArraySpec};
use mirrorball_sim::record::RunRecord;

fn array(cache: &str) -> ArraySpec {
    let text = format!(
        "layout = \"md-raid6\"\nchunk = \"64K\"\n[controller]\ncache = \"{cache}\"\n[host]\n\
         overhead = \"10us\"\n[[member]]\nmodel = \"delay\"\ncount = 5\nsize = \"16GiB\"\n\
         set = {{ service = \"2ms\" }}\n"
    );
    ArrayFile::parse(&text, "controller.toml").expect("a valid array").spec
}

fn writes(record: &RunRecord) -> u64 {
    record.sections[0].write.latency.count()
}

/// After a ramp that fills the cache, writes get the rate at which the disks empty it.
#[test]
fn a_full_cache_takes_writes_at_the_rate_of_the_disks() {
    // Random full stripes; then 4 KiB in order, which the cache joins: 48 to a full stripe.
    for (options, rate) in [
        ("rw=randwrite\nbs=192k\niodepth=4", 500.0),
        ("rw=write\nbs=4k\niodepth=4", 24_000.0),
        ("rw=write\nbs=64k\niodepth=1", 1500.0),
    ] {
        let options = format!("{options}\nsize=3g\nramp_time=2\nruntime=4\ntime_based");
        let record = simulate(&array("32MiB"), &jobs(&options), "first");
        assert_near(writes(&record) as f64 / record.measured.as_secs_f64(), rate, 0.01);
        assert_eq!(member_reads(&record), [0; 5], "{options}");
        let counts = record.controller.expect("there is a controller");
        assert!(counts.delayed_writes > 0 && counts.failed_write_backs == 0, "{counts:?}");
        assert!(counts.whole_units > 100 * counts.partial_units, "{counts:?}");
    }
}

/// 64 MiB are copied into a cache of 1 GiB: each write takes the 10 us of the host alone, and no
/// disk is used. So does a read of what is in the cache.
#[test]
fn writes_that_fit_take_the_time_of_the_host() {
    let size = "size=64m\ntime_based=0\nbs=4k\niodepth=1\nfsync=8";
    let options = format!("rw=write\n{size}\n[again]\nstonewall\nrw=randread\n{size}");
    let record = simulate(&array("1GiB"), &jobs(&options), "first");
    assert_eq!(writes(&record), 16_384);
    assert_eq!(record.member_ios, 0);
    assert_eq!(record.controller.expect("there is a controller").read_hits, 16_384);
    for section in &record.sections {
        let latency = if section.write.bytes > 0 { &section.write } else { &section.read };
        assert!(latency.latency.max() <= Some(Nanos::from_micros(11)));
    }
}

/// With the checkers on, and reads that the cache holds only in part.
#[test]
fn a_cache_serves_mixed_loads_on_mirrors_too() {
    let mirror = "profile = \"raid1\"\n[controller]\ncache = \"16MiB\"\nhigh_mark = \"50%\"\n\
                  [[member]]\nmodel = \"hdd-7k2-ent\"\ncount = 2\n";
    let mirror = ArrayFile::parse(mirror, "mirror.toml").expect("a valid array").spec;
    for array in [&mirror, &array("16MiB")] {
        let options = "rw=randrw\nbssplit=4k/50:1m/50\niodepth=16\nsize=64m";
        let run = || simulate(array, &jobs(options), "mirrorball/auto");
        let (record, again) = (run(), run());
        let counts = record.controller.expect("there is a controller");
        assert!(counts.read_hits > 0 && counts.partial_units > 0, "{counts:?}");
        assert_eq!(record.controller, again.controller);
        assert_eq!(member_reads(&record), member_reads(&again));
    }
}
