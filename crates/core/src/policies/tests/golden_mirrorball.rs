//! Golden decisions of `mirrorball/first` and `mirrorball/random`.

use super::script::{Script, members};

/// The generator is xoshiro256++ of seed 1; these are its first draws below 3, plus one. A change
/// of generator, or of how the policy draws from it, changes every published result.
#[test]
fn random() {
    let mut script = Script::new("mirrorball/random", members(3, |_| ()));
    let drawn: Vec<u64> = (0..12).map(|_| script.read(0, 4096, 0)).collect();
    assert_eq!(drawn, [3, 3, 1, 3, 1, 2, 3, 2, 1, 1, 3, 2]);
    let mut counts = [0u32; 3];
    for _ in 0..30_000 {
        counts[script.read(0, 4096, 0) as usize - 1] += 1;
    }
    // The binomial deviation is 82; five of them.
    assert!(counts.iter().all(|&count| count.abs_diff(10_000) < 410), "{counts:?}");
}
