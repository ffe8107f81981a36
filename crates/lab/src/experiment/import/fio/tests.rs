//! Imports of what fio 3.33 really wrote. The files in `fixtures` were made by (psync engine, one
//! file of at most 4 MiB):
//!
//! - `groups.json`: `json+`, `rate_iops=300` random reads for 1 s, then, behind a `stonewall`,
//!   `rw=randrw:rate_iops=200,100`; `log_avg_msec=100` with all logs.
//! - `clones.json`: `json+`, `lat_percentiles=1`; three clones of 100 reads and 50 writes with
//!   `fsync=4`.
//! - `plain.txt`: `normal,json`, two clones of `rw=randrw` with `group_reporting`.
//! - `single.json`: `json+`, 100 reads and a latency log with a line for each.
//! - `failed.txt`: as `plain.txt` with `rw=randtrimwrite` on a file, which cannot be trimmed.

use super::*;
use crate::experiment::import::{add, check_folder};
use crate::experiment::record::{DirectionRecord, LatencyOverTime, LatencySource, SectionRecord};
use crate::experiment::results::load;
use crate::experiment::study::Criteria;
use mirrorball_core::histogram::{bin_middle, bin_of};
use mirrorball_core::units::Nanos;
use proptest::prelude::*;
use serde_json::Value;
use std::fs;
use tempfile::TempDir;

mod kept;

const GROUPS: &str = include_str!("fixtures/groups.json");
const CLONES: &str = include_str!("fixtures/clones.json");
const PLAIN: &str = include_str!("fixtures/plain.txt");
const SINGLE: &str = include_str!("fixtures/single.json");
const FAILED: &str = include_str!("fixtures/failed.txt");
const GROUPS_LOGS: [(&str, &str); 6] = [
    ("groups_bw.1.log", include_str!("fixtures/groups_bw.1.log")),
    ("groups_bw.2.log", include_str!("fixtures/groups_bw.2.log")),
    ("groups_iops.1.log", include_str!("fixtures/groups_iops.1.log")),
    ("groups_iops.2.log", include_str!("fixtures/groups_iops.2.log")),
    ("groups_lat.1.log", include_str!("fixtures/groups_lat.1.log")),
    ("groups_lat.2.log", include_str!("fixtures/groups_lat.2.log")),
];
const SINGLE_LOG: &str = include_str!("fixtures/single_lat.1.log");

fn about() -> ImportLabels {
    ImportLabels {
        array: "pair".to_owned(),
        array_text: String::new(),
        policy: "btrfs/pid".to_owned(),
        job: None,
    }
}

fn imported(text: &str) -> CellRecord {
    cell(text.as_bytes(), &[], &about()).unwrap()
}

fn failure(text: &str) -> String {
    cell(text.as_bytes(), &[], &about()).unwrap_err().to_string()
}

/// The cell of a document and of logs, by their names and texts.
fn cell_with(text: &str, logs: &[(&str, &str)]) -> anyhow::Result<CellRecord> {
    let folder = TempDir::new().unwrap();
    let open = |(name, text): &(&str, &str)| {
        fs::write(folder.path().join(name), text).unwrap();
        Log::open(&folder.path().join(name))
    };
    let logs = logs.iter().map(open).collect::<anyhow::Result<Vec<Log>>>()?;
    cell(text.as_bytes(), &logs, &about())
}

fn logs(names: &[&str]) -> Vec<(&'static str, &'static str)> {
    let wanted = |(name, _): &&(&str, &str)| names.iter().any(|part| name.contains(part));
    GROUPS_LOGS.iter().filter(wanted).copied().collect()
}

/// fio's own document, read without our types.
fn document(text: &str) -> Value {
    let start = text.find("{\n").unwrap();
    serde_json::Deserializer::from_str(&text[start..]).into_iter().next().unwrap().unwrap()
}

fn read(section: &SectionRecord) -> &DirectionRecord {
    &section.read
}

/// Every percentile that fio printed falls into the bin that ours falls into: the same middle,
/// unless we hold it within the extremes, which fio does not.
fn assert_same_percentiles(direction: &DirectionRecord, fio: &Value) {
    let histogram = &direction.latency;
    assert_eq!(Some(histogram.count()), fio["N"].as_u64());
    let percentiles = fio["percentile"].as_object().unwrap();
    assert!(percentiles.len() >= 17, "{percentiles:?}");
    for (percent, value) in percentiles {
        let ours = histogram.quantile(percent.parse::<f64>().unwrap() / 100.0);
        let middle = bin_middle(bin_of(ours)).0;
        assert_eq!(Some(middle), value.as_u64(), "p{percent}: {ours}");
    }
    let mean = histogram.mean().0 as f64;
    assert!((mean - fio["mean"].as_f64().unwrap()).abs() <= 1.0, "{mean}");
    assert_eq!((Some(histogram.min().unwrap().0), Some(histogram.max().unwrap().0)), {
        (fio["min"].as_u64(), fio["max"].as_u64())
    });
}

#[test]
fn percentiles_from_the_bins_are_those_that_fio_printed() {
    let record = imported(GROUPS);
    let jobs = &document(GROUPS)["jobs"];
    assert_same_percentiles(read(&record.run.sections[0]), &jobs[0]["read"]["clat_ns"]);
    assert_same_percentiles(read(&record.run.sections[1]), &jobs[1]["read"]["clat_ns"]);
    let write = &record.run.sections[1].write;
    assert_same_percentiles(write, &jobs[1]["write"]["clat_ns"]);
    assert_eq!(record.imported.unwrap().latency, LatencySource::CompletionBins);
    let record = imported(CLONES);
    let syncer = &document(CLONES)["jobs"][3];
    let section = &record.run.sections[1];
    assert_same_percentiles(&section.write, &syncer["write"]["lat_ns"]);
    assert_same_percentiles(&section.flush, &syncer["sync"]["lat_ns"]);
    assert_eq!(record.imported.unwrap().latency, LatencySource::TotalBins);
}

#[test]
fn no_bin_is_lost() {
    let record = imported(GROUPS);
    let bins = &document(GROUPS)["jobs"][0]["read"]["clat_ns"]["bins"];
    let theirs: u64 = bins.as_object().unwrap().values().map(|count| count.as_u64().unwrap()).sum();
    let latency = &read(&record.run.sections[0]).latency;
    assert_eq!((latency.bins().count(), theirs), (bins.as_object().unwrap().len(), 300));
    for (bin, count) in latency.bins() {
        let key = bin_middle(bin).0.to_string();
        assert_eq!(bins[&key].as_u64(), Some(count), "bin {key}");
    }
}

#[test]
fn plain_json_keeps_the_percentiles_it_has() {
    let record = imported(PLAIN);
    let fio = &document(PLAIN)["jobs"][0];
    assert_same_percentiles(read(&record.run.sections[0]), &fio["read"]["clat_ns"]);
    let write = &record.run.sections[0].write;
    assert_same_percentiles(write, &fio["write"]["clat_ns"]);
    let imported = record.imported.unwrap();
    assert_eq!(imported.latency, LatencySource::CompletionPercentiles);
    assert_eq!((&*imported.program, imported.timestamp_s), ("fio-3.33", Some(1_795_211_697)));
}

#[test]
fn groups_follow_each_other_and_rates_are_fios() {
    let record = imported(GROUPS);
    assert_eq!(record.cell.job, "reader+mixed");
    let times: Vec<(u64, u64)> =
        record.run.sections.iter().map(|section| (section.from.0, section.measured.0)).collect();
    assert_eq!(times, [(0, 1_004_000_000), (1_004_000_000, 1_004_000_000)]);
    assert_eq!(record.run.measured.0, 2_008_000_000);
    let fio = &document(GROUPS)["jobs"][1]["read"];
    let read = read(&record.run.sections[1]);
    assert_eq!((read.ios, read.bytes, read.errors), (200, 200 * 8192, 0));
    assert!((read.iops - fio["iops"].as_f64().unwrap()).abs() < 1e-3, "{}", read.iops);
}

#[test]
fn clones_are_added_up() {
    let record = imported(CLONES);
    let names: Vec<&str> = record.run.sections.iter().map(|section| &*section.name).collect();
    assert_eq!(names, ["reader", "syncer"]);
    let reader = read(&record.run.sections[0]);
    assert_eq!((reader.ios, reader.latency.count()), (300, 300));
    assert_eq!(record.run.sections[0].measured.0, 18_000_000, "that of the longest");
    assert_eq!(record.run.sections[1].from, Nanos::ZERO, "one group");
    assert_eq!(record.run.sections[1].flush.ios, 12);
}

#[test]
fn watched_disks_are_members() {
    let record = imported(GROUPS);
    let [disk] = &record.run.members[..] else { panic!("one disk") };
    assert_eq!((disk.devid, disk.reads, disk.writes, disk.share), (1, 455, 4, 1.0));
    assert_eq!(disk.read_wait_mean_ns, 49_000_000 / 455);
    assert_eq!(record.imported.unwrap().disks, ["vda"]);
    // A device that is made of others is listed with them, and does not count twice.
    let md = "\"disk_util\" : [ {\"name\":\"md0\",\"read_ios\":9,\"aggr_read_ios\":4},
        {\"name\":\"sdb\",\"read_ios\":6,\"read_sectors\":48}, {\"name\":\"sda\",\"read_ios\":3} ]";
    let (head, _) = GROUPS.split_once("\"disk_util\"").unwrap();
    let record = imported(&format!("{head}{md}}}"));
    let shares: Vec<(u64, f64)> = record.run.members.iter().map(|m| (m.devid, m.share)).collect();
    assert_eq!(shares, [(1, 6.0 / 9.0), (2, 3.0 / 9.0)]);
    assert_eq!(record.run.members[0].read_bytes, 48 * 512);
    assert_eq!(record.imported.unwrap().disks, ["sdb", "sda"]);
}

#[test]
fn the_job_file_is_written_again_without_places() {
    let expected = "\
; the options that fio repeats
[global]
ioengine=psync
size=4m
[reader]
bs=4k
rate_iops=300
runtime=1
rw=randread
[mixed]
bs=8k
rate_iops=200,100
runtime=1
rw=randrw
rwmixread=70
";
    assert_eq!(imported(GROUPS).job_text, expected);
}

#[test]
fn averaged_logs_become_intervals() {
    let record = cell_with(GROUPS, &logs(&["_bw", "_iops", "_lat"])).unwrap();
    let intervals = &record.run.intervals;
    assert_eq!(intervals.width_us, vec![250_000; intervals.width_us.len()]);
    assert_eq!(intervals.from_us.len(), 9, "both groups, one after the other");
    // 300 reads of 4 KiB in the first second, 200 of 8 KiB in the next; the logs lack their ends.
    let bytes = |range: std::ops::Range<usize>| intervals.read_bytes[range].iter().sum::<u64>();
    let near = |bytes: u64, expected: u64| bytes.abs_diff(expected) < expected / 8;
    assert!(near(bytes(0..4), 1_228_800), "{:?}", intervals.read_bytes);
    assert!(near(bytes(4..9), 1_638_400), "{:?}", intervals.read_bytes);
    let latencies = intervals.read_latency.iter().flat_map(|latency| &latency.counts);
    assert_eq!(latencies.sum::<u64>(), 20, "a mean for each of ten windows of two jobs");
    assert_eq!(record.imported.unwrap().latency_over_time, Some(LatencyOverTime::Means));
    let by_iops = cell_with(GROUPS, &logs(&["_iops"])).unwrap();
    let sum: u64 = by_iops.run.intervals.read_bytes.iter().sum();
    assert!(near(sum, 1_228_800 + 1_638_400), "{sum}");
}

#[test]
fn logs_of_every_request_become_intervals() {
    let record = cell_with(SINGLE, &[("single_lat.1.log", SINGLE_LOG)]).unwrap();
    let intervals = &record.run.intervals;
    assert_eq!(intervals.read_bytes.iter().sum::<u64>(), 409_600);
    let latencies = intervals.read_latency.iter().flat_map(|latency| &latency.counts);
    assert_eq!(latencies.sum::<u64>(), 100);
    assert_eq!(record.imported.unwrap().latency_over_time, Some(LatencyOverTime::Requests));
}

#[test]
fn a_file_that_fio_did_not_write_is_recognised() {
    let cases = [
        ("", "contains no JSON\n  help: run fio with --output-format=json+"),
        ("job: (g=0): rw=read\n  read: IOPS=94\n", "contains no JSON"),
        // Found by a trial: each brace was read to the end of the text.
        (&"{\"a\":".repeat(100_000), "contains no JSON"),
        (&format!("{{{}{}", "x".repeat(100_000), "\"fio version\"".repeat(4_000)), {
            "is not output of fio that this program can read"
        }),
        ("{\"results\": []}", "is JSON, but not output of fio"),
        (
            "{\"fio version\": \"fio-3.33\", \"jobs\": [{\"jobname\": \"a\"}]}",
            "job `a` has no finished requests, so there is nothing to import",
        ),
        ("{\"fio version\": \"fio-3.33\"}", "is output of fio without a job"),
        ("{\"fio version\": \"fio-1.57\", \"jobs\": []}", "was written by fio-1.57"),
        (&GROUPS[..GROUPS.len() / 2], "is cut off: its JSON ends too early\n  help: run fio again"),
        (&PLAIN[..PLAIN.len() / 2], "is cut off"),
        (FAILED, "job `plain` ended before its time, so its figures are of a part of the run: I"),
        (&format!("{GROUPS}{PLAIN}"), "has the results of several runs of fio"),
        (&GROUPS.replace("\"total_ios\" : 300", "\"total_ios\" : \"x\""), {
            "is not output of fio that this program can read: invalid type: string"
        }),
    ];
    for (text, expected) in cases {
        let message = failure(text);
        assert!(message.starts_with(expected), "{message}");
    }
    let bins = failure(&GROUPS.replacen("\"bins\" : {", "\"bins\" : {\n\"1000001\" : 1,", 1));
    assert!(bins.contains("histogram bins that fio 3 does not have"), "{bins}");
}

#[test]
fn logs_that_are_none_are_refused() {
    for (name, expected) in [
        ("run_x.1.log", "run_x.1.log: the file name does not show the kind of log"),
        ("run_slat.1.log", "run_slat.1.log: a log of submission latencies, which are a part of"),
    ] {
        let error = cell_with(SINGLE, &[(name, "")]).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
    }
    let with = |text: &str| cell_with(SINGLE, &[("x_lat.1.log", text)]).unwrap_err().to_string();
    assert_eq!(
        with("1, 2, 0, 4096\nnonsense\n"),
        "x_lat.1.log:2: column 1, `nonsense`, is not a number\n  help: give the log as fio wrote it"
    );
    assert_eq!(with("1, 2\n"), "x_lat.1.log:1: not a line of a fio log: fewer than three columns");
    assert!(with("99999999999999, 2, 0, 4096\n").contains("ms is too large"));
    assert!(with(&"1".repeat(1 << 18)).starts_with("x_lat.1.log:1: the line is longer than any"));
    let other = with("9000, 2, 0, 4096\n");
    assert!(other.starts_with("x_lat.1.log: ends at 9.00s, but no job ran for longer"), "{other}");
    let other = with(&"1, 2, 0, 4096\n".repeat(101));
    assert!(other.starts_with("x_lat.1.log: has 101 requests, but the run made 100\n"), "{other}");
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("x_lat.1.log");
    fs::write(&path, "1, 2, 0, 4096\n").unwrap();
    let log = Log::open(&path).unwrap();
    fs::write(&path, "1, 2, 0, 4096\n900000, 2, 0, 4096\n").unwrap();
    let error = cell(SINGLE.as_bytes(), &[log], &about()).unwrap_err().to_string();
    assert!(error.starts_with("x_lat.1.log: changed while it was read\n  help: "), "{error}");
    let large = " ".repeat(RESULT_BYTES_MAX as usize) + GROUPS;
    assert!(failure(&large).starts_with("is larger than 12 MiB\n  help: "), "{}", failure(&large));
}

#[test]
fn files_are_repeats_and_are_added_once() {
    let folder = TempDir::new().unwrap();
    let place = folder.path().join("live");
    let repeats = [GROUPS.to_owned(), GROUPS.replace("fio-3.33", "fio-3.34")];
    let records: Vec<CellRecord> = repeats.iter().map(|text| imported(text)).collect();
    let added = add(&place, records[..1].to_vec()).unwrap();
    assert_eq!((added.written.len(), added.known.len()), (1, 0));
    let added = add(&place, records).unwrap();
    assert_eq!((added.written.len(), added.known.len()), (1, 1));
    let mut set = load(std::slice::from_ref(&place), &Criteria::default()).sets.remove(0);
    let seeds: Vec<(u32, u64)> =
        set.cells.iter().map(|record| (record.cell.repeat, record.cell.seed)).collect();
    assert_eq!((seeds, set.skipped.len()), (vec![(0, 1), (1, 2)], 0));
    let mut job = set.study.jobs.remove(0);
    assert!(job.sections.iter().all(|section| section.has_rate), "both state a rate");
    let row = job.rows.remove(0);
    let iops: Vec<f64> = row.sections.iter().map(|section| section.figures.iops.value).collect();
    assert_eq!(iops, [300.0 / 1.004, 200.0 / 1.004]);
}

/// A policy that lacks a job is left out of a study, and counts all the same here.
#[test]
fn repeats_are_counted_over_everything_that_is_there() {
    let folder = TempDir::new().unwrap();
    let other = ImportLabels { policy: "kakra/queue".to_owned(), ..about() };
    let of_other = cell(SINGLE.as_bytes(), &[], &other).unwrap();
    add(folder.path(), vec![imported(GROUPS), imported(SINGLE), of_other]).unwrap();
    let again = cell(GROUPS.as_bytes(), &[], &other).unwrap();
    let added = add(folder.path(), vec![imported(SINGLE), again]).unwrap();
    assert_eq!((added.written.len(), added.known.len()), (1, 1));
}

#[test]
fn a_folder_of_something_else_is_refused() {
    let folder = TempDir::new().unwrap();
    let refusal =
        |about: &ImportLabels| check_folder(folder.path(), about).unwrap_err().to_string();
    check_folder(folder.path(), &about()).unwrap();
    add(folder.path(), vec![imported(SINGLE)]).unwrap();
    check_folder(folder.path(), &about()).unwrap();
    let elsewhere = ImportLabels { array: "six".to_owned(), ..about() };
    assert!(refusal(&elsewhere).contains("array `pair`, not of `six`"), "{}", refusal(&elsewhere));
    let changed = ImportLabels { array_text: "profile".to_owned(), ..about() };
    assert!(refusal(&changed).contains("a different array that is also named"));
    std::fs::write(folder.path().join("plan.json"), "{}").unwrap();
    assert!(refusal(&about()).contains("holds results of `compare`"), "{}", refusal(&about()));
    std::fs::remove_file(folder.path().join("plan.json")).unwrap();
    std::fs::rename(folder.path().join("cells"), folder.path().join("photos")).unwrap();
    assert!(refusal(&about()).contains("is not empty and is not a results folder"));
}

/// A document of one job, with these members of it and these reads.
fn document_of(version: &str, time_s: u64, runtime_ms: u64, ios: u64, reads: &str) -> String {
    format!(
        "{{\"fio version\": \"{version}\", \"timestamp\": {time_s}, \"jobs\": [{{\"jobname\": \
         \"a\", \"read\": {{\"io_bytes\": {}, \"runtime\": {runtime_ms}, \"total_ios\": {ios}, \
         {reads}}}}}]}}\n",
        ios * 4096
    )
}

const PERCENTILES: &str = r#""clat_ns": {"min": 4166543, "max": 124553100, "mean": 15739230.28,
    "percentile": {"50.000000": 12910592, "99.000000": 110624768}}"#;

#[test]
fn percentiles_without_a_count_are_of_all_requests() {
    let record = imported(&document_of("fio-3.7", 1, 30_112, 284, PERCENTILES));
    let latency = &read(&record.run.sections[0]).latency;
    assert_eq!((latency.count(), latency.mean().0), (284, 15_739_230));
    assert_eq!(bin_middle(bin_of(latency.quantile(0.99))).0, 110_624_768);
    let reads = "\"iops\": 100, \"clat_ns\": {\"mean\": 3000, \"percentile\": {\"99.0\": 8000}}";
    let figures =
        read(&imported(&document_of("fio-3.19", 1, 0, 500, reads)).run.sections[0]).clone();
    assert_eq!((figures.iops, figures.latency.quantile(0.99)), (100.0, Nanos(8000)));
}

#[test]
fn the_last_state_of_a_run_counts_and_a_second_run_is_refused() {
    let state = |time, runtime, ios| document_of("fio-3.33", time, runtime, ios, PERCENTILES);
    let text =
        format!("{}\n{}{}", state(100, 1_000, 10), state(101, 2_001, 21), state(101, 2_400, 25));
    assert_eq!(read(&imported(&text).run.sections[0]).ios, 25);
    // The last one may be cut off.
    let cut = format!("{}{}", state(100, 1_000, 10), &state(101, 2_000, 20)[..90]);
    assert_eq!(read(&imported(&cut).run.sections[0]).ios, 10);
    let twice = format!("{}{}", state(100, 10_000, 10), state(111, 10_001, 12));
    assert!(failure(&twice).starts_with("has the results of several runs of fio"));
}

#[test]
fn documents_are_found_in_any_encoding_and_behind_any_text() {
    let plain = document_of("fio-3.33", 1, 1_000, 10, PERCENTILES);
    let sorted = plain.replacen('{', "{\"disk_util\": [{\"name\": \"sda\"}], ", 1);
    let wide = |order: fn(u16) -> [u8; 2], mark: &str| -> Vec<u8> {
        format!("{mark}{plain}").encode_utf16().flat_map(order).collect()
    };
    for bytes in [
        format!("\u{feff}{plain}").into_bytes(),
        wide(u16::to_le_bytes, "\u{feff}"),
        wide(u16::to_be_bytes, "\u{feff}"),
        wide(u16::to_le_bytes, ""),
        format!("Jobs: 1 (f=1): [r(1)][100.0%][r=9KiB/s][eta 00m:00s]{plain}").into_bytes(),
        format!("note: {{x}}\n   {}\n\nRun status group 0", plain.replace('\n', "\n  "))
            .into_bytes(),
        sorted.into_bytes(),
    ] {
        let record = cell(&bytes, &[], &about()).unwrap();
        assert_eq!(read(&record.run.sections[0]).ios, 10);
    }
}

#[test]
fn fio_2_counts_kib_and_microseconds() {
    let text = r#"{"fio version": "fio-2.1.4", "jobs": [{"jobname": "reads", "read": {
        "io_bytes": 1136, "bw": 37, "iops": 9.43, "runtime": 30112, "clat": {"min": 4166,
        "max": 124553, "mean": 15739.2, "percentile": {"50.000000": 12910, "99.000000": 110624}},
        "lat": {"min": 4201, "mean": 15769.3}}}]}"#;
    let record = imported(text);
    let section = read(&record.run.sections[0]);
    assert_eq!((section.ios, section.bytes), (284, 1136 * 1024));
    assert_eq!(section.latency.mean().0, 15_739_200);
    assert_eq!(record.imported.unwrap().latency, LatencySource::CompletionPercentiles);
}

#[test]
fn servers_that_run_one_job_are_clones_and_fdatasync_is_counted_by_its_latencies() {
    // fio before 3.19 does not count them: there is one after two writes.
    let job = |host: &str, name: &str, ios: u64| {
        let count = if name == "y" { "" } else { "\"N\": 255," };
        format!(
            r#"{{"jobname": "{name}", "hostname": "{host}", "job options": {{"fdatasync": "2"}},
            "write": {{"total_ios": {ios}, "runtime": 1000, {PERCENTILES}}},
            "sync": {{"total_ios": 0, "lat_ns": {{"min": 98143, "max": 3582354,
            "mean": 581522.1, {count} "percentile": {{"50.0": 399360}}}}}}}}"#
        )
    };
    let jobs = [job("a", "x", 3), job("a", "y", 4), job("b", "x", 5), job("b", "y", 6)];
    let all = job("c", "All clients", 18);
    let text =
        format!("{{\"fio version\": \"fio-3.33\", \"client_stats\": [{},{all}]}}", jobs.join(","));
    let record = imported(&text);
    let found: Vec<(&str, u64, u64)> =
        record.run.sections.iter().map(|it| (&*it.name, it.write.ios, it.flush.ios)).collect();
    assert_eq!(found, [("x", 8, 510), ("y", 10, 5)]);
}

#[test]
fn logs_of_writes_and_histograms_are_read() {
    let read_log = |name: &str, text: &str| {
        let document = document_of("fio-3.33", 1, 30_000, 300, PERCENTILES);
        cell_with(&document, &[(name, text)]).unwrap().run.intervals
    };
    let writes = read_log("writes_bw.1.log", "1000, 4096, 1, 0, 0\n2000, 4096, 1, 0, 0\n");
    assert_eq!(writes.written_bytes.iter().sum::<u64>(), 2 * 4096 * 1024);
    assert_eq!(writes.read_bytes.iter().sum::<u64>(), 0);
    let clock = read_log("x_bw.log", "1795211697000, 4096, 0, 4096\n1795211698000, 1, 0, 4096\n");
    assert_eq!(clock.read_bytes.iter().sum::<u64>(), 8192);
    let bins = read_log("run_clat_hist.1.log", "10002, 0, 4096, 0, 0, 3, 0, 1\n");
    assert_eq!(bins.read_bytes.iter().sum::<u64>(), 4 * 4096);
    assert_eq!(bins.read_latency.iter().flat_map(|it| &it.counts).sum::<u64>(), 4);
}

/// What fio wrote, with bytes overwritten that matter in JSON, and cut off somewhere.
fn damaged() -> impl Strategy<Value = Vec<u8>> {
    let whole = prop::sample::select(vec![GROUPS, CLONES, PLAIN, SINGLE]);
    let byte = prop::sample::select(b"0129-.e\"{}[],:nul\xff \n".to_vec());
    let edits = prop::collection::vec((0.0..1.0, byte), 0..4);
    (whole, edits, 0.0..3.0).prop_map(|(whole, edits, end)| {
        let mut bytes = whole.as_bytes().to_vec();
        let length = bytes.len() as f64;
        for (place, byte) in edits {
            bytes[(place * length) as usize] = byte;
        }
        bytes.truncate((end * length) as usize);
        bytes
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Whatever is read is sound, and nothing panics.
    #[test]
    fn no_damage_is_a_panic(
        text in damaged(),
        log in "([0-9]{1,20}, ?[-0-9.e]{1,12},? ?[0-3]?\n?){0,9}",
    ) {
        let cells = [cell(&text, &[], &about()), cell_with(SINGLE, &[("x_bw.2.log", &log)])];
        for record in cells.into_iter().flatten() {
            prop_assert_eq!(record.damage(), None);
        }
    }
}
