//! A member on another machine: an NBD export, over several connections.
//!
//! Requests go to the connection with the fewest under way. A connection that breaks ends what is
//! under way on it with [`IoError::Transport`], and so does every request while none is left: then
//! the volume's rules apply. Broken connections are made anew with back-off, outside of the loop's
//! thread (see [`dial`]).
//!
//! **What a peer forgot.** A peer may lose writes that were replied to and not flushed. If a
//! connection breaks with such writes about, the member is [`IoError::Gone`] from then on, whatever
//! answers there later, until its owner has it rebuilt: it is never read stale.
//!
//! A request is not sent again over another connection: the first may still be at work on the other
//! side, and end after a newer write.
//!
//! **Anew.** When its owner has it rebuilt, all connections are given up and it is attached to once
//! more: what answers at its address may be another server by now. No line is used again by another
//! attachment, so that a late end of an operation belongs to nobody else.
//!
//! **Silence.** A peer whose machine is gone is noticed by TCP within [`dial::SILENCE_MAX`]. One
//! that is connected and owes a reply for longer than its patience is hung up on, on every
//! connection, as if those had broken: what hangs in it may hang on all.

pub mod client;
pub mod dial;
mod line;
#[cfg(test)]
mod tests;
pub(crate) mod tls;

use crate::driver::buffers::{BufferKey, Slice};
use crate::driver::{Answer, Done, Driver, Handle, Token};
use crate::nbd_protocol::wire::{request, transmission_flag};
use client::Attached;
use dial::{Dialled, Dialler, Peer};
use line::{Asked, Line};
use mirrorball_core::io::{IoError, Op};
use mirrorball_core::member::MemberIndex;
use mirrorball_core::units::Nanos;
use rustix::io::Errno;
use std::io;

/// The owners of the tokens of remote members.
pub const TOKEN_OWNERS: [u8; 3] = [RECEIVE, SEND, WAKE];
const RECEIVE: u8 = 16;
const SEND: u8 = 17;
const WAKE: u8 = 18;

/// How many connections to a server that allows several: fewer cost throughput at depth, more
/// bring none.
pub const LINES: usize = 4;

/// How often a peer is looked at in the time that it may owe a reply.
const LOOKS: u64 = 8;

/// A request to a remote member.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask {
    /// Names it in its end.
    pub(crate) key: u32,
    /// What is asked.
    pub(crate) op: Op,
    /// First byte.
    pub(crate) offset: u64,
    /// Number of bytes.
    pub(crate) length: u64,
    /// Where its data is, or goes.
    pub(crate) data: Option<Slice>,
}

/// The end of a request to a remote member: the key it came with, and how it went.
pub(crate) type End = (u32, Result<(), IoError>);

/// See the page of this module.
pub struct Remote {
    member: MemberIndex,
    attached: Attached,
    /// Of this attachment, behind those of earlier ones, which are over or soon will be.
    lines: Vec<Line>,
    /// The first line of this attachment.
    first: usize,
    /// Who makes connections anew, and how it is heard; `None` while nobody is attached to.
    dialler: Option<(Dialler, Handle)>,
    /// For the bytes that wake us, which say nothing, so that attachments may share it.
    wake_buffer: BufferKey,
    /// Writes that were replied to.
    written: u64,
    /// How many of those are durable.
    flushed: u64,
    /// Whether the peer may have forgotten some.
    forgot: bool,
    /// How long the peer may owe a reply.
    patience: Nanos,
    /// When it is next asked whether it owes one for too long.
    next_look: Nanos,
}

impl Remote {
    /// Takes a peer's connection over, and sets out to make the others.
    ///
    /// # Errors
    /// If the system has no socket to spare.
    pub fn new(member: MemberIndex, peer: Peer, driver: &mut Driver) -> io::Result<Remote> {
        let wake_buffer = driver.buffers.acquire(1);
        let mut remote = Remote {
            member,
            attached: peer.attached,
            lines: Vec::new(),
            first: 0,
            dialler: None,
            wake_buffer,
            written: 0,
            flushed: 0,
            forgot: false,
            patience: peer.patience,
            next_look: Nanos::ZERO,
        };
        remote.attach(peer, driver)?;
        Ok(remote)
    }

    /// Begins with a peer that was attached to, after [`Remote::detach`]: nothing is known of what
    /// it holds.
    ///
    /// # Errors
    /// If the system has no socket to spare.
    pub fn attach(&mut self, peer: Peer, driver: &mut Driver) -> io::Result<()> {
        let Peer { uri, socket, attached, patience } = peer;
        let (dialler, ears) = Dialler::new(uri, attached.size_bytes)?;
        let (handle, wake) = (driver.adopt(socket)?, driver.adopt(ears)?);
        let count = match attached.can(transmission_flag::CAN_MULTI_CONN) {
            true => LINES,
            false => 1,
        };
        self.first = self.lines.len();
        self.lines.extend((0..count).map(|_| Line::default()));
        let token = self.token(RECEIVE, self.first);
        self.lines[self.first].connect(handle, token, driver);
        for line in self.first + 1..self.lines.len() {
            dialler.dial(line as u32);
        }
        (self.attached, self.patience, self.forgot) = (attached, patience, false);
        (self.written, self.flushed) = (0, 0);
        self.dialler = Some((dialler, wake));
        self.listen(driver);
        Ok(())
    }

    /// Gives every connection up, and makes no more.
    pub fn detach(&mut self, driver: &mut Driver) {
        self.lines.iter_mut().for_each(|line| line.close(driver));
        self.first = self.lines.len();
        if let Some((_, wake)) = self.dialler.take() {
            driver.close(wake);
        }
    }

    /// How many connections are up.
    pub fn connections(&self) -> usize {
        self.lines.iter().filter(|line| line.is_up()).count()
    }

    /// Whether the peer may have forgotten writes: whatever it is asked fails from then on.
    pub(crate) fn is_lost(&self) -> bool {
        self.forgot
    }

    /// Starts a request. What ends at once is appended to `ended`.
    pub(crate) fn start(&mut self, ask: Ask, driver: &mut Driver, ended: &mut Vec<End>) {
        if self.forgot {
            return ended.push((ask.key, Err(IoError::Gone)));
        }
        let (kind, needs) = match ask.op {
            Op::Read => (request::READ, 0),
            Op::Write => (request::WRITE, 0),
            Op::Flush => (request::FLUSH, transmission_flag::SEND_FLUSH),
            Op::Discard => (request::TRIM, transmission_flag::SEND_TRIM),
        };
        // A server that takes no flush keeps nothing back, and one that takes no trim loses nothing
        // by not hearing of it.
        if !self.attached.can(needs) {
            return ended.push((ask.key, Ok(())));
        }
        let up = self.lines.iter_mut().filter(|line| line.is_up());
        match up.min_by_key(|line| line.under_way()) {
            Some(line) => line.ask(Asked::new(ask, kind, self.written), driver),
            None => ended.push((ask.key, Err(IoError::Transport))),
        }
    }

    /// Sends what was started since the last time.
    pub(crate) fn flush(&mut self, driver: &mut Driver) {
        for index in 0..self.lines.len() {
            let token = self.token(SEND, index);
            self.lines[index].send(token, driver);
        }
    }

    /// Hangs up on a peer that owes a reply for too long. To be called before each wait; returns
    /// how long that may be, if something is owed.
    pub(crate) fn watch(&mut self, now: Nanos, driver: &mut Driver) -> Option<Nanos> {
        if self.lines.iter().all(|line| line.under_way() == 0) {
            return None;
        }
        if now >= self.next_look {
            // A request is seen first at the look after it was made, so it may owe one step more.
            let step = Nanos(self.patience.0 / LOOKS);
            self.next_look = now + step;
            let patience = self.patience;
            let overdue = self.lines.iter_mut().map(|line| line.is_overdue(now, patience));
            if overdue.fold(false, |any, one| any | one) {
                self.lines.iter_mut().for_each(|line| line.close(driver));
            }
        }
        Some(self.next_look.saturating_sub(now))
    }

    /// The end of an operation of the driver whose token has one of [`TOKEN_OWNERS`] and belongs to
    /// this member. The requests that end with it are appended to `ended`.
    pub(crate) fn on_done(&mut self, done: &Done, driver: &mut Driver, ended: &mut Vec<End>) {
        let index = done.token.key() as usize & 0xffff;
        match (done.token.owner(), done.result) {
            (WAKE, result) => return self.on_wake(index, received(result), driver),
            (RECEIVE, result) => self.lines[index].on_received(received(result), driver),
            (SEND, result) => self.lines[index].on_sent(result.is_ok(), driver),
            (owner, _) => unreachable!("no operation is started for owner {owner}"),
        }
        for (asked, result) in self.lines[index].take_ended() {
            self.note(&asked, result);
            ended.push((asked.key(), result));
        }
        let token = self.token(RECEIVE, index);
        let line = &mut self.lines[index];
        line.receive(token, driver);
        if line.is_broken() {
            self.on_broken(index, driver, ended);
        }
    }

    /// Keeps the books of what is durable.
    fn note(&mut self, asked: &Asked, result: Result<(), IoError>) {
        match (asked.op(), result) {
            (Op::Write | Op::Discard, Ok(())) => self.written += 1,
            (Op::Flush, Ok(())) => self.flushed = self.flushed.max(asked.written_before()),
            _ => {}
        }
    }

    /// Nothing of a broken connection is in flight any more: what was under way on it has failed.
    fn on_broken(&mut self, index: usize, driver: &mut Driver, ended: &mut Vec<End>) {
        if index < self.first {
            // Nothing was under way on it when it was given up.
            self.lines[index].clear(driver);
            return self.lines[index].free(driver);
        }
        self.forgot |= self.flushed < self.written;
        let error = if self.forgot { IoError::Gone } else { IoError::Transport };
        for asked in self.lines[index].clear(driver) {
            ended.push((asked.key(), Err(error)));
        }
        if let Some((dialler, _)) = &self.dialler {
            dialler.dial(index as u32);
        }
    }

    /// The dialler of the attachment that begins with this line woke us.
    fn on_wake(&mut self, first: usize, bytes: usize, driver: &mut Driver) {
        if first == self.first && bytes > 0 {
            self.on_dialled(driver);
            self.listen(driver);
        }
    }

    fn on_dialled(&mut self, driver: &mut Driver) {
        let Some((dialler, _)) = &self.dialler else { return };
        while let Some(Dialled { line, socket }) = dialler.poll() {
            let index = line as usize;
            match driver.adopt(socket) {
                Ok(handle) => {
                    let token = token(self.member, RECEIVE, index);
                    self.lines[index].connect(handle, token, driver);
                }
                Err(_) => dialler.dial(line),
            }
        }
    }

    fn listen(&mut self, driver: &mut Driver) {
        let Some((_, wake)) = self.dialler else { return };
        driver.receive(self.token(WAKE, self.first), wake, Slice::data(self.wake_buffer, 0, 1));
    }

    fn token(&self, owner: u8, line: usize) -> Token {
        token(self.member, owner, line)
    }
}

fn token(member: MemberIndex, owner: u8, line: usize) -> Token {
    let line = u16::try_from(line).expect("nobody attaches ten thousand times");
    Token::new(owner, u32::from(member.0) << 16 | u32::from(line))
}

/// Which member a token of [`TOKEN_OWNERS`] belongs to.
pub(crate) fn member_of(token: Token) -> MemberIndex {
    MemberIndex((token.key() >> 16) as u16)
}

/// The bytes that came; none if the connection is no more.
fn received(result: Result<Answer, Errno>) -> usize {
    match result {
        Ok(Answer::Bytes(bytes)) => bytes,
        Ok(Answer::Connection(_)) | Err(_) => 0,
    }
}
