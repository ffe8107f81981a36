//! The figures of a job: a row per policy with its rate, its latencies and their intervals.
//!
//! The bar is the ranked figure; its whisker is the 95 % interval over repeats. Overlapping
//! whiskers do not make a tie: ties are tested by paired differences, which are more sensitive.

use super::View;
use super::gather::{JobSet, JobView, PolicyRun};
use super::matrix::mark;
use crate::experiment::study::{
    Estimate, Figure, IoKind, JobStudy, Row, RowFigures, SectionRow, SectionStudy, Term,
};
use crate::report::chart::number::{duration, plain};
use crate::report::chart::scale::Scale;
use crate::report::chart::{SIDE, path};
use crate::report::titled_tables;
use maud::{Markup, html};

#[derive(Clone, Copy)]
struct FigureColumn {
    heading: &'static str,
    pick: fn(&SectionRow) -> Option<Estimate>,
    write: fn(f64) -> String,
}

const fn column(
    heading: &'static str,
    pick: fn(&SectionRow) -> Option<Estimate>,
    write: fn(f64) -> String,
) -> FigureColumn {
    FigureColumn { heading, pick, write }
}

const COLUMNS: [FigureColumn; 7] = [
    column("IOPS", |row| Some(row.figures.iops), plain),
    column("MiB/s", |row| Some(row.figures.mib_per_s), plain),
    column("mean", |row| Some(row.figures.mean_us), duration),
    column("p50", |row| Some(row.figures.p50_us), duration),
    column("p99", |row| Some(row.figures.p99_us), duration),
    column("p99.9", |row| Some(row.figures.p99_9_us), duration),
    column("p99.99", |row| Some(row.figures.p99_99_us), duration),
];
const WRITE_COLUMNS: [FigureColumn; 2] = [
    column("writes IOPS", |row| Some(row.writes.as_ref()?.iops), plain),
    column("writes p99", |row| Some(row.writes.as_ref()?.p99_us), duration),
];
const TRIM_COLUMNS: [FigureColumn; 2] = [
    column("trims IOPS", |row| Some(row.trims.as_ref()?.iops), plain),
    column("trims p99", |row| Some(row.trims.as_ref()?.p99_us), duration),
];
const FSYNC_COLUMNS: [FigureColumn; 2] = [
    column("fsync p50", |row| Some(row.fsyncs.as_ref()?.p50_us), duration),
    column("fsync p99", |row| Some(row.fsyncs.as_ref()?.p99_us), duration),
];

/// A table of one set: its bars, and the columns after them.
struct FigureTable<'a> {
    caption: String,
    bar_heading: &'static str,
    /// The figure that the bar shows.
    ranked: &'a dyn Fn(&JobStudy, &Row) -> Option<Estimate>,
    sections: &'a [usize],
    columns: Vec<Vec<FigureColumn>>,
    has_oracle: bool,
}

/// The tables of one set. A job with several sections has a table of scores first, and then a table
/// for each section.
pub(super) fn draw(view: &View<'_>, job: &JobView<'_>, set: &JobSet<'_>) -> Markup {
    let study = set.study;
    let is_only = study.sections.len() == 1;
    let counting: Vec<usize> =
        (0..study.sections.len()).filter(|&index| study.sections[index].counts).collect();
    let scores = FigureTable {
        caption: "Scores of all sections together".to_owned(),
        bar_heading: "score, more is better",
        ranked: &|_, row| Some(row.score),
        sections: &counting,
        columns: counting
            .iter()
            .map(|&index| {
                let is_latency = has_latency_bar(study, &study.sections[index]);
                vec![COLUMNS[if is_latency { 2 } else { 0 }], COLUMNS[4]]
            })
            .collect(),
        has_oracle: true,
    };
    html! {
        @if !is_only { (table(view, job, set, &scores)) }
        @for (index, section) in study.sections.iter().enumerate() {
            (table(view, job, set, &FigureTable {
                caption: caption(study, section),
                bar_heading: if has_latency_bar(study, section) {
                    "mean latency, less is better"
                } else {
                    "IOPS, more is better"
                },
                ranked: &|study, row| {
                    let figures = &row.sections.get(index)?.figures;
                    let is_latency = has_latency_bar(study, study.sections.get(index)?);
                    Some(if is_latency { figures.mean_us } else { figures.iops })
                },
                sections: &[index],
                columns: vec![columns(study, index)],
                has_oracle: is_only,
            }))
        }
        @for warning in titled_tables::warnings(study) {
            p.note { (warning) (view.of_set(set.part)) }
        }
    }
}

fn table(view: &View<'_>, job: &JobView<'_>, set: &JobSet<'_>, table: &FigureTable<'_>) -> Markup {
    let mut runs: Vec<&PolicyRun<'_>> = set.runs.iter().collect();
    runs.sort_by(|left, right| {
        let by_score = right.row.score.value.total_cmp(&left.row.score.value);
        left.row.is_oracle().cmp(&right.row.is_oracle()).then(by_score)
    });
    let caption = format!("{}{}", table.caption, view.of_set(set.part));
    let sections = || table.sections.iter().map(|&index| &set.study.sections[index]);
    html! {
        div.scroll tabindex="0" role="group" aria-label={ (job.name) ": " (caption) } {
            table.figures data-kind="figures" data-job=(job.number) {
                caption { (caption) }
                thead {
                    tr {
                        th scope="col" { "policy" }
                        th.bar scope="col" { (table.bar_heading) }
                        @for (section, columns) in sections().zip(&table.columns) {
                            @for column in columns {
                                th.number scope="col" {
                                    @if table.sections.len() > 1 { (section.name) " " }
                                    (column.heading)
                                }
                            }
                        }
                        @if table.has_oracle {
                            th.number scope="col" title="in percent of the oracle's" { "oracle" }
                        }
                    }
                }
                tbody { @for run in runs { (row(view, job, set, run, table)) } }
            }
        }
    }
}

fn row(
    view: &View<'_>,
    job: &JobView<'_>,
    set: &JobSet<'_>,
    run: &PolicyRun<'_>,
    table: &FigureTable<'_>,
) -> Markup {
    let style = view.styles.get(run.policy);
    let sections: Vec<&SectionRow> =
        table.sections.iter().map(|&index| &run.row.sections[index]).collect();
    let errors: u64 = match &sections[..] {
        [only] => only.errors(),
        _ => 0,
    };
    let width = 3 + table.columns.iter().map(Vec::len).sum::<usize>();
    html! {
        tr data-policy=(run.policy) {
            th scope="row" {
                span class={ "swatch " (style.classes) } {}
                (style.name) " " span.mark { (mark(run.row.standing)) }
            }
            td.bar {
                @if let Some(estimate) = (table.ranked)(set.study, run.row) {
                    (bar(job, estimate, table, &style.classes))
                }
            }
            @for (section, columns) in sections.into_iter().zip(&table.columns) {
                @for column in columns {
                    (cell((column.pick)(section), column.write))
                }
            }
            @if table.has_oracle {
                td.number {
                    @if let Some(fraction) = run.row.fraction_of_oracle {
                        (format!("{:.0} %", 100.0 * fraction))
                    }
                }
            }
        }
        @if errors > 0 {
            tr.failed data-policy=(run.policy) {
                td colspan=(width) { (errors) " requests failed" }
            }
        }
    }
}

fn cell(estimate: Option<Estimate>, write: fn(f64) -> String) -> Markup {
    let Some(estimate) = estimate else { return html! { td.number { "–" } } };
    let title = estimate
        .low
        .zip(estimate.high)
        .map(|(low, high)| format!("95 % interval {} to {}", write(low), write(high)));
    html! {
        td.number title=[title] {
            (write(estimate.value))
            @if let Some(relative) = estimate.relative() {
                small {
                    @if relative > 1.0 {
                        "±>100 %"
                    } @else {
                        "±" (format!("{:.0}", 100.0 * relative)) " %"
                    }
                }
            }
        }
    }
}

/// A bar from zero to the ranked figure, and its whisker. All sets share the scale.
fn bar(job: &JobView<'_>, estimate: Estimate, table: &FigureTable<'_>, classes: &str) -> Markup {
    let longest = job.sets.iter().flat_map(|set| {
        set.runs.iter().filter_map(|run| {
            let Estimate { value, high, .. } = (table.ranked)(set.study, run.row)?;
            Some(high.unwrap_or(value).max(value))
        })
    });
    let scale = Scale::up_to(longest.fold(0.0, f64::max));
    let end = scale.place(estimate.value);
    let whisker = estimate.low.zip(estimate.high).map(|ends| whisker(scale, ends));
    html! {
        svg viewBox={ "0 0 " (SIDE) " " (SIDE) } preserveAspectRatio="none" aria-hidden="true" {
            path class={ "length " (classes) } d=(path::boxes([(0.0, end, 0.15, 0.85)])) {}
            @if let Some(whisker) = whisker { path.whisker d=(whisker) {} }
        }
    }
}

/// An interval across a bar: a line with a cap at either end.
pub(super) fn whisker(scale: Scale, (low, high): (f64, f64)) -> String {
    let (low, high) = (scale.place(low), scale.place(high));
    let caps = [low, high].into_iter().flat_map(|at| [Some((at, 0.3)), Some((at, 0.7)), None]);
    path::line([Some((low, 0.5)), Some((high, 0.5)), None].into_iter().chain(caps))
}

/// True if a section is ranked by its mean latency.
fn has_latency_bar(study: &JobStudy, section: &SectionStudy) -> bool {
    let of_section = |term: &&Term| term.section == section.name;
    study.terms.iter().filter(of_section).any(|term| term.figure == Figure::Mean)
}

/// What a table shows: the section if there are several, its requests, and how it is ranked.
fn caption(study: &JobStudy, section: &SectionStudy) -> String {
    let requests = match section.main_kind {
        IoKind::Read => "reads",
        IoKind::Write => "writes",
        IoKind::Trim => "trims",
        IoKind::Fsync => "flushes",
    };
    let of_section = match &study.sections[..] {
        [_] => String::new(),
        _ => format!("Section {}: ", section.name),
    };
    let rate = match section.asked_iops.filter(|_| section.has_rate) {
        Some(asked) => format!(", which ask for {} IOPS", plain(asked)),
        None if section.has_rate => ", which set their own rate".to_owned(),
        None => String::new(),
    };
    let counts = if section.counts { "" } else { "; not in the score" };
    format!("{of_section}{requests}{rate}{counts}")
}

/// The columns of a section: those of its main requests, and of further kinds that it makes.
fn columns(study: &JobStudy, section: usize) -> Vec<FigureColumn> {
    let has = |kind: fn(&SectionRow) -> &Option<RowFigures>| {
        study.rows.iter().any(|row| kind(&row.sections[section]).is_some())
    };
    let others = [
        (has(|row| &row.writes), WRITE_COLUMNS),
        (has(|row| &row.trims), TRIM_COLUMNS),
        (has(|row| &row.fsyncs), FSYNC_COLUMNS),
    ];
    let others: Vec<FigureColumn> =
        others.into_iter().filter(|(is_made, _)| *is_made).flat_map(|(_, them)| them).collect();
    // The tail is in the chart below, and with it the table would be wider than a screen.
    let shown = if others.is_empty() { COLUMNS.len() } else { COLUMNS.len() - 2 };
    [&COLUMNS[..shown], &others].concat()
}
