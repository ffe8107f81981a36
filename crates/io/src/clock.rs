//! The time of volumes and models.
//!
//! It starts at zero with the driver. At speed 10 a second of the models takes a tenth of a real
//! second, so every emulated disk is ten times as fast. The volume, the policies and the models all
//! use this time.

use mirrorball_core::units::Nanos;

/// Speed relative to real time, in thousandths.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Speed(u64);

impl Speed {
    pub const REAL: Speed = Speed(1000);

    /// Reads `10x`, `2.5` or `0.5x`. Fails if it is no number from 0.001 to 1000; the text says so.
    pub fn parse(text: &str) -> Result<Speed, String> {
        let text = text.trim();
        let number = text.strip_suffix('x').unwrap_or(text).parse::<f64>();
        match number.map(|factor| (factor * 1000.0).round()) {
            Ok(milli) if (1.0..=1e6).contains(&milli) => Ok(Speed(milli as u64)),
            Ok(milli) if milli > 1e6 => {
                Err("it is too high: the highest speed is 1000x".to_owned())
            }
            Ok(milli) if milli < 1.0 => Err("it is too low: the lowest speed is 0.001x".to_owned()),
            _ if text.is_empty() => Err("the speed is missing: write for example 10x".to_owned()),
            _ => Err("it is not a speed such as 10x, 2.5x or 0.5x".to_owned()),
        }
    }
}

/// Converts between real time and the time of the models.
///
/// Real time is [`crate::driver::Driver::now`]; this has no clock of its own.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    speed: Speed,
}

impl Clock {
    pub fn new(speed: Speed) -> Clock {
        Clock { speed }
    }

    /// The time of the models at this real time.
    #[inline]
    pub fn model(&self, now: Nanos) -> Nanos {
        match self.speed {
            Speed::REAL => now,
            Speed(milli) => Nanos((u128::from(now.0) * u128::from(milli) / 1000) as u64),
        }
    }

    /// The real duration of a span of the models' time, rounded up.
    #[inline]
    pub fn real(&self, span: Nanos) -> Nanos {
        match self.speed {
            Speed::REAL => span,
            Speed(milli) => Nanos((u128::from(span.0) * 1000).div_ceil(u128::from(milli)) as u64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds_are_read_as_people_write_them() {
        let texts = ["10x", "2.5", "0.001x", "1x"];
        let speeds = texts.map(|text| Speed::parse(text).unwrap());
        assert_eq!(speeds, [Speed(10_000), Speed(2500), Speed(1), Speed::REAL]);
        for (text, message) in [
            ("", "the speed is missing"),
            ("x", "it is not a speed such as 10x"),
            ("fast", "it is not a speed such as 10x"),
            ("nan", "it is not a speed such as 10x"),
            ("0", "it is too low: the lowest speed is 0.001x"),
            ("-1x", "it is too low"),
            ("1e9x", "it is too high: the highest speed is 1000x"),
        ] {
            assert!(Speed::parse(text).unwrap_err().starts_with(message), "{text}");
        }
    }

    #[test]
    fn models_live_faster() {
        let clock = Clock::new(Speed::parse("10x").unwrap());
        assert_eq!(clock.real(Nanos::from_millis(10)), Nanos::from_millis(1));
        assert_eq!(clock.real(Nanos(1)), Nanos(1), "never too early");
        assert_eq!(clock.model(Nanos::from_millis(1)), Nanos::from_millis(10));
    }
}
