//! The order of cells, their seeds and keys, and what counts as another plan.

use super::*;
use crate::fixtures::plan;

#[test]
fn cells_are_ordered_by_job_policy_and_repeat_with_the_oracle_last() {
    let plan = plan(&["j", "k"], &["a/x", "b/y"], 2);
    let names: Vec<(String, &str, u64)> =
        plan.cells().iter().map(|cell| (cell.job().name.clone(), cell.policy, cell.seed)).collect();
    let of_job = |job: &str| {
        [("a/x", 1), ("a/x", 2), ("b/y", 1), ("b/y", 2), ("oracle", 1), ("oracle", 2)]
            .map(|(policy, seed)| (job.to_owned(), policy, seed))
    };
    assert_eq!(names, [of_job("j"), of_job("k")].concat());
}

#[test]
fn the_seed_depends_on_the_repeat_alone() {
    let plan = plan(&["j", "k"], &["a/x", "b/y"], 3);
    assert!(plan.cells().iter().all(|cell| cell.seed == 1 + u64::from(cell.repeat)));
}

#[test]
fn a_key_changes_with_everything_that_decides_the_result_and_nothing_else() {
    let base = plan(&["j"], &["a/x"], 1);
    let key = |plan: &Plan| plan.cells()[0].key();
    let changed = |change: &dyn Fn(&mut Plan)| {
        let mut plan = base.clone();
        change(&mut plan);
        key(&plan)
    };
    let other_keys = [
        changed(&|plan| plan.array.text.push('#')),
        changed(&|plan| plan.array.fingerprint.push('#')),
        changed(&|plan| plan.jobs[0].text.push('#')),
        changed(&|plan| plan.jobs[0].fingerprint.push('#')),
        changed(&|plan| plan.policies[0].push('#')),
        changed(&|plan| plan.seeds[0] += 1),
        changed(&|plan| plan.duration_ns = Some(5)),
        changed(&|plan| plan.build.hash.push('#')),
        changed(&|plan| plan.build.version.push('#')),
    ];
    for (index, other) in other_keys.iter().enumerate() {
        assert_ne!(*other, key(&base), "change {index} does not show");
    }
    let same = changed(&|plan| {
        plan.command = "another".to_owned();
        plan.environment.host = "another".to_owned();
        plan.policies.push("b/y".to_owned());
        plan.seeds.push(9);
    });
    assert_eq!(same, key(&base), "a cell does not depend on its neighbours");
}

#[test]
fn file_names_are_plain_and_differ() {
    let plan = plan(&["a job"], &["btrfs/devid:1", "btrfs/devid-1"], 1);
    let names: Vec<String> = plan.cells().iter().map(Cell::file_name).collect();
    assert!(names[0].starts_with("a-job.btrfs-devid-1.seed-1."), "{}", names[0]);
    assert_ne!(names[0], names[1]);
    assert!(names.iter().all(|name| !name.contains(['/', ':', ' '])));
}

#[test]
fn differences_name_what_differs() {
    let here = plan(&["j"], &["a/x", "b/y"], 2);
    assert_eq!(here.differences(&here), Vec::<String>::new());
    let mut there = here.clone();
    there.policies.pop();
    there.seeds = vec![7];
    there.duration_ns = Some(5_000_000_000);
    there.jobs[0].text.clear();
    assert_eq!(
        here.differences(&there),
        [
            "policies: saved a/x; requested a/x, b/y",
            "seeds: saved [7]; requested [1, 2]",
            "duration: saved 5.00s; requested that of the jobs",
            "the contents of `j` are different",
        ]
    );
    let mut elsewhere = here.clone();
    elsewhere.environment.host = "elsewhere".to_owned();
    elsewhere.command = "typed otherwise".to_owned();
    assert!(here.differences(&elsewhere).is_empty());
}

#[test]
fn an_array_and_a_job_of_one_name_are_not_compared_with_each_other() {
    let mut plan = plan(&["same"], &["a/x"], 1);
    plan.array.name = "same".to_owned();
    assert_eq!(plan.differences(&plan), [""; 0]);
    let mut other = plan.clone();
    other.array.text.push('#');
    assert_eq!(plan.differences(&other), ["the contents of `same` are different"]);
}
