//! Figures of an answer as text.

use super::WORTHWHILE_UNCERTAIN;

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

/// A factor of speeds: `2.71`, `102`, or `about 2.7` if it is rough.
pub fn factor_text(factor: f64, is_rough: bool) -> String {
    match (is_rough, factor) {
        (false, factor) if factor >= 100.0 => format!("{factor:.0}"),
        (false, factor) => format!("{factor:.2}"),
        (true, factor) if factor < 0.95 => format!("about {factor:.2}"),
        (true, factor) if factor < 10.0 => format!("about {factor:.1}"),
        (true, factor) => {
            // Two digits: 112 is 110.
            let unit = 10f64.powf(factor.log10().floor() - 1.0);
            format!("about {:.0}", (factor / unit).round() * unit)
        }
    }
}

/// How fast something is: `2.71 times as fast`.
pub(super) fn speed_text(factor: f64, is_rough: bool) -> String {
    match is_rough && factor < WORTHWHILE_UNCERTAIN && factor > 1.0 / WORTHWHILE_UNCERTAIN {
        true => "about as fast".to_owned(),
        false => format!("{} times as fast", factor_text(factor, is_rough)),
    }
}

/// A rate with three digits or more.
pub(super) fn number(value: f64) -> String {
    match value {
        value if value < 100.0 => format!("{value:.1}"),
        value => format!("{value:.0}"),
    }
}
