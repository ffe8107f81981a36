//! The user of a tortured volume: members that are rebuilt, replaced, removed and failed, scrubs,
//! and other commands. A whole service gets them by its control socket.

use super::super::history::UserCommand;
use super::front::{CommandEffect, Front};
use super::start::disk_address;
use super::{Machine, Served, TURNS_MAX};
use crate::control::protocol::{ControlRequest, ScrubAction};
use crate::driver::sim::ObjectId;
use crate::member::file::Occupied;
use crate::rebuild::RebuildRequest;
use crate::reopen::MemberPlace;
use crate::scrub::ScrubRequest;
use mirrorball_core::member::{MemberIndex, MemberState};
use mirrorball_core::units::Nanos;
use mirrorball_store::StoreGate;

impl Machine {
    /// Sends a command, if there is a service that takes it.
    pub(super) fn command(&mut self, command: UserCommand) {
        let scrub = |action| ControlRequest::Scrub {
            action,
            repair: false,
            from: None,
            rate_bytes_per_s: None,
        };
        self.send(match command {
            UserCommand::Status => ControlRequest::Status,
            UserCommand::Statistics => ControlRequest::Stats { reset: true },
            UserCommand::Events => ControlRequest::Events { follow: false },
            UserCommand::PauseScrub => scrub(ScrubAction::Pause),
            UserCommand::ResumeScrub => scrub(ScrubAction::Resume),
            UserCommand::CancelScrub => scrub(ScrubAction::Cancel),
            UserCommand::KeepPolicy => {
                let name = "round-robin".to_owned();
                ControlRequest::SetPolicy { name, object: None, keep: true }
            }
        });
    }

    fn send(&mut self, request: ControlRequest) {
        if let Some(Served { front: Front::Service(front), .. }) = &mut self.served {
            front.send_command(&request, CommandEffect::None);
        }
    }

    /// Fails a member that works. It is refused if the volume cannot do without it.
    pub(super) fn fail(&mut self, member: usize) {
        self.changes += 1;
        self.has_lost_good = true;
        self.on_member_lost();
        self.on_others_lost(member);
        self.model.forget_reads();
        self.send(ControlRequest::Fail { devid: member as u64 + 1 });
    }

    /// Has a member rebuilt, on another disk if one is given. It is refused while the member is in
    /// sync, or its mirrors are gone.
    pub(super) fn begin_rebuild(&mut self, member: usize, disk: Option<ObjectId>) {
        self.has_lost_good = true;
        self.on_others_lost(member);
        let Some(volume) = self.volume() else { return };
        let has_device = |store: &StoreGate| store.has_device(MemberIndex(member as u16));
        if !volume.gate().is_some_and(has_device) {
            // A disk that was removed and is put back is a new one.
            let file = self.rows[member];
            self.disk(file).is_new = true;
        }
        let devid = member as u64 + 1;
        match self.served.as_mut().map(|served| &mut served.front) {
            None => {}
            Some(Front::Parts(parts)) => {
                let place = |disk| MemberPlace::New(disk_address(disk), Occupied::Refuse);
                let replacement = disk.map(place);
                let client = member as u32;
                let request = RebuildRequest { devid, replacement, rate: None, client };
                let _ = parts.rebuild.begin(request, &mut parts.executor);
            }
            Some(Front::Service(front)) => match disk {
                None => {
                    let request = ControlRequest::Rebuild { devid, rate_bytes_per_s: None };
                    front.send_command(&request, CommandEffect::None);
                }
                Some(disk) => {
                    let request = ControlRequest::Replace {
                        devid: Some(devid),
                        device: disk_address(disk).to_string(),
                        occupied: false,
                        rate_bytes_per_s: None,
                    };
                    front.send_command(&request, CommandEffect::Replaced { member, disk });
                }
            },
        }
    }

    /// Has an empty disk made a spare.
    pub(super) fn add_spare(&mut self) {
        let disk = self.add_disk();
        let device = disk_address(disk).to_string();
        self.send(ControlRequest::AddSpare { device, occupied: false });
    }

    /// Has a disk removed that failed.
    pub(super) fn remove(&mut self, member: MemberIndex) {
        match self.served.as_mut().map(|served| &mut served.front) {
            None => {}
            Some(Front::Service(front)) => {
                let request = ControlRequest::Remove { devid: u64::from(member.0) + 1 };
                front.send_command(&request, CommandEffect::None);
            }
            Some(Front::Parts(parts)) => {
                let executor = &mut parts.executor;
                let has_failed = executor.volume().is_some_and(|volume| {
                    volume.members()[member].state == MemberState::Failed
                        && volume.gate().is_none_or(|store| store.has_device(member))
                });
                let is_opening = parts.rebuild.is_opening(member);
                if !has_failed || is_opening || executor.remove(member).is_err() {
                    return;
                }
                let is_removed = executor.volume_mut().and_then(|volume| {
                    volume.change_gate(|store, array| store.remove_device(member, array))
                });
                assert_eq!(is_removed, Some(true), "a member that has failed can be removed");
            }
        }
    }

    /// Starts a scrub that repairs: of mirrors, by the data of the first member. It is refused
    /// while one is under way.
    pub(super) fn start_scrub(&mut self) {
        let request = ScrubRequest { repairs: true, from: Some(1), rate: None };
        match self.served.as_mut().map(|served| &mut served.front) {
            None => {}
            Some(Front::Parts(parts)) => {
                let _ = parts.scrub.start(request, &mut parts.executor);
            }
            Some(Front::Service(front)) => {
                front.send_command(&scrub_request(request), CommandEffect::None);
            }
        }
    }

    /// Starts a scrub, in the place of one that goes on.
    pub(super) fn restart_scrub(&mut self, request: ScrubRequest) -> Result<(), String> {
        self.cancel_scrub()?;
        match self.served.as_mut().map(|served| &mut served.front) {
            None => Ok(()),
            Some(Front::Parts(parts)) => {
                let started = parts.scrub.start(request, &mut parts.executor);
                started.map_err(|error| error.to_string())
            }
            Some(Front::Service(_)) => {
                self.send(scrub_request(request));
                self.settle_commands()
            }
        }
    }

    /// Ends the scrub that goes on, if there is one.
    pub(super) fn cancel_scrub(&mut self) -> Result<(), String> {
        match self.served.as_mut().map(|served| &mut served.front) {
            None => Ok(()),
            Some(Front::Parts(parts)) => {
                let _ = parts.scrub.cancel(&mut parts.executor);
                Ok(())
            }
            Some(Front::Service(_)) => {
                self.settle_commands()?;
                self.command(UserCommand::CancelScrub);
                self.settle_commands()
            }
        }
    }

    /// Returns true if a command has no response yet.
    pub(super) fn has_commands(&self) -> bool {
        match &self.served {
            Some(Served { front: Front::Service(front), .. }) => front.has_commands(),
            _ => false,
        }
    }

    /// Waits for the responses to all commands.
    fn settle_commands(&mut self) -> Result<(), String> {
        for _ in 0..TURNS_MAX {
            if !self.has_commands() {
                return Ok(());
            }
            self.turn(Nanos::from_millis(1))?;
        }
        Err("a command gets no response".to_owned())
    }
}

fn scrub_request(request: ScrubRequest) -> ControlRequest {
    let ScrubRequest { repairs, from, rate } = request;
    ControlRequest::Scrub {
        action: ScrubAction::Start,
        repair: repairs,
        from,
        rate_bytes_per_s: rate,
    }
}
