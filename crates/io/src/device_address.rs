//! Addresses of members: paths of files and block devices, and URIs of NBD exports.

use crate::driver::FileId;
use mirrorball_disk::array_file::MemberSource;
use mirrorball_nbd::uri::{NbdUri, UriError};
use std::fmt;
use std::path::{Path, PathBuf};

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DeviceAddress {
    /// A file or block device.
    Path(PathBuf),
    /// An export of another machine.
    Uri(NbdUri, String),
}

impl DeviceAddress {
    /// Reads a path, or a URI if the text has `://` in it. A text that begins as a URI of NBD and
    /// is not the path of a file is meant for one, too. Fails if a URI is invalid.
    pub fn parse(text: &str) -> Result<DeviceAddress, UriError> {
        let is_like_uri = ["nbd:", "nbds:", "nbd+unix:", "nbds+unix:"]
            .iter()
            .any(|scheme| text.starts_with(scheme));
        match text.contains("://") || is_like_uri && !Path::new(text).exists() {
            true => Ok(DeviceAddress::Uri(NbdUri::parse(text)?, text.to_owned())),
            false => Ok(DeviceAddress::Path(PathBuf::from(text))),
        }
    }

    pub fn path(&self) -> Option<&Path> {
        match self {
            DeviceAddress::Path(path) => Some(path),
            DeviceAddress::Uri(..) => None,
        }
    }

    /// True if both name the same file, device or export, however they are written.
    pub fn is_same(&self, other: &DeviceAddress) -> bool {
        match (self, other) {
            (DeviceAddress::Path(one), DeviceAddress::Path(other)) => {
                let id = FileId::at(one);
                one == other || id.is_some() && id == FileId::at(other)
            }
            (DeviceAddress::Uri(one, _), DeviceAddress::Uri(other, _)) => one == other,
            _ => false,
        }
    }

    /// The first of these that names the same file, device or export as an earlier one.
    pub fn first_repeated(addresses: &[DeviceAddress]) -> Option<&DeviceAddress> {
        let mut indexed = addresses.iter().enumerate();
        let repeated = indexed
            .find(|(index, address)| addresses[..*index].iter().any(|it| it.is_same(address)));
        repeated.map(|(_, address)| address)
    }

    /// The address as array files have it. A relative path is relative to the working directory.
    pub(crate) fn source(&self) -> MemberSource {
        match self {
            DeviceAddress::Path(path) => MemberSource::Path(path.clone()),
            DeviceAddress::Uri(_, text) => MemberSource::Uri(text.clone()),
        }
    }

    /// The address as a client of the service understands it, whatever its working directory.
    pub fn absolute(&self) -> String {
        let path = self.path().and_then(|path| std::path::absolute(path).ok());
        path.map_or_else(|| self.to_string(), |path| path.display().to_string())
    }

    /// The files and block devices of a folder, in the order of their names. Of several names of
    /// one file, a link is left out.
    pub fn in_folder(folder: &Path) -> std::io::Result<Vec<DeviceAddress>> {
        use std::os::unix::fs::FileTypeExt;
        let mut paths = Vec::new();
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            let kind = std::fs::metadata(&path).map(|metadata| metadata.file_type());
            if kind.is_ok_and(|kind| kind.is_file() || kind.is_block_device()) {
                paths.push((path.is_symlink(), path));
            }
        }
        paths.sort();
        let mut seen = Vec::new();
        paths.retain(|(_, path)| match FileId::at(path) {
            Some(id) if seen.contains(&id) => false,
            id => {
                seen.extend(id);
                true
            }
        });
        paths.sort_by(|(_, one), (_, other)| one.cmp(other));
        Ok(paths.into_iter().map(|(_, path)| DeviceAddress::Path(path)).collect())
    }
}

impl fmt::Display for DeviceAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeviceAddress::Path(path) => write!(f, "{}", path.display()),
            DeviceAddress::Uri(_, text) => f.write_str(text),
        }
    }
}
