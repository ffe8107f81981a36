//! Why a program was ended, for people.

use crate::foreign_text::shown_name;
use crate::helpers::{HelperFault, HelperOperation};
use wasmtime::{Trap, WasmBacktrace};

/// Fault that ended a program, and its place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct CallFault {
    pub(crate) operation: HelperOperation,
    /// The fault, as a clause without subject: `divided by zero`.
    pub(crate) what: String,
    /// Functions that ran, the innermost first, with the offset in the object.
    pub(crate) frames: Vec<String>,
}

impl CallFault {
    /// A fault that the host found in what the program returned.
    pub(crate) fn of_result(what: impl Into<String>) -> CallFault {
        CallFault { operation: HelperOperation::Choose, what: what.into(), frames: Vec::new() }
    }

    pub(crate) fn of_call(operation: HelperOperation, error: &wasmtime::Error) -> CallFault {
        let what = match (error.downcast_ref::<HelperFault>(), error.downcast_ref::<Trap>()) {
            (Some(fault), _) => fault.to_string(),
            (None, Some(trap)) => describe(*trap),
            (None, None) => format!("failed: {error:#}"),
        };
        let backtrace = error.downcast_ref::<WasmBacktrace>();
        let frames = backtrace
            .map_or(Vec::new(), |backtrace| backtrace.frames().iter().map(frame_text).collect());
        CallFault { operation, what, frames }
    }

    /// One line: the operation and what it did.
    pub(crate) fn summary(&self) -> String {
        format!("{} {}", self.operation, self.what)
    }
}

fn frame_text(frame: &wasmtime::FrameInfo) -> String {
    let name = match frame.func_name() {
        Some(name) => shown_name(name),
        None => format!("function {}", frame.func_index()),
    };
    match frame.module_offset() {
        Some(offset) => format!("{name} at offset {offset:#x} of the object"),
        None => name,
    }
}

/// A trap, as a clause without subject.
fn describe(trap: Trap) -> String {
    match trap {
        Trap::OutOfFuel => "did not end within its limit of instructions",
        Trap::MemoryOutOfBounds => "used a place outside of its memory",
        Trap::StackOverflow => "nested calls too deeply",
        Trap::IntegerDivisionByZero => "divided by zero",
        Trap::IntegerOverflow => "had a result that does not fit its type",
        Trap::BadConversionToInteger => "converted a number that does not fit an integer",
        Trap::UnreachableCodeReached => "reached code that cannot be reached",
        Trap::TableOutOfBounds | Trap::IndirectCallToNull | Trap::BadSignature => {
            "called a function pointer that is none"
        }
        other => return format!("failed: {other}"),
    }
    .to_owned()
}
