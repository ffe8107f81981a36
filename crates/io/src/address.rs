//! Where an export is to be found: `nbd:unix:PATH`, `nbd:tcp:PORT`, `nbd:tcp:ADDRESS:PORT`,
//! `fuse:DIR` or `ublk`.
//!
//! A port alone means this machine only; other machines are let in by an address, and by nothing
//! else, because whoever can connect can read and write.

use crate::export::Export;
use std::fmt;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Where clients find what is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExportAddress {
    /// An NBD server.
    Nbd(ListenAddress),
    /// A folder with a file for each export.
    Fuse(PathBuf),
    /// A block device for each export.
    Ublk,
}

impl ExportAddress {
    /// Reads where.
    ///
    /// # Errors
    /// If it is not written as one.
    pub fn parse(text: &str) -> Result<ExportAddress, AddressError> {
        if text == "ublk" {
            return Ok(ExportAddress::Ublk);
        }
        match text.strip_prefix("fuse:") {
            Some("") => Err(AddressError::Malformed(text.to_owned())),
            Some(folder) => Ok(ExportAddress::Fuse(folder.into())),
            None => ListenAddress::parse(text).map(ExportAddress::Nbd),
        }
    }
}

/// Where an NBD server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenAddress {
    /// A unix socket.
    Unix(PathBuf),
    /// A TCP port.
    Tcp(SocketAddr),
}

/// What TCP goes through.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transport {
    /// Nothing.
    Plain,
    /// TLS.
    Tls,
}

/// Why an address cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum AddressError {
    /// It is not written as one.
    #[error(
        "`{0}` is not an export: write nbd:unix:PATH, nbd:tcp:PORT (this machine only), \
         nbd:tcp:ADDRESS:PORT, fuse:DIR or ublk"
    )]
    Malformed(String),
    /// Another server has it.
    #[error("another server listens on `{}`: stop it, or take another path", .0.display())]
    Taken(PathBuf),
    /// Something else is in its place.
    #[error("`{}` is there and is no socket: take another path", .0.display())]
    NotASocket(PathBuf),
    /// The system refused.
    #[error("cannot listen on {address}: {error}")]
    System {
        /// Where.
        address: ListenAddress,
        /// What it said.
        error: io::Error,
    },
}

/// A socket that listens, and what its owner should be told.
#[derive(Debug)]
pub struct BoundSocket {
    /// The socket.
    pub socket: OwnedFd,
    /// Something done on the way.
    pub note: Option<String>,
}

impl ListenAddress {
    /// Reads an address.
    ///
    /// # Errors
    /// If it is not written as one.
    pub fn parse(text: &str) -> Result<ListenAddress, AddressError> {
        let malformed = || AddressError::Malformed(text.to_owned());
        let rest = text.strip_prefix("nbd:").ok_or_else(malformed)?;
        match rest.split_once(':') {
            Some(("unix", path)) if !path.is_empty() => Ok(ListenAddress::Unix(path.into())),
            Some(("tcp", place)) => match (place.parse(), place.parse()) {
                (Ok(port), _) => {
                    Ok(ListenAddress::Tcp((IpAddr::V4(Ipv4Addr::LOCALHOST), port).into()))
                }
                (_, Ok(address)) => Ok(ListenAddress::Tcp(address)),
                _ => Err(malformed()),
            },
            _ => Err(malformed()),
        }
    }

    /// Listens. A socket that a server left behind when it was killed is cleaned up.
    ///
    /// # Errors
    /// If somebody else listens there, or the system refuses.
    pub fn bind(&self) -> Result<BoundSocket, AddressError> {
        let system = |error| AddressError::System { address: self.clone(), error };
        match self {
            ListenAddress::Unix(path) => bind_unix(path, system),
            ListenAddress::Tcp(address) => {
                let socket: OwnedFd = TcpListener::bind(address).map_err(system)?.into();
                Ok(BoundSocket { socket, note: None })
            }
        }
    }

    /// Whether other machines can connect.
    pub fn accepts_remote(&self) -> bool {
        match self {
            ListenAddress::Unix(_) => false,
            ListenAddress::Tcp(address) => !address.ip().is_loopback(),
        }
    }

    /// How NBD clients call an export here.
    pub fn uri(&self, export: &Export, cover: Transport) -> String {
        let name = &export.name;
        match self {
            ListenAddress::Unix(path) => format!("nbd+unix:///{name}?socket={}", path.display()),
            ListenAddress::Tcp(address) => match cover {
                Transport::Plain => format!("nbd://{address}/{name}"),
                Transport::Tls => format!("nbds://{address}/{name}?tls-certificates=DIR"),
            },
        }
    }

    /// Removes what is left of it when nobody listens any more.
    pub fn remove_socket(&self) {
        if let ListenAddress::Unix(path) = self {
            let _ = std::fs::remove_file(path);
        }
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ListenAddress::Unix(path) => write!(f, "nbd:unix:{}", path.display()),
            ListenAddress::Tcp(address) => write!(f, "nbd:tcp:{address}"),
        }
    }
}

/// Listens on a unix socket, in place of one that nobody listens on any more.
fn bind_unix(
    path: &Path,
    system: impl Fn(io::Error) -> AddressError,
) -> Result<BoundSocket, AddressError> {
    let mut note = None;
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(system(error)),
        Ok(metadata) if !metadata.file_type().is_socket() => {
            return Err(AddressError::NotASocket(path.to_owned()));
        }
        Ok(_) if is_alive(path) => {
            return Err(AddressError::Taken(path.to_owned()));
        }
        Ok(_) => {
            std::fs::remove_file(path).map_err(&system)?;
            let path = path.display();
            note = Some(format!("removed `{path}`, which a server that was killed left behind"));
        }
    }
    let socket = UnixListener::bind(path).map_err(system)?.into();
    Ok(BoundSocket { socket, note })
}

/// Whether somebody listens at a unix socket. The kernel closes those of a program that used
/// io_uring a moment after it was killed, so a first answer is not believed.
fn is_alive(path: &Path) -> bool {
    let deadline = Instant::now() + Duration::from_millis(500);
    while UnixStream::connect(path).is_ok() {
        if Instant::now() > deadline {
            return true;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_a_port_alone_is_this_machine() {
        let read = |text| ListenAddress::parse(text).map(|address| address.to_string());
        assert_eq!(read("nbd:unix:/tmp/a:b").unwrap(), "nbd:unix:/tmp/a:b");
        assert_eq!(read("nbd:tcp:10809").unwrap(), "nbd:tcp:127.0.0.1:10809");
        assert_eq!(read("nbd:tcp:0.0.0.0:1").unwrap(), "nbd:tcp:0.0.0.0:1");
        assert_eq!(read("nbd:tcp:[::1]:1").unwrap(), "nbd:tcp:[::1]:1");
        for (text, open) in [("unix:/a", false), ("tcp:1", false), ("tcp:[::1]:1", false)]
            .into_iter()
            .chain([("tcp:0.0.0.0:1", true), ("tcp:[::]:1", true), ("tcp:10.0.0.1:1", true)])
        {
            assert_eq!(
                ListenAddress::parse(&format!("nbd:{text}")).unwrap().accepts_remote(),
                open,
                "{text}"
            );
        }
        for text in ["", "unix:/a", "nbd:unix:", "nbd:tcp:", "nbd:tcp:host", "nbd:ucp:1"] {
            assert!(read(text).unwrap_err().to_string().contains("nbd:unix:PATH"), "{text}");
        }
    }

    #[test]
    fn folders_and_block_devices_are_exports_too() {
        assert_eq!(ExportAddress::parse("ublk").unwrap(), ExportAddress::Ublk);
        assert_eq!(ExportAddress::parse("fuse:/a:b").unwrap(), ExportAddress::Fuse("/a:b".into()));
        let tcp = ListenAddress::parse("nbd:tcp:1").unwrap();
        assert_eq!(ExportAddress::parse("nbd:tcp:1").unwrap(), ExportAddress::Nbd(tcp));
        for text in ["fuse:", "fuse", "ublk:/a"] {
            assert!(
                ExportAddress::parse(text).unwrap_err().to_string().contains("fuse:DIR"),
                "{text}"
            );
        }
    }

    #[test]
    fn a_dead_socket_is_replaced_and_a_live_one_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let address = ListenAddress::Unix(path.clone());
        let first = address.bind().unwrap();
        assert!(first.note.is_none());
        assert!(matches!(address.bind(), Err(AddressError::Taken(_))));
        drop(first);
        assert!(address.bind().unwrap().note.unwrap().contains("left behind"));
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "precious").unwrap();
        assert!(matches!(address.bind(), Err(AddressError::NotASocket(_))));
        assert_eq!(std::fs::read(&path).unwrap(), b"precious");
    }
}
