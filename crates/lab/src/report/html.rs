//! The report as one HTML file: why a policy wins, in pictures.
//!
//! The file is self-contained: no network, no font, no library. Charts are drawn here as SVG; a
//! small script adds hovering, zooming and the choice of policies, and paints the dots of one
//! picture on a canvas. Everything shown comes from saved results.
//!
//! `gather` puts the repeats of each policy on one grid of time; `chart` computes
//! geometry; each figure of the page is a file; `layout` orders them. Texts from files (names, job
//! and array texts) are escaped by `maud`, which escapes everything except the style sheet, the
//! script and the packed panels.
//!
//! Non-goals: statistics (the study computes them), and the same look in every browser.

mod appendix;
mod differences;
mod distribution;
mod figures;
mod gather;
mod grid;
mod heat;
mod layout;
mod lazy_panels;
mod matrix;
mod members;
mod offsets;
mod overlay;
mod panels;
mod rates;
mod series;
mod series_styles;
mod subject;
mod verdict;

use crate::experiment::results::ResultSet;
use crate::experiment::study::{Comparison, Study};
use gather::JobView;
use maud::{Markup, html};
use series_styles::SeriesStyles;

/// The page for one set of results or several side by side. Panics if there is none.
pub fn render(parts: &[ResultSet]) -> String {
    render_with(None, parts)
}

/// A decision of its own in the place of a report's verdict.
pub(crate) struct Lead {
    pub(crate) title: String,
    pub(crate) decision: Markup,
    /// The policies that it names, which are shown from the start.
    pub(crate) policies: Vec<String>,
}

/// The same with a decision in front. Panics if there is no set of results.
pub(crate) fn render_with(lead: Option<Lead>, parts: &[ResultSet]) -> String {
    assert!(!parts.is_empty(), "a report about nothing");
    let named = lead.as_ref().map_or(&[][..], |lead| &lead.policies);
    let styles = SeriesStyles::new(parts, named);
    let jobs = gather::jobs(parts, &styles);
    let studies: Vec<(&str, &Study)> =
        parts.iter().map(|set| (set.label.as_str(), &set.study)).collect();
    let comparison = Comparison::new(&studies);
    layout::page(&View { parts, styles, jobs, comparison, lead })
}

/// Everything that a figure may draw on.
struct View<'a> {
    parts: &'a [ResultSet],
    styles: SeriesStyles,
    jobs: Vec<JobView<'a>>,
    comparison: Option<Comparison>,
    lead: Option<Lead>,
}

impl View<'_> {
    /// `, before` where there are several sets.
    fn of_set(&self, part: usize) -> String {
        if self.parts.len() == 1 { String::new() } else { format!(", {}", self.parts[part].label) }
    }

    fn has_several_jobs(&self) -> bool {
        self.parts.iter().any(|part| part.study.jobs.len() > 1)
    }

    /// The name of the set as a tag, where there are several.
    fn set_mark(&self, part: usize) -> Markup {
        html! {
            @if self.parts.len() > 1 { " " span.set { (self.parts[part].label) } }
        }
    }
}

#[cfg(test)]
mod tests;
