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
    /// Real time.
    pub const REAL: Speed = Speed(1000);

    /// Reads `10x`, `2.5` or `0.5x`.
    ///
    /// # Errors
    /// If it is no number from 0.001 to 1000; the text says so.
    pub fn parse(text: &str) -> Result<Speed, String> {
        let number = text.trim().strip_suffix('x').unwrap_or(text).parse::<f64>();
        match number.map(|factor| (factor * 1000.0).round()) {
            Ok(milli) if (1.0..=1e6).contains(&milli) => Ok(Speed(milli as u64)),
            _ => Err(format!("`{text}` is not a speed such as 10x, 2.5x or 0.5x")),
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
    /// A clock at this speed.
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
        for text in ["", "x", "fast", "0", "-1x", "nan", "1e9x"] {
            assert!(Speed::parse(text).unwrap_err().contains("such as 10x"), "{text}");
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
