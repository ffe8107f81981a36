//! An NBD server that does nothing but serve: one file to one client at a time, reads only, and no
//! books, no policy, no members.
//!
//! `benches/nbd` sets it beside the servers that people use, so that one sees how much of their
//! time is the kernel's: receiving requests, reading the page cache, and sending replies, all that
//! came at once with one call each way.
//!
//! Source: the NBD protocol, doc/proto.md of NetworkBlockDevice/nbd: the oldstyle handshake, which
//! clients still speak, and simple replies.

use std::fs::File;
use std::io::{self, IoSlice, Read, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::ExitCode;

const OLDSTYLE_MAGIC: u64 = 0x0000_4202_8186_1253;
/// It has flags, which say no more than that.
const HAS_FLAGS: u32 = 1;
/// The handshake ends in so many zeroes.
const ZEROES: usize = 124;
const REPLY_MAGIC: u32 = 0x6744_6698;
const REQUEST_BYTES: usize = 28;
const REPLY_BYTES: usize = 16;
const READ: u16 = 0;
/// Requests that are taken at once.
const REQUESTS: usize = 64;
const DATA_BYTES_MAX: usize = 1 << 20;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [file, socket] = &arguments[..] else {
        eprintln!("usage: bare_nbd FILE SOCKET");
        return ExitCode::from(2);
    };
    let served = File::open(file).and_then(|file| {
        for client in UnixListener::bind(socket)?.incoming() {
            serve(&file, client?)?;
        }
        Ok(())
    });
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bare_nbd: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Serves a client until it is gone, or asks for something else than to read.
fn serve(file: &File, mut client: UnixStream) -> io::Result<()> {
    client.write_all(&greeting(file.metadata()?.len()))?;
    let mut replies = vec![Vec::new(); REQUESTS];
    let mut input = [0; REQUESTS * REQUEST_BYTES];
    let mut end = 0;
    loop {
        let received = client.read(&mut input[end..])?;
        end += received;
        let whole = end / REQUEST_BYTES;
        for (request, reply) in input[..end].chunks_exact(REQUEST_BYTES).zip(&mut replies) {
            if !answer(file, request, reply)? {
                return Ok(());
            }
        }
        if received == 0 {
            return Ok(());
        }
        send(&mut client, &replies[..whole])?;
        input.copy_within(whole * REQUEST_BYTES..end, 0);
        end -= whole * REQUEST_BYTES;
    }
}

fn greeting(size_bytes: u64) -> Vec<u8> {
    let mut bytes = b"NBDMAGIC".to_vec();
    bytes.extend(OLDSTYLE_MAGIC.to_be_bytes());
    bytes.extend(size_bytes.to_be_bytes());
    bytes.extend(HAS_FLAGS.to_be_bytes());
    bytes.resize(bytes.len() + ZEROES, 0);
    bytes
}

/// Makes the reply to a read; `false` if the request is another.
fn answer(file: &File, request: &[u8], reply: &mut Vec<u8>) -> io::Result<bool> {
    let number = |range: std::ops::Range<usize>| {
        request[range].iter().fold(0, |number: u64, &byte| number << 8 | u64::from(byte))
    };
    let length = number(24..28) as usize;
    if number(6..8) as u16 != READ || length > DATA_BYTES_MAX {
        return Ok(false);
    }
    reply.resize(REPLY_BYTES + length, 0);
    reply[..4].copy_from_slice(&REPLY_MAGIC.to_be_bytes());
    reply[8..REPLY_BYTES].copy_from_slice(&request[8..16]);
    file.read_exact_at(&mut reply[REPLY_BYTES..], number(16..24))?;
    Ok(true)
}

fn send(client: &mut UnixStream, replies: &[Vec<u8>]) -> io::Result<()> {
    let mut slices: Vec<IoSlice<'_>> = replies.iter().map(|reply| IoSlice::new(reply)).collect();
    let mut left = &mut slices[..];
    while !left.is_empty() {
        let sent = client.write_vectored(left)?;
        IoSlice::advance_slices(&mut left, sent);
    }
    Ok(())
}
