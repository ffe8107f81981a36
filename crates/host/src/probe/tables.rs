//! Outcome of a probe, as tables.

use super::outcome::{ProbeOutcome, ProbeVerdict};
use super::workload_fit::WorkloadFit;
use mirrorball_core::units::Nanos;
use mirrorball_lab::report::{Column, Grid};
use std::fmt;

/// Longest text of a value in the table.
const VALUE_MAX: usize = 30;

impl fmt::Display for ProbeVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProbeVerdict::Good => f.write_str("verdict: good"),
            ProbeVerdict::UsableForRanking(reasons) => {
                write!(f, "verdict: usable for ranking: {}", reasons.join("; "))
            }
            ProbeVerdict::Late(reasons) => {
                write!(f, "verdict: usable for ranking, doubtful: {}", reasons.join("; "))
            }
            ProbeVerdict::Doubtful(reasons) => {
                write!(f, "verdict: doubtful: {}", reasons.join("; "))
            }
        }
    }
}

impl ProbeOutcome {
    /// The parameters with their intervals and origins.
    pub fn parameter_grid(&self) -> Grid {
        let bare = |text: &str| text.trim_matches('"').to_owned();
        Grid::of(&self.parameters)
            .column(Column::left("parameter"), |it| it.name.to_owned())
            .column(Column::right("value"), |it| match it.text.chars().count() > VALUE_MAX {
                true => "(see the profile)".to_owned(),
                false => bare(&it.text),
            })
            .column(Column::left("interval"), |it| {
                let interval = it.interval.as_ref();
                let text = interval.map(|(low, high)| format!("{} to {}", bare(low), bare(high)));
                text.unwrap_or_default()
            })
            .column(Column::left("origin"), |it| it.origin.name().to_owned())
            .column(Column::left("note").droppable(1), |it| it.note.clone())
            .build()
    }

    /// The workloads with the distance of the model from each.
    pub fn workload_grid(&self) -> Grid {
        let percent = |part: f64| format!("{:.1} %", 100.0 * part);
        let part = |it: &WorkloadFit| if it.is_held_out { "held out" } else { "fitted" };
        Grid::of(&self.workloads)
            .column(Column::left("workload"), |it| it.name.to_owned())
            .column(Column::left("use"), |it| part(it).to_owned())
            .column(Column::right("reads"), |it| it.reads.to_string())
            .column(Column::right("mean"), |it| time(it.mean_seconds))
            .column(Column::right("demerit"), |it| time(it.demerit_seconds))
            .column(Column::right("of mean"), |it| percent(it.demerit_of_mean()))
            .column(Column::right("floor"), |it| percent(it.floor_of_mean()))
            .column(Column::right("IOPS"), |it| format!("{:.1}", it.iops))
            .column(Column::right("of model"), |it| format!("{:+.1} %", 100.0 * it.iops_error()))
            .build()
    }
}

fn time(seconds: f64) -> String {
    Nanos::from_secs_f64(seconds).to_string()
}
