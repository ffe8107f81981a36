//! The output of `tune`: what is set and what it brings first, the places after it.

use crate::screen;
use crate::terminal::printable;
use mirrorball_core::units::counted;
use mirrorball_host::tune::{PlannedChange, SettingState, TunePlan, TunedArray};
use mirrorball_lab::evaluation::advice::figure_text::factor_text;
use mirrorball_lab::report::{command_lines, whole_words};

/// Width of the names before the texts, and the blanks in front of them.
const INDENT: usize = 10;

/// The words of `advise` about a setting.
pub(super) struct Prediction {
    /// How much faster it is than what is in force; none if it is that.
    pub(super) factor: Option<f64>,
    /// True if the factor is rounded.
    pub(super) is_rough: bool,
    /// Condition of the factor.
    pub(super) only_if: Option<&'static str>,
    pub(super) jobs: usize,
    /// Jobs that it makes slower by more than 5 %, with their factors.
    pub(super) slower: Vec<(String, f64)>,
    pub(super) note: Option<String>,
    pub(super) results: String,
}

/// A plan, or what was applied. `target` has the words of a command that names the array.
pub(super) fn plan(
    plan: &TunePlan,
    prediction: Option<&Prediction>,
    target: &str,
    is_applied: bool,
    persists: bool,
) -> String {
    let (name, changes) = (printable(&plan.array.name), plan.changes());
    let title = match (changes.is_empty(), plan.spec == plan.now, is_applied) {
        (true, _, _) if prediction.is_some() => {
            format!("{name}: nothing is set: {} is in force, and no setting is better\n", plan.spec)
        }
        (true, _, _) => format!("{name}: nothing is set: {} is in force\n", plan.spec),
        (_, true, _) => format!("{name}: {} is in force; it is kept over restarts\n", plan.now),
        (_, _, true) => format!("{name}: {} is in force (before: {})\n", plan.spec, plan.now),
        (_, _, false) => format!("{name}: {} in place of {}\n", plan.spec, plan.now),
    };
    let mut text = screen::broken(&title);
    if let Some(prediction) = prediction {
        text += &brings(prediction);
    }
    if changes.is_empty() {
        return text;
    }
    for change in &changes {
        text += &place(change);
    }
    text += &plan.check.as_deref().map(|it| command("check", it)).unwrap_or_default();
    text += &command("undo", &format!("mirrorball tune {target} --undo"));
    if !persists {
        text += &plan.persist.as_deref().map(|it| entry("restart", it)).unwrap_or_default();
    } else if plan.files().is_empty() {
        text += &entry("restart", "the system keeps it by itself: no file is needed");
    }
    if !is_applied {
        let persist = if persists { " --persist" } else { "" };
        let apply = format!("mirrorball tune {target} --policy {} --apply{persist}", plan.spec);
        text += &screen::broken(&format!("Nothing was changed. To apply it:\n  {apply}\n"));
    }
    text
}

fn width() -> usize {
    screen::width_columns().unwrap_or(usize::MAX)
}

/// A name and a text behind it, wrapped.
fn entry(name: &str, text: &str) -> String {
    let lines = whole_words(text, width() - INDENT).join(&format!("\n{:INDENT$}", ""));
    format!("  {name:<8}{lines}\n")
}

/// A name and a command, whose lines a shell joins again.
fn command(name: &str, command: &str) -> String {
    if INDENT + command.chars().count() <= width() {
        return format!("  {name:<8}{command}\n");
    }
    let (command, remark) = command.split_once("  # ").unwrap_or((command, ""));
    let lines = command_lines(command, width() - INDENT - 4);
    let remark = if remark.is_empty() { String::new() } else { entry("", remark) };
    format!("  {name:<8}{}\n{remark}", lines.join(&format!(" \\\n{:INDENT$}  ", "")))
}

/// The gain of a setting, in words.
fn brings(prediction: &Prediction) -> String {
    let jobs = counted(prediction.jobs, "job", "jobs");
    let mut text = match prediction.factor {
        Some(factor) => {
            let factor = factor_text(factor, prediction.is_rough);
            format!("{factor} times the speed, over {jobs}, simulated")
        }
        None => return String::new(),
    };
    text += &prediction.only_if.map(|it| format!("; {it}")).unwrap_or_default();
    text = entry("brings", &format!("{text} ({})", prediction.results));
    for (job, factor) in &prediction.slower {
        text += &entry("slower", &format!("{job}: {factor:.2} times the speed"));
    }
    text + &prediction.note.as_deref().map(|it| entry("note", it)).unwrap_or_default()
}

/// A change, or the text of a file.
fn place(change: &PlannedChange) -> String {
    let PlannedChange { place, from, to } = change;
    if to.ends_with('\n') {
        let lines = to.lines().map(|line| format!("    {}\n", printable(line)));
        return format!("  file    {place}\n{}", lines.collect::<String>());
    }
    entry("set", &format!("{}: {} -> {}", printable(place), printable(from), printable(to)))
}

/// The settings that were applied, array by array.
pub(super) fn status(arrays: &[TunedArray]) -> String {
    if arrays.is_empty() {
        return "tune has applied nothing\n".to_owned();
    }
    let mut text = String::new();
    for array in arrays {
        let name = printable(&array.array);
        let end = match (array.is_applied(), array.stays) {
            (true, true) => "in force",
            (true, false) => "in force while tune runs",
            (false, _) => "NOT in force as it was applied",
        };
        text += &format!("{name}: {}, {end} (before: {})\n", array.setting, array.before);
        for place in &array.places {
            let state = match place.state {
                SettingState::Applied => "as applied",
                SettingState::AsBefore => "as before tune",
                SettingState::ResetByRestart => "reset by a restart; --persist keeps it",
                SettingState::ChangedByOther => "changed by another program",
                SettingState::NotThere => "not there",
            };
            let shown = place
                .shown
                .as_deref()
                .map_or_else(String::new, |it| format!(" shows {}", printable(it)));
            text += &format!("  {}{shown}: {state}\n", printable(&place.place));
        }
    }
    text
}
