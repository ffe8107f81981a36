//! The interface of programs, version 1: sizes and places of the fields in `mirrorball_policy.h`.
//!
//! A test compiles the header and compares.

pub const VERSION: u32 = 1;
/// Highest number of mirrors in a context.
pub const MIRRORS_MAX: usize = 16;

/// Bytes of `struct mb_member`.
pub const MEMBER_BYTES: usize = 144;
/// Bytes of `struct mb_mirror`, which ends with a member.
pub const MIRROR_BYTES: usize = 160;
/// Bytes of `struct mb_choose` without its mirrors.
pub const CHOOSE_BYTES: usize = 64;
/// Bytes of `struct mb_event`.
pub const EVENT_BYTES: usize = 64;
/// Bytes of `mb_context`, which holds a choice with all its mirrors, or an event.
pub const CONTEXT_BYTES: usize = CHOOSE_BYTES + MIRRORS_MAX * MIRROR_BYTES;
/// Bytes of `struct mb_program`.
pub const PROGRAM_BYTES: usize = 256;
/// Bytes of `struct mb_param`.
pub const PARAMETER_BYTES: usize = 128;

/// Name of the module that the helpers are imported from.
pub const HELPER_MODULE: &str = "mb";
pub const HELPERS: [&str; 8] =
    ["random", "member", "hedge", "split", "read_all", "count", "note", "error"];
/// Start of the names under which parameters are exported.
pub const PARAMETER_PREFIX: &str = "mb_param_";
pub const COUNTERS: usize = 16;

/// Highest number of bytes of a program's memory: stack, constants and variables.
pub const MEMORY_BYTES_MAX: usize = 256 << 10;
pub const PARAMETERS_MAX: usize = 32;
/// Fuel of one `choose`; a unit is about one instruction.
pub const CHOOSE_FUEL: u64 = 16_384;
/// Fuel of one `submit` or `complete`.
pub const EVENT_FUEL: u64 = 4_096;
/// Fuel of one `init` or `change`, and of the start of an instance.
pub const INIT_FUEL: u64 = 262_144;
