//! Drive-managed shingled recording: fast until the media cache is full, then stalls.

use super::*;
use mirrorball_core::units::MIB;

/// Writes of 4 KiB that the media cache holds.
const CACHED_WRITES: u64 = 2560;

/// Cleaning a band of 5 MiB: 9 ms and 52 ms twice, in whole revolutions of 10 ms.
const CLEANING_NS: u64 = 13 * REVOLUTION;

fn shingled() -> HddParameters {
    HddParameters {
        write_cache: 64 * KIB,
        media_cache: CACHED_WRITES * 4096,
        band: 5 * MIB,
        clean_idle: Nanos::from_secs(5),
        ..plain()
    }
}

/// Scattered writes per second, one at a time.
fn write_rate(bench: &mut Bench, count: u64, seed: u64) -> f64 {
    let mut draw = scattered(Op::Write, seed);
    let start = bench.now;
    for tag in 0..count {
        bench.write(draw(tag).offset, 4096);
    }
    count as f64 / (bench.now - start).as_secs_f64()
}

#[test]
fn scattered_writes_are_fast_until_the_media_cache_is_full_and_then_stall() {
    let mut bench = Bench::new(&shingled());
    let unshingled = HddParameters { media_cache: 0, ..shingled() };
    let in_place = write_rate(&mut Bench::new(&unshingled), 1_000, 1);
    let fast = write_rate(&mut bench, CACHED_WRITES, 1);
    assert!(fast > 5.0 * in_place, "appended {fast}, in place {in_place}");
    write_rate(&mut bench, 50, 2);
    let stalled = write_rate(&mut bench, 200, 3);
    // A band holds one or two of the cached writes, so each write waits for about one cleaning.
    let cleanings = stalled * CLEANING_NS as f64 / 1e9;
    assert!((0.8..1.3).contains(&cleanings), "{stalled} a second, {cleanings} cleanings each");
}

#[test]
fn an_idle_disk_cleans_after_a_while() {
    let mut bench = Bench::new(&shingled());
    write_rate(&mut bench, CACHED_WRITES + 50, 1);
    let rested = |seconds| {
        let mut bench = Bench { disk: bench.disk.clone(), ..bench };
        bench.rest(Nanos::from_secs(seconds));
        write_rate(&mut bench, 200, 2)
    };
    assert!(rested(4) < 12.0, "{} a second after less than `clean_idle`", rested(4));
    // 200 bands at 130 ms are 26 s.
    assert!(rested(40) > 500.0, "{} a second after a rest", rested(40));
    // A read that comes meanwhile waits for the end of the band, then for its own access.
    bench.rest(Nanos::from_secs(9));
    let waits: Vec<u64> = (0..20)
        .map(|_| {
            bench.rest(Nanos(5_000_000_000 + CLEANING_NS / 3));
            bench.read(50 * GIB, 4096).0
        })
        .collect();
    let longest = CLEANING_NS + 17_000_000 + REVOLUTION;
    let (least, most) = (CLEANING_NS / 2, *waits.iter().max().unwrap());
    assert!((least..longest).contains(&most), "{waits:?} for the end of a band");
}

#[test]
fn a_stream_is_written_in_place_after_its_first_band() {
    let mut bench = Bench::new(&shingled());
    let mut last = 0;
    let rate = bench.saturate(4, 100, |tag| {
        last += 1;
        DiskIo { tag, op: Op::Write, offset: (last - 1) * MIB, length: MIB }
    });
    assert!(rate * MIB as f64 > 0.85 * RATE as f64, "{rate} MiB a second");
}
