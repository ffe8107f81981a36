//! `mirrorball serve`: a mirrored volume on real files and devices.

use crate::ending::{Ending, Failure};
use crate::serving::{self, ListenArgs};
use mirrorball_core::units::{Nanos, parse_duration};
use mirrorball_io::assemble::{self, AssembleError, ServeOptions};
use mirrorball_io::member::file::{Caching, Occupied, OpenOptions};
use mirrorball_lab::experiment::inputs::load_array;

/// Serve a mirrored volume on real files and block devices
#[derive(Debug, clap::Args)]
#[command(after_help = "Members hold raw data, without any metadata: the first MiB of each is \
left alone, and the volume lies behind it. Before it is served, samples of all mirrors are \
compared.

Example, where pair.toml says profile = \"raid1\" and has two [[member]]s with a path:
  mirrorball serve pair.toml --policy latency-rr --export nbd:unix:/tmp/volume.sock")]
pub(crate) struct Args {
    /// The array file; its members have a `path`
    array: String,

    #[command(flatten)]
    listen: ListenArgs,

    /// The read policy
    #[arg(short, long, default_value = "mirrorball/auto")]
    policy: String,

    /// The devid of the member that is right, if members differ: the others are rebuilt from it
    #[arg(long, value_name = "DEVID")]
    trust: Option<u64>,

    /// How long a member on another machine may owe a reply; then its connections count as broken
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = peer_timeout)]
    peer_timeout: Nanos,

    /// Use block devices even if they are mounted or hold a filesystem
    #[arg(long)]
    occupied: bool,

    /// Go through the page cache
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

/// Reads how long to wait for a reply: a time in which one can come.
fn peer_timeout(text: &str) -> Result<Nanos, String> {
    match parse_duration(text) {
        Ok(time) if time >= Nanos::from_millis(10) => Ok(time),
        Ok(_) => Err("no reply comes so soon: give 10ms or more".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}
