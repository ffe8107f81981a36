//! Repeated recipes as one self-contained HTML file: in every cell of a ranked column a bar of the
//! published value and a bar of ours, and the same tables and remarks as the other formats.

use super::compare::{CellComparison, ColumnHead, Repetition, TableComparison};
use super::markdown::overview;
use super::picture::{self, Ends};
use super::text::{claim as in_words, figure, remarks};
use crate::report::page::{Page, table};
use maud::{Markup, html};

const STYLE: &str = include_str!("page.css");

/// Width of the longest bar of a column, in pixels.
const BAR_WIDTH_MAX: f64 = 120.0;

/// The page of all repetitions, in their order.
pub fn render(repetitions: &[Repetition]) -> String {
    let title = "Published experiments, repeated";
    let body = html! { main {
        h1 { (title) }
        p.legend {
            span { span.value.published style="width:2.5rem" {} "published" }
            span { span.value.ours style="width:2.5rem" {} "simulated" }
        }
        (table(&overview(repetitions)))
        @for repetition in repetitions { (section(repetition)) }
    } };
    Page { title, style: STYLE, head: html! {}, body }.render()
}

fn section(repetition: &Repetition) -> Markup {
    html! {
        h2 id=(repetition.recipe) { (repetition.recipe) }
        p { (repetition.title) ". " (repetition.about) }
        ul { @for source in &repetition.sources { li { (source) } } }
        (pictures(repetition))
        @for table in &repetition.tables { (table_part(table)) }
        @if !repetition.free.is_empty() {
            h3 { "Free parameters" }
            ul {
                @for free in &repetition.free {
                    li { b { (free.parameter) } ": " (free.value) " (" (free.chosen) ")" }
                }
            }
        }
        h3 { "What does not match" }
        p { (repetition.mismatch) }
    }
}

/// The pictures of a recipe's runs, with the claims of the source about them.
fn pictures(repetition: &Repetition) -> Markup {
    let pictures = || repetition.tables.iter().flat_map(|table| &table.pictures);
    let ends = Ends::of(pictures());
    html! {
        @if pictures().next().is_some() {
            div.wide {
                div.pictures { @for picture in pictures() { (picture::draw(picture, ends)) } }
                div {
                    h3 { "Claims of the source" }
                    ul {
                        @for table in &repetition.tables {
                            @for claim in &table.claims { li { (in_words(claim)) } }
                        }
                    }
                    p {
                        "Dots are reads, coloured by disk. Steps are the bytes that each disk read "
                        "and wrote; steps without dots are writes."
                    }
                }
            }
        }
    }
}

fn table_part(table: &TableComparison) -> Markup {
    let column_max = |index: usize| {
        let values = table.rows.iter().map(|row| &row.cells[index]);
        values.map(|cell| cell.ours.max(shown(cell).unwrap_or(0.0))).fold(0.0, f64::max)
    };
    let scales: Vec<f64> = (0..table.columns.len()).map(column_max).collect();
    html! {
        h3 { (table.title) }
        div.scroll {
            table {
                tr {
                    th { (table.of) }
                    @for column in &table.columns { th.number colspan="2" { (column.title) } th {} }
                }
                tr.heads {
                    th {}
                    @for _ in &table.columns {
                        th.number { "published" } th.number { "simulated" } th {}
                    }
                }
                @for row in &table.rows {
                    tr.off[row.cells.iter().any(|cell| cell.within == Some(false))] {
                        td { (row.name) }
                        @for ((cell, head), scale) in
                            row.cells.iter().zip(&table.columns).zip(&scales) {
                            (cell_part(cell, head, *scale))
                        }
                    }
                }
            }
        }
        ul { @for remark in remarks(table) { li { (remark) } } }
    }
}

fn cell_part(cell: &CellComparison, head: &ColumnHead, scale: f64) -> Markup {
    let width = |value: f64| format!("width:{:.0}px", BAR_WIDTH_MAX * value / scale.max(1e-9));
    html! {
        td.number { @if let Some(published) = cell.published { (published) } }
        td.number { (figure(cell.ours)) }
        td {
            @if head.ranked {
                @if let Some(published) = shown(cell) {
                    span.value.published style=(width(published)) {}
                }
                span.value.ours style=(width(cell.ours)) {}
            }
        }
    }
}

/// What a bar can show of a published value: the most it can have been.
fn shown(cell: &CellComparison) -> Option<f64> {
    cell.published.and_then(|published| published.high)
}
