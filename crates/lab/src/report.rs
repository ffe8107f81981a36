//! Reports: one small file per format over shared tables.
//!
//! A format is a row of [`FORMATS`]: a name and a function from [`Findings`] to text.
//! `titled_tables` decides what is shown and how figures are written, `grid` lays a table out;
//! `table` and `markdown` only differ in the drawing. A report never measures and never computes
//! what the study does not hold. **Adding a format is one file and one row.**

mod brief;
pub(crate) mod chart;
mod csv;
pub mod explain;
mod grid;
pub mod html;
mod json;
pub(crate) mod markdown;
pub(crate) mod page;
mod table;
pub(crate) mod text;
mod titled_tables;

pub use brief::TableExtent;
pub use grid::{Align, Column, Emphasis, Grid, GridBuilder, GridRow};
pub use page::is_page;
pub use table::{brief, draw, left_out};
pub use text::{command_lines, note, whole_phrases, whole_words, wrapped};
pub use titled_tables::number;

use crate::experiment::results::ResultSet;
use crate::experiment::study::{Comparison, Study};
#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

/// What a report is about: one study, or several side by side.
#[derive(Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Findings<'a> {
    /// The studies, in the order they were named. There is at least one.
    pub sets: Vec<Labelled<'a>>,
    /// The others compared with the first, if there are others.
    pub comparison: Option<Comparison>,
}

/// A study with its label.
#[derive(Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Labelled<'a> {
    /// Its name.
    pub label: &'a str,
    /// What its cells amount to.
    pub study: &'a Study,
}

/// One way to write findings.
#[derive(Debug)]
pub struct Format {
    /// Its name on the command line.
    pub name: &'static str,
    /// One-line description.
    pub summary: &'static str,
    /// True if people read it, so that text may follow.
    pub is_for_people: bool,
    pub render: fn(&Findings<'_>, Style) -> String,
}

/// How text output is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Whether colours are used.
    pub ink: ColourMode,
    /// Line width in characters, for formats without a width of their own.
    pub width_columns: usize,
}

/// Whether text uses colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColourMode {
    Plain,
    /// Terminal colours, in formats for terminals.
    Coloured,
}

impl Style {
    /// Text for a file: no colours, 120 columns.
    pub const FILE: Style = Style { ink: ColourMode::Plain, width_columns: 120 };
}

impl<'a> Findings<'a> {
    pub fn of_study(study: &'a Study) -> Findings<'a> {
        Findings { sets: vec![Labelled { label: "", study }], comparison: None }
    }

    /// Result sets side by side. There is at least one.
    pub fn of_sets(sets: &'a [ResultSet]) -> Findings<'a> {
        let pairs: Vec<(&str, &Study)> =
            sets.iter().map(|set| (set.label.as_str(), &set.study)).collect();
        Findings {
            sets: pairs.iter().map(|&(label, study)| Labelled { label, study }).collect(),
            comparison: Comparison::new(&pairs),
        }
    }

    /// The label and the study of each set; no label where there is one study only.
    fn labelled(&self) -> impl Iterator<Item = (Option<&str>, &Study)> {
        let is_shown = self.sets.len() > 1;
        self.sets.iter().map(move |set| (is_shown.then_some(set.label), set.study))
    }
}

/// Every format; the first is the default.
pub const FORMATS: &[Format] = &[
    Format {
        name: "table",
        summary: "tables for a terminal",
        is_for_people: true,
        render: table::render,
    },
    Format {
        name: "json",
        summary: "all results as JSON",
        is_for_people: false,
        render: json::render,
    },
    Format {
        name: "csv",
        summary: "one line per job, section, kind of request, policy and seed",
        is_for_people: false,
        render: csv::render,
    },
    Format {
        name: "markdown",
        summary: "tables for a page on GitHub",
        is_for_people: true,
        render: markdown::render,
    },
];

#[cfg(test)]
mod palette_tests;
#[cfg(test)]
mod tests;
