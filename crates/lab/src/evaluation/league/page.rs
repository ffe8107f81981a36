//! Standings as one self-contained HTML file: the league with a bar for each policy, and
//! for each subject a map of arrays and jobs, whose cells show their figures on hovering.

use super::standings::{LeagueRow, LeagueTable, Pairing, Standings};
use super::text::{Detail, shown, summary, title};
use crate::report::Emphasis;
use crate::report::page::Page;
use maud::{Markup, html};

const STYLE: &str = include_str!("page.css");

/// Width of the bar of a ratio of one, in pixels.
const BAR_WIDTH: f64 = 160.0;
/// Strongest colour of a cell, in percent, on which its text is readable.
const STRENGTH_MAX: f64 = 45.0;

/// The page of a league.
pub fn render(standings: &Standings) -> String {
    let title = "League of read policies";
    let body = html! { main {
        h1 { (title) }
        p { "A ratio is the IOPS of a policy divided by those of the best rival of the pairing or, \
             if the job sets the request rate, the mean latency of that rival divided by the \
             policy's. " code { (standings.command) } }
        @for table in &standings.tables { (part(standings, table)) }
    } };
    Page { title, style: STYLE, head: html! {}, body }.render()
}

fn part(standings: &Standings, table: &LeagueTable) -> Markup {
    html! {
        h2 { (title(standings, table)) }
        ul { @for subject in &standings.subjects { li { (summary(standings, table, subject)) } } }
        div.scroll { table {
            tr {
                th { "policy" } th.number { "geo. mean" } th {} th.number { "of oracle" }
                th.number { "wins" } th.number { "worst" } th { "on" }
            }
            @for (emphasis, row) in shown(standings, table, Detail::All) {
                (standing(emphasis, row))
            }
        } }
        @for subject in &standings.subjects {
            h3 { (subject) ", ratio to the best rival" }
            div.scroll tabindex="0" role="group" aria-label={ (subject) ", map of ratios" } {
                (map(&standings.of(table), subject))
            }
        }
    }
}

fn standing(emphasis: Emphasis, row: &LeagueRow) -> Markup {
    let class = match emphasis {
        Emphasis::Best => "subject",
        Emphasis::Reference => "reference",
        _ => "rival",
    };
    html! {
        tr class=(class) {
            td { (row.policy) }
            td.number { (format!("{:.3}", row.geometric_mean)) }
            td {
                span.length style=(format!("width:{:.0}px", BAR_WIDTH * row.geometric_mean)) {}
            }
            td.number { (format!("{:.3}", row.of_oracle)) }
            td.number { (row.wins) }
            td.number { (format!("{:.3}", row.worst)) }
            td { (row.worst_array) " " (row.worst_job) }
        }
    }
}

/// Arrays down, jobs across; a pairing that was not run is empty.
fn map(pairings: &[&Pairing], subject: &str) -> Markup {
    let arrays = distinct(pairings, |pairing| &pairing.array);
    let jobs = distinct(pairings, |pairing| &pairing.job);
    let at = |array: &str, job: &str| {
        pairings.iter().find(|pairing| pairing.array == array && pairing.job == job)
    };
    html! {
        table.map {
            tr { th {} @for job in &jobs { th.job scope="col" { (job) } } }
            @for array in &arrays {
                tr {
                    td { (array) }
                    @for job in &jobs {
                        @match at(array, job) {
                            Some(pairing) => (square(pairing, subject)),
                            None => td {},
                        }
                    }
                }
            }
        }
    }
}

fn square(pairing: &Pairing, subject: &str) -> Markup {
    let entry = pairing.entry(subject);
    let figures = format!(
        "{}, {}: best rival {} with {}; of the oracle {:.2}; p99.9 {:.2} of the rival's",
        pairing.array,
        pairing.job,
        pairing.best,
        pairing.best_figure(),
        entry.of_oracle,
        entry.p99_9_ratio
    );
    html! {
        td.number.ahead[entry.ratio > 1.0].behind[entry.ratio < 1.0]
            title=(figures) style={ "--strength:" (strength(entry.ratio)) "%" }
        {
            (format!("{:.2}", entry.ratio))
        }
    }
}

/// Strength of a cell's colour in percent: none for a tie, full for a factor of two.
fn strength(ratio: f64) -> f64 {
    (STRENGTH_MAX * ratio.max(1e-3).log2().abs().min(1.0)).round()
}

fn distinct<'a>(pairings: &[&'a Pairing], name: fn(&Pairing) -> &String) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    for pairing in pairings {
        let name = name(pairing).as_str();
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}
