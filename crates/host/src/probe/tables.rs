//! Outcome of a probe, as tables and as a page.

use super::estimate::ParameterEstimate;
use super::outcome::{ProbeOutcome, ProbeVerdict};
use super::workload_fit::WorkloadFit;
use mirrorball_core::units::Nanos;
use mirrorball_lab::report::model_page::{DistributionPair, ModelPage};
use mirrorball_lab::report::{Column, Emphasis, Grid, GridRow};
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
            ProbeVerdict::Doubtful(reasons) => {
                write!(f, "verdict: doubtful: {}", reasons.join("; "))
            }
        }
    }
}

impl ProbeOutcome {
    /// The parameters with their intervals and origins.
    pub fn parameter_grid(&self) -> Grid {
        let row = |parameter: &ParameterEstimate| {
            let bare = |text: &str| text.trim_matches('"').to_owned();
            let value = match parameter.text.chars().count() > VALUE_MAX {
                true => "(see the profile)".to_owned(),
                false => bare(&parameter.text),
            };
            let interval = parameter.interval.as_ref();
            let interval = interval.map(|(low, high)| format!("{} to {}", bare(low), bare(high)));
            let texts = vec![
                parameter.name.to_owned(),
                value,
                interval.unwrap_or_default(),
                parameter.origin.name().to_owned(),
                parameter.note.clone(),
            ];
            GridRow { emphasis: Emphasis::None, texts }
        };
        Grid {
            columns: vec![
                Column::left("parameter"),
                Column::right("value"),
                Column::left("interval"),
                Column::left("origin"),
                Column::left("note").droppable(1),
            ],
            rows: self.parameters.iter().map(row).collect(),
        }
    }

    /// The workloads with the distance of the model from each.
    pub fn workload_grid(&self) -> Grid {
        let row = |workload: &WorkloadFit| {
            let texts = vec![
                workload.name.to_owned(),
                if workload.is_held_out { "held out" } else { "fitted" }.to_owned(),
                workload.reads.to_string(),
                time(workload.mean_seconds),
                time(workload.demerit_seconds),
                format!("{:.1} %", 100.0 * workload.demerit_of_mean()),
                format!("{:.1} %", 100.0 * workload.floor_of_mean()),
                format!("{:.1}", workload.iops),
                format!("{:+.1} %", 100.0 * workload.iops_error()),
            ];
            GridRow { emphasis: Emphasis::None, texts }
        };
        Grid {
            columns: vec![
                Column::left("workload"),
                Column::left("use"),
                Column::right("reads"),
                Column::right("mean"),
                Column::right("demerit"),
                Column::right("of mean"),
                Column::right("floor"),
                Column::right("IOPS"),
                Column::right("of model"),
            ],
            rows: self.workloads.iter().map(row).collect(),
        }
    }

    /// A page with the distributions measured and modelled.
    pub fn page(&self) -> String {
        let micros = |seconds: &[f64]| seconds.iter().map(|it| 1e6 * it).collect();
        let pair = |workload: &WorkloadFit| DistributionPair {
            name: workload.name.to_owned(),
            distance: format!(
                "{:.1} % apart, floor {:.1} %{}",
                100.0 * workload.demerit_of_mean(),
                100.0 * workload.floor_of_mean(),
                if workload.is_held_out { ", held out" } else { "" }
            ),
            measured: micros(&workload.distributions.0),
            model: micros(&workload.distributions.1),
        };
        let page = ModelPage {
            title: format!("Probe of {}", self.target),
            verdict: self.verdict.to_string(),
            notes: self.notes.clone(),
            tables: vec![
                ("Workloads".to_owned(), self.workload_grid()),
                ("Parameters".to_owned(), self.parameter_grid()),
            ],
            pairs: self.workloads.iter().map(pair).collect(),
        };
        page.render()
    }
}

fn time(seconds: f64) -> String {
    Nanos::from_secs_f64(seconds).to_string()
}
