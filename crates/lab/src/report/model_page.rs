//! A page about a model that was fitted to measurements: tables, and for each workload the
//! distribution measured and that of the model.

use super::chart::frame::{Axis, Frame, Steps, Unit, values};
use super::chart::scale::{SMALL, Scale};
use super::chart::{number, path};
use super::grid::Grid;
use super::page::{Page, table};
use maud::{Markup, html};

/// Room for three charts in a line.
const STYLE: &str = ".pairs { display: grid; gap: 1.5rem; \
                     grid-template-columns: repeat(auto-fill, minmax(22rem, 1fr)); } \
                     .pairs .chart .plot { height: 12rem; } \
                     .key.measured, .key.model { display: inline-block; width: 2rem; height: 0; \
                     border-top: 3px solid; margin-right: .4rem; vertical-align: middle; } \
                     .key.measured { color: var(--c0); } .key.model { color: var(--c1); }";

/// A fitted model.
#[derive(Debug)]
pub struct ModelPage {
    /// Title.
    pub title: String,
    /// The verdict.
    pub verdict: String,
    /// Remarks.
    pub notes: Vec<String>,
    /// Tables with their titles.
    pub tables: Vec<(String, Grid)>,
    /// The distributions.
    pub pairs: Vec<DistributionPair>,
}

/// Latencies of one workload at equal steps of the distribution, in microseconds.
#[derive(Debug)]
pub struct DistributionPair {
    /// Name of the workload.
    pub name: String,
    /// How far they are apart.
    pub distance: String,
    /// Measured.
    pub measured: Vec<f64>,
    /// Of the model.
    pub model: Vec<f64>,
}

impl ModelPage {
    /// The file.
    pub fn render(&self) -> String {
        let body = html! { main {
            h1 { (self.title) }
            p.verdict { (self.verdict) }
            @if !self.notes.is_empty() { ul { @for note in &self.notes { li { (note) } } } }
            h2 { "Distributions" }
            p.legend {
                span { span.key.measured {} "measured" } " "
                span { span.key.model {} "model" }
            }
            div.pairs { @for (index, pair) in self.pairs.iter().enumerate() { (pair.draw(index)) } }
            @for (title, grid) in &self.tables { h2 { (title) } (table(grid)) }
        } };
        Page { title: &self.title, style: STYLE, head: html! {}, body }.render()
    }
}

impl DistributionPair {
    fn draw(&self, index: usize) -> Markup {
        let both = || self.measured.iter().chain(&self.model).copied().filter(|value| *value > 0.0);
        let y = Scale::around(both().fold(f64::MAX, f64::min), both().fold(0.0, f64::max));
        let x = Scale::Linear { from: 0.0, to: 100.0 };
        let at = |point: usize| 100.0 * (point as f64 + 0.5) / self.measured.len().max(1) as f64;
        let steps = (0..self.measured.len())
            .map(|point| (x.place(at(point)), format!("{:.0} %", at(point))))
            .collect();
        let frame = Frame {
            kind: "model",
            job: index,
            part: 0,
            section: None,
            policy: None,
            label: format!("Latencies of {}, measured and of the model", self.name),
            caption: html! { b { (self.name) } " " (self.distance) },
            x: Axis::new(x, SMALL, |value| format!("{value:.0} %")).titled("of reads are faster"),
            y: Axis::new(y, SMALL, number::short_duration),
            steps: Steps::Places(steps),
            unit: Unit::Micros,
        };
        let line = |latencies: &[f64], classes: &str| {
            let places = latencies.iter().enumerate();
            let places = places.map(|(point, value)| Some((x.place(at(point)), y.place(*value))));
            html! {
                g data-values=(values(latencies.iter().map(|value| Some(*value)))) {
                    path class={ "line " (classes) } d=(path::line(places)) {}
                }
            }
        };
        frame.draw(&html! { (line(&self.measured, "c0")) (line(&self.model, "c1")) })
    }
}
