//! `mirrorball models`: compares the built-in disk models with published figures.
//!
//! Simulates each figure. Exit code 1 if a model misses a figure by more than its tolerance.

use crate::ending::{Ending, Failure};
use crate::screen;
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::units::{GIB, Nanos, TIB};
use mirrorball_disk::characterise::{Demerit, FigureCheck, compare, demerit, observe};
use mirrorball_disk::profile::ModelProfile;
use mirrorball_disk::workload::ModelWorkload;
use mirrorball_lab::report::{Column, Emphasis, Grid, Style, draw, number};

/// Every model is measured with this seed.
const SEED: u64 = 1;

/// List the disk models, and compare them with published figures of real disks
#[derive(Debug, clap::Args)]
#[command(
    after_help = "`off by` is (simulated - published) / published; `allowed` is the largest \
deviation that the model may have. `demerit` (Ruemmler and Wilkes, 1994) is the distance between \
the simulated and the published distribution of latencies: the root mean square of the differences \
of their quantiles, as a time and in percent of the mean latency; zero: both distributions are \
equal. The exit code is 1 if a figure is off by more than allowed.

Examples:
  mirrorball models
  mirrorball models hdd-7k2-desktop"
)]
pub(crate) struct Args {
    /// Compare this model with published figures, and print its notes and parameters
    name: Option<String>,
}

struct ProfileFigures {
    profile: ModelProfile,
    comparisons: Vec<FigureCheck>,
    demerits: Vec<(&'static ModelWorkload, Demerit, String)>,
}

pub(crate) fn run(args: &Args) -> Result<Ending, Failure> {
    let profiles = match &args.name {
        None => ModelProfile::builtins().collect(),
        Some(name) => vec![named(name).map_err(|error| Failure::WrongUse(error.into()))?],
    };
    let sheets: Vec<ProfileFigures> = profiles.into_iter().map(ProfileFigures::new).collect();
    screen::print(&match &args.name {
        None => {
            let list: String = sheets.iter().map(ProfileFigures::heading).collect();
            let more = "\n`mirrorball models NAME` compares one with published figures\n";
            list + &screen::broken(more)
        }
        Some(_) => sheets.iter().map(ProfileFigures::table).collect(),
    })?;
    let all_hold = sheets.iter().all(|sheet| sheet.comparisons.iter().all(FigureCheck::holds));
    Ok(if all_hold { Ending::Done } else { Ending::FoundFailure })
}

fn named(name: &str) -> Result<ModelProfile, Diagnostic> {
    if name.is_empty() {
        return Err(Diagnostic::empty_name("model"));
    }
    if name.contains('/') || name.ends_with(".toml") {
        let error = Diagnostic::new(format!("there is no built-in model `{name}`"));
        let help = format!("`mirrorball probe --model {name}` shows a model profile");
        return Err(error.with_help(help));
    }
    ModelProfile::builtin(name)
}

impl ProfileFigures {
    fn new(profile: ModelProfile) -> ProfileFigures {
        let demerits = profile.distributions.iter().map(|published| {
            let seen = observe(&profile, published.workload, published.measured_at, SEED);
            let figure = demerit(&published.quantiles, &seen.latencies);
            (published.workload, figure, published.source.clone())
        });
        let demerits = demerits.collect();
        ProfileFigures { comparisons: compare(&profile, SEED), demerits, profile }
    }

    fn heading(&self) -> String {
        let ModelProfile { name, summary, kind, capacity_bytes, .. } = &self.profile;
        let holds = self.comparisons.iter().all(FigureCheck::holds);
        let missed = if holds { "" } else { " (misses a published figure)" };
        let size = size(*capacity_bytes);
        screen::broken(&format!("{name} ({kind}, {size}): {summary}{missed}\n"))
    }

    fn table(&self) -> String {
        let mut text = self.heading();
        if !self.comparisons.is_empty() {
            text += &self.figures(screen::style());
        }
        for (workload, figure, source) in &self.demerits {
            let distance = Nanos::from_secs_f64(figure.root_mean_square);
            let percent = 100.0 * figure.fraction_of_mean;
            text += &screen::broken(&format!(
                "  demerit of {}: {distance}, {percent:.1} % of the mean ({source})\n",
                workload.name
            ));
        }
        let notes = self.comparisons.iter().filter(|row| !row.expected.note.is_empty());
        for FigureCheck { expected, .. } in notes {
            let figure = format!("{}/{}", expected.workload.name, expected.statistic.name);
            text += &screen::broken(&format!("  {figure}: {}\n", expected.note));
        }
        let heading = "\nparameters (override them with `set` in an array file):\n";
        text += &screen::broken(heading);
        for line in self.profile.parameter_table().to_string().lines() {
            text += &screen::broken(&format!("  {line}\n"));
        }
        text
    }

    fn figures(&self, style: Style) -> String {
        let name = |check: &FigureCheck| {
            format!("{}/{}", check.expected.workload.name, check.expected.statistic.name)
        };
        let in_unit =
            |check: &FigureCheck, value| format!("{} {}", number(value), check.expected.unit.name);
        let emphasis = |holds| if holds { Emphasis::None } else { Emphasis::Wrong };
        let grid = Grid::of(&self.comparisons)
            .marked(|it| emphasis(it.holds()))
            .column(Column::left("figure"), |it| name(it))
            .column(Column::right("published"), |it| in_unit(it, it.expected.value))
            .column(Column::right("simulated"), |it| in_unit(it, it.simulated))
            .column(Column::right("off by").droppable(1), |it| {
                format!("{:+.1}%", 100.0 * it.deviation())
            })
            .column(Column::right("allowed").droppable(2), |it| {
                format!("{:.0}%", 100.0 * it.expected.tolerance)
            })
            .column(Column::left("source").droppable(3), |it| it.expected.source.clone());
        let (grid, columns) = (grid.build(), screen::width_columns().unwrap_or(usize::MAX));
        if grid.least_width() > columns {
            // Too narrow for the names of the figures in a table.
            let lines = self.comparisons.iter().map(|it| {
                let [published, simulated] =
                    [it.expected.value, it.simulated].map(|value| in_unit(it, value));
                let source = &it.expected.source;
                format!("  {}: simulated {simulated}, published {published} ({source})\n", name(it))
            });
            return screen::broken(&lines.collect::<String>());
        }
        let (grid, left_out) = grid.fitted(columns);
        let mut text = draw(&grid, style);
        if !left_out.is_empty() {
            let sources = self.comparisons.iter();
            let sources =
                sources.map(|it| format!("  source of {}: {}\n", name(it), it.expected.source));
            text += &screen::broken(&sources.collect::<String>());
        }
        text
    }
}

fn size(bytes: u64) -> String {
    if bytes < TIB {
        format!("{:.0} GiB", bytes as f64 / GIB as f64)
    } else {
        format!("{:.1} TiB", bytes as f64 / TIB as f64)
    }
}
