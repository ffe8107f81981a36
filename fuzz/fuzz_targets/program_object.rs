//! No object makes the host panic or hang: it is refused, or each of its calls ends.
//!
//! Put objects of `mirrorball program build` into `corpus/program_object` before the first run.
//! One input in 32 is made of another by changes of single instructions that keep their length and
//! mostly their types, so that it is likely to be compiled and run, which takes a hundred times as
//! long as a refusal. The others are changed anywhere, and most are refused.

#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use mirrorball_core::policies::PolicyProgram;
use mirrorball_core::rng::Rng;
use mirrorball_program::Loader;
use mirrorball_program::check::try_reads;
use std::cell::OnceCell;
use std::ops::Range;
use wasmparser::{Parser, Payload};

/// One in this number of inputs is changed by instructions.
const BY_INSTRUCTION: u64 = 32;

/// Opcodes that may stand for each other: they take and leave values of the same types.
const ALIKE: [&[u8]; 16] = [
    &[0x28, 0x2c, 0x2d, 0x2e, 0x2f],
    &[0x29, 0x30, 0x31, 0x32, 0x33, 0x34, 0x35],
    &[0x36, 0x3a, 0x3b],
    &[0x37, 0x3c, 0x3d, 0x3e],
    &[0x46, 0x47, 0x48, 0x49, 0x4a, 0x4b, 0x4c, 0x4d, 0x4e, 0x4f],
    &[0x51, 0x52, 0x53, 0x54, 0x55, 0x56, 0x57, 0x58, 0x59, 0x5a],
    &[0x61, 0x62, 0x63, 0x64, 0x65, 0x66],
    &[0x67, 0x68, 0x69, 0x45],
    &[0x6a, 0x6b, 0x6c, 0x6d, 0x6e, 0x6f, 0x70, 0x71, 0x72, 0x73, 0x74, 0x75, 0x76, 0x77, 0x78],
    &[0x79, 0x7a, 0x7b],
    &[0x7c, 0x7d, 0x7e, 0x7f, 0x80, 0x81, 0x82, 0x83, 0x84, 0x85, 0x86, 0x87, 0x88, 0x89, 0x8a],
    &[0x99, 0x9a, 0x9b, 0x9c, 0x9d, 0x9e, 0x9f],
    &[0xa0, 0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6],
    &[0xb0, 0xb1],
    &[0xb7, 0xb8, 0xb9, 0xba],
    &[0x0c, 0x0d],
];

thread_local! {
    /// An engine takes a millisecond to make.
    static LOADER: OnceCell<Option<Loader>> = const { OnceCell::new() };
}

fuzz_target!(|object: &[u8]| {
    LOADER.with(|loader| {
        let Some(loader) = loader.get_or_init(|| Loader::new().ok()) else { return };
        let Ok(program) = loader.load_program(object) else { return };
        let values: Vec<u64> = program.parameters().iter().map(|it| it.default).collect();
        let _ = try_reads(&program, &values, 4);
    });
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    let mut draw = Rng::new(seed.into());
    if draw.below(BY_INSTRUCTION) != 0 {
        return fuzzer_mutate(data, size, max_size);
    }
    let instructions = instructions(&data[..size]);
    if instructions.is_empty() {
        return fuzzer_mutate(data, size, max_size);
    }
    for _ in 0..=draw.below(3) {
        let instruction = instructions[draw.below(instructions.len() as u64) as usize].clone();
        change(&mut data[instruction], &mut draw);
    }
    size
});

/// Where the instructions of an object are; those before the first error, if it has one.
fn instructions(object: &[u8]) -> Vec<Range<usize>> {
    let mut places = Vec::new();
    for payload in Parser::new(0).parse_all(object) {
        let Ok(payload) = payload else { break };
        let Payload::CodeSectionEntry(body) = payload else { continue };
        let Ok(operators) = body.get_operators_reader() else { break };
        let mut last: Option<usize> = None;
        for operator in operators.into_iter_with_offsets() {
            let Ok((_, start)) = operator else { break };
            places.extend(last.map(|last| last..start));
            last = Some(start);
        }
    }
    places
}

/// Changes an instruction to another of the same length.
fn change(instruction: &mut [u8], draw: &mut Rng) {
    let Some((opcode, immediates)) = instruction.split_first_mut() else { return };
    let alike = ALIKE.iter().find(|group| group.contains(opcode));
    match alike {
        Some(group) if immediates.is_empty() || draw.below(2) == 0 => {
            *opcode = group[draw.below(group.len() as u64) as usize];
        }
        _ if !immediates.is_empty() => {
            let place = draw.below(immediates.len() as u64) as usize;
            let byte = &mut immediates[place];
            // The highest bit says whether the number goes on.
            let low = match draw.below(3) {
                0 => byte.wrapping_add(1),
                1 => byte.wrapping_sub(1),
                _ => draw.next_u64() as u8,
            };
            *byte = *byte & 0x80 | low & 0x7f;
        }
        _ => {}
    }
}
