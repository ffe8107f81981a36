//! Reopening members, without blocking the service.
//!
//! Opening a device or connecting to another machine may take seconds, so a `BlockingWorker` does
//! it, one member at a time, in the order of the requests.

use crate::blocking_worker::BlockingWorker;
use crate::device_address::DeviceAddress;
use crate::driver::{Driver, EventOwner, Token};
use crate::member::Source;
use crate::member::file::Occupied;
use mirrorball_core::member::MemberIndex;
use mirrorball_store::label::assembly::FoundMember;
use mirrorball_store::label::{Label, LabelledSpare, Uuid};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MemberPlace {
    Original,
    /// Where an earlier request put it.
    Moved(DeviceAddress),
    /// The device of the member, which has this name by now.
    Renamed(DeviceAddress),
    /// A device that takes the place of the one before, and what to do if it contains data.
    New(DeviceAddress, Occupied),
    /// A spare with this UUID, which takes the place of the device before.
    Spare(DeviceAddress, Uuid),
}

impl MemberPlace {
    /// The device that takes the place of the one before, if it is another one.
    pub fn new_device(&self) -> Option<&DeviceAddress> {
        match self {
            MemberPlace::New(address, _) | MemberPlace::Spare(address, _) => Some(address),
            MemberPlace::Original | MemberPlace::Moved(_) | MemberPlace::Renamed(_) => None,
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OpenRequest {
    pub member: MemberIndex,
    pub size_bytes: u64,
    pub place: MemberPlace,
    /// True if the member stays in use until all of it is copied.
    pub is_copied: bool,
    /// The newest label of the members; `None` without labels.
    pub label: Option<Label>,
    /// The UUID with which a storage is this member, having missed some writes; any other is taken
    /// for a new one, on which no label is left.
    pub own_uuid: Option<Uuid>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SpareRequest {
    pub address: DeviceAddress,
    /// Treatment of data that it contains.
    pub occupied: Occupied,
    /// The newest label of the members.
    pub label: Label,
}

pub trait OpenMember: Send + Sync {
    /// Opens a member. Fails if the member cannot be opened, or cannot replace what was open; the
    /// text says why.
    fn open_again(&self, request: &OpenRequest) -> Result<OpenedMember, String>;

    /// Makes a spare of a device. Fails if it cannot be one; the text says why.
    fn prepare_spare(&self, request: &SpareRequest) -> Result<LabelledSpare, String>;

    /// Where the storage of a member was at the start; `None` if it was not found then.
    fn device(&self, member: MemberIndex) -> Option<DeviceAddress>;
}

pub struct OpenedMember {
    pub source: Source,
    /// The label and dirty log on it, if they are those of this member.
    pub found: Option<FoundMember>,
    /// The spare that was made of a device to which a member is copied.
    pub spare: Option<LabelledSpare>,
    /// Notes for the user, a line each.
    pub notes: Vec<String>,
}

/// A member that was opened, or why it could not be.
pub struct ReopenedMember {
    pub member: MemberIndex,
    pub place: MemberPlace,
    pub result: Result<OpenedMember, String>,
}

pub struct Reopener {
    opener: Arc<dyn OpenMember>,
    worker: BlockingWorker<ReopenedMember>,
    moved: BTreeMap<MemberIndex, DeviceAddress>,
}

impl Reopener {
    /// A reopener without requests.
    pub fn new(opener: Arc<dyn OpenMember>, driver: &mut Driver) -> io::Result<Reopener> {
        let worker = BlockingWorker::new(Token::new(EventOwner::Reopen, 0), driver)?;
        Ok(Reopener { opener, worker, moved: BTreeMap::new() })
    }

    pub fn place(&self, member: MemberIndex) -> MemberPlace {
        let moved = self.moved.get(&member).cloned();
        moved.map_or(MemberPlace::Original, MemberPlace::Moved)
    }

    /// Path or URI of the storage of a member, if it had one at the start or was moved.
    pub fn device(&self, member: MemberIndex) -> Option<DeviceAddress> {
        self.moved.get(&member).cloned().or_else(|| self.opener.device(member))
    }

    pub fn on_attached(&mut self, member: MemberIndex, place: MemberPlace) {
        match place {
            MemberPlace::Original | MemberPlace::Moved(_) => {}
            MemberPlace::Renamed(address)
            | MemberPlace::New(address, _)
            | MemberPlace::Spare(address, _) => drop(self.moved.insert(member, address)),
        }
    }

    pub fn open(&mut self, request: OpenRequest) -> io::Result<()> {
        let opener = Arc::clone(&self.opener);
        let task = move || ReopenedMember {
            member: request.member,
            result: opener.open_again(&request),
            place: request.place,
        };
        self.worker.run(task)
    }

    /// The next member that was opened, or could not be.
    pub fn poll(&self) -> Option<ReopenedMember> {
        self.worker.poll()
    }
}
