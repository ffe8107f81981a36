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

fn millis(wait: Nanos) -> u64 {
    assert!(wait.0.is_multiple_of(1_000_000), "{wait}");
    wait.0 / 1_000_000
}

#[test]
fn one_read_at_a_time_takes_what_was_foreseen() {
    let (array, jobs) = (unequal("raid1", ""), reader("io_size=40k"));
    let window = TraceWindow { reads_max: 6, ..EVERYTHING };
    let policy = PolicyUnderTest::Policy("btrfs/latency");
    let explanation = explain(&of(&array, &jobs, policy), window).unwrap();
    assert_eq!(explanation.devids, [1, 2]);
    assert_eq!(explanation.decisions.len(), 6, "of ten");
    for (number, decision) in explanation.decisions.iter().enumerate() {
        let expected: Vec<u64> =
            decision.candidates.iter().map(|it| millis(it.expected.unwrap())).collect();
        let fast = decision.candidates.iter().position(|it| it.member.get() == 1).unwrap();
        assert_eq!((expected[fast], expected[1 - fast]), (1, 2));
        assert_eq!(decision.oracle, fast);
        assert_eq!(decision.wait, decision.candidates[decision.chosen].expected);
        assert_eq!(millis(decision.cost().unwrap()), u64::from(!decision.agrees()));
        let scores: Vec<i64> = decision
            .candidates
            .iter()
            .map(|it| it.reason.as_ref().unwrap().score.value / 1_000_000)
            .collect();
        // A member that was not read yet counts as zero and is tried at once.
        if number >= 2 {
            assert_eq!((scores[fast], scores[1 - fast]), (1, 2));
            assert!(decision.agrees());
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
    let times: Vec<Nanos> = explanation.decisions.iter().map(|it| it.at).collect();
    assert!(times.is_sorted() && times.iter().all(|at| (from..until).contains(at)));
    assert!(times.len() > 100, "100 ms of a disk of 1 ms and one of 2 ms");
    assert!(explanation.decisions.iter().all(|it| it.wait.is_some()), "all have ended");
    assert!(explanation.ended < Nanos::from_millis(220), "{}", explanation.ended);
}

#[test]
fn the_oracle_agrees_with_itself() {
    let (array, jobs) = (unequal("raid1", ""), reader("io_size=4m\niodepth=8"));
    let explanation = explain(&of(&array, &jobs, PolicyUnderTest::Oracle), EVERYTHING).unwrap();
    assert_eq!(explanation.decisions.len(), 1024);
    assert!(explanation.decisions.iter().all(|it| it.chosen == it.oracle && it.agrees()));
}

/// The choices that a run makes are those that are reported: members are read as often.
#[test]
fn a_witness_changes_nothing() {
    let (array, jobs) = (unequal("raid1", ""), reader("io_size=4m\niodepth=8"));
    for policy in ["kakra/latency-rr", "zfs/mirror+hedge", "mirrorball/random"] {
        let run_of = of(&array, &jobs, PolicyUnderTest::Policy(policy));
        let record = run(&run_of).unwrap();
        let explanation = explain(&run_of, EVERYTHING).unwrap();
        for (index, member) in record.members.iter().enumerate() {
            let of_member = |it: &Decision| {
                let places = it.extra_reads.iter().map(|it| it.mirror).chain([it.chosen]);
                places.filter(|&mirror| it.candidates[mirror].member.get() == index).count() as u64
            };
            let reads: u64 = explanation.decisions.iter().map(of_member).sum();
            assert_eq!(
                reads,
                member.reads + member.cancelled_reads,
                "{policy}, devid {}",
                member.devid
            );
        }
    }
}

#[test]
fn parts_of_a_split_and_second_reads_belong_to_their_choice() {
    let (array, jobs) = (unequal("raid1", ""), reader("io_size=1m\nbs=64k"));
    let policy = PolicyUnderTest::Policy("gmirror/split");
    let explanation = explain(&of(&array, &jobs, policy), EVERYTHING).unwrap();
    for decision in &explanation.decisions {
        assert_eq!(decision.extra_reads.len(), 1);
        assert_eq!(millis(decision.wait.unwrap()), 2, "the slower part ends it");
    }
    let policy = PolicyUnderTest::Policy("read-all-first");
    let explanation = explain(&of(&array, &jobs, policy), EVERYTHING).unwrap();
    for decision in &explanation.decisions {
        assert_eq!(millis(decision.wait.unwrap()), 1, "the faster answer ends it");
        assert!(decision.agrees(), "the fast one is among them");
    }
}

#[test]
fn a_read_that_fails_has_no_wait_and_its_retry_no_choice() {
    let fault = "fault = [{ error_rate = 1.0 }]";
    let (array, jobs) = (unequal("raid1", fault), reader("io_size=4k"));
    let policy = PolicyUnderTest::Policy("devid:1");
    let explanation = explain(&of(&array, &jobs, policy), EVERYTHING).unwrap();
    assert_eq!(explanation.decisions.len(), 1);
    assert_eq!(explanation.decisions[0].wait, None);
}

#[test]
fn without_mirrors_there_is_no_choice() {
    let (array, jobs) = (unequal("raid0", ""), reader("io_size=1m"));
    let policy = PolicyUnderTest::Policy("zfs/mirror");
    let explanation = explain(&of(&array, &jobs, policy), EVERYTHING).unwrap();
    assert!(explanation.decisions.is_empty());
}
