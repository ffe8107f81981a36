//! Decisions on disks of fixed service time, where every wait is known.

use super::*;
use crate::engine::{Checks, PolicyUnderTest, Simulation, explain, run};
use crate::job::{JobContext, JobFile};
use mirrorball_disk::array_file::{ArrayFile, ArraySpec};

const EVERYTHING: TraceWindow =
    TraceWindow { from: Nanos::ZERO, until: Nanos::MAX, reads_max: usize::MAX };

/// Members of one server each: the first takes 2 ms for a read, the second 1 ms.
fn unequal(profile: &str, fault: &str) -> ArraySpec {
    let mut text = format!("profile = \"{profile}\"\n[host]\noverhead = \"0us\"\n");
    for (service, fault) in [("2ms", fault), ("1ms", "")] {
        text += &format!(
            "[[member]]\nmodel = \"delay\"\nsize = \"64GiB\"\n\
             set = {{ service = \"{service}\" }}\n{fault}\n"
        );
    }
    ArrayFile::parse(&text, "unequal.toml").unwrap().spec
}

fn reader(options: &str) -> JobFile {
    let text = format!("[job]\nioengine=libaio\ndirect=1\nrw=randread\nbs=4k\nsize=1g\n{options}");
    JobFile::parse(&text, "job.fio", &JobContext::empty()).unwrap()
}

fn of<'a>(array: &'a ArraySpec, jobs: &'a JobFile, policy: PolicyUnderTest<'a>) -> Simulation<'a> {
    Simulation { array, job: jobs, policy, seed: 1, duration: None, checks: Checks::On }
}

fn millis(wait_ns: u64) -> u64 {
    assert!(wait_ns.is_multiple_of(1_000_000), "{wait_ns}");
    wait_ns / 1_000_000
}

#[test]
fn one_read_at_a_time_takes_what_was_foreseen() {
    let (array, jobs) = (unequal("raid1", ""), reader("io_size=40k"));
    let window = TraceWindow { reads_max: 6, ..EVERYTHING };
    let policy = PolicyUnderTest::Policy("btrfs/latency");
    let explanation = explain(&of(&array, &jobs, policy), window).unwrap();
    assert_eq!(explanation.devids, [1, 2]);
    assert_eq!(explanation.choices.len(), 6, "of ten");
    for (number, choice) in explanation.choices.iter().enumerate() {
        let expected: Vec<u64> =
            choice.mirrors.iter().map(|it| millis(it.expected_ns.unwrap())).collect();
        let fast = choice.mirrors.iter().position(|it| it.devid == 2).unwrap();
        assert_eq!((expected[fast], expected[1 - fast]), (1, 2));
        assert!(choice.mirrors[fast].oracle);
        assert_eq!(choice.took_ns, choice.first().expected_ns);
        assert_eq!(millis(choice.cost_ns.unwrap()), u64::from(!choice.agreed));
        let score = |it: &MirrorChoice| it.score.as_ref().unwrap().value / 1_000_000;
        let scores: Vec<i64> = choice.mirrors.iter().map(score).collect();
        // A member that was not read yet counts as zero and is tried at once.
        if number >= 2 {
            assert_eq!((scores[fast], scores[1 - fast]), (1, 2));
            assert!(choice.agreed);
        }
    }
}

#[test]
fn choices_before_the_window_are_left_out_and_the_run_ends_with_it() {
    let (array, jobs) = (unequal("raid1", ""), reader("runtime=100\ntime_based\niodepth=4"));
    let (from, until) = (Nanos::from_millis(100), Nanos::from_millis(200));
    let policy = PolicyUnderTest::Policy("md/raid1");
    let window = TraceWindow { from, until, ..EVERYTHING };
    let explanation = explain(&of(&array, &jobs, policy), window).unwrap();
    let times: Vec<Nanos> = explanation.choices.iter().map(|it| Nanos(it.at_ns)).collect();
    assert!(times.is_sorted() && times.iter().all(|at| (from..until).contains(at)));
    assert!(times.len() > 100, "100 ms of a disk of 1 ms and one of 2 ms");
    assert!(explanation.choices.iter().all(|it| it.took_ns.is_some()), "all have ended");
    assert!(explanation.ended < Nanos::from_millis(220), "{}", explanation.ended);
}

#[test]
fn the_oracle_agrees_with_itself() {
    let (array, jobs) = (unequal("raid1", ""), reader("io_size=4m\niodepth=8"));
    let explanation = explain(&of(&array, &jobs, PolicyUnderTest::Oracle), EVERYTHING).unwrap();
    assert_eq!(explanation.choices.len(), 1024);
    assert!(explanation.choices.iter().all(|it| it.first().oracle && it.agreed));
}

/// The choices that a run makes are those that are reported: members are read as often.
#[test]
fn a_witness_changes_nothing() {
    let (array, jobs) = (unequal("raid1", ""), reader("io_size=4m\niodepth=8"));
    for policy in ["kakra/latency-rr", "zfs/mirror+hedge", "mirrorball/random"] {
        let run_of = of(&array, &jobs, PolicyUnderTest::Policy(policy));
        let record = run(&run_of).unwrap();
        let explanation = explain(&run_of, EVERYTHING).unwrap();
        for member in &record.members {
            let is_read =
                |it: &&MirrorChoice| it.devid == member.devid && it.taken != ReadOrder::No;
            let of_member = |it: &ExplainedChoice| it.mirrors.iter().filter(is_read).count() as u64;
            let reads: u64 = explanation.choices.iter().map(of_member).sum();
            let expected = member.reads + member.cancelled_reads;
            assert_eq!(reads, expected, "{policy}, devid {}", member.devid);
        }
    }
}

#[test]
fn parts_of_a_split_and_second_reads_belong_to_their_choice() {
    let (array, jobs) = (unequal("raid1", ""), reader("io_size=1m\nbs=64k"));
    let policy = PolicyUnderTest::Policy("gmirror/split");
    let explanation = explain(&of(&array, &jobs, policy), EVERYTHING).unwrap();
    for choice in &explanation.choices {
        assert!(choice.mirrors.iter().all(|it| it.taken != ReadOrder::No));
        assert_eq!(millis(choice.took_ns.unwrap()), 2, "the slower part ends it");
    }
    let policy = PolicyUnderTest::Policy("read-all-first");
    let explanation = explain(&of(&array, &jobs, policy), EVERYTHING).unwrap();
    for choice in &explanation.choices {
        assert_eq!(millis(choice.took_ns.unwrap()), 1, "the faster answer ends it");
        assert!(choice.agreed, "the fast one is among them");
    }
}

#[test]
fn a_read_that_fails_has_no_wait_and_its_retry_no_choice() {
    let fault = "fault = [{ error_rate = 1.0 }]";
    let (array, jobs) = (unequal("raid1", fault), reader("io_size=4k"));
    let policy = PolicyUnderTest::Policy("devid:1");
    let explanation = explain(&of(&array, &jobs, policy), EVERYTHING).unwrap();
    assert_eq!(explanation.choices.len(), 1);
    assert_eq!(explanation.choices[0].took_ns, None);
}

#[test]
fn without_mirrors_there_is_no_choice() {
    let (array, jobs) = (unequal("raid0", ""), reader("io_size=1m"));
    let policy = PolicyUnderTest::Policy("zfs/mirror");
    let explanation = explain(&of(&array, &jobs, policy), EVERYTHING).unwrap();
    assert!(explanation.choices.is_empty());
}
