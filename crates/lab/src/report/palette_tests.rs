//! Tests of the colours of policies, in usual vision and in colour blindness.
//!
//! Colour blindness is simulated by the matrices of Machado, Oliveira and Fernandes, "A
//! Physiologically-based Model for Simulation of Color Vision Deficiency" (2009), full severity, on
//! linear sRGB; colours are compared in CIELAB by their distance of 1976, contrast as WCAG 2 has
//! it.

use crate::report::page::STYLE;

type Matrix = [[f64; 3]; 3];

const USUAL: Matrix = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]];
const PROTANOPIA: Matrix = [
    [0.152286, 1.052583, -0.204868],
    [0.114503, 0.786281, 0.099216],
    [-0.003882, -0.048116, 1.051998],
];
const DEUTERANOPIA: Matrix = [
    [0.367322, 0.860646, -0.227968],
    [0.280085, 0.672501, 0.047413],
    [-0.011820, 0.042940, 0.968881],
];
const TRITANOPIA: Matrix = [
    [1.255528, -0.076749, -0.178779],
    [-0.078411, 0.930809, 0.147602],
    [0.004733, 0.691367, 0.303900],
];
const TO_XYZ: Matrix =
    [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]];
const WHITE: [f64; 3] = [0.95047, 1.0, 1.08883];

/// Every value that the style sheet gives a name: one for light, the same twice for dark.
fn values(name: &str) -> Vec<[f64; 3]> {
    let head = format!("{name}: #");
    STYLE
        .match_indices(&head)
        .map(|(at, head)| {
            let digits = &STYLE[at + head.len()..][..6];
            [0, 2, 4].map(|place| {
                let part = u8::from_str_radix(&digits[place..place + 2], 16).unwrap();
                let part = f64::from(part) / 255.0;
                if part <= 0.04045 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) }
            })
        })
        .collect()
}

fn times(matrix: &Matrix, colour: [f64; 3]) -> [f64; 3] {
    matrix.map(|row| row.iter().zip(colour).map(|(factor, part)| factor * part).sum())
}

fn lab(linear: [f64; 3]) -> [f64; 3] {
    let xyz = times(&TO_XYZ, linear.map(|part| part.clamp(0.0, 1.0)));
    let root = |place: usize| {
        let part: f64 = xyz[place] / WHITE[place];
        if part > 0.008856 { part.cbrt() } else { 7.787 * part + 16.0 / 116.0 }
    };
    let (x, y, z) = (root(0), root(1), root(2));
    [116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)]
}

fn contrast(one: [f64; 3], other: [f64; 3]) -> f64 {
    let light = |colour| times(&TO_XYZ, colour)[1] + 0.05;
    let (one, other) = (light(one), light(other));
    one.max(other) / one.min(other)
}

#[test]
fn colours_of_policies_differ_in_every_kind_of_vision() {
    for theme in 0..3 {
        let colours: Vec<[f64; 3]> =
            (0..8).map(|number| values(&format!("--c{number}"))[theme]).collect();
        for (name, eyes) in [
            ("usual", &USUAL),
            ("protanopia", &PROTANOPIA),
            ("deuteranopia", &DEUTERANOPIA),
            ("tritanopia", &TRITANOPIA),
        ] {
            let seen: Vec<[f64; 3]> =
                colours.iter().map(|&colour| lab(times(eyes, colour))).collect();
            for (place, one) in seen.iter().enumerate() {
                for (other_place, other) in seen.iter().enumerate().skip(place + 1) {
                    let squares = one.iter().zip(other).map(|(a, b)| (a - b).powi(2));
                    let distance = squares.sum::<f64>().sqrt();
                    assert!(distance >= 20.0, "{name}, c{place} and c{other_place}: {distance:.0}");
                }
            }
        }
    }
}

#[test]
fn lines_and_text_stand_out_from_the_page() {
    let back = values("--back");
    for (name, least) in [("--ink", 7.0), ("--soft", 4.5), ("--accent", 4.5), ("--oracle", 3.0)] {
        for (colour, back) in values(name).into_iter().zip(&back) {
            assert!(contrast(colour, *back) >= least, "{name}");
        }
    }
    for number in 0..8 {
        for (colour, back) in values(&format!("--c{number}")).into_iter().zip(&back) {
            assert!(contrast(colour, *back) >= 2.95, "--c{number}");
        }
    }
}
