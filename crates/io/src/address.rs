//! Export addresses: `nbd:unix:PATH`, `nbd:tcp:PORT`, `nbd:tcp:ADDRESS:PORT` or `fuse:DIR`.
//!
//! A port without an address listens on the loopback interface only, because anyone who can connect
//! can read and write.

use crate::driver::FileId;
use crate::export::Export;
use mirrorball_nbd::uri::encoded;
use std::fmt;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The value of `--export`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExportAddress {
    Nbd(ListenAddress),
    Fuse(PathBuf),
}

impl ExportAddress {
    pub fn parse(text: &str) -> Result<ExportAddress, AddressError> {
        let wrong = |what: &str, help| Err(AddressError::Malformed { what: what.to_owned(), help });
        match text.split_once(':').unwrap_or((text, "")) {
            ("fuse", "") => wrong("the folder is missing", "write fuse:DIR"),
            ("fuse", folder) => Ok(ExportAddress::Fuse(folder.into())),
            _ => ListenAddress::parse(text).map(ExportAddress::Nbd),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenAddress {
    Unix(PathBuf),
    Tcp(SocketAddr),
}

/// Whether TCP connections use TLS.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transport {
    Plain,
    Tls,
}

/// Help that lists the form of each kind of address.
const ALL_ADDRESSES: &str = "write nbd:unix:PATH, nbd:tcp:PORT (this machine only), \
                             nbd:tcp:ADDRESS:PORT or fuse:DIR";
const NBD_ADDRESSES: &str =
    "write nbd:unix:PATH, nbd:tcp:PORT (this machine only) or nbd:tcp:ADDRESS:PORT";
const TCP_ADDRESSES: &str = "write nbd:tcp:PORT (this machine only) or nbd:tcp:ADDRESS:PORT";

/// Most bytes of the path of a Unix socket: one less than `sun_path` in the kernel's un.h.
const SOCKET_PATH_BYTES_MAX: usize = 107;

/// A path that is too long for a Unix socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the path has {bytes} bytes, but that of a Unix socket may have {SOCKET_PATH_BYTES_MAX}")]
pub struct PathTooLong {
    bytes: usize,
}

/// Why an address cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum AddressError {
    #[error("{what}\n  help: {help}")]
    Malformed { what: String, help: &'static str },
    /// The path is longer than that of a socket may be.
    #[error("{error}\n  help: give {option} a shorter path")]
    TooLong { error: PathTooLong, option: &'static str },
    /// Another server listens there.
    #[error(
        "another server listens on `{}`\n  help: stop it, or give {option} another path",
        path.display()
    )]
    Taken { path: PathBuf, option: &'static str },
    /// The path is not a socket.
    #[error(
        "`{}` exists and is not a socket\n  help: remove it, or give {option} another path",
        path.display()
    )]
    NotASocket { path: PathBuf, option: &'static str },
    /// The options of one command name the address twice.
    #[error(
        "the command names the address {0} twice\n  help: give --control and each --export an \
         address of its own"
    )]
    Repeated(ListenAddress),
    /// The system refused to listen for clients of an export.
    #[error("cannot listen on {address}: {error}{}", hint(error))]
    Export { address: ListenAddress, error: io::Error },
    /// The system refused to create a control socket.
    #[error("cannot create the control socket `{}`: {error}{}", path.display(), hint(error))]
    Control { path: PathBuf, error: io::Error },
}

fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        ErrorKind::NotFound => "\n  help: create its folder first",
        ErrorKind::NotADirectory => "\n  help: a part of its path is a file; give another path",
        ErrorKind::AddrInUse => "\n  help: stop the server that uses it, or give another port",
        ErrorKind::AddrNotAvailable => "\n  help: give an address of this machine",
        ErrorKind::PermissionDenied => "\n  help: give a path or port that you may use",
        _ => "",
    }
}

#[derive(Debug)]
pub struct BoundSocket {
    pub socket: OwnedFd,
    /// Where it listens: the same address, with the port that the system chose in place of 0.
    pub address: ListenAddress,
    pub note: Option<String>,
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

impl AddressError {
    /// True if the system failed; false if another address would work.
    pub fn is_of_system(&self) -> bool {
        match self {
            AddressError::Export { error, .. } | AddressError::Control { error, .. } => {
                hint(error).is_empty()
            }
            _ => false,
        }
    }
}

impl ListenAddress {
    /// The address with an absolute path, so that two spellings of one path are equal.
    #[must_use]
    pub fn absolute(&self) -> ListenAddress {
        match self {
            ListenAddress::Unix(path) => {
                ListenAddress::Unix(std::path::absolute(path).unwrap_or_else(|_| path.clone()))
            }
            ListenAddress::Tcp(_) => self.clone(),
        }
    }

    pub fn parse(text: &str) -> Result<ListenAddress, AddressError> {
        let malformed = |what: &str, help| AddressError::Malformed { what: what.to_owned(), help };
        let Some(rest) = text.strip_prefix("nbd").filter(|it| it.is_empty() || it.starts_with(':'))
        else {
            let what = match text {
                "" => "the address is missing",
                _ => "it does not start with nbd: or fuse:",
            };
            return Err(malformed(what, ALL_ADDRESSES));
        };
        match rest.trim_start_matches(':').split_once(':') {
            Some(("unix", "")) => Err(malformed("the path is missing", "write nbd:unix:PATH")),
            Some(("unix", path)) => Ok(ListenAddress::Unix(path.into())),
            Some(("tcp", place)) => {
                let parsed = parse_socket_address(place);
                parsed.map(ListenAddress::Tcp).map_err(|what| malformed(&what, TCP_ADDRESSES))
            }
            _ => Err(malformed("`nbd:` must be followed by unix: or tcp:", NBD_ADDRESSES)),
        }
    }

    /// Listens for clients of exports. The socket file of a killed server is removed first. Fails
    /// if another server listens there, or the system refuses.
    pub fn bind(&self) -> Result<BoundSocket, AddressError> {
        let system = |error| AddressError::Export { address: self.clone(), error };
        match self {
            ListenAddress::Unix(path) => bind_unix(path, "--export", system),
            ListenAddress::Tcp(address) => {
                let socket = TcpListener::bind(address).map_err(system)?;
                let address = ListenAddress::Tcp(socket.local_addr().map_err(system)?);
                Ok(BoundSocket { socket: socket.into(), address, note: None, file: None })
            }
        }
    }

    /// Listens for clients of the control socket at `path`. The socket file of a killed server is
    /// removed first. Fails if another server listens there, or the system refuses.
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

    pub fn uri(&self, export: &Export, cover: Transport) -> String {
        let name = encoded(export.name.as_bytes());
        match self {
            ListenAddress::Unix(path) => {
                let path = encoded(path.as_os_str().as_bytes());
                format!("nbd+unix:///{name}?socket={path}")
            }
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

impl PathTooLong {
    /// Checks the length of the path of a socket. Fails if it is too long.
    pub fn check(path: &Path) -> Result<(), PathTooLong> {
        let bytes = path.as_os_str().len();
        if bytes <= SOCKET_PATH_BYTES_MAX { Ok(()) } else { Err(PathTooLong { bytes }) }
    }
}

/// Parses `PORT`, which is on this machine only, or `ADDRESS:PORT`.
///
/// # Errors
/// What is wrong with the text, which the message does not repeat.
pub fn parse_socket_address(text: &str) -> Result<SocketAddr, String> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let (address, port) = match text.rsplit_once(':') {
        Some((address, port)) => (Some(address), port),
        None => (None, text),
    };
    let is_number = !port.is_empty() && port.chars().all(|digit| digit.is_ascii_digit());
    match (address, port.parse::<u16>()) {
        (None, Ok(port)) => Ok((IpAddr::V4(Ipv4Addr::LOCALHOST), port).into()),
        (_, Err(_)) if is_number => Err(format!("the port {port} is above 65535")),
        (_, Err(_)) if port.is_empty() => Err("the port is missing".to_owned()),
        (_, Err(_)) => Err(format!("the port `{port}` is not a number")),
        (Some(address), Ok(_)) => Err(format!(
            "`{address}` is not an IP address of this machine, such as 127.0.0.1, 192.0.2.1 or \
             [::1]"
        )),
    }
}

/// Listens on a unix socket, and replaces one without a listener. `option` names the option with
/// the path in errors.
fn bind_unix(
    path: &Path,
    option: &'static str,
    system: impl Fn(io::Error) -> AddressError,
) -> Result<BoundSocket, AddressError> {
    PathTooLong::check(path).map_err(|error| AddressError::TooLong { error, option })?;
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
    let address = ListenAddress::Unix(path.to_owned());
    Ok(BoundSocket { socket, address, note, file: Some(file) })
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
            let message = read(text).unwrap_err().to_string();
            assert!(message.contains("help: write nbd:"), "{text}: {message}");
        }
        for (text, what) in [
            ("nbd:tcp:65536", "the port 65536 is above 65535"),
            ("nbd:tcp:[::1]:x", "the port `x` is not a number"),
            ("nbd:tcp:localhost:1", "`localhost` is not an IP address of this machine"),
            ("nbd:unix:", "the path is missing"),
            ("nbd", "must be followed by unix: or tcp:"),
            ("", "the address is missing"),
            ("nbd:ucp:1", "must be followed by unix: or tcp:"),
            ("tcp:1", "does not start with nbd:"),
        ] {
            assert!(read(text).unwrap_err().to_string().contains(what), "{text}");
        }
    }

    #[test]
    fn fuse_addresses_are_parsed() {
        assert_eq!(ExportAddress::parse("fuse:/a:b").unwrap(), ExportAddress::Fuse("/a:b".into()));
        let tcp = ListenAddress::parse("nbd:tcp:1").unwrap();
        assert_eq!(ExportAddress::parse("nbd:tcp:1").unwrap(), ExportAddress::Nbd(tcp));
        for (text, message) in [
            ("fuse:", "the folder is missing\n  help: write fuse:DIR"),
            ("fuse", "the folder is missing\n  help: write fuse:DIR"),
        ] {
            assert_eq!(ExportAddress::parse(text).unwrap_err().to_string(), message);
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
    fn paths_that_are_too_long_are_refused_with_their_length() {
        let longest = PathBuf::from("x".repeat(SOCKET_PATH_BYTES_MAX));
        assert_eq!(PathTooLong::check(&longest), Ok(()));
        let message = ListenAddress::bind_control(&longest.join("y")).unwrap_err().to_string();
        let expected = "the path has 109 bytes, but that of a Unix socket may have 107\n  help: \
                        give --control a shorter path";
        assert_eq!(message, expected);
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
    fn the_port_that_the_system_chose_is_known() {
        let bound = ListenAddress::parse("nbd:tcp:0").unwrap().bind().unwrap();
        let ListenAddress::Tcp(address) = bound.address else { panic!("it is a TCP address") };
        assert_ne!(address.port(), 0);
        std::net::TcpStream::connect(address).unwrap();
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
