//! Access of the reader to variables, included files and traces.

use super::error::job_error;
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_trace::TraceFile;
use std::fs::File;
use std::io::{self, Read};

/// Maximum size of an included file: a path given by mistake, such as a device, may have no end.
const INCLUDE_BYTES_MAX: u64 = 256 << 10;

/// Finds the trace at a path. The other arguments are the name of its format, if one is given, and
/// the one device to read.
pub type FindTrace<'a> =
    dyn Fn(&str, Option<&str>, Option<String>) -> Result<TraceFile, Diagnostic> + 'a;

/// Access to variables and included files. Both are callbacks, so that reading a job needs neither
/// a process environment nor a file system.
#[derive(Clone, Copy)]
pub struct JobContext<'a> {
    /// The value of a variable, or `None` if it is not set.
    pub variable: &'a dyn Fn(&str) -> Option<String>,
    /// The text of an included file, by its path (relative paths are relative to the file that
    /// includes it), or why it cannot be read.
    pub include: &'a dyn Fn(&str) -> Result<String, String>,
    /// The trace at a path. Relative paths are relative to the working directory, as in fio.
    pub trace: &'a FindTrace<'a>,
}

impl JobContext<'_> {
    /// The variables of this process, and its file system.
    pub fn process() -> JobContext<'static> {
        JobContext {
            variable: &|name| std::env::var(name).ok(),
            include: &|path| read_include(path).map_err(|error| error.to_string()),
            trace: &|path, format, device| TraceFile::new(path, format, device),
        }
    }

    /// No variable is set, and no file can be included or replayed.
    pub fn empty() -> JobContext<'static> {
        JobContext {
            variable: &|_| None,
            include: &|_| Err("no such file".to_owned()),
            trace: &|path, _, _| Err(job_error(format!("no trace `{path}`"), "give its path")),
        }
    }
}

/// Reads an included file of at most [`INCLUDE_BYTES_MAX`].
fn read_include(path: &str) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(INCLUDE_BYTES_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > INCLUDE_BYTES_MAX {
        let message = format!("it is larger than {} KiB", INCLUDE_BYTES_MAX >> 10);
        return Err(io::Error::other(message));
    }
    Ok(text)
}
