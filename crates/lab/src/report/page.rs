//! The frame of every HTML page: one self-contained file with the common style sheet.

use crate::experiment::record::PROGRAM_VERSION;
use maud::{DOCTYPE, Markup, PreEscaped, html};

pub(crate) const STYLE: &str = include_str!("page.css");

pub(crate) struct Page<'a> {
    pub(crate) title: &'a str,
    /// Further elements of the head.
    pub(crate) head: Markup,
    pub(crate) body: Markup,
}

impl Page<'_> {
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
                    style { (PreEscaped(STYLE)) }
                    (self.head)
                }
                body { (self.body) }
            }
        };
        page.into_string()
    }
}
