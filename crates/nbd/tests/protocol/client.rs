//! The client's side of the protocol, against servers that send anything.

use mirrorball_core::units::Nanos;
use mirrorball_nbd::client::{
    ClientConnection, ClientError, ClientHandshake, ClientStep, MalformedReply, negotiate,
};
use mirrorball_nbd::handshake::greeting;
use mirrorball_nbd::wire::{RawRequest, request, simple_reply};
use std::io::{Read, Result, Write};

const SIZE_BYTES: u64 = 1 << 20;

/// A server that sends these bytes, whatever it receives.
struct ScriptedServer<'a>(&'a [u8]);

impl Read for ScriptedServer<'_> {
    fn read(&mut self, target: &mut [u8]) -> Result<usize> {
        self.0.read(target)
    }
}

impl Write for ScriptedServer<'_> {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        Ok(bytes.len())
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}

#[test]
fn servers_that_make_no_sense_are_refused() {
    let hear = |bytes: &[u8]| {
        let step = negotiate(&mut ScriptedServer(bytes), &mut ClientHandshake::new("disk"))?;
        let ClientStep::Attached(export) = step else { panic!("{step:?}") };
        Ok::<_, ClientError>(export)
    };
    let reply = |kind: u32, data: &[u8]| {
        let head = [&0x0003_e889_0455_65a9_u64.to_be_bytes()[..], &[0, 0, 0, 7]].concat();
        let length = (data.len() as u32).to_be_bytes();
        [&head[..], &kind.to_be_bytes(), &length, data].concat()
    };
    let said = |parts: &[Vec<u8>]| hear(&[greeting().to_vec(), parts.concat()].concat());
    let export = |flags: u16| {
        let size = SIZE_BYTES.to_be_bytes();
        reply(3, &[&[0, 0][..], &size, &flags.to_be_bytes()].concat())
    };
    let huge = reply(3, &[&[0, 0][..], &[0xff; 8], &[0, 5]].concat());
    let sizes = |least: u32, most: u32| {
        reply(3, &[&[0, 3][..], &[least, 4096, most].map(u32::to_be_bytes).concat()].concat())
    };
    let done = || reply(1, &[]);
    let attached = said(&[export(5), sizes(1, 32 << 20), done()]).unwrap();
    assert_eq!((attached.size_bytes, attached.block_bytes), (SIZE_BYTES, 512));
    for (result, part) in [
        (hear(b"SSH-2.0-OpenSSH_9.2p1 Debian"), "not an NBD greeting"),
        (hear(b"NBDMAGIC\0\0\x42\x02\x81\x86\x12\x53\0\0"), "old negotiation"),
        (said(&[done()]), "size"),
        (said(&[huge, done()]), "1 PiB"),
        (said(&[reply(3, &[0, 0, 1]), done()]), "truncated"),
        (said(&[reply(3, &[])]), "truncated"),
        (said(&[export(3), done()]), "read-only"),
        (said(&[export(1), sizes(8192, 32 << 20), done()]), "larger than 4096"),
        (said(&[export(1), sizes(0, 32 << 20), done()]), "larger than 4096"),
        (said(&[export(1), sizes(1, 65536), done()]), "32 MiB"),
        (said(&[reply(1 << 31 | 6, b"no such thing")]), "no such thing"),
        (said(&[reply(2, &[])]), "another option"),
        (said(&vec![export(1); 100]), "too many replies"),
    ] {
        let message = result.unwrap_err().to_string();
        assert!(message.contains(part), "no `{part}` in {message}");
    }
    let endless = [&reply(3, &[])[..16], &[0xff; 4]].concat();
    assert!(matches!(
        said(&[endless]),
        Err(ClientError::NoServer("it sent a reply that is too long"))
    ));
    assert!(matches!(hear(&greeting()[..17]), Err(ClientError::System(_))));
}

#[test]
fn replies_are_matched_with_requests_in_flight() {
    let raw = RawRequest { flags: 0, kind: request::READ, cookie: 0, offset: 0, length: 512 };
    let mut connection = ClientConnection::default();
    let (first, first_raw) = connection.start(raw, "first");
    let (second, second_raw) = connection.start(raw, "second");
    assert_ne!(first_raw.cookie, second_raw.cookie);
    let reply = |raw: RawRequest, error| simple_reply(error, raw.cookie);
    assert_eq!(connection.receive(&reply(second_raw, 0)), Ok((second, Ok(()))));
    assert_eq!(connection.receive(&reply(second_raw, 0)), Err(MalformedReply), "a second reply");
    assert_eq!(connection.receive(&reply(first_raw, 5)), Ok((first, Err(5))));
    assert_eq!((connection.end(first), connection.in_flight()), ("first", 1));
    assert_eq!(connection.receive(&reply(first_raw, 0)), Err(MalformedReply), "it has ended");
    // Another request in the place of the first has another cookie.
    let (third, _) = connection.start(raw, "third");
    assert_eq!(third, first);
    assert_eq!(connection.receive(&reply(first_raw, 0)), Err(MalformedReply));
    assert_eq!(connection.receive(&[7; 16]), Err(MalformedReply), "no reply");
    assert_eq!(connection.end_all().collect::<Vec<_>>(), ["third", "second"]);
    assert_eq!(connection.in_flight(), 0);
}

#[test]
fn a_request_is_overdue_a_timeout_after_it_was_first_seen() {
    let raw = RawRequest { flags: 0, kind: request::READ, cookie: 0, offset: 0, length: 512 };
    let (mut connection, timeout) = (ClientConnection::default(), Nanos(10));
    let (old, _) = connection.start(raw, ());
    assert!(!connection.check_overdue(Nanos(5), timeout));
    connection.start(raw, ());
    assert!(!connection.check_overdue(Nanos(14), timeout));
    assert!(connection.check_overdue(Nanos(15), timeout), "a young request does not save an old");
    connection.end(old);
    assert!(!connection.check_overdue(Nanos(23), timeout));
    assert!(connection.check_overdue(Nanos(24), timeout));
}
