//! Options of a section, applied to its draft, with what the user should know of them.

use super::draft::Draft;
use super::error::job_error;
use super::options::{self, OptionRow, Support};
use super::setters::Setter;
use super::{JobReader, value};
use mirrorball_core::diagnostic::Diagnostic;

pub(super) struct OptionLine {
    pub(super) file: String,
    pub(super) line: usize,
    pub(super) name: String,
    pub(super) value: Option<String>,
}

impl JobReader<'_> {
    pub(super) fn apply_all(
        &mut self,
        draft: &mut Draft,
        options: Vec<OptionLine>,
    ) -> Result<(), Diagnostic> {
        // `kb_base` holds for the whole section, also for the options above it, as in fio.
        let (first, rest): (Vec<_>, Vec<_>) =
            options.into_iter().partition(|option| option.name == "kb_base");
        for option in first.into_iter().chain(rest) {
            if let Err(fault) = self.apply(draft, &option) {
                self.keep(fault.in_file(&option.file).at_line(option.line))?;
            }
        }
        Ok(())
    }

    fn apply(&mut self, draft: &mut Draft, option: &OptionLine) -> Result<(), Diagnostic> {
        let row: &OptionRow = options::find(&option.name)?;
        let expanded = option.value.as_deref().map(|text| self.expand(&option.name, text));
        match row.support {
            Support::Takes(setter) => {
                let value = expanded.transpose()?;
                self.take(draft, setter, option, value.as_deref())?;
                draft.places.insert(row.name(), (option.file.clone(), option.line));
                if let Some(reason) = row.note {
                    self.note(&option.file, option.line, &option.name, reason);
                }
                Ok(())
            }
            Support::Ignored { unless, reason } => {
                let is_harmless =
                    |value: Result<String, _>| value.is_ok_and(|it| unless.contains(&&*it));
                if !expanded.is_some_and(is_harmless) {
                    self.note(&option.file, option.line, &option.name, reason);
                }
                Ok(())
            }
            Support::Refused { unless, reason } => {
                if expanded.transpose()?.is_some_and(|value| unless.contains(&&*value)) {
                    return Ok(());
                }
                let (reason, instead) = match reason.split_once('\n') {
                    Some((reason, instead)) => (reason, Some(instead)),
                    None => (reason, None),
                };
                let help = match (instead, unless.first()) {
                    (Some(instead), _) => instead.to_owned(),
                    (None, Some(harmless)) => {
                        format!("remove it, or write {}={harmless}", option.name)
                    }
                    (None, None) => "remove it".to_owned(),
                };
                Err(job_error(format!("`{}` is not supported: {reason}", option.name), help))
            }
        }
    }

    /// Applies a supported option. A value that fio reads in part only is read like that, with a
    /// note.
    fn take(
        &mut self,
        draft: &mut Draft,
        setter: Setter,
        option: &OptionLine,
        value: Option<&str>,
    ) -> Result<(), Diagnostic> {
        let OptionLine { file, line, name, .. } = option;
        if let Some(text) = value.filter(|text| text.starts_with(char::is_whitespace)) {
            if !matches!(&name[..], "filename" | "directory" | "name" | "description") {
                let help = "remove it: fio would read it as part of the value";
                return Err(job_error(format!("a space after `{name}=`"), help));
            }
            let reason = "the space after `=` is left out; to fio it is a part of the name";
            self.note(file, *line, name, reason);
            return setter.apply(draft, name, Some(text.trim_start()));
        }
        let of_directions = value.filter(|text| {
            options::OF_DIRECTIONS.contains(&&**name)
                && text.starts_with(|c: char| c.is_ascii_digit())
                && text.contains([':', '-'])
        });
        if let Some(text) = of_directions {
            let read = value::with_commas(text);
            setter.apply(draft, name, Some(&read))?;
            let instead = if name.starts_with('b') { "; bsrange=4k-64k sets a range" } else { "" };
            let reason = format!("fio reads `{read}`, a value for each direction{instead}");
            self.note(file, *line, name, &reason);
            return Ok(());
        }
        let applied = setter.apply(draft, name, value);
        let is_size = matches!(setter, Setter::Number(..)) || options::ONE_SIZE.contains(&&**name);
        let beginning = value.and_then(|text| value::beginning(name, text));
        match beginning.filter(|_| applied.is_err() && is_size) {
            Some(beginning) => {
                setter.apply(draft, name, Some(beginning))?;
                let reason = format!("fio reads `{beginning}`, and ignores what follows");
                self.note(file, *line, name, &reason);
                Ok(())
            }
            None => applied,
        }
    }

    /// Replaces `${NAME}`. fio replaces a variable that is not set by the empty string, which is
    /// not a useful value of most options. Here it is an error, except in `filename`, where it is
    /// a name like others.
    fn expand(&self, option: &str, text: &str) -> Result<String, Diagnostic> {
        match value::expand(text, self.environment.variable) {
            Err(_) if option == "filename" || option == "directory" => Ok(text.to_owned()),
            expanded => expanded,
        }
    }
}
