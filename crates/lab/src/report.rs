//! Studies in words and numbers: one small file per format over shared tables.
//!
//! A format is a row of [`FORMATS`]: a name and a function from [`Findings`] to text. `sheets`
//! decides what is shown and how figures are written, `grid` lays a table out; `table` and
//! `markdown` only differ in the drawing. A report never measures and never computes what the
//! study does not hold. **Adding a format is one file and one row.**

mod csv;
mod grid;
mod json;
mod markdown;
mod sheets;
mod table;

pub use grid::{Align, Column, Emphasis, Grid, GridRow};
pub use table::draw;

use crate::results::ResultSet;
use crate::study::Study;
use serde::Serialize;

/// What a report is about: one study, or several side by side.
#[derive(Debug, Serialize)]
pub struct Findings<'a> {
    /// The studies, in the order they were named. There is at least one.
    pub sets: Vec<Labelled<'a>>,
}

/// A study and what it is called beside others.
#[derive(Debug, Serialize)]
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
    /// What it is good for, in a line.
    pub summary: &'static str,
    /// Writes findings.
    pub render: fn(&Findings<'_>, Style) -> String,
}

/// Whether text may carry colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Characters only.
    Plain,
    /// With the colours of a terminal, in formats meant for one.
    Coloured,
}

impl<'a> Findings<'a> {
    /// One study by itself.
    pub fn of_study(study: &'a Study) -> Findings<'a> {
        Findings { sets: vec![Labelled { label: "", study }] }
    }

    /// Result sets side by side. There is at least one.
    pub fn of_sets(sets: &'a [ResultSet]) -> Findings<'a> {
        let labelled = |set: &'a ResultSet| Labelled { label: &set.label, study: &set.study };
        Findings { sets: sets.iter().map(labelled).collect() }
    }

    /// The label and the study of each set; no label where there is one study only.
    fn labelled(&self) -> impl Iterator<Item = (Option<&'a str>, &'a Study)> {
        let is_shown = self.sets.len() > 1;
        self.sets.iter().map(move |set| (is_shown.then_some(set.label), set.study))
    }
}

/// Every format; the first is what people get unless they ask for another.
pub const FORMATS: &[Format] = &[
    Format { name: "table", summary: "tables for a terminal", render: table::render },
    Format { name: "json", summary: "the whole study for machines", render: json::render },
    Format { name: "csv", summary: "one line per cell", render: csv::render },
    Format { name: "markdown", summary: "tables for a page", render: markdown::render },
];

#[cfg(test)]
mod tests;
