//! `mirrorball/auto` with a disk that slows fourfold and recovers: it is left alone as far as
//! that pays, and soon used again. And with a copy far away, which a queue of 16 is no reason to
//! read. And with a lone reader far from many that read alike: it does not wait for them. And with
//! sequential readers during a defragmentation: one of them keeps a disk for itself.

use mirrorball_disk::array_file::ArrayFile;
use mirrorball_sim::engine::{Checks, PolicyUnderTest, Simulation, run};
use mirrorball_sim::job::{JobContext, JobFile};
use mirrorball_sim::record::RunRecord;

/// The second of two equal disks is slow from 10 s to 20 s.
const ARRAY: &str = r#"
name = "one slows"
profile = "raid1"
[[member]]
model = "hdd-7k2-ent"
[[member]]
model = "hdd-7k2-ent"
fault = [{ slow = 4.0, from = "10s", until = "20s" }]
"#;

/// Wait of the second: 2 ms.
const FAR: &str = r#"
name = "one is far"
profile = "raid1"
[[link]]
name = "network"
read = "117MB/s"
write = "117MB/s"
latency = "1ms"
[[member]]
model = "ssd-sata-plp"
[[member]]
model = "ssd-sata-plp"
link = "network"
"#;

const EQUAL: &str = r#"
name = "equal"
profile = "raid1"
[[member]]
model = "hdd-7k2-ent"
[[member]]
model = "hdd-7k2-ent"
"#;

fn play(array: &str, depth: u32, seconds: u32) -> RunRecord {
    let job = format!(
        "[random]\nioengine=libaio\ndirect=1\nrw=randread\nbs=4k\nnorandommap\n\
         time_based\nruntime={seconds}\niodepth={depth}\n"
    );
    play_job(array, &job, 11)
}

fn play_job(array: &str, job: &str, seed: u64) -> RunRecord {
    let array = ArrayFile::parse(array, "one.toml").expect("a valid array").spec;
    let jobs = JobFile::parse(job, "random.fio", &JobContext::empty()).expect("valid jobs");
    let policy = PolicyUnderTest::Policy("mirrorball/auto");
    let run = run(&Simulation {
        array: &array,
        job: &jobs,
        policy,
        seed,
        duration: None,
        checks: Checks::On,
    });
    run.expect("it runs")
}

/// Reads given to both members from one second to another.
fn reads(record: &RunRecord, from_s: u64, to_s: u64) -> [u64; 2] {
    let [one, two] = &record.intervals.members[..] else { panic!("two members") };
    let inside = |at_us: &u64| (from_s * 1_000_000..to_s * 1_000_000).contains(at_us);
    let sum = |reads: &[u64]| {
        let all = record.intervals.from_us.iter().zip(reads);
        all.filter(|(at_us, _)| inside(at_us)).map(|(_, reads)| reads).sum()
    };
    [sum(&one.reads), sum(&two.reads)]
}

fn share(record: &RunRecord, from_s: u64, to_s: u64) -> f64 {
    let [one, two] = reads(record, from_s, to_s);
    two as f64 / (one + two) as f64
}

#[test]
fn alone_a_slow_disk_is_left_within_fifty_of_its_reads() {
    let record = play(ARRAY, 1, 40);
    assert!((0.4..0.6).contains(&share(&record, 3, 10)), "{}", share(&record, 3, 10));
    assert!(reads(&record, 10, 20)[1] < 50, "{:?}", reads(&record, 10, 20));
    assert!(share(&record, 24, 40) > 0.35, "back in use: {}", share(&record, 24, 40));
}

#[test]
fn at_depth_it_keeps_what_it_can_still_do() {
    let record = play(ARRAY, 16, 40);
    assert!((0.4..0.6).contains(&share(&record, 3, 10)), "{}", share(&record, 3, 10));
    let slow = share(&record, 12, 20);
    assert!((0.05..0.33).contains(&slow), "a fifth of the work is its part: {slow}");
    assert!(share(&record, 22, 30) > 0.4, "back within 2 s: {}", share(&record, 22, 30));
}

#[test]
fn what_is_far_is_known_to_be_far_though_it_is_seldom_read() {
    let share = share(&play(FAR, 16, 2), 1, 2);
    assert!(share < 0.0005, "{share} of the reads take ten times as long");
}

/// Random readers of one 4 KiB block at a time: one that reads `place`, next to many that read the
/// first tenth of the disks, where a disk would serve them first.
fn lone_reader_iops(place: &str, many: u32, seed: u64) -> f64 {
    let job = format!(
        "[global]\nioengine=libaio\ndirect=1\nnorandommap\ntime_based\nramp_time=10\n\
         runtime=20\nbs=4k\nrw=randread\n[lone]\n{place}\n[many]\nnumjobs={many}\nsize=10%\n"
    );
    let record = play_job(EQUAL, &job, seed);
    record.sections[0].read.bytes as f64 / 4096.0 / 20.0
}

#[test]
fn a_lone_reader_does_not_wait_for_many_that_read_elsewhere() {
    for seed in 0..3 {
        for many in [8, 16, 60] {
            // A disk of its own serves 125 a second; the age limit of a shared one, one.
            let iops = lone_reader_iops("offset=90%\nsize=10%", many, seed);
            assert!(iops > 90.0, "{iops} with {many} others, seed {seed}");
        }
        let iops = lone_reader_iops("", 16, seed);
        assert!(iops > 60.0, "{iops} of all addresses, seed {seed}");
    }
}

#[test]
fn a_background_read_keeps_off_the_disk_that_a_sequential_reader_has() {
    let job = "# mirrorball: background=defrag rate=5MB/s\n[four]\nioengine=psync\nrw=read\n\
               bs=128k\nnumjobs=4\nsize=25%\noffset_increment=25%\ntime_based\nramp_time=2\n\
               runtime=10\n";
    for seed in 0..3 {
        // The four divide 233 MB/s where all of them have to seek for each read.
        let record = play_job(EQUAL, job, seed);
        let rate = record.sections[0].read.bytes as f64 / 10.0 / 1e6;
        assert!(rate > 150.0, "{rate} MB/s, seed {seed}");
    }
}

/// Every other chunk of a disk of the far layout is a copy in its second half.
#[test]
fn a_sequential_reader_of_the_far_layout_reads_both_disks() {
    let array = EQUAL.replace("profile = \"raid1\"", "layout = \"md-raid10-far:2\"");
    let job = "[one]\nioengine=psync\nrw=read\nbs=128k\nsize=5%\ntime_based\nruntime=4\n";
    let share = share(&play_job(&array, job, 1), 1, 4);
    assert!((0.4..0.6).contains(&share), "{share}");
}
