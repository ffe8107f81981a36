//! Where a byte lies between the outer and the inner edge of a hard disk.
//!
//! Inner tracks hold less, so a distance in bytes is not a distance in tracks. The rate is taken to
//! fall on a line from the first track to the last, as [`mirrorball_disk::hdd`] has it; then the
//! bytes up to a track are a quadratic function of the track.

/// Maps fractions of the capacity to fractions of the tracks and back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct TrackMap {
    /// Rate at the outer edge in bytes per second.
    pub(super) outer: f64,
    pub(super) inner: f64,
}

impl TrackMap {
    /// A disk whose tracks all hold the same.
    pub(super) const EVEN: TrackMap = TrackMap { outer: 1.0, inner: 1.0 };

    /// The fraction of the tracks that lie before the fraction `bytes` of the capacity.
    pub(super) fn track(&self, bytes: f64) -> f64 {
        let fall = self.inner - self.outer;
        let area = bytes * (self.outer + self.inner) / 2.0;
        if fall.abs() < 1e-9 * self.outer {
            return bytes;
        }
        // outer·x + fall·x²/2 = area, in the form without cancellation.
        let root = (self.outer * self.outer + 2.0 * fall * area).max(0.0).sqrt();
        (2.0 * area / (self.outer + root)).clamp(0.0, 1.0)
    }

    /// The fraction of the capacity that lies before the fraction `track` of the tracks.
    pub(super) fn bytes(&self, track: f64) -> f64 {
        let fall = self.inner - self.outer;
        let area = self.outer * track + fall * track * track / 2.0;
        (area / ((self.outer + self.inner) / 2.0)).clamp(0.0, 1.0)
    }

    pub(super) fn rate(&self, track: f64) -> f64 {
        self.outer + (self.inner - self.outer) * track
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inner_tracks_hold_less_and_the_two_directions_agree() {
        let map = TrackMap { outer: 200e6, inner: 100e6 };
        assert_eq!(TrackMap::EVEN.track(0.3), 0.3);
        // Half of the tracks hold 175/300 of the bytes.
        assert!((map.bytes(0.5) - 175.0 / 300.0).abs() < 1e-12);
        for step in 0..=10 {
            let track = f64::from(step) / 10.0;
            assert!((map.track(map.bytes(track)) - track).abs() < 1e-9, "{track}");
        }
    }
}
