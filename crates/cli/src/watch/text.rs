//! The output of `watch`: the verdict first, then the figures.

use super::session::{DiskRow, Watching};
use crate::terminal::{ScreenLine, ScreenSize, TextEmphasis, cells, line, printable};
use mirrorball_core::units::Nanos;
use mirrorball_health::judge::{Cause, DiskState};
use mirrorball_health::service::IoDirection;
use serde_json::{Value, json};

struct DiskColumn {
    heading: &'static str,
    width: usize,
    /// Columns of a higher rank are left out first where there is no room.
    rank: u8,
    text: fn(&DiskRow<'_>) -> String,
}

/// Widths add up to 80 with one blank between columns, ranks 1 and 2 to 40.
const COLUMNS: [DiskColumn; 9] = [
    DiskColumn { heading: "disk", width: 9, rank: 1, text: |it| printable(&it.disk.name) },
    DiskColumn { heading: "array", width: 10, rank: 5, text: array },
    DiskColumn { heading: "reads/s", width: 7, rank: 3, text: |it| figure(it, |f| f.reads_per_s) },
    DiskColumn { heading: "wait ms", width: 7, rank: 2, text: |it| wait(it, IoDirection::Read) },
    DiskColumn {
        heading: "writes/s",
        width: 8,
        rank: 4,
        text: |it| figure(it, |f| f.writes_per_s),
    },
    DiskColumn { heading: "wait ms", width: 7, rank: 4, text: |it| wait(it, IoDirection::Write) },
    DiskColumn { heading: "queue", width: 5, rank: 3, text: |it| figure(it, |f| f.depth) },
    DiskColumn { heading: "busy", width: 4, rank: 2, text: busy },
    DiskColumn { heading: "", width: 15, rank: 1, text: state },
];

fn array(it: &DiskRow<'_>) -> String {
    printable(it.group.array.as_deref().unwrap_or("-"))
}

fn figure(it: &DiskRow<'_>, value: fn(&mirrorball_health::judge::DiskFigures) -> f64) -> String {
    it.figures.as_ref().map_or_else(|| "-".to_owned(), |figures| short(value(figures)))
}

fn wait(it: &DiskRow<'_>, direction: IoDirection) -> String {
    it.wait_ms(direction).map_or_else(|| "-".to_owned(), short)
}

fn busy(it: &DiskRow<'_>) -> String {
    it.figures.map_or_else(|| "-".to_owned(), |it| format!("{:.0}%", it.utilisation * 100.0))
}

fn short(value: f64) -> String {
    match value {
        value if value < 0.995 => format!("{value:.2}"),
        value if value < 9.95 => format!("{value:.1}"),
        value => format!("{value:.0}"),
    }
}

fn state(it: &DiskRow<'_>) -> String {
    match it.state {
        DiskState::CannotTell => "too little I/O".to_owned(),
        DiskState::Learning => "learning".to_owned(),
        DiskState::Fine => "as expected".to_owned(),
        DiskState::Busy { ratio } => format!("busier x{ratio:.1}"),
        DiskState::Slow { ratio, .. } if it.state.is_alarm() => format!("SLOW x{ratio:.1}"),
        DiskState::Slow { ratio, .. } => format!("tidying x{ratio:.1}"),
    }
}

fn state_name(state: DiskState) -> &'static str {
    match state {
        DiskState::CannotTell => "cannot-tell",
        DiskState::Learning => "learning",
        DiskState::Fine => "as-expected",
        DiskState::Busy { .. } => "busy",
        DiskState::Slow { .. } if state.is_alarm() => "slow",
        DiskState::Slow { .. } => "tidying-up",
    }
}

/// The disk with its array, as a sentence begins.
fn named(it: &DiskRow<'_>) -> String {
    let disk = printable(&it.disk.name);
    match (&it.group.array, it.disk.devid) {
        (Some(array), Some(devid)) => format!("{disk} (devid {devid} of {})", printable(array)),
        _ => disk,
    }
}

/// The sentence about a disk that is slow or tidies up, and what to do next; `None` for others.
fn verdict(it: &DiskRow<'_>, now: Nanos) -> Option<[String; 2]> {
    let DiskState::Slow { ratio, cause, since, direction } = it.state else { return None };
    let what = match direction {
        IoDirection::Read => "reads",
        IoDirection::Write => "writes",
    };
    let ago = (now.saturating_sub(since).as_secs_f64() / 60.0).ceil();
    let is = if it.state.is_alarm() { "is slow" } else { "may be tidying up" };
    let sentence = format!(
        "{} {is}: its {what} take {ratio:.1} times what they should, for {ago:.0} min",
        named(it)
    );
    let disk = printable(&it.disk.name);
    let next = match cause {
        Cause::Service => format!(
            "the queue does not explain it, the disk itself needs longer: see `smartctl -x \
             /dev/{disk}`, and reseat its cable"
        ),
        Cause::Errors => format!(
            "errors were counted meanwhile: see `dmesg` and `smartctl -x /dev/{disk}`; replace the \
             cable or the disk"
        ),
        Cause::Link => {
            let link = it.disk.link.as_deref().unwrap_or("its link");
            format!("every disk behind {} is: the link is full or faulty", printable(link))
        }
        Cause::AfterWrites => {
            "it is or was written: it recovers by itself, and counts as slow if it does not"
                .to_owned()
        }
    };
    Some([sentence, next])
}

/// The verdict in sentences, each with its next step: of slow disks, or of those that tidy up.
fn verdicts(watching: &Watching, are_alarms: bool) -> Vec<[String; 2]> {
    let disks = watching.disks().filter(|it| it.state.is_alarm() == are_alarms);
    disks.filter_map(|it| verdict(&it, watching.now())).collect()
}

/// The sentence if no disk is slow.
fn healthy(watching: &Watching) -> String {
    let unjudged: Vec<String> =
        watching.disks().filter(|it| !it.is_judged()).map(|it| printable(&it.disk.name)).collect();
    let all = watching.disks().count();
    match unjudged.len() {
        0 => "No disk is slow.".to_owned(),
        count if count == all && watching.disks().any(|it| it.state == DiskState::Learning) => {
            "Cannot tell yet: a load is compared with what it took before, so watch for 30 s at \
             least, or with --history."
                .to_owned()
        }
        count if count == all => {
            "Cannot tell: no disk had enough I/O for long enough. Watch for 30 s at least, while \
             the array works."
                .to_owned()
        }
        _ => format!("No disk is slow. Cannot tell of {}: too little I/O.", unjudged.join(", ")),
    }
}

/// The verdict, and the table of disks.
pub(super) fn report(watching: &Watching, width: usize) -> String {
    let paragraph = |[sentence, next]: [String; 2]| format!("{sentence}.\n  {next}\n");
    let mut text: String = verdicts(watching, true).into_iter().map(paragraph).collect();
    if text.is_empty() {
        text += &format!("{}\n", healthy(watching));
    }
    text.extend(verdicts(watching, false).into_iter().map(paragraph));
    let text = crate::screen::broken(&text);
    let table = table(watching, width).into_iter().map(|line| line.text + "\n");
    format!("{text}\n{}", table.collect::<String>())
}

/// One line, as Nagios and its kin read it.
pub(super) fn check_line(watching: &Watching) -> String {
    let slow = verdicts(watching, true).into_iter().map(|[sentence, _]| sentence);
    let slow = slow.collect::<Vec<_>>().join("; ");
    match slow.is_empty() {
        false => format!("WARNING: {slow}\n"),
        true if watching.disks().any(|it| it.is_judged()) => {
            format!("OK: {}\n", healthy(watching))
        }
        true => format!("UNKNOWN: {}\n", healthy(watching)),
    }
}

/// The table of disks, as wide as there is room.
fn table(watching: &Watching, width: usize) -> Vec<ScreenLine> {
    let total = |most: u8| -> usize {
        let shown = COLUMNS.iter().filter(|column| column.rank <= most);
        shown.map(|column| column.width + 1).sum::<usize>() - 1
    };
    let most = (1..=5).rev().find(|most| total(*most) <= width).unwrap_or(1);
    let shown: Vec<&DiskColumn> = COLUMNS.iter().filter(|column| column.rank <= most).collect();
    let headings = shown.iter().map(|column| (column.heading, column.width));
    let mut lines = vec![cells(headings, width, TextEmphasis::Underlined)];
    for disk in watching.disks() {
        let texts = shown.iter().map(|column| ((column.text)(&disk), column.width));
        let emphasis = match disk.state {
            state if state.is_alarm() => TextEmphasis::Yellow,
            _ => TextEmphasis::Plain,
        };
        lines.push(cells(texts, width, emphasis));
    }
    lines
}

/// A frame of the live view: verdict, table, and the waits of the last minutes.
pub(super) fn frame(watching: &Watching, size: ScreenSize) -> Vec<ScreenLine> {
    let width = size.columns;
    let mut lines = Vec::new();
    for [sentence, next] in verdicts(watching, true) {
        lines.push(line(&sentence, width, TextEmphasis::Bold));
        lines.push(line(&format!("  {next}"), width, TextEmphasis::Plain));
    }
    if lines.is_empty() {
        lines.push(line(&healthy(watching), width, TextEmphasis::Bold));
    }
    let blank = || line("", width, TextEmphasis::Plain);
    lines.push(blank());
    lines.extend(table(watching, width));
    lines.push(blank());
    for disk in watching.disks().filter(|disk| disk.trail.iter().any(|wait| *wait > 0.0)) {
        let name = format!("{:<9} {}", printable(&disk.disk.name), sparkline(disk.trail));
        lines.push(line(&name, width, TextEmphasis::Plain));
    }
    lines.truncate(size.lines.saturating_sub(1));
    lines.resize_with(size.lines.saturating_sub(1), blank);
    lines.push(line("waits of the last minutes; q: quit", width, TextEmphasis::Dim));
    lines
}

/// Waits as bars, the longest as high as a line.
fn sparkline(waits: &[f64]) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let most = waits.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    waits.iter().map(|wait| BARS[((wait / most * 7.0).round() as usize).min(7)]).collect()
}

/// A line for each disk that became slow, or is as expected again.
pub(super) fn changes(
    watching: &Watching,
    before: &[String],
    now: &[String],
    is_json: bool,
) -> Vec<String> {
    let has_changed =
        |it: &DiskRow<'_>| before.contains(&it.disk.name) != now.contains(&it.disk.name);
    let text = |it: DiskRow<'_>| match (is_json, verdict(&it, watching.now())) {
        (true, _) => disk_json(&it, watching.now()).to_string(),
        (false, Some([sentence, next])) => format!("{sentence}; {next}"),
        (false, None) => format!("{} is as expected again", named(&it)),
    };
    watching.disks().filter(has_changed).map(text).collect()
}

pub(super) fn json(watching: &Watching) -> String {
    let disks: Vec<Value> = watching.disks().map(|it| disk_json(&it, watching.now())).collect();
    format!("{:#}\n", json!({ "slow": watching.slow_disks(), "disks": disks }))
}

fn disk_json(it: &DiskRow<'_>, now: Nanos) -> Value {
    let mut disk = json!({
        "disk": it.disk.name,
        "array": it.group.array,
        "devid": it.disk.devid,
        "state": state_name(it.state),
    });
    match it.state {
        DiskState::Slow { ratio, cause, since, direction } => {
            disk["ratio"] = json!(ratio);
            disk["cause"] = json!(match cause {
                Cause::Service => "service",
                Cause::Errors => "errors",
                Cause::Link => "link",
                Cause::AfterWrites => "after-writes",
            });
            disk["direction"] = json!(direction);
            disk["for_s"] = json!(now.saturating_sub(since).as_secs_f64());
        }
        DiskState::Busy { ratio } => disk["ratio"] = json!(ratio),
        _ => {}
    }
    if let Some(figures) = it.figures {
        disk["reads_per_s"] = json!(figures.reads_per_s);
        disk["writes_per_s"] = json!(figures.writes_per_s);
        disk["read_wait_ms"] = json!(it.wait_ms(IoDirection::Read));
        disk["write_wait_ms"] = json!(it.wait_ms(IoDirection::Write));
        disk["depth"] = json!(figures.depth);
        disk["utilisation"] = json!(figures.utilisation);
    }
    disk
}

/// The disks in the text format of Prometheus. What is not known is left out: figures before the
/// second sample, waits without I/O, and a verdict where there was too little I/O for one.
pub(super) fn metrics(watching: &Watching) -> String {
    type Value = fn(&DiskRow<'_>) -> Option<f64>;
    const METRICS: [(&str, &str, Value); 8] = [
        ("is_slow", "1 if the disk is reported as slow.", |it| {
            it.is_judged().then(|| f64::from(u8::from(it.state.is_alarm())))
        }),
        ("slowness_ratio", "How many times slower than expected; 1 if it is not.", |it| {
            it.is_judged().then_some(match it.state {
                DiskState::Slow { ratio, .. } => ratio,
                _ => 1.0,
            })
        }),
        ("reads_per_second", "Reads.", |it| it.figures.map(|of| of.reads_per_s)),
        ("writes_per_second", "Writes.", |it| it.figures.map(|of| of.writes_per_s)),
        ("read_wait_seconds", "Mean wait of reads.", |it| {
            it.wait_ms(IoDirection::Read).map(|ms| ms / 1e3)
        }),
        ("write_wait_seconds", "Mean wait of writes.", |it| {
            it.wait_ms(IoDirection::Write).map(|ms| ms / 1e3)
        }),
        ("in_flight", "Mean number of requests in flight while any was.", |it| {
            it.figures.map(|of| of.depth)
        }),
        ("busy_ratio", "Share of the time with a request in flight.", |it| {
            it.figures.map(|of| of.utilisation)
        }),
    ];
    let label = |text: &str| text.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n");
    let mut text = String::new();
    for (name, help, value) in METRICS {
        let name = format!("mirrorball_disk_{name}");
        text += &format!("# HELP {name} {help}\n# TYPE {name} gauge\n");
        for it in watching.disks() {
            let Some(value) = value(&it) else { continue };
            let (disk, array) = (&it.disk.name, it.group.array.as_deref().unwrap_or(""));
            let labels = format!("disk=\"{}\",array=\"{}\"", label(disk), label(array));
            text += &format!("{name}{{{labels}}} {value}\n");
        }
    }
    text
}
