//! NBD behind TLS, against the clients and servers of others: `nbdinfo`, `nbdcopy`, `qemu-img`,
//! `nbdkit`. Certificates are made by each test.

#![allow(clippy::unwrap_used, reason = "what fails here fails a test")]

mod support;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use support::{Folder, stdout};

/// A program that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Running {
    /// Asks it to end, and returns its exit code.
    fn stop(&mut self) -> Option<i32> {
        let id = self.0.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
        self.0.wait().unwrap().code()
    }
}

/// Makes a folder with an authority, and a server and a client that it vouches for.
fn certificates(place: &Folder, name: &str) {
    let folder = place.path(name);
    fs::create_dir(&folder).unwrap();
    let mut authority = CertificateParams::new([]).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
    fs::write(folder.join("ca-cert.pem"), authority.pem()).unwrap();
    for side in ["server", "client"] {
        let key = KeyPair::generate().unwrap();
        let parameters = CertificateParams::new(["localhost".to_owned()]).unwrap();
        let certificate = parameters.signed_by(&key, &authority).unwrap();
        fs::write(folder.join(format!("{side}-cert.pem")), certificate.pem()).unwrap();
        fs::write(folder.join(format!("{side}-key.pem")), key.serialize_pem()).unwrap();
    }
}

/// A port that nobody has; a moment later somebody might.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Starts a server of ours, and waits until it is ready.
fn start(place: &Folder, arguments: &[&str]) -> Running {
    let mut child = place.command(arguments).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let ready = lines.by_ref().map_while(Result::ok).any(|line| line == "ready");
    assert!(ready, "{arguments:?} ended with {:?}", child.wait());
    // What it says later must have somewhere to go.
    std::thread::spawn(move || lines.count());
    Running(child)
}

/// A disk of 64 MiB behind TLS, with what its server is found by.
fn serve_disk(place: &Folder) -> (Running, u16) {
    certificates(place, "tls");
    let port = free_port();
    let export = format!("nbd:tcp:{port}");
    let disk = ["emulate", "delay", "--size", "64M", "--export", &export];
    (start(place, &[&disk[..], &["--tls-certificates", "tls"]].concat()), port)
}

fn uri(place: &Folder, port: u16, certificates: &str) -> String {
    let folder = place.path(certificates);
    format!("nbds://localhost:{port}/?tls-certificates={}", folder.display())
}

/// Runs a client, or says that it is not installed.
fn client(place: &Folder, program: &str, arguments: &[&str]) -> Option<Output> {
    let output = Command::new(program).args(arguments).current_dir(place.path(".")).output();
    let in_ci = std::env::var_os("CI").is_some_and(|value| value == "true");
    if output.is_err() {
        assert!(!in_ci, "{program} is missing: install it");
        eprintln!("skipped: {program} is missing");
    }
    output.ok()
}

fn succeeds(output: &Output) {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn noise(place: &Folder, bytes: usize) -> Vec<u8> {
    let mut state = 1u64;
    let word = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    };
    let noise: Vec<u8> = (0..bytes).map(word).collect();
    fs::write(place.path("noise.img"), &noise).unwrap();
    noise
}

#[test]
fn public_clients_copy_through_tls_and_back() {
    let place = Folder::new();
    let (mut server, port) = serve_disk(&place);
    let uri = uri(&place, port, "tls");
    let Some(info) = client(&place, "nbdinfo", &["--no-content", "--json", &uri]) else { return };
    let text = stdout(&info);
    for part in ["\"TLS\": true", "\"base:allocation\"", "\"export-size\": 67108864"] {
        assert!(text.contains(part), "no {part} in {text}");
    }
    let noise = noise(&place, 64 << 20);
    if let Some(output) = client(&place, "nbdcopy", &["--flush", "noise.img", &uri]) {
        succeeds(&output);
        succeeds(&client(&place, "nbdcopy", &[&uri, "back.img"]).unwrap());
        assert!(fs::read(place.path("back.img")).unwrap() == noise);
        let object = format!("tls-creds-x509,id=tls,endpoint=client,dir={}", "tls");
        let image = format!(
            "driver=nbd,server.type=inet,server.host=localhost,server.port={port},tls-creds=tls"
        );
        let arguments = ["compare", "--object", &object, "--image-opts"];
        let images = ["driver=raw,file.driver=file,file.filename=noise.img", &image];
        let output = client(&place, "qemu-img", &[&arguments[..], &images].concat());
        if let Some(output) = output {
            succeeds(&output);
        }
    }
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn who_shows_no_certificate_of_the_authority_is_refused() {
    let place = Folder::new();
    let (mut server, port) = serve_disk(&place);
    certificates(&place, "strange");
    // They trust the server, but it has no reason to trust them.
    fs::copy(place.path("tls/ca-cert.pem"), place.path("strange/ca-cert.pem")).unwrap();
    fs::create_dir(place.path("anonymous")).unwrap();
    fs::copy(place.path("tls/ca-cert.pem"), place.path("anonymous/ca-cert.pem")).unwrap();
    let plain = format!("nbd://localhost:{port}/");
    for uri in [uri(&place, port, "strange"), uri(&place, port, "anonymous"), plain] {
        for program in ["nbdinfo", "nbdcopy"] {
            let arguments: &[&str] =
                if program == "nbdinfo" { &[&uri] } else { &[&uri, "stolen.img"] };
            let Some(output) = client(&place, program, arguments) else { return };
            assert!(!output.status.success(), "{uri} was let in");
        }
    }
    let stolen = fs::read(place.path("stolen.img")).unwrap_or_default();
    assert!(stolen.is_empty());
    succeeds(&client(&place, "nbdinfo", &[&uri(&place, port, "tls")]).unwrap());
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn a_member_may_be_behind_tls_be_it_ours_or_that_of_others() {
    let place = Folder::new();
    let (_disk, port) = serve_disk(&place);
    let Some((_nbdkit, other)) = nbdkit(&place) else { return };
    let members = [port, other]
        .map(|port| format!("[[member]]\nuri = \"{}\"\n", uri(&place, port, "tls")))
        .concat();
    fs::write(place.path("pair.toml"), format!("profile = \"raid1\"\n{members}")).unwrap();
    let mut server = start(&place, &["serve", "pair.toml", "--export", "nbd:unix:socket"]);
    let noise = noise(&place, 32 << 20);
    let plain = format!("nbd+unix:///?socket={}", place.path("socket").display());
    if let Some(output) = client(&place, "nbdcopy", &["--flush", "noise.img", &plain]) {
        succeeds(&output);
        succeeds(&client(&place, "nbdcopy", &[&plain, "back.img"]).unwrap());
        assert!(fs::read(place.path("back.img")).unwrap()[..noise.len()] == noise);
        assert!(fs::read(place.path("disk.img")).unwrap()[1 << 20..][..noise.len()] == noise);
    }
    assert_eq!(server.stop(), Some(0));
}

/// A file served by nbdkit, which demands TLS and a certificate.
fn nbdkit(place: &Folder) -> Option<(Running, u16)> {
    File::create(place.path("disk.img")).unwrap().set_len(64 << 20).unwrap();
    let port = free_port();
    let tls = ["--tls=require", "--tls-verify-peer", "--tls-certificates=tls"];
    let nbdkit = Command::new("nbdkit")
        .args(["--foreground", "--ipaddr=127.0.0.1", &format!("--port={port}")])
        .args(tls)
        .args(["file", "disk.img"])
        .current_dir(place.path("."))
        .spawn();
    let Ok(child) = nbdkit else {
        eprintln!("skipped: nbdkit is missing");
        return None;
    };
    let running = Running(child);
    let deadline = Instant::now() + Duration::from_secs(20);
    while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(Instant::now() < deadline, "nbdkit does not listen");
        std::thread::sleep(Duration::from_millis(20));
    }
    Some((running, port))
}

#[test]
fn other_machines_are_let_in_behind_tls_or_by_who_knows() {
    let place = Folder::new();
    let emulate = |more: &[&'static str]| {
        let disk = ["emulate", "delay", "--size", "64M", "--backing", "none"];
        [&disk[..], more].concat()
    };
    let open = ["--export", "nbd:tcp:0.0.0.0:0"];
    place.refuses(&emulate(&open), &["lets other machines in", "--tls-certificates DIR"]);
    let nowhere = [&open[..], &["--tls-certificates", "nowhere"]].concat();
    place.refuses(&emulate(&nowhere), &["nowhere/ca-cert.pem", "server-key.pem"]);
    let unix = ["--export", "nbd:unix:socket", "--tls-certificates", "nowhere"];
    place.refuses(&emulate(&unix), &["is for TCP"]);
    let knowing = [&open[..], &["--without-tls"]].concat();
    assert_eq!(start(&place, &emulate(&knowing)).stop(), Some(0));
}
