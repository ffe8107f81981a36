//! The real clock, as volumes and models see it.
//!
//! Time counts from when the clock was made, in the nanoseconds of the models. At speed 10 a second
//! of the models passes in a tenth of a real one, so every emulated disk is ten times as fast;
//! whatever asks this clock agrees on that, policies included.

use mirrorball_core::units::Nanos;
use std::time::{Duration, Instant};

/// How many times as fast as real time, in thousandths.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Speed(u64);

impl Speed {
    /// As fast as real time.
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

/// A monotonic clock.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Instant,
    speed: Speed,
}

impl Clock {
    /// A clock that starts now.
    pub fn new(speed: Speed) -> Clock {
        Clock { start: Instant::now(), speed }
    }

    /// The time of the models.
    #[inline]
    pub fn now(&self) -> Nanos {
        let real_ns = self.start.elapsed().as_nanos() as u64;
        match self.speed {
            Speed::REAL => Nanos(real_ns),
            Speed(milli) => Nanos((u128::from(real_ns) * u128::from(milli) / 1000) as u64),
        }
    }

    /// How long a span of the models' time really takes, rounded up.
    #[inline]
    pub fn real(&self, span: Nanos) -> Nanos {
        match self.speed {
            Speed::REAL => span,
            Speed(milli) => Nanos((u128::from(span.0) * 1000).div_ceil(u128::from(milli)) as u64),
        }
    }

    /// How long to wait for an instant of the models' time.
    pub fn patience(&self, until: Nanos) -> Duration {
        Duration::from_nanos(self.real(until.saturating_sub(self.now())).0)
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
        let first = clock.now();
        assert!(clock.now() >= first);
    }
}
