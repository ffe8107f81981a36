//! The answer in the browser: `detect -` and `advise` for a page, as one WebAssembly module.
//!
//! A page writes a request into the module's memory and calls [`exports::call`]; the reply lies in
//! memory, too. A request is a line of JSON, behind which lines of saved cells may follow; a reply
//! is JSON, or lines of saved cells.
//!
//! Four plain exports and strings over linear memory, not `wasm-bindgen`: the page calls one
//! function, so bindings would wrap nothing, and `wasm-bindgen-cli` in the version of the library
//! would be one more program that a build needs. The script of the page has thirty lines for it.
//!
//! The module runs one thing at a time and knows no clock. A page that wants to stop a run ends the
//! worker that it runs in; one that wants two CPUs starts two workers. Nothing is decided here: all
//! rules are in `lab` and `host`, and the native program gives the same bytes.

mod catalogue;
pub mod exports;
mod pasted;
mod picture;
mod run;
mod session;

pub use session::Session;
