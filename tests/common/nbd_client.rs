//! A client of one connection to an NBD server at a Unix socket.

use super::Folder;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

/// The kinds of requests that tests send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NbdRequest {
    Read = 0,
    Write = 1,
    Flush = 3,
}

/// A connection past the handshake.
pub(crate) struct NbdClient(UnixStream);

impl NbdClient {
    pub(crate) fn connect(folder: &Folder, socket: &str) -> NbdClient {
        let mut stream = UnixStream::connect(folder.path(socket)).unwrap();
        stream.read_exact(&mut [0; 18]).unwrap();
        // Fixed newstyle without 124 zeroes, and NBD_OPT_EXPORT_NAME for the first export.
        let option = [&[0, 0, 0, 3][..], b"IHAVEOPT", &[0, 0, 0, 1, 0, 0, 0, 0]].concat();
        stream.write_all(&option).unwrap();
        stream.read_exact(&mut [0; 10]).unwrap();
        NbdClient(stream)
    }

    /// Sends one request; returns the error number, and the data of a read.
    pub(crate) fn request(
        &mut self,
        kind: NbdRequest,
        offset: u64,
        data: &[u8],
        length: usize,
    ) -> Result<Vec<u8>, u32> {
        let head = [&[0x25, 0x60, 0x95, 0x13, 0, 0][..], &(kind as u16).to_be_bytes(), &[0; 8]];
        let length_bytes = (length as u32).to_be_bytes();
        let message = [&head.concat()[..], &offset.to_be_bytes(), &length_bytes, data].concat();
        self.0.write_all(&message).unwrap();
        let mut reply = [0; 16];
        self.0.read_exact(&mut reply).unwrap();
        match u32::from_be_bytes(reply[4..8].try_into().unwrap()) {
            0 => {}
            error => return Err(error),
        }
        let mut bytes = vec![0; if kind == NbdRequest::Read { length } else { 0 }];
        self.0.read_exact(&mut bytes).unwrap();
        Ok(bytes)
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
