//! No policy string makes the parser panic, and what it accepts builds or says why not.

#![no_main]

use libfuzzer_sys::fuzz_target;
use mirrorball_core::policies::Spec;

fuzz_target!(|text: &str| {
    if let Ok(spec) = Spec::parse(text) {
        let _ = spec.build(&[1, 2, 3]);
    }
});
