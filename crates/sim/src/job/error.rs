//! Errors in a job file, before their place in it is known.

use mirrorball_core::diagnostic::Diagnostic;

/// Creates an error without a place. The reader adds the file and the line.
pub(super) fn job_error(message: impl Into<String>, help: impl Into<String>) -> Diagnostic {
    Diagnostic::new(message).with_help(help)
}

/// The error for a section where only options may be.
pub(super) fn section_in_include() -> Diagnostic {
    job_error(
        "a section in an included file",
        "an included file can contain only options: move the section to the job file",
    )
}
