//! The client's side of the control socket.

use super::{ControlRequest, ControlResponse, RequestError, ServiceEvent};
use crate::address::PathTooLong;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a service may take to answer. Opening a member on another machine is the slowest part
/// of a request.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// Why a service gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// There is no connection, or it broke.
    #[error(
        "cannot connect to control socket `{}`: {error}\n  help: give the path given to \
         `emulate` or `serve` as --control",
        path.display()
    )]
    Connection { path: PathBuf, error: io::Error },
    /// The socket is left of a service that does not run any more.
    #[error(
        "no service listens at control socket `{}` any more: the one that made it was killed, or \
         crashed\n  help: start it again; its output or the system's journal may say why it ended",
        path.display()
    )]
    NotListening { path: PathBuf },
    /// The service did not answer in time.
    #[error(
        "no answer from control socket `{}` within {} s: the service is stopped or its machine \
         too busy, and may still carry out the request\n  help: try `ctl status` later",
        path.display(), ANSWER_TIMEOUT.as_secs()
    )]
    Silent { path: PathBuf },
    /// The path is longer than that of a socket may be.
    #[error("{0}\n  help: give the path given to `emulate` or `serve` as --control")]
    TooLong(PathTooLong),
    /// Something else than a control socket is at the path.
    #[error(
        "`{}` is {what}, not a control socket\n  help: give the path given to `emulate` or \
         `serve` as --control",
        path.display()
    )]
    NotControl { path: PathBuf, what: &'static str },
    /// The response is not one of this protocol.
    #[error(
        "the response of `{}` is not one of a control socket of this version: {error}\n  help: \
         give the path given to `emulate` or `serve` as --control, and use the same version of \
         mirrorball",
        path.display()
    )]
    Malformed { path: PathBuf, error: serde_json::Error },
    /// The service did not carry out the request.
    #[error(transparent)]
    Refused(#[from] RequestError),
}

/// Sends a request to the service whose control socket is at `path`, and returns its answer. Fails
/// if there is no service, or it does not carry out the request.
pub fn ask<T: DeserializeOwned>(path: &Path, request: &ControlRequest) -> Result<T, AskError> {
    let malformed = |error| AskError::Malformed { path: path.to_owned(), error };
    let line = serde_json::to_string(request).map_err(malformed)?;
    check_path(path)?;
    let text = exchange(path, &line, ANSWER_TIMEOUT).map_err(|error| broken(path, error))?;
    if text.starts_with("NBDMAGIC") {
        return Err(AskError::NotControl { path: path.to_owned(), what: NBD_SOCKET });
    }
    // The answer in a second step: its errors then say which field is wrong.
    match serde_json::from_str::<ControlResponse<Value>>(&text).map_err(malformed)? {
        ControlResponse::Done { answer } => serde_json::from_value(answer).map_err(malformed),
        ControlResponse::Failed(error) => Err(error.into()),
    }
}

/// Gives each event of the service whose control socket is at `path` to `take`, with its line: the
/// last ones and, if `follows`, those that happen from then on. Ends when the service closes the
/// connection, or `take` returns false. Fails if there is no service, or it does not send events.
pub fn follow_events(
    path: &Path,
    follows: bool,
    mut take: impl FnMut(&ServiceEvent, &str) -> bool,
) -> Result<(), AskError> {
    let malformed = |error| AskError::Malformed { path: path.to_owned(), error };
    let request = serde_json::to_string(&ControlRequest::Events { follow: follows });
    let request = request.map_err(malformed)? + "\n";
    check_path(path)?;
    let connect = || {
        let mut socket = connect(path, ANSWER_TIMEOUT)?;
        socket.write_all(request.as_bytes())?;
        Ok(socket)
    };
    let mut lines = BufReader::new(connect().map_err(|error| broken(path, error))?);
    let mut count = 0;
    loop {
        let mut line = Vec::new();
        let read = lines.read_until(b'\n', &mut line).map_err(|error| broken(path, error))?;
        let line = String::from_utf8_lossy(&line[..read]).into_owned();
        if line.starts_with("NBDMAGIC") {
            return Err(AskError::NotControl { path: path.to_owned(), what: NBD_SOCKET });
        }
        if line.is_empty() && count > 0 {
            return Ok(());
        }
        match serde_json::from_str::<ServiceEvent>(&line) {
            Ok(event) if !take(&event, line.trim_end()) => return Ok(()),
            Ok(_) => count += 1,
            Err(error) => {
                let failed = serde_json::from_str::<RequestError>(&line);
                return Err(failed.map_or_else(|_| malformed(error), AskError::Refused));
            }
        }
        if count == 1 {
            // Whether a service answers is known now; the next event may take days.
            let endless = lines.get_ref().set_read_timeout(None);
            endless.map_err(|error| broken(path, error))?;
        }
    }
}

const NBD_SOCKET: &str = "the socket of an NBD export";

/// Refuses a path that cannot be that of a control socket.
fn check_path(path: &Path) -> Result<(), AskError> {
    PathTooLong::check(path).map_err(AskError::TooLong)?;
    let not_control = |what| AskError::NotControl { path: path.to_owned(), what };
    match std::fs::metadata(path).map(|metadata| metadata.file_type()) {
        Ok(kind) if kind.is_dir() => Err(not_control("a folder")),
        Ok(kind) if !kind.is_socket() => Err(not_control("a file")),
        _ => Ok(()),
    }
}

fn broken(path: &Path, error: io::Error) -> AskError {
    match error.kind() {
        io::ErrorKind::WouldBlock => AskError::Silent { path: path.to_owned() },
        io::ErrorKind::ConnectionRefused => AskError::NotListening { path: path.to_owned() },
        _ => AskError::Connection { path: path.to_owned(), error },
    }
}

/// Sends a line and returns the line that comes back. Each step fails with `WouldBlock` if the
/// service does nothing for `timeout`.
pub(in crate::control) fn exchange(
    path: &Path,
    line: &str,
    timeout: Duration,
) -> io::Result<String> {
    let mut socket = connect(path, timeout)?;
    socket.write_all(format!("{line}\n").as_bytes())?;
    let mut bytes = Vec::new();
    socket.read_to_end(&mut bytes)?;
    if bytes.is_empty() {
        return Err(io::Error::new(
            io::ErrorKind::UnexpectedEof,
            "the service closed the connection without a response",
        ));
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Connects. A service that is stopped accepts no connection, so this may take a while, too.
fn connect(path: &Path, timeout: Duration) -> io::Result<UnixStream> {
    let address = SocketAddrUnix::new(path)?;
    let (family, kind) = (AddressFamily::UNIX, SocketType::STREAM);
    let socket = rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None)?;
    for direction in [sockopt::Timeout::Send, sockopt::Timeout::Recv] {
        sockopt::set_socket_timeout(&socket, direction, Some(timeout))?;
    }
    rustix::net::connect(&socket, &address)?;
    Ok(socket.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silent_service_is_given_up() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("control");
        // It accepts no connection: the first ones wait in its backlog, later ones not even there.
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        rustix::net::listen(&listener, 1).unwrap();
        let ask = || exchange(&path, "{}", Duration::from_millis(20)).unwrap_err().kind();
        let mut kept = Vec::new();
        for _ in 0..4 {
            kept.push(connect(&path, Duration::from_millis(20)));
            assert_eq!(ask(), io::ErrorKind::WouldBlock);
        }
        assert!(kept.last().unwrap().is_err(), "its backlog is full");
        let message = AskError::Silent { path }.to_string();
        assert!(message.contains("within 30 s"), "{message}");
    }
}
