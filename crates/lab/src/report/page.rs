//! The frame of every HTML page: one self-contained file with the common style sheet.

use super::grid::{Align, Emphasis, Grid};
use crate::experiment::record::PROGRAM_VERSION;
use maud::{DOCTYPE, Markup, PreEscaped, html};

/// The style sheet of all pages.
pub(crate) const STYLE: &str = include_str!("page.css");

/// A page.
pub(crate) struct Page<'a> {
    /// Its title in the browser.
    pub(crate) title: &'a str,
    /// Style rules of this kind of page, after the common ones.
    pub(crate) style: &'a str,
    /// Further elements of the head.
    pub(crate) head: Markup,
    /// Its body.
    pub(crate) body: Markup,
}

impl Page<'_> {
    /// The file.
    pub(crate) fn render(&self) -> String {
        let page = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    meta name="generator" content={ "mirrorball " (PROGRAM_VERSION) };
                    title { (self.title) " · Mirrorball" }
                    // Without an icon of its own the page would make browsers ask a server.
                    link rel="icon" href="data:,";
                    style { (PreEscaped(STYLE)) (PreEscaped(self.style)) }
                    (self.head)
                }
                body { (self.body) }
            }
        };
        page.into_string()
    }
}

/// A table; rows of policies that are judged and of references have classes of their own.
pub(crate) fn table(grid: &Grid) -> Markup {
    let class = |emphasis| match emphasis {
        Emphasis::Best => Some("subject"),
        Emphasis::Reference => Some("reference"),
        _ => None,
    };
    html! {
        div.scroll {
            table {
                tr.heads {
                    @for column in &grid.columns {
                        th.number[column.align == Align::Right] {
                            (column.title.replace('\n', " "))
                        }
                    }
                }
                @for row in &grid.rows {
                    tr class=[class(row.emphasis)] {
                        @for (column, text) in grid.columns.iter().zip(&row.texts) {
                            td.number[column.align == Align::Right] { (text) }
                        }
                    }
                }
            }
        }
    }
}
