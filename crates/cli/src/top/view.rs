//! What `mirrorball top` shows: a pure function of two looks at a service, so that a test can draw
//! it.
//!
//! Rates and means are of the time between the looks; tails are of the whole run, because a second
//! is too short for them.

use mirrorball_core::units::Nanos;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::Line;
use ratatui::widgets::{Paragraph, Row, Table};
use serde_json::Value;

/// How wide a full share is drawn.
const BAR_COLUMNS: f64 = 10.0;

/// The columns of members: heading and width. Together 80 with the blanks between them.
const MEMBER_COLUMNS: [(&str, u16); 9] = [
    ("devid", 5),
    ("state", 10),
    ("reads/s", 8),
    ("share", 15),
    ("writes/s", 8),
    ("queue", 5),
    ("mean", 8),
    ("p99", 7),
    ("err", 5),
];

/// One screen.
pub(super) struct View {
    title: String,
    /// Something that its reader should know first.
    warning: Option<String>,
    members: Vec<[String; 9]>,
    counters: Vec<[String; 3]>,
}

impl View {
    /// What is to be seen after a look, with the one before it and the seconds between them.
    pub(super) fn new(status: &Value, before: Option<(&Value, f64)>, stats: &Value) -> View {
        let of = |key: &str| plain(&status[key]);
        let reader = match status["policy"].as_str() {
            Some(policy) => format!("{} read by {policy}", of("profile")),
            None => "members each on its own".to_owned(),
        };
        let uptime = status["uptime_s"].as_f64().unwrap_or(0.0);
        let clients = of("connections");
        let title = format!("{}: {reader}, {clients} clients, up {uptime:.0} s", of("name"));
        let now = list(&stats["members"]);
        let then = before.map(|(stats, seconds)| (list(&stats["members"]), seconds));
        let changes: Vec<Change> = now
            .iter()
            .enumerate()
            .map(|(index, now)| {
                Change::of(now, then.and_then(|(list, s)| Some((list.get(index)?, s))))
            })
            .collect();
        let all_reads: f64 = changes.iter().map(|change| change.reads_per_s).sum();
        let rows = now.iter().zip(&changes);
        View {
            title,
            warning: warning(status),
            members: rows.map(|(member, change)| row(member, change, all_reads)).collect(),
            counters: list(&stats["policy_counters"]).iter().map(counter).collect(),
        }
    }

    /// Draws it.
    pub(super) fn draw(&self, frame: &mut Frame<'_>) {
        let member_lines = self.members.len() as u16 + 1;
        let warning_lines = u16::from(self.warning.is_some());
        let [title, warning, members, counters, help] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Length(warning_lines),
            Constraint::Length(member_lines + 1),
            Constraint::Min(0),
            Constraint::Length(1),
        ])
        .areas(frame.area());
        frame.render_widget(Line::from(self.title.as_str()).bold(), title);
        if let Some(text) = &self.warning {
            let style = Style::new().fg(Color::Yellow);
            frame.render_widget(Paragraph::new(text.as_str()).style(style), warning);
        }
        let heading = Row::new(MEMBER_COLUMNS.map(|(name, _)| name)).underlined();
        let widths = MEMBER_COLUMNS.map(|(_, width)| Constraint::Length(width));
        let rows = self.members.iter().cloned().map(Row::new);
        frame.render_widget(Table::new(rows, widths).header(heading), members);
        let heading = Row::new(["policy counter", "devid", "value"]).underlined();
        let widths = [Constraint::Length(30), Constraint::Length(6), Constraint::Length(22)];
        let rows = self.counters.iter().cloned().map(Row::new);
        if !self.counters.is_empty() {
            frame.render_widget(Table::new(rows, widths).header(heading), counters);
        }
        let text = "mean: of reads since the last look; p99: of reads since the start; q quits";
        frame.render_widget(Line::from(text).dim(), help);
    }
}

/// What a member did between two looks.
#[derive(Default)]
struct Change {
    reads_per_s: f64,
    writes_per_s: f64,
    /// How long its reads took; `None` if there were none.
    mean: Option<Nanos>,
}

impl Change {
    fn of(now: &Value, before: Option<(&Value, f64)>) -> Change {
        let Some((then, seconds)) = before else { return Change::default() };
        let grown = |key: &str| number(&now[key]).saturating_sub(number(&then[key])) as f64;
        let total = |look: &Value| {
            let wait = &look["read_wait"];
            u128::from(number(&wait["mean_ns"])) * u128::from(number(&wait["count"]))
        };
        let reads = grown("reads");
        let spent = total(now).saturating_sub(total(then)) as f64;
        Change {
            reads_per_s: reads / seconds,
            writes_per_s: grown("writes") / seconds,
            mean: (reads > 0.0).then(|| Nanos((spent / reads) as u64)),
        }
    }
}

/// What is not as it should be.
fn warning(status: &Value) -> Option<String> {
    if status["health"] != "degraded" {
        return None;
    }
    let rebuilds = list(&status["rebuilds"]).iter().map(|rebuild| {
        let share = number(&rebuild["recovered_bytes"]) as f64
            / number(&rebuild["total_bytes"]).max(1) as f64;
        format!(", devid {} is rebuilt ({:.1} %)", rebuild["devid"], share * 100.0)
    });
    Some(format!("degraded{}", rebuilds.collect::<String>()))
}

fn row(member: &Value, change: &Change, all_reads: f64) -> [String; 9] {
    let share = if all_reads > 0.0 { change.reads_per_s / all_reads } else { 0.0 };
    let bar = "█".repeat((share * BAR_COLUMNS).round() as usize);
    [
        plain(&member["devid"]),
        plain(&member["state"]),
        format!("{:.0}", change.reads_per_s),
        format!("{:3.0}% {bar}", share * 100.0),
        format!("{:.0}", change.writes_per_s),
        plain(&member["in_flight"]),
        change.mean.map_or("-".to_owned(), short),
        short(Nanos(number(&member["read_wait"]["p99_ns"]))),
        plain(&member["errors"]),
    ]
}

fn counter(counter: &Value) -> [String; 3] {
    let devid = if counter["devid"].is_null() { String::new() } else { plain(&counter["devid"]) };
    [plain(&counter["name"]), devid, plain(&counter["value"])]
}

/// A time in few columns.
fn short(time: Nanos) -> String {
    match time.0 {
        0 => "-".to_owned(),
        nanos if nanos < 10_000_000 => format!("{} us", nanos / 1000),
        nanos if nanos < 10_000_000_000 => format!("{} ms", nanos / 1_000_000),
        nanos => format!("{} s", nanos / 1_000_000_000),
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

/// A value without the quotes of JSON.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use serde_json::json;

    fn member(devid: u64, state: &str, reads: u64, mean_us: u64) -> Value {
        json!({
            "devid": devid, "state": state, "in_flight": 3, "reads": reads, "writes": reads / 10,
            "errors": 0,
            "read_wait": { "count": reads, "mean_ns": mean_us * 1000, "p99_ns": 23_456_789 },
        })
    }

    fn draw(view: &View, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| view.draw(frame)).unwrap();
        terminal.backend().to_string()
    }

    /// The second member took 400 reads of 2 ms in the two seconds, after 100 of 1 ms before.
    fn view() -> View {
        let status = json!({
            "name": "pair", "policy": "latency-rr", "profile": "raid1", "health": "degraded",
            "connections": 2, "uptime_s": 61.4,
            "rebuilds": [{ "devid": 3, "recovered_bytes": 1, "total_bytes": 8 }],
        });
        let stats = |first, second, mean| {
            json!({
                "members": [
                    member(1, "in sync", first, 5000),
                    member(2, "in sync", second, mean),
                    member(3, "rebuilding", 0, 0),
                ],
                "policy_counters": [
                    { "devid": 1, "name": "checkpoint_wait_ns", "value": 12345 },
                    { "devid": null, "name": "blocks_read", "value": -7 },
                ],
            })
        };
        View::new(&status, Some((&stats(1000, 100, 1000), 2.0)), &stats(2600, 500, 1800))
    }

    #[test]
    fn a_volume_is_drawn_in_80_columns_and_24_lines() {
        insta::assert_snapshot!(draw(&view(), 80, 24));
    }

    #[test]
    fn a_small_terminal_shows_what_fits() {
        let text = draw(&view(), 40, 6);
        assert!(text.contains("degraded, devid 3") && text.contains("800"), "{text}");
        draw(&view(), 1, 1);
    }

    #[test]
    fn before_the_second_look_there_are_no_rates() {
        let stats = json!({ "members": [member(1, "in sync", 10, 5)], "policy_counters": null });
        let view = View::new(&json!({ "name": "disk", "health": "in sync" }), None, &stats);
        assert_eq!(view.members[0][2..7], ["0", "  0% ", "0", "3", "-"]);
        assert!(draw(&view, 80, 24).contains("members each on its own"));
    }
}
