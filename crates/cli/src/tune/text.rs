//! The output of `tune`: what is set and what it brings first, the places after it.

use crate::terminal::printable;
use mirrorball_core::units::counted;
use mirrorball_host::tune::{PlannedChange, SettingState, TunePlan, TunedArray};
use mirrorball_lab::evaluation::advice::figure_text::factor_text;

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
    let mut text = match (changes.is_empty(), plan.spec == plan.now, is_applied) {
        (true, _, _) if prediction.is_some() => {
            format!("{name}: nothing is set: {} is in force, and no setting is better\n", plan.spec)
        }
        (true, _, _) => format!("{name}: nothing is set: {} is in force\n", plan.spec),
        (_, true, _) => format!("{name}: {} is in force; it is kept over restarts\n", plan.now),
        (_, _, true) => format!("{name}: {} is in force (before: {})\n", plan.spec, plan.now),
        (_, _, false) => format!("{name}: {} in place of {}\n", plan.spec, plan.now),
    };
    if let Some(prediction) = prediction {
        text += &brings(prediction);
    }
    if changes.is_empty() {
        return text;
    }
    for change in &changes {
        text += &place(change);
    }
    let line = |name: &str, value: &str| format!("  {name:<8}{value}\n");
    text += &plan.check.as_deref().map(|it| line("check", it)).unwrap_or_default();
    let undo = format!("mirrorball tune {target} --undo");
    text += &line("undo", &undo);
    if !persists {
        text += &plan.persist.as_deref().map(|it| line("restart", it)).unwrap_or_default();
    } else if plan.files().is_empty() {
        text += &line("restart", "the system keeps it by itself: no file is needed");
    }
    if !is_applied {
        let persist = if persists { " --persist" } else { "" };
        let command = format!("mirrorball tune {target} --policy {}", plan.spec);
        text += &format!("Nothing was changed. To apply it: {command} --apply{persist}\n");
    }
    text
}

/// The gain of a setting, in words.
fn brings(prediction: &Prediction) -> String {
    let jobs = counted(prediction.jobs, "job", "jobs");
    let mut text = match prediction.factor {
        Some(factor) => {
            let factor = factor_text(factor, prediction.is_rough);
            format!("  brings  {factor} times the speed, over {jobs}, simulated")
        }
        None => return String::new(),
    };
    text += &prediction.only_if.map(|it| format!("; {it}")).unwrap_or_default();
    text += &format!(" ({})\n", prediction.results);
    for (job, factor) in &prediction.slower {
        text += &format!("  slower  {job}: {factor:.2} times the speed\n");
    }
    text += &prediction.note.as_deref().map(|it| format!("  note    {it}\n")).unwrap_or_default();
    text
}

/// A change, or the text of a file.
fn place(change: &PlannedChange) -> String {
    let PlannedChange { place, from, to } = change;
    if to.ends_with('\n') {
        let lines = to.lines().map(|line| format!("    {}\n", printable(line)));
        return format!("  file    {place}\n{}", lines.collect::<String>());
    }
    format!("  set     {}: {} -> {}\n", printable(place), printable(from), printable(to))
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
