//! The page of an answer: the report of its results, with the advice in front.

use super::answer::Answer;
use super::text;
use crate::experiment::results::ResultSet;
use crate::report::{Style, html};
use maud::html;

/// The page. `sets` are the results of the arrays of the answer.
///
/// # Panics
/// If there are no results.
pub fn render(answer: &Answer, sets: &[ResultSet]) -> String {
    let lines = text::answer(answer, Style::FILE);
    let lead = html! {
        section id="advice" {
            h2 { "Advice" }
            pre { (lines) }
        }
    };
    html::render_with(lead, sets)
}
