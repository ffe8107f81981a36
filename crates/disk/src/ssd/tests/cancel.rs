//! Cancelled commands of a solid-state disk.

use super::*;

/// Two in the drive, the rest in the host.
fn two_deep() -> Ssd {
    Ssd::new(&SsdParameters { queue_depth: 2, ..plain() }, 1)
}

fn tags(ended: &[Completion]) -> Vec<u64> {
    ended.iter().map(|end| end.tag).collect()
}

#[test]
fn what_waits_in_the_host_is_given_back() {
    let mut model = two_deep();
    for tag in 0..5 {
        model.submit(Nanos::ZERO, read(tag, tag * 16 * KIB, 4 * KIB));
    }
    let given_back = |tag| model.cancel(Nanos(10), tag);
    assert_eq!([0, 1, 2, 2, 4].map(given_back), [false, false, true, false, true]);
    let mut ended = tags(&drain(&mut model));
    ended.sort_unstable();
    assert_eq!(ended, [0, 1, 3]);
}

/// A flush that runs alone waits for the read in the drive, and another read for it. Without the
/// flush that read enters at once, and takes as long from then as it does alone.
#[test]
fn a_flush_given_back_lets_pass_what_is_behind_it() {
    let mut model =
        Ssd::new(&SsdParameters { queue_depth: 2, flush_alone: true, dies: 1, ..plain() }, 1);
    let mut fresh = model.clone();
    model.submit(Nanos::ZERO, write(0, 0, 4 * KIB));
    model.submit(Nanos::ZERO, flush(1));
    model.submit(Nanos::ZERO, read(2, 1 << 30, 4 * KIB));
    assert!(model.cancel(Nanos(500), 1));
    let ended = drain(&mut model);
    assert_eq!(tags(&ended), [0, 2]);
    assert_eq!(ended[1].at.0, 500 + alone(&mut fresh, 500, read(2, 1 << 30, 4 * KIB)));
}
