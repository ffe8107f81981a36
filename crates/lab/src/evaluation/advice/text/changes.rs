//! Changes of hardware as text: which brings most, what one brings, and the array after it.

use super::{choices, entry, knob_lines, members, slower_jobs, table};
use crate::evaluation::advice::answer::{ArrayAnswer, RankedChange, WhatIf};
use crate::evaluation::advice::figure_text::{number, speed_text};
use crate::evaluation::advice::{UNCERTAIN, worthwhile};
use crate::report::{Column, Grid, Style, draw, left_out, wrapped};

/// Below this factor a job is called slower after a change.
const SLOWER: f64 = 0.98;

/// The changes that were tried, the one that brings most first.
pub(super) fn ranked(changes: &[RankedChange], style: Style) -> String {
    let Some(best) = changes.first() else { return String::new() };
    let width = style.width_columns;
    let percent = |part: f64| format!("{:.0} %", (part * 100.0).ceil());
    let grid = Grid::of(changes)
        .column(Column::left("change"), |it| it.change.clone())
        .column(Column::right("gain"), |it| it.gain.map_or("-".to_owned(), |it| format!("{it:.2}")))
        .column(Column::right("±"), |it| it.spread.map_or("-".to_owned(), percent))
        .column(Column::right("least").droppable(1), |it| {
            it.least.as_ref().map_or("-".to_owned(), |(_, gain)| format!("{gain:.2}"))
        })
        .column(Column::left("under").droppable(1), |it| {
            it.least.as_ref().map_or(String::new(), |(job, _)| job.clone())
        })
        .column(Column::left("best setting then").droppable(2), |it| it.setting.clone());
    let (grid, titles) = grid.build().fitted(width);
    let table = draw(&grid, style) + &left_out(&titles, "json", style);
    let note = "gain: best setting after over best setting now, geometric mean over the jobs; \
                ± half the 95 % interval; a new disk has the size of the old one";
    best_change(best, width) + &table + &wrapped(note, width) + "\n\n"
}

pub(super) fn best_change(best: &RankedChange, width: usize) -> String {
    let text = match best.gain {
        Some(gain) if gain > worthwhile(best.spread) => {
            let speed = speed_text(gain, is_rough(best.spread));
            format!("--what-if {} brings most: {speed}", best.change)
        }
        _ => "no single change brings anything".to_owned(),
    };
    entry("What if", &text, width)
}

/// True if a gain with this interval is rounded.
fn is_rough(spread: Option<f64>) -> bool {
    spread.is_some_and(|spread| spread > UNCERTAIN)
}

/// What a change of hardware brings, and under which jobs it is a loss.
pub(super) fn gain(what_if: &WhatIf, width: usize) -> String {
    let changes = what_if.changes.join(", ");
    let Some(gain) = what_if.gain else {
        let text = format!("{changes}: not known, one of the arrays completed nothing in some job");
        return entry("What if", &text, width);
    };
    let percent = what_if.spread.map(|it| (it * 100.0).ceil());
    let spread = percent.map_or_else(String::new, |it| format!(", ±{it:.0} %"));
    let over = match what_if.jobs.len() {
        1 => spread.trim_start_matches(", ").to_owned(),
        jobs => format!("geometric mean over {jobs} jobs{spread}"),
    };
    let compared = &what_if.array.advice.compared;
    let gains = what_if.jobs.iter().filter_map(|job| Some((job.job.as_str(), job.gain?)));
    let slower = slower_jobs(";", gains.filter(|(_, gain)| *gain < SLOWER));
    let speed = speed_text(gain, is_rough(what_if.spread));
    entry("What if", &format!("{changes}: {speed} in {compared} ({over}){slower}"), width)
}

/// The array after a change, side by side with the array as it is.
pub(super) fn changed_array(what_if: &WhatIf, before: &ArrayAnswer, style: Style) -> String {
    let width = style.width_columns;
    let after = &what_if.array;
    let change = format!("With the change: {}", what_if.changes.join(", "));
    let mut text = wrapped(&change, width) + "\n";
    text += &what_if.commands.as_ref().map_or_else(String::new, |it| knob_lines(it, width));
    text += &members(after, &before.members, width);
    text += &entry("It would have", &after.advice.now, width);
    text += &choices(&after.advice, width);
    let rows = what_if.jobs.iter().map(|job| {
        let gain = job.gain.map_or("-".to_owned(), |gain| format!("{gain:.2}"));
        (job.job.clone(), vec![number(job.before), number(job.after), gain])
    });
    let unit = what_if.jobs.first().map_or("requests/s", |job| job.unit);
    let title = format!(
        "The best setting of each, in {unit}: {} now, {} then",
        before.best_setting(),
        after.best_setting()
    );
    let table = table("job", &["now", "then", "gain"], rows.collect(), style);
    text + &format!("\n{}\n{table}", wrapped(&title, width))
}
