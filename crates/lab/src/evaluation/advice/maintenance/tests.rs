//! Times of scrub and rebuild, worked out by hand.

use super::super::state::remark_on_rate;
use super::*;
use crate::experiment::systems::find;
use mirrorball_disk::array_file::ArrayFile;

fn measured(text: &str, policies: &[&str]) -> Maintenance {
    measured_of(text, policies, None)
}

fn measured_of(text: &str, policies: &[&str], system: Option<&System>) -> Maintenance {
    let array = ArrayFile::parse(text, "a.toml").unwrap().spec;
    let options = MaintenanceOptions {
        policies: policies.iter().map(|policy| (*policy).to_owned()).collect(),
        has_copies: true,
        has_cursors: true,
        limit: system.map(|system| (system, system.limit_of(None).unwrap())),
        rebuilt_devid: None,
        recovered_bytes: 0,
        duration: Nanos::from_millis(500),
        seed: 1,
        threads: None,
        stop: &AtomicBool::new(false),
    };
    Maintenance::measure(&array, &options).unwrap().unwrap()
}

/// Two delays of 10 ms and no rate: 512 KiB scrubbed on each member at once, two at a time.
#[test]
fn hours_follow_from_the_rate_and_the_sizes() {
    let text = "layout = \"md-raid1\"\n[host]\noverhead = \"0us\"\n\
                [[member]]\nmodel = \"delay\"\n\
                set = { service = \"10ms\", servers = 64 }\nsize = \"1TiB\"\ncount = 2\n";
    let maintenance = measured(text, &["md/raid1"]);
    let [scrub, .., rebuild] = &maintenance.work[..] else { panic!() };
    assert_eq!((scrub.work.as_str(), scrub.load), ("scrub", "idle"));
    assert_eq!((rebuild.work.as_str(), rebuild.load), ("rebuild of devid 2", "32 random reads"));
    let time = scrub.times[0];
    let expected = 2.0 * 2.0 * 512.0 * 1024.0 / 0.01;
    assert!((time.bytes_per_s / expected - 1.0).abs() < 0.05, "{time:?} {expected}");
    let hours = scrub.bytes as f64 / time.bytes_per_s / 3600.0;
    assert!((time.hours.unwrap() / hours - 1.0).abs() < 1e-9);
    assert!(scrub.bytes.abs_diff(2 << 40) < 1 << 30, "both copies: {}", scrub.bytes);
    assert!(rebuild.bytes.abs_diff(1 << 40) < 1 << 30, "one member: {}", rebuild.bytes);
    // 128 KiB read, then written, two at a time.
    let time = maintenance.work[3].times[0];
    let expected = 2.0 * 128.0 * 1024.0 / 0.02;
    assert!((time.bytes_per_s / expected - 1.0).abs() < 0.05, "{time:?} {expected}");
    assert!(maintenance.flushes[0].p50_ns > 0);
}

/// md's own limit is 200,000 KiB/s; of half a rate a rebuild takes twice as long, and what is
/// left of the disk is the reader's.
#[test]
fn a_limit_costs_time_and_is_the_gain_of_a_reader() {
    let text = "layout = \"md-raid1\"\n[[member]]\nmodel = \"hdd-7k2-ent\"\ncount = 2\n";
    let md = measured_of(text, &["md/raid1"], Some(find("md").unwrap()));
    let limited = md.limited.unwrap();
    assert_eq!((limited.work.as_str(), limited.rows[0].kib), ("rebuild of devid 2", Some(200_000)));
    assert_eq!(limited.rows.len(), 4);
    for pair in limited.rows.windows(2) {
        assert!(pair[1].reads_per_s > pair[0].reads_per_s, "{limited:?}");
        assert!(pair[1].time.hours > pair[0].time.hours, "{limited:?}");
    }
    for row in &limited.rows[1..] {
        let limit = row.kib.unwrap() as f64 * 1024.0;
        assert!((row.time.bytes_per_s / limit - 1.0).abs() < 0.02, "{row:?}");
    }
    let kib = limited.rows[1].kib.unwrap();
    let set = format!("echo {kib} > /sys/block/ARRAY/md/sync_speed_max");
    let commands = limited.commands.unwrap();
    assert_eq!(commands.set, [set]);
    assert_eq!(commands.undo, ["echo system > /sys/block/ARRAY/md/sync_speed_max"]);
    assert!(commands.persist.unwrap().contains("`undo` restores the default"));
    let last = limited.rows[3];
    assert!(limited.reads_per_s_without >= last.reads_per_s * 0.98, "{last:?}");
    assert!(limited.p99_ns_without <= last.p99_ns, "{last:?}");
    // A limit that the array has is in force, and comes back.
    let own = "[source]\nsystem = \"md\"\nname = \"md0\"\nlimit_kib = 30000\nlimit_is_own = true\n";
    let own = text.replace("[[member]]", &format!("{own}[[member]]"));
    let md = measured_of(&own, &["md/raid1"], Some(find("md").unwrap()));
    let limited = md.limited.unwrap();
    assert_eq!(limited.rows[0].kib, Some(30_000));
    let commands = limited.commands.unwrap();
    assert_eq!(commands.undo, ["echo 30000 > /sys/block/md0/md/sync_speed_max"]);
    assert!(!commands.persist.unwrap().contains("undo"));
    assert!((md.work[3].times[0].bytes_per_s / (30_000.0 * 1024.0) - 1.0).abs() < 0.02);
    let second = "[[member]]\nmodel = \"hdd-7k2-ent\"\nrebuilding = \"300GB\"\n";
    let rest = own.replace("count = 2\n", second);
    let remark_of = |text: &str, state: &str| {
        remark_on_rate(Some(state), Some(&measured_of(text, &["md/raid1"], None)))
    };
    let slow = |state: &str| remark_of(&rest, state);
    let remark = slow("degraded; recovery at 12.6 %, 5000 h left at its rate").unwrap();
    assert!(remark.starts_with("recovery: 5000 h left at its rate, but"), "{remark}");
    assert_eq!(slow("recovery at 12.6 %, 40 h left at its rate"), None);
    let remark = slow("recovery at 12.6 %, 30 min left at its rate").unwrap();
    assert!(remark.contains("at its rate, and ") && remark.contains("an idle array"), "{remark}");
    // No member is being rebuilt.
    for work in ["resync", "reshape", "balance", "recovery"] {
        let state = format!("{work} at 95.0 %, 3 min left at its rate");
        assert_eq!(remark_of(&own, &state), None);
    }
    // btrfs has no limit until one is set, and it is of each device.
    let text = text.replace("layout = \"md-raid1\"", "profile = \"raid1\"");
    let btrfs = find("btrfs").unwrap();
    let limited = measured_of(&text, &["btrfs/pid"], Some(btrfs)).limited.unwrap();
    assert_eq!((limited.work.as_str(), limited.rows[0].kib), ("scrub", None));
    let row = limited.rows[1];
    let rate = row.time.bytes_per_s / 2.0 / 1024.0 / row.kib.unwrap() as f64;
    assert!((rate - 1.0).abs() < 0.1, "{row:?}");
}

/// A rebuild at the default limit leaves readers of NVMe disks nearly what they have.
#[test]
fn no_limit_is_set_that_brings_a_reader_nothing() {
    let text = "layout = \"md-raid1\"\n[[member]]\nmodel = \"nvme-gen4\"\n\
                [[member]]\nmodel = \"nvme-gen4\"\n";
    let limited = measured_of(text, &["md/raid1"], find("md").ok()).limited.unwrap();
    assert_eq!(limited.commands, None, "{limited:?}");
    assert!(limited.remark.starts_with("The limit needs no change: "), "{limited:?}");
}

/// A pair of equal disks gains by a limit, so a remark says why none is named.
#[test]
fn no_limit_is_advised_while_copies_are_missing_or_disks_are_guessed() {
    let limited = |state: &str| {
        let text = format!(
            "layout = \"md-raid1\"\n[[member]]\nmodel = \"hdd-7k2-ent\"\n\
             [[member]]\nmodel = \"hdd-7k2-ent\"\n{state}\n"
        );
        measured_of(&text, &["md/raid1"], find("md").ok()).limited.unwrap()
    };
    let whole = limited("");
    assert_eq!(whole.remark, "Only if readers matter more than an early end of the rebuild:");
    assert!(whole.commands.is_some());
    let whole = "No limit is advised until the array is whole: ";
    let guessed = "No limit is advised while the disks are guessed";
    for (state, remark) in [
        ("rebuilding = \"1MB\"", whole),
        ("failed = true", whole),
        ("confidence = \"guessed\"", guessed),
    ] {
        let limited = limited(state);
        assert!(limited.remark.starts_with(remark), "{state}: {limited:?}");
        assert_eq!(limited.commands, None, "{state}");
    }
}

/// The largest device decides the time of a scrub, so the readers with it and without it read
/// there: 5 ms each.
#[test]
fn a_reader_without_a_scrub_reads_where_the_one_with_it_does() {
    let member = |size, service| {
        let set = format!("set = {{ service = \"{service}ms\" }}");
        format!("[[member]]\nmodel = \"delay\"\nsize = \"{size}GB\"\n{set}\n")
    };
    let text = [member(10, 9), member(10, 9), member(20, 5)].concat();
    let text = "profile = \"raid1\"\n".to_owned() + &text;
    for policy in ["btrfs/pid", "mirrorball/first", "mirrorball/auto"] {
        let limited = measured_of(&text, &[policy], find("btrfs").ok()).limited.unwrap();
        assert!((limited.reads_per_s_without - 200.0).abs() < 4.0, "{policy}: {limited:?}");
    }
}

/// Disks that are faster than md's own limit are rebuilt at that rate, however short the windows.
#[test]
fn the_default_limit_of_md_decides_for_fast_disks() {
    let text = "layout = \"md-raid1\"\n[[member]]\nmodel = \"nvme-gen4\"\ncount = 2\n";
    let md = measured_of(text, &["md/raid1"], Some(find("md").unwrap()));
    let rebuilds = md.work.iter().filter(|work| work.work != SCRUB);
    for rebuild in rebuilds {
        let rate = rebuild.times[0].bytes_per_s / 204_800_000.0;
        assert!((rate - 1.0).abs() < 0.01, "{rebuild:?}");
    }
}

/// A pool of 33 mirrors takes as long as one, and reports of its owner say one to two days.
#[test]
fn all_vdevs_of_zfs_and_all_devices_of_btrfs_are_scrubbed_at_once() {
    for layout in ["zfs-mirror:2", "btrfs"] {
        let scrub = |count: usize| {
            let text = format!(
                "layout = \"{layout}\"\n[[member]]\nmodel = \"hdd-7k2-18tb\"\ncount = {count}\n"
            );
            let text = text.replace("layout = \"btrfs\"", "profile = \"raid1\"");
            measured(&text, &["md/raid1"]).work.remove(0)
        };
        let (two, eight) = (scrub(2), scrub(8));
        let ratio = eight.times[0].hours.unwrap() / two.times[0].hours.unwrap();
        assert!((ratio - 1.0).abs() < 0.02, "{layout}: {ratio}");
        assert!((eight.bytes as f64 / two.bytes as f64 - 4.0).abs() < 0.01, "{layout}");
        let rates = eight.times[0].bytes_per_s / two.times[0].bytes_per_s;
        assert!((rates - 4.0).abs() < 0.1, "{layout}: {rates}");
        assert!((16.0..48.0).contains(&two.times[0].hours.unwrap()), "{:?}", two.times);
    }
}

/// A mirror without one of its disks has half as much to read.
#[test]
fn what_is_missing_is_not_scrubbed() {
    let disk = "[[member]]\nmodel = \"hdd-7k2-ent\"\n";
    let hours = |missing: &str| {
        let text = format!("layout = \"zfs-mirror:2\"\n{disk}{disk}{disk}{disk}{missing}");
        measured(&text, &["zfs/mirror"]).work.remove(0).times[0].hours.unwrap()
    };
    let ratio = hours("failed = true\n") / hours("");
    assert!((ratio - 1.0).abs() < 0.05, "{ratio}");
}

/// A hard disk of 150 MB/s takes 1.8 h for 960 GB, however fast the other is.
#[test]
fn the_slowest_device_of_btrfs_decides_the_time_of_a_scrub() {
    for order in [["hdd-7k2-ent", "ssd-sata-plp"], ["ssd-sata-plp", "hdd-7k2-ent"]] {
        let members =
            order.map(|model| format!("[[member]]\nmodel = \"{model}\"\nsize = \"960GB\"\n"));
        let text = format!("profile = \"raid1\"\n{}", members.concat());
        let hours = measured(&text, &["btrfs/pid"]).work.remove(0).times[0].hours.unwrap();
        assert!((1.5..2.2).contains(&hours), "{hours}");
    }
}

#[test]
fn of_a_running_rebuild_the_rest_counts() {
    let text = |state: &str| {
        format!(
            "layout = \"md-raid1\"\n[host]\noverhead = \"0us\"\n\
             [[member]]\nmodel = \"delay\"\nset = {{ service = \"10ms\" }}\nsize = \"1TiB\"\n\
             [[member]]\nmodel = \"delay\"\nset = {{ service = \"10ms\" }}\nsize = \"1TiB\"\n\
             {state}"
        )
    };
    let whole = measured(&text(""), &["md/raid1"]);
    let rest = measured(&text("rebuilding = \"768GiB\""), &["md/raid1"]);
    let (whole, rest) = (&whole.work[3], &rest.work[3]);
    assert_eq!(rest.work, "rebuild of devid 2 (25 % left)");
    let share = rest.bytes as f64 / whole.bytes as f64;
    assert!((share - 0.25).abs() < 0.001, "{share}");
    let share = rest.times[0].hours.unwrap() / whole.times[0].hours.unwrap();
    assert!((share - 0.25).abs() < 0.01, "{share}");
}

#[test]
fn a_load_makes_work_take_longer_and_a_missing_member_is_the_one_rebuilt() {
    let text = "profile = \"raid1c3\"\n[[member]]\nmodel = \"hdd-7k2-desktop\"\n\
                [[member]]\nmodel = \"hdd-7k2-desktop\"\nfailed = true\n\
                [[member]]\nmodel = \"hdd-7k2-desktop\"\n";
    let maintenance = measured(text, &["md/raid1", "btrfs/pid"]);
    let rate = |row: usize| maintenance.work[row].times[0].bytes_per_s;
    assert!(rate(0) > 1.2 * rate(2), "{:?}", maintenance.work);
    assert!(rate(3) > 1.2 * rate(5), "{:?}", maintenance.work);
    assert_eq!(maintenance.work[3].work, "rebuild of devid 2");
    assert_eq!(maintenance.work[3].times.len(), 2);
}

#[test]
fn work_that_takes_several_times_as_long_is_named_with_its_load() {
    let time = |hours: Option<f64>| WorkTime { bytes_per_s: 0.0, hours };
    let work = |load, usual: f64, other| {
        let times = vec![time(Some(usual)), time(other)];
        WorkTimes { work: "rebuild of devid 2".to_owned(), load, bytes: 1, times }
    };
    let slow = |work: Vec<WorkTimes>| {
        let policies = ["btrfs/pid", "btrfs/round-robin:4M"].map(str::to_owned).to_vec();
        let (limited, flushes) = (None, Vec::new());
        Maintenance { window_ns: 1, policies, work, limited, flushes }
            .slow_work("btrfs/round-robin:4M")
    };
    let idle = || work("idle", 2.0, Some(2.5));
    assert_eq!(slow(vec![idle()]), None);
    let slower = slow(vec![idle(), work("32 random reads", 12.0, Some(866.0))]);
    let words = "rebuild of devid 2 with 32 random reads takes 866 h, in place of 12 h";
    assert_eq!(slower.as_deref(), Some(words));
    let never = slow(vec![idle(), work("1 random reader", 3.0, None)]).unwrap();
    assert!(never.ends_with("with 1 random reader never ends, in place of 3.0 h"), "{never}");
}
