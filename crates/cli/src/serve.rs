//! `mirrorball serve`: a mirrored volume on real files and devices.

use crate::ending::{Ending, Failure};
use crate::numbers;
use crate::serving::{self, ListenArgs};
use mirrorball_core::units::{Nanos, parse_duration};
use mirrorball_io::assemble::{self, AssembleError, ServeOptions};
use mirrorball_io::member::file::{Caching, Occupied, OpenOptions};
use mirrorball_lab::experiment::inputs::load_array;

/// Serve a mirrored volume on real files and block devices
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The command writes no metadata to members: it leaves the first MiB of each \
member unused and stores the data of the volume after it. When it starts, it compares samples of \
all mirrors, and fails if they differ, unless --trust says which one is correct.

Example, where pair.toml has profile = \"raid1\" and two [[member]] entries with a path:
  mirrorball serve pair.toml --policy latency-rr --export nbd:unix:/tmp/volume.sock"
)]
pub(crate) struct Args {
    /// Array file whose members have a `path` or a `uri`
    array: String,

    #[command(flatten)]
    listen: ListenArgs,

    /// Read policy, as `mirrorball policies` lists it
    #[arg(short, long, default_value = "mirrorball/auto")]
    policy: String,

    /// devid of the member with the correct data, if the mirrors differ. Its data overwrite those
    /// on the other mirrors
    #[arg(long, value_name = "DEVID", value_parser = numbers::devid)]
    trust: Option<u64>,

    /// Disconnect a remote member that has not answered a request for this time with its unit, for
    /// example 500ms or 30s; at least 10ms
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = peer_timeout)]
    peer_timeout: Nanos,

    /// Use block devices even if they are mounted or have a filesystem
    #[arg(long)]
    occupied: bool,

    /// Read and write members through the page cache, instead of with direct I/O
    #[arg(long)]
    buffered: bool,
}

pub(crate) fn run(args: &Args) -> Result<Ending, Failure> {
    let (_, array) = load_array(&args.array).map_err(Failure::WrongUse)?;
    let options = OpenOptions {
        caching: if args.buffered { Caching::Buffered } else { Caching::Direct },
        occupied: if args.occupied { Occupied::Allow } else { Occupied::Refuse },
    };
    let serving = ServeOptions {
        array: &array,
        policy: serving::policy(&args.policy, &array)?,
        options,
        peer_timeout: args.peer_timeout,
        trusted: args.trust,
        backend: args.listen.backend.map(serving::Backend::kind),
    };
    let assembly = assemble::serve(serving).map_err(|error| match error {
        error @ AssembleError::System(_) => Failure::Fault(error.into()),
        error @ AssembleError::Differ(_) => Failure::Fault(error.into()),
        error => Failure::WrongUse(error.into()),
    })?;
    serving::run(&array, assembly, &args.listen, Some(&args.policy))?;
    Ok(Ending::Done)
}

/// Parses --peer-timeout, with a lower limit below which healthy peers would be disconnected.
fn peer_timeout(text: &str) -> Result<Nanos, String> {
    match parse_duration(text) {
        Ok(time) if time >= Nanos::from_millis(10) => Ok(time),
        Ok(_) => Err("must be at least 10ms".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}
