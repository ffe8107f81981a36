//! Random histories of simulated arrays, with the truth known: what `watch` finds in them, and what
//! `tune --auto` makes of them.
//!
//!     cargo run --release -p mirrorball-health --example histories -- [HISTORIES] [FIRST SEED]
//!     cargo run --release -p mirrorball-health --example histories -- healthy [DAYS] [FIRST SEED]
//!     cargo run --release -p mirrorball-health --example histories -- control [RUNS] [FIRST SEED]
//!     cargo run --release -p mirrorball-health --example histories -- days [DAYS] [SEED]

mod control;
mod days;
mod faults;
mod history;
mod rules;
mod watching;
mod world;

fn main() {
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    let mode = words.first().filter(|it| it.parse::<u64>().is_err()).cloned();
    words.drain(..usize::from(mode.is_some()));
    let number = |place: usize, default: u64| {
        words.get(place).map_or(default, |it| it.parse().expect("a number"))
    };
    match mode.as_deref() {
        None => watching::report(number(0, 200), number(1, 1)),
        Some("healthy") => watching::report_controls(number(0, 20), number(1, 1)),
        Some("control") => control::report(number(0, 100), number(1, 1)),
        Some("days") => days::report(number(0, 1000), number(1, 1)),
        Some(other) => panic!("unknown mode {other}: healthy, control or days"),
    }
}
