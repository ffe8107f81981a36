//! Opening the members that an array file names: local ones, and those of other machines.

use super::AssembleError;
use crate::driver::read_aligned;
use crate::member::Source;
use crate::member::file::{Caching, OpenOptions, RealMember};
use crate::member::remote::dial::Peer;
use crate::nbd::uri::NbdUri;
use crate::nbd::wire::transmission_flag;
use mirrorball_core::member::MemberConfig;
use mirrorball_disk::array_file::{MemberSource, MemberSpec};
use std::io;
use std::path::Path;

/// An open member.
pub(super) enum Open {
    Real(RealMember),
    Remote(Peer),
}

/// What the device itself tells, where the array file does not.
struct Traits {
    size_bytes: u64,
    rotational: bool,
    optimal_io_bytes: u64,
    queue_depth: Option<u32>,
}

impl Open {
    /// Offsets and lengths are multiples of this.
    pub(super) fn block_bytes(&self) -> u64 {
        match self {
            Open::Real(real) => real.block_bytes,
            Open::Remote(peer) => peer.attached.block_bytes.into(),
        }
    }

    /// Reads a range, at leisure.
    pub(super) fn read(&self, offset: u64, length: u32) -> io::Result<Vec<u8>> {
        match self {
            Open::Real(real) => {
                Ok(read_aligned(&real.fd, real.begin_bytes + offset, length as usize)?)
            }
            Open::Remote(peer) => peer.read(offset, length),
        }
    }

    pub(super) fn source(self) -> Source {
        match self {
            Open::Real(real) => Source::Real(real),
            Open::Remote(peer) => Source::Remote(peer),
        }
    }

    fn traits(&self) -> Traits {
        match self {
            Open::Real(real) => Traits {
                size_bytes: real.size_bytes,
                rotational: real.rotational,
                optimal_io_bytes: real.optimal_io_bytes,
                queue_depth: real.queue_depth,
            },
            Open::Remote(peer) => Traits {
                size_bytes: peer.attached.size_bytes,
                rotational: peer.attached.can(transmission_flag::ROTATIONAL),
                optimal_io_bytes: 0,
                queue_depth: None,
            },
        }
    }
}

/// Opens a member of the array in this file, and tells what the volume is told of it.
pub(super) fn open_member(
    member: &MemberSpec,
    array_file: &str,
    options: OpenOptions,
    notes: &mut Vec<String>,
) -> Result<(MemberConfig, Open), AssembleError> {
    let open = match &member.source {
        MemberSource::Path(path) => {
            // As those of model files do, a path counts from the folder of the array file.
            let path = Path::new(array_file).with_file_name("").join(path);
            let mut real = RealMember::open(&path, options)?;
            if let Err(size_bytes) = real.restrict(member.range) {
                let devid = member.devid;
                return Err(AssembleError::TooShort { devid, path, size_bytes });
            }
            if !real.direct && options.caching == Caching::Direct {
                let path = path.display();
                notes.push(format!("`{path}` goes through the page cache: it takes no direct I/O"));
            }
            Open::Real(real)
        }
        MemberSource::Uri(text) => {
            let uri = NbdUri::parse(text)?;
            match Peer::open(&uri) {
                Ok(peer) => Open::Remote(peer),
                Err(error) => {
                    return Err(AssembleError::Attach { uri: Box::new(uri), error });
                }
            }
        }
        MemberSource::Model(_) => {
            return Err(AssembleError::WrongMember {
                devid: member.devid,
                what: "modelled",
                hint: "`mirrorball emulate` serves modelled disks",
            });
        }
    };
    let Traits { size_bytes, rotational, optimal_io_bytes, queue_depth } = open.traits();
    let usual = MemberConfig::new(member.devid, size_bytes - size_bytes % open.block_bytes());
    let config = MemberConfig {
        queue_depth: queue_depth.unwrap_or(usual.queue_depth),
        rotational: member.rotational.unwrap_or(rotational),
        optimal_io_bytes: member.optimal_io_bytes.unwrap_or(optimal_io_bytes),
        priority: member.priority,
        write_mostly: member.write_mostly,
        state: member.state,
        ..usual
    };
    Ok((config, open))
}
