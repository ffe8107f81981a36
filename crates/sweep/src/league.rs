//! The league as a sweep: its cells in shards, and its table made of their rows.
//!
//! `league` runs its pairings in one process. Here the drawn arrays and jobs are the pairs
//! of a plan, sized as they are there, so any engine can run the cells. The rows have every figure
//! that the table is made of: it is the same, byte by byte.

use crate::column::{CellRow, Field, fingerprint, place_of};
use crate::cost;
use crate::folder::{DoneCells, SweepFolder};
use crate::pack::{disagreement, for_each_saved};
use crate::plan::{SweepInput, SweepPair, SweepPlan};
use anyhow::{Context, Result, bail};
use mirrorball_core::histogram::Histogram;
use mirrorball_core::units::Nanos;
use mirrorball_lab::evaluation::league::collector::StandingsCollector;
use mirrorball_lab::evaluation::league::standings::Standings;
use mirrorball_lab::evaluation::league::{self, LeagueRequest, PairingFiles};
use mirrorball_lab::experiment::build::BuildIdentity;
use mirrorball_lab::experiment::inputs;
use mirrorball_lab::experiment::record::{
    CellIdentity, DirectionRecord, Percentiles, RunRecord, SectionRecord,
};
use mirrorball_lab::experiment::study::CellSummary;
use rayon::iter::{IntoParallelIterator, ParallelIterator};
use std::collections::BTreeMap;

/// The plan of all cells of a league. Sizing a pairing takes a few simulations.
///
/// # Errors
/// If a pairing cannot be sized, which is a defect of the draws.
pub fn plan(request: &LeagueRequest, build: BuildIdentity) -> Result<SweepPlan> {
    let files = (1..=request.size).into_par_iter().map(|number| league::files(request, number));
    let files: Vec<PairingFiles> = files.collect::<Result<_>>()?;
    let input = |name: &str, text: &str, fingerprint| SweepInput {
        name: name.to_owned(),
        text: text.to_owned(),
        fingerprint,
        vary: BTreeMap::new(),
    };
    let (mut arrays, mut jobs, mut pairs) = (Vec::new(), Vec::new(), Vec::new());
    for (number, PairingFiles { name, array, job, seed }) in (0..).zip(&files) {
        let array_print = inputs::fingerprint(&inputs::array_of_text(name, array)?);
        let job_print = inputs::job_fingerprint(&inputs::job_of_text(name, job)?);
        arrays.push(input(name, array, array_print));
        jobs.push(input(name, job, job_print));
        pairs.push(SweepPair { array: number, job: number, seed: *seed, repeats: 1, cost: 1 });
    }
    let mut plan = SweepPlan::grid(build, arrays, jobs, request.contenders(), None)
        .with_programs(request.registry.clone());
    (plan.pairs, plan.league) = (pairs, Some(request.of_cells()));
    cost::with_costs(plan)
}

/// The table of a league, made of the rows of its cells, each of which is read once. Memory
/// is a few hundred bytes per cell, and the rows of one row group.
///
/// # Errors
/// If cells are missing, or their parts cannot be read or disagree.
pub fn standings(
    request: &LeagueRequest,
    folder: &SweepFolder,
    done: &DoneCells,
) -> Result<Standings> {
    let missing = folder.cells.len() - done.count();
    if missing > 0 {
        bail!("{missing} of {} cells are not done", folder.cells.len());
    }
    let mut collector = StandingsCollector::new(request)?;
    let mut fingerprints: Vec<Option<u64>> = vec![None; folder.cells.len()];
    for_each_saved(folder, done, 0..folder.cells.len(), |place, rows| {
        let fingerprint = fingerprint(rows);
        match fingerprints[place].replace(fingerprint) {
            None => {
                let cell = summary(rows).with_context(|| damaged(folder, place))?;
                collector.add(folder.cells[place].pair + 1, &cell);
            }
            Some(known) if known == fingerprint => {}
            Some(_) => return Err(disagreement(folder, place)),
        }
        Ok(())
    })?;
    collector.finish()
}

/// Mistake in the rows of a cell that keeps the table from being made.
fn damaged(folder: &SweepFolder, place: usize) -> String {
    format!("the rows of a cell are damaged: {}", folder.shown(place))
}

/// The summary of a cell, as far as rows have it.
fn summary(rows: &[CellRow]) -> Option<CellSummary> {
    let mut sections: Vec<SectionRecord> = Vec::new();
    for row in rows {
        let name = text(row, "section")?;
        if sections.last().is_none_or(|section| section.name != name) {
            sections.push(SectionRecord {
                name: name.to_owned(),
                is_background: flag(row, "is_background")?,
                has_rate: flag(row, "has_rate")?,
                measured: Nanos(whole(row, "measured_ns")?),
                ..SectionRecord::default()
            });
        }
        let section = sections.last_mut()?;
        match text(row, "direction")? {
            "read" => section.read = direction(row)?,
            "write" => section.write = direction(row)?,
            "trim" => section.trim = direction(row)?,
            "fsync" => section.flush = direction(row)?,
            _ => {}
        }
    }
    let row = rows.first()?;
    let identity = CellIdentity {
        array: text(row, "array_name")?.to_owned(),
        job: text(row, "job")?.to_owned(),
        policy: text(row, "policy")?.to_owned(),
        seed: whole(row, "seed")?,
        ..CellIdentity::default()
    };
    let run = RunRecord { sections, ..RunRecord::default() };
    Some(CellSummary { identity, score: 0.0, run })
}

fn direction(row: &CellRow) -> Option<DirectionRecord> {
    let (bins, counts) = (wholes(row, "lat_bin")?, wholes(row, "lat_count")?);
    if bins.len() != counts.len() {
        return None;
    }
    let bins = bins.iter().map(|&bin| bin as usize).zip(counts.iter().copied());
    let (min, max) = (Nanos(whole(row, "lat_min_ns")?), Nanos(whole(row, "lat_max_ns")?));
    let latency = Histogram::from_parts(bins, whole(row, "lat_sum_ns")?.into(), min, max)?;
    Some(DirectionRecord {
        ios: whole(row, "requests")?,
        bytes: whole(row, "bytes")?,
        errors: whole(row, "errors")?,
        iops: real(row, "iops")?,
        mib_per_s: real(row, "mib_per_s")?,
        percentiles: Percentiles::from(&latency),
        latency,
    })
}

fn text<'a>(row: &'a CellRow, name: &str) -> Option<&'a str> {
    match &row[place_of(name)] {
        Field::Text(text) => Some(text),
        _ => None,
    }
}

fn whole(row: &CellRow, name: &str) -> Option<u64> {
    match row[place_of(name)] {
        Field::Whole(number) => Some(number),
        _ => None,
    }
}

fn real(row: &CellRow, name: &str) -> Option<f64> {
    match row[place_of(name)] {
        Field::Real(number) => Some(number),
        _ => None,
    }
}

fn flag(row: &CellRow, name: &str) -> Option<bool> {
    match row[place_of(name)] {
        Field::Flag(is_set) => Some(is_set),
        _ => None,
    }
}

fn wholes<'a>(row: &'a CellRow, name: &str) -> Option<&'a [u64]> {
    match &row[place_of(name)] {
        Field::Wholes(numbers) => Some(numbers),
        _ => None,
    }
}
