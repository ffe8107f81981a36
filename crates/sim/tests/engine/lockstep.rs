//! Policies in lockstep: those that are said to have the same run have it, event by event.

use mirrorball_core::policies;
use mirrorball_disk::array_file::{ArrayFile, ArraySpec};
use mirrorball_sim::engine::{self, AlikePolicies, Checks, PolicyUnderTest, Simulation};
use mirrorball_sim::job::{JobContext, JobFile};
use mirrorball_sim::record::RunRecord;
use std::sync::atomic::AtomicBool;

static NEVER: AtomicBool = AtomicBool::new(false);

fn job(options: &str) -> JobFile {
    let text = format!("[job]\nioengine=libaio\nruntime=1\ntime_based\n{options}\n");
    JobFile::parse(&text, "test.fio", &JobContext::empty()).expect("a valid job")
}

fn simulation<'a>(array: &'a ArraySpec, job: &'a JobFile, policy: &'a str) -> Simulation<'a> {
    let policy = PolicyUnderTest::Policy(policy);
    Simulation { array, job, policy, seed: 3, duration: None, checks: Checks::Off }
}

fn alike(policies: &[&str]) -> AlikePolicies {
    AlikePolicies::new(policies.iter().map(|&policy| policy.to_owned()).collect())
}

/// Everything that a run is made of.
fn text(record: &RunRecord) -> String {
    format!("{record:?}")
}

/// Runs every policy with all behind it in lockstep, holds what that says to runs of their own, and
/// returns the policies that had the same run as an earlier one.
fn same_runs(array: &ArraySpec, job: &JobFile) -> Vec<String> {
    let names: Vec<&str> = policies::all().map(|info| info.name).collect();
    let map = array.chunk_map().expect("a valid array");
    let mut found = Vec::new();
    for (index, name) in names.iter().enumerate() {
        let run = simulation(array, job, name);
        let alike = alike(&names[index + 1..]);
        let record = engine::run_alike(&run, &map, &alike, &NEVER).expect("it runs");
        let alone = engine::run(&run).expect("it runs");
        assert_eq!(text(&record), text(&alone), "{name} is not disturbed by the others");
        for other in alike.policies() {
            let own = engine::run(&simulation(array, job, &other)).expect("it runs");
            assert_eq!(text(&record), text(&own), "{other} has not the run of {name}");
            found.push(other);
        }
    }
    found
}

#[test]
fn policies_with_the_same_choices_have_the_same_run() {
    let array = ArrayFile::builtin("hetero-hdd-raid1").expect("it is built in").spec;
    for (options, least) in [
        ("direct=1\nrw=randread\nbs=4k\niodepth=1\nnorandommap", 20),
        ("direct=1\nrw=randread\nbs=4k\niodepth=8\nnorandommap", 10),
        ("ioengine=psync\ndirect=0\nrw=read\nbs=128k", 20),
        ("direct=1\nrw=randrw\nbs=16k\niodepth=4\nnorandommap", 5),
    ] {
        let mut found = same_runs(&array, &job(options));
        found.sort_unstable();
        found.dedup();
        assert!(found.len() >= least, "{options}: only {found:?}");
    }
}

/// A policy that reconstructs is asked about reads of full stripes, and the choices are counted.
#[test]
fn policies_that_reconstruct_do_not_change_the_run_of_one_that_does_not() {
    let text = "profile = \"raid5\"\n[[member]]\ncount = 4\nmodel = \"hdd-7k2-ent\"\n";
    let array = ArrayFile::parse(text, "four.toml").expect("a valid array").spec;
    let found = same_runs(&array, &job("direct=1\nrw=randread\nbs=4k\niodepth=4\nnorandommap"));
    assert!(found.len() >= 20, "only {found:?}");
}

#[test]
fn policies_that_differ_or_have_counters_are_not_said_to_be_the_same() {
    let array = ArrayFile::builtin("two-ssd-raid1").expect("it is built in").spec;
    let job = job("direct=1\nrw=randread\nbs=4k\niodepth=8\nnorandommap");
    let map = array.chunk_map().expect("a valid array");
    let same = |policy: &str, others: &[&str]| {
        let run = simulation(&array, &job, policy);
        let alike = alike(others);
        engine::run_alike(&run, &map, &alike, &NEVER).expect("it runs");
        alike.policies()
    };
    assert_eq!(same("mirrorball/first", &["mirrorball/random", "mirrorball/first"]).len(), 1);
    // Its draws are its own, in the order of a run of its own.
    assert_eq!(same("mirrorball/random", &["mirrorball/random"]), ["mirrorball/random"]);
    assert_eq!(same("gmirror/load", &["gmirror/load"]), Vec::<String>::new(), "it has counters");
    let unknown = engine::run_alike(
        &simulation(&array, &job, "mirrorball/first"),
        &map,
        &alike(&["no/such"]),
        &NEVER,
    );
    assert!(unknown.is_err());
}
