//! Progress of long work, and Ctrl-C, which lets it end in an orderly way.

use crate::ending::INTERRUPTED;
use crate::screen;
use anyhow::{Context, Result};
use indicatif::{HumanDuration, ProgressBar, ProgressState, ProgressStyle};
use mirrorball_lab::experiment::run::{CellSource, RunOptions};
use std::fmt;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

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

/// The cells of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cells<'a> {
    pub(crate) count: usize,
    /// Cost of a cell of each job next to those of the others; all cost the same if there is none.
    pub(crate) costs: &'a [u64],
}

/// Number of cells of a run, by where their records come from.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CellCounts {
    pub(crate) saved: usize,
    pub(crate) run: usize,
}

/// When a run will end, by what was done so far.
#[derive(Debug)]
struct ExpectedEnd {
    began: Instant,
    /// Cost of what is done, and of it all.
    done: u64,
    all: u64,
    /// Cost of what an earlier run saved.
    saved: u64,
    /// The earliest estimate: the time that is left is never said to grow.
    at: Option<Instant>,
}

impl ExpectedEnd {
    /// Part of the work after which an estimate is made.
    const PART: u64 = 20;

    fn new(began: Instant, all: u64) -> ExpectedEnd {
        ExpectedEnd { began, done: 0, all, saved: 0, at: None }
    }

    fn add(&mut self, cost: u64, source: CellSource, now: Instant) {
        self.done += cost;
        if source == CellSource::Saved {
            self.saved += cost;
            return;
        }
        let run = self.done - self.saved;
        if run * ExpectedEnd::PART >= self.all - self.saved {
            let each = now.duration_since(self.began).as_secs_f64() / run as f64;
            let left = each * self.all.saturating_sub(self.done) as f64;
            let estimate = now + Duration::from_secs_f64(left);
            self.at = Some(self.at.map_or(estimate, |at| at.min(estimate)));
        }
    }

    /// The time left, in words.
    fn left(&self, now: Instant) -> String {
        self.at.map_or("…".to_owned(), |at| {
            // Not `0 s`: something is left while the bar is shown.
            let seconds = at.saturating_duration_since(now).as_secs() + 1;
            HumanDuration(Duration::from_secs(seconds)).to_string()
        })
    }
}

impl Cells<'_> {
    /// Cells of about the same cost.
    pub(crate) fn alike(count: usize) -> Cells<'static> {
        Cells { count, costs: &[] }
    }

    /// Cost of all of them.
    fn cost(&self) -> u64 {
        match self.costs.len() {
            0 => self.count as u64,
            jobs => self.costs.iter().sum::<u64>() * (self.count / jobs) as u64,
        }
    }
}

/// A bar of progress over cells that are run at once, or in rounds.
pub(crate) struct CellsBar<'a> {
    cells: Cells<'a>,
    is_most: bool,
    threads: Option<NonZeroUsize>,
    stop: &'static AtomicBool,
    end: Arc<Mutex<ExpectedEnd>>,
    bar: ProgressBar,
    counts: Mutex<CellCounts>,
}

impl<'a> CellsBar<'a> {
    /// A bar over `cells`; with `is_most` the work may end before all are run. A first Ctrl-C stops
    /// the run, with `message`, a second one ends the program at once. Fails if the system refuses
    /// Ctrl-C.
    pub(crate) fn new(
        cells: Cells<'a>,
        is_most: bool,
        message: &'static str,
        threads: Option<NonZeroUsize>,
    ) -> Result<CellsBar<'a>> {
        let stop = stop_at_ctrl_c(message)?;
        let end = Arc::new(Mutex::new(ExpectedEnd::new(Instant::now(), cells.cost())));
        let shown = Arc::clone(&end);
        let left = move |_: &ProgressState, out: &mut dyn fmt::Write| {
            let end = shown.lock().unwrap_or_else(PoisonError::into_inner);
            // The bar has no way to report that a terminal is gone.
            _ = write!(out, "{}", end.left(Instant::now()));
        };
        let most = if is_most { "at most " } else { "" };
        let style = format!("{{wide_bar}} {{msg}}, {most}{{left}} to go");
        let style = ProgressStyle::with_template(&style);
        let style = style.expect("the template is well formed").with_key("left", left);
        let bar = ProgressBar::new(cells.cost()).with_style(style);
        let counts = Mutex::new(CellCounts::default());
        Ok(CellsBar { cells, is_most, threads, stop, end, bar, counts })
    }

    /// The cells that were run so far.
    pub(crate) fn counts(&self) -> CellCounts {
        *self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a round by `work`, which reads the cells of the rounds before again. Fails as `work`.
    pub(crate) fn run<T>(&self, work: impl FnOnce(&RunOptions<'_>) -> Result<T>) -> Result<T> {
        let CellCounts { saved, run } = self.counts();
        let again = AtomicUsize::new(saved + run);
        let take_one = |left: usize| left.checked_sub(1);
        let on_cell = |source, cost| {
            let is_saved = source == CellSource::Saved;
            if is_saved
                && again.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take_one).is_ok()
            {
                return;
            }
            self.add(source, cost);
        };
        let Cells { costs, .. } = self.cells;
        work(&RunOptions { threads: self.threads, stop: self.stop, costs, on_cell: &on_cell })
    }

    fn add(&self, source: CellSource, cost: u64) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let reused = match source {
            CellSource::Saved => &mut counts.saved,
            CellSource::Run => &mut counts.run,
        };
        *reused += 1;
        let mut end = self.end.lock().unwrap_or_else(PoisonError::into_inner);
        end.add(cost, source, Instant::now());
        drop(end);
        let (done, all) = (counts.saved + counts.run, self.cells.count);
        let of = if self.is_most { " of at most " } else { "/" };
        self.bar.set_message(match counts.saved {
            0 => format!("{done}{of}{all} cells"),
            saved => format!("{done}{of}{all} cells ({saved} reused)"),
        });
        self.bar.inc(cost);
    }
}

impl Drop for CellsBar<'_> {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// Runs cells by `work`, with a bar of progress. A first Ctrl-C stops the run, with `message`, a
/// second one ends the program at once. Fails as `work`, or if the system refuses Ctrl-C.
pub(crate) fn run_cells<T>(
    cells: Cells<'_>,
    message: &'static str,
    threads: Option<NonZeroUsize>,
    work: impl FnOnce(&RunOptions<'_>) -> Result<T>,
) -> Result<(T, CellCounts)> {
    let bar = CellsBar::new(cells, false, message, threads)?;
    let result = bar.run(work)?;
    Ok((result, bar.counts()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first cells may be the fast ones of their job.
    #[test]
    fn the_time_left_only_falls() {
        let began = Instant::now();
        let at = |seconds: u64| began + Duration::from_secs(seconds);
        let mut end = ExpectedEnd::new(began, 100);
        end.add(1, CellSource::Run, at(1));
        assert_eq!(end.left(at(1)), "…", "too little is done");
        end.add(20, CellSource::Saved, at(1));
        end.add(9, CellSource::Run, at(10));
        let words = |seconds: u64| HumanDuration(Duration::from_secs(seconds)).to_string();
        assert_eq!(end.left(at(10)), words(71), "a second for each of 70");
        end.add(10, CellSource::Run, at(40));
        assert_eq!(end.left(at(40)), words(41), "not later than was said");
        end.add(40, CellSource::Run, at(60));
        assert_eq!(end.left(at(60)), words(21), "20 of 60 in 60 s");
        assert_eq!(end.left(at(99)), words(1));
    }

    #[test]
    fn cells_of_the_rounds_before_count_once() {
        let bar = CellsBar::new(Cells::alike(6), true, "stopping", None).unwrap();
        let round = |sources: &[CellSource]| {
            bar.run(|options| {
                sources.iter().for_each(|&source| (options.on_cell)(source, 1));
                Ok(())
            })
            .unwrap();
            let CellCounts { saved, run } = bar.counts();
            (saved, run, bar.end.lock().unwrap().done)
        };
        use CellSource::{Run, Saved};
        assert_eq!(round(&[Saved, Run]), (1, 1, 2));
        assert_eq!(round(&[Saved, Saved, Saved, Run]), (2, 2, 4), "two of them were counted");
        assert_eq!(bar.end.lock().unwrap().all, 6, "the end is that of all rounds");
    }

    #[test]
    fn cells_cost_what_their_jobs_cost() {
        assert_eq!(Cells { count: 12, costs: &[10, 1, 1] }.cost(), 48);
        assert_eq!(Cells::alike(12).cost(), 12);
    }
}
