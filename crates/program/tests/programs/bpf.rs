//! A small machine that runs BPF objects, to compare them with WebAssembly objects of one source.
//!
//! It has the instructions that clang emits for `-mcpu=v3`, one image of the variables, a stack,
//! and the functions of a kernel with the hook. Every load and store is checked. What a kernel's
//! verifier says of an object is for `benches/read-policy-in-qemu.sh`.

use mirrorball_core::rng::Rng;
use mirrorball_program::abi::{CHOOSE_BYTES, MIRROR_BYTES};
use object::{Object, ObjectSection, ObjectSymbol, RelocationFlags, RelocationTarget};
use std::collections::BTreeMap;

const IMAGE: u64 = 1 << 32;
const STACK: u64 = 2 << 32;
/// Read-only memory of the kernel: the context, and the members behind it.
const SHOWN: u64 = 3 << 32;
/// Bytes of stack of a function, as in a kernel.
const FRAME: usize = 512;
const FRAMES: usize = 8;
/// Bytes of the largest context, a read with 16 mirrors.
const CONTEXT: usize = CHOOSE_BYTES + 16 * MIRROR_BYTES;
/// Instructions of a call, after which it counts as endless.
const STEPS_MAX: u64 = 1 << 20;

const KERNEL_FUNCTIONS: [&str; 7] = [
    "bpf_iter_read_policy_new",
    "bpf_iter_read_policy_next",
    "bpf_iter_read_policy_destroy",
    "bpf_read_policy_context",
    "bpf_read_policy_member",
    "bpf_read_policy_random",
    "bpf_read_policy_error",
];

/// `bpf_get_prandom_u32`, the only helper that unrolled objects call.
const PRANDOM: i32 = 7;

/// Relocations of BPF objects: an address in a variable, and a call.
const R_BPF_64_64: u32 = 1;
const R_BPF_64_32: u32 = 10;

#[derive(Clone, Copy, Debug)]
struct Instruction {
    code: u8,
    to: usize,
    from: usize,
    offset: i16,
    number: i32,
}

/// An object that was loaded, with its variables.
pub(crate) struct Machine {
    code: Vec<Instruction>,
    image: Vec<u8>,
    stack: Vec<u8>,
    pub(crate) context: Vec<u8>,
    /// Members of the array, one after the other.
    pub(crate) members: Vec<u8>,
    /// Addresses of variables, and indexes of functions.
    symbols: BTreeMap<String, u64>,
}

impl Machine {
    pub(crate) fn load(object: &[u8]) -> Machine {
        let file = object::File::parse(object).unwrap();
        let mut places: BTreeMap<usize, u64> = BTreeMap::new();
        let (mut text, mut image) = (Vec::new(), Vec::new());
        for section in file.sections() {
            match section.name().unwrap() {
                name if is_code(name) => {
                    places.insert(section.index().0, text.len() as u64 / 8);
                    text.extend_from_slice(section.data().unwrap());
                }
                name if [".bss", ".data", ".rodata"].iter().any(|it| name.starts_with(it)) => {
                    image.resize(image.len().next_multiple_of(16), 0);
                    places.insert(section.index().0, IMAGE + image.len() as u64);
                    let start = image.len();
                    image.resize(start + section.size() as usize, 0);
                    let data = section.data().unwrap();
                    image[start..start + data.len()].copy_from_slice(data);
                }
                _ => {}
            }
        }
        let mut code: Vec<Instruction> = text.chunks_exact(8).map(Instruction::decode).collect();
        for section in file.sections().filter(|it| is_code(it.name().unwrap())) {
            for (offset, relocation) in section.relocations() {
                let RelocationTarget::Symbol(symbol) = relocation.target() else { panic!() };
                let symbol = file.symbol_by_index(symbol).unwrap();
                let RelocationFlags::Elf { r_type } = relocation.flags() else { panic!() };
                let at = (places[&section.index().0] + offset / 8) as usize;
                let target = symbol.section_index().map(|index| places[&index.0]);
                relocate(&mut code, at, r_type, symbol.name().unwrap(), (target, symbol.address()));
            }
        }
        let symbols = file.symbols().filter_map(|symbol| {
            let place = *places.get(&symbol.section_index()?.0)?;
            let step = if place < IMAGE { 8 } else { 1 };
            Some((symbol.name().ok()?.to_owned(), place + symbol.address() / step))
        });
        let symbols = symbols.collect();
        let (context, members) = (vec![0; CONTEXT], Vec::new());
        Machine { code, image, stack: vec![0; FRAME * FRAMES], context, members, symbols }
    }

    /// True if the object has this function.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.symbols.contains_key(name)
    }

    /// A variable, from its first byte to the end of the image.
    pub(crate) fn variable(&mut self, name: &str) -> &mut [u8] {
        let at = (self.symbols[name] - IMAGE) as usize;
        &mut self.image[at..]
    }

    /// Calls a function, which draws from `rng`; returns its result.
    pub(crate) fn call(&mut self, name: &str, rng: &mut Rng) -> u64 {
        let mut registers = [0; 11];
        let mut low_half = None;
        let mut frames: Vec<(usize, [u64; 5])> = Vec::new();
        let mut at = self.symbols[name] as usize;
        registers[10] = STACK + FRAME as u64;
        for _ in 0..STEPS_MAX {
            let instruction = self.code[at];
            at += 1;
            match instruction.code {
                0x18 => {
                    let high = self.code[at].number;
                    registers[instruction.to] =
                        u64::from(instruction.number as u32) | u64::from(high as u32) << 32;
                    at += 1;
                }
                0x85 if instruction.from == 1 => {
                    frames.push((at, registers[6..11].try_into().unwrap()));
                    assert!(frames.len() < FRAMES, "calls are nested too deeply");
                    registers[10] += FRAME as u64;
                    at = (at as i64 + i64::from(instruction.number)) as usize;
                }
                0x85 if instruction.from == 0 => {
                    assert_eq!(instruction.number, PRANDOM, "a helper that no example uses");
                    // mb_random() calls it twice, for the upper half first.
                    let half = low_half.take().unwrap_or_else(|| {
                        let draw = rng.next_u64();
                        low_half = Some(draw & u64::from(u32::MAX));
                        draw >> 32
                    });
                    registers[0] = half;
                }
                0x85 => {
                    registers[0] = match KERNEL_FUNCTIONS[instruction.number as usize] {
                        "bpf_read_policy_random" => rng.next_u64(),
                        function => self.kernel_function(function, registers),
                    };
                }
                0x95 => {
                    let Some((back, saved)) = frames.pop() else { return registers[0] };
                    registers[6..11].copy_from_slice(&saved);
                    at = back;
                }
                _ => at = self.step(instruction, &mut registers, at),
            }
        }
        panic!("`{name}` does not end");
    }

    /// An instruction that is neither a call nor an exit; returns the place of the next.
    fn step(&mut self, it: Instruction, registers: &mut [u64; 11], next: usize) -> usize {
        let size = match it.code & 0x18 {
            0x00 => 4,
            0x08 => 2,
            0x10 => 1,
            _ => 8,
        };
        let operand =
            if it.code & 8 != 0 { registers[it.from] } else { i64::from(it.number) as u64 };
        let place = |base: usize| registers[base].wrapping_add(i64::from(it.offset) as u64);
        match it.code & 7 {
            1 => {
                let mut bytes = [0; 8];
                bytes[..size].copy_from_slice(self.bytes(place(it.from), size));
                registers[it.to] = u64::from_le_bytes(bytes);
            }
            2 | 3 => {
                let value =
                    if it.code & 7 == 3 { registers[it.from] } else { i64::from(it.number) as u64 };
                let bytes = self.bytes(place(it.to), size);
                bytes.copy_from_slice(&value.to_le_bytes()[..size]);
            }
            4 => {
                let (to, operand) = (registers[it.to] as u32, operand as u32);
                registers[it.to] = u64::from(arithmetic_32(it.code, to, operand));
            }
            7 => registers[it.to] = arithmetic_64(it.code, registers[it.to], operand),
            5 if is_taken(it.code, registers[it.to], operand) => {
                return (next as i64 + i64::from(it.offset)) as usize;
            }
            6 => {
                // Sign extension of both keeps signed and unsigned order.
                let [to, operand] = [registers[it.to], operand].map(|it| it as i32 as i64 as u64);
                if is_taken(it.code, to, operand) {
                    return (next as i64 + i64::from(it.offset)) as usize;
                }
            }
            5 => {}
            _ => panic!("an instruction that clang does not emit: {it:?}"),
        }
        next
    }

    /// Memory at an address of the program.
    fn bytes(&mut self, address: u64, size: usize) -> &mut [u8] {
        let (memory, at) = match address >> 32 {
            1 => (&mut self.image, address - IMAGE),
            2 => (&mut self.stack, address - STACK),
            3 if address - SHOWN < CONTEXT as u64 => (&mut self.context, address - SHOWN),
            3 => (&mut self.members, address - SHOWN - CONTEXT as u64),
            _ => panic!("{address:#x} is no address"),
        };
        let at = at as usize;
        memory.get_mut(at..at + size).unwrap_or_else(|| panic!("{address:#x} is outside"))
    }

    /// The iterator over numbers, and what a call is shown.
    fn kernel_function(&mut self, name: &str, registers: [u64; 11]) -> u64 {
        let iterator = registers[1];
        match name {
            "bpf_iter_read_policy_new" => {
                let bytes = self.bytes(iterator, 8);
                bytes[..4].copy_from_slice(&(-1_i32).to_le_bytes());
                bytes[4..].copy_from_slice(&(registers[2] as i32).to_le_bytes());
                0
            }
            "bpf_iter_read_policy_next" => {
                let bytes = self.bytes(iterator, 8);
                let current = i32::from_le_bytes(bytes[..4].try_into().unwrap()) + 1;
                let end = i32::from_le_bytes(bytes[4..].try_into().unwrap());
                bytes[..4].copy_from_slice(&current.to_le_bytes());
                if current < end { iterator } else { 0 }
            }
            "bpf_read_policy_context" => SHOWN,
            "bpf_read_policy_member" => {
                let at = registers[1] * registers[2];
                if at < self.members.len() as u64 { SHOWN + CONTEXT as u64 + at } else { 0 }
            }
            "bpf_read_policy_error" => panic!("the policy found a bug of its own"),
            _ => 0,
        }
    }
}

/// True for a section with instructions.
fn is_code(section: &str) -> bool {
    section == "syscall" || section == ".text" || section.starts_with("struct_ops/")
}

impl Instruction {
    fn decode(bytes: &[u8]) -> Instruction {
        Instruction {
            code: bytes[0],
            to: usize::from(bytes[1] & 15),
            from: usize::from(bytes[1] >> 4),
            offset: i16::from_le_bytes([bytes[2], bytes[3]]),
            number: i32::from_le_bytes(bytes[4..8].try_into().unwrap()),
        }
    }
}

/// Completes the instruction at `at`: `place` is that of the symbol's section, if it has one, and
/// its offset there.
fn relocate(
    code: &mut [Instruction],
    at: usize,
    kind: u32,
    name: &str,
    (section, offset): (Option<u64>, u64),
) {
    let addend = code[at].number;
    match (kind, section) {
        (R_BPF_64_64, Some(section)) => {
            let address = section + offset + addend as u64;
            code[at].number = address as i32;
            code[at + 1].number = (address >> 32) as i32;
        }
        (R_BPF_64_32, Some(section)) => {
            let target = (section + offset / 8) as i32 + addend + 1;
            code[at].number = target - at as i32 - 1;
        }
        (R_BPF_64_32, None) => {
            let number = KERNEL_FUNCTIONS.iter().position(|function| *function == name);
            code[at].from = 2;
            code[at].number = number.unwrap_or_else(|| panic!("{name} is unknown")) as i32;
        }
        _ => panic!("a relocation of kind {kind} for {name}"),
    }
}

fn arithmetic_64(code: u8, to: u64, operand: u64) -> u64 {
    match code & 0xf0 {
        0x00 => to.wrapping_add(operand),
        0x10 => to.wrapping_sub(operand),
        0x20 => to.wrapping_mul(operand),
        0x30 => to.checked_div(operand).unwrap_or(0),
        0x40 => to | operand,
        0x50 => to & operand,
        0x60 => to << (operand & 63),
        0x70 => to >> (operand & 63),
        0x80 => to.wrapping_neg(),
        0x90 => to.checked_rem(operand).unwrap_or(to),
        0xa0 => to ^ operand,
        0xb0 => operand,
        0xc0 => (to as i64 >> (operand & 63)) as u64,
        _ => panic!("arithmetic {code:#x}"),
    }
}

fn arithmetic_32(code: u8, to: u32, operand: u32) -> u32 {
    match code & 0xf0 {
        0x60 => to << (operand & 31),
        0x70 => to >> (operand & 31),
        0xc0 => (to as i32 >> (operand & 31)) as u32,
        _ => arithmetic_64(code, to.into(), operand.into()) as u32,
    }
}

fn is_taken(code: u8, to: u64, operand: u64) -> bool {
    let (signed, signed_operand) = (to as i64, operand as i64);
    match code & 0xf0 {
        0x00 => true,
        0x10 => to == operand,
        0x20 => to > operand,
        0x30 => to >= operand,
        0x40 => to & operand != 0,
        0x50 => to != operand,
        0x60 => signed > signed_operand,
        0x70 => signed >= signed_operand,
        0xa0 => to < operand,
        0xb0 => to <= operand,
        0xc0 => signed < signed_operand,
        0xd0 => signed <= signed_operand,
        _ => panic!("jump {code:#x}"),
    }
}
