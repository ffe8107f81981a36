//! What `mirrorball/auto` does in the situations that its ingredients are for, and at the edges.

use super::script::{Script, Step, complete, members, wait};
use crate::member::MemberConfig;
use crate::policies::MIRRORS_MAX;
use crate::policy::Choice;
use crate::units::{GIB, KIB, MIB};

fn flash(config: &mut MemberConfig) {
    config.rotational = false;
}

fn disk(config: &mut MemberConfig) {
    config.size_bytes = 1024 * GIB;
}

/// Time passes, and the member's oldest read ends.
fn end(script: &mut Script, devid: u64, wait_ms: u64) {
    script.play(&wait(wait_ms));
    script.play(&complete(devid, wait_ms));
}

/// A read that ends before the next begins; the devid that served it.
fn read_and_end(script: &mut Script, offset: u64, wait_ms: impl Fn(u64) -> u64) -> u64 {
    let devid = script.read(offset, 4096, 0);
    end(script, devid, wait_ms(devid));
    devid
}

/// Low and high addresses by turns, never one after the other.
fn low_and_high(number: u64) -> (u64, u64) {
    (number % 61 * GIB + 7 * MIB, (900 + number % 53) * GIB)
}

#[test]
fn disks_share_out_the_addresses() {
    let mut script = Script::new("mirrorball/auto", members(2, disk));
    for number in 0..40 {
        let (low, high) = low_and_high(number);
        read_and_end(&mut script, low, |_| 8);
        read_and_end(&mut script, high, |_| 8);
    }
    let (low, high) = low_and_high(41);
    let (one, other) =
        (read_and_end(&mut script, low, |_| 8), read_and_end(&mut script, high, |_| 8));
    assert_ne!(one, other);
    for number in 42..60 {
        let (low, high) = low_and_high(number);
        assert_eq!(read_and_end(&mut script, low, |_| 8), one);
        assert_eq!(read_and_end(&mut script, high, |_| 8), other);
    }
}

#[test]
fn without_territory_they_do_not() {
    let mut script = Script::new("mirrorball/auto:territory", members(2, disk));
    let mut of_low = [0; 3];
    for number in 0..60 {
        let (low, high) = low_and_high(number);
        of_low[read_and_end(&mut script, low, |_| 8) as usize] += 1;
        read_and_end(&mut script, high, |_| 8);
        read_and_end(&mut script, high / 2, |_| 8);
    }
    assert!(of_low[1] > 15 && of_low[2] > 15, "both read everywhere: {of_low:?}");
}

#[test]
fn slow_flash_is_left_alone_and_asked_again_when_it_has_rested() {
    let mut script = Script::new("mirrorball/auto", members(2, flash));
    let slow_second = |devid| if devid == 2 { 40 } else { 2 };
    for number in 0..20 {
        read_and_end(&mut script, number * MIB, slow_second);
    }
    for number in 20..30 {
        assert_eq!(read_and_end(&mut script, number * MIB, slow_second), 1);
    }
    script.play(&wait(60_000));
    let (_, choice) = script.choose(GIB, 4096, 0);
    assert!(matches!(choice, Choice::All(_)), "a probe beside the read: {choice:?}");
}

#[test]
fn a_disk_keeps_to_what_only_it_has() {
    for (of_low, of_high) in [(1, 2), (2, 1)] {
        let mut script = Script::new("mirrorball/auto", members(2, disk));
        for _ in 0..40 {
            script.submit_read(of_low);
            end(&mut script, of_low, 8);
        }
        for number in 0..20 {
            let (low, high) = low_and_high(number);
            assert_eq!(read_and_end(&mut script, high, |_| 8), of_high);
            assert_eq!(read_and_end(&mut script, low, |_| 8), of_low);
        }
    }
}

#[test]
fn a_stream_keeps_a_disk_to_itself() {
    let mut script = Script::new("mirrorball/auto", members(2, disk));
    let mut home = 0;
    for number in 0..12 {
        home = script.read(500 * GIB + number * 128 * KIB, 128 * KIB, 1);
        end(&mut script, home, 1);
    }
    for number in 12..24 {
        let served = script.read(500 * GIB + number * 128 * KIB, 128 * KIB, 1);
        assert_eq!(served, home, "it goes on where it is");
        let random = script.read(500 * GIB + number * 77 * MIB, 4096, 2);
        assert_ne!(random, home, "nobody disturbs it, however long the other queue");
        end(&mut script, home, 1);
    }
}

#[test]
fn a_second_stream_gets_the_other_disk() {
    let mut script = Script::new("mirrorball/auto", members(2, disk));
    let mut homes = [0; 2];
    for number in 0..16 {
        for (stream, home) in homes.iter_mut().enumerate() {
            let offset = stream as u64 * 300 * GIB + number * 128 * KIB;
            *home = script.read(offset, 128 * KIB, stream as u64);
            end(&mut script, *home, 1);
        }
    }
    assert_ne!(homes[0], homes[1]);
}

#[test]
fn the_strips_of_a_request_are_one_read_from_one_disk_of_each_pair() {
    const PAIRS: [&[u64]; 2] = [&[1, 2], &[3, 4]];
    let mut script = Script::new("mirrorball/auto", members(4, disk));
    let strips = |script: &mut Script, offset: u64, stream: u64| -> Vec<u64> {
        let strip = |number: u64| {
            script.play(&Step::Eligible(PAIRS[number as usize % 2]));
            script.read(offset + number * 64 * KIB, 64 * KIB, stream)
        };
        (0..8).map(strip).collect()
    };
    let first = strips(&mut script, 500 * GIB, 1);
    assert_eq!(first, [first[0], first[1]].repeat(4));
    first.iter().for_each(|&devid| end(&mut script, devid, 1));
    let second = strips(&mut script, 501 * GIB, 2);
    assert_eq!(second, first, "it reads there; one request makes no tenant that keeps it out");
}

#[test]
fn large_reads_are_cut_on_idle_flash_only() {
    let mut script = Script::new("mirrorball/auto", members(2, flash));
    assert!(matches!(script.choose(0, MIB, 0).1, Choice::Split(_)));
    assert!(matches!(script.choose(8 * MIB, 4096, 0).1, Choice::Mirror(_)), "too small");
    let mut disks = Script::new("mirrorball/auto", members(2, disk));
    assert!(matches!(disks.choose(0, MIB, 0).1, Choice::Mirror(_)), "disks would seek twice");
    let mut without = Script::new("mirrorball/auto:split", members(2, flash));
    assert!(matches!(without.choose(0, MIB, 0).1, Choice::Mirror(_)));
}

#[test]
fn a_lone_reader_has_a_window_cut_beside_the_one_in_flight() {
    let mut script = Script::new("mirrorball/auto", members(2, flash));
    let window = |number: u64| (number * 128 * KIB, 128 * KIB, 1);
    for number in 0..3 {
        let (offset, length, stream) = window(number);
        let choice = script.choose(offset, length, stream).1;
        assert!(matches!(choice, Choice::Mirror(_)), "{number}: a few reads are no reader");
        script.play(&wait(1));
    }
    let served = [3, 4, 5].map(|number| {
        let (offset, length, stream) = window(number);
        script.play(&wait(1));
        script.read(offset, length, stream)
    });
    assert_ne!(served[0], 0, "alone it goes on where it is");
    assert_eq!(served[1], 0, "cut, beside one window in flight");
    assert_ne!(served[2], 0, "not beside two: it would wait for itself");
}

#[test]
fn a_lone_reader_goes_on_where_it_is_beside_a_write_on_each() {
    let mut script = Script::new("mirrorball/auto", members(2, flash));
    let window = |script: &mut Script, number: u64| {
        script.play(&wait(1));
        script.choose(number * 128 * KIB, 128 * KIB, 1).1
    };
    let before = (0..4).map(|number| window(&mut script, number)).last();
    for devid in [1, 2] {
        script.play(&Step::Write { devid, offset: GIB, length: 4096 });
    }
    assert_eq!(Some(window(&mut script, 4)), before);
}

#[test]
fn who_is_behind_with_writes_is_spared() {
    for (spec, spares) in [("mirrorball/auto", true), ("mirrorball/auto:writes", false)] {
        let mut script = Script::new(spec, members(2, disk));
        for number in 0..2 {
            script.play(&Step::Write { devid: 1, offset: number * GIB, length: 4096 });
        }
        // Three reads on 2 are one more than what 1 has in flight.
        let served: Vec<u64> =
            (0..4).map(|number| script.read(512 * GIB + number * GIB, 4096, 0)).collect();
        assert_eq!(served.iter().all(|&devid| devid == 2), spares, "{spec}: {served:?}");
    }
}

#[test]
fn a_disk_is_not_taken_to_be_as_fast_as_its_cache() {
    let flash_second = |config: &mut MemberConfig| {
        disk(config);
        config.rotational = config.devid == 1;
    };
    let mut script = Script::new("mirrorball/auto", members(2, flash_second));
    script.play(&Step::Write { devid: 1, offset: 0, length: 4096 });
    script.submit_read(1);
    // The write ends at the same instant as the disk's first read, and before it.
    end(&mut script, 1, 12);
    script.play(&complete(1, 12));
    let served: Vec<u64> = (1..9).map(|number| script.read(number * GIB, 4096, 0)).collect();
    assert_eq!(served, [2; 8]);
}

#[test]
fn members_that_never_answer_all_get_reads_and_nothing_breaks() {
    for kind in [flash, disk] {
        let mut script = Script::new("mirrorball/auto", members(MIRRORS_MAX as u64, kind));
        let mut reads = [0; MIRRORS_MAX + 1];
        for number in 0..4000 {
            let offset = number * 7919 % 65_536 * 16 * MIB;
            let devid = script.read(offset % (900 * GIB), 4096, number % 5);
            reads[devid as usize] += 1;
        }
        assert!(reads[1..].iter().all(|&number| number > 20), "{reads:?}");
    }
}
