//! The rebuild of stale members, beside whatever else a volume does.
//!
//! Any member that the volume counts as being rebuilt is copied from its mirrors, a step at a
//! time, one member after the other, from its recovery offset to its end; then it is in sync. While
//! requests of clients are under way, it rests after each step for as long as the step took, so
//! that it takes no more than half of the time of the disks; else it goes on at once. Its owner may
//! set a rate that it does not exceed in either case.
//!
//! A member that failed is copied anew from its beginning, once its owner says so and it is there:
//! what it was asked before has ended, a file has its size again, another machine answers.
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

/// Why a member is not rebuilt.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RebuildError {
    /// There is no volume.
    #[error("the members are served each on its own: none can be rebuilt")]
    NoVolume,
    /// There is no such member.
    #[error("there is no member with devid {0}")]
    NoSuchMember(u64),
    /// Nothing is wrong with it.
    #[error("the member with devid {0} is in sync")]
    InSync(u64),
    /// No other member holds its data.
    #[error("the profile keeps one copy of everything: there is nothing to rebuild from")]
    NoCopy,
    /// It is not there yet.
    #[error("the member with devid {devid} cannot be rebuilt yet: {why}")]
    NotBack {
        /// Which.
        devid: u64,
        /// What is amiss.
        why: &'static str,
    },
}

/// How much is copied at once: what a hard disk does in about 10 ms.
const STEP_BYTES: u64 = 1 << 20;
/// How long to wait after a step that failed.
const ERROR_PAUSE: Duration = Duration::from_secs(10);
/// Who asks, to policies.
const STREAM: u64 = 1;

/// See the page of this module.
pub struct Rebuild {
    buffer: BufferKey,
    /// When the step under way began, and its length.
    under_way: Option<(Instant, u64)>,
    /// At most so many bytes a second.
    rate: Option<u64>,
    /// No step begins before.
    rests_until: Instant,
    stopping: bool,
}

impl Rebuild {
    /// A rebuild of whatever needs it.
    pub fn new(executor: &mut Executor) -> Rebuild {
        let buffer = executor.driver.buffers.acquire(STEP_BYTES as usize);
        Rebuild {
            buffer,
            under_way: None,
            rate: None,
            rests_until: Instant::now(),
            stopping: false,
        }
    }

    /// The rate that is not exceeded, in bytes a second.
    pub fn rate(&self) -> Option<u64> {
        self.rate
    }

    /// Begins to rebuild the member with this devid, and sets the rate of all rebuilds from now on.
    ///
    /// # Errors
    /// If there is nothing to rebuild, or nothing to rebuild it from; nothing has changed then.
    pub fn begin(
        &mut self,
        devid: u64,
        rate: Option<u64>,
        executor: &mut Executor,
    ) -> Result<(), RebuildError> {
        let volume = executor.volume().ok_or(RebuildError::NoVolume)?;
        let member = volume.members().find(devid).ok_or(RebuildError::NoSuchMember(devid))?;
        if volume.map().profile().copies() == 1 {
            return Err(RebuildError::NoCopy);
        }
        match volume.members()[member].state {
            MemberState::InSync => return Err(RebuildError::InSync(devid)),
            MemberState::Rebuilding { .. } => {}
            MemberState::Failed => {
                let back = executor.readmit(member);
                back.map_err(|why| RebuildError::NotBack { devid, why })?;
                let volume = executor.volume_mut().ok_or(RebuildError::NoVolume)?;
                volume.set_member_state(member, MemberState::Rebuilding { recovered_bytes: 0 });
            }
        }
        (self.rate, self.rests_until) = (rate, Instant::now());
        Ok(())
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
        let length = STEP_BYTES.min(until - from);
        self.under_way = Some((now, length));
        executor.submit(Order {
            token: Token::new(TOKEN_OWNER, 0),
            target: Target::Volume,
            kind: RequestKind::Rebuild(member),
            offset: from,
            length,
            buffer: Some(self.buffer),
            stream: STREAM,
        });
        None
    }

    /// A step ended.
    pub fn on_ended(&mut self, ended: Ended, executor: &Executor) {
        let (began, length) = self.under_way.take().expect("a step was under way");
        let now = Instant::now();
        let least = self.rate.map_or(Duration::ZERO, |rate| pace(length, rate));
        let rests_until = match ended.result {
            Err(_) => now + ERROR_PAUSE,
            Ok(()) if executor.is_idle() => now,
            Ok(()) => now + (now - began),
        };
        self.rests_until = rests_until.max(began + least);
    }

    /// Begins no more steps.
    pub fn stop(&mut self) {
        self.stopping = true;
    }
}

/// How long a step of this length takes at a rate in bytes a second; within a day, so that a clock
/// can be set by it.
fn pace(length: u64, rate: u64) -> Duration {
    let seconds = length as f64 / rate.max(1) as f64;
    Duration::from_secs_f64(seconds.min(86_400.0))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_kept_and_none_is_too_small() {
        assert_eq!(pace(STEP_BYTES, 100 << 20), Duration::from_millis(10));
        assert_eq!(pace(STEP_BYTES, 0), pace(STEP_BYTES, 1));
        assert_eq!(pace(u64::MAX, 1), Duration::from_secs(86_400));
    }
}
