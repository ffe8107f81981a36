//! A client of one connection to an NBD server at a Unix socket.

use super::Folder;
use mirrorball_nbd::wire::{RawRequest, option};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

/// The kinds of requests that tests send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NbdRequest {
    Read = 0,
    Write = 1,
    Flush = 3,
    Trim = 4,
    BlockStatus = 7,
}

/// A connection past the handshake.
pub(crate) struct NbdClient(pub(crate) UnixStream);

/// The bytes of a request, without the data of a write.
pub(crate) fn request_bytes(kind: NbdRequest, flags: u16, offset: u64, length: u32) -> Vec<u8> {
    RawRequest { flags, kind: kind as u16, cookie: 7, offset, length }.bytes().to_vec()
}

impl NbdClient {
    pub(crate) fn connect(folder: &Folder, socket: &str) -> NbdClient {
        NbdClient::begin(folder, socket).attach()
    }

    /// Connects, and answers the greeting: fixed newstyle without 124 zeroes.
    pub(crate) fn begin(folder: &Folder, socket: &str) -> NbdClient {
        let mut client = NbdClient(UnixStream::connect(folder.path(socket)).unwrap());
        client.receive(18);
        client.0.write_all(&[0, 0, 0, 3]).unwrap();
        client
    }

    /// Ends the handshake: attaches to the first export.
    pub(crate) fn attach(mut self) -> NbdClient {
        self.option(option::EXPORT_NAME, &[]);
        self.receive(10);
        self
    }

    pub(crate) fn option(&mut self, number: u32, data: &[u8]) {
        let length = (data.len() as u32).to_be_bytes();
        let parts = [b"IHAVEOPT", &number.to_be_bytes()[..], &length, data];
        self.0.write_all(&parts.concat()).unwrap();
    }

    pub(crate) fn receive(&mut self, bytes: usize) -> Vec<u8> {
        let mut received = vec![0; bytes];
        self.0.read_exact(&mut received).unwrap();
        received
    }

    /// Sends one request; returns the error number, and the data of a read.
    pub(crate) fn request(
        &mut self,
        kind: NbdRequest,
        offset: u64,
        data: &[u8],
        length: usize,
    ) -> Result<Vec<u8>, u32> {
        let message = [request_bytes(kind, 0, offset, length as u32), data.to_vec()].concat();
        self.0.write_all(&message).unwrap();
        let reply = self.receive(16);
        match u32::from_be_bytes(reply[4..8].try_into().unwrap()) {
            0 => Ok(self.receive(if kind == NbdRequest::Read { length } else { 0 })),
            error => Err(error),
        }
    }

    pub(crate) fn read(&mut self, offset: u64, length: usize) -> Vec<u8> {
        self.request(NbdRequest::Read, offset, &[], length).unwrap()
    }

    pub(crate) fn write(&mut self, offset: u64, data: &[u8]) {
        self.request(NbdRequest::Write, offset, data, data.len()).unwrap();
    }

    pub(crate) fn flush(&mut self) {
        self.request(NbdRequest::Flush, 0, &[], 0).unwrap();
    }
}
