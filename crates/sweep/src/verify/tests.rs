//! A figure that was changed is found, by a second run and by a part that disagrees.

use super::*;
use crate::pack::{PackFormat, pack};
use crate::run::{PartLimits, run};
use crate::spec::SweepSpec;
use mirrorball_core::policies::Registry;
use mirrorball_lab::experiment::build::BuildIdentity;
use mirrorball_lab::experiment::run::RunOptions;
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;

const SPEC: &str = "array = \"two-ssd-raid1\"\njob = \"rand-4k-qd1\"\n\
                    policy = \"pid,queue\"\nrepeats = 3\nduration = \"20ms\"\n";

fn sweep(path: &Path) -> SweepFolder {
    let build = BuildIdentity::with_hash("0");
    let plan = SweepSpec::parse(SPEC).unwrap().plan(path, build, Registry::default());
    SweepFolder::create(&path.join("out"), plan.unwrap()).unwrap()
}

#[test]
fn a_changed_figure_is_found_and_named() {
    let place = TempDir::new().unwrap();
    let folder = sweep(place.path());
    let stop = AtomicBool::new(false);
    let all: Vec<usize> = (0..folder.cells.len()).collect();
    let limits = PartLimits { cells: 2, time: Duration::from_secs(3600) };
    let options = RunOptions { threads: None, stop: &stop, costs: &[], on_cell: &|_, _| () };
    let outcome = run(&folder, &all, folder.done().unwrap(), limits, &options).unwrap();
    assert_eq!((outcome.ran, outcome.failed.len()), (6, 0));
    let check =
        |fraction, seed| verify(&folder, &folder.done().unwrap(), fraction, seed, &stop).unwrap();
    let found = check(1.0, 1);
    assert_eq!((found.checked, found.differences), (6, Vec::new()));
    assert_eq!(check(0.0, 7).checked, 1, "one at least");

    let (_, rows) = simulate(&folder, &[4], &stop).remove(0);
    let mut rows = rows.unwrap();
    let iops = columns(&folder.plan).iter().position(|column| column.name == "iops").unwrap();
    rows[0][iops] = Field::Real(1.0);
    folder.save(&[4], &rows, "other machine").unwrap();
    let done = folder.done().unwrap();
    let target = place.path().join("packed.parquet");
    let error = pack(&folder, &done, &target, PackFormat::Parquet).unwrap_err().to_string();
    let cell = "rand-4k-qd1 on two-ssd-raid1 under kakra/queue, seed 2";
    assert!(error.contains("different figures for one cell") && error.contains(cell), "{error}");
    assert!(!target.exists());
    let only = |path: &std::path::PathBuf| {
        let part = folder.part(path).unwrap();
        part.keys(0).unwrap() == [folder.keys[4]]
    };
    let parts = done.parts.into_iter().filter(only).collect();
    let mut is_done = vec![false; 6];
    is_done[4] = true;
    let changed = DoneCells { is_done, parts, ..DoneCells::default() };
    let found = verify(&folder, &changed, 1.0, 1, &stop).unwrap();
    assert_eq!(found.differences.len(), 1);
    assert!(found.differences[0].ends_with("seed 2: iops"), "{:?}", found.differences);
}
