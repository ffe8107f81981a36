//! `mirrorball sweep`, whole: the same bytes however the cells are distributed.

use crate::common::samples::{ARRAY, JOB};
use crate::common::{Folder, stderr, stdout};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

/// Two arrays, three jobs, three policies and the oracle, two seeds: 48 short cells.
const SPEC: &str = "\
policy = [\"btrfs/pid,kakra/queue\", \"md/raid1\"]
repeats = 2
duration = \"50ms\"
oracle = true
[array]
name = \"pair.toml\"
vary = { \"host.overhead\" = [\"5us\", \"15us\"] }
[[job]]
name = \"rand-4k-qd1\"
[[job]]
name = \"job.fio\"
vary = { iodepth = [1, 4] }
";

fn place(spec: &str) -> Folder {
    let folder = Folder::new();
    for (name, text) in [("pair.toml", ARRAY), ("job.fio", JOB), ("sweep.toml", spec)] {
        fs::write(folder.path(name), text).unwrap();
    }
    folder
}

fn planned(spec: &str) -> Folder {
    let folder = place(spec);
    stdout(&folder.run(&["sweep", "plan", "sweep.toml", "-o", "out"]));
    folder
}

fn run(folder: &Folder, more: &[&str]) -> String {
    let output = folder.run(&[&["sweep", "run", "out"], more].concat());
    stdout(&output);
    stderr(&output)
}

fn packed(folder: &Folder) -> Vec<u8> {
    stdout(&folder.run(&["sweep", "pack", "out", "-o", "packed.parquet"]));
    fs::read(folder.path("packed.parquet")).unwrap()
}

fn parts(folder: &Folder) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder.path("out/parts")).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths.filter(|path| path.extension().is_some_and(|it| it == "parquet")).collect()
}

fn status(folder: &Folder) -> Value {
    serde_json::from_str(&stdout(&folder.run(&["sweep", "status", "out", "--json"]))).unwrap()
}

fn rows(folder: &Folder) -> Vec<Value> {
    stdout(&folder.run(&["sweep", "pack", "out", "-o", "rows.ndjson"]));
    let text = fs::read_to_string(folder.path("rows.ndjson")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn shards_threads_and_parts_do_not_show_in_the_packed_file() {
    let whole = planned(SPEC);
    assert!(run(&whole, &["--threads", "2"]).contains("48 cells were run, 0 of 48"));
    let expected = packed(&whole);
    let shards = planned(SPEC);
    let mut sizes = Vec::new();
    for shard in ["2/3", "3/3", "1/3"] {
        let before = status(&shards)["done"].as_u64().unwrap();
        run(&shards, &["--shard", shard, "--threads", "1", "--part-cells", "4"]);
        sizes.push(status(&shards)["done"].as_u64().unwrap() - before);
    }
    assert!(sizes.iter().sum::<u64>() == 48 && !sizes.contains(&0), "{sizes:?}");
    assert!(parts(&shards).len() >= 6, "parts of at least four cells each");
    assert!(expected == packed(&shards));
    assert!(run(&shards, &["--shard", "1/3"]).contains("0 cells were run"));
    assert!(run(&shards, &["--shard", "13/4000000000"]).contains("0 cells were run, 0 of 0"));
    let verified = stdout(&shards.run(&["sweep", "verify", "out", "--sample", "0.2"]));
    assert!(verified.ends_with("cells were run again, 0 differ\n"), "{verified}");
}

#[test]
fn a_killed_run_is_resumed_and_two_runs_at_once_agree() {
    let one = planned(SPEC);
    run(&one, &[]);
    let expected = packed(&one);
    let folder = planned(SPEC);
    let start = || {
        let arguments = ["sweep", "run", "out", "--threads", "1", "--part-cells", "1"];
        folder.command(&arguments).spawn().unwrap()
    };
    let mut killed = start();
    while parts(&folder).is_empty() {
        thread::sleep(Duration::from_millis(1));
    }
    killed.kill().unwrap();
    killed.wait().unwrap();
    let mut both = [start(), start()];
    for child in &mut both {
        assert!(child.wait().unwrap().success());
    }
    assert_eq!(status(&folder)["done"], 48);
    assert!(expected == packed(&folder));
}

#[test]
fn cells_are_those_of_compare() {
    let spec = "array = \"pair.toml\"\njob = \"job.fio\"\npolicy = \"pid,queue\"\nrepeats = 2\n\
                duration = \"200ms\"\noracle = true\n";
    let folder = planned(spec);
    run(&folder, &[]);
    let usual = ["compare", "pair.toml", "job.fio", "--policy", "pid,queue", "-o", "compared"];
    stdout(&folder.run(&[&usual[..], &["--duration", "200ms", "--repeats", "2"]].concat()));
    let cells = fs::read_dir(folder.path("compared/cells")).unwrap().map(|entry| {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap();
        let cell: Value = serde_json::from_str(&text).unwrap();
        (cell["key"].as_str().unwrap().to_owned(), cell)
    });
    let cells: BTreeMap<String, Value> = cells.collect();
    let rows = rows(&folder);
    assert_eq!((rows.len(), cells.len()), (6, 6));
    for row in rows {
        let cell = &cells[row["key"].as_str().unwrap()];
        let section = &cell["sections"][0];
        let read = &section["read"];
        let pairs = [
            (&row["requests"], &read["ios"]),
            (&row["iops"], &read["iops"]),
            (&row["p99_9_ns"], &read["percentiles"]["p99_9_ns"]),
            (&row["lat_bin"], &read["latency"]["bins"]),
            (&row["lat_count"], &read["latency"]["counts"]),
            (&row["lat_sum_ns"], &read["latency"]["sum_ns"]),
            (&row["measured_ns"], &section["measured_ns"]),
            (&row["m_share"][1], &cell["members"][1]["share"]),
            (&row["policy"], &cell["cell"]["policy"]),
            (&row["repeat"], &cell["cell"]["repeat"]),
            (&row["program_build"], &cell["build"]["hash"]),
        ];
        assert!(pairs.iter().all(|(ours, theirs)| ours == theirs && !ours.is_null()), "{row}");
    }
}

#[test]
fn varied_parameters_are_columns_and_change_the_figures() {
    let folder = planned(SPEC);
    run(&folder, &[]);
    let rows = rows(&folder);
    assert_eq!(rows.len(), 48);
    let of = |job: &str, overhead: &str, depth: Value| {
        let is_it = |row: &&Value| {
            row["job"] == job
                && row["vary_host_overhead"] == overhead
                && row["policy"] == "md/raid1"
        };
        let mut found = rows.iter().filter(is_it).filter(|row| row["vary_iodepth"] == depth);
        found.next().unwrap()["iops"].as_f64().unwrap()
    };
    assert!(of("rand-4k-qd1", "5us", Value::Null) > of("rand-4k-qd1", "15us", Value::Null));
    assert!(of("job", "5us", 4.0.into()) > of("job", "5us", 1.0.into()));
    // In the order of the plan: arrays, jobs, policies, seeds.
    let order: Vec<String> =
        rows.iter().map(|row| format!("{} {}", row["vary_host_overhead"], row["job"])).collect();
    let mut distinct = order.clone();
    distinct.dedup();
    assert_eq!(distinct.len(), 4, "{distinct:?}");
}

#[test]
fn a_sample_has_so_many_cells() {
    let folder = planned(&format!("sample = 9\n{SPEC}"));
    assert!(run(&folder, &[]).contains("9 cells were run"));
    assert_eq!(rows(&folder).len(), 9);
}

#[test]
fn a_damaged_part_is_ignored_and_its_cells_run_again() {
    let folder = planned(SPEC);
    run(&folder, &["--threads", "1", "--part-cells", "8"]);
    let expected = packed(&folder);
    let part = parts(&folder).remove(0);
    let bytes = fs::read(&part).unwrap();
    fs::write(&part, &bytes[..bytes.len() / 2]).unwrap();
    let output = folder.run(&["sweep", "status", "out"]);
    let said = stderr(&output);
    assert!(said.contains("is damaged and ignored"), "{said}");
    let refused = stderr(&folder.run(&["sweep", "pack", "out", "-o", "x.parquet"]));
    assert!(refused.contains("8 of 48 cells are not done"), "{refused}");
    stdout(&folder.run(&["sweep", "pack", "out", "-o", "some.parquet", "--partial"]));
    let said = run(&folder, &[]);
    assert!(said.contains("is damaged and ignored"), "{said}");
    stdout(&folder.run(&["sweep", "pack", "out", "-o", "again.parquet"]));
    assert!(expected == fs::read(folder.path("again.parquet")).unwrap());
}

#[test]
fn files_of_others_and_plans_of_other_builds_are_refused() {
    let folder = planned(SPEC);
    run(&folder, &["--shard", "1/24"]);
    fs::write(folder.path("out/parts/notes.txt"), "mine").unwrap();
    folder.refuses(&["sweep", "run", "out"], &["notes.txt: a file that is no part of a sweep"]);
    fs::remove_file(folder.path("out/parts/notes.txt")).unwrap();
    let other = planned(&SPEC.replace("50ms", "60ms"));
    run(&other, &["--shard", "1/24"]);
    let foreign = parts(&other).remove(0);
    let name = format!("out/parts/{}", foreign.file_name().unwrap().to_str().unwrap());
    fs::copy(&foreign, folder.path(&name)).unwrap();
    let reason = "it belongs to the plan of another sweep\n  help: move it out";
    folder.refuses(&["sweep", "status", "out"], &[reason]);
    fs::remove_file(folder.path(&name)).unwrap();
    let ending = "the ending is none of .parquet, .csv and .ndjson";
    folder.refuses(&["sweep", "pack", "out", "-o", "a.txt"], &[ending]);
    folder.refuses(&["sweep", "run", "nothing"], &["holds no sweep", "mirrorball sweep plan FILE"]);
    let again = ["sweep", "plan", "sweep.toml", "-o", "out"];
    stdout(&folder.run(&again));
    fs::write(folder.path("sweep.toml"), SPEC.replace("50ms", "70ms")).unwrap();
    folder.refuses(&again, &["out holds another sweep", "-o"]);
    let plan = fs::read_to_string(folder.path("out/sweep.json")).unwrap();
    let build = plan.split("\"hash\": \"").nth(1).unwrap();
    fs::write(folder.path("out/sweep.json"), plan.replacen(&build[..4], "0000", 1)).unwrap();
    fs::remove_file(parts(&folder).remove(0)).unwrap();
    folder.refuses(&["sweep", "run", "out"], &["was planned by another build", "plan it again"]);
    folder.refuses(&["sweep", "verify", "out"], &["was planned by another build"]);
    folder.refuses(&["sweep", "verify", "out", "--other-build"], &["no cell is done"]);
}

#[test]
fn what_is_wrong_with_a_sweep_is_said_before_anything_is_written() {
    let cases = [
        ("repeats = 2", "repeat = 2", "unknown field `repeat`"),
        ("pid", "pit", "unknown policy"),
        ("50ms", "0s", "`duration`: `0s` is no time"),
        ("\"pair.toml\"", "\"pear.toml\"", "did you mean `pair.toml`?"),
        ("host.overhead", "member.3.model", "there is no entry `3`"),
        ("iodepth = [1, 4]", "iodepth = [1, 1]", "two cells of the sweep are the same"),
        ("iodepth = [1, 4]", "iodepth = [1, -4]", "iodepth"),
        ("iodepth = [1, 4]", "iodepth = []", "give at least one value of `iodepth`"),
        ("repeats = 2", "repeats = 0", "the sweep has no cells"),
        ("repeats = 2", "repeats = 2\nsample = 49", "a number from 1 to 48"),
        ("btrfs/pid", "program:a.wasm", "`policy`: "),
        ("policy", "[policy", "sweep.toml: "),
    ];
    for (from, to, message) in cases {
        let folder = place(&SPEC.replacen(from, to, 1));
        folder.refuses(&["sweep", "plan", "sweep.toml", "-o", "out"], &[message]);
    }
    let folder = place(SPEC);
    let own_model = ARRAY.replace("hdd-7k2-desktop", "own.toml");
    fs::write(folder.path("pair.toml"), &own_model).unwrap();
    folder.refuses(&["sweep", "plan", "sweep.toml", "-o", "out"], &["own.toml"]);
    for shard in ["0/0", "4/3", "1"] {
        folder.refuses(&["sweep", "run", "out", "--shard", shard], &["from 1/N to N/N"]);
    }
}
