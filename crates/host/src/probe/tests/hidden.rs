//! Hidden models: how near the probe comes to parameters that it does not know.
//!
//! The table of the chapter is written by the same test that holds the bounds:
//! `UPDATE_CHAPTER=1 cargo test -p mirrorball-host hidden`.

use crate::probe::outcome::ProbeOutcome;
use crate::probe::seeks::mean_of;
use crate::probe::{Budget, ProbeOptions, probe_model};
use mirrorball_core::units::{Nanos, parse_bytes, parse_duration, parse_rate};
use mirrorball_disk::link::LinkParameters;
use mirrorball_disk::profile::ModelProfile;
use std::fmt::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// A model to be probed: its name in the table, the profile it is made of, and what is changed.
struct HiddenModel {
    name: &'static str,
    base: &'static str,
    set: &'static str,
    link: Option<(&'static str, &'static str)>,
}

const fn hidden(name: &'static str, base: &'static str, set: &'static str) -> HiddenModel {
    HiddenModel { name, base, set, link: None }
}

const DISKS: [HiddenModel; 5] = [
    hidden(
        "5400 rpm, square root, 2.2 to 1",
        "hdd-5k4-4tb",
        "rpm = 5400\nouter_rate = \"152MB/s\"\ninner_rate = \"69MB/s\"\nseek_track = \"1.1ms\"\n\
         seek_average = \"11.3ms\"\nread_ahead = \"384KiB\"\ncommand_overhead = \"140us\"",
    ),
    hidden(
        "7200 rpm, average and full, 1.8 to 1",
        "hdd-7k2-desktop",
        "outer_rate = \"203MB/s\"\ninner_rate = \"113MB/s\"\nseek_track = \"0.7ms\"\n\
         seek_average = \"8.9ms\"\nseek_full = \"18.5ms\"\nsegments = 8",
    ),
    hidden(
        "15000 rpm, points, 1.5 to 1",
        "hdd-15k",
        "outer_rate = \"129MB/s\"\ninner_rate = \"86MB/s\"\nseek_track = \"0.35ms\"\n\
         seek_points = [[0.01, \"0.7ms\"], [0.1, \"1.8ms\"], [0.3, \"3.1ms\"], [0.6, \"4.6ms\"], \
         [1.0, \"6.9ms\"]]\nqueue_depth = 16",
    ),
    hidden(
        "7200 rpm, points, 2 to 1, 8 queued",
        "hdd-7k2-desktop-worn",
        "recovery_probability = 0.0\nrpm = 7200",
    ),
    hidden("5400 rpm, average and full, 2 to 1", "hdd-5k4", "rpm = 5400"),
];

const SOLID: [HiddenModel; 4] = [
    hidden("8 dies, SATA", "ssd-sata-consumer", "dies = 8\nread = \"52us\""),
    hidden("32 dies", "nvme-gen3", "dies = 32"),
    hidden("128 dies, three page types", "nvme-tlc-real", "dies = 128"),
    HiddenModel {
        name: "link of 1 ms with jitter",
        base: "delay",
        set: "service = \"180us\"\nservers = 2",
        link: Some(("1ms", "150us")),
    },
];

impl HiddenModel {
    fn profile(&self) -> ModelProfile {
        let mut set: toml::Table = self.set.parse().unwrap();
        let base = ModelProfile::builtin(self.base).unwrap();
        // An average excludes points, and points exclude an average.
        let is_curve = |key: &str| set.contains_key(key);
        let (points, average) = (is_curve("seek_points"), is_curve("seek_average"));
        if average && base.parameter_table().contains_key("seek_points") {
            set.insert("seek_points".to_owned(), toml::Value::Array(Vec::new()));
        }
        if points && base.parameter_table().contains_key("seek_average") {
            return without_average(&base, &set);
        }
        base.with_overrides(set).unwrap()
    }

    fn probe(&self, budget: Budget) -> ProbeOutcome {
        let link = self.link.map(|(latency, jitter)| LinkParameters {
            name: "network".to_owned(),
            read_rate: Some(117_000_000),
            write_rate: None,
            latency: parse_duration(latency).unwrap(),
            jitter: parse_duration(jitter).unwrap(),
        });
        let options = ProbeOptions { budget, class: None };
        probe_model(&self.profile(), link.as_ref(), options).unwrap()
    }
}

/// The profile with `set`, and without an average seek.
fn without_average(base: &ModelProfile, set: &toml::Table) -> ModelProfile {
    let mut table = base.parameter_table().clone();
    table.remove("seek_average");
    table.remove("seek_full");
    table.extend(set.clone());
    let mut file = toml::Table::new();
    file.insert("name".to_owned(), base.name.clone().into());
    file.insert("summary".to_owned(), base.summary.clone().into());
    file.insert("kind".to_owned(), base.kind.into());
    file.insert("capacity".to_owned(), (base.capacity_bytes as i64).into());
    file.insert("parameters".to_owned(), table.into());
    ModelProfile::parse(&file.to_string(), "a hidden model").unwrap()
}

fn number(table: &toml::Table, key: &str) -> f64 {
    match &table[key] {
        toml::Value::Integer(number) => *number as f64,
        toml::Value::Float(number) => *number,
        toml::Value::String(text) => match (parse_rate(text), parse_bytes(text)) {
            (Ok(rate), _) => rate as f64,
            (_, Ok(bytes)) => bytes as f64,
            _ => parse_duration(text).unwrap().as_secs_f64(),
        },
        other => panic!("{key} = {other}"),
    }
}

/// The mean seek over random pairs of tracks.
fn mean_seek(table: &toml::Table) -> f64 {
    if let Some(average) = table.get("seek_average") {
        return parse_duration(average.as_str().unwrap()).unwrap().as_secs_f64();
    }
    let mut points = vec![(0.0, number(table, "seek_track"))];
    for point in table["seek_points"].as_array().unwrap() {
        let at = point[0].as_float().unwrap();
        points.push((at, parse_duration(point[1].as_str().unwrap()).unwrap().as_secs_f64()));
    }
    mean_of(&points)
}

fn found(outcome: &ProbeOutcome) -> toml::Table {
    let profile: toml::Table = outcome.profile_text().parse().unwrap();
    profile["parameters"].as_table().unwrap().clone()
}

/// Runs all probes, two at a time.
fn outcomes(models: &'static [HiddenModel], budget: Budget) -> Vec<ProbeOutcome> {
    let (left, right) = models.split_at(models.len() / 2);
    let all = |part: &[HiddenModel]| -> Vec<ProbeOutcome> {
        part.iter().map(|model| model.probe(budget)).collect()
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(|| all(right));
        let mut outcomes = all(left);
        outcomes.extend(other.join().unwrap());
        outcomes
    })
}

/// `7200, off by 0.00 %`.
fn compared(truth: f64, found: f64, scale: f64, decimals: usize) -> String {
    let off = 100.0 * (found / truth - 1.0);
    format!("{:.decimals$} ({off:+.2} %)", found / scale)
}

/// The workload that is worst against its bound.
fn worst(outcome: &ProbeOutcome) -> String {
    let share = |it: &&crate::probe::WorkloadFit| {
        it.demerit_of_mean() / (2.0 * it.floor_of_mean()).max(0.05)
    };
    let workloads = outcome.workloads.iter();
    let worst = workloads.max_by(|a, b| share(a).total_cmp(&share(b))).unwrap();
    format!(
        "{} {:.1} %, floor {:.1} %",
        worst.name,
        100.0 * worst.demerit_of_mean(),
        100.0 * worst.floor_of_mean()
    )
}

fn held_out(outcome: &ProbeOutcome) -> String {
    let held_out = outcome.workloads.iter().filter(|workload| workload.is_held_out);
    let texts: Vec<String> = held_out
        .map(|workload| format!("{} {:+.1} %", workload.name, 100.0 * workload.iops_error()))
        .collect();
    texts.join(", ")
}

/// The intervals of an outcome whose hidden value is known: those that hold it, and, in words,
/// those that do not.
fn intervals(model: &HiddenModel, outcome: &ProbeOutcome) -> (usize, Vec<String>) {
    let profile = model.profile();
    let truth = profile.parameter_table();
    let parsed = |text: &str| -> f64 {
        let table: toml::Table = format!("value = {text}").parse().unwrap();
        number(&table, "value")
    };
    let (mut held, mut missed) = (0, Vec::new());
    for parameter in &outcome.parameters {
        let (Some((low, high)), true) = (&parameter.interval, truth.contains_key(parameter.name))
        else {
            continue;
        };
        let hidden = number(truth, parameter.name);
        // Bounds are written with four digits.
        let holds = parsed(low) * 0.9995 <= hidden && hidden <= parsed(high) * 1.0005;
        held += usize::from(holds);
        if !holds {
            let name = parameter.name;
            let bare = |text: &str| text.trim_matches('"').to_owned();
            let hidden = bare(&truth[name].to_string());
            let (low, high) = (bare(low), bare(high));
            missed.push(format!("{}: `{name}` {low} to {high}, is {hidden}", model.name));
        }
    }
    (held, missed)
}

/// How many of the intervals of all outcomes hold the hidden value. Of a hundred 95 should.
fn coverage(models: &[HiddenModel], outcomes: &[ProbeOutcome]) -> (usize, Vec<String>) {
    let all = models.iter().zip(outcomes).map(|(model, outcome)| intervals(model, outcome));
    let (held, missed) = all.fold((0, Vec::new()), |(held, missed), (more, others)| {
        (held + more, [missed, others].concat())
    });
    assert!(held >= 9 * missed.len(), "{held} hold the hidden value, not those of {missed:?}");
    (held, missed)
}

fn coverage_text(held: usize, missed: &[String]) -> String {
    let all = held + missed.len();
    let end = if missed.is_empty() { "." } else { "; not:\n" };
    let lines: String = missed.iter().map(|it| format!("\n- {it}")).collect();
    format!("\nOf {all} intervals {held} hold the hidden value{end}{lines}\n")
}

fn disk_rows(outcomes: &[ProbeOutcome]) -> String {
    let mut text = String::from(
        "| hidden disk | rpm | outer rate, MB/s | inner rate, MB/s | mean seek, ms | worst \
         demerit | IOPS, held out |\n|---|---|---|---|---|---|---|\n",
    );
    for (model, outcome) in DISKS.iter().zip(outcomes) {
        let profile = model.profile();
        let (truth, found) = (profile.parameter_table(), found(outcome));
        let rate = |key| compared(number(truth, key), number(&found, key), 1e6, 1);
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {} |",
            model.name,
            compared(number(truth, "rpm"), number(&found, "rpm"), 1.0, 0),
            rate("outer_rate"),
            rate("inner_rate"),
            compared(mean_seek(truth), mean_seek(&found), 1e-3, 2),
            worst(outcome),
            held_out(outcome)
        );
    }
    text
}

fn solid_rows(outcomes: &[ProbeOutcome]) -> String {
    let mut text = String::from(
        "| hidden device | found | worst demerit | IOPS, held out |\n|---|---|---|---|\n",
    );
    for (model, outcome) in SOLID.iter().zip(outcomes) {
        let profile = model.profile();
        let (truth, found) = (profile.parameter_table(), found(outcome));
        let of = |key: &str| match (truth.get(key), found.get(key)) {
            (Some(truth), Some(found)) => format!("`{key}` {found} (is {truth})"),
            _ => String::new(),
        };
        let text_of = match &outcome.link {
            None => [of("dies"), of("command"), of("link")].join(", "),
            Some(link) => format!(
                "latency {}, jitter {}, {}, {}",
                link.latency,
                link.jitter,
                of("servers"),
                of("service")
            ),
        };
        let (worst, held_out) = (worst(outcome), held_out(outcome));
        let _ = writeln!(text, "| {} | {text_of} | {worst} | {held_out} |", model.name);
    }
    text
}

/// Advice if the chapter has other tables.
const UPDATE_HELP: &str = "run UPDATE_CHAPTER=1 cargo test -p mirrorball-host hidden";

fn is_update() -> bool {
    std::env::var_os("UPDATE_CHAPTER").is_some()
}

/// The chapter, where it is, and the bytes between two marks of it.
fn chapter(name: &str) -> (String, PathBuf, Range<usize>) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/measure.md");
    let chapter = std::fs::read_to_string(&path).unwrap();
    let (begin, end) = (format!("<!-- {name} -->\n"), format!("<!-- end of {name} -->"));
    let from = chapter.find(&begin).unwrap() + begin.len();
    let to = chapter.find(&end).unwrap();
    (chapter, path, from..to)
}

/// Replaces what is between the marks of the chapter, or compares it.
fn check_chapter(name: &str, rows: &str) {
    let (chapter, path, at) = chapter(name);
    if is_update() {
        let new = format!("{}{rows}{}", &chapter[..at.start], &chapter[at.end..]);
        std::fs::write(&path, new).unwrap();
    } else {
        assert_eq!(&chapter[at], rows, "{UPDATE_HELP}");
    }
}

/// The rate of `streams+random` on the model that was found, with the hidden value of each of
/// `keys` in its place, against the rate on the hidden model; minus one.
fn streams_with_random_off_by(model: &HiddenModel, outcome: &ProbeOutcome, keys: &[&str]) -> f64 {
    let hidden = model.profile();
    let found = ModelProfile::parse(&outcome.profile_text(), "the found model").unwrap();
    let truth = hidden.parameter_table().iter().filter(|(key, _)| keys.contains(&key.as_str()));
    let truth = truth.map(|(key, value)| (key.clone(), value.clone())).collect();
    let options = ProbeOptions { budget: Budget::Full, class: None };
    let again = probe_model(&found.with_overrides(truth).unwrap(), None, options).unwrap();
    let rate = |outcome: &ProbeOutcome| {
        let mut workloads = outcome.workloads.iter();
        workloads.find(|workload| workload.name == "streams+random").unwrap().iops
    };
    rate(&again) / rate(outcome) - 1.0
}

/// Columns of a table of dependences of the rate of `streams+random`: on the skew, which the head
/// switch makes, and the length of the read-ahead. With both, the model repeats the rate.
const STREAMS_WITH_RANDOM: [&[&str]; 4] =
    [&[], &["head_switch"], &["read_ahead"], &["head_switch", "read_ahead"]];

/// The end of the row of a disk, with these columns: each takes a probe.
fn streams_with_random(model: &HiddenModel, outcome: &ProbeOutcome, of: &[&[&str]]) -> String {
    let off = of.iter().map(|keys| streams_with_random_off_by(model, outcome, keys));
    let off: Vec<f64> = off.collect();
    assert!(off[off.len() - 1].abs() <= 0.06, "{}: {off:?}", model.name);
    off.iter().map(|off| format!(" {:+.1} % |", 100.0 * off)).collect::<String>() + "\n"
}

/// Writes the table, or compares its last column for one disk.
fn check_streams_with_random(outcomes: &[ProbeOutcome]) {
    let name = "streams and random reads";
    if !is_update() {
        let (chapter, _, at) = chapter(name);
        let begin = format!("| {} |", DISKS[0].name);
        let end = streams_with_random(&DISKS[0], &outcomes[0], &STREAMS_WITH_RANDOM[3..]);
        let mut rows = chapter[at].split_inclusive('\n');
        let is_there = rows.any(|row| row.starts_with(&begin) && row.ends_with(&end));
        return assert!(is_there, "no {begin}…{end}: {UPDATE_HELP}");
    }
    let head = "| hidden disk | as found | with the hidden skew | with the hidden read-ahead | \
                with both |\n|---|--:|--:|--:|--:|\n";
    let rows = DISKS.iter().zip(outcomes);
    let rows = rows.map(|(model, outcome)| {
        let columns = streams_with_random(model, outcome, &STREAMS_WITH_RANDOM);
        format!("| {} |{columns}", model.name)
    });
    check_chapter(name, &(head.to_owned() + &rows.collect::<String>()));
}

/// Bounds that hold for every class of device. `streams+random` is shown and not bounded: which
/// stream the disk leaves first depends on angles that no probe sees.
fn assert_workloads(model: &HiddenModel, outcome: &ProbeOutcome) {
    for workload in outcome.workloads.iter().filter(|it| it.name != "streams+random") {
        let bound = (2.0 * workload.floor_of_mean()).max(0.05);
        let demerit = workload.demerit_of_mean();
        assert!(demerit <= bound, "{}: {} {demerit} {bound}", model.name, workload.name);
        let off = workload.iops_error();
        let is_bounded = workload.is_held_out;
        assert!(!is_bounded || off.abs() <= 0.05, "{}: {} {off}", model.name, workload.name);
    }
}

#[test]
fn hidden_disks_are_found() {
    let outcomes = outcomes(&DISKS, Budget::Full);
    let (held, missed) = coverage(&DISKS, &outcomes);
    check_chapter("hidden disks", &(disk_rows(&outcomes) + &coverage_text(held, &missed)));
    check_streams_with_random(&outcomes);
    for (model, outcome) in DISKS.iter().zip(&outcomes) {
        let profile = model.profile();
        let (truth, found) = (profile.parameter_table(), found(outcome));
        for (key, bound) in [("rpm", 0.001), ("outer_rate", 0.03), ("inner_rate", 0.03)] {
            let off = number(&found, key) / number(truth, key) - 1.0;
            assert!(off.abs() <= bound, "{}: {key} is off by {off}", model.name);
        }
        let off = mean_seek(&found) / mean_seek(truth) - 1.0;
        assert!(off.abs() <= 0.05, "{}: the mean seek is off by {off}", model.name);
        let (depth, hidden) = (number(&found, "queue_depth"), number(truth, "queue_depth"));
        assert_eq!(depth, hidden, "{}: queue depth", model.name);
        assert_workloads(model, outcome);
    }
}

#[test]
fn hidden_solid_disks_and_links_are_found() {
    let outcomes = outcomes(&SOLID, Budget::Quick);
    let (held, missed) = coverage(&SOLID, &outcomes);
    check_chapter("hidden devices", &(solid_rows(&outcomes) + &coverage_text(held, &missed)));
    for (model, outcome) in SOLID.iter().zip(&outcomes) {
        let profile = model.profile();
        let truth = profile.parameter_table();
        if truth.contains_key("dies") {
            let off = number(&found(outcome), "dies") / number(truth, "dies") - 1.0;
            assert!(off.abs() <= 0.1, "{}: dies are off by {off}", model.name);
        }
        if let (Some(link), Some((latency, jitter))) = (&outcome.link, model.link) {
            let off = |found: Nanos, truth: &str| {
                found.as_secs_f64() / parse_duration(truth).unwrap().as_secs_f64() - 1.0
            };
            assert!(off(link.latency, latency).abs() <= 0.05, "latency {}", link.latency);
            assert!(off(link.jitter, jitter).abs() <= 0.1, "jitter {}", link.jitter);
        }
        assert_workloads(model, outcome);
    }
}
