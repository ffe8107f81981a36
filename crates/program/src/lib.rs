//! Policies as programs: a read policy in one source file, compiled to WebAssembly, run sandboxed.
//!
//! The interface is `include/mirrorball_policy.h`, which [`abi`] repeats for the host. [`Loader`]
//! checks and compiles an object; the program that it makes builds any number of policies, each in
//! an instance with memory of its own. The rest of Mirrorball knows programs as the traits
//! `PolicyProgram` and `ReadPolicy` of `core`.
//!
//! **Sandbox.** A program imports the eight helpers of the header and nothing else. Memory, stack,
//! table and object have upper bounds, and each call has a budget of *fuel*, about one unit per
//! instruction, so a call ends. The time to compile an object has no bound but its size: loading a
//! program runs in no service's loop. Programs are deterministic: they have no clock, no generator
//! of their own, one form of NaN, no vector instructions and no threads.
//!
//! **Faults.** A call that traps, exceeds its fuel or chooses a mirror that does not exist ends
//! the program: its instance is discarded, since its memory may be half changed, and the fallback
//! decides from that read on. The fallback is a built-in policy that has seen every event. The
//! fault stays visible as `ReadPolicy::fault` and as the counters `faults` and `fallback_reads`;
//! a simulation ends with it as an error.
//!
//! The engine is wasmtime's release with long-term support, of which only the compiler and the
//! runtime are built.

pub mod abi;
pub mod check;
pub mod contexts;
mod dump;
mod engine;
mod fault;
mod foreign_text;
mod helpers;
mod instance;
mod loader;
pub mod measured;
mod metadata;
mod object;
mod policy;
pub mod program;
pub mod toolchain;

pub use loader::Loader;

pub const C_HEADER: &str = include_str!("../include/mirrorball_policy.h");
