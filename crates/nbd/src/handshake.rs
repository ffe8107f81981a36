//! The server's side of the handshake (fixed newstyle): what client and server agree on before the
//! first request.
//!
//! An invalid option gets an error reply if the protocol has one; else the connection is closed.
//!
//! **TLS.** A server that requires it answers every other option with "TLS required", so that
//! nothing is disclosed before the client is authenticated. Nothing that was negotiated in plain
//! text is kept, except for the client's flags: an attacker on the network cannot inject options.

use crate::wire::{
    DATA_BYTES_MAX, FIXED_NEWSTYLE, INIT_MAGIC, NO_ZEROES, OPTION_BYTES_MAX, OPTION_HEADER_BYTES,
    OPTION_MAGIC, OPTION_REPLY_MAGIC, OptionHeader, info, option, option_reply, transmission_flag,
};
use std::io::{self, ErrorKind, Read, Write};

/// The supported meta context of block status.
const ALLOCATION: &str = "base:allocation";
/// The ID that this server assigns to the context `base:allocation`.
pub const ALLOCATION_ID: u32 = 1;

/// Replies of this size are sent before more options are parsed.
const OUTPUT_BYTES_MAX: usize = 4 << 10;
/// The preferred block size that is reported to clients: most page sizes.
const BLOCK_BYTES_PREFERRED: u32 = 4096;
/// Limit of options before TLS: a client that wants TLS asks for it at once.
const PLAIN_OPTIONS_MAX: u32 = 16;

/// An export that clients can attach to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export<T> {
    /// The name. Clients that send an empty name get the first export.
    pub name: String,
    /// The description that `nbdinfo --list` shows.
    pub description: String,
    pub target: T,
    pub size_bytes: u64,
    /// Offsets and lengths of requests are multiples of this.
    pub block_bytes: u32,
    /// True if clients should treat it as a rotating disk.
    pub rotational: bool,
    /// True if it cannot be written.
    pub is_read_only: bool,
}

/// The result of the negotiation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Agreement {
    pub export: usize,
    /// True if reads get structured replies.
    pub structured: bool,
    /// The meta context for block status.
    pub status: StatusContext,
}

/// The meta context that a client selected for block status.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StatusContext {
    /// None: block status requests are invalid.
    None,
    /// `base:allocation`.
    Allocation,
}

/// The state of the handshake after a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    More,
    /// The TLS handshake follows. The negotiation goes on behind TLS, with options.
    StartTls,
    /// Requests follow.
    Agreed(Agreement),
    /// The connection is to be closed after the replies are sent.
    End,
}

#[derive(Clone, Debug, Default)]
pub struct ServerHandshake {
    /// The client's flags, once received.
    flags: Option<u32>,
    /// Number of options that may precede TLS, if TLS is required and has not started.
    plain_options_left: Option<u32>,
    structured: bool,
    /// The export for which `base:allocation` was selected.
    status_for: Option<usize>,
}

/// A client's flags, as it sent them.
pub type ClientFlags = [u8; 4];

/// The bytes that a server sends first.
pub fn greeting() -> [u8; 18] {
    let mut bytes = [0; 18];
    bytes[..8].copy_from_slice(&INIT_MAGIC.to_be_bytes());
    bytes[8..16].copy_from_slice(&OPTION_MAGIC.to_be_bytes());
    bytes[16..].copy_from_slice(&(FIXED_NEWSTYLE | NO_ZEROES).to_be_bytes());
    bytes
}

impl ServerHandshake {
    /// A handshake that grants nothing before TLS.
    pub fn requiring_tls() -> ServerHandshake {
        let plain_options_left = Some(PLAIN_OPTIONS_MAX);
        ServerHandshake { plain_options_left, ..ServerHandshake::default() }
    }

    /// Number of bytes that are missing from the next message, of which `input` is the begin; zero
    /// for an option that is too long.
    pub fn missing_bytes(&self, input: &[u8]) -> usize {
        let whole = match (self.flags, OptionHeader::parse(input)) {
            (None, _) => 4,
            (Some(_), Some(OptionHeader { length, .. })) if length <= OPTION_BYTES_MAX => {
                OPTION_HEADER_BYTES + length as usize
            }
            (Some(_), _) => OPTION_HEADER_BYTES,
        };
        whole.saturating_sub(input.len())
    }

    /// Parses `input`, appends replies to `output`, and returns how many bytes were consumed. If
    /// the replies are large, the rest is left for another call.
    pub fn advance<T>(
        &mut self,
        input: &[u8],
        exports: &[Export<T>],
        output: &mut Vec<u8>,
    ) -> (usize, Step) {
        let mut taken = 0;
        loop {
            let (bytes, step) = match self.flags {
                None => self.take_flags(&input[taken..]),
                Some(_) => self.take_option(&input[taken..], exports, output),
            };
            taken += bytes;
            if step != Step::More || bytes == 0 || output.len() >= OUTPUT_BYTES_MAX {
                return (taken, step);
            }
        }
    }

    fn take_flags(&mut self, input: &[u8]) -> (usize, Step) {
        let Some((flags, _)) = input.split_first_chunk() else { return (0, Step::More) };
        let flags = u32::from_be_bytes(*flags);
        let known = u32::from(FIXED_NEWSTYLE | NO_ZEROES);
        if flags & !known != 0 {
            return (4, Step::End);
        }
        self.flags = Some(flags);
        (4, Step::More)
    }

    fn take_option<T>(
        &mut self,
        input: &[u8],
        exports: &[Export<T>],
        output: &mut Vec<u8>,
    ) -> (usize, Step) {
        let Some(header) = OptionHeader::parse(input) else { return (0, Step::More) };
        if header.magic != OPTION_MAGIC || header.length > OPTION_BYTES_MAX {
            return (OPTION_HEADER_BYTES, Step::End);
        }
        let whole = OPTION_HEADER_BYTES + header.length as usize;
        let Some(data) = input.get(OPTION_HEADER_BYTES..whole) else { return (0, Step::More) };
        let step = match self.plain_options_left {
            Some(left) => self.answer_before_tls(header.option, data, left, output),
            None => self.answer(header.option, data, exports, output),
        };
        (whole, step)
    }

    fn answer_before_tls(
        &mut self,
        number: u32,
        data: &[u8],
        options_left: u32,
        output: &mut Vec<u8>,
    ) -> Step {
        let (kind, step) = match number {
            option::START_TLS if data.is_empty() => (option_reply::ACK, Step::StartTls),
            option::START_TLS => (option_reply::ERR_INVALID, Step::More),
            option::ABORT => (option_reply::ACK, Step::End),
            // This option has no error reply.
            option::EXPORT_NAME => return Step::End,
            _ => (option_reply::ERR_TLS_REQUIRED, Step::More),
        };
        reply(output, number, kind, &[]);
        let left = options_left - 1;
        self.plain_options_left = (step != Step::StartTls).then_some(left);
        if left == 0 && step == Step::More { Step::End } else { step }
    }

    fn answer<T>(
        &mut self,
        number: u32,
        data: &[u8],
        exports: &[Export<T>],
        output: &mut Vec<u8>,
    ) -> Step {
        match number {
            option::EXPORT_NAME => return self.export_name(data, exports, output),
            option::ABORT => {
                reply(output, number, option_reply::ACK, &[]);
                return Step::End;
            }
            option::LIST if data.is_empty() => {
                for export in exports {
                    let length = (export.name.len() as u32).to_be_bytes();
                    let entry = [&length, export.name.as_bytes(), export.description.as_bytes()];
                    reply(output, number, option_reply::SERVER, &entry.concat());
                }
                reply(output, number, option_reply::ACK, &[]);
            }
            option::INFO | option::GO => return self.info_or_go(number, data, exports, output),
            option::STRUCTURED_REPLY if data.is_empty() => {
                self.structured = true;
                reply(output, number, option_reply::ACK, &[]);
            }
            option::LIST_META_CONTEXT | option::SET_META_CONTEXT => {
                self.meta_context(number, data, exports, output);
            }
            option::LIST | option::STRUCTURED_REPLY => {
                reply(output, number, option_reply::ERR_INVALID, &[]);
            }
            _ => reply(output, number, option_reply::ERR_UNSUPPORTED, &[]),
        }
        Step::More
    }

    /// Handles the old option to attach, whose only error reply is to close the connection.
    fn export_name<T>(&self, name: &[u8], exports: &[Export<T>], output: &mut Vec<u8>) -> Step {
        let Some(index) = find(name, exports) else { return Step::End };
        output.extend(exports[index].size_bytes.to_be_bytes());
        output.extend(transmission_flags(&exports[index]).to_be_bytes());
        if self.flags.is_some_and(|flags| flags & u32::from(NO_ZEROES) == 0) {
            output.extend([0; 124]);
        }
        Step::Agreed(self.agreement(index))
    }

    fn info_or_go<T>(
        &self,
        number: u32,
        data: &[u8],
        exports: &[Export<T>],
        output: &mut Vec<u8>,
    ) -> Step {
        let Some(name) = info_request(data) else {
            reply(output, number, option_reply::ERR_INVALID, &[]);
            return Step::More;
        };
        let Some(index) = find(name, exports) else {
            reply(output, number, option_reply::ERR_UNKNOWN, &[]);
            return Step::More;
        };
        let export = &exports[index];
        let mut report = |kind: u16, data: &[&[u8]]| {
            let payload = [&[&kind.to_be_bytes()[..]], data].concat().concat();
            reply(output, number, option_reply::INFO, &payload);
        };
        let flags = transmission_flags(export).to_be_bytes();
        report(info::EXPORT, &[&export.size_bytes.to_be_bytes(), &flags]);
        // All of them, requested or not, as the protocol allows.
        report(info::NAME, &[export.name.as_bytes()]);
        report(info::DESCRIPTION, &[export.description.as_bytes()]);
        let sizes =
            [export.block_bytes, export.block_bytes.max(BLOCK_BYTES_PREFERRED), DATA_BYTES_MAX];
        report(info::BLOCK_SIZE, &[&sizes.map(u32::to_be_bytes).concat()]);
        reply(output, number, option_reply::ACK, &[]);
        match number {
            option::GO => Step::Agreed(self.agreement(index)),
            _ => Step::More,
        }
    }

    fn meta_context<T>(
        &mut self,
        number: u32,
        data: &[u8],
        exports: &[Export<T>],
        output: &mut Vec<u8>,
    ) {
        if number == option::SET_META_CONTEXT {
            self.status_for = None;
        }
        let Some((name, queries)) = meta_request(data).filter(|_| self.structured) else {
            return reply(output, number, option_reply::ERR_INVALID, &[]);
        };
        let Some(index) = find(name, exports) else {
            return reply(output, number, option_reply::ERR_UNKNOWN, &[]);
        };
        let listing = number == option::LIST_META_CONTEXT;
        // Without a query, a list request means all contexts; `base:` means all in that namespace.
        let wanted = queries.iter().any(|&query| query == ALLOCATION.as_bytes())
            || listing && (queries.is_empty() || queries.contains(&&b"base:"[..]));
        if wanted {
            let id = if listing { 0 } else { ALLOCATION_ID };
            let payload = [&id.to_be_bytes()[..], ALLOCATION.as_bytes()].concat();
            reply(output, number, option_reply::META_CONTEXT, &payload);
            if !listing {
                self.status_for = Some(index);
            }
        }
        reply(output, number, option_reply::ACK, &[]);
    }

    fn agreement(&self, export: usize) -> Agreement {
        let agreed = self.structured && self.status_for == Some(export);
        let status = if agreed { StatusContext::Allocation } else { StatusContext::None };
        Agreement { export, structured: self.structured, status }
    }
}

/// Negotiates with a client over a blocking stream until it starts TLS; returns its flags. Reads no
/// byte after the option that starts TLS. Fails if it closes the connection, violates the protocol,
/// or does not start TLS.
pub fn await_tls(stream: &mut (impl Read + Write)) -> io::Result<ClientFlags> {
    stream.write_all(&greeting())?;
    let mut handshake = ServerHandshake::requiring_tls();
    let (mut input, mut flags) = (Vec::new(), None);
    loop {
        let begin = input.len();
        input.resize(begin + handshake.missing_bytes(&input), 0);
        stream.read_exact(&mut input[begin..])?;
        flags = flags.or(input.first_chunk().copied());
        let mut output = Vec::new();
        let (taken, step) = handshake.advance::<()>(&input, &[], &mut output);
        input.drain(..taken);
        stream.write_all(&output)?;
        match (step, flags) {
            (Step::StartTls, Some(flags)) => return Ok(flags),
            (Step::More, _) => {}
            (Step::StartTls | Step::Agreed(_) | Step::End, _) => {
                return Err(ErrorKind::PermissionDenied.into());
            }
        }
    }
}

/// Index of the export with this name; an empty name means the first.
fn find<T>(name: &[u8], exports: &[Export<T>]) -> Option<usize> {
    if name.is_empty() && !exports.is_empty() {
        return Some(0);
    }
    exports.iter().position(|export| export.name.as_bytes() == name)
}

/// The name in the data of `INFO` and `GO`; `None` if the data are malformed.
fn info_request(data: &[u8]) -> Option<&[u8]> {
    let (name, rest) = take_string(data)?;
    let (count, rest) = rest.split_first_chunk()?;
    (rest.len() == 2 * usize::from(u16::from_be_bytes(*count))).then_some(name)
}

/// The name and the queries in the data of the meta context options.
fn meta_request(data: &[u8]) -> Option<(&[u8], Vec<&[u8]>)> {
    let (name, rest) = take_string(data)?;
    let (count, mut rest) = rest.split_first_chunk()?;
    let mut queries = Vec::new();
    for _ in 0..u32::from_be_bytes(*count) {
        let (query, behind) = take_string(rest)?;
        queries.push(query);
        rest = behind;
    }
    rest.is_empty().then_some((name, queries))
}

/// A string that is preceded by its length, and the bytes after it.
fn take_string(data: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = data.split_first_chunk()?;
    rest.split_at_checked(u32::from_be_bytes(*length) as usize)
}

fn transmission_flags<T>(export: &Export<T>) -> u16 {
    use transmission_flag::*;
    let rotational = if export.rotational { ROTATIONAL } else { 0 };
    let read_only = if export.is_read_only { READ_ONLY } else { 0 };
    let always = HAS_FLAGS | SEND_FLUSH | SEND_FUA | SEND_TRIM | SEND_WRITE_ZEROES | SEND_DF;
    always | CAN_MULTI_CONN | rotational | read_only
}

fn reply(output: &mut Vec<u8>, option: u32, kind: u32, data: &[u8]) {
    output.extend(OPTION_REPLY_MAGIC.to_be_bytes());
    output.extend([option, kind, data.len() as u32].map(u32::to_be_bytes).concat());
    output.extend(data);
}
