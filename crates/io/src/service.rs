//! The loop of a running volume: executor, NBD server, FUSE files, ublk devices and control socket
//! in one thread.

use crate::assemble::MemberOpener;
use crate::control::{self, Control, ServiceParts};
use crate::driver::buffers::{BufferKey, Slice};
use crate::driver::{Event, Handle, Token};
use crate::executor::{self, Executor, IoReply};
use crate::export::fuse::{self, Fuse};
use crate::export::nbd::server::{self, Server};
use crate::export::ublk::{self, Ublk};
use crate::rebuild::{self, Rebuild};
use crate::reopen::{self, Reopener};
use rustix::process::{Resource, getrlimit, setrlimit};
use std::io::{self, Write};
use std::num::NonZeroU64;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// The owner of the token of the wake-up.
const WAKE: u8 = 8;

/// How long a service that is stopped waits for clients that do not take their answers.
const STOP_PATIENCE: Duration = Duration::from_secs(10);

/// Ends a service from another thread, or from the handler of a signal.
#[derive(Debug)]
pub struct Stopper(UnixStream);

impl Stopper {
    /// Lets the service finish what is under way, and end.
    pub fn stop(&self) {
        // If that fails the service is gone already.
        let _ = (&self.0).write(&[1]);
    }
}

/// A volume, or members, served.
pub struct Service {
    executor: Executor,
    server: Server,
    fuse: Option<Fuse>,
    ublk: Option<Ublk>,
    control: Option<Control>,
    rebuild: Rebuild,
    wake: Handle,
    wake_buffer: BufferKey,
    /// When a service that is being stopped ends, whoever still has to be heard.
    deadline: Option<Instant>,
}

impl Service {
    /// A service, and what ends it.
    ///
    /// # Errors
    /// If the system has no socket to spare.
    pub fn new(
        mut executor: Executor,
        server: Server,
        control: Option<Control>,
    ) -> io::Result<(Service, Stopper)> {
        let (ours, theirs) = UnixStream::pair()?;
        let wake = executor.driver.adopt(ours.into())?;
        let wake_buffer = executor.driver.buffers.acquire(1);
        let token = Token::new(WAKE, 0);
        executor.driver.receive(token, wake, Slice::data(wake_buffer, 0, 1));
        let rebuild = Rebuild::new(&mut executor);
        let service = Service {
            executor,
            server,
            fuse: None,
            ublk: None,
            control,
            rebuild,
            wake,
            wake_buffer,
            deadline: None,
        };
        Ok((service, Stopper(theirs)))
    }

    /// Opens members again by this before they are rebuilt.
    ///
    /// # Errors
    /// If the system has no socket to spare.
    pub fn with_opener(mut self, opener: Option<MemberOpener>) -> io::Result<Service> {
        let driver = &mut self.executor.driver;
        let reopener = opener.map(|opener| Reopener::new(opener, driver)).transpose()?;
        self.rebuild = self.rebuild.with_reopener(reopener);
        Ok(self)
    }

    /// Serves these files, too.
    pub fn with_fuse(self, fuse: Option<Fuse>) -> Service {
        Service { fuse, ..self }
    }

    /// Serves these block devices, too.
    pub fn with_ublk(self, ublk: Option<Ublk>) -> Service {
        Service { ublk, ..self }
    }

    /// What the owner should be told of how it ended, a line each.
    pub fn last_notes(&self) -> Vec<String> {
        let files = self.fuse.as_ref().and_then(Fuse::teardown_note);
        let devices = self.ublk.as_ref().map(Ublk::teardown_notes).unwrap_or_default();
        files.into_iter().chain(devices).collect()
    }

    /// What was driven.
    pub fn executor(&self) -> &Executor {
        &self.executor
    }

    /// Serves until it is stopped; what was under way then is finished first. Only for clients
    /// that do not take their answers there is an end to waiting.
    ///
    /// # Errors
    /// If the driver fails.
    pub fn run(&mut self) -> io::Result<()> {
        // Waits end when they should, not up to 50 us later. Without it models are merely late.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        let mut done = Vec::new();
        loop {
            let rest = self.settle();
            if let Some(deadline) = self.deadline {
                let unmounted = self.fuse.as_ref().is_none_or(Fuse::is_over);
                let removed = self.ublk.as_ref().is_none_or(Ublk::is_over);
                let gone = self.server.is_over() && unmounted && removed;
                let over = gone && self.executor.is_idle();
                if over || Instant::now() >= deadline {
                    return Ok(());
                }
            }
            let stop = self.deadline.map(|at| at.saturating_duration_since(Instant::now()));
            let patience = [rest, stop].into_iter().flatten().min();
            if let Err(error) = self.executor.wait(patience, &mut done) {
                // Nobody answers any more, and whoever waits for a file must not wait for ever.
                if let Some(fuse) = &self.fuse {
                    fuse.abort();
                }
                return Err(error);
            }
            for done in done.drain(..) {
                self.dispatch(done);
            }
        }
    }

    /// Lets everything happen that can without waiting; returns how long a rebuild or a listener
    /// rests.
    fn settle(&mut self) -> Option<Duration> {
        let rest = loop {
            let rest = self.rebuild.step(&mut self.executor);
            self.executor.turn();
            let mut ended = false;
            while let Some(end) = self.executor.poll_reply() {
                self.end(end);
                ended = true;
            }
            if !ended {
                break rest;
            }
        };
        while let Some((client, result)) = self.rebuild.poll_reply() {
            asked(&mut self.control).reply_later(client, result, &mut self.executor);
        }
        self.server.flush(&mut self.executor);
        let executor = &mut self.executor;
        let server = self.server.listen_again(executor);
        let control = self.control.as_mut().and_then(|control| control.listen_again(executor));
        [rest, server, control].into_iter().flatten().min()
    }

    /// The end of an order belongs to whoever gave it.
    #[inline]
    fn end(&mut self, end: IoReply) {
        let executor = &mut self.executor;
        match end.token.owner() {
            rebuild::TOKEN_OWNER => self.rebuild.on_reply(end, executor),
            fuse::ORDER_OWNER => asked(&mut self.fuse).on_reply(end, executor),
            ublk::ORDER_OWNER => asked(&mut self.ublk).on_reply(end, executor),
            _ => self.server.on_reply(end, executor),
        }
    }

    fn dispatch(&mut self, done: Event) {
        let owner = done.token.owner();
        if executor::owns(done.token) {
            self.executor.on_event(&done);
        } else if server::TOKEN_OWNERS.contains(&owner) {
            self.server.on_event(done, &mut self.executor);
        } else if control::TOKEN_OWNERS.contains(&owner) {
            let control = asked(&mut self.control);
            let (executor, server) = (&mut self.executor, &self.server);
            control.on_event(done, ServiceParts { executor, server, rebuild: &mut self.rebuild });
        } else if owner == reopen::BELL_OWNER {
            self.rebuild.on_bell(&mut self.executor.driver);
        } else if owner == fuse::BELL_OWNER {
            asked(&mut self.fuse).on_event(&done, &mut self.executor);
        } else if [ublk::COMMAND_OWNER, ublk::BELL_OWNER].contains(&owner) {
            asked(&mut self.ublk).on_event(&done, &mut self.executor);
        } else if owner == WAKE && self.deadline.is_none() {
            self.deadline = Some(Instant::now() + STOP_PATIENCE);
            self.server.stop(&mut self.executor);
            self.rebuild.stop();
            if let Some(fuse) = &mut self.fuse {
                fuse.stop();
            }
            if let Some(ublk) = &mut self.ublk {
                ublk.stop();
            }
            if let Some(control) = &mut self.control {
                control.stop(&mut self.executor);
            }
            self.executor.driver.close(self.wake);
            self.executor.driver.buffers.release(self.wake_buffer);
        }
    }
}

/// Whoever an end belongs to.
fn asked<T>(door: &mut Option<T>) -> &mut T {
    door.as_mut().expect("it started what ended")
}

/// Lets this process have as many open files as it may, and returns how many that is.
pub fn raise_limits() -> usize {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // If it fails, the limit is what it was.
    let _ = setrlimit(Resource::Nofile, limit);
    getrlimit(Resource::Nofile).current.map_or(usize::MAX, |limit| limit as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_token_has_one_owner_at_most() {
        let nbd = server::TOKEN_OWNERS.into_iter().chain(control::TOKEN_OWNERS);
        let files = [fuse::BELL_OWNER, fuse::ORDER_OWNER];
        let devices = [ublk::COMMAND_OWNER, ublk::ORDER_OWNER, ublk::BELL_OWNER];
        let others = [rebuild::TOKEN_OWNER, reopen::BELL_OWNER, WAKE];
        let owners: Vec<u8> = nbd.chain(files).chain(devices).chain(others).collect();
        for (index, &owner) in owners.iter().enumerate() {
            assert!(!owners[..index].contains(&owner), "{owner}");
            assert!(!executor::owns(Token::new(owner, 0)), "{owner}");
        }
    }
}
