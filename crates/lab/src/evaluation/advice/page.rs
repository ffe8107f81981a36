//! The page of an answer: the report of its results, with the advice in front.

use super::answer::Answer;
use super::text;
use crate::experiment::results::ResultSet;
use crate::report::html::Lead;
use crate::report::{Style, html};
use maud::{Markup, html};

/// Width of a text whose entries are a line each.
const ENDLESS: usize = 100_000;

/// The page. `sets` are the results of the arrays of the answer. Panics if there are no results.
pub fn render(answer: &Answer, sets: &[ResultSet]) -> String {
    let decision = text::decision(answer, ENDLESS);
    let decision = html! {
        dl.advice id="advice" { @for line in decision.lines() { (entry(line)) } }
        details {
            summary { "Members, figures and times" }
            pre { (text::grounds(answer, Style::FILE).trim_start()) }
        }
    };
    let changed = answer.what_if.iter().flat_map(|it| it.array.advice.policies());
    let policies = answer.array.advice.policies().into_iter().chain(changed).collect();
    let title = answer.array.name.clone();
    html::render_with(Some(Lead { title, decision, policies }), sets)
}

/// A line of the decision: a name and a text, a command with its name, or what goes on from above.
fn entry(line: &str) -> Markup {
    let (name, text) = line.split_at_checked(text::NAME_WIDTH).unwrap_or((line, ""));
    let command = text.split_once(' ').filter(|(word, _)| text::COMMANDS.contains(word));
    html! {
        @if !name.trim().is_empty() { dt { (name.trim_end()) } }
        @match command.filter(|_| name.trim().is_empty()) {
            Some((word, command)) => { dd { (word) " " code { (command.trim_start()) } } }
            None => { dd { (with_code(text)) } }
        }
    }
}

/// A text whose words within backticks are code.
fn with_code(text: &str) -> Markup {
    html! {
        @for (place, part) in text.split('`').enumerate() {
            @if place % 2 == 1 { code { (part) } } @else { (part) }
        }
    }
}
