//! `mirrorball torture` as a user meets it.

use crate::common::{Folder, stderr, stdout};

#[test]
fn torture_finds_a_lying_flush_and_nothing_else() {
    let folder = Folder::new();
    let output = folder.run(&["torture", "--operations", "3000"]);
    assert!(stdout(&output).contains("3000 operations in 50 histories broke no rule"));
    for (option, part) in [("--operations", "a whole number from 1"), ("--seed", "a seed: a whole")]
    {
        folder.refuses(&["torture", option, "-1"], &[option, part]);
    }
    let output = folder.run(&["torture", "--operations", "1"]);
    assert!(stdout(&output).contains("60 operations in 1 history broke no rule"));
    assert!(stderr(&output).contains("note: a history has 60 operations"), "{}", stderr(&output));
    let output = folder.run(&["torture", "--operations", "61"]);
    assert!(stdout(&output).contains("120 operations in 2 histories broke no rule"));
    assert!(stderr(&output).contains("has 60 operations, so 120 are run"), "{}", stderr(&output));
    let output = folder.run(&["torture", "--lying-flush"]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains(" members) breaks a rule") && !text.contains("devid 0"), "{text}");
    assert!(text.contains("breaks a rule") && text.contains("mirrorball torture --seed"), "{text}");
    let (_, command) = text.split_once("`mirrorball ").unwrap();
    let words: Vec<&str> = command.split('`').next().unwrap().split(' ').collect();
    assert_eq!(String::from_utf8(folder.run(&words).stdout).unwrap(), text, "{words:?}");
    assert!(!text.contains("0b") && !text.contains("InSync"), "in words: {text}");
}
