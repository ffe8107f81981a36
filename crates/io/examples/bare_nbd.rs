//! An NBD server that does nothing but serve: one file to one client at a time, reads only, and no
//! books, no policy, no members.
//!
//! `benches/nbd` compares it with the servers that people use, so that one sees how much of their
//! time is the kernel's: receiving requests, reading the page cache, and sending replies, all that
//! came at once with one call each way.
//!
//! Source: the NBD protocol, doc/proto.md of NetworkBlockDevice/nbd: the oldstyle handshake, which
//! clients still speak, and simple replies.

use mirrorball_nbd::wire::{
    DATA_BYTES_MAX, INIT_MAGIC, REQUEST_BYTES, RawRequest, SIMPLE_REPLY_BYTES, request,
    simple_reply,
};
use std::fs::File;
use std::io::{self, IoSlice, Read, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::ExitCode;

const OLDSTYLE_MAGIC: u64 = 0x0000_4202_8186_1253;
/// It has flags, which say no more than that.
const HAS_FLAGS: u32 = 1;
/// Number of zeroes that end the handshake.
const ZEROES: usize = 124;
/// Requests that are taken at once.
const REQUESTS: usize = 64;

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
        let requests = input[..end].as_chunks().0;
        for (request, reply) in requests.iter().zip(&mut replies) {
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
    let mut bytes = INIT_MAGIC.to_be_bytes().to_vec();
    bytes.extend(OLDSTYLE_MAGIC.to_be_bytes());
    bytes.extend(size_bytes.to_be_bytes());
    bytes.extend(HAS_FLAGS.to_be_bytes());
    bytes.resize(bytes.len() + ZEROES, 0);
    bytes
}

/// Makes the reply to a read; `false` if the request is another.
fn answer(file: &File, bytes: &[u8; REQUEST_BYTES], reply: &mut Vec<u8>) -> io::Result<bool> {
    let known = RawRequest::parse(bytes)
        .filter(|raw| raw.kind == request::READ && raw.length <= DATA_BYTES_MAX);
    let Some(raw) = known else { return Ok(false) };
    reply.resize(SIMPLE_REPLY_BYTES + raw.length as usize, 0);
    let (head, data) = reply.split_at_mut(SIMPLE_REPLY_BYTES);
    head.copy_from_slice(&simple_reply(0, raw.cookie));
    file.read_exact_at(data, raw.offset)?;
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
