//! Handshake and requests as plain functions of bytes.

use crate::executor::Target;
use crate::export::Durability;
use crate::export::Export;
use crate::export::nbd::command::{Action, StatusContext, Validated, validate};
use crate::export::nbd::handshake::{Handshake, Step};
use crate::nbd_protocol::wire::{
    DATA_BYTES_MAX, OPTION_BYTES_MAX, OPTION_MAGIC, REQUEST_BYTES, REQUEST_MAGIC, RawRequest,
    option, option_reply, request,
};
use mirrorball_core::member::MemberIndex;
use proptest::prelude::*;

const SIZE_BYTES: u64 = 1 << 20;

fn exports() -> Vec<Export> {
    let export = |name: &str, block_bytes| Export {
        name: name.to_owned(),
        description: "a test".to_owned(),
        target: Target::Member(MemberIndex(0)),
        size_bytes: SIZE_BYTES,
        block_bytes,
        rotational: false,
        is_read_only: false,
    };
    vec![export("first", 512), export("second", 4096)]
}

fn option_bytes(number: u32, data: &[u8]) -> Vec<u8> {
    let length = (data.len() as u32).to_be_bytes();
    [&OPTION_MAGIC.to_be_bytes()[..], &number.to_be_bytes(), &length, data].concat()
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
    let (mut handshake, mut output) = (Handshake::default(), Vec::new());
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
    let word = |at: usize| u32::from_be_bytes(output[at..at + 4].try_into().unwrap());
    let (mut kinds, mut at) = (Vec::new(), 0);
    while at < output.len() {
        kinds.push(word(at + 12));
        at += 20 + word(at + 16) as usize;
    }
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
        export in 0..2usize,
    ) {
        let raw = RawRequest { flags, kind, cookie: 7, offset, length };
        let export = &exports()[export];
        match validate(&raw, export, StatusContext::None) {
            Validated::Accept(command) => {
                prop_assert!(command.action != Action::BlockStatus, "no context was chosen");
                prop_assert!(command.offset + u64::from(command.length) <= SIZE_BYTES);
                prop_assert_eq!(command.length % export.block_bytes, 0);
                prop_assert!(command.length > 0 || command.action == Action::Flush);
            }
            Validated::Reject { data_bytes, .. } => {
                let expected = if kind == request::WRITE { length } else { 0 };
                prop_assert_eq!(data_bytes, expected, "what follows is thrown away");
            }
            Validated::Disconnect => prop_assert_eq!(kind, request::DISCONNECT),
            Validated::ProtocolError => prop_assert!(length > DATA_BYTES_MAX),
        }
    }

    #[test]
    fn only_the_request_magic_is_accepted(bytes in any::<[u8; REQUEST_BYTES]>()) {
        let is_one = bytes[..4] == REQUEST_MAGIC.to_be_bytes();
        prop_assert_eq!(RawRequest::parse(&bytes).is_some(), is_one);
    }
}

#[test]
fn requests_may_end_at_the_last_block() {
    let read = |offset, length| {
        let raw = RawRequest { flags: 0, kind: request::READ, cookie: 7, offset, length };
        matches!(validate(&raw, &exports()[0], StatusContext::None), Validated::Accept(_))
    };
    assert!(read(SIZE_BYTES - 512, 512) && read(0, SIZE_BYTES as u32));
    assert!(!read(SIZE_BYTES - 512, 1024) && !read(SIZE_BYTES, 512));
}

#[test]
fn fua_makes_writes_durable() {
    let raw = |flags, kind| RawRequest { flags, kind, cookie: 1, offset: 0, length: 4096 };
    for (flags, kind, durability) in [
        (0, request::WRITE, Durability::Later),
        (request::FLAG_FUA, request::WRITE, Durability::AtReply),
        (request::FLAG_FUA, request::TRIM, Durability::AtReply),
        (request::FLAG_FUA | request::FLAG_NO_HOLE, request::WRITE_ZEROES, Durability::AtReply),
        (request::FLAG_FUA, request::READ, Durability::Later),
    ] {
        let verdict = validate(&raw(flags, kind), &exports()[0], StatusContext::None);
        assert!(matches!(verdict, Validated::Accept(command) if command.durability == durability));
    }
}
