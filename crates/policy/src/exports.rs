//! Exports of an object: its description, parameters, operations and the place of contexts.

#![allow(unsafe_code, reason = "memory that the host reads and writes; see each place")]

use core::cell::UnsafeCell;
use core::ptr;

/// Description of a policy; [`program!`](crate::program) makes it. Texts end with a zero byte.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// Version of the interface.
    pub abi: u32,
    /// Zero.
    pub reserved: u32,
    /// Name: a to z, 0 to 9, - and _.
    pub name: [u8; 32],
    /// Version of the policy: free text.
    pub version: [u8; 16],
    /// Policy that decides after a fault; empty for the least in flight.
    pub fallback: [u8; 72],
    /// Summary of the policy, in one line.
    pub summary: [u8; 128],
}

/// A number that the user may set; [`parameter!`](crate::parameter) makes it.
#[repr(C)]
#[derive(Debug)]
pub struct Parameter {
    /// The default, until the user sets another.
    pub value: u64,
    /// Lowest value.
    pub min: u64,
    /// Highest value.
    pub max: u64,
    /// Effect and unit, as a noun phrase.
    pub meaning: [u8; 104],
}

/// State of a policy or a context, which the host lends to one operation at a time.
#[derive(Debug)]
pub struct State<T>(UnsafeCell<T>);

// SAFETY: a program has one thread.
unsafe impl<T> Sync for State<T> {}

impl Program {
    /// A description. Compilation fails if a text is too long.
    pub const fn new(name: &str, version: &str, fallback: &str, summary: &str) -> Program {
        Program {
            abi: crate::ABI,
            reserved: 0,
            name: text(name),
            version: text(version),
            fallback: text(fallback),
            summary: text(summary),
        }
    }
}

impl Parameter {
    /// A parameter. Compilation fails if its meaning is too long.
    pub const fn new(value: u64, min: u64, max: u64, meaning: &str) -> Parameter {
        Parameter { value, min, max, meaning: text(meaning) }
    }

    /// Value.
    pub fn get(&self) -> u64 {
        // SAFETY: the reference is valid. The host writes the value before the first operation, so
        // the compiler must not take the default for it.
        unsafe { ptr::read_volatile(&self.value) }
    }
}

impl<T> State<T> {
    /// A state that begins as `start`.
    pub const fn new(start: T) -> State<T> {
        State(UnsafeCell::new(start))
    }

    /// The state, for one operation.
    ///
    /// # Safety
    /// No other reference to it may be in use. The functions that `program!` exports are called by
    /// the host only, one at a time.
    #[allow(clippy::mut_from_ref, reason = "the caller holds the only reference")]
    pub unsafe fn lend(&self) -> &mut T {
        // SAFETY: the caller holds no other reference.
        unsafe { &mut *self.0.get() }
    }
}

/// A text with the zero byte that ends it.
const fn text<const N: usize>(text: &str) -> [u8; N] {
    let bytes = text.as_bytes();
    assert!(bytes.len() < N, "a text of the program is too long");
    let mut array = [0; N];
    let mut at = 0;
    while at < bytes.len() {
        array[at] = bytes[at];
        at += 1;
    }
    array
}

/// Exports a policy: its type, name, version, fallback and summary, and which optional operations
/// it has: `program!(Mine, "mine", "1", "", "what it does"; submit, complete)`. Once in a program.
#[macro_export]
macro_rules! program {
    ($policy:ty, $name:expr, $version:expr, $fallback:expr, $summary:expr
        $(; $($operation:ident),* $(,)?)?) => {
        const _: () = {
            static MB_STATE: $crate::State<$policy> =
                $crate::State::new(<$policy as $crate::Policy>::START);

            #[unsafe(export_name = "mb_program")]
            static MB_PROGRAM: $crate::Program =
                $crate::Program::new($name, $version, $fallback, $summary);

            #[unsafe(export_name = "mb_context")]
            static MB_CONTEXT: $crate::State<[u64; size_of::<$crate::Choose>() / 8]> =
                $crate::State::new([0; size_of::<$crate::Choose>() / 8]);

            $crate::program!(@operation choose (context: &$crate::Choose) -> i64);
            $($($crate::program!(@optional $operation);)*)?
        };
    };
    (@optional submit) => { $crate::program!(@operation submit (context: &$crate::Event)); };
    (@optional complete) => { $crate::program!(@operation complete (context: &$crate::Event)); };
    (@optional init) => { $crate::program!(@operation init ()); };
    (@optional change) => { $crate::program!(@operation change ()); };
    (@operation $operation:ident ($($context:ident: $type:ty)?) $(-> $result:ty)?) => {
        #[unsafe(export_name = stringify!($operation))]
        extern "C" fn $operation($($context: $type)?) $(-> $result)? {
            // SAFETY: the host calls one operation at a time.
            let policy = unsafe { MB_STATE.lend() };
            $crate::Policy::$operation(policy $(, $context)?) $(as $result)?
        }
    };
}

/// Declares a parameter: `parameter!(GAIN, "gain", 8, 1, 64, "weight of the queue, in eighths")`
/// has the default 8, and the user may set 1 to 64. [`Parameter::get`] is its value.
#[macro_export]
macro_rules! parameter {
    ($constant:ident, $name:literal, $value:expr, $min:expr, $max:expr, $meaning:expr) => {
        #[unsafe(export_name = concat!("mb_param_", $name))]
        static $constant: $crate::Parameter = $crate::Parameter::new($value, $min, $max, $meaning);
    };
}
