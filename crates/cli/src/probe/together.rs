//! `mirrorball probe DEVICE DEVICE…`: what several devices share on the way to the host.

use super::{Args, ProbeFormat, whole_seconds};
use crate::ending::{Ending, Failure};
use crate::progress::stop_at_ctrl_c;
use crate::screen;
use anyhow::{Context, anyhow};
use mirrorball_host::detect::Sysroot;
use mirrorball_host::probe::{ProbeTarget, planned_time_together, probe_together};
use mirrorball_lab::report::draw;
use std::path::Path;
use std::sync::atomic::Ordering;

pub(super) fn run(args: &Args) -> Result<Ending, Failure> {
    check(args)?;
    let open = |path: &std::path::PathBuf| ProbeTarget::open(path, &Sysroot::live());
    let targets: Result<Vec<ProbeTarget>, _> = args.targets.iter().map(open).collect();
    let targets = targets.map_err(|error| Failure::WrongUse(error.into()))?;
    let time = whole_seconds(planned_time_together(targets.len()));
    screen::say(format_args!("{} devices, {time}, reads only", targets.len()));
    for target in &targets {
        for facts in &target.facts.uses {
            screen::say(format_args!("warning: {} is in use: {facts}", target.path.display()));
        }
    }
    let stop = stop_at_ctrl_c("ending the measurement").map_err(Failure::Fault)?;
    let mut say = |devices: &str| screen::say(format_args!("  reading {devices}"));
    let rates = match probe_together(&targets, stop, &mut say) {
        Ok(rates) => rates,
        Err(_) if stop.load(Ordering::Relaxed) => return Ok(Ending::Interrupted),
        Err(error) => return Err(Failure::Fault(error.into())),
    };
    let text = match args.format {
        ProbeFormat::Json => {
            let json = serde_json::to_string_pretty(&rates).context("cannot write JSON");
            json.map_err(Failure::Fault)? + "\n"
        }
        ProbeFormat::Text | ProbeFormat::Toml => {
            format!("{}\n{}", draw(&rates.grid(), screen::style()), rates.conclusion())
        }
    };
    screen::print(&text)?;
    Ok(Ending::Done)
}

/// Refuses what is for one device, and a device that is named twice.
fn check(args: &Args) -> Result<(), Failure> {
    let for_one = [
        ("--quick", args.quick),
        ("--full", args.full),
        ("--class", args.class.is_some()),
        ("-o", args.output.is_some()),
        ("--report", args.report.is_some()),
        ("--format toml", matches!(args.format, ProbeFormat::Toml)),
    ];
    if let Some((option, _)) = for_one.iter().find(|(_, is_given)| *is_given) {
        return Err(Failure::WrongUse(anyhow!(
            "{option} is for one device, and {} are named\n  help: several are read alone and \
             together, which shows a link that they share; probe each by itself for its model",
            args.targets.len()
        )));
    }
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    for (index, path) in args.targets.iter().enumerate() {
        if args.targets[..index].iter().any(|other| real(other) == real(path)) {
            return Err(Failure::WrongUse(anyhow!(
                "{} is named twice\n  help: name each device once",
                path.display()
            )));
        }
    }
    Ok(())
}
