//! Closed forms of the solid-state disk, and what must hold for any parameters and any workload.

mod background;
mod cancel;
mod conformance;
mod slc_cache;
mod writing;

use super::*;
use mirrorball_core::units::KIB;

/// A drive whose sums are easy: rates of 1 GB/s make a nanosecond of every byte.
const PLAIN: &str = r#"
    dies = 8
    page = "16K"
    read = "50us"
    channel = "1GB/s"
    program = "400us"
    write_amplification = 1
    write_cache = "1M"
    flush = "15us"
    power_loss_protection = true
    flush_alone = false
    read_latency = "10us"
    write_latency = "20us"
    command = "2us"
    link = "1GB/s"
    queue_depth = 1024
"#;

fn plain() -> SsdParameters {
    toml::from_str(PLAIN).unwrap()
}

fn read(tag: u64, offset: u64, length: u64) -> DiskIo {
    DiskIo { tag, op: Op::Read, offset, length }
}

fn write(tag: u64, offset: u64, length: u64) -> DiskIo {
    DiskIo { tag, op: Op::Write, offset, length }
}

fn flush(tag: u64) -> DiskIo {
    DiskIo { tag, op: Op::Flush, offset: 0, length: 0 }
}

/// Lets everything in flight end.
fn drain(model: &mut Ssd) -> Vec<Completion> {
    let mut ended = Vec::new();
    while let Some(at) = model.next_event() {
        model.advance(at, &mut ended);
    }
    ended
}

/// Runs one I/O by itself and returns how long it took.
fn alone(model: &mut Ssd, now: u64, io: DiskIo) -> u64 {
    model.submit(Nanos(now), io);
    let ended = drain(model);
    assert_eq!(ended.iter().map(|end| end.tag).collect::<Vec<_>>(), [io.tag]);
    ended[0].at.0 - now
}

/// Result of a closed loop: all waits in the order of completion, and the time of the last.
struct Run {
    waits_ns: Vec<u64>,
    end_ns: u64,
}

impl Run {
    fn per_second(&self) -> f64 {
        self.waits_ns.len() as f64 / (self.end_ns as f64 / 1e9)
    }

    fn mean_ns(&self) -> f64 {
        self.waits_ns.iter().sum::<u64>() as f64 / self.waits_ns.len() as f64
    }

    fn quantile_ns(&self, fraction: f64) -> u64 {
        let mut sorted = self.waits_ns.clone();
        sorted.sort_unstable();
        sorted[(sorted.len() as f64 * fraction) as usize]
    }
}

/// Keeps `depth` I/Os in flight until `count` have ended; `io` makes the n-th.
fn closed_loop(
    model: &mut Ssd,
    depth: u64,
    count: usize,
    mut io: impl FnMut(u64) -> DiskIo,
) -> Run {
    let mut submitted: Vec<Option<Nanos>> = Vec::new();
    let mut waits_ns = Vec::new();
    let mut fresh = Vec::new();
    let mut now = Nanos::ZERO;
    while waits_ns.len() < count {
        while submitted.len() < waits_ns.len() + depth as usize {
            model.submit(now, io(submitted.len() as u64));
            submitted.push(Some(now));
        }
        now = model.next_event().unwrap();
        model.advance(now, &mut fresh);
        for end in fresh.drain(..) {
            let since = submitted[end.tag as usize].take().expect("an I/O ends once");
            waits_ns.push((end.at - since).0);
        }
    }
    Run { waits_ns, end_ns: now.0 }
}

/// Random reads of 4 KiB over a GiB.
fn random_reads(seed: u64) -> impl FnMut(u64) -> DiskIo {
    let mut rng = Rng::new(seed);
    move |tag| read(tag, rng.below(1 << 18) * 4 * KIB, 4 * KIB)
}

fn random_writes(seed: u64) -> impl FnMut(u64) -> DiskIo {
    let mut rng = Rng::new(seed);
    // Only odd blocks, so that no write continues another.
    move |tag| write(tag, (rng.below(1 << 18) * 2 + 1) * 4 * KIB, 4 * KIB)
}

fn assert_near(value: f64, expected: f64, tolerance: f64) {
    assert!((value / expected - 1.0).abs() <= tolerance, "{value} instead of {expected}");
}

#[test]
fn a_read_alone_takes_the_sum_of_its_parts() {
    let mut model = Ssd::new(&plain(), 1);
    let expected = 50_000 + 4_096 + 10_000 + 2_000 + 4_096;
    for n in 0..100 {
        assert_eq!(alone(&mut model, n * 1_000_000, read(n, n * 12_288, 4_096)), expected);
    }
    // Four pages at once, then one transfer.
    let large = alone(&mut model, 200_000_000, read(0, 0, 65_536));
    assert_eq!(large, 50_000 + 16_384 + 10_000 + 2_000 + 65_536);
    // One page more than there are dies: one die reads twice.
    let wrapping = alone(&mut model, 300_000_000, read(0, 0, 9 * 16_384));
    assert_eq!(wrapping, 2 * (50_000 + 16_384) + 10_000 + 2_000 + 9 * 16_384);
}

/// With more in flight than anything can serve, the slowest of dies and link sets the pace.
#[test]
fn the_narrowest_part_bounds_the_reads() {
    for (dies, command_ns, length) in
        [(1, 0, 4_096), (3, 0, 4_096), (8, 0, 4_096), (64, 3_000, 4_096), (64, 0, 65_536)]
    {
        let parameters = SsdParameters { dies, command: Nanos(command_ns), ..plain() };
        let mut model = Ssd::new(&parameters, 1);
        let mut rng = Rng::new(5);
        let run = closed_loop(&mut model, 900, 30_000, |tag| {
            read(tag, rng.below(1 << 20) * length, length)
        });
        let page_bytes = length.min(16_384) as f64;
        let pages = length as f64 / page_bytes;
        let die_bound = f64::from(dies) * 1e9 / (50_000.0 + page_bytes) / pages;
        let link_bound = 1e9 / (command_ns + length) as f64;
        assert_near(run.per_second(), die_bound.min(link_bound), 0.04);
    }
}

#[test]
fn the_link_carries_one_at_a_time_in_the_order_of_readiness() {
    let mut model = Ssd::new(&plain(), 1);
    // Die 0 twice, then die 1: the third read overtakes the second.
    for (tag, offset) in [(0, 0), (1, 8 * 16_384), (2, 16_384)] {
        model.submit(Nanos::ZERO, read(tag, offset, 4_096));
    }
    let ended: Vec<(u64, u64)> = drain(&mut model).iter().map(|end| (end.tag, end.at.0)).collect();
    let first = 50_000 + 4_096 + 10_000 + 6_096;
    assert_eq!(ended, [(0, first), (2, first + 6_096), (1, first + 54_096)]);
}

#[test]
fn sequential_reads_run_at_link_rate() {
    for (depth, read_ahead) in [(32, 0), (32, 1 << 20), (1, 1 << 20)] {
        let parameters = SsdParameters { read_ahead, command: Nanos(100), ..plain() };
        let mut model = Ssd::new(&parameters, 1);
        let run = closed_loop(&mut model, depth, 4_000, |n| read(n, n * 131_072, 131_072));
        // At depth one each read still pays the firmware's 10 us.
        let idle_ns = if depth == 1 { 10_000.0 } else { 0.0 };
        let expected = 1e9 / (131_072.0 + 100.0 + idle_ns);
        assert_near(run.per_second(), expected, 0.01);
    }
}

#[test]
fn read_ahead_serves_small_sequential_reads_from_memory() {
    let in_memory = 10_000 + 2_000 + 4_096;
    let parameters = SsdParameters { read_ahead: 1 << 18, ..plain() };
    let mut model = Ssd::new(&parameters, 1);
    // Two readers in turn; the drive tells them apart.
    let run = closed_loop(&mut model, 1, 2_000, |n| {
        let reader = n % 2;
        read(n, (reader << 30) + n / 2 * 4_096, 4_096)
    });
    let hits = run.waits_ns.iter().filter(|&&wait| wait == in_memory).count();
    assert!(hits > 1_900, "{hits} of 2000 from memory");
    // The sixth waits behind what is fetched for the first reader.
    assert!(run.waits_ns[..5].iter().all(|&wait| wait == in_memory + 54_096), "too eager");
    assert!(run.waits_ns[5] > in_memory + 54_096);
    let random = closed_loop(&mut Ssd::new(&parameters, 1), 1, 2_000, random_reads(1));
    assert!(random.waits_ns.iter().all(|&wait| wait == in_memory + 54_096));
}

#[test]
fn read_ahead_does_not_outrun_the_flash() {
    let parameters =
        SsdParameters { dies: 2, read: Nanos(500_000), read_ahead: 1 << 18, ..plain() };
    let run = closed_loop(&mut Ssd::new(&parameters, 1), 8, 8_000, |n| read(n, n * 4_096, 4_096));
    // Two pages of four requests each in 500 us and a transfer of 16 KiB.
    assert_near(run.per_second(), 8.0 * 1e9 / 516_384.0, 0.02);
}

#[test]
fn page_types_are_equally_frequent_and_belong_to_the_block() {
    let extra = [Nanos(0), Nanos(26_000), Nanos(78_000)];
    let parameters = SsdParameters { page_types: extra.to_vec(), ..plain() };
    let mut model = Ssd::new(&parameters, 1);
    let base = 50_000 + 4_096 + 10_000 + 2_000 + 4_096;
    let run = closed_loop(&mut model, 1, 30_000, |n| read(n, n * 4_096, 4_096));
    for extra in extra {
        let share = run.waits_ns.iter().filter(|&&wait| wait == base + extra.0).count();
        assert_near(share as f64, 10_000.0, 0.04);
    }
    let mut again = Ssd::new(&parameters, 1);
    let backwards = closed_loop(&mut again, 1, 30_000, |n| read(n, (29_999 - n) * 4_096, 4_096));
    let same = backwards.waits_ns.iter().rev().eq(&run.waits_ns);
    assert!(same, "the type of a block is a matter of its address alone");
    let neighbours = run.waits_ns.windows(2).filter(|pair| pair[0] == pair[1]).count();
    assert_near(neighbours as f64, 10_000.0, 0.05);
    // A whole page takes as long as its slowest block.
    for page in 0..200 {
        let slowest = *run.waits_ns[page * 4..page * 4 + 4].iter().max().unwrap();
        let now = (1 << 50) + page as u64 * 1_000_000;
        let whole = alone(&mut model, now, read(0, page as u64 * 16_384, 16_384));
        assert_eq!(whole, slowest + 2 * (16_384 - 4_096));
    }
}

#[test]
fn the_queue_of_the_drive_has_an_end() {
    let parameters = SsdParameters { queue_depth: 2, ..plain() };
    let mut model = Ssd::new(&parameters, 1);
    for tag in 0..3 {
        model.submit(Nanos::ZERO, read(tag, tag * 16_384, 4_096));
    }
    let ended: Vec<u64> = drain(&mut model).iter().map(|end| end.at.0).collect();
    let wait = 50_000 + 4_096 + 10_000 + 6_096;
    assert_eq!(ended, [wait, wait + 6_096, 2 * wait], "the third is taken when the first ends");
}

#[test]
fn equal_seeds_give_equal_runs_and_others_do_not() {
    let parameters = SsdParameters {
        page_types: vec![Nanos(0), Nanos(26_000)],
        write_amplification: 4.0,
        suspend: Some(Nanos(20_000)),
        suspend_refused: 0.5,
        ..plain()
    };
    let run = |seed| {
        let mut rng = Rng::new(9);
        closed_loop(&mut Ssd::new(&parameters, seed), 4, 5_000, |tag| {
            let offset = rng.below(1 << 18) * 4_096;
            let op = if rng.below(2) == 0 { Op::Read } else { Op::Write };
            DiskIo { tag, op, offset, length: 4_096 }
        })
        .waits_ns
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn parameters_that_make_no_disk_are_named() {
    assert_eq!(plain().fault(), None);
    for (change, key) in [
        ("dies = 8 -> dies = 0", "dies"),
        (r#"page = "16K" -> page = "12K""#, "page"),
        (r#"program = "400us" -> program = "0us""#, "program"),
        ("write_amplification = 1 -> write_amplification = 0.5", "write_amplification"),
        (r#"write_cache = "1M" -> write_cache = "8K""#, "write_cache"),
        (r#"channel = "1GB/s" -> channel = "0GB/s""#, "channel"),
        (r#"link = "1GB/s" -> link = "0GB/s""#, "link"),
        ("queue_depth = 1024 -> queue_depth = 0", "queue_depth"),
        ("dies = 8 -> dies = 8\npage_types = []", "page_types"),
        ("dies = 8 -> dies = 8\nsuspend_refused = 1.5", "suspend_refused"),
        ("dies = 8 -> dies = 8\ncollection_burst = 0", "collection_burst"),
        ("dies = 8 -> dies = 8\nprogram_unit = \"1K\"", "program_unit"),
    ] {
        let (old, new) = change.split_once(" -> ").unwrap();
        let parameters: SsdParameters = toml::from_str(&PLAIN.replace(old, new)).unwrap();
        let rule = parameters.fault().unwrap_or_else(|| panic!("{change} was accepted"));
        assert!(rule.contains(&format!("`{key}`")), "{change}: {rule}");
    }
    for wrong in ["read = 50", "trim = \"1us\"", "page_types = [\"1\"]"] {
        assert!(toml::from_str::<SsdParameters>(&format!("{PLAIN}{wrong}")).is_err(), "{wrong}");
    }
}
