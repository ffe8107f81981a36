//! `mirrorball ctl`: how a running volume is, and which policy it reads by.

use crate::ending::{Ending, Failure};
use crate::screen;
use anyhow::{Context, anyhow};
use clap::{Subcommand, ValueEnum};
use mirrorball_core::units::{Nanos, parse_bytes};
use mirrorball_io::control;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Ask a running volume how it is, or change its policy
#[derive(Debug, clap::Args)]
#[command(after_help = "PATH is what `emulate` or `serve` was given as --control.

Examples:
  mirrorball ctl --control /tmp/volume.ctl status
  mirrorball ctl --control /tmp/volume.ctl policy round-robin:256K
  mirrorball ctl --control /tmp/volume.ctl members rebuild 2 --rate 50M
  mirrorball ctl stats --format json --control /tmp/volume.ctl")]
pub(crate) struct Args {
    /// The control socket of the service
    // Needed, but what may follow the question cannot be called so to clap.
    #[arg(short, long, value_name = "PATH", global = true)]
    control: Option<PathBuf>,

    #[command(subcommand)]
    question: Question,

    /// What to print
    #[arg(short, long, value_enum, default_value_t = Format::Text, global = true)]
    format: Format,
}

#[derive(Clone, Debug, Subcommand)]
enum Question {
    /// What is served, by which policy, and whether all is well
    Status,
    /// Each member: its state and what it did
    Members {
        #[command(subcommand)]
        order: Option<MemberOrder>,
    },
    /// Each member: how long reads and writes took, and how late an emulated one was
    Stats {
        /// End with exit code 1 if the figures of a member are refused because it was late
        #[arg(long)]
        check: bool,
        /// Then measure anew: times are forgotten, counts go on
        #[arg(long)]
        reset: bool,
    },
    /// The policy; with a name, the policy from now on
    Policy {
        /// The new policy, as in `mirrorball policies`: latency-rr, round-robin:256K
        name: Option<String>,
    },
}

#[derive(Clone, Debug, Subcommand)]
enum MemberOrder {
    /// Rebuild a member from its mirrors: one that failed, or whose file was replaced; it is opened
    /// again first
    Rebuild {
        /// Its devid
        devid: u64,
        /// At most so many bytes a second: 50M; once more with another to change it
        #[arg(long, value_parser = parse_bytes)]
        rate: Option<u64>,
    },
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    /// Lines for people
    Text,
    /// Everything for machines
    Json,
}

pub(crate) fn run(args: &Args) -> Result<Ending, Failure> {
    let control = args.control.as_deref().ok_or_else(|| {
        let text = "which service? (--control PATH, as `emulate` or `serve` was given)";
        Failure::WrongUse(anyhow!("{text}"))
    })?;
    let line = match &args.question {
        Question::Status => "status".to_owned(),
        Question::Members { order: None } => "members".to_owned(),
        Question::Members { order: Some(MemberOrder::Rebuild { devid, rate }) } => {
            let rate = rate.map(|rate| format!(" {rate}")).unwrap_or_default();
            format!("rebuild {devid}{rate}")
        }
        Question::Stats { reset: false, .. } => "stats".to_owned(),
        Question::Stats { reset: true, .. } => "stats reset".to_owned(),
        Question::Policy { name: None } => "policy".to_owned(),
        Question::Policy { name: Some(name) } => format!("policy {name}"),
    };
    let answer = &ask(control, &line)?;
    screen::print(&match (args.format, &args.question) {
        (Format::Json, _) => format!("{answer:#}\n"),
        (Format::Text, Question::Status) => status(answer),
        (Format::Text, Question::Members { order: None }) => each(answer, member),
        (Format::Text, Question::Stats { .. }) => each(&answer["members"], member_stats),
        (Format::Text, Question::Policy { .. } | Question::Members { .. }) => {
            format!("{}\n", plain(answer))
        }
    })?;
    let members = answer["members"].as_array().into_iter().flatten();
    let refused = members.filter(|member| member["lateness"]["within_bound"] == false).count();
    Ok(match &args.question {
        Question::Stats { check: true, .. } if refused > 0 => Ending::FoundFailure,
        _ => Ending::Done,
    })
}

/// What the service with this control socket answers to a line.
pub(crate) fn ask(socket: &Path, line: &str) -> Result<Value, Failure> {
    let path = socket.display();
    let text = control::ask(socket, line)
        .with_context(|| format!("nobody answers at `{path}` (is the volume served?)"))
        .map_err(Failure::Fault)?;
    let mut reply: Value = serde_json::from_str(&text)
        .with_context(|| format!("what answers at `{path}` is no service of this program"))
        .map_err(Failure::Fault)?;
    if let Some(error) = reply["error"].as_str() {
        return Err(Failure::WrongUse(anyhow!("{error}")));
    }
    Ok(reply["answer"].take())
}

fn status(answer: &Value) -> String {
    let of = |key: &str| plain(&answer[key]);
    let mut text = format!("{}: {}\n", of("name"), of("health"));
    if !answer["policy"].is_null() {
        text += &format!("  {} read by {}\n", of("profile"), of("policy"));
    }
    for export in answer["exports"].as_array().into_iter().flatten() {
        text += &format!("  export {}: {} bytes\n", plain(&export["name"]), export["size_bytes"]);
    }
    for member in answer["misplaced"].as_array().into_iter().flatten() {
        let (devid, at_path) = (&member["devid"], plain(&member["at_path"]));
        text += &format!(
            "  devid {devid}: its file is gone from its path, where {at_path} is: \
                          what is written to it is lost when the service ends\n"
        );
        text += &format!("  (`members rebuild {devid}` uses the file that is there by then)\n");
    }
    for rebuild in answer["rebuilds"].as_array().into_iter().flatten() {
        let bytes = |key: &str| rebuild[key].as_u64().unwrap_or(0);
        let (recovered, total) = (bytes("recovered_bytes"), bytes("total_bytes"));
        let percent = 100.0 * recovered as f64 / total.max(1) as f64;
        let devid = &rebuild["devid"];
        text += &format!("  rebuilding devid {devid}: {recovered} of {total} bytes ");
        text += &format!("({percent:.1} %){}\n", rate(&answer["rebuild_bytes_per_s"]));
    }
    text + &format!("  {} connections, I/O by {}\n", of("connections"), of("backend"))
}

fn rate(bytes_per_s: &Value) -> String {
    match bytes_per_s.as_u64() {
        Some(rate) => format!(", at most {rate} bytes a second"),
        None => String::new(),
    }
}

fn each(answer: &Value, line: fn(&Value) -> String) -> String {
    answer.as_array().into_iter().flatten().map(line).collect()
}

fn member(member: &Value) -> String {
    let of = |key: &str| plain(&member[key]);
    let progress = match (member["recovered_bytes"].as_f64(), member["size_bytes"].as_f64()) {
        (Some(recovered), Some(size)) => format!(" ({:.0} %)", 100.0 * recovered / size),
        _ => String::new(),
    };
    format!(
        "devid {}: {}{progress}, {} in flight, {} reads ({} bytes), {} writes ({} bytes), \
         {} errors\n",
        of("devid"),
        of("state"),
        of("in_flight"),
        of("reads"),
        of("read_bytes"),
        of("writes"),
        of("written_bytes"),
        of("errors"),
    )
}

fn member_stats(value: &Value) -> String {
    let mut text = member(value);
    for (what, key) in
        [("reads took", "read_wait"), ("writes took", "write_wait"), ("lateness", "lateness")]
    {
        let figures = &value[key];
        if figures["count"].as_u64().unwrap_or(0) == 0 {
            continue;
        }
        let time = |key: &str| Nanos(figures[key].as_u64().unwrap_or(0));
        text += &format!(
            "  {what}: mean {}, p50 {}, p99 {}, p99.9 {}, max {}",
            time("mean_ns"),
            time("p50_ns"),
            time("p99_ns"),
            time("p99_9_ns"),
            time("max_ns"),
        );
        text.push('\n');
        if figures["within_bound"] == false {
            text += &format!("  {}\n", refusal(time("p99_ns"), time("bound_p99_ns")));
        }
    }
    text
}

/// That figures are refused, and what to do.
pub(crate) fn refusal(p99: Nanos, bound: Nanos) -> String {
    format!(
        "refused: lateness p99 {p99} past {bound}, so these figures say more about this machine \
         than about the disk; run the server with `chrt -f 10`, or with less beside it"
    )
}

/// A value without the quotes of JSON.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
