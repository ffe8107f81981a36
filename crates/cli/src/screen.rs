//! What goes to the terminal: plain or coloured text on stdout, and when.

use crate::ending::Failure;
use mirrorball_lab::report::Style;
use std::io::{ErrorKind, IsTerminal, Write, stdout};

/// Colours only on a terminal that has them, and never against `NO_COLOR` (no-color.org).
pub(crate) fn style() -> Style {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|terminal| terminal == "dumb");
    if stdout().is_terminal() && !refused && !dumb { Style::Coloured } else { Style::Plain }
}

/// Writes to stdout. A reader that has seen enough (`| head`) is no failure.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Failure::Fault(error.into())),
        Ok(()) | Err(_) => Ok(()),
    }
}
