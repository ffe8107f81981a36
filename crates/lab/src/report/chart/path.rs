//! Path texts of SVG, short ones: whole units, each point relative to the one before.
//!
//! Whole numbers add up without error, so a relative path ends where an absolute one would; it is
//! half as long, and paths are most of a report.

use super::SIDE;
use std::fmt::Write;

/// A point as fractions of the plot, the second one upwards.
pub(crate) type Point = (f64, f64);

/// A path under construction.
#[derive(Default)]
struct Pen {
    text: String,
    at: (i64, i64),
    command: char,
}

/// A line through `places`, broken where there is none.
pub(crate) fn line(places: impl IntoIterator<Item = Option<Point>>) -> String {
    let mut pen = Pen::default();
    let mut draws = false;
    for place in places {
        if let Some(place) = place {
            if draws { pen.line_to(place) } else { pen.move_to(place) }
        }
        draws = place.is_some();
    }
    pen.text
}

/// A line through the middles of equal columns with these heights; across a single one.
pub(crate) fn through_columns(heights: impl ExactSizeIterator<Item = Option<f64>>) -> String {
    let (count, heights) = (heights.len(), heights.enumerate());
    let place = |at: f64, height: Option<f64>| Some((at / count as f64, height?));
    match count {
        1 => line(heights.flat_map(|(_, height)| [place(0.0, height), place(1.0, height)])),
        _ => line(heights.map(|(index, height)| place(index as f64 + 0.5, height))),
    }
}

/// The stretch between two lines over the same points, each as (place, lower, upper).
pub(crate) fn band(points: &[Option<(f64, f64, f64)>]) -> String {
    let mut pen = Pen::default();
    for stretch in points.split(Option::is_none).filter(|stretch| stretch.len() > 1) {
        let known = || stretch.iter().flatten();
        let upper = known().map(|&(at, _, upper)| (at, upper));
        let lower = known().rev().map(|&(at, lower, _)| (at, lower));
        for (index, place) in upper.chain(lower).enumerate() {
            if index == 0 { pen.move_to(place) } else { pen.line_to(place) }
        }
        pen.close();
    }
    pen.text
}

/// Equal columns from the left edge to the right, each filled from `lower` to `upper`; neighbours
/// join to one shape.
pub(crate) fn columns(spans: &[Option<(f64, f64)>]) -> String {
    let mut pen = Pen::default();
    let edge = |index: usize| index as f64 / spans.len() as f64;
    let mut first = 0;
    for stretch in spans.chunk_by(|left, right| left.is_some() == right.is_some()) {
        let range = first..first + stretch.len();
        first = range.end;
        let known: Vec<(usize, (f64, f64))> =
            range.zip(stretch).filter_map(|(index, span)| Some((index, (*span)?))).collect();
        let Some(&(start, (_, upper))) = known.first() else { continue };
        pen.move_to((edge(start), upper));
        for &(index, (_, upper)) in &known {
            pen.line_to((edge(index), upper));
            pen.line_to((edge(index + 1), upper));
        }
        for &(index, (lower, _)) in known.iter().rev() {
            pen.line_to((edge(index + 1), lower));
            pen.line_to((edge(index), lower));
        }
        pen.close();
    }
    pen.text
}

/// Rectangles, each as (left, right, lower, upper).
pub(crate) fn boxes(boxes: impl IntoIterator<Item = (f64, f64, f64, f64)>) -> String {
    let mut pen = Pen::default();
    for (left, right, lower, upper) in boxes {
        pen.move_to((left, upper));
        pen.line_to((right, upper));
        pen.line_to((right, lower));
        pen.line_to((left, lower));
        pen.close();
    }
    pen.text
}

/// Lines across the whole plot at these places of the vertical axis.
pub(crate) fn rules(places: impl IntoIterator<Item = f64>) -> String {
    let mut pen = Pen::default();
    for place in places {
        pen.move_to((0.0, place));
        pen.line_to((1.0, place));
    }
    pen.text
}

impl Pen {
    fn move_to(&mut self, place: Point) {
        let (x, y) = units(place);
        let _ = write!(self.text, "M{x} {y}");
        self.at = (x, y);
        self.command = 'M';
    }

    fn line_to(&mut self, place: Point) {
        let (x, y) = units(place);
        let (right, down) = (x - self.at.0, y - self.at.1);
        self.at = (x, y);
        match (right, down) {
            (0, 0) => {}
            (right, 0) => self.draw('h', &[right]),
            (0, down) => self.draw('v', &[down]),
            both => self.draw('l', &[both.0, both.1]),
        }
    }

    fn close(&mut self) {
        self.text.push('z');
        self.command = 'z';
    }

    /// A command with its numbers; its letter is left out where the one before was the same, and a
    /// minus parts numbers by itself.
    fn draw(&mut self, command: char, numbers: &[i64]) {
        let mut is_first = command != self.command;
        if is_first {
            self.text.push(command);
            self.command = command;
        }
        for number in numbers {
            let parted = is_first || *number < 0;
            let _ = write!(self.text, "{}{number}", if parted { "" } else { " " });
            is_first = false;
        }
    }
}

/// In units of the plot, downwards as SVG counts.
fn units((x, y): Point) -> (i64, i64) {
    ((x * SIDE).round() as i64, ((1.0 - y) * SIDE).round() as i64)
}
