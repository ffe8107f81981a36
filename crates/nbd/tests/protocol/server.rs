//! The server's side of the protocol, as functions of bytes.

use mirrorball_nbd::handshake::{
    Agreement, ClientFlags, Export, ServerHandshake, StatusContext, Step, await_tls, greeting,
};
use mirrorball_nbd::server::{Action, ExportRequest, Received, ReplyHead, ServerConnection};
use mirrorball_nbd::wire::{
    DATA_BYTES_MAX, OPTION_BYTES_MAX, OPTION_MAGIC, OPTION_REPLY_HEADER_BYTES, OptionReplyHeader,
    REQUEST_BYTES, REQUEST_MAGIC, RawRequest, WireError, option, option_bytes, option_reply,
    request, simple_reply,
};
use proptest::prelude::*;
use std::io::{self, Cursor, Read, Write};

const SIZE_BYTES: u64 = 1 << 20;

fn exports() -> Vec<Export<()>> {
    let export = |name: &str, block_bytes| Export {
        name: name.to_owned(),
        description: "a test".to_owned(),
        target: (),
        size_bytes: SIZE_BYTES,
        block_bytes,
        rotational: false,
        is_read_only: false,
    };
    vec![export("first", 512), export("second", 4096)]
}

/// A string with its length before it.
fn string(text: &str) -> Vec<u8> {
    [&(text.len() as u32).to_be_bytes()[..], text.as_bytes()].concat()
}

fn info_data(name: &str) -> Vec<u8> {
    [string(name), vec![0, 0]].concat()
}

fn meta_data(name: &str, query: &str) -> Vec<u8> {
    [string(name), vec![0, 0, 0, 1], string(query)].concat()
}

/// Runs a whole input through a handshake, in pieces of this many bytes.
fn shake(input: &[u8], piece: usize) -> (Vec<u8>, Step) {
    let (mut handshake, mut output) = (ServerHandshake::default(), Vec::new());
    let (mut begin, mut end) = (0, 0);
    while end < input.len() {
        end = (end + piece).min(input.len());
        let (taken, step) = handshake.advance(&input[begin..end], &exports(), &mut output);
        assert!(taken <= end - begin, "no more is taken than there is");
        begin += taken;
        if step != Step::More {
            return (output, step);
        }
    }
    (output, Step::More)
}

/// The kinds of the replies to options, in order.
fn reply_kinds(output: &[u8]) -> Vec<u32> {
    let (mut kinds, mut rest) = (Vec::new(), output);
    while let Some(header) = OptionReplyHeader::parse(rest) {
        kinds.push(header.kind);
        rest = &rest[OPTION_REPLY_HEADER_BYTES + header.length as usize..];
    }
    assert!(rest.is_empty(), "replies are whole");
    kinds
}

fn with_flags(options: &[Vec<u8>]) -> Vec<u8> {
    [vec![0, 0, 0, 3], options.concat()].concat()
}

#[test]
fn negotiation_returns_the_selected_options() {
    let structured = option_bytes(option::STRUCTURED_REPLY, &[]);
    let context = option_bytes(option::SET_META_CONTEXT, &meta_data("second", "base:allocation"));
    let go = option_bytes(option::GO, &info_data("second"));
    let (_, step) = shake(&with_flags(&[structured.clone(), context.clone(), go.clone()]), 7);
    let Step::Agreed(agreed) = step else { panic!("{step:?}") };
    assert_eq!((agreed.export, agreed.structured), (1, true));
    assert_eq!(agreed.status, StatusContext::Allocation);

    // The context was chosen for another export.
    let other = option_bytes(option::GO, &info_data(""));
    let (_, step) = shake(&with_flags(&[structured, context.clone(), other]), 1000);
    let Step::Agreed(agreed) = step else { panic!("{step:?}") };
    assert_eq!((agreed.export, agreed.status), (0, StatusContext::None));

    // A context without structured replies is refused, and the handshake goes on.
    let (output, step) = shake(&with_flags(&[context, go]), 1000);
    assert_eq!(reply_kinds(&output)[0], option_reply::ERR_INVALID);
    assert!(matches!(step, Step::Agreed(agreed) if agreed.status == StatusContext::None));
}

#[test]
fn invalid_options_get_error_replies() {
    for (number, data, kind) in [
        (option::GO, info_data("third"), option_reply::ERR_UNKNOWN),
        (option::INFO, vec![0, 0, 0, 99, 1], option_reply::ERR_INVALID),
        (option::GO, vec![], option_reply::ERR_INVALID),
        (option::LIST, vec![1], option_reply::ERR_INVALID),
        (option::STRUCTURED_REPLY, vec![1], option_reply::ERR_INVALID),
        (5, vec![], option_reply::ERR_UNSUPPORTED),
        (4711, vec![1, 2, 3], option_reply::ERR_UNSUPPORTED),
    ] {
        let (output, step) = shake(&with_flags(&[option_bytes(number, &data)]), 1000);
        assert_eq!((reply_kinds(&output), step), (vec![kind], Step::More), "option {number}");
    }
}

#[test]
fn protocol_errors_close_the_connection() {
    let too_long = [
        &OPTION_MAGIC.to_be_bytes()[..],
        &option::GO.to_be_bytes(),
        &(OPTION_BYTES_MAX + 1).to_be_bytes(),
    ];
    for input in [
        vec![0xff; 4],
        with_flags(&[vec![7; 16]]),
        with_flags(&[too_long.concat()]),
        with_flags(&[option_bytes(option::EXPORT_NAME, b"third")]),
        with_flags(&[option_bytes(option::ABORT, &[])]),
    ] {
        assert_eq!(shake(&input, 1000).1, Step::End, "{input:?}");
    }
}

fn an_option() -> impl Strategy<Value = Vec<u8>> {
    let number = prop_oneof![1..12u32, any::<u32>()];
    let name = prop_oneof![Just(""), Just("first"), Just("second"), Just("x")];
    let query = prop_oneof![Just("base:allocation"), Just("base:"), Just("qemu:")];
    let data = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..40),
        name.clone().prop_map(info_data),
        (name, query).prop_map(|(name, query)| meta_data(name, query)),
        Just(Vec::new()),
    ];
    (number, data).prop_map(|(number, data)| option_bytes(number, &data))
}

proptest! {
    #[test]
    fn handshake_does_not_depend_on_segmentation(
        options in prop::collection::vec(an_option(), 0..8),
        garbage in prop::collection::vec(any::<u8>(), 0..40),
        piece in 1..50usize,
    ) {
        let input = [with_flags(&options), garbage].concat();
        prop_assert_eq!(shake(&input, piece), shake(&input, usize::MAX >> 1));
    }

    #[test]
    fn any_bytes_are_parsed(input in prop::collection::vec(any::<u8>(), 0..200)) {
        shake(&input, 16);
    }

    #[test]
    fn accepted_requests_are_within_the_export(
        flags in prop_oneof![0..16u16, any::<u16>()],
        kind in prop_oneof![0..10u16, any::<u16>()],
        offset in prop_oneof![(0..2400u64).prop_map(|block| block * 512), any::<u64>()],
        length in prop_oneof![(0..2400u32).prop_map(|block| block * 512), any::<u32>()],
        export_index in 0..2usize,
    ) {
        let raw = RawRequest { flags, kind, cookie: 7, offset, length };
        let export = &exports()[export_index];
        match receive(&raw, export_index) {
            Received::Request(accepted, index) => {
                prop_assert_eq!(index, export_index);
                prop_assert!(accepted.action != Action::BlockStatus, "no context was chosen");
                prop_assert!(accepted.offset + u64::from(accepted.length) <= SIZE_BYTES);
                prop_assert_eq!(accepted.length % export.block_bytes, 0);
                prop_assert!(accepted.length > 0 || accepted.action == Action::Flush);
            }
            Received::Rejected { data_bytes, .. } => {
                let expected = if kind == request::WRITE { length as usize } else { 0 };
                prop_assert_eq!(data_bytes, expected, "the data are skipped");
            }
            Received::Disconnect => prop_assert_eq!(kind, request::DISCONNECT),
            Received::ProtocolError => prop_assert!(length > DATA_BYTES_MAX),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn only_the_request_magic_is_accepted(bytes in any::<[u8; REQUEST_BYTES]>()) {
        let is_one = bytes[..4] == REQUEST_MAGIC.to_be_bytes();
        prop_assert_eq!(RawRequest::parse(&bytes).is_some(), is_one);
    }
}

fn check(flags: u16, kind: u16, offset: u64, length: u32) -> Result<ExportRequest, WireError> {
    let raw = RawRequest { flags, kind, cookie: 7, offset, length };
    let agreement = Agreement { export: 0, structured: false, status: StatusContext::None };
    ExportRequest::check(&raw, &exports()[0], agreement)
}

#[test]
fn requests_may_end_at_the_last_block() {
    let read = |offset, length| check(0, request::READ, offset, length).is_ok();
    assert!(read(SIZE_BYTES - 512, 512) && read(0, SIZE_BYTES as u32));
    assert!(!read(SIZE_BYTES - 512, 1024) && !read(SIZE_BYTES, 512));
}

#[test]
fn fua_makes_writes_durable() {
    for (flags, kind, is_durable) in [
        (0, request::WRITE, false),
        (request::FLAG_FUA, request::WRITE, true),
        (request::FLAG_FUA, request::TRIM, true),
        (request::FLAG_FUA | request::FLAG_NO_HOLE, request::WRITE_ZEROES, true),
        (request::FLAG_FUA, request::READ, false),
    ] {
        assert_eq!(check(flags, kind, 0, 4096).unwrap().is_durable, is_durable);
    }
}

/// A connection to the export of this index, past its handshake.
fn connection(export: usize) -> ServerConnection {
    let mut connection = ServerConnection::default();
    let attach =
        with_flags(&[option_bytes(option::EXPORT_NAME, exports()[export].name.as_bytes())]);
    let (taken, received) = connection.receive(&attach, &exports());
    assert!(matches!(received, Received::Options { is_last: false, .. }), "{received:?}");
    assert_eq!((taken, connection.is_negotiating()), (attach.len(), false));
    connection
}

/// The message of a client that sends this request to the export of this index.
fn receive(raw: &RawRequest, export: usize) -> Received {
    let (taken, received) = connection(export).receive(&raw.bytes(), &exports());
    assert_eq!(taken, REQUEST_BYTES);
    received
}

#[test]
fn messages_are_received_whole_and_in_order() {
    let mut connection = connection(0);
    let raw = RawRequest { flags: 0, kind: request::READ, cookie: 7, offset: 512, length: 1024 };
    let input = [raw.bytes(), RawRequest { kind: request::DISCONNECT, ..raw }.bytes()].concat();
    let cut = connection.receive(&input[..REQUEST_BYTES - 1], &exports());
    assert_eq!(cut, (0, Received::Incomplete));
    for _ in 0..2 {
        // A request that was left in the input is received again.
        let (taken, received) = connection.receive(&input, &exports());
        let Received::Request(request, 0) = received else { panic!("{received:?}") };
        assert_eq!((taken, request.offset, request.length), (REQUEST_BYTES, 512, 1024));
        let reply = ReplyHead::new(&request, Ok(()));
        assert_eq!((reply.bytes(), reply.data_bytes()), (&simple_reply(0, 7)[..], 1024));
        let reply = ReplyHead::new(&request, Err(WireError::Io));
        assert_eq!((reply.bytes(), reply.data_bytes()), (&simple_reply(5, 7)[..], 0));
    }
    let end = connection.receive(&input[REQUEST_BYTES..], &exports());
    assert_eq!(end, (REQUEST_BYTES, Received::Disconnect));
    let garbage = connection.receive(&[7; REQUEST_BYTES], &exports());
    assert_eq!(garbage, (REQUEST_BYTES, Received::ProtocolError));
}

/// A client that sends these bytes before TLS, and the replies.
struct ScriptedClient {
    sent: Cursor<Vec<u8>>,
    received: Vec<u8>,
}

impl Read for ScriptedClient {
    fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
        self.sent.read(target)
    }
}

impl Write for ScriptedClient {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.received.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The result of a client that sends these options in plain text, the types of the replies, and the
/// number of bytes that were not read.
fn before_tls(options: &[(u32, &[u8])]) -> (io::Result<ClientFlags>, Vec<u32>, u64) {
    let mut sent = vec![0, 0, 0, 3];
    for (number, data) in options {
        sent.extend(option_bytes(*number, data));
    }
    let length = sent.len() as u64;
    let mut peer = ScriptedClient { sent: Cursor::new(sent), received: Vec::new() };
    let result = await_tls(&mut peer);
    assert_eq!(peer.received[..18], greeting());
    (result, reply_kinds(&peer.received[18..]), length - peer.sent.position())
}

#[test]
fn options_before_tls_are_refused() {
    const REFUSED: u32 = option_reply::ERR_TLS_REQUIRED;
    let go = b"\0\0\0\0\0\0".as_slice();
    let (result, kinds, unread) = before_tls(&[
        (option::LIST, b""),
        (option::STRUCTURED_REPLY, b""),
        (option::GO, go),
        (option::START_TLS, b"x"),
        (option::START_TLS, b""),
        (option::GO, go),
    ]);
    assert_eq!(result.unwrap(), [0, 0, 0, 3]);
    let acknowledged = [option_reply::ERR_INVALID, option_reply::ACK];
    assert_eq!(kinds, [&[REFUSED; 3], &acknowledged[..]].concat());
    assert_eq!(unread, 16 + 6, "what comes behind STARTTLS is for TLS to validate");
    let (result, kinds, _) = before_tls(&[(option::EXPORT_NAME, b"disk")]);
    assert!(result.is_err() && kinds.is_empty());
    let (result, kinds, _) = before_tls(&[(option::ABORT, b"")]);
    assert!(result.is_err() && kinds == [option_reply::ACK]);
    let (result, kinds, _) = before_tls(&[(option::LIST, b"".as_slice()); 100]);
    assert!(result.is_err() && kinds.len() < 20, "TLS is never started");
    let (result, kinds, unread) = before_tls(&[(option::LIST, &[0; 20 << 10])]);
    assert!(result.is_err() && kinds.is_empty() && unread == 20 << 10, "too long");
}

proptest! {
    /// For any bytes before TLS the negotiation ends, after a bounded number of replies.
    #[test]
    fn any_bytes_before_tls_are_bounded(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let option = [&[0, 0, 0, 3][..], &OPTION_MAGIC.to_be_bytes(), &bytes].concat();
        for sent in [bytes, option] {
            let mut peer = ScriptedClient { sent: Cursor::new(sent), received: Vec::new() };
            let _ = await_tls(&mut peer);
            prop_assert!(peer.received.len() <= 18 + 16 * 20);
        }
    }
}
