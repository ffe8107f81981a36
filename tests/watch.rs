//! `mirrorball watch` as a user meets it: recordings are judged again, and this machine is read.

use crate::common::{stderr, stdout};
use crate::compare::Place;
use serde_json::{Value, json};

/// A recording of two minutes: two SSDs of one model, each read 1,000 times a second; a read of
/// the second takes this many times the 0.2 ms of the first.
fn recording(slowness: u64) -> String {
    let disks = [("sda", 1), ("sdb", 2)].map(|(name, devid)| {
        let class = "ssd";
        json!({ "name": name, "devid": devid, "class": class, "model": "one" })
    });
    let groups = json!([{ "array": "/dev/md0", "disks": disks }]);
    let mut text = format!("{}\n", json!({ "every_ns": 1_000_000_000, "groups": groups }));
    for second in 0..120_u64 {
        let counted = |ratio: u64| {
            json!({
                "reads": 1000 * second, "merged_reads": 0, "read_sectors": 8000 * second,
                "read_ms": 200 * ratio * second, "writes": 0, "merged_writes": 0,
                "written_sectors": 0, "write_ms": 0, "busy_ms": 200 * ratio * second,
                "weighted_ms": 200 * ratio * second, "errors": 0,
            })
        };
        let disks = json!({ "sda": counted(1), "sdb": counted(slowness) });
        text += &format!("{}\n", json!({ "at_ns": second * 1_000_000_000 + 1, "disks": disks }));
    }
    text
}

#[test]
fn the_slow_disk_of_a_recording_is_named_first() {
    let place = Place::new();
    place.write("slow.samples", &recording(3));
    let output = place.run(&["watch", "--replay", "slow.samples"]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let text = String::from_utf8_lossy(&output.stdout);
    let first = "sdb (devid 2 of /dev/md0) is slow: its reads take 3.0 times what they should, for \
                 2 min.\n";
    assert!(text.starts_with(first), "{text}");
    assert!(text.contains("smartctl -x /dev/sdb"), "{text}");
    let output = place.run(&["watch", "--replay", "slow.samples", "--check"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.starts_with("WARNING: sdb") && text.lines().count() == 1, "{text}");
    let output = place.run(&["watch", "--replay", "slow.samples", "--json"]);
    let parsed: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(parsed["slow"], json!(["sdb"]));
    assert_eq!(parsed["disks"][1]["cause"], "service");

    place.write("fine.samples", &recording(1));
    let options = ["--history", "disks.json", "--metrics", "disks.prom"];
    let words = [&["watch", "--replay", "fine.samples"][..], &options].concat();
    assert!(stdout(&place.run(&words)).starts_with("No disk is slow.\n"));
    let metrics = std::fs::read_to_string(place.path("disks.prom")).unwrap();
    for (name, value) in [("is_slow", "0"), ("slowness_ratio", "1"), ("reads_per_second", "1000")] {
        let line = format!("mirrorball_disk_{name}{{disk=\"sdb\",array=\"/dev/md0\"}} {value}\n");
        assert!(metrics.contains(&line), "{metrics}");
    }
    assert!(!metrics.contains("mirrorball_disk_write_wait_seconds{"), "no writes: {metrics}");
    // Every metric of disks that the dashboard draws is there.
    let dashboard = include_str!("../docs/grafana-dashboard.json");
    let words = dashboard.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let drawn: Vec<&str> = words.filter(|word| word.starts_with("mirrorball_disk_")).collect();
    assert!(drawn.len() >= 4, "{drawn:?}");
    assert!(drawn.iter().all(|name| metrics.contains(&format!("# TYPE {name} "))), "{metrics}");
    // With the history of a healthy disk a restart does not learn a slow one as normal.
    assert!(std::fs::metadata(place.path("disks.json")).unwrap().len() > 100);
    place.refuses(&["watch", "--replay", "disks.json"], &["line 1", "`mirrorball watch --record`"]);
    let check = |words: &[&str], code: i32, begin: &str| {
        let output = place.run(&[&["watch", "--check"], words].concat());
        assert_eq!(output.status.code(), Some(code), "{words:?}");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.starts_with(begin), "{text}");
    };
    check(&["--replay", "fine.samples"], 0, "OK: No disk is slow.\n");
    check(&["--json", "--replay", "slow.samples"], 1, "{\n  \"disks\": [");
    check(&["--json", "--replay", "none.samples"], 3, "{\n  \"error\": \"none.samples: ");
    // One disk is not there; too little of both; and no recording.
    let without_one = recording(1).replace("\"sda\":{", "\"sdz\":{");
    place.write("one.samples", &without_one);
    let lines: Vec<String> = recording(1).lines().take(5).map(str::to_owned).collect();
    place.write("short.samples", &lines.join("\n"));
    check(&["--replay", "one.samples"], 0, "OK: No disk is slow. Cannot tell of sda: ");
    let metrics = ["--replay", "short.samples", "--metrics", "short.prom"];
    check(&metrics, 3, "UNKNOWN: Cannot tell: no disk had enough I/O");
    let metrics = std::fs::read_to_string(place.path("short.prom")).unwrap();
    assert!(metrics.contains("_is_slow gauge") && !metrics.contains("_is_slow{"), "{metrics}");
    check(&["--replay", "none.samples"], 3, "UNKNOWN: none.samples: ");
    place.write("empty.samples", "");
    place.refuses(&["watch", "--replay", "empty.samples"], &["empty.samples: the file is empty"]);
    place.write("not.json", "x");
    for (option, expected) in [("--history", "no history of disks"), ("--metrics", "no metrics")] {
        let words = ["watch", "--replay", "fine.samples", option, "not.json"];
        place.refuses(&words, &["not.json", expected, "remove this one"]);
    }
    let words = ["watch", "--replay", "fine.samples", "--metrics", "disks.prom"];
    assert!(place.run(&words).status.success(), "metrics are replaced");
}

#[test]
fn this_machine_is_watched_without_root_or_a_terminal() {
    let place = Place::new();
    let words =
        ["watch", "--once", "--duration", "1s", "--every", "200ms", "--record", "a.samples"];
    let output = place.run(&words);
    if output.status.code() == Some(2) {
        // A container without /sys/block.
        return assert!(stderr(&output).contains("there is no disk to watch"));
    }
    assert!(stdout(&output).contains("disk"), "a table");
    stdout(&place.run(&["watch", "--replay", "a.samples"]));
    place.refuses(&["watch", "/no/such/path"], &["/no/such/path"]);
    std::fs::write(place.path("md.txt"), "md0 : active raid1").unwrap();
    for command in ["watch", "tune", "bench"] {
        let advise = [
            ("-", "-` reads pasted"),
            ("md.txt", "- < md.txt` reads pasted"),
            ("two-ssd-raid1", "two-ssd-raid1` simulates"),
        ];
        for (target, words) in advise {
            let help = format!("`mirrorball advise {words}");
            place.refuses(&[command, target], &["needs the running array", &help]);
        }
    }
}
