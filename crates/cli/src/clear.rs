//! `mirrorball clear`: removes the labels of devices.

use crate::ending::{Ending, Failure};
use crate::{devices, screen};
use mirrorball_io::assemble::{AssembleError, ClearError, clear};
use mirrorball_io::member::file::{Caching, MemberAccess, Occupied, OpenOptions};

/// Remove the labels of devices, so that they are no members or spares any more
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Overwrites the metadata from 4 KiB to 1 MiB with zeroes, and leaves the data. \
The volume lacks the member from then on. Only a label that `examine --save` saved can be \
restored: without it and the others, the data are lost. A device in service or without a label is \
refused, and then nothing is written to any.

Example:
  mirrorball clear /dev/sdb /dev/sdc"
)]
pub(crate) struct Args {
    /// Files, block devices or NBD URIs
    #[arg(required = true, value_name = "DEVICE")]
    devices: Vec<String>,
}

pub(crate) fn run(args: &Args) -> Result<Ending, Failure> {
    let options = OpenOptions {
        access: MemberAccess::ReadWrite,
        caching: Caching::Direct,
        // What else a device contains stays there.
        occupied: Occupied::Allow,
        report_wait: devices::report_wait,
    };
    let cleared = clear(&devices::parse(&args.devices)?, options).map_err(|error| match error {
        error @ (ClearError::Failed { .. } | ClearError::Left(_)) => Failure::Fault(error.into()),
        ClearError::Assemble(error @ AssembleError::System(_)) => Failure::Fault(error.into()),
        error => Failure::WrongUse(error.into()),
    })?;
    let line = |(device, was): &(_, _)| format!("removed the label of `{device}`: it was {was}\n");
    screen::print(&screen::escaped(&cleared.iter().map(line).collect::<String>()))?;
    Ok(Ending::Done)
}
