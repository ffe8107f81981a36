//! TLS for NBD: certificates, and the thread that hides TLS from the server and the client.
//!
//! - `pump`: a thread between a TLS connection and a plain socket pair, one for each connection.
//!
//! The server side is [`crate::export::nbd::tls`], the client side [`crate::member::remote`]. Past
//! the handshake both work with plain sockets. That costs a copy and two system calls a turn, which
//! is little compared with the cipher, and adds nothing to connections without TLS.
//!
//! **Authentication.** Both sides present a certificate. It must be signed by the authority in the
//! other side's `ca-cert.pem`. The files are those of nbdkit, qemu and libnbd, so that one folder
//! serves all. Only TLS 1.3 is supported.
//!
//! Non-goals: pre-shared keys, revocation lists, client names.
//!
//! Source: `doc/proto.md` of the NetworkBlockDevice/nbd repository; the file names are those of
//! nbdkit-tls(1).

pub(crate) mod pump;

use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::{Error as PemError, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::version::TLS13;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The certificate of the authority that vouches for the other side.
const AUTHORITY: &str = "ca-cert.pem";

/// What a server needs to speak TLS.
#[derive(Clone, Debug)]
pub struct ServerTls(pub(crate) Arc<ServerConfig>);

/// What a client needs to speak TLS.
#[derive(Clone, Debug)]
pub(crate) struct ClientTls(pub(crate) Arc<ClientConfig>);

/// Why the files of a folder cannot be used for TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file is missing, or holds something else.
    #[error(
        "cannot use `{}` for TLS: {what}\n  help: the folder must hold ca-cert.pem, \
         {side}-cert.pem and {side}-key.pem",
        path.display()
    )]
    File {
        /// The file, or the folder if that is missing.
        path: PathBuf,
        /// Whose files these are: those of a server or of a client.
        side: &'static str,
        /// What is wrong with it.
        what: String,
    },
    /// The files do not match.
    #[error("the files for TLS in `{}` do not match: {what}", folder.display())]
    Unfit {
        /// Their folder.
        folder: PathBuf,
        /// What is wrong.
        what: String,
    },
}

impl ServerTls {
    /// Reads `ca-cert.pem`, `server-cert.pem` and `server-key.pem` of a folder.
    ///
    /// # Errors
    /// If one is missing or broken, or the key is another certificate's.
    pub fn load(folder: &Path) -> Result<ServerTls, TlsError> {
        let (roots, chain, key) = files(folder, "server")?;
        let provider = provider();
        let verifier =
            WebPkiClientVerifier::builder_with_provider(roots.into(), Arc::clone(&provider))
                .build()
                .map_err(|error| unfit(folder, error))?;
        let config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .map_err(|error| unfit(folder, error))?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain, key)
            .map_err(|error| unfit(folder, error))?;
        Ok(ServerTls(Arc::new(config)))
    }
}

impl ClientTls {
    /// Reads `ca-cert.pem`, `client-cert.pem` and `client-key.pem` of a folder.
    ///
    /// # Errors
    /// If one is missing or broken, or the key is another certificate's.
    pub(crate) fn load(folder: &Path) -> Result<ClientTls, TlsError> {
        let (roots, chain, key) = files(folder, "client")?;
        let config = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&TLS13])
            .map_err(|error| unfit(folder, error))?
            .with_root_certificates(roots)
            .with_client_auth_cert(chain, key)
            .map_err(|error| unfit(folder, error))?;
        Ok(ClientTls(Arc::new(config)))
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// The authority, and the certificates and the key of this side.
type Files = (RootCertStore, Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn files(folder: &Path, side: &'static str) -> Result<Files, TlsError> {
    if !folder.is_dir() {
        let what = if folder.exists() { "it is not a folder" } else { "there is no such folder" };
        return Err(TlsError::File { path: folder.to_owned(), side, what: what.to_owned() });
    }
    let certificates = |name: String| certificates(folder.join(name), side);
    let mut roots = RootCertStore::empty();
    for certificate in certificates(AUTHORITY.to_owned())? {
        roots.add(certificate).map_err(|error| unfit(folder, error))?;
    }
    let chain = certificates(format!("{side}-cert.pem"))?;
    let path = folder.join(format!("{side}-key.pem"));
    let key = PrivateKeyDer::from_pem_file(&path).map_err(|error| unusable(&path, side, error))?;
    Ok((roots, chain, key))
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
        PemError::NoItemsFound => "what it should hold, in PEM, is not there".to_owned(),
        error => error.to_string(),
    };
    TlsError::File { path: path.to_owned(), side, what }
}

fn unfit(folder: &Path, error: impl ToString) -> TlsError {
    TlsError::Unfit { folder: folder.to_owned(), what: error.to_string() }
}
