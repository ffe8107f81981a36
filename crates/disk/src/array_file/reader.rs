//! Reading TOML tables with errors that name the place.
//!
//! This reader replaces serde, whose errors have no position for a mistake across fields (a devid
//! used twice, an unknown link). Every value keeps its span, which gives an error its position.

use mirrorball_core::diagnostic::{Diagnostic, Escaped, TextPosition};
use std::fmt::Display;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The file being read.
#[derive(Clone, Copy)]
pub(super) struct TomlSource<'a> {
    pub(super) file: &'a str,
    pub(super) text: &'a str,
}

#[derive(Clone, Copy)]
pub(super) struct TomlSection<'a> {
    pub(super) source: TomlSource<'a>,
    table: &'a DeTable<'a>,
    start: usize,
    /// Name in messages, such as `[[member]]`; empty for the file itself.
    name: &'static str,
}

/// A value with its byte offset in the file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Located<T> {
    pub(super) value: T,
    pub(super) start: usize,
}

impl<'a> TomlSource<'a> {
    pub(super) fn error(&self, start: usize, message: impl Display) -> Diagnostic {
        let position = TextPosition::of_byte(self.text, start);
        Diagnostic::new(message.to_string()).in_file(self.file).at(position)
    }

    pub(super) fn syntax_error(&self, error: &toml::de::Error) -> Diagnostic {
        let start = error.span().map_or(0, |span: Range<usize>| span.start);
        let message = error.message().trim_end().replace('\n', ", ");
        let message = message.trim_end_matches(", expected literal string");
        let found = self.error(start, format!("not valid TOML: {message}"));
        let line = self.text[..start].rsplit('\n').next().unwrap_or_default();
        let key = line.split('=').next().unwrap_or_default().trim();
        let rest = self.text[start..].lines().next().unwrap_or_default();
        let is_word = |text: &str| !text.is_empty() && text.chars().all(char::is_alphanumeric);
        if message.starts_with("duplicate key") {
            let key = error.span().map_or("", |span: Range<usize>| &self.text[span]);
            let repeated = self.error(start, format!("`{}` is given twice", key.trim()));
            return repeated.with_help("keep one of them");
        }
        match message.starts_with("string values must be quoted") {
            true if is_word(rest.trim()) => {
                found.with_help(format!("write {key} = \"{}\"", rest.trim()))
            }
            true => found.with_help("write the value between quotes, as in profile = \"raid1\""),
            false => found,
        }
    }

    pub(super) fn root(self, table: &'a Spanned<DeTable<'a>>) -> TomlSection<'a> {
        TomlSection { source: self, table: table.get_ref(), start: table.span().start, name: "" }
    }
}

impl<'a> TomlSection<'a> {
    /// An error about the table as a whole.
    pub(super) fn error(&self, message: impl Display) -> Diagnostic {
        self.source.error(self.start, message)
    }

    /// An error about a key, at its value if it is there.
    pub(super) fn error_at(&self, key: &str, message: impl Display) -> Diagnostic {
        self.source.error(self.start_of(key), message)
    }

    /// The line the table begins at.
    pub(super) fn line(&self) -> usize {
        TextPosition::of_byte(self.source.text, self.start).line
    }

    /// Byte offset of the value of `key`, or of the table if it has no such key.
    pub(super) fn start_of(&self, key: &str) -> usize {
        self.table.get(key).map_or(self.start, |value| value.span().start)
    }

    /// Returns true if the table has the key.
    pub(super) fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    /// Returns true if the value of the key is a table.
    pub(super) fn has_table(&self, key: &str) -> bool {
        self.table.get(key).is_some_and(|value| value.get_ref().is_table())
    }

    /// Refuses the first key, in the order of the file, that is not among `known`.
    pub(super) fn allow_only(&self, known: &[&str]) -> Result<(), Diagnostic> {
        let unknown = self.table.keys().filter(|key| !known.contains(&key.get_ref().as_ref()));
        let Some(key) = unknown.min_by_key(|key| key.span().start) else { return Ok(()) };
        let place = if self.name.is_empty() { String::new() } else { format!(" in {}", self.name) };
        let message = format!("unknown key `{}`{place}", key.get_ref());
        let error = self.source.error(key.span().start, message);
        Err(error.with_suggestion(key.get_ref(), known, "the known ones are"))
    }

    /// Refuses a second of several keys that exclude each other, and returns the one that is there.
    pub(super) fn one_of(&self, keys: &[&'static str]) -> Result<Option<&'static str>, Diagnostic> {
        let mut present: Vec<&'static str> =
            keys.iter().copied().filter(|key| self.has(key)).collect();
        present.sort_by_key(|key| self.start_of(key));
        match present[..] {
            [first, second, ..] => {
                let error = self.error_at(second, format!("`{second}` contradicts `{first}`"));
                Err(error.with_help("remove one of them"))
            }
            _ => Ok(present.first().copied()),
        }
    }

    pub(super) fn text(&self, key: &str) -> Result<Option<Located<&'a str>>, Diagnostic> {
        self.read(key, "a string", |value| value.as_str())
    }

    /// A string of printable characters. Output prints a name as it is, so a control character in
    /// it would reach the terminal.
    pub(super) fn printable_text(&self, key: &str) -> Result<Option<Located<&'a str>>, Diagnostic> {
        let text = self.text(key)?;
        let Some(at) = &text else { return Ok(None) };
        match at.value.chars().find(|&character| Escaped::is_invisible(character)) {
            None => Ok(text),
            Some(character) => {
                let shown = character.escape_default();
                let message = format!("`{key}` contains the control character `{shown}`");
                let error = self.source.error(at.start, message);
                Err(error.with_help("use printable characters"))
            }
        }
    }

    /// A whole number that fits `T`.
    pub(super) fn integer<T: TryFrom<u64>>(&self, key: &str) -> Result<Option<T>, Diagnostic> {
        // TOML integers end at 2^63, so the upper limit of a u64 would not help.
        let expected = match size_of::<T>() {
            8.. => "a whole number, at least 0".to_owned(),
            bytes => format!("a whole number from 0 to {}", (1u64 << (8 * bytes)) - 1),
        };
        self.integer_expecting(key, &expected)
    }

    /// The same, with an error that says that `expected` is needed.
    pub(super) fn integer_expecting<T: TryFrom<u64>>(
        &self,
        key: &str,
        expected: &str,
    ) -> Result<Option<T>, Diagnostic> {
        let in_range = |value: &DeValue<'_>| {
            let integer = value.as_integer()?;
            let value = u64::from_str_radix(integer.as_str(), integer.radix()).ok()?;
            T::try_from(value).ok()
        };
        Ok(self.read(key, expected, in_range)?.map(|at| at.value))
    }

    pub(super) fn number(&self, key: &str) -> Result<Option<f64>, Diagnostic> {
        let number = |value: &DeValue<'_>| match value {
            DeValue::Integer(integer) => integer.to_string().parse().ok(),
            DeValue::Float(float) => float.as_str().parse().ok(),
            _ => None,
        };
        Ok(self.read(key, "a number", number)?.map(|at| at.value))
    }

    /// A list of printable strings; empty if the key is not there.
    pub(super) fn texts(&self, key: &str) -> Result<Vec<String>, Diagnostic> {
        let strings = |value: &DeValue<'_>| {
            let items = value.as_array()?.iter();
            let printable = |text: &&str| !text.chars().any(Escaped::is_invisible);
            items.map(|item| item.get_ref().as_str().filter(printable).map(str::to_owned)).collect()
        };
        Ok(self
            .read(key, "a list of printable strings", strings)?
            .map_or(Vec::new(), |list| list.value))
    }

    pub(super) fn flag(&self, key: &str) -> Result<Option<bool>, Diagnostic> {
        Ok(self.read(key, "true or false", DeValue::as_bool)?.map(|at| at.value))
    }

    /// A quantity with its unit, read by `parse`. `parse` also gets bare numbers.
    pub(super) fn quantity<T, E: Display>(
        &self,
        key: &str,
        parse: fn(&str) -> Result<T, E>,
    ) -> Result<Option<T>, Diagnostic> {
        let written = |value: &DeValue<'_>| match value {
            DeValue::String(text) => Some(text.to_string()),
            DeValue::Integer(integer) => Some(integer.to_string()),
            DeValue::Float(float) => Some(float.to_string()),
            _ => None,
        };
        let Some(text) = self.read(key, "a quantity between quotes", written)? else {
            return Ok(None);
        };
        let quantity = parse(&text.value);
        quantity.map(Some).map_err(|e| self.source.error(text.start, format!("`{key}`: {e}")))
    }

    /// A table within this one.
    pub(super) fn table(
        &self,
        key: &str,
        name: &'static str,
    ) -> Result<Option<TomlSection<'a>>, Diagnostic> {
        let table = self.read(key, "a table", |value| value.as_table())?;
        Ok(table.map(|Located { value: table, start }| TomlSection {
            source: self.source,
            table,
            start,
            name,
        }))
    }

    /// A list of tables; empty if the key is not there.
    pub(super) fn tables(
        &self,
        key: &str,
        name: &'static str,
    ) -> Result<Vec<TomlSection<'a>>, Diagnostic> {
        let help = || match name.starts_with("[[") {
            true => {
                format!("write {name} on a line of its own, and below it the keys of one {key}")
            }
            false => format!("write for example {key} = [{{ slow = 4.0, from = \"10s\" }}]"),
        };
        let list = self.read(key, "a list of tables", |value| value.as_array());
        let list = list.map_err(|error| error.with_help(help()))?;
        let Some(list) = list else { return Ok(Vec::new()) };
        let section = |item: &'a Spanned<DeValue<'a>>| {
            let start = item.span().start;
            let table = item.get_ref().as_table().ok_or_else(|| {
                let found = item.get_ref().type_str();
                let message = format!("`{key}` must be a list of tables, not {found}s");
                self.source.error(start, message).with_help(help())
            })?;
            Ok(TomlSection { source: self.source, table, start, name })
        };
        list.value.iter().map(section).collect()
    }

    /// A table as plain values, for a reader of its own; empty if the key is not there.
    pub(super) fn plain_table(&self, key: &str) -> Result<toml::Table, Diagnostic> {
        self.read(key, "a table", |value| value.as_table())?;
        let Some(value) = self.table.get(key) else { return Ok(toml::Table::new()) };
        let deserializer = toml::de::ValueDeserializer::from(value.clone());
        serde::Deserialize::deserialize(deserializer).map_err(|e| self.error_at(key, e.message()))
    }

    fn read<T>(
        &self,
        key: &str,
        expected: &str,
        convert: impl FnOnce(&'a DeValue<'a>) -> Option<T>,
    ) -> Result<Option<Located<T>>, Diagnostic> {
        let Some(spanned) = self.table.get(key) else { return Ok(None) };
        let start = spanned.span().start;
        match convert(spanned.get_ref()) {
            Some(value) => Ok(Some(Located { value, start })),
            None => {
                let written = self.source.text[spanned.span()].lines().next().unwrap_or("");
                let message = format!("`{key}` must be {expected}, not `{written}`");
                Err(self.source.error(start, message))
            }
        }
    }
}
