//! `--measured`: the advice from what `bench` has measured on the array, in the place of
//! simulations.

use super::question::chosen_system;
use super::target::{self, AdviseTarget};
use super::{Args, Failure};
use crate::screen;
use anyhow::{Result, bail};
use mirrorball_disk::array_file::{ArraySource, ArraySpec};
use mirrorball_lab::evaluation::advice::answer::ArrayAnswer;
use mirrorball_lab::experiment::inputs::{Inputs, load_array};
use mirrorball_lab::experiment::results::{self, ResultSet};
use mirrorball_lab::experiment::study::Criteria;
use std::path::Path;

/// The answer, and whether a job completed nothing. Fails if the folder has no results of a `bench`
/// of this array, or the setting in force was not measured.
pub(super) fn answer(
    args: &Args,
    target: &AdviseTarget,
    folder: &Path,
) -> Result<(ArrayAnswer, bool), Failure> {
    let detected = load_array(&target.array).map_err(Failure::WrongUse)?.1;
    let chosen = chosen_system(args, &target.array, &detected).map_err(Failure::WrongUse)?;
    let name = target::as_advised(target.array.clone(), &detected).map_err(Failure::WrongUse)?;
    let inputs = Inputs::load(&name, &[]).and_then(|inputs| chosen.offered(inputs));
    let (Inputs { array, .. }, offered) = inputs.map_err(Failure::WrongUse)?;
    let baseline = Some(offered.now.clone());
    let set = load(folder, &Criteria { baseline, ..Criteria::default() });
    let set = set.map_err(Failure::WrongUse)?;
    check(folder, &set, &array, &offered.now).map_err(Failure::WrongUse)?;
    let mut advice = offered.advice(&set.study, &array, &[]);
    let rounds = set.study.plan.seeds.len();
    let plural = if rounds == 1 { "" } else { "s" };
    advice.confidence = format!("measured on this array by `bench`, {rounds} round{plural}");
    let mut answer = ArrayAnswer::new(&array, &set.study, advice);
    answer.is_measured = true;
    answer.results = folder.display().to_string();
    Ok((answer, set.study.has_dead_job()))
}

/// The only result set of a folder.
fn load(folder: &Path, criteria: &Criteria) -> Result<ResultSet> {
    let place = folder.display();
    if !folder.is_dir() {
        bail!("--measured {place}: there is no such folder\n  help: give the folder of `bench -o`");
    }
    let mut loaded = results::load(&[folder.to_path_buf()], criteria);
    let Some(set) = loaded.sets.pop() else {
        let reason = loaded.refused.first().map_or("no results", |it| it.reason.as_str());
        bail!("--measured {place}: {reason}\n  help: give the folder of `bench -o`");
    };
    for note in &set.notes {
        screen::say(format_args!("note: {note}"));
    }
    Ok(set)
}

/// Checks that results are measurements of `array` with the setting `now` among them.
fn check(folder: &Path, set: &ResultSet, array: &ArraySpec, now: &str) -> Result<()> {
    let (place, plan) = (folder.display(), &set.study.plan);
    // What was measured is of fio.
    if set.cells.iter().any(|cell| cell.imported.is_none()) {
        bail!(
            "--measured {place}: these results were simulated\n  help: `mirrorball bench` measures \
             an array; without --measured, advise simulates"
        );
    }
    let measured = ArraySource::of_text(&plan.array.text);
    let is_same = match (&measured, &array.source) {
        (Some(measured), Some(source)) => measured.is_same_array(source),
        (measured, source) => measured == source,
    };
    if !is_same {
        let named = |source: &Option<ArraySource>, name: &str| {
            source.as_ref().map_or_else(|| name.to_owned(), ToString::to_string)
        };
        bail!(
            "--measured {place}: these are results of the array {}, not of {}\n  help: give the \
             folder of a `bench` of this array",
            named(&measured, &plan.array.name),
            named(&array.source, &array.name)
        );
    }
    if !plan.policies.iter().any(|policy| policy == now) {
        bail!(
            "--measured {place}: {now}, which is in force, was not measured, so there is nothing \
             to compare with\n  help: measure it too: `mirrorball bench --policy {now},…`"
        );
    }
    Ok(())
}
