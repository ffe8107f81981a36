//! Opens the members that an array file names: files, devices, and remote exports.

use super::AssembleError;
use crate::device_address::DeviceAddress;
use crate::driver::{read_aligned, write_aligned};
use crate::member::Source;
use crate::member::file::{Caching, OpenOptions, RealMember};
use crate::member::remote::peer::Peer;
use crate::nbd_protocol::uri::NbdUri;
use crate::nbd_protocol::wire::transmission_flag;
use mirrorball_core::member::{MemberConfig, MemberIndex};
use mirrorball_core::units::Nanos;
use mirrorball_disk::array_file::{ArraySpec, DevicePart, MemberSource, MemberSpec};
use rustix::fs::fdatasync;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Opens members: when a volume is assembled, and again before a rebuild.
pub(super) struct MemberOpener {
    pub(super) members: Vec<MemberSpec>,
    /// The array file; relative paths are relative to its folder.
    array_file: String,
    pub(super) options: OpenOptions,
    pub(super) peer_timeout: Nanos,
    /// The block size that clients of the volume were sent.
    pub(super) block_bytes: u64,
}

/// An open member.
pub(super) enum Open {
    Real(RealMember),
    Remote(Peer),
}

/// Properties of a device, used where the array file gives none.
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
            Open::Remote(peer) => peer.export.block_bytes.into(),
        }
    }

    /// Reads a range, blocking.
    pub(super) fn read(&self, offset: u64, length: u32) -> io::Result<Vec<u8>> {
        match self {
            Open::Real(real) => {
                Ok(read_aligned(&real.fd, real.begin_bytes + offset, length as usize)?)
            }
            Open::Remote(peer) => peer.read(offset, length),
        }
    }

    /// Writes a range and makes it durable, blocking.
    pub(super) fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        match self {
            Open::Real(real) => Ok(write_aligned(&real.fd, real.begin_bytes + offset, bytes)?),
            Open::Remote(peer) => peer.write(offset, bytes),
        }
    }

    /// Makes earlier writes durable, blocking.
    pub(super) fn flush(&self) -> io::Result<()> {
        match self {
            Open::Real(real) => Ok(fdatasync(&real.fd)?),
            Open::Remote(peer) => peer.flush(),
        }
    }

    /// Size of the file, device or export.
    pub(super) fn size_bytes(&self) -> u64 {
        match self {
            Open::Real(real) => real.size_bytes,
            Open::Remote(peer) => peer.export.size_bytes,
        }
    }

    /// The same, of which no more than this is used. Bytes after that are not part of the volume,
    /// and a file may be truncated to it.
    pub(super) fn restricted(mut self, size_bytes: u64) -> Open {
        if let Open::Real(real) = &mut self {
            real.size_bytes = size_bytes;
        }
        self
    }

    pub(super) fn source(self) -> Source {
        match self {
            Open::Real(real) => Source::Real(real.into()),
            Open::Remote(peer) => Source::Remote(peer),
        }
    }

    /// Its description for the volume. Properties in the array file take precedence.
    pub(super) fn config(&self, member: &MemberSpec) -> MemberConfig {
        let Traits { size_bytes, rotational, optimal_io_bytes, queue_depth } = self.traits();
        let size_bytes = member.range.size_bytes.map_or(size_bytes, |size| size.min(size_bytes));
        let usual = MemberConfig::new(member.devid, size_bytes - size_bytes % self.block_bytes());
        MemberConfig {
            queue_depth: queue_depth.unwrap_or(usual.queue_depth),
            rotational: member.rotational.unwrap_or(rotational),
            optimal_io_bytes: member.optimal_io_bytes.unwrap_or(optimal_io_bytes),
            priority: member.priority,
            write_mostly: member.write_mostly,
            state: member.state,
            ..usual
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
                size_bytes: peer.export.size_bytes,
                rotational: peer.export.can(transmission_flag::ROTATIONAL),
                optimal_io_bytes: 0,
                queue_depth: None,
            },
        }
    }
}

impl MemberOpener {
    pub(super) fn new(
        array: &ArraySpec,
        options: OpenOptions,
        peer_timeout: Nanos,
    ) -> MemberOpener {
        MemberOpener {
            members: array.members.clone(),
            array_file: array.file_name.clone(),
            options,
            peer_timeout,
            block_bytes: 0,
        }
    }

    /// An opener of devices of no array.
    pub(super) fn of_devices(options: OpenOptions, peer_timeout: Nanos) -> MemberOpener {
        let (members, array_file) = (Vec::new(), String::new());
        MemberOpener { members, array_file, options, peer_timeout, block_bytes: 0 }
    }

    /// Opens a file, device or export whole.
    pub(super) fn open_source(
        &self,
        source: &MemberSource,
        notes: &mut Vec<String>,
    ) -> Result<Open, AssembleError> {
        match source {
            MemberSource::Path(path) => {
                Ok(Open::Real(self.open_path(0, DevicePart::default(), path, notes)?))
            }
            MemberSource::Uri(text) => self.open_uri(text),
            MemberSource::Model(_) => unreachable!("a device has a path or a URI"),
        }
    }

    /// Opens a member; returns its description for the volume, too.
    pub(super) fn open(
        &self,
        member: MemberIndex,
        notes: &mut Vec<String>,
    ) -> Result<(MemberConfig, Open), AssembleError> {
        let member = &self.members[member.get()];
        let open = match &member.source {
            MemberSource::Path(path) if path.as_os_str().is_empty() => {
                return Err(AssembleError::NotFound(member.devid));
            }
            MemberSource::Path(path) => {
                Open::Real(self.open_path(member.devid, member.range, path, notes)?)
            }
            MemberSource::Uri(text) => self.open_uri(text)?,
            MemberSource::Model(_) => {
                return Err(AssembleError::WrongMember {
                    devid: member.devid,
                    what: "a disk model",
                    hint: "use `mirrorball emulate` for an array of disk models",
                });
            }
        };
        let config = open.config(member);
        Ok((config, open))
    }

    /// Checks that no two local members are the same file or device.
    ///
    /// # Errors
    /// Names the first that is given twice.
    pub(super) fn check_distinct(&self) -> Result<(), AssembleError> {
        let members = (0..self.members.len()).map(|index| MemberIndex(index as u16));
        let paths = members.filter_map(|member| self.path(member)).map(DeviceAddress::Path);
        let paths: Vec<DeviceAddress> = paths.collect();
        match DeviceAddress::first_repeated(&paths) {
            Some(path) => Err(AssembleError::Twice(path.to_string())),
            None => Ok(()),
        }
    }

    /// The path of a local member.
    pub(super) fn path(&self, member: MemberIndex) -> Option<PathBuf> {
        match &self.members[member.get()].source {
            MemberSource::Path(path) if !path.as_os_str().is_empty() => Some(self.resolve(path)),
            MemberSource::Path(_) | MemberSource::Uri(_) | MemberSource::Model(_) => None,
        }
    }

    /// The path or URI of a member.
    pub(super) fn place(&self, member: MemberIndex) -> String {
        match &self.members[member.get()].source {
            MemberSource::Uri(uri) => uri.clone(),
            _ => self.path(member).unwrap_or_default().display().to_string(),
        }
    }

    fn open_uri(&self, text: &str) -> Result<Open, AssembleError> {
        let uri = NbdUri::parse(text)?;
        match Peer::open(Arc::new(uri.clone())) {
            Ok(peer) => Ok(Open::Remote(Peer { timeout: self.peer_timeout, ..peer })),
            Err(error) => Err(AssembleError::Attach { uri: Box::new(uri), error }),
        }
    }

    fn open_path(
        &self,
        devid: u64,
        range: DevicePart,
        path: &Path,
        notes: &mut Vec<String>,
    ) -> Result<RealMember, AssembleError> {
        let path = self.resolve(path);
        let mut real = RealMember::open(&path, self.options)?;
        if let Err(size_bytes) = real.restrict(range) {
            return Err(AssembleError::TooShort { devid, path, size_bytes });
        }
        if !real.direct && self.options.caching == Caching::Direct {
            let path = path.display();
            notes.push(format!(
                "`{path}` is accessed through the page cache: it does not support direct I/O"
            ));
        }
        Ok(real)
    }

    /// Resolves a path relative to the folder of the array file.
    fn resolve(&self, path: &Path) -> PathBuf {
        Path::new(&self.array_file).with_file_name("").join(path)
    }
}
