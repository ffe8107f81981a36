//! TLS: certificates, and the bridge between a TLS connection and a plain stream.
//!
//! Past the handshake, server and client work with plain streams, and a [`Bridge`] moves bytes
//! between one and TLS. That costs a copy and two system calls a turn, which is little compared
//! with the cipher, and adds nothing to connections without TLS.
//!
//! **Authentication.** Both sides present a certificate. It must be signed by the authority in the
//! other side's `ca-cert.pem`. The files are those of nbdkit, qemu and libnbd, so that one folder
//! serves all. Only TLS 1.3 is supported.
//!
//! Non-goals: pre-shared keys, revocation lists, client names.
//!
//! Source: `doc/proto.md` of the NetworkBlockDevice/nbd repository; the file names are those of
//! nbdkit-tls(1).

mod bridge;

pub use bridge::{Bridge, Wanted};

use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::{Error as PemError, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::version::TLS13;
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The certificate of the authority that signs those of the other side.
const AUTHORITY: &str = "ca-cert.pem";

#[derive(Clone, Debug)]
pub struct ServerTls(Arc<ServerConfig>);

#[derive(Clone, Debug)]
pub struct ClientTls(Arc<ClientConfig>);

/// The reason why the files of a folder cannot be used for TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file is missing or malformed.
    #[error(
        "cannot use `{}` for TLS: {what}\n  help: the folder must hold ca-cert.pem, \
         {side}-cert.pem and {side}-key.pem",
        path.display()
    )]
    File {
        /// The file, or the folder if that is missing.
        path: PathBuf,
        /// The owner of the files: `server` or `client`.
        side: &'static str,
        what: String,
    },
    /// The files do not match.
    #[error("the files for TLS in `{}` do not match: {what}", folder.display())]
    Unfit { folder: PathBuf, what: String },
}

impl ServerTls {
    /// Reads `ca-cert.pem`, `server-cert.pem` and `server-key.pem` of a folder. Fails if one is
    /// missing or malformed, or the key belongs to another certificate.
    pub fn load(folder: &Path) -> Result<ServerTls, TlsError> {
        let Files { roots, chain, key } = Files::read(folder, "server")?;
        let unfit = |error| unfit(folder, error);
        let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider());
        let verifier = verifier.build().map_err(|error| self::unfit(folder, error))?;
        let config = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&TLS13])
            .map_err(unfit)?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain, key)
            .map_err(unfit)?;
        Ok(ServerTls(Arc::new(config)))
    }

    /// A connection to a client, before its TLS handshake.
    pub fn connection(&self) -> io::Result<ServerConnection> {
        ServerConnection::new(Arc::clone(&self.0)).map_err(refused)
    }
}

impl ClientTls {
    /// Reads `ca-cert.pem`, `client-cert.pem` and `client-key.pem` of a folder. Fails if one is
    /// missing or malformed, or the key belongs to another certificate.
    pub fn load(folder: &Path) -> Result<ClientTls, TlsError> {
        let Files { roots, chain, key } = Files::read(folder, "client")?;
        let unfit = |error| unfit(folder, error);
        let config = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&TLS13])
            .map_err(unfit)?
            .with_root_certificates(roots)
            .with_client_auth_cert(chain, key)
            .map_err(unfit)?;
        Ok(ClientTls(Arc::new(config)))
    }

    /// A connection to the server of this name, before its TLS handshake. Fails if a certificate
    /// cannot have that name.
    pub fn connection(&self, host: &str) -> io::Result<ClientConnection> {
        let name = ServerName::try_from(host.to_owned());
        let name = name.map_err(|error| io::Error::new(ErrorKind::InvalidInput, error))?;
        ClientConnection::new(Arc::clone(&self.0), name).map_err(refused)
    }
}

fn refused(error: rustls::Error) -> io::Error {
    io::Error::new(ErrorKind::PermissionDenied, error)
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// The authority, and the certificates and the key of a side.
struct Files {
    roots: RootCertStore,
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

impl Files {
    fn read(folder: &Path, side: &'static str) -> Result<Files, TlsError> {
        if !folder.is_dir() {
            let what =
                if folder.exists() { "it is not a folder" } else { "there is no such folder" };
            return Err(TlsError::File { path: folder.to_owned(), side, what: what.to_owned() });
        }
        let mut roots = RootCertStore::empty();
        for certificate in certificates(folder.join(AUTHORITY), side)? {
            roots.add(certificate).map_err(|error| unfit(folder, error))?;
        }
        let chain = certificates(folder.join(format!("{side}-cert.pem")), side)?;
        let path = folder.join(format!("{side}-key.pem"));
        let key =
            PrivateKeyDer::from_pem_file(&path).map_err(|error| unusable(&path, side, error))?;
        Ok(Files { roots, chain, key })
    }
}

/// The certificates in a file, of which there is at least one.
fn certificates(
    path: PathBuf,
    side: &'static str,
) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let read = CertificateDer::pem_file_iter(&path).and_then(Iterator::collect);
    match read {
        Ok(certificates) if Vec::is_empty(&certificates) => {
            Err(unusable(&path, side, PemError::NoItemsFound))
        }
        Ok(certificates) => Ok(certificates),
        Err(error) => Err(unusable(&path, side, error)),
    }
}

fn unusable(path: &Path, side: &'static str, error: PemError) -> TlsError {
    let what = match error {
        PemError::Io(error) => error.to_string(),
        PemError::NoItemsFound => "it holds no certificate or key in PEM".to_owned(),
        error => error.to_string(),
    };
    TlsError::File { path: path.to_owned(), side, what }
}

fn unfit(folder: &Path, error: impl ToString) -> TlsError {
    TlsError::Unfit { folder: folder.to_owned(), what: error.to_string() }
}
