//! The lines or binary records of a file, from one buffer.

use mirrorball_core::diagnostic::Diagnostic;
use std::io::{ErrorKind, Read};

/// Size of the buffer; a line must fit into it.
const BUFFER_BYTES: usize = 128 << 10;

/// UTF-8 byte order mark, which some programs write before the first line.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// How a file is divided.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Framing {
    /// Lines, which end in `\n` or `\r\n`.
    Lines,
    /// Records of so many bytes.
    Bytes(usize),
    /// Records of blktrace, each with a payload whose length is its last field.
    Blktrace,
}

/// Bytes of a record of blktrace before its payload.
const BLKTRACE_BYTES: usize = 48;

/// Length of the record of blktrace at the start of some bytes, if they have its header.
fn blktrace_length(bytes: &[u8]) -> Option<usize> {
    let payload = bytes.get(BLKTRACE_BYTES - 2..BLKTRACE_BYTES)?;
    Some(BLKTRACE_BYTES + usize::from(u16::from_le_bytes([payload[0], payload[1]])))
}

/// The end of the last whole record of blktrace in some bytes.
pub(crate) fn blktrace_end(bytes: &[u8]) -> usize {
    let mut end = 0;
    while let Some(next) = blktrace_length(&bytes[end..]).map(|length| end + length)
        && next <= bytes.len()
    {
        end = next;
    }
    end
}

/// A file, divided into frames: lines or records.
pub(crate) struct FrameReader {
    input: Box<dyn Read + Send>,
    framing: Framing,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    at_end: bool,
    /// Number of the last frame, from one.
    pub(crate) number: usize,
}

impl FrameReader {
    pub(crate) fn framing(&self) -> Framing {
        self.framing
    }

    pub(crate) fn new(input: Box<dyn Read + Send>, framing: Framing) -> FrameReader {
        let buffer = vec![0; BUFFER_BYTES];
        FrameReader { input, framing, buffer, start: 0, end: 0, at_end: false, number: 0 }
    }

    /// The next frame, without its line end, or `None` at the end of the file.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<Option<&[u8]>, Diagnostic> {
        loop {
            if self.number == 0 && self.framing == Framing::Lines {
                let mark = self.buffer[self.start..self.end].starts_with(BYTE_ORDER_MARK);
                self.start += if mark { BYTE_ORDER_MARK.len() } else { 0 };
            }
            if let Some((length, skip)) = self.complete() {
                let begin = self.start;
                self.start += length + skip;
                self.number += 1;
                return Ok(Some(&self.buffer[begin..begin + length]));
            }
            if self.at_end {
                return self.last();
            }
            self.fill()?;
        }
    }

    /// Length of the frame at the start of the buffer, and of its end mark.
    #[inline]
    fn complete(&self) -> Option<(usize, usize)> {
        let waiting = &self.buffer[self.start..self.end];
        match self.framing {
            Framing::Bytes(length) => (waiting.len() >= length).then_some((length, 0)),
            Framing::Blktrace => {
                let length = blktrace_length(waiting)?;
                (waiting.len() >= length).then_some((length, 0))
            }
            Framing::Lines => {
                let length = waiting.iter().position(|&byte| byte == b'\n')?;
                let trimmed = length - usize::from(waiting[..length].ends_with(b"\r"));
                Some((trimmed, length + 1 - trimmed))
            }
        }
    }

    /// Bytes after the last end mark.
    fn last(&mut self) -> Result<Option<&[u8]>, Diagnostic> {
        let (begin, end) = (self.start, self.end);
        self.start = self.end;
        if begin == end {
            return Ok(None);
        }
        self.number += 1;
        let whole = match self.framing {
            Framing::Lines => None,
            Framing::Bytes(length) => Some(length),
            Framing::Blktrace => {
                Some(blktrace_length(&self.buffer[begin..end]).unwrap_or(BLKTRACE_BYTES))
            }
        };
        if let Some(length) = whole {
            let message = format!("the last record has {} of {length} bytes", end - begin);
            return Err(Diagnostic::new(message).with_help("was the file cut off? copy it again"));
        }
        Ok(Some(&self.buffer[begin..end]))
    }

    #[cold]
    fn fill(&mut self) -> Result<(), Diagnostic> {
        self.buffer.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        if self.end == self.buffer.len() {
            self.number += 1;
            let message = format!("the line is longer than {} KiB", BUFFER_BYTES >> 10);
            return Err(Diagnostic::new(message).with_help("is this file a trace?"));
        }
        match self.input.read(&mut self.buffer[self.end..]) {
            Ok(0) => self.at_end = true,
            Ok(read) => self.end += read,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => {
                let message = format!("cannot read the trace: {error}");
                return Err(Diagnostic::new(message).with_help("check the file and its disk"));
            }
        }
        Ok(())
    }
}
