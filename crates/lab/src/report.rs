//! A study in words and numbers: one small file per format over shared tables.
//!
//! A format is a row of [`FORMATS`]: a name and a function from a study to text. `sheets` decides
//! what is shown and how figures are written, `grid` lays a table out; `table` and `markdown` only
//! differ in the drawing. A report never measures and never computes what the study does not hold.
//! **Adding a format is one file and one row.**

mod csv;
mod grid;
mod json;
mod markdown;
mod sheets;
mod table;

pub use grid::{Align, Column, Emphasis, Grid, GridRow};
pub use table::draw;

use crate::study::Study;

/// One way to write a study.
#[derive(Debug)]
pub struct Format {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it is good for, in a line.
    pub summary: &'static str,
    /// Writes a study.
    pub render: fn(&Study, Style) -> String,
}

/// Whether text may carry colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Characters only.
    Plain,
    /// With the colours of a terminal, in formats meant for one.
    Coloured,
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
