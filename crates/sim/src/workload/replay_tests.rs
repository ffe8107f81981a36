//! Replays: what a job file says of a trace, and when its requests are issued.

use super::{CloneSpec, Issue, Next, ReplayStream};
use crate::job::{JobContext, JobFile, Mix};
use mirrorball_core::units::{MIB, Nanos};
use std::fs;
use std::path::PathBuf;

/// A file of a test, removed at its end.
struct TraceOnDisk(PathBuf);

impl TraceOnDisk {
    fn new(name: &str, text: &str) -> TraceOnDisk {
        let path = std::env::temp_dir().join(format!("replay-{}-{name}", std::process::id()));
        fs::write(&path, text).unwrap();
        TraceOnDisk(path)
    }

    fn job(&self, options: &str) -> Result<JobFile, String> {
        let text = format!("[a]\nread_iolog={}\ndirect=1\n{options}", self.0.display());
        let job = JobFile::parse(&text, "job.fio", &JobContext::process());
        job.map_err(|error| error.to_string())
    }

    /// When each request is issued by an array that takes `service` for each, with what it is.
    fn issues(&self, options: &str, service: Nanos) -> Vec<(Nanos, Issue)> {
        let job = self.job(options).unwrap().sections.remove(0);
        let spec = CloneSpec { clone: 0, volume_bytes: MIB, group_start: Nanos::ZERO, seed: 1 };
        let replay = job.replay.as_ref().unwrap();
        let mut stream = ReplayStream::new(&job, replay, spec).unwrap();
        let (mut now, mut ends, mut issues) = (Nanos::ZERO, Vec::new(), Vec::new());
        loop {
            let next = if ends.len() < job.depth as usize { stream.next(now) } else { Next::Wait };
            let wake = match next {
                Next::Issue(issue) => {
                    issues.push((now, issue));
                    ends.push(now + service);
                    continue;
                }
                Next::NotBefore(later) => later,
                Next::Wait => Nanos::MAX,
                Next::Done => return issues,
            };
            let first_end = ends.first().copied().unwrap_or(Nanos::MAX);
            now = wake.min(first_end);
            assert!(now < Nanos::MAX, "the stream waits for nothing");
            if first_end <= now {
                ends.remove(0);
                stream.complete(now);
            }
        }
    }

    fn millis(&self, options: &str, service: Nanos) -> Vec<u64> {
        let issues = self.issues(options, service);
        issues.iter().map(|(now, _)| now.0 / 1_000_000).collect()
    }
}

impl Drop for TraceOnDisk {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

const MS: Nanos = Nanos::from_millis(1);

/// Reads at 0, 10, 11 and 30 ms; each took 5 ms where the trace was taken.
fn msr(name: &str) -> TraceOnDisk {
    let line = |millis: u64| format!("{},h,0,Read,4096,4096,50000\n", 10_000 * millis);
    TraceOnDisk::new(name, &[100, 110, 111, 130].map(line).concat())
}

#[test]
fn an_open_replay_keeps_the_times_of_the_trace() {
    let trace = msr("open");
    assert_eq!(trace.millis("", MS), [0, 10, 11, 30]);
    assert_eq!(trace.millis("replay_time_scale=200", MS), [0, 5, 5, 15]);
    assert_eq!(trace.millis("replay_time_scale=50", MS), [0, 20, 22, 60]);
    assert_eq!(trace.millis("startdelay=1", MS), [1000, 1010, 1011, 1030]);
    assert_eq!(trace.millis("runtime=11ms", MS), [0, 10], "what is due at its end is not issued");
}

/// The backlog of a slow array is visible: latency counts from the time of the trace.
#[test]
fn a_late_request_keeps_its_intended_time() {
    let issues = msr("late").issues("ioengine=io_uring\niodepth=1", Nanos::from_millis(20));
    let times: Vec<_> = issues.iter().map(|(now, issue)| (*now, issue.intended)).collect();
    let millis = |now, due| (Nanos::from_millis(now), Nanos::from_millis(due));
    assert_eq!(times, [millis(0, 0), millis(20, 10), millis(40, 11), millis(60, 30)]);
}

#[test]
fn a_closed_replay_keeps_the_queue_full() {
    let trace = msr("closed");
    assert_eq!(trace.millis("replay_no_stall=1", MS), [0, 1, 2, 3]);
    let deep = "replay_no_stall=1\nioengine=io_uring\niodepth=2";
    assert_eq!(trace.millis(deep, MS), [0, 0, 1, 1]);
}

/// The second request follows the first's completion by 5 ms, the third the second by 1 ms while
/// that is in flight, and the last the third's completion at 16 ms by 14 ms.
#[test]
fn think_times_follow_completions() {
    let trace = msr("think");
    let think = "; mirrorball: replay=think";
    assert_eq!(trace.millis(think, Nanos::from_millis(5)), [0, 10, 11, 30]);
    assert_eq!(trace.millis(think, Nanos::from_millis(50)), [0, 55, 56, 120]);
    assert_eq!(trace.millis(think, MS), [0, 6, 7, 22]);
}

#[test]
fn addresses_are_scaled_aligned_widened_and_wrapped() {
    let text = "v,R,5000,100,1\nv,W,2093056,8192,2\nv,R,1044480,8192,3\n";
    let trace = TraceOnDisk::new("addresses", text);
    let ranges = |options: &str| -> Vec<(u64, u64)> {
        let issues = trace.issues(options, MS);
        issues.iter().map(|(_, issue)| (issue.offset / 1024, issue.length / 1024)).collect()
    };
    let wrap = "; mirrorball: replay=open beyond=wrap";
    assert_eq!(ranges(wrap), [(4, 4), (1016, 8), (1016, 8)]);
    assert_eq!(ranges("replay_scale=4"), [(0, 4), (508, 12), (252, 12)]);
    assert_eq!(ranges("replay_scale=4\nreplay_align=64k"), [(0, 4), (448, 8), (192, 8)]);
    assert_eq!(ranges("replay_scale=4\nreplay_skip=write").len(), 2);
}

#[test]
fn a_trace_larger_than_the_volume_is_refused() {
    let trace = TraceOnDisk::new("large", "v,R,1048576,4096,1\n");
    let error = trace.job("").unwrap().validate_against(MIB).unwrap_err().to_string();
    assert!(error.starts_with("job.fio:1: the trace `"), "{error}");
    assert!(error.contains("which has 1 MiB: it ends 4 KiB after the end"), "{error}");
    assert!(error.contains("beyond=wrap"), "{error}");
    let wraps = trace.job("; mirrorball: replay=open beyond=wrap").unwrap();
    assert_eq!(wraps.validate_against(MIB), Ok(()));
    assert_eq!(trace.job("").unwrap().validate_against(2 * MIB), Ok(()));
}

/// The canonical form has the hash of the requests and not the path.
#[test]
fn the_content_of_a_trace_is_part_of_the_job() {
    let canonical = |trace: &TraceOnDisk, options: &str| {
        serde_json::to_string(&trace.job(options).unwrap()).unwrap()
    };
    let (first, same) = (msr("first"), msr("same"));
    assert_eq!(canonical(&first, ""), canonical(&same, ""));
    let longer = fs::read_to_string(&first.0).unwrap() + "1310001,h,0,Read,4096,4096,50000\n";
    let other = TraceOnDisk::new("other", &longer);
    assert_ne!(canonical(&first, ""), canonical(&other, ""));
    assert_ne!(canonical(&first, ""), canonical(&first, "replay_time_scale=200"));
}

#[test]
fn a_device_and_a_mix_are_those_of_the_trace() {
    let text = "1,R,0,4096,1\n2,W,0,4096,2\n1,W,0,4096,3\n1,R,0,4096,4\n1,R,0,4096,5\n";
    let trace = TraceOnDisk::new("mix", text);
    let mix = |options: &str| trace.job(options).unwrap().sections[0].mix;
    assert_eq!(mix(""), Mix::ReadWrite { read_percent: 60 });
    let device = "; mirrorball: replay=open format=alibaba device=1";
    assert_eq!(mix(device), Mix::ReadWrite { read_percent: 75 });
    assert_eq!(mix("replay_skip=write,sync"), Mix::Only(crate::job::Direction::Read));
    assert_eq!(trace.issues(device, MS).len(), 4);
}

#[test]
fn what_an_open_replay_offers_is_counted_in_the_window() {
    let text: String = (0..1000u64).map(|at| format!("1,R,0,4096,{}\n", at * 1000)).collect();
    let trace = TraceOnDisk::new("offered", &text);
    let offered = |options: &str, until| {
        let job = trace.job(options).unwrap().sections.remove(0);
        job.replay.unwrap().offered_iops(Nanos::ZERO, until)
    };
    let near = |offered: Option<f64>, iops: f64| (offered.unwrap() / iops - 1.0).abs() < 0.01;
    assert!(near(offered("", Nanos::from_millis(500)), 1000.0));
    assert!(near(offered("", Nanos::from_secs(60)), 1000.0), "the trace has ended");
    assert!(near(offered("replay_time_scale=200", Nanos::from_millis(400)), 2000.0));
    assert_eq!(offered("replay_no_stall", Nanos::from_secs(1)), None);
}

#[test]
fn buffered_writes_of_a_trace_are_noted() {
    let trace = TraceOnDisk::new("writes", "10000,h,0,Write,4096,4096,50000\n");
    let notes = |options: &str| trace.job(options).unwrap().notes;
    let of_cache = notes("direct=0").pop().unwrap();
    assert_eq!((&of_cache.option[..], of_cache.line), ("read_iolog", 2));
    assert!(of_cache.reason.contains("page cache"), "{}", of_cache.reason);
    assert_eq!(notes("direct=0").len(), notes("").len() + 1);
}

/// fio replays by one process, which a policy such as btrfs/pid sees.
#[test]
fn processes_and_devices_of_a_trace_that_are_merged_are_noted() {
    let header = "Timestamp,Type,Offset,Size,ResponseTime,Process\n";
    let by = |processes: u64| {
        let line = |at: u64| {
            let (offset, process) = (at * 7919 % 64 * 8192, at % processes + 1);
            format!("{},Read,{offset},4096,50000,{process}\n", at * 10_000)
        };
        header.to_owned() + &(0..40).map(line).collect::<String>()
    };
    let two = TraceOnDisk::new("processes", &by(2));
    let notes = |trace: &TraceOnDisk| {
        let notes = trace.job("").unwrap().notes;
        notes.into_iter().map(|note| note.reason).collect::<String>()
    };
    assert!(notes(&two).contains("the trace has about 2"), "{}", notes(&two));
    let one = TraceOnDisk::new("process", &by(1));
    assert!(!notes(&one).contains("process"), "{}", notes(&one));
    let lines = "10000,h,0,Read,4096,4096,50000\n20000,h,1,Read,4096,4096,50000\n";
    let devices = notes(&TraceOnDisk::new("devices", lines));
    assert!(devices.contains("its 2 devices are laid over each other"), "{devices}");
}

/// fio 3.33 replays a log of 8 reads in full with each of these.
#[test]
fn options_without_effect_on_a_replay_are_noted() {
    let trace = msr("plain");
    let plain = trace.job("").unwrap().sections.remove(0);
    for option in ["rate_iops=4", "io_size=8k", "number_ios=2", "loops=2", "fsync=1"] {
        let mut job = trace.job(option).unwrap();
        let name = option.split('=').next();
        assert_eq!(job.notes.last().map(|note| &note.option[..]), name);
        assert_eq!(job.sections.remove(0), plain, "{option}");
    }
}

/// fio 3.33 flushes once after a log of 4 writes with `end_fsync`, by its system calls.
#[test]
fn a_replay_is_flushed_at_its_end() {
    let job = msr("flushed").job("end_fsync=1").unwrap();
    assert!(job.sections[0].final_flush);
    assert!(job.notes.iter().all(|note| note.option != "end_fsync"));
}

/// A clone of the flow would wait for a replay, which keeps the times of its trace.
#[test]
fn a_replay_is_in_no_flow() {
    let mut job = msr("flow").job("[b]\nflow=2\n[c]\nflow=1").unwrap();
    assert_eq!(job.sections.pop().unwrap().flow.map(|flow| flow.weight), Some(1));
    let job = msr("flow").job("flow=1").unwrap();
    assert_eq!(job.sections[0].flow, None);
    assert_eq!(job.notes.last().map(|note| (&note.option[..], note.line)), Some(("flow", 4)));
}

#[test]
fn what_cannot_be_replayed_is_refused() {
    let alibaba = TraceOnDisk::new("bad", "v,R,0,4096,1\n");
    for (options, expected) in [
        ("thinktime=5", "job.fio:4: `thinktime` cannot be combined with read_iolog"),
        ("; mirrorball: replay=think", "needs response times, which the format alibaba lacks"),
        ("; mirrorball: replay=opne", "unknown pace `opne`"),
        ("; mirrorball: replay=open devise=1", "unknown word `devise`"),
        ("; mirrorball: replay=open replay=open", "`replay` is given twice"),
        ("; mirrorball: replay=open\n; mirrorball: replay=open", "`replay` is given twice"),
        ("; mirrorball: replay=open beyond=x", "unknown beyond `x`"),
        ("; mirrorball: replay=open format=mrs", "unknown trace format `mrs`"),
        ("; mirrorball: replay=open device=w", "has no request of a device `w`"),
        ("; mirrorball: replay=open\nreplay_no_stall=1", "replay_no_stall and another `replay=`"),
        ("replay_align=3000", "replay_align: `3000` is not a power of two"),
        ("replay_skip=read,write,trim", "nothing is left of the trace"),
        ("replay_time_scale=0", "replay_time_scale: `0` is too small"),
        ("read_iolog=a:b", "is not the path of one file"),
        ("read_iolog=/missing", "cannot read the trace `/missing`"),
        ("merge_blktrace_file=x", "`merge_blktrace_file` is not supported: traces are not merged"),
        ("[b]\n; mirrorball: replay=open", "section `b` has a `replay` but no trace"),
    ] {
        let error = alibaba.job(options).unwrap_err();
        assert!(error.contains(expected), "{options}: {error}");
        assert!(error.contains("help: "), "{options}: {error}");
    }
    let broken = TraceOnDisk::new("broken", &("v,R,0,4096,1\n".repeat(20) + "v,R,0,4096\n"));
    let error = broken.job("").unwrap_err();
    assert!(error.starts_with("job.fio:2: read_iolog: ") && error.contains(":21: the line has 4"));
}
