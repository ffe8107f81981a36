//! Programs that a user names by the file of their object: `program:ewma.wasm?gain=4+hedge`.
//!
//! The file is read once. All else names the program by its name and the hash of its object, so a
//! file that changes later does not change what runs.

use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::policies::{OBJECT_BYTES_MAX, PROGRAM_FILE, Registry};
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};

/// Characters that end a path, and how they are written in one.
const ESCAPES: [(&str, &str); 4] = [("%2C", ","), ("%2B", "+"), ("%3F", "?"), ("%25", "%")];

/// Loads the programs that a policy string, or a list of them separated by commas, names by file.
/// Returns the text with the canonical names in place of the files. A path ends at a comma, a plus
/// or a question mark; within a path these are written `%2C`, `%2B` and `%3F`. Fails if a file
/// cannot be read, or is not a program that this build can run.
pub fn load_programs(text: &str, registry: &mut Registry) -> Result<String, Diagnostic> {
    let mut items = Vec::new();
    for item in text.split(',') {
        items.push(match ProgramReference::parse(item) {
            Some(reference) => {
                let object = reference.read()?;
                reference.load(&object, registry)?
            }
            None => item.to_owned(),
        });
    }
    Ok(items.join(","))
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProgramReference {
    pub path: String,
    /// Parameters and modifiers, as they were written.
    pub rest: String,
}

impl ProgramReference {
    /// Parses `program:FILE`, followed by parameters and modifiers; `None` if the text begins
    /// otherwise.
    pub fn parse(text: &str) -> Option<ProgramReference> {
        let reference = text.trim_start().strip_prefix(PROGRAM_FILE)?;
        let end = reference.find(['?', '+', ',']).unwrap_or(reference.len());
        let (path, rest) = reference.split_at(end);
        Some(ProgramReference { path: unescaped(path), rest: rest.to_owned() })
    }

    /// The same program, named by an absolute path if there is one that is text.
    #[must_use]
    pub fn with_absolute_path(self) -> ProgramReference {
        let path = std::path::absolute(&self.path).ok();
        let path = path.and_then(|path| path.into_os_string().into_string().ok());
        ProgramReference { path: path.unwrap_or(self.path), rest: self.rest }
    }

    /// Reads the object. Fails if the file cannot be read, or is longer than an object may be.
    pub fn read(&self) -> Result<Vec<u8>, Diagnostic> {
        let path = &self.path;
        if path.is_empty() {
            return Err(Diagnostic::new("the file of the program is missing")
                .with_help("write for example `program:ewma.wasm`"));
        }
        let object = read_object(path).map_err(|error| {
            let error = Diagnostic::new(format!("cannot read the program `{path}`: {error}"));
            match (path.ends_with(".c"), self.rest.is_empty()) {
                (true, _) => error.with_help("compile it with `mirrorball program build`"),
                (false, true) => error.with_help(
                    "give the path of a file that `program build` made; a comma in a path is \
                     written %2C",
                ),
                (false, false) => error.with_help(
                    "give the path of a file that `program build` made; a path ends at `+` and \
                     `?`, which are written %2B and %3F in one",
                ),
            }
        })?;
        if object.len() > OBJECT_BYTES_MAX {
            let most = OBJECT_BYTES_MAX >> 10;
            let what = format!("the program `{path}` has more than {most} KiB");
            return Err(Diagnostic::new(what).with_help("objects of policies are smaller"));
        }
        Ok(object)
    }

    /// Loads an object; returns the policy string with its canonical name. Fails if it is not a
    /// program that this build can run.
    pub fn load(&self, object: &[u8], registry: &mut Registry) -> Result<String, Diagnostic> {
        let program = registry.load(object).map_err(|error| {
            let message = format!("the program `{}`: {}", self.path, error.message);
            Diagnostic { message, ..error }
        })?;
        Ok(format!("{}{}", program.name(), self.rest))
    }
}

/// The text that parses to this reference.
impl fmt::Display for ProgramReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut path = self.path.clone();
        for (escape, character) in ESCAPES.iter().rev() {
            path = path.replace(character, escape);
        }
        write!(f, "{PROGRAM_FILE}{path}{}", self.rest)
    }
}

/// A path without escapes.
fn unescaped(mut text: &str) -> String {
    let mut path = String::new();
    while let Some(at) = text.find('%') {
        path += &text[..at];
        let is_it = |(escape, _): &&(&str, &str)| {
            let begin = text.get(at..at + escape.len());
            begin.is_some_and(|begin| begin.eq_ignore_ascii_case(escape))
        };
        let found = ESCAPES.iter().find(is_it);
        let (length, character) = found.map_or((1, "%"), |(escape, it)| (escape.len(), *it));
        path += character;
        text = &text[at + length..];
    }
    path + text
}

/// Bytes as text for the control socket, two hexadecimal digits each.
pub fn hex_digits(bytes: &[u8]) -> String {
    let digit = |value: u8| char::from_digit(value.into(), 16).expect("four bits");
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// Bytes of text that [`hex_digits`] made; `None` of other text.
pub fn parse_hex_digits(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u32>> = text.chars().map(|digit| digit.to_digit(16)).collect();
    let digits = digits.filter(|digits| digits.len() % 2 == 0)?;
    Some(digits.chunks_exact(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_end_at_separators_unless_they_are_escaped() {
        let parse = |text: &str| {
            let ProgramReference { path, rest } = ProgramReference::parse(text).unwrap();
            (path, rest)
        };
        let expect = |path: &str, rest: &str| (path.to_owned(), rest.to_owned());
        assert_eq!(parse("program:a.wasm?gain=4+hedge"), expect("a.wasm", "?gain=4+hedge"));
        assert_eq!(parse("program:c%2B%2b/a%2Cb%3f.wasm"), expect("c++/a,b?.wasm", ""));
        assert_eq!(parse("program:100%/%252C"), expect("100%/%2C", ""));
        for text in [
            "program:a.wasm?gain=4+hedge",
            "program:c%2B%2B/a%2Cb%3F.wasm",
            "program:%252C",
            "program:a%2525b",
        ] {
            assert_eq!(ProgramReference::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(ProgramReference::parse("pid"), None);
        let error = ProgramReference::parse("program:none+more.wasm").unwrap().read().unwrap_err();
        assert!(error.to_string().contains("written %2B and %3F in one"), "{error}");
    }

    #[test]
    fn digits_of_bytes_are_those_bytes_again() {
        let bytes: Vec<u8> = (0..=255).collect();
        assert_eq!(hex_digits(&bytes[..2]), "0001");
        assert_eq!(parse_hex_digits(&hex_digits(&bytes)), Some(bytes));
        for text in ["0", "0g", "\u{e9}\u{e9}", "+1"] {
            assert_eq!(parse_hex_digits(text), None, "{text}");
        }
    }
}
