//! Geometry on small data: ticks, places, paths and numbers.

use super::number::{bare, duration, nines, percent, plain, short, short_duration};
use super::path;
use super::scale::{Rank, SMALL, Scale, WIDE};

/// Ticks as `value@place`, the fine ones in brackets.
fn ticks(scale: Scale, steps: f64) -> String {
    let write = |tick: &super::scale::Tick| {
        let text = format!("{}@{:.3}", bare(tick.value), tick.place);
        match tick.rank {
            Rank::Main => text,
            Rank::Other => format!("({text})"),
            Rank::Fine => format!("[{text}]"),
        }
    };
    scale.ticks(steps).iter().map(write).collect::<Vec<String>>().join(" ")
}

#[test]
fn ticks_of_every_kind_of_axis() {
    let axes = [
        ("time, 60 s", Scale::Linear { from: 0.0, to: 60.0 }, WIDE),
        ("rate up to 561", Scale::up_to_a_tick(561.0, WIDE), WIDE),
        ("queue up to 31", Scale::up_to_a_tick(31.0, SMALL), SMALL),
        ("nothing at all", Scale::up_to_a_tick(0.0, SMALL), SMALL),
        ("latency, four decades", Scale::around(90.0, 1_600_000.0), WIDE),
        ("latency, one decade", Scale::around(1_000.0, 6_000.0), WIDE),
        ("latency, a single value", Scale::around(250.0, 250.0), WIDE),
        ("tail, three nines and a half", Scale::Tail { nines: 3.5 }, WIDE),
    ];
    let lines: Vec<String> = axes
        .iter()
        .map(|(name, scale, steps)| format!("{name}: {}", ticks(*scale, *steps)))
        .collect();
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn places_stay_on_the_axis_and_rise() {
    let axes = [
        Scale::up_to(10.0),
        Scale::around(1.0, 1000.0),
        Scale::Tail { nines: 4.0 },
        Scale::Linear { from: -5.0, to: 5.0 },
    ];
    for axis in axes {
        let places: Vec<f64> = (-20..2000).map(|n| axis.place(f64::from(n) / 7.0)).collect();
        assert!(places.is_sorted(), "{axis:?}");
        assert!(places.iter().all(|place| (0.0..=1.0).contains(place)), "{axis:?}");
    }
    assert!((Scale::Tail { nines: 4.0 }.place(0.99) - 0.5).abs() < 1e-9);
    assert!((Scale::Log { from: 1.0, to: 100.0 }.place(10.0) - 0.5).abs() < 1e-9);
}

#[test]
fn paths_are_short_and_end_where_they_should() {
    let line = [Some((0.0, 0.0)), Some((0.5, 0.0)), Some((0.5, 1.0)), Some((1.0, 0.25)), None];
    assert_eq!(path::line(line), "M0 500h250v-500l250 375");
    assert_eq!(path::line([Some((0.0, 0.5)), None, Some((1.0, 0.5))]), "M0 250M500 250");
    assert_eq!(path::through_columns([Some(0.5)].into_iter()), "M0 250h500");
    assert_eq!(path::through_columns([Some(0.5); 2].into_iter()), "M125 250h250");
    assert_eq!(path::line([]), "");
    let band = [Some((0.0, 0.1, 0.2)), Some((1.0, 0.1, 0.3)), None];
    assert_eq!(path::band(&band), "M0 400l500-50v100h-500z");
    assert_eq!(path::boxes([(0.0, 0.5, 0.0, 1.0)]), "M0 0h250v500h-250z");
    assert_eq!(path::rules([0.25]), "M0 375h500");
}

#[test]
fn columns_join_and_break() {
    let spans = [Some((0.0, 0.5)), Some((0.0, 0.25)), None, Some((0.5, 1.0))];
    assert_eq!(path::columns(&spans), "M0 250h125v125h125v125h-125-125zM375 0h125v250h-125z");
    assert_eq!(path::columns(&[None, None]), "");
}

#[test]
fn numbers_have_three_digits_and_a_unit_that_fits() {
    assert_eq!(
        [0.0, 0.123, 3.4, 87.46, 811.7, 12_900.0].map(plain).join(" "),
        "0 0.12 3.40 87.5 812 12900"
    );
    assert_eq!([0.0, 0.5, 250.0, 1_500.0, 2e6].map(short).join(" "), "0 0.5 250 1.5k 2M");
    assert_eq!(
        [0.0, 0.2, 7.0, 812.4, 999.96, 12_345.0, 1_600_000.0].map(duration).join(", "),
        "0 s, 200 ns, 7 µs, 812 µs, 1.00 ms, 12.3 ms, 1.60 s"
    );
    assert_eq!(
        [0.0, 500.0, 20_000.0, 6e7].map(short_duration).join(", "),
        "0, 500 µs, 20 ms, 60 s"
    );
    assert_eq!([0.5, 0.9, 0.999, 0.99999].map(nines).join(", "), "50 %, 90 %, 99.9 %, 99.999 %");
    assert_eq!([0.0, 4.04, 9.96, 93.5].map(percent).join(" "), "0 4.0 10 94");
    assert_eq!([0.0, 0.1234, 1.5, 33.333, 1234.5].map(bare).join(" "), "0 0.123 1.5 33.3 1234");
}
