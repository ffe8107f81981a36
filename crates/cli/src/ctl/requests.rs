//! Requests of `ctl` that name a device or a program, which the service sees from another folder.

use super::Replacement;
use crate::devices;
use crate::ending::Failure;
use anyhow::anyhow;
use mirrorball_io::control::protocol::ControlRequest;
use mirrorball_io::programs::{ProgramReference, hex_digits};
use mirrorball_store::label::Uuid;
use std::path::PathBuf;

/// The request for a policy. The object of a program is read here, so that the permissions of the
/// user count and not those of the service.
pub(super) fn set_policy(name: &str, keep: bool) -> Result<ControlRequest, Failure> {
    let Some(reference) = ProgramReference::parse(name) else {
        return Ok(ControlRequest::SetPolicy { name: name.to_owned(), object: None, keep });
    };
    let object = reference.read().map_err(|error| Failure::WrongUse(error.into()))?;
    // The service may have another working directory.
    let name = reference.with_absolute_path().to_string();
    Ok(ControlRequest::SetPolicy { name, object: Some(hex_digits(&object)), keep })
}

/// The request to use a device, whose path the service may see from another folder.
pub(super) fn replace(
    devid: Option<u64>,
    device: &str,
    replacement: &Replacement,
) -> Result<ControlRequest, Failure> {
    let device = absolute(device)?;
    let Replacement { occupied, rate } = *replacement;
    Ok(ControlRequest::Replace { devid, device, occupied, rate_bytes_per_s: rate })
}

/// A path or URI as a service in another folder understands it.
pub(super) fn absolute(device: &str) -> Result<String, Failure> {
    let address = devices::parse(&[device.to_owned()])?.remove(0);
    let device = match address.path() {
        Some(path) => std::path::absolute(path).map_err(|error| Failure::Fault(error.into()))?,
        None => PathBuf::from(device),
    };
    device.into_os_string().into_string().map_err(|device| {
        let device = device.display();
        Failure::WrongUse(anyhow!("`{device}` is not valid UTF-8\n  help: give another path"))
    })
}

/// The name of a spare: a UUID as it is.
pub(super) fn spare_name(name: &str) -> Result<String, Failure> {
    match name.parse::<Uuid>() {
        Ok(_) => Ok(name.to_owned()),
        Err(_) => absolute(name),
    }
}
