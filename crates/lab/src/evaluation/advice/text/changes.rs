//! Changes of hardware as text: which brings most, what one brings, and the array after it.

use super::{choices, entry, knob_lines, members, slower_jobs, table};
use crate::evaluation::advice::answer::{Answer, ArrayAnswer, RankedChange, WhatIf};
use crate::evaluation::advice::figure_text::{factor_text, number, speed_text};
use crate::evaluation::advice::{DISKS_ARE_AS_GUESSED, UNCERTAIN, worthwhile};
use crate::report::{self, Column, Grid, Style, draw, left_out, wrapped};

/// Changes that tie with the first which are named.
const TIES_MAX: usize = 3;
/// Why figures under `btrfs/pid` differ between repeats.
const BY_PID: &str = "Under btrfs/pid the number of the process decides which copy it reads: the \
                      wide ± comes from this";

/// Below this factor a job is called slower after a change.
const SLOWER: f64 = 0.98;

/// The changes that were tried, the one that brings most first.
pub(super) fn ranked(answer: &Answer, style: Style) -> String {
    let changes = &answer.changes;
    if changes.is_empty() {
        return String::new();
    }
    let width = style.width_columns;
    let percent = |part: f64| format!("{:.0} %", (part * 100.0).ceil());
    let grid = Grid::of(changes)
        .column(Column::left("change"), |it| it.change.clone())
        .column(Column::right("gain"), |it| {
            it.gain.map_or("-".to_owned(), |it| factor_text(it, false))
        })
        .column(Column::right("±").droppable(3), |it| it.spread.map_or("-".to_owned(), percent))
        .column(Column::right("least").droppable(2), |it| {
            it.least.as_ref().map_or("-".to_owned(), |(_, gain)| factor_text(*gain, false))
        })
        .column(Column::left("under").droppable(2), |it| {
            it.least.as_ref().map_or(String::new(), |(job, _)| job.clone())
        })
        .column(Column::left("best setting then").droppable(1), |it| it.setting.clone());
    let (grid, titles) = grid.build().fitted(width);
    let table = draw(&grid, style) + &left_out(&titles, "json", style);
    let half = if titles.iter().any(|it| it == "±") { "" } else { "± half the 95 % interval; " };
    let note = format!(
        "gain: best setting after over best setting now, geometric mean over the jobs; {half}a new \
         disk has the size of the old one"
    );
    let is_wide = |it: &RankedChange| is_rough(it.spread) && is_by_pid(&it.setting);
    let note = match changes.iter().any(is_wide) {
        true => format!("{note}. {BY_PID}"),
        false => note,
    };
    best_change(answer, width) + &table + &report::note(&note, width) + "\n"
}

pub(super) fn best_change(answer: &Answer, width: usize) -> String {
    let Some((best, others)) = answer.changes.split_first() else { return String::new() };
    let text = match best.gain {
        Some(gain) if gain > worthwhile(best.spread) => {
            let speed = speed_text(gain, is_rough(best.spread));
            let tied = others.iter().filter(|it| it.is_tied_with(best));
            let tied: Vec<&str> = tied.take(TIES_MAX).map(|it| it.change.as_str()).collect();
            let tied = match &tied[..] {
                [] => String::new(),
                tied => format!("; as much, within ±: {}", tied.join(", ")),
            };
            let only_if = only_if(answer.array.advice.is_guess);
            format!("--what-if {} brings most: {speed}{only_if}{tied}", best.change)
        }
        _ => "no single change brings anything".to_owned(),
    };
    entry("What if", &text, width)
}

/// What a gain supposes where some disks are of unknown kind.
fn only_if(is_guess: bool) -> String {
    if is_guess { format!(", {DISKS_ARE_AS_GUESSED}") } else { String::new() }
}

fn is_by_pid(setting: &str) -> bool {
    setting.starts_with("btrfs/pid")
}

/// True if a gain with this interval is rounded.
fn is_rough(spread: Option<f64>) -> bool {
    spread.is_some_and(|spread| spread > UNCERTAIN)
}

/// What a change of hardware brings, and under which jobs it is a loss.
pub(super) fn gain(what_if: &WhatIf, before: &ArrayAnswer, width: usize) -> String {
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
    let only_if = only_if(before.advice.is_guess || what_if.array.advice.is_guess);
    let gained = format!("{changes}: {speed} in {compared} ({over}){only_if}{slower}");
    entry("What if", &gained, width)
}

/// The array after a change: the best setting of each by job, then what to do on it.
pub(super) fn changed_array(what_if: &WhatIf, before: &ArrayAnswer, style: Style) -> String {
    let width = style.width_columns;
    let after = &what_if.array;
    let rows = what_if.jobs.iter().map(|job| {
        let gain = job.gain.map_or("-".to_owned(), |gain| factor_text(gain, false));
        (job.job.clone(), vec![number(job.before), number(job.after), gain])
    });
    let unit = what_if.jobs.first().map_or("requests/s", |job| job.unit);
    let title = format!(
        "The best setting of each, in {unit}: {} now, {} then",
        before.best_setting(),
        after.best_setting()
    );
    let table = table("job", &["now", "then", "gain"], rows.collect(), style);
    let is_by_pid = is_by_pid(&after.advice.now) || is_by_pid(after.best_setting());
    let has_cause = is_by_pid && is_rough(what_if.spread);
    let cause = if has_cause { report::note(BY_PID, width) + "\n" } else { String::new() };
    let change = format!("With the change: {}", what_if.changes.join(", "));
    let (title, change) = (wrapped(&title, width), wrapped(&change, width));
    let mut text = format!("\n{title}\n{table}{cause}\n{change}\n");
    text += &what_if.commands.as_ref().map_or_else(String::new, |it| knob_lines(it, width));
    text += &members(after, &before.members, width);
    text += &entry("It would have", &after.advice.now, width);
    text + &choices(&after.advice, width) + "\n"
}

#[cfg(test)]
mod tests;
