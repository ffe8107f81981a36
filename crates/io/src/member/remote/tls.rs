//! Attaching to an export behind TLS: the client's side.

use super::client::{ClientError, RemoteExport, choose, start_tls};
use crate::tls::{ClientTls, pump};
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, Connection, Stream};
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;

/// Attaches to an export of a server that is called `host`, with the certificates of a folder.
/// Requests may follow on the socket that is returned; a thread carries them through TLS.
///
/// # Errors
/// As [`super::client::attach`], and if either side does not trust the other.
pub(crate) fn attach(
    mut outer: File,
    host: &str,
    export: &str,
    folder: &Path,
) -> Result<(OwnedFd, RemoteExport), ClientError> {
    let ClientTls(config) = ClientTls::load(folder)?;
    let name = ServerName::try_from(host.to_owned());
    let name = name.map_err(|_| ClientError::NoServer("its name cannot be on a certificate"))?;
    start_tls(&mut outer)?;
    let mut tls = ClientConnection::new(config, name).map_err(distrust)?;
    let attached = choose(&mut Stream::new(&mut tls, &mut outer), &[], export)?;
    let (ours, theirs) = UnixStream::pair()?;
    let thread = std::thread::Builder::new().name("tls".to_owned()).stack_size(pump::STACK_BYTES);
    thread.spawn(move || pump::pump(Connection::Client(tls), outer.into(), theirs))?;
    Ok((ours.into(), attached))
}

fn distrust(error: rustls::Error) -> io::Error {
    io::Error::new(ErrorKind::PermissionDenied, error)
}
