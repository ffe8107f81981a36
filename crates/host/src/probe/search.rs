//! Finds the parameters of a model that bring it nearest to what was measured, by simulation.
//!
//! The search runs over logarithms, within bounds. A term pulls each parameter to where the search
//! began, so that one that makes no difference stays there. Afterwards each parameter is moved away
//! from its best value on its own, until the misfit grows by four. A parameter that can go far in
//! either direction is not identified. For two standard deviations its interval is wider: by what
//! the others can make up for, and because the figures of a workload move together.

use super::joint_width;
use super::nelder_mead::{SearchRange, minimise};
use super::virtual_time::HostCost;
use super::workload_fit::{RecordedWorkload, growth_together};
use mirrorball_disk::model_array::ModelArray;

/// Growth of the misfit that bounds an interval.
const GROWTH: f64 = 4.0;
/// Least half-width of an interval, as a part of the value: the best value depends on the draws of
/// the simulation, too.
const HALF_WIDTH_MIN: f64 = 0.01;
/// Logarithmic steps at which the misfit is looked at.
const STEPS: [f64; 6] = [0.02, 0.05, 0.12, 0.25, 0.5, 0.8];

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Searched {
    pub(super) start: f64,
    /// How far from there it is expected, as a standard deviation of the logarithm.
    pub(super) deviation: f64,
    /// Least and greatest value.
    pub(super) bounds: (f64, f64),
}

impl Searched {
    /// The value a logarithmic step away from another, within the bounds: beyond them the model may
    /// be none.
    fn stepped(&self, from: f64, step: f64) -> f64 {
        (from * step.exp()).max(self.bounds.0).min(self.bounds.1)
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct SearchResult {
    pub(super) value: f64,
    /// The interval; `None` if the parameter is not identified and keeps its start.
    pub(super) interval: Option<(f64, f64)>,
    /// The lower end, if there is one, of a parameter that has no upper end.
    pub(super) at_least: Option<f64>,
}

/// The workloads to be met, and how to build a model from values.
pub(super) struct Search<'a, B: Fn(&[f64]) -> ModelArray> {
    pub(super) workloads: &'a [RecordedWorkload<'a>],
    pub(super) host: HostCost,
    pub(super) build: B,
}

impl<B: Fn(&[f64]) -> ModelArray> Search<'_, B> {
    /// The best values of `parameters`, with about `evaluations` simulations of all workloads.
    pub(super) fn run(&self, parameters: &[Searched], evaluations: usize) -> Vec<SearchResult> {
        let all: Vec<usize> = (0..parameters.len()).collect();
        let best = self.best(parameters, &all, evaluations);
        let ends = self.ends(parameters, &best);
        let both = |(low, high): &(Option<f64>, Option<f64>)| Some(((*low)?, (*high)?));
        let identified: Vec<usize> =
            all.into_iter().filter(|index| both(&ends[*index]).is_some()).collect();
        let (best, intervals) = if identified.len() == parameters.len() {
            (best, ends.iter().map(both).collect::<Vec<Option<(f64, f64)>>>())
        } else {
            // What is not identified goes back to its start, and the rest is searched again.
            let best = self.best(parameters, &identified, evaluations / 2);
            let again = self.ends(parameters, &best);
            let joint = |index: usize| both(&ends[index]).and(both(&again[index]));
            (best, (0..parameters.len()).map(joint).collect())
        };
        let intervals = self.widened(parameters, &best, intervals);
        let found = |index: usize| match intervals[index] {
            Some(interval) => {
                SearchResult { value: best[index], interval: Some(interval), at_least: None }
            }
            None => {
                let at_least = ends[index].0.filter(|_| ends[index].1.is_none());
                SearchResult { value: parameters[index].start, interval: None, at_least }
            }
        };
        (0..parameters.len()).map(found).collect()
    }

    /// The intervals, wider by what the other identified parameters can make up for.
    fn widened(
        &self,
        parameters: &[Searched],
        best: &[f64],
        intervals: Vec<Option<(f64, f64)>>,
    ) -> Vec<Option<(f64, f64)>> {
        let bounded: Vec<(usize, f64, f64)> = intervals
            .iter()
            .enumerate()
            .filter_map(|(index, interval)| Some((index, interval.as_ref()?)))
            .map(|(index, (low, high))| {
                (index, (best[index] / low).ln(), (high / best[index]).ln())
            })
            .collect();
        let least = self.misfit(best);
        let step = |place: usize, part: f64| {
            let (index, down, up) = bounded[place];
            let step = part * if part < 0.0 { down } else { up };
            (index, parameters[index].stepped(best[index], step))
        };
        let factors = joint_width::factors(bounded.len(), |one, other| {
            let mut values = best.to_vec();
            for (index, value) in [step(one.0, one.1), step(other.0, other.1)] {
                values[index] = value;
            }
            (self.misfit(&values) - least) / GROWTH
        });
        let mut widened = intervals;
        for (place, joint) in factors.into_iter().enumerate() {
            let index = bounded[place].0;
            let factor = joint * growth_together().sqrt();
            let end = |part| step(place, part * factor).1;
            let at_least = |part| parameters[index].stepped(best[index], part * HALF_WIDTH_MIN);
            let (low, high) = (end(-1.0).min(at_least(-1.0)), end(1.0).max(at_least(1.0)));
            widened[index] = Some((low, high));
        }
        widened
    }

    /// The least misfit that is found quickly, without intervals.
    pub(super) fn least(&self, parameters: &[Searched], evaluations: usize) -> f64 {
        let all: Vec<usize> = (0..parameters.len()).collect();
        self.misfit(&self.best(parameters, &all, evaluations))
    }

    pub(super) fn misfit(&self, values: &[f64]) -> f64 {
        let one =
            |workload: &RecordedWorkload<'_>| workload.misfit(&mut (self.build)(values), self.host);
        self.workloads.iter().map(one).sum()
    }

    /// The best values if only the parameters of `moved` move.
    fn best(&self, parameters: &[Searched], moved: &[usize], evaluations: usize) -> Vec<f64> {
        let start: Vec<f64> = parameters.iter().map(|parameter| parameter.start).collect();
        let range = |index: &usize| {
            let Searched { start, deviation, bounds, .. } = parameters[*index];
            SearchRange {
                start: start.ln(),
                step: 0.7 * deviation,
                low: bounds.0.ln(),
                high: bounds.1.ln(),
            }
        };
        let ranges: Vec<SearchRange> = moved.iter().map(range).collect();
        let place = |at: &[f64]| {
            let mut values = start.clone();
            for (index, log) in moved.iter().zip(at) {
                values[*index] = log.exp();
            }
            values
        };
        let (at, _) = minimise(&ranges, evaluations, |at| {
            let pull = |(index, log): (&usize, &f64)| {
                let Searched { start, deviation, .. } = parameters[*index];
                ((log - start.ln()) / deviation).powi(2)
            };
            self.misfit(&place(at)) + moved.iter().zip(at).map(pull).sum::<f64>()
        });
        place(&at)
    }

    /// How far each parameter can go down and up.
    fn ends(&self, parameters: &[Searched], best: &[f64]) -> Vec<(Option<f64>, Option<f64>)> {
        let least = self.misfit(best);
        let end = |index: usize, direction: f64| {
            let mut before = (0.0, 0.0);
            for step in STEPS {
                let mut values = best.to_vec();
                values[index] = parameters[index].stepped(best[index], direction * step);
                let growth = self.misfit(&values) - least;
                if growth >= GROWTH {
                    let share = (GROWTH - before.1) / (growth - before.1);
                    let step = before.0 + (step - before.0) * share.clamp(0.0, 1.0);
                    return Some(parameters[index].stepped(best[index], direction * step));
                }
                before = (step, growth);
            }
            None
        };
        (0..parameters.len()).map(|index| (end(index, -1.0), end(index, 1.0))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A read-ahead that was found at the size of a segment cannot grow: no disk could be built.
    #[test]
    fn no_step_leaves_the_bounds() {
        let searched = Searched { start: 1.5, deviation: 0.5, bounds: (1.0, 2.0) };
        for step in STEPS {
            assert_eq!(searched.stepped(2.0, step), 2.0);
            assert_eq!(searched.stepped(1.0, -step), 1.0);
        }
        assert_eq!(searched.stepped(1.5, 0.0), 1.5);
        assert_eq!(searched.stepped(1.0, 2f64.ln()), 2.0);
    }
}
