//! Text from objects in messages: an object may have any name, of any length.

use mirrorball_core::diagnostic::Escaped;

/// Most characters of a name in a message.
const NAME_CHARACTERS: usize = 64;
/// Most characters of what the engine says of an object, which may contain names.
const MESSAGE_CHARACTERS: usize = 300;

/// A name on one line, without characters that a terminal would not show as they are.
pub(crate) fn shown_name(name: &str) -> String {
    cut(name, NAME_CHARACTERS)
}

/// Message of the engine about an object, on one line.
pub(crate) fn shown_message(message: &str) -> String {
    let words: Vec<&str> = message.split_whitespace().collect();
    cut(&words.join(" "), MESSAGE_CHARACTERS)
}

fn cut(text: &str, most: usize) -> String {
    let end = text.char_indices().nth(most).map(|(end, _)| end);
    let kept = Escaped(end.map_or(text, |end| &text[..end]));
    match end {
        Some(_) => format!("{kept}…"),
        None => kept.to_string(),
    }
}
