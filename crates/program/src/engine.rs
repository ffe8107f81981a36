//! The configuration of the engine: what a program may do at all.

use wasmtime::{Config, Engine, OptLevel};

/// Bytes of the native stack that a call may use; the program's own stack is in its memory. A call
/// that needs more, by recursion, ends in a fault.
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
