//! How a client attaches to an export: fixed newstyle negotiation from the other side.
//!
//! A plain function over anything that reads and writes, so that the fuzzer can play the server.
//! Afterwards a connection carries requests and simple replies: no structured replies are pending
//! for, so the data of a read follow its reply at once and can be received where they belong.
//!
//! Every length that a server names is bounded before memory is taken for it.
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

/// So many replies to one option are read: a server that goes on says nothing that we need.
const REPLIES_MAX: usize = 64;

/// The largest export: what a server says of its size costs memory, a little for each GiB.
const SIZE_BYTES_MAX: u64 = 1 << 50;

/// What a server told of the export that was attached to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RemoteExport {
    /// Its size.
    pub size_bytes: u64,
    /// What it can do: bits of [`transmission_flag`].
    pub flags: u16,
    /// Offsets and lengths are multiples of this.
    pub block_bytes: u32,
}

impl RemoteExport {
    /// Whether the export has all of these flags.
    pub fn can(&self, flags: u16) -> bool {
        self.flags & flags == flags
    }
}

/// Why a client could not attach.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The connection broke, or never was.
    #[error("{0}")]
    System(#[from] io::Error),
    /// It is no server that we understand.
    #[error("what answers there is no NBD server of today: {0}")]
    NoServer(&'static str),
    /// The files for TLS cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The server has no such export, or wants something else first.
    #[error("the server refuses the export{}", said(.0))]
    Refused(String),
    /// The export cannot be a member.
    #[error("the export cannot be a member: {0}")]
    Unfit(&'static str),
}

/// Attaches to the export of this name; requests may follow.
///
/// # Errors
/// If the connection breaks, the server is none, has no such export, or one that cannot be a
/// member.
pub fn attach(stream: &mut (impl Read + Write), export: &str) -> Result<RemoteExport, ClientError> {
    let flags = be_greeted(stream)?;
    choose(stream, &flags, export)
}

/// Has the server begin TLS; nothing of it has come yet, and [`choose`] follows behind it, without
/// flags.
///
/// # Errors
/// If the connection breaks, the server is none, or does not speak TLS.
pub(super) fn start_tls(stream: &mut (impl Read + Write)) -> Result<(), ClientError> {
    let flags = be_greeted(stream)?;
    let number = option::START_TLS.to_be_bytes();
    stream.write_all(
        &[&flags[..], &OPTION_MAGIC.to_be_bytes(), &number, &0u32.to_be_bytes()].concat(),
    )?;
    match receive_reply(stream, option::START_TLS)? {
        (option_reply::ACK, _) => Ok(()),
        _ => Err(ClientError::NoServer("it does not speak TLS")),
    }
}

/// Hears the greeting of a server; returns the flags to answer it with.
fn be_greeted(stream: &mut impl Read) -> Result<[u8; 4], ClientError> {
    let greeting: [u8; 18] = receive(stream)?;
    if greeting[..8] != INIT_MAGIC.to_be_bytes() {
        return Err(ClientError::NoServer("it greets in another way"));
    }
    let flags = u16::from_be_bytes([greeting[16], greeting[17]]);
    if greeting[8..16] != OPTION_MAGIC.to_be_bytes() || flags & FIXED_NEWSTYLE == 0 {
        return Err(ClientError::NoServer("it does not speak fixed newstyle"));
    }
    Ok(u32::from(flags & (FIXED_NEWSTYLE | NO_ZEROES)).to_be_bytes())
}

/// Chooses an export, after these flags.
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
    let mut told = ExportInfo::default();
    for _ in 0..REPLIES_MAX {
        let (kind, data) = receive_reply(stream, option::GO)?;
        match kind {
            option_reply::INFO => told.take(&data)?,
            option_reply::ACK => return told.judge(),
            kind if kind & option_reply::ERR != 0 => {
                return Err(ClientError::Refused(String::from_utf8_lossy(&data).into_owned()));
            }
            _ => return Err(ClientError::NoServer("it answers what was not pending")),
        }
    }
    Err(ClientError::NoServer("it does not come to an end"))
}

/// Reads a range by the only request under way on the connection: before the loop has it.
///
/// # Errors
/// If the connection breaks, or the server cannot read the range.
pub fn read(stream: &mut (impl Read + Write), offset: u64, length: u32) -> io::Result<Vec<u8>> {
    let request = RawRequest { flags: 0, kind: request::READ, cookie: 0, offset, length };
    stream.write_all(&request.bytes())?;
    let mut head = [0; SIMPLE_REPLY_BYTES];
    stream.read_exact(&mut head)?;
    let Some(RawReply { error: 0, cookie: 0 }) = RawReply::parse(&head) else {
        return Err(io::Error::new(ErrorKind::InvalidData, "the server could not read"));
    };
    let mut data = vec![0; length as usize];
    stream.read_exact(&mut data)?;
    Ok(data)
}

/// What was told of an export so far.
#[derive(Default)]
struct ExportInfo {
    export: Option<(u64, u16)>,
    sizes: Option<[u32; 3]>,
}

impl ExportInfo {
    fn take(&mut self, data: &[u8]) -> Result<(), ClientError> {
        let cut = ClientError::NoServer("what it tells of the export is cut short");
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

    fn judge(self) -> Result<RemoteExport, ClientError> {
        let Some((size_bytes, flags)) = self.export else {
            return Err(ClientError::NoServer("it does not tell the size of the export"));
        };
        let [least, _, most] = self.sizes.unwrap_or([1, 0, DATA_BYTES_MAX]);
        if flags & transmission_flag::READ_ONLY != 0 {
            return Err(ClientError::Unfit("it cannot be written"));
        }
        if size_bytes > SIZE_BYTES_MAX {
            return Err(ClientError::Unfit("it says that it is larger than 1 PiB"));
        }
        if !least.is_power_of_two() || least > 4096 {
            return Err(ClientError::Unfit("its blocks are larger than 4096 bytes"));
        }
        if most < DATA_BYTES_MAX {
            return Err(ClientError::Unfit("it takes no requests of 32 MiB"));
        }
        Ok(RemoteExport { size_bytes, flags, block_bytes: least.max(BLOCK_BYTES as u32) })
    }
}

/// The kind and the data of the next reply to our option.
fn receive_reply(stream: &mut impl Read, ours: u32) -> Result<(u32, Vec<u8>), ClientError> {
    let head: [u8; 20] = receive(stream)?;
    let word = |at: usize| u32::from_be_bytes(head[at..at + 4].try_into().expect("4 bytes"));
    let (number, kind, length) = (word(8), word(12), word(16));
    if head[..8] != OPTION_REPLY_MAGIC.to_be_bytes() || number != ours {
        return Err(ClientError::NoServer("it answers what was not pending"));
    }
    if length > OPTION_REPLY_BYTES_MAX {
        return Err(ClientError::NoServer("its answer has no end"));
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

/// The server's own words, if it has any.
fn said(words: &str) -> String {
    if words.is_empty() { String::new() } else { format!(": {words}") }
}
