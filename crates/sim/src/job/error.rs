//! Errors in a job file, before their place in it is known.

use mirrorball_core::diagnostic::Diagnostic;

/// Creates an error without a place. The reader adds the file and the line.
pub(super) fn job_error(message: impl Into<String>, help: impl Into<String>) -> Diagnostic {
    Diagnostic::new(message).with_help(help)
}
