//! The tables of one job: a row per policy, the best first and the oracle last.
//!
//! A job with one section has one table. A job with several has a table of scores and then one of
//! figures per section, with the policies in the same order; marks are of the job as a whole, so
//! only the table of scores has them.

use super::{TitledTable, clipped, micros, number, percent, remarks, whole};
use crate::experiment::study::{
    Figure, IoKind, JobStudy, Row, RowFigures, SectionRow, SectionStudy, Standing, Term,
};
use crate::report::grid::{Column, Emphasis, Grid, GridRow, Layout, TableLimits};
use mirrorball_core::policies::short_policy_name;
use std::cmp::Reverse;

/// Members beyond which single shares are not shown, only the largest.
const SHARE_COLUMNS_MAX: usize = 10;

/// Every table of a job. `repeats` is the number of seeds.
pub(super) fn tables(job: &JobStudy, repeats: usize, limits: TableLimits) -> Vec<TitledTable> {
    let mut rows: Vec<&Row> = job.rows.iter().collect();
    rows.sort_by(|left, right| {
        let by_score = right.score.value.total_cmp(&left.score.value);
        left.is_oracle().cmp(&right.is_oracle()).then(by_score)
    });
    let table = Table { job, rows: &rows, repeats };
    let mut tables = match &job.sections[..] {
        [only] => {
            let heading = format!("{}{}", job.job, declared(job, only));
            let mut parts = vec![Part::Figures(0), Part::Whole(Whole::new(job, limits))];
            if !job.terms.iter().all(is_throughput) {
                parts.insert(0, Part::Terms);
            }
            vec![table.titled(heading, limits, &parts)]
        }
        sections => {
            let heading = format!("{} ({} sections)", job.job, sections.len());
            let scores = [Part::Scores, Part::Whole(Whole::new(job, limits))];
            let mut tables = vec![table.titled(heading, limits, &scores)];
            tables.extend(sections.iter().enumerate().map(|(index, section)| {
                let declared = declared(job, section);
                let heading = format!("{}, section {}{declared}", job.job, section.name);
                let mut titled = table.titled(heading, limits, &[Part::Figures(index)]);
                titled.grid.rows.iter_mut().for_each(|row| row.emphasis = row.emphasis.unmarked());
                titled
            }));
            tables
        }
    };
    let first = &mut tables[0];
    first.notes = rows.iter().filter_map(|row| remarks::failures(row)).collect();
    first.notes.extend(remarks::missed_rates(job, &rows));
    first.notes.extend(remarks::few_requests(job, &rows));
    if job.had_choice == Some(false) {
        first.notes.push(format!("no policy had a choice: {}", job.why_no_choice()));
    }
    first.remarks = remarks::unsteady(&rows);
    first.remarks.extend(remarks::changing_writes(job));
    first.remarks.extend(remarks::cached_writes(job));
    first.remarks.extend(remarks::array_cache(job));
    first.remarks.extend(remarks::controller(job));
    tables
}

/// How a section is judged, for its heading: empty for reads that are judged by their throughput.
fn declared(job: &JobStudy, section: &SectionStudy) -> String {
    let mut parts: Vec<String> = Vec::new();
    match section.main_kind {
        IoKind::Read => {}
        IoKind::Write => parts.push("writes".to_owned()),
        IoKind::Trim => parts.push("trims".to_owned()),
        IoKind::Fsync => parts.push("flushes".to_owned()),
    }
    if section.has_rate {
        parts.push(match section.asked_iops {
            Some(asked) => format!("asks for {} IOPS", whole(asked)),
            None => "sets its own rate".to_owned(),
        });
    }
    let terms = job.terms.iter().filter(|term| term.section.as_ref() == Some(&section.name));
    let terms: Vec<&Term> = terms.collect();
    if !terms.iter().all(|term| is_throughput(term)) {
        let figures: Vec<String> = terms.iter().map(|term| in_words(job, section, term)).collect();
        parts.push(format!("ranked by {}", figures.join(" and ")));
    }
    if !section.counts {
        parts.push("not in the score".to_owned());
    }
    if parts.is_empty() { String::new() } else { format!(" ({})", parts.join("; ")) }
}

fn is_throughput(term: &Term) -> bool {
    term.figure == Figure::Iops && term.kind.is_none()
}

/// A figure by which a section is ranked, for its heading.
fn in_words(job: &JobStudy, section: &SectionStudy, term: &Term) -> String {
    let mean = if term.figure == Figure::Mean { "mean " } else { "" };
    let index = job.sections.iter().position(|it| it.name == section.name);
    let flushes = index.is_some_and(|index| {
        term.figure == Figure::Mean
            && term.kind.is_none()
            && section.has_rate
            && job.rows.iter().any(|row| row.sections[index].fsyncs.is_some())
    });
    format!("{mean}{}{}", figure_title(term), if flushes { " with fsync" } else { "" })
}

/// The title of a column with a figure that is part of the score.
fn figure_title(term: &Term) -> String {
    let kind = term.kind.map_or(String::new(), |kind| format!("{} ", kind.name()));
    let figure = match term.figure {
        Figure::Iops => "IOPS",
        Figure::Mib => "MiB/s",
        Figure::Mean => "latency",
        percentile => percentile.name(),
    };
    kind + figure
}

fn figure_text(term: &Term, value: f64) -> String {
    match term.figure {
        Figure::Iops | Figure::Mib => number(value),
        _ => micros(value),
    }
}

/// The rows that the tables of a job share.
struct Table<'a> {
    job: &'a JobStudy,
    rows: &'a [&'a Row],
    repeats: usize,
}

/// Columns that belong together.
enum Part {
    /// Figures of the section at this index.
    Figures(usize),
    /// Scores, and the figures that they are made of.
    Scores,
    /// The figures that scores are made of.
    Terms,
    /// What is known of the job as a whole.
    Whole(Whole),
}

impl Table<'_> {
    fn titled(&self, heading: String, limits: TableLimits, parts: &[Part]) -> TitledTable {
        let mut columns = vec![Column::left("policy")];
        columns.extend(parts.iter().flat_map(|part| self.columns(part)));
        let row = |row: &&Row| {
            let mut texts = vec![short_policy_name(&row.policy)];
            texts.extend(parts.iter().flat_map(|part| self.texts(part, row)));
            GridRow { emphasis: self.emphasis(row), texts }
        };
        let rows = self.rows.iter().map(row).collect();
        TitledTable::fitted(heading, Grid { columns, rows }, limits)
    }

    fn columns(&self, part: &Part) -> Vec<Column> {
        match part {
            Part::Figures(index) => Besides::new(self.rows, *index).columns(),
            Part::Scores => {
                let mut columns =
                    vec![Column::right("score").under("% of best"), Column::right("±")];
                columns.extend(self.job.terms.iter().map(|term| {
                    let section = term.section.as_deref().unwrap_or_default();
                    Column::right(figure_title(term)).under(clipped(section, 14)).droppable(4)
                }));
                columns
            }
            Part::Terms => {
                let terms = self.job.terms.iter();
                terms.map(|term| Column::right(figure_title(term)).under("ranked by")).collect()
            }
            Part::Whole(whole) => whole.columns(),
        }
    }

    fn texts(&self, part: &Part, row: &Row) -> Vec<String> {
        match part {
            Part::Figures(index) => {
                let asked = self.job.sections[*index].asked_iops;
                Besides::new(self.rows, *index).texts(&row.sections[*index], asked)
            }
            Part::Scores => {
                let best = self.rows.iter().find(|row| row.standing == Standing::Best);
                let best = best.map_or(0.0, |best| best.score.value);
                let of_best = if best > 0.0 { 100.0 * row.score.value / best } else { 0.0 };
                let mut texts = vec![percent(of_best), relative(&row.score)];
                texts.extend(self.terms(row));
                texts
            }
            Part::Terms => self.terms(row).collect(),
            Part::Whole(whole) => whole.texts(row),
        }
    }

    fn terms(&self, row: &Row) -> impl Iterator<Item = String> {
        let values = self.job.terms.iter().zip(&row.terms);
        values.map(|(term, &value)| figure_text(term, value))
    }

    /// A single repeat decides nothing, so nothing is marked but the highest score.
    fn emphasis(&self, row: &Row) -> Emphasis {
        if self.job.best.is_none() {
            return Emphasis::None;
        }
        match row.standing {
            Standing::Best => Emphasis::Best,
            Standing::Tied => Emphasis::Tied,
            Standing::Undecided if self.repeats > 1 => Emphasis::Unsure,
            Standing::Undecided | Standing::Behind => Emphasis::None,
            Standing::Reference => Emphasis::Reference,
        }
    }
}

/// Kinds of requests of a section besides its main one.
struct Besides {
    writes: bool,
    trims: bool,
    fsyncs: bool,
}

impl Besides {
    fn new(rows: &[&Row], section: usize) -> Besides {
        let any = |is_made: &dyn Fn(&SectionRow) -> bool| {
            rows.iter().any(|row| is_made(&row.sections[section]))
        };
        Besides {
            writes: any(&|row| row.writes.is_some()),
            trims: any(&|row| row.trims.is_some()),
            fsyncs: any(&|row| row.fsyncs.is_some()),
        }
    }

    fn columns(&self) -> Vec<Column> {
        let mut columns = vec![
            Column::right("IOPS"),
            Column::right("±").droppable(1),
            Column::right("MiB/s").droppable(7),
            Column::right("p50").droppable(5),
            Column::right("p99"),
            Column::right("p99.9").droppable(6),
            Column::right("p99.99").droppable(3),
        ];
        let rate_and_tail = |group: &'static str| {
            ["IOPS", "p99"].map(|title| Column::right(title).under(group).droppable(1))
        };
        if self.writes {
            columns.extend(rate_and_tail("writes"));
        }
        if self.trims {
            columns.extend(rate_and_tail("trims"));
        }
        if self.fsyncs {
            // What a program waits for that flushes: its tail is never left out.
            columns.push(Column::right("p50").under("fsync").droppable(1));
            columns.push(Column::right("p99").under("fsync"));
        }
        columns
    }

    fn texts(&self, row: &SectionRow, asked_iops: Option<f64>) -> Vec<String> {
        let RowFigures { iops, mib_per_s, p50_us, p99_us, p99_9_us, p99_99_us, .. } = &row.figures;
        let rate = match asked_iops.filter(|_| row.missed_rate) {
            Some(asked) => format!("{} of {}", number(iops.value), whole(asked)),
            None => number(iops.value),
        };
        let none = || "-".to_owned();
        let mut texts = vec![rate, relative(iops), number(mib_per_s.value)];
        let has_latency = iops.value > 0.0;
        texts.extend([p50_us, p99_us, p99_9_us, p99_99_us].map(|latency| match has_latency {
            true => micros(latency.value),
            false => none(),
        }));
        for (is_shown, figures) in [(self.writes, &row.writes), (self.trims, &row.trims)] {
            if is_shown {
                let figures = figures.as_ref();
                texts.push(figures.map_or(none(), |figures| number(figures.iops.value)));
                texts.push(figures.map_or(none(), |figures| micros(figures.p99_us.value)));
            }
        }
        if self.fsyncs {
            let figures = row.fsyncs.as_ref();
            texts.push(figures.map_or(none(), |figures| micros(figures.p50_us.value)));
            texts.push(figures.map_or(none(), |figures| micros(figures.p99_us.value)));
        }
        texts
    }
}

/// Columns about the job as a whole: shares of the members, reads that were not needed, the oracle.
struct Whole {
    extra_reads: bool,
    withdrawn_reads: bool,
    oracle: bool,
    shares: Shares,
}

/// How the members' shares of the reads are shown.
enum Shares {
    /// Not at all: an imported result does not have them.
    Nothing,
    /// A column for each of these devids.
    Columns(Vec<u64>),
    /// In one column, as `50/50`.
    Joined,
    /// In one column, the largest only.
    Largest,
}

impl Whole {
    fn new(job: &JobStudy, limits: TableLimits) -> Whole {
        let devids: Vec<u64> = job.rows[0].shares.iter().map(|share| share.devid).collect();
        Whole {
            extra_reads: job.rows.iter().any(|row| row.extra_per_read > 0.0),
            withdrawn_reads: job.rows.iter().any(|row| row.withdrawn_per_read > 0.0),
            oracle: job.rows.iter().any(Row::is_oracle),
            shares: match (devids.len(), limits.layout) {
                (0, _) => Shares::Nothing,
                (count, _) if count > SHARE_COLUMNS_MAX => Shares::Largest,
                (_, Layout::Open) => Shares::Columns(devids),
                (_, Layout::Ruled) => Shares::Joined,
            },
        }
    }

    fn columns(&self) -> Vec<Column> {
        let mut columns = Vec::new();
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
            // What a policy that reads twice costs: never left out.
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

    fn texts(&self, row: &Row) -> Vec<String> {
        let mut texts = self.shares.texts(row);
        if self.extra_reads {
            texts.push(percent(100.0 * row.extra_per_read));
        }
        if self.withdrawn_reads {
            texts.push(percent(100.0 * row.withdrawn_per_read));
        }
        if self.oracle {
            texts.push(row.fraction_of_oracle.map_or(String::new(), whole_percent));
        }
        texts
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

/// Half the width of an interval in percent of its figure.
fn relative(estimate: &crate::experiment::study::Estimate) -> String {
    match estimate.relative() {
        Some(width) if width > 1.0 => ">100%".to_owned(),
        Some(width) => format!("{:.0}%", 100.0 * width),
        None => "-".to_owned(),
    }
}

/// A fraction in whole percent.
fn whole_percent(share: f64) -> String {
    format!("{:.0}", 100.0 * share)
}
