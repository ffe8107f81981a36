//! Services that systemd starts: with sockets to listen on, and with one to report readiness on.
//! `nbdinfo` starts a server in the same way.

use crate::common::service::Service;
use crate::common::{Folder, external, stderr};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::process::Command;
use std::time::Duration;

/// One emulated disk of one GiB that needs no room.
const EMULATE: [&str; 6] = ["emulate", "delay", "--size", "1G", "--backing", "none"];

/// `emulate` as systemd would start it with this many sockets; `redirection` opens the first.
fn activated(folder: &Folder, count: &str, redirection: &str) -> Command {
    let script = format!("LISTEN_PID=$$ LISTEN_FDS={count} exec \"$@\" {redirection}");
    let command = folder.command(&EMULATE);
    let words = [command.get_program()].into_iter().chain(command.get_args());
    let mut shell = Command::new("bash");
    shell.args(["-c", &script, "bash"]).args(words).current_dir(folder.path("."));
    shell
}

#[test]
fn a_client_starts_the_server_with_its_socket() {
    let folder = Folder::new();
    let program = env!("CARGO_BIN_EXE_mirrorball");
    let arguments = [&["--size", "--", "[", program], &EMULATE[..], &["]"]].concat();
    let Some(size) = external::run(&folder.path("."), "nbdinfo", &arguments) else { return };
    assert_eq!(size.trim(), (1u64 << 30).to_string());
}

#[test]
fn what_is_passed_is_checked() {
    let folder = Folder::new();
    let refused = |count: &str, redirection: &str, part: &str| {
        let output = activated(&folder, count, redirection).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        assert!(stderr(&output).contains(part), "no `{part}` in\n{}", stderr(&output));
    };
    refused("1", "3</dev/null", "socket 1 of those passed in LISTEN_FDS is no Unix or TCP");
    refused("65", "3</dev/null", "65 sockets were passed in LISTEN_FDS, but at most 64");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let connection = format!("3<>/dev/tcp/127.0.0.1/{}", listener.local_addr().unwrap().port());
    refused("1", &connection, "socket 1 of those passed in LISTEN_FDS does not listen");
    // Not for this process, or none: an address is needed.
    for count in ["0", "-1", "x", "1 LISTEN_PID=1"] {
        refused(count, "", "--export <ADDRESS>");
    }
}

#[test]
fn an_address_besides_the_sockets_is_refused() {
    let folder = Folder::new();
    let program = env!("CARGO_BIN_EXE_mirrorball");
    let export = ["--export", "nbd:unix:other", "]"];
    let arguments = [&["--size", "--", "[", program], &EMULATE[..], &export].concat();
    let Some(output) = external::try_run(&folder.path("."), "nbdinfo", &arguments) else { return };
    let message = stderr(&output);
    assert!(message.contains("--export nbd:unix:other cannot be used where systemd"), "{message}");
    assert!(!folder.path("other").exists());
}

/// The sockets outlast the service, so clients that connect during a restart wait for it.
#[test]
fn the_sockets_serve_one_service_after_another() {
    let folder = Folder::new();
    let unix = UnixListener::bind(folder.path("socket")).unwrap();
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = tcp.local_addr().unwrap().port();
    let sockets: [OwnedFd; 2] = [unix.into(), tcp.into()];
    let uris = [folder.nbd_uri("socket"), format!("nbd://127.0.0.1:{port}")];
    for (socket, uri) in sockets.iter().zip(&uris) {
        for backend in [&[][..], &["--backend", "threads"]] {
            let mut command = activated(&folder, "1", "3<&0");
            command.args(backend).stdin(socket.try_clone().unwrap());
            let service = Service::start_command(command);
            let place = uri.split_once("://").unwrap().0;
            assert!(service.lines.iter().any(|line| line.contains(place)), "{:?}", service.lines);
            let size = external::run(&folder.path("."), "nbdinfo", &["--size", uri]);
            assert!(size.is_none_or(|size| size.trim() == (1u64 << 30).to_string()));
            service.terminate();
        }
    }
    assert!(folder.path("socket").exists(), "it is systemd's");
}

#[test]
fn readiness_is_reported_once_clients_can_connect() {
    let folder = Folder::new();
    let socket = UnixDatagram::bind(folder.path("notify")).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let arguments = [&EMULATE[..], &["--export", "nbd:unix:socket"]].concat();
    let mut command = folder.command(&arguments);
    command.env("NOTIFY_SOCKET", folder.path("notify"));
    let service = Service::start_command(command);
    let mut message = [0; 64];
    let bytes = socket.recv(&mut message).unwrap();
    assert_eq!(&message[..bytes], b"READY=1");
    service.terminate();
}
