//! The tables of one job: a row per policy, the best first and the oracle last.
//!
//! A job with one section has one table. A job with several has a table of scores and then one of
//! figures per section, with the policies in the same order; marks are of the job as a whole, so
//! only the table of scores has them.

use super::{PAGE_WIDTH, TitledTable, clipped, micros, number, percent, remarks, whole};
use crate::experiment::study::{
    Estimate, Figure, IoKind, JobStudy, Row, RowFigures, SectionRow, SectionStudy, Standing, Term,
};
use crate::report::grid::{Column, Emphasis, Grid, GridBuilder};
use mirrorball_core::policies::short_policy_name;
use std::cmp::Reverse;

/// Members beyond which single shares are not shown, only the largest.
const SHARE_COLUMNS_MAX: usize = 10;

/// Every table of a job. `repeats` is the number of seeds.
pub(in crate::report) fn tables(job: &JobStudy, repeats: usize, width: usize) -> Vec<TitledTable> {
    let rows = ranked(job);
    let table = Table { job, rows: &rows, repeats };
    let mut tables = match &job.sections[..] {
        [only] => {
            let heading = format!("{}{}", job.job, declared(job, only));
            let mut grid = table.policies();
            if !job.terms.iter().all(Term::is_throughput) {
                grid = table.terms(grid, |_| "ranked by".to_owned(), 0);
            }
            let grid = table.whole(table.figures(grid, 0), width);
            vec![TitledTable::fitted(heading, grid.build(), width)]
        }
        sections => {
            let heading = format!("{} ({} sections)", job.job, sections.len());
            let scores = table.whole(table.scores(table.policies()), width);
            let mut tables = vec![TitledTable::fitted(heading, scores.build(), width)];
            tables.extend(sections.iter().enumerate().map(|(index, section)| {
                let declared = declared(job, section);
                let heading = format!("{}, section {}{declared}", job.job, section.name);
                let grid = table.figures(table.policies(), index);
                let grid = grid.marked(|row| table.emphasis(row).unmarked());
                TitledTable::fitted(heading, grid.build(), width)
            }));
            tables
        }
    };
    let first = &mut tables[0];
    first.notes = notes(job);
    first.remarks = remarks::unsteady(&rows);
    first.remarks.extend(remarks::changing_writes(job));
    first.remarks.extend(remarks::cached_writes(job));
    first.remarks.extend(remarks::array_cache(job));
    first.remarks.extend(remarks::controller(job));
    tables
}

/// The rows of a job, the best first and the oracle last.
pub(in crate::report) fn ranked(job: &JobStudy) -> Vec<&Row> {
    let mut rows: Vec<&Row> = job.rows.iter().collect();
    rows.sort_by(|left, right| {
        let by_score = right.score.value.total_cmp(&left.score.value);
        left.is_oracle().cmp(&right.is_oracle()).then(by_score)
    });
    rows
}

/// Warnings about the figures of a job.
pub(in crate::report) fn notes(job: &JobStudy) -> Vec<String> {
    let rows = ranked(job);
    let mut notes: Vec<String> = rows.iter().filter_map(|row| remarks::failures(row)).collect();
    notes.extend(remarks::missed_rates(job, &rows));
    notes.extend(remarks::few_requests(job, &rows));
    notes.extend(remarks::absent_latencies(job, &rows));
    if job.had_choice == Some(false) {
        notes.push(format!("no policy had a choice: {}", job.why_no_choice()));
    }
    notes
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
    let terms = job.terms.iter().filter(|term| term.section == section.name);
    let terms: Vec<&Term> = terms.collect();
    if !terms.iter().all(|term| term.is_throughput()) {
        let figures: Vec<String> = terms.iter().map(|term| in_words(job, section, term)).collect();
        parts.push(format!("ranked by {}", figures.join(" and ")));
    }
    if !section.counts {
        parts.push("not in the score".to_owned());
    }
    if parts.is_empty() { String::new() } else { format!(" ({})", parts.join("; ")) }
}

/// A figure by which a section is ranked, for its heading.
fn in_words(job: &JobStudy, section: &SectionStudy, term: &Term) -> String {
    let mean = if term.figure == Figure::Mean { "mean " } else { "" };
    let index = job.sections.iter().position(|it| it.name == section.name);
    let flushes = index.is_some_and(|index| {
        term.figure == Figure::Mean
            && section.has_rate
            && job.rows.iter().any(|row| row.sections[index].fsyncs.is_some())
    });
    format!("{mean}{}{}", figure_title(term), if flushes { " with fsync" } else { "" })
}

/// The title of a column with a figure that is part of the score.
fn figure_title(term: &Term) -> &'static str {
    match term.figure {
        Figure::Iops => "IOPS",
        Figure::Mib => "MiB/s",
        Figure::Mean => "latency",
        percentile => percentile.name(),
    }
}

fn figure_text(term: &Term, value: f64) -> String {
    match term.figure {
        Figure::Iops | Figure::Mib => number(value),
        _ if value == 0.0 => "-".to_owned(),
        _ => micros(value),
    }
}

/// The rows that the tables of a job share.
struct Table<'a> {
    job: &'a JobStudy,
    rows: &'a [&'a Row],
    repeats: usize,
}

/// Figures of one kind of requests of a section, if it makes such requests.
type FiguresOf = fn(&SectionRow) -> Option<&RowFigures>;

/// A table of policies under way.
type PolicyGrid<'a> = GridBuilder<&'a Row>;

impl<'a> Table<'a> {
    /// The policies, marked.
    fn policies(&self) -> PolicyGrid<'a> {
        let grid = Grid::of(self.rows.iter().copied()).marked(|row| self.emphasis(row));
        grid.column(Column::left("policy"), |row| short_policy_name(&row.policy))
    }

    /// Adds scores, and the figures that they are made of.
    fn scores(&self, grid: PolicyGrid<'a>) -> PolicyGrid<'a> {
        let best = self.rows.iter().find(|row| row.standing == Standing::Best);
        let best = best.map_or(0.0, |best| best.score.value);
        let of_best = |score: f64| if best > 0.0 { 100.0 * score / best } else { 0.0 };
        let grid = grid
            .column(Column::right("score").under("% of best"), |row| {
                percent(of_best(row.score.value))
            })
            .column(Column::right("±"), |row| relative(&row.score));
        self.terms(grid, |term| clipped(&term.section, 14), 4)
    }

    /// Adds the figures that scores are made of.
    fn terms(
        &self,
        grid: PolicyGrid<'a>,
        group: impl Fn(&Term) -> String,
        drop_order: u8,
    ) -> PolicyGrid<'a> {
        self.job.terms.iter().enumerate().fold(grid, |grid, (place, term)| {
            let column = Column::right(figure_title(term)).under(group(term));
            grid.column(column.droppable(drop_order), |row| figure_text(term, row.terms[place]))
        })
    }

    /// Adds the figures of a section: of its main requests, and of further kinds that it makes.
    fn figures(&self, grid: PolicyGrid<'a>, index: usize) -> PolicyGrid<'a> {
        let asked = self.job.sections[index].asked_iops;
        let main = |row: &&'a Row| &row.sections[index].figures;
        let latency = |pick: fn(&RowFigures) -> &Estimate| {
            move |row: &&Row| match &row.sections[index].figures {
                figures if figures.iops.value > 0.0 => micros(pick(figures).value),
                _ => "-".to_owned(),
            }
        };
        let mut grid = grid
            .column(Column::right("IOPS"), |row| {
                let iops = number(main(row).iops.value);
                match asked.filter(|_| row.sections[index].missed_rate) {
                    Some(asked) => format!("{iops} of {}", whole(asked)),
                    None => iops,
                }
            })
            .column(Column::right("±").droppable(1), |row| relative(&main(row).iops))
            .column(Column::right("MiB/s").droppable(7), |row| number(main(row).mib_per_s.value))
            .column(Column::right("p50").droppable(5), latency(|it| &it.p50_us))
            .column(Column::right("p99"), latency(|it| &it.p99_us))
            .column(Column::right("p99.9").droppable(6), latency(|it| &it.p99_9_us))
            .column(Column::right("p99.99").droppable(3), latency(|it| &it.p99_99_us));
        let kinds: [(&str, FiguresOf); 3] = [
            ("writes", |row| row.writes.as_ref()),
            ("trims", |row| row.trims.as_ref()),
            ("fsync", |row| row.fsyncs.as_ref()),
        ];
        for (group, of) in kinds {
            if !self.rows.iter().any(|row| of(&row.sections[index]).is_some()) {
                continue;
            }
            let text = |write: fn(&RowFigures) -> String| {
                move |row: &&Row| of(&row.sections[index]).map_or("-".to_owned(), write)
            };
            let column = |title| Column::right(title).under(group);
            let p99 = text(|it| micros(it.p99_us.value));
            grid = match group {
                // What a program waits for that flushes: its tail is never left out.
                "fsync" => grid
                    .column(column("p50").droppable(1), text(|it| micros(it.p50_us.value)))
                    .column(column("p99"), p99),
                _ => grid
                    .column(column("IOPS").droppable(1), text(|it| number(it.iops.value)))
                    .column(column("p99").droppable(1), p99),
            };
        }
        grid
    }

    /// Adds what is known of the job as a whole: shares of the members, reads that were not needed,
    /// the oracle.
    fn whole(&self, grid: PolicyGrid<'a>, width: usize) -> PolicyGrid<'a> {
        let mut grid = self.shares(grid, width);
        if self.rows.iter().any(|row| row.extra_per_read > 0.0) {
            // What a policy that reads twice costs: never left out.
            grid = grid.column(Column::right("reads, %").under("extra"), |row| {
                percent(100.0 * row.extra_per_read)
            });
        }
        if self.rows.iter().any(|row| row.withdrawn_per_read > 0.0) {
            let column = Column::right("reads, %").under("withdrawn").droppable(8);
            grid = grid.column(column, |row| percent(100.0 * row.withdrawn_per_read));
        }
        if self.rows.iter().any(|row| row.is_oracle()) {
            grid = grid.column(Column::right("oracle").under("% of").droppable(4), |row| {
                row.fraction_of_oracle.map_or(String::new(), whole_percent)
            });
        }
        grid
    }

    /// Adds the members' shares of the reads, in one column or in one for each member. An imported
    /// result does not have them.
    fn shares(&self, grid: PolicyGrid<'a>, width: usize) -> PolicyGrid<'a> {
        let devids: Vec<u64> = self.job.rows[0].shares.iter().map(|share| share.devid).collect();
        match (devids.len(), width) {
            (0, _) => grid,
            (count, _) if count > SHARE_COLUMNS_MAX => {
                let column = Column::right("most reads by devid, %").droppable(2);
                grid.column(column, |row| {
                    let mut busiest: Vec<_> = row.shares.iter().collect();
                    busiest.sort_by_key(|share| Reverse(share.reads));
                    let shown = busiest.iter().take(4);
                    let text = shown.map(|it| format!("{}:{}", it.devid, whole_percent(it.share)));
                    text.collect::<Vec<String>>().join(" ")
                })
            }
            (_, PAGE_WIDTH) => {
                grid.column(Column::right("reads by\ndevid, %").droppable(2), |row| {
                    let shares = row.shares.iter().map(|share| whole_percent(share.share));
                    shares.collect::<Vec<String>>().join("/")
                })
            }
            _ => devids.iter().fold(grid, |grid, devid| {
                let column = Column::right(devid.to_string()).under("reads by devid, %");
                grid.column(column.droppable(2), |row| {
                    let share = row.shares.iter().find(|share| share.devid == *devid);
                    share.map_or("-".to_owned(), |share| whole_percent(share.share))
                })
            }),
        }
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

/// Half the width of an interval in percent of its figure.
fn relative(estimate: &Estimate) -> String {
    match estimate.relative() {
        Some(width) if width > 1.0 => ">100%".to_owned(),
        Some(width) => format!("{:.0}%", 100.0 * width),
        None => "-".to_owned(),
    }
}

fn whole_percent(share: f64) -> String {
    format!("{:.0}", 100.0 * share)
}
