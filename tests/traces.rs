//! Traces as a user meets them with `import trace`.

use crate::common::external::skip_missing;
use crate::common::{Folder, stderr, stdout};
use std::fs;
use std::process::Command;

/// 400 reads of 4 KiB and 100 writes of 8 KiB, one request each millisecond.
fn trace() -> String {
    let line = |index: u64| match index % 5 {
        0 => format!("v,W,{},8192,{}\n", index * 1_048_576, index * 1000),
        _ => format!("v,R,{},4096,{}\n", (index * 7919 % 1000) * 1_048_576, index * 1000),
    };
    (0..500).map(line).collect()
}

#[test]
fn a_trace_is_characterised_and_a_job_fitted_to_it() {
    let folder = Folder::new();
    fs::write(folder.path("web.csv"), trace()).unwrap();
    let shown = stdout(&folder.run(&["import", "trace", "web.csv", "--fit", "web.fio"]));
    for part in ["format    alibaba", "400 reads (1.6 MiB), 100 writes", "80.0 % are reads"] {
        assert!(shown.contains(part), "no `{part}` in\n{shown}");
    }
    let job = stdout(&folder.run(&["check", "web.fio"]));
    for part in ["[random-reads] random reads of 4 KiB", "[random-writes] random writes of 8 KiB"] {
        assert!(job.contains(part), "no `{part}` in\n{job}");
    }
    let fitted = folder.run(&["import", "trace", "web.csv", "--fit", "-"]);
    assert_eq!(stdout(&fitted), fs::read_to_string(folder.path("web.fio")).unwrap());
    assert!(stderr(&fitted).contains("format    alibaba"), "{}", stderr(&fitted));
}

#[test]
fn advice_is_for_the_load_of_a_trace() {
    let folder = Folder::new();
    fs::write(folder.path("web.csv"), trace()).unwrap();
    let advise = ["advise", "two-ssd-raid1", "--load", "web.csv", "-n", "2", "-d", "20ms"];
    let advised = folder.run(&advise);
    let said = stderr(&advised);
    assert!(said.contains("that resembles web.csv is in mirrorball-results/web.fio"), "{said}");
    assert!(stdout(&advised).contains("\nYou have "), "{}", stdout(&advised));
    folder.refuses(&["capture", "/proc"], &["/proc has no block device of its own", "help: "]);
    folder.refuses(&["capture", "nosuch"], &["cannot read nosuch", "help: "]);
}

#[test]
fn what_is_no_trace_is_refused_with_its_place() {
    let folder = Folder::new();
    fs::write(folder.path("bad.csv"), trace() + "v,R,0,none,1\n").unwrap();
    fs::write(folder.path("job.fio"), "[a]\nrw=read\n").unwrap();
    let import = |more: &[&'static str]| [&["import", "trace"], more].concat();
    let fit = ["bad.csv", "--fit", "new.fio"];
    folder.refuses(&import(&fit), &["bad.csv:501: the length `none` is not a", "help: "]);
    folder.refuses(&import(&["job.fio"]), &["job.fio: the first lines are in no known trace"]);
    folder.refuses(&import(&["missing"]), &["cannot read the trace `missing`", "help: "]);
    folder.refuses(&import(&["bad.csv", "--format", "mrs"]), &["did you mean `msr`?"]);
    folder.refuses(&import(&["bad.csv", "--force"]), &["--force has no effect", "--fit"]);
    folder.refuses(&import(&["bad.csv", "--fit", "job.fio"]), &["job.fio already exists"]);
}

#[test]
fn the_formats_are_listed() {
    let folder = Folder::new();
    let list = stdout(&folder.run(&["import", "trace", "--formats"]));
    assert!(list.contains("msr\n  columns: Timestamp,Hostname,DiskNumber"), "{list}");
}

#[test]
fn a_replay_is_compared_checked_and_run_again_when_its_trace_changes() {
    let folder = Folder::new();
    fs::write(folder.path("web.csv"), trace()).unwrap();
    fs::write(folder.path("replay.fio"), "[web]\nread_iolog=web.csv\ndirect=1\n").unwrap();
    let checked = stdout(&folder.run(&["check", "replay.fio"]));
    let expected = "[web] replay of `web.csv` (alibaba): 500 requests over 499ms, 80 % reads";
    assert!(checked.contains(expected), "{checked}");
    let more = "numjobs=2\nruntime=5\nreplay_no_stall=1\nreplay_time_scale=50\n";
    let twice = format!("[web]\nread_iolog=web.csv\ndirect=1\n{more}");
    fs::write(folder.path("twice.fio"), twice).unwrap();
    let checked = stdout(&folder.run(&["check", "twice.fio"]));
    assert!(
        checked.contains("1 in flight, by each of 2 processes, for 5.00s at most\n"),
        "{checked}"
    );
    assert!(checked.contains("`replay_time_scale`: has no effect"), "{checked}");

    let compare = |output: &str| {
        let options = ["--policy", "pid,round-robin", "--repeats", "1", "-o", output];
        stdout(&folder.run(&[&["compare", "two-ssd-raid1", "replay.fio"][..], &options].concat()))
    };
    let first = compare("run-1");
    assert!(first.contains("asks for 80"), "800 reads per second are offered:\n{first}");
    assert_eq!(first, compare("run-2"));
    fs::write(folder.path("web.csv"), trace() + "v,R,0,4096,600000\n").unwrap();
    let again = ["compare", "two-ssd-raid1", "replay.fio", "-o", "run-1"];
    folder.refuses(&again, &["run-1 holds", "the contents of `replay` are different"]);

    fs::write(folder.path("web.csv"), trace() + "v,R,0,4096\n").unwrap();
    let compare = ["compare", "two-ssd-raid1", "replay.fio"];
    folder.refuses(&compare, &["replay.fio:2: read_iolog: web.csv:501: the line has 4 of 5"]);
}

/// The counts of fio equal those read from its log.
#[test]
fn the_log_of_the_installed_fio_is_read() {
    if Command::new("fio").arg("--version").output().is_err() {
        skip_missing("fio");
        return;
    }
    let folder = Folder::new();
    let run = Command::new("fio")
        .args(["--name=a", "--filename=f", "--size=4m", "--rw=randrw", "--bs=4k"])
        .args(["--ioengine=psync", "--write_iolog=run.log", "--output-format=json"])
        .args(["--output=run.json"])
        .current_dir(folder.path("."))
        .output()
        .unwrap();
    assert!(run.status.success(), "{run:?}");
    let json = fs::read_to_string(folder.path("run.json")).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json[json.find('{').unwrap()..]).unwrap();
    let count = |direction: &str| json["jobs"][0][direction]["total_ios"].as_u64().unwrap();
    assert_eq!(count("read") + count("write"), 1024);
    let shown = stdout(&folder.run(&["import", "trace", "run.log"]));
    let expected = format!("{} reads", count("read"));
    assert!(shown.contains(&expected) && shown.contains(&format!("{} writes", count("write"))));
    assert!(shown.contains("addresses end at 4 MiB"), "{shown}");
}
