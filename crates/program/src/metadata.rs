//! Statements of an object about itself: name, version, fallback, and parameters.

use crate::abi::{PARAMETER_BYTES, PROGRAM_BYTES, VERSION};
use crate::foreign_text::shown_name;
use mirrorball_core::diagnostic::{Diagnostic, Escaped};
use mirrorball_core::policies::{ProgramParameter, Spec};

/// Policy that decides after a fault if the program names none: it needs nothing but the volume's
/// statistics.
pub(crate) const DEFAULT_FALLBACK: &str = "dm/queue-length";

/// The contents of `mb_program`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Metadata {
    pub(crate) name: String,
    pub(crate) version: String,
    /// Policy of the table that decides after a fault.
    pub(crate) fallback: String,
    pub(crate) summary: String,
}

impl Metadata {
    /// Reads `mb_program` from its bytes. Fails if it is for another version of the interface, a
    /// text does not end or is not UTF-8, the name is empty or has characters that names of
    /// policies have not, or the fallback is not a policy.
    pub(crate) fn read(bytes: &[u8; PROGRAM_BYTES]) -> Result<Metadata, Diagnostic> {
        let abi = u32_at(bytes, 0);
        if abi != VERSION {
            return Err(Diagnostic::new(format!(
                "the program has interface version {abi}, but this build runs version {VERSION}"
            ))
            .with_help("compile it again with the header that `mirrorball program new` writes"));
        }
        let name = text(&bytes[8..40], "name")?;
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_".contains(c);
        if name.is_empty() || !name.chars().all(is_plain) {
            return Err(Diagnostic::new(format!("the program has the name `{name}`"))
                .with_help("names consist of a to z, 0 to 9, - and _"));
        }
        let version = text(&bytes[40..56], "version")?;
        let fallback = text(&bytes[56..128], "fallback")?;
        let fallback = if fallback.is_empty() { DEFAULT_FALLBACK.to_owned() } else { fallback };
        let fallback = Spec::parse(&fallback)
            .map_err(|error| Diagnostic {
                message: format!("the fallback of the program: {}", error.message),
                ..error
            })?
            .to_string();
        let summary = text(&bytes[128..PROGRAM_BYTES], "summary")?;
        Ok(Metadata { name, version, fallback, summary })
    }
}

/// Reads a `struct mb_param`. Fails if its range is empty or does not hold its default, or its text
/// is malformed.
pub(crate) fn read_parameter(
    name: &str,
    bytes: &[u8; PARAMETER_BYTES],
) -> Result<ProgramParameter, Diagnostic> {
    // It is part of policy strings, and is printed.
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if name.is_empty() || name.len() > 31 || !name.chars().all(is_plain) {
        let name = shown_name(name);
        return Err(Diagnostic::new(format!("the program has a parameter of the name `{name}`"))
            .with_help("names of parameters have 1 to 31 letters, digits and _"));
    }
    let (default, min, max) = (u64_at(bytes, 0), u64_at(bytes, 8), u64_at(bytes, 16));
    let meaning = text(&bytes[24..], name)?;
    if !(min..=max).contains(&default) {
        return Err(Diagnostic::new(format!(
            "the parameter `{name}` has the default {default}, which is not from {min} to {max}"
        ))
        .with_help("correct the values of MB_PARAM"));
    }
    Ok(ProgramParameter { name: name.to_owned(), default, range: min..=max, meaning })
}

/// Reads a text that ends with a zero byte.
fn text(bytes: &[u8], what: &str) -> Result<String, Diagnostic> {
    let end = bytes.iter().position(|&byte| byte == 0);
    let text = end.and_then(|end| std::str::from_utf8(&bytes[..end]).ok());
    let text = text.filter(|text| !text.contains(Escaped::is_invisible));
    text.map(str::to_owned).ok_or_else(|| {
        let most = bytes.len() - 1;
        Diagnostic::new(format!("the text `{what}` of the program is malformed")).with_help(
            format!(
                "texts are UTF-8 on one line without invisible characters, {most} bytes at most, \
                 and end with a zero byte"
            ),
        )
    })
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}
