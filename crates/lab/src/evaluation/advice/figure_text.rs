//! Figures of an answer as text.

/// A number of hours in the unit that suits it.
pub(super) fn hours_text(hours: f64) -> String {
    match hours {
        hours if hours < 1.0 / 60.0 => format!("{:.0} s", (hours * 3600.0).ceil()),
        hours if hours < 10.0 / 60.0 => format!("{:.1} min", hours * 60.0),
        hours if hours < 1.0 => format!("{:.0} min", hours * 60.0),
        hours if hours < 10.0 => format!("{hours:.1} h"),
        hours => format!("{hours:.0} h"),
    }
}

/// A rate with three digits or more.
pub(super) fn number(value: f64) -> String {
    match value {
        value if value < 100.0 => format!("{value:.1}"),
        value => format!("{value:.0}"),
    }
}
