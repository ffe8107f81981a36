//! Commands of `mirrorball sweep`.

use super::{RunArgs, Shard, SweepAction};
use crate::ending::{Ending, Failure};
use crate::output_file::{self, Existing};
use crate::progress::{self, Cells};
use crate::{programs, screen};
use anyhow::{Context, Result, anyhow};
use mirrorball_io::programs::ProgramReference;
use mirrorball_lab::experiment::build::BuildIdentity;
use mirrorball_lab::experiment::run::RunOptions;
use mirrorball_sweep::folder::{DoneCells, SweepFolder};
use mirrorball_sweep::pack::{PackFormat, pack};
use mirrorball_sweep::run::{self, PartLimits, ShardChoice, SweepOutcome};
use mirrorball_sweep::spec::{OneOrMany, SweepSpec};
use mirrorball_sweep::verify::verify;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The file that `sweep pack` writes if none is named.
const PACKED: &str = "packed.parquet";
const FAILED_SHOWN: usize = 10;

pub(super) fn run(action: &SweepAction) -> Result<Ending, Failure> {
    match action {
        SweepAction::Plan { spec, output } => plan(spec, output),
        SweepAction::Run(args) => run_cells(args),
        SweepAction::Status { folder, json } => status(folder, *json),
        SweepAction::Pack { folder, output, partial, force } => {
            pack_rows(folder, output.as_deref(), *partial, *force)
        }
        SweepAction::Verify { folder, sample, seed, other_build } => {
            verify_cells(folder, *sample, *seed, *other_build)
        }
    }
}

fn read(path: &Path) -> Result<String> {
    if output_file::is_stdout(path) {
        let mut text = String::new();
        io::stdin().read_to_string(&mut text).context("cannot read standard input")?;
        return Ok(text);
    }
    fs::read_to_string(path)
        .map_err(|error| anyhow!("cannot read {}: {error}\n  help: check the path", path.display()))
}

/// A list of policies in which the programs in `folder` are named by their paths.
fn found_in(folder: &Path, policies: &str) -> String {
    let found = |item: &str| {
        let reference = ProgramReference::parse(item)?;
        let path = folder.join(&reference.path);
        let path = path.exists().then(|| path.into_os_string().into_string().ok()).flatten()?;
        Some(ProgramReference { path, ..reference }.to_string())
    };
    let items = policies.split(',').map(|item| found(item).unwrap_or_else(|| item.to_owned()));
    items.collect::<Vec<String>>().join(",")
}

fn plan(path: &Path, output: &Path) -> Result<Ending, Failure> {
    let build = BuildIdentity::current();
    let planned = || {
        let mut spec = SweepSpec::parse(&read(path)?)?;
        let folder = path.parent().unwrap_or(Path::new(""));
        let mut registry = None;
        let list = found_in(folder, &spec.policy_list());
        let list = programs::load_into(&mut registry, "`policy`", &list)?;
        spec.policy = OneOrMany::One(list);
        SweepFolder::create(output, spec.plan(folder, build, registry.unwrap_or_default())?)
    };
    let name = || match output_file::is_stdout(path) {
        true => "standard input".to_owned(),
        false => path.display().to_string(),
    };
    let folder = planned().with_context(name);
    let folder = folder.map_err(Failure::WrongUse)?;
    let (cells, shown) = (folder.cells.len(), output.display());
    screen::say(format_args!("planned {cells} cells; run them with"));
    screen::print(&format!("mirrorball sweep run {shown}\n"))?;
    Ok(Ending::Done)
}

/// Opens a sweep and finds what is done. Damaged parts are named on stderr.
fn open(path: &Path) -> Result<(SweepFolder, DoneCells), Failure> {
    let opened = || {
        let folder = SweepFolder::open(path)?;
        let done = folder.done()?;
        Ok((folder, done))
    };
    let (folder, done) = opened().map_err(Failure::WrongUse)?;
    for (path, reason) in &done.damaged {
        let shown = path.display();
        screen::say(format_args!("warning: {shown} is damaged and ignored: {reason}"));
    }
    Ok((folder, done))
}

fn open_to_run(path: &Path, other_build: bool) -> Result<(SweepFolder, DoneCells), Failure> {
    let (mut folder, done) = open(path)?;
    if !other_build {
        let build = BuildIdentity::current();
        folder.check_build(&build).map_err(Failure::WrongUse)?;
    }
    if !folder.plan.programs.is_empty() {
        let registry = programs::registry().map_err(|error| Failure::WrongUse(error.into()))?;
        folder.plan.load_programs(registry).map_err(Failure::WrongUse)?;
    }
    Ok((folder, done))
}

/// The places of the cells that are asked for.
fn chosen(folder: &SweepFolder, shard: Option<Shard>) -> Vec<usize> {
    match shard {
        Some(Shard { number, count }) => ShardChoice { number, count }.places(folder),
        None => (0..folder.cells.len()).collect(),
    }
}

fn run_cells(args: &RunArgs) -> Result<Ending, Failure> {
    let (folder, done) = open_to_run(&args.folder, false)?;
    let places = chosen(&folder, args.shard);
    let saved = places.iter().filter(|place| done.is_done[**place]).count();
    let limits = PartLimits {
        cells: args.part_cells as usize,
        time: Duration::from_nanos(args.part_time.0),
    };
    let message = "writing the cells that are done";
    let work = |options: &RunOptions<'_>| run::run(&folder, &places, done, limits, options);
    let ran = progress::run_cells(Cells::alike(places.len() - saved), message, args.threads, work);
    let outcome = ran.map_err(Failure::Fault)?.0;
    let (ran, all) = (outcome.ran, places.len());
    screen::say(format_args!("{ran} cells were run, {saved} of {all} were done before"));
    Ok(report(&folder, &outcome))
}

/// Names what failed, and says how the run ended.
fn report(folder: &SweepFolder, outcome: &SweepOutcome) -> Ending {
    let failed = outcome.failed.len();
    for (place, reason) in outcome.failed.iter().take(FAILED_SHOWN) {
        screen::say(format_args!("error: cell {}: {reason}", folder.shown(*place)));
    }
    if failed > FAILED_SHOWN {
        screen::say(format_args!("error: and {} more cells", failed - FAILED_SHOWN));
    }
    if outcome.is_interrupted {
        screen::say("interrupted: run the same command again to continue");
        return Ending::Interrupted;
    }
    if failed > 0 { Ending::FoundFailure } else { Ending::Done }
}

fn status(path: &Path, json: bool) -> Result<Ending, Failure> {
    let (folder, done) = open(path)?;
    let (cells, count, parts) = (folder.cells.len(), done.count(), done.parts.len());
    let per_cell = done.bytes as f64 / count.max(1) as f64;
    if json {
        let figures = serde_json::json!({
            "cells": cells,
            "done": count,
            "parts": parts,
            "bytes": done.bytes,
            "damaged": done.damaged.len(),
            "build": folder.plan.build,
        });
        screen::print(&format!("{figures}\n"))?;
        return Ok(Ending::Done);
    }
    screen::print(&format!(
        "{count} of {cells} cells are done, in {parts} parts: {} bytes, {per_cell:.0} a cell\n",
        done.bytes
    ))?;
    Ok(Ending::Done)
}

fn pack_rows(
    path: &Path,
    output: Option<&Path>,
    partial: bool,
    force: bool,
) -> Result<Ending, Failure> {
    let (folder, done) = open(path)?;
    let target = output.map_or_else(|| path.join(PACKED), PathBuf::from);
    let Some(format) = PackFormat::of(&target) else {
        return Err(Failure::WrongUse(anyhow!(
            "-o {}: the ending is none of .parquet, .csv and .ndjson\n  help: give a file with one",
            target.display()
        )));
    };
    let (cells, count) = (folder.cells.len(), done.count());
    if count < cells && !partial {
        return Err(Failure::WrongUse(anyhow!(
            "{} of {cells} cells are not done\n  help: run `mirrorball sweep run {}`, or give \
             --partial",
            cells - count,
            path.display()
        )));
    }
    let existing = if force { Existing::Replace } else { Existing::Keep(Some("-o FILE")) };
    output_file::check(&target, existing).map_err(Failure::WrongUse)?;
    pack(&folder, &done, &target, format).map_err(Failure::Fault)?;
    screen::say(format_args!("packed {count} cells into {}", target.display()));
    Ok(Ending::Done)
}

fn verify_cells(path: &Path, sample: f64, seed: u64, other_build: bool) -> Result<Ending, Failure> {
    let (folder, done) = open_to_run(path, other_build)?;
    if done.count() == 0 {
        let text =
            format!("no cell is done\n  help: run `mirrorball sweep run {}`", path.display());
        return Err(Failure::WrongUse(anyhow!(text)));
    }
    let stop = progress::stop_at_ctrl_c("stopping").map_err(Failure::Fault)?;
    let found = verify(&folder, &done, sample, seed, stop).map_err(Failure::Fault)?;
    for difference in &found.differences {
        screen::say(format_args!("error: a figure differs: {difference}"));
    }
    let (checked, differ) = (found.checked, found.differences.len());
    screen::print(&format!("{checked} cells were run again, {differ} differ\n"))?;
    Ok(match (found.is_interrupted, differ) {
        (true, _) => Ending::Interrupted,
        (false, 0) => Ending::Done,
        (false, _) => Ending::FoundFailure,
    })
}
