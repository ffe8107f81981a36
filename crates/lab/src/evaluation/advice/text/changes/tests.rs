//! Texts about changes of hardware, of made-up studies.

use crate::evaluation::advice::answer::{Answer, ArrayAnswer, RankedChange, WhatIf};
use crate::evaluation::advice::tests::array;
use crate::evaluation::advice::{Advice, text};
use crate::experiment::systems::find;
use crate::fixtures::{Achieved, plan, study};
use crate::report::Style;
use mirrorball_disk::array_file::ModelConfidence;

#[test]
fn a_change_of_hardware_of_spread_figures_is_rounded_and_comes_behind_the_state() {
    let answer = |gain: f64, spread: f64| {
        let (system, array) = (find("md").unwrap(), array("md", "raid1"));
        let study = study(&plan(&["j"], &["md/raid1"], 3), |_| Achieved::reads(1000));
        let advice = Advice::new(&study, system, &[], "md/raid1", &array, &[]);
        let mut array = ArrayAnswer::new(&array, &study, advice);
        array.first = vec!["degraded: replace devid 1 first".to_owned()];
        let after = array.clone();
        let what_if = WhatIf::new(vec!["a disk is added".to_owned()], &array, after);
        let what_if = Some(WhatIf { gain: Some(gain), spread: Some(spread), ..what_if });
        text::answer(&Answer { array, what_if, changes: Vec::new() }, Style::FILE)
    };
    let text = answer(112.3, 0.33);
    let end = "\nWhat to set on pair as it is: the same command without --what-if\n";
    assert!(text.ends_with(end) && text.matches("Confidence").count() == 1, "{text}");
    assert!(text.starts_with("State         degraded: replace devid 1 first\nWhat if "), "{text}");
    assert!(
        text.contains("a disk is added: about 110 times as fast in requests/s (±33 %)"),
        "{text}"
    );
    assert!(answer(2.345, 0.1).contains(": 2.35 times as fast in requests/s (±10 %)"));
}

#[test]
fn changes_of_guessed_disks_say_how_far_to_trust_them() {
    let mut array = array("md", "raid1");
    array.members[0].confidence = Some(ModelConfidence::Guessed);
    let study = study(&plan(&["j"], &["md/raid1"], 3), |_| Achieved::reads(1000));
    let advice = Advice::new(&study, find("md").unwrap(), &[], "md/raid1", &array, &[]);
    let array = ArrayAnswer::new(&array, &study, advice);
    let change = RankedChange::new("add=hdd-smr".to_owned(), &array, array.clone());
    let changes = vec![RankedChange { gain: Some(2.0), ..change }];
    let text = text::answer(&Answer { array, what_if: None, changes }, Style::FILE);
    let gain = "brings most: 2.00 times as fast, only if the disks are as guessed";
    assert!(text.contains(gain) && text.contains("\nConfidence    guessed: the model"), "{text}");
}
