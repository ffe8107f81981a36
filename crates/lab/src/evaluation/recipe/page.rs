//! Repeated recipes as one self-contained HTML file: in every cell of a ranked column a bar of the
//! published value and a bar of ours, and the same tables and remarks as the other formats.

use super::compare::{CellComparison, ColumnHead, Repetition, TableComparison};
use super::markdown::overview;
use super::picture::Ends;
use super::text::{claim as in_words, figure, remarks};
use crate::report::page::page;
use maud::{Markup, html};

/// Kept small on purpose: the page is read, not played with.
const STYLE: &str = "body{font:15px/1.5 sans-serif;max-width:70em;margin:2em auto;padding:0 1em}\
    table{border-collapse:collapse;margin:.6em 0}td,th{padding:.15em .7em;text-align:right}\
    td:first-child,th:first-child{text-align:left}tr.heads th{border-bottom:1px solid #888}\
    .off td:first-child{color:#b00}.bar{display:block;height:5px;border-radius:2px}\
    .summary td:nth-child(2),.summary th:nth-child(2){text-align:left}\
    .published{background:#999}.ours{background:#06c}.scroll{overflow-x:auto}\
    .beside{display:flex;flex-wrap:wrap;gap:2em}.says{flex:1 1 18em}\
    figure{margin:0 0 1em}svg text{font-size:11px;fill:#555}.pane{fill:none;stroke:#ccc}\
    .line{fill:none;stroke-width:1.2}.key{padding-left:.6em;border-left:.6em solid}\
    circle.disk0{fill:#06c}circle.disk1{fill:#d60}circle.disk2{fill:#090}circle.disk3{fill:#a0a}\
    circle.disk4{fill:#880}circle.disk5{fill:#088}\
    .line.disk0{stroke:#06c}.line.disk1{stroke:#d60}.line.disk2{stroke:#090}\
    .line.disk3{stroke:#a0a}.line.disk4{stroke:#880}.line.disk5{stroke:#088}\
    .key.disk0{border-color:#06c}.key.disk1{border-color:#d60}.key.disk2{border-color:#090}\
    .key.disk3{border-color:#a0a}.key.disk4{border-color:#880}.key.disk5{border-color:#088}";

/// Width of the longest bar of a column, in pixels.
const BAR_WIDTH_MAX: f64 = 120.0;

/// The page of all repetitions, in their order.
pub fn render(repetitions: &[Repetition]) -> String {
    let body = html! {
        p {
            span.bar.published style="width:40px" {} "as published "
            span.bar.ours style="width:40px" {} "ours"
        }
        (summary(repetitions))
        @for repetition in repetitions { (section(repetition)) }
    };
    page("Published experiments, repeated", STYLE, &body)
}

/// How well each table agrees.
fn summary(repetitions: &[Repetition]) -> Markup {
    let grid = overview(repetitions);
    html! {
        table.summary {
            tr.heads { @for column in &grid.columns { th { (column.title) } } }
            @for row in &grid.rows { tr { @for text in &row.texts { td { (text) } } } }
        }
    }
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
            div.beside {
                div { @for picture in pictures() { (picture.draw(ends)) } }
                div.says {
                    h3 { "Claims of the source" }
                    ul {
                        @for table in &repetition.tables {
                            @for claim in &table.claims { li { (in_words(claim)) } }
                        }
                    }
                    p { "Dots are reads, coloured by disk. Steps are the bytes that each disk read and "
                        "wrote; steps without dots are writes." }
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
                    @for column in &table.columns { th colspan="3" { (column.title) } }
                }
                tr.heads {
                    th {}
                    @for _ in &table.columns { th { "published" } th { "ours" } th {} }
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
        td { @if let Some(published) = cell.published { (published) } }
        td { (figure(cell.ours)) }
        td {
            @if head.ranked {
                @if let Some(published) = shown(cell) {
                    span.bar.published style=(width(published)) {}
                }
                span.bar.ours style=(width(cell.ours)) {}
            }
        }
    }
}

/// What a bar can show of a published value: the most it can have been.
fn shown(cell: &CellComparison) -> Option<f64> {
    cell.published.and_then(|published| published.high)
}
