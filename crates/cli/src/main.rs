//! The mirrorball command.

fn main() {}
