//! A published value: a number, or a range where the source gives no number.
//!
//! In `recipe.toml` a number is written as it was printed, and a range as `[0, 21]`; `[900, inf]`
//! is "more than 900". A value within a range agrees with it.

#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;
use std::fmt;

/// What was published of one value.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Published {
    /// The least it can have been.
    pub low: f64,
    /// The most, equal to the least for a plain number; none if it is open.
    pub high: Option<f64>,
}

impl Published {
    /// Reads it from TOML; none if it is neither a number nor a range.
    pub fn from_toml(value: &toml::Value) -> Option<Published> {
        let number = |value: &toml::Value| match value {
            toml::Value::Integer(number) => Some(*number as f64),
            toml::Value::Float(number) => Some(*number),
            _ => None,
        };
        let (low, high) = match value {
            toml::Value::Array(ends) => match &ends[..] {
                [low, high] => (number(low)?, number(high)?),
                _ => return None,
            },
            single => (number(single)?, number(single)?),
        };
        let is_range = low.is_finite() && low >= 0.0 && high >= low;
        is_range.then_some(Published { low, high: high.is_finite().then_some(high) })
    }

    /// The most it can have been, perhaps infinite.
    pub fn high(&self) -> f64 {
        self.high.unwrap_or(f64::INFINITY)
    }

    /// `ours` divided by the nearest value that was published; none if that is zero.
    pub fn ratio_of(&self, ours: f64) -> Option<f64> {
        let nearest = ours.clamp(self.low, self.high());
        if nearest == ours {
            return Some(1.0);
        }
        (nearest > 0.0).then(|| ours / nearest)
    }
}

impl fmt::Display for Published {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.high {
            None => write!(f, "> {}", self.low),
            Some(high) if high == self.low => write!(f, "{high}"),
            Some(high) => write!(f, "{} to {high}", self.low),
        }
    }
}
