//! Output of `bench`: its plan, and at its end the results and what is missing from them.

use crate::ending::Failure;
use crate::screen;
use mirrorball_core::units::{Nanos, counted};
use mirrorball_host::bench::{Bench, BenchOutcome, RunTimes, SavedRun, Steadiness};
use mirrorball_lab::experiment::results;
use mirrorball_lab::experiment::study::Criteria;
use mirrorball_lab::report::{FORMATS, Findings, draw};
use std::path::Path;

/// `about 40 s`, `about 12 min`.
pub(super) fn about(time: Nanos) -> String {
    let seconds = time.as_secs_f64();
    match seconds < 180.0 {
        true => format!("about {seconds:.0} s"),
        false => format!("about {:.0} min", seconds / 60.0),
    }
}

/// Summary of the runs to come.
pub(super) fn outline(bench: &Bench) -> String {
    let plan = &bench.plan;
    let mut text = format!(
        "{}: {}, {}, {}: {}, {}\n",
        bench.array.name,
        counted(plan.jobs.len(), "job", "jobs"),
        counted(plan.policies.len(), "setting", "settings"),
        counted(bench.rounds, "round", "rounds"),
        counted(plan.cells().len(), "run", "runs"),
        about(bench.duration()),
    );
    let names: Vec<&str> = plan.jobs.iter().map(|job| job.name.as_str()).collect();
    text += &format!("  jobs      {}\n", names.join(", "));
    text += &format!("  settings  {}\n", plan.policies.join(", "));
    let RunTimes { settle, measure } = bench.times;
    let settle = match settle {
        Nanos::ZERO => String::new(),
        settle => format!("{settle} to settle, "),
    };
    text += &format!("  each run  {settle}{measure} measured\n");
    for note in &bench.notes {
        text += &format!("  note      {note}\n");
    }
    screen::broken(&text)
}

/// Prints the report, the comparisons of settings and the members.
pub(super) fn print_results(
    bench: &Bench,
    outcome: &BenchOutcome,
    folder: &Path,
) -> Result<(), Failure> {
    let style = screen::style();
    let loaded = results::load(&[folder.to_owned()], &Criteria::default());
    // Every run may have been left out.
    if !loaded.sets.is_empty() {
        screen::print(&(FORMATS[0].render)(&Findings::of_sets(&loaded.sets), style))?;
    }
    for (job, source) in bench.plan.jobs.iter().enumerate() {
        let tables = [
            ("settings", outcome.effect_grid(bench, job)),
            ("btrfs/pid", outcome.pid_grid(bench, job)),
            ("members", outcome.member_grid(bench, job)),
        ];
        for (title, grid) in tables {
            let Some(grid) = grid else { continue };
            screen::print(&format!("\n{title} during {}\n\n{}", source.name, draw(&grid, style)))?;
        }
        if let Some(warning) = outcome.pid_warning(bench, job) {
            screen::say(format_args!("warning: {warning}"));
        }
    }
    Ok(())
}

/// Says which members no read reached: the file may be on others.
pub(super) fn say_what_was_not_read(bench: &Bench, runs: &[SavedRun]) {
    let windows = || runs.iter().flat_map(|run| &run.conditions.window.members);
    for member in &bench.array.members {
        let mut counted = windows().filter(|(devid, _)| *devid == member.devid).peekable();
        if counted.peek().is_some() && counted.all(|(_, counters)| counters.reads == 0) {
            screen::say(format_args!(
                "note: devid {} was not read in any run: either no setting reads it, or no part of \
                 the file is on it",
                member.devid
            ));
        }
    }
}

/// Says how many runs the comparison leaves out, and why.
pub(super) fn say_what_is_not_compared(runs: &[SavedRun]) {
    let of = |is_it: &dyn Fn(&&SavedRun) -> bool| runs.iter().filter(is_it).count();
    let unsteady = of(&|run| run.conditions.steadiness == Steadiness::Unsteady);
    if unsteady > 0 {
        screen::say(format_args!(
            "note: the rate changed its level within {unsteady} of {} runs; the comparison of \
             settings leaves these out",
            runs.len()
        ));
    }
    let cached = of(&|run| run.is_cached());
    if cached > 0 {
        screen::say(format_args!(
            "warning: {cached} of {} runs read from a cache of this host, not from the members; \
             the tables leave these out\n  help: give a --size of four times the \
             memory",
            runs.len()
        ));
    }
}

/// Says what Ctrl-C has left.
pub(super) fn say_what_was_interrupted(
    bench: &Bench,
    outcome: &BenchOutcome,
    folder: &Path,
    is_restored: bool,
) {
    let (done, all) = (outcome.runs.len(), bench.plan.cells().len());
    match done {
        0 => screen::say("interrupted before the first run was finished: no result is saved"),
        done => {
            let shown = folder.display();
            screen::say(format_args!("interrupted: {done} of {all} runs are saved in {shown}"));
            screen::say(format_args!("  run the same command with -o {shown} to continue"));
        }
    }
    if is_restored {
        screen::say("the settings of the array are as before, and no file of bench is left on it");
    }
}
