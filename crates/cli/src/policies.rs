//! `mirrorball policies`: the read policies and their pages.

use crate::ending::{Ending, Failure};
use crate::screen;
use anyhow::anyhow;
use mirrorball_core::policies::{FAMILIES, PolicyInfo, Spec, all};

/// List the read policies, or show the page of one
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  mirrorball policies
  mirrorball policies latency-rr
  mirrorball policies btrfs/round-robin")]
pub(crate) struct Args {
    /// The policy whose page to show, by name or alias
    name: Option<String>,
}

pub(crate) fn run(args: &Args) -> Result<Ending, Failure> {
    let text = match &args.name {
        None => listing(),
        Some(name) => {
            let spec = Spec::parse(name).map_err(|error| Failure::WrongUse(anyhow!("{error}")))?;
            page(spec.info())
        }
    };
    screen::print(&text)?;
    Ok(Ending::Done)
}

/// By family, each name with its parameters, its aliases and its summary.
fn listing() -> String {
    let width = all().map(|info| info.usage().len()).max().unwrap_or(0);
    let mut text = String::new();
    for family in FAMILIES {
        text += &format!("{} ({})\n", family[0].family(), family[0].origin.system);
        for info in *family {
            let aliases = match info.aliases {
                [] => String::new(),
                aliases => format!(" [{}]", aliases.join(", ")),
            };
            text += &format!("  {:<width$}  {}{aliases}\n", info.usage(), info.summary);
        }
        text.push('\n');
    }
    text + "Names in brackets mean the same policy. `mirrorball policies NAME` shows its page.\n"
}

fn page(info: &PolicyInfo) -> String {
    let mut text = format!("{}: {}\n\n", info.usage(), info.summary);
    if !info.aliases.is_empty() {
        text += &format!("Also called {}.\n", info.aliases.join(", "));
    }
    for parameter in info.parameters {
        let default = parameter.default.map(|value| parameter.written(value));
        let default = default.unwrap_or_else(|| "the first devid of the array".to_owned());
        text += &format!(
            "{}: {}; {}; {default} if left out.\n",
            parameter.name,
            parameter.meaning,
            parameter.expected()
        );
    }
    let origin = info.origin;
    text += &format!(
        "From {} ({}), {}, by {}.\n\n",
        origin.system, origin.version, origin.file, origin.authors
    );
    text + &info.page()
}
