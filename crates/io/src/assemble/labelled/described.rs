//! The array file that a label stands for.

use crate::examine::{ExaminedDevice, ExaminedVolume};
use mirrorball_core::member::MemberState;
use mirrorball_core::volume::RmwLevel;
use mirrorball_disk::array_file::{ArraySpec, DevicePart, Host, MemberSource, MemberSpec, Used};
use mirrorball_store::label::LabelledMember;
use mirrorball_store::label::assembly::LabelAssembly;
use std::path::PathBuf;

pub(super) fn array_spec(volume: &ExaminedVolume, devices: &[ExaminedDevice]) -> ArraySpec {
    let LabelAssembly { newest, members, .. } = &volume.assembly;
    let member = |(row, found): (&LabelledMember, Option<usize>)| MemberSpec {
        devid: row.devid,
        source: match found {
            Some(at) => devices[volume.devices[at]].address.source(),
            None => MemberSource::Path(PathBuf::new()),
        },
        link: None,
        faults: Vec::new(),
        cache: None,
        priority: row.priority,
        write_mostly: row.write_mostly,
        rotational: row.rotational,
        optimal_io_bytes: row.optimal_io_bytes,
        state: MemberState::InSync,
        range: DevicePart::default(),
        partition: None,
        device: None,
        kernel_name: None,
        system_state: None,
        errors: None,
        confidence: None,
        line: 0,
    };
    let found = members.iter().map(|member| member.found);
    ArraySpec {
        name: newest.array.name.clone(),
        file_name: newest.array.name.clone(),
        profile: newest.array.profile,
        layout: newest.array.layout,
        stripe_width_max: newest.array.stripe_width_max.map(|width| width as usize),
        rmw_level: RmwLevel::default(),
        used: Used::Bytes(0),
        host: Host::default(),
        cache: None,
        controller: None,
        source: None,
        links: Vec::new(),
        members: newest.members.iter().zip(found).map(member).collect(),
        spares: Vec::new(),
    }
}
