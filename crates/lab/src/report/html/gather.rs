//! Prepares records for drawing: merges repeats, with one time grid per job.
//!
//! Every chart of a job shares its scales, whichever policy or set it shows; otherwise they could
//! not be compared at a glance. Counts are spread over the columns of the grid that an interval
//! covers; rates of a column are the mean over repeats, with the minimum and the maximum.

use super::grid::TimeGrid;
use super::series::{Series, heat_scale};
use super::series_styles::SeriesStyles;
use crate::experiment::record::{CellIdentity, CellRecord};
use crate::experiment::results::ResultSet;
use crate::experiment::study::{IoKind, JobStudy, Row, SectionStudy};
use crate::report::chart::scale::Scale;
use mirrorball_core::histogram::Histogram;

/// One job, with what each set has of it.
pub(super) struct JobView<'a> {
    pub(super) name: &'a str,
    pub(super) number: usize,
    /// What its figures count.
    pub(super) judged_by: IoKind,
    /// The time that its charts show.
    pub(super) grid: TimeGrid,
    /// Every member that any of its cells has, rising.
    pub(super) devids: Vec<u64>,
    /// The nearest and the farthest sampled read on each of them, in KiB.
    pub(super) reach_kib: Vec<(u64, u64)>,
    /// The colours of latencies.
    pub(super) heat: Scale,
    pub(super) sets: Vec<JobSet<'a>>,
}

pub(super) struct JobSet<'a> {
    pub(super) part: usize,
    pub(super) study: &'a JobStudy,
    /// One per row of the study.
    pub(super) runs: Vec<PolicyRun<'a>>,
}

/// One policy under one job in one set, all repeats together.
pub(super) struct PolicyRun<'a> {
    pub(super) policy: usize,
    pub(super) row: &'a Row,
    /// Latencies of the main kind of requests of each section.
    pub(super) latencies: Vec<Histogram>,
    /// The run over time.
    pub(super) series: Series,
}

/// The jobs of all sets, in the order in which they first appear.
pub(super) fn jobs<'a>(parts: &'a [ResultSet], styles: &SeriesStyles) -> Vec<JobView<'a>> {
    let mut names: Vec<&'a str> = Vec::new();
    for job in parts.iter().flat_map(|part| &part.study.jobs) {
        if !names.contains(&job.job.as_str()) {
            names.push(&job.job);
        }
    }
    names.iter().enumerate().map(|(number, name)| job_view(parts, styles, number, name)).collect()
}

fn job_view<'a>(
    parts: &'a [ResultSet],
    styles: &SeriesStyles,
    number: usize,
    name: &'a str,
) -> JobView<'a> {
    let of_job = |record: &&CellRecord| record.cell.job == name;
    let records = || parts.iter().flat_map(|part| &part.cells).filter(of_job);
    let grid = TimeGrid::of(records().map(|record| &record.run.intervals));
    let mut devids: Vec<u64> =
        records().flat_map(|record| &record.run.members).map(|member| member.devid).collect();
    devids.sort_unstable();
    devids.dedup();
    let job_set = |(part, set): (usize, &'a ResultSet)| {
        let study = set.study.jobs.iter().find(|job| job.job == name)?;
        let run = |row| policy_run(set, study, row, styles, &grid);
        Some(JobSet { part, study, runs: study.rows.iter().map(run).collect() })
    };
    let sets: Vec<JobSet<'a>> = parts.iter().enumerate().filter_map(job_set).collect();
    let judged_by = sets
        .first()
        .map_or(IoKind::Read, |set| set.study.sections[set.study.main_section()].main_kind);
    let all = || sets.iter().flat_map(|set| &set.runs).map(|run| &run.series);
    let reach_kib = |&devid: &u64| {
        let dots = all().flat_map(|series| &series.dots).filter(|dot| dot.devid == devid);
        let offsets = dots.map(|dot| dot.offset_kib);
        (offsets.clone().min().unwrap_or(0), offsets.max().unwrap_or(0))
    };
    let reach_kib = devids.iter().map(reach_kib).collect();
    let heat = heat_scale(all());
    JobView { name, number, judged_by, grid, devids, reach_kib, heat, sets }
}

fn policy_run<'a>(
    set: &'a ResultSet,
    study: &'a JobStudy,
    row: &'a Row,
    styles: &SeriesStyles,
    grid: &TimeGrid,
) -> PolicyRun<'a> {
    let main = &study.sections[study.main_section()];
    let is_of_run = |cell: &CellIdentity| cell.job == study.job && cell.policy == row.policy;
    let latency = |section: &SectionStudy| {
        let mut merged = Histogram::default();
        for cell in set.study.cells.iter().filter(|cell| is_of_run(&cell.identity)) {
            // A section that a cell lacks made no requests.
            if let Some(summary) = cell.section(&section.name) {
                merged.merge(&summary.direction(section.main_kind).latency);
            }
        }
        merged
    };
    let latencies = study.sections.iter().map(latency).collect();
    let repeats = set.cells.iter().filter(|record| is_of_run(&record.cell));
    let repeats: Vec<&CellRecord> = repeats.collect();
    let series = Series::new(&repeats, grid, main.main_kind);
    PolicyRun { policy: styles.number(&row.policy), row, latencies, series }
}

impl<'a> JobView<'a> {
    /// Every run of every set.
    pub(super) fn runs(&self) -> impl Iterator<Item = &PolicyRun<'a>> {
        self.sets.iter().flat_map(|set| &set.runs)
    }

    /// The greatest of what `pick` finds in each run, zero if there is nothing.
    pub(super) fn most(&self, pick: impl Fn(&PolicyRun<'a>) -> f64) -> f64 {
        self.runs().map(pick).fold(0.0, f64::max)
    }
}
