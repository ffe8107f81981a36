//! The service: executor, exports and control socket of a running volume, in one thread.
//!
//! Each turn of the loop handles everything that can happen without waiting, sends what is queued,
//! waits for events of the driver, and gives each event to its owner. All time comes from the
//! driver, so the same loop runs in a simulation.

use crate::Volume;
use crate::control::{Control, ServiceParts};
use crate::driver::{Event, EventOwner, Handle, Token, Waker};
use crate::executor::{Executor, IoReply, IoRequest, Target};
use crate::export::fuse::Fuse;
use crate::export::nbd::server::Server;
use crate::rebuild::Rebuild;
use crate::reopen::{MemberPlace, OpenMember, Reopener};
use crate::scrub::Scrub;
use crate::spares::{FoundSpare, Spares};
use mirrorball_core::io::{RequestKind, VolumeError};
use mirrorball_core::units::{Nanos, format_bytes};
use mirrorball_store::StoreGate;
use rustix::process::{Resource, getrlimit, setrlimit};
use std::io;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

/// Time that a service waits, once it is stopped, for clients that do not receive their replies.
const STOP_TIMEOUT: Nanos = Nanos::from_secs(10);
/// Time that the last flush of a volume may take.
const FLUSH_TIMEOUT: Nanos = Nanos::from_secs(300);

/// Stops a service from another thread or a signal handler.
#[derive(Debug)]
pub struct Stopper(Waker);

impl Stopper {
    /// Makes the service finish the requests in flight, and end.
    pub fn stop(&self) {
        self.0.wake();
    }
}

/// True while a service has something to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ServiceState {
    /// It runs, or finishes requests.
    Running,
    /// It was stopped, and has ended.
    Stopped,
}

/// How far the end of a volume with labels is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum VolumeEnd {
    /// Clients may use it.
    Open,
    Flushing,
    /// The labels are written, or cannot be.
    Recording,
}

/// A running volume, or running members, with everything that exports them.
pub struct Service {
    executor: Executor,
    server: Server,
    fuse: Option<Fuse>,
    control: Option<Control>,
    rebuild: Rebuild,
    scrub: Scrub,
    spares: Spares,
    stop: Handle,
    /// When a service that is being stopped ends even if clients have not received their replies.
    deadline: Option<Nanos>,
    volume_end: VolumeEnd,
    events: Vec<Event>,
}

impl Service {
    /// A service, and its stopper.
    pub fn new(
        mut executor: Executor,
        server: Server,
        control: Option<Control>,
    ) -> io::Result<(Service, Stopper)> {
        let waker = Waker::new()?;
        let stop = executor.driver.add_waker(Token::new(EventOwner::Stop, 0), &waker)?;
        let rebuild = Rebuild::new(&mut executor);
        let scrub = Scrub::new(&executor);
        let service = Service {
            executor,
            server,
            fuse: None,
            control,
            rebuild,
            scrub,
            spares: Spares::default(),
            stop,
            deadline: None,
            volume_end: VolumeEnd::Open,
            events: Vec::new(),
        };
        Ok((service, Stopper(waker)))
    }

    /// Opens members with this before they are rebuilt, and lets spares take the places of those
    /// that fail.
    pub fn with_opener(
        mut self,
        opener: Option<Arc<dyn OpenMember>>,
        spares: Vec<FoundSpare>,
    ) -> io::Result<Service> {
        let driver = &mut self.executor.driver;
        self.spares = Spares::new(spares).with_opener(opener.clone(), driver)?;
        let reopener = opener.map(|opener| Reopener::new(opener, driver)).transpose()?;
        self.rebuild = self.rebuild.with_reopener(reopener);
        Ok(self)
    }

    /// Exports these files, too.
    pub fn with_fuse(self, fuse: Option<Fuse>) -> Service {
        Service { fuse, ..self }
    }

    /// Notes for the user at the end, a line each.
    pub fn last_notes(&self) -> Vec<String> {
        let files = self.fuse.as_ref().and_then(Fuse::teardown_note);
        let volume = self.executor.volume().filter(|volume| !volume.is_read_only());
        let unfinished = volume.and_then(unfinished_note);
        let copies = self.rebuild.copies().iter().filter(|copy| copy.error.is_none());
        let copies = copies.map(|copy| {
            let how = match copy.place {
                MemberPlace::Spare(..) => "the next start begins again",
                _ => "repeat `ctl members replace`",
            };
            format!("`{}` did not take the place of its member: {how}", copy.device())
        });
        files.into_iter().chain(unfinished).chain(copies).collect()
    }

    pub fn executor(&self) -> &Executor {
        &self.executor
    }

    pub fn scrub(&self) -> &Scrub {
        &self.scrub
    }

    /// The rebuilds and copies of members.
    pub fn rebuild(&self) -> &Rebuild {
        &self.rebuild
    }

    pub fn spares(&self) -> &Spares {
        &self.spares
    }

    /// Runs until the service is stopped and the requests in flight are done. Clients that do not
    /// receive their replies are waited for at most 10 s.
    pub fn run(&mut self) -> io::Result<()> {
        // Without it timers may expire 50 us late, which makes models late.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        while self.turn(None)? == ServiceState::Running {}
        Ok(())
    }

    /// Does everything that can be done now, waits for events for at most `timeout`, and handles
    /// them.
    pub fn turn(&mut self, timeout: Option<Nanos>) -> io::Result<ServiceState> {
        let timer = self.settle();
        let mut stop = None;
        if let Some(deadline) = self.deadline {
            let now = self.executor.driver.now();
            let is_over = self.is_done() && self.end_volume();
            if now >= deadline || is_over {
                return Ok(ServiceState::Stopped);
            }
            stop = Some(deadline.saturating_sub(now));
        }
        let timeout = [timer, stop, timeout].into_iter().flatten().min();
        let timeout = timeout.map(|timeout| Duration::from_nanos(timeout.0));
        let mut events = std::mem::take(&mut self.events);
        if let Err(error) = self.executor.wait(timeout, &mut events) {
            // Programs that use the files would wait forever for replies.
            if let Some(fuse) = &self.fuse {
                fuse.abort();
            }
            return Err(error);
        }
        for event in events.drain(..) {
            self.dispatch(event);
        }
        self.events = events;
        Ok(ServiceState::Running)
    }

    /// True if nothing is left to finish.
    fn is_done(&self) -> bool {
        self.server.is_over()
            && self.fuse.as_ref().is_none_or(Fuse::is_over)
            && self.executor.is_idle()
    }

    /// Flushes a volume that clients do not use any more, and records in its labels that it was
    /// stopped in good order. Returns true when that is done.
    fn end_volume(&mut self) -> bool {
        let executor = &mut self.executor;
        let label = executor.records().map(StoreGate::label);
        let is_needed = label.is_some_and(|label| !label.is_clean);
        match self.volume_end {
            VolumeEnd::Open if is_needed => {
                self.volume_end = VolumeEnd::Flushing;
                self.deadline = Some(executor.driver.now() + FLUSH_TIMEOUT);
                executor.submit(IoRequest {
                    token: Token::new(EventOwner::Stop, 0),
                    target: Target::Volume,
                    kind: RequestKind::Flush,
                    offset: 0,
                    length: 0,
                    buffer: None,
                    stream: 0,
                });
                executor.turn();
                false
            }
            VolumeEnd::Open => true,
            VolumeEnd::Flushing => false,
            VolumeEnd::Recording => executor.records().is_none_or(StoreGate::is_recorded),
        }
    }

    /// Records the end of the volume after its last flush.
    fn on_last_flush(&mut self, result: Result<(), VolumeError>) {
        self.volume_end = VolumeEnd::Recording;
        if let (Ok(()), Some(volume)) = (result, self.executor.volume_mut()) {
            volume.change_gate(StoreGate::record_stop);
        }
    }

    /// Does everything that needs no waiting; returns how long until the next timer of the rebuild,
    /// the scrub or a listener.
    fn settle(&mut self) -> Option<Nanos> {
        let background = loop {
            let spares = self.spares.step(&mut self.executor, &mut self.rebuild);
            let rebuild = self.rebuild.step(&mut self.executor);
            let scrub = self.scrub.step(&mut self.executor);
            if let Some(volume) = self.executor.volume_mut() {
                record_policy_fault(volume);
            }
            let timer = [spares, rebuild, scrub].into_iter().flatten().min();
            // Before the turn, which starts the update of the labels that a new spare needs.
            self.reply_to_control();
            self.executor.turn();
            let mut has_replies = false;
            while let Some(reply) = self.executor.poll_reply() {
                self.dispatch_reply(reply);
                has_replies = true;
            }
            if !has_replies {
                break timer;
            }
        };
        self.server.flush(&mut self.executor);
        let executor = &mut self.executor;
        let server = self.server.on_time(executor);
        let control = self.control.as_mut().map(|control| {
            control.reply_recorded(executor);
            control.send_events(executor, (&self.rebuild, &self.scrub, &self.spares));
            control.listen_again(executor)
        });
        let stalled = self.executor.until_stalled();
        [background, server, control.flatten(), stalled].into_iter().flatten().min()
    }

    /// Replies to clients of the control socket whose requests were carried out by other parts, and
    /// records what these did.
    fn reply_to_control(&mut self) {
        while let Some((client, result)) = self.rebuild.poll_reply() {
            if let Some(control) = &mut self.control {
                control.on_replaced(&result, &self.executor);
            }
            match Spares::is_own(client) {
                true => self.spares.on_opened(client, &result),
                false => {
                    owner(&mut self.control).reply_rebuilt(client, result, &mut self.executor);
                }
            }
        }
        while let Some(opened) = self.rebuild.poll_replaced() {
            let control = self.control.iter_mut();
            control.for_each(|it| it.on_replaced(&Ok(opened.clone()), &self.executor));
        }
        while let Some((client, result)) = self.spares.poll_added(&mut self.executor) {
            owner(&mut self.control).reply_text(client, result, &mut self.executor);
        }
        let news = self.spares.take_news();
        if let Some(control) = &mut self.control {
            news.into_iter().for_each(|change| control.on_spare_change(change, &self.executor));
        }
    }

    /// Gives a reply of the executor to the part that sent the request.
    #[inline]
    fn dispatch_reply(&mut self, reply: IoReply) {
        let executor = &mut self.executor;
        match reply.token.owner() {
            EventOwner::NbdRequest => self.server.on_reply(reply, executor),
            EventOwner::Rebuild => self.rebuild.on_reply(reply, executor),
            EventOwner::Scrub => self.scrub.on_reply(reply, executor),
            EventOwner::FuseRequest => owner(&mut self.fuse).on_reply(reply, executor),
            EventOwner::MemberFile
            | EventOwner::SuccessorFile
            | EventOwner::RemoteReceive
            | EventOwner::RemoteSend
            | EventOwner::RemoteConnect
            | EventOwner::Reopen
            | EventOwner::NbdAccept
            | EventOwner::NbdReceive
            | EventOwner::NbdSend
            | EventOwner::NbdHangup
            | EventOwner::NbdExternal
            | EventOwner::NbdBlockStatus
            | EventOwner::ControlAccept
            | EventOwner::ControlReceive
            | EventOwner::ControlSend
            | EventOwner::ControlProgram
            | EventOwner::ControlHangup
            | EventOwner::FuseCall => unreachable!("sends no requests: {:?}", reply.token),
            EventOwner::Stop => self.on_last_flush(reply.result),
        }
    }

    /// Gives an event of the driver to its owner.
    #[inline]
    fn dispatch(&mut self, event: Event) {
        let executor = &mut self.executor;
        match event.token.owner() {
            EventOwner::MemberFile
            | EventOwner::SuccessorFile
            | EventOwner::RemoteReceive
            | EventOwner::RemoteSend
            | EventOwner::RemoteConnect => executor.on_event(&event),
            EventOwner::NbdAccept
            | EventOwner::NbdReceive
            | EventOwner::NbdSend
            | EventOwner::NbdHangup
            | EventOwner::NbdExternal
            | EventOwner::NbdBlockStatus => self.server.on_event(event, executor),
            EventOwner::ControlAccept
            | EventOwner::ControlReceive
            | EventOwner::ControlSend
            | EventOwner::ControlProgram
            | EventOwner::ControlHangup => {
                let (server, rebuild, scrub) = (&self.server, &mut self.rebuild, &mut self.scrub);
                let spares = &mut self.spares;
                let parts = ServiceParts { executor, server, rebuild, scrub, spares };
                owner(&mut self.control).on_event(event, parts);
            }
            // The next turn takes the member from the rebuild's worker.
            EventOwner::Reopen => {}
            EventOwner::FuseCall => owner(&mut self.fuse).on_event(executor),
            EventOwner::Stop => self.stop(),
            EventOwner::Rebuild
            | EventOwner::Scrub
            | EventOwner::NbdRequest
            | EventOwner::FuseRequest => unreachable!("no operation: {:?}", event.token),
        }
    }

    fn stop(&mut self) {
        let executor = &mut self.executor;
        self.deadline = Some(executor.driver.now() + STOP_TIMEOUT);
        self.server.stop(executor);
        self.rebuild.stop();
        self.scrub.stop(executor);
        if let Some(fuse) = &mut self.fuse {
            fuse.stop();
        }
        if let Some(control) = &mut self.control {
            control.stop(executor);
        }
        executor.driver.close(self.stop);
    }
}

fn owner<T>(part: &mut Option<T>) -> &mut T {
    part.as_mut().expect("a part that started an operation is there")
}

/// Raises the limit of open files to the maximum; returns the limit.
pub fn raise_limits() -> usize {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // If it fails, the limit is what it was.
    let _ = setrlimit(Resource::Nofile, limit);
    getrlimit(Resource::Nofile).current.map_or(usize::MAX, |limit| limit as usize)
}

/// Records that a fault ended the program that chooses, if that is so.
fn record_policy_fault(volume: &mut Volume) {
    if let Some(fault) = volume.policy_fault().cloned() {
        volume.change_gate(|store, array| store.record_policy_fault(&fault, array));
    }
}

/// Note on the work that is left for the next start of a volume.
fn unfinished_note(volume: &Volume) -> Option<String> {
    let label = volume.gate().map(StoreGate::label)?;
    (!label.is_clean).then(|| match volume.gate().map_or(0, StoreGate::unsynced_bytes) {
        0 => "the end of the volume could not be recorded: its mirrors are synchronised after the \
              next start"
            .to_owned(),
        bytes => format!(
            "mirrors may still differ in {}, which are synchronised after the next start",
            format_bytes(bytes)
        ),
    })
}
