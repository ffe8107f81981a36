//! Objects with random damage: they are refused, or run to a fault or a choice. The host does not
//! panic, and every call ends.

use crate::common::{example, toolchain};
use crate::objects::{FIRST_MIRROR, Object};
use mirrorball_core::policies::PolicyProgram;
use mirrorball_core::rng::Rng;
use mirrorball_program::Loader;
use mirrorball_program::check::try_reads;

/// Objects that are tried for each example.
const OBJECTS: u64 = 60;

#[test]
fn damaged_programs_do_not_panic_and_do_not_hang() {
    let Some(toolchain) = toolchain() else { return };
    let loader = Loader::new().unwrap();
    let mut draw = Rng::new(1);
    let (mut loaded, mut faults) = (0, 0);
    for name in ["md-raid1.c", "peak-ewma.c", "gmirror-load.c"] {
        let whole = toolchain.compile(&example(name)).unwrap().object;
        for _ in 0..OBJECTS {
            let mut object = whole.clone();
            for _ in 0..=draw.below(3) {
                let place = draw.below(object.len() as u64) as usize;
                object[place] = match draw.below(3) {
                    0 => object[place] ^ 1 << draw.below(8),
                    1 => draw.next_u64() as u8,
                    _ => object[draw.below(object.len() as u64) as usize],
                };
            }
            let Ok(program) = loader.load_program(&object) else { continue };
            let values: Vec<u64> = program.parameters().iter().map(|it| it.default).collect();
            loaded += 1;
            // One that cannot start is refused, too.
            let Ok(fault) = try_reads(&program, &values, 20) else { continue };
            faults += u32::from(fault.is_some());
        }
    }
    assert!(loaded > 20 && faults > 0, "{loaded} were loaded, {faults} had a fault");
}

/// An object for another version of the interface, and one whose context is outside of its memory.
#[test]
fn what_an_object_says_of_itself_is_checked_before_it_is_compiled() {
    let object = Object { choose: FIRST_MIRROR.to_vec(), ..Object::default() }.bytes();
    let loader = Loader::new().unwrap();
    assert!(loader.check_object(&object).is_ok());
    let mut other_version = object.clone();
    let name = object.windows(7).position(|bytes| bytes == b"written").unwrap();
    other_version[name - 8] = 9;
    let error = loader.check_object(&other_version).unwrap_err().to_string();
    assert!(error.contains("has interface version 9, but this build runs version 1"), "{error}");
    // `i32.const 2048` of the second global variable becomes one of 2^20.
    let mut outside = object.clone();
    let place = object.windows(3).position(|bytes| bytes == [0x41, 0x80, 0x10]).unwrap();
    outside.splice(place..place + 3, [0x41, 0x80, 0x80, 0xc0, 0x00]);
    let globals = object.windows(2).position(|bytes| bytes == [6, 13]).unwrap();
    outside[globals + 1] += 2;
    let error = loader.check_object(&outside).unwrap_err().to_string();
    assert!(error.contains("`mb_context` lies outside of the program's memory"), "{error}");
}

#[test]
fn a_start_function_is_refused() {
    let object = Object { choose: FIRST_MIRROR.to_vec(), others: vec![Vec::new()], start: Some(1) };
    let loader = Loader::new().unwrap();
    let error = loader.check_object(&object.bytes()).unwrap_err().to_string();
    assert!(error.contains("a start function, which would run before its parameters"), "{error}");
    assert!(loader.check_object(&Object { start: None, ..object }.bytes()).is_ok());
}

/// A memory that grows, and a function that calls itself.
#[test]
fn what_has_no_bound_ends_in_a_fault() {
    let fault = |choose: &[u8], others: Vec<Vec<u8>>| {
        let object = Object { choose: choose.to_vec(), others, start: None }.bytes();
        let program = Loader::new().unwrap().load_program(&object).unwrap();
        try_reads(&program, &[], 1).unwrap().unwrap().summary
    };
    // `i32.const 1; memory.grow; i64.extend_i32_u`: the result of a failure.
    let grown = fault(&[0x41, 1, 0x40, 0, 0xad], Vec::new());
    assert!(grown.contains("returned 4294967295"), "{grown}");
    let call = [0x10, 1];
    fault(&[&call[..], FIRST_MIRROR].concat(), vec![call.to_vec()]);
}
