//! `mirrorball top`: what the members of a running volume do, live in the terminal.

mod view;

use crate::ctl;
use crate::ending::{Ending, Failure};
use anyhow::anyhow;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyModifiers};
use serde_json::Value;
use std::io::{IsTerminal, stdin, stdout};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use view::View;

/// Watch what the members of a running volume do
#[derive(Debug, clap::Args)]
#[command(after_help = "PATH is what `emulate` or `serve` was given as --control. q ends it.

Example:
  mirrorball top --control /tmp/volume.ctl")]
pub(crate) struct Args {
    /// The control socket of the service
    #[arg(short, long, value_name = "PATH")]
    control: PathBuf,

    /// Seconds between looks
    #[arg(long, default_value_t = 1.0, value_parser = interval)]
    every: f64,
}

/// What the service answered, and when.
struct Look {
    status: Value,
    stats: Value,
    at: Instant,
}

pub(crate) fn run(args: &Args) -> Result<Ending, Failure> {
    if !stdout().is_terminal() || !stdin().is_terminal() {
        let text = "top draws on a terminal; `mirrorball ctl stats` prints the same figures";
        return Err(Failure::WrongUse(anyhow!("{text}")));
    }
    // Before the screen is taken: what goes wrong at once is told in peace.
    let first = look(&args.control)?;
    let mut terminal = ratatui::try_init().map_err(|error| Failure::Fault(error.into()))?;
    let every = Duration::from_secs_f64(args.every);
    let result = watch(&mut terminal, &args.control, first, every);
    ratatui::restore();
    result?;
    Ok(Ending::Done)
}

fn watch(
    terminal: &mut DefaultTerminal,
    control: &Path,
    first: Look,
    every: Duration,
) -> Result<(), Failure> {
    let fault = |error: std::io::Error| Failure::Fault(error.into());
    let mut last = first;
    let mut view = View::new(&last.status, None, &last.stats);
    loop {
        terminal.draw(|frame| view.draw(frame)).map_err(fault)?;
        let due = last.at + every;
        if event::poll(due.saturating_duration_since(Instant::now())).map_err(fault)? {
            if let Event::Key(key) = event::read().map_err(fault)?
                && ends(key)
            {
                return Ok(());
            }
            // A new size is drawn at once.
            continue;
        }
        let next = look(control)?;
        let seconds = (next.at - last.at).as_secs_f64();
        view = View::new(&next.status, Some((&last.stats, seconds)), &next.stats);
        last = next;
    }
}

/// Whether a key ends the program. The terminal is raw, so Ctrl-C is a key like any other.
fn ends(key: KeyEvent) -> bool {
    let interrupt = key.modifiers.contains(KeyModifiers::CONTROL);
    match key.code {
        KeyCode::Char('q') | KeyCode::Esc => true,
        KeyCode::Char('c') => interrupt,
        _ => false,
    }
}

fn look(control: &Path) -> Result<Look, Failure> {
    let status = ctl::ask(control, "status")?;
    let stats = ctl::ask(control, "stats")?;
    Ok(Look { status, stats, at: Instant::now() })
}

fn interval(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.1..=3600.0).contains(&seconds) => Ok(seconds),
        _ => Err(format!("`{text}` is no number of seconds from 0.1 to 3600")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_keys_that_people_try_end_it_and_others_do_not() {
        let key = |code, modifiers| ends(KeyEvent::new(code, modifiers));
        assert!(key(KeyCode::Char('q'), KeyModifiers::NONE));
        assert!(key(KeyCode::Esc, KeyModifiers::NONE));
        assert!(key(KeyCode::Char('c'), KeyModifiers::CONTROL));
        assert!(!key(KeyCode::Char('c'), KeyModifiers::NONE));
        assert!(!key(KeyCode::Enter, KeyModifiers::NONE));
    }

    #[test]
    fn intervals_are_seconds_within_reason() {
        assert_eq!(interval("0.5"), Ok(0.5));
        for text in ["0", "-1", "nan", "soon", "1e9"] {
            assert!(interval(text).unwrap_err().contains("0.1 to 3600"), "{text}");
        }
    }
}
