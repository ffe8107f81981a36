//! How much wider an interval is if the other parameters may move along.
//!
//! Moving one parameter alone bounds its interval where the misfit grows by a limit. If another one
//! can make up for it, values beyond fit as well. Near the best values the misfit is taken as a
//! quadratic form: with each parameter in units of its own bound its diagonal is one, and the rest
//! is what pairs of parameters do together. The square roots of the diagonal of its inverse are the
//! factors (the profile of a quadratic likelihood).

/// The part of its bound that each parameter of a pair is moved by.
const MOVED: f64 = 0.7;
/// Nearly equal effects of two parameters make the form singular.
const COUPLING_MAX: f64 = 0.97;
/// Greatest factor: the form is only an approximation.
const FACTOR_MAX: f64 = 5.0;

/// The factors of `count` parameters. `growth_at` gives the growth of the misfit, in units of its
/// limit, where two parameters are moved by a part of their bound: down if it is negative.
pub(super) fn factors(
    count: usize,
    growth_at: impl Fn((usize, f64), (usize, f64)) -> f64,
) -> Vec<f64> {
    let mut form = vec![vec![0.0; count]; count];
    for (row, values) in form.iter_mut().enumerate() {
        values[row] = 1.0;
    }
    let pairs = (0..count).flat_map(|one| (one + 1..count).map(move |other| (one, other)));
    for (one, other) in pairs {
        let at = |left: f64, right: f64| growth_at((one, left * MOVED), (other, right * MOVED));
        let mixed = at(1.0, 1.0) + at(-1.0, -1.0) - at(1.0, -1.0) - at(-1.0, 1.0);
        let coupling = mixed / (8.0 * MOVED * MOVED);
        let coupling = coupling.clamp(-COUPLING_MAX, COUPLING_MAX);
        form[one][other] = coupling;
        form[other][one] = coupling;
    }
    let factor = |of_inverse: f64| of_inverse.max(1.0).sqrt().min(FACTOR_MAX);
    match inverse_diagonal(form) {
        Some(diagonal) if diagonal.iter().all(|it| *it > 0.0) => {
            diagonal.into_iter().map(factor).collect()
        }
        // No minimum there: how far parameters can go together is not known.
        _ => vec![FACTOR_MAX; count],
    }
}

/// The diagonal of the inverse of a matrix; `None` if it has none.
fn inverse_diagonal(mut matrix: Vec<Vec<f64>>) -> Option<Vec<f64>> {
    let count = matrix.len();
    for (row, values) in matrix.iter_mut().enumerate() {
        values.extend((0..count).map(|column| f64::from(u8::from(column == row))));
    }
    for pivot in 0..count {
        let size = |row: &usize| matrix[*row][pivot].abs();
        let row = (pivot..count).max_by(|a, b| size(a).total_cmp(&size(b)))?;
        matrix.swap(pivot, row);
        if matrix[pivot][pivot].abs() < 1e-9 {
            return None;
        }
        let divisor = matrix[pivot][pivot];
        matrix[pivot].iter_mut().for_each(|value| *value /= divisor);
        let chosen = matrix[pivot].clone();
        for (_, other) in matrix.iter_mut().enumerate().filter(|(index, _)| *index != pivot) {
            let factor = other[pivot];
            other.iter_mut().zip(&chosen).for_each(|(value, it)| *value -= factor * it);
        }
    }
    Some((0..count).map(|index| matrix[index][count + index]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Growth of a quadratic form with this coupling of the first two parameters.
    fn growth(coupling: f64) -> impl Fn((usize, f64), (usize, f64)) -> f64 {
        move |one, other| {
            let is_pair = (one.0, other.0) == (0, 1);
            let mixed = if is_pair { 2.0 * coupling * one.1 * other.1 } else { 0.0 };
            one.1 * one.1 + other.1 * other.1 + mixed
        }
    }

    #[test]
    fn parameters_that_make_up_for_each_other_have_wider_intervals() {
        assert_eq!(factors(3, growth(0.0)), [1.0, 1.0, 1.0]);
        let coupled = factors(3, growth(-0.8));
        // One over the square root of 1 - 0.8².
        assert!((coupled[0] - 1.0 / 0.6).abs() < 1e-9 && coupled[2] == 1.0, "{coupled:?}");
        assert_eq!(coupled[0], coupled[1]);
        assert!(factors(2, growth(5.0)).iter().all(|it| (4.0..=FACTOR_MAX).contains(it)));
        assert_eq!(factors(1, growth(0.0)), [1.0]);
        assert!(factors(0, growth(0.0)).is_empty());
    }

    #[test]
    fn a_form_without_a_minimum_says_nothing() {
        let all = |one: (usize, f64), other: (usize, f64)| -2.0 * 0.9 * one.1 * other.1;
        assert_eq!(factors(3, all), [FACTOR_MAX; 3]);
    }
}
