//! Tests of the whole program: each module runs the `mirrorball` command as a user would.
//!
//! All modules are one test binary, so that it is linked once. `common` starts programs and skips
//! tests whose requirements are missing. `tests/tidy` is a package of its own: it reads the source
//! tree and needs nothing built.

#![allow(clippy::unwrap_used, reason = "what fails here fails a test")]

mod advise;
mod advise_probe;
mod advise_states;
mod bad_inputs;
mod bench;
mod check;
mod closed_output;
mod common;
mod compare;
mod detect;
mod explain;
mod fio;
mod fuse;
mod import;
mod labels;
mod league;
mod nbd;
mod nbd_bad_clients;
mod nbd_members;
mod nbd_tls;
mod owners;
mod policies;
mod probe;
#[cfg(feature = "programs")]
mod programs;
mod recipes;
mod report;
mod report_browser;
mod report_text;
#[cfg(feature = "sweeps")]
mod sweep;
mod systemd;
mod traces;
mod tune;
mod watch;
mod web;
