//! The helpers that a program calls, and the state of the host that they read and change.

use crate::abi::{COUNTERS, HELPER_MODULE, MEMBER_BYTES, MIRRORS_MAX};
use mirrorball_core::rng::Rng;
use std::fmt;
use wasmtime::{Caller, Engine, Linker, Memory, StoreLimits};

/// State of the helpers; one for each instance.
pub(crate) struct HostState {
    pub(crate) operation: HelperOperation,
    /// The volume's generator while an operation runs that may draw.
    pub(crate) rng: Rng,
    /// Records of all members, `MEMBER_BYTES` each; filled only for programs that ask for members.
    pub(crate) members: Vec<u8>,
    /// Request by `mb_hedge`, `mb_split` or `mb_read_all`.
    pub(crate) wish: Wish,
    pub(crate) counters: [i64; COUNTERS],
    /// Scores by mirror, while a choice is explained.
    pub(crate) notes: Option<Vec<(u32, i64)>>,
    /// The program's memory, once there is an instance.
    pub(crate) memory: Option<Memory>,
    /// Bounds of memory and tables.
    pub(crate) limits: StoreLimits,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum HelperOperation {
    Start,
    /// `init`.
    Init,
    /// `change`.
    Change,
    /// `choose`.
    Choose,
    /// `submit`.
    Submit,
    /// `complete`.
    Complete,
}

/// How a read is made besides the mirror that `choose` returns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wish {
    /// From that mirror only.
    Nothing,
    /// From another mirror, too, after a while.
    Hedge {
        /// Index of the other mirror.
        backup: u32,
        /// Time to wait, in nanoseconds.
        after_ns: u64,
    },
    /// In pieces from the mirrors of this set.
    Split(u32),
    /// From all mirrors of this set at once.
    All(u32),
}

/// Why a helper ends the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum HelperFault {
    /// The program called `mb_error`.
    #[error("called mb_error({0})")]
    Reported(u32),
    /// A helper was called in an operation that it does not belong to.
    #[error("called mb_{helper}, which {operation} may not call")]
    Misplaced { helper: &'static str, operation: HelperOperation },
    /// `mb_member` was given a place outside of the program's memory.
    #[error("gave mb_member a place outside of its memory")]
    MemberPlace,
    /// `mb_count` was given a counter that does not exist.
    #[error("called mb_count for counter {0}, but the counters are 0 to 15")]
    UnknownCounter(u32),
}

impl fmt::Display for HelperOperation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            HelperOperation::Start => "the start",
            HelperOperation::Init => "init",
            HelperOperation::Change => "change",
            HelperOperation::Choose => "choose",
            HelperOperation::Submit => "submit",
            HelperOperation::Complete => "complete",
        })
    }
}

impl HostState {
    /// The state of an instance that is about to start.
    pub(crate) fn new(limits: StoreLimits) -> HostState {
        HostState {
            operation: HelperOperation::Start,
            rng: Rng::new(0),
            members: Vec::new(),
            wish: Wish::Nothing,
            counters: [0; COUNTERS],
            notes: None,
            memory: None,
            limits,
        }
    }

    /// Fails unless the running operation is one of `allowed`.
    fn check(&self, helper: &'static str, allowed: &[HelperOperation]) -> Result<(), HelperFault> {
        let operation = self.operation;
        if allowed.contains(&operation) {
            Ok(())
        } else {
            Err(HelperFault::Misplaced { helper, operation })
        }
    }
}

/// Makes a linker with the helpers of the interface.
pub(crate) fn linker(engine: &Engine) -> wasmtime::Result<Linker<HostState>> {
    let mut linker = Linker::new(engine);
    linker.func_wrap(HELPER_MODULE, "random", random)?;
    linker.func_wrap(HELPER_MODULE, "member", member)?;
    linker.func_wrap(HELPER_MODULE, "hedge", hedge)?;
    linker.func_wrap(HELPER_MODULE, "split", split)?;
    linker.func_wrap(HELPER_MODULE, "read_all", read_all)?;
    linker.func_wrap(HELPER_MODULE, "count", count)?;
    linker.func_wrap(HELPER_MODULE, "note", note)?;
    linker.func_wrap(HELPER_MODULE, "error", error)?;
    Ok(linker)
}

fn random(mut caller: Caller<'_, HostState>) -> wasmtime::Result<u64> {
    let state = caller.data_mut();
    state.check(
        "random",
        &[HelperOperation::Choose, HelperOperation::Submit, HelperOperation::Complete],
    )?;
    Ok(state.rng.next_u64())
}

fn member(mut caller: Caller<'_, HostState>, index: u32, place: u32) -> wasmtime::Result<i64> {
    let state = caller.data();
    state.check(
        "member",
        &[HelperOperation::Choose, HelperOperation::Init, HelperOperation::Change],
    )?;
    let Some(memory) = state.memory else {
        return Err(HelperFault::MemberPlace.into());
    };
    let (memory, state) = memory.data_and_store_mut(&mut caller);
    let Some(record) = state.members.chunks_exact(MEMBER_BYTES).nth(index as usize) else {
        return Ok(-1);
    };
    let place = place as usize;
    let target = memory.get_mut(place..place + MEMBER_BYTES).ok_or(HelperFault::MemberPlace)?;
    target.copy_from_slice(record);
    Ok(0)
}

fn hedge(mut caller: Caller<'_, HostState>, backup: u32, after_ns: u64) -> wasmtime::Result<()> {
    caller.data().check("hedge", &[HelperOperation::Choose])?;
    caller.data_mut().wish = Wish::Hedge { backup, after_ns };
    Ok(())
}

fn split(mut caller: Caller<'_, HostState>, mask: u32) -> wasmtime::Result<()> {
    caller.data().check("split", &[HelperOperation::Choose])?;
    caller.data_mut().wish = Wish::Split(mask);
    Ok(())
}

fn read_all(mut caller: Caller<'_, HostState>, mask: u32) -> wasmtime::Result<()> {
    caller.data().check("read_all", &[HelperOperation::Choose])?;
    caller.data_mut().wish = Wish::All(mask);
    Ok(())
}

fn count(mut caller: Caller<'_, HostState>, id: u32, amount: i64) -> wasmtime::Result<()> {
    let state = caller.data_mut();
    // A choice that is explained is not made.
    if state.notes.is_none() {
        let counter = state.counters.get_mut(id as usize);
        let counter = counter.ok_or(HelperFault::UnknownCounter(id))?;
        *counter = counter.wrapping_add(amount);
    }
    Ok(())
}

fn note(mut caller: Caller<'_, HostState>, index: u32, score: i64) {
    // A call has fuel for thousands; the last of a mirror counts.
    if let Some(notes) = &mut caller.data_mut().notes {
        notes.retain(|(known, _)| *known != index);
        if notes.len() < MIRRORS_MAX {
            notes.push((index, score));
        }
    }
}

fn error(code: u32) -> wasmtime::Result<()> {
    Err(HelperFault::Reported(code).into())
}
