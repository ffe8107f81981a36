//! Advice on made-up studies whose answers are known.

use super::answer::{Answer, ArrayAnswer};
use super::*;
use crate::experiment::systems::{find, state_command};
use crate::fixtures::{Achieved, criteria, measurement, plan, section, study, study_of};
use crate::report::Style;
use mirrorball_core::histogram::Histogram;
use mirrorball_core::units::Nanos;
use mirrorball_disk::array_file::{ArrayFile, ModelConfidence};
use mirrorball_sim::first_stream;

pub(super) fn array(system: &str, policy: &str) -> ArraySpec {
    let text = format!(
        "name = \"pair\"\nprofile = \"raid1\"\n[source]\nsystem = \"{system}\"\nname = \"md0\"\n\
         fsid = \"12-34\"\npolicy = \"{policy}\"\n\
         [[member]]\nmodel = \"hdd-7k2-ent\"\nsize = \"1TB\"\ndevice = \"/dev/sda\"\n\
         [[member]]\nmodel = \"ssd-sata-plp\"\nsize = \"960GB\"\ndevice = \"/dev/sdb\"\n"
    );
    ArrayFile::parse(&text, "a.toml").unwrap().spec
}

/// Advice where each policy of the list completes that many reads, and every other 1000.
fn advice(system: &str, policy: &str, rates: &[(&str, u64)]) -> Advice {
    advice_for(&array(system, policy), system, rates)
}

fn advice_for(array: &ArraySpec, system: &str, rates: &[(&str, u64)]) -> Advice {
    let system = find(system).unwrap();
    let settings = system.settings(array, None);
    let now = policy_in_force(array, system, &settings);
    let mut specs: Vec<&str> = settings.iter().map(|setting| setting.spec.as_str()).collect();
    for (spec, _) in rates {
        if !specs.contains(spec) {
            specs.push(spec);
        }
    }
    let plan = plan(&["j"], &specs, 3);
    let study = study(&plan, |cell| {
        let found = rates.iter().find(|(spec, _)| *spec == cell.policy);
        Achieved::reads(found.map_or(1000, |(_, reads)| *reads))
    });
    Advice::new(&study, system, &settings, &now, array, &[])
}

#[test]
fn a_gain_on_guessed_disks_says_so_next_to_the_factor() {
    let mut guessed = array("md", "raid1");
    guessed.members[1].confidence = Some(ModelConfidence::Guessed);
    let text = text::render(&advice_for(&guessed, "md", &[("md/raid1+write-mostly:1", 4000)]), 120);
    assert!(
        text.contains("4.00 times as fast in requests/s, only if the disks are as guessed"),
        "{text}"
    );
}

#[test]
fn a_small_gain_on_guessed_disks_is_not_advised() {
    let mut guessed = array("md", "raid1");
    guessed.members[1].confidence = Some(ModelConfidence::Guessed);
    for (reads, is_advised) in [(1080, false), (1300, true)] {
        let text = advice_for(&guessed, "md", &[("md/raid1+write-mostly:1", reads)]);
        let text = text::render(&text, 200);
        assert_eq!(text.contains("set    echo writemostly"), is_advised, "{text}");
        assert_eq!(text.contains("measure them first, by"), !is_advised, "{text}");
    }
}

#[test]
fn a_flag_is_taken_back_for_a_clear_gain_only() {
    let mut flagged = array("md", "raid1");
    flagged.members[0].write_mostly = true;
    for (reads, spec) in [(1050, "md/raid1+write-mostly:1"), (1200, "md/raid1")] {
        let advice = advice_for(&flagged, "md", &[("md/raid1", reads)]);
        assert_eq!(advice.offered.unwrap().spec, spec);
    }
}

#[test]
fn no_other_raid1_is_named_for_a_raid10() {
    let member = "[[member]]\nmodel = \"hdd-7k2-ent\"\nsize = \"1TB\"\n";
    let text = format!("name = \"a\"\nprofile = \"raid10\"\n{}", member.repeat(4));
    let array = ArrayFile::parse(&text, "a.toml").unwrap().spec;
    let known = advice_for(&array, "md-raid10", &[("md/raid1", 4000)]).known.unwrap();
    assert!(known.takes.unwrap().starts_with("`mirrorball serve` (no other system has it)"));
}

#[test]
fn each_of_the_three_is_named_with_what_it_takes() {
    let rates = [("md/raid1+write-mostly:1", 4000), ("mirrorball/auto", 6000)];
    let advice = advice("md", "raid1", &rates);
    assert_eq!(advice.now, "md/raid1");
    let offered = advice.offered.as_ref().unwrap();
    assert_eq!(offered.spec, "md/raid1+write-mostly:1");
    assert!((offered.factor.unwrap() - 4.0).abs() < 1e-9);
    assert_eq!(offered.commands.set, ["echo writemostly > /sys/block/md0/md/dev-sda/state"]);
    assert_eq!(advice.conditional, None);
    let known = advice.known.as_ref().unwrap();
    assert_eq!((known.spec.as_str(), known.commands.set.len()), ("mirrorball/auto", 0));
    let takes = "`mirrorball serve` (no other system has it): a new volume, to which the data must \
                 be copied";
    assert_eq!(known.takes.as_deref(), Some(takes));
    insta::assert_snapshot!(text::render(&advice, 80));
}

/// A pasted text does not say the read policy of a btrfs.
#[test]
fn an_undo_where_what_is_in_force_is_not_known_says_that_it_restores_the_default() {
    let known = array("btrfs", "pid");
    let mut unknown = known.clone();
    unknown.source.as_mut().unwrap().policy = None;
    for (array, is_known) in [(known, true), (unknown, false)] {
        let rates = [("btrfs/round-robin:192K", 4000)];
        let advice = advice_for(&array, "btrfs", &rates);
        let commands = advice.conditional.unwrap().commands;
        assert_eq!(commands.undo, ["echo 'pid' > /sys/fs/btrfs/12-34/read_policy"]);
        let persist = commands.persist.unwrap();
        let note = ". `undo` restores the default: if `check` shows another value before";
        assert_eq!(persist.contains(note), !is_known, "{persist}");
    }
}

#[test]
fn a_job_that_loses_more_than_five_percent_is_named() {
    let array = array("md", "raid1");
    let system = find("md").unwrap();
    let settings = system.settings(&array, None);
    let plan = plan(&["gains", "loses", "holds"], &["md/raid1", "md/raid1+write-mostly:1"], 3);
    let study = study(&plan, |cell| match (cell.policy, cell.job_index) {
        ("md/raid1", _) => Achieved::reads(1000),
        (_, 0) => Achieved::reads(4000),
        (_, 1) => Achieved::reads(940),
        _ => Achieved::reads(960),
    });
    let advice = Advice::new(&study, system, &settings, "md/raid1", &array, &[]);
    let text = text::render(&advice, 200);
    assert!(text.contains(", but slower under loses (0.94)\n"), "{text}");
}

#[test]
fn each_section_of_a_job_has_a_factor() {
    let array = array("md", "raid1");
    let system = find("md").unwrap();
    let settings = system.settings(&array, None);
    let plan = plan(&["mix"], &["md/raid1", "md/raid1+write-mostly:1"], 3);
    let study = study_of(&plan, criteria(), |cell| {
        let (read, written) = if cell.policy == "md/raid1" { (1000, 1000) } else { (8000, 500) };
        let mut measured = measurement(Achieved::reads(read));
        measured.sections[0].name = "readers".to_owned();
        measured.sections.push(section("db", Achieved::reads(written)));
        measured
    });
    let advice = Advice::new(&study, system, &settings, "md/raid1", &array, &[]);
    let answer = ArrayAnswer::new(&array, &study, advice);
    let answer = Answer { array: answer, what_if: None, changes: Vec::new() };
    let text = text::answer(&answer, Style::FILE);
    let expected = [
        "2.00 times as fast",
        "but slower under db of mix (0.50)",
        "mix        1.00     2.00\n    readers  1.00     8.00\n    db       1.00     0.50\n",
    ];
    for part in expected {
        assert!(text.contains(part), "{text}");
    }
    let below = text::grounds(&answer, Style::FILE);
    assert!(below.contains("Members") && !below.contains("You have"), "{below}");
}

#[test]
fn what_needs_a_kernel_option_is_named_apart() {
    let rates = [("btrfs/devid:2", 5000), ("btrfs/round-robin:64K", 2000), ("kakra/queue", 9000)];
    let advice = advice("btrfs", "pid", &rates);
    assert_eq!(advice.offered.as_ref().unwrap().spec, "btrfs/pid", "all that every kernel has");
    let conditional = advice.conditional.as_ref().unwrap();
    assert_eq!(conditional.spec, "btrfs/devid:2");
    assert_eq!(conditional.commands.undo, ["echo 'pid' > /sys/fs/btrfs/12-34/read_policy"]);
    let known = advice.known.as_ref().unwrap();
    assert!(known.takes.as_ref().unwrap().contains("patch"), "{known:?}");
    insta::assert_snapshot!(text::render(&advice, 60));
}

#[test]
fn nothing_is_changed_for_a_gain_that_is_no_gain() {
    let advice = advice("md", "raid1", &[("md/raid1", 4000), ("mirrorball/auto", 4000)]);
    assert_eq!(advice.offered.as_ref().unwrap().spec, "md/raid1");
    assert_eq!(advice.known, None);
    let text = text::render(&advice, 80);
    assert!(text.contains("nothing better than md/raid1 in Linux md, RAID1"), "{text}");
}

#[test]
fn a_gain_of_two_percent_is_not_worth_a_change() {
    let rates = [("md/raid1", 4000), ("md/raid1+write-mostly:1", 4060)];
    assert_eq!(advice("md", "raid1", &rates).offered.unwrap().spec, "md/raid1");
}

/// 140 and 196 of 200 requests/s: as the backlog grows without end, so does the latency.
#[test]
fn a_load_that_is_not_served_is_named_with_the_factor_of_throughput() {
    let of = |asked| {
        let (system, array) = (find("md").unwrap(), array("md", "raid1"));
        let plan = plan(&["trace"], &["md/raid1", "md/raid1+write-mostly:1"], 3);
        let study = study_of(&plan, criteria(), |cell| {
            let is_now = cell.policy == "md/raid1";
            let (reads, latency_us) = if is_now { (1400, 160_000) } else { (1960, 1_000) };
            let mut measured = measurement(Achieved { latency_us, ..Achieved::reads(reads) });
            (measured.sections[0].has_rate, measured.sections[0].asked_iops) = (true, asked);
            measured
        });
        let settings = system.settings(&array, None);
        text::render(&Advice::new(&study, system, &settings, "md/raid1", &array, &[]), 200)
    };
    let gain = ": 160 times as fast in mean latency; 1.40 times the requests/s";
    for (asked, had, then) in [
        (Some(200.0), "does not serve the load: 140 of 200 requests/s of trace\n", "\n"),
        (None, "does not serve the load: 140 of at least 196 requests/s of trace\n", "\n"),
        (Some(400.0), "140 of 400 requests/s of trace\n", ", which is not all of the load\n"),
    ] {
        let text = of(asked);
        assert!(text.starts_with("You have      md/raid1") && text.contains(had), "{text}");
        assert!(text.contains(&format!("{gain}{then}")), "{text}");
    }
    let text = of(Some(140.0));
    assert!(text.contains("160 times as fast in mean latency\n"), "{text}");
}

/// One that ties with the best, and gains too little by itself, does not hide the best.
#[test]
fn a_worthwhile_gain_is_named_whichever_of_a_tie_stands_first() {
    for (reads, spec) in [([1015, 1030], "btrfs/devid:2"), ([1030, 1015], "btrfs/devid:1")] {
        let rates = [("btrfs/devid:1", reads[0]), ("btrfs/devid:2", reads[1])];
        assert_eq!(advice("btrfs", "pid", &rates).conditional.unwrap().spec, spec);
    }
}

#[test]
fn what_a_system_supposes_is_said() {
    let confidence = advice("drbd", "", &[("drbd/prefer-local", 4000)]).confidence;
    assert!(confidence.contains("devid 1 is taken for the local disk, and no network"));
    let lvm = advice("lvm", "", &[("md/raid1", 4000)]);
    assert!(text::render(&lvm, 80).contains("LVM serves reads by the code of md"));
    assert_eq!(advice("md", "raid1", &[("md/raid1", 4000)]).remark, None);
    let offer = find("lvm").unwrap().offers.iter().find(|it| it.needs_sync).unwrap();
    let mut volume = array("lvm", "");
    assert!(!note(offer, &volume).unwrap().contains("now"));
    volume.source.as_mut().unwrap().condition = Some("resync at 25.0 %".to_owned());
    assert!(note(offer, &volume).unwrap().contains("It is not in sync now (resync at 25.0 %)"));
}

/// `mdadm` takes a path below `/dev`, sysfs has the name of the kernel.
#[test]
fn an_array_whose_name_of_the_kernel_is_not_known_has_no_made_up_path() {
    let (md, mut pair) = (find("md").unwrap(), array("md", "md raid1"));
    pair.source.as_mut().unwrap().name = Some("md/data".to_owned());
    let of = |failed: &[u64]| {
        let settings = md.settings(&pair, None);
        let flag = settings.iter().find(|it| it.spec == "md/raid1+write-mostly:1").unwrap();
        let in_force = InForce { spec: "md/raid1", written: None, is_default: true, failed };
        flag.commands(md, &pair, in_force)
    };
    assert_eq!(of(&[1]).add, ["mdadm /dev/md/data --add --write-mostly /dev/NEW"]);
    assert_eq!(of(&[]).set, ["echo writemostly > /sys/block/ARRAY/md/dev-sda/state"]);
    let meaning = "ARRAY is the name in /proc/mdstat, for example md0";
    assert_eq!(of(&[]).placeholders, [meaning]);
    let limit = md.limit_of(None).unwrap().knob.commands(md, &pair, 1000, None);
    assert_eq!(limit.set, ["echo 1000 > /sys/block/ARRAY/md/sync_speed_max"]);
    assert_eq!(limit.placeholders, [meaning]);
    let shown = state_command(md.errors.as_ref().unwrap(), &pair, None);
    assert_eq!(shown, "grep . /sys/block/ARRAY/md/dev-*/errors");
}

#[test]
fn a_factor_of_spread_figures_is_rounded() {
    let rates = [("md/raid1+write-mostly:1", 4000), ("md/raid1", 3000)];
    let mut advised = advice("md", "raid1", &rates).offered.unwrap();
    for (is_rough, words) in [(false, "1.33 times"), (true, "about 1.3 times")] {
        advised.is_rough = is_rough;
        let mut whole = advice("md", "raid1", &rates);
        whole.offered = Some(advised.clone());
        assert!(text::render(&whole, 80).contains(&format!(": {words} as fast")), "{words}");
    }
}

#[test]
fn a_rough_factor_has_two_digits() {
    let words = [1.0, 1.32, 9.94, 47.3, 112.0].map(|it| figure_text::factor_text(it, true));
    assert_eq!(words, ["about 1.0", "about 1.3", "about 9.9", "about 47", "about 110"]);
    assert_eq!(figure_text::factor_text(0.034, true), "about 0.03");
    let exact = [47.3, 112.18].map(|it| figure_text::factor_text(it, false));
    assert_eq!(exact, ["47.30", "112"]);
}

/// `kakra/queue` is a patch to btrfs; `research/sed` and the like are a new volume.
#[test]
fn of_policies_that_are_as_good_the_one_that_takes_the_least_is_named() {
    let known = |rates: &[(&str, u64)]| advice("btrfs", "pid", rates).known.map(|it| it.spec);
    let tied = [("research/sed", 9000), ("kakra/queue", 8900), ("research/peak-ewma", 9050)];
    assert_eq!(known(&tied).as_deref(), Some("kakra/queue"));
    let apart = [("research/sed", 9000), ("kakra/queue", 8000)];
    assert_eq!(known(&apart).as_deref(), Some("research/sed"));
    // A new volume is not worth a fourth, a patch is.
    assert_eq!(known(&[("research/sed", 1250)]), None);
    assert_eq!(known(&[("kakra/queue", 1250)]).as_deref(), Some("kakra/queue"));
}

#[test]
fn what_the_number_of_the_process_decides_is_shown_apart() {
    let (system, array) = (find("btrfs").unwrap(), array("btrfs", "pid"));
    let study = study(&plan(&["j"], &["btrfs/pid", "kakra/queue"], 6), |cell| {
        let is_even = first_stream(cell.seed).is_multiple_of(2);
        let of_pid = if is_even { 1000 } else { 8000 };
        Achieved::reads(if cell.policy == "btrfs/pid" { of_pid } else { 9000 })
    });
    let advice = Advice::new(&study, system, &[], "btrfs/pid", &array, &[]);
    let array = ArrayAnswer::new(&array, &study, advice);
    let figures = &array.jobs[0].policies;
    assert!((figures[0].by_process[1] / figures[0].by_process[0] - 8.0).abs() < 1e-9);
    assert_eq!((figures.len(), figures[1].by_process.len()), (2, 0));
    let answer = Answer { array, what_if: None, changes: Vec::new() };
    let text = text::answer(&answer, Style::FILE);
    let table = "Under btrfs/pid the number of the reading process decides, in requests/s";
    assert!(text.contains(table) && text.contains("pid % 2 = 1"), "{text}");
    let cause = "%, of `j`, now; it comes from the number of the reading process, see below";
    assert!(text.replace("\n    ", " ").contains(cause) && !text.contains("--repeats"), "{text}");
}

/// Requests of the fixture take as long as their rate says: at 170,000 in ten seconds 111 us in the
/// mean, at 250,000 76 us.
#[test]
fn what_serve_alone_has_pays_for_its_export() {
    let known =
        |rate| advice("md", "raid1", &[("md/raid1", 100_000), ("mirrorball/auto", rate)]).known;
    assert_eq!(known(170_000), None, "1.7 times, and 1.1 through an export");
    let advised = known(250_000).unwrap();
    assert!((advised.factor.unwrap() - 2.5 * 76.0 / 136.0).abs() < 0.01, "{advised:?}");
    assert!(advised.note.unwrap().contains("keep a backup"));
    // A patch, or another system, needs no export.
    let rates = [("btrfs/pid", 100_000), ("kakra/queue", 170_000)];
    assert!((advice("btrfs", "pid", &rates).known.unwrap().factor.unwrap() - 1.7).abs() < 1e-9);
}

/// Each is a new volume for md, of which one has no export to pay for.
#[test]
fn what_serve_alone_has_is_compared_through_its_export() {
    let known = |served, other| {
        let rates = [("md/raid1", 100_000), ("mirrorball/auto", served), ("kakra/queue", other)];
        let known = advice("md", "raid1", &rates).known.unwrap();
        (known.spec, known.factor.unwrap())
    };
    for (served, other) in [(170_000, 160_000), (250_000, 165_000)] {
        let (spec, factor) = known(served, other);
        assert_eq!((spec.as_str(), (factor * 1e5).round() as u64), ("kakra/queue", other));
    }
    assert_eq!(known(400_000, 140_000).0, "mirrorball/auto");
}

/// Of ten requests one has found the array idle, and the others waited longer than an export adds.
#[test]
fn where_every_request_waits_the_export_costs_no_throughput() {
    let (idle_us, queued_us) = (100, 400);
    let of = |wait| {
        let mut study = study(&plan(&["j"], &["md/raid1", "mirrorball/auto"], 3), |_| Achieved {
            latency_us: queued_us,
            ..Achieved::reads(80_000)
        });
        for cell in &mut study.cells {
            let mut latency = Histogram::default();
            latency.record(Nanos::from_micros(idle_us));
            (0..79_999).for_each(|_| latency.record(Nanos::from_micros(queued_us)));
            cell.run.sections[0].read.latency = latency;
            cell.run.members.iter_mut().for_each(|it| it.wait = Nanos::from_secs(wait));
            cell.run.members.iter_mut().for_each(|it| it.busy = Nanos::from_secs(10));
        }
        served::factor(&study, "mirrorball/auto")
    };
    assert_eq!(of(160), 1.0, "sixteen in flight on each member");
    assert!(of(10) < 0.95, "one in flight waits for nothing");
}

/// The first device of an md array is chosen when it is created.
#[test]
fn what_needs_a_new_array_is_named_from_thirty_percent_on() {
    let advice =
        |gain| advice("md", "raid1", &[("md/raid1+write-mostly:1", 2000), ("md/raid1:2", gain)]);
    let named = |gain| advice(gain).conditional.map(|it| it.spec);
    assert_eq!((named(2500), advice(2500).known), (None, None));
    assert_eq!(named(2700).as_deref(), Some("md/raid1:2"));
}

#[test]
fn what_is_in_force_is_read_from_the_array() {
    let force = |array: &ArraySpec, system: &str, version: Option<&str>| {
        let system = find(system).unwrap();
        let version = version.map(|version| version.parse().unwrap());
        policy_in_force(array, system, &system.settings(array, version.as_ref()))
    };
    let in_force = |system: &str, policy: &str| force(&array(system, policy), system, None);
    assert_eq!(in_force("btrfs", "round-robin:65536"), "btrfs/round-robin:64K");
    assert_eq!(in_force("nvme", "queue-depth"), "nvme/queue-depth");
    assert_eq!(in_force("md", "md/raid1+write-mostly:1"), "md/raid1+write-mostly:1");
    assert_eq!(in_force("md", "something else"), "md/raid1", "the default");
    let md = find("md").unwrap();
    assert_eq!(stated_policy(&array("md", "something else"), md), None);
    let mut tuned = array("zfs", "zfs mirror");
    tuned.source.as_mut().unwrap().in_force = Some("zfs/mirror:100".to_owned());
    assert_eq!(force(&tuned, "zfs", None), "zfs/mirror:100");
    let mut flagged = array("md", "md raid1");
    flagged.members[0].write_mostly = true;
    assert_eq!(force(&flagged, "md", None), "md/raid1+write-mostly:1");
    assert_eq!(force(&flagged, "md", Some("6.1")), "md/raid1-2016+write-mostly:1");
    flagged.source.as_mut().unwrap().in_force = Some("md/raid1+write-mostly:2".to_owned());
    assert_eq!(force(&flagged, "md", Some("6.8")), "md/raid1-2016+write-mostly:2+write-mostly:1");
}
