//! Where the members of an md array are. None is opened again, because nothing is written to them.

use crate::device_address::DeviceAddress;
use crate::driver::FileId;
use crate::reopen::{MemberPlace, OpenMember, OpenRequest, OpenedMember, PathState, SpareRequest};
use mirrorball_core::label::LabelledSpare;
use mirrorball_core::member::MemberIndex;

/// The devices of the members, in the order of the volume.
pub(super) struct MdDevices(pub(super) Vec<Option<DeviceAddress>>);

impl OpenMember for MdDevices {
    fn open_again(&self, _: &OpenRequest) -> Result<OpenedMember, String> {
        Err("the members of an md array are only read".to_owned())
    }

    fn prepare_spare(&self, _: &SpareRequest) -> Result<LabelledSpare, String> {
        Err("an md array that is only read has no spares".to_owned())
    }

    fn device(&self, member: MemberIndex) -> Option<DeviceAddress> {
        self.0[member.get()].clone()
    }

    fn path_state(&self, member: MemberIndex, _: &MemberPlace, open: Option<FileId>) -> PathState {
        let device = self.0[member.get()].as_ref();
        device
            .and_then(DeviceAddress::path)
            .map_or(PathState::Same, |path| PathState::at(path.to_owned(), open))
    }
}
