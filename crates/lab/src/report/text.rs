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

/// A note below a table: [`wrapped`], its further lines indented more than the rows of a table, so
/// that they are not read as rows.
pub fn note(text: &str, width: usize) -> String {
    match length(text) <= width {
        true => text.to_owned(),
        false => wrapped(text, width.saturating_sub(4)).replace('\n', "\n    "),
    }
}

/// The text in lines of at most `width`, where what is between backticks and every word stays
/// whole, because users copy it. A longer command between backticks is broken as
/// [`command_lines`] breaks it, with a backslash behind each line.
pub fn whole_words(text: &str, width: usize) -> Vec<String> {
    shell_lines(words(text, width), width)
}

/// Lines with a quotation that is too long, broken so that a shell joins them.
fn shell_lines(lines: Vec<String>, width: usize) -> Vec<String> {
    let broken = |line: String| match line.contains('`') && length(&line) > width {
        true => {
            let parts = command_lines(&line, width.saturating_sub(2)).join(" \\\n");
            parts.lines().map(str::to_owned).collect()
        }
        false => vec![line],
    };
    lines.into_iter().flat_map(broken).collect()
}

fn words(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut is_quoted = false;
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("there is a line");
        let is_first = line.is_empty();
        // The length of a quoted text counts as a whole, from its first word.
        let length = match (is_quoted, word.find('`')) {
            (false, Some(_)) => quoted_length(text, word),
            _ => word.chars().count(),
        };
        if is_first || is_quoted || line.chars().count() + 1 + length <= width {
            *line += if is_first { "" } else { " " };
            *line += word;
        } else {
            lines.push(word.to_owned());
        }
        is_quoted ^= !word.matches('`').count().is_multiple_of(2);
    }
    lines
}

/// The text in lines of at most `width`, as [`whole_words`] breaks it, where a short part between
/// commas or semicolons stays together, too: `3 reads (12 KiB),` is not torn apart.
pub fn whole_phrases(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for phrase in phrases(text) {
        let line = lines.last_mut().expect("there is a line");
        let (begun, length) = (line.chars().count(), phrase.chars().count());
        let is_short = length <= width.min(PHRASE_MAX.max(width / 2));
        if begun > 0 && begun + 1 + length > width && is_short {
            lines.push(phrase);
            continue;
        }
        *line += if begun > 0 { " " } else { "" };
        *line += &phrase;
        let last = lines.pop().expect("there is a line");
        lines.extend(words(&last, width));
    }
    shell_lines(lines, width)
}

/// A command in lines of at most `width` that a shell joins again, where it can be broken: not
/// within quotes.
pub fn command_lines(command: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut quotes = 0;
    for word in command.split(' ') {
        let line = lines.last_mut().expect("there is a line");
        let is_long = line.chars().count() + 1 + word.chars().count() > width;
        if line.is_empty() || !is_long || quotes % 2 == 1 {
            *line += if line.is_empty() { "" } else { " " };
            *line += word;
        } else {
            lines.push(word.to_owned());
        }
        quotes += word.matches(['\'', '"']).count();
    }
    lines
}

/// A part between commas that is longer, and longer than half a line, may be broken.
const PHRASE_MAX: usize = 30;

/// The parts that end in a comma or a semicolon outside backticks and brackets, and the last one.
fn phrases(text: &str) -> Vec<String> {
    let mut phrases: Vec<String> = vec![String::new()];
    let (mut is_quoted, mut depth) = (false, 0_usize);
    for word in text.split_whitespace() {
        let phrase = phrases.last_mut().expect("there is a phrase");
        *phrase += if phrase.is_empty() { "" } else { " " };
        *phrase += word;
        is_quoted ^= !word.matches('`').count().is_multiple_of(2);
        depth = (depth + word.matches('(').count()).saturating_sub(word.matches(')').count());
        if !is_quoted && depth == 0 && word.ends_with([',', ';']) {
            phrases.push(String::new());
        }
    }
    phrases
}

/// Number of characters from a word that opens a quotation to the end of the word that ends it.
fn quoted_length(text: &str, word: &str) -> usize {
    if word.matches('`').count().is_multiple_of(2) {
        return word.chars().count();
    }
    let start = word.as_ptr() as usize - text.as_ptr() as usize;
    let rest = &text[start..];
    let end = rest.match_indices('`').nth(1).map_or(rest.len(), |(at, _)| at);
    let word_end = rest[end..].find(char::is_whitespace).map_or(rest.len(), |at| end + at);
    rest[..word_end].chars().count()
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
        let command = ["put", "`echo 'a b' > \\", "/sys/x`;", "there"];
        assert_eq!(whole_words("put `echo 'a b' > /sys/x`; there", 16), command);
        assert_eq!(note("one two three", 11), "one two\n    three", "no row of a table");
    }

    #[test]
    fn short_parts_between_commas_stay_together() {
        let text = "devid 1: in sync, 0 in flight, 12 reads (48 KiB, all), 0 errors";
        let expected = ["devid 1: in sync,", "0 in flight,", "12 reads (48 KiB, all),", "0 errors"];
        assert_eq!(whole_phrases(text, 24), expected);
        let prose = "a part, and one which is so long that it is broken as any text is, and more";
        let expected =
            ["a part, and one which is so", "long that it is broken as any", "text is, and more"];
        assert_eq!(whole_phrases(prose, 30), expected);
        assert_eq!(whole_phrases("run `a, b, c` now", 10), ["run", "`a, b, c`", "now"]);
        assert_eq!(whole_phrases("", 10), [""]);
    }

    #[test]
    fn what_users_copy_stays_on_a_line() {
        let text =
            "put `options zfs zfs_vdev_mirror_rotating_inc=100` into /etc/modprobe.d/zfs.conf now";
        let lines = whole_words(text, 20);
        let expected = [
            "put",
            "`options zfs \\",
            "zfs_vdev_mirror_rotating_inc=100`",
            "into",
            "/etc/modprobe.d/zfs.conf",
            "now",
        ];
        assert_eq!(lines, expected);
        assert_eq!(whole_words("run `a b`, then", 9), ["run", "`a b`,", "then"]);
        assert_eq!(whole_words("one `two` three four", 13), ["one `two`", "three four"]);
        assert_eq!(whole_words("", 13), [""]);
    }
}
