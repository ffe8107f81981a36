//! The negotiation before TLS: the client's flags, and its request for TLS.
//!
//! Every other option is answered with "TLS required", so that nothing is disclosed before the
//! client is authenticated. Nothing that was negotiated in plain text is kept, and no byte after
//! the option that starts TLS is read: an attacker on the network cannot inject options.

use crate::export::nbd::handshake::{greeting, reply};
use crate::nbd_protocol::wire::{OPTION_BYTES_MAX, OPTION_MAGIC, option, option_reply};
use std::io::{self, ErrorKind, Read, Write};

/// Limit of options before TLS: a client that wants TLS asks for it at once.
const OPTIONS_MAX: usize = 16;

/// The client's flags, as it sent them.
pub(super) type Flags = [u8; 4];

/// Negotiates with a client until it starts TLS; returns its flags.
///
/// # Errors
/// If it closes the connection, violates the protocol, or does not start TLS.
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
            // This option has no error reply.
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
