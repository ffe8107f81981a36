//! Objects with random damage: they are refused, or run to a fault or a choice. The host does not
//! panic, and every call ends.

use crate::common::{example, toolchain};
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
