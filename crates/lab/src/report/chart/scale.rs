//! Maps values to positions on an axis, and computes its ticks.
//!
//! A place is a fraction of the axis, 0 at its start. Three kinds of axis are enough: linear,
//! logarithmic, and the stretched tail of a distribution, on which each further nine (90 %, 99 %,
//! 99.9 %) takes the same room, as in the percentile plots of HdrHistogram.

/// Steps that a wide axis aims at.
pub(crate) const WIDE: f64 = 4.0;
/// Steps that the upright axis of a small chart aims at.
pub(crate) const SMALL: f64 = 2.0;
/// Most decades of a logarithmic axis that also labels 2 and 5 between the powers of ten.
const DECADES_WITH_HALVES: f64 = 2.5;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Scale {
    /// Equal steps.
    Linear { from: f64, to: f64 },
    /// Equal factors.
    Log { from: f64, to: f64 },
    /// Fractions of a distribution, from zero to `nines` nines.
    Tail { nines: f64 },
}

/// A mark on an axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Tick {
    pub(crate) value: f64,
    /// Position on the axis, 0 to 1.
    pub(crate) place: f64,
    /// When it is shown.
    pub(crate) rank: Rank,
}

/// When a tick is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rank {
    /// Always.
    Main,
    /// On axes wide enough for every tick.
    Other,
    /// Only when the axis is magnified.
    Fine,
}

impl Scale {
    /// From zero to `to`.
    pub(crate) fn up_to(to: f64) -> Scale {
        Scale::Linear { from: 0.0, to: if to > 0.0 { to } else { 1.0 } }
    }

    /// From zero to the first tick at or above `to`, in about `steps` steps.
    pub(crate) fn up_to_a_tick(to: f64, steps: f64) -> Scale {
        let to = if to > 0.0 { to } else { 1.0 };
        let step = step(to, steps);
        // A rounding error must not add a step.
        Scale::Linear { from: 0.0, to: (to / step - 1e-9).ceil().max(1.0) * step }
    }

    /// A logarithmic axis around `from` to `to`, both positive, a factor of two long at least.
    pub(crate) fn around(from: f64, to: f64) -> Scale {
        let from = from.max(1e-3);
        let (mut from, mut to) = (from, to.max(from));
        if to < 2.0 * from {
            (from, to) = (from / 1.5, to * 1.5);
        }
        Scale::Log { from: from / 1.08, to: to * 1.08 }
    }

    /// Position of `value`, clamped to the axis.
    pub(crate) fn place(&self, value: f64) -> f64 {
        let place = match *self {
            Scale::Linear { from, to } => (value - from) / (to - from),
            Scale::Log { from, to } => (value.max(from) / from).ln() / (to / from).ln(),
            Scale::Tail { nines } => (1.0 / (1.0 - value).max(1e-12)).log10() / nines,
        };
        place.clamp(0.0, 1.0)
    }

    /// Its ticks, rising; about `steps` steps if it is linear.
    pub(crate) fn ticks(&self, steps: f64) -> Vec<Tick> {
        match *self {
            Scale::Linear { from, to } => self.linear_ticks(from, to, steps),
            Scale::Log { from, to } => self.log_ticks(from, to),
            Scale::Tail { nines } => self.tail_ticks(nines),
        }
    }

    fn linear_ticks(&self, from: f64, to: f64, steps: f64) -> Vec<Tick> {
        let step = step(to - from, steps);
        // Twenty is parted by fives, ten and fifty by twos and tens.
        let leads_with_two = (step / 10f64.powf((step * 1.001).log10().floor())).round() == 2.0;
        let parts = if leads_with_two { 4 } else { 5 };
        let fine = step / parts as f64;
        let first = (from / fine - 1e-9).ceil() as i64;
        let last = (to / fine + 1e-9).floor() as i64;
        let rank = |number: i64| if number % parts == 0 { Rank::Main } else { Rank::Fine };
        (first..=last).map(|number| self.tick(number as f64 * fine, rank(number))).collect()
    }

    fn log_ticks(&self, from: f64, to: f64) -> Vec<Tick> {
        let halves =
            if (to / from).log10() <= DECADES_WITH_HALVES { Rank::Other } else { Rank::Fine };
        let mut ticks = Vec::new();
        for exponent in from.log10().floor() as i32..=to.log10().ceil() as i32 {
            for digit in 1..10 {
                let value = f64::from(digit) * 10f64.powi(exponent);
                let rank = match digit {
                    1 => Rank::Main,
                    2 | 5 => halves,
                    _ => Rank::Fine,
                };
                if (from..=to).contains(&value) {
                    ticks.push(self.tick(value, rank));
                }
            }
        }
        // An axis within one decade has no other ticks than halves.
        if ticks.iter().filter(|tick| tick.rank == Rank::Main).count() < 2 {
            let halves = ticks.iter_mut().filter(|tick| tick.rank == Rank::Other);
            halves.for_each(|tick| tick.rank = Rank::Main);
        }
        ticks
    }

    fn tail_ticks(&self, nines: f64) -> Vec<Tick> {
        let mut ticks = vec![self.tick(0.0, Rank::Other), self.tick(0.5, Rank::Main)];
        for nine in 1..=nines.floor() as i32 {
            let rest = 10f64.powi(-nine);
            ticks.push(self.tick(1.0 - rest, Rank::Main));
            if f64::from(nine) + 0.3 < nines {
                ticks.push(self.tick(1.0 - rest / 2.0, Rank::Fine));
            }
        }
        ticks
    }

    fn tick(&self, value: f64, rank: Rank) -> Tick {
        Tick { value, place: self.place(value), rank }
    }
}

/// A step of 1, 2 or 5 times a power of ten; about `steps` of them make `span`.
fn step(span: f64, steps: f64) -> f64 {
    let rough = span / steps;
    let power = 10f64.powf(rough.log10().floor());
    let factor = match rough / power {
        r if r < 1.5 => 1.0,
        r if r < 3.5 => 2.0,
        r if r < 7.5 => 5.0,
        _ => 10.0,
    };
    factor * power
}
