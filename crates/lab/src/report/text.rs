//! Running text in lines of a given width, for formats that do not wrap by themselves.

/// `text` on lines of at most `width` characters, broken between words; a longer word is broken
/// where it must.
pub fn wrapped(text: &str, width: usize) -> String {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let last = lines.last_mut().expect("starts with a line");
        if last.is_empty() {
            last.push_str(word);
        } else if length(last) + 1 + length(word) <= width {
            *last += &format!(" {word}");
        } else {
            lines.push(word.to_owned());
        }
    }
    let broken: Vec<String> = lines.iter().flat_map(|line| broken(line, width)).collect();
    broken.join("\n")
}

/// A command on lines of at most `width` characters, as a shell takes it: broken between words,
/// each line but the last ending in a backslash. A longer word is left whole.
pub(super) fn wrapped_command(command: &str, width: usize) -> String {
    let mut lines = vec![String::new()];
    for word in shell_words(command) {
        let last = lines.last_mut().expect("starts with a line");
        if last.is_empty() {
            last.push_str(word);
        } else if length(last) + 1 + length(word) + " \\".len() <= width {
            *last += &format!(" {word}");
        } else {
            lines.push(format!("  {word}"));
        }
    }
    lines.join(" \\\n")
}

/// The words of a command with their single quotes.
fn shell_words(command: &str) -> Vec<&str> {
    let mut is_quoted = false;
    let words = command.split(move |character| {
        is_quoted ^= character == '\'';
        character == ' ' && !is_quoted
    });
    words.filter(|word| !word.is_empty()).collect()
}

fn length(text: &str) -> usize {
    text.chars().count()
}

fn broken(line: &str, width: usize) -> Vec<String> {
    let characters: Vec<char> = line.chars().collect();
    if characters.is_empty() {
        return vec![String::new()];
    }
    characters.chunks(width.max(1)).map(|part| part.iter().collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_broken_only_where_they_must() {
        assert_eq!(wrapped("one two three", 7), "one two\nthree");
        assert_eq!(wrapped("a incomprehensible b", 6), "a\nincomp\nrehens\nible\nb");
        assert_eq!(wrapped("", 5), "");
    }

    #[test]
    fn a_wrapped_command_is_the_same_to_a_shell() {
        let command = "mirrorball compare 'my array.toml' job.fio --policy 'btrfs/*' --seed 1";
        let expected = "mirrorball compare \\\n  'my array.toml' \\\n  job.fio --policy \\\n  \
                        'btrfs/*' --seed 1";
        assert_eq!(wrapped_command(command, 22), expected);
    }
}
