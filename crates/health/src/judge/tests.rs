//! The judge on counters made from services and depths.

use super::*;
use mirrorball_core::rng::Rng;

const SECOND: Nanos = Nanos::from_secs(1);

/// The load of a disk in a second: I/Os, service and depth, with random noise.
#[derive(Clone, Copy)]
struct Load {
    reads: u64,
    service_ms: f64,
    depth: f64,
    bytes: u64,
    writes: u64,
    write_wait_ms: f64,
}

const RANDOM: Load =
    Load { reads: 30, service_ms: 12.0, depth: 1.0, bytes: 4096, writes: 0, write_wait_ms: 0.0 };
const FLASH: Load = Load { reads: 2000, service_ms: 0.1, depth: 2.0, ..RANDOM };

struct Rig {
    judge: Judge,
    rng: Rng,
    now: Nanos,
    /// Time of a window.
    every: Nanos,
}

impl Rig {
    fn new(class: DiskKind, disks: usize) -> Rig {
        Rig::of((0..disks).map(|place| facts(place, class, None)).collect())
    }

    fn of(disks: Vec<DiskFacts>) -> Rig {
        let judge = Judge::new(disks.into_iter().map(|it| (it, DiskHistory::default())));
        Rig { judge, rng: Rng::new(7), now: Nanos::ZERO, every: SECOND }
    }

    /// Runs for this long; returns after how many seconds each disk was first called slow.
    fn run(&mut self, seconds: u64, loads: &[Load]) -> Vec<Option<u64>> {
        let mut found = vec![None; loads.len()];
        let every = self.every.0 / SECOND.0;
        for second in (every..=seconds).step_by(every as usize) {
            self.now += self.every;
            let windows: Vec<_> = loads.iter().map(|it| Some(self.window(it))).collect();
            self.judge.observe(self.now, self.every, &windows);
            for (found, (_, state, ..)) in found.iter_mut().zip(self.judge.disks()) {
                if found.is_none() && matches!(state, DiskState::Slow { .. }) {
                    *found = Some(second);
                }
            }
        }
        found
    }

    fn window(&mut self, load: &Load) -> DiskWindow {
        let every = self.every.0 / SECOND.0;
        let noise = 0.85 + 0.3 * self.rng.below(1000) as f64 / 1000.0;
        let reads = ((load.reads * every) as f64 * noise).max(1.0) as u64;
        let wait_ms = load.service_ms * load.depth.powf(0.8) * noise * reads as f64;
        let counters = DiskCounters {
            reads,
            read_sectors: reads * load.bytes / 512,
            read_ms: wait_ms as u64,
            writes: load.writes * every,
            written_sectors: load.writes * every * 1024,
            write_ms: ((load.writes * every) as f64 * load.write_wait_ms) as u64,
            busy_ms: ((wait_ms / load.depth) as u64).clamp(1, 1000 * every),
            ..Default::default()
        };
        DiskWindow { time: self.every, counters, errors: 0 }
    }
}

fn facts(place: usize, class: DiskKind, link: Option<&str>) -> DiskFacts {
    let (name, model) = (format!("sd{place}"), Some("one".to_owned()));
    DiskFacts { name, class, model, link: link.map(str::to_owned), is_shingled: false }
}

fn slower(load: Load, factor: f64) -> Load {
    Load { service_ms: load.service_ms * factor, ..load }
}

#[test]
fn the_slow_one_of_two_is_named_within_a_minute() {
    for (class, load) in [(DiskKind::Hdd, RANDOM), (DiskKind::Ssd, FLASH)] {
        let mut rig = Rig::new(class, 2);
        assert_eq!(rig.run(600, &[load, load]), [None, None], "{class:?}");
        let found = rig.run(60, &[load, slower(load, 2.0)]);
        assert!(found[0].is_none() && found[1].is_some_and(|it| it <= 60), "{class:?}: {found:?}");
        let states: Vec<_> = rig.judge.disks().map(|(_, state, ..)| state).collect();
        let DiskState::Slow { ratio, cause: Cause::Service, .. } = states[1] else {
            panic!("{states:?}");
        };
        assert!((1.7..2.3).contains(&ratio), "{ratio}");
        rig.run(180, &[load, load]);
        let states: Vec<_> = rig.judge.disks().map(|(_, state, ..)| state).collect();
        assert_eq!(states, [DiskState::Fine; 2], "it recovered");
    }
}

#[test]
fn a_disk_that_was_slow_from_the_beginning_is_named_by_its_peer() {
    let mut rig = Rig::new(DiskKind::Hdd, 2);
    let found = rig.run(60, &[slower(RANDOM, 2.5), RANDOM]);
    assert!(found[0].is_some() && found[1].is_none(), "{found:?}");
}

/// A reader on each, which waits for its disk: the slow one is sent less.
#[test]
fn a_disk_that_was_slow_from_the_beginning_is_named_though_its_reader_waits() {
    for class in [DiskKind::Hdd, DiskKind::Ssd] {
        let loops = |service_ms: f64| Load {
            reads: (1100.0 / service_ms) as u64,
            service_ms,
            depth: 1.0,
            ..RANDOM
        };
        let mut rig = Rig::new(class, 2);
        let found = rig.run(60, &[loops(9.0), loops(25.0)]);
        assert!(found[0].is_none() && found[1].is_some(), "{class:?}: {found:?}");
    }
}

#[test]
fn a_disk_alone_is_named_by_its_own_history() {
    let mut rig = Rig::new(DiskKind::Ssd, 1);
    assert_eq!(rig.run(300, &[FLASH]), [None]);
    assert!(rig.run(60, &[slower(FLASH, 2.0)])[0].is_some());
}

/// Three windows are needed, however long they are.
#[test]
fn samples_that_are_taken_seldom_are_judged() {
    for every in [30, 60] {
        let mut rig = Rig { every: Nanos::from_secs(every), ..Rig::new(DiskKind::Hdd, 1) };
        assert_eq!(rig.run(7200, &[RANDOM]), [None], "{every} s");
        let found = rig.run(7200, &[slower(RANDOM, 4.0)])[0];
        assert!(found.is_some(), "{every} s");
    }
}

#[test]
fn what_the_load_explains_is_no_slow_disk() {
    let deep = Load { depth: 16.0, reads: 100, ..RANDOM };
    let streams = Load { reads: 400, service_ms: 1.0, bytes: 131_072, ..RANDOM };
    let mut rig = Rig::new(DiskKind::Hdd, 2);
    for loads in [[RANDOM; 2], [deep; 2], [RANDOM, deep], [streams, RANDOM], [streams; 2]] {
        assert_eq!(rig.run(300, &loads), [None, None]);
    }
    // Random reads of the size of the streams before.
    let random = Load { bytes: 131_072, ..RANDOM };
    assert_eq!(rig.run(300, &[streams, random]), [None, None], "streams on one, random on one");
    // Both at once: the array is busy, no disk is slow.
    let mut rig = Rig::new(DiskKind::Ssd, 2);
    rig.run(300, &[FLASH; 2]);
    assert_eq!(rig.run(300, &[slower(FLASH, 3.0); 2]), [None, None]);
}

#[test]
fn a_link_is_blamed_where_all_behind_it_are_slow() {
    let behind = |place, link| facts(place, DiskKind::Ssd, Some(link));
    let disks =
        vec![behind(0, "usb1"), behind(1, "usb1"), behind(2, "a"), behind(3, "b"), behind(4, "c")];
    let mut rig = Rig::of(disks);
    rig.run(300, &[FLASH; 5]);
    let slow = slower(FLASH, 3.0);
    rig.run(60, &[slow, slow, FLASH, FLASH, FLASH]);
    let causes = rig.judge.disks().map(|(_, state, ..)| match state {
        DiskState::Slow { cause, .. } => Some(cause),
        _ => None,
    });
    let (link, fine) = (Some(Cause::Link), None);
    assert_eq!(causes.collect::<Vec<_>>(), [link, link, fine, fine, fine]);
}

/// Disks that were written alike tidy up one after the other, and a link that is slow is slow for
/// all.
#[test]
fn a_link_is_not_blamed_for_disks_that_begin_to_tidy_up() {
    let copy = Load { writes: 30, write_wait_ms: 1.0, ..FLASH };
    let links = ["usb1", "usb1", "a", "b", "c"];
    for (apart_s, expected) in [(5, Cause::Link), (120, Cause::AfterWrites)] {
        let disks = links.iter().enumerate().map(|(at, it)| facts(at, DiskKind::Ssd, Some(it)));
        let mut rig = Rig::of(disks.collect());
        let loads = |slow: usize| {
            let factor = |place| if place < slow { 6.0 } else { 1.0 };
            [0, 1, 2, 3, 4].map(|place| slower(copy, factor(place)))
        };
        rig.run(600, &loads(0));
        rig.run(apart_s, &loads(1));
        // The others, which were written as much, are not to refute it.
        rig.run(50, &loads(2));
        let (_, state, ..) = rig.judge.disks().next().unwrap();
        assert!(matches!(state, DiskState::Slow { cause, .. } if cause == expected), "{state:?}");
    }
}

#[test]
fn gaps_and_lost_disks_are_no_evidence() {
    let mut rig = Rig::new(DiskKind::Ssd, 2);
    rig.run(300, &[FLASH; 2]);
    for _ in 0..100 {
        rig.now += Nanos::from_secs(3600);
        let asleep = DiskWindow { time: Nanos::from_secs(3600), ..rig.window(&slower(FLASH, 9.0)) };
        rig.judge.observe(rig.now, SECOND, &[Some(asleep), None]);
    }
    assert!(rig.judge.disks().all(|(_, state, ..)| state == DiskState::CannotTell));
    assert_eq!(rig.run(60, &[FLASH; 2]), [None, None]);
}

#[test]
fn io_that_comes_at_bad_times_is_no_slow_disk() {
    // Few writes among the reads of a stream wait for these, soon longer than before.
    let stream = Load { reads: 500, service_ms: 1.0, bytes: 131_072, writes: 5, ..RANDOM };
    let mut rig = Rig::new(DiskKind::Hdd, 2);
    rig.run(300, &[Load { write_wait_ms: 10.0, ..stream }; 2]);
    let late = Load { write_wait_ms: 90.0, ..stream };
    assert_eq!(rig.run(300, &[late, Load { write_wait_ms: 10.0, ..stream }]), [None, None]);
    // The second choice of a balancing policy gets the reads that meet writes.
    let flash = Load { writes: 20, write_wait_ms: 0.1, depth: 1.0, ..FLASH };
    let second = Load { reads: 200, service_ms: 0.19, ..flash };
    let mut rig = Rig::new(DiskKind::Ssd, 2);
    rig.run(300, &[flash; 2]);
    assert_eq!(rig.run(300, &[flash, second]), [None, None]);
    let slow = Load { service_ms: 0.5, ..second };
    assert!(rig.run(60, &[flash, slow])[1].is_some(), "five times is more than that");
}

#[test]
fn little_io_is_gathered_until_it_tells_something() {
    let few = Load { reads: 3, service_ms: 0.4, ..FLASH };
    let mut rig = Rig::new(DiskKind::Ssd, 1);
    assert_eq!(rig.run(1200, &[few]), [None]);
    assert!(rig.run(120, &[slower(few, 3.0)])[0].is_some());
}

#[test]
fn a_few_long_io_do_not_make_a_disk_slow_unless_they_are_retries() {
    let load = Load { reads: 5, ..RANDOM };
    for errors in [0, 1] {
        let mut rig = Rig::new(DiskKind::Hdd, 1);
        rig.run(300, &[load]);
        let mut is_named = false;
        for second in 1..=120 {
            rig.now += SECOND;
            let is_long = second % 4 == 0;
            let mut window = rig.window(&slower(load, if is_long { 20.0 } else { 1.0 }));
            window.errors = if is_long { errors } else { 0 };
            rig.judge.observe(rig.now, SECOND, &[Some(window)]);
            is_named |= rig.judge.disks().any(|(_, state, ..)| match state {
                DiskState::Slow { cause, .. } => cause == Cause::Errors,
                _ => false,
            });
            let is_slow = |state| matches!(state, DiskState::Slow { .. });
            assert!(errors > 0 || !rig.judge.disks().any(|(_, state, ..)| is_slow(state)));
        }
        assert_eq!(is_named, errors > 0);
    }
}

#[test]
fn a_stray_error_changes_no_rule() {
    let streams = Load { reads: 400, service_ms: 1.0, bytes: 131_072, ..RANDOM };
    let mut rig = Rig::new(DiskKind::Hdd, 1);
    rig.run(300, &[streams]);
    for second in 1..=300 {
        rig.now += SECOND;
        let mut window = rig.window(&Load { bytes: 131_072, ..RANDOM });
        window.errors = u64::from(second % 50 == 0);
        rig.judge.observe(rig.now, SECOND, &[Some(window)]);
        assert!(!rig.judge.disks().any(|it| it.1.is_alarm()), "at {second}");
    }
}

/// A disk that retries an I/O every five minutes does so four times in a minute now and then.
#[test]
fn a_few_stray_errors_in_a_minute_change_no_rule() {
    let load = Load { reads: 5, ..RANDOM };
    let mut rig = Rig::new(DiskKind::Hdd, 1);
    rig.run(300, &[load]);
    for second in 1..=60 {
        rig.now += SECOND;
        let is_long = [4, 9, 14, 19].contains(&second);
        let mut window = rig.window(&slower(load, if is_long { 30.0 } else { 1.0 }));
        window.errors = u64::from(is_long);
        rig.judge.observe(rig.now, SECOND, &[Some(window)]);
        assert!(!rig.judge.disks().any(|it| it.1.is_alarm()), "at {second}");
    }
}

#[test]
fn random_reads_of_the_size_of_a_stream_before_are_no_slow_flash() {
    let stream = Load { reads: 500, service_ms: 0.1, bytes: 131_072, ..FLASH };
    let random = Load { reads: 200, service_ms: 0.3, ..stream };
    for disks in 1..=2 {
        let mut rig = Rig::new(DiskKind::Ssd, disks);
        rig.run(300, &[stream, stream][..disks]);
        let found = rig.run(300, &[random, stream][..disks]);
        assert!(found.iter().all(Option::is_none), "{found:?}");
    }
}

#[test]
fn under_a_steady_load_less_than_random_io_takes_is_a_change() {
    let fast = Load { service_ms: 6.0, ..RANDOM };
    let mut rig = Rig::new(DiskKind::Hdd, 1);
    assert_eq!(rig.run(300, &[fast]), [None]);
    assert!(rig.run(60, &[slower(fast, 2.0)])[0].is_some());
}

#[test]
fn peers_show_a_slowness_that_a_history_has() {
    let mut alone = Rig::new(DiskKind::Ssd, 1);
    alone.run(300, &[slower(FLASH, 3.0)]);
    let (.., slow) = alone.judge.disks().next().unwrap();
    let mut rig = Rig::new(DiskKind::Ssd, 2);
    rig.judge = Judge::new([
        (facts(0, DiskKind::Ssd, None), slow.clone()),
        (facts(1, DiskKind::Ssd, None), DiskHistory::default()),
    ]);
    let found = rig.run(120, &[slower(FLASH, 3.0), FLASH]);
    assert!(found[0].is_some() && found[1].is_none(), "{found:?}");
}

#[test]
fn tidying_up_is_no_alarm_unless_it_lasts() {
    let copy = Load { writes: 100, write_wait_ms: 1.0, ..FLASH };
    let mut rig = Rig::new(DiskKind::Ssd, 1);
    rig.run(300, &[FLASH]);
    rig.run(60, &[copy]);
    rig.run(30, &[FLASH]);
    let is_any = |rig: &Rig| rig.judge.disks().any(|it| it.1.is_alarm());
    assert!(rig.run(240, &[slower(FLASH, 3.0)])[0].is_some() && !is_any(&rig));
    rig.run(200, &[slower(FLASH, 3.0)]);
    assert!(is_any(&rig));
}

#[test]
fn collecting_garbage_is_no_alarm_for_an_hour() {
    let copy = Load { writes: 30, write_wait_ms: 1.0, ..FLASH };
    let mut rig = Rig::new(DiskKind::Ssd, 1);
    rig.run(600, &[copy]);
    let is_any = |rig: &Rig| rig.judge.disks().any(|it| it.1.is_alarm());
    assert!(rig.run(3000, &[slower(copy, 3.0)])[0].is_some() && !is_any(&rig));
    rig.run(900, &[slower(copy, 3.0)]);
    assert!(is_any(&rig));
}

#[test]
fn a_shingled_disk_tidies_up_a_few_random_writes_and_no_other_does() {
    let written = Load { writes: 1, write_wait_ms: 1.0, ..RANDOM };
    for is_shingled in [true, false] {
        let mut rig = Rig::of(vec![DiskFacts { is_shingled, ..facts(0, DiskKind::Hdd, None) }]);
        rig.run(600, &[written]);
        assert!(rig.run(60, &[slower(written, 3.0)])[0].is_some());
        assert_eq!(rig.judge.disks().any(|it| it.1.is_alarm()), !is_shingled);
    }
}

#[test]
fn a_disk_that_recovers_after_collecting_garbage_is_no_alarm() {
    let copy = Load { writes: 30, write_wait_ms: 1.0, ..FLASH };
    let mut rig = Rig::new(DiskKind::Ssd, 1);
    rig.run(600, &[copy]);
    assert!(rig.run(300, &[slower(copy, 3.0)])[0].is_some());
    for factor in [3.0, 1.5, 1.3, 1.0] {
        for _ in 0..6 {
            rig.run(5, &[slower(FLASH, factor)]);
            assert!(!rig.judge.disks().any(|it| it.1.is_alarm()), "at x{factor}");
        }
    }
}

#[test]
fn writes_before_the_onset_are_the_cause_and_later_ones_are_not() {
    let copy = Load { writes: 100, write_wait_ms: 1.0, ..FLASH };
    for (before, cause) in [(copy, Cause::AfterWrites), (FLASH, Cause::Service)] {
        let mut rig = Rig::new(DiskKind::Ssd, 2);
        rig.run(300, &[FLASH; 2]);
        rig.run(60, &[before; 2]);
        rig.run(40, &[slower(FLASH, 3.0), FLASH]);
        rig.run(10, &[slower(copy, 3.0), copy]);
        let (_, state, ..) = rig.judge.disks().next().unwrap();
        assert!(matches!(state, DiskState::Slow { cause: it, .. } if it == cause), "{state:?}");
    }
}

#[test]
fn peers_that_were_written_as_much_show_that_a_disk_is_not_tidying_up() {
    let copy = Load { writes: 100, write_wait_ms: 1.0, ..FLASH };
    let mut rig = Rig::new(DiskKind::Ssd, 2);
    rig.run(300, &[FLASH; 2]);
    rig.run(60, &[copy; 2]);
    let is_any = |rig: &Rig| rig.judge.disks().any(|it| it.1.is_alarm());
    assert!(rig.run(40, &[slower(FLASH, 3.0), FLASH])[0].is_some() && !is_any(&rig));
    rig.run(60, &[slower(FLASH, 3.0), FLASH]);
    assert!(is_any(&rig), "the other has nothing to tidy up");
}

/// A rebuilt disk may run out of erased blocks first.
#[test]
fn a_peer_that_was_written_less_shows_nothing() {
    let copy = Load { writes: 100, write_wait_ms: 1.0, ..FLASH };
    let mut rig = Rig::new(DiskKind::Ssd, 2);
    rig.run(300, &[FLASH; 2]);
    rig.run(60, &[copy, Load { writes: 60, ..copy }]);
    rig.run(150, &[slower(FLASH, 3.0), FLASH]);
    let states: Vec<_> = rig.judge.disks().map(|(_, state, ..)| state).collect();
    assert!(matches!(states[0], DiskState::Slow { cause: Cause::AfterWrites, .. }), "{states:?}");
}

#[test]
fn flash_whose_cached_writes_are_slower_too_is_not_collecting_garbage() {
    let copy = Load { writes: 30, write_wait_ms: 1.0, ..FLASH };
    let mut rig = Rig::new(DiskKind::Ssd, 1);
    rig.run(300, &[copy]);
    rig.run(60, &[Load { write_wait_ms: 3.0, ..slower(copy, 3.0) }]);
    assert!(rig.judge.disks().any(|it| it.1.is_alarm()));
}

#[test]
fn a_size_that_is_new_takes_no_longer_than_small_reads_and_a_transfer() {
    let large = Load { bytes: 65_536, reads: 200, service_ms: 0.3, ..FLASH };
    let fast = Load { service_ms: 5.0, ..RANDOM };
    let fast_large = Load { bytes: 65_536, service_ms: 6.5, ..fast };
    for (class, small, large) in [(DiskKind::Ssd, FLASH, large), (DiskKind::Hdd, fast, fast_large)]
    {
        for (factor, is_found) in [(1.0, false), (3.0, true)] {
            let mut rig = Rig::new(class, 1);
            rig.run(300, &[small]);
            let found = rig.run(100, &[slower(large, factor)])[0].is_some();
            assert_eq!(found, is_found, "{class:?} x{factor}");
        }
    }
}
