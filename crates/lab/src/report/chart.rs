//! What every chart is made of: scales, ticks, paths, colours, numbers, and the frame around.
//!
//! Geometry is pure: values in, places and path texts out, so that it is tested without a browser.
//! A plot is a square of [`SIDE`] units that the page stretches to the space available; strokes do
//! not scale with it and every text is outside of it in HTML, so a chart is as legible on a
//! phone as on a wall.

pub(crate) mod frame;
pub(crate) mod number;
pub(crate) mod path;
pub(crate) mod scale;

/// Width and height of a plot in its own units: as fine as the dots of a screen, and no finer,
/// since every digit is there thousands of times.
pub(crate) const SIDE: f64 = 500.0;

#[cfg(test)]
mod tests;
