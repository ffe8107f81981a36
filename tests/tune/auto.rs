//! `mirrorball tune --auto` on a recording of samples: the settings of a recorded machine follow
//! what the samples say.

use super::Machine;
use crate::common::{stderr, stdout};
use serde_json::{Value, json};
use std::fmt::Write;
use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// Reads a second and their wait in milliseconds, of each disk.
type Load = [(u64, u64); 2];

const USUAL: Load = [(20, 8), (20, 1)];
const HARD_DISK_SLOW: Load = [(20, 40), (20, 1)];
const HARD_DISK_UNREAD: Load = [(0, 0), (40, 1)];

fn disk(name: &str, devid: u64, class: &str) -> Value {
    json!({ "name": name, "devid": devid, "class": class, "error_files": [] })
}

/// A recording of loads, each for so many seconds.
fn recording(machine: &Machine, loads: &[(u64, Load)]) -> String {
    let disks = [disk("sda", 1, "hdd"), disk("sdb", 2, "ssd")];
    let groups = json!([{ "array": "md0", "disks": disks }]);
    let mut text = json!({ "every_ns": 1_000_000_000, "groups": groups }).to_string() + "\n";
    let mut counters = [[0_u64; 3]; 2];
    let mut second = 0_u64;
    for (seconds, load) in loads {
        for _ in 0..*seconds {
            second += 1;
            let mut disks = serde_json::Map::new();
            for (place, name) in ["sda", "sdb"].into_iter().enumerate() {
                // A little noise, the same in each run.
                let (reads, wait) = load[place];
                let reads = reads + (reads * (second * 7 % 5)) / 20;
                let sums = [reads, reads * wait, (reads * wait).min(1000)];
                for (counter, sum) in counters[place].iter_mut().zip(sums) {
                    *counter += sum;
                }
                let [reads, waits, busy] = counters[place];
                let sample = json!({
                    "reads": reads, "merged_reads": 0, "read_sectors": 8 * reads,
                    "read_ms": waits, "writes": 0, "merged_writes": 0, "written_sectors": 0,
                    "write_ms": 0, "busy_ms": busy, "weighted_ms": waits, "errors": 0,
                });
                disks.insert(name.to_owned(), sample);
            }
            let line = json!({ "at_ns": second * 1_000_000_000, "disks": disks });
            writeln!(text, "{line}").unwrap();
        }
    }
    let path = machine.folder.path("samples");
    fs::write(&path, text).unwrap();
    path.display().to_string()
}

fn states(machine: &Machine) -> [bool; 2] {
    let state = |member| format!("sys/devices/virtual/block/md0/md/dev-{member}/state");
    ["sda", "sdb"].map(|member| machine.text(&state(member)).contains("write_mostly"))
}

/// The changes among the events: what was decided, why, and the setting.
fn changes(output: &str) -> Vec<(String, String, String)> {
    let events = output.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let text = |event: &Value, key: &str| event[key].as_str().unwrap_or_default().to_owned();
    let changes = events.filter(|event| text(event, "decision").ends_with("change"));
    changes.map(|it| (text(&it, "decision"), text(&it, "reason"), text(&it, "setting"))).collect()
}

fn change(decision: &str, reason: &str, setting: &str) -> (String, String, String) {
    (decision.to_owned(), reason.to_owned(), setting.to_owned())
}

#[test]
fn a_slow_member_is_avoided_until_it_recovers() {
    let machine = Machine::copy_of("md-raid1-hdd-ssd");
    let before = machine.files();
    let loads = [(600, USUAL), (20, HARD_DISK_SLOW), (895, HARD_DISK_UNREAD), (200, USUAL)];
    let samples = recording(&machine, &loads);
    let arguments = ["md0", "--auto", "--replay", &samples];
    let marked = "md/raid1+write-mostly:1";
    let dry = stdout(&machine.tune(&arguments));
    assert_eq!(changes(&dry)[0], change("would-change", "slow-members", marked), "{dry}");
    assert_eq!(machine.files(), before, "nothing is changed");

    let metrics = machine.folder.path("metrics").display().to_string();
    let state = machine.folder.path("state").display().to_string();
    let files = ["--apply", "--metrics", &metrics, "--state", &state];
    let output = stdout(&machine.tune(&[&arguments[..], &files].concat()));
    let expected =
        [change("change", "slow-members", marked), change("change", "trial", "md/raid1")];
    assert_eq!(changes(&output), expected, "{output}");
    assert_eq!(machine.files(), before, "and restored");
    let text = fs::read_to_string(&metrics).unwrap();
    assert!(text.contains("mirrorball_tune_changes_total 2"), "{text}");
    assert!(text.contains("mirrorball_tune_avoided{disk=\"sda\"} 0"), "{text}");
    // The next service knows the disks, and the changes of the day.
    let known: Value = serde_json::from_str(&fs::read_to_string(&state).unwrap()).unwrap();
    assert_eq!(known["memory"]["changes_ns"].as_array().unwrap().len(), 2, "{known}");
    fs::write(&state, "{\"command\": \"reboot\"}").unwrap();
    let output = machine.tune(&[&arguments[..], &files].concat());
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("is no state of tune --auto"), "{}", stderr(&output));
}

#[test]
fn the_setting_is_restored_at_the_end_or_kept_if_asked_for() {
    let machine = Machine::copy_of("md-raid1-hdd-ssd");
    let samples =
        recording(&machine, &[(600, USUAL), (20, HARD_DISK_SLOW), (60, HARD_DISK_UNREAD)]);
    let arguments = ["md0", "--auto", "--replay", &samples, "--apply"];
    let ended = stdout(&machine.tune(&arguments));
    assert!(ended.contains("restored /sys/block/md0/md/dev-sda/state: on -> off"), "{ended}");
    assert_eq!(states(&machine), [false, false]);
    stdout(&machine.tune(&[&arguments[..], &["--keep"]].concat()));
    assert_eq!(states(&machine), [true, false]);
    assert!(stdout(&machine.tune(&["--status"])).contains("md/raid1+write-mostly:1, in force"));
    // The next service begins with what was there before the first.
    let again = stdout(&machine.tune(&arguments));
    assert!(again.contains("\"event\":\"recovered\""), "{again}");
    assert_eq!(states(&machine), [false, false]);
}

#[test]
fn a_service_starts_again_after_the_avoided_disk_was_replaced() {
    let [serial, other] = ["sda", "sdb"].map(|it| format!("sys/block/{it}/device/serial"));
    let machine = Machine::with("md-raid1-hdd-ssd", &[(&serial, "A1\n"), (&other, "C3\n")]);
    let samples =
        recording(&machine, &[(600, USUAL), (20, HARD_DISK_SLOW), (60, HARD_DISK_UNREAD)]);
    let arguments = ["md0", "--auto", "--replay", &samples, "--apply"];
    stdout(&machine.tune(&[&arguments[..], &["--keep"]].concat()));
    assert_eq!(states(&machine), [true, false]);
    fs::write(machine.path(&serial), "B2\n").unwrap();
    let state = "sys/devices/virtual/block/md0/md/dev-sda/state";
    fs::write(machine.path(state), "in_sync\n").unwrap();
    let again = stdout(&machine.tune(&arguments));
    assert!(again.contains("dev-sda/state: its member was replaced"), "{again}");
    assert!(again.contains("\"event\":\"end\""), "{again}");
}

#[test]
fn no_gain_is_no_change_and_an_array_at_work_is_left_alone() {
    let machine = Machine::copy_of("md-raid1-hdd-ssd");
    let ssd_slow = [(20, 8), (20, 4)];
    let samples = recording(&machine, &[(600, USUAL), (120, ssd_slow)]);
    let output = stdout(&machine.tune(&["md0", "--auto", "--replay", &samples]));
    assert_eq!(changes(&output), [], "the hard disk is no better: {output}");
    assert!(output.contains("\"reason\":\"small-gain\""), "{output}");
    for (tree, target) in [("md-raid1-degraded", "md0"), ("nvme-multipath", "nvme-subsys0")] {
        let output = Machine::copy_of(tree).tune(&[target, "--auto", "--replay", &samples]);
        assert_eq!(output.status.code(), Some(2), "{tree}");
    }
    let output = machine.folder.run(&["tune", "md0", "--auto", "--apply", "--replay", &samples]);
    assert!(stderr(&output).contains("--apply would set this machine"), "{}", stderr(&output));
}

#[test]
fn a_service_that_cannot_change_the_setting_ends() {
    let machine = Machine::copy_of("md-raid1-hdd-ssd");
    let samples = recording(&machine, &[(600, USUAL), (120, HARD_DISK_SLOW)]);
    let state = machine.folder.path("state").display().to_string();
    // A folder where the journal is written first.
    let name = "md-6a7b1cf305836719a38e9f19423ff1af.journal.new";
    let folder = machine.path("var/lib/mirrorball/bench").join(name);
    fs::create_dir_all(folder).unwrap();
    let service = ["md0", "--auto", "--apply", "--replay", &samples, "--state", &state];
    let output = machine.tune(&service);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(stderr(&output).contains("cannot write the journal"), "{}", stderr(&output));
    assert_eq!(states(&machine), [false, false]);
    let again = stdout(&machine.tune(&service));
    assert_eq!(changes(&again), [], "no more is tried for a day: {again}");
}

#[test]
fn a_state_that_no_service_wrote_is_refused() {
    let machine = Machine::copy_of("md-raid1-hdd-ssd");
    let samples = recording(&machine, &[(60, USUAL)]);
    let state = machine.folder.path("state").display().to_string();
    let service = ["md0", "--auto", "--replay", &samples, "--state", &state];
    stdout(&machine.tune(&service));
    let known: Value = serde_json::from_str(&fs::read_to_string(&state).unwrap()).unwrap();
    for (key, value) in [("log_service", 1e6), ("log_wait", -1e6), ("variance", -1.0)] {
        let mut forged = known.clone();
        forged["histories"][0]["services"][0][key] = json!(value);
        fs::write(&state, forged.to_string()).unwrap();
        let output = machine.tune(&service);
        assert_eq!(output.status.code(), Some(2), "{key}: {output:?}");
        assert!(stderr(&output).contains("no disk has the history"), "{}", stderr(&output));
    }
}

/// Kills the service at random moments: the setting before is back. `TUNE_KILLS` is the number.
#[test]
fn a_killed_service_leaves_the_setting_that_was_there_before_it() {
    let kills = std::env::var("TUNE_KILLS").map_or(4, |text| text.parse().unwrap());
    let machine = Machine::copy_of("md-raid1-hdd-ssd");
    let slow = [(20, HARD_DISK_SLOW), (895, HARD_DISK_UNREAD), (200, USUAL)];
    let loads = [&[(600, USUAL)][..], &slow].concat();
    let samples = recording(&machine, &loads);
    let service = ["md0", "--auto", "--apply", "--replay", &samples];
    let started = Instant::now();
    assert!(changes(&stdout(&machine.tune(&service))).len() == 2);
    let usual = started.elapsed();
    let mut caught = 0;
    for kill in 0..kills {
        let mut command = machine.command(&service);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let part = (f64::from(kill) * 0.618_034).fract() * 1.1;
        std::thread::sleep(usual.mul_f64(part));
        child.kill().unwrap();
        child.wait().unwrap();
        let left = states(&machine);
        assert!(!(left[0] && left[1]), "never both, after kill {kill}");
        caught += u32::from(left[0] || left[1]);
        let journal = || {
            let entries = fs::read_dir(machine.path("var/lib/mirrorball/bench"));
            let mut names = entries.into_iter().flatten().flatten().map(|it| it.file_name());
            names.any(|name| name.to_str().unwrap().ends_with(".auto"))
        };
        let deadline = Instant::now() + Duration::from_secs(20);
        while journal() {
            assert!(Instant::now() < deadline, "the watchdog restores, after kill {kill}");
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(states(&machine), [false, false], "after kill {kill}");
    }
    println!("{kills} kills, {caught} of them while a member was avoided");
}
