//! The report as one HTML file: why a policy wins, in pictures.
//!
//! The file needs nothing else: no network, no font, no library. Charts are drawn here as SVG; a
//! small script adds hovering, zooming and the choice of policies, and paints the dots of one
//! picture on a canvas. Everything shown comes from saved results.
//!
//! `gather` puts the repeats of each policy on one grid of time; `chart` holds geometry; each
//! figure of the page is a file; `page` puts them in order. Texts from files (names, job and array
//! texts) are escaped by `maud`, which escapes everything that it is not told to leave alone; only
//! the style sheet, the script and packed parcels are.
//!
//! Non-goals: to choose what is true (that is the study's), and to look the same everywhere.

mod appendix;
mod chart;
mod counters;
pub mod decisions;
mod differences;
mod distribution;
mod figures;
mod gather;
mod grid;
mod heat;
mod matrix;
mod members;
mod offsets;
mod overlay;
mod page;
mod panels;
mod rates;
mod roster;
mod series;
mod stash;
mod verdict;

use crate::experiment::results::ResultSet;
use crate::experiment::study::{Comparison, Study};
use gather::JobView;
use maud::{Markup, html};
use roster::Roster;

/// The page for one set of results or several side by side.
///
/// # Panics
/// If there is none.
pub fn render(parts: &[ResultSet]) -> String {
    assert!(!parts.is_empty(), "a report about nothing");
    let roster = Roster::new(parts);
    let jobs = gather::jobs(parts, &roster);
    let studies: Vec<(&str, &Study)> =
        parts.iter().map(|set| (set.label.as_str(), &set.study)).collect();
    let comparison = Comparison::new(&studies);
    page::draw(&View { parts, roster, jobs, comparison }).into_string()
}

/// Everything that a figure may draw on.
struct View<'a> {
    parts: &'a [ResultSet],
    roster: Roster,
    jobs: Vec<JobView<'a>>,
    comparison: Option<Comparison>,
}

impl View<'_> {
    /// `, before` where there are several sets.
    fn of_set(&self, part: usize) -> String {
        if self.parts.len() == 1 { String::new() } else { format!(", {}", self.parts[part].label) }
    }

    /// The name of the set as a tag, where there are several.
    fn set_mark(&self, part: usize) -> Markup {
        html! {
            @if self.parts.len() > 1 { " " span.set { (self.parts[part].label) } }
        }
    }
}

#[cfg(test)]
mod palette_tests;
#[cfg(test)]
mod tests;
