//! Minimises a function of a few parameters without derivatives: Nelder and Mead, "A simplex method
//! for function minimization", 1965, within bounds.

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct SearchRange {
    pub(super) start: f64,
    /// First step.
    pub(super) step: f64,
    /// Least value.
    pub(super) low: f64,
    /// Greatest value.
    pub(super) high: f64,
}

/// The best place found, and the value there.
pub(super) fn minimise(
    ranges: &[SearchRange],
    evaluations_max: usize,
    mut value_at: impl FnMut(&[f64]) -> f64,
) -> (Vec<f64>, f64) {
    if ranges.is_empty() {
        return (Vec::new(), value_at(&[]));
    }
    let mut simplex = corners(ranges, &mut value_at);
    let mut evaluations = simplex.len();
    let last = ranges.len();
    while evaluations < evaluations_max {
        simplex.sort_by(|left, right| left.1.total_cmp(&right.1));
        if simplex[last].1 - simplex[0].1 <= 1e-9 * simplex[0].1.abs() {
            break;
        }
        let centre: Vec<f64> = (0..last)
            .map(|axis| simplex[..last].iter().map(|corner| corner.0[axis]).sum::<f64>())
            .map(|sum| sum / last as f64)
            .collect();
        // The worst corner moved along the line through the centre.
        let moved = |worst: &[f64], factor: f64| -> Vec<f64> {
            let place = |axis: usize| centre[axis] + factor * (worst[axis] - centre[axis]);
            (0..last).map(|axis| place(axis).clamp(ranges[axis].low, ranges[axis].high)).collect()
        };
        let worst = simplex[last].clone();
        let reflected = moved(&worst.0, -1.0);
        let at_reflected = value_at(&reflected);
        evaluations += 1;
        let (factor, bound) = if at_reflected < simplex[0].1 {
            (-2.0, at_reflected)
        } else if at_reflected < simplex[last - 1].1 {
            simplex[last] = (reflected, at_reflected);
            continue;
        } else if at_reflected < worst.1 {
            (-0.5, at_reflected)
        } else {
            (0.5, worst.1)
        };
        let tried = moved(&worst.0, factor);
        let at_tried = value_at(&tried);
        evaluations += 1;
        if at_tried < bound {
            simplex[last] = (tried, at_tried);
        } else if at_reflected < worst.1 {
            simplex[last] = (reflected, at_reflected);
        } else {
            let best = simplex[0].0.clone();
            for corner in &mut simplex[1..] {
                for (axis, place) in corner.0.iter_mut().enumerate() {
                    *place = (*place + best[axis]) / 2.0;
                }
                corner.1 = value_at(&corner.0);
                evaluations += 1;
            }
        }
    }
    simplex.sort_by(|left, right| left.1.total_cmp(&right.1));
    simplex.swap_remove(0)
}

/// The start, and one step from it along each axis.
fn corners(
    ranges: &[SearchRange],
    value_at: &mut impl FnMut(&[f64]) -> f64,
) -> Vec<(Vec<f64>, f64)> {
    let start: Vec<f64> = ranges.iter().map(|range| range.start).collect();
    let value = value_at(&start);
    let mut corners = vec![(start.clone(), value)];
    for (index, range) in ranges.iter().enumerate() {
        let mut corner = start.clone();
        // Inwards where the step would leave the bounds.
        let step = if range.start + range.step > range.high { -range.step } else { range.step };
        corner[index] = (range.start + step).clamp(range.low, range.high);
        let value = value_at(&corner);
        corners.push((corner, value));
    }
    corners
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(start: f64, low: f64, high: f64) -> SearchRange {
        SearchRange { start, step: 0.3, low, high }
    }

    #[test]
    fn the_valley_of_rosenbrock_is_found() {
        let ranges = [range(-1.2, -5.0, 5.0), range(1.0, -5.0, 5.0)];
        let valley = |at: &[f64]| (1.0 - at[0]).powi(2) + 100.0 * (at[1] - at[0] * at[0]).powi(2);
        let (at, value) = minimise(&ranges, 400, valley);
        assert!(value < 1e-6 && (at[0] - 1.0).abs() < 1e-2, "{at:?} {value}");
    }

    #[test]
    fn bounds_hold_and_the_number_of_evaluations_too() {
        let mut count = 0;
        let (at, _) = minimise(&[range(0.0, -1.0, 0.5), range(0.0, -1.0, 1.0)], 60, |at| {
            count += 1;
            assert!((-1.0..=0.5).contains(&at[0]), "{at:?}");
            (at[0] - 2.0).powi(2) + at[1].powi(2)
        });
        assert!((at[0] - 0.5).abs() < 1e-3 && at[1].abs() < 0.05, "{at:?}");
        assert!(count < 70, "{count}");
    }
}
