//! Probes of models whose parameters the probe does not know, in virtual time.
//!
//! `hidden` has the models and the bounds, and writes the table of the chapter.

mod hidden;
mod machine;
mod seeks;
