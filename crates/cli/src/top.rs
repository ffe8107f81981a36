//! `mirrorball top`: what the members of a running volume do, live in the terminal.

mod view;

use crate::ctl::ask;
use crate::ending::{Ending, Failure};
use crate::numbers;
use crate::terminal::Terminal;
use anyhow::anyhow;
use mirrorball_core::diagnostic::quoted;
use mirrorball_core::units::Nanos;
use mirrorball_io::control::protocol::{ControlRequest, ServiceStats, ServiceStatus};
use std::io::{IsTerminal, stdin, stdout};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use view::TopView;

/// How often `top` checks whether the terminal has another size, or a signal arrived.
const CHECK_INTERVAL: Duration = Duration::from_millis(200);

/// Watch the members of a running volume
#[derive(Debug, clap::Args)]
#[command(after_help = "PATH is the path given to `emulate` or `serve` as --control. Press q to \
quit.

Example:
  mirrorball top --control /tmp/volume.ctl")]
pub(crate) struct Args {
    /// Control socket of the running `emulate` or `serve`
    #[arg(short, long, value_name = "PATH")]
    control: PathBuf,

    /// Time between updates with its unit, for example 500ms or 2s; from 100ms to 1h
    #[arg(long, value_name = "TIME", default_value = "1s", allow_hyphen_values = true,
          value_parser = interval)]
    every: Nanos,
}

/// The state of the service at one time.
struct StatusSample {
    status: ServiceStatus,
    stats: ServiceStats,
    at: Instant,
}

pub(crate) fn run(args: &Args) -> Result<Ending, Failure> {
    if !stdout().is_terminal() || !stdin().is_terminal() {
        let error = anyhow!(
            "`top` needs a terminal\n  help: `mirrorball ctl --control {} stats` prints the same \
             figures",
            quoted(&args.control.to_string_lossy())
        );
        return Err(Failure::WrongUse(error));
    }
    // Before the screen is switched, so that an error at the start is seen where others are.
    let first = sample(&args.control)?;
    let ended = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&ended);
    let set = ctrlc::set_handler(move || flag.store(true, Ordering::Relaxed));
    set.map_err(|error| Failure::Fault(error.into()))?;
    let terminal = Terminal::take().map_err(|error| Failure::Fault(error.into()))?;
    let every = Duration::from_nanos(args.every.0);
    watch(&terminal, &args.control, first, every, &ended)?;
    Ok(Ending::Done)
}

fn watch(
    terminal: &Terminal,
    control: &Path,
    first: StatusSample,
    every: Duration,
    ended: &AtomicBool,
) -> Result<(), Failure> {
    let fault = |error: std::io::Error| Failure::Fault(error.into());
    let mut last = first;
    let mut view = TopView::new(&last.status, None, &last.stats);
    loop {
        let size = terminal.size();
        terminal.draw(&view.frame(size)).map_err(fault)?;
        let due = last.at + every;
        while Instant::now() < due && terminal.size() == size {
            let left = due.saturating_duration_since(Instant::now());
            let keys = terminal.read_keys(left.min(CHECK_INTERVAL)).map_err(fault)?;
            if quits(&keys) || ended.load(Ordering::Relaxed) {
                return Ok(());
            }
        }
        if Instant::now() >= due {
            let next = sample(control)?;
            let seconds = (next.at - last.at).as_secs_f64();
            view = TopView::new(&next.status, Some((&last.stats, seconds)), &next.stats);
            last = next;
        }
    }
}

/// Returns true for q, Q, Ctrl-C and the Escape key. Other keys whose codes begin with Escape, such
/// as the arrows, arrive as several bytes at once.
pub(crate) fn quits(keys: &[u8]) -> bool {
    const CTRL_C: u8 = 3;
    const ESCAPE: u8 = 0x1b;
    keys == [ESCAPE]
        || (!keys.starts_with(&[ESCAPE])
            && keys.iter().any(|key| matches!(*key, b'q' | b'Q' | CTRL_C)))
}

fn sample(control: &Path) -> Result<StatusSample, Failure> {
    let status = ask(control, &ControlRequest::Status)?;
    let stats = ask(control, &ControlRequest::Stats { reset: false })?;
    Ok(StatusSample { status, stats, at: Instant::now() })
}

fn interval(text: &str) -> Result<Nanos, String> {
    let time = match text {
        "0" => Nanos::ZERO,
        text => numbers::duration(text)?,
    };
    match time {
        time if (Nanos::from_millis(100)..=Nanos::from_secs(3600)).contains(&time) => Ok(time),
        _ => Err("must be from 100ms to 1h".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_quit() {
        for keys in ["q", "Q", "\x1b", "\x03", "xq"] {
            assert!(quits(keys.as_bytes()), "{keys:?}");
        }
        for keys in ["", "c", "\r", "\x1b[A", "\x1bOQ", "\x1b[200~q"] {
            assert!(!quits(keys.as_bytes()), "{keys:?}");
        }
    }

    #[test]
    fn intervals_are_bounded() {
        assert_eq!(interval("500ms"), Ok(Nanos::from_millis(500)));
        assert_eq!(interval("1s"), Ok(Nanos::from_secs(1)));
        for text in ["99ms", "0s", "0", "2h"] {
            assert_eq!(interval(text).unwrap_err(), "must be from 100ms to 1h", "{text}");
        }
        for (text, part) in [("0.5", "no unit"), ("soon", "not a duration")] {
            assert!(interval(text).unwrap_err().contains(part), "{text}");
        }
    }
}
