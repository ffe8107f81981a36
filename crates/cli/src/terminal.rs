//! The terminal of `watch`: raw mode, the alternate screen, frames and keys.
//!
//! Few terminals that are in use lack the control sequences used here (ECMA-48, and the alternate
//! screen of xterm), so no terminal library is needed.
//!
//! Non-goals: mouse, colours beyond bold, underlined, dim and yellow, Windows.

use console::{measure_text_width, truncate_str};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, read};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use std::io::{self, Stdin, Write, stdin, stdout};
use std::time::Duration;

/// Switches to the alternate screen and hides the cursor.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
/// Shows the cursor and switches back.
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";
/// ScreenSize to assume where the terminal reports none, as a serial line does.
const DEFAULT_SIZE: ScreenSize = ScreenSize { columns: 80, lines: 24 };

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ScreenSize {
    pub(crate) columns: usize,
    pub(crate) lines: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TextEmphasis {
    Plain,
    Bold,
    Dim,
    Underlined,
    Yellow,
}

impl TextEmphasis {
    /// The parameter of the control sequence "select graphic rendition".
    fn code(self) -> u8 {
        match self {
            TextEmphasis::Plain => 0,
            TextEmphasis::Bold => 1,
            TextEmphasis::Dim => 2,
            TextEmphasis::Underlined => 4,
            TextEmphasis::Yellow => 33,
        }
    }
}

/// A line of a frame. It has no control characters and is no wider than the terminal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ScreenLine {
    pub(crate) emphasis: TextEmphasis,
    pub(crate) text: String,
}

/// The terminal in raw mode. Dropped, it is restored.
pub(crate) struct Terminal {
    input: Stdin,
    saved: Termios,
}

impl Terminal {
    /// Opens the terminal at stdin and stdout. Fails if stdin is not a terminal, or stdout cannot
    /// be written.
    pub(crate) fn take() -> io::Result<Terminal> {
        let input = stdin();
        let saved = tcgetattr(&input)?;
        let mut raw = saved.clone();
        raw.make_raw();
        tcsetattr(&input, OptionalActions::Now, &raw)?;
        let terminal = Terminal { input, saved };
        write(ENTER)?;
        Ok(terminal)
    }

    pub(crate) fn size(&self) -> ScreenSize {
        match tcgetwinsize(&self.input) {
            Ok(size) if size.ws_col > 0 && size.ws_row > 0 => {
                ScreenSize { columns: size.ws_col.into(), lines: size.ws_row.into() }
            }
            _ => DEFAULT_SIZE,
        }
    }

    /// Shows a frame from the top left corner and clears the rest.
    pub(crate) fn draw(&self, frame: &[ScreenLine]) -> io::Result<()> {
        write(&paint(frame))
    }

    /// Waits up to `timeout` for input, and returns the bytes of the key or keys, if any. Fails if
    /// stdin cannot be read or is at its end.
    pub(crate) fn read_keys(&self, timeout: Duration) -> io::Result<Vec<u8>> {
        let timeout = Timespec::try_from(timeout).map_err(io::Error::other)?;
        let mut fds = [PollFd::new(&self.input, PollFlags::IN)];
        match poll(&mut fds, Some(&timeout)) {
            Ok(0) | Err(Errno::INTR) => return Ok(Vec::new()),
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        let mut bytes = [0; 64];
        match read(&self.input, &mut bytes) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => Ok(bytes[..count].to_vec()),
            Err(Errno::INTR | Errno::AGAIN) => Ok(Vec::new()),
            Err(error) => Err(error.into()),
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // Nothing can be done about a terminal that is gone.
        let _ = write(LEAVE);
        let _ = tcsetattr(&self.input, OptionalActions::Now, &self.saved);
    }
}

/// Returns true for q, Q, Ctrl-C and the Escape key. Other keys whose codes begin with Escape, such
/// as the arrows, arrive as several bytes at once.
pub(crate) fn quits(keys: &[u8]) -> bool {
    const CTRL_C: u8 = 3;
    const ESCAPE: u8 = 0x1b;
    keys == [ESCAPE]
        || (!keys.starts_with(&[ESCAPE])
            && keys.iter().any(|key| matches!(*key, b'q' | b'Q' | CTRL_C)))
}

/// The bytes that show a frame. The last line has no line feed, so that nothing scrolls.
fn paint(frame: &[ScreenLine]) -> String {
    let mut bytes = String::from("\x1b[H");
    for (index, ScreenLine { emphasis, text }) in frame.iter().enumerate() {
        let begin = if index == 0 { "" } else { "\r\n" };
        bytes += &format!("{begin}\x1b[{}m{text}\x1b[0m\x1b[K", emphasis.code());
    }
    bytes + "\x1b[J"
}

fn write(text: &str) -> io::Result<()> {
    let mut output = stdout().lock();
    output.write_all(text.as_bytes())?;
    output.flush()
}

/// Texts in columns, one blank between them.
pub(crate) fn cells(
    texts: impl Iterator<Item = (impl AsRef<str>, usize)>,
    width: usize,
    emphasis: TextEmphasis,
) -> ScreenLine {
    let padded = texts.map(|(text, width)| {
        let text = truncate_str(text.as_ref(), width, "…");
        let blanks = width.saturating_sub(measure_text_width(&text));
        format!("{text}{}", " ".repeat(blanks))
    });
    line(padded.collect::<Vec<_>>().join(" ").trim_end(), width, emphasis)
}

/// A line, cut at the width of the terminal.
pub(crate) fn line(text: &str, width: usize, emphasis: TextEmphasis) -> ScreenLine {
    ScreenLine { emphasis, text: truncate_str(text, width, "…").into_owned() }
}

/// The text with control characters replaced: a name must not move the cursor.
pub(crate) fn printable(text: &str) -> String {
    text.replace(char::is_control, "\u{fffd}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_quit() {
        for keys in ["q", "Q", "\x1b", "\x03", "xq"] {
            assert!(quits(keys.as_bytes()), "{keys:?}");
        }
        for keys in ["", "c", "\r", "\x1b[A", "\x1bOQ", "\x1b[200~q"] {
            assert!(!quits(keys.as_bytes()), "{keys:?}");
        }
    }

    #[test]
    fn a_frame_is_drawn_from_the_corner_and_does_not_scroll() {
        let line = |emphasis, text: &str| ScreenLine { emphasis, text: text.to_owned() };
        let text = paint(&[line(TextEmphasis::Bold, "title"), line(TextEmphasis::Plain, "row")]);
        assert_eq!(text, "\x1b[H\x1b[1mtitle\x1b[0m\x1b[K\r\n\x1b[0mrow\x1b[0m\x1b[K\x1b[J");
        assert_eq!(paint(&[]), "\x1b[H\x1b[J");
    }
}
