//! Opens the members that an array file names: files, devices, and remote exports.

use super::AssembleError;
use super::durable_label::writes_before_use;
use crate::device_address::DeviceAddress;
use crate::driver::Platform;
use crate::member::Source;
use crate::member::file::{Caching, OpenError, OpenOptions, RealMember};
use crate::member::remote::peer::{Peer, connector};
use mirrorball_core::geometry::{ChunkMap, GeometryError};
use mirrorball_core::member::{MemberConfig, MemberIndex};
use mirrorball_core::units::{Nanos, format_bytes};
use mirrorball_disk::array_file::{ArraySpec, DevicePart, MemberSource, MemberSpec};
use mirrorball_nbd::uri::NbdUri;
use mirrorball_nbd::wire::transmission_flag;
use mirrorball_store::label::NewestLabel;
use std::io;
use std::path::{Path, PathBuf};

/// Opens members: when a volume is assembled, and again before a rebuild.
pub(super) struct MemberOpener {
    pub(super) members: Vec<MemberSpec>,
    /// The array file; relative paths are relative to its folder.
    array_file: String,
    purpose: OpenPurpose,
    pub(super) platform: Platform,
    pub(super) options: OpenOptions,
    pub(super) peer_timeout: Nanos,
    /// The block size that clients of the volume were sent.
    pub(super) block_bytes: u64,
}

/// Purpose of opening members, which decides the advice if one cannot be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum OpenPurpose {
    /// To label members without data.
    Create,
    ServeDevices,
    /// To remove their labels.
    Clear,
    /// To put a device in the place of a member of a running volume.
    Replace,
}

impl OpenPurpose {
    fn help(self, error: &OpenError) -> String {
        let help = match (error, self) {
            (OpenError::Missing(_), OpenPurpose::Create) => {
                "a member must be an existing file or device; `truncate -s SIZE FILE` creates an \
                 empty file"
            }
            (OpenError::Missing(_), OpenPurpose::ServeDevices) => {
                "give the path of the member, or find it with --scan DIR"
            }
            (OpenError::Missing(_), OpenPurpose::Clear) => "give an existing file or device",
            (OpenError::Missing(_), OpenPurpose::Replace) => {
                "give an existing file or device; `truncate -s SIZE FILE` creates an empty file"
            }
            (OpenError::WrongKind { what: "a folder", .. }, OpenPurpose::ServeDevices) => {
                "give a file in the folder, or a block device; `serve --scan DIR` searches a \
                 folder for members"
            }
            (OpenError::WrongKind { what: "a folder", .. }, _) => {
                "give a file in the folder, or a block device"
            }
            (OpenError::WrongKind { .. }, _) => "give the path of a file or of a block device",
            _ => return String::new(),
        };
        format!("\n  help: {help}")
    }
}

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
            Open::Real(real) => Ok(real.file.read(offset, length as usize)?),
            Open::Remote(peer) => peer.read(offset, length),
        }
    }

    /// Returns true if it is a file that has no data at all.
    pub(super) fn is_hole(&self) -> bool {
        match self {
            Open::Real(real) => real.is_file && real.file.is_hole(),
            Open::Remote(_) => false,
        }
    }

    /// Writes a range and makes it durable, blocking.
    pub(super) fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        match self {
            Open::Real(real) => Ok(real.file.write(offset, bytes)?),
            Open::Remote(peer) => peer.write(offset, bytes),
        }
    }

    /// Makes earlier writes durable, blocking.
    pub(super) fn flush(&self) -> io::Result<()> {
        match self {
            Open::Real(real) => Ok(real.file.flush()?),
            Open::Remote(peer) => peer.flush(),
        }
    }

    /// Makes sure that no power cut takes the label that was found.
    pub(super) fn make_label_durable(&self, newest: &NewestLabel) -> io::Result<()> {
        let writes = writes_before_use(newest, |offset, length| self.read(offset, length))?;
        writes.iter().try_for_each(|(offset, bytes)| self.write(*offset, bytes))
    }

    /// Size of the file, device or export.
    pub(super) fn size_bytes(&self) -> u64 {
        match self {
            Open::Real(real) => real.size_bytes,
            Open::Remote(peer) => peer.export.size_bytes,
        }
    }

    /// The same, of which no more than this is used.
    pub(super) fn restricted(mut self, size_bytes: u64) -> Open {
        if let Open::Real(real) = &mut self {
            real.size_bytes = size_bytes;
        }
        self
    }

    pub(super) fn source(self) -> Source {
        match self {
            Open::Real(real) => Source::Real(real.file),
            Open::Remote(peer) => Source::Remote(peer),
        }
    }

    /// Description for the volume. Properties in the array file take precedence.
    pub(super) fn config(&self, member: &MemberSpec) -> MemberConfig {
        let device = self.device_config(member.devid);
        let size_bytes = member.range.size_bytes.unwrap_or(u64::MAX).min(self.size_bytes());
        MemberConfig {
            size_bytes: size_bytes - size_bytes % self.block_bytes(),
            rotational: member.rotational.unwrap_or(device.rotational),
            optimal_io_bytes: member.optimal_io_bytes.unwrap_or(device.optimal_io_bytes),
            priority: member.priority,
            write_mostly: member.write_mostly,
            state: member.state,
            ..device
        }
    }

    pub(super) fn device_config(&self, devid: u64) -> MemberConfig {
        let Traits { size_bytes, rotational, optimal_io_bytes, queue_depth } = self.traits();
        let usual = MemberConfig::new(devid, size_bytes - size_bytes % self.block_bytes());
        let queue_depth = queue_depth.unwrap_or(usual.queue_depth);
        MemberConfig { queue_depth, rotational, optimal_io_bytes, ..usual }
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
        purpose: OpenPurpose,
        options: OpenOptions,
        peer_timeout: Nanos,
    ) -> MemberOpener {
        MemberOpener {
            members: array.members.clone(),
            array_file: array.file_name.clone(),
            purpose,
            platform: Platform::System(None),
            options,
            peer_timeout,
            block_bytes: 0,
        }
    }

    /// An opener of devices of no array.
    pub(super) fn of_devices(
        purpose: OpenPurpose,
        options: OpenOptions,
        peer_timeout: Nanos,
    ) -> MemberOpener {
        let (members, array_file) = (Vec::new(), String::new());
        let platform = Platform::System(None);
        let block_bytes = 0;
        MemberOpener { members, array_file, purpose, platform, options, peer_timeout, block_bytes }
    }

    pub(super) fn on(self, platform: &Platform) -> MemberOpener {
        MemberOpener { platform: platform.clone(), ..self }
    }

    /// Opens a file, device or export whole.
    pub(super) fn open_source(
        &self,
        source: &MemberSource,
        notes: &mut Vec<String>,
    ) -> Result<Open, AssembleError> {
        match source {
            MemberSource::Path(path) => Ok(Open::Real(self.open_path(0, None, path, notes)?)),
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
                Open::Real(self.open_path(member.devid, member.range.size_bytes, path, notes)?)
            }
            MemberSource::Uri(text) => self.open_uri(text)?,
            MemberSource::Model(_) => unreachable!("`create` refuses models, and labels have none"),
        };
        let config = open.config(member);
        Ok((config, open))
    }

    /// The map of the volume over members with these sizes. Fails if a member is too small, or they
    /// do not fit the array file.
    pub(super) fn allocate(
        &self,
        array: &ArraySpec,
        configs: &[MemberConfig],
    ) -> Result<ChunkMap, AssembleError> {
        array.allocate(configs).map_err(|error| match error {
            GeometryError::MemberTooSmall { devid, size_bytes, needed } => {
                self.too_small(array, devid, size_bytes, needed)
            }
            error => error.into(),
        })
    }

    fn too_small(
        &self,
        array: &ArraySpec,
        devid: u64,
        size_bytes: u64,
        needed_bytes: u64,
    ) -> AssembleError {
        let index = self.members.iter().position(|member| member.devid == devid).unwrap_or(0);
        let device = self.place(MemberIndex(index as u16));
        let mut help = match &self.members[index] {
            MemberSpec { range: DevicePart { size_bytes: Some(_), .. }, .. } => {
                "raise its `size` in the array file".to_owned()
            }
            MemberSpec { source: MemberSource::Path(path), .. } if self.resolve(path).is_file() => {
                let mebibytes = needed_bytes.max(24 << 20).div_ceil(1 << 20);
                format!(
                    "enlarge it, for example with `truncate -s {mebibytes}M {device}`, or give a \
                     larger device"
                )
            }
            _ => "give a larger device".to_owned(),
        };
        if array.layout.chunk_bytes().is_some() {
            help += ", or reduce `chunk`";
        }
        AssembleError::TooSmall {
            device,
            devid,
            size: format_bytes(size_bytes),
            needed: format_bytes(needed_bytes),
            help: format!("\n  help: {help}"),
        }
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

    pub(super) fn path(&self, member: MemberIndex) -> Option<PathBuf> {
        match &self.members[member.get()].source {
            MemberSource::Path(path) if !path.as_os_str().is_empty() => Some(self.resolve(path)),
            MemberSource::Path(_) | MemberSource::Uri(_) | MemberSource::Model(_) => None,
        }
    }

    /// The path or URI of a member that has one.
    pub(super) fn address(&self, member: MemberIndex) -> Option<DeviceAddress> {
        match &self.members[member.get()].source {
            MemberSource::Uri(uri) => DeviceAddress::parse(uri).ok(),
            MemberSource::Path(_) | MemberSource::Model(_) => {
                self.path(member).map(DeviceAddress::Path)
            }
        }
    }

    /// The path or URI of a member, as a text.
    pub(super) fn place(&self, member: MemberIndex) -> String {
        match &self.members[member.get()].source {
            MemberSource::Uri(uri) => uri.clone(),
            _ => self.path(member).unwrap_or_default().display().to_string(),
        }
    }

    fn open_uri(&self, text: &str) -> Result<Open, AssembleError> {
        let uri = NbdUri::parse(text)?;
        match Peer::open(connector(&self.platform, &uri, text)) {
            Ok(peer) => Ok(Open::Remote(Peer { timeout: self.peer_timeout, ..peer })),
            Err(error) => Err(AssembleError::Attach { uri: Box::new(uri), error }),
        }
    }

    fn open_path(
        &self,
        devid: u64,
        needed_bytes: Option<u64>,
        path: &Path,
        notes: &mut Vec<String>,
    ) -> Result<RealMember, AssembleError> {
        let path = self.resolve(path);
        let opened = RealMember::open_on(&self.platform, &path, self.options);
        let mut real = opened.map_err(|error| {
            let help = self.purpose.help(&error);
            AssembleError::Open { error, help }
        })?;
        if let Some(needed) = needed_bytes {
            if needed > real.size_bytes {
                return Err(AssembleError::TooShort { devid, path, size_bytes: real.size_bytes });
            }
            real.size_bytes = needed;
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
