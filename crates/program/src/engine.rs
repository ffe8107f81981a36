//! The configuration of the engine: what a program may do at all.

use wasmtime::{Config, Engine, OptLevel};

/// Bytes of the native stack that a call may use; the program's own stack is in its memory. More
/// than any accepted object needs, so that the size of the machine's stack frames decides nothing:
/// its functions call each other at most once ([`crate::call_graph`]), and all together have at
/// most 16,384 locals and 16,384 instructions, of which each leaves at most one value of 8 bytes.
const STACK_BYTES: usize = 512 << 10;

/// Makes an engine with fuel, one form of NaN, and without the extensions of WebAssembly that a
/// policy does not need.
pub(crate) fn engine() -> wasmtime::Result<Engine> {
    let mut config = Config::new();
    config.consume_fuel(true);
    config.max_wasm_stack(STACK_BYTES);
    config.cranelift_opt_level(OptLevel::Speed);
    config.cranelift_nan_canonicalization(true);
    config.wasm_simd(false);
    config.wasm_relaxed_simd(false);
    // A bulk copy takes one unit of fuel, whatever its length.
    config.wasm_bulk_memory(false);
    config.wasm_multi_value(false);
    config.wasm_multi_memory(false);
    config.wasm_memory64(false);
    config.wasm_tail_call(false);
    config.wasm_extended_const(false);
    Engine::new(&config)
}
