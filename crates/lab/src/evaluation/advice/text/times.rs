//! Times of maintenance, and what a limit on it brings.

use super::{columns, knob_lines, table};
use crate::evaluation::advice::answer::ArrayAnswer;
use crate::evaluation::advice::figure_text::{hours_text, number};
use crate::evaluation::advice::maintenance::{LimitedTimes, Maintenance, WorkTime};
use crate::evaluation::advice::state::RunningWork;
use crate::report::{self, Style, wrapped};
use mirrorball_core::units::Nanos;

/// Times of scrubs, rebuilds and flushes under each policy that the advice names.
pub(super) fn times(maintenance: &Maintenance, answer: &ArrayAnswer, style: Style) -> String {
    let shown = columns(&answer.advice);
    let running = answer.condition.as_deref().and_then(RunningWork::of);
    let of_running = |work: &str| running.filter(|it| it.is_of(work));
    let places: Vec<Option<usize>> = shown
        .iter()
        .map(|(_, spec)| maintenance.policies.iter().position(|policy| policy == spec))
        .collect();
    let texts = |text: &dyn Fn(usize) -> String| -> Vec<String> {
        places.iter().map(|place| place.map_or("-".to_owned(), text)).collect()
    };
    let heading = |name: &str| (name.to_owned(), vec![String::new(); shown.len()]);
    let mut rows: Vec<(String, Vec<String>)> = Vec::new();
    let mut above = "";
    for work in &maintenance.work {
        if work.work != above {
            rows.push(heading(&work.work));
            if let Some(running) = of_running(&work.work) {
                let first =
                    |place| if place == 0 { running.left.to_owned() } else { String::new() };
                let texts = (0..shown.len()).map(first).collect();
                rows.push(("  rest, at its rate".to_owned(), texts));
            }
            above = &work.work;
        }
        let time = |place: usize| hours(&work.times[place], style.width_columns);
        rows.push((format!("  {}", work.load), texts(&time)));
    }
    let flush = |nanos: u64| Nanos(nanos).to_string();
    rows.push(heading("flush"));
    rows.push(("  median".to_owned(), texts(&|at| flush(maintenance.flushes[at].p50_ns))));
    rows.push(("  99 % within".to_owned(), texts(&|at| flush(maintenance.flushes[at].p99_ns))));
    let names: Vec<&str> = shown.iter().map(|(name, _)| *name).collect();
    let (title, extrapolated) = match maintenance.work[..] {
        [] => ("Time of a flush", String::new()),
        _ => (
            "Time of a scrub, a rebuild and a flush",
            format!(
                "extrapolated to all data from up to {} of simulation at three places of the \
                 volume; ",
                Nanos(maintenance.window_ns)
            ),
        ),
    };
    let note = format!("{extrapolated}flushes of a writer with a reader (fsync-writer)");
    let note = first_capital(&note);
    let table = table("", &names, rows, style);
    format!("{title}\n{table}{}\n", report::note(&note, style.width_columns))
}

/// A limit on the work: what it costs in time, and what a reader has of it, of an array that is
/// whole now or not.
pub(super) fn limits(limited: &LimitedTimes, is_whole: bool, style: Style) -> String {
    let rate = |kib: Option<u64>| match kib {
        Some(kib) => format!("{:.0} MB/s", kib as f64 * 1.024e-3),
        None => "none".to_owned(),
    };
    let work = limited.work.split(' ').next().unwrap_or_default();
    let percent = |part: f64| format!("{:.0} %", (part * 100.0).ceil());
    let cells = |time: String, (per_s, spread, p99_ns): (f64, Option<f64>, u64)| {
        let spread = spread.map_or("-".to_owned(), percent);
        vec![time, number(per_s), spread, Nanos(p99_ns).to_string()]
    };
    let without = if is_whole { format!("no {work}") } else { "when whole".to_owned() };
    let &LimitedTimes { reads_per_s_without, reads_spread_without, p99_ns_without, .. } = limited;
    let alone = (reads_per_s_without, reads_spread_without, p99_ns_without);
    let mut rows = vec![(without, cells("-".to_owned(), alone))];
    for row in &limited.rows {
        let time = row.time.hours.map_or("never".to_owned(), hours_text);
        rows.push((rate(row.kib), cells(time, (row.reads_per_s, row.reads_spread, row.p99_ns))));
    }
    let width = style.width_columns;
    let LimitedTimes { work, policy, load, limit, .. } = limited;
    let title = format!("{work} with {load} under {policy}, each device limited by {limit}");
    let columns = ["time", "reads/s", "±", "99 % within"];
    let table = table("limit", &columns, rows, style);
    let commands = limited.commands.as_ref().map_or_else(String::new, |it| knob_lines(it, width));
    let title = wrapped(&first_capital(&title), width);
    let half = format!("± half the 95 % interval of reads/s over {} seeds", limited.repeats);
    let [half, remark] = [&half, &limited.remark].map(|it| report::note(it, width) + "\n");
    format!("\n{title}\n{table}{half}{remark}{commands}")
}

fn first_capital(text: &str) -> String {
    text[..1].to_uppercase() + &text[1..]
}

fn hours(time: &WorkTime, width: usize) -> String {
    let Some(hours) = time.hours else { return "never".to_owned() };
    let length = hours_text(hours);
    match width {
        0..80 => length,
        _ => format!("{length} ({:.0} MB/s)", time.bytes_per_s / 1e6),
    }
}
