//! Writers of the contexts that a program is shown, in the layout of `mirrorball_policy.h`.

use crate::abi::{CHOOSE_BYTES, MEMBER_BYTES, MIRROR_BYTES, VERSION};
use mirrorball_core::io::{IoError, MemberIo, Op, Outcome, Purpose, ReadRole};
use mirrorball_core::member::{Member, MemberIndex, MemberState, Members};
use mirrorball_core::policy::{Mirror, Read};
use mirrorball_core::units::Nanos;

/// Place of the lowest byte of `flags` in a `struct mb_choose`.
const FLAGS: usize = 44;

/// Writes numbers one after the other, little endian.
struct Fields<'a> {
    bytes: &'a mut [u8],
    at: usize,
}

impl Fields<'_> {
    #[inline]
    fn put<const N: usize>(&mut self, value: [u8; N]) {
        self.bytes[self.at..self.at + N].copy_from_slice(&value);
        self.at += N;
    }

    #[inline]
    fn u32(&mut self, value: u32) {
        self.put(value.to_le_bytes());
    }

    #[inline]
    fn u64(&mut self, value: u64) {
        self.put(value.to_le_bytes());
    }
}

/// Writes a `struct mb_choose` with its mirrors to the start of `bytes`.
#[inline]
pub fn write_choose(
    bytes: &mut [u8],
    read: &Read,
    mirrors: &[Mirror],
    members: &Members,
    now: Nanos,
) {
    let bytes = &mut bytes[..CHOOSE_BYTES + mirrors.len() * MIRROR_BYTES];
    let (head, places) = bytes.split_at_mut(CHOOSE_BYTES);
    let mut fields = Fields { bytes: head, at: 0 };
    fields.u32(VERSION);
    fields.u32(mirrors.len() as u32);
    fields.u64(now.0);
    fields.u64(read.offset);
    fields.u64(read.length);
    fields.u64(read.stream);
    fields.u32(read.cpu);
    fields.u32(u32::from(read.background) | u32::from(members.copies_are_apart()) << 1);
    fields.u32(u32::from(read.copies));
    fields.u32(members.len() as u32);
    fields.u64(0);
    for (mirror, bytes) in mirrors.iter().zip(places.chunks_exact_mut(MIRROR_BYTES)) {
        let mut fields = Fields { bytes: &mut *bytes, at: 0 };
        fields.u64(mirror.offset);
        fields.u32(u32::from(mirror.copy));
        fields.u32(0);
        let at = fields.at;
        write_member(&mut bytes[at..], mirror.member, &members[mirror.member]);
    }
}

/// Sets `MB_EXPLAINED` in the `struct mb_choose` at the start of `bytes`, so that the program calls
/// `mb_note`.
pub fn set_explained(bytes: &mut [u8]) {
    bytes[FLAGS] |= 4;
}

/// Writes a `struct mb_member` to the start of `bytes`.
#[inline]
pub fn write_member(bytes: &mut [u8], index: MemberIndex, member: &Member) {
    let config = &member.config;
    let state = match member.state {
        MemberState::InSync => 0,
        MemberState::Rebuilding { .. } => 4,
        MemberState::Failed => 8,
    };
    let mut fields = Fields { bytes: &mut bytes[..MEMBER_BYTES], at: 0 };
    fields.u32(index.get() as u32);
    fields.u32(u32::from(config.rotational) | u32::from(config.write_mostly) << 1 | state);
    fields.u64(config.devid);
    fields.u64(config.size_bytes);
    fields.u64(config.optimal_io_bytes);
    fields.u32(config.queue_depth);
    fields.u32(config.priority);
    fields.u32(member.reads_in_flight);
    fields.u32(member.writes_in_flight);
    fields.u64(member.bytes_in_flight);
    fields.u64(member.submitted_end);
    fields.u64(member.completed_end);
    fields.u64(member.submitted_at.0);
    fields.u64(member.last_wait.0);
    fields.u64(member.reads_completed);
    fields.u64(member.read_bytes);
    fields.u64(member.read_wait.0);
    fields.u64(member.writes_completed);
    fields.u64(member.written_bytes);
    fields.u64(member.write_wait.0);
    fields.u64(member.errors);
}

/// Writes a `struct mb_event` to the start of `bytes`; `outcome` is that of a completion.
#[inline]
pub fn write_event(bytes: &mut [u8], io: &MemberIo, outcome: Option<&Outcome>, now: Nanos) {
    let op = match io.op {
        Op::Read => 0,
        Op::Write => 1,
        Op::Flush => 2,
        Op::Discard => 3,
    };
    let purpose = match io.purpose {
        Purpose::User => 0,
        Purpose::Repair => 1,
        Purpose::Scrub => 2,
        Purpose::Rebuild => 3,
        Purpose::Metadata => 4,
    };
    let result = match outcome.map(|outcome| outcome.result) {
        None | Some(Ok(())) => 0,
        // To a policy, data that do not match their checksums are data that the medium lost.
        Some(Err(IoError::Medium | IoError::Checksum)) => 1,
        Some(Err(IoError::Transport)) => 2,
        Some(Err(IoError::Gone)) => 3,
        Some(Err(IoError::Cancelled)) => 4,
    };
    let superseded = outcome.is_some_and(|outcome| outcome.superseded);
    let extra = io.role == ReadRole::Extra;
    let flags = u8::from(io.background) | u8::from(extra) << 1 | u8::from(superseded) << 2;
    let mut fields = Fields { bytes: &mut bytes[..crate::abi::EVENT_BYTES], at: 0 };
    fields.u64(now.0);
    fields.u64(io.offset);
    fields.u64(io.length);
    fields.u64(outcome.map_or(0, |outcome| outcome.wait.0));
    fields.u64(io.stream);
    fields.u32(io.member.get() as u32);
    fields.put([op, purpose, result, flags]);
    fields.u64(io.volume_offset);
    fields.u64(io.id.0);
}
