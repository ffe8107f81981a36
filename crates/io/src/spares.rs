//! Spares: devices that take the place of members that fail, without a request.
//!
//! The labels list the spares; which of them are there, and where, is found when the volume is
//! assembled. A spare is not open until it is used. When a member has failed, is missing or was
//! removed, the smallest spare that is large enough takes its place, by the same steps as `ctl
//! members replace`. One that cannot be opened is not tried again before the next start.
//!
//! A device to which a member was copied when the service ended is a spare for that member alone:
//! the copy begins again.

use crate::Volume;
use crate::blocking_worker::BlockingWorker;
use crate::device_address::DeviceAddress;
use crate::driver::{Driver, EventOwner, Token};
use crate::executor::Executor;
use crate::member::file::Occupied;
use crate::rebuild::{Rebuild, RebuildError, RebuildOpened, RebuildRequest, member_at};
use crate::reopen::{MemberPlace, OpenMember, SpareRequest};
use mirrorball_core::member::{MemberIndex, MemberState};
use mirrorball_core::units::Nanos;
use mirrorball_core::volume::gate::Array;
use mirrorball_store::StoreGate;
use mirrorball_store::label::{LabelledSpare, SPARES_MAX, Uuid};
use std::io;
use std::sync::Arc;

/// Time after which the place of a member is tried again.
const RETRY: Nanos = Nanos::from_secs(1);
/// Clients of rebuilds with this number and higher ones are uses of spares.
const FIRST_CLIENT: u32 = u32::MAX - 0xffff;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FoundSpare {
    pub address: DeviceAddress,
    pub uuid: Uuid,
    pub size_bytes: u64,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SpareChange {
    Added(String),
    /// A spare was given up: the device, or its UUID.
    Removed(String),
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SpareUse {
    Ready,
    /// It is opened for a member, as this client of the rebuild.
    Opening(u32),
    /// It could not be used.
    Failed(String),
}

/// A device that was prepared as a spare for a client of the control socket, or the reason why not.
type PreparedSpare = (u32, DeviceAddress, Result<LabelledSpare, String>);

#[derive(Default)]
pub struct Spares {
    found: Vec<(FoundSpare, SpareUse)>,
    opener: Option<Arc<dyn OpenMember>>,
    worker: Option<BlockingWorker<PreparedSpare>>,
    /// Number of uses so far.
    uses: u32,
    /// When a member is tried again whose place could not be taken.
    retry_at: Nanos,
    /// Changes since the last call of [`Spares::take_news`].
    news: Vec<SpareChange>,
}

impl Spares {
    /// The spares that were found. Of several with the same UUID, one counts.
    pub fn new(found: Vec<FoundSpare>) -> Spares {
        let mut spares = Spares::default();
        for spare in found {
            if !spares.found.iter().any(|(other, _)| other.uuid == spare.uuid) {
                spares.found.push((spare, SpareUse::Ready));
            }
        }
        spares
    }

    pub fn with_opener(
        self,
        opener: Option<Arc<dyn OpenMember>>,
        driver: &mut Driver,
    ) -> io::Result<Spares> {
        // The events of the worker only wake the service, as those of reopened members do.
        let token = Token::new(EventOwner::Reopen, 1);
        let worker = opener.as_ref().map(|_| BlockingWorker::new(token, driver)).transpose()?;
        Ok(Spares { opener, worker, ..self })
    }

    /// Has spares take the places of members that failed. Returns how long until it is tried again,
    /// where that was not possible.
    pub fn step(&mut self, executor: &mut Executor, rebuild: &mut Rebuild) -> Option<Nanos> {
        let is_ready = |(_, used): &(FoundSpare, SpareUse)| *used == SpareUse::Ready;
        let volume = executor.volume().filter(|it| !it.is_read_only())?;
        if !self.found.iter().any(is_ready) {
            return None;
        }
        let replaced = |devid: u64| {
            let mut ready = self.found.iter().filter(|it| is_ready(it));
            ready.any(|(spare, _)| replaces(volume, spare.uuid) == Some(devid))
        };
        let wanted: Vec<MemberIndex> = (volume.members().iter())
            .filter(|(_, it)| match it.state {
                MemberState::Failed => true,
                MemberState::InSync => replaced(it.config.devid),
                MemberState::Rebuilding { .. } => false,
            })
            .filter(|(index, _)| !rebuild.is_opening(*index) && !rebuild.is_copying(*index))
            .map(|(index, _)| index)
            .collect();
        let now = executor.driver.now();
        if wanted.is_empty() || now < self.retry_at {
            return (!wanted.is_empty()).then(|| self.retry_at.saturating_sub(now));
        }
        let mut has_waited = false;
        for member in wanted {
            has_waited |= self.use_for(member, executor, rebuild);
        }
        has_waited.then(|| {
            self.retry_at = now + RETRY;
            RETRY
        })
    }

    /// Has a spare take the place of a member, if one fits. Returns true if it is to be tried
    /// again.
    fn use_for(
        &mut self,
        member: MemberIndex,
        executor: &mut Executor,
        rebuild: &mut Rebuild,
    ) -> bool {
        let Some(volume) = executor.volume() else { return false };
        let config = &volume.members()[member].config;
        let (devid, needed_bytes) = (config.devid, config.size_bytes);
        let is_failed = volume.members()[member].state == MemberState::Failed;
        let fits = |(spare, used): &&mut (FoundSpare, SpareUse)| {
            *used == SpareUse::Ready
                && spare.size_bytes >= needed_bytes
                && replaces(volume, spare.uuid).map_or(is_failed, |it| it == devid)
                && volume
                    .gate()
                    .is_some_and(|store| store.is_spare_for(member, spare.uuid, volume.states()))
        };
        let chosen = self.found.iter_mut().filter(fits).min_by_key(|(spare, _)| spare.size_bytes);
        let Some((spare, used)) = chosen else { return false };
        let client = FIRST_CLIENT + self.uses % 0x1_0000;
        let place = MemberPlace::Spare(spare.address.clone(), spare.uuid);
        let (replacement, rate) = (Some(place), rebuild.rate());
        let request = RebuildRequest { devid, replacement, rate, client };
        match rebuild.begin(request, executor) {
            Ok(_) => {
                self.uses = self.uses.wrapping_add(1);
                *used = SpareUse::Opening(client);
                false
            }
            // I/O of the old device may be in flight, or no mirror be in sync now.
            Err(_) => true,
        }
    }

    /// Returns true if a client of a rebuild is the use of a spare.
    pub fn is_own(client: u32) -> bool {
        client >= FIRST_CLIENT
    }

    /// Ends the use of a spare that was opened, or could not be.
    pub fn on_opened(&mut self, client: u32, result: &Result<RebuildOpened, RebuildError>) {
        let is_it = |(_, used): &(FoundSpare, SpareUse)| *used == SpareUse::Opening(client);
        let Some(at) = self.found.iter().position(is_it) else { return };
        match result {
            Ok(_) => {
                self.found.remove(at);
            }
            // The member came back or another one failed meanwhile: the spare is as it was.
            Err(RebuildError::Needed { .. }) => self.found[at].1 = SpareUse::Ready,
            Err(error) => self.found[at].1 = SpareUse::Failed(error.to_string()),
        }
    }

    /// Begins to make a spare of a device, for a client of the control socket. Fails if the volume
    /// cannot have it; the text says why.
    pub fn add(
        &mut self,
        (address, occupied): (DeviceAddress, Occupied),
        client: u32,
        executor: &Executor,
    ) -> Result<(), String> {
        let (Some(opener), Some(worker)) = (&self.opener, &mut self.worker) else {
            return Err("members that are emulated have no spares".to_owned());
        };
        let volume = executor.volume().ok_or("no volume is served, only disks")?;
        if volume.is_read_only() {
            return Err("the volume is read-only\n  help: restart the server without --read-only"
                .to_owned());
        }
        if let Some(member) = member_at(&address, executor) {
            let devid = volume.members()[member].config.devid;
            return Err(format!(
                "`{address}` is the member with devid {devid}\n  help: give a device that is no \
                 member"
            ));
        }
        let mut label = volume
            .gate()
            .map(StoreGate::label)
            .cloned()
            .expect("members with a device have labels");
        if volume.gate().map_or(0, |store| store.spares().len()) >= SPARES_MAX {
            return Err(format!(
                "the volume has {SPARES_MAX} spares, which is the limit\n  help: `ctl members \
                 remove --spare DEVICE` removes one"
            ));
        }
        label.spares = volume.gate().map_or(&[][..], StoreGate::spares).to_vec();
        let (opener, request) = (Arc::clone(opener), SpareRequest { address, occupied, label });
        let task = move || {
            let prepared = opener.prepare_spare(&request);
            (client, request.address, prepared)
        };
        worker.run(task).map_err(|error| error.to_string())
    }

    /// The next reply to a client that had a device made a spare. The labels list it from then on.
    pub fn poll_added(&mut self, executor: &mut Executor) -> Option<(u32, Result<String, String>)> {
        let (client, address, prepared) = self.worker.as_ref()?.poll()?;
        let mut is_added = |spare: &LabelledSpare| {
            let add = |store: &mut StoreGate, array: &mut Array<'_>| store.add_spare(*spare, array);
            executor.volume_mut().and_then(|volume| volume.change_gate(add)).unwrap_or(false)
        };
        let added = prepared.and_then(|spare| match is_added(&spare) {
            true => Ok(spare),
            false => Err("the volume takes no more spares".to_owned()),
        });
        Some((
            client,
            added.map(|LabelledSpare { uuid, size_bytes, .. }| {
                let device = address.to_string();
                let text = format!(
                    "`{device}` is a spare (UUID {uuid}): it takes the place of a member that \
                     fails"
                );
                self.found.push((FoundSpare { address, uuid, size_bytes }, SpareUse::Ready));
                self.news.push(SpareChange::Added(device));
                text
            }),
        ))
    }

    /// Gives up a spare, by its device or UUID. Fails if there is none; the text lists those that
    /// there are.
    pub fn remove(&mut self, name: &str, executor: &mut Executor) -> Result<String, String> {
        let address = DeviceAddress::parse(name).map_err(|error| error.to_string())?;
        let found = self.found.iter().position(|(spare, _)| spare.address.is_same(&address));
        let uuid = found.map(|at| self.found[at].0.uuid).or_else(|| name.parse().ok());
        if found.is_some_and(|at| matches!(self.found[at].1, SpareUse::Opening(_))) {
            return Err(format!("`{name}` is taking the place of a member now"));
        }
        let volume = executor.volume_mut();
        let removed = uuid.filter(|uuid| {
            let remove =
                |store: &mut StoreGate, array: &mut Array<'_>| store.remove_spare(*uuid, array);
            volume.and_then(|volume| volume.change_gate(remove)).unwrap_or(false)
        });
        let Some(uuid) = removed else {
            let known = self.names(executor);
            let known = match &known[..] {
                [] => "the volume has no spares".to_owned(),
                known => format!("the spares are {}", known.join(", ")),
            };
            return Err(format!("`{name}` is not a spare of the volume\n  help: {known}"));
        };
        self.found.retain(|(spare, _)| spare.uuid != uuid);
        self.news.push(SpareChange::Removed(name.to_owned()));
        Ok(format!("`{name}` is not a spare any more"))
    }

    /// The place of a device in a volume if it is a spare that is ready.
    pub fn place_of(&self, address: &DeviceAddress) -> Option<MemberPlace> {
        let (spare, _) = self
            .found
            .iter()
            .find(|(spare, used)| *used == SpareUse::Ready && spare.address.is_same(address))?;
        Some(MemberPlace::Spare(spare.address.clone(), spare.uuid))
    }

    /// Removes and returns the changes since the last call.
    pub fn take_news(&mut self) -> Vec<SpareChange> {
        std::mem::take(&mut self.news)
    }

    /// The spare with a UUID and what it is used for, if it was found.
    pub fn find(&self, uuid: Uuid) -> Option<(&FoundSpare, &SpareUse)> {
        let found = self.found.iter().find(|(spare, _)| spare.uuid == uuid);
        found.map(|(spare, used)| (spare, used))
    }

    /// The devices of the spares that the labels list, or their UUIDs.
    fn names(&self, executor: &Executor) -> Vec<String> {
        let listed = executor.records().map(StoreGate::spares).unwrap_or_default();
        let name = |spare: &LabelledSpare| match self.find(spare.uuid) {
            Some((found, _)) => found.address.to_string(),
            None => spare.uuid.to_string(),
        };
        listed.iter().map(name).collect()
    }
}

/// The devid of the member that is copied to a spare.
fn replaces(volume: &Volume, spare: Uuid) -> Option<u64> {
    volume.gate()?.spares().iter().find(|it| it.uuid == spare)?.replaces
}
