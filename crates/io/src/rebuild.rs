//! The rebuild of stale members, beside whatever else a volume does.
//!
//! Any member that the volume counts as being rebuilt is copied from its mirrors, a step at a
//! time, one member after the other, from its recovery offset to its end; then it is in sync. While
//! requests of clients are under way, it rests after each step for as long as the step took, so
//! that it takes no more than half of the time of the disks; else it goes on at once. Its owner may
//! set a rate that it does not exceed in either case.
//!
//! A member that failed is copied anew from its beginning, once its owner says so. What is at its
//! address by then may be another file, device or server than what was open, so it is opened again
//! ([`crate::reopen`]); if that cannot be, nothing has changed. So is a member that works and whose
//! file was replaced: what is open then is a file without a name, which is gone with the service.
//! A modelled disk has no address, and is used as it is.
//!
//! Progress is the volume's recovery offset, so a rebuild that meets an error goes on where it was,
//! after a pause.

use crate::driver::buffers::BufferKey;
use crate::driver::{EventOwner, Token};
use crate::executor::{Executor, IoReply, IoRequest, Target};
use crate::reopen::{PathState, ReopenedMember, Reopener};
use mirrorball_core::io::RequestKind;
use mirrorball_core::member::{Member, MemberIndex, MemberState};
use mirrorball_core::units::Nanos;
use std::path::PathBuf;

/// Why a member is not rebuilt.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
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
    /// Nobody holds its data any more.
    #[error(
        "no other member is in sync: there is nothing to rebuild from (stop the volume, and serve \
         it with --trust DEVID of the member that is right)"
    )]
    NoSource,
    /// It is not there yet.
    #[error("the member with devid {devid} cannot be rebuilt yet: {why}")]
    NotBack {
        /// Which.
        devid: u64,
        /// What is amiss.
        why: String,
    },
    /// It is being opened.
    #[error("the member with devid {0} is being opened already")]
    Opening(u64),
    /// It works, but its file has lost its name.
    #[error(
        "the member with devid {devid} works, but there is nothing at `{}` any more: what is \
         written to it is lost when the service ends (put a file of the same size there, and say \
         this again)", path.display()
    )]
    Nameless {
        /// Which.
        devid: u64,
        /// Where its file was.
        path: PathBuf,
    },
    /// It works, its file was replaced, and it cannot be spared.
    #[error(
        "the member with devid {0} works, though another file is at its path by now; it is not \
         given up for that while another member is not in sync"
    )]
    Needed(u64),
}

/// What the owner of a volume wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RebuildRequest {
    /// The member to be rebuilt.
    pub devid: u64,
    /// The rate of all rebuilds from now on, in bytes a second.
    pub rate: Option<u64>,
    /// Whoever requests it, as the answer names it.
    pub client: u32,
}

/// What came of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RebuildStart {
    /// It is fulfilled.
    Started,
    /// The member is being opened; [`Rebuild::poll_reply`] tells how that went.
    Opening,
}

/// What came of a request that took time, for whoever wished it: what to tell the owner.
pub type DelayedReply = (u32, Result<Vec<String>, RebuildError>);

/// How much is copied at once: what a hard disk does in about 10 ms.
const STEP_BYTES: u64 = 1 << 20;
/// How long to wait after a step that failed.
const ERROR_PAUSE: Nanos = Nanos::from_secs(10);
/// Who asks, to policies.
const STREAM: u64 = 1;

/// See the page of this module.
pub struct Rebuild {
    buffer: BufferKey,
    /// When the step under way began, and its length.
    under_way: Option<(Nanos, u64)>,
    /// At most so many bytes a second.
    rate: Option<u64>,
    /// No step begins before.
    rests_until: Nanos,
    stopping: bool,
    /// Opens members again, if they are real.
    reopener: Option<Reopener>,
    /// Whose members are being opened.
    requests: Vec<(MemberIndex, RebuildRequest)>,
    /// Members that begin anew once no step is under way.
    starting: Vec<(MemberIndex, Option<u64>)>,
    replies: Vec<DelayedReply>,
}

impl Rebuild {
    /// A rebuild of whatever needs it.
    pub fn new(executor: &mut Executor) -> Rebuild {
        let buffer = executor.driver.buffers.acquire(STEP_BYTES as usize);
        Rebuild {
            buffer,
            under_way: None,
            rate: None,
            rests_until: Nanos::ZERO,
            stopping: false,
            reopener: None,
            requests: Vec::new(),
            starting: Vec::new(),
            replies: Vec::new(),
        }
    }

    /// Opens members by this before they are rebuilt.
    pub fn with_reopener(self, reopener: Option<Reopener>) -> Rebuild {
        Rebuild { reopener, ..self }
    }

    /// The rate that is not exceeded, in bytes a second.
    pub fn rate(&self) -> Option<u64> {
        self.rate
    }

    /// Begins to rebuild a member.
    ///
    /// # Errors
    /// If there is nothing to rebuild, or nothing to rebuild it from; nothing has changed then.
    pub fn begin(
        &mut self,
        request: RebuildRequest,
        executor: &mut Executor,
    ) -> Result<RebuildStart, RebuildError> {
        let RebuildRequest { devid, rate, .. } = request;
        let volume = executor.volume().ok_or(RebuildError::NoVolume)?;
        let member = volume.members().find(devid).ok_or(RebuildError::NoSuchMember(devid))?;
        if volume.map().profile().copies() == 1 {
            return Err(RebuildError::NoCopy);
        }
        if self.requests.iter().any(|(opening, _)| *opening == member) {
            return Err(RebuildError::Opening(devid));
        }
        let state = volume.members()[member].state;
        if state == MemberState::Failed {
            let is_source = |other: &Member| other.state == MemberState::InSync;
            if !volume.members().iter().any(|(_, other)| is_source(other)) {
                return Err(RebuildError::NoSource);
            }
            let left = executor.detach(member);
            left.map_err(|why| RebuildError::NotBack { devid, why: why.to_owned() })?;
            if self.reopener.is_none() {
                // A step under way, begun before it failed, would count for it as it is then.
                self.starting.push((member, rate));
                return Ok(RebuildStart::Started);
            }
            return self.open(member, request, executor);
        }
        match self.path_state(member, executor) {
            PathState::Missing(path) => Err(RebuildError::Nameless { devid, path }),
            PathState::Replaced if is_needed(member, executor) => Err(RebuildError::Needed(devid)),
            PathState::Replaced => self.open(member, request, executor),
            PathState::Same if state == MemberState::InSync => Err(RebuildError::InSync(devid)),
            PathState::Same => {
                (self.rate, self.rests_until) = (rate, executor.driver.now());
                Ok(RebuildStart::Started)
            }
        }
    }

    /// The next answer to a request that took time.
    pub fn poll_reply(&mut self) -> Option<DelayedReply> {
        self.replies.pop()
    }

    /// Compares the file at the path of a member with the open one.
    pub fn path_state(&self, member: MemberIndex, executor: &Executor) -> PathState {
        let reopener = self.reopener.as_ref();
        reopener.map_or(PathState::Same, |reopener| reopener.path_state(member, executor))
    }

    fn open(
        &mut self,
        member: MemberIndex,
        request: RebuildRequest,
        executor: &Executor,
    ) -> Result<RebuildStart, RebuildError> {
        let size_bytes = executor.size_bytes(Target::Member(member));
        let reopener = self.reopener.as_mut().expect("only a member with an address is opened");
        let begun = reopener.open(member, size_bytes);
        let devid = request.devid;
        begun.map_err(|error| RebuildError::NotBack { devid, why: error.to_string() })?;
        self.requests.push((member, request));
        Ok(RebuildStart::Opening)
    }

    /// Takes over what was opened. No step is under way, so none is mistaken for one that wrote to
    /// it.
    fn install(&mut self, executor: &mut Executor) {
        while let Some(ReopenedMember { member, result }) =
            self.reopener.as_ref().and_then(Reopener::poll)
        {
            let place = self.requests.iter().position(|(opening, _)| *opening == member);
            let (_, request) = self.requests.remove(place.expect("somebody wished it"));
            let devid = request.devid;
            let installed = match result {
                Err(why) => Err(RebuildError::NotBack { devid, why }),
                // One that works may be needed by now.
                Ok(_) if !is_failed(member, executor) && is_needed(member, executor) => {
                    Err(RebuildError::Needed(devid))
                }
                Ok((source, notes)) => {
                    let attached = executor.attach(member, source).map(|()| notes);
                    attached
                        .map_err(|error| RebuildError::NotBack { devid, why: error.to_string() })
                }
            };
            if installed.is_ok() {
                self.start(member, request.rate, executor);
            }
            self.replies.push((request.client, installed));
        }
    }

    fn start(&mut self, member: MemberIndex, rate: Option<u64>, executor: &mut Executor) {
        (self.rate, self.rests_until) = (rate, executor.driver.now());
        let volume = executor.volume_mut().expect("its member is rebuilt");
        volume.set_member_state(member, MemberState::Rebuilding { recovered_bytes: 0 });
    }

    /// Begins a step if there is something to do, and returns how long to wait for the next if it
    /// is only not time yet.
    pub fn step(&mut self, executor: &mut Executor) -> Option<Nanos> {
        if self.under_way.is_some() || self.stopping {
            return None;
        }
        for (member, rate) in std::mem::take(&mut self.starting) {
            self.start(member, rate, executor);
        }
        self.install(executor);
        let (member, from, until) = next(executor)?;
        let now = executor.driver.now();
        if now < self.rests_until {
            return Some(self.rests_until - now);
        }
        let length = STEP_BYTES.min(until - from);
        self.under_way = Some((now, length));
        executor.submit(IoRequest {
            token: Token::new(EventOwner::Rebuild, 0),
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
    pub fn on_reply(&mut self, ended: IoReply, executor: &Executor) {
        let (began, length) = self.under_way.take().expect("a step was under way");
        let now = executor.driver.now();
        let least = self.rate.map_or(Nanos::ZERO, |rate| pace(length, rate));
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

/// How long a step of this length takes at a rate in bytes a second; at most a day.
fn pace(length: u64, rate: u64) -> Nanos {
    const DAY: Nanos = Nanos::from_secs(86_400);
    let nanos = u128::from(length) * 1_000_000_000 / u128::from(rate.max(1));
    u64::try_from(nanos).map_or(DAY, |nanos| Nanos(nanos).min(DAY))
}

fn is_failed(member: MemberIndex, executor: &Executor) -> bool {
    let volume = executor.volume().expect("it is a member of one");
    volume.members()[member].state == MemberState::Failed
}

/// Whether a member may be the only one with some of the data.
fn is_needed(member: MemberIndex, executor: &Executor) -> bool {
    let members = executor.volume().expect("it is a member of one").members();
    members.iter().any(|(index, other)| index != member && other.state != MemberState::InSync)
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
mod tests;
