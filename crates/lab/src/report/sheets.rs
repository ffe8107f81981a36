//! What the tables show, and how figures are written: shared by every format for people.
//!
//! A block per job with a row per policy, the best first and the oracle last; then the matrix.

use super::grid::{Column, Emphasis, Grid, GridRow};
use crate::record::ORACLE;
use crate::study::{
    Direction, JobStudy, Matrix, MatrixRow, Row, RowFigures, Standing, Study, Yardstick,
};
use mirrorball_core::units::Nanos;
use std::cmp::Reverse;

/// Members beyond which single shares are not shown, only the largest.
const SHARE_COLUMNS_MAX: usize = 10;
/// Jobs beside each other in a matrix; more are continued below.
const MATRIX_COLUMNS_MAX: usize = 7;
/// Width at which the name of a job is folded in a heading.
const FOLDED_WIDTH: usize = 9;

/// A table with its heading and remarks.
pub(super) struct Sheet {
    pub(super) heading: String,
    pub(super) grid: Grid,
    pub(super) notes: Vec<String>,
}

/// Columns that only some jobs need.
#[derive(Clone, Copy)]
struct Optional {
    writes: bool,
    extra_reads: bool,
}

/// One line: what was compared.
pub(super) fn title(study: &Study) -> String {
    let plan = &study.plan;
    let seeds: Vec<String> = plan.seeds.iter().map(u64::to_string).collect();
    format!(
        "{}: {}, {}, {} (seeds {})",
        plan.array.name,
        counted(plan.policies.len(), "policy", "policies"),
        counted(plan.jobs.len(), "job", "jobs"),
        counted(seeds.len(), "repeat", "repeats"),
        seeds.join(", ")
    )
}

fn counted(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// Every table of a study.
pub(super) fn all(study: &Study) -> Vec<Sheet> {
    let mut sheets: Vec<Sheet> = study.jobs.iter().map(job_sheet).collect();
    let places: Vec<usize> = (0..study.matrix.jobs.len()).collect();
    for (part, places) in places.chunks(MATRIX_COLUMNS_MAX).enumerate() {
        sheets.push(matrix_sheet(&study.matrix, places, part));
    }
    sheets
}

/// What the marks and columns mean.
pub(super) fn legend(study: &Study) -> Vec<String> {
    let ties = match study.plan.seeds.len() {
        1 => "one repeat: no interval, and no tie can be told",
        _ => "= not to be told from it (the 95 % interval of the paired differences holds zero)",
    };
    vec![
        format!("* best of the job   {ties}"),
        "± half the 95 % interval of IOPS over repeats   latencies: all repeats' bins together"
            .to_owned(),
        "oracle: asks the disks which mirror will finish first; greedy, so not a strict bound"
            .to_owned(),
    ]
}

fn job_sheet(job: &JobStudy) -> Sheet {
    let judged = match (job.judged_by, job.yardstick) {
        (Direction::Read, Yardstick::Iops) => "",
        (Direction::Write, Yardstick::Iops) => " (writes)",
        (Direction::Read, Yardstick::MeanLatency) => " (sets its own rate: by mean latency)",
        (Direction::Write, Yardstick::MeanLatency) => {
            " (writes; sets its own rate: by mean latency)"
        }
    };
    let has_writes = job.rows.iter().any(|row| row.writes.is_some());
    let devids: Vec<u64> = job.rows[0].shares.iter().map(|share| share.devid).collect();
    let mut columns = vec![
        Column::left("policy"),
        Column::right("IOPS"),
        Column::right("±"),
        Column::right("MiB/s"),
    ];
    columns.extend(["p50", "p99", "p99.9", "p99.99"].map(Column::right));
    if has_writes {
        columns.extend(["IOPS", "p99"].map(|title| Column::right(title).under("writes")));
    }
    if devids.len() > SHARE_COLUMNS_MAX {
        columns.push(Column::right("most reads by devid, %"));
    } else {
        let column = |devid: &u64| Column::right(devid.to_string()).under("reads by devid, %");
        columns.extend(devids.iter().map(column));
    }
    let has_extra_reads = job.rows.iter().any(|row| row.extra_per_read > 0.0);
    if has_extra_reads {
        columns.push(Column::right("reads, %").under("extra"));
    }
    columns.push(Column::right("oracle").under("% of"));

    let mut rows: Vec<&Row> = job.rows.iter().collect();
    rows.sort_by(|left, right| {
        let is_oracle = |row: &Row| row.standing == Standing::Reference;
        let slowness = |row: &Row| match job.yardstick {
            Yardstick::Iops => -row.figures.iops.value,
            Yardstick::MeanLatency => row.figures.mean_us.value,
        };
        is_oracle(left).cmp(&is_oracle(right)).then(slowness(left).total_cmp(&slowness(right)))
    });
    let optional = Optional { writes: has_writes, extra_reads: has_extra_reads };
    let grid_rows = rows.iter().map(|row| job_row(row, optional)).collect();
    Sheet {
        heading: format!("{}{judged}", job.job),
        grid: Grid { columns, rows: grid_rows },
        notes: rows.iter().filter_map(|row| failures(row)).collect(),
    }
}

fn job_row(row: &Row, optional: Optional) -> GridRow {
    let RowFigures { iops, mib_per_s, p50_us, p99_us, p99_9_us, p99_99_us, .. } = &row.figures;
    let relative = iops.relative().map_or("-".to_owned(), |width| format!("{:.0}%", 100.0 * width));
    let mut texts = vec![row.policy.clone(), number(iops.value), relative, number(mib_per_s.value)];
    texts.extend([p50_us, p99_us, p99_9_us, p99_99_us].map(|latency| micros(latency.value)));
    if optional.writes {
        let writes = row.writes.as_ref();
        texts.push(writes.map_or("-".to_owned(), |writes| number(writes.iops.value)));
        texts.push(writes.map_or("-".to_owned(), |writes| micros(writes.p99_us.value)));
    }
    let percent = |share: f64| format!("{:.0}", 100.0 * share);
    if row.shares.len() > SHARE_COLUMNS_MAX {
        let mut busiest: Vec<_> = row.shares.iter().collect();
        busiest.sort_by_key(|share| Reverse(share.reads));
        let shown = busiest.iter().take(4);
        let shown = shown.map(|share| format!("{}:{}", share.devid, percent(share.share)));
        texts.push(shown.collect::<Vec<String>>().join(" "));
    } else {
        texts.extend(row.shares.iter().map(|share| percent(share.share)));
    }
    if optional.extra_reads {
        texts.push(self::percent(100.0 * row.extra_per_read));
    }
    texts.push(row.fraction_of_oracle.map_or(String::new(), percent));
    let emphasis = match row.standing {
        Standing::Best => Emphasis::Best,
        Standing::Tied => Emphasis::Tied,
        Standing::Behind => Emphasis::None,
        Standing::Reference => Emphasis::Reference,
    };
    GridRow { emphasis, texts }
}

fn failures(row: &Row) -> Option<String> {
    let errors = row.figures.errors + row.writes.as_ref().map_or(0, |writes| writes.errors);
    (errors > 0).then(|| {
        format!("{}: {}", row.policy, counted(errors as usize, "request failed", "requests failed"))
    })
}

fn matrix_sheet(matrix: &Matrix, places: &[usize], part: usize) -> Sheet {
    let is_first = part == 0;
    let mut columns = vec![Column::left("policy")];
    if is_first {
        columns.push(Column::right("geo.\nmean"));
    }
    columns.extend(places.iter().map(|&place| Column::right(folded(&matrix.jobs[place]))));
    if is_first {
        columns.extend([Column::right("worst"), Column::left("under")]);
    }
    let row = |row: &MatrixRow| {
        let mut texts = vec![row.policy.clone()];
        if is_first {
            texts.push(percent(row.geometric_mean));
        }
        texts.extend(places.iter().map(|&place| percent(row.percent[place])));
        if is_first {
            texts.extend([percent(row.worst_percent), row.worst_job.clone()]);
        }
        let is_oracle = row.policy == ORACLE;
        let emphasis = if is_oracle { Emphasis::Reference } else { Emphasis::None };
        GridRow { emphasis, texts }
    };
    let mut rows: Vec<GridRow> = matrix.rows.iter().map(row).collect();
    if is_first {
        rows[0].emphasis = Emphasis::Best;
    }
    let continued = if is_first { "" } else { ", continued" };
    Sheet {
        heading: format!("speed in % of the best policy{continued}"),
        grid: Grid { columns, rows },
        notes: Vec::new(),
    }
}

/// A percentage: whole, with a decimal where that is all there is.
fn percent(value: f64) -> String {
    if value > 0.0 && value < 9.95 { format!("{value:.1}") } else { format!("{value:.0}") }
}

/// A rate with three figures or more.
fn number(value: f64) -> String {
    let digits = match value {
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.digits$}")
}

fn micros(value: f64) -> String {
    Nanos::from_secs_f64(value / 1e6).to_string()
}

/// A long name on several lines, broken before its hyphens.
fn folded(name: &str) -> String {
    let mut lines = vec![String::new()];
    for part in name.split_inclusive('-') {
        let last = lines.last_mut().expect("starts with a line");
        if !last.is_empty() && last.chars().count() + part.chars().count() > FOLDED_WIDTH {
            lines.push(part.to_owned());
        } else {
            last.push_str(part);
        }
    }
    lines.join("\n")
}
