//! Addresses of exports: `nbd://host:port/export`,
//! `nbd+unix:///export?socket=PATH`, or behind TLS `nbds://host:port/export?tls-certificates=DIR`.
//!
//! Source: `doc/uri.md` of the NetworkBlockDevice/nbd repository, and nbd_connect_uri(3) of libnbd
//! for the folder of certificates. Non-goals: TLS over unix sockets, vsock, and user names.

use std::ffi::OsString;
use std::fmt::{self, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

const PORT: u16 = 10809;

/// An export of another machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NbdUri {
    pub place: Place,
    /// The name; empty for the server's first export.
    pub export: String,
    /// The folder of certificates, if the server requires TLS.
    pub certificates: Option<PathBuf>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    Unix(PathBuf),
    /// A host, by name or address, and a port.
    Tcp(String, u16),
}

/// The error of a text that is no URI of an export.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is not the URI of an NBD export: {what}\n  help: write nbd://HOST/EXPORT, \
         nbd://HOST:PORT/EXPORT, nbd+unix:///EXPORT?socket=PATH or \
         nbds://HOST:PORT/EXPORT?tls-certificates=DIR"
)]
pub struct UriError {
    text: String,
    what: &'static str,
}

impl NbdUri {
    /// Parses a URI. Fails if the text is not the URI of an export.
    pub fn parse(text: &str) -> Result<NbdUri, UriError> {
        let error = |what| UriError { text: text.to_owned(), what };
        let (scheme, rest) = text.split_once("://").ok_or(error("it has no `://`"))?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, export) = rest.split_once('/').unwrap_or((rest, ""));
        let export = decode(export).and_then(|bytes| String::from_utf8(bytes).ok());
        let export = export.ok_or(error("its export has an invalid percent-encoded character"))?;
        // The only parameter, of this name; another might change what is meant.
        let parameter = |name: &str| {
            let value = query.strip_prefix(name)?.strip_prefix('=')?;
            let value = decode(value).filter(|_| !value.contains('&'))?;
            (!value.is_empty()).then(|| PathBuf::from(OsString::from_vec(value)))
        };
        let mut certificates = None;
        let place = match scheme {
            "nbd" if !query.is_empty() => return Err(error("nbd:// takes no parameters")),
            "nbd" => tcp(authority)
                .ok_or(error("its host is empty, or its port is not a number from 1 to 65535"))?,
            "nbd+unix" if !authority.is_empty() => {
                return Err(error(
                    "nbd+unix:// takes no host: write three slashes before the export",
                ));
            }
            "nbd+unix" => {
                let path = parameter("socket");
                Place::Unix(path.ok_or(error("its only parameter must be socket=PATH"))?)
            }
            "nbds" => {
                let folder = parameter("tls-certificates");
                let missing = "its only parameter must be tls-certificates=DIR";
                certificates = Some(folder.ok_or(error(missing))?);
                tcp(authority).ok_or(error(
                    "its host is empty, or its port is not a number from 1 to 65535",
                ))?
            }
            _ => return Err(error("its scheme is not nbd, nbds or nbd+unix")),
        };
        Ok(NbdUri { place, export, certificates })
    }
}

impl fmt::Display for NbdUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let export = encoded(self.export.as_bytes());
        let scheme = if self.certificates.is_some() { "nbds" } else { "nbd" };
        match &self.place {
            Place::Unix(path) => {
                write!(f, "nbd+unix:///{export}?socket={}", encoded(path.as_os_str().as_bytes()))
            }
            Place::Tcp(host, port) if host.contains(':') => {
                write!(f, "{scheme}://[{host}]:{port}/{export}")
            }
            Place::Tcp(host, port) => write!(f, "{scheme}://{host}:{port}/{export}"),
        }?;
        match &self.certificates {
            Some(folder) => {
                write!(f, "?tls-certificates={}", encoded(folder.as_os_str().as_bytes()))
            }
            None => Ok(()),
        }
    }
}

/// `host`, `host:port`, `[v6]` or `[v6]:port`.
fn tcp(authority: &str) -> Option<Place> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, behind) = rest.split_once(']')?;
            (host, if behind.is_empty() { None } else { Some(behind.strip_prefix(':')?) })
        }
        None => match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        },
    };
    let port = port.map_or(Some(PORT), |port| port.parse().ok())?;
    let named = !host.is_empty() && !host.contains(['@', '[', ']']);
    named.then(|| Place::Tcp(host.to_owned(), port))
}

/// A name or path with all bytes percent-encoded that a URI gives a meaning or forbids.
pub fn encoded(bytes: &[u8]) -> String {
    let mut uri = String::new();
    for &byte in bytes {
        match byte {
            b'/' | b'-' | b'.' | b'_' | b'~' => uri.push(char::from(byte)),
            _ if byte.is_ascii_alphanumeric() => uri.push(char::from(byte)),
            _ => write!(uri, "%{byte:02X}").expect("a string takes all"),
        }
    }
    uri
}

/// The bytes of a percent-encoded text; `None` if it is malformed.
fn decode(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let mut digit = || char::from(rest.next()?).to_digit(16);
                (digit()? * 16 + digit()?) as u8
            }
            byte => byte,
        });
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris_are_read_as_other_clients_read_them() {
        for (text, read) in [
            ("nbd://replica/disk", "nbd://replica:10809/disk"),
            ("nbd://replica", "nbd://replica:10809/"),
            ("nbd://10.0.0.1:7/a/b", "nbd://10.0.0.1:7/a/b"),
            ("nbd://[::1]/", "nbd://[::1]:10809/"),
            ("nbd://[::1]:7/x", "nbd://[::1]:7/x"),
            ("nbd+unix:///?socket=/tmp/a", "nbd+unix:///?socket=/tmp/a"),
            ("nbds://a/x?tls-certificates=/b%20c", "nbds://a:10809/x?tls-certificates=/b%20c"),
            ("nbds://[::1]:7/?tls-certificates=b", "nbds://[::1]:7/?tls-certificates=b"),
            ("nbd+unix:///?socket=/a%26b", "nbd+unix:///?socket=/a%26b"),
            ("nbd+unix:///my%20disk?socket=/tmp/%61b", "nbd+unix:///my%20disk?socket=/tmp/ab"),
            ("nbd+unix:///?socket=/tmp/%FF%fe", "nbd+unix:///?socket=/tmp/%FF%FE"),
            ("nbds://a/x?tls-certificates=/%ff", "nbds://a:10809/x?tls-certificates=/%FF"),
        ] {
            assert_eq!(NbdUri::parse(text).unwrap().to_string(), read);
        }
    }

    #[test]
    fn what_is_no_uri_is_refused_with_the_forms_there_are() {
        for (text, part) in [
            ("/dev/sdb", "no `://`"),
            ("http://host/", "scheme is not nbd"),
            ("nbds://host/", "tls-certificates=DIR"),
            ("nbds://host/?tls-certificates=", "tls-certificates=DIR"),
            (
                "nbds://host/?tls-certificates=/a&tls-verify-peer=0",
                "only parameter must be tls-certificates=DIR",
            ),
            ("nbds://:1/?tls-certificates=/a", "host"),
            ("nbd:///disk", "host"),
            ("nbd://host:70000/", "port"),
            ("nbd://host:/", "port"),
            ("nbd://[::1", "host"),
            ("nbd://host/?socket=/a", "takes no parameters"),
            ("nbd+unix://host/?socket=/a", "three slashes"),
            ("nbd+unix:///", "socket=PATH"),
            ("nbd+unix:///%zz?socket=/a", "percent-encoded"),
        ] {
            let message = NbdUri::parse(text).unwrap_err().to_string();
            assert!(message.contains(part) && message.contains("nbd://HOST"), "{text}: {message}");
        }
    }
}
