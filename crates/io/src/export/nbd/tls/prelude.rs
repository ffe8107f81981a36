//! What a client says before TLS: its flags, and that it wants TLS.
//!
//! Everything else is answered with "TLS first", so that nothing is told to whom nobody knows.
//! What is agreed in the clear is forgotten, and not a byte is read past the option that begins
//! TLS: whoever sits on the line can slip nothing in.

use crate::export::nbd::handshake::{greeting, reply};
use crate::nbd_protocol::wire::{OPTION_BYTES_MAX, OPTION_MAGIC, option, option_reply};
use std::io::{self, ErrorKind, Read, Write};

/// So many options are answered: a client that wants TLS says so at once.
const OPTIONS_MAX: usize = 16;

/// The client's flags, as it sent them.
pub(super) type Flags = [u8; 4];

/// Greets a client and answers it until it begins TLS; returns its flags.
///
/// # Errors
/// If it breaks the connection, makes no sense, or does not come to TLS.
pub(super) fn await_tls(stream: &mut (impl Read + Write)) -> io::Result<Flags> {
    stream.write_all(&greeting())?;
    let mut flags = Flags::default();
    stream.read_exact(&mut flags)?;
    for _ in 0..OPTIONS_MAX {
        let mut head = [0; 16];
        stream.read_exact(&mut head)?;
        let word = |at: usize| u32::from_be_bytes(head[at..at + 4].try_into().expect("4 bytes"));
        let (number, length) = (word(8), word(12));
        if head[..8] != OPTION_MAGIC.to_be_bytes() || length > OPTION_BYTES_MAX {
            return Err(ErrorKind::InvalidData.into());
        }
        io::copy(&mut stream.take(length.into()), &mut io::sink())?;
        let kind = match number {
            option::START_TLS | option::ABORT if length == 0 => option_reply::ACK,
            option::START_TLS => option_reply::ERR_INVALID,
            // The old way to attach has no way to refuse.
            option::EXPORT_NAME => return Err(ErrorKind::PermissionDenied.into()),
            _ => option_reply::ERR_TLS_REQUIRED,
        };
        let mut answer = Vec::new();
        reply(&mut answer, number, kind, &[]);
        stream.write_all(&answer)?;
        match (number, kind) {
            (option::START_TLS, option_reply::ACK) => return Ok(flags),
            (option::ABORT, _) => return Err(ErrorKind::ConnectionAborted.into()),
            _ => {}
        }
    }
    Err(ErrorKind::PermissionDenied.into())
}
