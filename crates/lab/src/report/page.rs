//! The frame of every HTML page: one self-contained file with the common style sheet.

use crate::experiment::record::PROGRAM_VERSION;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use std::fs::File;
use std::io::Read;
use std::path::Path;

pub(crate) const STYLE: &str = include_str!("page.css");

pub(crate) struct Page<'a> {
    pub(crate) title: &'a str,
    /// Further elements of the head.
    pub(crate) head: Markup,
    pub(crate) body: Markup,
}

/// What a page begins with, up to the name of its generator.
const MARK: &str = "name=\"generator\" content=\"mirrorball ";
const HEAD_BYTES: u64 = 1 << 10;

/// Returns true if the file at `path` is a page of this program.
pub fn is_page(path: &Path) -> bool {
    let mut head = Vec::new();
    let file = File::open(path).map(|file| file.take(HEAD_BYTES));
    let is_read = file.is_ok_and(|mut file| file.read_to_end(&mut head).is_ok());
    is_read && String::from_utf8_lossy(&head).contains(MARK)
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
