//! NBD over TLS with clients and servers of other projects: `nbdinfo`, `nbdcopy`, `qemu-img`,
//! `nbdkit`. Each test generates its certificates.

use crate::common::external::{self, External};
use crate::common::service::Service;
use crate::common::{Folder, noise, stdout};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use std::fs::{self, File};
use std::net::TcpListener;
use std::process::Output;

/// Creates a folder with an authority, and certificates of a server and a client that it signed.
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

/// A port that is free now; another program may take it later.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A disk of 64 MiB served over TLS, and its port.
fn serve_disk(place: &Folder) -> (Service, u16) {
    certificates(place, "tls");
    let port = free_port();
    let export = format!("nbd:tcp:{port}");
    let disk = ["emulate", "delay", "--size", "64M", "--export", &export];
    (Service::start(place, &[&disk[..], &["--tls-certificates", "tls"]].concat()), port)
}

fn uri(place: &Folder, port: u16, certificates: &str) -> String {
    let folder = place.path(certificates);
    format!("nbds://localhost:{port}/?tls-certificates={}", folder.display())
}

/// Runs a client to its end; returns `None` if it is not installed.
fn client(place: &Folder, program: &str, arguments: &[&str]) -> Option<Output> {
    external::try_run(&place.path("."), program, arguments)
}

fn succeeds(output: &Output) {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Writes pseudo-random bytes to `noise.img` and returns them.
fn write_noise(place: &Folder, bytes: usize) -> Vec<u8> {
    let noise = noise(bytes);
    fs::write(place.path("noise.img"), &noise).unwrap();
    noise
}

#[test]
fn public_clients_copy_over_tls() {
    let place = Folder::new();
    let (server, port) = serve_disk(&place);
    let uri = uri(&place, port, "tls");
    let Some(info) = client(&place, "nbdinfo", &["--no-content", "--json", &uri]) else { return };
    let text = stdout(&info);
    for part in ["\"TLS\": true", "\"base:allocation\"", "\"export-size\": 67108864"] {
        assert!(text.contains(part), "no {part} in {text}");
    }
    let noise = write_noise(&place, 64 << 20);
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
    assert_eq!(server.stop("-TERM"), Some(0));
}

#[test]
fn clients_without_a_certificate_of_the_authority_are_refused() {
    let place = Folder::new();
    let (server, port) = serve_disk(&place);
    certificates(&place, "strange");
    // These clients trust the server, but the server does not trust them.
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
    assert_eq!(server.stop("-TERM"), Some(0));
}

#[test]
fn members_over_tls() {
    let place = Folder::new();
    let (_disk, port) = serve_disk(&place);
    let Some((_nbdkit, other)) = nbdkit(&place) else { return };
    let uris = [port, other].map(|port| uri(&place, port, "tls"));
    let members = uris.each_ref().map(|uri| format!("[[member]]\nuri = \"{uri}\"\n")).concat();
    fs::write(place.path("pair.toml"), format!("profile = \"raid1\"\n{members}")).unwrap();
    place.create("pair.toml");
    let serve = ["serve", &uris[0], &uris[1], "--export", "nbd:unix:socket"];
    let server = Service::start(&place, &serve);
    let noise = write_noise(&place, 32 << 20);
    let plain = place.nbd_uri("socket");
    if let Some(output) = client(&place, "nbdcopy", &["--flush", "noise.img", &plain]) {
        succeeds(&output);
        succeeds(&client(&place, "nbdcopy", &[&plain, "back.img"]).unwrap());
        assert!(fs::read(place.path("back.img")).unwrap()[..noise.len()] == noise);
        assert!(fs::read(place.path("disk.img")).unwrap()[1 << 20..][..noise.len()] == noise);
    }
    assert_eq!(server.stop("-TERM"), Some(0));
}

/// A file served by nbdkit, which requires TLS and a certificate.
fn nbdkit(place: &Folder) -> Option<(External, u16)> {
    File::create(place.path("disk.img")).unwrap().set_len(64 << 20).unwrap();
    let port = free_port();
    let listen = ["--foreground", "--ipaddr=127.0.0.1", &format!("--port={port}")];
    let tls = ["--tls=require", "--tls-verify-peer", "--tls-certificates=tls", "file", "disk.img"];
    let is_ready = || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok();
    let server = External::start(place, "nbdkit", &[&listen[..], &tls].concat(), is_ready);
    Some((server?, port))
}

#[test]
fn remote_plain_text_needs_consent() {
    let place = Folder::new();
    let emulate = |more: &[&'static str]| {
        let disk = ["emulate", "delay", "--size", "64M", "--backing", "none"];
        [&disk[..], more].concat()
    };
    let open = ["--export", "nbd:tcp:0.0.0.0:0"];
    place.refuses(&emulate(&open), &["other machines can reach", "--tls-certificates DIR"]);
    let nowhere = [&open[..], &["--tls-certificates", "nowhere"]].concat();
    place.refuses(&emulate(&nowhere), &["`nowhere` for TLS: there is no such", "server-key.pem"]);
    std::fs::create_dir(place.path("empty")).unwrap();
    let empty = [&open[..], &["--tls-certificates", "empty"]].concat();
    place.refuses(&emulate(&empty), &["empty/ca-cert.pem", "server-key.pem"]);
    let unix = ["--export", "nbd:unix:socket", "--tls-certificates", "nowhere"];
    place.refuses(&emulate(&unix), &["without a TCP export"]);
    let knowing = [&open[..], &["--without-tls"]].concat();
    assert_eq!(Service::start(&place, &emulate(&knowing)).stop("-TERM"), Some(0));
}
