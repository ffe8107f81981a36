//! The client's side of a connection.
//!
//! [`ClientHandshake`] attaches to an export, and [`ClientConnection`] matches replies with
//! requests. The client does not request structured replies, so the data of a read follow its reply
//! directly and can be received into the memory of the read.
//!
//! Lengths that the server sends are bounded before memory is allocated for them.

use crate::tls::TlsError;
use crate::wire::{
    DATA_BYTES_MAX, FIXED_NEWSTYLE, INIT_MAGIC, NO_ZEROES, OPTION_MAGIC, OPTION_REPLY_BYTES_MAX,
    OPTION_REPLY_HEADER_BYTES, OPTION_REPLY_MAGIC, OptionReplyHeader, RawReply, RawRequest,
    SIMPLE_REPLY_BYTES, info, option, option_bytes, option_reply, transmission_flag,
};
use mirrorball_core::slab::{Slab, SlabKey};
use mirrorball_core::units::{BLOCK_BYTES, Nanos};
use std::io::{self, Read, Write};

/// Limit of replies to one option.
const REPLIES_MAX: usize = 64;
/// Size of the largest export. The map of a volume takes memory for each GiB.
const SIZE_BYTES_MAX: u64 = 1 << 50;
const GREETING_BYTES: usize = 18;

/// An export, as its server describes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RemoteExport {
    pub size_bytes: u64,
    /// The features: bits of [`transmission_flag`].
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

/// The reason why a handshake failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    #[error("{0}")]
    System(#[from] io::Error),
    /// The peer is no NBD server, or an incompatible one.
    #[error("the peer does not support the NBD fixed newstyle handshake: {0}")]
    NoServer(&'static str),
    /// The TLS certificates cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error("the server refuses the export{}", server_message(.0))]
    Refused(String),
    /// The export cannot be used as a member.
    #[error("the export cannot be a member: {0}")]
    Unfit(&'static str),
}

fn server_message(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!(": {text}") }
}

/// The state of the handshake after a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClientStep {
    /// More bytes are needed.
    More,
    /// The TLS handshake follows. The negotiation goes on behind TLS.
    StartTls,
    /// Requests may follow.
    Attached(RemoteExport),
}

#[derive(Debug)]
pub struct ClientHandshake {
    export: String,
    with_tls: bool,
    state: ClientState,
    replies: usize,
    description: ExportDescription,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ClientState {
    /// The greeting of the server is awaited.
    Greeting,
    /// The reply to the option that starts TLS is awaited.
    StartTls,
    /// TLS has started, and the export is yet to be requested.
    Secured,
    /// The description of the export is awaited.
    Go,
}

impl ClientHandshake {
    /// A handshake that attaches to the export of this name.
    pub fn new(export: &str) -> ClientHandshake {
        ClientHandshake {
            export: export.to_owned(),
            with_tls: false,
            state: ClientState::Greeting,
            replies: 0,
            description: ExportDescription::default(),
        }
    }

    /// Starts TLS first.
    pub fn with_tls(self) -> ClientHandshake {
        ClientHandshake { with_tls: true, ..self }
    }

    /// Number of bytes that are missing from the next message, of which `input` is the begin. To be
    /// called after [`ClientHandshake::advance`], which refuses long messages.
    pub fn missing_bytes(&self, input: &[u8]) -> usize {
        let whole = match (self.state, OptionReplyHeader::parse(input)) {
            (ClientState::Greeting, _) => GREETING_BYTES,
            (ClientState::Secured, _) => 0,
            (_, None) => OPTION_REPLY_HEADER_BYTES,
            (_, Some(header)) => OPTION_REPLY_HEADER_BYTES + header.length as usize,
        };
        whole.saturating_sub(input.len())
    }

    /// Parses one message of `input`, appends options to `output`, and returns how many bytes were
    /// consumed. Fails if the peer is no NBD server, has no such export, or the export cannot be a
    /// member.
    pub fn advance(
        &mut self,
        input: &[u8],
        output: &mut Vec<u8>,
    ) -> Result<(usize, ClientStep), ClientError> {
        match self.state {
            ClientState::Greeting => {
                let Some(greeting) = input.first_chunk() else { return Ok((0, ClientStep::More)) };
                output.extend(client_flags(greeting)?);
                match self.with_tls {
                    true => {
                        output.extend(option_bytes(option::START_TLS, &[]));
                        self.state = ClientState::StartTls;
                    }
                    false => self.send_go(output),
                }
                Ok((GREETING_BYTES, ClientStep::More))
            }
            ClientState::Secured => {
                self.send_go(output);
                Ok((0, ClientStep::More))
            }
            ClientState::StartTls => {
                let reply = take_reply(input, option::START_TLS)?;
                let Some((taken, kind, _)) = reply else { return Ok((0, ClientStep::More)) };
                if kind != option_reply::ACK {
                    return Err(ClientError::NoServer("it does not support TLS"));
                }
                self.state = ClientState::Secured;
                Ok((taken, ClientStep::StartTls))
            }
            ClientState::Go => {
                let reply = take_reply(input, option::GO)?;
                let Some((taken, kind, data)) = reply else { return Ok((0, ClientStep::More)) };
                Ok((taken, self.on_reply(kind, data)?))
            }
        }
    }

    fn send_go(&mut self, output: &mut Vec<u8>) {
        let name = self.export.as_bytes();
        let length = (name.len() as u32).to_be_bytes();
        let wanted = [1u16.to_be_bytes(), info::BLOCK_SIZE.to_be_bytes()].concat();
        output.extend(option_bytes(option::GO, &[&length, name, &wanted].concat()));
        self.state = ClientState::Go;
    }

    fn on_reply(&mut self, kind: u32, data: &[u8]) -> Result<ClientStep, ClientError> {
        self.replies += 1;
        match kind {
            option_reply::INFO => self.description.add(data)?,
            option_reply::ACK => return self.description.validate().map(ClientStep::Attached),
            kind if kind & option_reply::ERR != 0 => {
                return Err(ClientError::Refused(String::from_utf8_lossy(data).into_owned()));
            }
            _ => return Err(ClientError::NoServer("it sent a reply to another option")),
        }
        if self.replies == REPLIES_MAX {
            return Err(ClientError::NoServer("it sent too many replies"));
        }
        Ok(ClientStep::More)
    }
}

/// Negotiates over a blocking stream until TLS is to be started or an export is attached. Fails if
/// the connection breaks, or as [`ClientHandshake::advance`].
pub fn negotiate(
    stream: &mut (impl Read + Write),
    handshake: &mut ClientHandshake,
) -> Result<ClientStep, ClientError> {
    let mut input = Vec::new();
    loop {
        let mut output = Vec::new();
        let (taken, step) = handshake.advance(&input, &mut output)?;
        input.drain(..taken);
        if !output.is_empty() {
            stream.write_all(&output)?;
        }
        if step != ClientStep::More {
            return Ok(step);
        }
        let begin = input.len();
        input.resize(begin + handshake.missing_bytes(&input), 0);
        stream.read_exact(&mut input[begin..])?;
    }
}

/// The client's flags in reply to the greeting of a server.
fn client_flags(greeting: &[u8; GREETING_BYTES]) -> Result<[u8; 4], ClientError> {
    if greeting[..8] != INIT_MAGIC.to_be_bytes() {
        return Err(ClientError::NoServer("its greeting is not an NBD greeting"));
    }
    let flags = u16::from_be_bytes([greeting[16], greeting[17]]);
    if greeting[8..16] != OPTION_MAGIC.to_be_bytes() || flags & FIXED_NEWSTYLE == 0 {
        return Err(ClientError::NoServer("it offers the old negotiation only"));
    }
    Ok(u32::from(flags & (FIXED_NEWSTYLE | NO_ZEROES)).to_be_bytes())
}

/// A reply to an option: its length, its kind and its data.
type OptionReply<'a> = (usize, u32, &'a [u8]);

/// Parses a reply to `option`; `None` if it is incomplete.
fn take_reply(input: &[u8], option: u32) -> Result<Option<OptionReply<'_>>, ClientError> {
    let Some(header) = OptionReplyHeader::parse(input) else { return Ok(None) };
    if header.magic != OPTION_REPLY_MAGIC || header.option != option {
        return Err(ClientError::NoServer("it sent a reply to another option"));
    }
    if header.length > OPTION_REPLY_BYTES_MAX {
        return Err(ClientError::NoServer("it sent a reply that is too long"));
    }
    let whole = OPTION_REPLY_HEADER_BYTES + header.length as usize;
    let data = input.get(OPTION_REPLY_HEADER_BYTES..whole);
    Ok(data.map(|data| (whole, header.kind, data)))
}

/// ExportDescription of an export, as received so far.
#[derive(Debug, Default)]
struct ExportDescription {
    export: Option<(u64, u16)>,
    sizes: Option<[u32; 3]>,
}

impl ExportDescription {
    fn add(&mut self, data: &[u8]) -> Result<(), ClientError> {
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

    fn validate(&self) -> Result<RemoteExport, ClientError> {
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

mirrorball_core::slab_key! {
    /// Names a request of a client; its slot is in the cookie of the request.
    pub struct CookieKey;
}

/// The requests of a connection that have not ended, each with a value of the caller.
#[derive(Debug)]
pub struct ClientConnection<T> {
    in_flight: Slab<CookieKey, StartedRequest<T>>,
    /// Number of requests so far. Part of the cookie, it tells a reply to an earlier request of the
    /// slot from one to the present request.
    count: u32,
}

#[derive(Debug)]
struct StartedRequest<T> {
    cookie: u64,
    is_replied: bool,
    /// Time of the first check that found it in flight.
    seen_at: Option<Nanos>,
    value: T,
}

/// A server that violates the protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the server sent a malformed reply")]
pub struct MalformedReply;

impl<T> Default for ClientConnection<T> {
    fn default() -> ClientConnection<T> {
        ClientConnection { in_flight: Slab::default(), count: 0 }
    }
}

impl<T> ClientConnection<T> {
    /// Starts a request; the cookie of `raw` is chosen here. Returns its key, and its header.
    pub fn start(&mut self, raw: RawRequest, value: T) -> (CookieKey, RawRequest) {
        self.count = self.count.wrapping_add(1);
        let count = u64::from(self.count) << 32;
        let request = StartedRequest { cookie: count, is_replied: false, seen_at: None, value };
        let key = self.in_flight.insert(request);
        let cookie = count | u64::from(key.slot());
        self.in_flight.get_mut(key).cookie = cookie;
        (key, RawRequest { cookie, ..raw })
    }

    /// Parses the header of a reply; returns the key of its request, and the error of the server if
    /// there is one. The data of a read follow the header of its success. Fails if it is no reply
    /// to a request in flight.
    pub fn receive(
        &mut self,
        header: &[u8; SIMPLE_REPLY_BYTES],
    ) -> Result<(CookieKey, Result<(), u32>), MalformedReply> {
        let RawReply { error, cookie } = RawReply::parse(header).ok_or(MalformedReply)?;
        let key = CookieKey::from_slot(cookie as u32);
        let request = self.in_flight.find_mut(key).ok_or(MalformedReply)?;
        if request.cookie != cookie || request.is_replied {
            return Err(MalformedReply);
        }
        request.is_replied = true;
        Ok((key, if error == 0 { Ok(()) } else { Err(error) }))
    }

    /// The value of a request in flight; `None` if it has ended.
    pub fn find_mut(&mut self, key: CookieKey) -> Option<&mut T> {
        self.in_flight.find_mut(key).map(|request| &mut request.value)
    }

    /// Removes a request, and returns its value. Panics if it has ended.
    pub fn end(&mut self, key: CookieKey) -> T {
        self.in_flight.remove(key).expect("a request ends once").value
    }

    /// Removes all requests, and returns their values.
    pub fn end_all(&mut self) -> impl Iterator<Item = T> + use<'_, T> {
        let keys: Vec<CookieKey> = self.in_flight.iter().map(|(key, _)| key).collect();
        keys.into_iter().map(|key| self.end(key))
    }

    pub fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Looks for requests in flight that a check found `timeout` ago or earlier, and notes the time
    /// for those that no check has found before.
    pub fn check_overdue(&mut self, now: Nanos, timeout: Nanos) -> bool {
        let seen = self.in_flight.iter_mut().map(|request| *request.seen_at.get_or_insert(now));
        seen.min().is_some_and(|seen_at| now >= seen_at + timeout)
    }
}
