//! Explanations of a policy's decisions as text: one small file per format.

mod csv;
mod json;
mod table;

use crate::experiment::explain::Explained;
use crate::report::Style;

/// One way to write an explanation.
#[derive(Debug)]
pub struct ExplainFormat {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it is good for, in a line.
    pub summary: &'static str,
    /// Writes it.
    pub render: fn(&Explained, Style) -> String,
}

/// Every text form; the first is the default.
pub const FORMATS: &[ExplainFormat] = &[
    ExplainFormat {
        name: "table",
        summary: "a table for a terminal and a summary",
        render: table::render,
    },
    ExplainFormat { name: "json", summary: "all results as JSON", render: json::render },
    ExplainFormat { name: "csv", summary: "one line per mirror of a choice", render: csv::render },
];

#[cfg(test)]
mod tests;
