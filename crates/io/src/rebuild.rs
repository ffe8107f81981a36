//! The rebuild of stale members, beside whatever else a volume does.
//!
//! Any member that the volume counts as being rebuilt is copied from its mirrors, a step at a
//! time, one member after the other, from its recovery offset to its end; then it is in sync. While
//! requests of clients are under way, it rests after each step for as long as the step took, so
//! that it takes no more than half of the time of the disks; else it goes on at once.
//!
//! Progress is the volume's recovery offset, so a rebuild that meets an error goes on where it was,
//! after a pause.

use crate::driver::Token;
use crate::driver::buffers::BufferKey;
use crate::executor::{Ended, Executor, Order, Target};
use mirrorball_core::io::RequestKind;
use mirrorball_core::member::{MemberIndex, MemberState};
use std::time::{Duration, Instant};

/// The owner of the tokens of rebuild steps.
pub const TOKEN_OWNER: u8 = 9;

/// How much is copied at once: what a hard disk does in about 10 ms.
const STEP_BYTES: u64 = 1 << 20;
/// How long to wait after a step that failed.
const ERROR_PAUSE: Duration = Duration::from_secs(10);
/// Who asks, to policies.
const STREAM: u64 = 1;

/// See the page of this module.
pub struct Rebuild {
    buffer: BufferKey,
    /// When the step under way began.
    under_way: Option<Instant>,
    /// No step begins before.
    rests_until: Instant,
    stopping: bool,
}

impl Rebuild {
    /// A rebuild of whatever needs it.
    pub fn new(executor: &mut Executor) -> Rebuild {
        let buffer = executor.driver.buffers.acquire(STEP_BYTES as usize);
        Rebuild { buffer, under_way: None, rests_until: Instant::now(), stopping: false }
    }

    /// Begins a step if there is something to do, and returns how long to wait for the next if it
    /// is only not time yet.
    pub fn step(&mut self, executor: &mut Executor) -> Option<Duration> {
        if self.under_way.is_some() || self.stopping {
            return None;
        }
        let (member, from, until) = next(executor)?;
        let now = Instant::now();
        if now < self.rests_until {
            return Some(self.rests_until - now);
        }
        self.under_way = Some(now);
        executor.submit(Order {
            token: Token::new(TOKEN_OWNER, 0),
            target: Target::Volume,
            kind: RequestKind::Rebuild(member),
            offset: from,
            length: STEP_BYTES.min(until - from),
            buffer: Some(self.buffer),
            stream: STREAM,
        });
        None
    }

    /// A step ended.
    pub fn on_ended(&mut self, ended: Ended, executor: &Executor) {
        let began = self.under_way.take().expect("a step was under way");
        let now = Instant::now();
        self.rests_until = match ended.result {
            Err(_) => now + ERROR_PAUSE,
            Ok(()) if executor.is_idle() => now,
            Ok(()) => now + (now - began),
        };
    }

    /// Begins no more steps.
    pub fn stop(&mut self) {
        self.stopping = true;
    }
}

/// The first member that is being rebuilt, and the range that is to be.
fn next(executor: &Executor) -> Option<(MemberIndex, u64, u64)> {
    let members = executor.volume()?.members();
    members.iter().find_map(|(index, member)| match member.state {
        MemberState::Rebuilding { recovered_bytes } => {
            Some((index, recovered_bytes, member.config.size_bytes))
        }
        MemberState::InSync | MemberState::Failed => None,
    })
}
