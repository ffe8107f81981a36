//! Standings as one HTML file that needs nothing else: the league with a bar for each policy, and
//! for each subject a map of arrays and jobs, whose cells show their figures on hovering.

use super::standings::{LeagueRow, LeagueTable, Pairing, Standings};
use super::text::{Detail, shown, summary, title};
use crate::report::Emphasis;
use crate::report::page::page;
use maud::{Markup, html};

/// Kept small on purpose: the page is read, not played with.
const STYLE: &str = "body{font:15px/1.5 sans-serif;max-width:90em;margin:2em auto;padding:0 1em}\
    table{border-collapse:collapse;margin:.6em 0}td,th{padding:.1em .5em;text-align:right}\
    td:first-child,th:first-child{text-align:left}th{border-bottom:1px solid #888}\
    .bar{display:inline-block;height:9px;border-radius:2px;background:#999}\
    .subject .bar{background:#06c}.subject{font-weight:bold}.reference{color:#777}\
    .map{font-size:12px}.map th.job{writing-mode:vertical-rl;text-align:left;padding:.5em .1em}\
    .map td{border:1px solid #fff}.scroll{overflow-x:auto}";

/// Width of the bar of a ratio of one, in pixels.
const BAR_WIDTH: f64 = 160.0;

/// The page of a league.
pub fn render(standings: &Standings) -> String {
    let body = html! {
        p { "A ratio is the IOPS of a policy over those of the best rival of the pairing; \
             where the job sets its own pace, the best rival's mean latency over the \
             policy's. " code { (standings.command) } }
        @for table in &standings.tables { (part(standings, table)) }
    };
    page("League of read policies", STYLE, &body)
}

fn part(standings: &Standings, table: &LeagueTable) -> Markup {
    html! {
        h2 { (title(standings, table)) }
        ul { @for subject in &standings.subjects { li { (summary(standings, table, subject)) } } }
        table {
            tr {
                th { "policy" } th { "geo. mean" } th {} th { "of oracle" } th { "wins" }
                th { "worst" } th style="text-align:left" { "on" }
            }
            @for (emphasis, row) in shown(standings, table, Detail::All) { (standing(emphasis, row)) }
        }
        @for subject in &standings.subjects {
            h3 { (subject) ", ratio to the best rival" }
            div.scroll { (map(&standings.of(table), subject)) }
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
            td { (format!("{:.3}", row.geometric_mean)) }
            td style="text-align:left" {
                span.bar style=(format!("width:{:.0}px", BAR_WIDTH * row.geometric_mean)) {}
            }
            td { (format!("{:.3}", row.of_oracle)) }
            td { (row.wins) }
            td { (format!("{:.3}", row.worst)) }
            td style="text-align:left" { (row.worst_array) " " (row.worst_job) }
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
            tr { th {} @for job in &jobs { th.job { (job) } } }
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
        td title=(figures) style=(format!("background:{}", colour(entry.ratio))) {
            (format!("{:.2}", entry.ratio))
        }
    }
}

/// White where it ties, red where it is behind, blue where it is ahead; a factor of two is full.
fn colour(ratio: f64) -> String {
    let strength = (ratio.max(1e-3).log2().abs().min(1.0) * 45.0).round();
    let hue = if ratio < 1.0 { 8 } else { 215 };
    format!("hsl({hue} 80% {}%)", 100.0 - strength)
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
