//! The frames of `mirrorball top`: a pure function of two samples of a service and the size of the
//! terminal.
//!
//! Rates and means are over the time between the samples; p99 is over the whole run, because one
//! second is too short for it. A narrow terminal shows fewer columns, a wide one a longer bar.

use crate::terminal::{ScreenLine, ScreenSize, TextEmphasis, cells, line, printable};
use console::measure_text_width;
use mirrorball_core::units::Nanos;
use mirrorball_io::control::protocol::{
    MemberStatsReport, PolicyCounter, ReportedSpareState, ServiceStats, ServiceStatus, SpareReport,
};

/// A column of the table of members.
struct MemberColumn {
    heading: &'static str,
    width: usize,
    /// Columns of a higher rank are left out first where the terminal is narrow.
    rank: u8,
    text: fn(&MemberRow) -> String,
}

/// Widths add up to 80 with one blank between columns, ranks 1 and 2 to 40.
const MEMBER_COLUMNS: [MemberColumn; 10] = [
    MemberColumn { heading: "devid", width: 5, rank: 1, text: |row| row.devid.clone() },
    MemberColumn { heading: "state", width: 10, rank: 1, text: |row| row.state.clone() },
    MemberColumn { heading: "reads/s", width: 8, rank: 1, text: |row| row.reads_per_s.clone() },
    MemberColumn { heading: "share", width: 5, rank: 2, text: |row| percent(row.share) },
    MemberColumn { heading: "", width: BAR_COLUMNS, rank: 6, text: |_| String::new() },
    MemberColumn { heading: "writes/s", width: 8, rank: 4, text: |row| row.writes_per_s.clone() },
    MemberColumn { heading: "queue", width: 5, rank: 5, text: |row| row.queue.clone() },
    MemberColumn { heading: "mean", width: 8, rank: 2, text: |row| row.mean.clone() },
    MemberColumn { heading: "p99", width: 7, rank: 3, text: |row| row.p99.clone() },
    MemberColumn { heading: "err", width: 5, rank: 5, text: |row| row.errors.clone() },
];
/// Index of the bar in [`MEMBER_COLUMNS`], the column that grows.
const BAR: usize = 4;
/// Width for a share of 100 % on a terminal of 80 columns, and at most.
const BAR_COLUMNS: usize = 10;
const BAR_COLUMNS_MAX: usize = 40;

/// Contents of one frame, without the layout.
pub(super) struct TopView {
    /// Parts of the title, which may be wrapped between them.
    title: Vec<String>,
    /// A line each.
    conditions: Vec<String>,
    members: Vec<MemberRow>,
    counters: Vec<[String; 3]>,
}

/// The texts of a member.
struct MemberRow {
    devid: String,
    state: String,
    reads_per_s: String,
    /// Part of all reads, from 0 to 1.
    share: f64,
    writes_per_s: String,
    queue: String,
    mean: String,
    p99: String,
    errors: String,
}

impl TopView {
    /// The view after a sample; `before` is the sample before it and the seconds between them.
    pub(super) fn new(
        status: &ServiceStatus,
        before: Option<(&ServiceStats, f64)>,
        stats: &ServiceStats,
    ) -> TopView {
        let changes: Vec<ValueChange> = stats
            .members
            .iter()
            .enumerate()
            .map(|(index, now)| {
                let then = before.and_then(|(stats, s)| Some((stats.members.get(index)?, s)));
                then.map(|(then, seconds)| ValueChange::between(then, now, seconds))
                    .unwrap_or_default()
            })
            .collect();
        let all_reads: f64 = changes.iter().map(|change| change.reads_per_s).sum();
        let rows = stats.members.iter().zip(&changes);
        let counters = stats.policy_counters.iter().flatten();
        TopView {
            title: title(status),
            conditions: status.conditions.iter().map(|it| printable(&it.text)).collect(),
            members: rows.map(|(member, change)| row(member, change, all_reads)).collect(),
            counters: counters.map(counter).collect(),
        }
    }

    /// The lines of a frame that fits a terminal of this size. The last line is the help.
    pub(super) fn frame(&self, size: ScreenSize) -> Vec<ScreenLine> {
        let width = size.columns;
        let mut lines = wrapped(&self.title, width, TextEmphasis::Bold);
        let conditions = self.conditions.iter();
        lines.extend(conditions.map(|text| line(text, width, TextEmphasis::Yellow)));
        let columns = member_columns(width);
        let headings = columns.iter().map(|&(index, width)| (MEMBER_COLUMNS[index].heading, width));
        lines.push(cells(headings, width, TextEmphasis::Underlined));
        for row in &self.members {
            let texts = columns.iter().map(|&(index, width)| match index {
                BAR => ("█".repeat((row.share * width as f64).round() as usize), width),
                index => ((MEMBER_COLUMNS[index].text)(row), width),
            });
            lines.push(cells(texts, width, TextEmphasis::Plain));
        }
        if !self.counters.is_empty() {
            lines.push(ScreenLine { emphasis: TextEmphasis::Plain, text: String::new() });
            lines.extend(self.counter_lines(width));
        }
        let room = size.lines.saturating_sub(1);
        let hidden = lines.len().saturating_sub(room);
        lines.truncate(room);
        let blank = || ScreenLine { emphasis: TextEmphasis::Plain, text: String::new() };
        lines.resize_with(room, blank);
        lines.push(help(&columns, hidden, width));
        lines
    }

    fn counter_lines(&self, width: usize) -> impl Iterator<Item = ScreenLine> {
        let headings = ["policy counter", "devid", "value"].map(str::to_owned);
        let widest = |column: usize| {
            let texts = self.counters.iter().chain([&headings]);
            texts.map(|texts| measure_text_width(&texts[column])).max().unwrap_or(0)
        };
        let [devid, value] = [widest(1), widest(2)];
        let name = widest(0).min(width.saturating_sub(devid + value + 2));
        let heading = cells(
            headings.clone().into_iter().zip([name, devid, value]),
            width,
            TextEmphasis::Underlined,
        );
        let rows = self.counters.iter().map(move |texts| {
            cells(texts.iter().zip([name, devid, value]), width, TextEmphasis::Plain)
        });
        [heading].into_iter().chain(rows)
    }
}

/// Activity of a member between two samples.
#[derive(Default)]
struct ValueChange {
    reads_per_s: f64,
    writes_per_s: f64,
    /// Mean wait of its reads; `None` if there were none.
    mean: Option<Nanos>,
}

impl ValueChange {
    fn between(then: &MemberStatsReport, now: &MemberStatsReport, seconds: f64) -> ValueChange {
        let total = |stats: &MemberStatsReport| {
            u128::from(stats.read_wait.mean_ns) * u128::from(stats.read_wait.count)
        };
        let grown = |now: u64, then: u64| now.saturating_sub(then) as f64;
        let reads = grown(now.member.reads, then.member.reads);
        let spent = total(now).saturating_sub(total(then)) as f64;
        ValueChange {
            reads_per_s: reads / seconds,
            writes_per_s: grown(now.member.writes, then.member.writes) / seconds,
            mean: (reads > 0.0).then(|| Nanos((spent / reads) as u64)),
        }
    }
}

fn title(status: &ServiceStatus) -> Vec<String> {
    let volume = status.profile.as_deref().unwrap_or("members as separate disks");
    let clients = status.connections;
    let mut parts = vec![format!("{}: {volume}", printable(&status.name))];
    parts.extend(status.policy.as_ref().map(|policy| format!("policy {policy}")));
    parts.push(format!("{clients} {}", if clients == 1 { "client" } else { "clients" }));
    let ready = |spare: &&SpareReport| spare.state == ReportedSpareState::Ready;
    match (status.spares.iter().filter(ready).count(), status.spares.len()) {
        (0, 0) => {}
        (ready, all) => parts.push(format!("{ready} of {all} spares ready")),
    }
    parts.push(format!("up {:.0} s", status.uptime_s));
    parts
}

fn row(stats: &MemberStatsReport, change: &ValueChange, all_reads: f64) -> MemberRow {
    let member = &stats.member;
    MemberRow {
        devid: member.devid.to_string(),
        state: member.state.name().to_owned(),
        reads_per_s: format!("{:.0}", change.reads_per_s),
        share: if all_reads > 0.0 { change.reads_per_s / all_reads } else { 0.0 },
        writes_per_s: format!("{:.0}", change.writes_per_s),
        queue: member.in_flight.to_string(),
        mean: change.mean.map_or("-".to_owned(), short),
        p99: short(Nanos(stats.read_wait.p99_ns)),
        errors: member.errors.to_string(),
    }
}

fn counter(counter: &PolicyCounter) -> [String; 3] {
    let devid = counter.devid.map(|devid| devid.to_string()).unwrap_or_default();
    [printable(&counter.name), devid, counter.value.to_string()]
}

/// The columns of members that fit, as indices with their widths.
fn member_columns(width: usize) -> Vec<(usize, usize)> {
    let chosen = |rank: u8| {
        let columns = MEMBER_COLUMNS.iter().enumerate();
        let kept = columns.filter(|(_, column)| column.rank <= rank);
        kept.map(|(index, column)| (index, column.width)).collect::<Vec<_>>()
    };
    let needed = |columns: &[(usize, usize)]| {
        columns.iter().map(|(_, width)| width).sum::<usize>() + columns.len() - 1
    };
    let ranks = (1..=6).rev();
    let fits = ranks.map(chosen).find(|columns| needed(columns) <= width);
    let mut columns = fits.unwrap_or_else(|| chosen(1));
    let spare = width.saturating_sub(needed(&columns));
    if let Some((_, bar)) = columns.iter_mut().find(|(index, _)| *index == BAR) {
        *bar = (*bar + spare).min(BAR_COLUMNS_MAX);
    }
    columns
}

/// The last line: what the figures mean and the keys, as far as there is room.
fn help(columns: &[(usize, usize)], hidden: usize, width: usize) -> ScreenLine {
    let has = |heading| columns.iter().any(|&(index, _)| MEMBER_COLUMNS[index].heading == heading);
    let mut parts = Vec::new();
    if hidden > 0 {
        parts.push(format!("{hidden} more lines"));
    }
    if has("mean") {
        parts.push("mean: this interval".to_owned());
    }
    if has("p99") {
        parts.push("p99: since start".to_owned());
    }
    parts.push("q: quit".to_owned());
    line(&parts.join("; "), width, TextEmphasis::Dim)
}

/// The parts with commas between them, on as many lines as they need.
fn wrapped(parts: &[String], width: usize, emphasis: TextEmphasis) -> Vec<ScreenLine> {
    let mut lines: Vec<String> = Vec::new();
    for part in parts {
        match lines.last_mut() {
            Some(last) if measure_text_width(last) + 2 + measure_text_width(part) <= width => {
                *last += &format!(", {part}");
            }
            _ => lines.push(part.clone()),
        }
    }
    lines.iter().map(|text| line(text, width, emphasis)).collect()
}

fn percent(share: f64) -> String {
    format!("{:3.0}%", share * 100.0)
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

#[cfg(test)]
mod tests {
    use super::*;
    use mirrorball_io::control::protocol::{
        Condition, MemberReport, Quantiles, ReportedState, Severity, VolumeHealth,
    };

    fn member(devid: u64, state: ReportedState, reads: u64, mean_us: u64) -> MemberStatsReport {
        let mean_ns = mean_us * 1000;
        MemberStatsReport {
            member: MemberReport {
                devid,
                state,
                device: None,
                recovered_bytes: None,
                size_bytes: 1 << 30,
                in_flight: 3,
                reads,
                read_bytes: reads << 12,
                writes: reads / 10,
                written_bytes: (reads / 10) << 12,
                flushes: 0,
                errors: 0,
                last_error: None,
                mismatched_blocks: None,
            },
            read_wait: Quantiles {
                count: reads,
                mean_ns,
                p99_ns: 23_456_789,
                ..Quantiles::default()
            },
            write_wait: Quantiles::default(),
            lateness: None,
        }
    }

    fn status() -> ServiceStatus {
        ServiceStatus {
            copies: None,
            parities: None,
            may_fail: None,
            name: "pair".to_owned(),
            policy: Some("latency-rr".to_owned()),
            profile: Some("raid1".to_owned()),
            health: VolumeHealth::Degraded,
            members: Vec::new(),
            conditions: vec![Condition {
                name: "member-rebuilding".to_owned(),
                severity: Severity::Warning,
                devid: Some(3),
                text: "devid 3 is being rebuilt: 12.5 %, 1 of 8 bytes".to_owned(),
                help: None,
            }],
            spares: Vec::new(),
            rebuilds: Vec::new(),
            unsynced_bytes: 0,
            active_bytes: 0,
            checksums: false,
            read_only: false,
            scrub: None,
            connections: 2,
            exports: Vec::new(),
            backend: "io_uring".to_owned(),
            uptime_s: 61.4,
        }
    }

    /// The second member took 400 reads of 2 ms in the two seconds, after 100 of 1 ms.
    fn view() -> TopView {
        let counter =
            |devid, name: &str, value| PolicyCounter { devid, name: name.to_owned(), value };
        let stats = |first, second, mean| ServiceStats {
            members: vec![
                member(1, ReportedState::InSync, first, 5000),
                member(2, ReportedState::InSync, second, mean),
                member(3, ReportedState::Rebuilding, 0, 0),
            ],
            policy_counters: Some(vec![
                counter(Some(1), "checkpoint_wait_ns", 12345),
                counter(None, "a_counter_with_a_very_long_name_indeed", -7),
            ]),
        };
        TopView::new(&status(), Some((&stats(1000, 100, 1000), 2.0)), &stats(2600, 500, 1800))
    }

    /// The frame as text, each line between bars with its emphasis in front.
    fn draw(view: &TopView, columns: usize, lines: usize) -> String {
        let frame = view.frame(ScreenSize { columns, lines });
        assert_eq!(frame.len(), lines);
        let rows = frame.iter().map(|ScreenLine { emphasis, text }| {
            let width = measure_text_width(text);
            assert!(width <= columns, "{width} columns: {text}");
            assert!(!text.contains(char::is_control), "{text:?}");
            format!("{emphasis:?}|{text}{}|\n", " ".repeat(columns - width))
        });
        rows.collect()
    }

    #[test]
    fn frame_at_40_columns() {
        insta::assert_snapshot!(draw(&view(), 40, 14));
    }

    #[test]
    fn frame_at_80_columns() {
        insta::assert_snapshot!(draw(&view(), 80, 14));
    }

    #[test]
    fn frame_at_100_columns() {
        insta::assert_snapshot!(draw(&view(), 100, 14));
    }

    #[test]
    fn every_size_is_respected() {
        for columns in (1..130).chain([1000]) {
            for lines in [1, 2, 3, 6, 50] {
                draw(&view(), columns, lines);
            }
        }
        assert!(draw(&view(), 40, 6).contains("6 more lines"));
    }

    #[test]
    fn names_cannot_move_the_cursor() {
        let status = ServiceStatus { name: "a\x1b[2Jb\nc".to_owned(), ..status() };
        let stats = ServiceStats { members: Vec::new(), policy_counters: None };
        assert!(
            draw(&TopView::new(&status, None, &stats), 80, 5).contains("a\u{fffd}[2Jb\u{fffd}c")
        );
    }

    #[test]
    fn first_frame_has_no_rates() {
        let stats = ServiceStats {
            members: vec![member(1, ReportedState::InSync, 10, 5)],
            policy_counters: None,
        };
        let status = ServiceStatus { policy: None, profile: None, ..status() };
        let view = TopView::new(&status, None, &stats);
        let row = &view.members[0];
        let texts =
            [&row.reads_per_s, &row.writes_per_s, &row.queue, &row.mean].map(String::as_str);
        assert_eq!((texts, row.share), (["0", "0", "3", "-"], 0.0));
        assert!(draw(&view, 80, 24).contains("members as separate disks"));
    }
}
