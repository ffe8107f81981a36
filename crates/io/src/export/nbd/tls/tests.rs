//! TLS over real sockets, with certificates made for the test: bytes arrive, and so does the end.

use super::acceptor::{AcceptedConnections, Acceptor};
use super::prelude;
use crate::export::nbd::handshake::greeting;
use crate::member::remote::tls as caller;
use crate::nbd_protocol::wire::{OPTION_MAGIC, option, option_reply};
use crate::tls::{ClientTls, ServerTls, pump};
use proptest::prelude::*;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::{ClientConnection, Connection, ServerConnection, StreamOwned};
use std::fs::{self, File};
use std::io::{self, Cursor, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;

/// A folder with an authority, and a server and a client that it vouches for.
fn certificates() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mut authority = CertificateParams::new([]).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
    fs::write(folder.path().join("ca-cert.pem"), authority.pem()).unwrap();
    for side in ["server", "client"] {
        let key = KeyPair::generate().unwrap();
        let parameters = CertificateParams::new(["localhost".to_owned()]).unwrap();
        let certificate = parameters.signed_by(&key, &authority).unwrap();
        put(folder.path(), &format!("{side}-cert.pem"), &certificate.pem());
        put(folder.path(), &format!("{side}-key.pem"), &key.serialize_pem());
    }
    folder
}

fn put(folder: &Path, name: &str, text: &str) {
    fs::write(folder.join(name), text).unwrap();
}

/// A client of TLS, and the plain end of the pump that is its server.
fn pumped() -> (StreamOwned<ClientConnection, UnixStream>, UnixStream) {
    let folder = certificates();
    let ServerTls(server) = ServerTls::load(folder.path()).unwrap();
    let ClientTls(client) = ClientTls::load(folder.path()).unwrap();
    let server = Connection::Server(ServerConnection::new(server).unwrap());
    let client = ClientConnection::new(client, "localhost".try_into().unwrap()).unwrap();
    let (near, far) = UnixStream::pair().unwrap();
    let (plain, inner) = UnixStream::pair().unwrap();
    std::thread::spawn(move || pump::pump(server, far.into(), inner));
    (StreamOwned::new(client, near), plain)
}

#[test]
fn much_goes_both_ways_at_once_and_ends() {
    let (mut tls, plain) = pumped();
    let data: Vec<u8> = (0..3 << 20).map(|index| (index % 251) as u8).collect();
    tls.write_all(b"begin").unwrap();
    let mut begin = [0; 5];
    (&plain).read_exact(&mut begin).unwrap();
    assert_eq!(&begin, b"begin");
    // Far more than any buffer: nobody reads inwards before all of it went outwards.
    let sent = data.clone();
    let sender = std::thread::spawn(move || {
        (&plain).write_all(&sent).unwrap();
        plain.shutdown(Shutdown::Write).unwrap();
        let mut received = Vec::new();
        (&plain).read_to_end(&mut received).unwrap();
        received
    });
    let mut received = Vec::new();
    tls.read_to_end(&mut received).unwrap();
    assert!(received == data);
    // Our side said its last word, so the pump is gone, and nothing comes through any more.
    assert!(tls.write_all(&data).and_then(|()| tls.flush()).is_err());
    assert!(sender.join().unwrap().len() < data.len());
}

#[test]
fn a_client_that_says_no_more_still_hears_what_it_asked() {
    let (mut tls, plain) = pumped();
    tls.write_all(b"question").unwrap();
    tls.conn.send_close_notify();
    tls.flush().unwrap();
    let mut question = Vec::new();
    (&plain).read_to_end(&mut question).unwrap();
    assert_eq!(question, b"question");
    (&plain).write_all(b"answer").unwrap();
    drop(plain);
    let mut answer = Vec::new();
    tls.read_to_end(&mut answer).unwrap();
    assert_eq!(answer, b"answer");
}

#[test]
fn a_client_that_is_cut_off_is_the_end_of_its_connection() {
    let (mut tls, plain) = pumped();
    tls.write_all(b"half").unwrap();
    drop(tls);
    let mut heard = Vec::new();
    (&plain).read_to_end(&mut heard).unwrap();
    assert_eq!(heard, b"half");
}

/// A client that says these bytes before TLS, and what it is answered.
struct Talk {
    says: Cursor<Vec<u8>>,
    hears: Vec<u8>,
}

impl Read for Talk {
    fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
        self.says.read(target)
    }
}

impl Write for Talk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.hears.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What becomes of a client that sends these options in the clear, the kinds of the replies to
/// them, and how many bytes nobody read.
fn prelude(options: &[(u32, &[u8])]) -> (io::Result<[u8; 4]>, Vec<u32>, u64) {
    let mut says = vec![0, 0, 0, 3];
    for (number, data) in options {
        says.extend(OPTION_MAGIC.to_be_bytes());
        says.extend(number.to_be_bytes());
        says.extend((data.len() as u32).to_be_bytes());
        says.extend(*data);
    }
    let length = says.len() as u64;
    let mut talk = Talk { says: Cursor::new(says), hears: Vec::new() };
    let result = prelude::await_tls(&mut talk);
    assert_eq!(talk.hears[..18], greeting());
    let replies = talk.hears[18..].as_chunks::<20>().0.iter();
    let kinds = replies.map(|reply| u32::from_be_bytes(reply[12..16].try_into().unwrap()));
    (result, kinds.collect(), length - talk.says.position())
}

#[test]
fn nothing_is_told_before_tls() {
    const REFUSED: u32 = option_reply::ERR_TLS_REQUIRED;
    let go = b"\0\0\0\0\0\0".as_slice();
    let (result, kinds, unread) = prelude(&[
        (option::LIST, b""),
        (option::STRUCTURED_REPLY, b""),
        (option::GO, go),
        (option::START_TLS, b"x"),
        (option::START_TLS, b""),
        (option::GO, go),
    ]);
    assert_eq!(result.unwrap(), [0, 0, 0, 3]);
    let acknowledged = [option_reply::ERR_INVALID, option_reply::ACK];
    assert_eq!(kinds, [&[REFUSED; 3], &acknowledged[..]].concat());
    assert_eq!(unread, 16 + 6, "what comes behind STARTTLS is for TLS to validate");
    let (result, kinds, _) = prelude(&[(option::EXPORT_NAME, b"disk")]);
    assert!(result.is_err() && kinds.is_empty());
    let (result, kinds, _) = prelude(&[(option::ABORT, b"")]);
    assert!(result.is_err() && kinds == [option_reply::ACK]);
    let (result, kinds, _) = prelude(&[(option::LIST, b"".as_slice()); 100]);
    assert!(result.is_err() && kinds.len() < 20, "it never comes to TLS");
    let (result, kinds, unread) = prelude(&[(option::LIST, &[0; 20 << 10])]);
    assert!(result.is_err() && kinds.is_empty() && unread == 20 << 10, "too long");
}

proptest! {
    /// Whatever comes before TLS, it ends, and never with the server waiting for more than a client
    /// that wants TLS says.
    #[test]
    fn no_bytes_before_tls_do_harm(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let option = [&[0, 0, 0, 3][..], &OPTION_MAGIC.to_be_bytes(), &bytes].concat();
        for says in [bytes, option] {
            let mut talk = Talk { says: Cursor::new(says), hears: Vec::new() };
            let _ = prelude::await_tls(&mut talk);
            prop_assert!(talk.hears.len() <= 18 + 16 * 20);
        }
    }
}

/// A door, whom it lets in, and where it is.
fn door(folder: &Path) -> (Acceptor, AcceptedConnections, TcpStream, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let tls = ServerTls::load(folder).unwrap();
    let (acceptor, accepted) = Acceptor::new(tls, vec![listener]).unwrap();
    (acceptor, accepted, TcpStream::connect(("127.0.0.1", port)).unwrap(), port)
}

fn attach_to(socket: TcpStream, folder: &Path) -> Result<(), String> {
    let attached = caller::attach(File::from(OwnedFd::from(socket)), "localhost", "", folder);
    attached.map(drop).map_err(|error| error.to_string())
}

#[test]
fn the_door_opens_for_certificates_of_its_authority_only() {
    let (ours, theirs) = (certificates(), certificates());
    let (acceptor, accepted, socket, port) = door(ours.path());
    let folder = ours.path().to_owned();
    let client = std::thread::spawn(move || attach_to(socket, &folder));
    // It is let in, and hung up on by what plays the server here.
    let arrived = accepted.receiver.recv().unwrap();
    (&arrived).write_all(&greeting()).unwrap();
    let mut heard = [0; 4 + 16];
    (&arrived).read_exact(&mut heard).unwrap();
    assert_eq!(heard[..4], [0, 0, 0, 3], "its flags come first, as from any client");
    assert_eq!(heard[4..12], OPTION_MAGIC.to_be_bytes());
    drop(arrived);
    assert!(client.join().unwrap().is_err());
    let connect = || TcpStream::connect(("127.0.0.1", port)).unwrap();
    let refusal = attach_to(connect(), theirs.path()).unwrap_err();
    assert!(refusal.contains("invalid peer certificate"), "the client looks, too: {refusal}");
    // This one trusts the server, and is trusted by nobody.
    for name in ["client-cert.pem", "client-key.pem"] {
        fs::copy(theirs.path().join(name), ours.path().join(name)).unwrap();
    }
    let refusal = attach_to(connect(), ours.path()).unwrap_err();
    assert!(refusal.contains("UnknownCA") || refusal.contains("DecryptError"), "{refusal}");
    assert!(accepted.receiver.try_recv().is_err(), "nobody else was let in");
    acceptor.close(Duration::from_secs(10));
}

#[test]
fn silent_strangers_keep_nobody_out() {
    let folder = certificates();
    let (acceptor, accepted, first, port) = door(folder.path());
    let connect = || TcpStream::connect(("127.0.0.1", port)).unwrap();
    let silent: Vec<TcpStream> = (0..300).map(|_| connect()).collect();
    // The first had to go for those that came later.
    (&first).read_to_end(&mut Vec::new()).unwrap();
    let (socket, path) = (connect(), folder.path().to_owned());
    let client = std::thread::spawn(move || attach_to(socket, &path));
    let arrived = accepted.receiver.recv().unwrap();
    drop(arrived);
    assert!(client.join().unwrap().is_err());
    acceptor.close(Duration::from_secs(10));
    for mut socket in silent {
        let _ = socket.read_to_end(&mut Vec::new());
    }
}

#[test]
fn files_that_cannot_be_used_are_named() {
    let folder = certificates();
    let name = |name: &str| folder.path().join(name);
    let refusal = || ServerTls::load(folder.path()).map(drop).unwrap_err().to_string();
    fs::copy(name("client-key.pem"), name("server-key.pem")).unwrap();
    assert!(refusal().contains("do not go together"), "{}", refusal());
    fs::write(name("server-cert.pem"), "hello").unwrap();
    assert!(refusal().contains("server-cert.pem"), "{}", refusal());
    fs::remove_file(name("ca-cert.pem")).unwrap();
    assert!(refusal().contains("ca-cert.pem") && refusal().contains("No such file"));
}
