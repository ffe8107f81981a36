//! Runs cells of a sweep and writes their rows in parts.
//!
//! A unit of the work loop is a pair and a repeat, under all its policies, because policies that
//! choose alike share one simulation. A part is written when enough cells are done or enough time
//! has passed; a process that is killed loses no more than that. Before each unit the threads leave
//! out what another process has written meanwhile. Each process begins at another unit, so that two
//! of them meet in the end and not at every step.
//!
//! A cell that fails does not take the others along: it is reported at the end.

use crate::column::{CellRow, rows};
use crate::folder::{DoneCells, SweepFolder};
use crate::plan::SweepPlan;
use anyhow::{Result, anyhow};
use mirrorball_lab::experiment::environment::Environment;
use mirrorball_lab::experiment::executor::CellExecutor;
use mirrorball_lab::experiment::plan::{Plan, Reference};
use mirrorball_lab::experiment::record::ORACLE;
use mirrorball_lab::experiment::run::{CellSource, RunOptions};
use mirrorball_lab::experiment::simulate::SimExecutor;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::hash::{BuildHasher, RandomState};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// When a part is written: at the first of both.
#[derive(Clone, Copy, Debug)]
pub struct PartLimits {
    pub cells: usize,
    /// Time since the last part.
    pub time: Duration,
}

#[derive(Debug, Default)]
pub struct SweepOutcome {
    pub ran: usize,
    /// Cells that failed, by their places in the plan, and why.
    pub failed: BTreeMap<usize, String>,
    /// True if it was stopped before the end.
    pub is_interrupted: bool,
}

/// Which part of a sweep a process runs: shard `number` of `count`, from one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardChoice {
    pub number: u32,
    pub count: u32,
}

impl ShardChoice {
    /// The places in the plan of its cells. A unit is in one shard. The most expensive ones are
    /// distributed first, each to the shard that costs least so far, so shards cost about the same
    /// unless one unit is more than a share.
    ///
    /// Source: Graham, "Bounds on multiprocessing timing anomalies", SIAM J. Appl. Math. 17, 1969.
    pub fn places(self, folder: &SweepFolder) -> Vec<usize> {
        let mut units = units(folder, 0..folder.cells.len());
        units.sort_by_cached_key(|places| Reverse(cost(folder, places)));
        // Further shards have nothing to do.
        let count = self.count.min(units.len() as u32);
        let mut shards: BinaryHeap<Reverse<(u64, u32)>> =
            (1..=count).map(|number| Reverse((0, number))).collect();
        let mut mine = Vec::new();
        for places in units {
            let Some(Reverse((so_far, number))) = shards.pop() else { break };
            shards.push(Reverse((so_far + cost(folder, &places), number)));
            if number == self.number {
                mine.extend(places);
            }
        }
        mine
    }
}

fn cost(folder: &SweepFolder, places: &[usize]) -> u64 {
    let of_cell = |&place: &usize| {
        let pair = folder.cells[place].pair;
        u64::from(folder.plan.pairs[pair as usize].cost)
    };
    places.iter().map(of_cell).sum()
}

/// Cells by pair and repeat, in the order of the plan.
fn units(folder: &SweepFolder, places: impl IntoIterator<Item = usize>) -> Vec<Vec<usize>> {
    let mut units: BTreeMap<(u32, u32), Vec<usize>> = BTreeMap::new();
    for place in places {
        let cell = folder.cells[place];
        units.entry((cell.pair, cell.repeat)).or_default().push(place);
    }
    units.into_values().collect()
}

/// Rows that are done and not yet written.
struct Batch {
    done: DoneCells,
    rows: BTreeMap<usize, Vec<CellRow>>,
    since: Instant,
    outcome: SweepOutcome,
}

struct Work<'a> {
    folder: &'a SweepFolder,
    limits: PartLimits,
    options: &'a RunOptions<'a>,
    host: String,
    batch: Mutex<Batch>,
}

/// Runs those of the cells at `places` that are not done. Fails if a part cannot be written, or the
/// folder has foreign files.
pub fn run(
    folder: &SweepFolder,
    places: &[usize],
    done: DoneCells,
    limits: PartLimits,
    options: &RunOptions<'_>,
) -> Result<SweepOutcome> {
    let missing = places.iter().copied().filter(|place| !done.is_done[*place]);
    let mut units = units(folder, missing);
    if !units.is_empty() {
        let start = RandomState::new().hash_one(std::process::id()) as usize % units.len();
        units.rotate_left(start);
    }
    let (rows, outcome) = (BTreeMap::new(), SweepOutcome::default());
    let batch = Batch { done, rows, since: Instant::now(), outcome };
    let host = Environment::current().host;
    let work = Work { folder, limits, options, host, batch: Mutex::new(batch) };
    let ended = options.run_units(&units, |unit| work.unit(unit).map(Some));
    let mut batch = work.batch();
    let written = work.write(&mut batch, 0);
    ended?;
    written?;
    let is_interrupted = options.stop.load(Ordering::Relaxed);
    Ok(SweepOutcome { is_interrupted, ..std::mem::take(&mut batch.outcome) })
}

impl Work<'_> {
    fn batch(&self) -> MutexGuard<'_, Batch> {
        self.batch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unit(&self, unit: &[usize]) -> Result<()> {
        let missing: Vec<usize> = {
            let batch = self.batch();
            unit.iter().copied().filter(|place| !batch.done.is_done[*place]).collect()
        };
        let ran = simulate(self.folder, &missing, self.options.stop);
        let mut batch = self.batch();
        for (place, result) in ran {
            match result {
                Ok(rows) => {
                    batch.rows.insert(place, rows);
                    batch.outcome.ran += 1;
                }
                Err(_) if self.options.stop.load(Ordering::Relaxed) => {}
                Err(error) => {
                    batch.outcome.failed.insert(place, format!("{error:#}"));
                }
            }
        }
        unit.iter().for_each(|_| (self.options.on_cell)(CellSource::Run, 1));
        let is_time = batch.since.elapsed() >= self.limits.time;
        let least = if is_time { 0 } else { self.limits.cells };
        self.write(&mut batch, least)
    }

    /// Writes what is done as a part if it is of at least so many cells.
    fn write(&self, batch: &mut Batch, least: usize) -> Result<()> {
        if batch.rows.is_empty() || batch.rows.len() < least {
            return Ok(());
        }
        batch.since = Instant::now();
        let rows = std::mem::take(&mut batch.rows);
        let places: Vec<usize> = rows.keys().copied().collect();
        let rows: Vec<CellRow> = rows.into_values().flatten().collect();
        self.folder.save(&places, &rows, &self.host)?;
        self.folder.read_new_parts(&mut batch.done)
    }
}

/// The rows of cells of one pair and repeat, by their places.
pub fn simulate(
    folder: &SweepFolder,
    places: &[usize],
    stop: &AtomicBool,
) -> Vec<(usize, Result<Vec<CellRow>>)> {
    let Some(&first) = places.first() else { return Vec::new() };
    let all = |error: anyhow::Error| {
        let same = format!("{error:#}");
        places.iter().map(|place| (*place, Err(anyhow!("{same}")))).collect()
    };
    let inputs = match folder.plan.inputs(folder.cells[first].pair) {
        Ok(inputs) => inputs,
        Err(error) => return all(error),
    };
    let executor = match SimExecutor::new(&inputs, stop) {
        Ok(executor) => executor,
        Err(error) => return all(error),
    };
    let plan = plan_of_unit(&folder.plan, folder, places);
    let one = |place: usize| {
        let cell = folder.plan.lab_cell(&plan, folder.cells[place]);
        // A defect of one policy must not end a sweep of days.
        let measured = catch_unwind(AssertUnwindSafe(|| executor.run(&cell)));
        let measured = measured.map_err(|_| anyhow!("the simulation panicked"))??;
        Ok(rows(&folder.plan, folder.cells[place], &cell.record(measured)))
    };
    places.iter().map(|&place| (place, one(place))).collect()
}

/// The experiment of a unit: only policies that run, since the executor keeps what it finds for
/// those that follow.
fn plan_of_unit(plan: &SweepPlan, folder: &SweepFolder, places: &[usize]) -> Plan {
    let policy = |place: &usize| plan.policies[folder.cells[*place].policy as usize].clone();
    let policies: Vec<String> = places.iter().map(policy).collect();
    Plan {
        policies: policies.into_iter().filter(|policy| policy != ORACLE).collect(),
        reference: Reference::Nothing,
        ..plan.lab_plan(folder.cells[places[0]].pair)
    }
}

#[cfg(test)]
mod tests;
