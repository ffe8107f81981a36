//! Programs that a user names by the file of their object: `program:ewma.wasm?gain=4+hedge`.
//!
//! The file is read once. All else names the program by its name and the hash of its object, so a
//! file that changes later does not change what runs.

use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::policies::{OBJECT_BYTES_MAX, PROGRAM_FILE, Registry};
use std::fs::{self, File};
use std::io::{self, Read};

/// Loads the programs that a policy string, or a list of them separated by commas, names by file.
/// Returns the text with the canonical names in place of the files. A path ends at a comma, a plus
/// or a question mark.
///
/// # Errors
/// If a file cannot be read, or is not a program that this build can run.
pub fn load_programs(text: &str, registry: &mut Registry) -> Result<String, Diagnostic> {
    let mut items = Vec::new();
    for item in text.split(',') {
        items.push(match item.trim_start().strip_prefix(PROGRAM_FILE) {
            Some(reference) => load_program(reference, registry)?,
            None => item.to_owned(),
        });
    }
    Ok(items.join(","))
}

/// Loads the program of one item; `reference` is what follows `program:`.
fn load_program(reference: &str, registry: &mut Registry) -> Result<String, Diagnostic> {
    let end = reference.find(['?', '+']).unwrap_or(reference.len());
    let (path, rest) = reference.split_at(end);
    if path.is_empty() {
        return Err(Diagnostic::new("the file of the program is missing")
            .with_help("write for example `program:ewma.wasm`"));
    }
    let object = read_object(path).map_err(|error| {
        let error = Diagnostic::new(format!("cannot read the program `{path}`: {error}"));
        match path.ends_with(".c") {
            true => error.with_help("compile it with `mirrorball program build`"),
            false => error.with_help("give the path of a file that `program build` made"),
        }
    })?;
    let program = registry.load(&object).map_err(|error| {
        let message = format!("the program `{path}`: {}", error.message);
        Diagnostic { message, ..error }
    })?;
    Ok(format!("{}{rest}", program.name()))
}

/// Reads an object, and at most a byte more than an object may have.
fn read_object(path: &str) -> io::Result<Vec<u8>> {
    // Opening a pipe would wait for its writer.
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is not a file"));
    }
    let mut object = Vec::new();
    File::open(path)?.take(OBJECT_BYTES_MAX as u64 + 1).read_to_end(&mut object)?;
    Ok(object)
}
