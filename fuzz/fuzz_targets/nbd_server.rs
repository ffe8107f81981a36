//! No bytes from a client make the handshake or the check of requests panic, and what is done lies
//! within the export.

#![no_main]

use libfuzzer_sys::fuzz_target;
use mirrorball_core::member::MemberIndex;
use mirrorball_io::executor::Target;
use mirrorball_io::export::Export;
use mirrorball_io::export::nbd::command::{Validated, validate};
use mirrorball_io::export::nbd::handshake::{Handshake, Step};
use mirrorball_io::nbd_protocol::wire::{REQUEST_BYTES, RawRequest};

const SIZE_BYTES: u64 = 1 << 30;

fuzz_target!(|input: &[u8]| {
    let exports = [Export {
        name: "disk".to_owned(),
        description: String::new(),
        target: Target::Member(MemberIndex(0)),
        size_bytes: SIZE_BYTES,
        block_bytes: 512,
        rotational: true,
        is_read_only: false,
    }];
    let (taken, step) = Handshake::default().advance(input, &exports, &mut Vec::new());
    let Step::Agreed(agreed) = step else { return };
    for bytes in input[taken..].as_chunks::<REQUEST_BYTES>().0 {
        let Some(raw) = RawRequest::parse(bytes) else { return };
        if let Validated::Accept(command) = validate(&raw, &exports[agreed.export], agreed.status) {
            assert!(command.offset + u64::from(command.length) <= SIZE_BYTES);
        }
    }
});
