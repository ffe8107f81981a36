//! Progress of long work, and Ctrl-C, which lets it end in an orderly way.

use crate::ending::INTERRUPTED;
use crate::screen;
use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressStyle};
use mirrorball_lab::experiment::run::{CellSource, RunOptions};
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Makes Ctrl-C ask the work to stop, with a message, and returns the flag that says so. A second
/// Ctrl-C ends the program at once. Later calls return the same flag, and the last message counts.
pub(crate) fn stop_at_ctrl_c(message: &'static str) -> Result<&'static AtomicBool> {
    static STOP: AtomicBool = AtomicBool::new(false);
    static LISTENS: AtomicBool = AtomicBool::new(false);
    static MESSAGE: Mutex<&str> = Mutex::new("");
    let latest = || MESSAGE.lock().unwrap_or_else(PoisonError::into_inner);
    *latest() = message;
    if LISTENS.swap(true, Ordering::Relaxed) {
        return Ok(&STOP);
    }
    ctrlc::set_handler(move || {
        if STOP.swap(true, Ordering::Relaxed) {
            std::process::exit(INTERRUPTED.into());
        }
        let message = *latest();
        screen::say(format_args!("\n{message}; press Ctrl-C again to stop at once"));
    })
    .context("cannot listen for Ctrl-C")?;
    Ok(&STOP)
}

/// A bar of progress over `length` things of a `kind`, such as `cells`. indicatif hides it if
/// stderr is not a terminal.
pub(crate) fn bar(length: u64, kind: &str) -> ProgressBar {
    let bar = ProgressBar::new(length);
    let template = format!("{{wide_bar}} {{pos}}/{{len}} {kind}, {{eta}} to go {{msg}}");
    let style = ProgressStyle::with_template(&template);
    bar.with_style(style.expect("the template is well formed"))
}

/// Number of cells of a run, by where their records come from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CellCounts {
    pub(crate) saved: usize,
    pub(crate) run: usize,
}

/// Runs cells, `all` in number, by `work`, with a bar of progress. A first Ctrl-C stops the run,
/// with `message`, a second one ends the program at once.
///
/// # Errors
/// That of `work`, or if the system refuses Ctrl-C.
pub(crate) fn run_cells<T>(
    all: usize,
    message: &'static str,
    threads: Option<NonZeroUsize>,
    work: impl FnOnce(&RunOptions<'_>) -> Result<T>,
) -> Result<(T, CellCounts)> {
    let stop = stop_at_ctrl_c(message)?;
    let bar = bar(all as u64, "cells");
    let [saved, run] = [AtomicUsize::new(0), AtomicUsize::new(0)];
    let on_cell = |source| {
        match source {
            CellSource::Saved => {
                let saved = saved.fetch_add(1, Ordering::Relaxed) + 1;
                bar.set_message(format!("({saved} reused from an earlier run)"));
                // The rate is that of cells which are run.
                bar.reset_eta();
            }
            CellSource::Run => _ = run.fetch_add(1, Ordering::Relaxed),
        }
        bar.inc(1);
    };
    let result = work(&RunOptions { threads, stop, on_cell: &on_cell });
    bar.finish_and_clear();
    Ok((result?, CellCounts { saved: saved.into_inner(), run: run.into_inner() }))
}
