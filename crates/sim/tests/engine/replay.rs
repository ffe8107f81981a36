//! Replays of a trace on disks of fixed service time.

use super::*;
use std::fs::{self, File};
use std::path::Path;
use std::time::Duration;

/// Runs a replay of 400 reads, one each 5 ms, with a write next to every fourth.
fn replay(name: &str, service: &str, options: &str) -> RunRecord {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.csv"));
    let mut text = String::new();
    for index in 0..400u64 {
        text += &format!("v,R,{},4096,{}\n", index * 7919 % 400 * 4096, index * 5000);
        if index % 4 == 0 {
            text += &format!("v,W,{},512,{}\n", index * 4096 + 512, index * 5000);
        }
    }
    fs::write(&path, text).expect("the folder is there");
    let text = format!("[a]\nread_iolog={}\ndirect=1\n{options}", path.display());
    let jobs = JobFile::parse(&text, "replay.fio", &JobContext::process()).expect("a valid job");
    let record = simulate(&delays("raid1", &[service, service]), &jobs, "first");
    fs::remove_file(path).expect("it was written");
    record
}

#[test]
fn every_request_of_a_trace_is_served_once_at_its_time() {
    let record = replay("open", "1ms", "");
    let section = &record.sections[0];
    assert_eq!((section.read.latency.count(), section.write.latency.count()), (400, 100));
    assert_eq!(section.write.bytes, 100 * 4096, "writes are widened to whole sectors");
    assert!(section.has_rate);
    assert_near(section.measured.as_secs_f64(), 2.0, 0.01);
    assert!(section.read.latency.max() <= Some(Nanos::from_millis(3)));
    let again = replay("open", "1ms", "");
    assert_eq!(format!("{record:?}"), format!("{again:?}"), "the same trace, the same record");
}

/// At twice the rate one read each 2.5 ms finds a mirror that needs 4 ms for each: the backlog
/// grows to the end, and latency counts from the times of the trace.
#[test]
fn a_trace_that_is_too_fast_builds_a_backlog() {
    let record = replay("fast", "4ms", "replay_time_scale=200\nreplay_skip=write");
    let section = &record.sections[0];
    assert_eq!((section.read.latency.count(), section.write.latency.count()), (400, 0));
    assert_near(section.measured.as_secs_f64(), 1.6, 0.01);
    let last = section.read.latency.max().expect("it has reads");
    assert_near(last.as_secs_f64(), 1.6 - 399.0 * 0.0025, 0.02);
}

#[test]
fn a_closed_replay_runs_as_fast_as_the_array() {
    let record = replay("closed", "1ms", "replay_no_stall=1\nreplay_skip=write");
    assert_near(record.sections[0].measured.as_secs_f64(), 0.4, 0.01);
    assert!(!record.sections[0].has_rate);
}

/// The page cache serves replays too: nothing is lost on the way through read-ahead.
#[test]
fn a_buffered_replay_serves_every_request() {
    let record = replay("buffered", "1ms", "direct=0");
    let section = &record.sections[0];
    assert_eq!((section.read.latency.count(), section.write.latency.count()), (400, 100));
}

/// A trace is read again when it is replayed: what is no longer the trace of the job ends the run.
#[test]
fn a_trace_that_was_changed_is_refused() {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("changed.csv");
    let line = |index: u64| format!("v,R,{},4096,{}\n", index * 4096, 100_000 + index);
    let text: String = (0..20_000).map(line).collect();
    fs::write(&path, &text).expect("the folder is there");
    let job = format!("[a]\nread_iolog={}\ndirect=1\nreplay_no_stall=1\n", path.display());
    let job = JobFile::parse(&job, "replay.fio", &JobContext::process()).expect("a valid job");
    let array = delays("raid1", &["1us", "1us"]);
    let policy = PolicyUnderTest::Policy("first");
    let simulation = Simulation {
        array: &array,
        job: &job,
        policy,
        seed: 1,
        duration: None,
        checks: Checks::On,
    };
    let modified = fs::metadata(&path).and_then(|it| it.modified()).expect("it was written");
    let change = |text: &str, at| {
        fs::write(&path, text).expect("it was written before");
        let file = File::options().write(true).open(&path).expect("it was written before");
        file.set_modified(at).expect("Linux can");
        run(&simulation).map(|record| record.sections[0].read.latency.count())
    };
    let as_before = change(&text, modified);
    assert!(matches!(as_before, Ok(20_000)), "{as_before:?}");
    let later = change(&text, modified + Duration::from_secs(1)).expect_err("another time");
    assert!(later.to_string().contains("was changed while it was in use"), "{later}");
    let damaged = text.replace(&line(19_990), &line(19_990).replace(",R,", ",X,"));
    let damaged = change(&damaged, modified).expect_err("a bad line");
    assert!(damaged.to_string().contains("changed.csv:19991"), "{damaged}");
    fs::remove_file(path).expect("it was written");
}
