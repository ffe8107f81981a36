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
    let style = Style::FILE;
    let mut lines = text::members(&answer.array, style.width_columns);
    lines += &format!("\n{}", text::array(&answer.array, style));
    if let Some(what_if) = &answer.what_if {
        lines += &format!("\n{}", text::what_if(what_if, &answer.array, style));
    }
    let lead = html! {
        section id="advice" {
            h2 { "Advice" }
            pre { (lines) }
        }
    };
    html::render_with(lead, sets)
}
