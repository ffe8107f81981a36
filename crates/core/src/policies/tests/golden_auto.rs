//! Golden decisions of `mirrorball/auto`: what each component is for, and edge cases.

use super::script::{Script, Step, complete, members, wait};
use crate::member::MemberConfig;
use crate::policies::MIRRORS_MAX;
use crate::policy::{Choice, MirrorSet};
use crate::units::{GIB, KIB, MIB};

fn flash(config: &mut MemberConfig) {
    config.rotational = false;
}

fn disk(config: &mut MemberConfig) {
    config.size_bytes = 1024 * GIB;
}

/// Waits, then completes the member's oldest read.
fn end(script: &mut Script, devid: u64, wait_ms: u64) {
    script.play(&wait(wait_ms));
    script.play(&complete(devid, wait_ms));
}

/// Plays a read that completes before the next begins; returns the devid that served it.
fn read_and_end(script: &mut Script, offset: u64, wait_ms: impl Fn(u64) -> u64) -> u64 {
    let devid = script.read(offset, 4096, 0);
    end(script, devid, wait_ms(devid));
    devid
}

/// A low and a high address; no two numbers give consecutive addresses.
fn low_and_high(number: u64) -> (u64, u64) {
    (number % 61 * GIB + 7 * MIB, (900 + number % 53) * GIB)
}

#[test]
fn disks_divide_the_addresses() {
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
fn disks_do_not_divide_the_addresses_without_locality() {
    let mut script = Script::new("mirrorball/auto:locality", members(2, disk));
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
fn slow_flash_is_avoided_and_probed_after_a_minute() {
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
    assert!(matches!(choice, Choice::All(_)), "the read and a probe: {choice:?}");
}

#[test]
fn reads_that_only_one_disk_can_serve_move_its_locality() {
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

/// Two disks of 8 ms an access: 1 is dedicated to stream 1, which is at 500 GiB, and 2 reads around
/// the begin.
fn with_dedicated_disk() -> Script {
    let mut script = Script::new("mirrorball/auto", members(2, disk));
    for number in 0..100 {
        script.play(&Step::Eligible(&[1]));
        read_and_end(&mut script, (500 + number % 7) * GIB, |_| 8);
        script.submit_read(2);
        end(&mut script, 2, 8);
    }
    script.play(&Step::Eligible(&[1, 2]));
    // Until the reads before are no longer readers that share.
    script.play(&wait(500));
    for number in 0..12 {
        assert_eq!(script.read(500 * GIB + number * 128 * KIB, 128 * KIB, 1), 1);
        end(&mut script, 1, 1);
    }
    script
}

#[test]
fn a_disk_is_dedicated_to_a_stream() {
    let mut script = with_dedicated_disk();
    for number in 12..24 {
        let served = script.read(500 * GIB + number * 128 * KIB, 128 * KIB, 1);
        assert_eq!(served, 1, "the stream stays on its disk");
        let second = script.read(500 * GIB + number * 128 * KIB + GIB, 128 * KIB, 2);
        if number >= 16 {
            assert_eq!(second, 2, "other readers avoid it, however long the other queue");
        }
        end(&mut script, 1, 1);
    }
}

#[test]
fn other_reads_of_the_owners_stream_do_not_keep_its_disk() {
    let mut script = with_dedicated_disk();
    script.play(&Step::Eligible(&[1]));
    for number in 0..12 {
        assert_eq!(script.read((500 + number % 7) * GIB + MIB, 4096, 1), 1);
        end(&mut script, 1, 8);
    }
    script.play(&Step::Eligible(&[1, 2]));
    assert_eq!(script.read(505 * GIB, 4096, 2), 1, "the disk is free, and reads there");
}

#[test]
fn a_lone_read_goes_to_a_dedicated_disk_if_the_other_queue_is_longer_than_the_seeks() {
    // At most 1.8 accesses for the seek there, and two for the owner's, which it delays, for each
    // read of its workload. The larger read is of another workload than those in flight, each of
    // which then counts more than once.
    for (in_flight, length, from) in [(1, 4096, 2), (4, 4096, 2), (4, 64 * KIB, 1)] {
        let mut script = with_dedicated_disk();
        (0..in_flight).for_each(|_| script.submit_read(2));
        assert_eq!(script.read(MIB, length, 2), from, "{in_flight} in flight, {length} bytes");
    }
}

#[test]
fn a_disk_that_is_written_is_dedicated_to_no_stream() {
    let mut script = with_dedicated_disk();
    for devid in [1, 2, 1, 1] {
        script.play(&Step::Write { devid, offset: GIB, length: 4096 });
    }
    let served = script.read(500 * GIB + 12 * 128 * KIB, 128 * KIB, 1);
    assert_eq!(served, 2, "1 is behind with its writes");
}

#[test]
fn a_second_stream_gets_the_other_disk() {
    let mut script = Script::new("mirrorball/auto", members(2, disk));
    let mut disks = [0; 2];
    for number in 0..16 {
        for (stream, disk) in disks.iter_mut().enumerate() {
            let offset = stream as u64 * 300 * GIB + number * 128 * KIB;
            *disk = script.read(offset, 128 * KIB, stream as u64);
            end(&mut script, *disk, 1);
        }
    }
    assert_ne!(disks[0], disks[1]);
}

/// Two streams with twelve reads in flight have a disk each when a lone reader comes.
#[test]
fn the_reader_with_the_fewest_reads_in_flight_gets_a_disk() {
    let mut script = with_dedicated_disk();
    let read = |script: &mut Script, stream: u64, number: u64| {
        script.read((500 + 20 * stream) * GIB + number * 128 * KIB, 128 * KIB, stream)
    };
    for number in 0..16 {
        assert_eq!(script.read(500 * GIB + (12 + number) * 128 * KIB, 128 * KIB, 1), 1);
        let second = read(&mut script, 2, number);
        assert!(second == 2 || number < 4, "read {number}: {second}");
    }
    let lone: Vec<u64> = (0..8)
        .map(|number| {
            let devid = read(&mut script, 3, number);
            end(&mut script, devid, 1);
            devid
        })
        .collect();
    assert_eq!(lone[4..], [1; 4], "{lone:?}");
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
    assert_eq!(second, first, "the disks serve another stream: one request does not make an owner");
}

#[test]
fn large_reads_are_split_on_idle_flash_only() {
    let mut script = Script::new("mirrorball/auto", members(2, flash));
    assert!(matches!(script.choose(0, MIB, 0).1, Choice::Split(_)));
    assert!(matches!(script.choose(8 * MIB, 4096, 0).1, Choice::Mirror(_)), "too small");
    let mut disks = Script::new("mirrorball/auto", members(2, disk));
    assert!(matches!(disks.choose(0, MIB, 0).1, Choice::Mirror(_)), "disks would seek twice");
    let mut without = Script::new("mirrorball/auto:split", members(2, flash));
    assert!(matches!(without.choose(0, MIB, 0).1, Choice::Mirror(_)));
}

#[test]
fn a_part_is_not_given_to_a_busy_member() {
    // With the first estimates, 100 us and 2 us for an I/O and for 8 KiB: the whole takes 356 us,
    // halves take 228 us. Behind a read of 4 KiB a half takes 231 us, and delays that by 130 us.
    let mut script = Script::new("mirrorball/auto", members(2, flash));
    assert!(matches!(script.choose(0, MIB, 0).1, Choice::Split(_)));
    script.submit_read(2);
    assert_eq!(script.choose(8 * MIB, MIB, 0).1, Choice::Mirror(0));
    let mut three = Script::new("mirrorball/auto", members(3, flash));
    (0..8).for_each(|_| three.submit_read(3));
    assert_eq!(three.choose(0, MIB, 0).1, Choice::Split(MirrorSet::pair(0, 1)), "the idle two");
}

#[test]
fn a_large_read_avoids_the_member_with_more_reads_in_flight() {
    // Member 1 has four reads of 4 KiB, member 2 one of 64 KiB: 6 I/O there by work, 9 here.
    for (spec, chosen) in [("mirrorball/auto", 1), ("mirrorball/auto:marginal-cost", 0)] {
        let mut script = Script::new(spec, members(2, flash));
        (0..4).for_each(|_| script.submit_read(1));
        script.play(&Step::Eligible(&[2]));
        script.read(GIB, 64 * KIB, 0);
        script.play(&Step::Eligible(&[1, 2]));
        assert_eq!(script.choose(0, 60 * KIB, 0).1, Choice::Mirror(chosen), "{spec}");
    }
}

#[test]
fn a_read_that_may_be_late_is_read_from_both() {
    // One in four takes 16 ms instead of 1 ms: 3.75 ms late in the mean.
    for (spec, late_ms, reads_both) in [
        ("mirrorball/auto", 16, true),
        ("mirrorball/auto", 1, false),
        ("mirrorball/auto:redundancy", 16, false),
    ] {
        let mut script = Script::new(spec, members(2, flash));
        for number in 0..200 {
            let wait_ms = if number % 8 < 2 { late_ms } else { 1 };
            read_and_end(&mut script, number * MIB, |_| wait_ms);
        }
        let choice = script.choose(GIB / 2, 4096, 0).1;
        assert_eq!(matches!(choice, Choice::All(_)), reads_both, "{spec} {late_ms}: {choice:?}");
        // A copy would delay a thousand reads.
        (0..1000).for_each(|_| script.submit_read(1));
        (0..1000).for_each(|_| script.submit_read(2));
        let choice = script.choose(GIB / 2 + MIB, 4096, 0).1;
        assert!(matches!(choice, Choice::Mirror(_)), "{spec} {late_ms}: {choice:?}");
    }
}

#[test]
fn a_lone_reader_has_a_window_split_while_one_is_in_flight() {
    let mut script = Script::new("mirrorball/auto", members(2, flash));
    let window = |number: u64| (number * 128 * KIB, 128 * KIB, 1);
    for number in 0..3 {
        let (offset, length, stream) = window(number);
        let choice = script.choose(offset, length, stream).1;
        assert!(matches!(choice, Choice::Split(_)), "{number}: one read on idle members");
        script.play(&wait(1));
    }
    let served = [3, 4, 5].map(|number| {
        let (offset, length, stream) = window(number);
        script.play(&wait(1));
        script.read(offset, length, stream)
    });
    assert_ne!(served[0], 0, "with nothing in flight it stays on its member");
    assert_eq!(served[1], 0, "split, with one window in flight");
    assert_ne!(served[2], 0, "not split with two in flight: it would wait for itself");
}

#[test]
fn a_lone_reader_stays_while_each_member_has_a_write() {
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
fn a_disk_that_is_behind_with_writes_is_avoided() {
    for (spec, avoids) in [("mirrorball/auto", true), ("mirrorball/auto:writes", false)] {
        let mut script = Script::new(spec, members(2, disk));
        for number in 0..2 {
            script.play(&Step::Write { devid: 1, offset: number * GIB, length: 4096 });
        }
        // Three reads on 2 are one more than what 1 has in flight.
        let served: Vec<u64> =
            (0..4).map(|number| script.read(512 * GIB + number * GIB, 4096, 0)).collect();
        assert_eq!(served.iter().all(|&devid| devid == 2), avoids, "{spec}: {served:?}");
    }
}

#[test]
fn a_cached_write_does_not_make_a_disk_look_fast() {
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
fn members_that_complete_nothing_all_get_reads() {
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
