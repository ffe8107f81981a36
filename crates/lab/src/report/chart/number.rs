//! Figures as people read them: three digits, a unit that fits, no false precision.

/// Units of time and their length in microseconds, the longest first.
const DURATIONS: [(&str, f64); 4] = [("s", 1e6), ("ms", 1e3), ("µs", 1.0), ("ns", 1e-3)];
/// Multiples of ordinary numbers, the greatest first.
const MULTIPLES: [(&str, f64); 3] = [("G", 1e9), ("M", 1e6), ("k", 1e3)];

/// A number with three digits: `0.12`, `3.40`, `87.5`, `812`, `12900`.
pub(crate) fn plain(value: f64) -> String {
    let digits = match value.abs() {
        v if v == 0.0 || v >= 99.95 => 0,
        v if v >= 9.995 => 1,
        _ => 2,
    };
    format!("{value:.digits$}")
}

/// A number for the script: three digits, nothing to spare.
pub(crate) fn bare(value: f64) -> String {
    let decimals = match value.abs() {
        v if v >= 99.95 => 0,
        v if v >= 9.995 => 1,
        v if v >= 0.9995 => 2,
        _ => 3,
    };
    trimmed_to(value, decimals)
}

/// A number for a tick, as short as it can be: `0`, `0.5`, `250`, `1.5k`.
pub(crate) fn short(value: f64) -> String {
    let (unit, size) =
        MULTIPLES.into_iter().find(|(_, size)| value.abs() >= *size).unwrap_or(("", 1.0));
    format!("{}{unit}", trimmed(value / size))
}

/// A time with three digits and its unit, given in microseconds: `812 µs`, `12.3 ms`.
pub(crate) fn duration(micros: f64) -> String {
    if micros.is_nan() {
        return "-".to_owned();
    }
    if micros <= 0.0 {
        return "0 s".to_owned();
    }
    let (unit, size) = fitting(micros);
    format!("{} {unit}", plain_or_round(micros / size))
}

/// A time for a tick, given in microseconds: `0`, `500 µs`, `20 ms`.
pub(crate) fn short_duration(micros: f64) -> String {
    if micros <= 0.0 {
        return "0".to_owned();
    }
    let (unit, size) = fitting(micros);
    format!("{} {unit}", trimmed(micros / size))
}

/// A fraction of a distribution for a tick: `50 %`, `99.9 %`.
pub(crate) fn nines(fraction: f64) -> String {
    format!("{} %", trimmed_to(100.0 * fraction, 6))
}

/// A percentage: whole, with a decimal where that is all there is.
pub(crate) fn percent(value: f64) -> String {
    if value > 0.0 && value < 9.95 { format!("{value:.1}") } else { format!("{value:.0}") }
}

/// The unit in which `micros` has one to three digits before the point; what three digits round up
/// to the next unit is written in that.
fn fitting(micros: f64) -> (&'static str, f64) {
    let fits = |(_, size): &(&str, f64)| micros >= 0.9995 * size;
    DURATIONS.into_iter().find(fits).unwrap_or(DURATIONS[DURATIONS.len() - 1])
}

/// Whole below ten only if it is whole.
fn plain_or_round(value: f64) -> String {
    if value == value.round() { format!("{value:.0}") } else { plain(value) }
}

fn trimmed(value: f64) -> String {
    trimmed_to(value, 3)
}

/// With at most `decimals` decimals, and no more than needed.
fn trimmed_to(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}
