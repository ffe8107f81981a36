//! The order, sizes and times of requests, against what fio 3.33 logs with `--write_iolog`.

use super::*;
use crate::job::{JobContext, JobFile};
use mirrorball_core::units::{GIB, KIB, MIB};
use proptest::{prop_assert, prop_assert_eq, proptest};

/// The first job of a file with these options.
pub(super) fn job(options: &str) -> Section {
    let text = format!("[job]\nioengine=io_uring\n{options}");
    let file = JobFile::parse(&text, "test.fio", &JobContext::empty());
    file.unwrap_or_else(|error| panic!("{error}")).sections.remove(0)
}

pub(super) fn clone_of(job: &Section, clone: u32, seed: u64) -> Workload {
    let volume_bytes = GIB;
    Workload::new(job, CloneSpec { clone, volume_bytes, group_start: Nanos::ZERO, seed })
}

/// The first requests of a job on a device that answers at once.
fn requests(options: &str, most: usize) -> Vec<Issue> {
    requests_of(&job(options), 1, most)
}

pub(super) fn requests_of(job: &Section, seed: u64, most: usize) -> Vec<Issue> {
    let mut workload = clone_of(job, 0, seed);
    let (mut now, mut issues) = (Nanos::ZERO, Vec::new());
    while issues.len() < most {
        match workload.next(now) {
            Next::Issue(issue) => {
                issues.push(issue);
                workload.complete(issue.kind, now);
            }
            Next::NotBefore(later) => {
                assert!(later > now, "progress");
                now = later;
            }
            Next::Wait => panic!("nothing is in flight"),
            Next::Done => break,
        }
    }
    issues
}

/// As `r0 w8 f`: the kind with the offset in KiB, and the length where it is not 4 KiB.
pub(super) fn log(options: &str) -> String {
    let word = |issue: &Issue| {
        let kind = match issue.kind {
            RequestKind::Read => 'r',
            RequestKind::Write => 'w',
            RequestKind::Discard => 't',
            _ => return "f".to_owned(),
        };
        let length = match issue.length / KIB {
            4 => String::new(),
            length => format!("+{length}"),
        };
        format!("{kind}{}{length}", issue.offset / KIB)
    };
    requests(options, 40).iter().map(word).collect::<Vec<_>>().join(" ")
}

#[test]
fn sequential_requests_pass_over_the_region() {
    assert_eq!(log("size=16k"), "r0 r4 r8 r12");
    assert_eq!(log("size=16k\noffset=8k\nrw=write"), "w8 w12 w16 w20");
    assert_eq!(log("rw=trim\nsize=8k"), "t0 t4");
    assert_eq!(log("size=10k"), "r0 r4", "whole blocks only");
}

/// As fio 3.33 writes them to `write_iolog`, but for the places of files.
#[test]
fn modifiers_zones_and_files_order_requests_as_in_fio() {
    let twice = |half: &str| format!("{half} {half}");
    let to_16 = "w0 w16 w32 w48 w0 w16 w32 w48";
    for (options, expected) in [
        ("size=64k\nrw=read:4k", &*twice("r0 r8 r16 r24 r32 r40 r48 r56")),
        ("size=36k\nrw=read:4k", "r0 r8 r16 r24 r32"),
        ("size=64k\nbs=8k\nrw=read:4k", "r0+8 r12+8 r24+8 r36+8 r48+8"),
        ("size=64k\nrw=read:-8k\nnumber_ios=5", "r0 r56 r52 r48 r44"),
        ("size=64k\nrw=write:12k", &twice(to_16)),
        ("size=20k\noffset=16k\nrw=read:4k", "r16 r24 r32"),
        // The part of a block at the end counts for the size, and is where others go round.
        ("size=30k\nrw=read:4k", &twice("r0 r8 r16 r24")),
        ("size=34k\nrw=read:4k", "r0 r8 r16 r24"),
        ("size=100k\nbs=16k\nrw=write:4k", { "w0+16 w20+16 w40+16 w60+16 w80+16 w0+16 w20+16" }),
        ("size=64k\nzonemode=strided\nzonesize=8k\nzoneskip=8k", &{
            twice("r0 r4 r16 r20 r32 r36 r48 r52")
        }),
        ("size=64k\nzonemode=strided\nzonesize=8k\nzonerange=16k", &{
            twice("r0 r4 r16 r20 r32 r36 r48 r52")
        }),
        ("size=32k\nzonemode=strided\nzonesize=8k\nzonerange=4k\nzoneskip=12k", &{
            twice("r0 r0 r16 r16")
        }),
        ("size=48k\nzonemode=strided\nzonesize=12k\nzonerange=16k\nfilename=a:b\nnumber_ios=12", {
            "r0 r32 r4 r48 r8 r52 r16 r20"
        }),
        ("size=128k\nzonemode=strided\nzonesize=12k\nzonerange=24k\nrw=read:4k", {
            "r0 r8 r16 r24 r32 r40 r48 r56 r64 r72 r80 r88 r96 r104 r112 r120"
        }),
        ("size=64k\nzoneskip=8k\nzonerange=16k\nnumber_ios=3", "r0 r4 r8"),
        ("size=16k\nnrfiles=4", "r0 r4 r8 r12"),
        ("size=28k\nnrfiles=2", "r0 r16 r4 r20 r8 r24"),
        ("size=32k\nnrfiles=4", "r0 r8 r16 r24 r4 r12 r20 r28"),
        ("size=32k\nnrfiles=4\nfile_service_type=sequential", "r0 r4 r8 r12 r16 r20 r24 r28"),
        ("size=24k\nnrfiles=2\nfile_service_type=roundrobin:2", "r0 r4 r16 r20 r8 r24"),
        ("size=48k\nnrfiles=4\nopenfiles=2", &{
            "r0 r16 r4 r20 r8 r24 r32 r48 r36 r52 r40 r56".to_owned()
        }),
        ("size=16k\nfilename=a:b\nloops=2", &twice("r0 r8 r4 r12")),
        ("size=8k\nfilesize=64k\nnrfiles=2", "r0 r64"),
        ("bs=512\nsize=2k\noffset=3k", "r0 r0 r4 r4"),
        ("bs=6k\nsize=18k", "r0+8 r4+8 r12+8"),
    ] {
        assert_eq!(log(options), expected, "{options}");
    }
}

/// Numbers of requests of fio 3.33 with its null engine.
#[test]
fn requests_of_several_sizes_cover_a_region_once() {
    for (options, of_fio) in [
        ("rw=randread\nbssplit=4k/50:64k/50", 25_574.0),
        ("rw=randread\nbsrange=4k-64k", 21_399.0),
        ("rw=randread\nbssplit=4k/60:16k/30:64k/9", 65_208.0),
        ("rw=read\nbsrange=4k-64k", 15_385.0),
    ] {
        let issues = requests(&format!("{options}\nsize=512m"), usize::MAX);
        let bytes: u64 = issues.iter().map(|issue| issue.length).sum();
        let end = issues.iter().map(|issue| issue.offset + issue.length).max();
        assert_eq!(Some(bytes), end, "{options}: no block twice, none left out");
        let ratio = issues.len() as f64 / of_fio;
        assert!((0.98..1.02).contains(&ratio), "{options}: {} requests", issues.len());
    }
}

/// The random map has blocks of the smallest size of any direction, but each counts in its own: a
/// free block behind the end of the region ends the job. Means of fio 3.33 over 16 seeds, whose
/// deviation is 30 %, and its number without an early end.
#[test]
fn blocks_of_directions_that_differ_in_size_end_a_job_early() {
    for (options, of_fio, whole) in [
        ("rw=randrw\nbs=4k,16k", 1182.0, 1640),
        ("rw=randwrite\nbs=4k,16k", 727.0, 1024),
        ("rw=randread\nbs=16k,4k", 713.0, 1024),
        ("rw=randread\nbs=8k,,4k", 1345.0, 2048),
        ("rw=randrw\nbssplit=4k/50:16k/50,8k/50:64k/50", 722.0, 900),
        ("rw=randread\nbs=16k,4k\nloops=2", 1306.0, 2048),
    ] {
        let job = job(&format!("{options}\nsize=16m"));
        let counts: Vec<usize> = (0..64).map(|seed| requests_of(&job, seed, 5000).len()).collect();
        let mean = counts.iter().sum::<usize>() as f64 / 64.0;
        assert!((0.75..1.25).contains(&(mean / of_fio)), "{options}: {mean}");
        assert!(counts.iter().any(|&count| count < whole / 2), "{options}: {counts:?}");
    }
}

#[test]
fn a_shift_register_visits_each_block_once_without_a_map() {
    let issues = requests("rw=randread\nsize=4m\nnorandommap\nrandom_generator=lfsr", usize::MAX);
    let mut offsets: Vec<u64> = issues.iter().map(|issue| issue.offset / (4 * KIB)).collect();
    offsets.sort_unstable();
    assert_eq!(offsets, (0..1024).collect::<Vec<u64>>());
    // With several sizes fio 3.33 ends early, some jobs without a request.
    let notes = |sizes: &str| {
        let text = format!("[a]\nrw=randrw\nsize=4m\n{sizes}\nrandom_generator=lfsr");
        JobFile::parse(&text, "a.fio", &JobContext::empty()).unwrap().notes.len()
    };
    assert_eq!(notes("bs=4k,16k"), notes("bs=4k") + 1);
}

#[test]
fn runs_of_a_random_job_follow_or_repeat_their_first_address() {
    let runs = |more: &str| {
        let issues = requests(&format!("size=64m\nrw=randread:4{more}\nnorandommap"), 400);
        let offsets: Vec<u64> = issues.iter().map(|issue| issue.offset / (4 * KIB)).collect();
        let step = |pair: &[u64]| pair[1].wrapping_sub(pair[0]);
        offsets.chunks(4).map(|run| run.windows(2).map(step).collect()).collect::<Vec<Vec<_>>>()
    };
    assert!(runs("").iter().filter(|run| **run == [1, 1, 1]).count() > 95);
    assert_eq!(runs("\nrw_sequencer=identical"), vec![vec![0, 0, 0]; 100]);
}

#[test]
fn random_addresses_have_their_own_alignment() {
    let offsets = |options: &str| -> Vec<u64> {
        let text = format!("rw=randread\nsize=64k\ntime_based\nruntime=1\n{options}");
        let mut seen: Vec<u64> = requests(&text, 500).iter().map(|it| it.offset / KIB).collect();
        seen.sort_unstable();
        seen.dedup();
        seen
    };
    assert_eq!(offsets("bs=8k\nblockalign=16k"), [0, 16, 32, 48]);
    assert_eq!(offsets("bs=32k\nba=16k"), [0, 16, 32]);
    assert_eq!(offsets("bs=16k\nba=16k"), [0, 16, 32, 48]);
    // The size as the alignment is the default, so each block is requested once in a pass.
    let issues = requests("rw=randread\nsize=64k\nbs=8k\nba=8k", usize::MAX);
    let mut starts: Vec<u64> = issues.iter().map(|it| it.offset / KIB).collect();
    starts.sort_unstable();
    assert_eq!(starts, [0, 8, 16, 24, 32, 40, 48, 56]);
}

#[test]
fn mixed_sequential_directions_each_have_their_own_position() {
    let issues = requests("rw=rw\nbs=4k,8k\nsize=1m\nrwmixread=30", 1000);
    for (kind, length) in [(RequestKind::Read, 4 * KIB), (RequestKind::Write, 8 * KIB)] {
        let of_kind: Vec<_> = issues.iter().filter(|issue| issue.kind == kind).collect();
        assert!(of_kind.len() > 20);
        for (index, issue) in of_kind.iter().enumerate() {
            assert_eq!((issue.offset, issue.length), (index as u64 * length, length));
        }
    }
    let bytes: u64 = issues.iter().map(|issue| issue.length).sum();
    assert!((MIB..=MIB + 4 * KIB).contains(&bytes), "a pass moves the region's size: {bytes}");
}

#[test]
fn flushes_follow_every_so_many_writes_and_hold_the_rest_back() {
    for (options, expected) in [
        ("rw=write\nsize=32k\nfsync=3", "w0 w4 w8 f w12 w16 w20 f w24 w28"),
        ("rw=write\nsize=32k\nfsync=3\nfdatasync=2", "w0 w4 f w8 f w12 f w16 w20 f w24 w28"),
        ("rw=write\nsize=12k\nfsync=1", "w0 f w4 f w8"),
        ("rw=write\nsize=16k\nfdatasync=2", "w0 w4 f w8 w12"),
        ("rw=write\nsize=12k\nend_fsync=1", "w0 w4 w8 f"),
        ("rw=read\nsize=12k\nend_fsync=1\nfsync=1", "r0 r4 r8"),
    ] {
        assert_eq!(log(options), expected, "{options}");
    }
    let mut workload = clone_of(&job("rw=write\nsize=32k\nfsync=2\niodepth=8"), 0, 1);
    let at = Nanos(5);
    assert!(matches!(workload.next(at), Next::Issue(_)));
    assert!(matches!(workload.next(at), Next::Issue(_)));
    let flush = Issue { kind: RequestKind::Flush, offset: 0, length: 0, intended: at };
    assert_eq!(workload.next(at), Next::Issue(flush));
    workload.complete(RequestKind::Write, at);
    assert_eq!(workload.next(at), Next::Wait, "the flush is in flight");
    workload.complete(RequestKind::Flush, at);
    assert!(matches!(workload.next(at), Next::Issue(_)));
}

#[test]
fn thinking_starts_when_all_is_complete() {
    let options = "size=1m\nthinktime=10ms\nthinktime_blocks=2\nthinktime_blocks_type=issue\n\
                   iodepth=8";
    let mut workload = clone_of(&job(options), 0, 1);
    let read = RequestKind::Read;
    assert!(matches!(workload.next(Nanos(0)), Next::Issue(_)));
    assert!(matches!(workload.next(Nanos(0)), Next::Issue(_)));
    assert_eq!(workload.next(Nanos(0)), Next::Wait);
    workload.complete(read, Nanos(1_000));
    assert_eq!(workload.next(Nanos(1_000)), Next::Wait);
    workload.complete(read, Nanos(2_000));
    let wakes = Nanos(10_002_000);
    assert_eq!(workload.next(Nanos(2_000)), Next::NotBefore(wakes));
    assert!(matches!(workload.next(wakes), Next::Issue(_)));
    assert!(matches!(workload.next(wakes), Next::Issue(_)));
    assert_eq!(workload.next(wakes), Next::Wait);
}

/// As fio 3.33 makes them with libaio and io_uring, without a rate.
#[test]
fn bursts_between_pauses_count_ended_requests() {
    let bursts = |options: &str| -> Vec<usize> {
        let mut workload = clone_of(&job(&format!("size=1m\nthinktime=10ms\n{options}")), 0, 1);
        let (mut now, mut bursts) = (Nanos::ZERO, vec![0]);
        while bursts.len() <= 6 {
            match workload.next(now) {
                Next::Issue(issue) => {
                    *bursts.last_mut().unwrap() += 1;
                    workload.complete(issue.kind, now);
                }
                Next::NotBefore(later) => {
                    now = later;
                    bursts.push(0);
                }
                Next::Wait | Next::Done => panic!("the job goes on"),
            }
        }
        bursts[..6].to_vec()
    };
    for (options, expected) in [
        ("iodepth=8", [8, 1, 1, 1, 1, 1]),
        ("iodepth=8\nthinktime_blocks=2", [9, 1, 8, 1, 8, 1]),
        ("iodepth=8\nthinktime_blocks=2\nioengine=libaio", [9, 1, 8, 1, 8, 1]),
        ("iodepth=8\nthinktime_blocks=5", [12, 1, 11, 1, 11, 1]),
        ("iodepth=4\nthinktime_blocks=2", [5, 1, 4, 1, 4, 1]),
        ("iodepth=8\nthinktime_blocks=8", [15, 8, 8, 8, 8, 8]),
        ("iodepth=8\nthinktime_blocks=2\nthinktime_blocks_type=issue", [2; 6]),
        ("iodepth=8\nthinktime_blocks=2\nioengine=psync", [2; 6]),
        ("iodepth=8\nthinktime_blocks=2\nioengine=null", [2; 6]),
    ] {
        assert_eq!(bursts(options), expected, "{options}");
    }
}

/// As fio 3.33 logs them.
#[test]
fn a_rate_catches_up_after_a_pause_or_skips_it() {
    let starts = |options: &str| -> Vec<u64> {
        let pause = "rate_iops=10\nthinktime=1s\nthinktime_blocks=4";
        let reads = requests(&format!("size=1m\n{pause}\n{options}"), 9);
        reads.iter().map(|read| read.intended.0 / 1_000_000).collect()
    };
    assert_eq!(starts(""), [0, 100, 200, 300, 1300, 1300, 1300, 1300, 2300]);
    let skipped = starts("rate_ignore_thinktime=1");
    assert_eq!(skipped, [0, 100, 200, 300, 1300, 1400, 1500, 1600, 2600]);
}

#[test]
fn a_sequence_of_blocks_repeats_or_moves_on() {
    let sequence = "rw=randread\nrandom_distribution=sequence:2,0,1\nsize=48k\nio_size=24k\n";
    assert_eq!(log(sequence), "r8 r0 r4 r8 r0 r4");
    assert_eq!(log(&format!("{sequence}random_sequence_stride=1")), "r8 r0 r4 r20 r12 r16");
    for few in ["size=8k", "rw=randrw\nbs=4k,16k\nsize=32k", "blockalign=16k\nsize=32k"] {
        let behind = JobFile::parse(&format!("[a]\n{sequence}{few}"), "a", &JobContext::empty());
        let error = behind.expect_err(few);
        assert_eq!(error.message, "the sequence of job `a` has a block 2", "{few}");
    }
}

#[test]
fn a_clone_runs_from_its_delay_to_its_runtime() {
    let options = "startdelay=5\nruntime=10\nramp_time=2\ntime_based";
    let mut workload = clone_of(&job(options), 0, 1);
    assert_eq!(workload.next(Nanos::ZERO), Next::NotBefore(Nanos::from_secs(5)));
    assert!(matches!(workload.next(Nanos::from_secs(5)), Next::Issue(_)));
    assert!(matches!(workload.next(Nanos(16_999_999_999)), Next::Issue(_)));
    assert_eq!(workload.next(Nanos::from_secs(17)), Next::Done);
    // A group that starts later than the delay does not wait again.
    let group_start = Nanos::from_secs(60);
    let clone_spec = CloneSpec { clone: 0, volume_bytes: GIB, group_start, seed: 1 };
    let late = Workload::new(&job(options), clone_spec);
    assert_eq!(late.start(), group_start);
}

/// As fio 3.33 counts them.
#[test]
fn number_ios_counts_from_the_end_of_the_ramp() {
    let count = |ios: u32| {
        let options = format!("size=6m\nnumber_ios={ios}\nrate_iops=500\nramp_time=1");
        requests(&options, usize::MAX).len()
    };
    assert_eq!([300, 600, 1200].map(count), [300, 1100, 1536]);
}

#[test]
fn clones_start_apart_and_draw_apart() {
    let job = job("filename=data\nsize=256m\noffset_increment=256m\nnumjobs=4\nrw=randread");
    let mut clones: Vec<Workload> = (0..4).map(|clone| clone_of(&job, clone, 1)).collect();
    let mut first = Vec::new();
    for (clone, workload) in clones.iter_mut().enumerate() {
        let Next::Issue(issue) = workload.next(Nanos::ZERO) else { panic!("a request") };
        assert_eq!(issue.offset / (256 * MIB), clone as u64);
        first.push(issue.offset % (256 * MIB));
    }
    first.dedup();
    assert!(first.len() > 1, "{first:?}");
}

#[test]
fn the_runs_seed_decides_and_randseed_is_mixed_in() {
    let offsets = |options: &str, seed| {
        let mut workload = clone_of(&job(options), 0, seed);
        let next = |_| match workload.next(Nanos::ZERO) {
            Next::Issue(issue) => issue.offset,
            other => panic!("{other:?}"),
        };
        (0..8).map(next).collect::<Vec<u64>>()
    };
    let plain = offsets("rw=randread", 1);
    assert_eq!(plain, offsets("rw=randread\nrandrepeat=0", 1));
    assert_ne!(plain, offsets("rw=randread", 2));
    assert_ne!(plain, offsets("rw=randread\nrandseed=7", 1));
    assert_ne!(offsets("rw=randread\nrandseed=7", 1), offsets("rw=randread\nrandseed=7", 2));
}

#[test]
fn asking_too_early_changes_nothing() {
    let options = "rw=randrw\nrate_iops=100,50\nrate_process=poisson\nsize=64m";
    let run = |eager: bool| {
        let mut workload = clone_of(&job(options), 0, 1);
        let (mut now, mut issues) = (Nanos::ZERO, Vec::new());
        while issues.len() < 200 {
            match workload.next(now) {
                Next::Issue(issue) => issues.push(issue),
                Next::NotBefore(later) if eager => now += ((later - now) / 2).max(Nanos(1)),
                Next::NotBefore(later) => now = later,
                other => panic!("{other:?}"),
            }
        }
        issues
    };
    assert_eq!(run(false), run(true));
}

#[test]
fn linear_rates_are_met_and_caught_up() {
    let counts = |options: &str| {
        let issues = requests(&format!("{options}\nruntime=10\ntime_based"), usize::MAX);
        let of = |kind| issues.iter().filter(|issue| issue.kind == kind).count();
        (of(RequestKind::Read), of(RequestKind::Write))
    };
    assert_eq!(counts("rate_iops=100"), (1000, 0));
    assert_eq!(counts("rate=1m\nbs=64k"), (160, 0));
    // With several sizes it counts in the smallest, as in fio 3.33: 800 KiB/s of 34 KiB.
    let (mixed, _) = counts("rw=randread\nnorandommap\nbssplit=4k/50:64k/50\nrate_iops=200");
    assert!(mixed.abs_diff(235) < 30, "{mixed}");
    // Each direction is held to its own rate, whatever the mix draws.
    let (reads, writes) = counts("rw=randrw\nrwmixread=80\nrate_iops=100,50");
    assert!(reads.abs_diff(1000) <= 1 && writes.abs_diff(500) <= 1, "{reads} {writes}");
    let mut late = clone_of(&job("rate_iops=1000\niodepth=64"), 0, 1);
    let now = Nanos::from_millis(10);
    let burst = std::iter::from_fn(|| match late.next(now) {
        Next::Issue(issue) => Some(issue.intended),
        _ => None,
    });
    assert_eq!(burst.collect::<Vec<_>>(), [now; 11], "0 to 10 ms, at once");
}

#[test]
fn poisson_arrivals_have_the_rate_and_the_spread_of_their_process() {
    let options = "rw=randread\nrate_iops=500\nrate_process=poisson\nruntime=200\ntime_based";
    let arrivals: Vec<u64> =
        requests(options, usize::MAX).iter().map(|issue| issue.intended.0).collect();
    // 100,000 expected with a deviation of 316.
    assert!(arrivals.len().abs_diff(100_000) < 1_300, "{}", arrivals.len());
    let gaps: Vec<f64> = arrivals.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
    let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
    let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
    // An exponential law has equal mean and deviation.
    assert!((variance.sqrt() / mean - 1.0).abs() < 0.02, "{}", variance.sqrt() / mean);
}

#[test]
fn an_open_loop_keeps_the_intended_start() {
    let options = "rw=randread\nrate_iops=1000\nrate_process=poisson\niodepth=4";
    let mut workload = clone_of(&job(options), 0, 1);
    // A whole second was not asked for: about a thousand are due, each at its own time.
    let now = Nanos::from_secs(1);
    let mut intended = Vec::new();
    while let Next::Issue(issue) = workload.next(now) {
        intended.push(issue.intended);
    }
    assert!(intended.len().abs_diff(1000) < 200, "{}", intended.len());
    assert!(intended.is_sorted() && intended[0] == Nanos::ZERO);
    assert!(intended[intended.len() - 1] <= now);
}

#[test]
fn a_random_pass_covers_every_block_once() {
    for options in ["rw=randread\nsize=4100k", "rw=randrw\nsize=4100k\nloops=3"] {
        let passes: usize = if options.contains("loops") { 3 } else { 1 };
        let issues = requests(options, usize::MAX);
        assert_eq!(issues.len(), 1025 * passes);
        for pass in issues.chunks(1025) {
            let mut offsets: Vec<u64> = pass.iter().map(|issue| issue.offset / 4096).collect();
            offsets.sort_unstable();
            assert!(offsets.into_iter().eq(0..1025), "{options}");
        }
    }
    let options = "rw=randread\nnorandommap\nsize=4m";
    let mut offsets: Vec<u64> =
        requests(options, usize::MAX).iter().map(|issue| issue.offset).collect();
    offsets.sort_unstable();
    offsets.dedup();
    assert!(offsets.len() < 1024, "without a map some come again");
}

proptest! {
    /// Whatever the job, its requests are whole sectors within its region.
    #[test]
    fn requests_stay_in_the_region(
        seed: u64,
        rw in "(rand)?(read|write|rw|trim)",
        sizes in "(bs=(4|12|64)k(,8k)?|bssplit=4k/30:12k/30:64k/40)",
        distribution in "(random|zipf:0[.]9|zipf:2[.]5:1|pareto:0[.]3|normal:40:0|zoned:90/1:10/)",
        random_percent in 0u64..=100,
        size_kib in 64u64..2000,
        offset_kib in 0u64..100,
        target in "(filename=/dev/sdb)?",
    ) {
        let options = format!(
            "rw={}\n{sizes}\nrandom_distribution={distribution}\nsize={}k\noffset={}k\n\
             percentage_random={random_percent}\ntime_based\nruntime=1\n{target}",
            rw, size_kib / 4 * 4, offset_kib * 4,
        );
        let job = job(&options);
        let WorkRegion { region, container } = job.regions(0, GIB)[0];
        let end = container.offset + container.bytes;
        let mut workload = clone_of(&job, 0, seed);
        for _ in 0..500 {
            let Next::Issue(issue) = workload.next(Nanos::ZERO) else { panic!("a request") };
            prop_assert!(issue.length > 0 && issue.offset >= region.offset);
            prop_assert!(issue.offset + issue.length <= end);
            prop_assert_eq!((issue.offset | issue.length) % 4096, 0);
        }
    }
}
