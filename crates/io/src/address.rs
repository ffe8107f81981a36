//! Export addresses: `nbd:unix:PATH`, `nbd:tcp:PORT`, `nbd:tcp:ADDRESS:PORT`, `fuse:DIR` or `ublk`.
//!
//! A port without an address listens on the loopback interface only, because anyone who can connect
//! can read and write.

use crate::driver::FileId;
use crate::export::Export;
use std::fmt;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The value of `--export`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExportAddress {
    /// An address of the NBD server.
    Nbd(ListenAddress),
    /// A folder with a file for each export.
    Fuse(PathBuf),
    /// A block device for each export.
    Ublk,
}

impl ExportAddress {
    /// Parses an export address.
    ///
    /// # Errors
    /// If it is malformed.
    pub fn parse(text: &str) -> Result<ExportAddress, AddressError> {
        if text == "ublk" {
            return Ok(ExportAddress::Ublk);
        }
        match text.strip_prefix("fuse:") {
            Some("") => Err(AddressError::malformed(text, "the folder after `fuse:` is missing")),
            Some(folder) => Ok(ExportAddress::Fuse(folder.into())),
            None => ListenAddress::parse(text).map(ExportAddress::Nbd),
        }
    }
}

/// An address to listen at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenAddress {
    /// A unix socket.
    Unix(PathBuf),
    /// A TCP port.
    Tcp(SocketAddr),
}

/// Whether TCP connections use TLS.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transport {
    /// Plain text.
    Plain,
    /// TLS.
    Tls,
}

/// Why an address cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum AddressError {
    /// It is malformed.
    #[error(
        "`{text}` is not an export address: {what}; write nbd:unix:PATH, nbd:tcp:PORT (this \
         machine only), nbd:tcp:ADDRESS:PORT, fuse:DIR or ublk"
    )]
    Malformed {
        /// The address.
        text: String,
        /// What is wrong with it.
        what: &'static str,
    },
    /// Another server listens there.
    #[error(
        "another server listens on `{}`: stop it, or give {option} another path", path.display()
    )]
    Taken {
        /// The path of the socket.
        path: PathBuf,
        /// The option with the path.
        option: &'static str,
    },
    /// The path is not a socket.
    #[error(
        "`{}` exists and is not a socket: remove it, or give {option} another path", path.display()
    )]
    NotASocket {
        /// The path.
        path: PathBuf,
        /// The option with the path.
        option: &'static str,
    },
    /// The options of one command name the address twice.
    #[error(
        "the command names the address {0} twice: --control and each --export need an address of \
         their own"
    )]
    Repeated(ListenAddress),
    /// The system refused to listen for clients of an export.
    #[error("cannot listen on {address}: {error}{}", hint(error))]
    Export {
        /// The address.
        address: ListenAddress,
        /// What the system reported.
        error: io::Error,
    },
    /// The system refused to create a control socket.
    #[error("cannot create the control socket `{}`: {error}{}", path.display(), hint(error))]
    Control {
        /// The path.
        path: PathBuf,
        /// What the system reported.
        error: io::Error,
    },
}

/// What to do about an error of the system.
fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        ErrorKind::NotFound => "; create its folder first",
        ErrorKind::AddrInUse => "; stop the server that uses it, or give another port",
        ErrorKind::AddrNotAvailable => "; give an address of this machine",
        ErrorKind::PermissionDenied => "; give a path or port that you may use",
        ErrorKind::InvalidInput => "; give a shorter path",
        _ => "",
    }
}

/// A listening socket.
#[derive(Debug)]
pub struct BoundSocket {
    /// The socket.
    pub socket: OwnedFd,
    /// A note for the user.
    pub note: Option<String>,
    /// The file of a unix socket.
    pub file: Option<SocketFile>,
}

/// The file of a unix socket that this process made.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    id: Option<FileId>,
}

impl SocketFile {
    /// Removes the file, unless another one is at its path now.
    pub fn remove(&self) {
        if self.id.is_some() && FileId::at(&self.path) == self.id {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl ListenAddress {
    /// Parses the address of an NBD server.
    ///
    /// # Errors
    /// If it is malformed.
    pub fn parse(text: &str) -> Result<ListenAddress, AddressError> {
        let malformed = |what| AddressError::malformed(text, what);
        let rest = text.strip_prefix("nbd:");
        let rest = rest.ok_or_else(|| malformed("it does not start with nbd:, fuse: or ublk"))?;
        match rest.split_once(':') {
            Some(("unix", "")) => Err(malformed("the path after `nbd:unix:` is missing")),
            Some(("unix", path)) => Ok(ListenAddress::Unix(path.into())),
            Some(("tcp", place)) => parse_tcp(place).map(ListenAddress::Tcp).map_err(malformed),
            _ => Err(malformed("`nbd:` must be followed by unix: or tcp:")),
        }
    }

    /// Listens for clients of exports. The socket file of a killed server is removed first.
    ///
    /// # Errors
    /// If another server listens there, or the system refuses.
    pub fn bind(&self) -> Result<BoundSocket, AddressError> {
        let system = |error| AddressError::Export { address: self.clone(), error };
        match self {
            ListenAddress::Unix(path) => bind_unix(path, "--export", system),
            ListenAddress::Tcp(address) => {
                let socket: OwnedFd = TcpListener::bind(address).map_err(system)?.into();
                Ok(BoundSocket { socket, note: None, file: None })
            }
        }
    }

    /// Listens for clients of the control socket at `path`. The socket file of a killed server is
    /// removed first.
    ///
    /// # Errors
    /// If another server listens there, or the system refuses.
    pub fn bind_control(path: &Path) -> Result<BoundSocket, AddressError> {
        bind_unix(path, "--control", |error| AddressError::Control { path: path.to_owned(), error })
    }

    /// Returns true if other machines can connect.
    pub fn accepts_remote(&self) -> bool {
        match self {
            ListenAddress::Unix(_) => false,
            ListenAddress::Tcp(address) => !address.ip().is_loopback(),
        }
    }

    /// The NBD URI of an export at this address.
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
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ListenAddress::Unix(path) => write!(f, "nbd:unix:{}", path.display()),
            ListenAddress::Tcp(address) => write!(f, "nbd:tcp:{address}"),
        }
    }
}

impl AddressError {
    fn malformed(text: &str, what: &'static str) -> AddressError {
        AddressError::Malformed { text: text.to_owned(), what }
    }
}

/// Parses `PORT` or `ADDRESS:PORT`; on failure returns what is wrong.
fn parse_tcp(text: &str) -> Result<SocketAddr, &'static str> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let (address, port) = match text.rsplit_once(':') {
        Some((address, port)) => (Some(address), port),
        None => (None, text),
    };
    match (address, port.parse::<u16>()) {
        (None, Ok(port)) => Ok((IpAddr::V4(Ipv4Addr::LOCALHOST), port).into()),
        (_, Err(_)) => Err("the port must be a number from 0 to 65535"),
        (Some(_), Ok(_)) => Err(
            "the address must be an IP address of this machine, such as 192.0.2.1 or [::1], not \
             a host name",
        ),
    }
}

/// Listens on a unix socket, and replaces one without a listener. `option` names the option with
/// the path in errors.
fn bind_unix(
    path: &Path,
    option: &'static str,
    system: impl Fn(io::Error) -> AddressError,
) -> Result<BoundSocket, AddressError> {
    let mut note = None;
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(system(error)),
        Ok(metadata) if !metadata.file_type().is_socket() => {
            return Err(AddressError::NotASocket { path: path.to_owned(), option });
        }
        Ok(_) if is_alive(path) => {
            return Err(AddressError::Taken { path: path.to_owned(), option });
        }
        Ok(_) => {
            std::fs::remove_file(path).map_err(&system)?;
            let path = path.display();
            note = Some(format!(
                "removed the socket `{path}`, left behind by a server that was killed"
            ));
        }
    }
    let socket = UnixListener::bind(path).map_err(system)?.into();
    let file = SocketFile { path: path.to_owned(), id: FileId::at(path) };
    Ok(BoundSocket { socket, note, file: Some(file) })
}

/// Returns true if a server listens at a unix socket. The kernel closes the sockets of a killed
/// program that used io_uring with a delay, so a successful connection is tried again.
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
    fn addresses_are_parsed() {
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
        for (text, what) in [
            ("nbd:tcp:65536", "the port must be a number from 0 to 65535"),
            ("nbd:tcp:[::1]:x", "the port must be a number from 0 to 65535"),
            ("nbd:tcp:localhost:1", "must be an IP address of this machine"),
            ("nbd:unix:", "the path after `nbd:unix:` is missing"),
            ("nbd:ucp:1", "must be followed by unix: or tcp:"),
            ("tcp:1", "does not start with nbd:"),
        ] {
            assert!(read(text).unwrap_err().to_string().contains(what), "{text}");
        }
    }

    #[test]
    fn fuse_and_ublk_addresses_are_parsed() {
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
    fn errors_name_the_control_socket() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("none/control");
        let message = ListenAddress::bind_control(&path).unwrap_err().to_string();
        let expected = format!("cannot create the control socket `{}`: No such", path.display());
        assert!(message.starts_with(&expected), "{message}");
        assert!(message.ends_with("create its folder first"), "{message}");
        let path = folder.path().join("file");
        std::fs::write(&path, "precious").unwrap();
        let message = ListenAddress::bind_control(&path).unwrap_err().to_string();
        assert!(message.ends_with("give --control another path"), "{message}");
    }

    #[test]
    fn only_sockets_without_a_listener_are_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let address = ListenAddress::Unix(path.clone());
        let first = address.bind().unwrap();
        assert!(first.note.is_none());
        assert!(matches!(address.bind(), Err(AddressError::Taken { .. })));
        drop(first);
        assert!(address.bind().unwrap().note.unwrap().contains("left behind"));
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "precious").unwrap();
        assert!(matches!(address.bind(), Err(AddressError::NotASocket { .. })));
        assert_eq!(std::fs::read(&path).unwrap(), b"precious");
    }

    #[test]
    fn only_the_file_of_the_own_socket_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let address = ListenAddress::Unix(path.clone());
        let first = address.bind().unwrap();
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "precious").unwrap();
        first.file.unwrap().remove();
        assert_eq!(std::fs::read(&path).unwrap(), b"precious");
        std::fs::remove_file(&path).unwrap();
        let second = address.bind().unwrap();
        second.file.unwrap().remove();
        assert!(!path.exists());
    }
}
