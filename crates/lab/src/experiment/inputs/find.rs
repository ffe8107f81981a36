//! Reads the text of an input, and suggests a similar name if it does not exist.

use anyhow::{Error, Result};
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::suggest::closest_name;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::path::Path;

/// Largest array or job file, so that endless files such as `/dev/zero` are rejected.
const BYTES_MAX: u64 = 4 << 20;

pub(super) struct InputKind {
    /// What messages call it.
    pub(super) name: &'static str,
    pub(super) ending: &'static str,
    /// Those that are compiled in; none where a built-in one is of no use.
    pub(super) builtin: fn() -> Vec<&'static str>,
    /// True if text that is not UTF-8 is read as Latin-1.
    pub(super) allows_latin1: bool,
}

impl InputKind {
    /// True if a name is a path, whether or not the file exists.
    pub(super) fn is_path(&self, name: &str) -> bool {
        Path::new(name).exists() || name.contains('/') || name.ends_with(self.ending)
    }

    /// The text of a file. Fails if it cannot be read; the message suggests a similar name if the
    /// file does not exist.
    pub(super) fn read(&self, path: &str) -> Result<String> {
        let kind = self.name;
        read_text(path, self.allows_latin1).map_err(|error| {
            if error.kind() == ErrorKind::IsADirectory {
                let file = self.a_file();
                let error = Diagnostic::new(format!("{path} is a folder, not {file}"));
                return error.with_help(format!("{kind} files end in {}", self.ending)).into();
            }
            if error.kind() == ErrorKind::InvalidData {
                let what = "is not a text file: it has bytes that are not UTF-8";
                let error = Diagnostic::new(format!("{path} {what}"));
                return error.with_help(format!("give {}, in UTF-8", self.a_file())).into();
            }
            let failed = Diagnostic::new(format!("{path}: cannot read the {kind} file: {error}"));
            let help = match (error.kind(), self.nearest(path)) {
                (ErrorKind::NotFound, Some(guess)) => format!("did you mean `{guess}`?"),
                (ErrorKind::NotFound, None) if (self.builtin)().is_empty() => {
                    "check the path".to_owned()
                }
                (ErrorKind::NotFound, None) => {
                    format!("check the path; the built-in {kind}s are {}", self.listed())
                }
                (ErrorKind::FileTooLarge, _) => format!("give {}", self.a_file()),
                _ => "give a file that you may read".to_owned(),
            };
            failed.with_help(help).into()
        })
    }

    /// The error for a name that is neither a file nor built in.
    pub(super) fn unknown(&self, name: &str) -> Error {
        let kind = self.name;
        if name.is_empty() {
            return Diagnostic::empty_name(kind).into();
        }
        let has_builtin = !(self.builtin)().is_empty();
        let unknown = Diagnostic::new(match has_builtin {
            true => format!("there is no file and no built-in {kind} `{name}`"),
            false => format!("there is no file `{name}`"),
        });
        let help = match self.nearest(name) {
            None if !has_builtin => {
                format!("give {} whose members have a `path` or a `uri`", self.a_file())
            }
            _ if name.contains(',') => format!("separate {kind}s by spaces"),
            Some(guess) => format!("did you mean `{guess}`?"),
            None => format!("the built-in {kind}s are {}", self.listed()),
        };
        unknown.with_help(help).into()
    }

    fn listed(&self) -> String {
        (self.builtin)().join(", ")
    }

    /// A file of this kind, with its article.
    fn a_file(&self) -> String {
        let article = if self.name.starts_with('a') { "an" } else { "a" };
        format!("{article} {} file", self.name)
    }

    /// The most similar name: a file in the same folder, or a built-in one.
    fn nearest(&self, name: &str) -> Option<String> {
        let path = Path::new(name);
        let folder = path.parent()?;
        let searched = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        let entries = fs::read_dir(searched).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let mut files: Vec<String> = names.filter(|name| name.ends_with(self.ending)).collect();
        // Folders have no order, and the first of equals is suggested.
        files.sort();
        let builtin = if name.contains('/') { Vec::new() } else { (self.builtin)() };
        let known = builtin.into_iter().chain(files.iter().map(String::as_str));
        let found = closest_name(path.file_name()?.to_str()?, known)?;
        Some(folder.join(found).display().to_string())
    }
}

/// Reads a file, up to the largest size of an input.
fn read_text(path: &str, allows_latin1: bool) -> io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?.take(BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > BYTES_MAX {
        let text = format!("it is larger than {} MiB", BYTES_MAX >> 20);
        return Err(io::Error::new(ErrorKind::FileTooLarge, text));
    }
    match String::from_utf8(bytes) {
        Ok(text) => Ok(text),
        Err(error) if allows_latin1 && !error.as_bytes().contains(&0) => {
            Ok(error.as_bytes().iter().map(|&byte| char::from(byte)).collect())
        }
        Err(error) => Err(io::Error::new(ErrorKind::InvalidData, error)),
    }
}
