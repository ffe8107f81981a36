//! Random bytes of the system, for identifiers.

use std::fs::File;
use std::io::{self, Read};

/// Random bytes.
///
/// # Errors
/// If the system has no source of them.
pub(crate) fn random_bytes<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}
