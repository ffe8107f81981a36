//! The user of a volume: commands on the control socket.

use super::{Machine, RECOVERY_TIME_MAX, REQUEST_TIME_MAX};
use crate::history::UserCommand;
use mirrorball_core::member::MemberState;
use mirrorball_core::units::Nanos;
use mirrorball_io::control::protocol::{ControlRequest, ScrubAction};
use mirrorball_store::label::{ScrubProgress, ScrubState};

impl Machine {
    /// Sends a command that changes no member.
    pub(crate) fn command(&mut self, command: UserCommand) {
        self.send(&match command {
            UserCommand::Status => ControlRequest::Status,
            UserCommand::Statistics => ControlRequest::Stats { reset: true },
            UserCommand::Events => ControlRequest::Events { follow: false },
            UserCommand::PauseScrub => scrub(ScrubAction::Pause, false, None),
            UserCommand::ResumeScrub => scrub(ScrubAction::Resume, false, None),
            UserCommand::CancelScrub => scrub(ScrubAction::Cancel, false, None),
            UserCommand::KeepPolicy => {
                let name = "round-robin".to_owned();
                ControlRequest::SetPolicy { name, object: None, keep: true }
            }
        });
    }

    fn send(&mut self, request: &ControlRequest) {
        if let Some(served) = &mut self.served {
            served.send_command(request, None);
        }
    }

    /// Fails a member that works. It is refused if the volume cannot do without it.
    pub(crate) fn fail(&mut self, member: usize) {
        self.on_member_lost();
        self.lose_all_kept(member);
        self.send(&ControlRequest::Fail { devid: member as u64 + 1 });
    }

    /// Has a member rebuilt. It is refused while the member is in sync, or its mirrors are gone.
    pub(crate) fn rebuild(&mut self, member: usize) {
        self.damage.has_lost_good = true;
        let devid = member as u64 + 1;
        self.send(&ControlRequest::Rebuild { devid, device: None, rate_bytes_per_s: None });
    }

    /// Has an empty disk put in the place of a member. One on another machine replaces one there
    /// that is not in sync; for one in sync it would be refused.
    pub(crate) fn replace(&mut self, member: usize) {
        self.damage.has_lost_good = true;
        let is_in_sync = self.state(member) == Some(MemberState::InSync);
        let is_remote = self.disk(self.rows[member]).server.is_some() && !is_in_sync;
        if self.served.is_none() {
            return;
        }
        let disk = self.add_disk(is_remote);
        let request = ControlRequest::Replace {
            devid: Some(member as u64 + 1),
            device: self.disk(disk).address.to_string(),
            occupied: false,
            rate_bytes_per_s: None,
        };
        self.kept.replace(member, disk);
        self.served.iter_mut().for_each(|served| served.send_command(&request, Some(disk)));
    }

    /// Has a disk removed that failed.
    pub(crate) fn remove(&mut self, member: usize) {
        self.send(&ControlRequest::Remove { devid: member as u64 + 1 });
    }

    /// Has an empty disk made a spare.
    pub(crate) fn add_spare(&mut self) {
        if self.served.is_some() {
            let disk = self.add_disk(false);
            let device = self.disk(disk).address.to_string();
            self.send(&ControlRequest::AddSpare { device, occupied: false });
        }
    }

    /// Starts a scrub that repairs by the data of the first member. It is refused while one is
    /// under way.
    pub(crate) fn start_scrub(&mut self) {
        self.send(&scrub(ScrubAction::Start, true, Some(1)));
    }

    /// Runs a scrub to its end, in the place of one that goes on; returns what it found.
    pub(crate) fn scrub_to_end(
        &mut self,
        repairs: bool,
        from: Option<u64>,
    ) -> Result<ScrubProgress, String> {
        self.cancel_scrub()?;
        self.send(&scrub(ScrubAction::Start, repairs, from));
        self.settle_commands()?;
        let limits = (Nanos::from_secs(1), RECOVERY_TIME_MAX);
        self.turn_until("a scrub does not end", limits, |machine| {
            machine.scrub_progress().is_none_or(|it| it.state == ScrubState::Finished)
        })?;
        self.scrub_progress().ok_or_else(|| "a scrub did not begin".to_owned())
    }

    pub(crate) fn scrub_progress(&self) -> Option<ScrubProgress> {
        self.served.as_ref()?.service.scrub().progress().copied()
    }

    /// Ends the scrub that goes on, if there is one, and waits for its step in flight: it could
    /// repair what is damaged before another scrub starts.
    pub(crate) fn cancel_scrub(&mut self) -> Result<(), String> {
        self.settle_commands()?;
        self.command(UserCommand::CancelScrub);
        self.settle_commands()?;
        let otherwise = "a scrub that was cancelled does not end";
        let limits = (Nanos::from_millis(1), REQUEST_TIME_MAX);
        let is_loaded = std::mem::replace(&mut self.is_loaded, false);
        self.turn_until(otherwise, limits, |machine| {
            machine.served.as_ref().is_none_or(|served| served.service.executor().is_idle())
        })?;
        self.is_loaded = is_loaded;
        Ok(())
    }

    /// Waits for the responses to all commands.
    fn settle_commands(&mut self) -> Result<(), String> {
        let limits = (Nanos::from_millis(1), REQUEST_TIME_MAX);
        self.turn_until("a command gets no response", limits, |machine| {
            machine.served.as_ref().is_none_or(|served| !served.has_commands())
        })
    }
}

fn scrub(action: ScrubAction, repair: bool, from: Option<u64>) -> ControlRequest {
    ControlRequest::Scrub { action, repair, from, rate_bytes_per_s: None }
}
