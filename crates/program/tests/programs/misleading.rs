//! Objects whose texts would mislead the reader of a message: colours, moves of the cursor, lines
//! that look like others, and texts that fill the screen.

use crate::objects::{FIRST_MIRROR, Object, number};
use mirrorball_core::policies::PolicyProgram;
use mirrorball_program::Loader;
use mirrorball_program::check::try_reads;

/// Erases the screen, begins a line of its own, and reverses what follows.
const EVIL: &str = "\u{1b}[2Jgone\nok: \u{202e}";

/// Bytes of a name with its length.
fn text(text: &str) -> Vec<u8> {
    [&number(text.len() as u64)[..], text.as_bytes()].concat()
}

/// The `name` section, which gives function 0 a name.
fn name_section(name: &str) -> Vec<u8> {
    let functions = [&[1, 0][..], &text(name)].concat();
    let part = [&[1][..], &number(functions.len() as u64), &functions].concat();
    let contents = [text("name"), part].concat();
    [&[0][..], &number(contents.len() as u64), &contents].concat()
}

fn is_plain(text: &str) -> bool {
    text.len() < 1000 && !text.contains(['\u{1b}', '\u{202e}']) && !text.contains("\nok")
}

/// The fault of a `choose` that is `unreachable`, in a function of this name.
fn dump_of_fault(name: &str) -> String {
    let object = Object { choose: vec![0], ..Object::default() }.bytes();
    let program = Loader::new().unwrap().load_program(&[object, name_section(name)].concat());
    let fault = try_reads(&program.unwrap(), &[], 1).unwrap().unwrap();
    fault.dump
}

#[test]
fn names_of_functions_are_shown_on_one_line_without_control_characters() {
    assert!(dump_of_fault("best_mirror").starts_with("in best_mirror at offset 0x"));
    let dump = dump_of_fault(EVIL);
    assert!(dump.starts_with("in \\u{1b}[2Jgone\\nok: \\u{202e} at offset 0x"), "{dump}");
    let dump = dump_of_fault(&"long".repeat(20_000));
    assert!(dump.len() < 2000 && dump.starts_with("in longlong"), "{}", dump.len());
}

#[test]
fn names_in_refusals_are_shown_on_one_line_without_control_characters() {
    let object = Object { choose: FIRST_MIRROR.to_vec(), ..Object::default() }.bytes();
    assert!(Loader::new().unwrap().load_program(&object).is_ok());
    // An import section takes its place behind the types, which end at the functions (3).
    let types = 8 + 2 + usize::from(object[9]);
    assert_eq!(object[types], 3);
    for name in [EVIL.to_owned(), "long".repeat(20_000)] {
        let import = [&[1][..], &text("mb"), &text(&name), &[0, 0]].concat();
        let section = [&[2][..], &number(import.len() as u64), &import].concat();
        let object = [&object[..types], &section, &object[types..]].concat();
        let error = Loader::new().unwrap().load_program(&object).unwrap_err().to_string();
        assert!(is_plain(&error), "{error:?}");
    }
}

/// Marks that change the direction of text are no control characters.
#[test]
fn texts_with_invisible_characters_are_refused() {
    let object = Object { choose: FIRST_MIRROR.to_vec(), ..Object::default() }.bytes();
    let name = object.windows(7).position(|bytes| bytes == b"written").unwrap();
    // 40 bytes before the version, 128 before the summary, with the 8 bytes before the name.
    for place in [name + 32, name + 120] {
        let with = |text: &str| {
            let mut object = object.clone();
            object[place..place + text.len()].copy_from_slice(text.as_bytes());
            Loader::new().unwrap().load_program(&object)
        };
        assert!(with("1.0").is_ok());
        for invisible in ["\u{202e}", "\u{200b}", "\u{1b}"] {
            let error = with(invisible).unwrap_err().to_string();
            assert!(error.contains("of the program is malformed"), "{error}");
        }
    }
    assert!(Loader::new().unwrap().load_program(&object).unwrap().object() == object);
}
