//! Shards cover the plan and cost about the same.

use super::*;
use crate::plan::{SweepInput, SweepPlan};
use mirrorball_lab::experiment::build::BuildIdentity;
use std::collections::BTreeSet;

/// A plan of forty jobs, the n-th of which costs n times as much as the first one.
fn folder(path: &std::path::Path) -> SweepFolder {
    let input = |name: String| SweepInput {
        text: String::new(),
        fingerprint: name.clone(),
        name,
        vary: BTreeMap::new(),
    };
    let arrays = vec![input("array".to_owned())];
    let jobs = (0..40).map(|number| input(format!("job{number}"))).collect();
    let policies = ["a", "b", "c"].map(str::to_owned).to_vec();
    let build = BuildIdentity::with_hash("0");
    let mut plan = SweepPlan::grid(build, arrays, jobs, policies, None).with_seeds(&[1], 2);
    (1..).zip(&mut plan.pairs).for_each(|(number, pair)| pair.cost = 100 * number);
    SweepFolder::create(path, plan).unwrap()
}

#[test]
fn shards_have_every_unit_once_and_cost_the_same() {
    let path = tempfile::TempDir::new().unwrap();
    let folder = folder(path.path());
    for count in [1, 2, 7, 16] {
        let shards: Vec<Vec<usize>> =
            (1..=count).map(|number| ShardChoice { number, count }.places(&folder)).collect();
        let all: BTreeSet<usize> = shards.iter().flatten().copied().collect();
        assert_eq!(all.len(), folder.cells.len());
        assert_eq!(shards.iter().map(Vec::len).sum::<usize>(), folder.cells.len());
        let costs: Vec<u64> = shards.iter().map(|places| cost(&folder, places)).collect();
        let (least, most) = (costs.iter().min().unwrap(), costs.iter().max().unwrap());
        // Each unit goes to the shard that costs least so far, so they differ by one at most.
        let unit = 3 * (0..folder.cells.len()).map(|place| cost(&folder, &[place])).max().unwrap();
        assert!(most - least <= unit, "{count}: {costs:?}");
        // A unit, three cells of one pair and seed, is in one shard.
        let units = |places: &Vec<usize>| units(&folder, places.iter().copied()).len();
        assert_eq!(shards.iter().map(units).sum::<usize>(), 80);
    }
}

#[test]
fn shards_beyond_the_number_of_units_are_empty() {
    let path = tempfile::TempDir::new().unwrap();
    let folder = folder(path.path());
    let of = |number| ShardChoice { number, count: u32::MAX }.places(&folder).len();
    assert_eq!((of(1), of(80), of(81), of(u32::MAX)), (3, 3, 0, 0));
}
