//! Turns of a tortured service, and its end: in good order, by a kill or by a power cut.

use super::super::history::{End, ExtraFaults, extra_faults};
use super::clients::ClientRequest;
use super::front::{CommandEffect, Front};
use super::start::{disk_at, disk_of_spare};
use super::{Machine, Served, TURNS_MAX};
use crate::Volume;
use crate::driver::EventOwner;
use crate::rebuild::RebuildOpened;
use crate::reopen::MemberPlace;
use crate::service::ServiceState;
use mirrorball_core::member::{MemberIndex, MemberState};
use mirrorball_core::units::Nanos;
use mirrorball_store::StoreGate;
use std::time::Duration;

impl Machine {
    /// One turn of the service.
    pub(super) fn turn(&mut self, timeout: Nanos) -> Result<(), String> {
        match &self.served {
            None => Ok(()),
            Some(Served { front: Front::Parts(_), .. }) => self.turn_parts(timeout),
            Some(Served { front: Front::Service(_), .. }) => self.turn_service(timeout).map(|_| ()),
        }
    }

    fn turn_parts(&mut self, timeout: Nanos) -> Result<(), String> {
        let Some(Served { front: Front::Parts(parts), .. }) = &mut self.served else {
            return Ok(());
        };
        let (executor, rebuild, scrub) =
            (&mut parts.executor, &mut parts.rebuild, &mut parts.scrub);
        let timer = rebuild.step(executor).into_iter().chain(scrub.step(executor)).min();
        executor.turn();
        let mut replies = Vec::new();
        while let Some(reply) = executor.poll_reply() {
            match reply.token.owner() {
                EventOwner::Rebuild => {
                    rebuild.on_reply(reply, executor);
                    // What it copied may change what is read where mirrors differed.
                    self.changes += 1;
                }
                EventOwner::Scrub => scrub.on_reply(reply, executor),
                _ => replies.push(reply),
            }
        }
        let mut opened = Vec::new();
        while let Some(reply) = rebuild.poll_reply() {
            opened.push(reply);
        }
        self.check_found()?;
        for (member, opened) in opened {
            let volume = self.volume().filter(|_| opened.is_ok());
            let is_catching_up = volume
                .and_then(Volume::gate)
                .is_some_and(|store| store.is_catching_up(MemberIndex(member as u16)));
            self.tally.catch_ups += u64::from(is_catching_up);
            if let Ok(RebuildOpened { place: MemberPlace::New(address, _), .. }) = opened {
                self.rows[member as usize] = disk_at(&address);
                self.changes += 1;
            }
        }
        let Some(Served { front: Front::Parts(parts), .. }) = &mut self.served else {
            return Ok(());
        };
        let timeout = timer.map_or(timeout, |timer| timer.min(timeout));
        let mut events = Vec::new();
        let timeout = Some(Duration::from_nanos(timeout.0));
        parts.executor.wait(timeout, &mut events).map_err(|error| error.to_string())?;
        let member_events =
            events.iter().filter(|event| event.token.owner() == EventOwner::MemberFile);
        member_events.for_each(|event| parts.executor.on_event(event));
        self.take_damage();
        replies.into_iter().try_for_each(|reply| self.on_executor_reply(reply))
    }

    fn turn_service(&mut self, timeout: Nanos) -> Result<ServiceState, String> {
        let Some(Served { front: Front::Service(front), .. }) = &mut self.served else {
            return Ok(ServiceState::Stopped);
        };
        let state = front.turn(timeout).map_err(|error| error.to_string())?;
        let (replies, ends) = (front.take_replies()?, front.take_command_ends()?);
        self.changes += u64::from(front.take_copied());
        for (effect, result) in ends {
            if let (CommandEffect::Replaced { member, disk }, Ok(())) = (effect, result) {
                self.rows[member] = disk;
                self.changes += 1;
            }
        }
        self.take_used_spares();
        self.check_found()?;
        self.take_damage();
        for (key, result, bytes) in replies {
            self.on_reply(key as u32, result, &bytes)?;
        }
        Ok(state)
    }

    /// Takes in which spares are members now.
    fn take_used_spares(&mut self) {
        for row in 0..self.rows.len() {
            let uuid = self.volume().and_then(Volume::gate);
            let uuid = uuid.map(|store| store.uuid(MemberIndex(row as u16)));
            let disk = uuid.and_then(disk_of_spare);
            if let Some(disk) = disk.filter(|disk| *disk != self.rows[row]) {
                self.rows[row] = disk;
                self.changes += 1;
                self.tally.spares_used += 1;
            }
        }
    }

    /// Takes in what a bad disk did since the last turn, and whether checksums were lost that would
    /// show it.
    fn take_damage(&mut self) {
        if self
            .volume()
            .is_some_and(|volume| volume.gate().map_or(0, StoreGate::lost_checksum_pages) > 0)
        {
            self.has_lost_checksums = true;
            std::mem::take(&mut self.rotten).into_iter().for_each(|it| self.model.damage(it));
        }
        if extra_faults(self.seed) == ExtraFaults::Damage {
            self.take_misdirected();
        }
    }

    /// What no one damaged is not found to be wrong.
    fn check_found(&self) -> Result<(), String> {
        let Some(Served { front, .. }) = &self.served else { return Ok(()) };
        let scrub = front.scrub_progress();
        if scrub.is_some_and(|scrub| scrub.differing_blocks > 0) && !self.may_differ {
            return Err("a scrub found mirrors that differ".to_owned());
        }
        let volume = front.volume().expect("a volume is served");
        let mut members = (0..volume.members().len()).map(|row| MemberIndex(row as u16));
        if members
            .any(|member| volume.gate().map_or(0, |store| store.mismatched_blocks(member)) > 0)
            && !self.may_differ
        {
            return Err("undamaged data do not match their checksums".to_owned());
        }
        Ok(())
    }

    pub(super) fn volume(&self) -> Option<&Volume> {
        self.served.as_ref().and_then(|served| served.front.volume())
    }

    /// Ends the service.
    pub(super) fn end(&mut self, end: End) -> Result<(), String> {
        if end == End::Stop {
            self.stop()?;
        }
        self.on_end();
        self.end_lost_record();
        if end != End::Stop {
            self.tally.recoveries_cut += u64::from(self.is_recovering());
        }
        let Some(served) = self.served.take() else { return Ok(()) };
        let driver = &served.front.executor().driver;
        match (end, &served.front) {
            (End::Stop, Front::Parts(_)) => {}
            // What its listeners and clients wait for ends nowhere.
            (End::Stop, Front::Service(_)) => driver.kill(),
            (End::Kill, _) => {
                self.tally.kills += 1;
                driver.kill();
            }
            (End::PowerCut, _) => {
                self.tally.power_cuts += 1;
                driver.cut_power();
            }
        }
        // The next service reads members past the page cache.
        self.disks.iter().for_each(|disk| self.simulation.drop_cache(disk.file));
        self.model.crash();
        Ok(())
    }

    /// Returns true if mirrors are synchronised after a crash, or a member is rebuilt.
    fn is_recovering(&self) -> bool {
        let is_rebuilt = |state| matches!(state, MemberState::Rebuilding { .. });
        self.volume().is_some_and(|volume| {
            volume.gate().map_or(0, StoreGate::unsynced_bytes) > 0
                || volume.members().iter().any(|(_, member)| is_rebuilt(member.state))
        })
    }

    /// Stops in good order, if the members let it.
    fn stop(&mut self) -> Result<(), String> {
        self.settle()?;
        match &mut self.served {
            None => Ok(()),
            Some(Served { front: Front::Service(front), .. }) => {
                front.stop();
                for _ in 0..TURNS_MAX {
                    if self.turn_service(Nanos::from_millis(100))? == ServiceState::Stopped {
                        return self.check_recorded();
                    }
                }
                Err("the service does not stop".to_owned())
            }
            Some(Served { front: Front::Parts(parts), .. }) => {
                parts.rebuild.stop();
                parts.scrub.stop(&mut parts.executor);
                self.stop_parts()
            }
        }
    }

    /// After a stop the labels say so, unless a member or the synchronisation of mirrors is not
    /// well.
    fn check_recorded(&self) -> Result<(), String> {
        let is_well = !self.had_fault && !self.has_bad_metadata;
        let Some(volume) = self.volume().filter(|_| is_well) else {
            return Ok(());
        };
        let is_in_sync = volume.members().iter().all(|(_, it)| it.state == MemberState::InSync);
        let is_clean = volume.gate().map(StoreGate::label).is_none_or(|label| label.is_clean);
        match is_in_sync && volume.gate().map_or(0, StoreGate::unsynced_bytes) == 0 && !is_clean {
            true => Err("the end of the volume is not recorded".to_owned()),
            false => Ok(()),
        }
    }

    fn stop_parts(&mut self) -> Result<(), String> {
        self.submit(ClientRequest::Flush, 0);
        for turn in 0..TURNS_MAX {
            let Some(served) = &mut self.served else { return Ok(()) };
            if turn > 0 && served.pending.is_empty() && served.front.executor().is_idle() {
                break;
            }
            self.turn(Nanos::from_millis(100))?;
        }
        let Some(Served { front: Front::Parts(parts), .. }) = &mut self.served else {
            return Ok(());
        };
        let Some(volume) = parts.executor.volume_mut() else { return Ok(()) };
        if volume.is_idle() {
            volume.change_gate(StoreGate::record_stop);
        }
        for _ in 0..TURNS_MAX {
            self.turn(Nanos::from_millis(1))?;
            let Some(served) = &self.served else { break };
            let is_recorded =
                served.front.volume().and_then(Volume::gate).is_none_or(StoreGate::is_recorded);
            if is_recorded && served.front.executor().is_idle() {
                return Ok(());
            }
        }
        Err("the end of the volume is not recorded".to_owned())
    }
}
