//! Tests of programs that are compiled from C: layout, faults, and examples against built-ins.

#![allow(clippy::unwrap_used, reason = "modules of a test, for which it is allowed")]

mod bpf;
mod common;
mod damage;
mod examples;
mod faults;
mod kernel;
mod layout;
mod misleading;
mod objects;
