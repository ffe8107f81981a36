//! Policies against jobs as a heat map, which is also where policies are chosen.
//!
//! A cell is a policy's speed in percent of the best of the job; a mark shows the best and its
//! ties. The figure and its interval appear on hovering.

use super::View;
use crate::experiment::record::ORACLE;
use crate::experiment::study::{Estimate, JobStudy, Row, Standing, Yardstick};
use crate::report::chart::number::{duration, percent, plain};
use maud::{Markup, html};

/// Colours of the matrix in the style sheet, `q0` (slow) and so on.
const LEVELS: usize = 10;

/// The matrix of one set.
pub(super) fn draw(view: &View<'_>, part: usize) -> Markup {
    let study = &view.parts[part].study;
    let has_several = view.has_several_jobs();
    let of_each = if has_several { " of each job" } else { "" };
    let caption = format!("Speed in percent of the best policy{of_each}{}", view.of_set(part));
    html! {
        div.scroll tabindex="0" role="group" aria-label=(caption) {
            table.matrix data-kind="matrix" {
                caption { (caption) }
                thead {
                    tr {
                        th scope="col" { "policy" }
                        th.number scope="col" title="geometric mean over the jobs" { "mean" }
                        @for job in &study.matrix.jobs { th.job scope="col" { (wrappable(job)) } }
                        th.number scope="col" title="the least of the row" { "worst" }
                    }
                }
                tbody {
                    @for row in &study.matrix.rows {
                        @let number = view.styles.number(&row.policy);
                        tr data-row=(number) {
                            th scope="row" { (chooser(view, number)) }
                            td class={ "number " (level(row.geometric_mean)) } {
                                b { (percent(row.geometric_mean)) }
                            }
                            @for (job, value) in study.jobs.iter().zip(&row.percent) {
                                (cell(job, &row.policy, *value))
                            }
                            td.number title=(row.worst_job) { (percent(row.worst_percent)) }
                        }
                    }
                }
            }
        }
    }
}

/// The box that shows or hides a policy on the whole page.
fn chooser(view: &View<'_>, number: usize) -> Markup {
    let entry = view.styles.get(number);
    html! {
        label {
            input type="checkbox" data-choose=(number) checked[entry.is_shown]
                aria-label={ "show " (entry.name) };
            span class={ "swatch " (entry.classes) } {}
            (entry.name)
        }
    }
}

fn cell(job: &JobStudy, policy: &str, value: f64) -> Markup {
    let row = job.rows.iter().find(|row| row.policy == policy);
    let mark = row.map_or("", |row| mark(row.standing));
    let title = row.map(|row| format!("{policy}, {}: {}", job.job, in_words(job, row)));
    html! {
        td class={ "number " (level(value)) } title=[title] {
            @if !mark.is_empty() { span.mark { (mark) } }
            (percent(value))
        }
    }
}

/// The ranked figure with its interval.
fn in_words(job: &JobStudy, row: &Row) -> String {
    let (figures, standing) = (job.main_figures(row), row.standing);
    let (Estimate { value, low, high }, write): (_, fn(f64) -> String) = match job.yardstick {
        Yardstick::Iops => (figures.iops, |value| format!("{} IOPS", plain(value))),
        Yardstick::MeanLatency => {
            (figures.mean_us, |value| format!("{} on average", duration(value)))
        }
        Yardstick::Score => (row.score, |value| format!("score {}", plain(value))),
    };
    let interval = match low.zip(high) {
        Some((low, high)) => format!(" (95 % interval {} to {})", write(low), write(high)),
        None => " (one repeat, no interval)".to_owned(),
    };
    let standing = match standing {
        Standing::Best => ", the best",
        Standing::Tied => ", tied with the best",
        Standing::Undecided => ", not decided by these repeats",
        Standing::Behind => "",
        Standing::Reference => ", for reference",
    };
    format!("{}{interval}{standing}", write(value))
}

/// The mark of a policy that is the best, or ties with it.
pub(super) fn mark(standing: Standing) -> &'static str {
    match standing {
        Standing::Best => "★",
        Standing::Tied => "=",
        Standing::Undecided => "?",
        Standing::Behind | Standing::Reference => "",
    }
}

/// What the marks and colours mean.
pub(super) fn legend(view: &View<'_>) -> Markup {
    let one_repeat = view.parts.iter().all(|part| part.study.plan.seeds.len() < 2);
    let has_oracle = view.styles.all().any(|(_, entry)| entry.name == ORACLE);
    html! {
        p.description {
            "★ best of the job. "
            @if one_repeat {
                "With one repeat there is no interval, and ties cannot be tested. "
            } @else {
                "= tied with the best: the interval of the paired differences contains zero and \
                 is small. ? not decided by these repeats. "
            }
            @if has_oracle {
                "The oracle reads from the disk that will answer first; it is not ranked. "
            }
            "Hover over a cell for its figure and interval; tick a policy to see it below."
        }
    }
}

fn level(value: f64) -> String {
    format!("q{}", ((value / 100.0 * LEVELS as f64) as usize).min(LEVELS - 1))
}

/// A name that may break after its hyphens.
pub(super) fn wrappable(name: &str) -> Markup {
    html! { @for part in name.split_inclusive(['-', '/', '_']) { (part) wbr; } }
}
