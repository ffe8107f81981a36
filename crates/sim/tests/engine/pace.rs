//! Jobs that follow latencies, and each other: `latency_target`, `flow`, `exitall`.

use super::{delays, simulate};
use mirrorball_core::units::Nanos;
use mirrorball_sim::job::{JobContext, JobFile};
use mirrorball_sim::record::{RunRecord, SectionRecord};

/// The sections of a job on one disk that takes 1 ms for each request.
fn sections(text: &str) -> Vec<SectionRecord> {
    let text = format!("[global]\nfilename=/dev/md0\nioengine=io_uring\ndirect=1\n{text}");
    let job = JobFile::parse(&text, "test.fio", &JobContext::empty()).expect("a valid job");
    let RunRecord { sections, .. } = simulate(&delays("single", &["1ms"]), &job, "btrfs/pid");
    sections
}

fn reads(section: &SectionRecord) -> u64 {
    section.read.latency.count()
}

/// The depth goes 1, 2, 4, 8 (too slow), 6 (too slow), 5; the last window alone counts.
#[test]
fn the_depth_is_the_largest_that_meets_the_goal() {
    let goal = "rw=randread\nsize=8g\niodepth=32\nlatency_target=5500\nlatency_window=1s\n\
                latency_percentile=99\n";
    let found = &sections(&format!("[a]\n{goal}"))[0];
    assert!((995..=1010).contains(&reads(found)), "{}", reads(found));
    let slowest = found.read.latency.max().unwrap();
    assert!(slowest >= Nanos::from_micros(4_900) && slowest <= Nanos::from_micros(5_100));
    let endless = format!("[a]\n{goal}latency_run=1\ntime_based\nruntime=20");
    assert!(reads(&sections(&endless)[0]) > 19_000);
    // A disk that is too slow at a depth of one ends a job in which no request may be slow.
    let hopeless = "[a]\nrw=randread\nsize=8g\nlatency_target=500\nlatency_window=1s\n";
    assert_eq!(reads(&sections(hopeless)[0]), 1);
}

#[test]
fn clones_of_a_flow_keep_their_proportion() {
    let flow =
        "rw=randread\nsize=8g\niodepth=16\nruntime=4\ntime_based\n[a]\nflow=8\n[b]\nflow=1\n";
    for pause in ["", "flow_sleep=1000\n"] {
        let [a, b] = &sections(&format!("{pause}{flow}"))[..] else { panic!("two sections") };
        let share = reads(a) as f64 / reads(b) as f64;
        assert!((7.5..=8.5).contains(&share), "{} to {}", reads(a), reads(b));
    }
    let late = "rw=randread\n[a]\nflow=1\nsize=4m\n[b]\nflow=1\nsize=1m\nstartdelay=20h";
    assert_eq!(sections(late).iter().map(reads).sum::<u64>(), 1280);
    let alone = "rw=randread\n[a]\nflow=8\nsize=4m\n[b]\nflow=1\nsize=2m\n[c]\nflow=1\nflow_id=1";
    let [a, b, c] = &sections(&alone.replace("[c]", "[c]\nsize=1m"))[..] else { panic!() };
    assert_eq!([reads(a), reads(b), reads(c)], [1024, 512, 256], "each goes on without the others");
}

#[test]
fn clones_of_one_result_end_together_and_no_others() {
    let text = "exitall\nrw=read\n[a]\nsize=1m\nnew_group\n[b]\nsize=2m\n[c]\nsize=8m\nnew_group";
    let counts: Vec<u64> = sections(text).iter().map(reads).collect();
    assert!(counts[0] == 256 && (255..=257).contains(&counts[1]), "{counts:?}");
    assert_eq!(counts[2], 2048);
    // A clone that is ended leaves its flow, so that the others go on.
    let flow = "exitall\nrw=read\nflow=1\n[a]\nsize=1m\nnumjobs=2\n[b]\nsize=4m\nnew_group";
    assert_eq!(reads(&sections(flow)[1]), 1024);
}
