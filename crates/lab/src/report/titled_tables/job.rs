//! The table of one job: a row per policy, the best first and the oracle last.

use super::{TitledTable, clipped, counted, micros, number};
use crate::experiment::study::{Direction, JobStudy, Row, RowFigures, Standing, Yardstick};
use crate::report::grid::{Column, Emphasis, Grid, GridRow, Layout, TableLimits};
use std::cmp::Reverse;

/// Members beyond which single shares are not shown, only the largest.
const SHARE_COLUMNS_MAX: usize = 10;
/// Characters of a policy's name that are shown; the built-in ones are shorter.
pub(super) const NAME_MAX: usize = 30;

pub(super) fn table(job: &JobStudy, limits: TableLimits) -> TitledTable {
    let judged = judged(job);
    let shown = Shown::new(job, limits);
    let mut rows: Vec<&Row> = job.rows.iter().collect();
    rows.sort_by(|left, right| {
        let is_oracle = |row: &Row| row.standing == Standing::Reference;
        let slowness = |row: &Row| match job.yardstick {
            Yardstick::Iops => -row.figures.iops.value,
            Yardstick::MeanLatency => row.figures.mean_us.value,
        };
        is_oracle(left).cmp(&is_oracle(right)).then(slowness(left).total_cmp(&slowness(right)))
    });
    let grid_rows = rows.iter().map(|row| shown.row(row)).collect();
    let grid = Grid { columns: shown.columns(), rows: grid_rows };
    let notes = rows.iter().filter_map(|row| failures(row)).collect();
    TitledTable { notes, ..TitledTable::fitted(format!("{}{judged}", job.job), grid, limits) }
}

/// Suffix of a job's heading: how the job is judged, and the rate it asks for.
fn judged(job: &JobStudy) -> String {
    let rate = match job.asked_iops {
        Some(asked) => format!("asks for {} IOPS", number(asked)),
        None => "sets its own rate".to_owned(),
    };
    match (job.judged_by, job.yardstick) {
        (Direction::Read, Yardstick::Iops) => String::new(),
        (Direction::Write, Yardstick::Iops) => " (writes)".to_owned(),
        (Direction::Read, Yardstick::MeanLatency) => format!(" ({rate}: by mean latency)"),
        (Direction::Write, Yardstick::MeanLatency) => {
            format!(" (writes; {rate}: by mean latency)")
        }
    }
}

/// Optional columns that a table has.
struct Shown {
    writes: bool,
    extra_reads: bool,
    withdrawn_reads: bool,
    oracle: bool,
    shares: Shares,
}

/// How the members' shares of the reads are shown.
enum Shares {
    /// Not shown: an imported result does not have them.
    Nothing,
    /// A column for each of these devids.
    Columns(Vec<u64>),
    /// In one column, as `50/50`.
    Joined,
    /// In one column, the largest only.
    Largest,
}

impl Shown {
    fn new(job: &JobStudy, limits: TableLimits) -> Shown {
        let devids: Vec<u64> = job.rows[0].shares.iter().map(|share| share.devid).collect();
        Shown {
            writes: job.rows.iter().any(|row| row.writes.is_some()),
            extra_reads: job.rows.iter().any(|row| row.extra_per_read > 0.0),
            withdrawn_reads: job.rows.iter().any(|row| row.withdrawn_per_read > 0.0),
            oracle: job.rows.iter().any(|row| row.standing == Standing::Reference),
            shares: match (devids.len(), limits.layout) {
                (0, _) => Shares::Nothing,
                (count, _) if count > SHARE_COLUMNS_MAX => Shares::Largest,
                (_, Layout::Open) => Shares::Columns(devids),
                (_, Layout::Ruled) => Shares::Joined,
            },
        }
    }

    fn columns(&self) -> Vec<Column> {
        let mut columns = vec![
            Column::left("policy"),
            Column::right("IOPS"),
            Column::right("±"),
            Column::right("MiB/s").droppable(7),
            Column::right("p50").droppable(5),
            Column::right("p99"),
            Column::right("p99.9").droppable(6),
            Column::right("p99.99").droppable(3),
        ];
        if self.writes {
            let column = |title| Column::right(title).under("writes").droppable(1);
            columns.extend(["IOPS", "p99"].map(column));
        }
        match &self.shares {
            Shares::Nothing => {}
            Shares::Columns(devids) => {
                let column = |devid: &u64| Column::right(devid.to_string());
                let share = |devid| column(devid).under("reads by devid, %").droppable(2);
                columns.extend(devids.iter().map(share));
            }
            Shares::Joined => columns.push(Column::right("reads by\ndevid, %").droppable(2)),
            Shares::Largest => columns.push(Column::right("most reads by devid, %").droppable(2)),
        }
        if self.extra_reads {
            // The cost of redundant reads is never left out.
            columns.push(Column::right("reads, %").under("extra"));
        }
        if self.withdrawn_reads {
            columns.push(Column::right("reads, %").under("withdrawn").droppable(8));
        }
        if self.oracle {
            columns.push(Column::right("oracle").under("% of").droppable(4));
        }
        columns
    }

    fn row(&self, row: &Row) -> GridRow {
        let RowFigures { iops, mib_per_s, p50_us, p99_us, p99_9_us, p99_99_us, .. } = &row.figures;
        let relative = iops.relative().map(|width| format!("{:.0}%", 100.0 * width));
        let relative = relative.unwrap_or("-".to_owned());
        let name = clipped(&row.policy, NAME_MAX);
        let mut texts = vec![name, number(iops.value), relative, number(mib_per_s.value)];
        texts.extend([p50_us, p99_us, p99_9_us, p99_99_us].map(|latency| micros(latency.value)));
        if self.writes {
            let writes = row.writes.as_ref();
            texts.push(writes.map_or("-".to_owned(), |writes| number(writes.iops.value)));
            texts.push(writes.map_or("-".to_owned(), |writes| micros(writes.p99_us.value)));
        }
        texts.extend(self.shares.texts(row));
        if self.extra_reads {
            texts.push(super::percent(100.0 * row.extra_per_read));
        }
        if self.withdrawn_reads {
            texts.push(super::percent(100.0 * row.withdrawn_per_read));
        }
        if self.oracle {
            texts.push(row.fraction_of_oracle.map_or(String::new(), whole_percent));
        }
        let emphasis = match row.standing {
            Standing::Best => Emphasis::Best,
            Standing::Tied => Emphasis::Tied,
            Standing::Behind => Emphasis::None,
            Standing::Reference => Emphasis::Reference,
        };
        GridRow { emphasis, texts }
    }
}

impl Shares {
    fn texts(&self, row: &Row) -> Vec<String> {
        let shares = &row.shares;
        match self {
            Shares::Nothing => Vec::new(),
            Shares::Columns(devids) => {
                let share = |devid: &u64| shares.iter().find(|share| share.devid == *devid);
                let text =
                    |devid| share(devid).map_or("-".to_owned(), |one| whole_percent(one.share));
                devids.iter().map(text).collect()
            }
            Shares::Joined => {
                let texts: Vec<String> =
                    shares.iter().map(|one| whole_percent(one.share)).collect();
                vec![texts.join("/")]
            }
            Shares::Largest => {
                let mut busiest: Vec<_> = shares.iter().collect();
                busiest.sort_by_key(|share| Reverse(share.reads));
                let shown = busiest.iter().take(4);
                let shown = shown.map(|one| format!("{}:{}", one.devid, whole_percent(one.share)));
                vec![shown.collect::<Vec<String>>().join(" ")]
            }
        }
    }
}

/// A fraction in whole percent.
fn whole_percent(share: f64) -> String {
    format!("{:.0}", 100.0 * share)
}

fn failures(row: &Row) -> Option<String> {
    let errors = row.figures.errors + row.writes.as_ref().map_or(0, |writes| writes.errors);
    (errors > 0).then(|| {
        format!("{}: {}", row.policy, counted(errors as usize, "request failed", "requests failed"))
    })
}
