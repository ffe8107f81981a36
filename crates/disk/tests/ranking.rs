//! The built-in models compared: the table of the chapter on models, and the order that
//! classes of disks must have.

use mirrorball_disk::characterise::observe;
use mirrorball_disk::figure::MeasuredAt;
use mirrorball_disk::profile::ModelProfile;
use mirrorball_disk::workload::ModelWorkload;
use std::fmt::Write;

const CHAPTER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/trust.md");
const BEGIN: &str = "<!-- ranking: generated -->\n";
const END: &str = "<!-- end of ranking -->\n";

/// The columns: title, workload, and whether it is a rate in MB/s.
const COLUMNS: [(&str, &str, bool); 5] = [
    ("random reads/s, 1 in flight", "randread-qd1", false),
    ("random reads/s, 32 in flight", "randread-qd32", false),
    ("random writes/s, 32 in flight", "randwrite-qd32", false),
    ("sequential read, MB/s", "seqread-1m", true),
    ("sequential write after 180 GB, MB/s", "seqwrite-full", true),
];

const RANDOM_READS: &[&[&str]] = &[
    &["hdd-5k4", "hdd-5k4-4tb", "hdd-5k4-8tb", "hdd-smr"],
    &["hdd-7k2-desktop", "hdd-7k2-4tb", "hdd-7k2-14tb", "hdd-7k2-18tb", "hdd-7k2-ent"],
    &["hdd-10k"],
    &["hdd-15k"],
    &["usb-stick"],
    &["sd-a1"],
    &["ssd-sata-consumer", "ssd-sata-plp", "ssd-sata-qlc", "ssd-sata-dramless"],
    &["nvme-gen3"],
    &["nvme-gen4"],
];

const RANDOM_WRITES: &[&[&str]] = &[
    &["hdd-5k4", "hdd-5k4-4tb", "hdd-5k4-8tb"],
    &["hdd-7k2-desktop", "hdd-7k2-4tb", "hdd-7k2-18tb", "hdd-7k2-ent"],
    &["hdd-10k"],
    &["hdd-15k"],
    &["sd-a1"],
    &["ssd-sata-consumer", "ssd-sata-plp"],
    &["nvme-gen3"],
    &["nvme-gen4"],
];

const SEQUENTIAL_READS: &[&[&str]] = &[
    &["sd-a1"],
    &["hdd-5k4"],
    &["hdd-10k", "usb-stick"],
    &["hdd-5k4-4tb"],
    &["hdd-7k2-desktop", "hdd-7k2-4tb", "hdd-7k2-14tb", "hdd-7k2-ent"],
    &["hdd-7k2-18tb"],
    &["ssd-sata-consumer", "ssd-sata-plp", "ssd-sata-qlc", "ssd-sata-dramless"],
    &["nvme-gen3", "nvme-tlc-real"],
    &["nvme-gen4", "nvme-tlc-ent"],
];

const SUSTAINED_WRITES: &[&[&str]] = &[
    &["sd-a1"],
    &["ssd-sata-dramless"],
    &["ssd-sata-qlc"],
    &["ssd-sata-consumer", "ssd-sata-plp"],
    &["nvme-gen3", "nvme-gen4"],
];

/// Classes of disks for each column, each class slower than the next.
const ORDERS: [&[&[&str]]; COLUMNS.len()] =
    [RANDOM_READS, RANDOM_READS, RANDOM_WRITES, SEQUENTIAL_READS, SUSTAINED_WRITES];

/// The figures of one model, one for each column.
struct ModelRow {
    name: String,
    figures: [f64; COLUMNS.len()],
}

#[test]
fn classes_of_disks_rank_as_they_should_and_the_chapter_has_their_figures() {
    let rows = measure_all();
    let misses: Vec<String> = (0..COLUMNS.len()).flat_map(|at| misses(&rows, at)).collect();
    assert!(misses.is_empty(), "{misses:#?}");
    let chapter = std::fs::read_to_string(CHAPTER).expect("the chapter is kept");
    let begin = chapter.find(BEGIN).expect("the chapter marks the place") + BEGIN.len();
    let end = chapter.find(END).expect("the chapter marks the end");
    let made = format!("{}{}{}", &chapter[..begin], table(&rows), &chapter[end..]);
    if std::env::var_os("UPDATE_CHAPTER").is_some() {
        std::fs::write(CHAPTER, &made).expect("the chapter can be written");
    } else {
        let help = "UPDATE_CHAPTER=1 cargo test -p mirrorball-disk --test ranking";
        assert!(made == chapter, "docs/trust.md is not up to date: {help}");
    }
}

fn measure_all() -> Vec<ModelRow> {
    let real = ModelProfile::builtins().filter(|profile| profile.kind != "delay");
    let mut rows: Vec<ModelRow> = real.map(|profile| measure(&profile)).collect();
    rows.sort_by(|a, b| a.figures[0].total_cmp(&b.figures[0]));
    rows
}

fn measure(profile: &ModelProfile) -> ModelRow {
    let figures = COLUMNS.map(|(_, workload, is_rate)| {
        let workload = ModelWorkload::named(workload).expect("it exists");
        let seen = observe(profile, workload, MeasuredAt::Host, 1);
        let amount = if is_rate { seen.bytes as f64 / 1e6 } else { seen.latencies.count() as f64 };
        amount / seen.elapsed.as_secs_f64()
    });
    ModelRow { name: profile.name.clone(), figures }
}

/// The models of a class that are no slower than one of the next class.
fn misses(rows: &[ModelRow], column: usize) -> Vec<String> {
    let figure = |name: &str| {
        let row = rows.iter().find(|row| row.name == name);
        row.unwrap_or_else(|| panic!("there is no model `{name}`")).figures[column]
    };
    let mut misses = Vec::new();
    for classes in ORDERS[column].windows(2) {
        for (slow, fast) in classes[0].iter().flat_map(|a| classes[1].iter().map(move |b| (a, b))) {
            let (low, high) = (figure(slow), figure(fast));
            if low >= high {
                misses.push(format!("{}: {slow} {low:.0}, {fast} {high:.0}", COLUMNS[column].0));
            }
        }
    }
    misses
}

fn table(rows: &[ModelRow]) -> String {
    let titles: Vec<&str> = COLUMNS.iter().map(|&(title, _, _)| title).collect();
    let mut text = format!("| model profile | {} |\n", titles.join(" | "));
    writeln!(text, "|---|{}", "---:|".repeat(COLUMNS.len())).expect("a string takes text");
    for ModelRow { name, figures } in rows {
        let figures: Vec<String> = figures.iter().map(|&value| with_three_digits(value)).collect();
        writeln!(text, "| `{name}` | {} |", figures.join(" | ")).expect("a string takes text");
    }
    text
}

/// A number rounded to three digits, with commas between thousands.
fn with_three_digits(value: f64) -> String {
    let unit = 10f64.powi((value.log10().floor() as i32 - 2).max(0));
    let digits = format!("{:.0}", (value / unit).round() * unit);
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
