//! No bytes from a client make the handshake or the check of requests panic, and accepted requests
//! lie within the export.

#![no_main]

use libfuzzer_sys::fuzz_target;
use mirrorball_nbd::handshake::{Export, ServerHandshake};
use mirrorball_nbd::server::{Received, ReplyHead, ServerConnection};

const SIZE_BYTES: u64 = 1 << 30;

fuzz_target!(|input: &[u8]| {
    let exports = [Export {
        name: "disk".to_owned(),
        description: String::new(),
        target: (),
        size_bytes: SIZE_BYTES,
        block_bytes: 512,
        rotational: true,
        is_read_only: false,
    }];
    ServerHandshake::requiring_tls().advance(input, &exports, &mut Vec::new());
    let (mut connection, mut input) = (ServerConnection::default(), input);
    loop {
        let (taken, received) = connection.receive(input, &exports);
        input = &input[taken..];
        match received {
            Received::Request(request, export) => {
                assert!(request.offset + u64::from(request.length) <= SIZE_BYTES);
                assert_eq!(export, 0);
                assert!(!ReplyHead::new(&request, Ok(())).bytes().is_empty());
            }
            Received::Options { is_last: true, .. } => return,
            Received::Options { .. } | Received::Rejected { .. } => {}
            Received::Incomplete | Received::Disconnect | Received::ProtocolError => return,
        }
    }
});
