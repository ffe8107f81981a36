//! The client's side of the NBD handshake (fixed newstyle).
//!
//! Plain functions over any stream, so that the fuzzer can play the server. The client does not
//! request structured replies, so the data of a read follow its reply directly and can be received
//! into the memory of the read.
//!
//! Lengths that the server sends are bounded before memory is allocated for them.
//!
//! Source: `doc/proto.md` of the NetworkBlockDevice/nbd repository.

use crate::nbd_protocol::wire::{
    DATA_BYTES_MAX, FIXED_NEWSTYLE, INIT_MAGIC, NO_ZEROES, OPTION_MAGIC, OPTION_REPLY_BYTES_MAX,
    OPTION_REPLY_MAGIC, RawReply, RawRequest, SIMPLE_REPLY_BYTES, info, option, option_reply,
    request, transmission_flag,
};
use crate::tls::TlsError;
use mirrorball_core::units::BLOCK_BYTES;
use std::io::{self, ErrorKind, Read, Write};

/// Number of replies to one option that are read at most.
const REPLIES_MAX: usize = 64;

/// Size of the largest export. The map of a volume takes memory for each GiB.
const SIZE_BYTES_MAX: u64 = 1 << 50;

/// An export, as its server describes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RemoteExport {
    /// Its size.
    pub size_bytes: u64,
    /// Its features: bits of [`transmission_flag`].
    pub flags: u16,
    /// Offsets and lengths are multiples of this.
    pub block_bytes: u32,
}

impl RemoteExport {
    /// True if the export has all of these flags.
    pub fn can(&self, flags: u16) -> bool {
        self.flags & flags == flags
    }
}

/// Why the handshake failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The connection failed.
    #[error("{0}")]
    System(#[from] io::Error),
    /// The peer is no NBD server, or an incompatible one.
    #[error("the peer does not support the NBD fixed newstyle handshake: {0}")]
    NoServer(&'static str),
    /// The TLS certificates cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The server refuses the export.
    #[error("the server refuses the export{}", server_message(.0))]
    Refused(String),
    /// Another service of this machine uses the export.
    #[error("it is in use by another server on this machine (stop that server)")]
    InUse,
    /// The export cannot be used as a member.
    #[error("the export cannot be a member: {0}")]
    Unfit(&'static str),
}

/// Negotiates the export of this name. Requests may follow.
///
/// # Errors
/// If the connection breaks, the peer is no NBD server, has no such export, or the export cannot be
/// a member.
pub fn attach(stream: &mut (impl Read + Write), export: &str) -> Result<RemoteExport, ClientError> {
    let flags = receive_greeting(stream)?;
    choose(stream, &flags, export)
}

/// Asks the server to start TLS. The TLS handshake follows, then [`choose`] without flags.
///
/// # Errors
/// If the connection breaks, or the peer is no NBD server or does not support TLS.
pub(super) fn start_tls(stream: &mut (impl Read + Write)) -> Result<(), ClientError> {
    let flags = receive_greeting(stream)?;
    let number = option::START_TLS.to_be_bytes();
    stream.write_all(
        &[&flags[..], &OPTION_MAGIC.to_be_bytes(), &number, &0u32.to_be_bytes()].concat(),
    )?;
    match receive_reply(stream, option::START_TLS)? {
        (option_reply::ACK, _) => Ok(()),
        _ => Err(ClientError::NoServer("it does not support TLS")),
    }
}

/// Receives the server's greeting; returns the client flags to send.
fn receive_greeting(stream: &mut impl Read) -> Result<[u8; 4], ClientError> {
    let greeting: [u8; 18] = receive(stream)?;
    if greeting[..8] != INIT_MAGIC.to_be_bytes() {
        return Err(ClientError::NoServer("its greeting is not an NBD greeting"));
    }
    let flags = u16::from_be_bytes([greeting[16], greeting[17]]);
    if greeting[8..16] != OPTION_MAGIC.to_be_bytes() || flags & FIXED_NEWSTYLE == 0 {
        return Err(ClientError::NoServer("it offers the old negotiation only"));
    }
    Ok(u32::from(flags & (FIXED_NEWSTYLE | NO_ZEROES)).to_be_bytes())
}

/// Negotiates an export; `flags` are sent first.
///
/// # Errors
/// As [`attach`].
pub(super) fn choose(
    stream: &mut (impl Read + Write),
    flags: &[u8],
    export: &str,
) -> Result<RemoteExport, ClientError> {
    let name = export.as_bytes();
    let length = name.len() as u32;
    let go = [
        flags,
        &OPTION_MAGIC.to_be_bytes(),
        &option::GO.to_be_bytes(),
        &(4 + length + 2 + 2).to_be_bytes(),
        &length.to_be_bytes(),
        name,
        &1u16.to_be_bytes(),
        &info::BLOCK_SIZE.to_be_bytes(),
    ];
    stream.write_all(&go.concat())?;
    let mut received = ExportInfo::default();
    for _ in 0..REPLIES_MAX {
        let (kind, data) = receive_reply(stream, option::GO)?;
        match kind {
            option_reply::INFO => received.take(&data)?,
            option_reply::ACK => return received.validate(),
            kind if kind & option_reply::ERR != 0 => {
                return Err(ClientError::Refused(String::from_utf8_lossy(&data).into_owned()));
            }
            _ => return Err(ClientError::NoServer("it sent a reply to another option")),
        }
    }
    Err(ClientError::NoServer("it sent too many replies"))
}

/// Reads a range, blocking; for a connection that has no other requests.
///
/// # Errors
/// If the connection breaks, or the server cannot read the range.
pub fn read(stream: &mut (impl Read + Write), offset: u64, length: u32) -> io::Result<Vec<u8>> {
    let request = RawRequest { flags: 0, kind: request::READ, cookie: 0, offset, length };
    stream.write_all(&request.bytes())?;
    receive_result(stream, "the server failed to read")?;
    let mut data = vec![0; length as usize];
    stream.read_exact(&mut data)?;
    Ok(data)
}

/// Writes a range and flushes, blocking; for a connection that has no other requests.
///
/// # Errors
/// If the connection breaks, or the server cannot write the range.
pub fn write(
    stream: &mut (impl Read + Write),
    export: &RemoteExport,
    offset: u64,
    data: &[u8],
) -> io::Result<()> {
    let length = data.len() as u32;
    let write = RawRequest { flags: 0, kind: request::WRITE, cookie: 0, offset, length };
    send(stream, &write, data)?;
    flush(stream, export)
}

/// Flushes, blocking; for a connection that has no other requests.
///
/// # Errors
/// If the connection breaks, or the server cannot flush.
pub fn flush(stream: &mut (impl Read + Write), export: &RemoteExport) -> io::Result<()> {
    if !export.can(transmission_flag::SEND_FLUSH) {
        return Ok(());
    }
    let flush = RawRequest { flags: 0, kind: request::FLUSH, cookie: 0, offset: 0, length: 0 };
    send(stream, &flush, &[])
}

fn send(stream: &mut (impl Read + Write), request: &RawRequest, data: &[u8]) -> io::Result<()> {
    stream.write_all(&request.bytes())?;
    stream.write_all(data)?;
    receive_result(stream, "the server failed to write")
}

/// Receives the reply to a request with cookie zero. An error of the server has the kind
/// `InvalidData` and the text `failed`, and the connection can be used further; after another one
/// it cannot.
fn receive_result(stream: &mut impl Read, failed: &'static str) -> io::Result<()> {
    let mut head = [0; SIMPLE_REPLY_BYTES];
    stream.read_exact(&mut head)?;
    match RawReply::parse(&head) {
        Some(RawReply { error: 0, cookie: 0 }) => Ok(()),
        Some(RawReply { cookie: 0, .. }) => Err(io::Error::new(ErrorKind::InvalidData, failed)),
        _ => {
            let text = "the server sent a malformed reply";
            Err(io::Error::new(ErrorKind::ConnectionAborted, text))
        }
    }
}

/// Description of an export, as received so far.
#[derive(Default)]
struct ExportInfo {
    export: Option<(u64, u16)>,
    sizes: Option<[u32; 3]>,
}

impl ExportInfo {
    fn take(&mut self, data: &[u8]) -> Result<(), ClientError> {
        let cut = ClientError::NoServer("it sent a truncated description of the export");
        let Some((kind, data)) = data.split_first_chunk() else { return Err(cut) };
        match (u16::from_be_bytes(*kind), data.len()) {
            (info::EXPORT, 10) => {
                let (size, flags) = data.split_at(8);
                let size_bytes = u64::from_be_bytes(size.try_into().expect("8 bytes"));
                let flags = u16::from_be_bytes(flags.try_into().expect("2 bytes"));
                self.export = Some((size_bytes, flags));
            }
            (info::BLOCK_SIZE, 12) => {
                let size = |at| u32::from_be_bytes(data[at..at + 4].try_into().expect("4 bytes"));
                self.sizes = Some([size(0), size(4), size(8)]);
            }
            (info::EXPORT | info::BLOCK_SIZE, _) => return Err(cut),
            _ => {}
        }
        Ok(())
    }

    fn validate(self) -> Result<RemoteExport, ClientError> {
        let Some((size_bytes, flags)) = self.export else {
            return Err(ClientError::NoServer("it did not send the size of the export"));
        };
        let [least, _, most] = self.sizes.unwrap_or([1, 0, DATA_BYTES_MAX]);
        if flags & transmission_flag::READ_ONLY != 0 {
            return Err(ClientError::Unfit("it is read-only"));
        }
        if size_bytes > SIZE_BYTES_MAX {
            return Err(ClientError::Unfit("it is larger than 1 PiB"));
        }
        if !least.is_power_of_two() || least > 4096 {
            return Err(ClientError::Unfit("its blocks are larger than 4096 bytes"));
        }
        if most < DATA_BYTES_MAX {
            return Err(ClientError::Unfit("it does not accept requests of 32 MiB"));
        }
        Ok(RemoteExport { size_bytes, flags, block_bytes: least.max(BLOCK_BYTES as u32) })
    }
}

/// Receives the next reply to an option; returns its kind and data.
fn receive_reply(stream: &mut impl Read, ours: u32) -> Result<(u32, Vec<u8>), ClientError> {
    let head: [u8; 20] = receive(stream)?;
    let word = |at: usize| u32::from_be_bytes(head[at..at + 4].try_into().expect("4 bytes"));
    let (number, kind, length) = (word(8), word(12), word(16));
    if head[..8] != OPTION_REPLY_MAGIC.to_be_bytes() || number != ours {
        return Err(ClientError::NoServer("it sent a reply to another option"));
    }
    if length > OPTION_REPLY_BYTES_MAX {
        return Err(ClientError::NoServer("it sent a reply that is too long"));
    }
    let mut data = vec![0; length as usize];
    stream.read_exact(&mut data)?;
    Ok((kind, data))
}

fn receive<const BYTES: usize>(stream: &mut impl Read) -> io::Result<[u8; BYTES]> {
    let mut bytes = [0; BYTES];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// The message of the server, if it sent one.
fn server_message(words: &str) -> String {
    if words.is_empty() { String::new() } else { format!(": {words}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    /// A server that sends these bytes, whatever it receives.
    struct Canned(Cursor<Vec<u8>>);

    impl Read for Canned {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.0.read(buffer)
        }
    }

    impl Write for Canned {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_malformed_reply_is_no_error_of_the_medium() {
        let reply = |magic: u32, error: u32, cookie: u64| {
            [&magic.to_be_bytes()[..], &error.to_be_bytes(), &cookie.to_be_bytes()].concat()
        };
        let replies = [
            (reply(0x6744_6698, 5, 0), ErrorKind::InvalidData),
            (reply(0x6744_6698, 0, 7), ErrorKind::ConnectionAborted),
            (reply(0x6744_6698, 5, 7), ErrorKind::ConnectionAborted),
            (reply(0x668e_33ef, 0, 0), ErrorKind::ConnectionAborted),
        ];
        let export = RemoteExport { size_bytes: 4096, flags: u16::MAX, block_bytes: 512 };
        for (bytes, kind) in replies {
            let server = || Canned(Cursor::new(bytes.clone()));
            assert_eq!(read(&mut server(), 0, 512).unwrap_err().kind(), kind);
            assert_eq!(flush(&mut server(), &export).unwrap_err().kind(), kind);
            let written = write(&mut server(), &export, 0, &[0; 512]);
            assert_eq!(written.unwrap_err().kind(), kind);
        }
    }
}
