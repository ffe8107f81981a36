//! No bytes from a server make the negotiation of a client panic or take much memory, and what it
//! attaches to can be a member. What reads as a reply has a cookie, and nothing reads past it.

#![no_main]

use libfuzzer_sys::fuzz_target;
use mirrorball_nbd::client::{ClientHandshake, ClientStep, negotiate};
use mirrorball_nbd::uri::NbdUri;
use mirrorball_nbd::wire::{RawReply, SIMPLE_REPLY_BYTES, simple_reply, transmission_flag};
use std::io::{Read, Result, Write};

/// A server that sends the fuzzer's bytes and ignores what it receives.
struct Server<'a>(&'a [u8]);

impl Read for Server<'_> {
    fn read(&mut self, target: &mut [u8]) -> Result<usize> {
        self.0.read(target)
    }
}

impl Write for Server<'_> {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        Ok(bytes.len())
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}

fuzz_target!(|input: &[u8]| {
    if let Ok(text) = std::str::from_utf8(input)
        && let Ok(uri) = NbdUri::parse(text)
    {
        assert!(!uri.to_string().is_empty());
    }
    let mut server = Server(input);
    let mut handshake = ClientHandshake::new("disk");
    let Ok(ClientStep::Attached(attached)) = negotiate(&mut server, &mut handshake) else {
        return;
    };
    assert!(!attached.can(transmission_flag::READ_ONLY));
    assert!((512..=4096).contains(&attached.block_bytes));
    for bytes in server.0.as_chunks::<SIMPLE_REPLY_BYTES>().0 {
        let Some(RawReply { error, cookie }) = RawReply::parse(bytes) else { return };
        assert_eq!(simple_reply(error, cookie), *bytes);
    }
});
